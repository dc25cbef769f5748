"""Animation channels: keys of one property of one node, and its value at any time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.formats.gltf.accessors import Accessors
from supple.formats.gltf.document import POINTER, Document
from supple.formats.gltf.read.nodes import NodeForest
from supple.rig.motion.tracks import Track

WIDTHS = {"translation": 3, "rotation": 4, "scale": 3}
NODE_POINTER = re.compile(r"/nodes/(\d{1,9})/(translation|rotation|scale|weights)")
# Keys that differ from rest by less, as part of it, hold a node there: float32.
HELD = 1e-6
FLOAT, NORMALISED = 5126, (5120, 5121, 5122, 5123)


@dataclass
class Channel:
    """Keys of a node's translation, rotation, scale or weights.

    `values` is (t, c), and (t, 3, c) for splines: tangent in, value, tangent out.
    """

    node: int
    path: str
    interpolation: str
    times: Floats
    values: Floats

    def at(self, times: Floats) -> Floats:
        """Return values at times, (k, c); held before the first key and after the last."""
        if self.path == "weights":
            items, values = np.arange(self.values.shape[-1]), self.values[..., None]
            return Track(self.path, items, self.interpolation, self.times, values).at(times)[..., 0]
        values = self.values[..., None, :]
        track = Track(self.path, np.zeros(1, np.int64), self.interpolation, self.times, values)
        return track.at(times)[:, 0]


def read_channels(
    document: Document, accessors: Accessors, index: int, n_targets: dict[int, int]
) -> list[Channel]:
    """Return an animation's channels that move nodes; `n_targets` counts nodes' morph targets."""
    animation, notes = document.part("animations")[index], document.notes
    what = document.label("animation", index)
    channels: dict[tuple[int, str], Channel] = {}
    keys: dict[tuple[int, ...], Any] = {}
    for number, described in enumerate(animation["channels"]):
        if "sampler" not in described or described["sampler"] >= len(animation["samplers"]):
            missing = "sampler" not in described
            code = "UNDEFINED_PROPERTY" if missing else "UNRESOLVED_REFERENCE"
            notes.fail(code, f"{what}, channel {number} has no sampler; save it again")
        target = _target(document, f"{what}, channel {number}", described["target"])
        if target is None:
            continue
        if target in channels:
            message = f"{what} moves the {target[1]} of node {target[0]} twice"
            notes.warn("ANIMATION_DUPLICATE_TARGETS", f"{message}; the first counts")
            continue
        if "matrix" in document.part("nodes")[target[0]] and target[1] != "weights":
            message = f"{what} moves node {target[0]}, which has a matrix"
            notes.warn("ANIMATION_CHANNEL_TARGET_NODE_MATRIX", f"{message}; its parts are moved")
        sampler = animation["samplers"][described["sampler"]]
        channel = _channel(document, accessors, what, sampler, target, n_targets, keys)
        if channel is not None:
            channels[target] = channel
    return list(channels.values())


def _target(document: Document, what: str, target: dict[str, Any]) -> tuple[int, str] | None:
    notes, path = document.notes, target["path"]
    extension = target.get("extensions", {}).get(POINTER)
    if path == "pointer" and isinstance(extension, dict):
        if "node" in target:
            code = "KHR_ANIMATION_POINTER_ANIMATION_CHANNEL_TARGET_NODE"
            notes.warn(code, f"{what} names a node beside a pointer; the pointer counts")
        pointer = extension.get("pointer")
        if not isinstance(pointer, str):
            notes.warn("UNDEFINED_PROPERTY", f"{what} is to follow a pointer and has none; ignored")
            return None
        match = NODE_POINTER.fullmatch(pointer)
        if match is None:
            return None  # moves a material, a light, a camera
        if int(match[1]) >= len(document.part("nodes")):
            notes.fail("UNRESOLVED_REFERENCE", f"{what} points to {pointer}, which is not there")
        return int(match[1]), match[2]
    if extension is not None:
        code = "KHR_ANIMATION_POINTER_ANIMATION_CHANNEL_TARGET_PATH"
        notes.warn(code, f"{what} has a pointer and another path; ignored")
        return None
    if path not in (*WIDTHS, "weights"):
        notes.warn("VALUE_NOT_IN_LIST", f"{what} moves an unknown property; ignored")
        return None
    return (target["node"], path) if "node" in target else None


def _channel(
    document: Document,
    accessors: Accessors,
    what: str,
    sampler: dict[str, Any],
    target: tuple[int, str],
    n_targets: dict[int, int],
    keys: dict[tuple[int, ...], Any],
) -> Channel | None:
    node, path = target
    notes = document.notes
    interpolation = sampler.get("interpolation", "LINEAR")
    width = WIDTHS.get(path, n_targets.get(node, 0))
    if width == 0:
        code = "ANIMATION_CHANNEL_TARGET_NODE_WEIGHTS_NO_MORPHS"
        notes.warn(
            code, f"{what} moves weights of node {node}, which has no morph targets; ignored"
        )
        return None
    _check_format(document, accessors, what, sampler, path)
    times, kept = _times(document, accessors, what, sampler["input"], keys)
    parts = 3 if interpolation == "CUBICSPLINE" else 1
    n_keys, found = accessors.count(sampler["input"]), accessors.count(sampler["output"])
    per_key = parts * (width if path == "weights" else 1)
    if found != n_keys * per_key:
        code = "ANIMATION_SAMPLER_OUTPUT_ACCESSOR_INVALID_COUNT"
        notes.fail(code, f"{what} has {found} values for {n_keys} keys of {per_key}")
    if parts == 3 and n_keys < 2:
        code = "ANIMATION_SAMPLER_INPUT_ACCESSOR_TOO_FEW_ELEMENTS"
        notes.warn(code, f"{what} has a spline of one key; held")
    values = accessors.floats(sampler["output"]).reshape(n_keys, parts, width)
    middle = values[:, 1] if parts == 3 else values[:, 0]
    if path == "rotation" and (np.abs(np.linalg.norm(middle, axis=1) - 1) > 5e-3).any():
        code = "ACCESSOR_ANIMATION_SAMPLER_OUTPUT_NON_NORMALIZED_QUATERNION"
        notes.warn(code, f"{what} has rotations that are not of unit length; made unit")
    return Channel(node, path, interpolation, times, (values if parts == 3 else middle)[kept])


def _check_format(
    document: Document, accessors: Accessors, what: str, sampler: dict[str, Any], path: str
) -> None:
    kind, component, _ = accessors.describe(sampler["input"])
    if (kind, component) != ("SCALAR", FLOAT):
        code = "ANIMATION_SAMPLER_INPUT_ACCESSOR_INVALID_FORMAT"
        document.notes.fail(
            code, f"{what}: its times are of type {kind}, component type {component}"
        )
    if not accessors.has_bounds(sampler["input"]):
        code = "ANIMATION_SAMPLER_INPUT_ACCESSOR_WITHOUT_BOUNDS"
        document.notes.warn(code, f"{what}: its times declare no bounds; not needed here")
    kind, component, _ = accessors.describe(sampler["output"])
    wanted = {"rotation": "VEC4", "weights": "SCALAR"}.get(path, "VEC3")
    if kind != wanted or component not in (FLOAT, *NORMALISED):
        code = "ANIMATION_SAMPLER_OUTPUT_ACCESSOR_INVALID_FORMAT"
        document.notes.fail(code, f"{what}: values of a {path} are of type {kind}; save it again")


def _times(
    document: Document,
    accessors: Accessors,
    what: str,
    index: int,
    keys: dict[tuple[int, ...], Any],
) -> tuple[Floats, NDArray[np.int64]]:
    """Return increasing key times, and which keys have them; read once for all channels."""
    if (index,) not in keys:
        times = accessors.floats(index)[:, 0]
        if times.min() < 0:
            code = "ACCESSOR_ANIMATION_INPUT_NEGATIVE"
            document.notes.warn(code, f"{what} begins at {times.min():.4g} s, before zero")
        highest = np.maximum.accumulate(times)
        kept = np.flatnonzero(np.concatenate([[True], times[1:] >= highest[:-1]]))
        has_data = "bufferView" in document.part("accessors")[index]
        code, when = "ACCESSOR_ANIMATION_INPUT_NON_INCREASING", times[kept]
        if len(kept) < len(times) and has_data:
            document.notes.warn(code, f"{what} has keys that do not follow in time; left out")
        if (np.diff(when) == 0).any():
            if has_data:
                document.notes.warn(code, f"{what} has keys at the same time; it jumps there")
            when, chosen = _jumping_times(when)
            kept = kept[chosen]
        keys[(index,)] = (when, kept)
    return keys[(index,)]


def _jumping_times(times: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return increasing times, with the first of two equal ones just before the second.

    Of more equal ones the first and the last are kept: nothing plays the others.
    """
    first = np.concatenate([[True], np.diff(times) > 0])
    last = np.concatenate([first[1:], [True]])
    chosen = np.flatnonzero(first | last)
    early = ~last[chosen]
    return np.where(early, np.nextafter(times[chosen], -np.inf), times[chosen]), chosen


def moving_nodes(forest: NodeForest, animations: Sequence[Sequence[Channel]]) -> set[int]:
    """Return nodes that any animation moves, turns or scales away from rest."""
    rests = {
        "translation": forest.translations,
        "rotation": forest.rotations,
        "scale": forest.scales,
    }
    moving = set()
    for channel in (each for animation in animations for each in animation):
        if channel.path not in rests or channel.node in moving:
            continue
        rest = rests[channel.path][channel.node]
        spline = channel.values.ndim == 3
        values = channel.values[:, 1] if spline else channel.values
        if channel.path == "rotation":  # of either sign
            values = np.where(values @ rest[:, None] < 0, -values, values)
        most = HELD * max(1.0, float(np.abs(rest).max()))
        # Tangents swing a node even between equal keys.
        swings = spline and np.abs(channel.values[:, [0, 2]]).max() > most
        if swings or np.abs(values - rest).max() > most:
            moving.add(channel.node)
    return moving
