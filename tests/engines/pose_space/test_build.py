"""Building a model: the same bytes every time, and what every option does to it."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numba
import numpy as np
import pytest

from helpers.build_samples import (
    MATERIAL,
    WIDTH,
    bar_mesh,
    bar_options,
    bending_bar,
    held_end,
    jointed_arm,
    mean_young,
)
from supple.engines.common.model_file import packed_model
from supple.engines.pose_space.build.build import build
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.mesh.obstacles import Plane
from supple.mesh.tets import TetMesh
from supple.reduction.build_log import BuildLog
from supple.reduction.regions.handles import Handle
from supple.reduction.regions.region import Region
from supple.rig.character import Character
from supple.rig.deformers.bend import Bend

CELLS = (16, 3, 3)
GROUND = Plane((0, 0, -0.2), (0, 0, 1))
STAGES = [
    "tets",
    "regions",
    "modes",
    "alignment",
    "between poses",
    "elastic cubature",
    "inertial cubature",
    "cubature between poses",
    "model",
]


def handles() -> list[Handle]:
    middle = WIDTH / 2
    return [
        Handle("near", np.array([[0.25, middle, middle]])),
        Handle("far", np.array([[0.6, middle, middle], [0.9, middle, middle]])),
    ]


def everything(**changed: Any) -> dict[str, Any]:
    """Regions, contact, and a material painted in each pose: whatever may differ between runs."""
    along = bending_bar(cells=CELLS).surface.vertices[:, 0]
    young = 3e4 * np.array([np.ones(len(along)), 1 + along, 2 - along])
    own = {"regions": handles(), "modes": [6, 5], "obstacles": [GROUND], "young": young}
    own |= {"inertial_cubature": 16}
    return bar_options(CELLS, **own | changed)


@pytest.fixture(scope="module")
def reference() -> PoseSpaceModel:
    return build(bending_bar(cells=CELLS), **everything())


@contextmanager
def one_numba_thread() -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        yield None
    finally:
        numba.set_num_threads(before)


EXECUTORS: dict[str, Any] = {
    "none": lambda: None,
    "one thread": lambda: ThreadPoolExecutor(1),
    "two threads": lambda: ThreadPoolExecutor(2),
    "two processes": lambda: ProcessPoolExecutor(2, multiprocessing.get_context("spawn")),
}


@pytest.mark.parametrize("kind", EXECUTORS)
def test_the_same_seed_gives_the_same_bytes_with_any_executor(reference, kind):
    executor: Executor | None = EXECUTORS[kind]()
    try:
        model = build(bending_bar(cells=CELLS), **everything(), executor=executor)
        if executor is not None:  # it is its owner's, who may go on to use it
            assert executor.submit(abs, -1).result() == 1
    finally:
        if executor is not None:
            executor.shutdown()
    assert packed_model(model) == packed_model(reference)


def test_the_same_seed_gives_the_same_bytes_on_one_core(reference):
    with one_numba_thread():
        model = build(bending_bar(cells=CELLS), **everything())
    assert packed_model(model) == packed_model(reference)


def test_another_seed_draws_other_cubature_as_good(reference):
    other = build(bending_bar(cells=CELLS), **everything(seed=1))
    assert (other.seed, reference.seed) == (1, 0)
    assert not np.array_equal(other.elastic_weights, reference.elastic_weights)
    assert not np.array_equal(other.inertial_weights, reference.inertial_weights)
    # Nothing else is drawn by chance.
    np.testing.assert_array_equal(other.root_eigenvalues, reference.root_eigenvalues)
    np.testing.assert_array_equal(other.mass_products, reference.mass_products)
    for model in (other, reference):
        assert model.report["elastic_error"]["held_out"] < 0.03
        assert model.report["inertial_error"]["held_out"] < 0.03


def test_a_loaded_model_is_the_built_one(reference, tmp_path):
    path = tmp_path / "bar.supple"
    reference.save(path)
    assert path.read_bytes() == packed_model(reference)
    loaded = PoseSpaceModel.load(path)
    assert packed_model(loaded) == path.read_bytes()
    assert loaded.report == reference.report
    assert loaded.pose_names == ("neutral", "left", "right")
    pose = np.radians([33.0])
    np.testing.assert_array_equal(
        loaded.interpolated_basis(pose), reference.interpolated_basis(pose)
    )
    np.testing.assert_array_equal(loaded.tet_rig(pose), reference.tet_rig(pose))


def test_the_model_records_the_requested_options(reference):
    report = reference.report
    mesh = bar_mesh(CELLS)
    assert report["tets"] == len(mesh.tets) == len(reference.mesh.tets)
    assert (report["poses"], report["modes"]) == (3, 11)
    assert [(r["name"], r["modes"]) for r in report["regions"]] == [("near", 6), ("far", 5)]
    assert report["elastic_tets"] == len(reference.elastic_tets) == 20
    assert report["inertial_vertices"] == len(reference.inertial_vertices) == 16
    assert report["fixed_vertices"] == len(held_end(mesh))
    stored = sum(r["vertices"] * r["modes"] for r in report["regions"])
    dense = (len(mesh.vertices) - len(held_end(mesh))) * 11
    assert report["stored_fraction"] == pytest.approx(stored / dense, rel=1e-5)
    assert report["stored_fraction"] < 1
    assert not np.intersect1d(reference.fixed, np.concatenate(reference.basis_vertices)).size


class Listening(BuildLog):
    """Keeps all that is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, float, str]] = []
        self.open: list[str] = []
        self.threads: set[int] = set()

    def began(self, name: str) -> None:
        self.open.append(name)

    def ended(self, name: str) -> None:
        assert self.open.pop() == name

    def report(self, part: float, what: str) -> None:
        self.told.append((self.open[-1], part, what))
        self.threads.add(threading.get_ident())


