"""Claims about placing again and again what wires, bends, twists, lattices and tets move."""

from __future__ import annotations

import gc
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from scipy.spatial.transform import Rotation

import supple
from helpers.build_samples import bar_options, bending_bar
from helpers.model_samples import bent_beam
from supple.errors import SuppleError
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.free_form import Lattice
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.twist import Twist
from supple.rig.deformers.wire import Wire, WiresPlacement, nearest_parameters
from supple.rig.placement.placement import (
    CalledPlacement,
    DeformingPlacement,
    placement,
    placement_calls,
)
from supple.rig.protocol import FunctionRig
from supple.rig.tets.character_placement import CharacterPlacement
from supple.rig.tets.corotated_corrections import CorotatedPlacement
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.tet_rig import TetRig, fit_tet_rig

CLOUD = np.random.default_rng(0).uniform(-1, 1, (203, 3))
CURVE = np.array([[-1, 0, 0], [-0.5, 0.2, 0], [0, 0, 0.1], [0.5, 0, 0], [1, 0, 0]])
ROOTS = np.random.default_rng(7).permutation(203)[:90]


@cache
def all_rigs() -> dict:
    wires = [Wire(CLOUD, CURVE + 0.2 * k, 0.9, turning=1 - 0.3 * k, name=f"w{k}") for k in range(3)]
    whole = Wire(CLOUD, CURVE[:, [1, 0, 2]], influence=np.ones(203), name="body")
    bend = Bend(CLOUD, [0, -0.2, 0], [1, 2, 0], [0, 0, 1], low=-0.3, high=0.7)
    twist = Twist(CLOUD, [0.1, 0, 0], [0, 1, 1], low=-0.5, high=0.5)
    lattice = Lattice(CLOUD, (3, 2, 4))
    black = FunctionRig(lambda pose: CLOUD + pose[0], twist.parameters[:1], 203)
    return {
        "wire": wires[0],
        "turning less": wires[2],
        "whole": whole,
        "strong": Wire(CLOUD, CURVE, influence=np.linspace(0, 6, 203)),
        "two points": Wire(CLOUD, CURVE[:2], 1.5),
        "three points": Wire(CLOUD, CURVE[:3], 1.5),
        "bend": bend,
        "twist": twist,
        "lattice": lattice,
        "wires": RigChain(*wires, whole),
        "chain": RigChain(twist, wires[0], whole, lattice, bend, wires[1]),
        "black box first": RigChain(black, wires[0], twist),
    }


def random_pose(rig, seed: int, size: float = 0.6) -> np.ndarray:
    return size * np.random.default_rng(seed).standard_normal(len(rig.parameters))


def placed(which, rows: int, pose: np.ndarray, kind: type = np.float64) -> np.ndarray:
    out: np.ndarray = np.full((rows, 3), np.nan, kind)
    which.place(pose, out)
    return out


def wire_by_definition(rig: Wire, pose: np.ndarray) -> np.ndarray:
    """Every vertex by itself, with SciPy's splines and rotations from library functions."""
    count, degree = len(rig.control_points), rig.degree
    inner = np.linspace(0, 1, count - degree + 1)
    knots = np.concatenate([np.zeros(degree), inner, np.ones(degree)])
    rest = BSpline(knots, rig.control_points, degree)
    moved = BSpline(knots, rig.control_points + pose.reshape(-1, 3), degree)
    out = rig.rest_points.copy()
    where = np.clip(nearest_parameters(rig.rest_points, rig.control_points, degree), 0, 1)
    for i in np.flatnonzero(rig.influence):
        place, part = rest(where[i]), rig.influence[i]
        before, after = rest(where[i], nu=1), moved(where[i], nu=1)
        axis = np.cross(before, after)
        angle = part * rig.turning * np.arctan2(np.linalg.norm(axis), before @ after)
        turn = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis))
        out[i] = place + part * (moved(where[i]) - place) + turn.apply(out[i] - place)
    return out


