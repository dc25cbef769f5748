"""Points that follow one wire or several, again and again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.compiled.jit import compiled
from supple.maths.point_rotations import FAINT
from supple.rig.deformers.wire import UNMOVED, Wire
from supple.rig.deformers.wire_kernels import (
    AT_ONE_PLACE,
    BLOCK,
    FAINTLY,
    FULLY,
    PARTLY,
    ROOM,
    SHIFTS,
    STRIDE,
    follow_wires,
    shift_pieces,
)
from supple.rig.placement.placement import Positions, writable
from supple.rig.protocol import Ints

__all__ = ["WiresPlacement"]

Table = NDArray[np.floating[Any]]
Order = NDArray[np.uint32]

#: Influences too small to show in single precision.
INVISIBLE = 1e-8


class Pieces(NamedTuple):
    """The curves' polynomials, as `shift_pieces` takes them."""

    powers: Floats
    rest: Floats
    first: Ints
    where: Floats


class Runs(NamedTuple):
    """Vertices in blocks, and what moves them, as `follow_wires` takes it."""

    order: Order
    """(k,) the vertices as they stand in blocks."""
    rest: Table
    """(3, k) their rest points."""
    blocks: Ints
    """(b, 2) last + 1 vertex and last + 1 run of each block."""
    runs: Ints
    """(r, 5)."""
    table: Table
    """Influences and places."""


class WiresPlacement:
    """A list of vertices that follow wires, one after another; the pose is the wires' poses.

    Vertices are kept in an order in which those on the same pieces of the curves are together:
    they are then moved by loops over neighbours in memory, with the same polynomials for all.
    Most vertices of a limb's wire are nearest to one of its ends. Those of no influence are left
    out.

    Parameters
    ----------
    wires
        Of the same vertices, at least one.
    vertices
        Which; None for all.
    single
        Single precision is enough: some 1e-7 of the size of the body at rest and moved. It is
        not taken where influences above 1 turn vertices by more than their wire.
    """

    def __init__(
        self, wires: Sequence[Wire], vertices: Ints | None = None, *, single: bool = False
    ) -> None:
        every = np.arange(wires[0].n_vertices) if vertices is None else vertices
        single = single and all(wire.influence.max(initial=0.0) <= 1 for wire in wires)
        self._pieces = _pieces(wires)
        self._runs = _runs(wires, every, np.dtype(np.float32 if single else np.float64))
        self._make_room()

    def _make_room(self) -> None:
        self._shifts = np.zeros((len(self._pieces.powers), SHIFTS))
        self._room = np.zeros(ROOM, self._runs.table.dtype)

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return len(self._runs.order)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose."""
        _place(writable(pose), self._pieces, self._runs, self._shifts, self._room, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points`; `out` may be `points`."""
        _deform(points, writable(pose), self._pieces, self._runs, self._shifts, self._room, out)

    def fork(self) -> WiresPlacement:
        """The same tables, and other room to work in."""
        other = object.__new__(WiresPlacement)
        other.__dict__.update(self.__dict__)
        other._make_room()
        return other


def _pieces(wires: Sequence[Wire]) -> Pieces:
    rest, first, where = [], [], []
    offset = 0
    for wire in wires:
        count = len(wire.powers)
        for power, a in zip(wire.powers, wire.first_control, strict=True):
            acting = wire.control_points[a : a + 4]
            rest.append((power[:, : len(acting)] @ acting).ravel())
        first.append(offset + 3 * wire.first_control)
        places = [0.0, *[-1.0] * (count - 2), 1.0]
        where.append(np.column_stack([places, np.full(count, wire.turning)]))
        offset += len(wire.parameters)
    powers = np.concatenate([wire.powers for wire in wires])
    return Pieces(powers, np.array(rest), np.concatenate(first), np.concatenate(where))


