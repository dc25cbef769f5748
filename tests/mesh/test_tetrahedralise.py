"""Any surface is filled with well-shaped tets that cover it."""

from __future__ import annotations

import warnings

import igl
import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.errors import MeshError, SuppleError, SuppleWarning
from supple.formats.meshes.read_mesh import read_surface
from supple.mesh.filling.bcc_lattice import clipped_tets, pack, unpack
from supple.mesh.filling.signed_distance import outward_triangles
from supple.mesh.filling.stuffing import stuff
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import OUTWARD_FACES, TetMesh
from supple.mesh.topology import face_keys

LEAST, MOST = 10.78, 164.75  # degrees, Labelle and Shewchuk 2007

TURN = trimesh.transformations.rotation_matrix(0.7, [1, 2, 3])[:3, :3]


def surface_of(*bodies: trimesh.Trimesh) -> SurfaceMesh:
    starts = np.cumsum([0] + [len(body.vertices) for body in bodies])
    triangles = [body.faces + start for body, start in zip(bodies, starts, strict=False)]
    vertices = np.concatenate([body.vertices for body in bodies])
    return SurfaceMesh(vertices, np.concatenate(triangles))


def sphere(at=(0, 0, 0), radius=1.0) -> trimesh.Trimesh:
    return trimesh.creation.icosphere(2, radius).apply_translation(at)


def sheet(cells: int = 6) -> SurfaceMesh:
    u, v = np.meshgrid(*[np.linspace(0, 1, cells + 1)] * 2, indexing="ij")
    a = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel()
    triangles = [[a, a + cells + 1, a + 1], [a + 1, a + cells + 1, a + cells + 2]]
    points = np.stack([u.ravel(), v.ravel(), 0.1 * np.sin(4 * u.ravel())], axis=1)
    return SurfaceMesh(points @ TURN.T, np.concatenate(np.transpose(triangles, (0, 2, 1))))


SHAPES = {
    "sphere": surface_of(sphere()),
    "torus": surface_of(trimesh.creation.torus(1.0, 0.3)),
    "thin plate": surface_of(trimesh.creation.box((1, 0.8, 0.01))),
    "two spheres": surface_of(sphere(), sphere((2.3, 0.1, 0.2))),
    "box": surface_of(trimesh.creation.box((1, 2, 3))),
    "sheet": sheet(),
    "triangle": SurfaceMesh(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.3]]), np.array([[0, 1, 2]])),
}

HOSTILE = [
    "hostile_mesh/selfint_doubleLoopWithCube.obj",
    "hostile_mesh/assimp/sphereWithHole.stl",
    "hostile_mesh/trimesh/multibody.stl",
    "hostile_mesh/trimesh/joined_tetrahedra.obj",
    "hostile_mesh/trimesh/soup.stl",
    "hostile_mesh/trimesh/busted.STL",
]

REAL = [
    "makehuman/base.obj",
    "complementary_dynamics/elephant/elephant.obj",
    "complementary_dynamics/frog/frog.obj",
    "fast_cd/humpback/humpback_tex.obj",
]


