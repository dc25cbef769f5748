"""Base of the simulators of Saint Venant–Kirchhoff bodies: options, arrays, readings, runs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, Unpack

import numpy as np
import scipy.linalg as sl
from numpy.typing import ArrayLike, DTypeLike, NDArray

from supple.arrays import Floats, Ints, Singles
from supple.checks import checked_array, checked_count, checked_number
from supple.dynamics.integrators import integrator_named
from supple.engines.stvk.coefficients import pair_count
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.strain_points import MaterialChange
from supple.engines.stvk.stvk_step import (
    FACTORISED,
    K0,
    MASS,
    PACKED_ROWS,
    POSITION,
    STAGE,
    STEP,
    TAU,
    TERM_ROWS,
    VELOCITY,
    padded_pairs,
    quadratic_blocks,
)
from supple.errors import SolverError, SuppleError
from supple.linalg.upper_triangle import padded_identity

#: Newton ends when an iteration moves no vertex farther than this fraction of the body's size.
TOLERANCE = 1e-10
#: Newmark's method with β = 0 and γ = ½.
CENTRAL = "central-differences"
#: Largest number of Newton iterations, since a step cannot be interrupted.
_MOST_ITERATIONS = 1000
#: Largest size in bytes of the result of a run.
_LARGEST_TRACE = 4 * 2**30

Body = TypeVar("Body", bound=StvkModel | CubicModel)


class StvkStep(NamedTuple):
    """Report of one step."""

    time: float
    """Seconds since the reset."""
    limits: tuple[str, ...]
    """``"stiffness"`` if the system was not positive definite and was shifted; ``"inversion"`` if
    parts of the body are inverted, or the body is being restored; ``"equilibrium"`` if it rests in
    a spurious equilibrium, see `StvkSimulator.spurious_distance`."""
    readings: Mapping[str, Any] = MappingProxyType({})
    """Results of the step by name; always empty for Saint Venant–Kirchhoff bodies."""


class BodySimulator(ABC, Generic[Body]):
    """Base of the simulators of fixed and free bodies.

    A subclass lays out a model in `_begin` and `_exchange`. Its state begins with rows q and q̇.
    """

    model: Body
    _state: Floats
    _system: Floats
    _surface_basis: Singles
    _surface_rest: Singles
    #: Advice for a simulation that diverges.
    _cure = "use a smaller dt, smaller forces or more damping"

    def __init__(
        self,
        model: Body,
        dt: float = 1 / 1000,
        *,
        integrator: str = "newmark",
        iterations: int = 1,
        dtype: DTypeLike = np.float64,
        alpha: float = 0.0,
        beta: float = 0.0,
        gravity: ArrayLike = (0.0, 0.0, 0.0),
        tolerance: float = TOLERANCE,
        newmark: tuple[float, float] | None = None,
    ) -> None:
        self._settings = _step_settings(dt, integrator, alpha, beta, newmark)
        self._tolerance = _checked_tolerance(tolerance)
        self._counts = _iteration_counts(iterations)
        self._dtype: np.dtype[Any] = _checked_dtype(dtype)
        self._integrator = integrator
        self._dt, self._alpha, self._beta = self._settings[[0, 2, 3]].tolist()
        self._gravity = checked_array("gravity", gravity, (3,)).copy()
        self._steps = 0
        self._begin(model)

    @abstractmethod
    def _begin(self, model: Body) -> None:
        """Lay out a model's arrays, at rest."""

    @abstractmethod
    def _exchange(self, model: Any) -> None:
        """Continue with another model of the same modes; on an error nothing changes."""

    @property
    def dt(self) -> float:
        """Time step in s."""
        return self._dt

    @property
    def integrator(self) -> str:
        """Name of the integrator, such as ``"newmark"``."""
        return self._integrator

    @property
    def alpha(self) -> float:
        """Damping by mass, in 1/s."""
        return self._alpha

    @property
    def beta(self) -> float:
        """Damping by stiffness, in s."""
        return self._beta

    @property
    def iterations(self) -> int:
        """Largest number of linearisations of elastic forces in a step."""
        return int(self._counts[0])

    @property
    def time(self) -> float:
        """Seconds since the reset."""
        return self._steps * self._dt

    @property
    def q(self) -> Floats:
        """Reduced displacement, for a free body in its frame, (r,): a copy."""
        return self._state[POSITION].copy()

    @property
    def velocity(self) -> Floats:
        """Velocity of q, (r,): a copy."""
        return self._state[VELOCITY].copy()

    @property
    def shifted_steps(self) -> int:
        """Number of steps since `reset` whose system was not positive definite."""
        return int(self._counts[1])

    @property
    def unconverged_steps(self) -> int:
        """Number of steps since `reset` that did not converge; with one iteration, few converge."""
        return int(self._counts[2])

    @property
    def inverted_steps(self) -> int:
        """Number of steps since `reset` in which parts of the body were inverted."""
        return int(self._counts[3])

    def set_material(self, group: int = 0, **changed: Unpack[MaterialChange]) -> None:
        """Change the material of a group while the body moves; see `StvkModel.with_material`.

        Position and velocity stay; with another density momenta change.
        """
        self._exchange(self.model.with_material(group, **changed))

    def _checked_start(
        self, q: ArrayLike | None, velocity: ArrayLike | None
    ) -> tuple[Floats, Floats]:
        """Return q and its velocity for a reset; by default undeformed and at rest."""
        r = self.model.modes
        at = np.zeros(r) if q is None else checked_array("q", q, (r,))
        return at, np.zeros(r) if velocity is None else checked_array("velocity", velocity, (r,))

    def _stepped(self, shifted: Any, inverted: Any) -> StvkStep:
        """Report a step; `shifted` and `inverted` are the numbers of such steps before it."""
        self._steps += 1
        limits: tuple[str, ...] = () if self._counts[1] == shifted else ("stiffness",)
        if self._counts[3] != inverted:
            limits += ("inversion",)
        return StvkStep(self._steps * self._dt, limits)

    def _run(self, count: int, make: Callable[[], int], kept: tuple[NDArray, ...]) -> None:
        """Make `count` steps by `make`; if it makes fewer, restore the arrays `kept` and raise."""
        start = [array.copy() for array in kept]
        steps_made = make() if count else 0
        if steps_made != count:
            for array, was in zip(kept, start, strict=True):
                array[:] = was
            self._diverged(steps_made)
        self._steps += count

    def _diverged(self, made: int) -> None:
        self._system[:] = padded_identity(self.model.modes)  # it may not be finite
        self._counts[FACTORISED] = 0
        when = self.time + made * self.dt
        raise SolverError(f"the simulation diverges at {when:.3f} s; {self._cure}")

    def _place_surface(self, out: Singles) -> None:
        """Write the surface in the body's frame, (n̄, 3), to `out`."""
        q = self._state[POSITION].astype(np.float32)
        np.dot(self._surface_basis, q, out=out.reshape(-1))
        out += self._surface_rest


