"""How vertices turn between poses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.transform import Rotation

from supple.errors import MeshError, SuppleError
from supple.mesh.tets import TetMesh
from supple.rig.deformers.bend import Bend
from supple.rig.tets import vertex_frames as frame_smoothing
from supple.rig.tets.vertex_frames import (
    blended_rotations,
    consistent_signs,
    edge_rotations,
    pose_rotations,
    rotate_basis,
    smoothed_rotations,
    unrotate_basis,
    vertex_rotations,
)
from supple.scenes.bodies.beam import beam

AVERAGES = ("matrices", "quaternions")
WIDTH = 1 / 6


@pytest.fixture(scope="module")
def mesh() -> TetMesh:
    return beam(cells=(24, 4, 4))


def bent(mesh: TetMesh, degrees: float) -> np.ndarray:
    """The beam's axis, x, becomes an arc that turns towards z."""
    rig = Bend(mesh.vertices, (0, WIDTH / 2, WIDTH / 2), (1, 0, 0), (0, 0, 1), low=0, high=1)
    return rig([np.radians(degrees)])


def turned_degrees(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.degrees((Rotation.from_quat(first).inv() * Rotation.from_quat(second)).magnitude())


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("degrees", [0, 40, 179.9, 180])
def test_a_body_that_turns_and_stretches_turns_everywhere_alike(
    mesh: TetMesh, average: str, degrees: float
) -> None:
    turn = Rotation.from_rotvec(np.radians(degrees) * np.array([0.6, 0, 0.8]))
    stretch = np.array([[1.3, 0.1, 0], [0.1, 0.9, 0.05], [0, 0.05, 1.1]])
    posed = mesh.vertices @ (turn.as_matrix() @ stretch).T + [1, 2, 3]
    found = vertex_rotations(mesh, mesh.vertices, posed, average=average)  # type: ignore[arg-type]
    assert turned_degrees(np.tile(turn.as_quat(), (len(found), 1)), found).max() < 1e-6
    assert (found[:, 3] >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("average", AVERAGES)
def test_a_bent_beam_turns_as_its_axis_does(mesh: TetMesh, average: str) -> None:
    found = vertex_rotations(mesh, mesh.vertices, bent(mesh, 90), average=average)  # type: ignore[arg-type]
    wanted = Rotation.from_rotvec(np.outer(mesh.vertices[:, 0], [0, -np.pi / 2, 0])).as_quat()
    away = turned_degrees(wanted, found)
    # On the skin tets are on one side only, up to half a cell away.
    assert away.max() < 0.75 * 90 / 24
    low, high = mesh.bounds
    inside = ((mesh.vertices > low + 1e-9) & (mesh.vertices < high - 1e-9)).all(axis=1)
    assert inside.sum() > 200
    assert away[inside].max() < 0.05


def test_larger_tets_count_more() -> None:
    """Two tets at one vertex, the larger of which turns."""
    corner = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.3, 0, 0], [0, 0.3, 0]])
    points = np.vstack([corner, [[0, 0, -0.3]]])
    mesh = TetMesh(points, [[0, 1, 2, 3], [0, 5, 4, 6]])
    posed = points.copy()
    posed[1:4] = points[1:4] @ Rotation.from_rotvec([0, 0, 0.5]).as_matrix().T
    angle = Rotation.from_quat(vertex_rotations(mesh, points, posed)).magnitude()
    assert angle[1] == pytest.approx(0.5)
    assert angle[4] == pytest.approx(0, abs=1e-7)
    assert 0.45 < angle[0] < 0.5


def test_vertices_of_no_tet_do_not_turn(mesh: TetMesh) -> None:
    loose = TetMesh(np.vstack([mesh.vertices, [[5, 5, 5]]]), mesh.tets)
    posed = loose.vertices @ Rotation.from_rotvec([0, 1, 0]).as_matrix().T
    for average in AVERAGES:
        found = vertex_rotations(loose, loose.vertices, posed, average=average)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found[-1], [0, 0, 0, 1])
    poses = pose_rotations(loose, [loose.vertices, posed], [-1, 0])
    np.testing.assert_array_equal(poses[:, -1], [[0, 0, 0, 1]] * 2)


def test_a_tet_turned_inside_out_still_gives_rotations(mesh: TetMesh) -> None:
    posed = mesh.vertices.copy()
    posed[200] += 0.3
    found = vertex_rotations(mesh, mesh.vertices, posed)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-12)
    flat = mesh.vertices * [1, 1, 0]
    assert np.isfinite(vertex_rotations(mesh, mesh.vertices, flat)).all()
    assert np.isfinite(vertex_rotations(mesh, mesh.vertices, np.zeros_like(flat))).all()