def test_a_log_receives_every_stage_its_time_and_its_progress():
    log = Listening()
    build(bending_bar(), **bar_options(), log=log)
    assert list(log.stages) == STAGES
    assert log.open == []
    assert all(seconds >= 0 for seconds in log.stages.values())
    assert log.seconds == pytest.approx(sum(log.stages.values()))
    assert log.seconds > 0
    assert all(0 <= part <= 1 for _, part, _ in log.told)
    for stage in ("tets", "modes", "elastic cubature", "inertial cubature"):
        parts = [part for name, part, _ in log.told if name == stage]
        assert parts == sorted(parts), stage
        assert parts[-1] == 1, stage
    poses = {what for name, _, what in log.told if name == "modes"}
    assert poses >= {'pose "neutral"', 'pose "left"', 'pose "right"'}
    assert log.threads == {threading.get_ident()}  # a display need not be thread-safe


def test_an_interrupted_build_ends_its_threads_and_its_stage():
    class Interrupting(Listening):
        def report(self, part: float, what: str) -> None:
            super().report(part, what)
            if self.open[-1] == "modes" and part > 0:
                raise KeyboardInterrupt

    log = Interrupting()
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        build(bending_bar(), **bar_options(), log=log)
    assert log.open == []
    assert set(threading.enumerate()) <= before


def test_one_pose_is_enough(tmp_path):
    model = build(bending_bar(), **bar_options(poses=1))
    assert model.n_poses == 1
    assert model.report["mid_pose_frequency_ratio"] is None
    assert model.report["elastic_error"]["between_poses"] is None
    assert model.report["subspace_angles"] == {"median": [], "largest": []}
    assert model.report["elastic_error"]["train"] < 0.01
    model.save(tmp_path / "one.supple")
    assert PoseSpaceModel.load(tmp_path / "one.supple").n_poses == 1


def test_a_body_that_nothing_holds_is_reduced_without_its_rigid_motions():
    free = build(bending_bar(), **bar_options(bones=[]))
    held = build(bending_bar(), **bar_options())
    assert len(free.fixed) == 0
    assert free.report["fixed_vertices"] == 0
    # A free bar's first bending is far above the held one's, and none of it is rigid.
    assert free.root_eigenvalues[0] > 4 * held.root_eigenvalues[0]
    assert free.report["elastic_error"]["held_out"] < 0.03
    assert free.report["mid_pose_frequency_ratio"] < 1.1


def test_the_whole_body_is_one_region_however_it_is_requested():
    plain = build(bending_bar(), **bar_options(regions=None))
    assert [region.name for region in plain.regions] == ["body"]
    assert plain.report["stored_fraction"] == 1
    mesh = bar_mesh()
    whole = [Region.whole(len(mesh.vertices), held_end(mesh))]
    for same in (whole, "auto"):  # a rig without bones has none to make handles of
        assert packed_model(build(bending_bar(), **bar_options(regions=same))) == packed_model(
            plain
        )


def test_regions_follow_bones_by_default():
    model = build(jointed_arm(), **bar_options(regions="auto", bones=None, poses=2))
    assert len(model.fixed) > 0
    reached = np.unique(np.concatenate([region.vertices for region in model.regions]))
    everyone = np.arange(len(model.mesh.vertices))
    np.testing.assert_array_equal(reached, np.setdiff1d(everyone, model.fixed))


def test_modes_are_shared_out_by_what_sways_or_given_for_each_region():
    shared = build(bending_bar(), **bar_options(regions=handles(), modes=7))
    counts = {region["name"]: region["modes"] for region in shared.report["regions"]}
    assert counts == {"near": 2, "far": 5}  # which is longer, and farther from what holds it
    given = build(bending_bar(), **bar_options(regions=handles(), modes=(2, 5)))
    assert [basis.shape[3] for basis in given.bases] == [2, 5]


def test_soft_paint_on_the_skin_swings_more():
    n_skin = len(bending_bar().surface.vertices)
    plain = build(bending_bar(), **bar_options())
    stiff = build(bending_bar(), **bar_options(young=np.full(n_skin, 4 * 3e4)))
    np.testing.assert_allclose(stiff.root_eigenvalues, 4 * plain.root_eigenvalues, rtol=1e-6)
    # Soft at its root, it swings more slowly than soft at its tip.
    along = bending_bar().surface.vertices[:, 0]
    slow, fast = (
        build(bending_bar(), **bar_options(young=np.where(soft, 1e4, 9e4))).root_eigenvalues[0]
        for soft in (along < 0.3, along > 0.7)
    )
    assert slow < 0.5 * fast


