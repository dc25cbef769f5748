"""What a free body's simulator is set up with: its moments, checked, and forces on its surface."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.linalg as sl
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, numbers, shown
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.rigid_integrals import RigidMoments
from supple.errors import SuppleError
from supple.maths.rotations import to_matrix

__all__ = ["free_moments", "roots_of", "surface_loads"]

Forces = ArrayLike | Mapping[int, ArrayLike]

#: The least part of a shape's kinetic energy that must not be that of a rigid motion.
_RIGID = 1e-8


def free_moments(model: StvkModel) -> RigidMoments:
    """The moments of a body that nothing holds, in a basis that moves nothing rigidly."""
    if not isinstance(model, StvkModel):
        raise SuppleError(f"a FreeStvkSimulator needs a StvkModel, not {shown(model)}")
    inertia = model.inertia
    if inertia is None:
        raise SuppleError(
            "the model has no moments of inertia (its file is of an earlier version, or it was "
            "not built of a mesh); build it again"
        )
    if inertia.held:
        raise SuppleError(
            f"the body is held at {inertia.held} vertices and cannot fly; build it without "
            "fixed=, or step it with a StvkSimulator"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        moments = inertia.moments(model.groups.density, model.weight_parts)
    if not (np.isfinite(moments.inertia_terms[0]).all() and np.isfinite(moments.shape_mass).all()):
        raise SuppleError("the body's mass is beyond all numbers; give it another density")
    try:
        own = moments.deforming_mass_at(np.zeros(model.modes))
        left = float(sl.eigh(own, model.mass, eigvals_only=True)[0])
    except (np.linalg.LinAlgError, ValueError):
        left = np.nan
    if not left > _RIGID:
        raise SuppleError(
            "the basis moves the body rigidly, which its root does already; leave such columns "
            "out, as StvkModel.build does"
        )
    return moments


def surface_loads(model: StvkModel, forces: Forces, steps: int | None) -> tuple[Floats, Ints]:
    """Forces (1, k, 3), or (steps, k, 3) where each has its own, and vertices (k,) they act on."""
    count = len(model.surface_basis)
    if not isinstance(forces, Mapping):
        given = numbers("forces", forces)
        shape = (count, 3) if given.ndim < 3 or steps is None else (steps, count, 3)
        acting = checked_array("forces", given, shape)
        return acting.reshape(-1, count, 3), np.arange(count)
    rows = []
    for vertex, force in forces.items():
        if not (isinstance(vertex, int | np.integer) and 0 <= vertex < count):
            raise SuppleError(
                f"force on vertex {vertex!r:.40}, which is not there; the surface has "
                f"vertices 0 to {count - 1}"
            )
        given = numbers(f"force on vertex {vertex}", force)
        whole = (3,) if given.ndim < 2 or steps is None else (steps, 3)
        rows.append(checked_array(f"force on vertex {vertex}", given, whole).reshape(-1, 3))
    vertices = np.array(list(forces), np.int64)
    length = max((len(row) for row in rows), default=1)
    stacked = np.empty((length, len(rows), 3))
    for number, row in enumerate(rows):
        stacked[:, number] = row
    return stacked, vertices


def roots_of(flight: Floats, q: Floats, moments: RigidMoments) -> Floats:
    """(t, 4, 4) from mass centres and quaternions (t, 7), and q (t, r)."""
    roots = np.zeros((len(flight), 4, 4))
    if len(flight):
        roots[:, :3, :3] = to_matrix(flight[:, 3:])
    local = moments.centre + q @ moments.drift.T
    roots[:, :3, 3] = flight[:, :3] - np.einsum("tab,tb->ta", roots[:, :3, :3], local)
    roots[:, 3, 3] = 1.0
    return roots
