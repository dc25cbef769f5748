"""A tet mesh read is what its file says, turned the right way round."""

from __future__ import annotations

from pathlib import Path

import meshio
import numpy as np
import pytest

from supple.errors import FormatError, SuppleWarning
from supple.formats.meshes.read_mesh import read_tets
from supple.formats.meshes.veg import VegFile, VegMaterial, read_veg, write_veg
from supple.mesh.tets import TetMesh

POSITIONS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.1, 0.2, -0.7]])
TETS = np.array([[0, 1, 2, 3], [0, 2, 1, 4]])
VEG = """# a comment
*VERTICES
5 3 0 0
1 0 0 0
2 1 0 0
3 0 1 0
4 0 0 1
5 0.1 0.2 -0.7

*ELEMENTS
TETS
2 4 0
1 1 2 3 4
2 1 3 2 5

*MATERIAL soft
ENU, 1000, 2e4, 0.45
*MATERIAL rubber
MOONEYRIVLIN, 900, 1.5, 2.5, 3.5
*SET lower
2,
*SET both
1,
2
*REGION
allElements, soft
lower, rubber
"""


def saved(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def assert_same(mesh: TetMesh) -> None:
    np.testing.assert_array_equal(mesh.vertices, POSITIONS)
    np.testing.assert_array_equal(mesh.tets, TETS)


@pytest.mark.parametrize(
    ("file", "n_vertices", "n_tets"),
    [
        ("complementary_dynamics/elephant/elephant.mesh", 494, 1502),
        ("complementary_dynamics/frog/frog.mesh", 1749, 5389),
        ("complementary_dynamics/sphere/sphere.mesh", 67, 181),
        ("fast_cd/humpback/humpback.msh", 8325, 32125),
        ("fast_cd/elephant.msh", 7842, 29011),
        ("fast_cd/dromedary.msh", 9046, 36716),
        ("vegafem/beam3/beam3_tet.veg", 208, 450),
    ],
)
def test_real_tet_meshes_load_with_the_counts_their_manifest_gives(
    assets, file, n_vertices, n_tets
):
    mesh = read_tets(assets / file)
    assert mesh.vertices.shape == (n_vertices, 3)
    assert mesh.tets.shape == (n_tets, 4)
    assert mesh.volumes().min() > 0


def test_medit_coordinates_keep_all_their_digits(assets):
    mesh = read_tets(assets / "complementary_dynamics/frog/frog.mesh")
    assert mesh.vertices[0].tolist() == [
        -13.376218943758511, 0.055876061365784907, -1.5348568508059124
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("a.msh", "gmsh22", {"binary": True}),
        ("a.msh", "gmsh22", {"binary": False}),
        ("a.msh", "gmsh", {"binary": True}),
        ("a.msh", "gmsh", {"binary": False}),
        ("a.mesh", "medit", {}),
        ("a.vtk", "vtk", {"binary": True}),
        ("a.vtk", "vtk42", {"binary": True}),
        ("a.vtk", "vtk42", {"binary": False}),
    ],
)
def test_files_written_by_another_library_are_read(tmp_path, name, kind, options):
    path = tmp_path / name
    meshio.write(path, meshio.Mesh(POSITIONS, [("tetra", TETS)]), file_format=kind, **options)
    assert_same(read_tets(path))


def test_gmsh_volumes_become_sets_and_surface_triangles_are_passed_over(tmp_path):
    text = """$MeshFormat
4.1 0 8
$EndMeshFormat
$PhysicalNames
2
2 5 "skin"
3 9 "left leg"
$EndPhysicalNames
$Entities
1 0 1 2
1 0 0 0 0
7 0 0 0 1 1 1 1 5 0
1 0 0 0 1 1 1 1 9 1 7
2 0 0 0 1 1 1 0 1 7
$EndEntities
$Nodes
2 5 20 50
0 1 0 1
45
0 0 0
3 1 0 4
20
30
40
50
1 0 0
0 1 0
0 0 1
0.1 0.2 -0.7
$EndNodes
$Elements
3 3 1 3
2 7 2 1
1 45 20 30
3 1 4 1
2 45 20 30 40
3 2 4 1
3 45 30 20 50
$EndElements
"""
    mesh = read_tets(saved(tmp_path, "a.msh", text))
    assert_same(mesh)
    assert {name: tets.tolist() for name, tets in mesh.sets.items()} == {"left leg": [0]}


