"""Deformers as stored parts: bends, twists, wires, lattices, shapes, corrections, chains."""

from __future__ import annotations

import math

from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.free_form import Lattice
from supple.rig.deformers.pose_blend_shapes import FEATURES, PoseBlendShapeRig
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.twist import Twist
from supple.rig.deformers.wire import Wire
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Deformer, Rig
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.stored.packed_arrays import narrowed, rounded
from supple.rig.stored.stored_part import (
    Fields,
    Kind,
    PartReader,
    Store,
    keep_bits,
    read_rows,
    rows_of,
)


def _called(rig: Bend | Twist | Wire | Lattice, endings: int) -> str:
    """Return the deformer's name: its first parameter's, without so many endings."""
    return rig.parameters[0].name.rsplit(".", endings)[0]


def _store_bend(rig: Bend, store: Store) -> Fields:
    return Fields(
        {"name": _called(rig, 1), "low": rig.low, "high": rig.high},
        arrays={"points": rounded(rig.rest_points), "origin": rig.origin, "frame": rig.frame},
    )


def _restore_bend(part: PartReader) -> Bend:
    frame = part.floats("frame", (3, 3), single=False)
    rig = Bend(
        part.floats("points", (None, 3)),
        part.floats("origin", (3,), single=False),
        frame[1],
        frame[0],
        low=part.number("low"),
        high=part.number("high"),
        name=part.text("name"),
    )
    keep_bits(part, "its frame", rig.frame, frame)
    return rig


def _store_twist(rig: Twist, store: Store) -> Fields:
    return Fields(
        {"name": _called(rig, 1), "low": rig.low, "high": rig.high},
        arrays={"points": rounded(rig.rest_points), "origin": rig.origin, "axis": rig.axis},
    )


def _restore_twist(part: PartReader) -> Twist:
    axis = part.floats("axis", (3,), single=False)
    rig = Twist(
        part.floats("points", (None, 3)),
        part.floats("origin", (3,), single=False),
        axis,
        low=part.number("low"),
        high=part.number("high"),
        name=part.text("name"),
    )
    keep_bits(part, "its axis", rig.axis, axis)
    return rig


def _store_wire(rig: Wire, store: Store) -> Fields:
    # Points in full precision: rounding may move the nearest place to another arc of the curve.
    return Fields(
        {"name": _called(rig, 2), "turning": rig.turning},
        arrays={
            "points": rig.rest_points,
            "control_points": rig.control_points,
            **rows_of("influence", rig.influence[:, None]),
        },
    )


def _restore_wire(part: PartReader) -> Wire:
    points = part.floats("points", (None, 3), single=False)
    control = part.floats("control_points", (None, 3), single=False)
    part.take_parameters(3 * len(control))
    # Its curve's basis is evaluated as a table of points and control points.
    part.budget.take("a wire's basis", 3 * (len(points) + len(control)) * len(control))
    influence = read_rows(part, "influence", (len(points), 1))
    name, turning = part.text("name"), part.number("turning")
    return Wire(points, control, turning=turning, influence=influence[:, 0], name=name)


def _store_lattice(rig: Lattice, store: Store) -> Fields:
    arrays = {"points": rounded(rig.rest_points), "divisions": narrowed(rig.divisions)}
    return Fields({"name": _called(rig, 4)}, arrays=arrays | {"low": rig.low, "high": rig.high})


def _restore_lattice(part: PartReader) -> Lattice:
    divisions = part.indices("divisions", (3,))
    part.take_parameters(3 * math.prod(divisions.tolist()))
    return Lattice(
        part.floats("points", (None, 3)),
        divisions,  # type: ignore[arg-type]
        low=part.floats("low", (3,), single=False),
        high=part.floats("high", (3,), single=False),
        name=part.text("name"),
    )


def _store_blend_shapes(rig: BlendShapeRig, store: Store) -> Fields:
    rest = rig.rest_pose[len(rig.base.parameters) :]
    return Fields(
        {"names": list(rig.names)},
        {"base": store(rig.base)},
        {"rest": rest, **rows_of("deltas", rig.deltas)},
    )


def _restore_blend_shapes(part: PartReader) -> BlendShapeRig:
    base = part.part("base", Deformer)  # type: ignore[type-abstract]
    names = part.texts("names")
    deltas = read_rows(part, "deltas", (len(names), base.n_vertices, 3))
    return BlendShapeRig(base, deltas, names, rest=part.floats("rest", (len(names),), single=False))


def _store_pose_blend(rig: PoseBlendShapeRig, store: Store) -> Fields:
    arrays = {"joints": narrowed(rig.joints), **rows_of("deltas", rig.deltas)}
    return Fields(parts={"base": store(rig.base)}, arrays=arrays)


def _restore_pose_blend(part: PartReader) -> PoseBlendShapeRig:
    base, joints = part.part("base", SkinnedRig), part.indices("joints", (None,))
    deltas = read_rows(part, "deltas", (len(joints), FEATURES, base.n_vertices, 3))
    return PoseBlendShapeRig(base, deltas, joints)


def _store_corrections(rig: PoseSpaceDeformation, store: Store) -> Fields:
    parts: dict[str, int | list[int]] = {
        "base": store(rig.base),
        "pose_weights": store(rig.pose_weights),
    }
    return Fields(parts=parts, arrays=rows_of("corrections", rig.corrections))


def _restore_corrections(part: PartReader) -> PoseSpaceDeformation:
    base = part.part("base", Rig)  # type: ignore[type-abstract]
    weights = part.part("pose_weights", PoseWeights)
    corrections = read_rows(part, "corrections", (weights.n_poses, base.n_vertices, 3))
    return PoseSpaceDeformation(base, weights.poses, corrections, weights)


def _store_chain(rig: RigChain, store: Store) -> Fields:
    return Fields(parts={"rigs": [store(link) for link in rig.rigs]})


def _restore_chain(part: PartReader) -> RigChain:
    rigs = part.parts("rigs", Rig)  # type: ignore[type-abstract]
    part.take_parameters(sum(len(rig.parameters) for rig in rigs))
    return RigChain(*rigs)


DEFORMERS = (
    Kind("bend", Bend, _store_bend, _restore_bend),
    Kind("twist", Twist, _store_twist, _restore_twist),
    Kind("wire", Wire, _store_wire, _restore_wire),
    Kind("lattice", Lattice, _store_lattice, _restore_lattice),
    Kind("blend shapes", BlendShapeRig, _store_blend_shapes, _restore_blend_shapes),
    Kind("pose blend shapes", PoseBlendShapeRig, _store_pose_blend, _restore_pose_blend),
    Kind("corrections", PoseSpaceDeformation, _store_corrections, _restore_corrections),
    Kind("chain", RigChain, _store_chain, _restore_chain),
)
