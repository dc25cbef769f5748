"""Forces of a body as a basis sees them, what the basis cannot hold following at rest.

A body that may only move in a basis is stiffer than it is. With u = U q + c, where c is what else
flesh does at the same q = (UᵀMU)⁻¹UᵀMu, the force at q is that at u, not at U q; and loads act on
c, too. Shapes V = K⁻¹MU (UᵀMK⁻¹MU)⁻¹ UᵀMU, the least energy of all with q each a unit, see to
both: Vᵀ(Mü + f(u)) = Vᵀ(load) has the mass VᵀMU = UᵀMU, and for small u the force VᵀKu = VᵀKV q
whatever c is, so that q comes to rest where the whole body has it. Inertia and gravity are seen so;
pushes and contacts on the skin are seen by U, which is how it moves there.
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
    """Motion of the whole body as a basis sees it.

    Attributes
    ----------
    q, forces
        (r, t) coordinates nearest by mass to its displacements, and its forces Vᵀf there.
    stiffness
        (r, r) VᵀKV at rest.
    held
        (r, r) the same where contacts hold the body, which they do not while it is shaken.
    shapes
        (k, 3, r) V there: what loads are seen by.
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
    """See a motion in a basis (k, 3, r) of a region; `allowed` is what contacts leave of it."""
    rows = len(region.vertices)
    columns = basis.reshape(3 * rows, -1)
    weighed = np.repeat(body.vertex_masses()[region.vertices], 3)[:, None] * columns
    moved, forces = (
        each[region.vertices].reshape(3 * rows, -1).astype(np.float64) for each in shaking
    )
    q = np.asarray(np.linalg.solve(columns.T @ weighed, weighed.T @ moved), np.float64)
    shapes, free = condensed_shapes(body, rest, basis, region)
    seen, held = shapes.reshape(columns.shape).T @ forces, free
    if allowed is not None and allowed.rank:
        shapes, held = condensed_shapes(body, rest, basis, region, allowed)
    return MotionForces(q, seen, free, held, shapes)


def condensed_shapes(
    body: ElasticBody,
    rest: Floats,
    basis: Floats,
    region: Region,
    allowed: NullSpace | None = None,
) -> tuple[Floats, Floats]:
    """V (k, 3, r) and VᵀKV = G (UᵀM K⁻¹ MU)⁻¹ G (r, r) with G = UᵀMU, the least energy at q.

    For modes these are U and UᵀKU; where U holds a motion in part only, the energy is less. K⁻¹
    keeps to what is `allowed`, by default everything.
    """
    stiffness = body.stiffness(rest, rest, out=body.pattern.zeros())  # threads may share the body
    masses = body.vertex_masses()[region.vertices]
    columns = basis.reshape(3 * len(masses), -1)
    weighed = np.repeat(masses, 3)[:, None] * columns
    gram = columns.T @ weighed
    inner = principal_submatrix(stiffness, region.unknowns)
    answers = Compliance(inner, masses, allowed)(weighed)
    given_way = weighed.T @ answers
    share = np.linalg.solve((given_way + given_way.T) / 2, gram)
    condensed = gram @ share
    return (answers @ share).reshape(basis.shape), (condensed + condensed.T) / 2
