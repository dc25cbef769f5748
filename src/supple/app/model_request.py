"""Model of a command: options of the flesh from the command line, and a cached or new model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from supple.anatomy.region_entries import ENTRIES_SUFFIX, entries_for
from supple.app.options import (
    ANISOTROPIC,
    BakeOptions,
    BuildOptions,
    CommandOptions,
    CurveOptions,
    SoftBodyOptions,
    ViewOptions,
    body_options,
)
from supple.app.soft_body_words import soft_body_values
from supple.arrays import Floats
from supple.engines.engine import Engine, engine_named
from supple.engines.options import without_none
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import read_text, reading
from supple.formats.gltf.accessors import COMPONENTS, Accessors, decode_draco
from supple.formats.gltf.document import DRACO, Document
from supple.formats.gltf.read.gltf import GltfSource
from supple.mesh.topology import counted
from supple.playback.bake_model import GivenAnatomy
from supple.playback.bake_plan import BakePlan, bake_plan, played_engine
from supple.playback.character_models import (
    PreparedModel,
    default_anatomy,
    has_good_model,
    prepared_model,
)
from supple.playback.character_sources import CharacterSource, gltf_document, read_character
from supple.playback.feel.feel import USUAL_FEEL, file_feel, with_file_feel
from supple.playback.motion_choice import chosen_motion, chosen_motions
from supple.playback.quality_choice import SEARCHED, QualityChoice, choose_quality
from supple.rig.character import Character
from supple.rig.motion.motion_names import is_pattern

#: Most free parameters, and bytes of a stiffness map.
MOST_NAMES = 100_000
LARGEST_MAP = 16 * 2**20
#: Lower bound of a painted factor: black flesh keeps some stiffness.
LEAST_FACTOR = 0.02
CHANNELS = {"red": [0], "green": [1], "blue": [2], "alpha": [3], "brightness": [0, 1, 2]}


def flesh_values(
    source: CharacterSource, options: CommandOptions, model: Path | None = None
) -> dict[str, Any]:
    """Return the given options of the flesh except `flesh` and `engine`, and the anatomy."""
    values = options.flesh_words() | {"free": free_names(options.free)}
    if options.stiffness is not None:
        values["stiffness"] = read_stiffness(options.stiffness, source.character)
    if isinstance(options, BuildOptions):
        values["stiffness_at"] = maps_by_pose(options.stiffness_at, source.character)
    if isinstance(options, SoftBodyOptions):
        _check_soft_words(options)
        values |= soft_body_values(options.soft_words())
    anatomy = chosen_anatomy(options.anatomy, source, model)
    if model is None and isinstance(anatomy, Mapping):  # from a file, which may have a feel
        named = without_none(values) | {"anatomy": options.anatomy}
        felt = with_file_feel(source.character, named, entries=anatomy)
        values |= {name: felt.get(name) for name in ("stiffness", "local_feel")}
    return without_none(values) | {"anatomy": anatomy}


def _check_soft_words(options: SoftBodyOptions) -> None:
    """Refuse options that only soft skeletons have, for other engines, before any work."""
    row = engine_named(options.engine, "character")
    wrong = [f"--{name}" for name in options.soft_words() if name not in row.build_options]
    if options.material in ANISOTROPIC and "handles" not in row.build_options:
        wrong.append(f"--material {options.material}")
    if wrong:
        raise SuppleError(f"{wrong[0]}: {row.name} has none; use --engine soft-skeleton")


def with_kept_feel(options: Any) -> Any:
    """Return options of a command with preset, damping and swing of the anatomy file they name."""
    if options.anatomy is None or not options.anatomy.endswith(".json"):
        return options
    feel, usual = file_feel(options.anatomy), type(options)()
    changes = {
        name: feel[name]
        for name in USUAL_FEEL
        if name in feel
        and hasattr(options, name)
        and getattr(options, name) == getattr(usual, name)
    }
    if isinstance(options, CurveOptions) and "damping" in changes:  # a list of words
        changes["damping"] = [f"{changes['damping']:g}"]
    return replace(options, **changes)


def command_model(
    name: str,
    source: CharacterSource,
    options: BakeOptions | CurveOptions | ViewOptions,
    engine: str,
    *,
    quiet: bool = True,
    values: dict[str, Any] | None = None,
) -> PreparedModel:
    """Return the cached or newly built model of a command, for one engine.

    The character `source` was read from the file or scene `name`; `values` are its `flesh_values`.
    """
    values = flesh_values(source, options, options.model) if values is None else values
    built_for = _model_source(name, source, getattr(options, "model_motion", None), options)
    chosen: dict[str, Any] = {"model": options.model, "flesh": options.flesh, "engine": engine}
    return prepared_model(built_for, **chosen, quiet=quiet, **values)


def shared_model(name: str, options: BakeOptions | CurveOptions) -> PreparedModel:
    """Return the cached or newly built model that `supple bake` or `supple curves` would use."""
    row, options = engine_named(options.engine, "character"), with_kept_feel(options)
    curves = isinstance(options, BakeOptions)
    source = read_character(name, options.unit, curves=curves, **options.reading())
    if isinstance(options, BakeOptions):
        named = replace(options, motion=options.motion_name())
        plans = bake_plans(source.character, named, row)
        quality = command_quality(source, options, row, plans, {}, use_cache=False).quality
        row = played_engine(row, quality)
    return command_model(name, source, options, row.name)


def bake_plans(character: Character, options: BakeOptions, row: Engine) -> list[BakePlan]:
    """Return the plans of the chosen motions; SuppleError if one cannot be baked."""
    if options.all or (options.motion is not None and is_pattern(options.motion)):
        motions = chosen_motions(character, options.motion)
    else:
        motions = [chosen_motion(character, options.motion)]
    if len(motions) > 1 and (options.start is not None or options.end is not None):
        count = counted(len(motions), "motion")
        raise SuppleError(f"--from and --to are for one motion; {options.motion} matches {count}")
    plans = []
    for motion in motions:
        playing = options.playing()
        if len(motions) > 1:  # a single key cannot loop
            playing["loop"] = options.loop and motion.duration > 0
        plans.append(bake_plan(character, motion, **playing, engine=row.name))
    return plans


def command_quality(
    source: CharacterSource,
    options: BakeOptions,
    live: Engine,
    plans: Sequence[BakePlan],
    stepping: Mapping[str, Any],
    *,
    use_cache: bool,
    values: Mapping[str, Any] | None = None,
) -> QualityChoice:
    """Return the quality of a bake; with "auto" it is chosen by the expected time.

    Without `use_cache` the choice does not depend on the models in the cache, so that jobs of a
    batch give the same results in any order. `values` are the `flesh_values` of the source.
    """
    if options.quality != "auto":
        return QualityChoice(options.quality, "")
    if options.swing is not None:
        return QualityChoice("live", SEARCHED)
    given = options.model is not None or source.model is not None or bool(source.scene)
    kept = False
    if live.unreduced and use_cache and not given:
        values = flesh_values(source, options, options.model) if values is None else values
        kept = has_good_model(source, flesh=options.flesh, engine=live.name, **values)
    building = options.flesh_words()
    return choose_quality(live, plans, building, stepping, given=given, kept=kept)


def _model_source(
    name: str, source: CharacterSource, model_motion: str | None, options: CommandOptions
) -> CharacterSource:
    """Return the character that the model is built for: with the motion of `--model-motion`."""
    if model_motion is None:
        return source
    body = body_options(model_motion, options.betas)
    if "motion" not in body:
        raise SuppleError(
            f"--model-motion {model_motion[:60]}: use a motion file of a body model (.npz)"
        )
    return read_character(name, options.unit, curves=False, **body)


def chosen_anatomy(
    word: str | None, source: CharacterSource, model: Path | None = None
) -> GivenAnatomy:
    """Return the anatomy for the value of --anatomy: auto, none or a file of entries.

    Without a value, scenes and model files keep their flesh; other characters get the default.
    """
    if word is None:
        return None if model is not None else default_anatomy(source)
    if word in ("auto", "none"):
        return "auto" if word == "auto" else None
    if not word.endswith(".json"):
        raise SuppleError(f"--anatomy {word}: use auto, none or a file, NAME{ENTRIES_SUFFIX}")
    return entries_for(source.character, word)


def free_names(words: Sequence[str] | None) -> list[str] | None:
    """Return names of free parameters from words and lines of .txt files; None for "auto"."""
    if words is None or list(words) == ["auto"]:
        return None
    if not words:
        raise SuppleError("--free needs names, such as --free 'tail*', or auto")
    names: list[str] = []
    for word in words:
        if word.lower().endswith(".txt"):
            lines = (line.strip() for line in read_text(Path(word), (".txt",)).splitlines())
            names += [line for line in lines if line and not line.startswith("#")]
        else:
            names.append(word)
    if not 0 < len(names) <= MOST_NAMES:
        raise SuppleError(f"--free {words[0]}: has {len(names):,} names; use 1 to {MOST_NAMES:,}")
    return names


def read_stiffness(text: str, character: Character) -> Any:
    """Return the option `stiffness` of `supple.bake` for the value of --stiffness.

    The value is ``color:COLOR_0``, a vertex colour of the character's glTF file whose brightness is
    the factor (``color:COLOR_0:red`` for one channel; black is 0.02), or a JSON file.
    """
    kind, _, rest = text.partition(":")
    if kind.lower() in ("color", "colour") and rest:
        attribute, _, channel = rest.partition(":")
        return _painted(character, attribute, channel or "brightness")
    path = Path(text)
    try:
        if path.stat().st_size > LARGEST_MAP:
            raise FormatError(f"{path.name}: is too large for a stiffness map (over 16 MiB)")
        factors = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise FormatError(f"{path.name}: cannot be read ({why}); give a JSON file") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path.name}: is not JSON ({str(error)[:80]})") from None
    if not isinstance(factors, dict):
        raise FormatError(f'{path.name}: must be an object, such as {{"joints": {{"Tail*": 0.3}}}}')
    return factors


def maps_by_pose(words: Sequence[str] | None, character: Character) -> dict[str, Any] | None:
    """Return stiffness maps by pose for the words of --stiffness-at; None for none."""
    if words is None:
        return None
    maps: dict[str, Any] = {}
    for word in words:
        pose, sign, text = word.rpartition("=")
        if not (pose and sign and text):
            raise SuppleError(f"--stiffness-at {word[:60]}: use POSE=MAP, such as Run:12=map.json")
        maps[pose] = read_stiffness(text, character)
    return maps


def _painted(character: Character, attribute: str, channel: str) -> Floats:
    """Return stiffness factors (n̄,): means of a channel of the vertex colour `attribute`.

    They are at least `LEAST_FACTOR`, and 1 for vertices without the colour.
    """
    if channel not in CHANNELS:
        raise SuppleError(f'colours have no channel "{channel}"; use {", ".join(CHANNELS)}')
    source = character.source
    if not isinstance(source, GltfSource):
        raise SuppleError(f"{character.name}: vertex colours are read from glTF files only")
    document = gltf_document(source)
    with reading(source.path.name):
        accessors = Accessors(document)
        count = len(character.surface.vertices)
        total, counts = np.zeros(count), np.zeros(count)
        names: set[str] = set()
        for part in source.primitives:
            described = document.part("meshes")[part.mesh]["primitives"][part.primitive]
            attributes = described.get("attributes", {})
            names.update(name for name in attributes if not name.startswith(("JOINTS", "WEIGHTS")))
            if attribute not in attributes:
                continue
            colours = _colours(document, accessors, described, attribute)
            columns = CHANNELS[channel]
            if len(colours) != len(part.welded) or colours.shape[1] <= max(columns):
                raise FormatError(
                    f'{source.path.name}: some colours "{attribute}" have no {channel}'
                )
            used = part.welded >= 0
            np.add.at(total, part.welded[used], colours[used][:, columns].mean(axis=1))
            np.add.at(counts, part.welded[used], 1.0)
    if not counts.any():
        listed = ", ".join(sorted(names))
        raise SuppleError(f'{source.path.name}: no vertex colour "{attribute}"; it has {listed}')
    # Vertices without the colour keep their stiffness.
    return np.maximum(np.where(counts > 0, total / np.maximum(counts, 1), 1.0), LEAST_FACTOR)


def _colours(
    document: Document, accessors: Accessors, primitive: dict[str, Any], attribute: str
) -> Floats:
    """Return colours (n, 3 or 4) from 0 to 1, decoded if the primitive is compressed."""
    index = primitive["attributes"][attribute]
    if DRACO in primitive.get("extensions", {}):
        count = accessors.count(primitive["attributes"]["POSITION"])
        decoded, _ = decode_draco(document, primitive, count)
        if attribute in decoded:
            values = decoded[attribute].astype(np.float64)
            kind = COMPONENTS[accessors.describe(index)[1]]
            return values if kind.kind == "f" else values / np.iinfo(kind).max
    return accessors.floats(index)
