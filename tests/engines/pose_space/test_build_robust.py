"""A build goes on where it can, whoever computes it, and says what it could not do."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import ArrayLike

from helpers.build_samples import (
    MATERIAL,
    WIDTH,
    bar_mesh,
    bar_options,
    bending_bar,
    held_end,
)
from helpers.model_samples import sample_fields
from supple.anatomy.painted_material import interpolated_material
from supple.elastic.material import Material
from supple.engines.common.flesh_fields import embedding_table
from supple.engines.common.pose_selection import AUTO_POSES
from supple.engines.pose_space.build import reduction_setup, sampled_poses, training
from supple.engines.pose_space.build.aligned_poses import assess_pose
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.build.pose_basis import reduce_pose
from supple.engines.pose_space.build.sampled_poses import SampledPoses
from supple.engines.pose_space.build.training import is_thread_safe
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SolverError, SuppleError, SuppleWarning
from supple.mesh.obstacles import Plane
from supple.reduction.build_log import BuildLog
from supple.reduction.compliance import LoosePieceError
from supple.reduction.regions.region import Region
from supple.reduction.workers import Workers
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend
from supple.rig.protocol import FunctionRig, Rig
from supple.rig.tets.tet_rig import TetRig, fit_tet_rig

SMALL = (4, 1, 1)
#: The module; the package has the function by that name.
build_module = import_module("supple.engines.pose_space.build.build")
Floats = np.ndarray


def small_options(**changed: Any) -> dict[str, Any]:
    return bar_options(
        SMALL, **{"modes": 4, "elastic_cubature": 6, "inertial_cubature": 3} | changed
    )


def small_bar() -> Character:
    return bending_bar(cells=SMALL)


def whole_region(name: str, cells: tuple[int, int, int] = SMALL) -> Region:
    mesh = bar_mesh(cells)
    return Region.whole(len(mesh.vertices), held_end(mesh), name)


# --- what the skin hangs on ---------------------------------------------------------------------


def test_a_surface_vertex_may_hang_with_no_weight_on_the_first_of_its_tet_vertices():
    """1 minus three float32 thirds is not the 0 that was there, and no basis is stored for it."""
    fields = sample_fields()
    mesh = fields["mesh"]
    matrix = fields["embedding"].tocoo()
    inside = fields["regions"][0].vertices
    inner = np.setdiff1d(inside, matrix.col[matrix.data != 0])[0]
    near = inside[inside > inner][:3]
    without = np.flatnonzero(~(mesh.tets == inner).any(axis=1))
    kept = (matrix.row != 0) & (matrix.data != 0)
    rows = np.concatenate([matrix.row[kept], np.zeros(4, int)])
    columns = np.concatenate([matrix.col[kept], [inner, *near]])
    values = np.concatenate([matrix.data[kept], [0.0, 1 / 3, 1 / 3, 1 / 3]])
    # By hand: conversions would drop the zero.
    order = np.lexsort([columns, rows])
    starts = np.searchsorted(rows[order], np.arange(matrix.shape[0] + 1))
    embedding = sp.csr_array((values[order], columns[order], starts), shape=matrix.shape)
    fields |= {
        "embedding": embedding,
        "elastic_tets": without[:12],
        "inertial_vertices": near,
        "inertial_weights": fields["inertial_weights"][:, :3],
        "inertial_corrections": fields["inertial_corrections"][:, :3],
    }
    model = PoseSpaceModel.make(**fields)
    assert inner not in model.basis_vertices[0]
    assert model.embedding_weights[0].min() == 0
    apart = abs(model.embedding - embedding)
    assert apart.max() < 1e-7


def test_the_largest_weight_is_first_and_rows_stay_the_same():
    rng = np.random.default_rng(5)
    values = rng.dirichlet(np.ones(4), 30)
    columns = np.array([np.sort(rng.choice(50, 4, replace=False)) for _ in range(30)])
    matrix = sp.csr_array((values.ravel(), columns.ravel(), np.arange(0, 121, 4)), shape=(30, 50))
    places, weights = embedding_table(matrix)
    assert (weights[:, 0] == weights.max(axis=1)).all()
    back = np.zeros((30, 50))
    np.put_along_axis(back, places, weights, axis=1)
    np.testing.assert_allclose(back, matrix.toarray(), atol=1e-7)


# --- who computes -------------------------------------------------------------------------------


class KeepsAThread:
    """Somebody's rig, which notes who calls it."""

    def __init__(self, bend: Rig) -> None:
        self._bend = bend
        self.callers: set[int] = set()
        self.parameters, self.n_vertices = bend.parameters, bend.n_vertices
        self.rest_pose = bend.rest_pose

    def __call__(self, pose: ArrayLike, vertices: ArrayLike | None = None) -> Floats:
        self.callers.add(threading.get_ident())
        return self._bend(pose, vertices)


