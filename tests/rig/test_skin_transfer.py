"""Flesh carried from one pose of a rig to another."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from supple.rig import JointPose, Parameter, Skeleton, SkinnedRig
from supple.rig.inverse_skinning import SkinTransfer

TRIANGLES = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])


def arm(method="linear"):
    skeleton = Skeleton(["upper", "fore"], [-1, 0], [[0, 0, 0], [1, 0, 0]])
    points = np.random.default_rng(4).normal([1, 0, 0], 1, (4, 3))
    joints, weights = np.tile([0, 1], (4, 1)), np.array([[1, 0], [0.5, 0.5], [0.2, 0.8], [0, 1]])
    bind = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(JointPose(skeleton), points, joints, weights, bind, method)


def world(root, points):
    return points @ root[:3, :3].T + root[:3, 3]


def placed(seed):
    root = np.eye(4)
    root[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    root[:3, 3] = [seed, -1, 2]
    return root


@pytest.mark.parametrize("method", ["linear", "dual-quaternion"])
def test_offsets_go_with_the_bound_skin(method):
    """What was offset before skinning at one pose is offset by the same before it at another."""
    rig, rng = arm(method), np.random.default_rng(5)
    poses = rng.normal(scale=0.4, size=(2, 6))
    bound = 0.01 * rng.normal(size=(4, 3))
    soft = [rig.deform(rig.vertices + bound, pose) for pose in poses]
    skin = world(placed(1), soft[0]).astype(np.float32)
    SkinTransfer(rig, TRIANGLES)(skin, poses[0], placed(1), poses[1], placed(2))
    # The regularisation of flattened skin costs a few thousandths of the offset.
    np.testing.assert_allclose(skin, world(placed(2), soft[1]), atol=1e-4)


def test_the_same_pose_keeps_every_bit():
    rig, pose = arm(), np.full(6, 0.3)
    skin = world(placed(3), rig(pose) + 0.1).astype(np.float32)
    kept = skin.copy()
    SkinTransfer(rig, TRIANGLES)(skin, pose, placed(3), pose.copy(), placed(3))
    np.testing.assert_array_equal(skin, kept)


def test_skin_without_flesh_lands_on_the_rig():
    rig, poses = arm(), np.random.default_rng(6).normal(size=(2, 6))
    skin = world(placed(1), rig(poses[0])).astype(np.float32)
    SkinTransfer(rig, TRIANGLES)(skin, poses[0], placed(1), poses[1], placed(2))
    np.testing.assert_allclose(skin, world(placed(2), rig(poses[1])), atol=2e-6)


def test_flattened_skin_makes_no_spikes():
    """Half a turn of the forearm flattens the blended skin to nothing."""
    rig = arm()
    first, second = np.zeros((2, 6))
    first[3], second[3] = np.pi, np.pi - 0.1
    soft = rig(first) + np.array([0, 0.02, 0.02])
    skin = soft.astype(np.float32)
    SkinTransfer(rig, TRIANGLES)(skin, first, np.eye(4), second, np.eye(4))
    assert np.linalg.norm(skin - rig(second), axis=1).max() < 0.06


class Turning:
    """A rig that places vertices by its pose alone."""

    parameters = (Parameter("angle", "rad"),)
    rest_pose = np.zeros(1)
    n_vertices = 4
    points = np.random.default_rng(8).normal(size=(4, 3))

    def __call__(self, pose, vertices=None, out=None):
        turned = Rotation.from_rotvec([0, 0, pose[0]]).apply(self.points)
        return turned if vertices is None else turned[vertices]


def test_offsets_of_a_black_box_turn_with_the_surface():
    rig = Turning()
    skin = (rig([0.0]) + np.array([0.1, 0, 0])).astype(np.float32)
    SkinTransfer(rig, TRIANGLES)(skin, np.zeros(1), np.eye(4), np.array([np.pi / 2]), np.eye(4))
    np.testing.assert_allclose(skin - rig([np.pi / 2]), np.tile([0, 0.1, 0], (4, 1)), atol=1e-6)


def test_skin_of_a_joint_that_is_scaled_to_nothing_has_numbers():
    skeleton = Skeleton(
        ["upper", "fore"], [-1, 0], [[0, 0, 0], [1, 0, 0]], scales=[[1] * 3, [0] * 3]
    )
    points = np.random.default_rng(4).normal([1, 0, 0], 1, (4, 3))
    weights = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    bind = np.tile(np.eye(4), (2, 1, 1))
    rig = SkinnedRig(JointPose(skeleton), points, np.tile([0, 1], (4, 1)), weights, bind)
    first, second = np.zeros((2, 6))
    second[2] = 0.1
    skin = rig(first).astype(np.float32)
    SkinTransfer(rig, TRIANGLES)(skin, first, np.eye(4), second, np.eye(4))
    np.testing.assert_allclose(skin, rig(second), atol=1e-6)
