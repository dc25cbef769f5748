"""Character of a session: it plays a motion or holds a pose, with the flesh of any engine."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from supple.anatomy.region_entries import RegionEntry
from supple.app.viewer.session.anatomy_editing import AnatomyEditing
from supple.app.viewer.session.hands import BoneGrip, SkinGrip
from supple.app.viewer.session.moving_obstacles import MovingObstacles
from supple.app.viewer.session.parameter_traces import ParameterTraces
from supple.app.viewer.session.posing import DampedFollower, IKHandles
from supple.app.viewer.session.recording import Recorder
from supple.app.viewer.session.subject import State, Subject, clamped
from supple.app.viewer.session.thrown_objects import ThrownObjects
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
from supple.playback.bake import bake_plan, bake_simulator, stable_stiffness
from supple.playback.bake_model import SCALED_LOADS
from supple.playback.motion_choice import chosen_motion
from supple.playback.player import Player
from supple.rig.character import Character
from supple.rig.motion.motion_names import one_name

Ending = Literal["loop", "restart", "stop"]
Grabbed = Literal["flesh", "bone"]
ENDINGS: tuple[Ending, ...] = ("loop", "restart", "stop")

#: Numbers of free parameters that can be changed while they move.
SPRINGS = ("follow", "firmness", "damping")
#: Optional parts that only some engines have, by the option of their simulators.
ENGINE_PARTS = {"obstacles": "obstacles", "gravity_mode": "gravity mode", "friction": "friction"}
#: Those of them that another simulator of the character keeps.
KEPT = ("gravity_mode", "friction")


class CharacterSubject(Subject):
    """Character that plays a motion, or holds a pose.

    Parameters
    ----------
    model
        Of the character.
    motion
        Name of the motion to begin with, as `Character.motion` finds it; by default the
        liveliest.
    character
        Whose motions to play; by default the model's. What has none wiggles.
    engine, flesh, damping
        As for `supple.bake`.
    scaled_loads
        As for `bake_simulator`.
    anatomy
        Its regions, to be changed.
    simulation
        Options of the simulator, beside those of its flesh; obstacles stay where they are.

    Attributes
    ----------
    motions, motion
        Motions by name, and the one that is played.
    ending
        What follows the end of a motion. ``"loop"``: the cycle goes on; ``"restart"``: it begins
        anew; ``"stop"``: it pauses. They play what `supple bake`, with ``--loop`` or without,
        bakes, to the bit; a cycle is as many steps as there, which may be a little longer or
        shorter than those of a motion that ends.
    pose, root
        (s,), (4, 4) at the last step.
    handles
        Joints that can be dragged.
    obstacles, objects, recorder
        Ground and ball; balls and boxes that are thrown; frames that are kept.
    grabs
        ``"flesh"``, or of bones that follow by springs ``"bone"``: what a hand takes hold of.
    traces
        Curves of the free parameters, if the engine has any.
    appearance
        Own colours of the character, or None.
    """

    hint = "Drag the skin to pull it; let go to see it swing back."
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
    ) -> None:
        self.model = model
        own = Character(model.name, model.surface, model.rig, dict(model.motions))
        self.character = character or own
        self.motion = chosen_motion(self.character, motion)
        self.motions = self.character.motions | {self.motion.name: self.motion}
        self._engine = engine_named(engine, "character")
        options = self._engine.step_options
        optional = {part for option, part in ENGINE_PARTS.items() if option in options}
        self.appearance = self._own_appearance()
        optional |= {"appearance"} if self.appearance is not None else set()
        optional |= {"anatomy"} if anatomy is not None and anatomy.joints else set()
        self.anatomy = anatomy
        self._flesh: dict[str, Any] = {
            "flesh": flesh,
            "damping": damping,
            "engine": engine,
            "scaled_loads": scaled_loads,
            **(simulation or {}),
        }
        self.factor = 1.0
        self._calm: dict[tuple[str, bool], float] = {}
        self.simulator: Any = bake_simulator(model, **self._flesh)
        self.traces: ParameterTraces | None = None
        if isinstance(self.simulator, FreeParameters):
            self.traces = ParameterTraces(model.rig, self.simulator.free)
            optional |= {"curves"}
        optional |= {"springs"} if isinstance(self.simulator, ParameterSprings) else set()
        optional |= {"touch"} if isinstance(self.simulator, SoftContact) else set()
        optional |= {"objects"} if isinstance(self.simulator, RigidObjects) else set()
        self.grabs: Grabbed = "flesh"
        self.parts = frozenset({"motions", "poses", "recording", "stiffness"} | optional)
        self.hands: dict[Hashable, SkinGrip] = {}
        self.handles = IKHandles(model.rig)
        self.obstacles = MovingObstacles(model.surface.size, self._flesh.get("obstacles", ()))
        self.objects = ThrownObjects(model.surface.size)
        self.recorder = Recorder(len(model.surface.vertices))
        self.pose, self.root = model.rig.rest_pose.copy(), np.eye(4)
        self._follower = DampedFollower(self.pose)
        self._skin = np.empty((len(model.surface.vertices), 3), np.float32)
        self._posed = True
        """Whether the pose is our own, rather than the motion's."""
        self.ending: Ending = "loop"
        self._cue()
        if not self.player.seamless:  # it would jump
            self.ending = "restart"
            self._cue()
        self.state: State = "playing"
        self.obstacles.stand_on(self.undeformed())

    def _own_appearance(self) -> Appearance | None:
        """Return the character's colours, if the model has the same triangles."""
        found = self.character.appearance
        if found is None or self.model.surface.triangles is self.character.surface.triangles:
            return found
        same = np.array_equal(self.model.surface.triangles, self.character.surface.triangles)
        return found if same else None

    @property
    def time(self) -> float:
        """Seconds of the motion."""
        return self.player.time

    @property
    def ground(self) -> tuple[float, float, float]:
        """Middle of the ground that it stands on."""
        return 0.0, self.obstacles.height, 0.0

    @property
    def width(self) -> float:
        """Metres from its left to its right, the most in its motion."""
        poses = self.motion.poses
        poses = poses[:: max(1, len(poses) // 8)]
        return max(float(np.ptp(self.model.rig(pose)[:, 0])) for pose in poses)

    @property
    def target(self) -> Floats:
        """Pose that is gone to, or where it is, (s,): a copy."""
        return (self._follower.target if self.state == "posing" else self.pose).copy()

    def joint_position(self, joint: str) -> Floats:
        """Return where a joint of `handles` is now, (3,) in the world."""
        return self.root[:3, :3] @ self.handles.position(joint, self.pose) + self.root[:3, 3]

    def undeformed(self) -> Singles:
        """Return the skin as the rig alone has it, in the world, (n̄, 3) float32."""
        place = self.model.rig(self.pose)
        return (place @ self.root[:3, :3].T + self.root[:3, 3]).astype(np.float32)

    def in_scene(self, points: Floats) -> Floats:
        """Return points (k, 3) of the simulator's world where the clip has them, as `surface`."""
        if self._posed:
            return points
        moved = self.player.moved
        return np.asarray((points - moved[:3, 3]) @ moved[:3, :3])

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin now, (n̄, 3), where the clip has it: a loop's walk comes back."""
        return (self.simulator if self._posed else self.player).surface(out)

    # Steps -------------------------------------------------------------------------------

    def step(self, count: int) -> tuple[str, ...] | None:
        """Make steps; return the names of limits that acted, None where the motion has ended."""
        try:
            limits = None
            for _ in range(count):
                limits = self._step()
            return limits
        except SuppleError as error:
            raise SuppleError(f"{error}; it begins anew") from None

    def _step(self) -> tuple[str, ...] | None:
        if self.state == "playing" and self.player.finished:
            if self.ending == "stop":
                self.state = "paused"
                return None
            self.player.restart()
        walked = np.eye(4) if self._posed else self.player.moved
        self.obstacles.step(self.simulator, self.simulator.dt, walked)
        if "objects" in self.parts:
            self.objects.step(self.simulator, self.simulator.dt, walked)
        hands = self.hands.values()
        forces = SkinGrip.total(hands, self.surface(self._skin)) if hands else None
        if self.state == "playing":
            did = self.player.step(forces=forces)
            self._follow_player()
            stepped = self.player.motion.poses[self.player.frame]
        else:
            stepped = self.pose = self._follower.step(self.simulator.dt)
            did = self.simulator.step(self.pose, self.root, forces)
        self.recorder.step(self.simulator.dt, self.surface, self.pose, self.root)
        if self.traces is not None:
            self.traces.add(self.simulator.dt, stepped, lambda: self.simulator.parameters)
        return () if did is None else did.limits  # None where a cut begins anew

    def renew(self) -> None:
        """Do nothing: whatever changes, changes at once."""

    def begin_anew(self) -> None:
        """Let all hands go, and start undeformed: the motion, or the pose that is held."""
        self.hands.clear()
        self._forget_curves()
        if self._posed:
            self.simulator.reset(self.pose, self.root)
        else:
            self.player.restart()
            self._follow_player()

    def play(self) -> None:
        """Go on with the motion; from a pose of one's own, flesh begins anew."""
        if self._posed:
            self._cue(self.player.time)
        elif self.player.finished:
            self.player.restart()
        self.state = "playing"

    def wake(self) -> None:
        """Hold the pose if time stands still, so that flesh can move."""
        if self.state == "paused":
            self.hold()

    def grip(self, skin: Singles, where: Floats) -> SkinGrip:
        """Return a hold of the skin (n̄, 3), or of the bone below it, nearest to a point (3,)."""
        if self.grabs == "bone" and "touch" in self.parts:
            owners = self.simulator.owners
            return BoneGrip.hold(self.model, owners, skin, where, self.simulator.dt)
        return SkinGrip.take(self.model, skin, where, self.simulator.dt)

    def stiffen(self, factor: float) -> None:
        """Make flesh so many times as stiff as it is baked."""
        calm = self._calm.get((self.motion.name, self.ending == "loop"), 1.0)
        self.simulator.stiffness = clamped(factor, 1e-2, 1e2) * calm
        self.factor = factor

    def tune(self, numbers: Ints, name: str, value: float) -> None:
        """Set `follow`, `firmness` or `damping` of some of the free parameters.

        Parameters
        ----------
        numbers
            Of parameters among the free ones.
        name, value
            Which number, and the number.
        """
        values = getattr(self.simulator.springs, name).copy()
        values[numbers] = clamped(value, 0.0, 1e4)
        self.simulator.tune(**{name: values})

    # Anatomy -----------------------------------------------------------------------------

    @property
    def changes_locally(self) -> bool:
        """Whether a change of stiffness in places is seen at once, without another model."""
        return isinstance(self.simulator, LocalStiffness) and hasattr(self.model, "embedding")

    def heed_anatomy(self) -> None:
        """Make flesh as firm and soft as its regions are."""
        if self.anatomy is not None and self.changes_locally:
            self.simulator.local_stiffness = self.anatomy.tet_factors(self.model)

    def calmed(self, model: CharacterModel) -> dict[tuple[str, bool], float]:
        """Return how stiff bake would make this motion's flesh with another model; any thread."""
        loop = self.ending == "loop"
        plan = bake_plan(self.character, self.motion, loop=loop, engine=self._engine.name)
        scaled = self._flesh | {"scaled_loads": True}
        factor = stable_stiffness(model, plan, **scaled) if self._engine.may_stiffen else 1.0
        return {(self.motion.name, loop): factor}

    def adopt(
        self,
        model: CharacterModel,
        entries: Mapping[str, RegionEntry],
        calm: Mapping[tuple[str, bool], float],
    ) -> None:
        """Go on with another model of the character, built with these regions; see `calmed`."""
        assert self.anatomy is not None
        self.hands.clear()
        self.model, self._calm = model, dict(calm)
        self._flesh["scaled_loads"] = True
        self.anatomy.adopted(entries)
        self._step_by(self.simulator.dt)
        if self._posed:
            self.simulator.reset(self.pose, self.root)
        else:
            self._cue(self.player.time)

    # Motions -----------------------------------------------------------------------------

    def choose(self, name: str) -> None:
        """Play another motion, by its name, from its beginning."""
        self.motion = self.motions[one_name(self.motions, name, self.character.name)]
        self._cue()
        self.state = "playing"

    def end_with(self, ending: Ending) -> None:
        """Say what follows the end of the motion, which begins anew."""
        if ending not in ENDINGS:
            raise SuppleError(f"a motion ends with one of {', '.join(ENDINGS)}")
        self.ending = ending
        self._cue()
        self.state = "playing"

    def seek(self, seconds: float) -> None:
        """Be at a time of the motion, with flesh that has not moved yet."""
        self.player.seek(float(seconds))
        self._forget_curves()
        self._posed = False
        self._follow_player()
        if self.state == "posing":
            self.state = "paused"

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
        self._forget_curves()
        self._posed = False
        self._follow_player()

    def _new_player(self, loop: bool) -> Player:
        plan = bake_plan(self.character, self.motion, loop=loop, engine=self._engine.name)
        if plan.dt != self.simulator.dt:
            self._step_by(plan.dt)
        which = self.motion.name, loop
        if which not in self._calm:  # as firm as bake makes it, so that they agree
            may_stiffen = self._engine.may_stiffen
            self._calm[which] = (
                stable_stiffness(self.model, plan, **self._flesh) if may_stiffen else 1.0
            )
        self.stiffen(self.factor)
        with warnings.catch_warnings():  # one sees that a motion jumps
            warnings.simplefilter("ignore", SuppleWarning)
            return plan.player(self.simulator)

    def _step_by(self, dt: float) -> None:
        """Have a simulator that is as it was made, but for its step."""
        old = self.simulator
        kept = {
            option: getattr(old, option) for option in KEPT if ENGINE_PARTS[option] in self.parts
        }
        if "touch" in self.parts:
            kept |= {"tracking": old.tracking, "gravity": old.gravity, "root": old.root_mode}
        self.simulator = bake_simulator(self.model, dt, **(self._flesh | kept))
        self.simulator.stiffness = old.stiffness
        if "springs" in self.parts and len(old.free) == len(self.simulator.free):
            springs = {name: getattr(old.springs, name) for name in SPRINGS}
            self.simulator.tune(**springs)
        self.heed_anatomy()
        self.obstacles.invalidate()
        self.objects.invalidate()

    def _forget_curves(self) -> None:
        if self.traces is not None:
            self.traces.clear()

    def _follow_player(self) -> None:
        frame = self.player.frame
        self.pose, self.root = self.player.shown.poses[frame], self.player.shown.roots[frame]

    # Poses -------------------------------------------------------------------------------

    def hold(self) -> None:
        """Hold the pose where it is; the flesh lives on."""
        if self.state == "posing":
            return
        velocity = None
        if not self._posed:
            if self.state == "playing" and self.player.frame > 0:
                before = self.player.shown.poses[self.player.frame - 1]
                velocity = (self.pose - before) / self.simulator.dt
            # To where the clip is, from where a loop has walked.
            self.simulator.teleport(self.pose, self.root)
            self.obstacles.invalidate()
        self._follower = DampedFollower(self.pose, velocity)
        self._posed = True
        self.state = "posing"

    def pose_to(self, pose: ArrayLike) -> None:
        """Go to a pose (s,), quickly but softly, and hold it."""
        target = np.array(pose, np.float64)
        if target.shape != self.pose.shape or not np.isfinite(target).all():
            raise SuppleError(f"a pose has {len(self.pose)} finite numbers")
        self.hold()
        self._follower.target = target

    def reach(self, joint: str, where: ArrayLike) -> None:
        """Bring a joint to a place (3,) in the world by turning those above it; hold that pose."""
        place = np.array(where, np.float64)
        if place.shape != (3,) or not np.isfinite(place).all():
            return
        there = self.root[:3, :3].T @ (place - self.root[:3, 3])
        self.pose_to(self.handles.solve(joint, self.target, there))
