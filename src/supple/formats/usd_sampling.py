"""Animations and transforms of a stage at the times it has keys for (in the reading process)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from supple.formats.usd_prims import as_array
from supple.formats.usd_pxr import Usd, UsdGeom

__all__ = ["Clock", "animation_times", "sample_animation", "sample_frames", "transform_times"]

CHANNELS = (("translations", 3), ("rotations", 4), ("scales", 3))
DEFAULT_RATE = 24.0
#: Seconds: keys nearer than this are one.
SAME_TIME = 1e-5
#: Seconds: keys at least this dense are samples of a smooth motion.
SAMPLED_GAP = 0.11
LINE_RATE = 30.0
MOST_KEYS = 100_000


class Clock:
    """Time codes of the stage: which count, and how many make a second."""

    def __init__(self, stage: Any, notes: list[str]) -> None:
        self.rate = float(stage.GetTimeCodesPerSecond())
        if not (math.isfinite(self.rate) and self.rate > 0):
            notes.append(f"has {self.rate:g} time codes per second; {DEFAULT_RATE:g} are used")
            self.rate = DEFAULT_RATE
        self.range = None
        if stage.HasAuthoredTimeCodeRange():
            start, end = stage.GetStartTimeCode(), stage.GetEndTimeCode()
            if start < end:
                self.range = (start, end)
            elif start > end:
                notes.append(f"starts at time code {start:g}, after its end at {end:g}; ignored")

    def within(self, times: set[float]) -> np.ndarray:
        """Keys in the stage's range, with its ends where keys lie beyond them; finite, sorted."""
        keys = np.array(sorted(time for time in times if math.isfinite(time)))
        if len(keys) < 2:
            return keys[:1] if len(keys) else np.zeros(1)
        if self.range is not None:
            low, high = max(self.range[0], keys[0]), min(self.range[1], keys[-1])
            if low < high:
                keys = np.concatenate([[low], keys[(keys > low) & (keys < high)], [high]])
        return self._filled(keys[np.diff(keys, prepend=-np.inf) > SAME_TIME * self.rate])

    def _filled(self, keys: np.ndarray) -> np.ndarray:
        """With times between distant keys: USD goes from key to key in straight lines."""
        gaps = np.diff(keys)
        step = max(1.0, self.rate / LINE_RATE)
        wide = gaps > SAMPLED_GAP * self.rate
        if (gaps[wide] / step).sum() > MOST_KEYS:
            return keys
        parts = [keys]
        for start, gap in zip(keys[:-1][wide], gaps[wide], strict=True):
            n = math.ceil(gap / step)
            parts.append(start + gap * np.arange(1, n) / n)
        return np.unique(np.concatenate(parts))


def animation_times(prim: Any) -> set[float]:
    """Time codes at which any channel of a SkelAnimation has a value."""
    names = [*(name for name, _ in CHANNELS), "blendShapeWeights"]
    return {time for name in names for time in prim.GetAttribute(name).GetTimeSamples()}


def transform_times(prim: Any) -> set[float]:
    """Time codes at which the transform of the prim or of one above it has a value."""
    times: set[float] = set()
    while prim and not prim.IsPseudoRoot():
        if prim.IsA(UsdGeom.Xformable):
            own = UsdGeom.Xformable(prim).GetTimeSamples()
            times.update(own if len(own) > 1 else ())
        prim = prim.GetParent()
    return times


def sample_animation(prim: Any, times: np.ndarray, notes: list[str]) -> dict[str, Any]:
    """Joint transforms (t, a, …) and blend weights (t, b) of a SkelAnimation, or None for each."""
    joints = [str(joint) for joint in prim.GetAttribute("joints").Get() or []]
    shapes = [str(shape) for shape in prim.GetAttribute("blendShapes").Get() or []]
    data: dict[str, Any] = {"path": str(prim.GetPath()), "joints": joints, "shapes": shapes}
    for name, width in CHANNELS:
        data[name] = _channel(prim, name, times, len(joints), width, notes)
    data["weights"] = _channel(prim, "blendShapeWeights", times, len(shapes), None, notes)
    return data


def _channel(
    prim: Any, name: str, times: np.ndarray, count: int, width: int | None, notes: list[str]
) -> np.ndarray | None:
    attribute = prim.GetAttribute(name)
    if count == 0:
        return None
    if not attribute or not attribute.HasAuthoredValue():
        if width is not None:
            notes.append(f"animation {prim.GetPath()} has no {name}; those of rest are used")
        return None
    rows = [as_array(attribute.Get(float(time)), np.float64, width) for time in times]
    wrong = [i for i, row in enumerate(rows) if row is None or len(row) != count]
    if wrong:
        row = rows[wrong[0]]
        found = "none" if row is None else len(row)
        notes.append(
            f"animation {prim.GetPath()} has {found} {name} at time code {times[wrong[0]]:g}"
            f" for {count}; those of rest are used"
        )
        return None
    stacked = np.stack(rows)  # type: ignore[arg-type]
    if not np.isfinite(stacked).all():
        notes.append(f"animation {prim.GetPath()} has {name} that are not finite; left out")
        return None
    return stacked


def sample_frames(prims: list[Any], times: np.ndarray) -> np.ndarray:
    """World transforms of the prims, (p, t, 4, 4), in the stage's units; columns."""
    frames = np.empty((len(prims), len(times), 4, 4))
    for k, time in enumerate(times):
        cache = UsdGeom.XformCache(Usd.TimeCode(float(time)))
        for i, prim in enumerate(prims):
            frames[i, k] = np.array(cache.GetLocalToWorldTransform(prim)).T
    return frames
