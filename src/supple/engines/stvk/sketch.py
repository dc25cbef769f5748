"""Basis from sketched loads: mass-PCA of the shapes in which the body rests under each.

Someone pulls at a linear model and the forces are recorded; the full body is then solved for
each of them, and mass-PCA of the shapes gives the basis (barbic2005 §5.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_indices, checked_number
from supple.engines.stvk.bases import VibratingBody, check_pieces, free_vertices, principal_basis
from supple.errors import SolverError, SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix
from supple.progress import Progress

Load = ArrayLike | Mapping[int, ArrayLike]

#: Newton ends when an iteration moves no vertex by more than this part of the body's size.
_TOLERANCE = 1e-7
#: More iterations than this, or a longer step than this part of the size, and the load is too
#: much at once.
_ITERATIONS, _LEAP = 10, 0.5
#: The least part of a load that is worth trying.
_LEAST_PART = 2.0**-10


def sketch_basis(
    body: VibratingBody,
    loads: Sequence[Load],
    count: int,
    *,
    fixed: ArrayLike,
    separation: float = 0.02,
    progress: Progress | None = None,
) -> Floats:
    """Return the `count` directions that shapes under recorded loads use most, (n, 3, count).

    Parameters
    ----------
    body
        The body; something must hold it.
    loads
        One after the other as they were recorded: forces in N on vertices, {vertex: (3,)}, or
        (n, 3) on all.
    count
        Size of the basis.
    fixed
        Vertices that do not move, or a mask.
    separation
        Loads that differ from the last one used, and shapes that differ from the last one kept,
        by less than this part of the largest are left out.
    progress
        Called with the part done, 0 to 1, and what is being done.
    """
    wanted = checked_count("the number of basis vectors", count)
    shapes = static_shapes(body, loads, fixed=fixed, separation=separation, progress=progress)
    masses = body.vertex_masses()
    weighed = shapes * np.sqrt(masses)[:, None]
    kept = shapes[far_apart(weighed.reshape(len(shapes), -1), separation)]
    if len(kept) < wanted:
        raise SuppleError(
            f"{wanted} basis vectors asked for, and the loads give {len(kept)} different shapes; "
            "record more loads, or lower the separation"
        )
    columns = np.ascontiguousarray(kept.reshape(len(kept), -1).T)
    return principal_basis(body, columns, wanted, fixed)


def static_shapes(
    body: VibratingBody,
    loads: Sequence[Load],
    *,
    fixed: ArrayLike,
    separation: float = 0.0,
    progress: Progress | None = None,
) -> Floats:
    """Solve for displacements (t, n, 3) at rest under each of the loads that differ enough.

    Newton's method with the exact stiffness, each load reached from the one before it, in as
    many parts as are needed.

    Raises
    ------
    SolverError
        If a load is too strong to be followed, as when the body snaps through.
    """
    apart = checked_number("separation", separation)
    if not 0 <= apart < 1:
        raise SuppleError(f"separation must be a part, from 0 to less than 1, not {separation}")
    if not len(loads):
        raise SuppleError("no loads were recorded; pull at the body first")
    forces = np.stack([_checked_load(k, load, body) for k, load in enumerate(loads)])
    chosen = far_apart(forces.reshape(len(forces), -1), apart)
    if not len(chosen):
        raise SuppleError("the loads are all zero; pull harder")
    statics = _Statics(body, fixed)
    shapes = np.empty((len(chosen), *body.rest.shape))
    for k, number in enumerate(chosen):
        if progress is not None:
            progress(k / len(chosen), f"static shape {k + 1} of {len(chosen)}")
        shapes[k] = statics.reach(forces[number], f"load {number}")
    return shapes


def pulling_loads(
    body: VibratingBody,
    vertices: ArrayLike,
    *,
    fixed: ArrayLike,
    reach: float = 0.5,
    steps: int = 6,
    directions: ArrayLike | None = None,
) -> list[Floats]:
    """Return loads (n, 3) of someone who pulls at vertices in turn, harder and harder.

    A stand-in for a recording that is the same every time.

    Parameters
    ----------
    body
        The body.
    vertices
        (k,) those that are pulled.
    fixed
        Vertices that do not move, or a mask.
    reach
        How far the linear model gives way at last in the direction where it gives way most, as
        a part of the body's size. The others are pulled in just as hard.
    steps
        How many loads for each direction.
    directions
        (d, 3); by default both ways along all three axes.
    """
    places = checked_indices("pulled vertex", vertices, len(body.rest))
    least = checked_count("steps", steps)
    axes = np.eye(3)
    ways = np.concatenate([axes, -axes]) if directions is None else np.asarray(directions, float)
    ways = checked_array("directions", ways, (len(ways), 3))
    size = float(np.linalg.norm(np.ptp(body.rest, axis=0)))
    linear = _Statics(body, fixed).linear
    far = checked_number("reach", reach) * size
    loads: list[Floats] = []
    for place in places:
        pulls = np.zeros((len(ways), *body.rest.shape))
        pulls[:, place] = ways
        given = max(float(np.linalg.norm(linear(pull), axis=1).max()) for pull in pulls)
        if not given > 0:
            raise SuppleError(f"vertex {place} does not give way; pull at a free one")
        parts = far / given * np.arange(1, least + 1) / least
        loads += [pull * part for pull in pulls for part in parts]
    return loads


class _Statics:
    """Static solver of a body that follows one load after the other."""

    def __init__(self, body: VibratingBody, fixed: ArrayLike) -> None:
        free = free_vertices(body, fixed)
        if len(free) == len(body.rest):
            raise SuppleError("nothing holds the body, so loads carry it off; fix some vertices")
        check_pieces(body, fixed)
        self.body = body
        self.unknowns: Ints = (3 * free[:, None] + np.arange(3)).ravel()
        stiffness = sp.csr_array(body.stiffness(body.rest))
        self._entries = stiffness.nnz
        self._part = PrincipalSubmatrix(stiffness, self.unknowns)
        self._cholesky = SparseCholesky(self._part.pattern, block=3)
        self._size = float(np.linalg.norm(np.ptp(body.rest, axis=0)))
        self._u, self._load = np.zeros((2, *body.rest.shape))

    def linear(self, load: Floats) -> Floats:
        """K⁻¹ f: displacement (n, 3) of the linear model."""
        self._cholesky.factorise(self._stiffness(self.body.rest))
        return self._spread(self._cholesky.solve(load.reshape(-1)[self.unknowns]))

    def reach(self, load: Floats, name: str) -> Floats:
        """Solve for the displacement (n, 3) under a load, from the last one or rest, if nearer."""
        if np.linalg.norm(load) <= np.linalg.norm(load - self._load):
            self._u, self._load = np.zeros((2, *load.shape))
        u, begun, done, part = self._u, self._load, 0.0, 1.0
        while done < 1.0:
            ahead = min(1.0, done + part)
            found = self._settle(u, begun + ahead * (load - begun))
            if found is not None:
                u, done, part = found, ahead, 2 * part
                continue
            part = (ahead - done) / 2
            if part < _LEAST_PART:
                raise SolverError(
                    f"{name}: the body snaps or folds at {done:.0%} of it; pull less, or in "
                    "smaller steps"
                )
        self._u, self._load = u, load
        return u

    def _settle(self, u: Floats, load: Floats) -> Floats | None:
        """Iterate by Newton's method from u; None if it does not converge soon."""
        for change in self._changes(u, load):
            u = u + change
            farthest = float(np.abs(change).max())
            if not farthest <= _LEAP * self._size:
                return None
            if farthest <= _TOLERANCE * self._size:
                return u
        return None

    def _changes(self, u: Floats, load: Floats) -> Iterator[Floats]:
        u = u.copy()
        for _ in range(_ITERATIONS):
            x = self.body.rest + u
            wrong = (load - self.body.force(x)).reshape(-1)[self.unknowns]
            try:
                self._cholesky.factorise(self._stiffness(x))
            except SolverError:  # beyond a fold: no stable state is near
                return
            change = self._spread(self._cholesky.solve(wrong))
            u += change
            yield change

    def _stiffness(self, x: Floats) -> Floats:
        """Return values of the stiffness among the free unknowns."""
        values = sp.csr_array(self.body.stiffness(x)).data
        if len(values) != self._entries:
            raise SuppleError("the body's stiffness must have the same entries everywhere")
        return self._part.take(values)

    def _spread(self, values: Floats) -> Floats:
        field = np.zeros(self.body.rest.size)
        field[self.unknowns] = values
        return field.reshape(-1, 3)


def _checked_load(number: int, load: Load, body: VibratingBody) -> Floats:
    if not isinstance(load, Mapping):
        return checked_array(f"load {number}", load, body.rest.shape)
    force = np.zeros(body.rest.shape)
    for vertex, pull in load.items():
        if isinstance(vertex, bool) or not isinstance(vertex, int | np.integer):
            raise SuppleError(f"load {number}: {vertex!r} is no vertex number")
        if not 0 <= vertex < len(force):
            raise SuppleError(f"load {number}: vertex {vertex} is not there, of {len(force)}")
        force[vertex] += checked_array(f"load {number} on vertex {vertex}", pull, (3,))
    return force


def far_apart(rows: Floats, separation: float) -> Ints:
    """Return rows that differ enough from the last one chosen, and are not zero."""
    least = separation * float(np.linalg.norm(rows, axis=1).max())
    chosen: list[int] = []
    last = np.zeros(rows.shape[1])
    for k, row in enumerate(rows):
        distance = float(np.linalg.norm(row - last))
        if distance > 0 and distance >= least and row.any():
            chosen.append(k)
            last = row
    return np.array(chosen, np.int64)
