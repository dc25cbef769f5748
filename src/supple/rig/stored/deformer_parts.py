"""Bends, twists, wires and lattices as stored parts."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.free_form import Lattice
from supple.rig.deformers.twist import Twist
from supple.rig.deformers.wire import Wire
from supple.rig.stored.narrow_arrays import narrowed, packed_rows, rounded, unpacked_rows
from supple.rig.stored.rig_parts import Fields, Kind, PartReader, Store

__all__ = ["DEFORMERS", "keep_bits"]


def keep_bits(part: PartReader, what: str, own: Floats, stored: Floats) -> None:
    """Put unit vectors back as they were stored: normalising them again moves their last bit."""
    if not np.allclose(own, stored, rtol=0, atol=1e-12):
        raise part.fail(f"{what} is not of unit length, or not at right angles")
    own[...] = stored


def _called(rig: Bend | Twist | Wire | Lattice, endings: int) -> str:
    """The deformer's name: its first parameter's, without so many endings."""
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
    influence = packed_rows(rig.influence[:, None])
    # Points in full precision: rounding may move the nearest place to another arc of the curve.
    return Fields(
        {"name": _called(rig, 2), "turning": rig.turning},
        arrays={
            "points": rig.rest_points,
            "control_points": rig.control_points,
            "influence_mask": influence["mask"],
            "influence_rows": influence["rows"],
        },
    )


def _restore_wire(part: PartReader) -> Wire:
    points = part.floats("points", (None, 3), single=False)
    control = part.floats("control_points", (None, 3), single=False)
    part.take_parameters(3 * len(control))
    # Its curve's basis is evaluated as a table of points and control points.
    part.room.take("a wire's basis", 3 * (len(points) + len(control)) * len(control))
    influence = unpacked_rows(
        f"{part.what}: influence",
        part.bytes("influence_mask"),
        part.floats("influence_rows", (None, 1)),
        (len(points), 1),
        part.room,
    )
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


DEFORMERS = (
    Kind("bend", Bend, _store_bend, _restore_bend),
    Kind("twist", Twist, _store_twist, _restore_twist),
    Kind("wire", Wire, _store_wire, _restore_wire),
    Kind("lattice", Lattice, _store_lattice, _restore_lattice),
)
