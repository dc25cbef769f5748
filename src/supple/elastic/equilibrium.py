"""Static equilibrium: where a body comes to rest under given forces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.elastic.body import ElasticBody
from supple.errors import SolverError, SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.submatrix import PrincipalSubmatrix

__all__ = ["Equilibrium", "free_unknowns", "line_search", "static_equilibrium"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Equilibrium:
    """Where Newton's method ended, and how.

    Attributes
    ----------
    positions
        (n, 3).
    energies
        Total potential at the start and after every iteration; never increasing.
    residual
        Largest force left on a free vertex, in N.
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
    body: ElasticBody,
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
        Positions to start from, fixed vertices included; by default the rest shape. With
        ``"neo-hookean"`` any start will do, scrambled and inverted ones too.
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
        When to give up; the result then says ``converged=False``.
    """
    shape = body.rest.shape
    x = checked_array("start", body.rest if start is None else start, shape)
    load = checked_array("forces", np.zeros(shape) if forces is None else forces, shape)
    free = free_unknowns(body, fixed)
    part = PrincipalSubmatrix(body.pattern.zeros(), free)
    solver = SparseCholesky(part.pattern, block=3)
    diagonal = _diagonal_positions(part.pattern)
    typical = body.stiffness(body.rest, rest).diagonal().mean()
    scale = typical * body.mesh.size / max(len(body.rest), 1) ** (1 / 3)

    def potential(positions: Floats) -> float:
        return body.energy(positions, rest) - float(np.vdot(load, positions - body.rest))

    energies = [potential(x)]
    shift = 0.0
    while True:
        gradient = (body.force(x, rest) - load).reshape(-1)[free]
        residual = float(np.abs(gradient).max(initial=0.0))
        converged = residual <= tolerance * scale
        if converged or len(energies) > max_iterations:
            break
        data = part.take(body.stiffness(x, rest, psd=True).data).copy()
        direction, shift = _descent(solver, data, diagonal, gradient, shift, typical)
        moved = np.zeros(x.size)
        moved[free] = direction
        step = moved.reshape(x.shape)
        slope = float(gradient @ direction)
        length, energy = line_search(partial(_along, potential, x, step), energies[-1], slope)
        if length == 0.0:  # rounding: the energy cannot be lowered any more
            converged = residual <= 1e3 * tolerance * scale
            break
        x = x + length * step
        energies.append(energy)
    return Equilibrium(x, np.array(energies), residual, converged)


def free_unknowns(body: ElasticBody, fixed: ArrayLike) -> NDArray[np.int64]:
    """Indices 3v + c of the unknowns of the vertices that are neither `fixed` nor loose."""
    fixed, n_vertices = np.asarray(fixed), body.n_vertices
    if fixed.size and not np.issubdtype(fixed.dtype, np.integer):
        raise SuppleError("fixed must be vertex numbers")
    if fixed.size and (fixed.min() < 0 or fixed.max() >= n_vertices):
        raise SuppleError(
            f"fixed vertex {int(fixed.max() if fixed.max() >= n_vertices else fixed.min())} "
            f"is not there; the body has vertices 0 to {n_vertices - 1}"
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
    """Armijo backtracking from a full step; (0, energy) when no step lowers the energy.

    Once the decrease that Newton promises drowns in the rounding of the energy, there is
    nothing left to compare and the full step is taken.
    """
    length = 1.0
    rounding = 1e-13 * abs(energy)
    for _ in range(40):
        trial = energy_at(length)
        if np.isfinite(trial):
            promised = length * min(slope, 0.0)
            if trial <= energy + 1e-4 * promised or trial - energy <= rounding >= -promised:
                return length, trial
        length *= 0.5
    return 0.0, energy


def _along(potential: Callable[[Floats], float], x: Floats, step: Floats, length: float) -> float:
    return potential(x + length * step)


def _diagonal_positions(pattern: sp.csr_array) -> NDArray[np.int64]:
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return np.flatnonzero(rows == pattern.indices)


def _descent(
    solver: SparseCholesky,
    data: Floats,
    diagonal: NDArray[np.int64],
    gradient: Floats,
    shift: float,
    typical: float,
) -> tuple[Floats, float]:
    """Newton direction; the diagonal is raised as little as makes the matrix definite."""
    added = 0.0
    for _ in range(30):
        data[diagonal] += shift - added
        added = shift
        try:
            return solver.factorise(data).solve(-gradient), 0.1 * shift
        except SolverError:
            shift = max(10 * shift, 1e-10 * typical)
    raise SolverError("the stiffness matrix stays indefinite; is the body's mesh connected?")
