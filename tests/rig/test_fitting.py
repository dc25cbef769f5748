"""Fitting tets to a posed surface: derivatives, monotone energies, limits."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.transform import Rotation

from supple.errors import SuppleError
from supple.mesh.embedding import embed
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.tets import fitting
from supple.rig.tets.fitting import PoseFitter, VolumeGuard, kronecker_in
from supple.rig.tets.surface_samples import SurfaceSamples, typical_edge
from supple.scenes.bodies.beam import beam


def boxed(cells=(6, 2, 2)) -> tuple[TetMesh, SurfaceMesh, SurfaceSamples]:
    mesh = beam((1.0, 0.3, 0.3), cells)
    surface, _ = mesh.surface()
    surface = SurfaceMesh(0.97 * surface.vertices, surface.triangles)
    return mesh, surface, SurfaceSamples.of(surface, mesh)


def bent(points: np.ndarray, angle: float) -> np.ndarray:
    """Rolled up about z, so that x becomes an arc through `angle`."""
    x, y, z = points.T
    radius = 1 / angle - (y - 0.15)
    return np.column_stack([radius * np.sin(angle * x), 1 / angle - radius * np.cos(angle * x), z])


def test_samples_are_as_dense_as_the_tets_and_share_out_the_area():
    mesh = beam((1.0, 0.3, 0.3), (12, 4, 4))
    corners = beam((1.0, 0.3, 0.3), (1, 1, 1))
    coarse = SurfaceMesh(corners.vertices, corners.boundary())
    samples = SurfaceSamples.of(coarse, mesh)
    assert samples.area.sum() == pytest.approx(coarse.areas().sum())
    assert (samples.area > 0).all()
    places = samples.of_surface @ coarse.vertices
    np.testing.assert_allclose(samples.of_tets @ mesh.vertices, places, atol=1e-12)
    near = np.linalg.norm(mesh.surface()[0].vertices[:, None] - places, axis=2).min(axis=1)
    assert near.max() <= typical_edge(mesh)
    # A quadrature that is exact for what is linear on each triangle.
    middles = coarse.vertices[coarse.triangles].mean(axis=1)
    np.testing.assert_allclose(samples.area @ places, coarse.areas() @ middles)


def test_where_triangles_are_small_the_samples_are_the_surfaces_vertices():
    surface, _ = beam(cells=(24, 4, 4)).surface()
    samples = SurfaceSamples.of(surface, beam(cells=(3, 1, 1)))
    assert len(samples.area) == len(surface.vertices)


def test_needles_and_giants_do_not_take_all_memory():
    mesh = beam(cells=(2, 1, 1))
    corners = np.array([[0, 0, 0], [1e9, 0, 0], [0, 1e9, 0], [1, 1, 1]])
    giant = SurfaceMesh(corners, [[0, 1, 2], [0, 1, 3]])
    assert len(SurfaceSamples.of(giant, mesh).area) <= 10 * len(mesh.tets) + 4


def test_the_surface_term_has_its_place_in_the_stiffness_pattern():
    mesh, _, samples = boxed()
    fitter = PoseFitter(mesh, samples)
    scalar = sp.csr_array(samples.of_tets.T @ sp.diags_array(samples.area) @ samples.of_tets)
    matrix = fitter._pattern.zeros()
    matrix.data[:] = kronecker_in(fitter._pattern, scalar)
    difference = matrix - sp.kron(scalar, sp.eye_array(3), format="csr")
    assert np.abs(difference).max() < 1e-15


def test_the_guards_gradient_is_that_of_its_energy_and_its_matrix_that_of_the_squares():
    mesh = beam(cells=(2, 1, 1))
    rng = np.random.default_rng(1)
    x = mesh.vertices + 0.1 * rng.normal(size=mesh.vertices.shape)
    stiffness = 1.7
    body_pattern = fitting.ElasticBody(mesh).pattern
    guard = VolumeGuard(mesh, body_pattern, 0.9)
    gradient, matrix = np.zeros_like(x), body_pattern.zeros()
    guard.add_derivatives(x, stiffness, gradient, matrix.data)
    h = 1e-6
    slopes = np.zeros((x.size, len(mesh.tets)))
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        ahead, behind = (x + sign * step.reshape(x.shape) for sign in (1, -1))
        difference = (guard.energy(ahead, stiffness) - guard.energy(behind, stiffness)) / (2 * h)
        assert gradient.ravel()[i] == pytest.approx(difference, rel=1e-5, abs=1e-9)
        ratios = [TetMesh(y, mesh.tets).volumes() / mesh.volumes() for y in (ahead, behind)]
        slopes[i] = (ratios[0] - ratios[1]) / (2 * h)
    active = TetMesh(x, mesh.tets).volumes() / mesh.volumes() < 0.9
    assert 0 < active.sum() < len(active)
    weight = np.where(active, stiffness * mesh.volumes(), 0)
    np.testing.assert_allclose(matrix.toarray(), (slopes * weight) @ slopes.T, atol=1e-7)


def test_the_fits_gradient_is_that_of_its_objective():
    mesh, surface, samples = boxed(cells=(3, 1, 1))
    fitter = PoseFitter(mesh, samples)
    rng = np.random.default_rng(2)
    x = mesh.vertices + 0.05 * rng.normal(size=mesh.vertices.shape)
    wanted = samples.of_surface @ bent(surface.vertices, 1.0)
    state = fitter._body, 0.3, wanted
    gradient, _ = fitter._derivatives(*state, x)
    for _ in range(5):
        along = rng.normal(size=x.shape)
        h = 1e-6
        ahead, behind = (fitter._objective(*state, x + s * h * along) for s in (1, -1))
        slope = float(np.vdot(gradient, along))
        assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_energy_decreases_monotonically_and_scrambled_starts_end_alike(seed):
    mesh, surface, samples = boxed()
    fitter = PoseFitter(mesh, samples)
    target = bent(surface.vertices, 2.0)
    rng = np.random.default_rng(seed)
    start = bent(mesh.vertices, 2.0) + 0.1 * rng.normal(size=mesh.vertices.shape)
    fit = fitter.fit(target, start)
    assert len(fit.inverted_before) > 0.1 * len(mesh.tets)
    assert all((np.diff(energies) < 0).all() for energies in fit.energies)
    assert len(fit.inverted) == 0
    calm = fitter.fit(target, bent(mesh.vertices, 2.0))
    assert np.abs(fit.positions - calm.positions).max() < 0.02 * fitter.edge


def test_a_rigid_motion_is_fitted_exactly_and_costs_nothing():
    mesh, surface, samples = boxed()
    turn = Rotation.from_rotvec([1.0, -2.0, 0.5])
    fit = PoseFitter(mesh, samples).fit(turn.apply(surface.vertices) + 3, mesh.vertices)
    np.testing.assert_allclose(fit.positions, turn.apply(mesh.vertices) + 3, atol=1e-3)
    assert fit.energies[-1][-1] < 1e-8 * fit.energies[0][0]
    assert fit.largest_error < 1e-3


def test_small_gamma_follows_the_surface_and_large_gamma_keeps_the_shape():
    mesh, surface, samples = boxed()
    target = surface.vertices * [1, 0.6, 1]
    errors, ratios = [], []
    for gamma in (1e-3, 0.4, 100.0):
        fit = PoseFitter(mesh, samples, gamma).fit(target, mesh.vertices)
        errors.append(fit.surface_error)
        ratios.append(TetMesh(fit.positions, mesh.tets).volumes().sum() / mesh.volumes().sum())
    assert errors[0] < 0.002 < errors[1] < errors[2]
    assert ratios[0] == pytest.approx(0.6, abs=0.01)
    assert ratios[0] < ratios[1] < ratios[2] < 1.0 + 1e-6


def test_gamma_means_the_same_whatever_the_size():
    mesh, surface, samples = boxed()
    small = PoseFitter(mesh, samples).fit(bent(surface.vertices, 1.5), mesh.vertices)
    giant = TetMesh(100 * mesh.vertices, mesh.tets)
    skin = SurfaceMesh(100 * surface.vertices, surface.triangles)
    large = PoseFitter(giant, SurfaceSamples.of(skin, giant)).fit(
        100 * bent(surface.vertices, 1.5), giant.vertices
    )
    np.testing.assert_allclose(large.positions / 100, small.positions, atol=1e-6)


def test_errors_are_those_of_the_embedded_surface():
    mesh, surface, samples = boxed()
    target = bent(surface.vertices, 2.5)
    fit = PoseFitter(mesh, samples, 5.0).fit(target, mesh.vertices)
    carried = embed(surface.vertices, mesh) @ fit.positions
    away = np.linalg.norm(carried - target, axis=1)
    assert away.max() <= fit.largest_error + 1e-12
    assert 0.3 * fit.surface_error < np.sqrt((away**2).mean()) < 3 * fit.surface_error


def test_where_the_direct_fit_fails_the_surface_is_followed_from_the_neutral_pose(monkeypatch):
    mesh, surface, samples = boxed()
    fitter = PoseFitter(mesh, samples)
    target = bent(surface.vertices, 2.5)
    calm = fitter.fit(target, bent(mesh.vertices, 2.5))
    asked = []

    def way(part):
        asked.append(part)
        return bent(surface.vertices, 2.5 * part)

    assert len(fitter.fit(target, bent(mesh.vertices, 2.5), path=way).inverted) == len(asked) == 0
    monkeypatch.setattr(fitting._Run, "directly", lambda self, x: x)
    tangled = mesh.vertices * [1, -1, 1]
    for between in (way, None):
        fit = fitter.fit(target, tangled, path=between)
        assert len(fit.inverted_before) == len(mesh.tets)
        assert len(fit.inverted) == 0
        assert np.abs(fit.positions - calm.positions).max() < 0.02 * fitter.edge
    np.testing.assert_allclose(asked, np.arange(1, 8) / 8)


def test_tets_that_nothing_repairs_are_reported(monkeypatch):
    monkeypatch.setattr(fitting, "GUARD", 1e-9)
    mesh, surface, samples = boxed()
    fit = PoseFitter(mesh, samples, 1e-6).fit(
        surface.vertices * [1, -1, 1], mesh.vertices * [1, -1, 1]
    )
    ratios = TetMesh(fit.positions, mesh.tets).volumes() / mesh.volumes()
    np.testing.assert_array_equal(fit.inverted, np.flatnonzero(ratios < fitting.LEAST_VOLUME))
    assert len(fit.inverted) > 0
    assert fit.gamma > 1e-6


def test_fits_factor_nothing_where_the_surface_holds_the_tets(monkeypatch):
    monkeypatch.setattr(fitting, "SparseCholesky", None)
    mesh, surface, samples = boxed()
    fitter = PoseFitter(mesh, samples)
    for angle in (0.5, 1.5, 2.5):
        assert fitter.fit(bent(surface.vertices, angle), mesh.vertices).iterations > 1


def test_systems_that_iterations_do_not_solve_are_factored_with_the_same_result(monkeypatch):
    mesh, surface, samples = boxed()
    target = bent(surface.vertices, 2.0)
    iterated = PoseFitter(mesh, samples).fit(target, mesh.vertices)
    monkeypatch.setattr(fitting, "MOST_ITERATIONS", 0)
    fitter = PoseFitter(mesh, samples)
    factored = fitter.fit(target, mesh.vertices)
    assert "_factor" in vars(fitter)
    assert np.abs(factored.positions - iterated.positions).max() < 0.01 * fitter.edge


@pytest.mark.parametrize(
    ("target", "start", "words"),
    [
        (np.zeros((2, 3)), None, "surface to fit: shape"),
        (None, np.zeros((2, 3)), "start of the fit: shape"),
        (None, np.full((63, 3), np.nan), "not finite"),
    ],
)
def test_impossible_requests_are_errors(target, start, words):
    mesh, surface, samples = boxed()
    assert len(mesh.vertices) == 63
    with pytest.raises(SuppleError, match=words):
        PoseFitter(mesh, samples).fit(
            surface.vertices if target is None else target,
            mesh.vertices if start is None else start,
        )
