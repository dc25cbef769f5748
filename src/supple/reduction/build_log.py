"""Progress of a build: its stages, and the time each took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class BuildLog:
    """Stages of a build and their times; subclasses display them.

    Attributes
    ----------
    stages
        Seconds by name of stage, in the order of their start. Repeated stages add up.

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
        """Measure the time of the block as this stage's."""
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
        """Total time of all stages."""
        return sum(self.stages.values())

    def tell(self, part: float, what: str) -> None:
        """Report the fraction of the current stage that is done, and the current work."""

    def began(self, name: str) -> None:
        """Handle the start of a stage."""

    def ended(self, name: str) -> None:
        """Handle the end of a stage, after an error too."""