@pytest.mark.parametrize("node", [0, 6, 10**12, -1])
@pytest.mark.parametrize("kind", ["gmsh22", "gmsh"])
def test_a_gmsh_node_that_is_not_there_is_an_error_that_names_the_tet(tmp_path, kind, node):
    path = tmp_path / "a.msh"
    mesh = meshio.Mesh(POSITIONS, [("tetra", TETS)])
    meshio.write(path, mesh, file_format=kind, binary=False)
    last_tet = "1 3 2 5\n"
    assert last_tet in path.read_text()
    path.write_text(path.read_text().replace(last_tet, f"1 3 2 {node}\n"))
    with pytest.raises(FormatError, match=rf"^a\.msh: tet 1 refers to node {node}"):
        read_tets(path)


def test_cells_that_are_not_tets_are_left_out_with_a_warning(tmp_path):
    path = tmp_path / "a.vtk"
    cells = [("tetra", TETS), ("pyramid", [[0, 1, 2, 3, 4]]), ("triangle", [[0, 1, 2]])]
    meshio.write(path, meshio.Mesh(POSITIONS, cells))
    with pytest.warns(SuppleWarning, match=r"^a\.vtk: .*not tets \(pyramid\)"):
        assert_same(read_tets(path))


def test_a_mesh_of_opposite_orientation_is_reoriented_with_a_warning(tmp_path):
    path = tmp_path / "a.mesh"
    meshio.write(path, meshio.Mesh(POSITIONS, [("tetra", TETS[:, [1, 0, 2, 3]])]))
    with pytest.warns(SuppleWarning, match=r"^a\.mesh: all 2 tets have the opposite orientation"):
        mesh = read_tets(path)
    assert mesh.volumes().min() > 0


def test_some_inverted_tets_are_turned_with_a_warning_that_names_the_first(tmp_path):
    path = saved(tmp_path, "a.veg", VEG.replace("2 1 3 2 5", "2 1 2 3 5"))
    with pytest.warns(SuppleWarning, match=r"^a\.veg: has 1 inverted tet \(first: tet 1\)"):
        mesh = read_tets(path)
    assert mesh.volumes().min() > 0


def test_tets_without_volume_are_removed_with_a_warning_and_sets_follow(tmp_path):
    path = saved(tmp_path, "a.veg", VEG.replace("1 1 2 3 4", "1 1 2 3 3"))
    with pytest.warns(SuppleWarning) as caught:
        mesh = read_tets(path)
    messages = [str(warning.message) for warning in caught]
    assert "1 degenerate tet without volume (first: tet 0); removed" in messages[0]
    assert "1 unreferenced vertex (first at vertex 3)" in messages[1]
    assert len(mesh.tets) == 1
    assert mesh.sets["both"].tolist() == [0]


def test_veg_holds_mesh_sets_materials_and_regions(tmp_path):
    veg = read_veg(saved(tmp_path, "a.veg", VEG))
    assert_same(veg.mesh)
    assert {name: tets.tolist() for name, tets in veg.mesh.sets.items()} == {
        "lower": [1],
        "both": [0, 1],
    }
    soft, rubber = veg.materials["soft"], veg.materials["rubber"]
    assert (soft.kind, soft.density, soft.young, soft.poisson) == ("ENU", 1000, 2e4, 0.45)
    assert rubber == VegMaterial("MOONEYRIVLIN", (900, 1.5, 2.5, 3.5))
    assert rubber.young is None
    assert veg.regions == [("allElements", "soft"), ("lower", "rubber")]


def test_veg_may_count_from_zero(tmp_path):
    rows = ["0 0 0", "1 0 0", "0 1 0", "0 0 1", "0.1 0.2 -0.7"]
    text = VEG
    for i, row in enumerate(rows):
        text = text.replace(f"\n{i + 1} {row}\n", f"\n{i} {row}\n", 1)
    text = text.replace("1 1 2 3 4", "0 0 1 2 3").replace("2 1 3 2 5", "1 0 2 1 4")
    text = text.replace("*SET lower\n2,", "*SET lower\n1,").replace("\n1,\n2\n", "\n0,\n1\n")
    veg = read_veg(saved(tmp_path, "a.veg", text))
    assert_same(veg.mesh)
    assert veg.mesh.sets["lower"].tolist() == [1]
    assert veg.mesh.sets["both"].tolist() == [0, 1]


