"""Energy of flesh in coordinates of handles, and of any other basis."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from supple.elastic.densities.dispatch import MATERIALS
from supple.elastic.material import Material
from supple.engines.soft_skeleton.flesh.deformation_bases import three_coordinates
from supple.engines.soft_skeleton.flesh.flesh_energy import (
    add_flesh_terms,
    add_tet_forces,
    flesh_tables,
    nodal_weights,
)
from supple.scenes.bodies.beam import beam

MESH = beam(cells=(4, 2, 2))


def reaches(rng: np.random.Generator, handles: int = 5) -> sp.csr_array:
    drawn = rng.random((len(MESH.vertices), handles)) * (
        rng.random((len(MESH.vertices), handles)) < 0.6
    )
    return sp.csr_array(0.1 * drawn)


def some_shapes(rng: np.random.Generator, nodal: bool) -> list[sp.csr_array]:
    """Of handles, or of coordinates that move vertices any way."""
    found = three_coordinates(reaches(rng))
    if nodal:
        return found
    return [
        sp.csr_array((rng.random(len(each.data)) * 0.1, each.indices, each.indptr), each.shape)
        for each in found
    ]


def terms(material, tables, phi, wanted=2, first=2):
    m = len(phi)
    gradient, hessian = np.zeros(m + first), np.zeros((m + first, m + first))
    energy = add_flesh_terms(material.code, 1.5, tables, phi, first, gradient, hessian, wanted)
    assert not gradient[:first].any()
    assert not np.tril(hessian, -1).any()
    full = np.triu(hessian) + np.triu(hessian, 1).T
    return energy, gradient[first:], full[first:, first:]


@pytest.mark.parametrize("nodal", [True, False])
@pytest.mark.parametrize("kind", MATERIALS)
def test_forces_and_stiffness_are_derivatives_of_the_energy(kind, nodal):
    rng = np.random.default_rng(1)
    material = Material(kind, young=1e3, poisson=0.4)
    shapes = some_shapes(rng, nodal)
    tets = np.arange(0, len(MESH.tets), 2)
    tables = flesh_tables(MESH, material, shapes, tets, 1 + rng.random(len(tets)))
    assert bool(tables.gradients.size) is nodal
    phi = 0.01 * rng.standard_normal(shapes[0].shape[1])
    _, gradient, hessian = terms(material, tables, phi, 3)
    each = np.zeros((len(tets), len(phi)))
    add_tet_forces(material.code, tables, phi, each)
    np.testing.assert_allclose(1.5 * each.sum(axis=0), gradient, atol=1e-9)
    way = rng.standard_normal(len(phi))
    way /= np.linalg.norm(way)
    step = 1e-5
    up, down = (terms(material, tables, phi + sign * step * way, 3) for sign in (1, -1))
    assert (up[0] - down[0]) / (2 * step) == pytest.approx(gradient @ way, rel=1e-6)
    np.testing.assert_allclose(
        (up[1] - down[1]) / (2 * step), hessian @ way, rtol=1e-6, atol=1e-6 * np.abs(hessian).max()
    )


@pytest.mark.parametrize("kind", ["neo-hookean", "yeoh", "saturating"])
@pytest.mark.parametrize("far", [0.02, 0.5])
def test_coordinates_of_handles_strain_tets_as_any_others(kind, far):
    rng = np.random.default_rng(2)
    material = Material(kind, young=1e3, poisson=0.4)
    shapes = three_coordinates(reaches(rng))
    tets = np.arange(len(MESH.tets))
    compact = flesh_tables(MESH, material, shapes, tets, np.ones(len(tets)))
    # An entry that is almost nothing: no longer x, y and z of handles.
    shapes[0].data[shapes[0].data == 0] = 1e-300
    general = flesh_tables(MESH, material, shapes, tets, np.ones(len(tets)))
    assert general.strains.size
    assert not compact.strains.size
    phi = far * rng.standard_normal(shapes[0].shape[1])
    for one, other in zip(
        terms(material, compact, phi), terms(material, general, phi), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(one).max())
    # Far from rest every tet's part is still positive semi-definite.
    energy, gradient, hessian = terms(material, compact, phi)
    assert np.linalg.eigvalsh(hessian).min() > -1e-9
    without = terms(material, compact, phi, 6)
    assert without[0] == 0.0 < energy
    np.testing.assert_array_equal(without[1], gradient)
    np.testing.assert_array_equal(without[2], hessian)


def test_handles_are_known_by_their_coordinates():
    rng = np.random.default_rng(3)
    reach = reaches(rng)
    found = nodal_weights(three_coordinates(reach))
    assert found is not None
    np.testing.assert_array_equal(found.toarray(), reach.toarray())
    assert nodal_weights(some_shapes(rng, False)) is None
