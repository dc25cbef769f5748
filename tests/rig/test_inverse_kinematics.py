"""Claims about inverse kinematics and rigs driven by a handle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

from supple.errors import SuppleError
from supple.rig.protocol import Rig
from supple.rig.skeleton.chain_kinematics import residual_and_jacobian, with_workspace
from supple.rig.skeleton.inverse_kinematics import HandleRig, InverseKinematics
from supple.rig.skeleton.joint_pose import JointPose, PartialJointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

SHOULDER = np.array([0.2, 1.4, 0])
LIMITS = {
    "upper": ([-1.5] * 3, [1.5] * 3),
    "fore": ([0, 0, 0], [0, 0, 2.6]),
    "hand": ([-0.3, -0.5, -1], [0.3, 0.5, 1]),
}


def arm(scales=None, turned: bool = False) -> JointPose:
    places = [[0, 1.4, 0], [0.2, 0, 0], [0.3, 0, 0], [0.25, 0, 0]]
    turns = Rotation.random(4, random_state=2).as_quat() if turned else None
    return JointPose(
        Skeleton(["chest", "upper", "fore", "hand"], [-1, 0, 1, 2], places, turns, scales)
    )


def make_chain(limits=None, **options) -> InverseKinematics:
    return InverseKinematics(arm(**options), "upper", "hand", offset=[0.15, 0, 0], limits=limits)


def random_pose(chain: InverseKinematics, rng: np.random.Generator) -> np.ndarray:
    pose = np.zeros(chain.joint_pose.n_parameters)
    pose[chain.entries] = np.clip(
        0.8 * rng.standard_normal(len(chain.entries)), chain.low, chain.high
    )
    return pose


def test_derivatives_equal_finite_differences_also_of_scaled_joints():
    rng = np.random.default_rng(0)
    scales = rng.uniform(0.5, 2, (4, 3))
    chain = make_chain(scales=scales, turned=True)
    x, step = rng.standard_normal(9), 1e-6
    turn = Rotation.random(random_state=3).as_quat()
    goal = (rng.standard_normal(3), turn, True, chain.length)
    parts = with_workspace(chain._chain(np.zeros(12)))
    left, jacobian = np.empty(6), np.empty((6, 9))

    def residual(at):
        values = np.empty(6)
        residual_and_jacobian(parts, goal, at, values, np.empty((6, 9)))
        return values

    residual_and_jacobian(parts, goal, x, left, jacobian)
    slopes = [(residual(x + step * e) - residual(x - step * e)) / (2 * step) for e in np.eye(9)]
    numerical = -np.transpose(slopes)
    np.testing.assert_allclose(jacobian[:3], numerical[:3], atol=1e-8)
    # Of the rotation left only the gradient of its square is exact, and that is what is used.
    np.testing.assert_allclose(jacobian.T @ left, numerical.T @ left, atol=1e-7)


def test_the_residual_is_that_of_the_skeleton():
    rng = np.random.default_rng(1)
    chain = make_chain(scales=rng.uniform(0.5, 2, (4, 3)), turned=True)
    pose = random_pose(chain, rng)
    pose[:3] = [0.1, 0.2, 0.3]
    end = chain.end(pose)
    tip = chain.joint_pose.matrices(pose)[3]
    np.testing.assert_allclose(end, (tip @ [0.15, 0, 0, 1])[:3])
    left = np.empty(6)
    goal = (np.array([1.0, 2, 3]), np.array([0.0, 0, 0, 1]), False, 1.0)
    residual_and_jacobian(
        with_workspace(chain._chain(pose)), goal, pose[3:], left, np.empty((6, 9))
    )
    np.testing.assert_allclose(left[:3], [1, 2, 3] - end, atol=1e-12)


@pytest.mark.parametrize("limits", [None, LIMITS])
def test_reachable_targets_are_reached_within_the_limits(limits):
    chain = make_chain(limits)
    rng = np.random.default_rng(2)
    errors, iterations = [], []
    for _ in range(100):
        target = chain.end(random_pose(chain, rng))
        solution = chain.solve(target)
        entries = solution.pose[chain.entries]
        assert (entries >= chain.low).all()
        assert (entries <= chain.high).all()
        errors.append(solution.error)
        iterations.append(solution.iterations)
        left = np.linalg.norm(chain.end(solution.pose) - target)
        assert solution.error == pytest.approx(left, abs=1e-12)
    parts = np.array(errors) / chain.length
    assert np.median(parts) < 1e-7
    # Limits make places that few poses reach; those may take a start this solver does not try.
    assert (parts < 1e-4).mean() >= 0.97
    assert np.median(iterations) < 40


def test_of_the_poses_that_reach_the_nearest_to_rest_is_taken():
    chain = make_chain()
    target = SHOULDER + np.array([0.3, 0.3, 0.2])
    found = chain.solve(target).pose[chain.entries]

    def end(x):
        return chain.end(np.concatenate([np.zeros(3), x])) - target

    best = minimize(
        lambda x: x @ x,
        found + 0.01,
        constraints={"type": "eq", "fun": end},
        options={"ftol": 1e-14},
    )
    np.testing.assert_allclose(found, best.x, atol=2e-3)
    assert found @ found <= best.fun + 1e-5


@pytest.mark.parametrize("distance", [0.71, 1.0, 5.0, 1e4])
def test_out_of_reach_the_arm_points_at_the_target(distance):
    chain = make_chain()
    rng = np.random.default_rng(3)
    for direction in rng.standard_normal((10, 3)):
        direction /= np.linalg.norm(direction)
        solution = chain.solve(SHOULDER + distance * direction)
        assert not solution.reached
        np.testing.assert_allclose(chain.end(solution.pose), SHOULDER + 0.7 * direction, atol=2e-3)
        assert solution.error == pytest.approx(distance - 0.7, rel=1e-5, abs=1e-5)


def test_a_straight_arm_pulled_towards_itself_bends():
    for limits in (None, LIMITS):
        solution = make_chain(limits).solve(SHOULDER + np.array([0.4, 0, 0]))
        assert solution.error < 1e-5


def test_hostile_targets_give_finite_poses():
    chain = make_chain(LIMITS)
    for target in (
        SHOULDER,
        [1e8, 0, 0],
        [-1e-300, 0, 0],
        SHOULDER - np.array([0.7, 0, 0]),
        chain.end(),
    ):
        assert np.isfinite(chain.solve(target).pose).all()
    far = np.full(12, 40.0)
    assert np.isfinite(chain.solve([0.5, 1, 0], pose=far).pose).all()
    with pytest.raises(SuppleError, match="target: not finite"):
        chain.solve([np.nan, 0, 0])
    for softness in (np.nan, -0.1, 1.0):
        with pytest.raises(SuppleError, match="softness"):
            chain.solve(SHOULDER, softness=softness)


def test_an_orientation_is_reached_too():
    chain = make_chain()
    rng = np.random.default_rng(4)
    reached = 0
    for _ in range(20):
        pose = random_pose(chain, rng) * 0.7
        turn = Rotation.from_matrix(chain.joint_pose.matrices(pose)[3, :3, :3])
        solution = chain.solve(chain.end(pose), turn.as_quat())
        got = Rotation.from_matrix(chain.joint_pose.matrices(solution.pose)[3, :3, :3])
        assert (got.inv() * turn).magnitude() == pytest.approx(solution.turn_error, abs=1e-6)
        reached += solution.reached
    assert reached >= 18


def test_a_warm_start_follows_a_moving_target_smoothly():
    chain = make_chain(LIMITS)
    pose, poses = None, []
    for angle in np.linspace(0, 2 * np.pi, 120):
        target = SHOULDER + np.array(
            [0.45 + 0.1 * np.cos(angle), 0.2 * np.sin(angle), 0.1 * np.sin(angle)]
        )
        solution = chain.solve(target, pose=pose)
        assert solution.reached
        pose = solution.pose
        poses.append(pose)
    assert np.abs(np.diff(poses, axis=0)).max() < 0.1


def test_other_joints_and_held_entries_keep_their_values():
    chain = make_chain()
    begin = np.zeros(12)
    begin[:3], begin[6] = [0.2, -0.1, 0.3], 0.7
    solution = chain.solve(SHOULDER + np.array([0.3, 0.2, 0.1]), pose=begin, held=[6])
    assert solution.reached
    np.testing.assert_array_equal(solution.pose[:3], begin[:3])
    assert solution.pose[6] == 0.7


@pytest.mark.parametrize(
    "target",
    [[0.6248, 1.2033, -0.4042], [0.5975, 1.0578, -0.1744], [0.5108, 1.2995, -0.5267]],
)
def test_a_joint_locked_above_the_chain_does_not_make_its_targets_seem_out_of_reach(target):
    # These need a second start, and are farther from the locked chest than the arm is long.
    limits = {"chest": ([0] * 3, [0] * 3), **LIMITS}
    chain = InverseKinematics(arm(), "chest", "hand", offset=[0.15, 0, 0], limits=limits)  # type: ignore[arg-type]
    assert make_chain(LIMITS).solve(target).reached
    assert chain.solve(target).reached


def test_the_span_is_that_of_the_pose_and_of_what_is_held():
    skeleton = arm().skeleton
    chain = InverseKinematics(
        JointPose(skeleton, ["upper", "fore"], ["hand"]), "upper", "hand", offset=[0.15, 0, 0]
    )
    names = [parameter.name for parameter in chain.joint_pose.parameters]
    top, reach = chain.span()
    np.testing.assert_allclose(top, SHOULDER)
    assert reach == pytest.approx(0.7)
    pose = np.zeros(len(names))
    for name, value in {"upper.ty": 0.3, "fore.tx": 0.2, "hand.sx": np.log(2)}.items():
        pose[names.index(name)] = value
    pose[3:] += np.isin(names[3:], ["upper.rz", "fore.ry"]) * 0.6  # turns change nothing
    top, reach = chain.span(pose)
    np.testing.assert_allclose(top, SHOULDER + np.array([0, 0.3, 0]))
    assert reach == pytest.approx(0.5 + 0.25 + 0.3)
    # A fore arm held at a right angle makes one bone with what it hangs on.
    pose = np.zeros(len(names))
    pose[names.index("fore.rz")] = np.pi / 2
    held = [names.index(f"fore.r{axis}") for axis in "xyz"]
    assert chain.span(pose, held=held)[1] == pytest.approx(np.hypot(0.3, 0.25) + 0.15)
    everything = [k for k, name in enumerate(names) if ".r" in name]
    assert chain.span(pose, held=everything)[1] == 0


def test_a_pose_with_locked_channels_is_solved_like_the_whole_one_with_limits():
    # In another order than the skeleton's, and with entries that are not the chain's.
    free = ["hand.rz", "chest.ry", "upper.rz", "upper.ry", "fore.rz"]
    partial = PartialJointPose(arm().skeleton, free)
    chain = InverseKinematics(partial, "upper", "hand", offset=[0.15, 0, 0])
    only_z = ([0, 0, -np.pi], [0, 0, np.pi])
    limits = {"upper": ([0, -np.pi, -np.pi], [0, np.pi, np.pi]), "fore": only_z, "hand": only_z}
    whole = make_chain(limits)
    assert [free[k] for k in chain.entries] == ["upper.ry", "upper.rz", "fore.rz", "hand.rz"]
    assert len(chain.low) == len(chain.high) == 4
    begin = np.array([0.1, 0.3, 0.2, -0.1, 0.4])
    channels = [parameter.name for parameter in JointPose(arm().skeleton).parameters]

    def of_all_channels(pose):
        every = np.zeros(len(channels))
        every[[channels.index(name) for name in free]] = pose
        return every

    for target in ([0.5, 1.7, -0.2], [2.2, 1.4, 0.5]):
        found = chain.solve(target, pose=begin, held=[0])
        assert found.pose[0] == 0.1
        assert found.pose[1] == 0.3
        expected = whole.solve(target, pose=of_all_channels(begin), held=[11])
        np.testing.assert_allclose(of_all_channels(found.pose), expected.pose, atol=1e-9)
        assert found.error == pytest.approx(expected.error, abs=1e-9)
        assert found.reached == expected.reached
    with pytest.raises(SuppleError, match="all joints of the chain are locked"):
        InverseKinematics(PartialJointPose(arm().skeleton, ["chest.rx"]), "upper", "hand")


def test_bad_chains_are_named():
    with pytest.raises(SuppleError, match="is not below"):
        InverseKinematics(arm(), "hand", "upper")
    with pytest.raises(SuppleError, match='"chest", which is not in the chain'):
        make_chain({"chest": ([0] * 3, [1] * 3)})
    with pytest.raises(SuppleError, match='"fore": a low limit is above'):
        make_chain({"fore": ([1] * 3, [0] * 3)})
    with pytest.raises(SuppleError, match="no length"):
        InverseKinematics(arm(), "hand", "hand")


def handle_rig(softness: float = 0.02) -> HandleRig:
    places = [[0, 1.4, 0], [0.2, 0, 0], [0.3, 0, 0], [0.2, 0.15, 0]]
    skeleton = Skeleton(["chest", "upper", "fore", "hand"], [-1, 0, 1, 2], places)
    rng = np.random.default_rng(0)
    points = rng.uniform([0.2, 1.3, -0.1], [0.9, 1.5, 0.1], (80, 3))
    joints = np.tile([1, 2, 3], (80, 1))
    bind = np.linalg.inv(skeleton.rest_world())
    skin = SkinnedRig(JointPose(skeleton), points, joints, rng.random((80, 3)), bind)
    chain = InverseKinematics(
        skin.joint_pose,
        "upper",
        "hand",
        offset=[0.15, 0, 0],
        limits={"fore": ([-1.5, 0, -0.6], [1.5, 0, 2.6]), "hand": ([0] * 3, [0] * 3)},
    )
    return HandleRig(skin, chain, extra=["fore.rx"], softness=softness)


def test_a_handle_rig_is_at_rest_at_rest_and_follows_its_handle():
    rig = handle_rig()
    assert isinstance(rig, Rig)
    assert [p.name for p in rig.parameters] == ["handle.x", "handle.y", "handle.z", "fore.rx"]
    np.testing.assert_allclose(rig(rig.rest_pose), rig.base(rig.base.rest_pose), atol=1e-9)
    pose = rig.rest_pose + np.array([-0.2, 0.15, 0.1, 0.4])
    whole = rig.base_pose(pose)
    np.testing.assert_allclose(rig.chain.end(whole), pose[:3], atol=1e-6)
    assert whole[6] == 0.4
    assert np.array_equal(rig(pose, [3, 70]), rig(pose)[[3, 70]])


def test_a_handle_rig_is_a_smooth_function_of_its_pose_into_and_out_of_reach():
    rig = handle_rig()
    direction = np.array([0.6, 0.5, 0.3, 0.0])
    path = [rig.rest_pose + s * direction for s in np.linspace(-0.3, 1.5, 301)]
    surfaces = np.array([rig(p) for p in path])
    assert np.isfinite(surfaces).all()
    # Twice in opposite order: no memory.
    again = np.array([rig(p) for p in path[::-1]])[::-1]
    assert np.array_equal(surfaces, again)
    steps = np.abs(np.diff(surfaces, axis=0)).max(axis=(1, 2))
    assert steps.max() < 8 * np.linalg.norm(direction) * 1.8 / 300
    second = np.abs(np.diff(surfaces, 2, axis=0)).max()
    assert second < 0.5 * steps.max()


def test_a_stretched_rest_pose_needs_a_hard_handle():
    skeleton = arm().skeleton
    bind = np.linalg.inv(skeleton.rest_world())
    skin = SkinnedRig(JointPose(skeleton), [[0.5, 1.4, 0]], [[2]], [[1]], bind)
    chain = InverseKinematics(skin.joint_pose, "upper", "hand", offset=[0.15, 0, 0])
    with pytest.raises(SuppleError, match="stretched at rest"):
        HandleRig(skin, chain)
    rig = HandleRig(skin, chain, softness=0)
    np.testing.assert_allclose(rig(rig.rest_pose), skin(skin.rest_pose), atol=1e-9)
    with pytest.raises(SuppleError, match='no parameter "twist"'):
        HandleRig(skin, chain, extra=["twist"], softness=0)


@pytest.mark.parametrize(
    ("extra", "handle"), [("root.tx", [5.6, 0.5, 0]), ("f.tx", [4.5, 2.0, 3.0])]
)
def test_extras_that_move_or_lengthen_the_chain_move_its_reach(extra, handle):
    skeleton = Skeleton(["root", "f"], [-1, 0], [[0, 0, 0], [1, 0.5, 0]])  # type: ignore[arg-type]
    bind = np.linalg.inv(skeleton.rest_world())
    joint_pose = JointPose(skeleton, translating=["root", "f"])
    skin = SkinnedRig(joint_pose, [[2, 0, 0]], [[1]], [[1]], bind)
    chain = InverseKinematics(joint_pose, "root", "f", offset=[1, -0.5, 0])
    rig = HandleRig(skin, chain, extra=[extra])
    pose = np.array([*handle, 5.0])
    np.testing.assert_allclose(rig(pose)[0], handle, atol=1e-6)
    # And never quite stretched, as it is now.
    top, reach = chain.span(rig.base_pose(pose))
    pose[:3] = top + np.array([0, 2 * reach, 0])
    distance = np.linalg.norm(rig(pose)[0] - top)
    assert 0.98 * reach < distance < reach
