"""Bounded biharmonic weights: smooth, local, within their bounds."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear

from supple.compiled.jit import at_most_threads
from supple.errors import MeshError, SuppleError, SuppleWarning
from supple.mesh import biharmonic
from supple.mesh.biharmonic import biharmonic_weights
from supple.mesh.tets import TetMesh, cotangent_laplacian
from supple.scenes.bodies.beam import beam


def at(mesh: TetMesh, x: float) -> np.ndarray:
    """Vertices of a beam's cross-section."""
    return np.flatnonzero(np.isclose(mesh.vertices[:, 0], x))


def near(mesh: TetMesh, *points) -> list[np.ndarray]:
    away = [np.linalg.norm(mesh.vertices - point, axis=1) for point in points]
    return [np.array([np.argmin(each)]) for each in away]


def bumpy_beam(cells=(8, 3, 3)) -> TetMesh:
    """A beam without symmetry or regularity."""
    mesh = beam((1.0, 0.3, 0.3), cells)
    shift = 0.015 * np.random.default_rng(5).standard_normal(mesh.vertices.shape)
    return TetMesh(mesh.vertices + shift, mesh.tets).oriented()


def together(*meshes: TetMesh) -> TetMesh:
    offsets = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes])
    tets = [mesh.tets + offset for mesh, offset in zip(meshes, offsets, strict=False)]
    return TetMesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(tets))


def moved(mesh: TetMesh, by) -> TetMesh:
    return TetMesh(mesh.vertices + np.asarray(by), mesh.tets)


def least_squares(mesh: TetMesh, handles) -> np.ndarray:
    """The same weights before they are shared out, by a dense solver for bounded least squares."""
    laplacian = cotangent_laplacian(mesh)
    volumes = np.bincount(mesh.tets.ravel(), np.repeat(mesh.volumes() / 4, 4))
    root = (sp.diags_array(volumes**-0.5) @ laplacian).toarray()
    held = np.concatenate(handles)
    free = np.setdiff1d(np.arange(len(volumes)), held)
    weights = np.zeros((len(volumes), len(handles)))
    for column, handle in enumerate(handles):
        weights[handle, column] = 1.0
        target = -root[:, handle].sum(axis=1)
        solution = lsq_linear(root[:, free], target, (0, 1), method="bvls", tol=1e-14)
        weights[free, column] = solution.x
    return weights