def test_signs_are_continuous_where_a_beam_turns_by_more_than_half_a_circle(mesh: TetMesh) -> None:
    found = pose_rotations(mesh, [mesh.vertices, bent(mesh, 300)], [-1, 0], smoothing=0)
    assert found[1, :, 3].min() < -0.8  # cos 150°: the long way round
    halfway = blended_rotations(found, [0.5, 0.5])
    wanted = vertex_rotations(mesh, mesh.vertices, bent(mesh, 150))
    assert turned_degrees(wanted, halfway).max() < 2


def test_each_part_of_a_body_takes_the_sign_of_its_parent_pose() -> None:
    one = beam(cells=(4, 1, 1))
    n = len(one.vertices)
    two = TetMesh(
        np.vstack([one.vertices, one.vertices + np.array([0, 2, 0])]),
        np.vstack([one.tets, one.tets + n]),
    )
    angles = np.radians([[0, 0], [120, -120], [240, -240]])
    field = Rotation.from_rotvec(np.array([0, 0, 1]) * np.repeat(angles, n).reshape(-1, 1))
    quaternions = field.as_quat().reshape(3, 2 * n, 4)
    quaternions *= np.random.default_rng(0).choice([-1, 1], (3, 2 * n, 1))
    found = consistent_signs(quaternions, [-1, 0, 1], two)
    half = np.repeat(angles, n, axis=1) / 2
    np.testing.assert_allclose(found[..., 3], np.cos(half), atol=1e-12)
    np.testing.assert_allclose(found[..., 2], np.sin(half), atol=1e-12)


def test_signs_do_not_depend_on_the_order_of_poses(mesh: TetMesh) -> None:
    shapes = [bent(mesh, angle) for angle in (0, 100, 200, 290)]
    found = pose_rotations(mesh, shapes, [-1, 0, 1, 2])
    other = pose_rotations(mesh, [shapes[i] for i in (0, 3, 1, 2)], [-1, 3, 0, 2])
    np.testing.assert_allclose(found[[0, 3, 1, 2]], other, atol=1e-12)


def test_smoothing_keeps_a_rigid_turn_and_takes_noise_away(mesh: TetMesh) -> None:
    turn = Rotation.from_rotvec([1, -2, 0.5])
    rigid = np.tile(turn.as_quat(), (1, len(mesh.vertices), 1))
    assert turned_degrees(rigid[0], smoothed_rotations(mesh, rigid, 0.3)[0]).max() < 1e-6
    shake = Rotation.from_rotvec(np.random.default_rng(0).normal(0, 0.2, mesh.vertices.shape))
    noisy = (turn * shake).as_quat()[None]
    before = turned_degrees(rigid[0], noisy[0]).mean()
    after = turned_degrees(rigid[0], smoothed_rotations(mesh, noisy, 0.1)[0]).mean()
    assert after < 0.3 * before
    np.testing.assert_array_equal(smoothed_rotations(mesh, noisy, 0), noisy)


@pytest.mark.parametrize("cells", [(24, 3, 3), (48, 6, 6)])
def test_smoothing_spreads_a_hinge_over_its_length_whatever_the_mesh(cells: tuple) -> None:
    """Across a step, s − ℓ² s″ = step has the solution ½ exp(−distance / ℓ)."""
    mesh, length = beam(cells=cells), 0.1
    step = 0.5 + 0.5 / cells[0]  # between two layers of vertices
    hinge = np.where(mesh.vertices[:, :1] > 0.5 + 1e-9, 1.0, 0.0) * [0, 1.0, 0]
    field = smoothed_rotations(mesh, Rotation.from_rotvec(hinge).as_quat()[None], length)
    turned = Rotation.from_quat(field[0]).magnitude()
    for x in (0.25, 1 / 3, 5 / 12):
        share = 0.5 * np.exp(-(step - x) / length)
        wanted = np.arctan2(share * np.sin(1), 1 - share + share * np.cos(1))
        assert turned[np.isclose(mesh.vertices[:, 0], x)] == pytest.approx(wanted, abs=0.015)


def test_edge_rotations_go_from_parent_to_child(mesh: TetMesh) -> None:
    shapes = [bent(mesh, angle) for angle in (0, 60, 140)]
    found = edge_rotations(mesh, shapes, [-1, 0, 1])
    tip = np.isclose(mesh.vertices[:, 0], 1)
    turned = np.degrees(Rotation.from_quat(found[:, tip].reshape(-1, 4)).magnitude())
    np.testing.assert_allclose(turned.reshape(3, -1).mean(axis=1), [0, 60, 80], atol=2)