def _step_settings(
    dt: float, integrator: str, alpha: float, beta: float, newmark: tuple[float, float] | None
) -> Floats:
    """Return settings for kernels, see `stvk_step.STEP`; the tolerance is set later."""
    h = checked_number("dt", dt)
    if not 1e-12 <= h <= 1e9:
        raise SuppleError(f"dt must be a positive number, not {dt}")
    damping = checked_number("alpha", alpha), checked_number("beta", beta)
    for name, value in zip(("alpha", "beta"), damping, strict=True):
        if value < 0:
            raise SuppleError(f"{name} is {value}; it must not be negative")
    if newmark is None and integrator != CENTRAL:
        tau = integrator_named(integrator, lambda row: row.trapezoidal).stage * h
        return np.array([h, tau, *damping, 0.0, tau, 0.0])
    if newmark is None:
        newmark = (0.0, 0.5)
    elif integrator != "newmark":
        raise SuppleError(f'newmark= is for integrator "newmark", not {integrator!r:.40}')
    weight, gamma = checked_array("newmark", newmark, (2,)).tolist()
    if not (0 <= weight <= 0.5 and 0.5 <= gamma <= 1):
        raise SuppleError(
            f"newmark {newmark} must be a β from 0 to ½ and a γ from ½ to 1; a smaller γ adds "
            "energy in every step"
        )
    return np.array(
        [h, gamma * h, *damping, 0.0, weight / gamma * h, (0.5 - weight / gamma) * h**2]
    )


def _checked_tolerance(tolerance: float) -> float:
    """Return the tolerance, from 0 to 1."""
    value = checked_number("tolerance", tolerance)
    if not 0 <= value <= 1:
        raise SuppleError(f"tolerance is a fraction of the body's size, 0 to 1, not {tolerance}")
    return value


def check_step_size(model: StvkModel | CubicModel, settings: Floats) -> None:
    """Raise an error for a step with which the fastest mode at rest grows.

    Newmark's method with γ > 2β is stable for ωh < 1/√(γ/2 − β).
    """
    h = settings[STEP]
    if settings[STAGE] == settings[TAU]:
        return
    excess = settings[TAU] / h / 2 - settings[STAGE] * settings[TAU] / h**2
    if excess <= 1e-12:
        return
    r, stiffness = model.modes, np.zeros((model.modes, model.modes))
    stiffness[np.triu_indices(r)] = model.tangent[:, 0]
    fastest = sl.eigvalsh(stiffness, model.mass, lower=False, subset_by_index=[r - 1, r - 1])[0]
    if h * math.sqrt(max(fastest * excess, 0.0)) >= 1:
        longest = 1 / math.sqrt(fastest * excess)
        raise SuppleError(
            f"dt is {h:.3g} s, but this integrator is stable only below {longest:.3g} s, the limit "
            "of the body's fastest mode; use smaller steps or fewer modes"
        )


