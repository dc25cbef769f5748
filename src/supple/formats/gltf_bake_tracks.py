"""Tracks of morph weights: new ones beside those a clip has already."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.formats.gltf_animation import Channel

__all__: list[str] = []

Floats = NDArray[np.float64]

#: Seconds in which new weights come and go where only a part of the clip was baked.
FADE = 0.25


@dataclass
class Track:
    """Keys of weights: (k,) times and (k, b) values, or (k, 3, b) for splines."""

    times: Floats
    values: Floats
    interpolation: str = "LINEAR"


def faded(track: Track, start: float, end: float, gap: float) -> Track:
    """The track of a part of a clip from `start` to `end`: zero at a distance from the part.

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
    """The time as the file has it, in float32: keys that become one there are one here."""
    return float(np.float32(time))


def joined(old: Channel, new: Track) -> Track:
    """One track that plays both: the old weights first, then the new, nothing lost of either."""
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
    """Keys of both; lines between keys are splines whose tangents are their slopes."""
    times = np.union1d(old.times, new.times)
    gaps = np.diff(times)[:, None]
    lines = _lines(new, times)
    slopes = np.diff(lines, axis=0) / gaps
    nothing = np.zeros((1, lines.shape[1]))
    ours = np.stack([np.vstack([nothing, slopes]), lines, np.vstack([slopes, nothing])], axis=1)
    coming, leaving = _tangents(old, times)
    theirs = np.stack([coming, old.at(times), leaving], axis=1)
    return Track(times, np.concatenate([theirs, ours], axis=2), "CUBICSPLINE")


def _tangents(spline: Channel, times: Floats) -> tuple[Floats, Floats]:
    """Derivatives of a spline as it comes to each time and as it leaves it."""
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
