"""What a body is made of: constants of the five materials, per element or uniform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused
from supple.elastic.densities.density import NEO_HOOKEAN, STVK_VOLUME
from supple.errors import SuppleError

__all__ = ["MATERIALS", "Material", "lame_parameters", "pose_parameters"]


#: Name of a material → its number in the Numba kernels (`supple.elastic.densities.density`).
MATERIALS = {
    "stvk": 0,
    "neo-hookean": 1,
    "corotational": 2,
    "stvk-volume": 3,
    "orthotropic": 4,
}


def lame_parameters(young: ArrayLike, poisson: ArrayLike) -> tuple[Floats, Floats]:
    """Lamé parameters (μ, λ) of Young's modulus and Poisson's ratio.

    Examples
    --------
    >>> mu, lam = lame_parameters(2.5, 0.25)
    >>> float(mu), float(lam)
    (1.0, 1.0)
    """
    young, poisson = np.asarray(young, np.float64), np.asarray(poisson, np.float64)
    mu = young / (2 * (1 + poisson))
    return mu, young * poisson / ((1 + poisson) * (1 - 2 * poisson))


@dataclass(frozen=True, eq=False)
class Material:
    """An elastic material; every one behaves like (E, ν) at small strain.

    Parameters
    ----------
    kind
        ``"stvk"`` (Saint Venant–Kirchhoff), ``"neo-hookean"`` (the stable form, valid through
        inversion), ``"corotational"`` (linear), ``"stvk-volume"`` (StVK shear with a volume
        penalty, hahn2013 eq. 2) or ``"orthotropic"`` (Fung-type exponential, tapia2021 §4.1).
    young
        Young's modulus in Pa: a number, or one per tet. Orthotropic: a number, three (one per
        axis), or three per tet.
    poisson
        Poisson's ratio, likewise. Orthotropic: ν₂₃, ν₁₃, ν₁₂.
    density
        In kg/m³: a number, or one per tet.
    shear
        Orthotropic only: shear moduli G₂₃, G₁₃, G₁₂ in Pa; by default the isotropic value for
        the mean of the two axes.
    axes
        Orthotropic only: (3, 3), or (m, 3, 3) with one per tet; the columns are the material's
        axes (fibre first) at rest.
    saturation
        Orthotropic only: the energy density c, in Pa, around which the exponential stiffens;
        by default a tenth of the mean Young's modulus. Large values give orthotropic StVK.

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
        """Check what can be checked without a mesh."""
        if self.kind not in MATERIALS:
            raise SuppleError(f"no material {self.kind!r}; there are {', '.join(MATERIALS)}")
        young, poisson, density = (
            _numbers(name, getattr(self, name)) for name in ("young", "poisson", "density")
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
        if self.kind != "orthotropic" and not (
            self.shear is None and self.axes is None and self.saturation is None
        ):
            raise SuppleError(
                f"shear, axes and saturation belong to 'orthotropic', not to {self.kind!r}"
            )

    @property
    def code(self) -> int:
        """Number of this material in the kernels."""
        return MATERIALS[self.kind]

    def densities(self, n_tets: int) -> Floats:
        """Density of each of `n_tets` tets."""
        return _per_tet("density", self.density, n_tets)

    def element_parameters(self, n_tets: int) -> Floats:
        """Constants the kernels read, one row per tet.

        Isotropic materials have two columns (μ, λ), re-mapped where that is needed for the
        linearisation at rest to be that of (E, ν); the orthotropic one has nineteen: the nine
        stiffnesses C₁₁ C₂₂ C₃₃ C₂₃ C₁₃ C₁₂ G₂₃ G₁₃ G₁₂, c, and the axes row by row.
        """
        if self.kind == "orthotropic":
            return _orthotropic_parameters(self, n_tets)
        young = _per_tet("young", self.young, n_tets)
        poisson = _per_tet("poisson", self.poisson, n_tets)
        mu, lam = lame_parameters(young, poisson)
        if self.kind == "neo-hookean":
            # Smith et al. 2018, §3.4: the rest-stable energy has other small-strain constants.
            mu, lam = 4 / 3 * mu, lam + 5 / 6 * mu
            if not (lam > 0).all():
                raise SuppleError(
                    f"neo-hookean needs a Poisson's ratio above -0.6, not {poisson.min():g}"
                )
        elif self.kind == "stvk-volume":
            mu = 2 * mu  # hahn2013 writes ½μ‖E‖² where StVK has μ‖E‖²
        return np.stack([mu, lam], axis=1)


def _numbers(name: str, value: ArrayLike) -> Floats:
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise SuppleError(f"{name} must be a number or an array of numbers") from None
    if array.size == 0 or not np.isfinite(array).all():
        raise SuppleError(f"{name} must be finite numbers, one or one per tet")
    return array


def _per_tet(name: str, value: ArrayLike, n_tets: int, shape: Sequence[int] = ()) -> Floats:
    array, full = _numbers(name, value), (n_tets, *shape)
    try:
        return np.ascontiguousarray(np.broadcast_to(array, full))
    except ValueError:
        raise SuppleError(
            f"{name} has shape {array.shape}; give one value or an array of shape {full}"
        ) from None


def _orthotropic_parameters(material: Material, n_tets: int) -> Floats:
    young = _per_tet("young", material.young, n_tets, (3,))
    poisson = _per_tet("poisson", material.poisson, n_tets, (3,))
    if material.shear is None:
        pairs = young[:, [1, 0, 0]], young[:, [2, 2, 1]]
        shear = np.sqrt(pairs[0] * pairs[1]) / (2 * (1 + poisson))
    else:
        shear = _per_tet("shear", material.shear, n_tets, (3,))
    if not (shear > 0).all():
        raise SuppleError(f"shear moduli must be positive, not {shear.min():g} Pa")
    saturation = 0.1 * young.mean(axis=1) if material.saturation is None else material.saturation
    saturation = _per_tet("saturation", saturation, n_tets)
    if not (saturation > 0).all():
        raise SuppleError(f"saturation must be positive, not {saturation.min():g} Pa")
    axes = _per_tet("axes", np.eye(3) if material.axes is None else material.axes, n_tets, (3, 3))
    if not np.allclose(np.swapaxes(axes, 1, 2) @ axes, np.eye(3), atol=1e-6):
        raise SuppleError("the columns of axes must be orthonormal")

    # Compliance of the normal strains: 1/Eᵢ on the diagonal, −νᵢⱼ/Eᵢ beside it (i < j).
    compliance = np.zeros((n_tets, 3, 3))
    compliance[:, range(3), range(3)] = 1 / young
    for (i, j), nu in zip(((1, 2), (0, 2), (0, 1)), poisson.T, strict=True):
        compliance[:, i, j] = compliance[:, j, i] = -nu / young[:, i]
    stiffness = np.linalg.inv(compliance)
    lowest = np.linalg.eigvalsh(compliance)[:, 0]
    if not (lowest > 0).all():
        raise SuppleError(
            f"the orthotropic constants of tet {int(lowest.argmin())} describe no stable "
            "material; lower Poisson's ratios or bring the moduli closer together"
        )
    normal = stiffness[:, [0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1]]
    return np.hstack([normal, shear, saturation[:, None], axes.reshape(n_tets, 9)])


# ----------------------------------------------------------------------------
# Constants of a material between poses, for compiled loops.


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
    """One row of `Material.element_parameters` at a pose (xu2016 §8).

    Young's modulus and Poisson's ratio (m, c) are blended, and kept within what the poses have:
    weights may be negative, moduli not. With none, (0, c), the row is that of `fixed`.
    """
    if len(young) == 0:
        for k in range(len(out)):
            out[k] = fixed[tet, k]
        return
    e, n = 0.0, 0.0
    softest, stiffest = young[0, tet], young[0, tet]
    least, most = poisson[0, tet], poisson[0, tet]
    for pose in range(len(weights)):
        e += weights[pose] * young[pose, tet]
        n += weights[pose] * poisson[pose, tet]
        softest, stiffest = min(softest, young[pose, tet]), max(stiffest, young[pose, tet])
        least, most = min(least, poisson[pose, tet]), max(most, poisson[pose, tet])
    e, n = min(max(e, softest), stiffest), min(max(n, least), most)
    mu = e / (2 * (1 + n))
    lam = e * n / ((1 + n) * (1 - 2 * n))
    if kind == NEO_HOOKEAN:
        out[0], out[1] = 4 / 3 * mu, lam + 5 / 6 * mu
    elif kind == STVK_VOLUME:
        out[0], out[1] = 2 * mu, lam
    else:
        out[0], out[1] = mu, lam