def assert_sound(mesh: TetMesh) -> None:
    """Angles within bounds, tets upright, faces shared by two at most, boundary a manifold."""
    angles = mesh.dihedral_angles()
    assert angles.min() > LEAST
    assert angles.max() < MOST
    assert mesh.volumes().min() > 0
    assert not [defect for defect in mesh.defects() if defect.kind != "components"]
    boundary = mesh.boundary()
    edges = boundary[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    directed = np.unique(edges, axis=0)
    assert len(directed) == len(edges)  # no edge twice in one direction
    np.testing.assert_array_equal(directed, np.unique(edges[:, ::-1], axis=0))


def distance_outside(points: np.ndarray, mesh: TetMesh) -> np.ndarray:
    boundary = mesh.boundary()
    squared, _, _ = igl.point_mesh_squared_distance(points, mesh.vertices, boundary)
    turns = np.abs(igl.fast_winding_number(mesh.vertices, boundary, points))
    return np.where(turns > 0.5, 0.0, np.sqrt(squared))


def assert_covers(mesh: TetMesh, surface: SurfaceMesh, cell: float) -> None:
    points = surface.vertices[np.unique(surface.triangles)]
    assert distance_outside(points, mesh).max() <= 0.5 * cell


def some_cell(surface: SurfaceMesh, parts: float = 20) -> float:
    return surface.size / parts


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.05, 0.95), extreme=st.booleans())
@settings(max_examples=25, deadline=None)
def test_angles_are_bounded_whatever_the_signs_and_cut_points(seed, share, extreme):
    random = np.random.default_rng(seed)
    coords = np.indices((14, 14, 14)).reshape(3, -1).T
    keys = np.sort(pack(coords[(coords % 2 == coords[:, :1] % 2).all(axis=1)]))
    coords = unpack(keys)
    inner = ((coords > 2) & (coords < 11)).all(axis=1)
    level = np.where(inner & (random.random(len(keys)) < share), 1.0, -1.0)

    def cuts(a, b, level_a, level_b):
        edges = [0.28512, 0.28514, 0.39879, 0.39881, 0.5, 0.60119, 0.60121, 0.71486, 0.71488]
        return random.choice(edges, len(a)) if extreme else random.random(len(a))

    vertices, tets = clipped_tets(keys, level, np.zeros(3), 1.0, cuts)
    if len(tets):
        mesh = TetMesh(vertices, tets)
        angles = mesh.dihedral_angles()
        assert angles.min() > LEAST
        assert angles.max() < MOST
        assert mesh.volumes().min() > 0
        used = np.bincount(
            np.unique(face_keys(tets, OUTWARD_FACES, len(vertices)), return_inverse=True)[1]
        )
        assert used.max() <= 2
        boundary = mesh.boundary()
        edges = boundary[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
        ends = np.sort(edges, axis=1)
        balance = np.unique(ends[:, 0] * len(vertices) + ends[:, 1], return_inverse=True)[1]
        forward = np.where(edges[:, 0] < edges[:, 1], 1, -1)
        assert not np.bincount(balance, forward).any()  # the boundary is closed


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_random_smooth_level_sets_give_sound_pieces(seed):
    random = np.random.default_rng(seed)
    waves, phases = random.normal(scale=2.5, size=(6, 3)), random.uniform(0, 6.3, 6)

    def level(x):
        return np.minimum(np.sin(x @ waves.T + phases).sum(axis=1), 1.5 - np.linalg.norm(x, axis=1))

    mesh = stuff(level, [[-1.5] * 3, [1.5] * 3], 0.3)
    angles = mesh.dihedral_angles()
    assert angles.min() > LEAST
    assert angles.max() < MOST
    assert mesh.volumes().min() > 0


@pytest.mark.parametrize("tets", [700, 4000])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_number_of_tets_is_within_15_percent(shape, tets):
    mesh = tetrahedralise(SHAPES[shape], tets=tets)
    assert abs(len(mesh.tets) / tets - 1) <= 0.15
    assert_sound(mesh)


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_covered_within_half_a_cell(shape):
    surface = SHAPES[shape]
    mesh = tetrahedralise(surface, cell=some_cell(surface))
    assert_sound(mesh)
    assert_covers(mesh, surface, some_cell(surface))
    assert mesh.components().max() == surface.components().max()


@pytest.mark.parametrize("parts", [6, 20])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_soups_are_filled_and_covered(assets, name, parts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file is broken; that is the point
        surface = read_surface(assets / name)
    mesh = tetrahedralise(surface, cell=some_cell(surface, parts))
    assert_sound(mesh)
    assert_covers(mesh, surface, some_cell(surface, parts))


@pytest.mark.parametrize("name", REAL)
def test_real_characters_are_filled_and_covered(assets, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        surface = read_surface(assets / name)
    mesh = tetrahedralise(surface, cell=some_cell(surface, 30))
    assert_sound(mesh)
    assert_covers(mesh, surface, some_cell(surface, 30))


def test_the_volume_of_a_ball_converges():
    errors = []
    for cell in (0.4, 0.2, 0.1):
        ball = stuff(lambda x: 1 - np.linalg.norm(x, axis=1), [[-1] * 3, [1] * 3], cell)
        errors.append(1 - ball.volumes().sum() / (4 / 3 * np.pi))
    assert 0 < errors[2] < errors[1] / 3 < errors[0] / 9


def test_orientation_does_not_matter():
    bodies = surface_of(sphere(), sphere((2.3, 0, 0)))
    n = len(bodies.triangles)
    expected = tetrahedralise(bodies, cell=0.25)
    random = np.random.default_rng(0)
    for backwards in (np.arange(n) < n // 2, np.ones(n, bool), random.random(n) < 0.5):
        turned = np.where(backwards[:, None], bodies.triangles[:, ::-1], bodies.triangles)
        mesh = tetrahedralise(SurfaceMesh(bodies.vertices, turned), cell=0.25)
        assert abs(mesh.volumes().sum() / expected.volumes().sum() - 1) < 1e-3


def test_repeated_split_and_collapsed_triangles_do_not_matter():
    body = surface_of(sphere())
    expected = tetrahedralise(body, cell=0.25).volumes().sum()
    corners = body.vertices[body.triangles].reshape(-1, 3)
    soup = np.arange(len(corners)).reshape(-1, 3)
    collapsed = np.column_stack([soup[:, :2], soup[:, 1]])
    stray = np.concatenate([corners, [[50.0, 0, 0]]])  # referenced by nothing
    for triangles in (
        soup,
        np.concatenate([soup, soup]),
        np.concatenate([soup, soup[:, ::-1]]),  # both sides of everything
        np.concatenate([soup, collapsed]),
    ):
        mesh = tetrahedralise(SurfaceMesh(stray, triangles), cell=0.25)
        assert abs(mesh.volumes().sum() / expected - 1) < 1e-3


def test_overlapping_bodies_are_filled_once():
    mesh = tetrahedralise(surface_of(sphere(), sphere((0.5, 0, 0))), cell=0.2)
    union = 4 / 3 * np.pi * 2 - np.pi * (4 + 0.5) * (2 - 0.5) ** 2 / 12
    assert mesh.components().max() == 0
    assert abs(mesh.volumes().sum() / union - 1) < 0.05


def test_a_hole_is_closed():
    body = surface_of(sphere())
    high = body.vertices[body.triangles][:, :, 2].mean(axis=1) > 0.85
    mesh = tetrahedralise(SurfaceMesh(body.vertices, body.triangles[~high]), cell=0.2)
    whole = tetrahedralise(body, cell=0.2)
    assert 0.85 < mesh.volumes().sum() / whole.volumes().sum() < 1.0


def test_thin_parts_hang_on_to_the_body():
    spike = trimesh.creation.cylinder(0.01, 2.0).apply_translation((0, 0, 1.2))
    surface = surface_of(sphere(radius=0.5), spike)
    mesh = tetrahedralise(surface, cell=0.2)
    assert mesh.components().max() == 0
    assert_covers(mesh, surface, 0.2)


def test_sheets_bound_no_volume_but_panels_of_one_body_do():
    flat = sheet()
    assert len(outward_triangles(flat.vertices, flat.triangles)) == 0
    box = surface_of(trimesh.creation.box((1, 1, 1)))
    middles = box.vertices[box.triangles].mean(axis=1)
    # Panels drawn a little apart do not touch, and face outward as they did.
    corners = (box.vertices[box.triangles] + 0.02 * np.sign(np.round(middles, 3))[:, None]).reshape(
        -1, 3
    )
    panels = SurfaceMesh(corners, np.arange(len(corners)).reshape(-1, 3)).welded()[0]
    assert len(outward_triangles(panels.vertices, panels.triangles)) == len(panels.triangles)
    assert tetrahedralise(panels, cell=0.1).volumes().sum() > 0.9


def test_the_same_surface_gives_the_same_bytes():
    first, second = (tetrahedralise(SHAPES["torus"], tets=1500) for _ in range(2))
    assert first.vertices.tobytes() == second.vertices.tobytes()
    assert first.tets.tobytes() == second.tets.tobytes()


def test_neighbours_are_near_in_memory():
    mesh = stuff(lambda x: 1 - np.linalg.norm(x, axis=1), [[-1] * 3, [1] * 3], 0.1)
    spread = np.ptp(mesh.tets, axis=1)
    assert np.median(spread) < 0.2 * len(mesh.vertices)
    assert len(np.unique(mesh.tets)) == len(mesh.vertices)


def test_an_impossible_number_gives_the_nearest_with_a_warning():
    with pytest.warns(SuppleWarning, match="5 tets requested, but the nearest mesh has 24"):
        mesh = tetrahedralise(SHAPES["two spheres"], tets=5)
    assert_sound(mesh)


def test_size_and_place_do_not_matter():
    body = SHAPES["torus"]
    plain = tetrahedralise(body, cell=0.2)
    moved = tetrahedralise(SurfaceMesh(body.vertices * 1e-3 + 7, body.triangles), cell=2e-4)
    assert abs(len(moved.tets) / len(plain.tets) - 1) < 0.05


@pytest.mark.parametrize("power", [166, -100, 320, -320])
@pytest.mark.parametrize("options", [{"tets": 200}, {"cell": 0.4}])
def test_a_body_of_any_size_is_filled_as_one_of_size_1_is(power, options):
    body, scale = SHAPES["torus"], 2.0**power
    plain = tetrahedralise(body, **options)
    scaled = {name: value * scale if name == "cell" else value for name, value in options.items()}
    other = tetrahedralise(SurfaceMesh(body.vertices * scale, body.triangles), **scaled)
    np.testing.assert_array_equal(other.vertices, plain.vertices * scale)
    np.testing.assert_array_equal(other.tets, plain.tets)


def test_a_vertex_of_no_triangle_does_not_matter_wherever_it_is():
    body = SHAPES["torus"]
    vertices = np.vstack([body.vertices, [[1e90, 0, 0]]])
    plain, other = (
        tetrahedralise(SurfaceMesh(points, body.triangles), cell=0.4)
        for points in (body.vertices, vertices)
    )
    np.testing.assert_array_equal(other.vertices, plain.vertices)


def test_progress_runs_from_nothing_to_all():
    told = []
    tetrahedralise(SHAPES["sphere"], tets=500, progress=lambda part, what: told.append(part))
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tets": 0}, "cannot make 0 tets"),
        ({"tets": 10**9}, "use 1 to"),
        ({"tets": np.nan}, "number of tets"),
        ({"tets": "many"}, "number of tets"),
        ({"cell": 0.0}, "cells of 0 cannot fill"),
        ({"cell": -1.0}, "cells of -1 cannot fill"),
        ({"cell": np.inf}, "edge of a cell"),
        ({"cell": 1e200}, r"cells of 1e\+200 cannot fill"),
        ({"cell": 1e-9}, "a cell of 1e-09 is too small"),
        ({"cell": 1e-310}, "a cell of 1e-310 is too small"),
    ],
)
def test_requests_beyond_reason_are_refused(options, words):
    with pytest.raises(SuppleError, match=words):
        tetrahedralise(SHAPES["sphere"], **options)


def test_a_single_point_is_refused_and_lengths_are_reported_in_the_given_unit():
    with pytest.raises(MeshError, match="single point"):
        tetrahedralise(SurfaceMesh(np.full((3, 3), 7.0), [[0, 1, 2]]))
    body = SurfaceMesh(SHAPES["sphere"].vertices * 1e50, SHAPES["sphere"].triangles)
    with pytest.raises(MeshError, match=r"cells of 1e\+47 would make more than"):
        tetrahedralise(body, cell=1e47)


def test_a_cell_that_would_fill_the_memory_is_refused():
    with pytest.raises(MeshError, match="million"):
        tetrahedralise(SHAPES["sphere"], cell=1e-3)


def test_a_surface_without_area_is_refused():
    with pytest.raises(MeshError, match="area"):
        tetrahedralise(SurfaceMesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]]))


def test_stuff_refuses_a_body_that_leaves_its_bounds_or_is_not_there():
    def ball(x):
        return 1 - np.linalg.norm(x, axis=1)

    with pytest.raises(MeshError, match="bounds"):
        stuff(ball, [[-0.1] * 3, [0.1] * 3], 0.1)
    with pytest.raises(MeshError, match="inside"):
        stuff(ball, [[5] * 3, [6] * 3], 0.1)
    with pytest.raises(MeshError, match="too large"):
        stuff(ball, [[-1] * 3, [1] * 3], 1e-3)
