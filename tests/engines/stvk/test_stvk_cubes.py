"""Strains of cubes, of which half as many are taken: the same coefficients as point by point."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from supple.engines.stvk import coefficients as stvk_coefficients
from supple.engines.stvk.coefficients import cubes_among, stvk_parts
from supple.engines.stvk.strain_points import StrainPoints
from supple.mesh.hexes import HexMesh
from supple.scenes.bodies.elastic_scene import stvk_scene
from supple.scenes.modelling.voxel_lists import voxels_around


def voxels(shape=(3, 2, 2), edge=0.1, stretch=(1.0, 1.0, 1.0), turn=(0.0, 0.0, 0.0)):
    made = voxels_around((np.indices(shape).reshape(3, -1).T + 0.5) * edge, edge)
    return HexMesh(Rotation.from_rotvec(turn).apply(made.vertices * stretch), made.hexes)


def basis_of(mesh, r, seed=0):
    return np.random.default_rng(seed).standard_normal((len(mesh.vertices), 3, r))


def point_by_point(points, group, basis, monkeypatch):
    """Coefficients from the strains at every point."""
    with monkeypatch.context() as patch:
        patch.setattr(stvk_coefficients, "cubes_among", lambda p: (None, np.arange(len(p))))
        return stvk_parts(points, group, basis)


def assert_same(found, wanted):
    for own, other in zip(
        found.reshape(-1, *found.shape[2:]),
        wanted.reshape(found.shape[0] * 2, *found.shape[2:]),
        strict=True,
    ):
        assert np.abs(own - other).max() <= 1e-13 * np.abs(other).max()


@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0), (0.4, -1.1, 2.0)])
@pytest.mark.parametrize("r", [1, 3, 11])
def test_coefficients_of_cubes_are_those_of_their_points(r, turn, monkeypatch):
    mesh = voxels(turn=turn)
    points = StrainPoints.of(mesh)
    cubes, others = cubes_among(points)
    assert cubes is not None
    assert len(cubes) == len(mesh.hexes)
    assert len(others) == 0
    group, basis = np.repeat(np.arange(len(mesh.hexes)) % 2, 8), basis_of(mesh, r)
    wanted = point_by_point(points, group, basis, monkeypatch)
    assert_same(stvk_parts(points, group, basis), wanted)


def test_corners_may_be_counted_from_anywhere(monkeypatch):
    mesh = voxels((2, 1, 1))
    around = [[1, 2, 3, 0, 5, 6, 7, 4], [0, 4, 5, 1, 3, 7, 6, 2]]
    turned = HexMesh(mesh.vertices, np.take_along_axis(mesh.hexes, np.array(around), axis=1))
    points, group = StrainPoints.of(turned), np.zeros(16, np.int64)
    assert len(cubes_among(points)[1]) == 0
    basis = basis_of(turned, 5)
    wanted = point_by_point(StrainPoints.of(mesh), group, basis, monkeypatch)
    assert_same(stvk_parts(points, group, basis), wanted)


def test_cubes_among_other_hexahedra_are_found(monkeypatch):
    mesh = voxels()
    corner = int(np.argmax(mesh.vertices.sum(axis=1)))
    vertices = mesh.vertices.copy()
    vertices[corner] += 0.02
    bent = HexMesh(vertices, mesh.hexes)
    points, group = StrainPoints.of(bent), np.zeros(8 * len(mesh.hexes), np.int64)
    cubes, others = cubes_among(points)
    assert cubes is not None
    own = np.flatnonzero((mesh.hexes == corner).any(axis=1))
    np.testing.assert_array_equal(np.unique(points.element[others]), own)
    assert len(cubes) + len(own) == len(mesh.hexes)
    seen: list[float] = []
    basis = basis_of(bent, 4)
    found = stvk_parts(points, group, basis, seen.append)
    assert_same(found, point_by_point(points, group, basis, monkeypatch))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    "points",
    [
        StrainPoints.of(voxels(stretch=(1.0, 1.0, 1.0 + 1e-9))),
        StrainPoints.of(voxels(stretch=(2.0, 1.0, 0.5))),  # the volume of a cube
        StrainPoints.of(voxels(), order=3),
        StrainPoints.of(voxels(), order=1),
        StrainPoints.of(voxels()).taken(np.arange(4, 92)),
        StrainPoints.of(voxels()).taken(np.random.default_rng(0).permutation(96)),
    ],
    ids=["nearly", "boxes", "order 3", "order 1", "cut", "shuffled"],
)
def test_hexes_that_are_no_cubes_are_recognised(points):
    cubes, others = cubes_among(points)
    assert cubes is None
    np.testing.assert_array_equal(others, np.arange(len(points)))


def test_a_body_of_voxels_is_all_cubes():
    points = StrainPoints.of(stvk_scene("spoon").mesh)
    assert len(cubes_among(points)[1]) == 0


def test_cubes_whose_sums_would_take_too_much_room_are_taken_point_by_point(monkeypatch):
    mesh = voxels()
    points, group = StrainPoints.of(mesh), np.zeros(8 * len(mesh.hexes), np.int64)
    basis = basis_of(mesh, 4)
    wanted = point_by_point(points, group, basis, monkeypatch)
    room = 4 * 8 * (4 + 10) ** 2  # of four sums
    for most, same in ((room, False), (room - 1, True)):
        monkeypatch.setattr(stvk_coefficients, "_CUBE_BYTES", most)
        found = stvk_parts(points, group, basis)
        assert_same(found, wanted)
        assert (found.tobytes() == wanted.tobytes()) == same
