"""Character of a session: plays a motion or holds a pose, with the flesh of any engine."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.region_entries import RegionEntry
from supple.app.viewer.session.anatomy_editing import AnatomyEditing
from supple.app.viewer.session.grips import BoneGrip, SkinGrip
from supple.app.viewer.session.obstacles import DraggableObjects, MovingObstacles
from supple.app.viewer.session.parameter_traces import ParameterTraces
from supple.app.viewer.session.posing import DampedFollower, IKHandles
from supple.app.viewer.session.recording import Recorder
from supple.app.viewer.session.session import Actor, State, clamped
from supple.arrays import Floats, Ints, Singles
from supple.engines.engine import CharacterModel, engine_named
from supple.engines.optional_parts import (
    FreeParameters,
    LocalStiffness,
    ParameterSprings,
    RigidObjects,
    SoftContact,
)
from supple.errors import SuppleError, SuppleWarning
from supple.mesh.appearance import Appearance
from supple.playback.bake_model import SCALED_LOADS
from supple.playback.bake_plan import BakePlan, bake_plan, bake_simulator, stable_stiffness
from supple.playback.feel.feel import AS_BUILT, Feel
from supple.playback.motion_choice import chosen_motion
from supple.playback.player import Player
from supple.playback.swing.goals import SwingGoal
from supple.playback.swing.search import found_swing
from supple.progress import unreported
from supple.rig.character import Character
from supple.rig.motion.motion_names import one_name

Ending = Literal["loop", "restart", "stop"]
Grabbed = Literal["flesh", "bone"]
ENDINGS: tuple[Ending, ...] = ("loop", "restart", "stop")

#: Properties of free parameters' springs that can be changed during the simulation.
SPRINGS = ("follow", "firmness", "damping")
#: Options that a new simulator of the character takes over.
PRESERVED = ("gravity_mode", "friction", "self_contact")
#: Optional parts of some engines, by the option that can be set between steps.
SETTABLE = {name: name.replace("_", " ") for name in ("obstacles", *PRESERVED)}


class CharacterActor(Actor):
    """Character that plays a motion or holds a pose.

    The first motion is by default the liveliest, and motions are by default the model's;
    without any, a test motion is played. `engine`, `flesh` and `damping` are options of
    `supple.bake`, `scaled_loads` and `feel` of `bake_simulator`. Obstacles among the further
    options `simulation` stay fixed. With `may_stiffen`, flesh is made stiffer for motions that are
    too violent for it, as in `supple.bake`.

    At the end of a motion, `ending` ``"loop"`` continues with the next cycle, ``"restart"`` starts
    again, undeformed, and ``"stop"`` pauses. The frames equal those of `supple bake` bit for bit,
    with ``--loop`` for a loop. A cycle has a whole number of steps, so its steps may be slightly
    longer or shorter than those of a motion that ends.
    """

    hint = "Drag the skin to pull it; release it to see it swing back."
    slowest = 0.05
    full_colour = 0.02

    def __init__(
        self,
        model: CharacterModel,
        motion: str | None = None,
        *,
        character: Character | None = None,
        engine: str = "pose-space",
        flesh: str = "normal",
        damping: float = 1.0,
        scaled_loads: bool = SCALED_LOADS,
        anatomy: AnatomyEditing | None = None,
        simulation: Mapping[str, Any] | None = None,
        may_stiffen: bool = True,
        feel: Feel = AS_BUILT,
    ) -> None:
        self.model = model
        plain = Character(model.name, model.surface, model.rig, dict(model.motions))
        self.character = character or plain
        self.motion = chosen_motion(self.character, motion)
        self.motions = self.character.motions | {self.motion.name: self.motion}
        self._engine = row = engine_named(engine, "character")
        # Colours of the file apply to a model with the same triangles.
        same = np.array_equal(model.surface.triangles, self.character.surface.triangles)
        self.appearance: Appearance | None = self.character.appearance if same else None
        self.anatomy = anatomy
        self.flesh: dict[str, Any] = {  # options of `bake_simulator`
            "flesh": flesh,
            "damping": damping,
            "engine": engine,
            "scaled_loads": scaled_loads,
            "feel": feel,
            **(simulation or {}),
        }
        self._may_stiffen = may_stiffen and self._engine.may_stiffen
        self.factor = 1.0
        self._stable_factors: dict[tuple[str, bool], float] = {}
        self.simulator: Any = bake_simulator(model, **self.flesh)
        self.traces: ParameterTraces | None = None  # of the free parameters
        if isinstance(self.simulator, FreeParameters):
            self.traces = ParameterTraces(model.rig, self.simulator.free)
        self.grabs: Grabbed = "flesh"  # gripped by hands; bones follow by springs
        optional = {
            "appearance": self.appearance is not None,
            "anatomy": anatomy is not None and len(anatomy.joints) > 0,
            "curves": self.traces is not None,
            "springs": isinstance(self.simulator, ParameterSprings),
            "touch": isinstance(self.simulator, SoftContact),
            "objects": isinstance(self.simulator, RigidObjects),
            "swing": self._engine.feels_at_run_time,
        } | {p: hasattr(self.simulator, k) for k, p in SETTABLE.items() if k in row.step_options}
        present = {part for part, available in optional.items() if available}
        self.parts = frozenset({"motions", "poses", "recording", "stiffness"} | present)
        self.hands: dict[Hashable, SkinGrip] = {}
        self.handles = IKHandles(model.rig)
        self.obstacles = MovingObstacles(model.surface.size, self.flesh.get("obstacles", ()))
        self.objects = DraggableObjects(model.surface.size, self.flesh.get("objects", ()))
        self.recorder = Recorder(len(model.surface.vertices))
        self.pose, self.root = model.rig.rest_pose.copy(), np.eye(4)  # (s,), (4, 4)
        self._follower = DampedFollower(self.pose)
        self._skin = np.empty((len(model.surface.vertices), 3), np.float32)
        self._posed = True  # by a page instead of the motion
        self.ending: Ending = "loop"
        self._start_motion()
        if not self.player.seamless:  # a loop would jump
            self.ending = "restart"
            self._start_motion()
        self.state: State = "playing"
        self.obstacles.place_around(self.undeformed())

    @property
    def time(self) -> float:
        """Time in the motion, in s."""
        return self.player.time

    @property
    def ground(self) -> tuple[float, float, float]:
        """Centre of the ground."""
        return 0.0, self.obstacles.height, 0.0

    @property
    def width(self) -> float:
        """Largest extent along x during the motion, in m."""
        poses = self.motion.poses[:: max(1, self.motion.n_frames // 8)]
        return max(float(np.ptp(self.model.rig(pose)[:, 0])) for pose in poses)

    @property
    def target(self) -> Floats:
        """Copy of the target pose while posing, else of the current pose, (s,)."""
        return (self._follower.target if self.state == "posing" else self.pose).copy()

    def joint_position(self, joint: str) -> Floats:
        """Return the current position of a joint of `handles`, (3,) in the world."""
        return self.root[:3, :3] @ self.handles.position(joint, self.pose) + self.root[:3, 3]

    def undeformed(self) -> Singles:
        """Return the skin of the rig without flesh, in the world, (n̄, 3) float32."""
        points = self.model.rig(self.pose)
        return (points @ self.root[:3, :3].T + self.root[:3, 3]).astype(np.float32)

    def in_scene(self, points: Floats) -> Floats:
        """Return points (k, 3) of the simulator's world in the clip's space, as `surface` does."""
        if self._posed:
            return points
        displacement = self.player.moved
        return np.asarray((points - displacement[:3, 3]) @ displacement[:3, :3])

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the current skin (n̄, 3) in the clip's space, where a looped walk returns."""
        return (self.simulator if self._posed else self.player).surface(out)

    # Steps -------------------------------------------------------------------------------

    def step(self, count: int) -> tuple[str, ...] | None:
        """Make `count` steps; return the limits of the last one, None if the motion has ended."""
        try:
            return [None, *(self._step() for _ in range(count))][-1]
        except SuppleError as error:
            raise SuppleError(f"{error}; restarting") from None

    def _step(self) -> tuple[str, ...] | None:
        if self.state == "playing" and self.player.finished:
            if self.ending == "stop":
                self.state = "paused"
                return None
            self.player.restart()
        world_from_clip = np.eye(4) if self._posed else self.player.moved
        self.obstacles.step(self.simulator, self.simulator.dt, world_from_clip)
        if "objects" in self.parts:
            self.objects.step(self.simulator, self.simulator.dt, world_from_clip)
        hands = self.hands.values()
        forces = SkinGrip.total(hands, self.surface(self._skin)) if hands else None
        if self.state == "playing":
            result = self.player.step(forces=forces)
            self._follow_player()
            key_pose = self.player.motion.poses[self.player.frame]
        else:
            key_pose = self.pose = self._follower.step(self.simulator.dt)
            result = self.simulator.step(self.pose, self.root, forces)
        self.recorder.step(self.simulator.dt, self.surface, self.pose, self.root)
        if self.traces is not None:
            self.traces.add(self.simulator.dt, key_pose, lambda: self.simulator.parameters)
        return () if result is None else result.limits  # None after a cut

    def renew(self) -> None:
        """Do nothing: changes are applied immediately."""

    def restart(self) -> None:
        """Release all grips; start the motion, or the held pose, undeformed."""
        self.hands.clear()
        self._clear_traces()
        if self._posed:
            self.simulator.reset(self.pose, self.root)
        else:
            self.player.restart()
            self._follow_player()

    def play(self) -> None:
        """Continue the motion; after posing it starts with undeformed flesh."""
        if self._posed:
            self._start_motion(self.player.time)
        elif self.player.finished:
            self.player.restart()
        self.state = "playing"

    def wake(self) -> None:
        """Hold the pose if paused, so that flesh can move."""
        if self.state == "paused":
            self.hold()

    def grip(self, skin: Singles, where: Floats) -> SkinGrip:
        """Return a grip of the skin (n̄, 3), or of the bone below, nearest to a point (3,)."""
        if self.grabs == "bone" and "touch" in self.parts:
            owners = self.simulator.owners
            return BoneGrip.hold(self.model, owners, skin, where, self.simulator.dt)
        return SkinGrip.take(self.model, skin, where, self.simulator.dt)

    def stiffen(self, factor: float) -> None:
        """Set the stiffness to `factor`, clamped to 0.01 to 100, times that of `supple.bake`."""
        stable = self._stable_factors.get((self.motion.name, self.ending == "loop"), 1.0)
        self.factor = clamped(factor, 1e-2, 1e2)
        self.simulator.stiffness = clamped(self.factor * stable * self.feel.factor, 1e-3, 1e3)

    def damp(self, factor: float) -> None:
        """Set the factor on the damping; flesh starts undeformed."""
        self.flesh["damping"] = clamped(factor, 0.0, 100.0)
        self._renew_simulator()

    def take_preset(self, flesh: str, feel: Feel) -> None:
        """Take a preset of stiffness and damping, with its feel; flesh starts undeformed."""
        self.flesh, self._stable_factors = self.flesh | {"flesh": flesh, "feel": feel}, {}
        self._bake_factor(self._plan(self.ending == "loop"))
        self._renew_simulator()

    def swing(self, goals: tuple[SwingGoal, ...]) -> None:
        """Set the stiffness at which flesh reaches the goal in this motion; `goals` has one."""
        changed = None if self.anatomy is None else self.anatomy.tet_factors(self.model)
        flesh = self.flesh | {"feel": self.feel.stiffer(1.0, changed)}
        plan = self._plan(self.ending == "loop")
        result = found_swing(goals, self.character, self.model, [plan], flesh, unreported)
        self.stiffen(float(result.factors[0]) / self._bake_factor(plan))
        if not self._posed:
            self._start_motion()

    def tune(self, numbers: Ints, name: str, value: float) -> None:
        """Set one of `SPRINGS` to a value, for the free parameters with these indices."""
        values = getattr(self.simulator.springs, name).copy()
        values[numbers] = clamped(value, 0.0, 1e4)
        self.simulator.tune(**{name: values})

    # Anatomy -----------------------------------------------------------------------------

    @property
    def changes_locally(self) -> bool:
        """Whether local stiffness can change without a rebuild."""
        return isinstance(self.simulator, LocalStiffness) and hasattr(self.model, "embedding")

    @property
    def feel(self) -> Feel:
        """Stiffness relative to the model, before the page changes it."""
        return self.flesh["feel"]

    def apply_anatomy(self) -> None:
        """Apply the stiffness of the regions to the flesh."""
        if self.anatomy is not None and self.changes_locally:
            changed = self.feel.stiffer(1.0, self.anatomy.tet_factors(self.model))
            self.simulator.local_stiffness = changed.on_tets()

    def stable_factors(self, model: CharacterModel, feel: Feel) -> dict[tuple[str, bool], float]:
        """Return the factor by which `supple.bake` stiffens a model for the current motion.

        The key is the name of the motion and whether it loops. Any thread may call this.
        """
        loop = self.ending == "loop"
        scaled = self.flesh | {"scaled_loads": True, "feel": feel}
        return {(self.motion.name, loop): self._stable_factor(model, self._plan(loop), scaled)}

    def _stable_factor(self, model: CharacterModel, plan: BakePlan, flesh: dict[str, Any]) -> float:
        return stable_stiffness(model, plan, **flesh) if self._may_stiffen else 1.0

    def _bake_factor(self, plan: BakePlan) -> float:
        """Return the factor by which `supple.bake` stiffens the flesh, for the same frames."""
        key = self.motion.name, plan.loop
        if key not in self._stable_factors:
            self._stable_factors[key] = self._stable_factor(self.model, plan, self.flesh)
        return self._stable_factors[key]

    def _plan(self, loop: bool) -> BakePlan:
        return bake_plan(self.character, self.motion, loop=loop, engine=self._engine.name)

    def replace_model(
        self,
        model: CharacterModel,
        entries: Mapping[str, RegionEntry],
        stable_factors: Mapping[tuple[str, bool], float],
        feel: Feel = AS_BUILT,
    ) -> None:
        """Continue with another model, built with these regions; see `stable_factors`."""
        assert self.anatomy is not None
        self.hands.clear()
        self.model, self._stable_factors = model, dict(stable_factors)
        self.flesh |= {"scaled_loads": True, "feel": feel}
        self.anatomy.set_built(entries)
        self._renew_simulator()

    # Motions -----------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        """Play another motion from its start."""
        self.motion = self.motions[one_name(self.motions, name, self.character.name)]
        self._start_motion()
        self.state = "playing"

    def end_with(self, ending: Ending) -> None:
        """Set the behaviour at the end of the motion, and restart it."""
        if ending not in ENDINGS:
            raise SuppleError(f"no ending {ending!r}; use one of {', '.join(ENDINGS)}")
        self.ending = ending
        self._start_motion()
        self.state = "playing"

    def seek(self, seconds: float) -> None:
        """Go to a time of the motion, with undeformed flesh."""
        self.player.seek(float(seconds))
        self._clear_traces()
        self._posed = False
        self._follow_player()
        if self.state == "posing":
            self.state = "paused"

    def _start_motion(self, at: float | None = None) -> None:
        """Prepare the motion from its start, or from a time in s."""
        try:
            self.player = self._new_player(self.ending == "loop")
        except SuppleError:
            if self.ending != "loop":
                raise
            self.ending = "restart"  # too short for a loop
            self.player = self._new_player(False)
        if at is not None:
            self.player.seek(at)
        self._clear_traces()
        self._posed = False
        self._follow_player()

    def _new_player(self, loop: bool) -> Player:
        plan = self._plan(loop)
        if plan.dt != self.simulator.dt:
            self._new_simulator(plan.dt)
        self._bake_factor(plan)
        self.stiffen(self.factor)
        with warnings.catch_warnings():  # a jump is visible
            warnings.simplefilter("ignore", SuppleWarning)
            return plan.player(self.simulator)

    def _new_simulator(self, dt: float) -> None:
        """Replace the simulator by one of another time step or model."""
        old = self.simulator
        kept = {name: getattr(old, name) for name in PRESERVED if SETTABLE[name] in self.parts}
        if "touch" in self.parts:
            kept |= {name: getattr(old, name) for name in ("tracking", "strength", "gravity")}
            kept["root"] = old.root_mode
        self.simulator = bake_simulator(self.model, dt, **(self.flesh | kept))
        self.stiffen(self.factor)
        if "springs" in self.parts and len(old.free) == len(self.simulator.free):
            self.simulator.tune(**{name: getattr(old.springs, name) for name in SPRINGS})
        self.apply_anatomy()
        self.obstacles.invalidate()
        self.objects.invalidate()

    def _renew_simulator(self) -> None:
        """Replace the simulator; flesh starts undeformed, at this pose or time."""
        self._new_simulator(self.simulator.dt)
        if self._posed:
            self.simulator.reset(self.pose, self.root)
        else:
            self._start_motion(self.player.time)

    def _clear_traces(self) -> None:
        if self.traces is not None:
            self.traces.clear()

    def _follow_player(self) -> None:
        frame = self.player.frame
        self.pose, self.root = self.player.shown.poses[frame], self.player.shown.roots[frame]

    # Poses -------------------------------------------------------------------------------

    def hold(self) -> None:
        """Hold the current pose; the flesh keeps moving."""
        if self.state == "posing":
            return
        velocity = None
        if not self._posed:
            if self.state == "playing" and self.player.frame > 0:
                before = self.player.shown.poses[self.player.frame - 1]
                velocity = (self.pose - before) / self.simulator.dt
            # From the simulator's world, where a loop has moved on, to the clip's space.
            self.simulator.teleport(self.pose, self.root)
            self.obstacles.invalidate()
        self._follower = DampedFollower(self.pose, velocity)
        self._posed = True
        self.state = "posing"

    def pose_to(self, pose: ArrayLike) -> None:
        """Move smoothly to a pose (s,) and hold it."""
        target = np.array(pose, np.float64)
        if target.shape != self.pose.shape or not np.isfinite(target).all():
            raise SuppleError(f"a pose needs {len(self.pose)} finite numbers")
        self.hold()
        self._follower.target = target

    def reach(self, joint: str, where: ArrayLike) -> None:
        """Move a joint to a point (3,) of the world by inverse kinematics, and hold that pose."""
        point = np.array(where, np.float64)
        if point.shape != (3,) or not np.isfinite(point).all():
            return
        target = self.root[:3, :3].T @ (point - self.root[:3, 3])
        self.pose_to(self.handles.solve(joint, self.target, target))
