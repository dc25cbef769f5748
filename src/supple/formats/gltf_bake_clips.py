"""Weights of new morph targets in the animations of a glTF file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.formats.gltf_accessors import Accessors
from supple.formats.gltf_animation import NODE_POINTER, Channel
from supple.formats.gltf_bake_tracks import Track, joined
from supple.formats.gltf_document import POINTER
from supple.formats.gltf_writing import GltfFile

__all__: list[str] = []


class Times:
    """Accessors of key times, one for all tracks that have the same."""

    def __init__(self, file: GltfFile) -> None:
        self._file = file
        self._known: dict[bytes, int] = {}

    def accessor(self, times: NDArray[np.floating]) -> int:
        """The accessor of these times."""
        keys = np.ascontiguousarray(times, dtype=np.float32)
        if keys.tobytes() not in self._known:
            self._known[keys.tobytes()] = self._file.accessor(keys[:, None], bounds=True)
        return self._known[keys.tobytes()]


def weights_sampler(file: GltfFile, times: Times, track: Track) -> dict[str, Any]:
    """A track as a sampler of an animation."""
    values = np.ascontiguousarray(track.values, dtype=np.float32)
    return {
        "input": times.accessor(track.times),
        "output": file.accessor(values.reshape(-1, 1)),
        "interpolation": track.interpolation,
    }


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
    sampler = weights_sampler(file, times, whole)
    channel = next((c for c in animation["channels"] if weights_node(c) == node), None)
    if channel is not None:
        set_sampler(animation, channel, sampler)
        return
    animation["samplers"].append(sampler)
    number = len(animation["samplers"]) - 1
    target = {"node": node, "path": "weights"}
    animation["channels"].append({"sampler": number, "target": target})


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
        node = weights_node(channel)
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
        set_sampler(animation, channel, sampler)


def set_sampler(
    animation: dict[str, Any], channel: dict[str, Any], sampler: dict[str, Any]
) -> None:
    """Give a channel another sampler, in the old one's place unless other channels use that."""
    place = channel["sampler"]
    if sum(other["sampler"] == place for other in animation["channels"]) == 1:
        animation["samplers"][place] = sampler
    else:
        animation["samplers"].append(sampler)
        channel["sampler"] = len(animation["samplers"]) - 1


def weights_node(channel: dict[str, Any]) -> int | None:
    """The node whose weights a channel moves."""
    target = channel["target"]
    if target["path"] == "weights":
        node: int | None = target.get("node")
        return node
    pointer = target.get("extensions", {}).get(POINTER)
    text = pointer.get("pointer") if isinstance(pointer, dict) else None
    match = NODE_POINTER.fullmatch(text) if isinstance(text, str) else None
    if target["path"] == "pointer" and match is not None and match[2] == "weights":
        return int(match[1])
    return None
