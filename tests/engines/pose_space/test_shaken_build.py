"""Models with one basis for all poses, of what the body does when it is shaken."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from helpers.build_samples import WIDTH, bar_mesh, bar_options, bending_bar, held_end
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.common.model_file import packed_model
from supple.engines.engine import ENGINES
from supple.engines.pose_space.build import training
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.build.pose_basis import rotated_shapes
from supple.engines.pose_space.build.reduced_poses import ReducedPoses
from supple.engines.pose_space.build.shaken_pose import rig_moves, shaken_shapes
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError
from supple.playback.bake_model import model_options
from supple.playback.bake_plan import bake_plan, bake_simulator
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.reduction.shaking import shake
from supple.rig.protocol import Parameter

FLESH = Material("yeoh", young=2e4, poisson=0.45)


CELLS = (8, 4, 4)


def limb_options(**changed: Any) -> dict[str, Any]:
    """Flesh around a flat bone, all along a bar that bends."""
    mesh = bar_mesh(CELLS)
    away = np.abs(mesh.vertices[:, 1:] - WIDTH / 2)
    bone = np.flatnonzero((away[:, 0] < 1e-6) & (away[:, 1] < WIDTH / 4 + 1e-6))
    own = {"basis": "shaken", "material": FLESH, "bones": bone, "modes": 12, "elastic_cubature": 36}
    return bar_options(CELLS, **own | changed)


@pytest.fixture(scope="module")
def model() -> PoseSpaceModel:
    return build(bending_bar(cells=CELLS), **limb_options())


def test_the_same_seed_gives_the_same_bytes_with_any_executor(model: PoseSpaceModel) -> None:
    with ThreadPoolExecutor(2) as two:
        other = build(bending_bar(cells=CELLS), **limb_options(), executor=two)
    assert packed_model(other) == packed_model(model)


def test_forces_are_fitted_to_motions_where_they_can_be(
    model: PoseSpaceModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = model.report["elastic_error"]
    assert errors["forces"] == "motions"
    assert errors["held_out"] < training.WELL_FITTED
    monkeypatch.setattr(training, "WELL_FITTED", 0.1)  # a bar of 8 columns: 0.35
    bar = build(bending_bar(), **bar_options(basis="shaken", material=FLESH))
    assert bar.report["elastic_error"]["forces"] == "samples"
    assert bar.report["elastic_error"]["held_out"] < 0.03
    assert bar.report["shaken_poses"] == 0  # shapes of a shaken body need its forces


def test_few_poses_are_shaken_for_longer() -> None:
    alone = build(bending_bar(cells=CELLS), **limb_options(poses=1, modes=95))
    assert alone.report["shaken_poses"] == 1
    assert alone.report["modes"] == 95


def test_a_model_reports_the_number_of_snapshot_poses_and_bases_are_alike(
    model: PoseSpaceModel,
) -> None:
    assert model.report["shaken_poses"] == 3
    plain = build(bending_bar(cells=CELLS), **limb_options(basis="modes"))
    assert plain.report["shaken_poses"] == 0
    assert max(model.report["subspace_angles"]["largest"]) < 2.0  # degrees: one basis, turned
    assert max(plain.report["subspace_angles"]["largest"]) > 2.0


def test_bases_on_the_whole_mesh_are_those_of_the_model(model: PoseSpaceModel) -> None:
    again = ReducedPoses.of_model(model)
    own = model.interpolated_basis(model.poses[1]).reshape(len(model.mesh.vertices), 3, -1)
    whole = again.basis(1).reshape(own.shape)
    stored = np.flatnonzero(np.abs(own).max(axis=(1, 2)) > 0)
    frames = [each[stored].reshape(3 * len(stored), -1) for each in (own, whole)]
    left = frames[1] - frames[0] @ np.linalg.lstsq(frames[0], frames[1], rcond=None)[0]
    assert np.abs(left).max() < 1e-3 * np.abs(whole).max()


def test_a_shaken_model_steps_and_comes_to_rest(model: PoseSpaceModel) -> None:
    simulator, away = PoseSpaceSimulator(model, 1 / 180, alpha=5.0, beta=0.02), []
    simulator.reset(np.zeros(1))
    for k in range(600):
        pose = np.radians([min(k, 20.0)])
        simulator.step(pose)
        away.append(np.abs(simulator.surface() - model.rig(pose)).max())
    assert 1e-3 < max(away) < 0.5
    assert away[-1] < 0.2 * max(away)


def test_a_shaken_basis_is_of_the_whole_body() -> None:
    mesh = bar_mesh()
    half = Region("half", far := np.flatnonzero(mesh.vertices[:, 0] > 0.5), np.ones(far.size))
    with pytest.raises(SuppleError, match=r'one basis; leave out regions, or use basis="modes"'):
        build(bending_bar(), **bar_options(basis="shaken", regions=[half]))
    with pytest.raises(SuppleError, match="basis is 'thrown'; use modes or shaken"):
        build(bending_bar(), **bar_options(basis="thrown"))


def test_a_body_that_nothing_holds_has_a_basis_of_modes() -> None:
    loose = build(bending_bar(), **bar_options(basis="shaken", bones=[], poses=1))
    assert loose.report["shaken_poses"] == 0


def test_turned_shapes_are_orthonormal_and_keep_what_contacts_forbid() -> None:
    mesh = bar_mesh()
    body = ElasticBody(mesh, FLESH)
    region, mass = Region.whole(body.n_vertices, held_end(mesh)), body.vertex_masses()
    shaking = shake(body, body.rest, region, seed=0)
    assert shaking is not None
    shapes = shaken_shapes(mesh, [body.rest], [shaking], region, mass, 7)
    count = len(region.vertices)
    rows = sp.lil_array((3, 3 * count))
    rows[0, 5], rows[1, 20], rows[1, 80], rows[2, 3 * count - 1] = 1.0, 0.6, -0.8, 1.0
    allowed = null_space(sp.csr_array(rows), count)
    basis = rotated_shapes(mesh, body.rest, shapes, region, mass, allowed).reshape(3 * count, -1)
    np.testing.assert_allclose(rows @ basis, 0, atol=1e-9)
    weighed = np.repeat(mass[region.vertices], 3)[:, None] * basis
    np.testing.assert_allclose(basis.T @ weighed, np.eye(7), atol=1e-9)


def test_characters_are_baked_with_shaken_bases_and_steps_that_are_short_enough() -> None:
    row = ENGINES["pose-space"]
    assert model_options(bending_bar(), anatomy=None)["basis"] == "shaken"
    for told in ({"regions": "auto"}, {"modes": [5, 5]}):
        assert "basis" not in model_options(bending_bar(), anatomy=None, **told)
    plan = bake_plan(bending_bar(), rate=30)
    assert (plan.dt, plan.every) == (1 / 180, 6) == (row.longest_step, 6)
    assert bake_plan(bending_bar(), rate=30, engine="rig-space").dt == 1 / 90


def test_a_simulator_of_a_bake_has_its_step(model: PoseSpaceModel) -> None:
    assert bake_simulator(model).dt == 1 / 180


class OddRig:
    """Rig that is scaled by one number, moved by many, and torn by the last."""

    def __init__(self, count: int) -> None:
        self.parameters = tuple(Parameter(f"p{k}", "m") for k in range(count))
        self.points = np.random.default_rng(0).normal(size=(50, 3))
        self.rest_pose, self.n_vertices = np.zeros(count), 50

    def __call__(self, pose: Any, vertices: Any = None) -> np.ndarray:
        scaled = (1 + pose[0]) * self.points
        with np.errstate(all="ignore"):
            scaled[:, 1] += pose[1:-1].sum() + np.float64(pose[-1]) * 1e300
        return scaled if vertices is None else scaled[vertices]


def test_the_rigs_motions_are_finite_and_use_at_most_so_many_parameters() -> None:
    found = rig_moves(OddRig(5), np.zeros(5))
    assert found.shape == (50, 3, 4)  # the last has no place in single precision
    np.testing.assert_allclose(found[:, :, 0], OddRig(5).points, atol=1e-5)
    assert np.isfinite(rig_moves(OddRig(3000), np.zeros(3000))).all()
    assert rig_moves(OddRig(3000), np.zeros(3000)).shape[2] <= 256
