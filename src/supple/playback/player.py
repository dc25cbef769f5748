"""Player of a motion with flesh: baking and viewing step any engine by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_number, shown
from supple.dynamics.character_inputs import CharacterInputs, Forces
from supple.engines.engine import CharacterEngine, StepState
from supple.engines.optional_parts import Resumable
from supple.errors import SuppleError
from supple.maths.rotations import from_matrix, to_matrix
from supple.playback.cycle import StepTable, cycle_table, once_table
from supple.playback.obstacles.recording import lead
from supple.rig.inverse_skinning import SkinTransfer
from supple.rig.motion.motion import Motion


class Player:
    """Player that steps a simulator through a motion with a constant time step.

    Parameters
    ----------
    simulator
        Simulator of any character engine, such as `supple.Simulator` makes. Its `dt` is the step.
        It may be changed between steps (obstacles, say), but stepped by the player only.
    motion
        Motion, or the name of one of the model's.
    loop
        Continue with the first pose after the last: curves are smooth across the seam, and the
        root continues from where the cycle ended, so that the seam adds no inertial forces. A
        cycle has an integer number of steps; to fit, its duration changes by at most half a step.
        Where the rig does not end as it began, it jumps, and the flesh is moved with it.
    ahead
        Also pass the next step's pose to the simulator as ``ahead=``, which for example
        `FullCharacterSimulator.step` accepts.
    start, end
        Seconds of the motion; by default all of it.
    multiple
        Number of sub-steps per original step. The number of steps of a motion that is played once
        is a multiple of it, so that the motion ends where it ends with undivided steps.

    Attributes
    ----------
    simulator, loop
        The parameters.
    motion
        Poses and roots at the steps of a cycle, at seconds of the clip. They are smooth, so that
        inertial forces are finite, and move the flesh.
    shown
        Poses and roots of the file's motion at the same steps, at which the skin is shown.
    frame
        Number of steps done in this cycle, 0 to `n_steps`.
    cycle
        Number of complete cycles.
    """

    def __init__(
        self,
        simulator: CharacterEngine,
        motion: Motion | str,
        *,
        loop: bool = False,
        ahead: bool = False,
        start: float | None = None,
        end: float | None = None,
        multiple: int = 1,
    ) -> None:
        model = getattr(simulator, "model", None)
        if model is None or not hasattr(model, "rig"):
            raise SuppleError(f"a Player needs a character's simulator, not {shown(simulator)}")
        self.simulator, self.loop, self._ahead = simulator, bool(loop), bool(ahead)
        clip = CharacterInputs(model).motion(motion, model.motions)
        self._table: StepTable
        if loop:
            size = model.surface.size
            self._table = cycle_table(clip, model.rig, size, simulator.dt, start, end)
        else:
            self._table = once_table(clip, simulator.dt, start, end, multiple)
        self.motion = self._table.motion
        self.shown = self._table.steps.shown or self.motion
        self._transfer = SkinTransfer(model.rig, model.surface.triangles)
        self.frame, self.cycle = 0, 0
        self._anew = {0, *self.motion.cuts}
        self._moved = np.eye(4)
        self.restart()

    def __repr__(self) -> str:
        return f"Player({self.motion!r}, at {self.time:.3g} s)"

    @property
    def dt(self) -> float:
        """Seconds of a step."""
        return self.simulator.dt

    @property
    def n_steps(self) -> int:
        """Number of steps from the first pose to the last."""
        return self._table.n_steps

    @property
    def time(self) -> float:
        """Current time in the clip, in s."""
        return float(self.motion.times[self.frame])

    @property
    def finished(self) -> bool:
        """True at the last pose; never in a loop."""
        return not self.loop and self.frame == self.n_steps

    @property
    def seamless(self) -> bool:
        """Whether the cycle ends where it begins, so that a loop does not jump."""
        return self._table.displacement is not None

    @property
    def moved(self) -> Floats:
        """Transform (4, 4) of the root by the complete cycles of a loop."""
        return self._moved.copy()

    def restart(self) -> None:
        """Restart at the first pose, undeformed and with the velocity of the motion."""
        self.frame, self.cycle, self._moved = 0, 0, np.eye(4)
        first = self.motion.poses[0], self.motion.roots[0]
        self._lead(jump=True)
        self.simulator.reset(*first, before=self._table.before)

    def seek(self, time: float) -> None:
        """Restart at the step nearest to a time of the clip, in seconds."""
        seconds, times = checked_number("time", time), self.motion.times
        frame = int(np.argmin(np.abs(times - np.clip(seconds, times[0], times[-1]))))
        if frame == 0:
            self.restart()
            return
        self.frame, self.cycle, self._moved = frame, 0, np.eye(4)
        self._lead(jump=True)
        before = None
        if frame not in self._anew and frame not in self._table.steps.jumps:
            before = self.motion.poses[frame - 1], self.motion.roots[frame - 1]
        self.simulator.reset(self.motion.poses[frame], self.motion.roots[frame], before=before)

    def step(self, forces: Forces | None = None) -> StepState | None:
        """Advance by `dt`; after the last pose the rig stays there and the flesh comes to rest.

        Parameters
        ----------
        forces
            Forces (3,) in N in world space, by skin vertex.

        Returns
        -------
        StepState or None
            Report of the simulator; None at a cut, where the flesh restarts, and at a jump of the
            motion, with which the flesh is moved.
        """
        if self.finished:
            return self.simulator.step(forces=forces)
        if self.frame == self.n_steps:
            self.wrap()
        frame = self.frame + 1
        pose, root = self.motion.poses[frame], self.motion.roots[frame]
        if self.cycle and self.seamless:
            root = self._moved @ root
        self._lead(frame)
        if frame in self._anew:
            self.simulator.reset(pose, root, before=self._table.steps.before(frame))
            self.frame = frame
            return None
        if frame in self._table.steps.jumps:
            before = self._table.before_step(frame)
            self.simulator.teleport(pose, root, before=self._walked(before))
            self.frame = frame
            return None
        ahead = {"ahead": self._after(frame)} if self._ahead else {}
        state = self.simulator.step(pose, root, self._rotated(forces), **ahead)
        self.frame = frame
        return state

    def _lead(self, frame: int | None = None, *, jump: bool = False) -> None:
        """Move objects with a path to their place at a frame, by default the current one."""
        time = float(self.motion.times[self.frame if frame is None else frame])
        lead(self.simulator, time, self.dt, self._moved, jump=jump)

    def _walked(self, before: tuple[Floats, Floats] | None) -> tuple[Floats, Floats] | None:
        """Return a pose and a root of the clip, with the root moved to the current cycle."""
        if before is None or not (self.cycle and self.seamless):
            return before
        return before[0], self._moved @ before[1]

    def _after(self, frame: int) -> tuple[Floats, Floats] | None:
        """Return pose and root one step after a frame; None at a cut, a jump or the end."""
        to_cycle, coming = self._moved, frame + 1
        if frame == self.n_steps:
            if not (self.loop and self.seamless):
                return None
            displacement = self._table.displacement
            to_cycle, coming = displacement @ to_cycle, 1  # type: ignore[operator]
        if coming in self._anew or coming in self._table.steps.jumps:
            return None
        root = self.motion.roots[coming]
        if frame == self.n_steps or (self.cycle and self.seamless):
            root = to_cycle @ root
        return self.motion.poses[coming], root

    def pose_before(self) -> tuple[Floats, Floats] | None:
        """Return pose and root one step earlier; extrapolated at the start, a cut or a jump."""
        frame = self.frame
        if frame == 0:
            return self._walked(self._table.before)
        if frame in self._anew or frame in self._table.steps.jumps:
            return self._walked(self._table.before_step(frame))
        return self._walked((self.motion.poses[frame - 1], self.motion.roots[frame - 1]))

    def state(self) -> dict[str, Floats]:
        """Return the place in the motion, and the state of the simulator (a `Resumable`)."""
        place = {"place": np.array([float(self.frame), float(self.cycle)]), "moved": self.moved}
        return place | {f"flesh.{name}": each for name, each in self._resumable().state().items()}

    def resume(self, state: Mapping[str, Floats]) -> None:
        """Resume from a state of a player of the same motion."""
        self._resumable().resume(without_prefix("flesh.", state))
        frame, cycle = checked_array("place of a player", state["place"], (2,)).tolist()
        self.frame, self.cycle = int(frame), int(cycle)
        self._moved = checked_array("displacement of cycles", state["moved"], (4, 4)).copy()

    def _resumable(self) -> Resumable:
        if not isinstance(self.simulator, Resumable):
            raise SuppleError(f"{shown(self.simulator)} cannot store and resume its state")
        return self.simulator

    def wrap(self) -> None:
        """Go from the end of a cycle to its start without a time step; elsewhere do nothing.

        `step` calls it as well. The skin moves from the end of the motion to its start.
        """
        if not self.loop or self.frame != self.n_steps:
            return
        displacement = self._table.displacement
        if displacement is None:
            first = self.motion.poses[0], self.motion.roots[0]
            self.simulator.teleport(*first, before=self._table.before)
        elif not np.array_equal(displacement, np.eye(4)):
            self._moved = displacement @ self._moved
            # Orthonormalised, so that rounding does not accumulate over many cycles.
            self._moved[:3, :3] = to_matrix(from_matrix(self._moved[:3, :3]))
        self.frame, self.cycle = 0, self.cycle + 1
        self._lead(jump=True)

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, (n̄, 3) float32: a new array, or `out`.

        The pose is from `shown`, and the root from the clip: each cycle of a walk begins
        at the same place.
        """
        skin = self.simulator.surface(out)
        if self.cycle and self.seamless and not np.array_equal(self._moved, np.eye(4)):
            rotation, shift = self._moved[:3, :3], self._moved[:3, 3]
            skin[...] = (skin.astype(np.float64) - shift) @ rotation
        self._table.steps.show(self._transfer, self.frame, skin)
        return skin

    def _rotated(self, forces: Forces | None) -> Forces | None:
        """Rotate forces from the clip's frame to the current cycle's."""
        rotation = self._moved[:3, :3]
        if not forces or np.array_equal(rotation, np.eye(3)):
            return forces
        return {vertex: rotation @ np.asarray(force, float) for vertex, force in forces.items()}


def without_prefix(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries whose names begin with a prefix, by the rest of the name."""
    return {name[len(prefix) :]: each for name, each in state.items() if name.startswith(prefix)}
