"""`FullSimulator`: unreduced simulators of bodies and of characters under one name."""

from __future__ import annotations

from abc import ABCMeta
from typing import TYPE_CHECKING, Any

from supple.engines.common.flesh_fields import FleshFields
from supple.engines.full.full_body import FullBodySimulator
from supple.engines.full.full_character import FullCharacterSimulator


class FullSimulator(metaclass=ABCMeta):  # noqa: B024 -- classes are registered with it
    """Factory of unreduced simulators, of a body or of a character's model.

    Parameters
    ----------
    body, model
        An `ElasticBody` or `HexBody` for a `FullBodySimulator`, or a `FullModel` or
        `PoseSpaceModel` for a `FullCharacterSimulator`, which takes poses and returns the skin.
    dt
        Seconds of a step.
    **options
        Options of that class: ``integrator``, ``newton``, ``alpha``, ``beta``, ``gravity`` and
        others.

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

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """Make an object of the class that the first argument requires."""
        first = arguments[0] if arguments else options.get("model")
        simulator = FullCharacterSimulator if isinstance(first, FleshFields) else FullBodySimulator
        return simulator(*arguments, **options)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Declare to type checkers that objects have more attributes than this class."""


FullSimulator.register(FullBodySimulator)
