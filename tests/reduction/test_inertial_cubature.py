"""Inertial cubature: a few vertices' accelerations stand for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from supple.errors import SuppleError, SuppleWarning
from supple.mesh.tets import TetMesh
from supple.reduction.cubature.inertial_cubature import inertial_cubature, inertial_error
from supple.reduction.cubature.inertial_forces import perturbation_sizes, pose_accelerations
from supple.reduction.regions.region import Region
from supple.rig.protocol import FunctionRig, Parameter
from supple.scenes.bodies.beam import beam

Floats = NDArray[np.float64]


class Swung:
    """A beam that bends, slides and swells, with a localised basis."""

    def __init__(self) -> None:
        mesh: TetMesh = beam(cells=(14, 3, 3))
        self.x = mesh.vertices.copy()
        n = len(self.x)
        names = [Parameter("bend", "rad"), Parameter("slide", "m"), Parameter("swell", "1", 1.0)]
        self.rig = FunctionRig(self._shape, names, n)
        self.poses = np.array([[0.0, 0.0, 1.0], [0.7, 0.0, 1.0]])
        self.mass = np.random.default_rng(0).uniform(0.5, 1.5, n)
        near, far = np.flatnonzero(self.x[:, 0] < 0.6), np.flatnonzero(self.x[:, 0] > 0.4)
        self.regions = [
            Region("near", near, np.ones(len(near))),
            Region("far", far, np.ones(len(far))),
        ]
        self.bases = [tuple(self._basis(r) for r in self.regions) for _ in self.poses]

    def _shape(self, pose: Floats) -> Floats:
        bend, slide, swell = pose
        angle = bend * self.x[:, 0] ** 2
        out = self.x * [1.0, swell, swell]
        c, s = np.cos(angle), np.sin(angle)
        turned = np.stack([c * out[:, 0] - s * out[:, 1], s * out[:, 0] + c * out[:, 1]], axis=1)
        return np.hstack([turned + np.array([slide, 0.0]), out[:, 2:]])

    def _basis(self, region: Region) -> Floats:
        x = self.x[region.vertices]
        waves = [np.sin(k * np.pi * x[:, 0]) * (1 + x[:, 1]) for k in (1, 2, 3)]
        return np.stack([np.outer(w, a) for w in waves for a in np.eye(3)], axis=2)

    def cubature(self, count: int, **options: Any) -> Any:
        return inertial_cubature(
            self.rig, self.poses, self.bases, self.regions, self.mass, count, **options
        )


@pytest.fixture(scope="module")
def swung() -> Swung:
    return Swung()


def test_all_vertices_with_weight_one_are_exact(swung: Swung) -> None:
    accelerations, _ = pose_accelerations(swung.rig, swung.poses[1], 5, np.random.default_rng(1))
    everything = np.arange(len(swung.x))
    parts = swung.bases[1], swung.regions, swung.mass
    assert inertial_error(*parts, everything, np.ones(len(everything)), accelerations) < 1e-12


def test_errors_fall_with_the_count(swung: Swung) -> None:
    few, many = (swung.cubature(count, fit="weights") for count in (8, 40))
    for found in (few, many):
        assert found.corrections is None
        assert found.weights.min() >= 0
        assert (np.diff(found.vertices) > 0).all()
    assert many.train_error < few.train_error / 3
    assert many.held_out_error < 1.5 * many.train_error
    assert many.root_error < few.root_error / 3


def test_corrections_leave_a_small_part_of_the_error(swung: Swung) -> None:
    weights, both = swung.cubature(12, fit="weights"), swung.cubature(12)
    np.testing.assert_array_equal(weights.vertices, both.vertices)
    np.testing.assert_array_equal(weights.weights, both.weights)
    for error in ("train_error", "held_out_error", "root_error"):
        assert getattr(both, error) < 0.1 * getattr(weights, error)


def test_errors_reported_are_those_measured_again(swung: Swung) -> None:
    found = swung.cubature(12)
    random = np.random.default_rng(77)
    for i, pose in enumerate(swung.poses):
        accelerations, _ = pose_accelerations(swung.rig, pose, 40, random)
        parts = swung.bases[i], swung.regions, swung.mass, found.vertices, found.weights[i]
        again = inertial_error(*parts, accelerations, corrections=found.corrections[i])
        assert again < 3 * found.held_out_errors[i] + 1e-9
        assert again < 0.2 * inertial_error(*parts, accelerations)


def test_gravity_is_one_of_the_fields(swung: Swung) -> None:
    found = swung.cubature(20)
    for i in range(2):
        down = np.zeros((len(swung.x), 3, 1))
        down[:, 1] = -9.81
        parts = swung.bases[i], swung.regions, swung.mass, found.vertices, found.weights[i]
        assert inertial_error(*parts, down, corrections=found.corrections[i]) < 0.01


def test_corrections_stay_inside_their_region(swung: Swung) -> None:
    found = swung.cubature(20)
    for part, region in enumerate(swung.regions):
        outside = ~np.isin(found.vertices, region.vertices)
        assert outside.any()
        assert not found.corrections[:, outside, :, 9 * part : 9 * part + 9].any()


def test_parameters_change_by_what_moves_the_body_alike(swung: Swung) -> None:
    sizes = perturbation_sizes(swung.rig, swung.poses[0])
    shift = 1e-3 * np.linalg.norm(np.ptp(swung.x, axis=0)) / 1.7
    assert sizes[0] == pytest.approx(np.deg2rad(1))
    assert sizes[1] == pytest.approx(shift)
    swollen = swung.rig(swung.poses[0] + [0, 0, sizes[2]]) - swung.x
    assert np.linalg.norm(swollen, axis=1).max() == pytest.approx(shift, rel=1e-6)


def test_same_seed_same_bits(swung: Swung) -> None:
    first, second, other = swung.cubature(10), swung.cubature(10), swung.cubature(10, seed=4)
    assert first.vertices.tobytes() == second.vertices.tobytes()
    assert first.weights.tobytes() == second.weights.tobytes()
    assert first.corrections.tobytes() == second.corrections.tobytes()
    assert first.corrections.tobytes() != other.corrections.tobytes()


def test_a_rig_without_parameters_still_has_root_fields(swung: Swung) -> None:
    still = FunctionRig(lambda pose: swung.x, [], len(swung.x))
    found = inertial_cubature(
        still, np.empty((1, 0)), swung.bases[:1], swung.regions, swung.mass, 20
    )
    assert found.train_error == 0
    assert found.root_error < 0.01


def test_more_vertices_than_there_are_are_all(swung: Swung) -> None:
    with pytest.warns(SuppleWarning, match="all .* are used"):
        found = swung.cubature(10_000)
    assert found.train_error < 1e-5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"count": 0}, "number of cubature vertices"),
        ({"samples": 0}, "number of samples"),
        ({"mass": [1.0, 2.0]}, "masses"),
        ({"poses": [[0.0, 0.0]]}, "poses"),
        ({"poses": [[0.0, np.nan, 1.0]] * 2}, "poses"),
        ({"regions": []}, "regions"),
        ({"bases": []}, "poses|basis"),
    ],
)
def test_wrong_arguments_are_named(swung: Swung, options: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {
        "rig": swung.rig,
        "poses": swung.poses,
        "bases": swung.bases,
        "regions": swung.regions,
        "mass": swung.mass,
        "count": 8,
    }
    with pytest.raises(SuppleError, match=words):
        inertial_cubature(**{**arguments, **options})


def test_a_negative_mass_is_named(swung: Swung) -> None:
    mass = swung.mass.copy()
    mass[7] = -1.0
    with pytest.raises(SuppleError, match="vertex 7"):
        inertial_cubature(swung.rig, swung.poses, swung.bases, swung.regions, mass, 8)
