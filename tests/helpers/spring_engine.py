"""An engine with free parameters for tests: each on a spring to its key, shaken by the root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, NamedTuple

import numpy as np

from supple.dynamics.character_inputs import CharacterInputs
from supple.dynamics.root_frame import to_world
from supple.engines.engine import ENGINES, Engine
from supple.errors import SuppleError

NAME = "springs"


@dataclass(frozen=True)
class SpringModel:
    """A character, its free parameters, and the frequency of their springs."""

    engine: ClassVar[str] = NAME
    character: Any
    free: tuple[str, ...]
    hertz: float
    push: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.character, name)

    @property
    def figures(self) -> dict[str, Any]:
        return {"hertz": self.hertz}

    def save(self, path: Any) -> None:
        raise SuppleError("nothing to save")


def build_springs(
    character: Any, *, free: Any = "*", hertz: float = 3.0, push: float = 0.02
) -> SpringModel:
    """Find the free parameters: names with *."""
    names = [each.name for each in character.rig.parameters]
    listed = [free] if isinstance(free, str) else list(free)
    found = [name for name in names if any(fnmatchcase(name, each) for each in listed)]
    if not found:
        raise SuppleError(f"{character.name}: no parameter is called {', '.join(listed)}")
    return SpringModel(character, tuple(found), hertz, push)


class SpringStep(NamedTuple):
    time: float
    limits: tuple[str, ...] = ()
    readings: dict[str, Any] = {}  # noqa: RUF012


class SpringSimulator:
    """x″ = ω² (key − x) − 2ζω x′ + push · a, with a the root's acceleration along x + y + z."""

    obstacles: tuple = ()
    stiffness = 1.0

    def __init__(
        self, model: SpringModel, dt: float = 1 / 90, *, damping: float = 0.12, sag: float = 0.0
    ) -> None:
        self.model, self.dt, self._damping, self._sag = model, dt, damping, sag
        self.free = model.free
        names = [each.name for each in model.rig.parameters]
        self._columns = np.array([names.index(name) for name in model.free])
        self._bounded = np.array([model.rig.parameters[k].unit == "1" for k in self._columns])
        self._inputs = CharacterInputs(model)
        self.reset()

    def reset(self, pose=None, root=None, *, before=None) -> None:
        self.pose = self._inputs.pose(pose, self.model.rig.rest_pose)
        self.root, self.time = self._inputs.root(root, np.eye(4)), 0.0
        self.x = self.pose[self._columns].copy()
        self.v, self._last = np.zeros_like(self.x), None
        self._root_v = np.zeros(3)
        if before is not None:
            earlier = self._inputs.earlier(before, self.pose, self.root)
            self.v = (self.x - earlier[0][self._columns]) / self.dt
            self._root_v = (self.root - earlier[1])[:3, 3] / self.dt

    def step(self, pose=None, root=None, forces=None) -> SpringStep:
        self.pose = self._inputs.pose(pose, self.pose)
        old, self.root = self.root[:3, 3].copy(), self._inputs.root(root, self.root)
        h, w = self.dt, 2 * np.pi * self.model.hertz
        velocity = (self.root[:3, 3] - old) / h
        push = self.model.push * (velocity - self._root_v).sum() / h + self._sag * w**2
        self._root_v = velocity
        goal = self.pose[self._columns]
        # The exact solution of a step with a held goal: the same for any step but for the input.
        zeta = self._damping
        wd = w * np.sqrt(1 - zeta**2)
        rest = goal + push / w**2
        u, decay = self.x - rest, np.exp(-zeta * w * h)
        c, s = np.cos(wd * h), np.sin(wd * h)
        self.x = rest + decay * (u * c + (self.v + zeta * w * u) / wd * s)
        self.v = decay * (self.v * c - (zeta * w * self.v + w**2 * u) / wd * s)
        low = np.where(self._bounded, 0.0, -np.inf)
        high = np.where(self._bounded, 1.0, np.inf)
        hit = (self.x < low) | (self.x > high)
        self.x, self.v = np.clip(self.x, low, high), np.where(hit, 0.0, self.v)
        self.time += h
        return SpringStep(self.time, ("bounds",) if hit.any() else ())

    @property
    def parameters(self):
        pose = self.pose.copy()
        pose[self._columns] = self.x
        return pose

    def surface(self, out=None):
        target = self._inputs.skin(out)
        target[...] = to_world(self.root, self.model.rig(self.parameters))
        return target

    def teleport(self, pose=None, root=None, *, before=None) -> None:
        off, v = self.x - self.pose[self._columns], self.v
        own = self.v - 0  # velocities of the parameters stay as they are
        self.reset(pose, root, before=before)
        self.x = self.x + off
        self.v = own if before is None else self.v + v


@contextmanager
def spring_engine() -> Iterator[str]:
    """Register the engine temporarily."""
    here = "helpers.spring_engine"
    ENGINES[NAME] = Engine(
        NAME,
        "parameters on springs",
        "character",
        model=f"{here}:SpringModel",
        builder=f"{here}:build_springs",
        simulator=f"{here}:SpringSimulator",
    )
    try:
        yield NAME
    finally:
        del ENGINES[NAME]
