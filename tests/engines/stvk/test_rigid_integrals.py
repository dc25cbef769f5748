"""Moments of free bodies: against sums over all vertices, edits, truncation, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.material import Material
from supple.engines.stvk.free.simulator import FreeStvkSimulator
from supple.engines.stvk.model import StvkModel
from supple.errors import SuppleError
from supple.mesh.hexes import HexMesh
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam

MESH = beam(size=(1.0, 0.5, 0.3), cells=(3, 2, 1))


def two_densities(n):
    second = np.arange(n) % 3 == 2
    return Material("stvk", young=1e5, density=np.where(second, 400.0, 1100.0))


def random_model(mesh=MESH, material=None, r=5):
    shapes = np.random.default_rng(0).standard_normal((len(mesh.vertices), 3, r))
    elements = len(mesh.tets) if isinstance(mesh, TetMesh) else len(mesh.hexes)
    return StvkModel.from_basis(mesh, material or two_densities(elements), 0.1 * shapes)


def moments_of(model):
    return model.inertia.moments(model.groups.density, model.weight_parts)


def two_bricks():
    corners = np.array([[x, y, z] for z in (0, 1) for y in (0, 1) for x in (0, 1, 2)], float)
    corners *= [0.2, 0.1, 0.15]
    return HexMesh(corners, [[0, 1, 4, 3, 6, 7, 10, 9], [1, 2, 5, 4, 7, 8, 11, 10]])


@pytest.mark.parametrize("kind", ["tets", "hexahedra"])
def test_moments_are_sums_over_all_vertices_with_the_mass_matrix(kind):
    mesh = MESH if kind == "tets" else two_bricks()
    model = random_model(mesh)
    material = two_densities(len(model.groups.of_element))
    body = HexBody(mesh, material) if isinstance(mesh, HexMesh) else ElasticBody(mesh, material)
    matrix = body.mass()
    masses = matrix.diagonal()[::3]
    found, rng = moments_of(model), np.random.default_rng(1)
    q, v, omega = rng.standard_normal(5), rng.standard_normal(5), rng.standard_normal(3)
    x = model.positions(q)
    centre = masses @ x / masses.sum()
    y = x - centre
    assert found.mass == pytest.approx(masses.sum(), rel=1e-13)
    np.testing.assert_allclose(found.centre_at(q), centre, atol=1e-13)
    inertia = np.einsum("v,vk,vk,ab->ab", masses, y, y, np.eye(3))
    inertia -= np.einsum("v,va,vb->ab", masses, y, y)
    np.testing.assert_allclose(found.inertia_at(q), inertia, atol=1e-12 * inertia.max())
    # Every product of velocities at once: kinetic energy, with the matrix of all unknowns.
    velocity = np.cross(omega, y) + (model.basis - found.drift) @ v
    energy = 0.5 * velocity.ravel() @ (matrix @ velocity.ravel())
    mine = omega @ found.inertia_at(q) @ omega / 2 + v @ found.shape_mass @ v / 2
    assert mine + omega @ found.coupling_at(q) @ v == pytest.approx(energy, rel=1e-12)
    spin = np.einsum("v,va->a", masses, np.cross(y, velocity))
    np.testing.assert_allclose(
        found.inertia_at(q) @ omega + found.coupling_at(q) @ v, spin, rtol=1e-11
    )
    # What is left of the mass when the best rigid motion is taken from a deformation.
    arms = np.concatenate([np.eye(3)[None] + np.zeros((len(y), 1, 1)), -_crosses(y)], axis=2)
    rigid, moved = arms.reshape(-1, 6), (model.basis @ v).ravel()
    best = np.linalg.solve(rigid.T @ (matrix @ rigid), rigid.T @ (matrix @ moved))
    left = moved - rigid @ best
    assert v @ found.deforming_mass_at(q) @ v == pytest.approx(left @ (matrix @ left), rel=1e-11)


def _crosses(y):
    """(n, 3, 3): y × as matrices."""
    made = np.zeros((len(y), 3, 3))
    made[:, [2, 0, 1], [1, 2, 0]] = y[:, [0, 1, 2]]
    made[:, [1, 2, 0], [2, 0, 1]] = -y[:, [0, 1, 2]]
    return made


def test_mass_and_centre_are_those_of_the_consistent_mass_matrix_and_inertia_tends_to_its():
    apart = []
    for cells in ((2, 2, 2), (4, 4, 4)):
        mesh = beam(size=(1.0, 0.5, 0.3), cells=cells)
        material = Material("stvk", density=700.0)
        matrix = ElasticBody(mesh, material).mass(lumped=False)
        found = moments_of(random_model(mesh, material, r=1))
        along, x = np.tile(np.eye(3), (len(mesh.vertices), 1)), mesh.vertices
        assert found.mass == pytest.approx(along[:, 0] @ (matrix @ along[:, 0]), rel=1e-12)
        first = along.T @ (matrix @ x.ravel())
        np.testing.assert_allclose(found.mass * found.centre, first, rtol=1e-12)
        turn = np.cross([0.0, 0.0, 1.0], x - found.centre).ravel()
        wanted = turn @ (matrix @ turn)
        assert wanted == pytest.approx(found.mass * (1.0**2 + 0.5**2) / 12, rel=1e-9)
        apart.append(found.inertia_at(np.zeros(1))[2, 2] / wanted - 1)
    assert apart[1] == pytest.approx(2 / 4**2)  # of lumped masses, four cells along an axis
    assert apart[0] == pytest.approx(2 / 2**2)


def assert_same_moments(a, b, tolerance=1e-12):
    for mine, wanted in (
        (a.mass, b.mass),
        (a.drift, b.drift),
        (a.shape_mass, b.shape_mass),
        *zip(a.inertia_terms, b.inertia_terms, strict=True),
        *zip(a.coupling_terms, b.coupling_terms, strict=True),
    ):
        np.testing.assert_allclose(mine, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


def test_another_density_equals_a_rebuild():
    material = two_densities(len(MESH.tets))
    model = random_model()
    there = model.groups.of_element == 1
    changed = replace(material, density=np.where(there, 2500.0, material.density))
    rebuilt = StvkModel.from_basis(MESH, changed, model.basis)
    edited = model.with_material(1, density=2500.0)
    assert_same_moments(moments_of(edited), moments_of(rebuilt))
    np.testing.assert_allclose(moments_of(edited).centre, moments_of(rebuilt).centre, atol=1e-13)


def test_truncation_equals_a_rebuild_on_the_truncated_basis():
    model = random_model()
    rebuilt = StvkModel.from_basis(MESH, two_densities(len(MESH.tets)), model.basis[:, :, :3])
    assert_same_moments(moments_of(model.truncate(3)), moments_of(rebuilt))


def local_basis():
    """Each shape moves vertices of one half only, the first those at the far end."""
    basis = np.random.default_rng(3).standard_normal((len(MESH.vertices), 3, 6))
    near = MESH.vertices[:, 0] < 0.5
    basis[near, :, :3] = 0.0
    basis[~near, :, 3:] = 0.0
    return 0.1 * basis


def test_a_free_body_flies_in_a_basis_that_leaves_some_of_it_at_rest():
    model = StvkModel.from_basis(MESH, two_densities(len(MESH.tets)), local_basis()[:, :, :3])
    assert not model.basis[MESH.vertices[:, 0] < 0.5].any()
    assert FreeStvkSimulator(model).model is model  # where it was refused as held


@pytest.mark.parametrize("fixed", [(), [0, 5]])
def test_fixed_vertices_stay_fixed_with_any_number_of_shapes(fixed):
    basis, material = local_basis(), two_densities(len(MESH.tets))
    basis[list(fixed)] = 0.0
    model = StvkModel.from_basis(MESH, material, basis, fixed=fixed)
    for modes in (1, 3, 6):
        rebuilt = StvkModel.from_basis(MESH, material, basis[:, :, :modes], fixed=fixed)
        cut = model.truncate(modes).inertia
        assert cut is not None
        assert rebuilt.inertia is not None
        assert cut.held == rebuilt.inertia.held == len(fixed)


def test_a_body_that_is_fixed_does_not_fly_and_its_basis_does_not_move_what_is_fixed():
    basis, material = local_basis(), two_densities(len(MESH.tets))
    with pytest.raises(SuppleError, match="moves 2 of the fixed vertices"):
        StvkModel.from_basis(MESH, material, basis, fixed=[0, 5])
    basis[[0, 5]] = 0.0
    mask = np.isin(np.arange(len(basis)), [0, 5])
    model = StvkModel.from_basis(MESH, material, basis, fixed=mask)
    with pytest.raises(SuppleError, match="fixed at 2 vertices"):
        FreeStvkSimulator(model)
    built = StvkModel.build(MESH, material, modes=2, fixed=[0, 5, 9, 9])
    assert built.inertia is not None
    assert built.inertia.held == 3


def test_a_body_far_from_the_origin_has_the_same_moments():
    model = random_model()
    far = TetMesh(MESH.vertices + np.array([3e3, -2e3, 5e3]), MESH.tets)
    moved = StvkModel.from_basis(far, two_densities(len(MESH.tets)), model.basis)
    assert_same_moments(moments_of(moved), moments_of(model), 1e-10)


def test_moments_come_back_from_a_file_and_old_files_are_read_without(tmp_path):
    model = random_model()
    model.save(tmp_path / "body.stvk")
    back = StvkModel.load(tmp_path / "body.stvk")
    assert back.inertia is not None
    for name in ("about", "volumes", "first", "second", "mixed", "shapes", "held"):
        np.testing.assert_array_equal(getattr(back.inertia, name), getattr(model.inertia, name))
    replace(model, inertia=None).save(tmp_path / "old.stvk")
    assert StvkModel.load(tmp_path / "old.stvk").inertia is None
    assert StvkModel.load(tmp_path / "old.stvk").truncate(2).inertia is None
