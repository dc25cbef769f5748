"""Bones: which tets they hold."""

from functools import cache

import numpy as np
import pytest

from supple.errors import SuppleError, SuppleWarning
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.bones import Bones, held_tets
from supple.rig.tets.surface_samples import typical_edge
from supple.rig.tets.tet_body import fit_tet_body
from supple.scenes.modelling.solids import polygonise, tapered_limb

RADIUS = 0.1


@cache
def limb() -> tuple[SurfaceMesh, TetMesh]:
    solid = tapered_limb((-0.3, 0, 0), (0.3, 0, 0), RADIUS, RADIUS)
    surface = polygonise(solid, ((-0.5, -0.2, -0.2), (0.5, 0.2, 0.2)), 0.025)
    return surface, tetrahedralise(surface, tets=6000)


def one_bone(start, end) -> Bones:
    return Bones(np.array([start], float), np.array([end], float), ("bone",))


def crossed_by_axis(mesh: TetMesh, first: float, last: float) -> np.ndarray:
    """Tets that hold one of many points of the x axis: barycentric coordinates, all at once."""
    corners = mesh.vertices[mesh.tets]
    inverse = np.linalg.inv((corners[:, 1:] - corners[:, :1]).transpose(0, 2, 1))
    held = np.zeros(len(mesh.tets), bool)
    for x in np.linspace(first, last, 2001):
        b = np.einsum("eij,ej->ei", inverse, np.array([x, 0, 0]) - corners[:, 0])
        held |= (b.min(axis=1) >= 0) & (b.sum(axis=1) <= 1)
    return np.flatnonzero(held)


def test_a_bone_without_thickness_holds_the_tets_its_axis_passes():
    surface, mesh = limb()
    held = held_tets(one_bone((-0.25, 0, 0), (0.25, 0, 0)), surface, mesh, radius=0.0)
    exact = crossed_by_axis(mesh, -0.25, 0.25)
    # The axis runs along edges of this mesh, so that several tets share each of its points.
    assert len(exact) > 50
    assert np.isin(exact, held.tets).mean() > 0.95
    assert np.isin(held.tets, exact).mean() > 0.7
    np.testing.assert_array_equal(held.vertices, np.unique(mesh.tets[held.tets]))
    assert held.bones_inside == 1


def test_a_bones_radius_is_a_part_of_the_distance_to_the_skin():
    surface, mesh = limb()
    bone = one_bone((-0.2, 0, 0), (0.2, 0, 0))
    before = 0
    for radius in (0.0, 0.3, 0.6):
        held = held_tets(bone, surface, mesh, radius)
        assert len(held.tets) > before
        before = len(held.tets)
        corners = mesh.vertices[mesh.tets]
        beyond = np.maximum(np.abs(corners[..., 0]) - 0.2, 0)
        reach = np.sqrt(corners[..., 1] ** 2 + corners[..., 2] ** 2 + beyond**2)
        # A vertex well within the bone has its tets held; a tet well outside is not.
        within = (reach < 0.85 * radius * RADIUS).any(axis=1)
        outside = reach.min(axis=1) > radius * RADIUS + 1.5 * typical_edge(mesh)
        assert np.isin(np.flatnonzero(within), held.tets).all()
        assert not np.isin(np.flatnonzero(outside), held.tets).any()


def test_bones_outside_hold_nothing_with_a_warning():
    surface, mesh = limb()
    with pytest.warns(SuppleWarning, match="none of 1 bones is inside"):
        held = held_tets(one_bone((0, 1, 0), (0, 2, 0)), surface, mesh)
    assert len(held.tets) == len(held.vertices) == held.bones_inside == 0
    with pytest.warns(SuppleWarning, match="nothing holds"):
        held_tets(Bones(np.empty((0, 3)), np.empty((0, 3)), ()), surface, mesh)


def test_of_a_bone_that_leaves_the_body_the_inside_counts():
    surface, mesh = limb()
    whole = held_tets(one_bone((0, 0, 0), (0, 0.5, 0)), surface, mesh, 0.0)
    assert 0 < len(whole.tets) < 100
    assert (np.abs(mesh.vertices[whole.vertices, 0]) < 0.1).all()
    # One that ends a light second away costs no more than one that ends outside.
    far = held_tets(one_bone((0, 0, 0), (0, 3e8, 0)), surface, mesh, 0.0)
    assert len(np.intersect1d(whole.tets, far.tets)) > 0.9 * len(whole.tets)


def test_a_bone_without_length_is_a_point():
    surface, mesh = limb()
    held = held_tets(one_bone((0.1, 0, 0), (0.1, 0, 0)), surface, mesh, 0.0)
    assert 1 <= len(held.tets) <= 24
    assert np.abs(mesh.vertices[held.vertices] - [0.1, 0, 0]).max() < 2 * typical_edge(mesh)
    with pytest.warns(SuppleWarning):
        assert len(held_tets(one_bone((5, 0, 0), (5, 0, 0)), surface, mesh).tets) == 0


