"""Forces of a body as a basis sees them, what the basis cannot hold following at rest.

A body that may only move in a basis is stiffer than it is. With u = U q + c, where c is what else
flesh does at the same q = (UᵀMU)⁻¹UᵀMu, the reduced force is Uᵀf(u), not Uᵀf(Uq).
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

__all__ = ["MotionForces", "condensed_stiffness", "motion_forces"]


class MotionForces(NamedTuple):
    """Motion of the whole body as a basis sees it.

    Attributes
    ----------
    q, forces
        (r, t) coordinates nearest by mass to its displacements, and its forces Uᵀf there.
    stiffness
        (r, r) at rest, of a body that moves so; see `condensed_stiffness`.
    held
        (r, r) the same where contacts hold the body, which they do not while it is shaken.
    """

    q: Floats
    forces: Floats
    stiffness: Floats
    held: Floats


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
    free = condensed_stiffness(body, rest, basis, region)
    held = free
    if allowed is not None and allowed.rank:
        held = condensed_stiffness(body, rest, basis, region, allowed)
    return MotionForces(q, columns.T @ forces, free, held)


def condensed_stiffness(
    body: ElasticBody,
    rest: Floats,
    basis: Floats,
    region: Region,
    allowed: NullSpace | None = None,
) -> Floats:
    """G (UᵀM K⁻¹ MU)⁻¹ G with G = UᵀMU, (r, r): the least energy of all u with UᵀMu = G q.

    For modes that is UᵀKU; where U holds a motion in part only, it is less. K⁻¹ keeps to what is
    `allowed`, by default everything.
    """
    stiffness = body.stiffness(rest, rest, out=body.pattern.zeros())  # threads may share the body
    masses = body.vertex_masses()[region.vertices]
    columns = basis.reshape(3 * len(masses), -1)
    weighed = np.repeat(masses, 3)[:, None] * columns
    gram = columns.T @ weighed
    inner = principal_submatrix(stiffness, region.unknowns)
    given_way = weighed.T @ Compliance(inner, masses, allowed)(weighed)
    condensed = gram @ np.linalg.solve((given_way + given_way.T) / 2, gram)
    return (condensed + condensed.T) / 2