def test_material_painted_in_a_pose_counts_in_that_pose_only():
    n_skin = len(bending_bar().surface.vertices)
    painted = np.full((3, n_skin), 3e4)
    painted[2] *= 9
    plain = build(bending_bar(), **bar_options())
    model = build(bending_bar(), **bar_options(young=painted))
    np.testing.assert_allclose(model.root_eigenvalues, plain.root_eigenvalues, rtol=1e-9)
    assert mean_young(model, 2) == pytest.approx(9 * 3e4, rel=1e-6)
    # xu2016 eq. 36: half of each, halfway.
    weights = model.pose_weights(np.radians([30.0]))
    assert mean_young(model, weights) == pytest.approx(3e4 * (1 + 8 * weights[2]), rel=1e-6)


def test_material_and_counts_have_defaults_that_follow_the_modes():
    model = build(
        bending_bar(),
        **bar_options(poses=1, modes=6, elastic_cubature=None, inertial_cubature=None),
    )
    assert len(model.elastic_tets) == 18
    assert len(model.inertial_vertices) == 9


def test_tets_are_made_when_a_number_is_given():
    model = build(bending_bar(), **bar_options(tets=500, poses=1, bones=[]))
    assert 250 < len(model.mesh.tets) < 1000
    assert len(model.embedding_vertices) == len(bending_bar().surface.vertices)


@pytest.mark.parametrize(("kind", "rows_each"), [("two-sided", 1), ("one-sided", 1), ("fixed", 3)])
def test_the_ground_is_touched_where_the_pose_reaches_it(kind, rows_each):
    model = build(bending_bar(), **bar_options(obstacles=[GROUND], contacts=kind))
    contacts = model.report["contacts"]
    assert contacts["neutral"] == contacts["right"] == 0
    assert contacts["left"] > 10
    row = model.report["pose_rows"][1]
    assert (row["name"], row["contacts"]) == ("left", contacts["left"])
    assert row["constraints"] == rows_each * contacts["left"]


def test_modes_do_not_move_contacts_into_the_ground():
    model = build(bending_bar(), **bar_options(obstacles=[GROUND]))
    left = np.radians([-60.0])
    _, skin = bar_mesh().surface()
    touching = np.intersect1d(skin, np.flatnonzero(model.tet_rig(left)[:, 2] < -0.2))
    touching = np.intersect1d(touching, model.rotation_vertices)
    assert len(touching) > 10
    at_left, at_rest = (
        np.abs(model.interpolated_basis(pose).reshape(-1, 3, model.n_modes)[touching, 2]).max()
        for pose in (left, np.zeros(1))
    )
    assert at_left < 1e-3 * at_rest  # bases are kept with 16 bits


def test_without_contacts_the_ground_is_not_there():
    ignored = build(bending_bar(), **bar_options(obstacles=[GROUND], contacts=None))
    assert set(ignored.report["contacts"].values()) == {0}
    assert packed_model(ignored) == packed_model(build(bending_bar(), **bar_options(contacts=None)))


@pytest.mark.parametrize("kind", ["neo-hookean", "corotational", "stvk-volume"])
def test_every_material_can_be_reduced(kind):
    model = build(bending_bar(), **bar_options(material=replace(MATERIAL, kind=kind), poses=2))
    assert model.material_kind == kind
    assert model.report["elastic_error"]["held_out"] < 0.03


@pytest.mark.parametrize(("size", "young"), [(1e-3, 1e-2), (1e3, 1e11)])
def test_size_and_stiffness_change_nothing_but_the_frequencies(size, young):
    """Of a gnat or a tower: ω = √(E/ρ) / L times a number of the shape."""
    plain = build(bending_bar(), **bar_options())
    small = TetMesh(size * bar_mesh().vertices, bar_mesh().tets)
    surface, _ = small.surface()
    middle = (0, size * WIDTH / 2, size * WIDTH / 2)
    rig = Bend(surface.vertices, middle, (1, 0, 0), (0, 0, 1), low=0, high=size)
    scaled = build(
        Character("scaled", surface, rig),
        **bar_options(tets=small, material=replace(MATERIAL, young=young)),
    )
    expected = plain.root_eigenvalues * (young / 3e4) / size**2
    np.testing.assert_allclose(scaled.root_eigenvalues, expected, rtol=1e-6)
    np.testing.assert_array_equal(scaled.elastic_tets, plain.elastic_tets)
    for key in ("train", "held_out", "between_poses"):
        mine, theirs = (model.report["elastic_error"][key] for model in (scaled, plain))
        assert mine == pytest.approx(theirs, rel=1e-3)
    ratio = plain.report["mid_pose_frequency_ratio"]
    assert scaled.report["mid_pose_frequency_ratio"] == pytest.approx(ratio, rel=1e-5)