def _runs(wires: Sequence[Wire], vertices: Ints, kind: np.dtype) -> Runs:
    """Vertices sorted by the pieces they are on, cut in blocks."""
    single = kind == np.float32
    keys = np.stack([_keys(wire, vertices, single) for wire in wires])
    order = np.lexsort(keys)
    lanes = 32 // kind.itemsize
    runs, blocks, tables, filled = [], [], [np.empty(0)], 0
    for begin in range(0, len(order), BLOCK):
        listed, before = vertices[order[begin : begin + BLOCK]], 0
        for wire, own in zip(wires, keys[:, order[begin : begin + BLOCK]], strict=True):
            for a, b, piece, how in _stretches(own):
                width = -(-(b - a) // lanes) * lanes
                columns = [wire.influence, wire.places][: 2 if how in (PARTLY, FULLY) else 1]
                tables += [_filled(column[listed[a:b]], width) for column in columns]
                runs.append([a, a + width, before + piece, how, filled])
                filled += width * len(columns)
            before += len(wire.powers)
        blocks.append([begin + len(listed), len(runs)])
    return Runs(
        order.astype(np.uint32),
        np.ascontiguousarray(wires[0].rest_points[vertices[order]].T, kind),
        np.array(blocks, np.int64).reshape(-1, 2),
        np.array(runs, np.int64).reshape(-1, 5),
        np.concatenate(tables).astype(kind),
    )


def _filled(values: Floats, width: int) -> Floats:
    """The values, followed by zeros."""
    return np.concatenate([values, np.zeros(width - len(values))])


def _keys(wire: Wire, vertices: Ints, single: bool) -> Ints:
    """Of each vertex 4 piece + kind; negative if it is not moved."""
    piece, influence = wire.pieces[vertices].astype(np.int64), wire.influence[vertices]
    how = np.where((influence == 1) & (wire.turning == 1), FULLY, PARTLY)
    at_end = (piece == 0) | (piece == len(wire.powers) - 1)
    # Sines in single precision are short series anyhow.
    faint = (influence * np.pi < FAINT) & (not single)
    how[at_end] = np.where(faint, FAINTLY, AT_ONE_PLACE)[at_end]
    moved = (piece != UNMOVED) & (influence > (INVISIBLE if single else 0.0))
    return np.where(moved, 4 * piece + how, -1)


def _stretches(keys: Ints) -> Iterator[tuple[int, int, int, int]]:
    """First, last + 1, piece and kind of vertices in a row of which all are the same."""
    bounds = np.flatnonzero(np.diff(keys, prepend=-2, append=-2))
    for a, b in itertools.pairwise(bounds.tolist()):
        if keys[a] >= 0:
            yield a, b, int(keys[a]) // 4, int(keys[a]) % 4


@compiled
def _place(
    pose: Floats, pieces: tuple, runs: tuple, shifts: Floats, room: Table, out: Positions
) -> None:
    """Move rest points along with the wires, and write them where they belong."""
    powers, rest, first, where = pieces
    order, points, blocks, listed, table = runs
    shift_pieces(pose, powers, rest, first, where, shifts)
    begin = run = 0
    for k in range(len(blocks)):
        end, last = blocks[k]
        for axis in range(3):
            row = room[axis * STRIDE : axis * STRIDE + end - begin]
            row[:] = points[axis, begin:end]
        follow_wires(listed[run:last], rest, where, shifts, table, room)
        _write(order[begin:end], room, out)
        begin, run = end, last


@compiled
def _deform(
    points: Floats,
    pose: Floats,
    pieces: tuple,
    runs: tuple,
    shifts: Floats,
    room: Table,
    out: Positions,
) -> None:
    """As `_place` with other points than those at rest."""
    powers, rest, first, where = pieces
    order, _, blocks, listed, table = runs
    shift_pieces(pose, powers, rest, first, where, shifts)
    begin = run = 0
    for k in range(len(blocks)):
        end, last = blocks[k]
        for i in range(end - begin):
            at = order[begin + i]
            room[i], room[STRIDE + i] = points[at, 0], points[at, 1]
            room[2 * STRIDE + i] = points[at, 2]
        follow_wires(listed[run:last], rest, where, shifts, table, room)
        _write(order[begin:end], room, out)
        begin, run = end, last


@compiled
def _write(order: Order, room: Table, out: Positions) -> None:
    for i in range(len(order)):
        at = order[i]
        out[at, 0], out[at, 1], out[at, 2] = room[i], room[STRIDE + i], room[2 * STRIDE + i]
