"""Wire deformer: points follow a curve; placements move points by several wires."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import BSpline
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.checks import owned_array
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.maths.point_rotations import FAINT
from supple.rig.deformers.point_deformer import PointDeformer, name_field, points_field
from supple.rig.deformers.wire_jacobian import WireJacobian
from supple.rig.deformers.wire_kernels import (
    AT_ONE_PLACE,
    BLOCK,
    FAINTLY,
    FULLY,
    PARTLY,
    SCRATCH,
    SHIFTS,
    STRIDE,
    UNMOVED,
    follow_wires,
    shift_pieces,
)
from supple.rig.placement.placement import Forkable, Positions, writable
from supple.rig.protocol import Parameter, TetTransfer, checked_cloud
from supple.rig.stored.field_reader import DOUBLE, Field
from supple.rig.stored.schema import PARAMETER_COST, Array, Cost, PackedRows, Value

NO_VERTICES = np.empty(0, dtype=np.int64)
#: Curve parameters this near to 0 or 1 count as the end: a search stops this near to it.
END = 1e-10
#: Samples of a curve's span that bracket the nearest point, and golden sections that shrink the
#: bracket to rounding.
SAMPLES_PER_SPAN, SECTIONS = 32, 60
#: Influence below which single precision shows no motion.
INVISIBLE = 1e-8


class Wire(PointDeformer):
    """A rig whose points near a cubic B-spline follow it as its control points move.

    Three parameters for each control point, "<name>.<i>.tx" and so on: its offset in metres.
    Each point is bound to the nearest point of the rest curve. It moves with that point and
    rotates with the curve's tangent, by the shortest rotation, both scaled by its influence.

    Parameters
    ----------
    points : (n, 3) array
        Rest points.
    control_points : (c, 3) array
        Control points of the rest curve, at least 2; the curve ends at the outer points.
    dropoff : float
        Distance from the rest curve at which the influence is 0, in metres. Within it, the
        influence is (1 - (r/dropoff)²)².
    turning : float
        Fraction of the tangent's rotation that points follow, 0 to 1.
    influence : (n,) array, optional
        Influences that replace the influences by distance.

    Examples
    --------
    >>> rig = Wire([[0.5, 0, 0]], [[0, 0, 0], [1, 0, 0]], dropoff=1)
    >>> np.round(rig([0, 0, 0.2, 0, 0, 0.2]), 12)
    array([[0.5, 0. , 0.2]])
    """

    def __init__(
        self,
        points: ArrayLike,
        control_points: ArrayLike,
        dropoff: float = np.inf,
        *,
        turning: float = 1.0,
        influence: ArrayLike | None = None,
        name: str = "wire",
    ) -> None:
        self.control_points = checked_cloud(f"{name}: control points", control_points)
        count = len(self.control_points)
        if count < 2:
            raise SuppleError(f"{name}: a curve needs at least 2 control points")
        if not dropoff > 0:
            raise SuppleError(f"{name}: dropoff {dropoff}; it must be a positive distance")
        if not 0 <= turning <= 1:
            raise SuppleError(f"{name}: turning {turning}; it must be between 0 and 1")
        names = [f"{name}.{i}.t{axis}" for i in range(count) for axis in "xyz"]
        super().__init__(points, [Parameter(each, "m") for each in names])
        self.turning = float(turning)
        self.degree = min(3, count - 1)
        where = nearest_parameters(self.rest_points, self.control_points, self.degree)
        self._cut(where)
        if influence is None:
            curve = BSpline(knots(count, self.degree), self.control_points, self.degree)
            distance = np.linalg.norm(self.rest_points - curve(np.clip(where, 0, 1)), axis=1)
            influence = np.maximum(1 - (distance / dropoff) ** 2, 0) ** 2
        self.influence = owned_array(f"{name}: influence", influence, (self.n_vertices,))
        if self.influence.min() < 0:
            raise SuppleError(f"{name}: influence {self.influence.min():.3g}; none may be negative")
        self.pieces[self.influence == 0] = UNMOVED
        self._last: dict[bool, tuple[Ints, WiresPlacement]] = {}

    def _cut(self, where: Floats) -> None:
        """Split the curve into polynomial pieces; store each vertex's piece and parameter in it.

        The first and the last piece are the end points of the curve, to which most vertices of
        other limbs are bound: all of these rotate about one axis. The others are the spans.
        """
        count, degree = len(self.control_points), self.degree
        spans = count - degree
        along = np.clip(where, 0.0, 1.0) * spans
        span = np.minimum(along.astype(np.int64), spans - 1)
        self.places = along - span
        self.pieces = (span + 1).astype(np.int32)
        begins, ends = where < END, where > 1 - END
        self.pieces[begins], self.pieces[ends] = 0, spans + 1
        self.places[begins], self.places[ends] = 0.0, 1.0
        # Rows: powers of the parameter within a span (Taylor series); columns: control points.
        self.first_control = np.clip(np.arange(spans + 2) - 1, 0, spans - 1)
        self.powers = np.zeros((spans + 2, 4, 4))
        marks = knots(count, degree)
        spline = BSpline(marks, np.eye(count), degree)
        acting = self.first_control[:, None] + np.arange(degree + 1)
        for power in range(degree + 1):
            scale = 1.0 / (spans**power * math.factorial(power))
            slopes = spline(marks[degree + self.first_control], nu=power)
            self.powers[:, power, : degree + 1] = scale * np.take_along_axis(slopes, acting, 1)

    def _move(self, points: Floats, pose: Floats, subset: Ints | None) -> Floats:
        out = np.empty_like(points)
        self._placing(subset).deform(points, pose, out)
        return out

    def _placing(self, subset: Ints | None) -> WiresPlacement:
        """Return a placement; placements of all vertices and of the last subset are cached."""
        last = self._last.get(subset is None)  # read once: another thread may replace it
        if last is None or (subset is not None and not np.array_equal(last[0], subset)):
            key = NO_VERTICES if subset is None else subset.copy()
            last = self._last[subset is None] = (key, self.placement(subset))
        return last[1].fork()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last": {}}

    def placement(self, vertices: Ints | None = None, *, single: bool = False) -> WiresPlacement:
        """Return a placement of the listed vertices, or of all; see `Placement`."""
        return WiresPlacement([self], vertices, single=single)

    @staticmethod
    def joint_placement(
        rigs: Sequence[Wire], vertices: Ints | None, *, single: bool
    ) -> WiresPlacement:
        """Return one placement of consecutive wires of a chain."""
        return WiresPlacement(rigs, vertices, single=single)

    def jacobian(self, entries: Ints, vertices: Ints | None = None) -> WireJacobian:
        """Return the analytic Jacobian."""
        return WireJacobian(self, entries, vertices)

    def on_tets(self, transfer: TetTransfer) -> Wire:
        """Return the same wire of the tet vertices, with influences extended from the surface."""
        influence = transfer.extended(self.influence[:, None])[:, 0]
        influence = np.clip(influence, 0.0, self.influence.max(initial=0.0))
        return Wire(
            transfer.vertices,
            self.control_points,
            turning=self.turning,
            influence=influence,
            name=self.name(2),
        )

    stored_fields: ClassVar[tuple[Field, ...]] = (
        # Double precision: rounding might change the nearest point of the curve.
        points_field(DOUBLE),
        Array("control_points", DOUBLE, ("controls", 3)),
        Cost("its parameters", lambda sizes: 3 * PARAMETER_COST * sizes["controls"]),
        Cost(  # the curve's basis is a table of points and control points
            "a wire's basis",
            lambda sizes: 3 * (sizes["points"] + sizes["controls"]) * sizes["controls"],
        ),
        PackedRows(
            "influence",
            ("points", 1),
            lambda rig: rig.influence[:, None],
            restore=lambda influence, _: influence[:, 0],
        ),
        name_field(2),
        Value("turning", "number"),
    )


def knots(count: int, degree: int) -> Floats:
    """Return the knots of a curve over [0, 1] that begins and ends at its outer control points."""
    inner = np.linspace(0, 1, count - degree + 1)
    return np.concatenate([np.zeros(degree), inner, np.ones(degree)])


def nearest_parameters(points: Floats, control: Floats, degree: int) -> Floats:
    """Return the parameter in [0, 1] of the curve's point nearest to each of `points`, (n,)."""
    count = len(control)
    samples = np.linspace(0, 1, SAMPLES_PER_SPAN * (count - degree) + 1)
    curve = BSpline(knots(count, degree), control, degree)
    nearest = cKDTree(curve(samples)).query(points)[1]
    low = samples[np.maximum(nearest - 1, 0)]
    high = samples[np.minimum(nearest + 1, len(samples) - 1)]
    golden = (np.sqrt(5) - 1) / 2

    def squared(u: Floats) -> Floats:
        return ((curve(u) - points) ** 2).sum(axis=1)

    for _ in range(SECTIONS):
        left, right = high - golden * (high - low), low + golden * (high - low)
        lower = squared(left) < squared(right)
        high, low = np.where(lower, right, high), np.where(lower, low, left)
    return 0.5 * (low + high)


