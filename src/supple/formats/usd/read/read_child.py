"""The process that reads USD: a stage in, arrays out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from supple.formats.usd.child import answer_request
from supple.formats.usd.layers import Refused, Usd, UsdGeom, UsdSkel, open_stage, shown_record
from supple.formats.usd.prims import (
    all_prims,
    as_array,
    mesh_data,
    skeleton_data,
    timed_transforms,
)
from supple.formats.usd.read.preview_surfaces import Looks

CHANNELS = (("translations", 3), ("rotations", 4), ("scales", 3))
DEFAULT_RATE = 24.0
DEFAULT_UNIT = 0.01
#: Keys nearer than this, in seconds, are merged.
SAME_TIME = 1e-5
#: Keys at most this far apart, in seconds, are samples of a smooth motion.
SAMPLED_GAP = 0.11
LINE_RATE = 30.0
MOST_KEYS = 100_000
MOST_POINTS = 50_000_000
#: Most numbers of a clip's samples, checked before they are read.
MOST_NUMBERS = 200_000_000


def main(folder: str, memory: int) -> None:
    """Answer the request in the folder with the content of the file that it names."""
    answer_request(folder, memory, _read, "read", "read")


def _read(request: dict[str, Any], folder: Path, notes: list[str]) -> dict[str, Any]:
    record = shown_record(request["path"]) if request["without"] else None
    if record is not None and record["added"] in request["without"]:
        return {"record": record}
    stage = open_stage(Path(request["path"]), notes)
    prims = all_prims(stage, notes)
    skeletons = {str(p.GetPath()): skeleton_data(p) for p in prims if p.IsA(UsdSkel.Skeleton)}
    meshes = _meshes(prims, skeletons, notes)
    if not meshes:
        why = f" ({notes[0]})" if notes else ""
        raise Refused(f"has no mesh with faces{why}; export the character's meshes")
    used = {mesh["driver"] for mesh in meshes}
    used_skeletons = [skeleton for path, skeleton in skeletons.items() if path in used]
    looks = Looks(Path(request["path"]).parent.resolve(), notes)
    for mesh in meshes:
        mesh["look"] = looks.of(stage.GetPrimAtPath(mesh["path"]), mesh)
    clock = _Clock(stage, notes)
    frames = _Frames([stage.GetPrimAtPath(skeleton["path"]) for skeleton in used_skeletons])
    for mesh in meshes:
        _place(stage, mesh, frames)
    unit, unit_note = _unit(stage)
    return {
        "up": _up_axis(stage, notes),
        "unit": unit,
        "unit_note": unit_note,
        "rate": clock.rate,
        "meshes": meshes,
        "skeletons": used_skeletons,
        "frames": [str(prim.GetPath()) for prim in frames.prims],
        "above": np.array(frames.above, dtype=np.int64),
        "clips": _clips(stage, prims, used_skeletons, frames.prims, clock, notes),
        "held": stage.GetInterpolationType() == Usd.InterpolationTypeHeld,
        "rest_frames": _world_transforms(frames.prims),
        "materials": looks.materials,
        "pictures": looks.pictures,
    }


def _meshes(prims: list[Any], skeletons: dict[str, Any], notes: list[str]) -> list[dict[str, Any]]:
    meshes, not_meshes, hidden, n_points = [], [], [], 0
    for prim in prims:
        if not prim.IsA(UsdGeom.Gprim):
            continue
        image = UsdGeom.Imageable(prim)
        if not prim.IsA(UsdGeom.Mesh):
            not_meshes.append(f"{prim.GetPath()} ({prim.GetTypeName()})")
        elif (
            image.ComputePurpose() in ("guide", "proxy")
            or image.ComputeVisibility(Usd.TimeCode.EarliestTime()) == "invisible"
        ):
            hidden.append(str(prim.GetPath()))
        else:
            mesh = mesh_data(prim, skeletons, notes)
            meshes += [mesh] if mesh else []
            n_points += len(mesh["points"]) if mesh else 0
        if n_points > MOST_POINTS:
            raise Refused(f"holds more than {MOST_POINTS:,} points; simplify it")
    for what, paths in [("not a mesh", not_meshes), ("hidden", hidden)]:
        if paths:
            number = f"{len(paths)} prims are" if len(paths) > 1 else "1 prim is"
            notes.append(f"{number} {what} (first {paths[0]}); ignored")
    return meshes


class _Frames:
    """Prims whose world transforms are sampled: skeletons, and transforms that move them or meshes.

    `prims` has skeletons first, then transforms with time samples, each after the prims above it;
    `above` the index of the nearest such transform above each (for a skeleton at or above it), or
    -1.
    """

    def __init__(self, skeletons: list[Any]) -> None:
        self.prims = list(skeletons)
        self.above = [-1] * len(skeletons)
        self._indices: dict[str, int] = {}
        for number, prim in enumerate(skeletons):
            self.above[number] = self.nearest(prim)

    def nearest(self, prim: Any) -> int:
        """Return the index of the nearest transform at or above a prim, -1 for none."""
        last = -1
        for holder in timed_transforms(prim):
            path = str(holder.GetPath())
            if path not in self._indices:
                self._indices[path] = len(self.prims)
                self.prims.append(holder)
                self.above.append(last)
            last = self._indices[path]
        return last


def _place(stage: Any, mesh: dict[str, Any], frames: _Frames) -> None:
    """Set the frame that carries a mesh without a skin, and the mesh's transform relative to it."""
    if mesh["skin"] is not None:
        return
    prim = stage.GetPrimAtPath(mesh["path"])
    world = _world_transforms([prim])[0]
    carrier = frames.nearest(prim)
    mesh["frame"], mesh["offset"] = -1, world
    base = _world_transforms([frames.prims[carrier]])[0] if carrier >= 0 else np.zeros((4, 4))
    if abs(np.linalg.det(base)) > 1e-30:  # otherwise its first scale is zero, and it is constant
        mesh["frame"], mesh["offset"] = carrier, np.linalg.solve(base, world)
        holder = _holder(prim, frames.prims[carrier])
        place = np.linalg.solve(base, _world_transforms([holder])[0])
        mesh["holder"], mesh["place"] = str(holder.GetPath()), place


