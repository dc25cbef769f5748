"""Pose blend shapes are displacements before skinning, linear in the rotations of joints."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from helpers.build_samples import bar_mesh, two_joints
from helpers.restored_rig import restored_rig
from supple.errors import SuppleError
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.inverse_skinning import offsets_before_skinning
from supple.rig.jacobian import DifferencedJacobian, rig_jacobian
from supple.rig.placement.placement import placement
from supple.rig.protocol import Deformer
from supple.rig.skeleton.joint_pose import PartialJointPose
from supple.rig.skeleton.skinning import SkinnedRig, skinned_core
from supple.rig.stored_rigs import stored_rig
from supple.rig.tets.skinned_tets import rig_on_tets
from supple.rig.tets.tet_rig import fit_tet_rig

MESH = bar_mesh((6, 2, 2))
SURFACE, _ = MESH.surface()
RNG = np.random.default_rng(7)


def body() -> PoseBlendShapeRig:
    """An arm whose elbow displaces the half beyond it."""
    skin = two_joints(SURFACE)
    deltas = 0.05 * RNG.standard_normal((2, 9, skin.n_vertices, 3))
    deltas[1, :, skin.vertices[:, 0] < 0.5] = 0
    return PoseBlendShapeRig(skin, deltas, [0, 1])


POSE = np.array([0.3, -0.2, 0.5, -0.7, 0.4, 1.1])


def test_it_is_the_skin_of_displaced_points():
    rig = body()
    turns = Rotation.from_rotvec(POSE.reshape(-1, 3)).as_matrix() - np.eye(3)
    shaped = rig.rest_points + np.einsum("jk,jkvi->vi", turns.reshape(2, 9), rig.deltas)
    np.testing.assert_allclose(rig(POSE), rig.base.deform(shaped, POSE), atol=1e-14)
    np.testing.assert_array_equal(rig(rig.rest_pose), rig.base(rig.rest_pose))
    assert isinstance(rig, Deformer)
    core = skinned_core(rig)
    assert core is not None
    assert core.rig is rig.base


def test_some_vertices_have_the_bits_of_all():
    rig = body()
    some = np.array([5, 0, 17, 5])
    np.testing.assert_array_equal(rig(POSE, some), rig(POSE)[some])
    points = rig.rest_points[some]
    np.testing.assert_array_equal(rig.deform(points, POSE, some), rig(POSE)[some])


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("vertices", [None, [3, 9, 3]])
def test_a_placement_places_what_the_rig_does(single, vertices):
    rig = body()
    placed = placement(rig, vertices, single=single).fork()
    out = np.empty((placed.n_points, 3), np.float32 if single else np.float64)
    for pose in (POSE, 0 * POSE, -POSE):
        placed.place(pose, out)
        np.testing.assert_allclose(out, rig(pose, vertices), atol=1e-6 if single else 1e-15)


@pytest.mark.parametrize("pose", [POSE, 0 * POSE, 1e-5 * POSE])
@pytest.mark.parametrize("on_tets", [False, True])
def test_its_own_derivative_agrees_with_differences(pose, on_tets):
    rig = fit_tet_rig(body(), SURFACE, MESH, []) if on_tets else body()
    entries, some = np.array([5, 0, 3, 4]), np.array([2, 30, 11])
    own = rig_jacobian(rig, entries, some)
    assert not isinstance(own, DifferencedJacobian)
    found, wanted = np.full((2, 3, 3, 4), np.nan)
    own.evaluate(pose, found)
    rig_jacobian(rig, entries, some, differences=True).evaluate(pose, wanted)
    np.testing.assert_allclose(found, wanted, atol=2e-8)


def test_it_is_stored_and_restored_without_a_black_box():
    rig = body()
    again = restored_rig(*stored_rig(rig))
    assert type(again) is PoseBlendShapeRig
    np.testing.assert_allclose(again(POSE), rig(POSE), atol=1e-6)
    tets = fit_tet_rig(rig, SURFACE, MESH, [])
    np.testing.assert_allclose(restored_rig(*stored_rig(tets))(POSE), tets(POSE), atol=1e-6)


def test_tets_inside_follow_with_shapes_of_their_own():
    rig = body()
    inside = rig_on_tets(rig, SURFACE, MESH)
    assert type(inside) is PoseBlendShapeRig
    _, to_tets = MESH.surface()
    skin = PoseBlendShapeRig(rig.base, 0 * rig.deltas, [0, 1])
    bare = rig_on_tets(skin, SURFACE, MESH)
    np.testing.assert_allclose(inside(rig.rest_pose), MESH.vertices, atol=1e-12)
    # What shapes add on the surface, they add to the tets' vertices there.
    added = rig(POSE) - skin(POSE)
    found = (inside(POSE) - bare(POSE))[to_tets]
    assert np.abs(found - added).max() < 0.35 * np.abs(added).max()


def test_offsets_before_skinning_are_exact():
    rig = body()
    wanted = rig(POSE) + 0.01 * RNG.standard_normal((rig.n_vertices, 3))
    offsets = offsets_before_skinning(rig, POSE, wanted)
    np.testing.assert_allclose(rig.deform(rig.rest_points + offsets, POSE), wanted, atol=1e-12)


def test_locked_joints_displace_nothing():
    skin = two_joints(SURFACE)
    free = PartialJointPose(skin.skeleton, [skin.parameters[5].name])
    partial = SkinnedRig(free, skin.vertices, skin.joints, skin.weights, skin.inverse_bind)
    rig = PoseBlendShapeRig(partial, body().deltas, [0, 1])
    whole = PoseBlendShapeRig(skin, rig.deltas, [0, 1])
    np.testing.assert_allclose(rig([0.7]), whole([0, 0, 0, 0, 0, 0.7]), atol=1e-14)


@pytest.mark.parametrize(
    ("joints", "what"),
    [([0, 2], "must be 0 to 1"), ([1, 1], "two sets"), ([0.5, 1.5], "indices"), ([-1, 0], "joint")],
)
def test_wrong_joints_are_refused(joints, what):
    with pytest.raises(SuppleError, match=what):
        PoseBlendShapeRig(two_joints(SURFACE), body().deltas, joints)
