"""Deferred Jacobians (hahn2013 §4.3): a rig's Jacobian is kept while the rig is nearly linear."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from supple.arrays import Floats
from supple.checks import checked_number
from supple.engines.rig_space.flesh_rig import LinearisedRig
from supple.errors import SuppleError

#: Energy in J/kg of a rig's nonlinearity in a step above which its Jacobian is renewed: in the
#: paper's solvers, and in ours. A trunk that swings by 25 % of the height differed from the one
#: with a Jacobian at each iteration by 0.9 and 0.26 % at most, with 12 and 22 calls of its rig per
#: step instead of 55; a belly by 0.01 %, with 4.6 calls instead of 147.
MOST_ENERGY, USUAL_ENERGY = 1e-4, 1e-5


def checked_deferral(deferral: float | None) -> float | None:
    """Return a bound in J/kg, or None for the default; SuppleError if it is negative."""
    if deferral is None:
        return None
    bound = checked_number("deferral", deferral)
    if not bound >= 0:
        raise SuppleError(f"deferral is {bound:g} J/kg; use 0 or more, such as {USUAL_ENERGY:g}")
    return bound


class DeferredJacobian:
    """A rig that is linearised at the guess of each stage, with a Jacobian that is kept.

    The error of the linearisation, ΔE = 1/(2τ²) dᵀMd (eq. 7), is estimated at the guess before a
    stage, which takes two evaluations of the rig, and measured at its end, which takes one. M has
    the `masses` (n,) of the vertices, and `bound` is in J/kg.
    """

    def __init__(self, rig: LinearisedRig, masses: Floats, bound: float) -> None:
        self.rig, self._masses = rig, masses
        self._most = bound * float(masses.sum())
        self._last, self._guess = np.zeros((2, len(rig.entries)))

    def reset(self, offsets: Floats) -> None:
        """Discard the Jacobian; the next stage starts at `offsets` (k,)."""
        self.rig.linear, self.rig.has_jacobian = False, False
        self._last[:] = offsets

    def begin(self, guess: Floats, tau: float) -> bool:
        """Linearise at the guess (k,) of a stage of length τ; return whether with a new Jacobian.

        The prediction of the error is that of the kept Jacobian from the last parameters to the
        guess, which is an extrapolation of past states.
        """
        rig, renews = self.rig, True
        self._guess[:] = guess
        if rig.has_jacobian:
            rig.move_exactly(self._last)
            predicted = rig.predicted(rig.positions, self._last, guess)
            rig.move_exactly(guess)
            renews = self._energy(predicted, tau) > self._most
        if renews:
            rig.move_exactly(guess, jacobian=True)
        rig.linearise(guess)
        return renews

    def renew(self) -> None:
        """Linearise at the guess of the stage with a new Jacobian."""
        self.rig.move_exactly(self._guess, jacobian=True)
        self.rig.linearise(self._guess)

    def end(self, offsets: Floats, tau: float) -> bool:
        """Evaluate the rig at the end of a stage; return whether it was nearly linear."""
        self.rig.move(offsets)
        linear = self.rig.positions.copy()
        self.rig.move_exactly(offsets)
        self._last[:] = offsets
        return self._energy(linear, tau) <= self._most

    def _energy(self, linear: Floats, tau: float) -> float:
        linear -= self.rig.positions
        squares = np.einsum("ni,ni->n", linear, linear)
        return 0.5 / tau**2 * float(self._masses @ squares)

    def state_arrays(self) -> dict[str, Floats]:
        """Return the arrays that later stages depend on, by name."""
        has = np.array([float(self.rig.has_jacobian)])
        return {"jacobian": self.rig.jacobian, "last": self._last, "has_jacobian": has}

    def set_state(self, state: Mapping[str, Floats]) -> None:
        """Set the arrays that `state_arrays` returned."""
        self.rig.linear, self.rig.has_jacobian = False, bool(state["has_jacobian"][0])
        self.rig.jacobian[:], self._last[:] = state["jacobian"], state["last"]