def _iteration_counts(iterations: int) -> Ints:
    """Return [Newton iterations, 0, 0, 0, 0] for the counts of `StepArrays`."""
    count = checked_count("iterations", iterations)
    if count > _MOST_ITERATIONS:
        raise SuppleError(f"{count} iterations are too many; use at most {_MOST_ITERATIONS}")
    return np.array([count, 0, 0, 0, 0], np.int64)


def check_trace(steps: int, columns: int) -> None:
    """Raise an error if (steps, columns) numbers need more than 4 GB."""
    if 8 * steps * columns > _LARGEST_TRACE:
        raise SuppleError(f"{steps} steps at once are too many to store; run them in parts")


def _checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type; raise an error unless it is float32 or float64."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise SuppleError(f"dtype must be float32 or float64, not {dtype!r:.40}")
    return kind


def coefficient_arrays(
    model: StvkModel | CubicModel, dtype: np.dtype[Any]
) -> tuple[NDArray, NDArray, NDArray, Floats]:
    """Return blocks of K₂, rows of K₁, scratch for their sums, and K₀ and M with scratch."""
    r, pairs, size = model.modes, pair_count(model.modes), padded_pairs(model.modes)
    packed, linear = np.zeros((PACKED_ROWS, size)), np.zeros((r, size), dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # cached properties are computed here
        packed[K0, :pairs] = model.tangent[:, 0]
        packed[MASS, :pairs] = model.mass[np.triu_indices(r)]
        linear[:, :pairs] = model.tangent[:, 1 : 1 + r].T
        blocks = quadratic_blocks(model.tangent, r, dtype)
    if not np.isfinite(packed[MASS]).all():
        raise SuppleError("the body's mass is not finite; give it another density")
    if not all(np.isfinite(each).all() for each in (packed[K0], linear, blocks)):
        if dtype == np.float32 and np.isfinite(model.tangent).all():
            raise SuppleError("the body's coefficients do not fit float32; use float64")
        raise SuppleError("the body's stiffness is not finite; give it a softer material")
    return blocks, linear, np.zeros((TERM_ROWS, size), dtype), packed


def finite_weight(model: StvkModel | CubicModel, gravity: Floats) -> Floats:
    """Return UᵀM g, the reduced weight (r,), read-only."""
    with np.errstate(over="ignore", invalid="ignore"):
        weight = model.weight(gravity)
    if not np.isfinite(weight).all():
        raise SuppleError("the body's weight is not finite; use less gravity")
    weight.flags.writeable = False
    return weight


def acceleration_by(model: StvkModel | CubicModel, force: Floats) -> Floats:
    """Return M⁻¹ f, (r,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        acceleration: NDArray[Any] = np.linalg.solve(model.mass, force)
    if not np.isfinite(acceleration).all():
        raise SolverError("forces at the start are not finite; start nearer to rest")
    return acceleration


def first_acceleration(
    model: StvkModel | CubicModel, weight: Floats, settings: Floats, q: Floats, velocity: Floats
) -> Floats:
    """Return the acceleration of a body released at q with this velocity, (r,)."""
    alpha, beta = settings[2:4]
    with np.errstate(over="ignore", invalid="ignore"):
        damped = alpha * (model.mass @ velocity) + beta * (model.stiffness(q) @ velocity)
        acting = weight - model.force(q) - damped
    return acceleration_by(model, acting)


def largest_change(model: StvkModel | CubicModel, tolerance: float) -> float:
    """Return the change of q that moves a vertex by this fraction of the body's size."""
    if isinstance(model, StvkModel):
        where, basis = model.rest, model.basis
    elif 0 < model.scale < math.inf or not model.has_surface:  # not all vertices are known
        return tolerance * (model.scale if 0 < model.scale < math.inf else 1.0)
    else:
        where, basis = model.surface.vertices, model.surface_basis
    reach = float(np.sqrt((basis**2).sum(axis=(1, 2)).max()))
    size = float(np.ptp(where, axis=0).max())
    return tolerance * (size / reach if size > 0 and reach > 0 else 1.0)


def surface_arrays(model: StvkModel | CubicModel) -> tuple[Singles, Singles]:
    """Return the surface at rest, (n̄, 3), and its basis, (3n̄, r); n̄ = 0 without a surface."""
    if isinstance(model, CubicModel) and not model.has_surface:
        return np.empty((0, 3), np.float32), np.empty((0, model.modes), np.float32)
    rest = model.surface.vertices.astype(np.float32)
    return rest, model.surface_basis.astype(np.float32).reshape(-1, model.modes)
