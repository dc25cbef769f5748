"""Base of the simulators of characters: inputs, time, contact settings, motions, states, copies."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple, Self

from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints, Singles
from supple.dynamics.character_inputs import (
    Before,
    CharacterInputs,
    Forces,
    Given,
    checked_stiffness,
)
from supple.dynamics.friction import checked_friction
from supple.dynamics.motion_steps import motion_steps
from supple.engines.common.state import State, checked_state
from supple.mesh.obstacles import Obstacle, checked_obstacles
from supple.rig.inverse_skinning import SkinTransfer
from supple.rig.motion.motion import Motion

#: Skin vertices (k,) and forces (k, 3) on them in the world.
Loads = tuple[Ints, Floats]


class CharacterStep(NamedTuple):
    """Report of one step."""

    time: float
    """Seconds since the reset."""
    limits: tuple[str, ...]
    """Names of the limits that were applied; empty in a regular step."""
    readings: Mapping[str, Any]
    """Results of the step by name."""


class Copyable:
    """Base of simulators that can be copied and pickled; a copy continues with the same bits.

    Copies share the read-only attributes named in `_shared`. They leave out those named in
    `_rebuilt`, such as memory addresses and threads, which `_rebuild` creates again.
    """

    _shared: ClassVar[tuple[str, ...]] = ("model",)
    _rebuilt: ClassVar[tuple[str, ...]] = ()

    def _rebuild(self) -> None:
        """Create the attributes that copies leave out."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._rebuilt}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._rebuild()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        for name in self._shared:
            value = getattr(self, name)
            memo.setdefault(id(value), value)
        copied.__setstate__(deepcopy(self.__getstate__(), memo))
        return copied

    def __copy__(self) -> Self:
        return deepcopy(self)  # a shallow copy would step the arrays of the original