class _Pieces(NamedTuple):
    """Polynomials of the curves; arguments of `shift_pieces`."""

    powers: Floats
    rest: Floats
    first: Ints
    where: Floats


class _Runs(NamedTuple):
    """Vertices sorted into blocks, and curve pieces that move them; arguments of `follow_wires`."""

    order: NDArray[np.uint32]
    """(k,) vertices in the order of the blocks."""
    rest: Positions
    """(3, k) rest points of the vertices in that order."""
    blocks: Ints
    """(b, 2) last + 1 vertex and last + 1 run of each block."""
    runs: Ints
    """(r, 5) runs of vertices, as described in `follow_wires`."""
    table: Positions
    """Influences, and places in the pieces."""


class WiresPlacement(Forkable):
    """Placement of vertices that follow wires in series; the pose is the wires' poses.

    Vertices are sorted by the piece of curve that they follow, so that loops run over neighbours in
    memory with the same polynomial. Most vertices of a limb's wire are nearest to one of its ends.
    Vertices without influence are left out. With `single`, arithmetic is in single precision, with
    errors of about 1e-7 of the body's size at rest and posed, unless influences above 1 rotate
    vertices by more than their wire.
    """

    def __init__(
        self, wires: Sequence[Wire], vertices: Ints | None = None, *, single: bool = False
    ) -> None:
        every = np.arange(wires[0].n_vertices) if vertices is None else vertices
        single = single and all(wire.influence.max(initial=0.0) <= 1 for wire in wires)
        self._pieces = _pieces(wires)
        self._runs = _runs(wires, every, np.dtype(np.float32 if single else np.float64))
        self.n_points = len(every)
        self._allocate()

    def _allocate(self) -> None:
        self._shifts = np.zeros((len(self._pieces.powers), SHIFTS))
        self._scratch = np.zeros(SCRATCH, self._runs.table.dtype)

    def place(self, pose: Floats, out: Positions) -> None:
        """Write the positions (k, 3) at a pose."""
        _place(None, writable(pose), self._pieces, self._runs, self._shifts, self._scratch, out)

    def deform(self, points: Floats, pose: Floats, out: Positions) -> None:
        """Move vertices from `points` (k, 3); `out` may be `points`."""
        _place(points, writable(pose), self._pieces, self._runs, self._shifts, self._scratch, out)


