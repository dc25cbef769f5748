"""Contact of a model's skin with itself, as one thread steps it."""

from __future__ import annotations

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.tables import ArgumentTable
from supple.engines.common.self_contact.detection import DetectionScratch, add_sample_forces
from supple.engines.pose_space.runtime import RuntimeModel
from supple.engines.pose_space.self_contact.contact_forces import (
    ROWS,
    SelfContactArguments,
    SelfContactScratch,
    detect_skin,
    press_skin,
)
from supple.engines.pose_space.self_contact.sample_tables import shared_tables
from supple.engines.pose_space.state import BodyState
from supple.engines.pose_space.step import Workspace
from supple.engines.pose_space.step_options import StepOptions
from supple.errors import warn


class SelfContact:
    """Contact of a model's skin with itself, in any state; one per thread."""

    def __init__(self, runtime: RuntimeModel, options: StepOptions, stiffness: float) -> None:
        self._tables, placed = shared_tables(runtime)
        self._placement = placed.fork()
        self._dt, self._stiffness, self.count = options.dt, stiffness, 0
        self._work: Workspace | None = None
        self._warned = False
        samples, r = self._tables.samples, runtime.n_modes
        padded = -(-r // 8) * 8
        self.scratch = SelfContactScratch(
            DetectionScratch.of(samples),
            np.zeros(r),
            np.zeros(r),
            np.zeros(self._tables.columns.shape, np.float32),
            np.zeros((len(samples.vertices), 4), np.float32),
            np.zeros(len(samples.vertices), np.uint8),
            np.zeros(3, np.float32),
            np.zeros(max(self._tables.columns.shape[1], 8), np.float32),
            np.zeros(ROWS * padded, np.float32),
            np.zeros(padded * padded, np.float32),
            np.zeros(len(samples.vertices)),
        )

    def detect(self, state: BodyState, pose: Floats, work: Workspace) -> int:
        """Find contacts for flesh that keeps its velocity; return their number."""
        self._placement.place(pose, self.scratch.detection.x)
        if self._work is not work:
            self._work = work
            arguments = SelfContactArguments(self._tables, work.blend, work.system, self.scratch)
            self._arguments = ArgumentTable(arguments)
        left_out = self.scratch.detection.counts[3:]
        left_out[:] = 0
        self.count = int(detect_skin(self._arguments, state.q, state.v, self._dt))
        if left_out.any() and not self._warned:
            self._warned = True
            warn("so much skin is near other skin that some contacts with itself are left out")
        return self.count

    def forces(self) -> tuple[Ints, Floats]:
        """Return the skin vertices (s,) of the samples, and forces (s, 3) on them in N.

        Forces are those of the last step at detection, in the root's frame.
        """
        forces = np.zeros((len(self._tables.samples.vertices), 3))
        if self.count > 0:
            add_sample_forces(self.scratch.detection, self.scratch.pushes, forces)
        return self._tables.samples.vertices, forces

    def press(self, work: Workspace, alone: bool) -> None:
        """Add penalty forces and stiffness of the contacts to the system.

        `alone` tells that no other contacts have been added in this step.
        """
        if alone:
            work.system.pressing[0] = 0
        if self.count > 0:
            press_skin(self._arguments, self.count, self._dt, self._stiffness)
