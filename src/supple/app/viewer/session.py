"""The one simulation that all pages show, in a thread of its own."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.app.viewer.meter import Meter
from supple.app.viewer.posing import PoseFollower
from supple.app.viewer.pulling import Pull, grab
from supple.app.viewer.recording import Recorder
from supple.app.viewer.surroundings import Surroundings
from supple.dynamics.baking import bake_simulator, chosen_motion
from supple.dynamics.playing import Player
from supple.dynamics.pose_space import Simulator
from supple.errors import SuppleError, SuppleWarning
from supple.reduction.model import PoseSpaceModel
from supple.rig.character import Character

__all__ = ["DT", "ENDINGS", "Session"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

#: Seconds of a step: the same for every computer and every page, and that of `supple bake`.
DT = 1 / 90
State = Literal["playing", "paused", "posing"]
Ending = Literal["loop", "restart", "stop"]
ENDINGS: tuple[Ending, ...] = ("loop", "restart", "stop")


class Session:
    """A character that plays a motion, or holds a pose, and is poked.

    Everything that changes it is asked for with methods that any thread may call; it happens
    before the next step. `advance` steps; nothing else does.

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
        What follows the end of a motion. ``"loop"``: the cycle goes on, as `supple bake --loop`
        has it; ``"restart"``: it begins anew; ``"stop"``: it pauses. The last two play what
        `supple bake` bakes, to the bit.
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
        self.model = model
        own = Character(model.name, model.surface, model.rig, dict(model.motions))
        self.character = character or own
        first = chosen_motion(self.character, motion)
        self.motions = self.character.motions | {first.name: first}
        self._flesh: dict[str, Any] = {"flesh": flesh, "damping": damping}
        self.meter = Meter()
        self.recorder = Recorder(model, DT)
        self.state: State = "posing"
        self.speed = 1.0
        self.gravity = "relative"
        self.limits: tuple[str, ...] = ()
        self.simulator = self._simulator()
        self.surroundings = Surroundings(model)
        self.skin = np.empty((len(model.surface.vertices), 3), np.float32)
        self.pose, self.root = model.rig.rest_pose.copy(), np.eye(4)
        self._follower = PoseFollower(self.pose)
        self._pulls: dict[Hashable, Pull] = {}
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.changed = True
        self._posed = True
        """Whether the pose is our own, rather than the motion's."""
        self.motion = first
        self.player = self._new_player(loop=True)
        # A motion that ends as it began can go on; others would jump.
        self.ending: Ending = "loop" if self.player.seamless else "restart"
        self._cue()
        self._become("playing")
        self.surroundings.stand_on(self.rig_skin())
        self.refresh()

    # What pages ask for ------------------------------------------------------------------

    def ask(self, what: Callable[[], None]) -> None:
        """Have it done before the next step."""
        self._asked.put(what)

    def play(self) -> None:
        """Go on with the motion."""
        self.ask(self._play)

    def pause(self) -> None:
        """Let time stand still."""
        self.ask(lambda: self._become("paused"))

    def hold(self) -> None:
        """Hold the pose where it is; the flesh lives on."""
        self.ask(self._hold)

    def seek(self, seconds: float) -> None:
        """Be at a time of the motion, with flesh that has not moved yet."""
        self.ask(lambda: self._seek(seconds))

    def choose(self, motion: str) -> None:
        """Play another motion, from its beginning."""
        self.ask(lambda: self._take_motion(motion))

    def end_with(self, ending: Ending) -> None:
        """Say what follows the end of the motion, which begins anew."""
        self.ask(lambda: self._set_ending(ending))

    def pose_to(self, pose: ArrayLike) -> None:
        """Go to a pose, quickly but softly, and hold it."""
        target = np.array(pose, np.float64)
        self.ask(lambda: self._pose_to(target))

    def take(self, hand: Hashable, point: ArrayLike) -> None:
        """Take hold of the skin nearest to a point of the world."""
        where = np.array(point, np.float64)
        self.ask(lambda: self._take(hand, where))

    def pull(self, hand: Hashable, target: ArrayLike) -> None:
        """Pull what that hand holds."""
        where = np.array(target, np.float64)
        self.ask(lambda: self._pull(hand, where))

    def release(self, hand: Hashable) -> None:
        """Let go."""
        self.ask(lambda: self._release(hand))

    def set_gravity(self, mode: str) -> None:
        """One of the simulator's gravity modes."""
        self.ask(lambda: self._set_gravity(mode))

    def set_stiffness(self, factor: float) -> None:
        """How many times as stiff as it was built; needs `can_stiffen`."""
        self.ask(lambda: self._set_stiffness(factor))

    @property
    def can_stiffen(self) -> bool:
        """Whether the simulator re-weights stiffness as it runs."""
        return hasattr(self.simulator, "stiffness")

    # What they see -----------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Seconds of the motion."""
        return self.player.time

    @property
    def hands(self) -> dict[Hashable, Pull]:
        """Who holds what."""
        return dict(self._pulls)

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

    def settle_requests(self) -> str | None:
        """Do what was asked for; the first thing that could not be done, in a line."""
        trouble = None
        while True:
            try:
                what = self._asked.get_nowait()
            except Empty:
                return trouble
            try:
                what()
            except SuppleError as error:
                trouble = trouble or str(error)
            self.changed = True

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
        self.surroundings.step(self.simulator, DT, self._walked())
        forces = self._forces()
        if self.state == "playing":
            did = self.player.step(forces=forces)
            self._follow_player()
        else:
            self.pose = self._follower.step(DT)
            did = self.simulator.step(self.pose, self.root, forces)
        self.limits = () if did is None else did.limits  # None where a cut begins anew
        self.recorder.step(self)
        self.changed = True
        self.meter.stepped(time.perf_counter() - begun, time.thread_time() - processor)

    def _forces(self) -> dict[int, Floats] | None:
        if not self._pulls:
            return None
        self.surface(self.skin)
        total: dict[int, Floats] = {}
        for pull in self._pulls.values():
            for vertex, force in pull.forces(self.skin).items():
                total[vertex] = total[vertex] + force if vertex in total else force
        return total

    def surface(self, out: Singles | None = None) -> Singles:
        """The skin now, (n̄, 3), where the clip has it: a loop's walk comes back every cycle."""
        if self._posed:
            return self.simulator.surface(out)
        return self.player.surface(out)

    def _walked(self) -> Floats:
        """(4, 4) from where the clip is to where the simulator has walked in a loop's cycles."""
        if self._posed:
            return np.eye(4)
        return self.player._moved

    def _follow_player(self) -> None:
        frame = self.player.frame
        self.pose, self.root = self.player.motion.poses[frame], self.player.motion.roots[frame]

    def _simulator(self) -> Simulator:
        made: Simulator = bake_simulator(self.model, DT, gravity_mode=self.gravity, **self._flesh)
        return made

    def _become(self, state: State) -> None:
        self.state = state

    def _take_motion(self, name: str) -> None:
        self.motion = self.motions[name]
        self._cue()
        self._become("playing")

    def _cue(self, at: float | None = None) -> None:
        """Have the motion ready, from its beginning or from a time of it."""
        self.player = self._new_player(loop=self.ending == "loop")
        if at is not None:
            self.player.seek(at)
        self._posed = False
        self._follow_player()

    def _new_player(self, loop: bool) -> Player:
        with warnings.catch_warnings():  # one sees that a motion jumps
            warnings.simplefilter("ignore", SuppleWarning)
            return Player(self.simulator, self.motion, loop=loop)

    def _set_ending(self, ending: Ending) -> None:
        self.ending = ending
        self._cue()
        self._become("playing")

    def _play(self) -> None:
        if self._posed:  # the pose is elsewhere: flesh begins anew
            self._cue(self.player.time)
        elif self.player.finished:
            self.player.restart()
        self._become("playing")

    def _seek(self, seconds: float) -> None:
        self.player.seek(float(seconds))
        self._posed = False
        self._follow_player()
        if self.state == "posing":
            self._become("paused")

    def _hold(self) -> None:
        if self.state == "posing":
            return
        velocity = None
        if not self._posed:
            if self.state == "playing" and self.player.frame > 0:
                velocity = (self.pose - self.player.motion.poses[self.player.frame - 1]) / DT
            self._carry(self.simulator)  # to where the clip is, from where a loop has walked
        self._follower = PoseFollower(self.pose, velocity)
        self._posed = True
        self._become("posing")

    def _carry(self, old: Simulator) -> None:
        """Let the simulator be at our pose and root, with the flesh as it is in another."""
        q, velocity = old.q, old.velocity
        self.simulator.reset(self.pose, self.root)
        self.simulator.q, self.simulator.velocity = q, velocity
        self.surroundings.renew()

    def _pose_to(self, pose: Floats) -> None:
        if pose.shape != self.pose.shape or not np.isfinite(pose).all():
            raise SuppleError(f"a pose has {len(self.pose)} finite numbers")
        self._hold()
        self._follower.target = pose

    def _take(self, hand: Hashable, where: Floats) -> None:
        if self.state == "paused":  # who pulls wants to see something move
            self._hold()
        self.simulator.surface(self.skin)
        self._pulls[hand] = grab(self.model, self.skin, where, DT)

    def _pull(self, hand: Hashable, where: Floats) -> None:
        if hand in self._pulls and np.isfinite(where).all():
            self._pulls[hand].target = where

    def _release(self, hand: Hashable) -> None:
        self._pulls.pop(hand, None)

    def _set_gravity(self, mode: str) -> None:
        """With a new simulator in the same state: how gravity acts is said when one is made."""
        old, before = self.simulator, self.gravity
        self.gravity = mode
        try:
            self.simulator = self._simulator()
        except SuppleError:
            self.gravity = before
            raise
        if not self._posed:
            self._cue(self.player.time)
        self._carry(old)
        self._set_stiffness(getattr(old, "stiffness", 1.0))

    def _set_stiffness(self, factor: float) -> None:
        if self.can_stiffen:
            simulator: Any = self.simulator
            simulator.stiffness = float(factor)
