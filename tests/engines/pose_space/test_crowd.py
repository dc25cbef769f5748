"""Many characters in one call: each as if alone, and none moved by a call that fails."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from helpers.build_samples import stepped_model
from supple import Crowd, PoseSpaceModel, SuppleError
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.maths.rotations import exponential, to_matrix
from supple.mesh.obstacles import Plane
from supple.rig.protocol import FunctionRig

Floats = NDArray[np.float64]

N = 5


def poses_at(model: PoseSpaceModel, k: int) -> Floats:
    parts = 0.5 + 0.4 * np.sin(0.2 * k + np.arange(N))
    return np.asarray(parts[:, None] * model.pose_weights.poses[-1])


def roots_at(k: int) -> Floats:
    roots = np.tile(np.eye(4), (N, 1, 1))
    for i, root in enumerate(roots):
        root[:3, :3] = to_matrix(exponential(np.array([0.0, 0.3 * i, 0.1 * np.sin(0.3 * k)])))
        root[:3, 3] = i, 0.03 * np.sin(0.2 * k + i), 0
    return roots


@pytest.mark.parametrize("integrator", ["backward-euler", "bdf2"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_everyone_moves_as_alone_to_the_bit(threads, integrator):
    model = stepped_model("arm")
    runtime = RuntimeModel.of(model)
    crowd = Crowd(runtime, N, threads=threads, integrator=integrator)
    alone = [PoseSpaceSimulator(runtime, integrator=integrator) for _ in range(N)]
    push = {1: {7: (3.0, 0.0, -2.0)}, 4: {0: (0.0, 1.0, 0.0), 9: (1.0, 1.0, 1.0)}}
    skins = np.empty((N, len(model.surface.vertices), 3), np.float32)
    crowd.reset(poses_at(model, 0), roots_at(0))
    for i, each in enumerate(alone):
        each.reset(poses_at(model, 0)[i], roots_at(0)[i])
    for k in range(1, 25):
        poses, roots = poses_at(model, k), roots_at(k)
        forces = push if k % 3 == 0 else None
        limits = crowd.step(poses, roots, forces, surfaces=skins)
        for i, each in enumerate(alone):
            own = push.get(i) if forces else None
            assert each.step(poses[i], roots[i], own).limits == limits[i]
            np.testing.assert_array_equal(skins[i], each.surface())
    np.testing.assert_array_equal(crowd.q, [each.q for each in alone])
    assert np.abs(crowd.q).max() > 1e-3
    np.testing.assert_array_equal(crowd.surfaces(), skins)
    np.testing.assert_array_equal(crowd.surface(3), skins[3])
    for i, each in enumerate(alone):
        each.step()
        np.testing.assert_array_equal(crowd.surface(i), skins[i])
    crowd.step()
    np.testing.assert_array_equal(crowd.q, [each.q for each in alone])


def test_one_pose_and_one_root_serve_all():
    model = stepped_model("bar")
    crowd, alone = Crowd(model, 4, threads=2), PoseSpaceSimulator(model)
    root = roots_at(0)[2]
    crowd.reset(np.array([0.2]), root)
    alone.reset(np.array([0.2]), root)
    for k in range(5):
        crowd.step(np.array([0.2 + 0.02 * k]), root)
        alone.step(np.array([0.2 + 0.02 * k]), root)
    np.testing.assert_array_equal(crowd.q, np.tile(alone.q, (4, 1)))
    assert len(crowd) == crowd.n == 4
    assert crowd.dt == alone.dt


def test_obstacles_are_there_for_all():
    model = stepped_model("firm")
    ground = Plane((0, -0.02, 0), (0, 1, 0))
    crowd = Crowd(model, 3, threads=2, obstacles=(ground,), gravity_mode="absolute")
    alone = PoseSpaceSimulator(model, obstacles=(ground,), gravity_mode="absolute")
    touched = 0
    for _ in range(40):
        crowd.step()
        touched += alone.step().contacts
    assert touched > 0
    np.testing.assert_array_equal(crowd.q, np.tile(alone.q, (3, 1)))


def test_skins_are_written_to_the_output_array():
    model = stepped_model("bar")
    crowd = Crowd(model, 3)
    out = np.empty((3, len(model.surface.vertices), 3), np.float32)
    assert crowd.surfaces(out) is out
    np.testing.assert_array_equal(out, crowd.surfaces())
    one = np.empty(out.shape[1:], np.float32)
    assert crowd.surface(2, one) is one
    np.testing.assert_array_equal(one, out[2])


def nothing_like(shape: tuple[int, ...], index: tuple[int, ...], value: float) -> Floats:
    out = np.zeros(shape)
    out[index] = value
    return out


WRONG_STEPS: dict[str, dict[str, Any]] = {
    "poses for fewer": {"poses": np.zeros((N - 1, 1))},
    "poses of two numbers": {"poses": np.zeros((N, 2))},
    "a single pose of two numbers": {"poses": np.zeros(2)},
    "one pose among them that is none": {"poses": nothing_like((N, 1), (3, 0), np.nan)},
    "one pose among them too far away": {"poses": nothing_like((N, 1), (4, 0), 1e200)},
    "words": {"poses": "left"},
    "roots for fewer": {"roots": np.tile(np.eye(4), (2, 1, 1))},
    "a root that scales": {"roots": np.concatenate([roots_at(0)[1:], [np.diag([2.0, 2, 2, 1])]])},
    "one root that scales": {"roots": np.diag([2.0, 2, 2, 1])},
    "a force on no vertex": {"forces": {2: {10**6: (1, 0, 0)}}},
    "a force that is no number": {"forces": {0: {0: (1, 0, 0)}, 2: {0: (np.nan, 0, 0)}}},
    "forces on someone else": {"forces": {N: {0: (1, 0, 0)}}},
    "forces on the one before": {"forces": {-1: {0: (1, 0, 0)}}},
    "forces on half of one": {"forces": {0.5: {0: (1, 0, 0)}}},
    "a force without a vertex": {"forces": {1: (1, 0, 0)}},
    "forces for all alike": {"forces": [(1, 0, 0)]},
    "skins for fewer": {"surfaces": np.empty((N - 1, 58, 3), np.float32)},
    "skins of doubles": {"surfaces": np.empty((N, 58, 3))},
}


@pytest.mark.parametrize("threads", [1, 2])
def test_wrong_input_is_an_error_and_moves_no_character(threads):
    model = stepped_model("bar")
    crowd, twin = (Crowd(model, N, threads=threads) for _ in range(2))
    for each in (crowd, twin):
        each.reset(poses_at(model, 0))
        each.step(poses_at(model, 1))
    for what, arguments in WRONG_STEPS.items():
        with pytest.raises(SuppleError) as told:
            crowd.step(**arguments)
        assert "\n" not in str(told.value), what
        assert np.array_equal(crowd.q, twin.q), what
    for call in (
        lambda: crowd.reset(np.full((N, 1), np.nan)),
        lambda: crowd.reset(None, np.zeros((4, 4))),
        lambda: crowd.surface(N),
        lambda: crowd.surface(-1),
        lambda: crowd.surfaces(np.empty((N, 3), np.float32)),
    ):
        with pytest.raises(SuppleError):
            call()
    for each in (crowd, twin):
        each.step(poses_at(model, 2))
    np.testing.assert_array_equal(crowd.q, twin.q)
    np.testing.assert_array_equal(crowd.surfaces(), twin.surfaces())


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (0, {}),
        (-3, {}),
        (10**9, {}),
        (2.5, {}),
        (2, {"threads": -1}),
        (2, {"threads": 10**6}),
        (2, {"dt": 0}),
        (2, {"integrator": "euler"}),
        (2, {"obstacles": (7,)}),
        (2, {"obstacles": 7}),
    ],
    ids=str,
)
def test_invalid_crowds_are_errors(n, options):
    with pytest.raises(SuppleError):
        Crowd(stepped_model("bar"), n, **options)


def test_a_rig_that_fails_in_a_thread_is_reported():
    model = stepped_model("bar")

    def tets(pose: Floats, vertices: Any = None) -> Floats:
        if pose[0] > 1.2:
            raise ValueError("too far")
        return np.asarray(model.tet_rig(pose, vertices))

    n = model.tet_rig.n_vertices
    boxed = replace(model, tet_rig=FunctionRig(tets, model.rig.parameters, n))
    crowd = Crowd(boxed, N, threads=2)
    with pytest.raises(SuppleError, match="too far"):
        crowd.step(np.linspace(0, 1.5, N)[:, None])
    crowd.reset()
    assert crowd.step() == ((),) * N


@pytest.mark.parametrize(("threads", "failing"), [(1, 5), (1, 9), (2, 11), (3, 0)])
@pytest.mark.parametrize("raises", [True, False])
def test_of_many_the_one_whose_rig_fails_is_named(threads, failing, raises):
    model = stepped_model("bar")

    def tets(pose: Floats, vertices: Any = None) -> Floats:
        if pose[0] > 1.2 and raises:
            raise ValueError("too far")
        factor = np.nan if pose[0] > 1.2 else 1.0
        return np.asarray(factor * model.tet_rig(pose, vertices))

    n = model.tet_rig.n_vertices
    boxed = replace(model, tet_rig=FunctionRig(tets, model.rig.parameters, n))
    crowd = Crowd(boxed, 12, threads=threads)
    poses = nothing_like((12, 1), (failing, 0), 1.3)
    skins = np.empty((12, len(model.surface.vertices), 3), np.float32)
    for options in ({}, {"surfaces": skins}, {"forces": {1: {0: (1.0, 0.0, 0.0)}}}):
        with pytest.raises(SuppleError, match=f"^character {failing} of the crowd: "):
            crowd.step(poses, **options)
    with pytest.raises(SuppleError, match=f"^character {failing} of the crowd: "):
        crowd.reset(poses)


def test_members_share_the_models_arrays():
    model = stepped_model("arm")
    runtime = RuntimeModel.of(model)
    Crowd(runtime, 2, threads=1)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        crowd = Crowd(runtime, 200, threads=1)
        after, _ = tracemalloc.get_traced_memory()
        crowd.step()
        crowd.step()
        begin, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            crowd.step()
        end, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert crowd.runtime is runtime
    assert (after - before) / 200 < 8000  # bytes each; the model alone has some 300,000
    assert end - begin < 200_000  # of 4,000 steps


def test_reruns_are_the_same_bits_whatever_the_threads():
    model = stepped_model("arm")
    ends = []
    for threads in (1, 2, 3, 2):
        crowd = Crowd(model, N, threads=threads)
        for k in range(12):
            crowd.step(poses_at(model, k), roots_at(k))
        ends.append(crowd.surfaces())
    for end in ends[1:]:
        np.testing.assert_array_equal(end, ends[0])
