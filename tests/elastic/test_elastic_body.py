"""Forces, stiffness and mass of whole bodies."""

import numba
import numpy as np
import pytest
import scipy.sparse.linalg as spla

from supple.elastic.body import ElasticBody
from supple.elastic.densities.dispatch import MATERIALS
from supple.elastic.material import Material
from supple.errors import MeshError, SuppleError
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam

KINDS = list(MATERIALS)


def crooked_beam(cells=(4, 2, 2)) -> TetMesh:
    """A beam whose vertices are not on a grid, so that no test passes by symmetry."""
    mesh = beam(cells=cells)
    rng = np.random.default_rng(0)
    cell = min(1 / cells[0], 1 / 6 / cells[1])
    return TetMesh(mesh.vertices + 0.1 * cell * rng.normal(size=mesh.vertices.shape), mesh.tets)


def body_of(kind: str) -> ElasticBody:
    mesh = crooked_beam()
    rng = np.random.default_rng(1)
    young = rng.uniform(1e4, 3e4, len(mesh.tets))
    if not MATERIALS[kind].isotropic:
        return ElasticBody(
            mesh, Material(kind, young=young[:, None] * [2.0, 1.0, 1.0], poisson=0.3)
        )
    poisson = rng.uniform(0.1, 0.45, len(mesh.tets))
    return ElasticBody(mesh, Material(kind, young=young, poisson=poisson))


def bent(body: ElasticBody, amount: float = 0.02) -> np.ndarray:
    rng = np.random.default_rng(2)
    return body.rest + amount * rng.normal(size=body.rest.shape)


def derivative_along(d, function, x, h=1e-5):
    """Fourth-order central difference."""
    near = function(x + h * d) - function(x - h * d)
    far = function(x + 2 * h * d) - function(x - 2 * h * d)
    return (8 * near - far) / (12 * h)


@pytest.mark.parametrize("kind", KINDS)
def test_force_is_the_gradient_of_energy_and_stiffness_its_hessian(kind):
    body = body_of(kind)
    x = bent(body, 0.003)
    rest = body.rest @ np.diag([1.1, 0.95, 1.05])  # a rest shape that is not the mesh
    rng = np.random.default_rng(3)
    force, stiffness = body.force(x, rest), body.stiffness(x, rest)
    assert abs(stiffness - stiffness.T).max() == 0
    for _ in range(4):
        d = rng.normal(size=x.shape)
        slope = derivative_along(d, lambda y: body.energy(y, rest), x)
        assert slope == pytest.approx(np.vdot(force, d), rel=1e-6)
        change = derivative_along(d, lambda y: body.force(y, rest), x)
        expected = stiffness @ d.reshape(-1)
        np.testing.assert_allclose(change.reshape(-1), expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
def test_rigid_motion_costs_nothing_and_stiffness_has_six_zero_eigenvalues(kind):
    body = body_of(kind)
    q, _ = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))
    q *= np.sign(np.linalg.det(q))
    moved = body.rest @ q.T + [10.0, -20.0, 5.0]
    typical = np.abs(body.force(bent(body))).max()
    assert np.abs(body.force(moved)).max() < 1e-10 * typical
    values = np.linalg.eigvalsh(body.stiffness(moved).toarray())
    assert np.abs(values[:6]).max() < 1e-10 * values[-1]
    assert values[6] > 1e-6 * values[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_patch_test_a_homogeneous_deformation_leaves_inner_vertices_in_balance(kind):
    body = ElasticBody(crooked_beam((4, 3, 3)), Material(kind, young=1e4, poisson=0.3))
    F = np.array([[1.1, 0.05, 0.0], [0.0, 0.95, 0.1], [0.02, 0.0, 1.05]])
    force = body.force(body.rest @ F.T)
    inner = np.ones(body.n_vertices, bool)
    inner[np.unique(body.mesh.boundary())] = False
    assert inner.sum() > 5
    assert np.abs(force[inner]).max() < 1e-11 * np.abs(force).max()
    energies = body.element_energies(body.rest @ F.T)
    density = energies / body.mesh.volumes()
    np.testing.assert_allclose(density, density[0], rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_projected_stiffness_is_positive_semidefinite_under_any_deformation(kind):
    body = body_of(kind)
    scrambled = np.random.default_rng(5).normal(size=body.rest.shape)
    crushed = bent(body) * [0.5, 0.6, 0.7]
    for x in (scrambled, crushed):
        values = np.linalg.eigvalsh(body.stiffness(x, psd=True).toarray())
        assert values[0] > -1e-10 * values[-1]
    assert np.linalg.eigvalsh(body.stiffness(crushed).toarray())[0] < -1e-3 * values[-1]


def test_results_are_the_same_bits_for_any_number_of_threads():
    body = ElasticBody(crooked_beam((24, 4, 4)), Material("neo-hookean"))
    x = bent(body, 0.005)
    everything = []
    before = numba.get_num_threads()
    try:
        for threads in {1, before}:
            numba.set_num_threads(threads)
            for _ in range(2):
                everything.append(
                    body.force(x).tobytes()
                    + body.stiffness(x, psd=True).data.tobytes()
                    + np.float64(body.energy(x)).tobytes()
                )
    finally:
        numba.set_num_threads(before)
    assert len(set(everything)) == 1


def test_stiffness_keeps_its_pattern_and_is_refilled_in_place():
    body = body_of("stvk")
    first = body.stiffness(body.rest)
    values = first.data.copy()
    second = body.stiffness(bent(body))
    assert second is first
    assert second.data is first.data
    assert not np.array_equal(values, second.data)
    assert np.array_equal(body.stiffness(body.rest).data, values)


def test_mass_is_that_of_the_volume_and_per_tet_densities_add_up():
    mesh = crooked_beam()
    density = np.random.default_rng(6).uniform(900, 1100, len(mesh.tets))
    body = ElasticBody(mesh, Material(density=density))
    total = density @ mesh.volumes()
    assert body.vertex_masses().sum() == pytest.approx(total, rel=1e-12)
    for lumped in (True, False):
        matrix = body.mass(lumped)
        assert matrix.sum() == pytest.approx(3 * total, rel=1e-12)
        assert spla.eigsh(matrix, 1, which="SA", return_eigenvectors=False)[0] > 0


def test_stiff_and_soft_halves_deform_in_inverse_proportion():
    mesh = beam(cells=(8, 1, 1))
    stiff = mesh.vertices[mesh.tets].mean(axis=1)[:, 0] < 0.5
    body = ElasticBody(mesh, Material("stvk", young=np.where(stiff, 3e4, 1e4), poisson=0.0))
    x = mesh.vertices.copy()
    # The same tension in both halves: strain three times smaller in the stiff one.
    x[:, 0] += np.minimum(x[:, 0], 0.5) * 1e-6 + np.maximum(x[:, 0] - 0.5, 0) * 3e-6
    force = body.force(x)
    inner = (mesh.vertices[:, 0] > 0.01) & (mesh.vertices[:, 0] < 0.99)
    assert np.abs(force[inner]).max() < 1e-5 * np.abs(force).max()


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((3, 3)), r"\(3, 3\)"),
        (np.full((45, 3), np.nan), "not finite at row 0"),
    ],
)
def test_bad_positions_are_errors(x, words):
    body = body_of("stvk")
    assert body.n_vertices == 45
    with pytest.raises(SuppleError, match=words):
        body.energy(x)