def test_veg_written_is_read_back_to_the_last_bit(tmp_path):
    vertices = POSITIONS + np.random.default_rng(0).normal(scale=1e-3, size=POSITIONS.shape)
    mesh = TetMesh(vertices, TETS, {"low": np.array([1])})
    veg = VegFile(mesh, {"m": VegMaterial("ENU", (1 / 3, 1e5, 0.45))}, [("low", "m")])
    write_veg(tmp_path / "a.veg", veg)
    again = read_veg(tmp_path / "a.veg")
    np.testing.assert_array_equal(again.mesh.vertices, vertices)
    np.testing.assert_array_equal(again.mesh.tets, TETS)
    assert again.mesh.sets["low"].tolist() == [1]
    assert again.materials == veg.materials
    assert again.regions == veg.regions
    assert [file.name for file in tmp_path.iterdir()] == ["a.veg"]


def test_veg_that_could_not_be_read_back_is_not_written(tmp_path):
    mesh = TetMesh(POSITIONS, TETS, {"left leg": np.array([1])})
    with pytest.raises(FormatError, match='"left leg" is not a valid name'):
        write_veg(tmp_path / "a.veg", VegFile(mesh))
    with pytest.raises(FormatError, match=r"^a\.veg: cannot be written"):
        write_veg(tmp_path / "nowhere" / "a.veg", VegFile(TetMesh(POSITIONS, TETS)))
    assert list(tmp_path.iterdir()) == []


def test_veg_includes_files_of_its_own_folder(tmp_path):
    head, _, tail = VEG.partition("*MATERIAL")
    (tmp_path / "parts").mkdir()
    saved(tmp_path / "parts", "materials.txt", "*MATERIAL" + tail)
    path = saved(tmp_path, "a.veg", head + "*INCLUDE parts/materials.txt\n")
    assert set(read_veg(path).materials) == {"soft", "rubber"}


def test_veg_includes_that_multiply_are_refused(tmp_path):
    for i in range(20):
        saved(tmp_path, f"part{i}.veg", f"*INCLUDE part{i + 1}.veg\n" * 2)
    saved(tmp_path, "part20.veg", VEG)
    with pytest.raises(FormatError, match="a second time"):
        read_veg(tmp_path / "part0.veg")


@pytest.mark.parametrize("target", ["../b.veg", "/elsewhere/b.veg", "a.veg", "", "missing.veg"])
def test_veg_includes_nothing_from_outside_nor_itself(tmp_path, target):
    folder = tmp_path / "inner"
    folder.mkdir()
    saved(tmp_path, "b.veg", VEG)
    path = saved(folder, "a.veg", f"*INCLUDE {target}\n")
    with pytest.raises(FormatError):
        read_veg(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("TETS", "CUBIC", "hexahedra .* not tetrahedra"),
        ("TETS", "WEDGE", '"WEDGE"'),
        ("2 4 0\n", "3 4 0\n", "declares 3 tets but has 2"),
        ("2 4 0\n", "999999999999 4 0\n", "declares 999999999999 tets but has 2"),
        ("5 3 0 0", "x 3 0 0", '"x" is not a number of vertices'),
        ("5 3 0 0", "5 2 0 0", "count 3 0"),
        ("3 0 1 0", "9 0 1 0", "not numbered"),
        ("3 0 1 0", "3 0 one 0", '"one" among the vertices'),
        ("2 1 3 2 5", "2 1 3 2 6", "tet 1 refers to vertex 5"),
        ("2 1 3 2 5", "2 1 3 2 0", "tet 1 refers to vertex -1"),
        ("2 1 3 2 5", "2 1 3 2 1.5", "not a whole number"),
        ("0.1 0.2 -0.7", "0.1 nan -0.7", "vertex 4, at 0.1, nan"),
        ("*SET lower\n2", "*SET lower\n3", 'set "lower" has tet 3; tets are 1 to 2'),
        ("lower, rubber", "upper, rubber", 'region "upper, rubber"'),
        ("ENU, 1000, 2e4, 0.45", "ENU, 1000, 2e4", "does not have density"),
        ("*ELEMENTS", "*ELEMENT", r"0 sections \*ELEMENTS"),
        ("*VERTICES", "VERTICES", "not with a section"),
    ],
)
def test_a_damaged_veg_gives_an_error_that_names_the_mistake(tmp_path, old, new, message):
    assert old in VEG
    path = saved(tmp_path, "a.veg", VEG.replace(old, new, 1))
    with pytest.raises(Exception, match=message) as caught:
        read_veg(path)
    assert type(caught.value).__module__ == "supple.errors"
    assert str(caught.value).startswith("a.veg: ")