def _pieces(wires: Sequence[Wire]) -> _Pieces:
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
    return _Pieces(powers, np.array(rest), np.concatenate(first), np.concatenate(where))


def _runs(wires: Sequence[Wire], vertices: Ints, kind: np.dtype) -> _Runs:
    """Sort vertices by their curve pieces, and divide them into blocks."""
    single = kind == np.float32
    keys = np.stack([_keys(wire, vertices, single) for wire in wires])
    order = np.lexsort(keys)
    lanes = 32 // kind.itemsize
    runs, blocks, tables, size = [], [], [np.empty(0)], 0
    for begin in range(0, len(order), BLOCK):
        listed, before = vertices[order[begin : begin + BLOCK]], 0
        for wire, wire_keys in zip(wires, keys[:, order[begin : begin + BLOCK]], strict=True):
            for a, b, piece, how in _equal_runs(wire_keys):
                width = -(-(b - a) // lanes) * lanes
                columns = [wire.influence, wire.places][: 2 if how in (PARTLY, FULLY) else 1]
                tables += [np.pad(column[listed[a:b]], (0, width - (b - a))) for column in columns]
                runs.append([a, a + width, before + piece, how, size])
                size += width * len(columns)
            before += len(wire.powers)
        blocks.append([begin + len(listed), len(runs)])
    return _Runs(
        order.astype(np.uint32),
        np.ascontiguousarray(wires[0].rest_points[vertices[order]].T, kind),
        np.array(blocks, np.int64).reshape(-1, 2),
        np.array(runs, np.int64).reshape(-1, 5),
        np.concatenate(tables).astype(kind),
    )


def _keys(wire: Wire, vertices: Ints, single: bool) -> Ints:
    """Return 4 · piece + kind of run for each vertex, or -1 if the wire does not move it."""
    piece, influence = wire.pieces[vertices].astype(np.int64), wire.influence[vertices]
    how = np.where((influence == 1) & (wire.turning == 1), FULLY, PARTLY)
    at_end = (piece == 0) | (piece == len(wire.powers) - 1)
    # Sines in single precision are short series anyhow.
    faint = (influence * np.pi < FAINT) & (not single)
    how[at_end] = np.where(faint, FAINTLY, AT_ONE_PLACE)[at_end]
    follows = (piece != UNMOVED) & (influence > (INVISIBLE if single else 0.0))
    return np.where(follows, 4 * piece + how, -1)


def _equal_runs(keys: Ints) -> Iterator[tuple[int, int, int, int]]:
    """Yield (first, last + 1, piece, kind) of runs of consecutive moved vertices of equal keys."""
    bounds = np.flatnonzero(np.diff(keys, prepend=-2, append=-2))
    for a, b in itertools.pairwise(bounds.tolist()):
        if keys[a] >= 0:
            yield a, b, int(keys[a]) // 4, int(keys[a]) % 4


@compiled
def _place(
    points: Floats | None,
    pose: Floats,
    pieces: tuple,
    runs: tuple,
    shifts: Floats,
    scratch: Positions,
    out: Positions,
) -> None:
    """Move points (k, 3), by default the rest points, along with the wires."""
    powers, rest, first, where = pieces
    order, rest_points, blocks, listed, table = runs
    shift_pieces(pose, powers, rest, first, where, shifts)
    begin = run = 0
    for k in range(len(blocks)):
        end, last = blocks[k]
        if points is None:
            for axis in range(3):
                row = scratch[axis * STRIDE : axis * STRIDE + end - begin]
                row[:] = rest_points[axis, begin:end]
        else:
            for i in range(end - begin):
                at = order[begin + i]
                scratch[i], scratch[STRIDE + i] = points[at, 0], points[at, 1]
                scratch[2 * STRIDE + i] = points[at, 2]
        follow_wires(listed[run:last], rest, where, shifts, table, scratch)
        _write(order[begin:end], scratch, out)
        begin, run = end, last


@compiled
def _write(order: NDArray[np.uint32], scratch: Positions, out: Positions) -> None:
    for i in range(len(order)):
        at = order[i]
        out[at, 0], out[at, 1] = scratch[i], scratch[STRIDE + i]
        out[at, 2] = scratch[2 * STRIDE + i]
