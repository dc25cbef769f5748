"""Static equilibrium of a body under constant forces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.elastic.body import ElasticBody, HexBody
from supple.errors import SolverError, SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix


@dataclass(frozen=True)
class Equilibrium:
    """Result of Newton's method: positions, energies and residual.

    Attributes
    ----------
    positions
        (n, 3).
    energies
        Total potential in J at the start and after every iteration; not increasing.
    residual
        Largest component of a residual force on a free vertex, in N.
    converged
        Whether the residual is within tolerance.
    """

    positions: Floats
    energies: Floats
    residual: float
    converged: bool

    @property
    def iterations(self) -> int:
        """Number of Newton iterations."""
        return len(self.energies) - 1


def static_equilibrium(
    body: ElasticBody | HexBody,
    *,
    start: ArrayLike | None = None,
    fixed: ArrayLike = (),
    forces: ArrayLike | None = None,
    rest: ArrayLike | None = None,
    tolerance: float = 1e-8,
    max_iterations: int = 500,
) -> Equilibrium:
    """Minimise W(x) − fᵀx over the free vertices by projected Newton with line search.

    Parameters
    ----------
    body
        The body.
    start
        Initial positions, fixed vertices included; by default the rest shape. With
        ``"neo-hookean"`` they may be random and inverted; the result may then be another
        equilibrium, a knot without inverted tets.
    fixed
        Vertices that keep their start positions.
    forces
        (n, 3) forces in N that do not depend on positions.
    rest
        Rest shape, when it is not the mesh.
    tolerance
        Largest residual force accepted, as a fraction of the forces that elements of this
        stiffness and size exert.
    max_iterations
        Largest number of iterations; beyond it the result has ``converged=False``.
    """
    shape = body.rest.shape
    reference = body.rest if rest is None else checked_array("rest shape", rest, shape)
    x = checked_array("start", reference if start is None else start, shape).copy()
    load = checked_array("forces", np.zeros(shape) if forces is None else forces, shape)
    newton = _Newton(body, reference, load, free_unknowns(body, fixed))
    energies = [newton.potential(x)]
    while True:
        gradient = newton.gradient(x)
        residual = float(np.abs(gradient).max(initial=0.0))
        converged = residual <= tolerance * newton.scale
        if converged or len(energies) > max_iterations:
            break
        result = newton.step(x, gradient, energies[-1])
        if result is None:
            break
        x, energy = result
        energies.append(energy)
    return Equilibrium(x, np.array(energies), residual, bool(converged))


class _Newton:
    """Projected Newton method with the smallest sufficient diagonal shift."""

    def __init__(self, body: ElasticBody | HexBody, rest: Floats, load: Floats, free: Ints) -> None:
        self.body, self.rest, self.load, self.free = body, rest, load, free
        self._matrix = body.pattern.zeros()
        self._part = PrincipalSubmatrix(self._matrix, free)
        self._solver = SparseCholesky(self._part.pattern, block=3)
        self._diagonal = _diagonal_positions(self._part.pattern)
        self._size = float(np.linalg.norm(np.ptp(rest, axis=0)))
        self._typical = float(body.stiffness(rest, rest, out=self._matrix).diagonal().mean())
        #: Force that displaces an element by its own size.
        self.scale = self._typical * self._size / body.n_vertices ** (1 / 3)
        self._shift = 0.0

    def potential(self, x: Floats) -> float:
        return self.body.energy(x, self.rest) - float(np.vdot(self.load, x - self.rest))

    def gradient(self, x: Floats) -> Floats:
        return (self.body.force(x, self.rest) - self.load).reshape(-1)[self.free]

    def step(self, x: Floats, gradient: Floats, energy: float) -> tuple[Floats, float] | None:
        """Return new positions and their potential, or None if no step lowers it."""
        stiffness = self.body.stiffness(x, self.rest, psd=True, out=self._matrix)
        data = self._part.take(stiffness.data).copy()
        reach = max(self._size, float(np.ptp(x, axis=0).max()))
        added = 0.0
        for _ in range(40):
            data[self._diagonal] += self._shift - added
            added = self._shift
            direction = self._direction(data, gradient, reach)
            if direction is not None:
                step = np.zeros(x.size)
                step[self.free] = direction
                along = partial(_along, self.potential, x, step.reshape(x.shape))
                length, lower = line_search(along, energy, float(gradient @ direction))
                if length > 0.0:
                    self._shift *= 0.1
                    return x + length * step.reshape(x.shape), lower
            self._shift = max(10 * self._shift, 1e-10 * self._typical)
        return None

    def _direction(self, data: Floats, gradient: Floats, reach: float) -> Floats | None:
        """Return the Newton direction, or None if the matrix is nearly singular."""
        try:
            direction = self._solver.factorise(data).solve(-gradient)
        except SolverError:
            return None
        return direction if np.abs(direction).max() <= reach else None


def free_unknowns(body: ElasticBody | HexBody, fixed: ArrayLike) -> Ints:
    """Return the unknowns 3v + c of vertices that are neither `fixed` nor loose."""
    fixed, n_vertices = np.asarray(fixed), body.n_vertices
    if fixed.dtype == bool and fixed.shape == (n_vertices,):
        fixed = np.flatnonzero(fixed)
    if fixed.size and not np.issubdtype(fixed.dtype, np.integer):
        raise SuppleError("fixed must be vertex numbers, or a mask with one entry per vertex")
    if fixed.size and (fixed.min() < 0 or fixed.max() >= n_vertices):
        raise SuppleError(
            f"fixed vertex {int(fixed.max() if fixed.max() >= n_vertices else fixed.min())} "
            f"does not exist; the body has vertices 0 to {n_vertices - 1}"
        )
    free = np.ones(n_vertices, bool)
    free[fixed.astype(np.int64)] = False
    free[body.loose_vertices] = False
    if not free.any():
        raise SuppleError("every vertex is fixed; leave some free")
    return np.flatnonzero(np.repeat(free, 3))


def line_search(
    energy_at: Callable[[float], float], energy: float, slope: float
) -> tuple[float, float]:
    """Return step length and energy there, by backtracking from 1 (Armijo); (0, energy) if none.

    A step must lower the energy; `slope` is its derivative at 0.
    The full step is taken once the predicted decrease is below the rounding of the energy.
    """
    length = 1.0
    rounding = 1e-13 * abs(energy)
    for _ in range(40):
        trial = energy_at(length)
        if np.isfinite(trial):
            predicted = length * min(slope, 0.0)
            if trial <= energy + 1e-4 * predicted or trial - energy <= rounding >= -predicted:
                return length, trial
        length *= 0.5
    return 0.0, energy


def _along(potential: Callable[[Floats], float], x: Floats, step: Floats, length: float) -> float:
    return potential(x + length * step)


def _diagonal_positions(pattern: sp.csr_array) -> Ints:
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return np.flatnonzero(rows == pattern.indices)