def test_weights_between_two_ends_of_a_bar_are_the_cubic_of_a_clamped_beam():
    # Δ²w = 0 along a bar, level at both ends, is 1 − 3x² + 2x³; the bounds are not needed.
    errors = []
    for cells in (12, 24):
        mesh = beam((1.0, 0.2, 0.2), (cells, cells // 6, cells // 6))
        weights = biharmonic_weights(mesh, [at(mesh, 0.0), at(mesh, 1.0)])
        x = mesh.vertices[:, 0]
        errors.append(np.abs(weights[:, 0] - (1 - 3 * x**2 + 2 * x**3)).max())
        profile = weights[np.argsort(x, kind="stable"), 0].reshape(cells + 1, -1).mean(axis=1)
        assert (np.diff(profile) < 0).all()
    assert errors[0] < 0.005
    assert errors[1] < 0.55 * errors[0]


def test_weights_are_the_minimum_that_a_dense_solver_finds():
    mesh = bumpy_beam((7, 2, 2))
    handles = near(mesh, (0.1, 0.15, 0.15), (0.5, 0, 0.3), (0.9, 0.3, 0))
    wanted = least_squares(mesh, handles)
    assert ((wanted == 0) | (wanted == 1)).mean() > 0.15  # bounds matter here
    total = wanted.sum(axis=1, keepdims=True)
    assert np.abs(total - 1).max() > 1e-3
    np.testing.assert_allclose(biharmonic_weights(mesh, handles), wanted / total, atol=2e-5)


def test_weights_are_in_their_bounds_add_up_to_one_and_are_exact_at_handles():
    mesh = bumpy_beam((16, 4, 4))
    handles = [*near(mesh, (0, 0, 0), (0.4, 0.3, 0.1)), np.flatnonzero(mesh.vertices[:, 0] > 0.9)]
    weights = biharmonic_weights(mesh, handles)
    assert weights.min() == 0.0
    assert weights.max() == 1.0
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-14)
    for column, handle in enumerate(handles):
        assert (weights[handle] == np.eye(3)[column]).all()


def test_weights_without_bounds_would_be_negative_here():
    # The premise of the test above: the same problem, free, goes below zero.
    mesh = bumpy_beam((16, 4, 4))
    handles = [*near(mesh, (0, 0, 0), (0.4, 0.3, 0.1)), np.flatnonzero(mesh.vertices[:, 0] > 0.9)]
    laplacian = cotangent_laplacian(mesh)
    volumes = np.bincount(mesh.tets.ravel(), np.repeat(mesh.volumes() / 4, 4))
    matrix = (laplacian @ sp.diags_array(1 / volumes) @ laplacian).toarray()
    held = np.concatenate(handles)
    free = np.setdiff1d(np.arange(len(volumes)), held)
    load = -matrix[np.ix_(free, handles[0])].sum(axis=1)
    assert np.linalg.solve(matrix[np.ix_(free, free)], load).min() < -0.01


def test_a_symmetric_body_has_symmetric_weights():
    half = bumpy_beam()
    places = half.vertices.copy()
    seam = at(beam((1.0, 0.3, 0.3), (8, 3, 3)), 0.0)
    places[seam, 0] = 0.0
    n = len(places)
    partner = np.concatenate([np.arange(n, 2 * n), np.arange(n)])
    partner[seam] = seam  # both halves have these
    mirrored = partner[:n][half.tets][:, [0, 1, 3, 2]]
    body = TetMesh(np.vstack([places, places * [-1, 1, 1]]), np.vstack([half.tets, mirrored]))
    partner[seam + n] = seam + n
    handles = near(half, (0.3, 0.3, 0.3), (0.9, 0, 0))
    handles += [handle + n for handle in handles]
    weights = biharmonic_weights(body.oriented(), handles)
    used = np.setdiff1d(np.arange(2 * n), seam + n)
    np.testing.assert_allclose(weights[partner[used]][:, [2, 3, 0, 1]], weights[used], atol=2e-5)
    assert weights[seam].min(axis=0).max() > 0.01  # the halves do feel each other


def test_the_same_bytes_every_time_and_for_any_number_of_threads():
    mesh = bumpy_beam((12, 4, 4))
    handles = near(mesh, (0, 0, 0), (0.5, 0.3, 0.1), (1, 0, 0.3))
    first = biharmonic_weights(mesh, handles)
    assert (first == biharmonic_weights(mesh, handles)).all()
    with at_most_threads(1):
        assert (first == biharmonic_weights(mesh, handles)).all()


def test_weights_that_do_not_converge_are_still_weights_with_a_warning(monkeypatch):
    monkeypatch.setattr(biharmonic, "_MOST_EXCHANGES", 1)
    monkeypatch.setattr(biharmonic, "_ITERATIONS", 0)
    mesh = bumpy_beam((16, 4, 4))
    with pytest.warns(SuppleWarning, match="weights of handle . did not converge"):
        weights = biharmonic_weights(mesh, near(mesh, (0, 0, 0), (0.4, 0.3, 0.1), (1, 0, 0)))
    assert weights.min() >= 0
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-3, 1e6])
def test_units_do_not_matter(scale):
    mesh = bumpy_beam()
    handles = near(mesh, (0, 0, 0), (0.5, 0.3, 0.1), (1, 0, 0.3))
    scaled = TetMesh(scale * mesh.vertices + 3 * scale, mesh.tets)
    np.testing.assert_allclose(
        biharmonic_weights(scaled, handles), biharmonic_weights(mesh, handles), atol=2e-6
    )


