"""Meshes refuse what cannot be a mesh and tell what is wrong with the rest."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.errors import MeshError
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.hexes import CORNERS as CUBE
from supple.mesh.hexes import HexMesh
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import fan_triangles, row_keys

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=float)
CLOSED = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def cube_of_tets(n: int = 3) -> TetMesh:
    """The unit cube as 6 n³ positive tets."""
    axis = np.linspace(0, 1, n + 1)
    vertices = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    grid = np.arange(len(vertices)).reshape((n + 1,) * 3)
    corner = {
        bits: grid[bits[0] : n + bits[0], bits[1] : n + bits[1], bits[2] : n + bits[2]].ravel()
        for bits in itertools.product((0, 1), repeat=3)
    }
    tets = []
    for path in itertools.permutations(range(3)):
        steps = [np.zeros(3, int)]
        for axis_index in path:
            steps.append(steps[-1] + np.eye(3, dtype=int)[axis_index])
        tets.append(np.stack([corner[tuple(step)] for step in steps], axis=1))
    return TetMesh(vertices, np.concatenate(tets)).oriented()


def kinds(mesh: SurfaceMesh | TetMesh) -> dict[str, tuple[int, int | None]]:
    return {defect.kind: (defect.count, defect.first) for defect in mesh.defects()}


@pytest.mark.parametrize(
    ("vertices", "triangles", "message"),
    [
        (CORNERS[:, :2], CLOSED, r"shape \(4, 2\), not \(n, 3\)"),
        (np.empty((0, 3)), CLOSED, "no vertices"),
        ([[0, 0, 0], [1]], CLOSED, "not an"),
        (CORNERS, np.empty((0, 3), int), "no triangles"),
        (CORNERS, [[0, 1]], r"shape \(1, 2\), not \(m, 3\)"),
        (CORNERS, [[0, 1, 2], [0, 1]], "not an"),
        (CORNERS, [[0.0, 1.0, 2.0]], "float64, not integers"),
        (CORNERS, [[0, 1, 2], [0, 4, 1]], "triangle 1 refers to vertex 4"),
        (CORNERS, [[0, 1, 2], [0, -1, 1]], "triangle 1 refers to vertex -1"),
        (CORNERS, np.array([[0, 1, 2**63]], np.uint64), "triangle 0 refers to vertex 9223"),
        (np.where(CORNERS > 0, np.nan, 0), CLOSED, "3 vertices have .* vertex 1, at nan"),
        (np.where(CORNERS > 0, -np.inf, 0), CLOSED, "vertex 1, at -inf"),
        (CORNERS * 1e200, CLOSED, "vertex 1 is farther"),
    ],
)
def test_invalid_surfaces_are_refused_by_name(vertices, triangles, message):
    with pytest.raises(MeshError, match=message) as caught:
        SurfaceMesh(vertices, triangles)
    assert "\n" not in str(caught.value)


def test_a_tet_index_out_of_range_is_an_error_that_names_the_tet():
    with pytest.raises(MeshError, match="tet 1 refers to vertex 7"):
        TetMesh(CORNERS, [[0, 1, 2, 3], [0, 1, 2, 7]])


@pytest.mark.parametrize("members", [[0, 1], [-1], [[0]], [0.5], "all"])
def test_a_set_of_what_are_not_the_mesh_s_tets_is_refused(members):
    with pytest.raises(MeshError, match='set "leg"'):
        TetMesh(CORNERS, [[0, 1, 2, 3]], {"leg": members})


def test_sets_are_sorted_and_without_repetition():
    mesh = TetMesh(CORNERS, [[0, 1, 2, 3]] * 5, {"leg": [3, 1, 3], "none": []})
    assert mesh.sets["leg"].tolist() == [1, 3]
    assert mesh.sets["none"].tolist() == []


def test_arrays_are_contiguous_float64_and_int64_whatever_was_given():
    mesh = SurfaceMesh(np.asfortranarray(CORNERS.astype("f4")), CLOSED.astype("u2")[:, ::-1])
    assert mesh.vertices.dtype == np.float64
    assert mesh.vertices.flags.c_contiguous
    assert mesh.triangles.dtype == np.int64
    assert mesh.triangles.flags.c_contiguous


def test_a_closed_outward_surface_has_no_defects_and_its_volume():
    mesh = SurfaceMesh(CORNERS + 1e3, CLOSED)
    assert mesh.defects() == []
    assert mesh.volume() == pytest.approx(1 / 6, rel=1e-9)
    assert mesh.size == pytest.approx(np.sqrt(3))
    assert mesh.bounds.tolist() == [[1e3] * 3, [1e3 + 1] * 3]
    np.testing.assert_allclose(mesh.areas(), [0.5, 0.5, 0.5, np.sqrt(3) / 2])
    np.testing.assert_allclose(mesh.normals()[0], [0, 0, -1], atol=1e-12)


@pytest.mark.parametrize(
    ("triangles", "expected"),
    [
        (CLOSED[:3], {"open edges": (3, 1)}),
        (CLOSED[:, ::-1], {"inside-out components": (1, 0)}),
        (
            [*CLOSED[:3], CLOSED[3][::-1]],
            {"inconsistent edges": (3, 1)},
        ),
        (
            [*CLOSED, CLOSED[1][::-1]],
            {"duplicate triangles": (1, 4), "non-manifold edges": (3, 0)},
        ),
        ([*CLOSED, [1, 1, 2]], {"degenerate triangles": (1, 4)}),
    ],
)
def test_a_surface_reports_the_places_and_number_of_its_defects(triangles, expected):
    assert kinds(SurfaceMesh(CORNERS, triangles)) == expected


def test_a_flat_triangle_is_degenerate_at_any_scale_and_a_small_sound_one_is_not():
    for scale in (1e-9, 1.0, 1e9):
        thirds = np.array([[0, 0, 0], [0.1, 0.1, 0.3], [0.3, 0.3, 0.9]]) * scale
        assert kinds(SurfaceMesh(thirds, [[0, 1, 2]]))["degenerate triangles"] == (1, 0)
    tiny = np.concatenate([CORNERS, CORNERS[:3] * 1e-6])
    assert "degenerate triangles" not in kinds(SurfaceMesh(tiny, [*CLOSED, [4, 5, 6]]))


def test_unreferenced_vertices_are_reported_for_both_kinds_of_mesh():
    vertices = np.concatenate([CORNERS, [[9, 9, 9]]])
    assert kinds(SurfaceMesh(vertices, CLOSED)) == {"unreferenced vertices": (1, 4)}
    assert kinds(TetMesh(vertices, [[0, 1, 2, 3]])) == {"unreferenced vertices": (1, 4)}


def test_only_the_inside_out_component_is_reported():
    two = SurfaceMesh(
        np.concatenate([CORNERS, CORNERS + 2]), np.concatenate([CLOSED, CLOSED[:, ::-1] + 4])
    )
    assert two.components().tolist() == [0] * 4 + [1] * 4
    assert kinds(two) == {"inside-out components": (1, 4)}


def test_welding_joins_equal_corners_and_keeps_triangles():
    loose = SurfaceMesh(CORNERS[CLOSED].reshape(-1, 3), np.arange(12).reshape(-1, 3))
    welded, new_of_old = loose.welded()
    assert len(welded.vertices) == 4
    assert welded.defects() == []
    np.testing.assert_array_equal(welded.vertices[new_of_old], loose.vertices)


def test_welding_with_a_tolerance_joins_what_is_nearer_and_no_more():
    vertices = np.array([[0, 0, 0], [1e-3, 0, 0], [1, 0, 0], [0, 1, 0], [-0.0, 0, 0]])
    mesh = SurfaceMesh(vertices, [[0, 2, 3], [1, 4, 2]])
    assert mesh.welded()[1].tolist() == [0, 1, 2, 3, 0]
    assert mesh.welded(1e-4)[1].tolist() == [0, 1, 2, 3, 0]
    assert mesh.welded(2e-3)[1].tolist() == [0, 0, 1, 2, 0]
    with pytest.raises(MeshError, match="tolerance"):
        mesh.welded(float("nan"))


def test_a_cube_of_tets_has_the_cube_s_volume_and_boundary():
    mesh = cube_of_tets()
    surface, vertex_index = mesh.surface()
    assert mesh.defects() == []
    assert mesh.volumes().sum() == pytest.approx(1)
    assert surface.defects() == []
    assert surface.volume() == pytest.approx(1)
    assert surface.areas().sum() == pytest.approx(6)
    np.testing.assert_array_equal(mesh.vertices[vertex_index], surface.vertices)


def test_the_boundary_is_outward_even_where_tets_are_inverted():
    mesh = cube_of_tets()
    tets = mesh.tets.copy()
    tets[::3] = tets[::3][:, [1, 0, 2, 3]]
    mixed = TetMesh(mesh.vertices, tets)
    assert mixed.surface()[0].volume() == pytest.approx(1)
    assert kinds(mixed) == {"inverted tets": (len(tets[::3]), 0)}
    assert mixed.oriented().volumes().min() > 0


def test_a_tet_mesh_reports_the_places_and_number_of_its_defects():
    vertices = np.concatenate([CORNERS, CORNERS * [1, 1, -1] + [0, 0, -5], [[0.3, 0.3, 0]]])
    tets = [[0, 1, 2, 3], [4, 5, 6, 7], [3, 2, 1, 0], [0, 1, 2, 8], [0, 1, 2, 2]]
    assert kinds(TetMesh(vertices, tets)) == {
        "inverted tets": (1, 1),
        "degenerate tets": (2, 3),
        "duplicate tets": (1, 2),
        "non-manifold faces": (1, 0),
        "components": (2, 1),
    }


def test_removing_tets_takes_them_out_of_the_sets():
    mesh = TetMesh(CORNERS, [[0, 1, 2, 3]] * 5, {"leg": [0, 2, 4]})
    assert mesh.without(np.array([1, 2])).sets["leg"].tolist() == [0, 2]


def test_dihedral_angles_are_those_of_known_tets_edge_by_edge():
    regular = TetMesh([[1, 1, 1], [-1, 1, -1], [1, -1, -1], [-1, -1, 1]], [[0, 1, 2, 3]])
    np.testing.assert_allclose(regular.dihedral_angles(), np.degrees(np.arccos(1 / 3)))
    slanted = np.degrees(np.arccos(1 / np.sqrt(3)))
    expected = [[90, 90, 90, slanted, slanted, slanted]]
    np.testing.assert_allclose(TetMesh(CORNERS, [[0, 1, 2, 3]]).dihedral_angles(), expected)


@given(st.integers(3, 2**40), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_row_keys_are_equal_exactly_where_rows_are(n_values, random):
    rows = np.array([[random.randrange(n_values) for _ in range(4)] for _ in range(20)])
    rows = np.concatenate([rows, rows[:7], rows[:, ::-1]])
    keys = row_keys(rows, n_values)
    equal = (rows[:, None] == rows[None]).all(axis=2)
    np.testing.assert_array_equal(keys[:, None] == keys[None], equal)


def test_polygons_become_fans_and_too_small_ones_nothing():
    triangles = fan_triangles(np.array([4, 2, 3, 5]), np.arange(14))
    expected = [[0, 1, 2], [0, 2, 3], [6, 7, 8], [9, 10, 11], [9, 11, 12], [9, 12, 13]]
    assert triangles.tolist() == expected


SINGLE = [
    TetMesh(vertices=CORNERS, tets=[[0, 1, 2, 3]], sets={"all": [0]}),
    HexMesh(vertices=CUBE, hexes=[range(8)], sets={"all": [0]}),
]


@pytest.mark.parametrize("mesh", SINGLE, ids=repr)
def test_a_mesh_stays_as_it_is_and_comes_back_whole_from_another_process(mesh):
    for name in ("vertices", "elements", "sets"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mesh, name, None)
    same = pickle.loads(pickle.dumps(mesh))
    assert type(same) is type(mesh)
    np.testing.assert_array_equal(same.elements, mesh.elements)
    np.testing.assert_array_equal(same.vertices, mesh.vertices)
    assert same.sets["all"].tolist() == [0]


@pytest.mark.parametrize("mesh", SINGLE, ids=repr)
def test_elements_of_either_kind_have_a_closed_boundary_that_holds_their_volume(mesh):
    surface, index = mesh.surface()
    assert surface.defects() == []
    assert surface.volume() == pytest.approx(mesh.volumes().sum())
    np.testing.assert_array_equal(index, np.arange(len(mesh.vertices)))
    mirrored = type(mesh)(mesh.vertices, mesh.elements[:, mesh.mirrored])
    np.testing.assert_allclose(mirrored.volumes(), -mesh.volumes())
    np.testing.assert_array_equal(mirrored.oriented().elements, mesh.elements)
    assert [defect.kind for defect in mirrored.defects()] == [f"inverted {mesh.plural}"]


@pytest.mark.parametrize("mesh", SINGLE, ids=repr)
def test_a_face_of_three_elements_and_a_second_part_are_reported_for_either_kind(mesh):
    thrice = type(mesh)(mesh.vertices, np.repeat(mesh.elements, 3, axis=0))
    assert {defect.kind for defect in thrice.defects()} == {
        f"duplicate {mesh.plural}",
        "non-manifold faces",
    }
    n = len(mesh.vertices)
    apart = type(mesh)(
        np.vstack([mesh.vertices, mesh.vertices + 5]),
        np.vstack([mesh.elements, mesh.elements + n]),
        {"second": [1]},
    )
    assert [defect.message for defect in apart.defects()] == [
        f"is in 2 separate components (the second begins at {mesh.noun} 1)"
    ]
    alone = apart.without(np.array([0]))
    np.testing.assert_array_equal(alone.elements, mesh.elements + n)
    assert alone.sets["second"].tolist() == [0]


@pytest.mark.parametrize("mesh", SINGLE, ids=repr)
def test_a_mesh_may_be_replaced_in_part(mesh):
    bare = dataclasses.replace(mesh, sets={})
    assert type(bare) is type(mesh)
    assert bare.sets == {}
    assert bare.vertices is mesh.vertices
    assert bare.elements is mesh.elements
    assert [field.name for field in dataclasses.fields(mesh)] == ["vertices", mesh.plural, "sets"]
    mirrored = dataclasses.replace(mesh, **{mesh.plural: mesh.elements[:, mesh.mirrored]})
    np.testing.assert_allclose(mirrored.volumes(), -mesh.volumes())
    assert mirrored.sets["all"].tolist() == [0]
    with pytest.raises(MeshError, match='set "all"'):
        dataclasses.replace(mesh, sets={"all": [7]})


@pytest.mark.parametrize("cell", [0.0, 1e-9])
def test_a_body_is_as_long_as_its_longest_side(cell):
    with pytest.raises(MeshError, match="a body 3 long"):
        tetrahedralise(SurfaceMesh(CORNERS * [3, 2, 1], CLOSED), cell=cell)
