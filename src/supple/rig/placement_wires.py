"""Points that follow one wire or several, again and again."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from supple.compiled import compiled
from supple.rig.placement import Positions, writable
from supple.rig.protocol import Ints
from supple.rig.wire import UNMOVED, Wire
from supple.rig.wire_kernels import AT_ONE_PLACE, FULLY, LANES, PARTLY, follow_wires

__all__ = ["WiresPlacement"]

Floats = NDArray[np.float64]
Ranks = NDArray[np.uint32]


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
    """

    def __init__(self, wires: Sequence[Wire], vertices: Ints | None = None) -> None:
        every = np.arange(wires[0].n_vertices) if vertices is None else vertices
        pieces = np.stack([wire.pieces[every] for wire in wires])
        self._order = np.lexsort(pieces)
        # Unsigned, as compiled loops look at the sign of other indices.
        self._ranks = np.argsort(self._order).astype(np.uint32)
        listed = every[self._order]
        self._rest = wires[0].rest_points[listed]
        self._tables = _tables(wires, pieces[:, self._order], listed)
        self._make_room()

    def _make_room(self) -> None:
        self._points = np.zeros((len(self._rest) + LANES, 3))
        self._moved = np.empty_like(self._tables[1])

    @property
    def n_points(self) -> int:
        """How many vertices are placed."""
        return len(self._order)

    def place(self, pose: Floats, out: Positions) -> None:
        """Where the vertices are at a pose."""
        np.copyto(self._points[: self.n_points], self._rest)
        _follow(writable(pose), self._ranks, self._tables, self._moved, self._points, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Where the vertices go, were they at `points`; `out` may be `points`."""
        np.take(points, self._order, axis=0, out=self._points[: self.n_points], mode="clip")
        _follow(writable(pose), self._ranks, self._tables, self._moved, self._points, out)

    def fork(self) -> WiresPlacement:
        """The same tables, and other room to work in."""
        other = object.__new__(WiresPlacement)
        other.__dict__.update(self.__dict__)
        other._make_room()
        return other


def _tables(wires: Sequence[Wire], pieces: NDArray, listed: Ints) -> tuple[NDArray, ...]:
    """What `follow_wires` takes: pieces of all wires, runs, and their places and influences."""
    rest, first, turning, runs = [], [], [], []
    places, influence = [], []
    offset = pieces_before = filled = 0
    for own, wire in zip(pieces, wires, strict=True):
        control = [wire.control_points[a : a + 4] for a in wire.first_control]
        rest += [
            (power[:, : len(acting)] @ acting).ravel()
            for power, acting in zip(wire.powers, control, strict=True)
        ]
        first.append(offset + 3 * wire.first_control)
        turning.append(np.full(len(wire.powers), wire.turning))
        for a, b, piece, kind in _runs(wire, own, listed):
            width = -(-(b - a) // LANES) * LANES
            runs.append([a, a + width, pieces_before + piece, kind, filled])
            places.append(_filled(wire.places[listed[a:b]], width))
            influence.append(_filled(wire.influence[listed[a:b]], width))
            filled += width
        offset += len(wire.parameters)
        pieces_before += len(wire.powers)
    return (
        np.concatenate([wire.powers for wire in wires]),
        np.array(rest),
        np.concatenate(first),
        np.concatenate(turning),
        np.array(runs, np.int64).reshape(-1, 5),
        np.concatenate([np.empty(0), *places]),
        np.concatenate([np.empty(0), *influence]),
    )


def _filled(values: Floats, width: int) -> Floats:
    """The values, followed by zeros."""
    return np.concatenate([values, np.zeros(width - len(values))])


def _runs(wire: Wire, pieces: Ints, listed: Ints) -> Iterator[tuple[int, int, int, int]]:
    """First, last + 1, piece and kind of vertices in a row that are on the same piece."""
    bounds = np.flatnonzero(np.diff(pieces, prepend=UNMOVED - 1, append=UNMOVED - 1))
    full = (wire.influence[listed] == 1) & (wire.turning == 1)
    for a, b in itertools.pairwise(bounds.tolist()):
        piece = int(pieces[a])
        if piece == UNMOVED:
            continue
        kind = FULLY if full[a:b].all() else PARTLY
        if piece in (0, len(wire.powers) - 1):
            kind = AT_ONE_PLACE
        yield a, b, piece, kind


@compiled
def _follow(
    pose: Floats, ranks: Ranks, tables: tuple, moved: Floats, points: Floats, out: Positions
) -> None:
    """Move the points along with the wires, and write them where they belong."""
    powers, rest, first, turning, runs, places, influence = tables
    flat = points.reshape(-1)
    follow_wires(pose, powers, rest, first, turning, runs, places, influence, moved, flat)
    for i in range(len(ranks)):
        at = ranks[i]
        out[i, 0], out[i, 1], out[i, 2] = points[at, 0], points[at, 1], points[at, 2]
