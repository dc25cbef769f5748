"""The rig on the tets between example poses, where limbs turn far: corrections that turn too."""

from functools import cache

import numpy as np
import pytest

from helpers.restored_rig import restored_rig
from supple.errors import SuppleError
from supple.maths.rotations import rotate
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.deformers.bend import Bend
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import FunctionRig
from supple.rig.stored_rigs import stored_rig
from supple.rig.tets.corotated_corrections import CorotatedCorrections
from supple.rig.tets.fitting import volume_ratios
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.skinned_tets import SkinnedTetRig
from supple.rig.tets.tet_body import with_poses_between
from supple.rig.tets.tet_rig import TetRig, fit_tet_rig
from supple.rig.tets.vertex_frames import blended_rotations
from supple.scenes.modelling.solids import polygonise, tapered_limb

SOME = np.array([3, 0, 77, 41, 77])
BETWEEN = (0.25, 0.5, 0.75, -0.25, -0.5, -0.75)
FARTHEST = np.radians(135)


def black_box(surface: SurfaceMesh) -> FunctionRig:
    """A bend that does not show how it is made."""
    bend = Bend(surface.vertices, (0, 0, 0), (1, 0, 0), (0, 0, 1), low=-0.35, high=0.35)
    return FunctionRig(lambda pose, rows: bend(pose, rows), bend.parameters, bend.n_vertices)


@cache
def bar() -> tuple[SurfaceMesh, FunctionRig, TetMesh]:
    limb = tapered_limb((-0.3, 0, 0), (0.3, 0, 0), 0.07, 0.07)
    surface = polygonise(limb, ((-0.4, -0.1, -0.1), (0.4, 0.1, 0.1)), 0.02)
    return surface, black_box(surface), tetrahedralise(surface, tets=1500)


def fit() -> TetRig:
    surface, rig, mesh = bar()
    return fit_tet_rig(rig, surface, mesh, [[-FARTHEST], [FARTHEST]], names=["back", "forth"])


@pytest.fixture(scope="module")
def fitted() -> TetRig:
    return fit()


def volumes(rig: TetRig, part: float) -> np.ndarray:
    return volume_ratios(rig.mesh, rig([part * FARTHEST]))


def test_the_rig_is_the_fit_at_its_poses_and_the_mesh_at_the_neutral_one(fitted):
    assert isinstance(fitted.start, ShepardRig)
    np.testing.assert_allclose(fitted(fitted.rest_pose), fitted.mesh.vertices, atol=1e-15)
    for pose, found in zip(fitted.poses[1:], fitted.fits, strict=True):
        np.testing.assert_allclose(fitted(pose), found.positions, atol=1e-10)
    assert not fitted.corrections[0].any()
    np.testing.assert_array_equal(fitted.rotations[0], np.tile([0, 0, 0, 1], (len(fitted(0)), 1)))


def test_between_poses_tets_keep_the_volumes_that_a_plain_sum_does_not(fitted):
    plain = TetRig(fitted.mesh, fitted.start, fitted.pose_weights, fitted.away())
    for pose, found in zip(plain.poses[1:], fitted.fits, strict=True):
        np.testing.assert_allclose(plain(pose), found.positions, atol=1e-10)
    assert max(volumes(plain, part).max() for part in BETWEEN) > 1.3
    for part in BETWEEN:
        found = volumes(fitted, part)
        assert found.min() > 0.85
        assert found.max() < 1.15


def test_between_poses_the_tets_are_nearly_where_a_fit_there_would_put_them(fitted):
    surface, rig, mesh = bar()
    half = 0.5 * FARTHEST
    there = fit_tet_rig(rig, surface, mesh, [[half]])([half])
    plain = TetRig(mesh, fitted.start, fitted.pose_weights, fitted.away())
    away, plainly = (
        np.linalg.norm(each([half]) - there, axis=1).mean() for each in (fitted, plain)
    )
    assert away < plainly / 5


def test_the_formula_is_the_surfaces_positions_and_a_turned_remainder(fitted):
    surface, rig, mesh = bar()
    pose = [0.4 * FARTHEST]
    weights = fitted.pose_weights(pose)
    surface_part = fitted.start.matrix @ rig(pose)
    neutral = mesh.vertices - fitted.start.matrix @ surface.vertices
    np.testing.assert_allclose(fitted.start.offsets, neutral, atol=1e-16)
    turned = rotate(
        blended_rotations(fitted.rotations, weights),
        neutral + np.tensordot(weights, fitted.corrections, 1),
    )
    np.testing.assert_allclose(fitted(pose), surface_part + turned, atol=1e-14)


def test_a_subset_is_the_subset_of_all_and_the_same_fit_has_the_same_bits(fitted):
    again = fit()
    for part in (0.0, 0.3, 1.0, -1.4):
        pose = [part * FARTHEST]
        whole = fitted(pose)
        np.testing.assert_array_equal(fitted(pose, SOME), whole[SOME])
        assert fitted(pose, []).shape == (0, 3)
        assert again(pose).tobytes() == whole.tobytes()


