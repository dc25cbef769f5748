"""No file, however broken, brings a silent wrong mesh, a foreign traceback or a hang."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supple.errors import SuppleError, SuppleWarning
from supple.formats.meshes.read_mesh import read_surface, read_tets
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

TET_SUFFIXES = (".veg", ".msh", ".mesh", ".vtk")

# What each file must come to: an error's words; or vertices, elements, and the words of
# each warning, none meaning that the file is right though it looks odd.
REFUSED = {
    "assimp/OutOfMemory.off": "declares 353535235358 vertices",
    "assimp/crash-30d6d0f7c529b3b66b4131700b7a4580cd7082df.ply": "no complete PLY header",
    "assimp/malformed.obj": "line 28 has a face with vertex 0",
    "assimp/number_formats.obj": r'line 11 has a vertex "1e\+2 2.e\+1 3.1\+e2"',
    "trimesh/empty.obj": "0 vertices and no faces",
    "trimesh/empty.stl": "no triangles",
    "trimesh/empty_nodes.glb": '".glb" files',
    "trimesh/obj_points.obj": "8 vertices and no faces",
    "trimesh/ply_empty_header.ply": "no vertices or no faces",
}
READ: dict[str, tuple[int, int, list[str]]] = {
    # A polygon that goes round one side of the box 234 times.
    "assimp/box_longline.obj": (
        8, 944, ["466 degenerate triangles", "930 duplicate", "5 non-manifold edges"]
    ),
    "assimp/sphereWithHole.stl": (146, 285, ["9 open edges"]),
    # It crosses itself, which is not a defect of its connectivity.
    "selfint_doubleLoopWithCube.obj": (2008, 4012, []),
    "selfint_doubleLoopWithCube.veg": (1181, 4650, []),
    # Closed when corners are joined exactly; joining near ones is what breaks it.
    "trimesh/busted.STL": (1941, 3878, []),
    "trimesh/joined_tetrahedra.obj": (5, 8, ["1 duplicate triangle", "3 non-manifold edges"]),
    "trimesh/multibody.stl": (20, 32, ["12 inconsistent edges"]),
    "trimesh/nancolor.obj": (8, 12, []),
    "trimesh/negative_indices.obj": (8, 12, []),
    "trimesh/obj_with_no_face_in_chunk.obj": (3, 1, ["3 open edges"]),
    "trimesh/polygonfaces.obj": (5, 3, ["5 open edges"]),
    "trimesh/singlevn.obj": (4, 2, ["4 open edges"]),
    "trimesh/soup.stl": (300, 100, ["300 open edges"]),
}  # fmt: skip


def read(path: Path) -> SurfaceMesh | TetMesh:
    return (read_tets if path.suffix.lower() in TET_SUFFIXES else read_surface)(path)


def read_with_warnings(path: Path) -> tuple[SurfaceMesh | TetMesh, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mesh = read(path)
    assert all(warning.category is SuppleWarning for warning in caught)
    return mesh, [str(warning.message) for warning in caught]


def test_every_hostile_file_has_an_expectation(assets):
    folder = assets / "hostile_mesh"
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert files == REFUSED.keys() | READ.keys()


@pytest.mark.parametrize("file", REFUSED)
def test_a_file_without_a_usable_mesh_is_refused_by_name(assets, file):
    path = assets / "hostile_mesh" / file
    with pytest.raises(SuppleError, match=REFUSED[file]) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path.name}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("file", READ)
def test_a_file_with_a_mesh_is_read_and_its_defects_are_named(assets, file):
    path = assets / "hostile_mesh" / file
    mesh, messages = read_with_warnings(path)
    n_vertices, n_elements, expected = READ[file]
    elements = mesh.triangles if isinstance(mesh, SurfaceMesh) else mesh.tets
    assert (len(mesh.vertices), len(elements)) == (n_vertices, n_elements)
    assert len(messages) == len(expected)
    for message, words in zip(messages, expected, strict=True):
        assert message.startswith(f"{path.name}: ")
        assert words in message


@pytest.mark.parametrize(
    ("file", "volume"),
    [("trimesh/nancolor.obj", 1.0), ("trimesh/negative_indices.obj", 8.0)],
)
def test_odd_but_right_boxes_have_their_volume(assets, file, volume):
    mesh = read_surface(assets / "hostile_mesh" / file)
    assert mesh.volume() == pytest.approx(volume)


def test_the_self_crossing_tets_fill_the_self_crossing_surface(assets):
    mesh = read_tets(assets / "hostile_mesh/selfint_doubleLoopWithCube.veg")
    assert mesh.volumes().min() > 0
    assert mesh.surface()[0].volume() == pytest.approx(mesh.volumes().sum())


PLY = (
    b"ply\nformat binary_little_endian 1.0\nelement vertex %d\nproperty float x\n"
    b"property float y\nproperty float z\nelement face %d\n"
    b"property list %b int vertex_indices\nend_header\n"
)
POINTS = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 1, 0)
FACE = struct.pack("<B3i", 3, 0, 1, 2)
FACET = b"facet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n"
MSH = b"$MeshFormat\n%b 0 8\n$EndMeshFormat\n$Nodes\n%b\n$EndNodes\n$Elements\n%b\n$EndElements\n"
NODES_4 = b"1 4 1 4\n3 1 0 4\n1\n2\n3\n4\n0 0 0\n1 0 0\n0 1 0\n0 0 1"
NODES_2 = b"4\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1"
MESH = (
    b"MeshVersionFormatted 2\nDimension 3\nVertices\n4\n0 0 0 1\n1 0 0 1\n0 1 0 1\n0 0 %b 1\n"
    b"Tetrahedra\n%b\n%bEnd\n"
)
VTK = (
    b"# vtk DataFile Version 3.0\nt\nASCII\nDATASET %b\nPOINTS %b double\n"
    b"0 0 0 1 0 0 0 1 0 0 0 1\nCELLS 1 %b\n4 0 1 2 %b\nCELL_TYPES 1\n10\n"
)
HUGE = b"99999999999"

GENERATED = {
    "empty.obj": (b"", "is empty"),
    "blank.ply": (b"\n \n", "is empty"),
    "nan.obj": (b"v 0 0 0\nv 1 0 0\nv 0 nan 0\nf 1 2 3\n", "vertex 2, at 0, nan, 0"),
    "infinite.off": (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 -inf 0\n3 0 1 2\n", "vertex 2, at 0, -inf"),
    "overflow.obj": (b"v 0 0 0\nv 1 0 0\nv 0 1e999 0\nf 1 2 3\n", "not finite"),
    "range.off": (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 3\n", "triangle 0 refers to vertex 3"),
    "minus.off": (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 -1\n", "triangle 0 refers to vertex -1"),
    "short.off": (b"OFF\n3 2 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n", "cut off"),
    "corners.off": (b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n9 0 1 2\n", "declares 9 corners"),
    "other.off": (b"ply\nformat", "not with OFF"),
    "text.stl": (b"solid a\n" + FACET + b"endfacet\n" + FACET, "begins 2 facets, ends 1"),
    "word.stl": (b"solid a\n" + FACET.replace(b"x 1 0", b"x 1 b") + b"endfacet\n", '"b" among'),
    "cut.stl": (bytes(80) + struct.pack("<I", 7) + bytes(100), "declares 7 triangles but has 2"),
    "huge.stl": (bytes(80) + b"\xff" * 4 + bytes(50), "declares 4294967295 triangles"),
    "tiny.stl": (b"\1\2\3", "is not text STL"),
    "nan.stl": (bytes(80) + b"\1\0\0\0" + b"\0\0\xc0\x7f" * 12 + b"\0\0", "not finite"),
    "cut.ply": (PLY % (3, 2, b"uchar") + POINTS + FACE + FACE[:7], "cut off"),
    "vertices.ply": (PLY % (10**11, 1, b"uchar") + POINTS + FACE, "declares 100000000000"),
    "faces.ply": (PLY % (3, 2**40, b"uchar") + POINTS + FACE, "declares 1099511627776"),
    "list.ply": (PLY % (3, 1, b"uint") + POINTS + b"\xff" * 20, "cut off"),
    "minus.ply": (PLY % (3, 1, b"char") + POINTS + b"\xff" * 20, "a list of -1 numbers"),
    "nan_list.ply": (
        PLY.replace(b"binary_little_endian", b"ascii") % (3, 1, b"uchar")
        + b"0 0 0 1 0 0 0 1 0\nnan 0 1 2\n",
        "a list of nan numbers",
    ),
    "more.ply": (PLY % (3, 1, b"uchar") + POINTS + FACE + FACE, "more data than its header"),
    "more.msh": (MSH % (b"2.2", NODES_2, b"1\n1 4 0 1 2 3 4\n2 4 0 1 2 3 4"), "Elements is longer"),
    "more.mesh": (MESH % (b"1", b"1", b"1 2 3 4 0\n" * 2), "declares 1 tetrahedra but has 2"),
    "range.ply": (PLY % (3, 1, b"uchar") + POINTS + FACE[:-4] + b"\x09\0\0\0", "vertex 9"),
    "nodes.msh": (MSH % (b"2.2", HUGE, b"0"), "declares 399999999996 numbers"),
    "blocks.msh": (MSH % (b"4.1", HUGE + b" 1 1 1", b"0 0 0 0"), "cut off"),
    "block.msh": (MSH % (b"4.1", NODES_4, b"1 1 1 1\n3 1 4 " + HUGE), "cut off"),
    "count.msh": (MSH % (b"2.2", NODES_2, HUGE + b"\n1 4 2 0 0 1 2 3 4"), "cut off"),
    "type.msh": (MSH % (b"2.2", NODES_2, b"1\n1 77 2 0 0 1 2 3 4"), "type 77"),
    "twice.msh": (
        MSH % (b"2.2", NODES_2.replace(b"\n4 ", b"\n3 "), b"1\n1 4 0 1 2 3 3"),
        "two nodes numbered 3",
    ),
    "tags.msh": (
        MSH % (b"2.2", NODES_2.replace(b"\n4 ", b"\n9000000000000 "), b"1\n1 4 0 1 2 3 4"),
        "refers to node 4, which does not exist",
    ),
    "notets.msh": (MSH % (b"2.2", NODES_2, b"1\n1 2 0 1 2 3"), "no tetrahedra"),
    "old.msh": (MSH % (b"1.0", NODES_2, b"0"), "has version 1.0"),
    "open.msh": (b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n1 0 0 0\n", "does not end"),
    "other.msh": (b"\x89HDF\r\n\x1a\n" + bytes(100), "not a Gmsh mesh"),
    "huge.mesh": (MESH % (b"1", HUGE, b"1 2 3 4 0\n"), "declares 99999999999 tetrahedra but has 1"),
    "range.mesh": (MESH % (b"1", b"1", b"1 2 3 5 0\n"), "tet 0 has the vertices 1, 2, 3, 5"),
    "zero.mesh": (MESH % (b"1", b"1", b"0 2 3 4 0\n"), "tet 0 has the vertices 0, 2, 3, 4"),
    "nan.mesh": (MESH % (b"nan", b"1", b"1 2 3 4 0\n"), "vertex 3, at 0, 0, nan"),
    "none.mesh": (MESH % (b"1", b"0", b""), "no tetrahedra"),
    "flat.mesh": (MESH % (b"0", b"1", b"1 2 3 4 0\n"), "none of its 1 tets has a volume"),
    "points.vtk": (VTK % (b"UNSTRUCTURED_GRID", HUGE, b"5", b"3"), "declares 99999999999 POINTS"),
    "cells.vtk": (VTK % (b"UNSTRUCTURED_GRID", b"4", HUGE, b"3"), "declares 99999999999 CELLS"),
    "range.vtk": (VTK % (b"UNSTRUCTURED_GRID", b"4", b"5", b"4"), "tet 0 refers to vertex 4"),
    "minus.vtk": (VTK % (b"UNSTRUCTURED_GRID", b"4", b"5", b"-1"), "tet 0 refers to vertex -1"),
    "lower.vtk": (
        VTK.replace(b"CELLS", b" cells") % (b"UNSTRUCTURED_GRID", b"4", HUGE, b"3"),
        "declares 99999999999 cells",
    ),
    "grid.vtk": (VTK % (b"STRUCTURED_POINTS", b"4", b"5", b"3"), "not an unstructured grid"),
    "cut.vtk": ((VTK % (b"UNSTRUCTURED_GRID", b"4", b"5", b"3"))[:-20], "cannot be read"),
    "comments.off": (b"# nothing but words\n", "not with OFF"),
    "garbage.vtk": (bytes(range(256)), "is not a legacy VTK"),
    "garbage.obj": (bytes(range(256)), "is binary, but its format is text"),
    "garbage.off": (bytes(range(1, 256)), "not with OFF"),
    "garbage.veg": (bytes(range(256)), "is binary, but its format is text"),
    "garbage.mesh": (bytes(range(1, 256)), "not a Medit mesh"),
    "garbage.ply": (bytes(range(256)), "no complete PLY header"),
    "garbage.msh": (bytes(range(256)), "not a Gmsh mesh"),
    "unknown.fbx": (b"Kaydara", '".fbx" files; use one of .obj'),
    "nothing": (b"v 0 0 0\n", "files"),
}  # fmt: skip


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_broken_file_gives_an_error_that_names_the_mistake(tmp_path, capfd, name):
    content, words = GENERATED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SuppleError, match=words) as caught:
        read(tmp_path / name)
    assert str(caught.value).startswith(f"{name}: ")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_the_originals_of_the_broken_files_are_valid(tmp_path):
    sound = {
        "a.mesh": MESH % (b"1", b"1", b"1 2 3 4 0\n"),
        "a.vtk": VTK % (b"UNSTRUCTURED_GRID", b"4", b"5", b"3"),
        "2.msh": MSH % (b"2.2", NODES_2, b"1\n1 4 0 1 2 3 4"),
        "4.msh": MSH % (b"4.1", NODES_4, b"1 1 1 1\n3 1 4 1\n1 1 2 3 4"),
    }
    for name, content in sound.items():
        (tmp_path / name).write_bytes(content)
        np.testing.assert_allclose(read_tets(tmp_path / name).volumes(), [1 / 6])


def test_bytes_after_the_last_stl_triangle_are_reported(tmp_path):
    facet = struct.pack("<12fH", 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0)
    (tmp_path / "a.stl").write_bytes(bytes(80) + struct.pack("<I", 1) + facet * 2)
    mesh, messages = read_with_warnings(tmp_path / "a.stl")
    assert repr(mesh) == "SurfaceMesh(3 vertices, 1 triangle)"
    assert "50 bytes after the 1 triangles it declares" in messages[0]


@pytest.mark.parametrize("reader", [read_surface, read_tets])
def test_a_missing_file_and_a_folder_are_errors(tmp_path, reader):
    suffix = ".obj" if reader is read_surface else ".veg"
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(SuppleError, match=r"^folder\..*: is not a file"):
        reader(tmp_path / f"folder{suffix}")
    with pytest.raises(SuppleError, match=r"^gone\..*: there is no such file"):
        reader(tmp_path / f"gone{suffix}")


def test_a_file_beyond_the_largest_is_refused_unread(tmp_path):
    with (tmp_path / "large.obj").open("wb") as file:
        file.truncate(3 * 2**30)  # a hole: takes no room on disk
    with pytest.raises(SuppleError, match=r"large\.obj: has 3\.0 GiB"):
        read_surface(tmp_path / "large.obj")


SEEDS = [
    (content, Path(name).suffix)
    for name, (content, _) in GENERATED.items()
    if 20 < len(content) < 1000 and "." in name
]


@given(
    seed=st.sampled_from(SEEDS),
    edits=st.lists(st.tuples(st.integers(0, 999), st.binary(max_size=6)), max_size=4),
    keep=st.integers(1, 1000),
)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_damage_ends_in_a_mesh_or_an_error_of_ours(tmp_path, seed, edits, keep):
    content, suffix = seed
    damaged = bytearray(content[:keep])
    for at, piece in edits:
        damaged[at % len(damaged) : at % len(damaged) + len(piece)] = piece
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        try:
            message = f"{path.name}: {read(path)!r}"
        except SuppleError as error:
            message = str(error)
    assert message.startswith(f"{path.name}: ")
    # Only another library may fail for a reason that no check of ours foresaw.
    assert suffix == ".vtk" or "cannot be read" not in message
