"""The one simulation that all pages show, in a thread of its own."""

from __future__ import annotations

import time
import warnings
from collections.abc import Hashable
from typing import Any, Literal

import numpy as np

from supple.app.viewer.meter import Meter
from supple.app.viewer.requests import Ending, Requests, clamped
from supple.app.viewer.sessions.limb_handle import Limbs
from supple.app.viewer.sessions.recording import Recorder
from supple.app.viewer.sessions.skin_springs import Hands, grab
from supple.app.viewer.sessions.surroundings import PoseFollower, Surroundings
from supple.arrays import Floats, Singles
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.errors import SuppleError, SuppleWarning
from supple.playing.bake import bake_plan, bake_simulator, chosen_motion, stable_stiffness
from supple.playing.player import Player
from supple.rig.character import Character

__all__ = ["Session"]


State = Literal["playing", "paused", "posing"]


class Session(Requests):
    """A character that plays a motion, or holds a pose, and is poked.

    Everything that changes it is asked for with the methods of `Requests`, which any thread may
    call; it happens before the next step. `advance` steps; nothing else does.

    Parameters
    ----------
    model
        What to simulate.
    motion
        Name of the motion to begin with; by default the first.
    character
        Whose motions to play; by default the model's. What has none wiggles.
    flesh, damping
        As for `supple.bake`.

    Attributes
    ----------
    state
        ``"playing"`` a motion; ``"paused"``: time stands still; ``"posing"``: the pose is held, and
        the flesh lives on.
    ending
        What follows the end of a motion. ``"loop"``: the cycle goes on; ``"restart"``: it begins
        anew; ``"stop"``: it pauses. They play what `supple bake`, with ``--loop`` or without,
        bakes, to the bit; a cycle is as many steps as there, which may be a little longer or
        shorter than those of a motion that ends.
    skin
        (n̄, 3) as of the last `refresh`.
    pose, root
        (s,), (4, 4) at the last step.
    """

    def __init__(
        self,
        model: PoseSpaceModel,
        motion: str | None = None,
        *,
        character: Character | None = None,
        flesh: str = "normal",
        damping: float = 1.0,
    ) -> None:
        super().__init__()
        self.model = model
        own = Character(model.name, model.surface, model.rig, dict(model.motions))
        self.character = character or own
        first = chosen_motion(self.character, motion)
        self.motions = self.character.motions | {first.name: first}
        self.meter = Meter()
        self.recorder = Recorder(model)
        self.state: State = "posing"
        self.speed = 1.0
        self.limits: tuple[str, ...] = ()
        self._flesh: dict[str, Any] = {"flesh": flesh, "damping": damping}
        self._stiffer = 1.0
        self._calm: dict[tuple[str, bool], float] = {}
        self.simulator: PoseSpaceSimulator = bake_simulator(model, **self._flesh)
        self.surroundings = Surroundings(model)
        self.skin = np.empty((len(model.surface.vertices), 3), np.float32)
        self.pose, self.root = model.rig.rest_pose.copy(), np.eye(4)
        self._follower = PoseFollower(self.pose)
        self.hands = Hands()
        self.limbs = Limbs(model.rig)
        self._posed = True
        """Whether the pose is our own, rather than the motion's."""
        self.motion = first
        self.ending: Ending = "loop"
        self._cue()
        if not self.player.seamless:  # it would jump
            self.ending = "restart"
            self._cue()
        self.state = "playing"
        self.surroundings.stand_on(self.rig_skin())
        self.refresh()

    # What they see -----------------------------------------------------------------------

    @property
    def dt(self) -> float:
        """Seconds of a step: the same for every computer and page, and that of `supple bake`."""
        return self.simulator.dt

    @property
    def time(self) -> float:
        """Seconds of the motion."""
        return self.player.time

    @property
    def target(self) -> Floats:
        """(s,) the pose that is gone to, or where it is."""
        return (self._follower.target if self.state == "posing" else self.pose).copy()

    def joint_place(self, joint: str) -> Floats:
        """(3,) where a joint of `limbs` is now, in the world."""
        return self.root[:3, :3] @ self.limbs.place(joint, self.pose) + self.root[:3, 3]

    def rig_skin(self) -> Singles:
        """(n̄, 3) the skin as the rig alone has it, in the world."""
        place = self.model.rig(self.pose)
        return (place @ self.root[:3, :3].T + self.root[:3, 3]).astype(np.float32)

    def refresh(self) -> None:
        """Bring `skin` up to date."""
        begun, processor = time.perf_counter(), time.thread_time()
        self.surface(self.skin)
        self.meter.skinned(time.perf_counter() - begun, time.thread_time() - processor)
        self.changed = False

    # What happens ------------------------------------------------------------------------

    def advance(self, steps: int = 1) -> None:
        """Step so often, unless paused; what was asked for goes first."""
        self.settle_requests()
        for _ in range(steps):
            if self.state == "paused":
                return
            self._step()

    def _step(self) -> None:
        begun, processor = time.perf_counter(), time.thread_time()
        if self.state == "playing" and self.player.finished:
            if self.ending == "stop":
                self.state, self.changed = "paused", True
                return
            self.player.restart()
        self.surroundings.step(self.simulator, self.dt, self._walked())
        forces = self.hands.forces(self.surface(self.skin)) if self.hands else None
        if self.state == "playing":
            did = self.player.step(forces=forces)
            self._follow_player()
        else:
            self.pose = self._follower.step(self.dt)
            did = self.simulator.step(self.pose, self.root, forces)
        self.limits = () if did is None else did.limits  # None where a cut begins anew
        self.recorder.step(self)
        self.changed = True
        self.meter.stepped(time.perf_counter() - begun, time.thread_time() - processor)

    def surface(self, out: Singles | None = None) -> Singles:
        """The skin now, (n̄, 3), where the clip has it: a loop's walk comes back every cycle."""
        if self._posed:
            return self.simulator.surface(out)
        return self.player.surface(out)

    def _walked(self) -> Floats:
        """(4, 4) from where the clip is to where the simulator has walked in a loop's cycles."""
        if self._posed:
            return np.eye(4)
        return self.player.moved

    def _follow_player(self) -> None:
        frame = self.player.frame
        self.pose, self.root = self.player.motion.poses[frame], self.player.motion.roots[frame]

    def _choose(self, name: str) -> None:
        self.motion = self.motions[name]
        self._cue()
        self.state = "playing"

    def _cue(self, at: float | None = None) -> None:
        """Have the motion ready, from its beginning or from a time of it."""
        try:
            self.player = self._new_player(self.ending == "loop")
        except SuppleError:
            if self.ending != "loop":
                raise
            self.ending = "restart"  # too short to go round
            self.player = self._new_player(False)
        if at is not None:
            self.player.seek(at)
        self._posed = False
        self._follow_player()

    def _new_player(self, loop: bool) -> Player:
        plan = bake_plan(self.character, self.motion, loop=loop)
        if plan.dt != self.dt:
            self._step_by(plan.dt)
        which = self.motion.name, loop
        if which not in self._calm:  # as firm as bake makes it, so that they agree
            self._calm[which] = stable_stiffness(self.model, plan, **self._flesh)
        self.stiffen(self._stiffer)
        with warnings.catch_warnings():  # one sees that a motion jumps
            warnings.simplefilter("ignore", SuppleWarning)
            return plan.player(self.simulator)

    def stiffen(self, factor: float) -> None:
        """Make flesh so many times as stiff as it is baked; to be asked for."""
        calm = self._calm.get((self.motion.name, self.ending == "loop"), 1.0)
        self.simulator.stiffness = clamped(factor, 1e-2, 1e2) * calm
        self._stiffer = factor

    def _step_by(self, dt: float) -> None:
        """Have a simulator that is as it was made, but for its step."""
        old = self.simulator
        changed: dict[str, Any] = {"gravity_mode": old.gravity_mode, "stiffness": old.stiffness}
        self.simulator = bake_simulator(self.model, dt, **self._flesh, **changed)
        self.surroundings.renew()

    def _end_with(self, ending: Ending) -> None:
        self.ending = ending
        self._cue()
        self.state = "playing"

    def _play(self) -> None:
        if self._posed:  # the pose is elsewhere: flesh begins anew
            self._cue(self.player.time)
        elif self.player.finished:
            self.player.restart()
        self.state = "playing"

    def _pause(self) -> None:
        self.state = "paused"

    def _seek(self, seconds: float) -> None:
        self.player.seek(float(seconds))
        self._posed = False
        self._follow_player()
        if self.state == "posing":
            self.state = "paused"

    def _hold(self) -> None:
        if self.state == "posing":
            return
        velocity = None
        if not self._posed:
            if self.state == "playing" and self.player.frame > 0:
                velocity = (self.pose - self.player.motion.poses[self.player.frame - 1]) / self.dt
            self._stay()  # to where the clip is, from where a loop has walked
        self._follower = PoseFollower(self.pose, velocity)
        self._posed = True
        self.state = "posing"

    def _stay(self) -> None:
        """Let the simulator be at our pose and root, with the flesh as it is."""
        q, velocity = self.simulator.q, self.simulator.velocity
        self.simulator.reset(self.pose, self.root)
        self.simulator.q, self.simulator.velocity = q, velocity
        self.surroundings.renew()

    def _pose_to(self, pose: Floats) -> None:
        if pose.shape != self.pose.shape or not np.isfinite(pose).all():
            raise SuppleError(f"a pose has {len(self.pose)} finite numbers")
        self._hold()
        self._follower.target = pose

    def _reach(self, joint: str, where: Floats) -> None:
        if where.shape != (3,) or not np.isfinite(where).all():
            return
        there = self.root[:3, :3].T @ (where - self.root[:3, 3])
        self._pose_to(self.limbs.reached(joint, self.target, there))

    def _take(self, hand: Hashable, where: Floats) -> None:
        if self.state == "paused":  # who pulls wants to see something move
            self._hold()
        self.surface(self.skin)
        self.hands[hand] = grab(self.model, self.skin, where, self.dt)

    def _pull(self, hand: Hashable, where: Floats) -> None:
        if hand in self.hands and np.isfinite(where).all():
            self.hands[hand].target = where

    def _release(self, hand: Hashable) -> None:
        self.hands.pop(hand, None)