def test_a_body_that_turns_as_a_whole_is_rigid_on_the_way():
    surface, _, mesh = bar()

    def turned(pose: np.ndarray) -> np.ndarray:
        cos, sin = np.cos(pose[0]), np.sin(pose[0])
        return surface.vertices @ np.array([[cos, sin, 0], [-sin, cos, 0], [0, 0, 1]])

    bend = black_box(surface)
    rig = FunctionRig(turned, bend.parameters, bend.n_vertices)
    fitted = fit_tet_rig(rig, surface, mesh, [[-2.0], [2.0]])
    halfway = fitted([1.0])
    edges = mesh.tets[:, 0], mesh.tets[:, 1]
    before, after = (
        np.linalg.norm(x[edges[0]] - x[edges[1]], axis=1) for x in (mesh.vertices, halfway)
    )
    np.testing.assert_allclose(after, before, rtol=1e-4)


def test_poses_are_added_where_tets_are_inverted_and_the_others_stay():
    surface, rig, mesh = bar()
    few = fit_tet_rig(rig, surface, mesh, [[0.4 * FARTHEST]])
    beyond = np.array([[FARTHEST]])
    assert few.inversions(beyond)[0].size
    more = with_poses_between(few, surface, beyond)
    assert len(more.poses) == 3
    assert not more.inversions(beyond)[0].size
    np.testing.assert_allclose(more(more.rest_pose), mesh.vertices, atol=1e-15)
    for pose, found in zip(more.poses[1:], more.fits, strict=True):
        np.testing.assert_allclose(more(pose), found.positions, atol=1e-10)
    assert volumes(more, 0.7).max() < 1.15  # the new pose turns, too


def test_a_rig_that_was_stored_is_the_same_to_float32_and_stores_the_same_bytes(fitted):
    header, arrays = stored_rig(fitted)
    rotations = next(array for name, array in arrays.items() if name.endswith(".rotations"))
    assert rotations.dtype == np.float32
    assert rotations.shape == (2, len(fitted.mesh.vertices), 4)
    again = restored_rig(header, arrays, fitted.start.rig)
    for part in (0.0, 0.5, 1.0):
        pose = [part * FARTHEST]
        np.testing.assert_allclose(again(pose), fitted(pose), atol=5e-7)
        np.testing.assert_array_equal(again(pose, SOME), again(pose)[SOME])
    twice_header, twice = stored_rig(again)
    assert twice_header == header
    assert {k: v.tobytes() for k, v in twice.items()} == {k: v.tobytes() for k, v in arrays.items()}


def test_where_rotations_cancel_that_of_the_strongest_pose_counts(fitted):
    half_turns = np.zeros((3, fitted.n_vertices, 4))
    half_turns[:, :, 0] = np.array([1, 1, -1])[:, None]  # about x, and the same the other way
    weights = PoseWeights([[0.0], [1.0], [-1.0]])
    turned = CorotatedCorrections(fitted.start, weights, fitted.corrections, half_turns)
    for pose in ([-0.5], [0.5], [-0.499]):
        w = weights(pose)
        remainder = fitted.start.offsets + np.tensordot(w, fitted.corrections, 1)
        expected = fitted.start(pose) - fitted.start.offsets + remainder * [1, -1, -1]
        np.testing.assert_allclose(turned(pose), expected, atol=1e-12)


def test_a_single_pose_needs_no_rotations():
    surface, rig, mesh = bar()
    unfitted = fit_tet_rig(rig, surface, mesh, np.empty((0, 1)))
    assert unfitted.rotations is None
    np.testing.assert_array_equal(unfitted([1.0]), unfitted.start([1.0]))


def test_rotations_that_do_not_fit_are_refused(fitted):
    parts = (fitted.mesh, fitted.start, fitted.pose_weights, fitted.corrections)
    with pytest.raises(SuppleError, match="vertex rotations: shape"):
        TetRig(*parts, rotations=fitted.rotations[:2])
    with pytest.raises(SuppleError, match="unit quaternions"):
        TetRig(*parts, rotations=1.1 * fitted.rotations)
    weights = PoseWeights(np.array([[0, 0], [1, 0], [0, 1.0]]))
    with pytest.raises(SuppleError, match="poses have 2 numbers"):
        TetRig(fitted.mesh, fitted.start, weights, fitted.corrections, rotations=fitted.rotations)
    carried = object.__new__(SkinnedTetRig)
    with pytest.raises(SuppleError, match="skinned tets have no rotations"):
        TetRig(
            fitted.mesh,
            carried,
            fitted.pose_weights,
            fitted.corrections,
            rotations=fitted.rotations,
        )