def _holder(prim: Any, carrier: Any) -> Any:
    """Return the mesh's parent if it is an Xform at or below `carrier`, otherwise the mesh."""
    parent = prim.GetParent()
    is_group = bool(parent) and parent.IsA(UsdGeom.Xform)
    below = is_group and parent.GetPath().HasPrefix(carrier.GetPath())
    return parent if below and prim != carrier else prim


def _world_transforms(prims: list[Any], time: Any = None) -> np.ndarray:
    """Return world transforms (p, 4, 4) for column vectors, in the stage's units.

    `time` is a time code, by default the earliest.
    """
    cache = UsdGeom.XformCache(Usd.TimeCode.EarliestTime() if time is None else Usd.TimeCode(time))
    matrices = [np.array(cache.GetLocalToWorldTransform(prim)).T for prim in prims]
    return np.array(matrices).reshape(-1, 4, 4)


def _clips(
    stage: Any,
    prims: list[Any],
    skeletons: list[Any],
    frames: list[Any],
    clock: _Clock,
    notes: list[str],
) -> list[dict[str, Any]]:
    """Sample the stage's motion and, for a single skeleton, animations not bound to it."""
    bound = [skeleton["animation"] for skeleton in skeletons]
    moving = {time for prim in frames for time in _transform_times(prim)}
    all_paths = [bound] if any(bound) or moving else []
    if len(skeletons) == 1:
        joints = set(skeletons[0]["joints"])
        for prim in prims:
            unbound = prim.IsA(UsdSkel.Animation) and str(prim.GetPath()) not in bound
            if unbound and joints & {str(j) for j in prim.GetAttribute("joints").Get() or []}:
                all_paths.append([str(prim.GetPath())])
    clips: list[dict[str, Any]] = []
    budget = MOST_NUMBERS
    for animation_paths in all_paths:
        animations = [stage.GetPrimAtPath(path) if path else None for path in animation_paths]
        keys = moving.union(*(_animation_times(prim) for prim in animations if prim))
        times = clock.within(keys)
        n_joints = sum(len(skeleton["joints"]) for skeleton in skeletons)
        budget -= len(times) * (10 * n_joints + 16 * len(frames) + 1)
        if budget < 0:
            raise Refused(f"holds more than {MOST_NUMBERS:,} numbers of animation; shorten it")
        sampled = [_sample_animation(prim, times, notes) if prim else None for prim in animations]
        paths = sorted({path for path in animation_paths if path})
        clips.append(
            {
                "name": paths[0].rpartition("/")[2] if len(paths) == 1 else "",
                "times": times,
                "animations": sampled,
                "frames": np.stack([_world_transforms(frames, float(t)) for t in times], axis=1),
            }
        )
    return clips


