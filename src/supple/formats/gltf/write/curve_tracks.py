"""Tracks of free curves in glTF: values of one property of a node, and samplers of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.formats.curve_keys import ValueTrack
from supple.formats.gltf.read.animation import Channel
from supple.formats.gltf.write.animations import Times, spline_tangents, with_jumps
from supple.maths.key_reduction import Keys

#: Properties of a node that a joint's free parameters move.
PATHS = ("rotation", "translation", "scale")


@dataclass(frozen=True, eq=False)
class NodeTrack:
    """Values of one property of a node."""

    node: int
    track: ValueTrack
    columns: Ints  # of the free parameters in a pose


@dataclass(frozen=True, eq=False)
class WeightsTrack(NodeTrack):
    """Free weights of a mesh; `free` marks them among all of its weights, which `old` animates."""

    old: Channel
    free: Bools

    @property
    def varies(self) -> bool:
        """Whether the file animates other weights of the mesh."""
        others = self.old.values[..., ~self.free]
        return bool(others.size) and bool(np.ptp(others, axis=0).any() or others.ndim == 3)


def sampler_of(times: Times, entry: NodeTrack, keys: Keys) -> dict[str, Any]:
    """Return keys as an animation sampler; a sampler for weights has all weights of the mesh."""
    key_times, values, in_tangents, out_tangents = (
        _all_weights(entry, keys)
        if isinstance(entry, WeightsTrack)
        else (keys.times, keys.values, keys.tangents, keys.tangents)
    )
    interpolation = "LINEAR" if in_tangents is None else "CUBICSPLINE"
    if in_tangents is not None and out_tangents is not None:
        values = np.stack([in_tangents, values, out_tangents], axis=1)
    width = 1 if isinstance(entry, WeightsTrack) else values.shape[-1]
    return times.sampler(key_times, values.reshape(-1, width), interpolation)


def _all_weights(
    entry: WeightsTrack, keys: Keys
) -> tuple[Floats, Floats, Floats | None, Floats | None]:
    """Return times, values (k, b) of all weights, and tangents in and out; None if linear."""
    old, free, times = entry.old, entry.free, keys.times
    spline = keys.tangents is not None
    if entry.varies:
        times = np.union1d(times, old.times)
        spline = spline or (old.interpolation == "CUBICSPLINE" and len(old.times) > 1)
        if old.interpolation == "STEP":
            times = with_jumps(times, old.times)
    values = old.at(times).astype(np.float64)
    values[:, free] = keys.at(times)
    if not spline:
        return times, values, None, None
    in_tangents, out_tangents = np.zeros_like(values), np.zeros_like(values)
    if entry.varies and old.interpolation == "CUBICSPLINE":
        in_tangents, out_tangents = (part.copy() for part in spline_tangents(old, times))
    in_tangents[:, free] = keys.slope(times, "left")
    out_tangents[:, free] = keys.slope(times, "right")
    return times, values, in_tangents, out_tangents
