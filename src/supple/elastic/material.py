"""Materials of bodies, uniform or per element, and their constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.checks import checked_choice
from supple.compiled.jit import compiled_fused
from supple.elastic.densities.density import finite_numbers, lame_parameters, per_element
from supple.elastic.densities.dispatch import MATERIALS, material_number, set_constants
from supple.errors import SuppleError


@dataclass(frozen=True, eq=False)
class Material:
    """Elastic material; each kind behaves like (E, ν) at small strain.

    Parameters
    ----------
    kind
        ``"stvk"`` (Saint Venant–Kirchhoff), ``"neo-hookean"`` (the stable form, defined for
        inverted elements), ``"yeoh"`` (neo-Hookean with strain stiffening), ``"corotational"``
        (linear), ``"stvk-volume"`` (StVK shear with a volume penalty, hahn2013 eq. 2),
        ``"orthotropic"`` (Fung-type exponential) or ``"saturating"`` (orthotropic with bounded
        stiffening and correct compression; tapia2021 §4.1).
    young
        Young's modulus in Pa: a number, or one per tet. With axes: a number, three (one per
        axis), or three per tet.
    poisson
        Poisson's ratio, likewise. With axes: ν₂₃, ν₁₃, ν₁₂.
    density
        In kg/m³: a number, or one per tet.
    shear
        With axes only: shear moduli G₂₃, G₁₃, G₁₂ in Pa; by default the isotropic value for
        the geometric mean of the two axes' moduli.
    axes
        Orthotropic and saturating only: (3, 3), or (m, 3, 3) with one per tet; the columns are the
        material's axes (fibre first) at rest.
    saturation
        With axes only: the energy density c, in Pa, at which the exponential stiffens; by default
        0.1 of the mean Young's modulus, for ``"saturating"`` 0.3. Large values give orthotropic
        StVK.

    Examples
    --------
    >>> Material("stvk", young=2e4, poisson=0.45).kind
    'stvk'
    """

    kind: str = "neo-hookean"
    young: ArrayLike = 2e4
    poisson: ArrayLike = 0.45
    density: ArrayLike = 1000.0
    shear: ArrayLike | None = None
    axes: ArrayLike | None = None
    saturation: float | None = None

    def __post_init__(self) -> None:
        """Check the constants that do not depend on a mesh."""
        checked_choice("material", self.kind, MATERIALS)
        young, poisson, density = (
            finite_numbers(name, getattr(self, name)) for name in ("young", "poisson", "density")
        )
        if not (young > 0).all():
            raise SuppleError(f"Young's modulus must be positive, not {young.min():g} Pa")
        if not (density > 0).all():
            raise SuppleError(f"density must be positive, not {density.min():g} kg/m³")
        if not ((poisson > -1) & (poisson < 0.5)).all():
            worst = poisson.flat[np.argmax(np.abs(poisson + 0.25))]  # farthest from the middle
            raise SuppleError(
                f"Poisson's ratio must lie between -1 and 0.5 (exclusive), not {worst:g}; "
                "use 0.49 for nearly incompressible tissue"
            )
        if self.isotropic and not (
            self.shear is None and self.axes is None and self.saturation is None
        ):
            raise SuppleError(
                "shear, axes and saturation belong to 'orthotropic' and 'saturating', "
                f"not to {self.kind!r}"
            )

    @property
    def code(self) -> int:
        """Number of this material in compiled kernels."""
        return material_number(self.kind)

    @property
    def isotropic(self) -> bool:
        """Whether the material is isotropic."""
        return MATERIALS[self.kind].isotropic

    def densities(self, n_tets: int) -> Floats:
        """Return the density of each of `n_tets` tets, in kg/m³."""
        return per_element("density", self.density, n_tets)

    def element_parameters(self, n_tets: int) -> Floats:
        """Return the constants of the material's energy density, one row per tet.

        Isotropic materials have constants, mostly (μ, λ), with which small strains behave like (E,
        ν). The orthotropic material has nineteen constants, the saturating one twenty.
        """
        density = MATERIALS[self.kind]
        if density.element_constants is not None:
            return density.element_constants(
                n_tets,
                young=self.young,
                poisson=self.poisson,
                shear=self.shear,
                axes=self.axes,
                saturation=self.saturation,
            )
        young = per_element("young", self.young, n_tets)
        poisson = per_element("poisson", self.poisson, n_tets)
        assert density.constants is not None
        return np.stack(density.constants(*lame_parameters(young, poisson)), axis=1)


@compiled_fused
def pose_parameters(
    kind: int,
    young: Floats,
    poisson: Floats,
    weights: Floats,
    tet: int,
    fixed: Floats,
    out: Floats,
) -> None:
    """Write the row of `Material.element_parameters` of one tet at a pose into `out` (xu2016 §8).
    Young's modulus and Poisson's ratio (m, c) are blended and clamped to the range of the poses, as
    weights may be negative. Where they are empty, (0, c), the row of `fixed` is used.
    """
    if len(young) == 0:
        for k in range(len(out)):
            out[k] = fixed[tet, k]
        return
    mu, lam = blended_moduli(young, poisson, weights, tet)
    set_constants(kind, mu, lam, out)


@compiled_fused
def blended_moduli(young: Floats, poisson: Floats, weights: Floats, tet: int):  # type: ignore[no-untyped-def]
    """Return Lamé's μ and λ of one tet at a pose, as `pose_parameters` blends them."""
    e, n = 0.0, 0.0
    softest, stiffest = young[0, tet], young[0, tet]
    least, most = poisson[0, tet], poisson[0, tet]
    for pose in range(len(weights)):
        e += weights[pose] * young[pose, tet]
        n += weights[pose] * poisson[pose, tet]
        softest, stiffest = min(softest, young[pose, tet]), max(stiffest, young[pose, tet])
        least, most = min(least, poisson[pose, tet]), max(most, poisson[pose, tet])
    e, n = min(max(e, softest), stiffest), min(max(n, least), most)
    return e / (2 * (1 + n)), e * n / ((1 + n) * (1 - 2 * n))
