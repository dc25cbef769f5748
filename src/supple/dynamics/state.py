"""What a step leaves for the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.dynamics.runtime_model import RuntimeModel
from supple.dynamics.skin_contact import ContactMemory

__all__ = ["State"]

Floats = NDArray[np.float64]


class State:
    """Where a body is and how it moves.

    Attributes
    ----------
    q, v, a
        (r,) reduced coordinates, velocities and accelerations.
    pose, root
        (s,) and (4, 4), as last given.
    before, earlier
        (c′, 3) inertial vertices in the world at the end of the last two steps.
    held
        (c′, 3) their accelerations at the last.
    swing, swing_before, q_frame
        (c′, 3) displacements of the same vertices in the world at the end of the last two steps,
        and (r,) coordinates at the end of the one before the last.
    steps
        How many were taken since the reset.
    """

    def __init__(self, runtime: RuntimeModel) -> None:
        r = runtime.n_modes
        self.q, self.v, self.a = np.zeros(r), np.zeros(r), np.zeros(r)
        self.q_before, self.v_before = np.zeros(r), np.zeros(r)
        self.pose = np.array(runtime.model.rig.rest_pose, np.float64)
        self.root = np.eye(4)
        self.weights = np.zeros(runtime.n_poses)
        count = len(runtime.inertial.rows)
        self.before, self.earlier = np.zeros((count, 3)), np.zeros((count, 3))
        self.steps = 0
        #: Steps over which q and v are continuous: methods of two steps look back.
        self.known = 0
        self.held = np.zeros((count, 3))
        self.swing, self.swing_before = np.zeros((count, 3)), np.zeros((count, 3))
        self.q_frame = np.zeros(r)
        #: Of how many steps, up to two, `swing` and `swing_before` tell.
        self.seen = 2
        #: How much is known of the rest shape's motion: nothing, its velocity, its acceleration.
        self.knows = 1
        self.flags = 0
        self.contact = ContactMemory()

    def set_coordinates(self, q: Floats | None, v: Floats | None) -> None:
        """Put the flesh elsewhere, or give it another velocity."""
        if q is not None:
            self.q[:] = self.q_before[:] = q
        if v is not None:
            self.v[:] = self.v_before[:] = v
        self.a[:] = 0
        self.known = self.seen = 0
        self.contact.forget()

    def start(self, pose: Floats, root: Floats) -> None:
        """Forget all motion."""
        for array in (self.q, self.v, self.a, self.q_before, self.v_before, self.q_frame):
            array[:] = 0
        for field in (self.held, self.swing, self.swing_before):
            field[:] = 0
        self.seen = 2
        self.pose[:], self.root[:] = pose, root
        self.steps, self.known, self.knows, self.flags = 0, 0, 1, 0
        self.contact.forget()
