"""Weights of new morph targets in the animations of a glTF file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.gltf_file import GltfFile
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.read.baked_flesh import channel_target

#: Seconds in which new weights come and go where only a part of the clip was baked.
FADE = 0.25


@dataclass
class Track:
    """Keys of weights: (k,) times and (k, b) values, or (k, 3, b) for splines."""

    times: Floats
    values: Floats
    interpolation: str = "LINEAR"


def faded(track: Track, start: float, end: float, gap: float) -> Track:
    """Fade the track of a part of a clip from `start` to `end` to zero around the part.

    Beyond the part the file plays the rig alone. Weights fall to zero within `FADE` seconds, or
    sooner where the clip ends sooner; keys up to `gap` seconds from the clip's ends need none.
    """
    times, values = track.times, track.values
    nothing = np.zeros((1, values.shape[1]))
    if times[0] - start > gap:
        times = np.concatenate([[_stored(max(start, times[0] - FADE))], times])
        values = np.vstack([nothing, values])
    if end - times[-1] > gap:
        times = np.concatenate([times, [_stored(min(end, times[-1] + FADE))]])
        values = np.vstack([values, nothing])
    return Track(times, values)


def _stored(time: float) -> float:
    """Round a time to float32, as the file has it: keys that become one there are one here."""
    return float(np.float32(time))


def joined(old: Channel, new: Track) -> Track:
    """Return one track that plays both: the old weights first, then the new."""
    if old.interpolation == "CUBICSPLINE" and len(old.times) > 1:
        return _joined_splines(old, new)
    times = np.union1d(old.times, new.times)
    if old.interpolation == "STEP":
        # A jump between two keys that no time lies between.
        ahead = np.nextafter(old.times[1:].astype(np.float32), np.float32(-np.inf))
        times = np.union1d(times, ahead.astype(np.float64))
    return Track(times, np.hstack([old.at(times), _lines(new, times)]))


def _lines(track: Track, times: Floats) -> Floats:
    lines = np.empty((len(times), track.values.shape[1]))  # which may be none
    for number, column in enumerate(track.values.T):
        lines[:, number] = np.interp(times, track.times, column)
    return lines


def _joined_splines(old: Channel, new: Track) -> Track:
    """Join keys of both; lines between keys are splines whose tangents are their slopes."""
    times = np.union1d(old.times, new.times)
    gaps = np.diff(times)[:, None]
    lines = _lines(new, times)
    slopes = np.diff(lines, axis=0) / gaps
    nothing = np.zeros((1, lines.shape[1]))
    ours = np.stack([np.vstack([nothing, slopes]), lines, np.vstack([slopes, nothing])], axis=1)
    coming, leaving = spline_tangents(old, times)
    theirs = np.stack([coming, old.at(times), leaving], axis=1)
    return Track(times, np.concatenate([theirs, ours], axis=2), "CUBICSPLINE")


def spline_tangents(spline: Channel, times: Floats) -> tuple[Floats, Floats]:
    """Return derivatives of a spline as it comes to each time, and as it leaves it."""
    keys, values = spline.times, spline.values
    inside = (times > keys[0]) & (times < keys[-1])
    found = []
    for side in ("left", "right"):
        before = np.clip(np.searchsorted(keys, times, side=side) - 1, 0, len(keys) - 2)
        gap = (keys[before + 1] - keys[before])[:, None]
        u = (times - keys[before])[:, None] / gap
        start, end = values[before, 1], values[before + 1, 1]
        leaving, coming = values[before, 2], values[before + 1, 0]
        slope = (
            (6 * u**2 - 6 * u) * (start - end) / gap
            + (3 * u**2 - 4 * u + 1) * leaving
            + (3 * u**2 - 2 * u) * coming
        )
        # Held before the first key and after the last.
        reached = inside | (times == (keys[-1] if side == "left" else keys[0]))
        found.append(np.where(reached[:, None], slope, 0.0))
    return found[0], found[1]


class Times:
    """Accessors of key times, one for all tracks that have the same."""

    def __init__(self, file: GltfFile) -> None:
        self._file = file
        self._known: dict[bytes, int] = {}

    def accessor(self, times: NDArray[np.floating]) -> int:
        """Return the accessor of the times, a new one if no track had them."""
        keys = np.ascontiguousarray(times, dtype=np.float32)
        if keys.tobytes() not in self._known:
            self._known[keys.tobytes()] = self._file.accessor(keys[:, None], bounds=True)
        return self._known[keys.tobytes()]


def play_weights(
    file: GltfFile,
    times: Times,
    animation: dict[str, Any],
    node: int,
    track: Track,
    old: Channel | None,
    rest: list[float],
) -> None:
    """Let an animation move the new weights of a node.

    `old` is the channel that moves the node's weights already, if one does; `rest` has the weights
    of the targets that the node had before.
    """
    if old is None:
        held = np.broadcast_to(np.asarray(rest, np.float64), (len(track.times), len(rest)))
        whole = Track(track.times, np.hstack([held, track.values]))
    else:
        whole = joined(old, track)
    play_sampler(animation, node, "weights", _weights_sampler(file, times, whole))


def widen_weights(
    file: GltfFile,
    accessors: Accessors,
    animation: dict[str, Any],
    gained: dict[int, int],
    played: set[int],
) -> None:
    """Give weights channels of nodes that gained targets as many zeros, and nothing else.

    Channels of nodes in `played` have been replaced; all but the first for the same node, which
    no viewer plays, have not.
    """
    seen: set[int] = set()
    for channel in animation["channels"]:
        node = _weights_node(channel)
        if node is None or node not in gained:
            continue
        if node in played and node not in seen:
            seen.add(node)
            continue
        sampler = dict(animation["samplers"][channel["sampler"]])
        values = accessors.raw(sampler["output"])
        parts = 3 if sampler.get("interpolation") == "CUBICSPLINE" else 1
        rows = values.reshape(accessors.count(sampler["input"]) * parts, -1)
        wide = np.pad(rows, ((0, 0), (0, gained[node])))
        _, _, normalized = accessors.describe(sampler["output"])
        sampler["output"] = file.accessor(wide.reshape(-1, 1), normalized=normalized)
        _set_sampler(animation, channel, sampler)


def _weights_sampler(file: GltfFile, times: Times, track: Track) -> dict[str, Any]:
    """Return a track as a sampler of an animation."""
    values = np.ascontiguousarray(track.values, dtype=np.float32)
    return {
        "input": times.accessor(track.times),
        "output": file.accessor(values.reshape(-1, 1)),
        "interpolation": track.interpolation,
    }


def play_sampler(animation: dict[str, Any], node: int, path: str, sampler: dict[str, Any]) -> None:
    """Let a sampler move a property of a node, in place of what moves it in an animation."""
    channel = next((c for c in animation["channels"] if channel_target(c) == (node, path)), None)
    if channel is not None:
        _set_sampler(animation, channel, sampler)
        return
    animation["samplers"].append(sampler)
    number = len(animation["samplers"]) - 1
    animation["channels"].append({"sampler": number, "target": {"node": node, "path": path}})


def _set_sampler(
    animation: dict[str, Any], channel: dict[str, Any], sampler: dict[str, Any]
) -> None:
    """Give a channel another sampler, in the old one's place unless other channels use that."""
    place = channel["sampler"]
    if sum(other["sampler"] == place for other in animation["channels"]) == 1:
        animation["samplers"][place] = sampler
    else:
        animation["samplers"].append(sampler)
        channel["sampler"] = len(animation["samplers"]) - 1


def _weights_node(channel: dict[str, Any]) -> int | None:
    """Return the node whose weights a channel moves, None for other channels."""
    node, path = channel_target(channel)
    return node if path == "weights" else None
