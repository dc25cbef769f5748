"""Jacobians of rigs: derivatives of their own agree with differences through placements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from helpers.build_samples import bar_mesh, two_joints
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.wire import Wire
from supple.rig.jacobians.differences import DifferencedJacobian
from supple.rig.jacobians.rig_jacobian import rig_jacobian
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.carried_links import rig_on_tets
from supple.rig.tets.tet_rig import fit_tet_rig

MESH = bar_mesh((6, 2, 2))
SURFACE, _ = MESH.surface()
RNG = np.random.default_rng(3)


def chain() -> SkinnedRig:
    """Three joints that turn, move and scale."""
    turn = np.array([0.1, 0.2, 0.3, 0.9])
    skeleton = Skeleton(
        ["a", "b", "c"],
        [-1, 0, 1],
        [[0.0, 0.08, 0.08], [0.4, 0, 0], [0.3, 0, 0]],
        rotations=np.tile(turn / np.linalg.norm(turn), (3, 1)),
    )
    weights = RNG.random((len(SURFACE.vertices), 3))
    pose = JointPose(skeleton, translating=["a", "b"], scaling=["b"])
    joints = np.tile(np.arange(3), (len(weights), 1))
    bind = np.linalg.inv(skeleton.rest_world())
    return SkinnedRig(pose, SURFACE.vertices, joints, weights, bind)


def shapes(base: Rig) -> BlendShapeRig:
    deltas = 0.05 * RNG.standard_normal((4, base.n_vertices, 3))
    return BlendShapeRig(base, deltas, ["p", "q", "r", "s"])  # type: ignore[arg-type]


def wire(turning: float = 1.0) -> Wire:
    control = np.column_stack([np.linspace(0, 1, 6), np.full(6, 0.1), np.full(6, 0.05)])
    return Wire(SURFACE.vertices, control, dropoff=0.3, turning=turning)


def corrected(base: Rig) -> PoseSpaceDeformation:
    count = len(base.parameters)
    poses = np.vstack([np.zeros(count), 0.5 * RNG.standard_normal((2, count))])
    deltas = 0.05 * RNG.standard_normal((3, base.n_vertices, 3))
    deltas[0] = 0
    return PoseSpaceDeformation(base, poses, deltas, np.ones(count))


RIGS: dict[str, Callable[[], Rig]] = {
    "skin": chain,
    "shapes": lambda: shapes(chain()),
    "wire": wire,
    "wire in part": lambda: wire(0.6),
    "corrected skin": lambda: corrected(chain()),
    "corrected shapes": lambda: corrected(shapes(chain())),
    "skin on tets": lambda: fit_tet_rig(chain(), SURFACE, MESH, []),
    "shapes on tets": lambda: fit_tet_rig(shapes(two_joints(SURFACE)), SURFACE, MESH, []),
    "wire on tets": lambda: fit_tet_rig(wire(), SURFACE, MESH, []),
}


@pytest.mark.parametrize("name", RIGS)
@pytest.mark.parametrize("far", [0.0, 0.3])
def test_a_rig_s_own_derivative_agrees_with_differences(name, far):
    rig = RIGS[name]()
    count = len(rig.parameters)
    pose = rig.rest_pose + far * RNG.standard_normal(count)
    if far == 0.0 and "corrected" in name:
        pose = pose + 0.01  # distances to a pose have no slope at it
    entries = RNG.permutation(count)[: max(1, count - 2)]
    vertices = np.sort(RNG.permutation(rig.n_vertices)[:40])
    own = rig_jacobian(rig, entries, vertices)
    assert not isinstance(own, DifferencedJacobian)
    found, expected = np.full((2, 40, 3, len(entries)), np.nan)
    own.evaluate(pose, found)
    rig_jacobian(rig, entries, vertices, differences=True).evaluate(pose, expected)
    np.testing.assert_allclose(found, expected, atol=2e-8)


@pytest.mark.parametrize("on_tets", [False, True])
def test_a_wire_that_a_skin_carries_has_a_derivative_of_its_own(on_tets):
    rig = RigChain(wire(0.6), shapes(chain()))
    rig = rig_on_tets(rig, SURFACE, MESH) if on_tets else rig
    wires, joints = len(rig.rigs[0].parameters), len(rig.rigs[1].base.parameters)
    pose = rig.rest_pose + 0.3 * RNG.standard_normal(len(rig.parameters))
    scripted = np.arange(wires, wires + joints)
    entries = np.setdiff1d(np.arange(len(pose)), scripted)
    own = rig_jacobian(rig, entries)
    assert not isinstance(own, DifferencedJacobian)
    found, expected = np.full((2, rig.n_vertices, 3, len(entries)), np.nan)
    own.evaluate(pose, found)
    rig_jacobian(rig, entries, differences=True).evaluate(pose, expected)
    np.testing.assert_allclose(found, expected, atol=2e-8)
    assert rig_jacobian(rig, entries[entries > scripted[-1]]).affine
    assert not own.affine
    assert isinstance(rig_jacobian(rig, np.arange(len(pose))), DifferencedJacobian)


def test_any_other_rig_is_differenced():
    rig = Bend(SURFACE.vertices, (0, 0, 0), (1, 0, 0), (0, 0, 1), low=0, high=1)
    found = rig_jacobian(rig, np.array([0]))
    assert isinstance(found, DifferencedJacobian)
    assert not found.affine


def test_only_weights_of_shapes_are_affine():
    rig = shapes(chain())
    split = len(rig.base.parameters)
    assert rig_jacobian(rig, np.arange(split, split + 4)).affine
    assert not rig_jacobian(rig, np.arange(split - 1, split + 4)).affine
