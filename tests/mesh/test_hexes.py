"""Hexahedra: an independent library agrees, and voxels fill and carry any surface."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import trimesh
from scipy.spatial.transform import Rotation

from helpers.scikit_fem_forms import stvk_forms
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.densities.dispatch import MATERIALS
from supple.elastic.equilibrium import static_equilibrium
from supple.elastic.material import Material
from supple.engines.stvk.strain_points import StrainPoints
from supple.errors import MeshError, SuppleError, SuppleWarning
from supple.mesh.filling.voxelise import voxelise
from supple.mesh.hex_embedding import embed_hexes, locate_hexes
from supple.mesh.hexes import CORNERS, HexMesh, gauss_points, shape_functions
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh

YOUNG, POISSON, DENSITY = 1e5, 0.3, 1000.0
STVK = Material("stvk", YOUNG, POISSON, DENSITY)


def block(cells=(4, 3, 2), size=0.1, bent=0.0) -> HexMesh:
    """A block of cubes; `bent` moves every vertex by about that part of a cube."""
    points, places = (
        np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), axis=-1).reshape(-1, 3)
        for counts in ([n + 1 for n in cells], cells)
    )
    corner = places[:, None] + CORNERS
    hexes = (corner[..., 0] * (cells[1] + 1) + corner[..., 1]) * (cells[2] + 1) + corner[..., 2]
    moved = points + bent * np.random.default_rng(0).uniform(-1, 1, points.shape)
    return HexMesh(size * moved, hexes)


def deformed(mesh: HexMesh, amount=0.02) -> np.ndarray:
    return mesh.vertices + amount * np.random.default_rng(1).normal(size=mesh.vertices.shape)


def gradients_at(points: StrainPoints, u: np.ndarray) -> np.ndarray:
    """∂u_i/∂X_k at the points, (p, 3, 3), of a field u (n, 3) at the vertices."""
    return np.einsum("pai,pak->pik", u[points.corners], points.slopes)


def relative(a, b) -> float:
    return float(abs(a - b).max() / abs(b).max())


# --- scikit-fem ------------------------------------------------------------------------------


def their_basis(mesh: HexMesh, order: int):
    skfem = pytest.importorskip("skfem", reason="scikit-fem is the oracle of these tests")
    theirs = skfem.refdom.RefHex.p.T.astype(int)
    mine = [int(np.flatnonzero((corner == CORNERS).all(axis=1))[0]) for corner in theirs]
    element = skfem.ElementVector(skfem.ElementHex1())
    # An order of 2k − 1 is what k Gauss points an axis integrate.
    basis = skfem.Basis(
        skfem.MeshHex(mesh.vertices.T.copy(), mesh.hexes[:, mine].T.copy()),
        element,
        intorder=2 * order - 1,
    )
    return skfem, basis, basis.nodal_dofs.T.reshape(-1)


@pytest.mark.parametrize("order", [2, 3])
def test_linear_stiffness_is_scikit_fems(order):
    mesh = block(bent=0.2)
    _, basis, dofs = their_basis(mesh, order)
    from skfem.models.elasticity import lame_parameters, linear_elasticity

    form = linear_elasticity(*lame_parameters(YOUNG, POISSON))
    theirs = form.assemble(basis).tocsr()[dofs][:, dofs]
    body = HexBody(mesh, STVK, order=order)
    assert relative(body.stiffness(body.rest), sp.csr_array(theirs)) < 1e-10


def test_consistent_mass_is_scikit_fems_and_lumped_mass_its_row_sums():
    mesh = block(bent=0.2)
    skfem, basis, dofs = their_basis(mesh, 4)
    form = skfem.BilinearForm(lambda u, v, w: DENSITY * sum(u[i] * v[i] for i in range(3)))
    theirs = sp.csr_array(form.assemble(basis).tocsr()[dofs][:, dofs])
    body = HexBody(mesh, STVK)
    assert relative(body.mass(lumped=False), theirs) < 1e-10
    sums = np.asarray(theirs.sum(axis=1)).ravel()
    assert relative(body.mass().diagonal(), sums) < 1e-10
    assert body.vertex_masses().sum() == pytest.approx(DENSITY * mesh.volumes().sum())
    assert body.vertex_masses().min() > 0


@pytest.mark.parametrize("order", [2, 3])
def test_nonlinear_force_and_stiffness_are_scikit_fems(order):
    """StVK assembled by scikit-fem from its weak form, on bent hexes, at a large deformation."""
    mesh = block(bent=0.2)
    _, basis, dofs = their_basis(mesh, order)
    from skfem.models.elasticity import lame_parameters

    lam, mu = lame_parameters(YOUNG, POISSON)
    x = deformed(mesh)
    u = np.empty(x.size)
    u[dofs] = (x - mesh.vertices).reshape(-1)
    force_form, stiffness_form = stvk_forms(lam, mu)

    there = basis.interpolate(u)
    body = HexBody(mesh, STVK, order=order)
    force = force_form.assemble(basis, u=there)[dofs]
    assert relative(body.force(x).reshape(-1), force) < 1e-10
    stiffness = stiffness_form.assemble(basis, u=there).tocsr()[dofs][:, dofs]
    assert relative(body.stiffness(x), sp.csr_array(stiffness)) < 1e-10


# --- the body --------------------------------------------------------------------------------


def inner_vertices(mesh: HexMesh) -> np.ndarray:
    return np.setdiff1d(np.arange(len(mesh.vertices)), mesh.boundary_quads())


def test_patch_a_uniform_strain_is_in_balance_inside():
    mesh = block((4, 4, 4), bent=0.2)
    body = HexBody(mesh, STVK)
    strain = np.array([[1.2, 0.3, 0.0], [-0.1, 0.9, 0.2], [0.1, 0.0, 1.1]])
    forces = body.force(mesh.vertices @ strain.T + 5.0)
    assert np.abs(forces[inner_vertices(mesh)]).max() < 1e-10 * np.abs(forces).max()


def test_patch_a_uniform_strain_of_the_boundary_is_found_inside():
    mesh = block((4, 4, 4), bent=0.2)
    body = HexBody(mesh, STVK)
    gradient = 0.01 * np.random.default_rng(2).normal(size=(3, 3))
    exact = (mesh.vertices @ gradient.T).reshape(-1)
    free = np.repeat(np.isin(np.arange(body.n_vertices), inner_vertices(mesh)), 3)
    K = sp.csc_array(body.stiffness(body.rest))
    u = np.where(free, 0.0, exact)
    u[free] = spla.spsolve(K[free][:, free], -(K @ u)[free])
    assert relative(u, exact) < 1e-10


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("kind", ["stvk", "neo-hookean", "corotational"])
def test_force_and_stiffness_are_derivatives_of_energy(kind, order):
    mesh = block(bent=0.2)
    body = HexBody(mesh, Material(kind, YOUNG, POISSON), order=order)
    x = deformed(mesh, 0.01)
    d, h = np.random.default_rng(3).normal(size=x.shape), 2e-6
    slope = (body.energy(x + h * d) - body.energy(x - h * d)) / (2 * h)
    assert np.vdot(body.force(x), d) == pytest.approx(slope, rel=1e-7)
    change = (body.force(x + h * d) - body.force(x - h * d)).reshape(-1) / (2 * h)
    stiffness = body.stiffness(x)
    assert relative(stiffness @ d.reshape(-1), change) < 1e-6
    assert relative(stiffness, sp.csr_array(stiffness.T)) < 1e-12


def test_rigid_motions_cost_nothing_far_from_the_origin():
    mesh = block(bent=0.2)
    body = HexBody(mesh, STVK)
    turned = Rotation.from_rotvec([0.3, -1.2, 2.0]).apply(mesh.vertices) + 100.0
    scale = body.energy(1.1 * mesh.vertices)
    assert body.energy(turned) < 1e-18 * scale
    assert np.abs(body.force(turned)).max() < 1e-9 * np.abs(body.force(1.1 * mesh.vertices)).max()


def test_three_points_an_axis_are_exact_for_boxes_and_two_are_not():
    mesh = block((2, 2, 1))
    x = deformed(mesh, 0.03)
    energies = {order: HexBody(mesh, STVK, order=order).energy(x) for order in (2, 3)}

    def plain(order):  # F and the energy written out, with as many points as we like
        total, (lam, mu) = 0.0, (YOUNG * POISSON / (1.3 * 0.4), YOUNG / 2.6)
        points = StrainPoints.of(mesh, order)
        G = gradients_at(points, x - mesh.vertices)
        for volume, g in zip(points.volumes, G, strict=True):
            E = 0.5 * (g + g.T + g.T @ g)
            total += volume * (mu * np.sum(E * E) + 0.5 * lam * np.trace(E) ** 2)
        return total

    assert energies[3] == pytest.approx(plain(5), rel=1e-13)
    assert energies[2] == pytest.approx(plain(2), rel=1e-13)
    assert energies[2] != pytest.approx(plain(5), rel=1e-6)


def test_the_same_bits_for_any_number_of_threads():
    mesh = block((16, 12, 10), bent=0.1)
    body = HexBody(mesh, STVK)
    x, found = deformed(mesh, 0.005), []
    before = numba.get_num_threads()
    try:
        for threads in (1, min(2, before)):
            numba.set_num_threads(threads)
            found.append((body.force(x), body.stiffness(x).data.copy(), body.element_energies(x)))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_two_materials_each_count_in_their_own_hexes():
    mesh = block((2, 1, 1))
    x = mesh.vertices * [1.1, 1.0, 1.0]
    soft = HexBody(mesh, Material("stvk", 1e4, 0.2)).element_energies(x)
    stiff = HexBody(mesh, Material("stvk", 3e4, 0.2)).element_energies(x)
    mixed = HexBody(mesh, Material("stvk", [1e4, 3e4], 0.2, [500.0, 2000.0]))
    np.testing.assert_array_equal(mixed.element_energies(x), [soft[0], stiff[1]])
    assert mixed.vertex_masses().sum() == pytest.approx(1e-3 * 2500.0)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_cantilever_is_too_stiff_by_the_shear_that_bending_hexes_cannot_avoid(n):
    """Trilinear cubes, n through the thickness, bend stiffer by G/E/n² (here 1/2n²)."""
    length, side, load = 1.0, 1 / 8, 1e-3
    inertia = side**4 / 12
    bending = load * length**3 / (3 * YOUNG * inertia)
    shearing = load * length / (5 / 12 * YOUNG * side**2)
    mesh = block((8 * n, n, n), side / n)
    body: Any = HexBody(mesh, Material("stvk", YOUNG, 0.0))
    tip = mesh.vertices[:, 0] > length - 1e-9
    forces = np.zeros(mesh.vertices.shape)
    quads = mesh.boundary_quads()
    np.add.at(forces[:, 1], quads[tip[quads].all(axis=1)], load / (4 * n**2))
    held = np.flatnonzero(mesh.vertices[:, 0] == 0)
    rest = static_equilibrium(body, fixed=held, forces=forces)
    assert rest.converged
    moved = rest.positions[tip, 1].mean() - mesh.vertices[tip, 1].mean()
    assert moved == pytest.approx(bending / (1 + 0.5 / n**2) + shearing, rel=0.01)


def test_meshes_that_cannot_be_a_body_are_refused():
    mesh = block((1, 1, 1))
    with pytest.raises(SuppleError, match="2 or 3"):
        HexBody(mesh, STVK, order=1)
    with pytest.raises(SuppleError, match="needs a Material"):
        HexBody(mesh, "stvk")  # type: ignore[arg-type]
    inverted = HexMesh(mesh.vertices, mesh.hexes[:, [4, 5, 6, 7, 0, 1, 2, 3]])
    with pytest.raises(MeshError, match=r"1 hexes are inverted or flat.*worst: hex 0"):
        HexBody(inverted, STVK)
    body = HexBody(mesh, STVK)
    with pytest.raises(SuppleError, match="not finite at row 3"):
        body.force(np.where(np.arange(8)[:, None] == 3, np.nan, mesh.vertices))
    with pytest.raises(MeshError, match="rest shape inverts"):
        body.energy(mesh.vertices, rest=-mesh.vertices)
    with pytest.warns(SuppleWarning, match="1 vertices belong to no hex"):
        HexBody(HexMesh(np.vstack([mesh.vertices, [[9, 9, 9]]]), mesh.hexes), STVK)


@pytest.mark.parametrize("kind", list(MATERIALS))
def test_a_bent_block_strained_evenly_has_the_energy_of_its_tets(kind):
    mesh = block(bent=0.2)
    young = [2e5, 1e5, 1e5] if kind == "orthotropic" else YOUNG
    material = Material(kind, young, POISSON)
    strain = np.array([[1.1, 0.05, 0.0], [0.0, 0.9, 0.1], [0.02, 0.0, 1.05]])
    energy = HexBody(mesh, material).element_energies(mesh.vertices @ strain.T)
    one = TetMesh(np.vstack([np.zeros(3), np.eye(3)]), [[0, 1, 2, 3]])
    density = 6 * ElasticBody(one, material).energy(one.vertices @ strain.T)
    np.testing.assert_allclose(energy, density * mesh.volumes(), rtol=1e-11)


def test_points_of_the_reduction_add_up_to_the_bodys_force():
    mesh = block(bent=0.2)
    x = deformed(mesh)
    lam, mu = YOUNG * POISSON / (1.3 * 0.4), YOUNG / 2.6
    points = StrainPoints.of(mesh, 2)
    F = gradients_at(points, x)
    E = 0.5 * (np.swapaxes(F, 1, 2) @ F - np.eye(3))
    S = 2 * mu * E + lam * np.trace(E, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    forces = np.zeros(x.shape)
    shares = points.volumes[:, None, None] * np.einsum("pij,paj->pai", F @ S, points.slopes)
    np.add.at(forces, points.corners, shares)
    assert relative(HexBody(mesh, STVK).force(x), forces) < 1e-12


# --- the mesh --------------------------------------------------------------------------------


def test_volumes_and_boundary_are_those_of_the_shape():
    mesh = block(bent=0.2)
    fine = np.array([mesh.jacobians(5) @ gauss_points(5)[1]])
    np.testing.assert_allclose(mesh.volumes(), fine[0], rtol=1e-13)
    straight = block()
    surface, index = straight.surface()
    np.testing.assert_array_equal(straight.vertices[index], surface.vertices)
    assert surface.volume() == pytest.approx(straight.volumes().sum())
    assert surface.defects() == []
    assert len(straight.boundary_quads()) == 2 * (4 * 3 + 3 * 2 + 4 * 2)
    assert repr(straight) == "HexMesh(60 vertices, 24 hexes)"


def test_an_inverted_hex_is_reported_and_flipped_and_its_boundary_faces_outward():
    mesh = block()
    hexes = mesh.hexes.copy()
    hexes[5] = hexes[5][[4, 5, 6, 7, 0, 1, 2, 3]]
    wrong = HexMesh(mesh.vertices, hexes, {"odd": [5]})
    assert [defect.message for defect in wrong.defects()] == ["has 1 inverted hex (first at hex 5)"]
    assert wrong.surface()[0].volume() == pytest.approx(mesh.volumes().sum())
    assert wrong.oriented().volumes().min() > 0
    assert wrong.oriented().sets["odd"].tolist() == [5]


def test_tangled_flat_repeated_and_loose_parts_are_reported():
    mesh = block((3, 1, 1))
    vertices = np.vstack([mesh.vertices, [[9.0, 9, 9]]])
    tangled = mesh.hexes[0][[0, 2, 1, 3, 4, 5, 6, 7]]
    flat = mesh.hexes[1][[0, 1, 2, 3, 0, 1, 2, 3]]
    wrong = HexMesh(vertices, [tangled, flat, mesh.hexes[2], mesh.hexes[2]])
    kinds = {defect.kind for defect in wrong.defects()}
    assert {
        "tangled hexes",
        "degenerate hexes",
        "duplicate hexes",
        "unreferenced vertices",
    } <= kinds
    assert wrong.degenerate_hexes().tolist() == [1]
    assert wrong.tangled_hexes().tolist() == [0]
    assert len(wrong.without(np.array([0, 1])).hexes) == 2


@pytest.mark.parametrize(
    ("vertices", "hexes", "sets", "message"),
    [
        (CORNERS, [[0, 1, 2, 3, 4, 5, 6, 8]], {}, "refers to vertex 8"),
        (CORNERS, [[0, 1, 2, 3, 4, 5, 6, -1]], {}, "refers to vertex -1"),
        (CORNERS, [[0, 1, 2, 3]], {}, r"not \(m, 8\)"),
        (CORNERS, np.zeros((0, 8), int), {}, "has no hexes"),
        (CORNERS, [np.arange(8) + 0.5], {}, "not integers"),
        (CORNERS * np.nan, [range(8)], {}, "not finite"),
        (CORNERS, [range(8)], {"a": [1]}, "has hex 1, but there are 1 hexes"),
        (CORNERS, [range(8)], {"a": ["x"]}, "not a list of hexes"),
    ],
)
def test_a_mesh_that_breaks_a_rule_is_refused(vertices, hexes, sets, message):
    with pytest.raises(MeshError, match=message):
        HexMesh(vertices, hexes, sets)


# --- voxels ----------------------------------------------------------------------------------


def sphere(detail=3, centre=(0.0, 0.0, 0.0)) -> SurfaceMesh:
    made = trimesh.creation.icosphere(detail)
    return SurfaceMesh(made.vertices + centre, made.faces)


def box(extents=(1.0, 2.0, 3.0), turn=None) -> SurfaceMesh:
    made = trimesh.creation.box(extents)
    vertices = made.vertices if turn is None else turn.apply(made.vertices)
    return SurfaceMesh(vertices, made.faces)


def cubes_of(mesh: HexMesh) -> set[tuple[float, ...]]:
    return set(map(tuple, mesh.vertices[mesh.hexes].mean(axis=1).round(9).tolist()))


def test_a_box_along_the_lattice_is_filled_exactly():
    mesh = voxelise(box(), size=0.25)
    assert len(mesh.hexes) == 4 * 8 * 12
    np.testing.assert_allclose(mesh.bounds, [[-0.5, -1, -1.5], [0.5, 1, 1.5]], atol=1e-12)
    assert mesh.defects() == []
    np.testing.assert_allclose(mesh.volumes(), 0.25**3)


@pytest.mark.parametrize("angle", [1e-9, 3e-7, 1e-6, 3e-6, 1e-4])
def test_a_box_nearly_along_the_lattice_does_not_leak(angle):
    turned = box(turn=Rotation.from_rotvec([angle, 0.7 * angle, -0.4 * angle]))
    mesh = voxelise(turned, size=0.25)
    middles = np.stack(np.meshgrid(*(np.arange(n) for n in (4, 8, 12)), indexing="ij"), axis=-1)
    inside = (middles.reshape(-1, 3) + 0.5) * 0.25 - [0.5, 1, 1.5]
    assert locate_hexes(inside, mesh).distance.max() == 0.0
    assert 384 <= len(mesh.hexes) <= 6 * 10 * 14


def test_cubes_are_those_that_touch_the_inside_and_no_others():
    surface = sphere(4)
    mesh = voxelise(surface, size=0.13)
    corners = mesh.vertices[mesh.hexes]
    nearest = np.clip(0.0, corners.min(axis=1), corners.max(axis=1))
    assert np.linalg.norm(nearest, axis=1).max() <= 1.0  # each reaches into the ball
    within = np.random.default_rng(0).normal(size=(5000, 3))
    within *= (np.linspace(0, 0.995, 5000) / np.linalg.norm(within, axis=1))[:, None]
    assert locate_hexes(within, mesh).distance.max() == 0.0  # and all of it is covered
    assert locate_hexes(surface.vertices, mesh).distance.max() == 0.0


@pytest.mark.parametrize("elements", [30, 1000, 2005, 14_444])
def test_the_number_of_cubes_is_within_ten_per_cent_of_the_request(elements):
    turned = box((1.0, 0.4, 0.2), Rotation.from_rotvec([0.3, 0.2, 0.5]))
    for surface in (sphere(3), turned):
        assert len(voxelise(surface, elements=elements).hexes) == pytest.approx(elements, rel=0.1)


def test_inside_out_doubled_and_torn_surfaces_are_filled_alike():
    surface = sphere(3)
    wanted = cubes_of(voxelise(surface, size=0.15))
    inside_out = SurfaceMesh(surface.vertices, surface.triangles[:, ::-1])
    doubled = SurfaceMesh(surface.vertices, np.vstack([surface.triangles] * 2))
    soup = SurfaceMesh(
        surface.vertices[surface.triangles].reshape(-1, 3),
        np.arange(surface.triangles.size).reshape(-1, 3),
    )
    for other in (inside_out, doubled, soup):
        assert cubes_of(voxelise(other, size=0.15)) == wanted
    towards = surface.vertices[surface.triangles].mean(axis=1) @ np.full(3, 3**-0.5)
    torn = SurfaceMesh(surface.vertices, surface.triangles[towards < 0.85])
    found = cubes_of(voxelise(torn, size=0.15))
    # The hole is closed about where it was: what differs is at the cap that is missing.
    for cube in wanted ^ found:
        assert sum(cube) / 3**0.5 > 0.6
    assert 0.93 * len(wanted) < len(found) <= len(wanted)


def test_a_hollow_counts_as_full_and_a_sheet_becomes_one_layer():
    outer, inner = sphere(3), sphere(2)
    hollow = SurfaceMesh(
        np.vstack([outer.vertices, 0.5 * inner.vertices]),
        np.vstack([outer.triangles, len(outer.vertices) + inner.triangles]),
    )
    assert cubes_of(voxelise(hollow, size=0.15)) == cubes_of(voxelise(outer, size=0.15))
    sheet = SurfaceMesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    assert len(voxelise(sheet, size=0.1).hexes) == 100


def test_sheets_between_two_layers_of_cubes_are_covered_once():
    walls = SurfaceMesh(
        np.vstack([box((1, 1, 1)).vertices, [[0.5, -0.5, 0], [1.5, -0.5, 0], [1.5, 0.5, 0]]]),
        np.vstack([box((1, 1, 1)).triangles, [[8, 9, 10]]]),
    )
    mesh = voxelise(walls, size=0.25, connected=False)
    assert locate_hexes(walls.vertices, mesh).distance.max() < 1e-9
    assert np.ptp(mesh.vertices[mesh.vertices[:, 0] > 0.6][:, 2]) == pytest.approx(0.25)


def test_of_several_pieces_the_largest_is_kept_with_a_warning_or_all_without_common_vertices():
    large, small = sphere(3), sphere(2, (9.0, 0, 0))
    both = SurfaceMesh(
        np.vstack([large.vertices, 0.4 * small.vertices]),
        np.vstack([large.triangles, len(large.vertices) + small.triangles]),
    )
    with pytest.warns(SuppleWarning, match=r"several pieces: \d+ cubes .* left out"):
        kept = voxelise(both, size=0.2)
    assert kept.bounds[1, 0] < 1.3
    assert kept.defects() == []
    apart = voxelise(both, size=0.2, connected=False)
    assert len(np.unique(apart.components())) == 2
    # Cubes that meet in an edge only would be a hinge.
    diagonal = np.vstack([box((1, 1, 1)).vertices, box((1, 1, 1)).vertices + np.array([1, 1, 0])])
    faces = box((1, 1, 1)).triangles
    hinged = voxelise(
        SurfaceMesh(diagonal, np.vstack([faces, 8 + faces])), size=0.5, connected=False
    )
    assert len(hinged.hexes) == 16
    assert hinged.components().max() == 1


def test_progress_is_reported_and_never_decreases():
    told: list[float] = []
    voxelise(sphere(3), elements=3000, progress=lambda part, what: told.append(part))
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert told == sorted(told)


def test_the_same_surface_gives_the_same_bytes():
    one, two = (voxelise(sphere(3), elements=800) for _ in range(2))
    assert one.vertices.tobytes() == two.vertices.tobytes()
    assert one.hexes.tobytes() == two.hexes.tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0.0}, "positive length"),
        ({"size": -1.0}, "positive length"),
        ({"size": np.nan}, "not finite"),
        ({"size": "big"}, "must be numbers"),
        ({"size": 1e-6}, "too small"),
        ({"size": 1e-320}, "too small"),
        ({"elements": 0}, "use 1 to"),
        ({"elements": 10**12}, "use 1 to"),
        ({"elements": 1.5}, "use 1 to"),
        ({"elements": True}, "use 1 to"),
    ],
)
def test_requests_beyond_reason_are_refused(options, message):
    with pytest.raises(SuppleError, match=message) as caught:
        voxelise(sphere(1), **options)
    assert "\n" not in str(caught.value)


def test_a_slanting_sheet_hangs_together_by_faces():
    sheet = SurfaceMesh([[0, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1]], [[0, 1, 2], [0, 2, 3]])
    mesh = voxelise(sheet, size=0.1)  # a warning, which is an error here, would tell of pieces
    assert 100 <= len(mesh.hexes) <= 280
    assert locate_hexes(sheet.vertices, mesh).distance.max() < 1e-9


@pytest.mark.parametrize("scale", [1e-90, 1e-30, 1e30, 1e90])
def test_size_does_not_matter(scale):
    surface = sphere(2)
    wanted = len(voxelise(surface, elements=500).hexes)
    far = np.vstack([scale * surface.vertices, [[1e99, 0, 0]]])  # which no triangle uses
    mesh = voxelise(SurfaceMesh(far, surface.triangles), elements=500)
    assert len(mesh.hexes) == pytest.approx(wanted, rel=0.05)
    assert np.abs(mesh.vertices).max() < 1.3 * scale


def test_degenerate_surfaces_are_covered_or_refused():
    needle = SurfaceMesh(np.outer([0, 1, 0.5], np.ones(3)), [[0, 1, 2]])
    mesh = voxelise(needle, size=0.1)
    assert locate_hexes(needle.vertices, mesh).distance.max() < 1e-9
    assert 10 <= len(mesh.hexes) <= 70
    with pytest.raises(MeshError, match="single point"):
        voxelise(SurfaceMesh([[1, 1, 1]] * 3, [[0, 1, 2]]), size=0.1)


# --- embedding -------------------------------------------------------------------------------


def test_points_inside_bent_hexes_are_found_and_carried_trilinearly():
    mesh = block((5, 4, 3), bent=0.25)
    rng = np.random.default_rng(4)
    hexes, xi = rng.integers(len(mesh.hexes), size=500), rng.uniform(size=(500, 3))
    weights = shape_functions(xi)
    points = np.einsum("ka,kac->kc", weights, mesh.vertices[mesh.hexes[hexes]])
    found = locate_hexes(points, mesh)
    np.testing.assert_array_equal(found.hex, hexes)
    np.testing.assert_allclose(found.reference, xi, atol=1e-9)
    assert found.distance.max() == 0.0
    carrier = embed_hexes(points, mesh)
    assert carrier.shape == (500, len(mesh.vertices))
    assert (np.diff(carrier.indptr) == 8).all()
    moved = rng.normal(size=mesh.vertices.shape)
    wanted = np.einsum("ka,kac->kc", weights, moved[mesh.hexes[hexes]])
    np.testing.assert_allclose(carrier @ moved, wanted, atol=1e-8)


def test_points_inside_long_thin_hexes_are_found():
    cubes = block((3, 6, 6), bent=0.2)
    mesh = HexMesh(cubes.vertices * [40.0, 1.0, 1.0], cubes.hexes)
    rng = np.random.default_rng(7)
    hexes, xi = rng.integers(len(mesh.hexes), size=300), rng.uniform(size=(300, 3))
    points = np.einsum("ka,kac->kc", shape_functions(xi), mesh.vertices[mesh.hexes[hexes]])
    found = locate_hexes(points, mesh)
    assert found.distance.max() == 0.0
    np.testing.assert_allclose(embed_hexes(points, mesh) @ mesh.vertices, points, atol=1e-9)


def test_any_affine_motion_is_followed_exactly_however_far_outside():
    mesh = block(bent=0.2)
    rng = np.random.default_rng(5)
    points = np.vstack([rng.normal(size=(50, 3)), 100 * rng.normal(size=(50, 3))])
    matrix, shift = rng.normal(size=(3, 3)), rng.normal(size=3)
    carrier = embed_hexes(points, mesh)
    assert locate_hexes(points, mesh).distance.max() > 10
    np.testing.assert_allclose(carrier @ mesh.vertices, points, atol=1e-9)
    moved = carrier @ (mesh.vertices @ matrix.T + shift)
    np.testing.assert_allclose(moved, points @ matrix.T + shift, atol=1e-8)


def test_forces_on_the_surface_keep_their_sum_and_torque():
    surface = sphere(3)
    mesh = voxelise(surface, size=0.2)
    forces = np.random.default_rng(6).normal(size=surface.vertices.shape)
    carried = embed_hexes(surface.vertices, mesh).T @ forces
    np.testing.assert_allclose(carried.sum(axis=0), forces.sum(axis=0), atol=1e-10)
    torque = np.cross(mesh.vertices, carried).sum(axis=0)
    np.testing.assert_allclose(torque, np.cross(surface.vertices, forces).sum(axis=0), atol=1e-10)


@pytest.mark.parametrize("points", [[[0, 0, np.nan]], [[0, 0]], [0, 0, 0], "here"])
def test_points_that_are_none_are_refused(points):
    with pytest.raises(SuppleError, match="coordinates"):
        embed_hexes(points, block())


def test_nothing_is_embedded_in_an_inverted_hex():
    mesh = block((1, 1, 1))
    inverted = HexMesh(mesh.vertices, mesh.hexes[:, [4, 5, 6, 7, 0, 1, 2, 3]])
    with pytest.raises(MeshError, match="hex 0 is inverted"):
        embed_hexes([[0.0, 0, 0]], inverted)
