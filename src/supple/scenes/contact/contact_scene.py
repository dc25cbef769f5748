"""Scenes of soft skeletons that touch things: a character, a motion, and what is in its way."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.dynamics.rigid_object import RigidObject
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.mesh.surface import SurfaceMesh
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Scene
from supple.scenes.contact.props import Rope, thing_surface

if TYPE_CHECKING:
    from supple.engines.soft_skeleton.model import SoftSkeletonModel
    from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator, SoftSkeletonStep

#: Module and function of each.
_MAKERS = {
    "hand-ball": ("hand_contacts", "hand_ball"),
    "hand-pin": ("hand_contacts", "hand_pin"),
    "hand-bars": ("hand_contacts", "hand_bars"),
    "body-bench": ("body_contacts", "body_bench"),
    "body-fall": ("body_contacts", "body_fall"),
    "body-hang": ("body_contacts", "body_hang"),
}
CONTACT_SCENES = tuple(_MAKERS)


@dataclass(frozen=True, eq=False, repr=False)
class ContactScene:
    """Character with a motion, and things that it touches.

    Parameters
    ----------
    name : str
    description : str
        In a few words.
    scene : Scene
        The character's.
    motion : Motion
        What joints are pulled towards.
    start : float
        Second of the motion to begin at, as fast as it is then.
    obstacles : tuple of Obstacle
    objects : tuple of RigidObject
        They move: a scene is played once, and made anew for another time.
    led : dict of str to function
        For objects that are led, by name, from seconds since the start to a place (4, 4).
    ropes : tuple of Rope
        They pull at the skin.
    options : dict
        Options of the simulator.
    azimuth : float
        Where pictures are taken from, in degrees.
    """

    name: str
    description: str
    scene: Scene
    motion: Motion
    start: float = 0.0
    obstacles: tuple[Obstacle, ...] = ()
    objects: tuple[RigidObject, ...] = ()
    led: Mapping[str, Callable[[float], Floats]] = field(default_factory=dict)
    ropes: tuple[Rope, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    azimuth: float = 25.0

    def __repr__(self) -> str:
        things = len(self.obstacles) + len(self.objects)
        return (
            f'ContactScene("{self.name}", {self.motion.name}, {self.seconds:g} s, {things} things)'
        )

    @property
    def seconds(self) -> float:
        """Length in s."""
        return round(self.motion.duration - self.start, 9)

    def object(self, name: str) -> RigidObject:
        """Return the object of this name."""
        for each in self.objects:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.objects) or "none"
        raise SuppleError(f'{self.name}: no object "{name}"; there are {known}')

    def simulator(
        self, model: SoftSkeletonModel, dt: float = 1 / 90, **changes: Any
    ) -> SoftSkeletonSimulator:
        """Return a simulator of the character among the things, at the start.

        Parameters
        ----------
        model
            Built of `scene.character`, of any size.
        dt
            Seconds of a step.
        **changes
            Options in place of the scene's, such as ``tracking=0.0`` for a limp body.
        """
        from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator

        told = {"obstacles": self.obstacles, "objects": self.objects, **self.options, **changes}
        simulator = SoftSkeletonSimulator(model, dt, **told)
        before = None if self.start < dt else self.motion.at(self.start - dt)
        simulator.reset(*self.motion.at(self.start), before=before)
        return simulator

    def play(
        self, simulator: SoftSkeletonSimulator, seconds: float | None = None
    ) -> Iterator[SoftSkeletonStep]:
        """Step through the motion, leading what is led; yields the state of each step.

        Parameters
        ----------
        simulator
            From `simulator`, at the start.
        seconds
            How long; by default to the motion's end.
        """
        dt = simulator.dt
        before = simulator.surface() if self.ropes else None
        for step in range(1, round((self.seconds if seconds is None else seconds) / dt) + 1):
            for name, path in self.led.items():
                self.object(name).moved_to(path(step * dt), dt)
            forces = None
            if before is not None:
                now = simulator.surface()
                forces = self._pulls(now, (now - before) / dt)
                before = now
            time = min(self.start + step * dt, self.motion.duration)
            yield simulator.step(*self.motion.at(time), forces)

    def _pulls(self, places: Singles, velocities: Singles) -> dict[int, Floats]:
        """Return the forces of the ropes by vertex."""
        found: dict[int, Floats] = {}
        for rope in self.ropes:
            pulls = rope.forces(places, velocities)
            found |= dict(zip(rope.vertices.tolist(), pulls, strict=True))
        return found

    def record(
        self, simulator: SoftSkeletonSimulator, rate: float = 30.0, seconds: float | None = None
    ) -> ContactRecord:
        """Play, and keep skins and things `rate` times a second, and forces of every step."""
        every = max(1, round(1 / (rate * simulator.dt)))
        skins, things, times = [simulator.surface()], [self._drawn()], [0.0]
        forces, limits = [np.zeros(3)], set[str]()
        by_thing: list[dict[str, Floats]] = [{}]
        for step, state in enumerate(self.play(simulator, seconds), 1):
            forces.append(state.readings["contact_force"].copy())
            by_thing.append(dict(state.readings["things"]))
            limits.update(state.limits)
            if step % every == 0:
                skins.append(simulator.surface())
                things.append(self._drawn())
                times.append(step * simulator.dt)
        names = sorted({name for each in by_thing for name in each})
        return ContactRecord(
            np.array(times, np.float64),
            np.array(skins),
            things,
            simulator.dt * np.arange(len(forces), dtype=np.float64),
            np.array(forces),
            {k: np.array([each.get(k, np.zeros(3)) for each in by_thing]) for k in names},
            tuple(sorted(limits)),
        )

    def _drawn(self) -> list[SurfaceMesh]:
        found = [thing_surface(each) for each in (*self.obstacles, *self.objects)]
        return [each for each in found if each is not None]


@dataclass(frozen=True, eq=False)
class ContactRecord:
    """Record of a scene that was played.

    Attributes
    ----------
    times
        (t,) seconds of the frames.
    skins
        (t, n̄, 3) the skin in the world.
    things
        Surfaces of obstacles and objects at each of the frames.
    step_times
        (s,) seconds of the steps, the start included.
    forces
        (s, 3) force on the body by all that it touches, in N.
    by_thing
        The same by each thing, by its name.
    limits
        Limits that acted in any step.
    """

    times: Floats
    skins: Singles
    things: list[list[SurfaceMesh]]
    step_times: Floats
    forces: Floats
    by_thing: Mapping[str, Floats]
    limits: tuple[str, ...]


def contact_scene(name: str) -> ContactScene:
    """Make the scene of this name, one of `CONTACT_SCENES`, anew.

    Examples
    --------
    >>> contact_scene("hand-pin")
    ContactScene("hand-pin", pricked, 1.5 s, 1 things)
    """
    if name not in _MAKERS:
        near = difflib.get_close_matches(str(name), CONTACT_SCENES, 1)
        known = ", ".join(CONTACT_SCENES)
        hint = f'; did you mean "{near[0]}"?' if near else f"; there are {known}"
        raise SuppleError(f'no contact scene "{name}"{hint}')
    module, function = _MAKERS[name]
    made: ContactScene = getattr(import_module(f"supple.scenes.contact.{module}"), function)()
    return made