def test_somebody_elses_rig_is_called_from_one_thread_only():
    bar = small_bar()
    rig = KeepsAThread(bar.rig)
    build(Character("bar", bar.surface, rig), **small_options())
    assert rig.callers == {threading.get_ident()}


def test_only_rigs_that_are_all_of_supples_own_kinds_are_called_beside_themselves():
    bar, mesh = small_bar(), bar_mesh(SMALL)
    poses = np.radians([[-30.0], [30.0]])
    own = fit_tet_rig(bar.rig, bar.surface, mesh, poses)
    assert is_thread_safe(own)
    rigs: tuple[Rig, ...] = (
        KeepsAThread(bar.rig),
        FunctionRig(bar.rig, bar.rig.parameters, bar.rig.n_vertices),
    )
    for rig in rigs:
        assert not is_thread_safe(rig)
        assert not is_thread_safe(fit_tet_rig(rig, bar.surface, mesh, poses))


def test_a_broken_pool_of_processes_is_reported():
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as pool,
        pytest.raises(SuppleError, match=r'executor broke: .*get_context\("spawn"\)') as caught,
    ):
        Workers(pool).map(os._exit, [3, 3])
    assert "\n" not in str(caught.value)


def test_a_closed_executor_is_an_error():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(SuppleError, match=r"the executor accepts no tasks .*shutdown"):
        Workers(pool).map(abs, [1])
    with pytest.raises(SuppleError, match="the executor accepts no tasks"):
        build(small_bar(), **small_options(executor=pool))


def test_of_tasks_that_fail_the_first_in_the_list_is_raised():
    def fail(task: int) -> None:
        time.sleep(0.2 if task == 0 else 0.0)
        raise SuppleError(f"task {task}")

    with ThreadPoolExecutor(2) as pool, pytest.raises(SuppleError, match="task 0"):
        Workers(pool).map(fail, range(5))


def test_no_task_runs_on_after_a_failure_or_an_interrupt():
    finished: list[int] = []

    def run(task: int) -> None:
        if task == 0:
            raise SuppleError("no")
        time.sleep(0.2)
        finished.append(task)

    def stop(task: int, count: int) -> None:
        raise KeyboardInterrupt

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(SuppleError, match="no"):
            Workers(pool).map(run, range(9))
        began = list(finished)
        assert len(began) < 8
        time.sleep(0.3)
        assert finished == began
        with pytest.raises(KeyboardInterrupt):
            Workers(pool).map(run, [1, 2, 3, 4, 5, 6], stop)
        began = list(finished)
        time.sleep(0.3)
        assert finished == began


def test_there_are_as_many_threads_as_compiled_loops_may_have():
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with Workers() as workers:
            assert workers.threads is not None
            assert workers.threads._max_workers == 1
    finally:
        numba.set_num_threads(before)


def test_an_error_that_names_a_loose_piece_comes_back_from_another_process():
    for error in (LoosePieceError(np.array([4, 7])), LoosePieceError(np.array([1]), "a hinge")):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is LoosePieceError
        assert str(again) == str(error)
        np.testing.assert_array_equal(again.vertices, error.vertices)


# --- between the poses --------------------------------------------------------------------------


