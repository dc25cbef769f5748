"""What every Saint Venant–Kirchhoff model has, and what is read from a file must be shown to.

A checksum says that a file is as it was written, not who wrote it: a mass that is none would be
found deep in a simulator, or not at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError, SuppleError
from supple.reduction.cubic_model import checked_mass
from supple.reduction.rigid_integrals import RigidIntegrals
from supple.reduction.stvk_model import StvkModel

__all__ = ["check_physical"]

Floats = NDArray[np.float64]

#: What rounding may take from a moment, or put between two that are the same, as a part of them.
_ROUNDING = 1e-9


def check_physical(model: StvkModel) -> None:
    """Refuse a model that no body has: of bad mass, size, shapes or inertia.

    Raises
    ------
    FormatError
        With one line that says which.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond all numbers is refused
        _check_shapes(model)
        _check_mass(model)
        if model.inertia is not None:
            _check_inertia(model, model.inertia)


def _refused(what: str) -> FormatError:
    return FormatError(f"{what}, which no model has; build the model again")


def _check_shapes(model: StvkModel) -> None:
    if not (len(model.rest) and np.ptp(model.rest, axis=0).any()):
        raise _refused("has all vertices at one point")
    still = ~model.basis.any(axis=(0, 1))
    if still.any():
        raise _refused(f"has a column of zeros in its basis (column {int(still.argmax())})")


def _check_mass(model: StvkModel) -> None:
    for number, part in enumerate(model.mass_parts):
        if not _semidefinite(part):
            raise _refused(f"has a mass of group {number} that is not symmetric or not positive")
    try:
        checked_mass(model.mass, model.modes)
    except SuppleError as error:
        raise FormatError(f"{error}; build the model again") from error


def _check_inertia(model: StvkModel, inertia: RigidIntegrals) -> None:
    if not (inertia.volumes > 0).all():
        raise _refused("has groups without volume")
    if not 0 <= inertia.held <= len(model.rest):
        raise _refused(f"has {inertia.held} of {len(model.rest)} vertices held")
    arms = inertia.first[:, :, None] * inertia.first[:, None, :]
    for number, second in enumerate(inertia.second):
        spread = second - arms[number] / inertia.volumes[number]  # about the group's own centre
        if not (_semidefinite(second) and _semidefinite(spread, float(np.trace(second)))):
            raise _refused(f"has second moments of group {number} that are not positive")
    # Products of shapes are symmetric, and those along one axis add up to the mass.
    shapes = inertia.shapes
    _check_same("products of shapes", shapes, shapes.transpose(0, 2, 1, 4, 3))
    _check_same("products of shapes", np.einsum("gaaij->gij", shapes), model.mass_parts)
    moments = inertia.moments(model.groups.density, model.weight_parts)
    if not _semidefinite(moments.inertia_terms[0], strict=True):
        raise _refused("has an inertia that is not positive")


def _check_same(what: str, mine: Floats, wanted: Floats) -> None:
    if not np.abs(mine - wanted).max() <= _ROUNDING * np.abs(wanted).max():
        raise _refused(f"has {what} that contradict each other")


def _semidefinite(matrix: Floats, size: float = 0.0, *, strict: bool = False) -> bool:
    """Whether a matrix is symmetric and has no negative direction, but for rounding."""
    size = max(size, float(np.abs(matrix).max()))
    if not (np.isfinite(size) and np.abs(matrix - matrix.T).max() <= _ROUNDING * size):
        return False
    lowest = float(np.linalg.eigvalsh(matrix / size if size else matrix)[0])
    return lowest > 0 if strict else lowest >= -_ROUNDING
