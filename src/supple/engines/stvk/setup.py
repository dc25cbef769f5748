"""What a Saint Venant–Kirchhoff simulator is set up with: options, checked, and arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from supple.arrays import Floats, Singles
from supple.checks import checked_count, checked_number
from supple.engines.stvk.coefficients import pair_count
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.stvk_step import (
    K0,
    MASS,
    PACKED_ROWS,
    TERM_ROWS,
    padded_pairs,
    quadratic_blocks,
)
from supple.errors import SolverError, SuppleError

__all__ = [
    "acceleration_by",
    "check_trace",
    "checked_dtype",
    "checked_out",
    "coefficient_arrays",
    "finite_weight",
    "first_acceleration",
    "iteration_counts",
    "step_settings",
    "surface_arrays",
    "tolerance",
]


INTEGRATORS = ("newmark", "backward-euler")
#: Newton ends when an iteration moves no vertex farther than this part of the body's size.
_TOLERANCE = 1e-10
#: A step cannot be interrupted; Newton's method that has not ended by then does not.
_MOST_ITERATIONS = 1000
#: Bytes of what all steps of a run leave.
_LARGEST_TRACE = 4 * 2**30


def step_settings(dt: float, integrator: str, alpha: float, beta: float) -> Floats:
    """h, τ, α, β and room for the tolerance, as kernels read them."""
    if integrator not in INTEGRATORS:
        raise SuppleError(f"no integrator {integrator!r:.40}; there are {', '.join(INTEGRATORS)}")
    h = checked_number("dt", dt)
    if not 1e-12 <= h <= 1e9:
        raise SuppleError(f"dt must be a positive number, not {dt}")
    damping = checked_number("alpha", alpha), checked_number("beta", beta)
    for name, value in zip(("alpha", "beta"), damping, strict=True):
        if value < 0:
            raise SuppleError(f"{name} must not be negative, as {value} is")
    return np.array([h, h / 2 if integrator == "newmark" else h, *damping, 0.0])


def iteration_counts(iterations: int) -> NDArray[np.int64]:
    """Newton iterations, and two counters of steps."""
    count = checked_count("iterations", iterations)
    if count > _MOST_ITERATIONS:
        raise SuppleError(f"{count} iterations are too many; use at most {_MOST_ITERATIONS}")
    return np.array([count, 0, 0], np.int64)


def check_trace(steps: int, columns: int) -> None:
    """Refuse a run whose steps leave more numbers, so many each, than should be kept."""
    if 8 * steps * columns > _LARGEST_TRACE:
        raise SuppleError(f"{steps} steps at once are too many to keep; run them in parts")


def checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """float32 or float64."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise SuppleError(f"dtype must be float32 or float64, not {dtype!r:.40}")
    return kind


def checked_out(out: Singles | None, shape: tuple[int, ...]) -> Singles:
    """Where a surface can go: what is given, or a new array."""
    if out is None:
        return np.empty(shape, np.float32)
    if not (
        isinstance(out, np.ndarray)
        and (out.dtype, out.shape) == (np.float32, shape)
        and out.flags.c_contiguous
        and out.flags.writeable
    ):
        raise SuppleError(f"out must be a contiguous float32 array of shape {shape}")
    return out


def coefficient_arrays(
    model: StvkModel | CubicModel, dtype: np.dtype[Any]
) -> tuple[NDArray, NDArray, NDArray, Floats]:
    """Blocks of K₂, rows of K₁, scratch for their sums, and K₀ and M with scratch."""
    r, pairs, size = model.modes, pair_count(model.modes), padded_pairs(model.modes)
    packed, linear = np.zeros((PACKED_ROWS, size)), np.zeros((r, size), dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # they may be computed only now
        packed[K0, :pairs] = model.tangent[:, 0]
        packed[MASS, :pairs] = model.mass[np.triu_indices(r)]
        linear[:, :pairs] = model.tangent[:, 1 : 1 + r].T
        blocks = quadratic_blocks(model.tangent, r, dtype)
    if not np.isfinite(packed[MASS]).all():
        raise SuppleError("the body's mass is beyond all numbers; give it another density")
    if not all(np.isfinite(each).all() for each in (packed[K0], linear, blocks)):
        if dtype == np.float32 and np.isfinite(model.tangent).all():
            raise SuppleError("the body's coefficients do not fit float32; use float64")
        raise SuppleError("the body's stiffness is beyond all numbers; give it a softer material")
    return blocks, linear, np.zeros((TERM_ROWS, size), dtype), packed


def finite_weight(model: StvkModel | CubicModel, gravity: Floats) -> Floats:
    """UᵀM g, (r,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        weight = model.weight(gravity)
    if not np.isfinite(weight).all():
        raise SuppleError("the body's weight is beyond all numbers; use less gravity")
    weight.flags.writeable = False
    return weight


def acceleration_by(model: StvkModel | CubicModel, force: Floats) -> Floats:
    """M⁻¹ f, (r,)."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: NDArray[Any] = np.linalg.solve(model.mass, force)
    if not np.isfinite(found).all():
        raise SolverError("forces there are beyond all numbers; begin nearer to rest")
    return found


def first_acceleration(
    model: StvkModel | CubicModel, weight: Floats, settings: Floats, q: Floats, velocity: Floats
) -> Floats:
    """That of a body let go at q with this velocity, (r,)."""
    alpha, beta = settings[2:4]
    with np.errstate(over="ignore", invalid="ignore"):
        damped = alpha * (model.mass @ velocity) + beta * (model.stiffness(q) @ velocity)
        acting = weight - model.force(q) - damped
    return acceleration_by(model, acting)


def tolerance(model: StvkModel | CubicModel) -> float:
    """A change of q that moves no vertex farther than is worth another iteration."""
    if isinstance(model, StvkModel):
        where, basis = model.rest, model.basis
    elif 0 < model.scale < math.inf or not model.has_surface:  # vertices are not all known, if any
        return _TOLERANCE * (model.scale if 0 < model.scale < math.inf else 1.0)
    else:
        where, basis = model.surface.vertices, model.surface_basis
    reach = float(np.sqrt((basis**2).sum(axis=(1, 2)).max()))
    size = float(np.ptp(where, axis=0).max())
    return _TOLERANCE * (size / reach if size > 0 and reach > 0 else 1.0)


def surface_arrays(model: StvkModel | CubicModel) -> tuple[Singles, Singles]:
    """What is seen at rest, (3n̄,), and its basis, (3n̄, r): nothing where there is no surface."""
    if isinstance(model, CubicModel) and not model.has_surface:
        return np.empty(0, np.float32), np.empty((0, model.modes), np.float32)
    rest = model.surface.vertices.astype(np.float32).reshape(-1)
    return rest, model.surface_basis.astype(np.float32).reshape(-1, model.modes)
