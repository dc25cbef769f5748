"""Static equilibrium from good and from terrible starts."""

import numpy as np
import pytest

from supple.elastic.body import ElasticBody
from supple.elastic.densities.dispatch import MATERIALS
from supple.elastic.equilibrium import static_equilibrium
from supple.elastic.material import Material
from supple.errors import SuppleError
from supple.scenes.bodies.beam import beam


def hanging_beam() -> tuple[ElasticBody, np.ndarray]:
    mesh = beam(cells=(8, 2, 2))
    body = ElasticBody(mesh, Material("neo-hookean", young=5e4, poisson=0.4))
    return body, np.flatnonzero(mesh.vertices[:, 0] == 0)


def weight(body: ElasticBody) -> np.ndarray:
    return body.vertex_masses()[:, None] * [0.0, -9.81, 0.0]


def never_rises(energies: np.ndarray) -> bool:
    """Up to rounding of the sums that the energies are."""
    return bool((np.diff(energies) <= 1e-12 * np.abs(energies).max()).all())


def test_forces_balance_at_equilibrium_and_energy_never_rises_on_the_way():
    body, fixed = hanging_beam()
    found = static_equilibrium(body, fixed=fixed, forces=weight(body))
    assert found.converged
    assert never_rises(found.energies)
    rest_of_force = body.force(found.positions) - weight(body)
    free = np.setdiff1d(np.arange(body.n_vertices), fixed)
    assert np.abs(rest_of_force[free]).max() <= found.residual + 1e-15
    assert np.abs(rest_of_force[free]).max() < 1e-6 * np.abs(weight(body)).sum()
    # What holds the fixed vertices carries the whole weight.
    held, carried = rest_of_force[fixed].sum(axis=0), weight(body).sum(axis=0)
    np.testing.assert_allclose(held, -carried, atol=found.residual * body.n_vertices)


@pytest.mark.parametrize("seed", [0, 1, 2, 9])
def test_a_scrambled_start_is_survived(seed):
    """Most return to the rest shape; seed 9 ends knotted, in balance and without inversion."""
    body, fixed = hanging_beam()
    rng = np.random.default_rng(seed)
    start = rng.uniform(-0.5, 1.0, size=body.rest.shape)
    start[fixed] = body.rest[fixed]

    def inverted(x):
        return np.linalg.det(x[body.mesh.tets[:, 1:]] - x[body.mesh.tets[:, :1]]) <= 0

    assert 0.3 < inverted(start).mean() < 0.7
    found = static_equilibrium(body, start=start, fixed=fixed)
    assert found.converged
    assert never_rises(found.energies)
    assert not inverted(found.positions).any()
    if seed != 9:
        assert np.abs(found.positions - body.rest).max() < 1e-6


def test_a_body_flattened_to_a_plane_or_a_point_or_mirrored_recovers():
    body, fixed = hanging_beam()
    for squash in ([1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-1.0, 1.0, 1.0]):
        start = body.rest * squash
        start[fixed] = body.rest[fixed]
        found = static_equilibrium(body, start=start, fixed=fixed)
        assert found.converged
        assert np.abs(found.positions - body.rest).max() < 1e-6


def test_a_free_body_without_loads_relaxes_to_a_rigid_copy_of_itself():
    body, _ = hanging_beam()
    start = body.rest + 0.02 * np.random.default_rng(4).normal(size=body.rest.shape)
    found = static_equilibrium(body, start=start)
    assert found.converged
    assert found.energies[-1] < 1e-12 * found.energies[0]


@pytest.mark.parametrize("factor", [0.3, 10.0, 30.0])
def test_a_free_body_grows_or_shrinks_to_its_rest_shape(factor):
    body, _ = hanging_beam()
    found = static_equilibrium(body, start=factor * body.rest)
    assert found.converged
    lengths = np.linalg.norm(np.diff(found.positions[body.mesh.tets], axis=1), axis=2)
    expected = np.linalg.norm(np.diff(body.rest[body.mesh.tets], axis=1), axis=2)
    np.testing.assert_allclose(lengths, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", MATERIALS)
def test_another_rest_shape_is_where_an_unloaded_body_rests(kind):
    body = ElasticBody(beam(cells=(4, 1, 1)), Material(kind, poisson=0.3))
    rest = 2.0 * body.rest
    found = static_equilibrium(body, rest=rest, fixed=[0, 1, 2, 3])
    assert found.iterations == 0
    np.testing.assert_array_equal(found.positions, rest)
    moved = rest + 0.02 * np.random.default_rng(0).normal(size=rest.shape)
    moved[:4] = rest[:4]
    found = static_equilibrium(body, rest=rest, start=moved, fixed=[0, 1, 2, 3])
    assert found.converged
    np.testing.assert_allclose(found.positions, rest, atol=1e-5)


def test_the_result_is_the_callers_own():
    body, fixed = hanging_beam()
    found = static_equilibrium(body, fixed=fixed)
    found.positions[:] = 0.0
    assert body.rest.any()


def test_too_few_iterations_are_admitted():
    body, fixed = hanging_beam()
    found = static_equilibrium(body, fixed=fixed, forces=weight(body), max_iterations=1)
    assert not found.converged
    assert found.iterations == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fixed": [99999]}, "vertex 99999 does not exist"),
        ({"fixed": [-1]}, "vertex -1 does not exist"),
        ({"fixed": [0.5]}, "vertex numbers"),
        ({"fixed": range(81)}, "every vertex is fixed"),
        ({"forces": np.full((81, 3), np.inf)}, "finite"),
        ({"start": np.zeros((2, 3))}, "shape"),
    ],
)
def test_impossible_requests_are_errors(options, words):
    body, _ = hanging_beam()
    assert body.n_vertices == 81
    with pytest.raises(SuppleError, match=words):
        static_equilibrium(body, **options)