def test_joints_that_move_nothing_are_no_bones():
    skeleton = Skeleton(
        ["root", "upper", "fore", "hand", "pole"],
        [-1, 0, 1, 2, 0],
        np.array([[0, -9, 0], [-0.3, 9, 0], [0.3, 0, 0], [0.3, 0, 0], [0, 5, 0]]),
    )
    bones = Bones.of(skeleton)
    assert bones.names == ("root", "upper", "fore", "root", "hand", "pole")
    surface, _ = limb()
    fore = (surface.vertices[:, 0] > 0).astype(float)
    joints = np.tile([1, 2], (len(fore), 1))
    inverse_bind = np.linalg.inv(skeleton.rest_world())
    rig = SkinnedRig(
        JointPose(skeleton),
        surface.vertices,
        joints,
        np.column_stack([1 - fore, fore]),
        inverse_bind,
    )
    own = Bones.of_rig(rig)
    assert own.names == ("upper", "fore")
    np.testing.assert_allclose(own.starts[:, 0], [-0.3, 0], atol=1e-12)
    np.testing.assert_allclose(own.ends[:, 0], [0, 0.3], atol=1e-12)


def test_the_last_bone_of_a_chain_goes_on_into_its_flesh():
    surface, _ = limb()
    tip = surface.vertices[:, 0].max()
    skeleton = Skeleton(["upper", "fore"], [-1, 0], [[-0.3, 0, 0], [0.3, 0, 0]])
    fore = (surface.vertices[:, 0] > 0).astype(float)
    rig = SkinnedRig(
        JointPose(skeleton),
        surface.vertices,
        np.tile([0, 1], (len(fore), 1)),
        np.column_stack([1 - fore, fore]),
        np.linalg.inv(skeleton.rest_world()),
    )
    bones = Bones.of_rig(rig)
    assert bones.names == ("upper", "fore")
    np.testing.assert_allclose(bones.ends[0], [0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(bones.starts[1], [0, 0, 0], atol=1e-12)
    assert 0.7 * tip < bones.ends[1, 0] < 0.8 * tip
    assert np.abs(bones.ends[1, 1:]).max() < 0.02


def test_bones_that_hold_everything_are_warned_about():
    solid = tapered_limb((-0.3, 0, 0), (0.3, 0, 0), 0.01, 0.01)
    surface = polygonise(solid, ((-0.35, -0.05, -0.05), (0.35, 0.05, 0.05)), 0.005)
    mesh = tetrahedralise(surface, cell=0.02)
    with pytest.warns(SuppleWarning, match="bones hold every tet"):
        held_tets(one_bone((-0.31, 0, 0), (0.31, 0, 0)), surface, mesh, 0.9)


def test_flesh_takes_bones_or_vertices_and_warns_without_them():
    surface, mesh = limb()
    skeleton = Skeleton(["a", "b"], [-1, 0], [[-0.2, 0, 0], [0.4, 0, 0]])
    joints, weights = np.zeros((len(surface.vertices), 1), int), np.ones((len(surface.vertices), 1))
    inverse_bind = np.linalg.inv(skeleton.rest_world())
    rig = SkinnedRig(JointPose(skeleton), surface.vertices, joints, weights, inverse_bind)
    none = np.empty((0, 6))
    flesh = fit_tet_body(surface, rig, none, tets=mesh)
    bone = one_bone((-0.2, 0, 0), (0.2, 0, 0))
    np.testing.assert_array_equal(flesh.fixed, held_tets(bone, surface, mesh).vertices)
    given = fit_tet_body(surface, rig, none, tets=mesh, bones=[5, 3, 5])
    np.testing.assert_array_equal(given.fixed, [3, 5])
    with pytest.raises(SuppleError, match="fixed vertex 99999 does not exist"):
        fit_tet_body(surface, rig, none, tets=mesh, bones=[99999])


@pytest.mark.parametrize("radius", [-0.1, 1.0, np.nan])
def test_a_radius_beyond_the_skin_is_an_error(radius):
    surface, mesh = limb()
    with pytest.raises(SuppleError, match="bone radius"):
        held_tets(one_bone((0, 0, 0), (0.1, 0, 0)), surface, mesh, radius)


def test_broken_bones_are_errors():
    with pytest.raises(SuppleError, match="not finite"):
        one_bone((0, np.nan, 0), (1, 0, 0))
    with pytest.raises(SuppleError, match="a start, an end and a name"):
        Bones(np.zeros((1, 3)), np.zeros((2, 3)), ("a",))


def test_bones_keep_what_they_were_given():
    starts, ends, names = np.zeros((2, 3)), np.ones((2, 3)), ["a", "b"]
    bones = Bones(starts, ends, names)  # type: ignore[arg-type]
    starts[:], ends[:] = 5, 5
    names.append("c")
    assert not bones.starts.any()
    assert (bones.ends == 1).all()
    assert bones.names == ("a", "b")
    for wrong in ([0.0, 1.0], [[0.0], [1.0, 2.0]], "ab"):
        with pytest.raises(SuppleError, match="bones"):
            Bones(wrong, ends, ("a", "b"))  # type: ignore[arg-type]
