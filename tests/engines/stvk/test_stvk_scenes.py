"""Spoon, bridge, tower and heart are what the paper had, in size and kind, and are sound."""

from __future__ import annotations

import numpy as np
import pytest

from supple.elastic.body import ElasticBody
from supple.engines.stvk.bases import body_modes
from supple.errors import MeshError, SuppleError
from supple.mesh.embedding import embed
from supple.scenes.bodies.elastic_scene import STVK_SCENES, ElasticScene, stvk_scene
from supple.scenes.modelling.framework import Framework
from supple.scenes.modelling.voxel_lists import voxels_around

#: Figures 3 and 5 of the paper: triangles, resolution, vertices, elements, modes.
PUBLISHED = {
    "spoon": (6638, 100, 3698, 2005, 12),
    "bridge": (59630, 128, 11829, 5854, 15),
    "tower": (105788, 140, 20713, 11304, 30),
    "heart": (23616, 80, 28041, 14444, 30),
}


@pytest.fixture(params=STVK_SCENES)
def shown(request: pytest.FixtureRequest) -> ElasticScene:
    return stvk_scene(request.param)


def test_sizes_are_the_papers_within_a_tenth(shown: ElasticScene) -> None:
    triangles, resolution, vertices, elements, modes = PUBLISHED[shown.name]
    ours = (
        len(shown.surface.triangles),
        int(np.ptp(shown.voxels.cells, axis=0).max()) + 1,
        len(shown.mesh.vertices),
        len(shown.mesh.hexes),
    )
    np.testing.assert_allclose(ours, (triangles, resolution, vertices, elements), rtol=0.1)
    assert shown.modes == modes
    paper = shown.paper
    assert (paper.triangles, paper.resolution, paper.vertices) == (triangles, resolution, vertices)
    assert (paper.elements, paper.modes) == (elements, modes)


def test_cubes_are_equal_and_positive_and_the_tets_fill_them(shown: ElasticScene) -> None:
    volume = shown.voxels.size**3
    np.testing.assert_allclose(shown.mesh.volumes(), volume, rtol=1e-9)
    volumes = shown.tets.volumes()
    assert volumes.min() > 0.99 * volume / 6
    np.testing.assert_allclose(volumes.reshape(-1, 5).sum(axis=1), volume, rtol=1e-9)
    np.testing.assert_array_equal(shown.tets.vertices, shown.mesh.vertices)


def test_tets_of_neighbouring_cubes_share_faces(shown: ElasticScene) -> None:
    """A face that fits no other lies on the outside, where a cube has no neighbour."""
    corners = shown.mesh.vertices[shown.tets.boundary()]
    doubled = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    places = {tuple(cell) for cell in shown.voxels.cells.tolist()}
    ways = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    bare = sum((x + i, y + j, z + k) not in places for x, y, z in places for i, j, k in ways)
    np.testing.assert_allclose(doubled.sum() / 2, bare * shown.voxels.size**2, rtol=1e-9)


def test_the_surface_is_inside_the_cubes(shown: ElasticScene) -> None:
    some = shown.surface.vertices[::7]
    carried = embed(some, shown.tets) @ shown.mesh.vertices
    assert np.linalg.norm(carried - some, axis=1).max() < 0.3 * shown.voxels.size


def test_some_are_fixed_and_what_is_pulled_is_not(shown: ElasticScene) -> None:
    n = len(shown.mesh.vertices)
    assert 0 < len(shown.fixed) < 0.1 * n
    assert 0 <= shown.pulled < n
    assert shown.pulled not in shown.fixed
    assert shown.material.kind == "stvk"


@pytest.mark.parametrize("name", ["spoon", "bridge"])
def test_they_hold_together_and_swing_once_or_a_few_times_a_second(name: str) -> None:
    scene = stvk_scene(name)
    modes = body_modes(scene.body(), 2, fixed=scene.fixed)
    frequencies = np.sqrt(modes.eigenvalues) / (2 * np.pi)
    assert 1 < frequencies[0] < 4


def test_the_spoon_swings_up_and_down_and_its_tip_farthest() -> None:
    scene = stvk_scene("spoon")
    body = scene.body()
    shape = body_modes(body, 1, fixed=scene.fixed).vectors.reshape(-1, 3)
    moved = np.linalg.norm(shape, axis=1)
    assert moved[scene.pulled] > 0.98 * moved.max()
    assert abs(shape[scene.pulled, 1]) > 0.9 * moved[scene.pulled]


def test_tets_swing_nearly_as_the_cubes_do() -> None:
    scene = stvk_scene("spoon")
    body = ElasticBody(scene.tets, scene.material)
    assert body.vertex_masses().sum() == pytest.approx(scene.body().vertex_masses().sum())
    cubes, tets = (
        float(np.sqrt(body_modes(b, 1, fixed=scene.fixed).eigenvalues[0]))
        for b in (scene.body(), body)
    )
    assert 1 < tets / cubes < 1.25


@pytest.mark.parametrize("name", ["spoon", "tower"])
def test_a_scene_is_the_same_bits_again(name: str) -> None:
    again = stvk_scene.__wrapped__(name)
    first = stvk_scene(name)
    assert again is not first
    np.testing.assert_array_equal(again.mesh.vertices, first.mesh.vertices)
    np.testing.assert_array_equal(again.mesh.hexes, first.mesh.hexes)
    np.testing.assert_array_equal(again.surface.vertices, first.surface.vertices)
    np.testing.assert_array_equal(again.fixed, first.fixed)


@pytest.mark.parametrize("name", ["spoon", "heart"])
def test_drawn_surfaces_are_closed_and_face_outwards(name: str) -> None:
    surface = stvk_scene(name).surface
    assert surface.volume() > 0
    edges = surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    there = {tuple(edge) for edge in edges.tolist()}
    assert len(there) == len(edges)
    assert all((b, a) in there for a, b in there)


def test_beams_are_closed_prisms_of_their_size() -> None:
    frame = Framework()
    frame.add([0, 0, 0], [2, 0, 0], 0.1, 0.3)
    frame.add([0, 0, 0], [0, 1, 0], 0.1)
    surface = frame.surface(0.5)
    assert surface.volume() == pytest.approx(2 * 0.1 * 0.3 + 0.1 * 0.1)
    assert np.ptp(surface.vertices[:20], axis=0) == pytest.approx([2, 0.3, 0.1])


def test_cubes_that_only_touch_along_an_edge_are_no_body() -> None:
    with pytest.raises(MeshError, match="2 separate pieces"):
        voxels_around(np.array([[0.5, 0.5, 0.5], [1.5, 1.5, 0.5]]), 1.0)


def test_an_unknown_scene_is_named_with_a_near_one() -> None:
    with pytest.raises(SuppleError, match='did you mean "bridge"'):
        stvk_scene("brigde")
    with pytest.raises(SuppleError, match="there are spoon, bridge, tower, heart"):
        stvk_scene("x")