@pytest.mark.parametrize(
    "name", ["wire", "turning less", "whole", "strong", "two points", "three points"]
)
def test_a_wire_equals_its_definition(name):
    rig = all_rigs()[name]
    for size in (1e-5, 0.6, 5.0):
        pose = random_pose(rig, 3, size)
        expected = wire_by_definition(rig, pose)
        np.testing.assert_allclose(rig(pose), expected, atol=1e-12)
        np.testing.assert_allclose(placed(placement(rig), 203, pose), expected, atol=1e-12)


@pytest.mark.parametrize("name", sorted(all_rigs()))
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), size=st.sampled_from([0.0, 1e-12, 1e-6, 0.3, 2.0, 1e3]))
def test_placements_have_the_numbers_of_the_rig(name, seed, size):
    rig = all_rigs()[name]
    listed = np.random.default_rng(seed).integers(0, 203, 61)
    pose = random_pose(rig, seed, size)
    whole, some = rig(pose), rig(pose, listed)
    scale = np.abs(whole).max() + 1
    np.testing.assert_allclose(placed(placement(rig), 203, pose), whole, atol=1e-14 * scale)
    np.testing.assert_allclose(placed(placement(rig, listed), 61, pose), some, atol=1e-14 * scale)
    single = placed(placement(rig, listed, single=True), 61, pose, np.float32)
    np.testing.assert_allclose(single, some, atol=1e-6 * scale)


@pytest.mark.parametrize("name", ["wire", "bend", "twist", "lattice", "wires", "chain"])
def test_given_points_are_moved_also_in_place(name):
    rig = all_rigs()[name]
    pose, points = random_pose(rig, 5), CLOUD[ROOTS] + 0.1
    expected = rig.deform(points, pose, ROOTS)
    which = placement(rig, ROOTS)
    assert isinstance(which, DeformingPlacement)
    out = np.empty((90, 3))
    which.deform(points, pose, out)
    np.testing.assert_allclose(out, expected, atol=1e-14)
    which.deform(points, pose, points)
    assert np.array_equal(points, out)


def test_a_chain_over_what_moves_no_points_places_and_does_not_deform():
    which = placement(all_rigs()["black box first"], ROOTS)
    assert not isinstance(which, CalledPlacement)
    assert not isinstance(which, DeformingPlacement)


def test_wires_in_a_row_are_moved_in_one_go():
    assert isinstance(placement(all_rigs()["wires"]), WiresPlacement)


def test_a_wire_called_for_one_subset_after_another_caches_the_right_one():
    rig = all_rigs()["wire"]
    pose = random_pose(rig, 2)
    whole = rig(pose)
    for listed in (ROOTS, ROOTS[::-1], ROOTS[:7], np.arange(203), ROOTS[:7], ROOTS):
        assert np.array_equal(rig(pose, listed), whole[listed])
        assert np.array_equal(rig(pose), whole)
    with ThreadPoolExecutor(4) as pool:
        subsets = [np.roll(ROOTS, k)[: 20 + k] for k in range(40)]
        for listed, got in zip(subsets, pool.map(lambda s: rig(pose, s), subsets), strict=True):
            assert np.array_equal(got, whole[listed])


def test_vertices_without_influence_keep_their_bits():
    rig = all_rigs()["wire"]
    far = rig.influence == 0
    assert 10 < far.sum() < 190
    assert np.array_equal(placed(placement(rig), 203, random_pose(rig, 1))[far], CLOUD[far])


def test_a_wire_that_is_not_moved_moves_nothing():
    for name in ("wires", "wire", "strong"):
        rig = all_rigs()[name]
        rest = np.zeros(len(rig.parameters))
        assert np.array_equal(placed(placement(rig), 203, rest), CLOUD)


