"""Elastic body restricted to a basis, evaluated on all of its tets.

Energy, Uᵀf and UᵀKU at displacements u = U q away from a rest shape (xu2016 eq. 9), without
cubature: Hahn et al. 2014 assemble these in every step, and cubature approximates them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numba import prange
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints
from supple.checks import checked_array, numbers
from supple.compiled.jit import compiled_parallel, serialised_loops
from supple.dynamics.implicit import StepReport
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import line_search
from supple.errors import SolverError, SuppleError

#: Regularisation for dependent columns: fraction of the mean diagonal entry added to the diagonal.
RIDGE = 1e-10
#: Displacements below this fraction of the size may be lost in the rounding of the energy.
MINUTE = 1e-6
#: Columns of a block row of K in one sum: nine rows of this many columns fit the first-level cache.
_STRIP = 64


class Subspace:
    """Reduced energy, force and stiffness of a body at a rest shape (n, 3), in a basis (3n, r)."""

    def __init__(self, body: ElasticBody, rest: Floats, basis: Floats) -> None:
        self.body, self._matrix = body, body.pattern.zeros()
        self._masses = body.vertex_masses()
        self._force = np.empty((body.n_vertices, 3))
        self.at(rest, basis)

    def at(self, rest: Floats, basis: Floats) -> None:
        """Set rest shape and basis, without copies."""
        self.rest, self.basis = rest, basis
        if getattr(self, "_product", np.empty(0)).shape != basis.shape:
            self._product = np.empty(basis.shape)

    @property
    def n_columns(self) -> int:
        """Number of basis vectors, r."""
        return self.basis.shape[1]

    def displacement(self, q: Floats) -> Floats:
        """Return U q, (n, 3)."""
        return (self.basis @ q).reshape(-1, 3)

    def project(self, field: Floats) -> Floats:
        """Return Uᵀ x (r,) of a field x (n, 3)."""
        return self.basis.T @ field.reshape(-1)

    def step_length(
        self, potential: Callable[[float], float], slope: float, change: Floats, advice: str
    ) -> float:
        """Return the factor on a change of q for which a potential of the factor decreases.

        `slope` is the derivative at 0, and `advice` ends the message of an error.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            length, _ = line_search(potential, potential(0.0), slope)
        if length != 0.0:
            return length
        distance = float(np.abs(self.displacement(change)).max())
        if distance <= MINUTE * self.body.mesh.size:
            return 1.0  # energies of such small changes differ by rounding
        raise SolverError(f"no Newton step lowers the energy; {advice}")

    def energy(self, q: Floats) -> float:
        """Return the elastic energy W(Φ + U q) in J."""
        return self.body.energy(self.rest + self.displacement(q), self.rest)

    def force(self, q: Floats) -> Floats:
        """Return Uᵀ f(Φ + U q), (r,)."""
        positions = self.rest + self.displacement(q)
        return self.project(self.body.force(positions, self.rest, out=self._force))

    def assemble(self, q: Floats, psd: bool = False) -> None:
        """Assemble K(Φ + U q) on the whole mesh, for `projected`."""
        positions = self.rest + self.displacement(q)
        self.body.stiffness(positions, self.rest, psd=psd, out=self._matrix)

    def projected(self) -> Floats:
        """Return UᵀKU of the assembled stiffness, (r, r), symmetric."""
        pattern = self.body.pattern
        with serialised_loops():
            block_product(
                pattern.start, pattern.neighbours, self._matrix.data, self.basis, self._product
            )
        reduced = self.basis.T @ self._product
        return (reduced + reduced.T) / 2

    def stiffness(self, q: Floats, psd: bool = False) -> Floats:
        """Return UᵀKU at Φ + U q, (r, r)."""
        self.assemble(q, psd)
        return self.projected()

    def mass(self) -> Floats:
        """Return UᵀMU with lumped mass, (r, r)."""
        np.multiply(self.basis, np.repeat(self._masses, 3)[:, None], out=self._product)
        reduced = self.basis.T @ self._product
        return (reduced + reduced.T) / 2

    def weigh(self, field: Floats) -> Floats:
        """Return UᵀM x (r,) of a field x (n, 3)."""
        return self.project(field * self._masses[:, None])


