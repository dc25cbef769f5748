"""Scenes of soft skeletons in contact: a character, a motion, obstacles and rigid objects."""

from __future__ import annotations

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
from supple.scenes.contact.props import Rope, collider_surface
from supple.scenes.modelling.scene_data import unknown_name

if TYPE_CHECKING:
    from supple.engines.soft_skeleton.model import SoftSkeletonModel
    from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator, SoftSkeletonStep

CONTACT_SCENES = ("hand-ball", "hand-pin", "hand-bars", "body-bench", "body-fall", "body-hang")


@dataclass(frozen=True, eq=False, repr=False)
class ContactScene:
    """Character with a motion, and obstacles and objects that it touches.

    Parameters
    ----------
    name : str
    description : str
        A short text.
    scene : Scene
        Scene of the character.
    motion : Motion
        Target of the joints.
    start : float
        Time in s at which the motion begins to play; the body starts with its velocity there.
    obstacles : tuple of Obstacle
    objects : tuple of RigidObject
        They move while the scene is played; make a new scene to play it again.
    led : dict of str to function
        Transforms (4, 4) of kinematic objects as functions of the time since the start, by name.
    ropes : tuple of Rope
        Ropes tied to the skin.
    options : dict
        Options of the simulator.
    azimuth : float
        Direction of the camera in pictures, in degrees.
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
        count = len(self.obstacles) + len(self.objects)
        length = f"{self.seconds:g} s"
        return f'ContactScene("{self.name}", {self.motion.name}, {length}, {count} colliders)'

    @property
    def colliders(self) -> tuple[Obstacle, ...]:
        """Obstacles, then objects."""
        return *self.obstacles, *self.objects

    @property
    def seconds(self) -> float:
        """Duration in s, from `start` to the end of the motion."""
        return round(self.motion.duration - self.start, 9)

    def object(self, name: str) -> RigidObject:
        """Return the object of this name."""
        for each in self.objects:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.objects) or "none"
        raise SuppleError(f'{self.name}: no object "{name}"; there are {names}')

    def simulator(
        self, model: SoftSkeletonModel, dt: float = 1 / 90, **changes: Any
    ) -> SoftSkeletonSimulator:
        """Return a simulator of the character with the colliders, at the start.

        Parameters
        ----------
        model
            Model of `scene.character`, of any size.
        dt
            Time step in s.
        **changes
            Options that replace the scene's, such as ``tracking=0.0`` for a limp body.
        """
        from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator

        options = {"obstacles": self.obstacles, "objects": self.objects, **self.options, **changes}
        simulator = SoftSkeletonSimulator(model, dt, **options)
        before = None if self.start < dt else self.motion.at(self.start - dt)
        simulator.reset(*self.motion.at(self.start), before=before)
        return simulator

    def play(
        self, simulator: SoftSkeletonSimulator, seconds: float | None = None
    ) -> Iterator[SoftSkeletonStep]:
        """Play the motion and move kinematic objects; yield the state of each step.

        Parameters
        ----------
        simulator
            Result of `simulator`, at the start.
        seconds
            Duration; to the motion's end by default.
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
        """Return the forces (3,) of the ropes in N, by vertex of the skin."""
        forces: dict[int, Floats] = {}
        for rope in self.ropes:
            pulls = rope.forces(places, velocities)
            forces |= dict(zip(rope.vertices.tolist(), pulls, strict=True))
        return forces

    def record(
        self, simulator: SoftSkeletonSimulator, rate: float = 30.0, seconds: float | None = None
    ) -> ContactRecord:
        """Play the scene; record skin and colliders `rate` times a second, forces at every step."""
        every = max(1, round(1 / (rate * simulator.dt)))
        skins, things, times = [simulator.surface()], [self._drawn()], [0.0]
        places = [self._places()]
        forces, limits = [np.zeros(3)], set[str]()
        by_thing: list[dict[str, Floats]] = [{}]
        for step, state in enumerate(self.play(simulator, seconds), 1):
            forces.append(state.readings["contact_force"].copy())
            by_thing.append(dict(state.readings["things"]))
            limits.update(state.limits)
            if step % every == 0:
                skins.append(simulator.surface())
                things.append(self._drawn())
                places.append(self._places())
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
            np.stack(places, axis=1),
        )

    def _places(self) -> Floats:
        """Return the current places (c, 4, 4) of the colliders."""
        placed = (each.place if isinstance(each, RigidObject) else None for each in self.colliders)
        return np.array([np.eye(4) if each is None else each for each in placed]).reshape(-1, 4, 4)

    def _drawn(self) -> list[SurfaceMesh]:
        surfaces = [collider_surface(each) for each in self.colliders]
        return [surface for surface in surfaces if surface is not None]


@dataclass(frozen=True, eq=False)
class ContactRecord:
    """Recorded run of a scene.

    Attributes
    ----------
    times
        (t,) times of the frames in s.
    skins
        (t, n̄, 3) positions of the skin in the world.
    things
        Surfaces of obstacles and objects in each frame.
    step_times
        (s,) times of the steps in s, with the start.
    forces
        (s, 3) total contact force on the body, in N.
    by_thing
        (s, 3) contact force on the body in N, by name of the collider.
    limits
        Names of the limits that acted in any step.
    places
        (c, t, 4, 4) places of the scene's colliders in each frame.
    """

    times: Floats
    skins: Singles
    things: list[list[SurfaceMesh]]
    step_times: Floats
    forces: Floats
    by_thing: Mapping[str, Floats]
    limits: tuple[str, ...]
    places: Floats


def contact_scene(name: str) -> ContactScene:
    """Return a new scene of this name, one of `CONTACT_SCENES`.

    Examples
    --------
    >>> contact_scene("hand-pin")
    ContactScene("hand-pin", pricked, 1.5 s, 1 colliders)
    """
    if name not in CONTACT_SCENES:
        raise SuppleError(unknown_name("contact scene", name, CONTACT_SCENES))
    interactions = import_module("supple.scenes.contact.interactions")
    made: ContactScene = getattr(interactions, name.replace("-", "_"))()
    return made