@pytest.mark.parametrize("influence", [1.0, 0.5])
def test_tangents_that_turn_around_are_followed_to_the_end_and_exactly_opposite_ones_not(influence):
    points = np.array([[0.5, 0.3, 0.1], [0.2, -0.2, 0.4], [-0.3, 0.1, 0.2], [0.4, 0, 0]])
    line = np.array([[0.0, 0, 0], [1.0, 0, 0]])
    rig = Wire(points, line, influence=np.full(4, influence))
    for angle in (3.0, 3.1415, np.pi - 1e-9, -3.1415, np.pi):
        c, s = (-1.0, 0.0) if angle == np.pi else (np.cos(angle), np.sin(angle))
        ends = np.array([[0.0, 0, 0], [c, s, 0]])
        moved = placed(placement(rig), 4, (ends - line).ravel())
        along = np.clip(points[:, :1], 0, 1)
        place, part = along * line[1], influence * (0 if angle == np.pi else angle)
        turn = np.array([[np.cos(part), -np.sin(part), 0], [np.sin(part), np.cos(part), 0]])
        arm = points - place
        expected = place + influence * (along * ends[1] - place)
        expected[:, :2] += arm @ turn.T
        expected[:, 2] += arm[:, 2]
        np.testing.assert_allclose(moved, expected, atol=2e-8)


def test_control_points_that_fall_together_leave_points_finite():
    rig = Wire(CLOUD, np.repeat(CURVE[:1], 5, axis=0), influence=np.ones(203))
    np.testing.assert_allclose(
        placed(placement(rig), 203, np.tile([0.1, 0.2, 0.3], 5)), CLOUD + np.array([0.1, 0.2, 0.3])
    )
    collapsed = Wire(CLOUD, CURVE, 0.9)
    to_a_point = -(collapsed.control_points - [0.3, 0, 0]).ravel()
    assert np.isfinite(placed(placement(collapsed), 203, to_a_point)).all()


@pytest.mark.parametrize("unit", [1e-12, 1e-4, 1.0, 1e4, 1e7])
def test_single_precision_suffices_for_wires_of_any_unit(unit):
    wires = [
        Wire(unit * CLOUD, unit * (CURVE + 0.2 * k), 0.9 * unit, name=f"w{k}") for k in range(2)
    ]
    chain = RigChain(*wires, Wire(unit * CLOUD, unit * CURVE, influence=np.ones(203), name="b"))
    which = placement(chain, single=True)
    assert isinstance(which, WiresPlacement)
    assert which._scratch.dtype == np.float32
    for size in (1e-3, 0.6, 5.0):
        pose = unit * random_pose(chain, 4, size)
        moved = chain(pose)
        single = placed(which, 203, pose, np.float32)
        np.testing.assert_allclose(single, moved, rtol=0, atol=1e-6 * np.abs(moved).max())


def test_single_precision_finds_the_axis_of_tangents_turned_nearly_around():
    line = np.array([[0.0, 0, 0], [1.0, 0, 0]])
    points = np.abs(CLOUD)  # between the ends and beyond
    chain = RigChain(
        Wire(points, line, influence=np.full(203, 0.7), name="a"),
        Wire(points, line, influence=np.ones(203), name="b"),
    )
    which = placement(chain, single=True)
    for angle in (2.0, 3.0, 3.14, 3.1415):
        offset = [np.cos(angle) - 1, np.sin(angle), 0]
        pose = np.array([0, 0, 0, *offset, 0, 0, 0, *offset])
        single = placed(which, 203, pose, np.float32)
        np.testing.assert_allclose(single, chain(pose), rtol=0, atol=1e-6)


@cache
def shepard_bar():
    """A bending bar built with the rig on its tets by Shepard's interpolation, corrected."""
    model = supple.build(bending_bar(), **bar_options())
    needed = np.unique(model.mesh.tets[model.elastic_tets])
    return model, np.union1d(needed, model.inertial_vertices)


@cache
def wired_bar():
    """As the bear: wires under pose-space deformation, and tets that follow them."""
    character, mesh = bending_bar(), bar_options()["tets"]
    points = character.surface.vertices
    line = np.stack([np.linspace(0, 1, 6), np.full(6, 0.08), np.full(6, 0.08)], axis=1)
    share = np.clip(2 * points[:, 0] - 0.5, 0, 1)
    wires = RigChain(
        Wire(points, line[3:], influence=share, name="tip"),
        Wire(points, line, influence=np.ones(len(points)), name="body"),
    )
    poses = np.zeros((3, 27))
    poses[1, 9 + 2 :: 3] = 0.3 * line[:, 0] ** 2
    poses[2, 1:9:3] = [0.0, 0.1, 0.2]
    swelling = np.zeros((3, len(points), 3))
    swelling[1:, :, 1] = 0.01 * share
    rig = PoseSpaceDeformation(wires, poses, swelling)
    return rig, fit_tet_rig(rig, character.surface, mesh, poses[1:])


