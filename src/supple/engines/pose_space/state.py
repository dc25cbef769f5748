"""What a step leaves for the next, of one body or of many in the same arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.argument_tables import ArgumentTable
from supple.engines.pose_space.contact.skin_contact import ContactMemory
from supple.engines.pose_space.runtime import RuntimeModel

__all__ = ["FLAGS", "KNOWN", "KNOWS", "SEEN", "STEPS", "State", "StateArrays", "states_of"]


#: Columns of `StateArrays.counts`.
STEPS, KNOWN, SEEN, KNOWS, FLAGS = range(5)


class StateArrays(NamedTuple):
    """Where n bodies are and how they move, a row each."""

    q: Floats
    v: Floats
    a: Floats
    """(n, r) reduced coordinates, velocities and accelerations."""
    q_before: Floats
    v_before: Floats
    """(n, r) a step before: methods of two steps look back."""
    q_frame: Floats
    """(n, r) coordinates at the end of the step before the last."""
    pose: Floats
    root: Floats
    """(n, s) and (n, 4, 4), as last given."""
    weights: Floats
    """(n, m) of the poses there."""
    before: Floats
    earlier: Floats
    """(n, c′, 3) inertial vertices in the world at the end of the last two steps."""
    held: Floats
    """(n, c′, 3) their accelerations at the last."""
    swing: Floats
    swing_before: Floats
    """(n, c′, 3) their displacements in the world at the end of the last two steps."""
    counts: Ints
    """(n, 5). STEPS since the reset; KNOWN, over how many of them q and v are continuous; SEEN, of
    how many, up to two, the swings tell; KNOWS of the rest shape's motion nothing, its velocity,
    or its acceleration too; FLAGS of the last step."""


class State:
    """One body's rows; see `StateArrays`.

    Parameters
    ----------
    bound, index
        `StateArrays` of all bodies, and which of them it is.
    """

    def __init__(self, bound: ArgumentTable, index: int) -> None:
        self.bound, self.index = bound, index
        arrays: StateArrays = bound.content  # type: ignore[assignment]
        self.arrays = arrays
        self.q, self.v, self.a = arrays.q[index], arrays.v[index], arrays.a[index]
        self.pose, self.root = arrays.pose[index], arrays.root[index]
        self.weights, self.counts = arrays.weights[index], arrays.counts[index]
        self.contact = ContactMemory()

    def __reduce__(self) -> tuple[type[State], tuple[ArgumentTable, int], dict[str, ContactMemory]]:
        # A copy's rows must be views of its own arrays; copied one by one they would be arrays.
        return State, (self.bound, self.index), {"contact": self.contact}

    @property
    def steps(self) -> int:
        """How many were taken since the reset."""
        return int(self.counts[STEPS])

    @property
    def flags(self) -> int:
        """Which limits acted in the last step."""
        return int(self.counts[FLAGS])

    def set_coordinates(self, q: Floats | None, v: Floats | None) -> None:
        """Put the flesh elsewhere, or give it another velocity."""
        if q is not None:
            self.q[:] = self.arrays.q_before[self.index] = q
        if v is not None:
            self.v[:] = self.arrays.v_before[self.index] = v
        self.a[:] = 0
        self.counts[KNOWN] = self.counts[SEEN] = 0
        self.contact.forget()

    def start(self, pose: Floats, root: Floats, now: Floats, earlier: Floats) -> None:
        """Forget all motion but that of the rest shape: its vertices now and a step earlier."""
        arrays, i = self.arrays, self.index
        for field in (arrays.q, arrays.v, arrays.a, arrays.q_before, arrays.v_before):
            field[i] = 0
        for field in (arrays.q_frame, arrays.held, arrays.swing, arrays.swing_before):
            field[i] = 0
        self.pose[:], self.root[:] = pose, root
        arrays.before[i], arrays.earlier[i] = now, earlier
        self.counts[:] = 0
        self.counts[SEEN], self.counts[KNOWS] = 2, 1
        self.contact.forget()


def states_of(runtime: RuntimeModel, n: int) -> list[State]:
    """States of n bodies, in arrays that they share."""
    r, c, m = runtime.n_modes, len(runtime.inertial.rows), runtime.n_poses
    rest = np.asarray(runtime.model.rig.rest_pose, np.float64)
    coordinates = ("q", "v", "a", "q_before", "v_before", "q_frame")
    fields = ("before", "earlier", "held", "swing", "swing_before")
    arrays = StateArrays(
        **{name: np.zeros((n, r)) for name in coordinates},
        pose=np.tile(rest, (n, 1)),
        root=np.tile(np.eye(4), (n, 1, 1)),
        weights=np.zeros((n, m)),
        **{name: np.zeros((n, c, 3)) for name in fields},
        counts=np.zeros((n, 5), np.int64),
    )
    bound = ArgumentTable(arrays)
    return [State(bound, i) for i in range(n)]
