"""Many characters of one rig-space model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_whole_numbers, numbers
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
            raise SuppleError(f"a crowd of {self.n}; give 1 to {MOST:,}")
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
        rows, places = self._rows(poses), self._places(roots)
        for k, each in enumerate(self._simulators):
            each.reset(None if rows is None else rows[k], None if places is None else places[k])

    def step(self, poses: ArrayLike, roots: ArrayLike | None = None) -> tuple[tuple[str, ...], ...]:
        """Advance all by `dt`, to poses (n, s) and roots (n, 4, 4); return limits that acted."""
        rows, places = self._rows(poses), self._places(roots)
        return tuple(
            each.step(
                None if rows is None else rows[k], None if places is None else places[k]
            ).limits
            for k, each in enumerate(self._simulators)
        )

    def surfaces(self, out: Singles | None = None) -> Singles:
        """Return all skins in the world, (n, n̄, 3) float32. `out` is overwritten."""
        target = checked_frames(out, (self.n, len(self.model.surface.vertices), 3))
        for skin, each in zip(target, self._simulators, strict=True):
            each.surface(skin)
        return target

    def _rows(self, poses: ArrayLike | None) -> Floats | None:
        if poses is None:
            return None
        shape = (self.n, len(self.model.rig.parameters))
        return checked_array("poses", numbers("poses", poses), shape)

    def _places(self, roots: ArrayLike | None) -> Floats | None:
        return None if roots is None else checked_array("roots", roots, (self.n, 4, 4))
