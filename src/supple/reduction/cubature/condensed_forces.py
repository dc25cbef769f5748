"""Forces of a body as a basis sees them, what the basis cannot hold following at rest.

A body that may only move in a basis is stiffer than it is. With u = U q + c, where c is what else
flesh does at the same q = (UᵀMU)⁻¹UᵀMu, the reduced force is Uᵀf(u), not Uᵀf(Uq).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.linalg.sparse import PrincipalSubmatrix
from supple.reduction.compliance import Compliance
from supple.reduction.cubature.samples import dense_basis, projected
from supple.reduction.regions.region import Region
from supple.reduction.shaking import Shaking

__all__ = ["condensed_stiffness", "seen_in_basis"]


def seen_in_basis(
    body: ElasticBody, basis: Sequence[Floats], regions: Sequence[Region], shaking: Shaking
) -> tuple[Floats, Floats]:
    """Return q (r, t) nearest by mass to displacements, and the forces Uᵀf (r, t) there."""
    masses = body.vertex_masses()
    columns = dense_basis(basis, regions, body.n_vertices)
    weighed = masses[:, None, None] * columns
    gram = np.tensordot(columns, weighed, ((0, 1), (0, 1)))
    momenta = np.tensordot(weighed, shaking.displacements, ((0, 1), (0, 1)))
    return np.linalg.solve(gram, momenta), projected(basis, regions, shaking.forces)


def condensed_stiffness(
    body: ElasticBody, rest: Floats, basis: Sequence[Floats], regions: Sequence[Region]
) -> Floats:
    """G (UᵀM K⁻¹ MU)⁻¹ G with G = UᵀMU, (r, r): the least energy of all u with UᵀMu = G q.

    For modes that is UᵀKU; where U holds a motion in part only, it is less.
    """
    moving = np.unique(np.concatenate([region.vertices for region in regions]))
    unknowns = (3 * moving[:, None] + np.arange(3)).reshape(-1)
    stiffness = body.stiffness(rest, rest, out=body.pattern.zeros())  # threads may share the body
    part = PrincipalSubmatrix(stiffness, unknowns)
    pattern = part.pattern
    inner = sp.csr_array(
        (part.take(stiffness.data), pattern.indices, pattern.indptr), shape=pattern.shape
    )
    masses = body.vertex_masses()[moving]
    columns = dense_basis(basis, regions, body.n_vertices)[moving].reshape(len(unknowns), -1)
    weighed = np.repeat(masses, 3)[:, None] * columns
    gram = columns.T @ weighed
    given_way = weighed.T @ Compliance(inner, masses)(weighed)
    condensed = gram @ np.linalg.solve((given_way + given_way.T) / 2, gram)
    return (condensed + condensed.T) / 2
