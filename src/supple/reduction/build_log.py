"""Progress of a build: its stages, and the time each took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class BuildLog:
    """Collection of the stages of a build; subclasses show them.

    Attributes
    ----------
    stages
        Seconds by name of stage, in the order they began. A stage entered again adds up.

    Examples
    --------
    >>> log = BuildLog()
    >>> with log.stage("modes"):
    ...     log.tell(0.5, 'pose "crouch"')
    >>> list(log.stages)
    ['modes']
    """

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time spent inside as this stage's."""
        self.stages.setdefault(name, 0.0)
        self.began(name)
        start = perf_counter()
        try:
            yield
        finally:
            self.stages[name] += perf_counter() - start
            self.ended(name)

    @property
    def seconds(self) -> float:
        """Time of all stages together."""
        return sum(self.stages.values())

    def tell(self, part: float, what: str) -> None:
        """Say how much of the current stage is done, 0 to 1, and what is being done."""

    def began(self, name: str) -> None:
        """Called when a stage begins."""

    def ended(self, name: str) -> None:
        """Called when a stage ends, well or not."""