def test_rotate_and_unrotate_undo_each_other_and_turn_vertex_by_vertex() -> None:
    random = np.random.default_rng(0)
    turns, basis = Rotation.random(7, rng=1), random.normal(size=(7, 3, 4))
    wanted = np.stack([turns.apply(basis[:, :, c]) for c in range(4)], axis=2)
    np.testing.assert_allclose(rotate_basis(turns.as_quat(), basis), wanted, atol=1e-14)
    back = unrotate_basis(turns.as_quat(), rotate_basis(turns.as_quat(), basis))
    np.testing.assert_allclose(back, basis, atol=1e-14)


def test_blends_take_negative_weights_and_survive_cancellation() -> None:
    about_z = Rotation.from_rotvec(np.outer(np.radians([0, 60, 120]), [0, 0, 1])).as_quat()
    blend = blended_rotations(about_z[:, None], [0.55, 0.5, -0.05])
    assert np.linalg.norm(blend) == pytest.approx(1)
    assert 10 < np.degrees(Rotation.from_quat(blend[0]).magnitude()) < 30
    opposite = np.array([[[0, 0, 1.0, 0]], [[0, 0, -1.0, 0]]])
    np.testing.assert_array_equal(blended_rotations(opposite, [0.5, 0.5]), opposite[0])
    for i in range(3):
        np.testing.assert_array_equal(
            blended_rotations(about_z[:, None], np.eye(3)[i])[0], about_z[i]
        )


def test_invalid_frames_are_named(mesh: TetMesh) -> None:
    rest, unit = mesh.vertices, np.tile([0, 0, 0, 1.0], (2, len(mesh.vertices), 1))
    with pytest.raises(MeshError, match="inverted or flat"):
        vertex_rotations(mesh, rest * [1, 1, -1], rest)
    with pytest.raises(MeshError, match="too large"):
        vertex_rotations(mesh, rest * 1e100, rest * 1e120)
    with pytest.raises(SuppleError, match="not finite at row 3"):
        vertex_rotations(mesh, rest, np.where(np.arange(len(rest))[:, None] == 3, np.nan, rest))
    with pytest.raises(SuppleError, match="shape"):
        vertex_rotations(mesh, rest, rest[:-1])
    with pytest.raises(SuppleError, match="average"):
        vertex_rotations(mesh, rest, rest, average="mean")  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match="1 shapes for an alignment tree of 2"):
        pose_rotations(mesh, [rest], [-1, 0])
    with pytest.raises(SuppleError, match="one for each pose"):
        pose_rotations(mesh, [], [])
    for parents, said in (
        ([-1, 1], "cycle"),
        ([0, -1], "pose 0"),
        ([-1, 5], "poses"),
        ([0.5], "whole"),
    ):
        with pytest.raises(SuppleError, match=said):
            consistent_signs(unit[: len(parents)], parents, mesh)
    with pytest.raises(SuppleError, match="negative"):
        smoothed_rotations(mesh, unit, -1)
    with pytest.raises(SuppleError, match="expected"):
        rotate_basis(unit[0], np.zeros((4, 2, 3)))
    with pytest.raises(SuppleError, match="expected"):
        blended_rotations(np.zeros((0, 3, 4)), [])
    with pytest.raises(SuppleError, match="pose weights"):
        blended_rotations(unit, [1.0])


def test_smoothing_takes_meshes_whose_laplacian_cancels_on_one_side(monkeypatch):
    """On a cube's lattice right angles make entries that are zero in one triangle only."""
    mesh = beam(cells=(3, 2, 2))
    stiffness, volumes = frame_smoothing._laplacian(mesh)
    entries = stiffness.tolil()
    i, j = np.argwhere(np.triu(stiffness.toarray(), 1) != 0)[0]
    entries[i, j] = 0.0  # as rounding left it
    broken = sp.csr_array(entries)
    broken.eliminate_zeros()
    monkeypatch.setattr(frame_smoothing, "_laplacian", lambda _: (broken, volumes))
    turns = np.tile([0.0, 0.0, 0.0, 1.0], (1, len(mesh.vertices), 1))
    np.testing.assert_allclose(
        np.abs(frame_smoothing.smoothed_rotations(mesh, turns, 0.1)[..., 3]), 1.0, atol=1e-9
    )
