"""Runs of one motion with different stiffness and damping, for searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from supple.anatomy.named_parts import SkinPart
from supple.arrays import Floats, Singles
from supple.engines.engine import CharacterModel
from supple.errors import SolverError
from supple.playback.bake_plan import BakePlan
from supple.playback.feel.feel import AS_BUILT, Feel
from supple.playback.take import Take
from supple.progress import unreported
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character


class LiveRun:
    """Repeated simulation of one motion by one simulator; `options` are those of `bake_simulator`.

    Attributes
    ----------
    plan
        Motion, part and steps.
    usual
        Factor on the stiffness of the model in addition to that of a feel.
    """

    def __init__(
        self,
        character: Character,
        model: CharacterModel,
        plan: BakePlan,
        options: Mapping[str, Any],
    ) -> None:
        self.plan, self.usual = plan, float(options.get("stiffness", 1.0))
        self._character = character
        self._simulator = plan.simulator(model, {**options, "feel": AS_BUILT})
        self._player = plan.player(self._simulator)
        self._damping = getattr(self._simulator, "damping", (0.0, 0.0))

    def baked(self, feel: Feel, damping: float = 1.0) -> BakedMotion | None:
        """Return a bake with a feel and a factor on the damping; None if it diverges."""
        feel.apply(self._simulator, self.usual)
        if damping != 1:
            self._simulator.damping = tuple(damping * each for each in self._damping)
        self._player.restart()
        take = Take(self._player, self.plan.every, unreported)
        try:
            frames = take.recorded()
        except SolverError:
            return None
        finally:
            if damping != 1:
                self._simulator.damping = self._damping
        rate = 1 / (self.plan.dt * self.plan.every)
        loop = self.plan.loop
        return BakedMotion(self._character, take.motion(), frames, rate, loop, {}, take.readings)

    @property
    def times(self) -> Floats:
        """(t,) s of the frames in the clip."""
        player = self._player
        return player.shown.times[np.arange(0, player.n_steps + 1, self.plan.every)]

    @cached_property
    def rig(self) -> Singles:
        """Skin (t, n̄, 3) of the rig without flesh at the frames."""
        player, every = self._player, self.plan.every
        steps = range(0, player.n_steps + 1, every)
        poses, roots = player.shown.poses, player.shown.roots
        frames = np.empty((len(steps), len(self._character.surface.vertices), 3), np.float32)
        for frame, step in zip(frames, steps, strict=True):
            root = roots[step]
            frame[:] = self._character.rig(poses[step]) @ root[:3, :3].T + root[:3, 3]
        return frames

    def drop_rig(self) -> None:
        """Free the memory of `rig`, which is computed again when it is used."""
        vars(self).pop("rig", None)


def factors_on_tets(
    parts: Sequence[SkinPart], model: CharacterModel
) -> Callable[[Floats], tuple[float, Floats | None]]:
    """Return a function of logarithms (k,) of factors on parts of the skin.

    Its values are the factor on all flesh, and factors (T,) on tets in addition, None if all are 1.
    """
    weights = [part.tet_weights(model) for part in parts]

    def factors(x: Floats) -> tuple[float, Floats | None]:
        factor, local = 1.0, None
        for each, value in zip(weights, x.tolist(), strict=True):
            if each is None:
                factor = float(np.exp(value))
            elif value:
                local = np.exp(value * each) * (1.0 if local is None else local)
        return factor, local

    return factors


def stiffness_by_part(
    parts: Sequence[SkinPart], model: CharacterModel, base: Feel
) -> Callable[[Floats], Feel]:
    """Return a function of logarithmic factors (k,) on the stiffness of parts that gives a feel."""
    factors = factors_on_tets(parts, model)
    return lambda x: base.stiffer(*factors(x))
