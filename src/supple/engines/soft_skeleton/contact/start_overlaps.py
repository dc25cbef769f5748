"""Overlaps of obstacles with the skin at the start: measured, refused, or pushed out gently."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.engines.common.contact.colliders import checked_distances
from supple.engines.soft_skeleton.model import SoftSkeletonModel
from supple.errors import SuppleError, warn
from supple.mesh.obstacles import Obstacle

#: Seconds in which an obstacle that overlaps the skin at the start pushes it out.
PUSH_OUT = 0.2
#: Deepest overlap that is pushed out, as a fraction of the body's size.
DEEPEST = 0.1
#: Deepest overlap without a warning: in m, that of a body at rest, plus a fraction of the size.
AT_REST, UNNOTICED = 2e-3, 2e-3


class StartOverlaps:
    """Depths of the skin in obstacles at the start, which are allowed and decrease to zero.

    They are resolved by bones that give way, unless the first one is driven, and by flesh.
    """

    def __init__(self, model: SoftSkeletonModel, owners: Ints, colliders: int) -> None:
        self._model, self._owners = model, owners
        #: (colliders,) depths in m that are left, and their decrease in m/s.
        self.depths, self._rates = np.zeros((2, colliders))
        #: Whether the depths have not been measured since the last reset.
        self.is_new = True

    @property
    def arrays(self) -> Floats:
        """(2, colliders + 1) depths, decreases, and `is_new`, for the state."""
        return np.column_stack([(self.depths, self._rates), (self.is_new, 0.0)])

    @arrays.setter
    def arrays(self, arrays: Floats) -> None:
        self.depths[:], self._rates[:] = arrays[:, :-1]
        self.is_new = bool(arrays[0, -1])

    def reset(self) -> None:
        """Discard all depths; the next step measures them again."""
        self.depths[:], self._rates[:], self.is_new = 0.0, 0.0, True

    def measure(
        self, obstacles: Sequence[Obstacle], skin: Floats, free: Bools, driven: bool, refuse: bool
    ) -> None:
        """Measure the depths of the `skin` (n̄, 3), at vertices `free` (n̄,), in the obstacles.

        `driven` is whether the first bone follows the motion exactly. With `refuse`, depths that
        cannot be resolved raise an error.
        """
        size = self._model.surface.size
        for k, obstacle in enumerate(obstacles):
            depths = np.where(free, -checked_distances(obstacle, skin)[0], 0.0)
            v, deepest = int(depths.argmax()), float(depths.max())
            if deepest <= 0.0:
                continue
            if refuse:
                self._check(k, depths, skin, driven)
            seconds = max(PUSH_OUT, PUSH_OUT * deepest / (DEEPEST * size))
            if deepest > AT_REST + UNNOTICED * size:
                warn(
                    f"obstacle {k} is {deepest:.3g} m deep in the skin at the start, at"
                    f" {self._bone(v)}; it pushes the skin out within {seconds:.2g} s"
                )
            self.depths[k], self._rates[k] = deepest, deepest / seconds
        self.is_new = False

    def _check(self, obstacle: int, depths: Floats, skin: Floats, driven: bool) -> None:
        """Raise an error for depths (n̄,) in an obstacle that cannot be resolved."""
        v, most = int(depths.argmax()), DEEPEST * self._model.surface.size
        reason = f"at most {most:.3g} m, a tenth of the size, can be pushed out"
        if depths[v] <= most:
            thickness = self._model.thickness
            beyond = np.where(self._owners == 0, depths - thickness, 0.0)
            v = int(beyond.argmax())
            if not driven or beyond[v] <= 0.0:
                return
            reason = f"{thickness[v]:.3g} m of flesh are on this bone, which is driven"
        place = ", ".join(f"{each:.3g}" for each in skin[v])
        raise SuppleError(
            f"obstacle {obstacle} is {depths[v]:.3g} m deep in the skin at the start, at"
            f" {self._bone(v)} ({place}); {reason}: move the obstacle"
        )

    def _bone(self, vertex: int) -> str:
        return self._model.bones[self._owners[vertex]]

    def after(self, seconds: float) -> Floats:
        """Return the depths (colliders,) that are left after some seconds."""
        return np.maximum(self.depths - seconds * self._rates, 0.0)
