"""Elastic cubature: a few weighted tets stand for all."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.errors import SuppleError, SuppleWarning
from supple.reduction.cubature.accuracy import fit_weights, force_error
from supple.reduction.cubature.elastic_cubature import Between, elastic_cubature
from supple.reduction.cubature.elastic_forces import ElasticProblem, PoseForces
from supple.reduction.cubature.samples import (
    SMALLEST_DETERMINANT,
    displacements,
    force_samples,
    rest_stiffness,
)
from supple.reduction.regions.region import Region
from supple.scenes.bodies.beam import beam

Floats = NDArray[np.float64]


class Bent:
    """A beam, straight and bent, with localised bases of smooth fields."""

    def __init__(self, kind: str = "stvk") -> None:
        mesh = beam(cells=(12, 2, 2))
        self.body = ElasticBody(mesh, Material(kind, young=1e5, poisson=0.4))
        x = mesh.vertices
        turned = 0.8 * x[:, 0]
        bent = np.stack([np.sin(turned) / 0.8, (1 - np.cos(turned)) / 0.8, 0 * turned], axis=1)
        side = np.stack([-np.sin(turned), np.cos(turned), 0 * turned], axis=1)
        self.rests = [x, bent + side * x[:, 1:2] + [0, 0, 1] * x[:, 2:]]
        self.regions = [
            Region(
                "near", near := np.flatnonzero((x[:, 0] > 0) & (x[:, 0] < 0.7)), np.ones(near.size)
            ),
            Region("far", far := np.flatnonzero(x[:, 0] > 0.4), np.ones(far.size)),
        ]
        self.bases = [self._basis(rest) for rest in self.rests]

    def _basis(self, rest: Floats) -> tuple[Floats, ...]:
        parts = []
        for region in self.regions:
            x = self.body.rest[region.vertices]
            uneven = 1 + 4 * x[:, 1] + 20 * x[:, 2] ** 2 * x[:, 0]
            waves = [uneven * np.sin(np.pi * k * (x[:, 0] - x[0, 0] + 0.05)) for k in (1, 2)]
            fields = [np.outer(wave, axis) for wave in waves for axis in np.eye(3)]
            basis = np.stack(fields, axis=2)
            mass = np.repeat(self.body.vertex_masses()[region.vertices], 3)
            q, _ = np.linalg.qr(np.sqrt(mass)[:, None] * basis.reshape(-1, 6))
            parts.append((q / np.sqrt(mass)[:, None]).reshape(basis.shape))
        return tuple(parts)

    def samples(self, pose: int, count: int, seed: int = 5, **options: Any) -> Floats:
        parts = self.body, self.rests[pose], self.bases[pose], self.regions
        return force_samples(*parts, count, seed=seed, **options)

    def cubature(self, count: int, **options: Any) -> Any:
        return elastic_cubature(self.body, self.rests, self.bases, self.regions, count, **options)

    def problem(self, mixtures: int = 5) -> ElasticProblem:
        poses = [
            PoseForces.of(self.body, rest, basis, self.regions)
            for rest, basis in zip(self.rests, self.bases, strict=True)
        ]
        return ElasticProblem(poses, [self.samples(i, 8) for i in range(2)], mixtures, 0)


@pytest.fixture(scope="module")
def bent() -> Bent:
    return Bent()


@pytest.mark.parametrize("kind", ["stvk", "neo-hookean", "corotational"])
def test_all_tets_with_weight_one_are_exact(kind: str) -> None:
    bent = Bent(kind)
    tets = np.arange(bent.body.n_tets)
    pose = bent.body, bent.rests[1], bent.bases[1], bent.regions
    q = bent.samples(1, 6)
    assert force_error(*pose, tets, np.ones(len(tets)), q) < 1e-12
    K = rest_stiffness(*pose)
    for part in (PoseForces.of(*pose), PoseForces.of(*pose, tets=tets)):
        np.testing.assert_allclose(part.stiffness(), K, atol=1e-9 * np.abs(K).max())


def test_reduced_forces_are_those_of_the_body(bent: Bent) -> None:
    q = bent.samples(1, 3)
    forces = PoseForces.of(bent.body, bent.rests[1], bent.bases[1], bent.regions).reduced(q)
    moved = displacements(bent.bases[1], bent.regions, bent.body.n_vertices, q)
    for t in range(3):
        f = bent.body.force(bent.rests[1] + moved[:, :, t], rest=bent.rests[1])
        expected = [
            np.einsum("kir,ki->r", basis, f[region.vertices])
            for basis, region in zip(bent.bases[1], bent.regions, strict=True)
        ]
        np.testing.assert_allclose(forces[:, t], np.concatenate(expected), rtol=1e-9, atol=1e-9)


def test_products_without_the_matrix_are_those_with_it(bent: Bent) -> None:
    problem = bent.problem()
    random = np.random.default_rng(0)
    everything = np.arange(len(problem.places))
    for i in range(2):
        A = problem.columns(i, everything).T
        residual = random.standard_normal(problem.targets[i].shape)
        np.testing.assert_allclose(
            problem.correlations(i, residual), A.T @ residual.ravel(), atol=2e-5 * np.abs(A).max()
        )
        np.testing.assert_allclose(problem.norms[i], (A * A).sum(axis=0), rtol=1e-3, atol=1e-9)
        np.testing.assert_allclose(A.sum(axis=1), problem.targets[i].ravel(), atol=1e-5)


def test_tets_outside_all_regions_are_no_candidates(bent: Bent) -> None:
    near = [bent.regions[0]]
    alone = elastic_cubature(bent.body, bent.rests, [basis[:1] for basis in bent.bases], near, 20)
    touching = np.asarray(np.isin(bent.body.mesh.tets, near[0].vertices).any(axis=1))
    assert touching[alone.tets].all()
    assert not touching.all()


@pytest.mark.parametrize("linear", ["cubature", "exact"])
def test_errors_fall_with_the_count_and_hold_on_fresh_samples(bent: Bent, linear: Any) -> None:
    few, many = (bent.cubature(count, linear=linear) for count in (12, 48))
    for found in (few, many):
        assert found.weights.min() >= 0
        assert found.weights.shape == (2, len(found.tets))
        assert (np.diff(found.tets) > 0).all()
    assert many.train_error < few.train_error / 2
    assert many.train_error < 0.02
    assert many.held_out_error < 1.5 * many.train_error
    again = [
        force_error(
            bent.body,
            bent.rests[i],
            bent.bases[i],
            bent.regions,
            many.tets,
            many.weights[i],
            bent.samples(i, 60),
            correction=None if many.corrections is None else many.corrections[i],
        )
        for i in range(2)
    ]
    assert np.sqrt(np.mean(np.square(again))) < 1.6 * many.train_error


def test_an_exact_linear_part_leaves_less_error(bent: Bent) -> None:
    plain = bent.cubature(24, amplitude=0.01)
    exact = bent.cubature(24, amplitude=0.01, linear="exact")
    assert plain.corrections is None
    assert exact.train_error < plain.train_error / 1.5
    for i in range(2):
        pose = bent.body, bent.rests[i], bent.bases[i], bent.regions
        small = bent.samples(i, 10, amplitude=1e-6)
        found = exact.tets, exact.weights[i], small
        assert force_error(*pose, *found, correction=exact.corrections[i]) < 1e-4
        assert force_error(*pose, plain.tets, plain.weights[i], small) > 1e-3


def test_stiffness_by_cubature_is_near_the_exact_one(bent: Bent) -> None:
    found = bent.cubature(60, amplitude=1e-4)
    pose = bent.body, bent.rests[1], bent.bases[1], bent.regions
    K = rest_stiffness(*pose)
    chosen = PoseForces.of(*pose, tets=found.tets)
    approximate = chosen.stiffness(found.weights[1])
    scale = 1 / np.sqrt(np.diag(K))
    assert np.linalg.norm(scale[:, None] * (approximate - K) * scale, 2) < 0.1
    h = 1e-7
    steps = h * np.eye(len(K))
    forces = chosen.reduced(np.hstack([steps, -steps]), found.weights[1])
    differences = (forces[:, : len(K)] - forces[:, len(K) :]) / (2 * h)
    np.testing.assert_allclose(approximate, differences, atol=1e-6 * np.abs(K).max())


def test_weights_fitted_at_a_pose_are_no_worse(bent: Bent) -> None:
    found = bent.cubature(24)
    pose = bent.body, bent.rests[1], bent.bases[1], bent.regions
    q = bent.samples(1, 80)
    weights, error = fit_weights(*pose, found.tets, q)
    assert weights.min() >= 0
    assert error == pytest.approx(force_error(*pose, found.tets, weights, q), rel=1e-9)
    assert error <= force_error(*pose, found.tets, found.weights[1], q) * (1 + 1e-9)


def test_same_seed_same_bits_for_any_number_of_threads(bent: Bent) -> None:
    first = bent.cubature(16, samples=40)
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        second = bent.cubature(16, samples=40)
    finally:
        numba.set_num_threads(before)
    assert first.tets.tobytes() == second.tets.tobytes()
    assert first.weights.tobytes() == second.weights.tobytes()
    assert first.held_out_errors.tobytes() == second.held_out_errors.tobytes()
    other = bent.cubature(16, samples=40, seed=1)
    assert first.weights.tobytes() != other.weights.tobytes()


def test_poses_may_have_materials_of_their_own(bent: Bent) -> None:
    young = np.where(np.arange(bent.body.n_tets) % 2, 1e5, 4e5)
    stiff = ElasticBody(bent.body.mesh, Material("stvk", young=young, poisson=0.4))
    found = elastic_cubature([bent.body, stiff], bent.rests, bent.bases, bent.regions, 40)
    pose = stiff, bent.rests[1], bent.bases[1], bent.regions
    q = force_samples(*pose, 30, seed=9)
    own = force_error(*pose, found.tets, found.weights[1], q)
    assert own < 0.5 * force_error(*pose, found.tets, found.weights[0], q)


def _halfway(bent: Bent) -> Between:
    basis = tuple((a + b) / 2 for a, b in zip(*bent.bases, strict=True))
    stiff = tuple(part + 0.3 * np.sin(9 * part) for part in basis)  # as no pose is
    return Between(bent.body, (bent.rests[0] + bent.rests[1]) / 2, stiff, (0, 1), [0.5, 0.5])


def test_poses_between_are_served_when_they_are_known(bent: Bent) -> None:
    middle = _halfway(bent)
    without, found = bent.cubature(36), bent.cubature(36, between=[middle])
    pose = bent.body, middle.rest, middle.basis, bent.regions
    q = force_samples(*pose, 40, seed=8)
    error = force_error(*pose, found.tets, found.weights.mean(axis=0), q)
    assert error < 0.5 * force_error(*pose, without.tets, without.weights.mean(axis=0), q)
    assert error == pytest.approx(found.between_errors[0], rel=0.5)
    assert without.between_errors.shape == (0,)
    assert found.weights.min() >= 0
    wrong = Between(bent.body, middle.rest, middle.basis, (0, 1), [1.0])
    with pytest.raises(SuppleError, match="shares"):
        bent.cubature(8, between=[wrong])


def test_samples_have_the_requested_size(bent: Bent) -> None:
    size = np.linalg.norm(np.ptp(bent.body.rest, axis=0))
    q = bent.samples(0, 50, amplitude=0.02)
    moved = displacements(bent.bases[0], bent.regions, bent.body.n_vertices, q)
    largest = np.linalg.norm(moved, axis=1).max(axis=0)
    assert np.median(largest) == pytest.approx(0.02 * size, rel=1e-9)


def test_stiff_directions_move_less(bent: Bent) -> None:
    whole = [Region.whole(bent.body.n_vertices)]
    eight = np.random.default_rng(0).standard_normal((bent.body.n_vertices, 3, 2))
    K = np.diag([1.0, 10.0])
    q = force_samples(bent.body, bent.rests[0], [eight], whole, 4000, stiffness=K, amplitude=1e-4)
    assert q[0].std() / q[1].std() == pytest.approx(10, rel=0.1)


def test_samples_that_would_invert_tets_are_scaled_down(bent: Bent) -> None:
    q = bent.samples(0, 20, amplitude=2.0)
    moved = displacements(bent.bases[0], bent.regions, bent.body.n_vertices, q)
    for t in range(20):
        x = bent.rests[0] + moved[:, :, t]
        corners = x[bent.body.mesh.tets]
        after = np.linalg.det(corners[:, 1:] - corners[:, :1]) / 6
        assert (after / bent.body.mesh.volumes()).min() > 0.99 * SMALLEST_DETERMINANT


def test_more_tets_than_there_are_are_all(bent: Bent) -> None:
    with pytest.warns(SuppleWarning, match="only .* touch a region"):
        found = bent.cubature(10_000)
    assert len(found.tets) <= bent.body.n_tets
    assert found.train_error < 1e-4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "number of cubature tets"),
        ({"count": 2.5}, "number of cubature tets"),
        ({"samples": 0}, "number of samples"),
        ({"amplitude": 0.0}, "amplitude"),
        ({"amplitude": np.nan}, "amplitude"),
        ({"linear": "both"}, "linear"),
        ({"selection": "all"}, "selection"),
        ({"seed": -1}, "seed"),
        ({"rests": []}, "one of each"),
        ({"regions": []}, "regions"),
        ({"bodies": "beam"}, "ElasticBody|one of each"),
    ],
)
def test_wrong_arguments_are_named(bent: Bent, options: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "bodies": bent.body,
        "rests": bent.rests,
        "bases": bent.bases,
        "regions": bent.regions,
        "count": 8,
    }
    with pytest.raises(SuppleError, match=words):
        elastic_cubature(**{**arguments, **options})


def test_wrong_bases_are_named(bent: Bent) -> None:
    broken = bent.bases[1][0].copy()
    broken[3, 1, 2] = np.nan
    with pytest.raises(SuppleError, match='pose 1, region "near": not finite'):
        elastic_cubature(
            bent.body, bent.rests, [bent.bases[0], (broken, bent.bases[1][1])], bent.regions, 8
        )
    with pytest.raises(SuppleError, match="regions"):
        elastic_cubature(bent.body, bent.rests, [b[:1] for b in bent.bases], bent.regions, 8)
    still = [tuple(np.zeros_like(part) for part in basis) for basis in bent.bases]
    with pytest.raises(SuppleError, match="has no displacement"):
        elastic_cubature(bent.body, bent.rests, still, bent.regions, 8)
