"""Engines: a folder for each way to step a character or a body through time."""

from typing import TYPE_CHECKING

from supple.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from supple.engines.engine import (
        ENGINES,
        BodyEngine,
        CharacterEngine,
        Engine,
        StepState,
        engine_named,
        engine_of,
    )
    from supple.engines.optional_parts import LocalStiffness, ParameterSprings, SoftContact

__all__ = [
    "ENGINES",
    "BodyEngine",
    "CharacterEngine",
    "Engine",
    "LocalStiffness",
    "ParameterSprings",
    "SoftContact",
    "StepState",
    "engine_named",
    "engine_of",
]

__getattr__ = lazy_imports(__name__)
