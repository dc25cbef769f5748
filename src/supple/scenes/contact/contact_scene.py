"""Scenes of soft skeletons that touch things: a character, a motion, and what is in its way."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from supple.arrays import Floats
from supple.dynamics.rigid_object import RigidObject
from supple.errors import SuppleError
from supple.mesh.obstacles import Obstacle
from supple.rig.motion.motion import Motion
from supple.scenes.characters.character_scene import Scene

if TYPE_CHECKING:
    from supple.engines.soft_skeleton.model import SoftSkeletonModel
    from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator, SoftSkeletonStep

__all__ = ["CONTACT_SCENES", "ContactScene", "contact_scene"]

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
        for step in range(1, round((self.seconds if seconds is None else seconds) / dt) + 1):
            for name, path in self.led.items():
                self.object(name).moved_to(path(step * dt), dt)
            yield simulator.step(*self.motion.at(min(self.start + step * dt, self.motion.duration)))


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
