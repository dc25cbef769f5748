"""Subspace dynamics that is reassembled in full: the baseline, and cubature's oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from helpers.build_samples import bar_options, bending_bar
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import static_equilibrium
from supple.elastic.material import Material
from supple.engines.baselines import pose_bases
from supple.engines.baselines.projected import PosedSubspace, ProjectedSimulator
from supple.engines.baselines.subspace import Subspace, reduced_equilibrium
from supple.engines.full.factory import FullSimulator
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.build.reduced_poses import ReducedPoses
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError
from supple.rig.deformers.bend import Bend
from supple.scenes.bodies.beam import beam

CALM: dict[str, Any] = {"gravity_mode": "none", "iterations": 20, "psd": True}


class Bar:
    """A short beam held at one end and bent by one parameter."""

    def __init__(self) -> None:
        self.mesh = beam(cells=(5, 1, 1))
        self.material = Material("stvk", young=1e6, poisson=0.4, density=1000)
        self.body = ElasticBody(self.mesh, self.material)
        middle = (0, 1 / 12, 1 / 12)
        self.rig = Bend(self.mesh.vertices, middle, (1, 0, 0), (0, 1, 0), low=0, high=1)
        self.fixed = np.flatnonzero(self.mesh.vertices[:, 0] == 0)
        self.free = np.setdiff1d(np.arange(self.body.n_vertices), self.fixed)
        self.everything = np.zeros((3 * self.body.n_vertices, 3 * len(self.free)))
        unknowns = (3 * self.free[:, None] + np.arange(3)).ravel()
        self.everything[unknowns, np.arange(len(unknowns))] = 1.0

    def reduced(self, *degrees: float, modes: int = 8) -> ReducedPoses:
        poses = np.radians(degrees)[:, None]
        return ReducedPoses.at(
            self.mesh, self.material, self.rig, poses, modes=modes, fixed=self.fixed
        )


@pytest.fixture(scope="module")
def bar() -> Bar:
    return Bar()


@pytest.fixture(scope="module")
def poses(bar: Bar) -> ReducedPoses:
    return bar.reduced(0.0, -90.0, 90.0)


ANGLES = 0.5 * np.sin(4 * np.linspace(0, 40 / 90, 41)) ** 2


@pytest.mark.parametrize("integrator", ["backward-euler", "newmark", "bdf2"])
def test_with_a_basis_of_everything_it_is_the_full_simulation(bar: Bar, integrator: str) -> None:
    full = FullSimulator(
        bar.body,
        fixed=bar.fixed,
        integrator=integrator,
        newton=20,
        alpha=0.5,
        beta=0.01,
        gravity=(0, 0, 0),
    )
    full.reset(rest=bar.rig(ANGLES[:1]))
    whole = ProjectedSimulator(
        PosedSubspace(bar.body, bar.rig, lambda pose: bar.everything),
        integrator=integrator,
        **CALM,
    )
    whole.reset(ANGLES[:1])
    for angle in ANGLES[1:]:
        full.step(bar.rig([angle]))
        whole.step([angle])
    moved = np.abs(full.positions - full.rest).max()
    assert moved > 1e-3
    assert np.abs(whole.positions - full.positions).max() < 1e-6 * moved


def test_projected_stiffness_force_and_mass_are_the_dense_products(
    bar: Bar, poses: ReducedPoses
) -> None:
    rest, basis = bar.rig([0.7]), pose_bases.interpolated(poses)(np.array([0.7]))
    space = Subspace(bar.body, rest, basis)
    q = 1e-2 * np.random.default_rng(3).standard_normal(space.n_columns)
    moved = rest + (basis @ q).reshape(-1, 3)
    K = bar.body.stiffness(moved, rest).toarray()
    assert np.allclose(space.stiffness(q), basis.T @ K @ basis, rtol=1e-11, atol=1e-6)
    assert np.allclose(space.mass(), basis.T @ bar.body.mass().toarray() @ basis, atol=1e-13)
    step = 1e-6
    slope = [
        (space.energy(q + step * e) - space.energy(q - step * e)) / (2 * step)
        for e in np.eye(len(q))
    ]
    assert np.allclose(space.force(q), slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def test_a_root_that_turns_and_moves_changes_nothing_but_the_frame(
    bar: Bar, poses: ReducedPoses
) -> None:
    """A root at rest anywhere gives the same motion there, absolute gravity turned along."""
    root = np.eye(4)
    root[:3, :3], root[:3, 3] = Rotation.from_rotvec([0.3, -0.8, 0.5]).as_matrix(), (3, 1, -2)
    basis = pose_bases.interpolated(poses)
    here, there = (
        ProjectedSimulator(
            PosedSubspace(bar.body, bar.rig, basis),
            gravity=gravity,
            gravity_mode="absolute",
            iterations=3,
        )
        for gravity in ((0.0, -9.81, 0.0), root[:3, :3] @ (0.0, -9.81, 0.0))
    )
    there.reset(root=root)
    for angle in ANGLES[1:8]:
        here.step([angle])
        there.step([angle], root)
    assert np.abs(here.displacements).max() > 1e-3
    assert np.allclose(there.q, here.q, atol=1e-9)
    assert np.allclose(there.positions, here.positions @ root[:3, :3].T + root[:3, 3], atol=1e-9)


def test_a_root_that_speeds_up_leaves_the_flesh_behind(bar: Bar, poses: ReducedPoses) -> None:
    simulator = ProjectedSimulator(PosedSubspace(bar.body, bar.rig, pose_bases.interpolated(poses)))
    root = np.eye(4)
    for at in range(1, 6):
        root[1, 3] = 0.5 * 30.0 * (at / 90) ** 2
        simulator.step(root=root)
    assert simulator.displacements[:, 1].min() < -1e-3


def test_relative_gravity_is_none_upright_and_twice_upside_down(
    bar: Bar, poses: ReducedPoses
) -> None:
    simulator = ProjectedSimulator(
        PosedSubspace(bar.body, bar.rig, pose_bases.interpolated(poses)), beta=0.0
    )
    simulator.step()
    assert np.abs(simulator.displacements).max() < 1e-12
    turned = np.diag([-1.0, -1.0, 1.0, 1.0])
    simulator.reset(root=turned)
    simulator.step()
    assert simulator.displacements[:, 1].max() > 0  # in the root's frame it falls upwards


def test_statically_a_basis_of_everything_finds_the_full_equilibrium(bar: Bar) -> None:
    forces = np.zeros_like(bar.body.rest)
    forces[-4:, 2] = 20.0
    rest = bar.rig([1.0])
    exact = static_equilibrium(bar.body, fixed=bar.fixed, forces=forces, rest=rest)
    found = reduced_equilibrium(bar.body, bar.everything, forces, rest=rest)
    assert found.converged
    assert np.abs(found.positions - exact.positions).max() < 1e-6
    few = reduced_equilibrium(bar.body, bar.reduced(np.degrees(1.0)).basis(0), forces, rest=rest)
    moved, nearly = (each - rest for each in (exact.positions, few.positions))
    assert 0 < np.linalg.norm(nearly - moved) < 0.1 * np.linalg.norm(moved)


def test_neutral_pose_dynamics_are_the_neutral_poses_own(bar: Bar, poses: ReducedPoses) -> None:
    """Straight, they are the same; bent, they move in the warped basis with straight forces."""
    basis = pose_bases.warped(poses)
    neutral = (bar.body.rest, poses.basis(0))
    plain = ProjectedSimulator(PosedSubspace(bar.body, bar.rig, basis), gravity_mode="absolute")
    carried = ProjectedSimulator(
        PosedSubspace(bar.body, bar.rig, basis, elastic=neutral), gravity_mode="absolute"
    )
    for _ in range(5):
        plain.step()
        carried.step()
    assert np.allclose(plain.q, carried.q, atol=1e-10)
    for simulator in (plain, carried):
        simulator.reset([1.4])
        for _ in range(5):
            simulator.step()
    assert np.abs(plain.q - carried.q).max() > 0.05 * np.abs(plain.q).max()


def test_projecting_to_the_new_basis_changes_nothing_where_the_basis_stays(
    bar: Bar, poses: ReducedPoses
) -> None:
    kept, projected = (
        ProjectedSimulator(
            PosedSubspace(bar.body, bar.rig, pose_bases.neutral(poses)), carried=carried, **CALM
        )
        for carried in ("coordinates", "projection")
    )
    for simulator in (kept, projected):
        simulator.run(ANGLES[:10, None])
    assert np.allclose(kept.q, projected.q, atol=1e-9)


def test_every_basis_is_the_poses_own_at_the_poses(bar: Bar, poses: ReducedPoses) -> None:
    mass = np.repeat(poses.mass, 3)[:, None]
    for at, pose in enumerate(poses.weights.poses):
        exact = poses.basis(at)
        for name, basis in (
            ("interpolated", pose_bases.interpolated(poses)),
            ("world", pose_bases.interpolated(poses, "world")),
            ("naive", pose_bases.naive(poses)),
        ):
            shared = np.linalg.svd(exact.T @ (mass * basis(pose)), compute_uv=False)
            assert shared.min() > 1 - 1e-9, (name, at)
    all_of_them = pose_bases.pose_independent(poses, 3 * poses.n_columns, frames=False)(np.ones(1))
    for at in range(3):
        inside = np.linalg.svd(all_of_them.T @ (mass * poses.basis(at)), compute_uv=False)
        assert inside.min() > 1 - 1e-9


def test_interpolated_is_what_aligned_poses_blend(poses: ReducedPoses) -> None:
    for variant in ("frames", "world"):
        aligned = poses.aligned(variant)
        for angle in (0.0, 0.4, -1.1, 2.0):
            weights = poses.weights([angle])
            ours = pose_bases.interpolated(poses, variant)(np.array([angle]))
            assert np.allclose(ours, aligned.basis(weights, len(poses.mass)), atol=1e-12)


def test_warped_and_framed_bases_turn_with_the_body(bar: Bar) -> None:
    """A pose that only turns the body: what is warped there is exact."""
    turn = Rotation.from_rotvec([0.0, 0.0, 1.1]).as_matrix()

    def rest(pose: np.ndarray) -> np.ndarray:
        return bar.mesh.vertices if pose[0] == 0 else bar.mesh.vertices @ turn.T

    found = ReducedPoses.at(bar.mesh, bar.material, rest, [[0.0], [1.0]], modes=6, fixed=bar.fixed)
    mass = np.repeat(found.mass, 3)[:, None]
    for basis in (pose_bases.warped(found), pose_bases.pose_independent(found, 6)):
        turned = basis(np.ones(1))
        shared = np.linalg.svd(found.basis(1).T @ (mass * turned), compute_uv=False)
        assert shared.min() > 1 - 1e-6


def test_wrong_sizes_are_refused_and_the_state_stays(bar: Bar, poses: ReducedPoses) -> None:
    basis = pose_bases.interpolated(poses)
    simulator = ProjectedSimulator(PosedSubspace(bar.body, bar.rig, basis), gravity_mode="absolute")
    simulator.step([0.1])
    before = simulator.q.copy(), simulator.positions
    for wrong in (
        {"pose": [np.nan]},
        {"pose": [0.0, 1.0]},
        {"root": np.ones((4, 4))},
        {"forces": {99999: (0, 0, 1)}},
        {"forces": {0: (np.inf, 0, 0)}},
    ):
        with pytest.raises(SuppleError):
            simulator.step(**wrong)
        assert np.array_equal(simulator.q, before[0])
        assert np.array_equal(simulator.positions, before[1])
    for options in (
        {"dt": 0.0},
        {"iterations": 0},
        {"integrator": "midpoint"},
        {"gravity_mode": "up"},
        {"carried": "away"},
        {"alpha": -1},
    ):
        with pytest.raises(SuppleError):
            ProjectedSimulator(PosedSubspace(bar.body, bar.rig, basis), **options)
    with pytest.raises(SuppleError, match="shape"):
        ProjectedSimulator(PosedSubspace(bar.body, bar.rig, lambda pose: np.ones((7, 2))))
    with pytest.raises(SuppleError, match="no skin"):
        simulator.surface()


def test_reruns_are_the_same_to_the_bit_and_time_is_split(bar: Bar, poses: ReducedPoses) -> None:
    simulator = ProjectedSimulator(PosedSubspace(bar.body, bar.rig, pose_bases.interpolated(poses)))
    first = simulator.run(ANGLES[:10, None])
    assert np.array_equal(first, simulator.run(ANGLES[:10, None]))
    seconds = simulator.step([0.2]).seconds
    assert set(seconds) == {"rig", "basis", "assembly", "projection", "solve"}
    assert min(seconds.values()) > 0


def test_the_real_time_step_approaches_it_with_more_cubature() -> None:
    """At equal bases, cubature is all that is between the two."""
    differences = []
    for tets, vertices in ((12, 4), (100, 40)):
        options = bar_options(elastic_cubature=tets, inertial_cubature=vertices)
        model = build(bending_bar(60.0), **options)
        basis = pose_bases.interpolated(ReducedPoses.of_model(model))
        oracle = ProjectedSimulator(PosedSubspace.from_model(model, basis))
        papers: dict[str, Any] = {"transport": False, "look_ahead": 0, "frames": "blended"}
        ours = PoseSpaceSimulator(model, integrator="backward-euler", **papers)
        missed = moved = 0.0
        for angle in 0.5 * np.sin(6 * np.arange(60) / 90) ** 2:
            oracle.step([angle])
            ours.step([angle])
            there, rig = oracle.surface(), model.rig([angle])
            missed += float(((ours.surface() - there) ** 2).sum())
            moved += float(((there - rig) ** 2).sum())
        assert moved > 1e-4
        differences.append(np.sqrt(missed / moved))
    assert differences[1] < 0.02
    assert differences[1] < 0.7 * differences[0]
