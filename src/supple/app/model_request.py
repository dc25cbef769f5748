"""Models that bakes and curves ask for: options of a command ▸ a model, kept or built now."""

from __future__ import annotations

from typing import Any

from supple.app.body_options import body_options
from supple.app.character_models import (
    CharacterSource,
    PreparedModel,
    chosen_anatomy,
    prepared_model,
    read_character,
)
from supple.app.options import BakeOptions, CurveOptions
from supple.app.stiffness_maps import read_stiffness
from supple.engines.engine import Engine, engine_named
from supple.errors import SuppleError
from supple.playback.quality import played_engine


def bake_model(
    given: str,
    source: CharacterSource,
    options: BakeOptions,
    row: Engine,
    told: dict[str, Any],
    *,
    quiet: bool = True,
) -> PreparedModel:
    """Return the model that a character is baked with by an engine.

    Parameters
    ----------
    given
        File or scene that it was read from.
    source
        See `read_character`.
    options
        As given on the command line.
    row
        Engine that steps it.
    told
        See `bake_building`.
    quiet
        Do not show the stages of a build.
    """
    own = modelled(given, source, options)
    return prepared_model(
        own, model=options.model, flesh=options.flesh, engine=row.name, quiet=quiet, **told
    )


def bake_model_of(given: str, options: BakeOptions) -> PreparedModel:
    """Return the model that `supple bake` would step, kept or built now."""
    row = played_engine(engine_named(options.chosen_engine(), "character"), options.quality)
    body = body_options(options.motion, options.betas, options.armature)
    source = read_character(given, options.unit, **body)
    return bake_model(given, source, options, row, bake_building(source, options))


def bake_building(source: CharacterSource, options: BakeOptions) -> dict[str, Any]:
    """Return the options of `supple.bake` that say what is built, files among them read."""
    told = options.building()
    if options.stiffness is not None:
        told["stiffness"] = read_stiffness(options.stiffness, source.character)
    told["anatomy"] = chosen_anatomy(options.anatomy, source, options.model)
    return told


def modelled(
    given: str, source: CharacterSource, options: BakeOptions | CurveOptions
) -> CharacterSource:
    """Return the character as its model is to be built: with the motion of `--model-motion`."""
    if options.model_motion is None:
        return source
    words = body_options(options.model_motion, options.betas)
    if "motion" not in words:
        what = options.model_motion[:60]
        raise SuppleError(f"--model-motion {what}: use a file of a body's motion (.npz)")
    return read_character(given, options.unit, curves=False, **words)
