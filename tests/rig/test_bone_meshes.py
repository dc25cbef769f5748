"""Meshes of bones: tets meet them, and what sticks out of the skin is cut."""

from __future__ import annotations

import numpy as np
import pytest

from supple.errors import SuppleError
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.tets.bone_meshes import BoneMeshes, meet_bones
from supple.scenes.bodies.beam import beam

MESH = beam(cells=(24, 6, 6), size=(1.0, 0.25, 0.25))
BOX = np.array([[0, 2, 1], [1, 2, 3], [4, 5, 6], [5, 7, 6], [0, 1, 4], [1, 5, 4], [2, 6, 3],
                [3, 6, 7], [0, 4, 2], [2, 4, 6], [1, 3, 5], [3, 7, 5]])  # fmt: skip


def box(low, high) -> SurfaceMesh:
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
    return SurfaceMesh(np.asarray(low) + corners * (np.asarray(high) - low), BOX)


def bone(low, high, joint: int = 3) -> BoneMeshes:
    return BoneMeshes(box(low, high), np.zeros(8, int), ("ulna",), np.array([joint]))


def bone_volume(mesh: TetMesh, held) -> float:
    return float(mesh.volumes()[np.isin(mesh.tets, held).all(axis=1)].sum())


def test_vertices_near_a_bone_lie_on_it_and_no_tet_is_inverted():
    low, high = np.array([0.13, 0.075, 0.09]), np.array([0.87, 0.16, 0.165])
    mesh, held, joints = meet_bones(MESH, bone(low, high))
    at = mesh.vertices[held]
    assert ((at > low - 1e-9) & (at < high + 1e-9)).all()
    on = np.isclose(at, low).any(axis=1) | np.isclose(at, high).any(axis=1)
    assert on.sum() > 100
    assert mesh.volumes().min() > 0.003 * MESH.volumes().min()
    assert mesh.volumes().sum() == pytest.approx(MESH.volumes().sum(), rel=1e-9)
    assert (joints == 3).all()
    assert bone_volume(mesh, held) == pytest.approx(np.prod(high - low), rel=0.12)


def test_a_bone_thinner_than_the_tets_has_bone_all_along():
    low, high = np.array([0.1, 0.11, 0.115]), np.array([0.9, 0.14, 0.142])
    mesh, held, _ = meet_bones(MESH, bone(low, high))
    assert 0.4 < bone_volume(mesh, held) / np.prod(high - low) < 1.1
    along = np.sort(mesh.vertices[held, 0])
    assert np.diff(along).max() < 0.05
    assert len(mesh.tets) < 4 * len(MESH.tets)


def test_a_bone_that_sticks_out_ends_below_the_skin():
    mesh, held, _ = meet_bones(MESH, bone([0.2, 0.1, 0.1], [0.8, 0.4, 0.15]))
    outside = np.unique(mesh.boundary())
    assert len(held)
    assert not np.isin(held, outside).any()
    # Boundary vertices stay; bisection adds some between them.
    kept = np.unique(MESH.boundary())
    np.testing.assert_array_equal(mesh.vertices[kept], MESH.vertices[kept])
    faces = np.sort(
        np.abs(np.minimum(mesh.vertices[outside], [1, 0.25, 0.25] - mesh.vertices[outside]))
    )
    assert faces[:, 0].max() < 1e-12


def test_a_bone_too_small_for_the_tets_holds_one_vertex():
    mesh, held, _ = meet_bones(MESH, bone([0.5, 0.12, 0.13], [0.501, 0.121, 0.131]))
    assert len(held) >= 1
    assert np.linalg.norm(mesh.vertices[held] - [0.5, 0.12, 0.13], axis=1).max() < 0.05


def test_a_body_apart_that_no_bone_meets_is_held_whole():
    n, away = len(MESH.vertices), MESH.vertices + np.array([0.0, 2.0, 0.0])
    both = TetMesh(
        np.concatenate([MESH.vertices, away]), np.concatenate([MESH.tets, MESH.tets + n])
    )
    mesh, held, joints = meet_bones(both, bone([0.1, 0.1, 0.1], [0.9, 0.15, 0.15]))
    there = mesh.vertices[:, 1] > 1
    assert there.sum() == n
    assert np.isin(np.flatnonzero(there), held).all()
    assert 0 < (~there[held]).sum() < (~there).sum()
    assert (joints == 3).all()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"bone": [0, 0]}, "bone has 2 entries"),
        ({"bone": [5] * 8}, "bone"),
        ({"joints": [1, 2]}, "joints must be 1 indices"),
        ({"joints": [-1]}, "joints must be"),
        ({"surface": None}, "need a SurfaceMesh"),
    ],
)
def test_bones_that_do_not_fit_together_are_refused_in_one_line(changed, said):
    given = {"surface": box(0, 1), "bone": [0] * 8, "names": ("a",), "joints": [0]} | changed
    with pytest.raises(SuppleError, match=said) as refused:
        BoneMeshes(**given)
    assert "\n" not in str(refused.value)
