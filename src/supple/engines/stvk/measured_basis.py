"""Number of linear modes of a basis of derivatives, chosen by the error under static loads.

With too few linear modes a basis lacks directions, with too many it lacks their derivatives, and
locks. Which number is best depends on the body: at 20 vectors the largest error of a spoon was
4.2 % with 6 linear modes, 12.1 % with 8 and 5.5 % with 13.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats
from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.densities.density import lame_parameters
from supple.elastic.material import Material
from supple.engines.stvk.bases import (
    MOST_LINEAR,
    BentModes,
    VibratingBody,
    free_vertices,
    linear_mode_count,
    masses_of,
)
from supple.engines.stvk.coefficients import stvk_parts
from supple.engines.stvk.cubic_model import CubicModel
from supple.engines.stvk.sketch import static_shapes
from supple.engines.stvk.strain_points import MaterialGroups, StrainPoints
from supple.errors import SolverError
from supple.progress import PartDone

#: Numbers of linear modes that are tried, as fractions of the size of the basis.
TRIED = (0.3, 0.4, 0.5, 2 / 3)
#: Pulls of the vertex that moves most, along combinations of the two softest modes there, and
#: displacement of the linear model under each, relative to the body's size.
LOADS, REACH = ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (1.0, 1.0)), 0.5
#: Bodies with more vertices take minutes for static shapes.
MOST_VERTICES = 30_000
#: Fractions of the progress after derivatives, and after static shapes.
_DERIVATIVES_DONE, _STATICS_DONE = 0.3, 0.8


def measured_basis(
    body: ElasticBody | HexBody,
    material: Material,
    order: int,
    count: int,
    *,
    fixed: ArrayLike,
    progress: PartDone,
) -> Floats:
    """Return a `derivative_basis` (n, 3, count) with the best number of linear modes.

    The full body is solved under four strong loads, and bases of several numbers of linear modes
    are compared by their largest error. Free bodies, large ones and those that snap under all loads
    get two fifths of `count`.
    """
    usual, tried = linear_mode_count(count), numbers_tried(count)
    held = len(free_vertices(body, fixed)) < len(body.rest)
    measures = held and len(tried) > 1 and len(body.rest) <= MOST_VERTICES
    most = max(tried) if measures else usual
    bent = BentModes.of(body, most, fixed, progress=lambda part: progress(_DERIVATIVES_DONE * part))
    solved = _solved(body, strong_loads(bent), fixed, progress) if measures else []
    if not solved:
        return bent.basis(count, usual)
    points = StrainPoints.of(body.mesh, order)
    groups = MaterialGroups.of(material, points.n_elements)
    best, least = None, np.inf
    for number, k in enumerate(tried):
        progress(_STATICS_DONE + (1 - _STATICS_DONE) * number / len(tried))
        basis = bent.basis(count, k)
        error = static_error(points, groups, basis, masses_of(body), solved)
        if error < least:
            best, least = basis, error
    return bent.basis(count, usual) if best is None else best


def numbers_tried(count: int) -> list[int]:
    """Return numbers of linear modes, ascending, that give a quarter more than `count` shapes."""
    numbers = {min(MOST_LINEAR, round(part * count)) for part in TRIED}
    return sorted(k for k in numbers if k > 1 and k + k * (k + 1) // 2 >= 1.25 * count)


def strong_loads(bent: BentModes) -> list[Floats]:
    """Return loads (n, 3): pulls of the vertex that the softest mode moves most."""
    modes, rest, count = bent.modes, bent.body.rest, len(LOADS[0])
    size = float(np.linalg.norm(np.ptp(rest, axis=0)))
    shapes = modes.vectors[:, :count].reshape(-1, 3, count)
    pulled = int(np.linalg.norm(shapes[:, :, 0], axis=1).argmax())
    directions = shapes[pulled] / np.linalg.norm(shapes[pulled], axis=0)
    pulls = np.zeros((len(rest), 3, len(LOADS)))
    pulls[pulled] = directions @ np.transpose(LOADS)
    moved = modes.compliance(pulls.reshape(-1, len(LOADS))).reshape(pulls.shape)
    factors = REACH * size / np.linalg.norm(moved, axis=1).max(axis=0)
    return [np.ascontiguousarray(pulls[:, :, k] * factor) for k, factor in enumerate(factors)]


def _solved(
    body: VibratingBody, loads: list[Floats], fixed: ArrayLike, progress: PartDone
) -> list[tuple[Floats, Floats]]:
    """Return loads with their static displacements (n, 3), but for those that snap it."""
    solved, share = [], (_STATICS_DONE - _DERIVATIVES_DONE) / len(loads)
    for k, load in enumerate(loads):
        progress(_DERIVATIVES_DONE + share * k)
        try:
            solved.append((load, static_shapes(body, [load], fixed=fixed)[0]))
        except SolverError:
            continue
    return solved


def static_error(
    points: StrainPoints,
    groups: MaterialGroups,
    basis: Floats,
    masses: Floats,
    solved: list[tuple[Floats, Floats]],
) -> float:
    """Return the largest error of static shapes in a basis, relative to the full displacement.

    `solved` are loads and full displacements (n, 3). Errors are mass-weighted; infinite where no
    equilibrium is found near the full one.
    """
    model = _polynomial(points, groups, basis)
    errors = []
    for load, truth in solved:
        at = model.equilibrium(
            np.einsum("nkr,nk->r", basis, load),
            np.einsum("nkr,nk->r", basis, masses[:, None] * truth),
        )
        if at is None:
            return np.inf
        wrong, right = (((field**2).sum(axis=1) @ masses) for field in (basis @ at - truth, truth))
        errors.append(float(np.sqrt(wrong / right)))
    return max(errors)


def _polynomial(points: StrainPoints, groups: MaterialGroups, basis: Floats) -> CubicModel:
    parts = stvk_parts(points, groups.of_element[points.element], basis)
    mu, lam = lame_parameters(groups.young, groups.poisson)
    weights = np.column_stack([lam, mu])
    return CubicModel(np.tensordot(weights, parts, axes=2))