def characters():
    model, some = shepard_bar()
    rig, tet_rig = wired_bar()
    body = bent_beam()
    plain = ShepardRig(rig, tet_rig.start.surface_vertices, tet_rig.mesh.vertices)
    uncorrected = TetRig(
        tet_rig.mesh,
        plain,
        type(tet_rig.pose_weights)(np.zeros((1, 27))),
        0 * tet_rig.corrections[:1],
    )
    return {
        "bar": (model.rig, model.tet_rig, some),
        "a few of the bar": (model.rig, model.tet_rig, some[::7][::-1]),
        "wires": (rig, tet_rig, np.array([5, 3, 3, 40, 11])),
        "all of the wires": (rig, tet_rig, None),
        "plain": (rig, plain, np.array([7, 2])),
        "uncorrected": (rig, uncorrected, np.array([7, 2])),
        "carried": (body["rig"], body["tet_rig"], np.array([1, 0, 9])),
        "strangers": (model.rig, Bend(CLOUD), None),
    }


CHARACTERS = ["bar", "a few of the bar", "wires", "all of the wires", "plain", "uncorrected"]
CHARACTERS += ["carried", "strangers"]


def outputs(rig, tet_rig, listed) -> tuple[np.ndarray, np.ndarray]:
    """Arrays for the listed tet vertices, None for all, and for the surface."""
    count = tet_rig.n_vertices if listed is None else len(listed)
    return np.empty((count, 3)), np.empty((rig.n_vertices, 3), np.float32)


@pytest.mark.parametrize("name", CHARACTERS)
def test_tets_and_surface_of_a_character_are_those_of_its_rigs(name):
    rig, tet_rig, some = characters()[name]
    character = CharacterPlacement(rig, tet_rig, some)
    tets, surface = outputs(rig, tet_rig, some)
    with pytest.raises(SuppleError, match="call place_tets first"):
        character.place_surface(surface)
    for seed, size in ((0, 0.1), (1, 0.02), (2, 0.4), (3, 0.0)):
        pose = random_pose(rig, seed, size)
        character.place_tets(pose, tets)
        pose_then, pose[:] = pose.copy(), np.nan
        surface[:] = np.nan
        character.place_surface(surface)
        np.testing.assert_allclose(tets, tet_rig(pose_then, some), atol=2e-14)
        np.testing.assert_allclose(surface, rig(pose_then), atol=1e-6)


@pytest.mark.parametrize("name", ["bar", "a few of the bar"])
def test_calls_of_tets_and_surface_place_the_same_bits(name):
    rig, tet_rig, some = characters()[name]
    character, listed = (CharacterPlacement(rig, tet_rig, some) for _ in range(2))
    given = np.zeros(len(rig.parameters))
    tets, surface = outputs(rig, tet_rig, some)
    tets_called, surface_called = outputs(rig, tet_rig, some)
    calls = listed.tet_calls(given, tets_called) + listed.surface_calls(given, surface_called)
    for seed, size in ((0, 0.1), (2, 0.4), (3, 0.0), (4, 60.0)):
        given[:] = pose = random_pose(rig, seed, size)
        character.place_tets(pose, tets)
        character.place_surface(surface)
        assert not any(call.run() for call in calls)
        np.testing.assert_array_equal(tets_called, tets)
        np.testing.assert_array_equal(surface_called, surface)


@pytest.mark.parametrize("name", ["bend", "twist"])
def test_calls_of_deformers_place_the_same_bits(name):
    rig = all_rigs()[name]
    made, given, out = placement(rig), np.zeros(len(rig.parameters)), np.zeros((203, 3))
    calls = placement_calls(made, given, out)
    for size in (0.0, 1e-9, 0.5, 200.0):
        given[:] = random_pose(rig, 1, size)
        assert not any(call.run() for call in calls)
        np.testing.assert_array_equal(out, placed(made, 203, given))