def test_a_body_with_fewer_modes_than_are_compared_is_built():
    mesh = bar_mesh((1, 1, 1))
    surface, _ = mesh.surface()
    rig = Bend(surface.vertices, (0, WIDTH / 2, WIDTH / 2), (1, 0, 0), (0, 0, 1), low=0, high=1)
    options = small_options(tets=mesh, bones=np.arange(7), modes=3)
    options |= {"elastic_cubature": 1, "inertial_cubature": 1}
    model = build(Character("corner", surface, rig), **options)
    assert [len(row["to_exact"]) for row in model.report["mid_poses"]] == [3, 3]


def test_regions_that_hold_the_same_columns_are_named():
    regions = [whole_region("arm"), whole_region("twin")]
    words = '"arm" and "twin" overlap so much .*merge them or give fewer modes'
    with pytest.raises(SuppleError, match=f'pose "neutral": regions {words}'):
        build(small_bar(), **small_options(regions=regions, modes=[26, 26]))
    few = build(small_bar(), **small_options(regions=regions, modes=[4, 4]))
    assert few.n_modes == 8


def failing_at(name: str, function: Callable[..., Any], times: int = 1000) -> Callable[..., Any]:
    """The function, but an error at the task of this name, as often as is said."""
    left = [times]

    def failing(task: Any, *others: Any) -> Any:
        if task.name == name and left[0] > 0:
            left[0] -= 1
            raise SolverError("column 3 of the blended basis vanishes")
        return function(task, *others)

    return failing


@pytest.mark.parametrize(
    ("name", "function"), [("assess_pose", assess_pose), ("reduce_pose", reduce_pose)]
)
def test_failures_between_poses_are_reported_and_do_not_end_the_build(monkeypatch, name, function):
    monkeypatch.setattr(sampled_poses, name, failing_at("between neutral and left", function))
    words = 'halfway between poses "neutral" and "left" the basis could not be assessed: .*vanishes'
    with pytest.warns(SuppleWarning, match=words):
        model = build(small_bar(), **small_options())
    first, second = sorted(model.report["mid_poses"], key=lambda row: row["between"])
    assert "vanishes" in first["trouble"]
    assert "to_recomputed" not in first
    assert "trouble" not in second
    assert len(model.correction_ends) == 1
    assert model.report["mid_pose_frequency_ratio"] == max(second["to_recomputed"])


def test_auto_adds_a_pose_where_bases_cannot_be_blended(monkeypatch):
    options = small_options(poses="auto", modes=8, inertial_cubature=8)
    character = bending_bar(20.0, SMALL)
    assert build(character, **options).n_poses == AUTO_POSES
    edge = build(character, **options).report["mid_poses"][0]["between"]
    failing = failing_at(f"between {edge[0]} and {edge[1]}", assess_pose, times=1)
    monkeypatch.setattr(sampled_poses, "assess_pose", failing)
    model = build(character, **options)
    assert model.pose_names[AUTO_POSES:] == ("halfway 1",)
    assert all("trouble" not in row for row in model.report["mid_poses"])


def test_a_quarter_of_the_way_no_tet_need_be_sound(monkeypatch):
    assert build(small_bar(), **small_options()).report["elastic_error"]["quarter_way"] > 0
    usual = TetRig.inversions

    def inverted(rig: TetRig, poses: Floats, least: float = 0.0) -> list[Floats]:
        if np.allclose(np.abs(poses), np.radians(15)):
            return [np.array([0])]
        return usual(rig, poses, least)

    monkeypatch.setattr(TetRig, "inversions", inverted)
    figures = build(small_bar(), **small_options()).report["elastic_error"]
    assert figures["quarter_way"] is None
    assert figures["between_poses"] > 0


def test_poses_that_fail_a_quarter_of_the_way_are_left_out(monkeypatch):
    def fails(*_: Any) -> float:
        raise SuppleError("a column vanishes")

    monkeypatch.setattr(training, "_error_at", fails)
    model = build(small_bar(), **small_options())
    assert model.report["elastic_error"]["quarter_way"] is None


