"""Energy densities: derivatives, rest, invariance, limits."""

import numpy as np
import pytest

from supple.elastic.densities.density import lame_parameters
from supple.elastic.densities.dispatch import (
    MATERIALS,
    energy_density,
    stress,
    stress_derivative,
)
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.maths.small_matrices import project_psd, rotation_svd

KINDS = list(MATERIALS)
ISOTROPIC = [kind for kind in KINDS if MATERIALS[kind].isotropic]


def rotation(rng: np.random.Generator) -> np.ndarray:
    q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return q * np.sign(np.linalg.det(q))


def material(kind: str, rng: np.random.Generator) -> Material:
    if MATERIALS[kind].isotropic:
        return Material(kind, young=1e4, poisson=0.3)
    return Material(
        kind,
        young=(3e4, 1e4, 2e4),
        poisson=(0.2, 0.3, 0.1),
        axes=rotation(rng),
        saturation=5e3,
    )


class Density:
    """One material at one point, in plain NumPy clothes."""

    def __init__(self, material: Material) -> None:
        self.kind, self.p = material.code, material.element_parameters(1)[0]
        self.scratch = np.empty((6, 3, 3))

    def energy(self, F: np.ndarray) -> float:
        return energy_density(self.kind, F, self.p, self.scratch)

    def stress(self, F: np.ndarray) -> np.ndarray:
        P = np.empty((3, 3))
        stress(self.kind, F, self.p, P, self.scratch)
        return P

    def derivative(self, F: np.ndarray) -> np.ndarray:
        H = np.empty((9, 9))
        stress_derivative(self.kind, F, self.p, H, self.scratch)
        return H


