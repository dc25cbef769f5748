"""Engines: a folder for each way to step a character or a body through time."""

from supple.engines.engine import (
    ENGINES,
    BodyEngine,
    CharacterEngine,
    Engine,
    LocalStiffness,
    ParameterSprings,
    StepState,
    engine_named,
    engine_of,
)

__all__ = [
    "ENGINES",
    "BodyEngine",
    "CharacterEngine",
    "Engine",
    "LocalStiffness",
    "ParameterSprings",
    "StepState",
    "engine_named",
    "engine_of",
]
