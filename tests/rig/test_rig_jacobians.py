"""Jacobians of rigs: derivatives of their own agree with differences through placements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from helpers.build_samples import bar_mesh, two_joints
from helpers.own_deformer import Shear, ShearJacobian
from supple.errors import SuppleError
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import ChainJacobian, RigChain
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.wire import Wire
from supple.rig.jacobian import DifferencedJacobian, rig_jacobian
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig
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


def bend() -> Bend:
    return Bend(SURFACE.vertices, (0, 0, 0), (1, 0, 0), (0, 0, 1), low=-3, high=4)


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
    "skin and wire": lambda: RigChain(chain(), wire(0.6)),
    "wire and shapes": lambda: RigChain(wire(), shapes(chain()), wire()),
    "shapes, bend and wire": lambda: RigChain(shapes(chain()), bend(), wire()),
    "skin on tets": lambda: fit_tet_rig(chain(), SURFACE, MESH, []),
    "shapes on tets": lambda: fit_tet_rig(shapes(two_joints(SURFACE)), SURFACE, MESH, []),
    "wire on tets": lambda: fit_tet_rig(wire(), SURFACE, MESH, []),
}


@pytest.mark.parametrize("name", RIGS)
@pytest.mark.parametrize("far", [0.0, 0.3])
def test_a_rig_s_own_derivative_agrees_with_differences(name, far):
    rig, rng = RIGS[name](), np.random.default_rng(4)
    count = len(rig.parameters)
    # Several wires in a row turn points so far that differences are no measure.
    reach = 0.3 * far if isinstance(rig, RigChain) else far
    pose = rig.rest_pose + reach * rng.standard_normal(count)
    if far == 0.0 and "corrected" in name:
        pose = pose + 0.01  # distances to a pose have no slope at it
    entries = rng.permutation(count)[: max(1, count - 2)]
    vertices = np.sort(rng.permutation(rig.n_vertices)[:40])
    own = rig_jacobian(rig, entries, vertices)
    assert not isinstance(own, DifferencedJacobian)
    found, expected = np.full((2, 40, 3, len(entries)), np.nan)
    own.evaluate(pose, found)
    rig_jacobian(rig, entries, vertices, differences=True).evaluate(pose, expected)
    np.testing.assert_allclose(found, expected, atol=2e-8)


def test_any_other_rig_is_differenced():
    found = rig_jacobian(bend(), np.array([0]))
    assert isinstance(found, DifferencedJacobian)
    assert not found.affine


def test_only_weights_of_shapes_are_affine():
    rig = shapes(chain())
    split = len(rig.base.parameters)
    assert rig_jacobian(rig, np.arange(split, split + 4)).affine
    assert not rig_jacobian(rig, np.arange(split - 1, split + 4)).affine


@pytest.mark.parametrize("first", [False, True])
def test_shapes_in_a_chain_are_affine_unless_something_behind_bends_points(first):
    links: list[Rig] = [shapes(chain()), wire(0.6)]
    rig = RigChain(*(links if first else links[::-1]))
    weights = [i for i, parameter in enumerate(rig.parameters) if parameter.name in "pqrs"]
    found: Any = rig_jacobian(rig, np.array(weights))
    assert found.affine
    assert not rig_jacobian(RigChain(*rig.rigs, bend()), np.array(weights)).affine
    assert not rig_jacobian(rig, np.array([*weights, 0 if first else 1])).affine
    pose = rig.rest_pose + 0.2 * RNG.standard_normal(len(rig.parameters))
    columns, frames = np.empty((rig.n_vertices, 3, 4)), np.empty((rig.n_vertices, 3, 3))
    found.evaluate(pose, columns)
    found.write_frames(pose, frames)
    np.testing.assert_allclose(frames @ found.deltas, columns, atol=1e-12)


def own_chain() -> RigChain:
    return RigChain(chain(), Shear(SURFACE.vertices), wire(0.6))


@pytest.mark.parametrize("vertices", [None, np.array([5, 2, 9])])
def test_a_deformer_without_a_placement_has_its_own_jacobian_in_a_chain(vertices):
    rig = own_chain()
    entries = np.arange(len(rig.parameters))
    pose = rig.rest_pose + 0.1 * RNG.standard_normal(len(entries))
    own = rig_jacobian(rig, entries, vertices)
    assert isinstance(own, ChainJacobian)
    count = rig.n_vertices if vertices is None else len(vertices)
    out, differenced = np.empty((2, count, 3, len(entries)))
    own.evaluate(pose, out)
    rig_jacobian(rig, entries, vertices, differences=True).evaluate(pose, differenced)
    np.testing.assert_allclose(out, differenced, atol=1e-7)


@pytest.mark.parametrize("member", ["evaluate_points", "write_slopes"])
def test_a_wrong_jacobian_of_a_link_reaches_the_chain(member, monkeypatch):
    """Otherwise comparisons with differences compare differences with differences."""

    def wrong(self, points, pose, out):
        out[...] = 1e9

    monkeypatch.setattr(ShearJacobian, member, wrong)
    rig = own_chain()
    out = np.empty((rig.n_vertices, 3, len(rig.parameters)))
    rig_jacobian(rig, np.arange(len(rig.parameters))).evaluate(rig.rest_pose + 0.1, out)
    assert np.abs(out).max() > 1e8


@pytest.mark.parametrize("member", ["affine", "straight", "evaluate_points", "write_slopes"])
def test_a_jacobian_of_a_link_without_a_member_is_refused(member, monkeypatch):
    monkeypatch.delattr(ShearJacobian, member)
    message = f"the Jacobian of a Shear, a ShearJacobian, has no `{member}`"
    with pytest.raises(SuppleError, match=message):
        rig_jacobian(own_chain(), np.arange(3))


def test_a_jacobian_of_a_rig_alone_needs_only_two_members(monkeypatch):
    for name in ("straight", "evaluate_points", "write_slopes"):
        monkeypatch.delattr(ShearJacobian, name)
    alone = Shear(SURFACE.vertices)
    assert isinstance(rig_jacobian(alone, np.array([0])), ShearJacobian)
    assert isinstance(rig_jacobian(own_chain(), np.array([0])), ChainJacobian)
    monkeypatch.delattr(ShearJacobian, "evaluate")
    with pytest.raises(SuppleError, match="a ShearJacobian, has no `evaluate`"):
        rig_jacobian(alone, np.array([0]))
