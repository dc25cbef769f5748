"""An independent library agrees: scikit-fem on the same mesh."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from helpers.scikit_fem_forms import stvk_forms
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import free_unknowns
from supple.elastic.material import Material
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam

skfem = pytest.importorskip("skfem", reason="scikit-fem is the oracle of these tests")
from skfem.models.elasticity import lame_parameters, linear_elasticity  # noqa: E402

YOUNG, POISSON, DENSITY = 1e5, 0.3, 1000.0


def cantilever(cells=(10, 2, 2)) -> tuple[ElasticBody, np.ndarray]:
    mesh = beam(cells=cells)
    moved = mesh.vertices + 0.005 * np.random.default_rng(0).normal(size=mesh.vertices.shape)
    moved[mesh.vertices[:, 0] == 0] = mesh.vertices[mesh.vertices[:, 0] == 0]
    body = ElasticBody(TetMesh(moved, mesh.tets), Material("stvk", YOUNG, POISSON, DENSITY))
    return body, np.flatnonzero(mesh.vertices[:, 0] == 0)


def basis_of(body: ElasticBody, **options):
    mesh = skfem.MeshTet(body.rest.T.copy(), body.mesh.tets.T.copy())
    basis = skfem.Basis(mesh, skfem.ElementVector(skfem.ElementTetP1()), **options)
    order = basis.nodal_dofs.T.reshape(-1)  # their number of our unknown 3v + c
    return basis, order


@skfem.BilinearForm
def mass_form(u, v, w):
    return DENSITY * sum(u[i] * v[i] for i in range(3))


def theirs(form, body: ElasticBody, **options) -> sp.csr_array:
    basis, order = basis_of(body, **options)
    return sp.csr_array(form.assemble(basis).tocsr()[order][:, order])


def relative(a, b) -> float:
    return abs(a - b).max() / abs(b).max()


def test_linear_stiffness_and_both_masses_are_theirs():
    body, _ = cantilever()
    elasticity = linear_elasticity(*lame_parameters(YOUNG, POISSON))
    assert relative(body.stiffness(body.rest), theirs(elasticity, body)) < 1e-10
    assert relative(body.mass(lumped=False), theirs(mass_form, body)) < 1e-10
    # Lumping is quadrature at the vertices.
    corners = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]), np.full(4, 1 / 24)
    assert relative(body.mass(lumped=True), theirs(mass_form, body, quadrature=corners)) < 1e-10


@pytest.mark.parametrize("lumped", [False, True])
def test_ten_lowest_modes_of_a_cantilever_are_theirs(lumped):
    body, fixed = cantilever()
    free = free_unknowns(body, fixed)
    elasticity = linear_elasticity(*lame_parameters(YOUNG, POISSON))
    their_mass = theirs(mass_form, body)
    if lumped:
        their_mass = sp.csr_array(sp.diags_array(np.asarray(their_mass.sum(axis=1)).ravel()))

    def modes(stiffness, mass):
        k, m = (sp.csc_array(a[free][:, free]) for a in (stiffness, mass))
        return spla.eigsh(k, 10, m, sigma=0.0, v0=np.ones(len(free)))

    values, vectors = modes(body.stiffness(body.rest), body.mass(lumped))
    their_values, their_vectors = modes(theirs(elasticity, body), their_mass)
    np.testing.assert_allclose(values, their_values, rtol=1e-6)
    mass = body.mass(lumped)[free][:, free]
    overlap = np.abs(np.einsum("ij,ij->j", vectors, mass @ their_vectors))
    np.testing.assert_allclose(overlap, 1.0, atol=1e-6)


def test_nonlinear_force_and_stiffness_are_theirs():
    """StVK assembled by scikit-fem from its weak form at a large deformation."""
    body, _ = cantilever((4, 2, 2))
    x = body.rest + 0.02 * np.random.default_rng(1).normal(size=body.rest.shape)
    lam, mu = lame_parameters(YOUNG, POISSON)
    basis, order = basis_of(body)
    u = np.empty(3 * body.n_vertices)
    u[order] = (x - body.rest).reshape(-1)
    force_form, stiffness_form = stvk_forms(lam, mu)

    interpolated = basis.interpolate(u)
    force = force_form.assemble(basis, u=interpolated)[order]
    assert relative(body.force(x).reshape(-1), force) < 1e-10
    stiffness = stiffness_form.assemble(basis, u=interpolated).tocsr()[order][:, order]
    assert relative(body.stiffness(x), sp.csr_array(stiffness)) < 1e-10


def test_tip_deflection_converges_to_the_beam_formula():
    length, side, load = 1.0, 1 / 8, 1e-3
    area, inertia = side**2, side**4 / 12
    shear = YOUNG / 2  # ν = 0
    exact = load * length**3 / (3 * YOUNG * inertia) + load * length / (5 / 6 * shear * area)
    errors = []
    for n in (3, 6, 12):
        mesh = beam((length, side, side), (8 * n, n, n))
        body = ElasticBody(mesh, Material("stvk", YOUNG, 0.0))
        free = free_unknowns(body, np.flatnonzero(mesh.vertices[:, 0] == 0))
        tip = np.flatnonzero(mesh.vertices[:, 0] == length)
        # A uniform traction, as the shape functions distribute it over the end face.
        ends = mesh.boundary()[np.isin(mesh.boundary(), tip).all(axis=1)]
        corners = mesh.vertices[ends]
        thirds = np.linalg.norm(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
        ) / (6 * area)
        force = np.zeros((len(mesh.vertices), 3))
        np.add.at(force[:, 1], ends, load * thirds[:, None])
        u = np.zeros(force.size)
        stiffness = sp.csr_array(body.stiffness(body.rest)[free][:, free])
        u[free] = (
            SparseCholesky(stiffness, block=3).factorise(stiffness).solve(force.reshape(-1)[free])
        )
        errors.append(1 - u.reshape(-1, 3)[tip, 1].mean() / exact)
    assert errors[0] > errors[1] > errors[2] > 0  # linear tets are too stiff
    assert errors[2] < 0.03
    order = np.log2(errors[1] / errors[2])
    assert 1.8 < order < 2.2
    assert abs(errors[2] - (errors[1] - errors[2]) / 3) < 0.005  # Richardson's limit