@compiled_parallel
def block_product(
    start: Ints, neighbours: NDArray[np.int32], values: Floats, basis: Floats, out: Floats
) -> None:
    """Write K U to `out` (3n, r); values of K are in the order of `BlockPattern.zeros`."""
    r = basis.shape[1]
    for v in prange(len(start) - 1):
        degree = start[v + 1] - start[v]
        near = neighbours[start[v] : start[v + 1]]
        rows = values[9 * start[v] : 9 * start[v + 1]]
        width = 3 * degree
        above, middle, below = rows[:width], rows[width : 2 * width], rows[2 * width :]
        for begin in range(0, r, _STRIP):
            end = min(begin + _STRIP, r)
            x, y = out[3 * v, begin:end], out[3 * v + 1, begin:end]
            z = out[3 * v + 2, begin:end]
            x[:] = 0.0
            y[:] = 0.0
            z[:] = 0.0
            for s in range(degree):
                other = 3 * np.int64(near[s])
                for axis in range(3):
                    row = basis[other + axis, begin:end]
                    at = 3 * s + axis
                    a, b, c = above[at], middle[at], below[at]
                    for k in range(len(row)):
                        x[k] += a * row[k]
                        y[k] += b * row[k]
                        z[k] += c * row[k]


def checked_subspace_basis(what: str, basis: ArrayLike, n_vertices: int) -> Floats:
    """Return a checked basis (3n, r): finite, with at least one column."""
    shape = numbers(what, basis).shape
    if len(shape) != 2 or shape[0] != 3 * n_vertices or not 0 < shape[1] <= shape[0]:
        raise SuppleError(f"{what} of shape {shape}; expected ({3 * n_vertices}, columns)")
    return checked_array(what, basis, shape)


def solve_definite(matrix: Floats, right: Floats) -> Floats | None:
    """Return A⁻¹ b for a matrix A; None if A is not positive definite."""
    try:
        factor = scipy.linalg.cho_factor(matrix, lower=True)
    except np.linalg.LinAlgError:
        return None
    except ValueError:
        raise SolverError("forces are no longer finite; use a smaller dt") from None
    return scipy.linalg.cho_solve(factor, right)


def with_ridge(matrix: Floats) -> Floats:
    """Return the matrix plus `RIDGE` times its mean diagonal entry on the diagonal."""
    return matrix + RIDGE * float(np.trace(matrix)) / len(matrix) * np.eye(len(matrix))


@dataclass(frozen=True, eq=False)
class ReducedEquilibrium:
    """Equilibrium of a reduced body: q (r,), positions Φ + U q (n, 3), and Newton's convergence."""

    q: Floats
    positions: Floats
    iterations: int
    converged: bool


def reduced_equilibrium(
    body: ElasticBody,
    basis: ArrayLike,
    forces: ArrayLike,
    *,
    rest: ArrayLike | None = None,
    elastic: tuple[ArrayLike, ArrayLike] | None = None,
    tolerance: float = 1e-10,
    most_iterations: int = 200,
) -> ReducedEquilibrium:
    """Minimise W(Φ + U q) − fᵀU q over q by Newton's method with line search.

    Iterations end when no vertex moves by more than `tolerance` times the body's size. `elastic`
    has another rest shape and basis for the energy; see `PosedSubspace`.
    """
    shape = body.rest.shape
    start = checked_array("rest shape", body.rest if rest is None else rest, shape)
    space = Subspace(body, start, checked_subspace_basis("basis", basis, body.n_vertices))
    load = space.project(checked_array("forces", forces, shape))
    inner = space
    if elastic is not None:
        neutral = checked_array("elastic rest shape", elastic[0], shape)
        columns = checked_array("elastic basis", elastic[1], space.basis.shape)
        inner = Subspace(body, neutral, columns)
    q, converged, count = np.zeros(space.n_columns), False, 0
    while not converged and count < most_iterations:
        change = _newton_change(inner, load, q)
        q, count = q + change, count + 1
        converged = bool(np.abs(space.displacement(change)).max() <= tolerance * body.mesh.size)
    return ReducedEquilibrium(q, start + space.displacement(q), count, converged)