def test_components_have_the_weights_of_their_own_handles_only():
    first, second = beam(cells=(6, 2, 2)), moved(beam(cells=(6, 2, 2)), (0, 1, 0))
    mesh, n = together(first, second), len(first.vertices)
    handles = [at(first, 0.0), at(first, 1.0), at(first, 1.0) + n]
    weights = biharmonic_weights(mesh, handles)
    assert (weights[:n, 2] == 0).all()
    assert (weights[n:, 2] == 1).all()
    alone = biharmonic_weights(first, handles[:2])
    np.testing.assert_allclose(weights[:n, :2], alone, atol=1e-6)


def test_a_component_without_a_handle_follows_the_nearest_with_a_warning():
    first, crumb = beam(cells=(6, 2, 2)), moved(beam((0.1, 0.1, 0.1), (1, 1, 1)), (1.2, 0, 0))
    mesh, n = together(first, crumb), len(first.vertices)
    with pytest.warns(SuppleWarning, match=f"1 component has no handle .first at vertex {n}"):
        weights = biharmonic_weights(mesh, [at(first, 0.0), at(first, 1.0)])
    assert (weights[n:] == [0, 1]).all()


def test_vertices_of_no_tet_have_their_neighbours_weights():
    bar = beam(cells=(6, 2, 2))
    mesh = TetMesh(np.vstack([[5.0, 0, 0], bar.vertices, [-5.0, 0, 0]]), bar.tets + 1)
    weights = biharmonic_weights(mesh, [at(bar, 0.0) + 1, at(bar, 1.0) + 1])
    assert (weights[0] == [0, 1]).all()
    assert (weights[-1] == [1, 0]).all()
    np.testing.assert_allclose(
        weights[1:-1], biharmonic_weights(bar, [at(bar, 0.0), at(bar, 1.0)]), atol=1e-6
    )


def test_one_handle_has_all_the_weight():
    mesh = beam(cells=(3, 1, 1))
    assert (biharmonic_weights(mesh, [[2]]) == 1).all()


def test_handles_may_hold_every_vertex():
    mesh = beam(cells=(1, 1, 1))
    weights = biharmonic_weights(mesh, [range(4), range(4, 8)])
    assert (weights == np.repeat(np.eye(2), 4, axis=0)).all()


@pytest.mark.parametrize(
    ("handles", "said"),
    [
        ([], "a list of at least one handle"),
        (5, "a list of at least one handle"),
        ([[0], [[1], [2, 3]]], "handle 1 must be a list"),
        ([[]], "handle 0 must be a list of vertex numbers, at least one"),
        ([[0], [1.5]], "handle 1 must be a list"),
        ([[0], [[1]]], "handle 1 must be a list"),
        ([[0], [-1]], "handle 1 has a vertex out of range; use 0 to 15"),
        ([[16]], "out of range; use 0 to 15"),
        ([[0, 1], [2, 1]], "handles 0 and 1 both have vertex 1; move them apart"),
    ],
)
def test_bad_handles_are_errors_with_the_reason(handles, said):
    with pytest.raises(SuppleError, match=said):
        biharmonic_weights(beam(cells=(3, 1, 1)), handles)


def test_inverted_and_flat_tets_are_errors_with_the_reason():
    mesh = beam(cells=(2, 1, 1))
    tets = mesh.tets.copy()
    tets[3] = tets[3][[1, 0, 2, 3]]
    with pytest.raises(MeshError, match="tet 3 is inverted or flat"):
        biharmonic_weights(TetMesh(mesh.vertices, tets), [[0], [7]])
    flat = mesh.vertices.copy()
    flat[:, 2] = 0
    with pytest.raises(MeshError, match="flat"):
        biharmonic_weights(TetMesh(flat, mesh.tets), [[0], [7]])
