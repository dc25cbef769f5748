"""What a ball on a reduced body is set up with: numbers, checked, and how stiff contact may be."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array, checked_number
from supple.dynamics.sphere_tree import LONGEST
from supple.dynamics.stvk import StvkSimulator
from supple.errors import SuppleError

__all__ = ["MOST_DAMPED", "check_stiffness", "checked_amount", "checked_places", "lightness_of"]

Floats = NDArray[np.float64]

#: Contact of stiffness k is stable while k h² times the sum of inverse masses is less than 4;
#: a ball in a corner meets several.
STIFFEST = 1.0
#: The part of a closing speed that contact may take away in a step.
MOST_DAMPED = 0.5


def checked_amount(name: str, value: float) -> float:
    """A finite number that is not negative; of mass and stiffness, positive."""
    number = checked_number(name, value)
    least = 1e-12 if name in ("mass", "stiffness") else 0.0
    if not least <= number <= 1e12:
        raise SuppleError(f"{name} must be {'positive' if least else 'at least 0'}, not {value}")
    return number


def checked_places(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Finite numbers of this shape whose squares are numbers too."""
    given = checked_array(name, value, shape)
    if given.size and np.abs(given).max() > LONGEST:
        raise SuppleError(f"{name}: too far away for distances to be numbers")
    return given


def lightness_of(simulator: StvkSimulator, mass: float) -> float:
    """The sum of the ball's inverse mass and that of the body where it gives way most, in 1/kg."""
    model = simulator.model
    basis = model.surface_basis
    eased = np.linalg.solve(model.mass, basis.reshape(-1, model.modes).T).T.reshape(basis.shape)
    return 1 / mass + float(np.einsum("vir,vir->v", basis, eased).max())


def check_stiffness(dt: float, lightness: float, stiffness: float) -> None:
    """Refuse contact so stiff that steps would feed it energy."""
    most = STIFFEST / (dt**2 * lightness)
    if stiffness > most:
        raise SuppleError(
            f"a contact stiffness of {stiffness:g} N/m is too much for steps of {dt:g} s; use at "
            f"most {most:.3g} N/m, smaller steps or a heavier ball"
        )