def _newton_change(space: Subspace, load: Floats, q: Floats) -> Floats:
    gradient = space.force(q) - load
    change = solve_definite(space.stiffness(q), -gradient)
    if change is None:
        change = solve_definite(with_ridge(space.stiffness(q, psd=True)), -gradient)
    if change is None:
        raise SolverError("the basis lets the body move without resistance; fix some vertices")

    def potential(length: float) -> float:
        at = q + length * change
        return space.energy(at) - float(load @ at)

    slope = float(gradient @ change)
    return change * space.step_length(potential, slope, change, "apply smaller forces")


@dataclass
class SubspaceStage:
    """Equation M̃ (w − v) + τ (D̃ w + f̃(q + τw) − f̃_ext) = 0 for the velocity w.

    Like `supple.dynamics.implicit.StageProblem`, with D̃ = αM̃ + βK̃ at the start of Newton's method.
    The subspaces `elastic` and `moving` differ only in neutral-pose dynamics. `tolerance` is in m;
    `psd` projects the stiffness of the first iteration, which damping uses too.
    """

    elastic: Subspace
    moving: Subspace
    mass: Floats
    external: Floats
    alpha: float
    beta: float
    iterations: int
    tolerance: float
    psd: bool
    report: StepReport

    def solve(self, q: Floats, v: Floats, tau: float, start: Floats) -> tuple[Floats, Floats]:
        """Return q and q̇ at the end of the stage; Newton starts at the velocity `start`."""
        w = start
        stiffness = self._stiffness(q + tau * w, self.psd)
        damping = self.alpha * self.mass + self.beta * stiffness
        for count in range(self.iterations):
            if count:
                stiffness = self._stiffness(q + tau * w, False)
            with self.report.timed("assembly"):
                force = self.elastic.force(q + tau * w)
            gradient = self.mass @ (w - v) + tau * (damping @ w + force - self.external)
            change = self._change(gradient, damping, stiffness, q + tau * w, tau)
            if self.iterations > 1:
                change = change * self._length(q, v, w, change, gradient, damping, tau)
            w = w + change
            self.report.iterations += 1
            distance = float(np.abs(self.moving.displacement(tau * change)).max())
            self.report.converged = distance <= self.tolerance
            if self.report.converged:
                break
        return q + tau * w, w

    def _stiffness(self, q: Floats, psd: bool) -> Floats:
        with self.report.timed("assembly"):
            self.elastic.assemble(q, psd)
        with self.report.timed("projection"):
            return self.elastic.projected()

    def _change(
        self, gradient: Floats, damping: Floats, stiffness: Floats, at: Floats, tau: float
    ) -> Floats:
        """Return the Newton step for w; stiffness is projected if the system is not definite."""
        system = self.mass + tau * damping
        with self.report.timed("solve"):
            change = solve_definite(system + tau**2 * stiffness, -gradient)
        if change is None:
            stiffness = self._stiffness(at, True)
            change = solve_definite(with_ridge(system + tau**2 * stiffness), -gradient)
        if change is None:
            raise SolverError("the reduced system is not positive definite; use a smaller dt")
        return change

    def _length(
        self,
        q: Floats,
        v: Floats,
        w: Floats,
        change: Floats,
        gradient: Floats,
        damping: Floats,
        tau: float,
    ) -> float:
        """Return the factor on a change of w with which the potential decreases."""

        def potential(length: float) -> float:
            at = w + length * change
            return (
                0.5 * float((at - v) @ self.mass @ (at - v))
                + 0.5 * tau * float(at @ damping @ at)
                + self.elastic.energy(q + tau * at)
                - float(self.external @ (q + tau * at))
            )

        slope = float(gradient @ change)
        with self.report.timed("assembly"):
            return self.elastic.step_length(potential, slope, tau * change, "use a smaller dt")