def _up_axis(stage: Any, notes: list[str]) -> str:
    axis = str(stage.GetMetadata("upAxis") or "Y")
    if axis not in ("Y", "Z"):
        notes.append(f'has "{axis[:20]}" as its upward axis; Y is used')
        return "Y"
    return axis


def _unit(stage: Any) -> tuple[float, str]:
    """Return metres per unit, and a note if the file does not define it, otherwise ""."""
    if not UsdGeom.StageHasAuthoredMetersPerUnit(stage):
        return DEFAULT_UNIT, "does not define its unit; centimetres are used, the default of USD"
    unit = float(UsdGeom.GetStageMetersPerUnit(stage))
    if not (np.isfinite(unit) and 1e-9 < unit < 1e9):
        return DEFAULT_UNIT, f"has {unit:g} metres per unit; centimetres are used"
    return unit, ""


# Animations and transforms of a stage, at the times of its keys.


class _Clock:
    """Time codes of the stage: their range, and their number per second."""

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
        """Return sorted times of keys within the stage's range, with samples in wide gaps.

        An end of the range replaces the keys beyond it.
        """
        keys = np.array(sorted(time for time in times if math.isfinite(time)))
        if len(keys) < 2:
            return keys[:1] if len(keys) else np.zeros(1)
        if self.range is not None:
            low, high = max(self.range[0], keys[0]), min(self.range[1], keys[-1])
            if low < high:
                keys = np.concatenate([[low], keys[(keys > low) & (keys < high)], [high]])
        return self._filled(keys[np.diff(keys, prepend=-np.inf) > SAME_TIME * self.rate])

    def _filled(self, keys: np.ndarray) -> np.ndarray:
        """Return keys and, between distant keys, times at which linear interpolation is sampled."""
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


def _animation_times(prim: Any) -> set[float]:
    """Return time codes of all channels of a SkelAnimation."""
    names = [*(name for name, _ in CHANNELS), "blendShapeWeights"]
    return {time for name in names for time in prim.GetAttribute(name).GetTimeSamples()}


def _transform_times(prim: Any) -> set[float]:
    """Return time codes of the transforms of a prim and its ancestors."""
    timed = timed_transforms(prim)
    return {time for each in timed for time in UsdGeom.Xformable(each).GetTimeSamples()}


def _sample_animation(prim: Any, times: np.ndarray, notes: list[str]) -> dict[str, Any]:
    """Sample joint transforms (t, a, …) and blend weights (t, b); None for missing values."""
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
            notes.append(f"animation {prim.GetPath()} has no {name}; rest values are used")
        return None
    rows = [as_array(attribute.Get(float(time)), np.float64, width) for time in times]
    wrong = [i for i, row in enumerate(rows) if row is None or len(row) != count]
    if wrong:
        row = rows[wrong[0]]
        n_values = "none" if row is None else len(row)
        notes.append(
            f"animation {prim.GetPath()} has {n_values} {name} at time code {times[wrong[0]]:g}"
            f", not {count}; rest values are used"
        )
        return None
    stacked = np.stack(rows)  # type: ignore[arg-type]
    if not np.isfinite(stacked).all():
        notes.append(f"animation {prim.GetPath()} has {name} that are not finite; ignored")
        return None
    return stacked
