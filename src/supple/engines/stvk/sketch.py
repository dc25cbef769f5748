"""Basis from sketched loads: mass-PCA of static shapes under recorded loads.

A user pulls at a linear model and the forces are recorded. The full body is then solved for each of
them, and mass-PCA of the shapes gives the basis (barbic2005 §5.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_count, checked_indices, checked_number
from supple.engines.stvk.bases import (
    VibratingBody,
    body_modes,
    check_pieces,
    free_vertices,
    principal_basis,
)
from supple.errors import SolverError, SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix
from supple.progress import PartDone, Progress, unreported

Load = ArrayLike | Mapping[int, ArrayLike]

#: Newton ends when an iteration moves no vertex by more than this fraction of the body's size.
_TOLERANCE = 1e-7
#: Largest number of iterations, and longest step as a fraction of the size, before a load is
#: divided.
_ITERATIONS, _LEAP = 10, 0.5
#: Number of modes that choose the pulled vertices, and loads for each vector of a basis.
_PULLED_MODES, _SHAPES_PER_VECTOR = 3, 3
#: Smallest fraction of a load that is tried.
_LEAST_PART = 2.0**-10


def sketch_basis(
    body: VibratingBody,
    loads: Sequence[Load],
    count: int,
    *,
    fixed: ArrayLike,
    separation: float = 0.02,
    skip: bool = False,
    progress: Progress | None = None,
) -> Floats:
    """Return `count` principal directions of static shapes under loads, (n, 3, count).

    Parameters
    ----------
    body
        The body, with some fixed vertices.
    loads
        In recorded order: forces in N on vertices, {vertex: (3,)}, or (n, 3) on all.
    count
        Size of the basis.
    fixed
        Vertices that do not move, or a mask.
    separation
        Loads, and shapes, that differ from the last one used by less than this fraction of the
        largest are left out.
    skip
        Whether to leave out loads under which the body snaps; otherwise they raise an error.
    progress
        Called with the fraction done, 0 to 1, and a description.
    """
    size = checked_count("the number of basis vectors", count)
    shapes = static_shapes(
        body, loads, fixed=fixed, separation=separation, skip=skip, progress=progress
    )
    masses = body.vertex_masses()
    weighed = shapes * np.sqrt(masses)[:, None]
    distinct = shapes[far_apart(weighed.reshape(len(shapes), -1), separation)]
    if len(distinct) < size:
        raise SuppleError(
            f"{size} basis vectors requested, but the loads give {len(distinct)} different shapes; "
            "record more loads, or lower the separation"
        )
    columns = np.ascontiguousarray(distinct.reshape(len(distinct), -1).T)
    return principal_basis(body, columns, size, fixed)


def pulled_basis(
    body: VibratingBody, count: int, *, fixed: ArrayLike, progress: PartDone = unreported
) -> Floats:
    """Return a `sketch_basis` of pulls at the vertices that soft modes move most, (n, 3, count).

    They stand for a user's sketch: six directions with increasing force, up to half the body's size
    in the linear model. Loads under which the body snaps are left out.
    """
    size = checked_count("the number of basis vectors", count)
    vectors = body_modes(body, _PULLED_MODES, fixed=fixed).vectors.reshape(
        len(body.rest), 3, _PULLED_MODES
    )
    places = np.unique(np.linalg.norm(vectors, axis=1).argmax(axis=0))
    steps = max(2, -(-_SHAPES_PER_VECTOR * size // (6 * len(places))))
    loads = pulling_loads(body, places, fixed=fixed, steps=steps)
    return sketch_basis(
        body,
        loads,
        size,
        fixed=fixed,
        skip=True,
        progress=lambda part, text: progress(part),
    )


def static_shapes(
    body: VibratingBody,
    loads: Sequence[Load],
    *,
    fixed: ArrayLike,
    separation: float = 0.0,
    skip: bool = False,
    progress: Progress | None = None,
) -> Floats:
    """Solve for static displacements (t, n, 3) under each of the loads that differ enough.

    Newton's method with the exact stiffness. Each load is reached from the one before, in as many
    parts as necessary. A load that is too strong, as when the body snaps through, raises
    SolverError, or is left out with `skip`.
    """
    apart = checked_number("separation", separation)
    if not 0 <= apart < 1:
        raise SuppleError(f"separation must be at least 0 and less than 1, not {separation}")
    if not len(loads):
        raise SuppleError("there are no loads; pull at the body first")
    forces = np.stack([_checked_load(k, load, body) for k, load in enumerate(loads)])
    chosen = far_apart(forces.reshape(len(forces), -1), apart)
    if not len(chosen):
        raise SuppleError("all loads are zero; use larger forces")
    statics = _Statics(body, fixed)
    shapes: list[Floats] = []
    for k, number in enumerate(chosen):
        if progress is not None:
            progress(k / len(chosen), f"static shape {k + 1} of {len(chosen)}")
        try:
            shapes.append(statics.reach(forces[number], f"load {number}"))
        except SolverError:
            if not skip or (number == chosen[-1] and not shapes):
                raise
    return np.array(shapes)


def pulling_loads(
    body: VibratingBody,
    vertices: ArrayLike,
    *,
    fixed: ArrayLike,
    reach: float = 0.5,
    steps: int = 6,
    directions: ArrayLike | None = None,
) -> list[Floats]:
    """Return loads (n, 3) of pulling at vertices (k,) in turn, with increasing force.

    They replace a recording, deterministically. `reach` is the largest displacement of the linear
    model in its softest direction, as a fraction of the body's size; other directions are pulled
    with the same force. `steps` is the number of loads per direction; by default the directions are
    ± each axis.
    """
    places = checked_indices("pulled vertex", vertices, len(body.rest))
    count = checked_count("steps", steps)
    axes = np.eye(3)
    vectors = np.concatenate([axes, -axes]) if directions is None else np.asarray(directions, float)
    vectors = checked_array("directions", vectors, (len(vectors), 3))
    size = float(np.linalg.norm(np.ptp(body.rest, axis=0)))
    linear = _Statics(body, fixed).linear
    far = checked_number("reach", reach) * size
    loads: list[Floats] = []
    for place in places:
        pulls = np.zeros((len(vectors), *body.rest.shape))
        pulls[:, place] = vectors
        softest = max(float(np.linalg.norm(linear(pull), axis=1).max()) for pull in pulls)
        if not softest > 0:
            raise SuppleError(f"vertex {place} does not move; pull at a free vertex")
        parts = far / softest * np.arange(1, count + 1) / count
        loads += [pull * part for pull in pulls for part in parts]
    return loads


class _Statics:
    """Static solver of a body under successive loads."""

    def __init__(self, body: VibratingBody, fixed: ArrayLike) -> None:
        free = free_vertices(body, fixed)
        if len(free) == len(body.rest):
            raise SuppleError("the body is free, so loads move it away; fix some vertices")
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
        """Return K⁻¹ f: displacement (n, 3) of the linear model."""
        self._cholesky.factorise(self._stiffness(self.body.rest))
        return self._spread(self._cholesky.solve(load.reshape(-1)[self.unknowns]))

    def reach(self, load: Floats, name: str) -> Floats:
        """Return the displacement (n, 3) under a load, solved from the last one or from rest."""
        if np.linalg.norm(load) <= np.linalg.norm(load - self._load):
            self._u, self._load = np.zeros((2, *load.shape))
        u, start, done, part = self._u, self._load, 0.0, 1.0
        while done < 1.0:
            ahead = min(1.0, done + part)
            solution = self._settle(u, start + ahead * (load - start))
            if solution is not None:
                u, done, part = solution, ahead, 2 * part
                continue
            part = (ahead - done) / 2
            if part < _LEAST_PART:
                raise SolverError(
                    f"{name}: the body snaps or folds at {done:.0%} of the load; pull less, or in "
                    "smaller steps"
                )
        self._u, self._load = u, load
        return u

    def _settle(self, u: Floats, load: Floats) -> Floats | None:
        """Return the displacement by Newton's method from u; None if it does not converge."""
        for _ in range(_ITERATIONS):
            x = self.body.rest + u
            residual = (load - self.body.force(x)).reshape(-1)[self.unknowns]
            try:
                self._cholesky.factorise(self._stiffness(x))
            except SolverError:  # no stable state nearby
                return None
            change = self._spread(self._cholesky.solve(residual))
            u = u + change
            farthest = float(np.abs(change).max())
            if not farthest <= _LEAP * self._size:
                return None
            if farthest <= _TOLERANCE * self._size:
                return u
        return None

    def _stiffness(self, x: Floats) -> Floats:
        """Return values of the stiffness among the free unknowns."""
        values = sp.csr_array(self.body.stiffness(x)).data
        if len(values) != self._entries:
            raise SuppleError("the body's stiffness must have the same pattern at all positions")
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
            raise SuppleError(f"load {number}: {vertex!r} is not a vertex number")
        if not 0 <= vertex < len(force):
            raise SuppleError(
                f"load {number}: vertex {vertex} does not exist; use 0 to {len(force) - 1}"
            )
        force[vertex] += checked_array(f"load {number} on vertex {vertex}", pull, (3,))
    return force


def far_apart(rows: Floats, separation: float) -> Ints:
    """Return indices of nonzero rows at least `separation` × largest norm from the last chosen."""
    smallest = separation * float(np.linalg.norm(rows, axis=1).max())
    chosen: list[int] = []
    last = np.zeros(rows.shape[1])
    for k, row in enumerate(rows):
        distance = float(np.linalg.norm(row - last))
        if distance > 0 and distance >= smallest and row.any():
            chosen.append(k)
            last = row
    return np.array(chosen, np.int64)
