"""Elastic energy density Ψ(F) of a material, with its derivatives and constants.

`F` is the 3×3 deformation gradient. A material's file in this folder has its formulas as compiled
functions that allocate nothing, and one `Density` made of them; a row of the table in
`supple.elastic.densities.dispatch` makes it available to all kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.errors import SuppleError


@dataclass(frozen=True, eq=False)
class Density:
    """Elastic energy density of a material, and its derivatives.

    Functions take `F`, a row `p` of the element's constants and `scratch`, (6, 3, 3) float64, and
    write their results to output arrays.

    Parameters
    ----------
    name
        The `kind` of a `Material`, also in model files.
    energy
        Compiled ``energy(F, p, scratch)``: returns Ψ(F) in J/m³, zero at rest.
    stress
        Compiled ``stress(F, p, P, scratch)``: P ← ∂Ψ/∂F, (3, 3), the first Piola–Kirchhoff stress.
    stress_derivative
        Compiled ``stress_derivative(F, p, H, scratch)``: H ← ∂P/∂F, (9, 9) and symmetric; entry
        (3i+j, 3k+l) is ∂P_ij/∂F_kl.
    stress_and_derivative
        Compiled ``stress_and_derivative(F, p, P, H, scratch)``: both at once, where that is
        faster; by default one after the other.
    constants
        For isotropic materials: a formula ``constants(mu, lam)`` that returns a tuple of the
        element's constants from Lamé's parameters of small strain. It is a plain function: it is
        called with arrays of all elements, and kernels compile it for one element.
    element_constants
        For other materials: ``element_constants(n_elements, young=, poisson=, shear=, axes=,
        saturation=)`` returns an array with a row of constants for each element.
    resists_inversion
        Whether inverted elements are pushed back by their forces. For other materials the
        pose-space step does that.
    quartic
        Whether Ψ is a polynomial of degree four in F, so that central differences of ∂P/∂F are
        exact.
    """

    name: str
    energy: Callable[..., Any]
    stress: Callable[..., Any]
    stress_derivative: Callable[..., Any]
    stress_and_derivative: Callable[..., Any] | None = None
    constants: Callable[[Any, Any], tuple[Any, ...]] | None = None
    element_constants: Callable[..., Floats] | None = None
    resists_inversion: bool = False
    quartic: bool = False

    def __post_init__(self) -> None:
        """Check that the constants come from one function."""
        if (self.constants is None) == (self.element_constants is None):
            raise SuppleError(f"material {self.name!r} needs either constants or element_constants")

    @property
    def isotropic(self) -> bool:
        """Whether the material is isotropic."""
        return self.constants is not None


def lame_parameters(young: ArrayLike, poisson: ArrayLike) -> tuple[Floats, Floats]:
    """Return Lamé's parameters (μ, λ) for a Young's modulus and Poisson's ratio.

    Examples
    --------
    >>> mu, lam = lame_parameters(2.5, 0.25)
    >>> float(mu), float(lam)
    (1.0, 1.0)
    """
    young, poisson = np.asarray(young, np.float64), np.asarray(poisson, np.float64)
    mu = young / (2 * (1 + poisson))
    return mu, young * poisson / ((1 + poisson) * (1 - 2 * poisson))


def finite_numbers(name: str, value: ArrayLike) -> Floats:
    """Return `value` as float64; refuse an empty array and numbers that are not finite."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise SuppleError(f"{name} must be a number or an array of numbers") from None
    if array.size == 0 or not np.isfinite(array).all():
        raise SuppleError(f"{name} must be finite: one number, or one per tet")
    return array


def per_element(name: str, value: ArrayLike, n_elements: int, shape: Sequence[int] = ()) -> Floats:
    """Return (n_elements, *shape) numbers from one value for all elements or one for each."""
    array, full = finite_numbers(name, value), (n_elements, *shape)
    try:
        return np.ascontiguousarray(np.broadcast_to(array, full))
    except ValueError:
        raise SuppleError(
            f"{name} has shape {array.shape}; use one value or an array of shape {full}"
        ) from None
