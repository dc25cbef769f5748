"""Stored fields of deformers: bends, twists, wires, lattices, shapes, corrections, chains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from supple.arrays import Floats, Ints
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
from supple.rig.stored.field_reader import DOUBLE, INDEX, SINGLE, FieldReader, Values
from supple.rig.stored.schema import (
    PARAMETER_COST,
    Array,
    Cost,
    Kind,
    PackedRows,
    PartOf,
    Value,
    keep_bits,
)


def _name(endings: int) -> Value:
    """Return the field of a deformer's name: its first parameter's, without so many endings."""
    return Value("name", "text", lambda rig: rig.parameters[0].name.rsplit(".", endings)[0])


def _n_vertices(rig: Any) -> dict[str, int]:
    return {"n": rig.n_vertices}


def _bend(points: Floats, origin: Floats, frame: Floats, **values: Any) -> Bend:
    rig = Bend(points, origin, frame[1], frame[0], **values)
    keep_bits("its frame", rig.frame, frame)
    return rig


def _twist(points: Floats, origin: Floats, axis: Floats, **values: Any) -> Twist:
    rig = Twist(points, origin, axis, **values)
    keep_bits("its axis", rig.axis, axis)
    return rig


def _wire(points: Floats, control_points: Floats, influence: Floats, **values: Any) -> Wire:
    return Wire(points, control_points, influence=influence[:, 0], **values)


def _lattice(points: Floats, divisions: Ints, low: Floats, high: Floats, name: str) -> Lattice:
    return Lattice(points, divisions, low=low, high=high, name=name)  # type: ignore[arg-type]


def _blend_shapes(base: Deformer, names: tuple[str, ...], deltas: Floats, rest: Floats) -> Any:
    return BlendShapeRig(base, deltas, names, rest=rest)


def _pose_blend(base: SkinnedRig, joints: Ints, deltas: Floats) -> PoseBlendShapeRig:
    return PoseBlendShapeRig(base, deltas, joints)


def _corrections(base: Rig, pose_weights: PoseWeights, corrections: Floats) -> Any:
    return PoseSpaceDeformation(base, pose_weights.poses, corrections, pose_weights)


class _Divisions(Array):
    """Numbers of cells of a lattice along each axis, whose control points are parameters."""

    def read(self, reader: FieldReader) -> Values:
        """Read the numbers; count the parameters against the budget."""
        values = super().read(reader)
        if reader.budget is not None:
            count = 3 * math.prod(values["divisions"].tolist())
            reader.budget.take("its parameters", PARAMETER_COST * count)
        return values


def _points(type_: str = SINGLE) -> Array:
    return Array("points", type_, ("points", 3), lambda rig: rig.rest_points)


def _along_axis(axis: Array, make: Callable[..., Any]) -> tuple[tuple[Any, ...], Any]:
    """Return fields and constructor of a deformer along an axis."""
    bounds = (Value("low", "number"), Value("high", "number"))
    return (axis, _points(), Array("origin", DOUBLE, (3,)), *bounds, _name(1)), make


DEFORMERS = (
    Kind("bend", Bend, *_along_axis(Array("frame", DOUBLE, (3, 3)), _bend)),
    Kind("twist", Twist, *_along_axis(Array("axis", DOUBLE, (3,)), _twist)),
    Kind(
        "wire",
        Wire,
        (
            # Double precision: rounding may move the nearest point to another arc of the curve.
            _points(DOUBLE),
            Array("control_points", DOUBLE, ("controls", 3)),
            Cost("its parameters", lambda sizes: 3 * PARAMETER_COST * sizes["controls"]),
            Cost(  # the curve's basis is a table of points and control points
                "a wire's basis",
                lambda sizes: 3 * (sizes["points"] + sizes["controls"]) * sizes["controls"],
            ),
            PackedRows("influence", ("points", 1), lambda rig: rig.influence[:, None]),
            _name(2),
            Value("turning", "number"),
        ),
        _wire,
    ),
    Kind(
        "lattice",
        Lattice,
        (
            _Divisions("divisions", INDEX, (3,)),
            _points(),
            Array("low", DOUBLE, (3,)),
            Array("high", DOUBLE, (3,)),
            _name(4),
        ),
        _lattice,
    ),
    Kind(
        "blend shapes",
        BlendShapeRig,
        (
            PartOf("base", Deformer, _n_vertices),
            Value("names", "texts", size="shapes"),
            PackedRows("deltas", ("shapes", "n", 3)),
            Array(
                "rest", DOUBLE, ("shapes",), lambda rig: rig.rest_pose[len(rig.base.parameters) :]
            ),
        ),
        _blend_shapes,
    ),
    Kind(
        "pose blend shapes",
        PoseBlendShapeRig,
        (
            PartOf("base", SkinnedRig, _n_vertices),
            Array("joints", INDEX, ("joints",)),
            PackedRows("deltas", ("joints", FEATURES, "n", 3)),
        ),
        _pose_blend,
    ),
    Kind(
        "corrections",
        PoseSpaceDeformation,
        (
            PartOf("base", Rig, _n_vertices),
            PartOf("pose_weights", PoseWeights, lambda weights: {"poses": weights.n_poses}),
            PackedRows("corrections", ("poses", "n", 3)),
        ),
        _corrections,
    ),
    Kind(
        "chain",
        RigChain,
        (
            PartOf(
                "rigs",
                Rig,
                lambda rigs: {"parameters": sum(len(rig.parameters) for rig in rigs)},
                many=True,
            ),
            Cost("its parameters", lambda sizes: PARAMETER_COST * sizes["parameters"]),
        ),
        lambda rigs: RigChain(*rigs),
    ),
)