def test_an_inverted_mesh_or_rest_shape_is_an_error_that_names_it():
    mesh = crooked_beam()
    flipped = mesh.tets.copy()
    flipped[7] = flipped[7][[1, 0, 2, 3]]
    with pytest.raises(MeshError, match=r"1 tets are inverted.*tet 7"):
        ElasticBody(TetMesh(mesh.vertices, flipped))
    body = ElasticBody(mesh)
    for method in (body.energy, body.force, body.stiffness):
        with pytest.raises(MeshError, match="rest shape inverts"):
            method(mesh.vertices, mesh.vertices * [-1.0, 1.0, 1.0])


@pytest.mark.parametrize("around", [255, 256, 511, 512])
def test_any_number_of_tets_may_share_an_edge(around):
    """Fans of as many tets as overflow small integers."""
    angles = np.linspace(0, 2 * np.pi, around, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles), np.zeros(around)], axis=1)
    vertices = np.vstack([[0, 0, -1.0], [0, 0, 1.0], ring])
    number = np.arange(around)
    after = (number + 1) % around
    tets = np.stack([np.zeros(around), np.ones(around), 2 + number, 2 + after], axis=1)
    body = ElasticBody(TetMesh(vertices, tets.astype(int)).oriented(), Material("stvk"))
    direction = np.random.default_rng(0).normal(size=vertices.shape)
    expected = derivative_along(direction, body.force, body.rest).reshape(-1)
    found = body.stiffness(body.rest) @ direction.reshape(-1)
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_a_target_array_must_have_the_shape_and_share_no_input():
    body = body_of("stvk")
    x = bent(body)
    expected = body.force(x)
    mine = np.empty_like(x)
    assert body.force(x, out=mine) is mine
    np.testing.assert_array_equal(mine, expected)
    bad_ones: list = [np.empty((2, 3)), np.empty(x.shape, np.float32), np.asfortranarray(x), x]
    for bad in bad_ones:
        with pytest.raises(SuppleError, match="out must"):
            body.force(x, out=bad)
    own = body.pattern.zeros()
    assert body.stiffness(x, out=own) is own
    np.testing.assert_array_equal(own.data, body.stiffness(x).data)


def test_lists_float32_and_read_only_arrays_are_taken():
    body = body_of("stvk")
    x = bent(body).astype(np.float32).astype(np.float64)
    expected = body.energy(x)
    frozen = x.copy()
    frozen.flags.writeable = False
    for same in (x.tolist(), x.astype(np.float32), np.asfortranarray(x), frozen):
        assert body.energy(same) == expected


def test_invalid_materials_and_wrong_sizes_are_errors():
    mesh = crooked_beam()
    with pytest.raises(SuppleError, match="needs a Material"):
        ElasticBody(mesh, "stvk")  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match=r"density has shape \(3,\)"):
        ElasticBody(mesh, Material(density=[1.0, 2.0, 3.0]))
