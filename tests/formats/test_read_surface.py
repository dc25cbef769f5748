"""A surface read is what its file says: order, indices, polygons."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from supple.errors import FormatError, SuppleWarning
from supple.formats.meshes.read_mesh import read_surface

# A pyramid: a square and four triangles, closed and outward.
POSITIONS = [(0, 0, 0), (2, 0, 0), (2, 2, 0), (0, 2, 0), (1, 1, 1.5)]
FACES = [(0, 3, 2, 1), (0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)]
TRIANGLES = [[0, 3, 2], [0, 2, 1], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]


def obj_text() -> str:
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in POSITIONS)
    return vertices + "".join("f " + " ".join(str(i + 1) for i in f) + "\n" for f in FACES)


def off_text() -> str:
    vertices = "".join(f"{x} {y} {z}\n" for x, y, z in POSITIONS)
    faces = "".join(f"{len(f)} " + " ".join(map(str, f)) + "\n" for f in FACES)
    return f"OFF\n# a pyramid\n5 5 0\n\n{vertices}{faces}"


def ply_header(kind: str, n_faces: int) -> str:
    return (
        f"ply\nformat {kind} 1.0\ncomment made by a test\nelement vertex 5\nproperty float x\n"
        "property float y\nproperty float z\nproperty uchar red\n"
        f"element face {n_faces}\nproperty uchar flags\n"
        "property list uchar int vertex_indices\nend_header\n"
    )


def ply_binary(order: str, faces: list[tuple[int, ...]]) -> bytes:
    kind = "binary_little_endian" if order == "<" else "binary_big_endian"
    body = b"".join(struct.pack(order + "3fB", *p, 200) for p in POSITIONS)
    for face in faces:
        body += struct.pack(f"{order}BB{len(face)}i", 7, len(face), *face)
    return ply_header(kind, len(faces)).encode() + body


def ply_text() -> str:
    rows = [f"{x} {y} {z} 200" for x, y, z in POSITIONS]
    rows += [f"7 {len(f)} " + " ".join(map(str, f)) for f in FACES]
    return ply_header("ascii", len(FACES)) + "\n".join(rows) + "\n"


def stl_binary() -> bytes:
    body = b"".join(
        struct.pack("<12fH", 0, 0, 0, *(x for i in t for x in POSITIONS[i]), 0) for t in TRIANGLES
    )
    # Some exporters begin binary files with the word that marks text ones.
    return b"solid pyramid".ljust(80) + struct.pack("<I", len(TRIANGLES)) + body


def stl_text() -> str:
    facets = ""
    for t in TRIANGLES:
        corners = "".join("vertex {} {} {}\n".format(*POSITIONS[i]) for i in t)
        facets += f"facet normal 0 0 0\nouter loop\n{corners}endloop\nendfacet\n"
    return f"solid pyramid\n{facets}endsolid pyramid\n"


def saved(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.obj", obj_text()),
        ("a.OBJ", obj_text().replace("\n", "\r\n")),
        ("a.off", off_text()),
        ("a.off", off_text().replace("OFF\n# a pyramid\n", "OFF ")),
        ("a.ply", ply_text()),
        ("a.ply", ply_binary("<", FACES)),
        ("a.ply", ply_binary(">", FACES)),
        ("a.ply", ply_binary("<", [tuple(t) for t in TRIANGLES])),
    ],
)
def test_vertices_and_triangles_keep_the_file_s_order(tmp_path, name, content):
    mesh = read_surface(saved(tmp_path, name, content))
    np.testing.assert_array_equal(mesh.vertices, POSITIONS)
    np.testing.assert_array_equal(mesh.triangles, TRIANGLES)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_binary_ply_may_begin_with_a_triangle_and_go_on_with_quads(tmp_path, order):
    mesh = read_surface(saved(tmp_path, "a.ply", ply_binary(order, FACES[1:] + FACES[:1])))
    np.testing.assert_array_equal(mesh.triangles, TRIANGLES[2:] + TRIANGLES[:2])


@pytest.mark.parametrize("content", [stl_binary(), stl_text()])
def test_stl_corners_at_one_place_become_one_vertex(tmp_path, content):
    mesh = read_surface(saved(tmp_path, "a.stl", content))
    assert len(mesh.vertices) == 5
    expected = np.array(POSITIONS)[np.array(TRIANGLES)]
    np.testing.assert_array_equal(mesh.vertices[mesh.triangles], expected)


def test_obj_texture_and_normal_indices_colours_and_groups_change_nothing(tmp_path):
    text = "mtllib none.mtl\nvt 0 0\nvn 0 0 1\n" + obj_text()
    text = text.replace("f 1 2 5", "g side\nusemtl red\nf 1/1/1 2//1 5/1 # side")
    text = text.replace("v 2 2 0", "v 2 2 0 nan 0.5 inf")
    mesh = read_surface(saved(tmp_path, "a.obj", text))
    np.testing.assert_array_equal(mesh.vertices, POSITIONS)
    np.testing.assert_array_equal(mesh.triangles, TRIANGLES)


def test_negative_obj_indices_count_back_from_the_vertices_so_far(tmp_path):
    text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\nv 0 0 1\nf -1 2 \\\n 1\n"
    with pytest.warns(SuppleWarning, match="open edges"):
        mesh = read_surface(saved(tmp_path, "a.obj", text))
    assert mesh.triangles.tolist() == [[0, 1, 2], [3, 1, 0]]


@pytest.mark.parametrize("index", ["0", "6", "-6", "1.5", "x", "99999999999999999999"])
def test_an_obj_index_that_is_no_vertex_is_an_error_that_names_the_line(tmp_path, index):
    path = saved(tmp_path, "a.obj", obj_text() + f"f 1 2 {index}\n")
    with pytest.raises(FormatError, match=r"^a\.obj: line 11 "):
        read_surface(path)


def test_obj_faces_of_two_corners_are_left_out_with_a_warning(tmp_path):
    path = saved(tmp_path, "a.obj", obj_text() + "f 1 2\n")
    with pytest.warns(SuppleWarning, match=r"a\.obj: has 1 face of fewer .* line 11"):
        mesh = read_surface(path)
    np.testing.assert_array_equal(mesh.triangles, TRIANGLES)


@pytest.mark.parametrize(
    ("file", "n_vertices", "n_triangles", "n_components", "warning"),
    [
        ("complementary_dynamics/elephant/elephant.obj", 635, 1266, 1, None),
        ("complementary_dynamics/frog/frog.obj", 1085, 2166, 1, None),
        ("complementary_dynamics/sphere/sphere.obj", 58, 112, 1, None),
        ("fast_cd/humpback/humpback_tex.obj", 5215, 10426, 1, None),
        ("makehuman/base.obj", 19158, 36972, 154, "784 open edges"),
        ("vegafem/beam3/beam3_tet.obj", 208, 412, 1, None),
        ("vegafem/reduced_A/A.obj", 575, 834, 1, "158 unreferenced vertices"),
    ],
)
def test_real_surfaces_load_with_the_counts_their_manifest_gives(
    assets, file, n_vertices, n_triangles, n_components, warning
):
    if warning:
        with pytest.warns(SuppleWarning, match=warning) as caught:
            mesh = read_surface(assets / file)
        assert len(caught) == 1
    else:
        mesh = read_surface(assets / file)
    assert mesh.vertices.shape == (n_vertices, 3)
    assert mesh.triangles.shape == (n_triangles, 3)
    assert mesh.components().max() + 1 == n_components
