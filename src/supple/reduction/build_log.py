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
    ...     log.report(0.5, 'pose "crouch"')
    >>> list(log.stages)
    ['modes']
    """

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the ``with`` block to the stage `name`."""
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
        """Total time of all stages, in s."""
        return sum(self.stages.values())

    def report(self, part: float, what: str) -> None:
        """Do nothing; subclasses may display the fraction done of the stage, and its current work.

        `part` is the fraction, and `what` describes the work.
        """

    def began(self, name: str) -> None:
        """Do nothing; subclasses may display the start of a stage."""

    def ended(self, name: str) -> None:
        """Do nothing; subclasses may display the end of a stage, also after an error."""