class CharacterSimulator(Copyable, ABC):
    """Base of the simulators of characters.

    A subclass sets `model`, `_inputs`, `_dt`, and the current `pose` (s,) and `root` (4, 4). It
    counts `_steps` since the reset, or overrides `time`.
    """

    model: Any
    pose: Floats
    root: Floats
    _inputs: CharacterInputs
    _dt: float
    _steps: int
    _stiffness = 1.0
    #: Names of arrays of the state that may be missing, or change their length.
    _varying: ClassVar[tuple[str, ...]] = ()

    @property
    def dt(self) -> float:
        """Seconds from one pose to the next."""
        return self._dt

    @property
    def time(self) -> float:
        """Seconds since the reset."""
        return self._steps * self._dt

    @property
    def stiffness(self) -> float:
        """Factor on the model's stiffness, 0.001 to 1000; may be set between steps."""
        return self._stiffness

    @stiffness.setter
    def stiffness(self, factor: float) -> None:
        self._stiffness = checked_stiffness(factor)
        self._apply_stiffness()

    def _apply_stiffness(self) -> None:
        """Set the stiffness factor of later steps to `_stiffness`."""

    def reset(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Restart undeformed at a pose and root.

        Parameters
        ----------
        pose, root
            (s,) and (4, 4); by default the rest pose and the identity.
        before
            Pose and root one `dt` earlier, which give the initial velocity; the root may be None
            for the same root. By default the body rests.
        """
        self._start(*self._inputs.start(pose, root, before), keep_flesh=False)

    def teleport(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Go to a pose and root with the flesh as it is in the root's frame: no inertia acts.

        Parameters are as for `reset`.
        """
        self._start(*self._inputs.start(pose, root, before), keep_flesh=True)

    def carry(
        self, pose: Given = None, root: Given = None, *, before: Before | None = None
    ) -> None:
        """Call `teleport`; deprecated."""
        warnings.warn("carry() is deprecated; use teleport()", DeprecationWarning, stacklevel=2)
        self.teleport(pose, root, before=before)

    @abstractmethod
    def _start(
        self, pose: Floats, root: Floats, before: tuple[Floats, Floats] | None, *, keep_flesh: bool
    ) -> None:
        """Go to a pose and root, undeformed or with the flesh as it is in the root's frame.

        `before` has pose and root one `dt` earlier; without it the body rests.
        """

    def step(self, pose: Given = None, root: Given = None, forces: Forces | None = None) -> Any:
        """Advance by `dt` and return a report, a `StepState`.

        Parameters
        ----------
        pose, root
            (s,) and (4, 4) at the end of the step; by default they stay.
        forces
            Mapping of skin vertices to forces (3,), in N in the world.

        Raises
        ------
        SuppleError
            For an invalid input; the state is then unchanged.
        """
        inputs = self._inputs
        return self.advance(
            inputs.pose(pose, self.pose),
            inputs.root(root, self.root),
            None if forces is None else inputs.forces(forces),
        )

    @abstractmethod
    def advance(self, pose: Floats, root: Floats, loads: Loads | None) -> Any:
        """Advance the state by `dt` to a checked pose and root; return a report."""

    @abstractmethod
    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin in the world, (n̄, 3) float32: a new array, or `out`."""

    def run(
        self,
        motion: Motion | str,
        *,
        out: Singles | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Singles:
        """Step through a motion; return the skin of all frames, (t, n̄, 3), the first undeformed.

        Parameters
        ----------
        motion
            A motion, or the name of one of the model's. It is resampled to this simulator's
            rate; at a cut the flesh is reset.
        out
            (t, n̄, 3) float32 to write to.
        progress
            Called with the completed part, 0 to 1.
        """
        steps = motion_steps(self._inputs.motion(motion, self.model.motions), self.dt)
        even, transfer = steps.motion, SkinTransfer(self.model.rig, self.model.surface.triangles)
        frames = self._inputs.frames(out, even.n_frames)
        starts = {0, *even.cuts}
        for k in range(even.n_frames):
            pose, root = even.poses[k], even.roots[k]
            if k in starts:
                self.reset(pose, root, before=steps.before(k))
            elif k in steps.jumps:
                self.teleport(pose, root, before=steps.before(k))
            else:
                self.step(pose, root)
            self.surface(frames[k])
            steps.show(transfer, k, frames[k])
            if progress is not None:
                progress((k + 1) / even.n_frames)
        return frames

    def state(self) -> State:
        """Return copies of all arrays that later steps depend on; `resume` continues from them."""
        return State(self._state_arrays())

    def resume(self, state: Mapping[str, ArrayLike]) -> None:
        """Continue from a state of a simulator with the same model and options.

        A state of another model raises a SuppleError and changes nothing.
        """
        self._set_state(checked_state(state, self._state_arrays(), self._varying))

    @abstractmethod
    def _state_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays that later steps depend on, by name; they need not be copies."""

    @abstractmethod
    def _set_state(self, state: State) -> None:
        """Set the arrays of a checked state."""


class ContactSimulator(CharacterSimulator):
    """Base of the simulators of characters whose skin touches obstacles."""

    _friction = 0.0
    _obstacles: tuple[Obstacle, ...] = ()

    @property
    def friction(self) -> float:
        """Coefficient of friction on obstacles; may be set between steps."""
        return self._friction

    @friction.setter
    def friction(self, friction: float) -> None:
        self._friction = checked_friction(friction)
        self._apply_friction()

    def _apply_friction(self) -> None:
        """Set the friction coefficient of later steps to `_friction`."""

    @property
    def obstacles(self) -> tuple[Obstacle, ...]:
        """Solid obstacles in the world that push the skin out; may be set between steps.

        Obstacles of the same number, kinds and order replace the last obstacles as moving
        obstacles. Others are new: skin inside them comes out slowly.
        """
        return self._obstacles

    @obstacles.setter
    def obstacles(self, obstacles: Sequence[Obstacle]) -> None:
        listed = checked_obstacles(obstacles)
        self._apply_obstacles(listed)
        self._obstacles = listed

    def _apply_obstacles(self, obstacles: tuple[Obstacle, ...]) -> None:
        """Set the obstacles of later steps, or raise an error."""