def test_bases_between_poses_are_of_the_material_that_is_there_now(monkeypatch):
    """Poses that are added change what is interpolated elsewhere too."""
    used: dict[bytes, Material] = {}
    train_model = build_module.train_model

    def reducing(task: Any) -> Any:
        used[task.rest.tobytes()] = task.material
        return reduce_pose(task)

    def training_model(sampled: SampledPoses, *others: Any) -> PoseSpaceModel:
        known = {each.pose.tobytes(): each for each in sampled.midpoints}
        same = sampled._made_midpoints(known)
        for before, after in zip(sampled.midpoints, same, strict=True):
            assert after.model is before.model
        sampled.materials = [
            replace(each, young=2 * np.asarray(each.young)) for each in sampled.materials
        ]
        for before, after in zip(same, sampled._made_midpoints(known), strict=True):
            assert after.model is not before.model
            there = interpolated_material(sampled.materials, sampled.weights(after.pose))
            young = used[after.task.rest.tobytes()].young
            np.testing.assert_array_equal(young, there.young)
        return train_model(sampled, *others)

    monkeypatch.setattr(build_module, "train_model", training_model)
    monkeypatch.setattr(sampled_poses, "reduce_pose", reducing)
    n_skin = len(small_bar().surface.vertices)
    young = np.array([[1e4], [2e4], [4e4]]) * np.ones(n_skin)
    build(small_bar(), **small_options(young=young))


def test_bodies_are_made_once_for_each_material(monkeypatch):
    made: list[Material] = []
    usual = reduction_setup.ElasticBody

    def making(mesh: Any, material: Material) -> Any:
        made.append(material)
        return usual(mesh, material)

    monkeypatch.setattr(reduction_setup, "ElasticBody", making)
    build(small_bar(), **small_options())
    assert made == [MATERIAL]


# --- what is asked for --------------------------------------------------------------------------


def test_errors_of_a_pose_name_it():
    ground = Plane((0, 0, 10.0), (0, 0, 1))  # all of the body is below
    with pytest.raises(SuppleError, match=r'^pose "neutral": '):
        build(small_bar(), **small_options(obstacles=[ground], contacts="fixed"))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("executor", 3, "executor is 3; give a concurrent.futures.Executor"),
        ("executor", ThreadPoolExecutor, "executor"),
        ("material", Material("orthotropic"), "material orthotropic is not isotropic"),
        ("material", 2e4, r"material is 20000.0; give a Material, such as Material\("),
        ("obstacles", [Plane], "obstacle 0 is a type, which"),
        ("obstacles", "ground", "obstacle 0 is a str"),
        ("contacts", ["fixed"], "contacts is .*; use two-sided"),
        ("interpolation", ["frames"], "use one of frames, world"),
        ("seed", True, "seed must be a whole number"),
        ("most_poses", True, "most_poses must be a positive whole number, not True"),
        (
            "elastic_cubature",
            np.ones(50),
            "elastic_cubature must be a positive whole number, not array",
        ),
        ("regions", iter([]), "regions is .*use .auto., handles, regions or None"),
        ("regions", {"arm": 3}, "regions is "),
        ("bone_radius", "x", "bone_radius"),
    ],
)
def test_options_that_are_none_are_named_before_any_stage(option, value, words):
    log = BuildLog()
    with pytest.raises(SuppleError, match=words) as caught:
        build(small_bar(), **small_options(**{option: value}), log=log)
    assert "\n" not in str(caught.value)
    assert list(log.stages) == []


@pytest.mark.parametrize("character", [None, "bear.glb", 3])
def test_an_invalid_character_is_a_one_line_error(character):
    with pytest.raises(SuppleError, match=r"build needs a Character, not .*supple\.load"):
        build(character)


def test_two_regions_of_one_name_are_an_error():
    regions = [whole_region("arm"), whole_region("arm")]
    with pytest.raises(SuppleError, match='two regions are called "arm"; rename one'):
        build(small_bar(), **small_options(regions=regions))


def test_vertices_that_no_region_holds_are_counted():
    free = whole_region("arm")
    part = Region("arm", free.vertices[:-3], free.weights[:-3])
    words = rf"no region contains 3 tet vertices that nothing fixes \(first: {free.vertices[-3]}\)"
    with pytest.warns(SuppleWarning, match=words):
        build(small_bar(), **small_options(regions=[part]))
