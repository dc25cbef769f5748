"""Copies of simulators: they share the model's tables, and have states and scratch of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from copy import deepcopy
from typing import Any, ClassVar, Self

from supple.engines.pose_space.runtime import RuntimeModel
from supple.mesh.obstacles import Obstacle


class Copyable(ABC):
    """Base of simulators that can be copied and pickled: a copy goes on alone, to the bit.

    Steppers hold addresses of this process, and threads, so that a copy makes its own.
    """

    runtime: RuntimeModel
    #: Attributes that `_rebuild` makes, and copies leave out.
    _rebuilt: ClassVar[tuple[str, ...]]

    @abstractmethod
    def _rebuild(self, obstacles: Iterable[Obstacle]) -> None:
        """Make steppers, from all other attributes."""

    @abstractmethod
    def _all_obstacles(self) -> tuple[Obstacle, ...]:
        """Return the obstacles that there are."""

    def __getstate__(self) -> tuple[dict[str, Any], tuple[Obstacle, ...]]:
        kept = {name: value for name, value in vars(self).items() if name not in self._rebuilt}
        return kept, self._all_obstacles()

    def __setstate__(self, state: tuple[dict[str, Any], tuple[Obstacle, ...]]) -> None:
        kept, obstacles = state
        vars(self).update(kept)
        self._rebuild(obstacles)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = object.__new__(type(self))
        memo[id(self)] = twin
        memo.setdefault(id(self.runtime), self.runtime)  # it is only read
        twin.__setstate__(deepcopy(self.__getstate__(), memo))
        return twin

    def __copy__(self) -> Self:
        return deepcopy(self)  # one that shared the state would step the original
