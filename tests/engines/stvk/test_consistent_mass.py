"""Consistent mass of reduced bodies, and mass-PCA in its metric."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from supple import SuppleError
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.material import Material
from supple.engines.stvk import FreeStvkSimulator, StvkModel
from supple.engines.stvk.strain_points import StrainPoints, volume_matrix
from supple.reduction.mass_pca import mass_pca
from supple.scenes.bodies.beam import beam
from supple.scenes.bodies.spoon import CUBE, assemble

SOFT = Material("stvk", young=1e5, density=900.0)
BEAM = beam(cells=(6, 2, 2))
BODIES = [ElasticBody(BEAM, SOFT), HexBody(assemble(5 * CUBE).mesh, SOFT)]


@pytest.mark.parametrize("body", BODIES, ids=["tets", "cubes"])
def test_consistent_mass_is_that_of_the_full_body(body: ElasticBody | HexBody) -> None:
    full = body.mass(lumped=False)
    basis = np.random.default_rng(0).standard_normal((len(body.rest), 3, 4))
    model = StvkModel.from_basis(body.mesh, SOFT, basis, mass="consistent")
    columns = basis.reshape(-1, 4)
    np.testing.assert_allclose(model.mass, columns.T @ (full @ columns), rtol=1e-10)
    ones = np.tile(np.eye(3), (len(body.rest), 1))
    np.testing.assert_allclose(
        model.weight([1.0, 2.0, 3.0]), columns.T @ (full @ (ones @ [1.0, 2.0, 3.0])), atol=1e-9
    )


def test_free_body_of_consistent_mass_has_the_inertia_of_a_box() -> None:
    """Lumped mass is off by 2/n² of n cells along an axis; consistent mass is exact."""
    model = StvkModel.build(BEAM, SOFT, 4, mass="consistent")
    assert model.inertia is not None
    moments = model.inertia.moments(model.groups.density, model.weight_parts)
    sides = np.ptp(BEAM.vertices, axis=0)
    mass = 900.0 * sides.prod()
    exact = mass / 12 * ((sides**2).sum() - sides**2)
    np.testing.assert_allclose(np.diag(moments.inertia_terms[0]), exact, rtol=1e-10)
    simulator = FreeStvkSimulator(model, 1e-3)
    simulator.reset(angular=[0.0, 1.0, 5.0])
    before = simulator.energies()["total"]
    simulator.run(300)
    assert simulator.energies()["total"] == pytest.approx(before, rel=1e-3)


def test_mass_pca_takes_a_mass_matrix() -> None:
    """U is orthonormal in M, in the order of sizes, and best in its metric."""
    rng, n = np.random.default_rng(1), len(BEAM.vertices)
    shapes = rng.standard_normal((3 * n, 7)) * 0.5 ** np.arange(7)
    matrix = volume_matrix(StrainPoints.of(BEAM), "consistent")
    basis, sizes = mass_pca(shapes, matrix, 3)
    heavy = sp.csr_array(sp.kron(matrix, sp.eye_array(3)))
    np.testing.assert_allclose(basis.T @ (heavy @ basis), np.eye(3), atol=1e-10)
    lower = np.linalg.cholesky(heavy.toarray())  # as appendix A prints it
    left, expected, _ = np.linalg.svd(lower.T @ shapes, full_matrices=False)
    np.testing.assert_allclose(sizes, expected[:3], rtol=1e-10)
    printed = np.linalg.solve(lower.T, left[:, :3])
    overlap = np.abs(np.diag(printed.T @ (heavy @ basis)))
    np.testing.assert_allclose(overlap, 1.0, rtol=1e-9)
    masses = np.asarray(volume_matrix(StrainPoints.of(BEAM), "lumped").diagonal())
    lumped, again = mass_pca(shapes, masses, 3), mass_pca(shapes, sp.diags_array(masses), 3)
    np.testing.assert_allclose(np.abs(lumped[0]), np.abs(again[0]), atol=1e-9)


def test_unknown_mass_is_refused() -> None:
    with pytest.raises(SuppleError, match="lumped, consistent"):
        StvkModel.build(BEAM, SOFT, 3, mass="heavy")
    with pytest.raises(SuppleError, match="shape"):
        mass_pca(np.ones((9, 1)), sp.eye_array(5), 1)
