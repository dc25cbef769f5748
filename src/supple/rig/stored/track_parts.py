"""Tracks of motions as fields of a header and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError
from supple.rig.motion.motion_tracks import ROOT, MotionTracks, TrackSpace
from supple.rig.motion.root_policy import RootPolicy
from supple.rig.motion.tracks import Track
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.stored.packed_arrays import narrowed
from supple.tensors import HeaderReader, TensorReader

Stored = tuple[dict[str, Any], dict[str, NDArray]]


def stored_space(space: TrackSpace, prefix: str) -> Stored:
    """Return header and arrays of what tracks move."""
    pose, rest = space.joint_pose, space.skeleton
    partial = isinstance(pose, PartialJointPose)
    header = {
        "joints": list(rest.names),
        "free": [each.name for each in pose.parameters] if partial else [],
        "leader": -2 if space.split is None else space.split.joint,
        "size": space.size,
    }
    tops = carriers = np.empty(0, np.int64)
    if space.split is not None:
        tops, carriers = space.split.tops, space.split.carriers
    arrays = {
        "parents": narrowed(rest.parents + 1),
        "translations": rest.translations,
        "rotations": rest.rotations,
        "scales": rest.scales,
        "translating": narrowed(pose.translating),
        "scaling": narrowed(pose.scaling),
        "tops": narrowed(tops),
        "carriers": narrowed(carriers),
        "pivot": space.pivot,
        "rest_weights": space.rest_weights,
        "reach": space.reach,
        "shape_reach": space.shape_reach,
    }
    return header, {f"{prefix}.{name}": array for name, array in arrays.items()}


def restored_space(table: Any, reader: TensorReader, prefix: str) -> TrackSpace:
    """Return what `stored_space` stored."""
    told = HeaderReader(table, "what its tracks move")
    names, free = told.texts("joints"), told.texts("free")
    leader, size = told.whole("leader"), told.number_or_none("size")
    told.finish()
    count = len(names)

    def floats(name: str, *shape: int | None) -> NDArray:
        return reader.floats(f"{prefix}.{name}", shape, single=False)

    def indices(name: str, below: int) -> NDArray:
        found = reader.indices(f"{prefix}.{name}", (None,)).astype(np.int64)
        if len(found) and not found.max() < below:
            raise FormatError(f'"{prefix}.{name}" names a joint that there is not')
        return found

    parents = indices("parents", count + 1) - 1
    places, turns = floats("translations", count, 3), floats("rotations", count, 4)
    skeleton = Skeleton(names, parents, places, turns, floats("scales", count, 3))
    if not np.allclose(skeleton.rotations, turns, rtol=0, atol=1e-12):
        raise FormatError(f'"{prefix}.rotations" are not of unit length')
    skeleton.rotations[...] = turns  # normalising them again moves their last bit
    translating, scaling = indices("translating", count), indices("scaling", count)
    pose = JointPose(skeleton, translating, scaling)
    if free:
        pose = PartialJointPose(skeleton, free, translating)
    tops, carriers = indices("tops", count), indices("carriers", count)
    if not -2 <= leader < count or size is None or not size > 0:
        raise FormatError("its tracks have no root or no size")
    split = None if leader == -2 else RootPolicy(skeleton, leader, tops, carriers)
    weights = floats("rest_weights", None)
    reach, shape_reach = floats("reach", count), floats("shape_reach", len(weights))
    return TrackSpace(pose, split, floats("pivot", 3), weights, reach, shape_reach, size)


def stored_tracks(tracks: MotionTracks, prefix: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return headers and arrays of tracks; times that several share are stored once."""
    listed: list[dict[str, Any]] = []
    arrays: dict[str, NDArray] = {}
    known: dict[bytes, int] = {}
    for number, track in enumerate(tracks.own_tracks):
        times = known.setdefault(track.times.tobytes(), len(known))
        arrays.setdefault(f"{prefix}.times.{times}", track.times)
        arrays[f"{prefix}.{number}.items"] = narrowed(track.items - ROOT)
        single = track.values.astype(np.float32)
        exact = np.array_equal(single, track.values)
        arrays[f"{prefix}.{number}.{'values' if exact else 'exact'}"] = (
            single if exact else track.values
        )
        listed.append({"path": track.path, "kind": track.interpolation, "times": times})
    return listed, arrays


def restored_tracks(
    listed: list[Any], reader: TensorReader, prefix: str, space: TrackSpace
) -> MotionTracks:
    """Return what `stored_tracks` stored; they move `space`."""
    known: dict[int, NDArray] = {}
    tracks = []
    for number, table in enumerate(listed):
        told = HeaderReader(table, f"track {number} of a motion")
        path, kind, times = told.text("path"), told.text("kind"), told.whole("times")
        told.finish()
        if times not in known:
            known[times] = reader.floats(f"{prefix}.times.{times}", (None,), single=False)
            if not (np.diff(known[times]) > 0).all() or not np.isfinite(known[times]).all():
                raise FormatError(f"keys of track {number} of a motion do not follow in time")
        items = reader.indices(f"{prefix}.{number}.items", (None,)).astype(np.int64) + ROOT
        most = len(space.rest_weights) if path == "weights" else space.skeleton.n_joints
        alone = len(items) == 1 and items[0] == ROOT and path in ("translation", "rotation")
        if not len(items) or not items.max() < most or (items.min() < 0 and not alone):
            raise FormatError(f"track {number} of a motion moves what there is not")
        exact = reader.has(f"{prefix}.{number}.exact")
        name = f"{prefix}.{number}.{'exact' if exact else 'values'}"
        values = reader.floats(name, None, single=not exact).astype(np.float64)
        if not np.isfinite(values).all():
            raise FormatError(f"track {number} of a motion has values that are not finite")
        tracks.append(Track(path, items, kind, known[times], values))
    return MotionTracks(space, tuple(tracks))