def test_a_wire_is_refused_where_only_python_evaluates_it():
    rig = all_rigs()["wire"]
    with pytest.raises(SuppleError, match="only Python can evaluate the rig, which has a Wires"):
        placement_calls(placement(rig), np.zeros(len(rig.parameters)), np.zeros((203, 3)))


def test_shepard_tets_share_the_surface_and_need_only_a_part_of_it():
    rig, tet_rig, some = characters()["a few of the bar"]
    character = CharacterPlacement(rig, tet_rig, some)
    assert isinstance(character._tets, CorotatedPlacement)
    assert character._shared is not None
    assert 0 < len(character._shared.needed) < 0.8 * rig.n_vertices
    whole = CharacterPlacement(rig, tet_rig, None)
    assert whole._shared is not None
    assert len(whole._shared.needed) == rig.n_vertices
    assert whole._rest is None


def test_where_rotations_cancel_the_strongest_pose_turns_the_tets():
    model, some = shepard_bar()
    corrected = model.tet_rig._corrected
    middle = 0.4999 * corrected.pose_weights.poses[0] + 0.5001 * corrected.pose_weights.poses[1]
    weights = corrected.pose_weights.weights(middle)
    strongest = int(np.argmax(np.abs(weights)))
    # About z, and the same the other way round but for a part that decides what is left over.
    rotations = np.tile([0.0, 0, 1, 0], (*corrected.rotations.shape[:2], 1))
    others = np.delete(np.arange(len(weights)), strongest)
    rotations[others] *= -weights[strongest] / weights[others].sum()
    rotations[others, :, 0] = 1e-9
    odd = type(corrected)(corrected.start, corrected.pose_weights, corrected.corrections, rotations)
    out = placed(odd.placement(some), len(some), middle)
    alike = rotations.copy()
    alike[:] = rotations[strongest]
    about_z = type(corrected)(odd.start, odd.pose_weights, odd.corrections, alike)
    np.testing.assert_allclose(out, odd(middle, some), atol=1e-13)
    np.testing.assert_allclose(out, about_z(middle, some), atol=1e-13)


def test_rigs_of_other_poses_are_refused():
    with pytest.raises(SuppleError, match="must be the same"):
        CharacterPlacement(all_rigs()["bend"], all_rigs()["twist"])


def test_placing_allocates_nothing(monkeypatch):
    rig, tet_rig, _ = characters()["wires"]
    model, some = shepard_bar()
    for own, tets_own, listed in (
        (rig, tet_rig, np.arange(0, 60, 7)),
        (model.rig, model.tet_rig, some),
    ):
        character = CharacterPlacement(own, tets_own, listed)
        tets, surface = outputs(own, tets_own, listed)
        pose = random_pose(own, 1, 0.1)
        monkeypatch.setattr(gc, "enable", lambda: None)  # by whoever compiles
        gc.disable()  # which would empty lists of free objects: those that fill them are counted
        for _ in range(300):
            character.place_tets(pose, tets)
            character.place_surface(surface)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(200):
            character.place_tets(pose, tets)
            character.place_surface(surface)
        after, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        monkeypatch.undo()
        gc.enable()
        assert after - before < 2_000
        assert peak - before < 4_000  # views; a copy of the surface would be more


@pytest.mark.parametrize("name", ["bar", "wires", "carried", "plain"])
def test_forks_are_independent_and_threads_agree_to_the_bit(name):
    rig, tet_rig, some = characters()[name]
    first = CharacterPlacement(rig, tet_rig, some)
    poses = [random_pose(rig, seed, 0.2) for seed in range(24)]

    def run(which: CharacterPlacement, pose: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tets, surface = outputs(rig, tet_rig, some)
        which.place_tets(pose, tets)
        which.place_surface(surface)
        return tets, surface

    alone = [run(first, pose) for pose in poses]
    forks = [first.fork() for _ in poses]
    tets, surface = outputs(rig, tet_rig, some)
    first.place_tets(poses[0], tets)
    run(forks[0], poses[1])
    first.place_surface(surface)
    assert np.array_equal(surface, alone[0][1])
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, forks, poses))
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one[0], other[0])
        assert np.array_equal(one[1], other[1])
