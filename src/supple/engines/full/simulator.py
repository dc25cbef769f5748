"""The public name of the unreduced engine, for bodies and for characters."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from supple.engines.common.flesh_fields import FleshFields
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.full.full_character import FullCharacterSimulator


class FullSimulator(metaclass=ABCMeta):  # noqa: B024 -- others are registered with it
    """Make the unreduced simulator that fits: of a body, or of a character's model.

    Parameters
    ----------
    body, model
        An `ElasticBody` or `HexBody`, which gives a `FullBodySimulator`; or a `FullModel` or
        `PoseSpaceModel`, which gives a `FullCharacterSimulator`: it takes poses and gives the
        skin.
    dt
        Seconds of a step.
    **options
        Of the class that is made: ``integrator``, ``newton``, ``alpha``, ``beta``, ``gravity``
        and more.

    Returns
    -------
    FullBodySimulator or FullCharacterSimulator
        Both count as instances of `FullSimulator`.

    Examples
    --------
    >>> from supple.elastic import ElasticBody
    >>> from supple.scenes import beam
    >>> simulator = FullSimulator(ElasticBody(beam(cells=(4, 1, 1))), fixed=[0, 1, 2, 3])
    >>> type(simulator).__name__, isinstance(simulator, FullSimulator)
    ('FullBodySimulator', True)
    """

    def __new__(cls, *given: Any, **options: Any) -> Any:
        """Make an object of the class that fits the first argument."""
        first = given[0] if given else options.get("model")
        made = FullCharacterSimulator if isinstance(first, FleshFields) else FullBodySimulator
        return made(*given, **options)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Let type checkers know that the object has more than this class."""


FullSimulator.register(FullBodySimulator)
