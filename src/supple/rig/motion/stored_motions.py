"""Stored fields of motions and of their tracks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Ints
from supple.errors import FormatError
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import ROOT, MotionTracks, TrackSpace
from supple.rig.motion.root_motion import RootPolicy
from supple.rig.motion.tracks import Track
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.stored.field_reader import (
    DOUBLE,
    INDEX,
    SINGLE,
    Field,
    FieldReader,
    FieldWriter,
    Values,
)
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.schema import Array, Value

#: Joint of a `TrackSpace` without a root policy.
_NO_POLICY = -2


def _joint_list(name: str, source: Any = None) -> Array:
    return Array(name, INDEX, (None,), source or f"joint_pose.{name}", below="joints")


def _policy(attribute: str, default: Any) -> Any:
    """Return a function of a `TrackSpace` that reads an attribute of its root policy."""
    return lambda space: default if space.split is None else getattr(space.split, attribute)


def _free(space: TrackSpace) -> list[str]:
    pose = space.joint_pose
    return [each.name for each in pose.parameters] if isinstance(pose, PartialJointPose) else []


_NONE: Ints = np.empty(0, np.int64)
_SPACE = (
    Value("joints", "texts", "skeleton.names", size="joints"),
    Value("free", "texts", _free),
    Value("leader", "integer", _policy("joint", _NO_POLICY)),
    Value("size", "number"),
    Array("parents", INDEX, ("joints",), "skeleton.parents", below="joints", shift=1),
    Array("translations", DOUBLE, ("joints", 3), "skeleton.translations"),
    Array("rotations", DOUBLE, ("joints", 4), "skeleton.rotations"),
    Array("scales", DOUBLE, ("joints", 3), "skeleton.scales"),
    _joint_list("translating"),
    _joint_list("scaling"),
    _joint_list("tops", _policy("tops", _NONE)),
    _joint_list("carriers", _policy("carriers", _NONE)),
    Array("pivot", DOUBLE, (3,)),
    Array("rest_weights", DOUBLE, ("shapes",)),
    Array("reach", DOUBLE, ("joints",)),
    Array("shape_reach", DOUBLE, ("shapes",)),
)


def _read_space(reader: FieldReader) -> TrackSpace:
    fields = reader.read(_SPACE)
    reader.finish_values()
    rotations, leader = fields["rotations"], fields["leader"]
    skeleton = Skeleton(
        fields["names"], fields["parents"], fields["translations"], rotations, fields["scales"]
    )
    if not np.allclose(skeleton.rotations, rotations, rtol=0, atol=1e-12):
        raise reader.fail("rotations are not of unit length")
    skeleton.rotations[...] = rotations  # a second normalisation changes their last bit
    pose = JointPose(skeleton, fields["translating"], fields["scaling"])
    if fields["free"]:
        pose = PartialJointPose(skeleton, fields["free"], fields["translating"])
    if not _NO_POLICY <= leader < skeleton.n_joints or not fields["size"] > 0:
        raise reader.fail("the tracks have no root or no size")
    split = None
    if leader != _NO_POLICY:
        split = RootPolicy(skeleton, leader, fields["tops"], fields["carriers"])
    others = ("pivot", "rest_weights", "reach", "shape_reach", "size")
    return TrackSpace(pose, split, *(fields[name] for name in others))


def _write_tracks(tracks: MotionTracks, prefix: str, arrays: dict[str, NDArray]) -> list[Values]:
    """Add arrays of tracks and return their tables; shared times are stored once."""
    tables: list[Values] = []
    times_numbers: dict[bytes, int] = {}
    for number, track in enumerate(tracks.own_tracks):
        times = times_numbers.setdefault(track.times.tobytes(), len(times_numbers))
        arrays.setdefault(f"{prefix}.times.{times}", track.times)
        arrays[f"{prefix}.{number}.items"] = narrowed(track.items - ROOT)
        single = track.values.astype(np.float32)
        exact = np.array_equal(single, track.values)
        name, values = ("values", single) if exact else ("exact", track.values)
        arrays[f"{prefix}.{number}.{name}"] = values
        tables.append({"path": track.path, "kind": track.interpolation, "times": times})
    return tables


def _read_tracks(
    tables: list[Any], reader: FieldReader, prefix: str, space: TrackSpace
) -> MotionTracks:
    times_of: dict[int, NDArray] = {}
    tracks = []
    for number, table in enumerate(tables):
        what = f"track {number} of a motion"
        fields = reader.inner(table, what)
        path, kind, times = fields.text("path"), fields.text("kind"), fields.integer("times")
        fields.finish_values()
        if times not in times_of:
            times_of[times] = fields.array(f"{prefix}.times.{times}", DOUBLE, (None,))
            if not (np.diff(times_of[times]) > 0).all():
                raise fields.fail("its times do not increase")
        items = fields.array(f"{prefix}.{number}.items", INDEX, (None,)) + ROOT
        count = len(space.rest_weights) if path == "weights" else space.skeleton.n_joints
        root = len(items) == 1 and items[0] == ROOT and path in ("translation", "rotation")
        if not len(items) or not items.max() < count or (items.min() < 0 and not root):
            raise fields.fail("it moves a joint or shape that does not exist")
        exact = reader.has_array(f"{prefix}.{number}.exact")
        name, type_ = ("exact", DOUBLE) if exact else ("values", SINGLE)
        values = fields.array(f"{prefix}.{number}.{name}", type_)
        tracks.append(Track(path, items, kind, times_of[times], values))
    return MotionTracks(space, tuple(tracks))


@dataclass(frozen=True)
class Motions(Field):
    """Motions by name; poses are float32, times and roots float64."""

    def write(self, owner: Any, writer: FieldWriter) -> None:
        """Write a table and arrays for each motion; a shared `TrackSpace` is written once."""
        tables: list[Values] = []
        spaces: dict[int, int] = {}
        for k, (key, motion) in enumerate(getattr(owner, self.name).items()):
            prefix = f"{self.name}.{k}"
            table: Values = {"key": key, "name": motion.name, "cuts": list(motion.cuts)}
            if motion.tracks is not None:
                space = motion.tracks.space
                table["tracks"] = _write_tracks(motion.tracks, f"{prefix}.tracks", writer.arrays)
                table["moves"] = spaces.setdefault(id(space), k)
                if table["moves"] == k:
                    fields = FieldWriter().write(_SPACE, space)
                    table["space"] = fields.values
                    writer.add_arrays(f"{prefix}.space", fields.arrays)
            tables.append(table)
            arrays = {"times": motion.times, "poses": rounded(motion.poses)}
            writer.add_arrays(prefix, arrays | {"roots": motion.roots[:, :3]})
        writer.values[self.name] = tables

    def read(self, reader: FieldReader) -> Values:
        """Read the motions by name."""
        motions: dict[str, Motion] = {}
        spaces: dict[int, TrackSpace] = {}
        for k, table in enumerate(reader.sequence(self.name)):
            prefix = f"{self.name}.{k}"
            fields = reader.inner(table, f"its motion {k}")
            key, name, cuts = fields.text("key"), fields.text("name"), fields.sequence("cuts")
            tracks = _read_motion_tracks(fields, k, prefix, spaces)
            fields.finish_values()
            times = fields.array(f"{prefix}.times", DOUBLE, (None,))
            poses = fields.array(f"{prefix}.poses", SINGLE, (len(times), None))
            roots = np.zeros((len(times), 4, 4))
            roots[:, :3] = fields.array(f"{prefix}.roots", DOUBLE, (len(times), 3, 4))
            roots[:, 3, 3] = 1
            if key in motions:
                raise FormatError(f'two motions are called "{key[:40]}"')
            motions[key] = Motion(times, poses, roots, name, cuts, tracks)
        return {self.name: motions}


def _read_motion_tracks(
    fields: FieldReader, k: int, prefix: str, spaces: dict[int, TrackSpace]
) -> MotionTracks | None:
    """Read the tracks of motion k, if it has any, and its `TrackSpace` unless it is shared."""
    if not fields.has_value("tracks"):
        return None
    moves, tables = fields.integer("moves"), fields.sequence("tracks")
    if moves == k:
        inner = fields.inner(fields.table("space"), "the space of its tracks", f"{prefix}.space.")
        spaces[k] = _read_space(inner)
    if moves not in spaces:
        raise fields.fail("its tracks move a skeleton that does not exist")
    tracks = _read_tracks(tables, fields, f"{prefix}.tracks", spaces[moves])
    try:
        tracks.sample(np.zeros(1))
    except (np.linalg.LinAlgError, IndexError, ValueError) as error:
        raise fields.fail("its tracks cannot be sampled") from error
    return tracks
