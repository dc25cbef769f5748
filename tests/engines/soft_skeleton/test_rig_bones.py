"""Bones of rigs: turns of poses and poses of turns."""

from __future__ import annotations

import numpy as np
import pytest

from supple.engines.soft_skeleton.bones.body_points import BodyPoints, point_tables
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.errors import SuppleError
from supple.formats.load import load
from supple.rig.deformers.wire import Wire
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig


def bent_rig(rng) -> SkinnedRig:
    """A rig whose joints are turned at rest, with a root that only carries another."""
    turned = rng.standard_normal((5, 4))
    skeleton = Skeleton(list("abcde"), [-1, 0, 1, 2, 1], rng.standard_normal((5, 3)), turned)
    points = rng.standard_normal((30, 3))
    joints = rng.integers(1, 5, (30, 2))
    bind = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(
        JointPose(skeleton, translating=["b"]), points, joints, rng.random((30, 2)), bind
    )


def test_points_on_the_bones_are_the_skin_of_the_rig_and_poses_come_back():
    rng = np.random.default_rng(3)
    rig = bent_rig(rng)
    bones = RigBones(rig)
    assert bones.names == ("b", "c", "d", "e")
    pose = 0.4 * rng.standard_normal(len(rig.parameters))
    chain = BoneChain(bones.parents, bones.joints)
    chain.place(*bones.rotations(pose))
    bound = bones.unposed(rig(rig.rest_pose), bones.weights, rig.rest_pose)
    points = BodyPoints(point_tables(bones.parents, bound, bones.weights))
    points.place(chain, np.zeros(0))
    np.testing.assert_allclose(points.x, rig(pose), atol=1e-12)
    again = bones.pose(chain.rotations, chain.positions[0], pose + 0.1 * (np.arange(len(pose)) > 2))
    np.testing.assert_allclose(rig(again), rig(pose), atol=1e-9)


def flat_rig(rng) -> SkinnedRig:
    """A bar on three joints without parents, listed from its end; all of them are translated."""
    along = np.linspace(-2, 3, 31)
    places = [[2.5, 0, 0], [1.5, 0, 0], [0.4, 0, 0]]
    skeleton = Skeleton(["end", "middle", "base"], [-1, -1, -1], places)
    base = np.clip(1.5 - along, 0, 1)
    end = np.clip(along - 2, 0, 1)
    weights = np.column_stack([end, 1 - base - end, base])
    points = np.column_stack([along, rng.standard_normal((31, 2))])
    pose = JointPose(skeleton, translating=["end", "middle", "base"])
    bind = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(pose, points, np.tile([0, 1, 2], (31, 1)), weights, bind)


def test_joints_without_parents_follow_the_bones_that_they_share_skin_with():
    rng = np.random.default_rng(5)
    rig = flat_rig(rng)
    bones = RigBones(rig)
    assert bones.names == ("base", "middle", "end")
    np.testing.assert_array_equal(bones.parents, [-1, 0, 1])
    pose = 0.3 * rng.standard_normal(len(rig.parameters))
    chain = BoneChain(bones.parents, bones.joints)
    chain.place(*bones.rotations(pose))
    points = BodyPoints(point_tables(bones.parents, rig(rig.rest_pose), bones.weights))
    points.place(chain, np.zeros(0))
    np.testing.assert_allclose(points.x, rig(pose), atol=1e-12)
    chain.change(0.2 * rng.standard_normal(chain.size))
    points.place(chain, np.zeros(0))
    again = bones.pose(chain.rotations, chain.positions[0], pose)
    np.testing.assert_allclose(rig(again), points.x, atol=1e-9)


def test_a_rig_without_a_skeleton_is_refused_in_one_line():
    with pytest.raises(SuppleError, match="needs a rig with one skeleton"):
        RigBones(Wire(np.zeros((3, 3)), [[0, 0, 0], [1, 0, 0]], dropoff=1))


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
@pytest.mark.parametrize("name", ["q_Rat", "mh_heavy_male_jump", "q_Cow", "q_Husky"])
def test_characters_of_files_are_bones_at_every_frame(assets, name):
    character = load(assets / "gltf_characters" / f"{name}.glb")
    rig, motion = character.rig, next(iter(character.motions.values()))
    bones = RigBones(rig)
    chain = BoneChain(bones.parents, bones.joints)
    bound = bones.unposed(rig(rig.rest_pose), bones.weights, np.asarray(rig.rest_pose))
    points = BodyPoints(point_tables(bones.parents, bound, bones.weights))
    for pose in motion.poses[:: len(motion.poses) // 4]:
        chain.place(*bones.rotations(pose))
        points.place(chain, np.zeros(0))
        assert np.abs(points.x - rig(pose)).max() < 1e-3 * character.surface.size