def deformations(rng: np.random.Generator, count: int = 60):
    """Random F: mild, wild, near-inverted on both sides, inverted."""
    for trial in range(count):
        F = np.eye(3) + 0.3 * rng.normal(size=(3, 3))
        if trial % 3 == 1:
            U, sigma, Vt = np.linalg.svd(F)
            sigma[2] = (1e-4, -1e-4, 1e-2, -0.5)[trial // 3 % 4]
            F = U @ np.diag(sigma) @ Vt
        elif trial % 3 == 2:
            F = 0.8 * rng.normal(size=(3, 3))
        yield F


def central_difference(function, F: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """Fourth-order differences of function(F) by each entry of F, on the last axis."""
    columns = []
    for i in range(9):
        step = h * np.eye(9)[i].reshape(3, 3)
        near = np.asarray(function(F + step)) - function(F - step)
        far = np.asarray(function(F + 2 * step)) - function(F - 2 * step)
        columns.append((8 * near - far) / (12 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("kind", KINDS)
def test_stress_is_the_derivative_of_energy_and_its_derivative_that_of_stress(kind):
    rng = np.random.default_rng(1)
    for F in deformations(rng):
        density = Density(material(kind, rng))
        P, H = density.stress(F), density.derivative(F)
        np.testing.assert_allclose(
            central_difference(density.energy, F).reshape(3, 3), P, atol=1e-6 * np.abs(P).max()
        )
        numeric = central_difference(density.stress, F).reshape(9, 9)
        np.testing.assert_allclose(numeric, H, atol=1e-6 * np.abs(H).max())
        np.testing.assert_allclose(H, H.T, atol=1e-13 * np.abs(H).max())


@pytest.mark.parametrize("kind", KINDS)
def test_rest_has_no_energy_no_stress_and_energy_ignores_rotation(kind):
    rng = np.random.default_rng(2)
    density = Density(material(kind, rng))
    R = rotation(rng)
    assert density.energy(np.eye(3)) == 0
    assert abs(density.energy(R)) < 1e-9
    assert np.abs(density.stress(R)).max() < 1e-9 * 1e4
    for F in deformations(rng, 12):
        assert density.energy(R @ F) == pytest.approx(density.energy(F), rel=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_small_strain_behaviour_is_that_of_young_and_poisson(kind):
    mu, lam = lame_parameters(1e4, 0.3)
    identity, swap = np.eye(9), np.eye(9).reshape(3, 3, 3, 3).swapaxes(2, 3).reshape(9, 9)
    hooke = mu * (identity + swap) + lam * np.outer(np.eye(3), np.eye(3))
    ours = Density(Material(kind, young=1e4, poisson=0.3)).derivative(np.eye(3))
    np.testing.assert_allclose(ours, hooke, atol=1e-10 * hooke.max())


def test_orthotropic_young_moduli_are_those_along_the_axes():
    rng = np.random.default_rng(3)
    axes = rotation(rng)
    young = (3e4, 1e4, 2e4)
    density = Density(Material("orthotropic", young=young, poisson=(0.2, 0.3, 0.1), axes=axes))
    for axis, modulus in enumerate(young):
        # Uniaxial stress along the axis: solve for the strain, read the modulus off it.
        target = np.outer(axes[:, axis], axes[:, axis]).reshape(-1)
        strain, *_ = np.linalg.lstsq(density.derivative(np.eye(3)), target, rcond=1e-10)
        along = axes[:, axis] @ strain.reshape(3, 3) @ axes[:, axis]
        assert 1 / along == pytest.approx(modulus, rel=1e-10)


def test_orthotropic_exponential_continues_smoothly_and_never_overflows():
    density = Density(Material("orthotropic", young=1e4, poisson=0.3, saturation=1e3))
    stretches = np.linspace(1.0, 2.5, 400)
    energies = np.array([density.energy(np.diag([s, 1.0, 1.0])) for s in stretches])
    second = np.diff(energies, 2)
    assert (second > 0).all()
    # A jump in the second derivative at the joint would show as a spike between neighbours.
    assert (np.abs(np.diff(second)) < 0.15 * second[1:]).all()
    far = np.diag([1e3, 1.0, 1.0])
    assert np.isfinite(density.energy(far))
    assert np.isfinite(density.derivative(far)).all()


def saturating(**options) -> Density:
    return Density(Material("saturating", **({"young": 1e4, "poisson": 0.45} | options)))


def test_saturating_flesh_behaves_like_its_constants_at_small_strain():
    lam, mu = 0.45 * 1e4 / (1.45 * 0.1), 1e4 / 2.9
    identity, swap = np.eye(9), np.eye(9).reshape(3, 3, 3, 3).swapaxes(2, 3).reshape(9, 9)
    hooke = mu * (identity + swap) + lam * np.outer(np.eye(3), np.eye(3))
    np.testing.assert_allclose(saturating().derivative(np.eye(3)), hooke, atol=1e-9 * hooke.max())


@pytest.mark.parametrize("poisson", [0.2, 0.45, 0.49])
@pytest.mark.parametrize("ways", [(1, 0, 0), (1, 1, 1)])
def test_saturating_flesh_resists_compression_to_a_tenth_of_its_volume(poisson, ways):
    """dΨ/dJ falls as J does: the more flesh is crushed, the more it pushes."""
    volumes = np.linspace(1.0, 0.1, 200)
    stretched = [np.diag(np.where(ways, j ** (1 / sum(ways)), 1.0)) for j in volumes]

    def slopes(density):
        energies = [density.energy(F) for F in stretched]
        return np.gradient(energies, volumes)[2:-2]

    pushes = slopes(saturating(poisson=poisson))
    assert (pushes < 0).all()
    if poisson > 0.4:
        assert (np.diff(pushes) < 0).all()
    if sum(ways) == 1:
        fung = slopes(Density(Material("orthotropic", young=1e4, poisson=poisson, saturation=1e9)))
        assert (np.diff(fung) > 0).any()


def test_saturating_flesh_stiffens_to_a_limit_however_far_it_is_stretched():
    density = saturating(saturation=10.0)
    soft = saturating(saturation=1e20)
    for stretch, least in ((1.5, 5.0), (3.0, 7.0), (100.0, 7.3)):
        # Shear, which keeps the volume.
        F = np.array([[1.0, stretch, 0], [0, 1, 0], [0, 0, 1]])
        ratio = density.stress(F)[0, 1] / soft.stress(F)[0, 1]
        assert least < ratio < np.exp(2.0)


def test_saturating_flesh_is_stiffer_along_its_fibres():
    rng = np.random.default_rng(3)
    axes = rotation(rng)
    density = saturating(young=(4e4, 1e4, 1e4), poisson=0.3, axes=axes)
    pulls = []
    for axis in range(3):
        way = axes[:, axis]
        pulls.append(way @ density.stress(np.eye(3) + 0.1 * np.outer(way, way)) @ way)
    assert pulls[0] > 2 * pulls[1]
    assert pulls[1] == pytest.approx(pulls[2])


def test_neo_hookean_pushes_an_inverted_element_back():
    density = Density(Material("neo-hookean", young=1e4, poisson=0.45))
    flattened = [density.energy(np.diag([1.0, 1.0, s])) for s in np.linspace(1.0, -1.0, 21)]
    assert (np.diff(flattened) > 0).all()


def test_yeoh_flesh_stiffens_in_shear_up_to_a_bound_and_not_at_small_strains():
    soft = Density(Material("neo-hookean", young=1e4, poisson=0.45))
    flesh = Density(Material("yeoh", young=1e4, poisson=0.45))

    def firmer(shear: float) -> float:
        F = np.eye(3)
        F[0, 1] = shear
        return flesh.stress(F)[0, 1] / soft.stress(F)[0, 1]

    assert firmer(0.2) == 1.0
    assert 2 < firmer(0.5) < 4
    assert firmer(1.0) > firmer(0.5)
    assert firmer(100.0) < 8


def test_yeoh_stiffening_adds_no_negative_stiffness():
    rng = np.random.default_rng(3)
    soft = Density(Material("neo-hookean", young=1e4, poisson=0.45))
    flesh = Density(Material("yeoh", young=1e4, poisson=0.45))
    for F in deformations(rng):
        added = np.linalg.eigvalsh(flesh.derivative(F) - soft.derivative(F))
        assert added[0] >= -1e-9 * max(added[-1], 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_projection_is_the_nearest_positive_semidefinite_matrix(kind):
    rng = np.random.default_rng(4)
    indefinite = 0
    for trial, F in enumerate(deformations(rng, 90)):
        if trial % 10 == 0:
            F = 0.8 * np.eye(3)  # three equal singular values
        H = Density(material(kind, rng)).derivative(F)
        values, vectors = np.linalg.eigh(H)
        nearest = (vectors * np.maximum(values, 0)) @ vectors.T
        indefinite += values[0] < 0
        size = np.abs(H).max()
        project_psd(F, MATERIALS[kind].isotropic, H, np.empty((2, 9, 9)))
        np.testing.assert_allclose(H, nearest, atol=1e-12 * size)
    assert indefinite > 20


def test_rotation_svd_reproduces_the_matrix_with_rotations_for_any_rank():
    rng = np.random.default_rng(5)
    ranks = [np.zeros((3, 3)), np.outer([1, 2, 3.0], [0, 1, 1.0]), np.diag([1.0, 1.0, 0.0])]
    U, sigma, V = np.empty((3, 3)), np.empty(3), np.empty((3, 3))
    for F in [*deformations(rng), *ranks, -np.eye(3), 1e-9 * np.eye(3), 1e9 * np.eye(3)]:
        rotation_svd(F, U, sigma, V)
        size = max(np.abs(F).max(), 1e-300)
        np.testing.assert_allclose(U @ np.diag(sigma) @ V.T, F, atol=1e-13 * size)
        np.testing.assert_allclose([U.T @ U, V.T @ V], [np.eye(3)] * 2, atol=1e-13)
        assert np.linalg.det(U) == pytest.approx(1)
        assert np.linalg.det(V) == pytest.approx(1)
        np.testing.assert_allclose(
            np.abs(sigma), np.linalg.svd(F, compute_uv=False), atol=1e-13 * size
        )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kind": "rubber"}, "stvk, neo-hookean"),
        ({"young": -1.0}, "positive"),
        ({"young": np.nan}, "finite"),
        ({"young": "stiff"}, "number"),
        ({"poisson": 0.5}, r"0\.49"),
        ({"poisson": -1.0}, "between"),
        ({"density": 0.0}, "density"),
        ({"kind": "stvk", "saturation": 1.0}, "orthotropic"),
    ],
)
def test_impossible_constants_are_errors_with_a_remedy(arguments, words):
    with pytest.raises(SuppleError, match=words):
        Material(**arguments)


def test_wrong_numbers_of_per_tet_constants_and_unstable_orthotropy_are_errors():
    with pytest.raises(SuppleError, match=r"shape \(2,\).*\(5,\)"):
        Material("stvk", young=[1.0, 2.0]).element_parameters(5)
    with pytest.raises(SuppleError, match="no stable material"):
        Material("orthotropic", young=(1e2, 1e4, 1e4), poisson=0.49).element_parameters(1)
    with pytest.raises(SuppleError, match="orthonormal"):
        Material("orthotropic", axes=2 * np.eye(3)).element_parameters(1)
