"""Many characters of one rig-space model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_whole_numbers
from supple.dynamics.character_inputs import checked_frames
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.simulator import RigSpaceSimulator
from supple.errors import SuppleError

#: Largest number of characters.
MOST = 10_000


class RigSpaceCrowd:
    """Simulator of n characters of one model; each steps as it would alone.

    Parameters
    ----------
    model
        Model of all characters.
    n
        Number of characters.
    dt, **options
        As for `RigSpaceSimulator`.
    """

    def __init__(self, model: RigSpaceModel, n: int, dt: float = 1 / 90, **options: Any) -> None:
        (self.n,) = checked_whole_numbers("size of a crowd", [n])
        if not 1 <= self.n <= MOST:
            raise SuppleError(f"n is {self.n}; use 1 to {MOST:,}")
        self.model = model
        self._simulators = [RigSpaceSimulator(model, dt, **options) for _ in range(self.n)]

    def __len__(self) -> int:
        return self.n

    @property
    def dt(self) -> float:
        """Seconds from one pose to the next."""
        return self._simulators[0].dt

    @property
    def parameters(self) -> Floats:
        """Poses (n, s) of the rigs."""
        return np.stack([each.parameters for each in self._simulators])

    def reset(self, poses: ArrayLike | None = None, roots: ArrayLike | None = None) -> None:
        """Reset to rest at poses (n, s) and roots (n, 4, 4)."""
        for simulator, pose, root in self._inputs(poses, roots):
            simulator.reset(pose, root)

    def step(self, poses: ArrayLike, roots: ArrayLike | None = None) -> tuple[tuple[str, ...], ...]:
        """Advance all characters by `dt` to poses (n, s) and roots (n, 4, 4); return limits that
        acted.
        """
        inputs = self._inputs(poses, roots)
        return tuple(simulator.step(pose, root).limits for simulator, pose, root in inputs)

    def surfaces(self, out: Singles | None = None) -> Singles:
        """Return all skins in the world, (n, n̄, 3) float32: a new array, or `out`."""
        target = checked_frames(out, (self.n, len(self.model.surface.vertices), 3))
        for skin, simulator in zip(target, self._simulators, strict=True):
            simulator.surface(skin)
        return target

    def _inputs(self, poses: ArrayLike | None, roots: ArrayLike | None) -> Iterable[Any]:
        """Return the simulators with their poses (s,) and roots (4, 4), or None for the default."""
        rows = places = [None] * self.n
        if poses is not None:
            rows = list(checked_array("poses", poses, (self.n, len(self.model.rig.parameters))))
        if roots is not None:
            places = list(checked_array("roots", roots, (self.n, 4, 4)))
        return zip(self._simulators, rows, places, strict=True)
