"""Reduced forces with static condensation of the displacements that a basis cannot represent.

A body restricted to a basis is too stiff. With u = U q + c, where c is the displacement outside of
the basis at the same q = (UᵀMU)⁻¹UᵀMu, the force at q is that at u, not at U q, and loads act on c,
too. The shapes V = K⁻¹MU (UᵀMK⁻¹MU)⁻¹ UᵀMU, which have the least energy at each unit q, account for
both: Vᵀ(Mü + f(u)) = Vᵀ(load) has the mass VᵀMU = UᵀMU, and for small u the force VᵀKu = VᵀKV q for
any c, so that the equilibrium q is that of the whole body. Inertia and gravity are projected by V;
external forces and contacts on the skin are projected by U, by which the skin moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.linalg.sparse import principal_submatrix
from supple.reduction.compliance import Compliance
from supple.reduction.null_space import NullSpace
from supple.reduction.regions.region import Region
from supple.reduction.shaking import Shaking


class MotionForces(NamedTuple):
    """Motion of the whole body, projected to a basis.

    Attributes
    ----------
    q, forces
        (r, t) mass projection of its displacements, and its forces Vᵀf.
    stiffness
        (r, r) VᵀKV at rest.
    held
        (r, r) the same with contacts, which the simulated motion does not have.
    shapes
        (k, 3, r) V with contacts, by which loads are projected.
    """

    q: Floats
    forces: Floats
    stiffness: Floats
    held: Floats
    shapes: Floats


def motion_forces(
    body: ElasticBody,
    rest: Floats,
    basis: Floats,
    region: Region,
    shaking: Shaking,
    allowed: NullSpace | None = None,
) -> MotionForces:
    """Project a motion to a basis (k, 3, r) of a region; `allowed` has the contacts' null space."""
    rows = len(region.vertices)
    columns = basis.reshape(3 * rows, -1)
    weighted = np.repeat(body.vertex_masses()[region.vertices], 3)[:, None] * columns
    moved, forces = (
        each[region.vertices].reshape(3 * rows, -1).astype(np.float64) for each in shaking
    )
    q = np.asarray(np.linalg.solve(columns.T @ weighted, weighted.T @ moved), np.float64)
    shapes, free = condensed_shapes(body, rest, basis, region)
    projected, held = shapes.reshape(columns.shape).T @ forces, free
    if allowed is not None and allowed.rank:
        shapes, held = condensed_shapes(body, rest, basis, region, allowed)
    return MotionForces(q, projected, free, held, shapes)


def condensed_shapes(
    body: ElasticBody,
    rest: Floats,
    basis: Floats,
    region: Region,
    allowed: NullSpace | None = None,
) -> tuple[Floats, Floats]:
    """Return V (k, 3, r) and VᵀKV = G (UᵀM K⁻¹ MU)⁻¹ G (r, r) with G = UᵀMU.

    For modes these are U and UᵀKU; for other bases the energy is less than with U. K⁻¹ is
    restricted to `allowed` displacements, by default all.
    """
    stiffness = body.stiffness(rest, rest, out=body.pattern.zeros())  # threads may share the body
    masses = body.vertex_masses()[region.vertices]
    columns = basis.reshape(3 * len(masses), -1)
    weighted = np.repeat(masses, 3)[:, None] * columns
    gram = columns.T @ weighted
    inner = principal_submatrix(stiffness, region.unknowns)
    static = Compliance(inner, masses, allowed)(weighted)
    flexibility = weighted.T @ static
    share = np.linalg.solve((flexibility + flexibility.T) / 2, gram)
    condensed = gram @ share
    return (static @ share).reshape(basis.shape), (condensed + condensed.T) / 2
