"""Models of characters: from a model file, from the cache, or built now.

Models of scenes and of characters are kept in the user's cache folder by content: the same mesh,
rig, motions and options find the same model under any file name; see `supple.user_cache`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from supple.anatomy.flesh_presets import Flesh, checked_flesh
from supple.engines.common.accuracy import Accuracy, warn_if_bad
from supple.engines.engine import CHARACTER_MODEL, FIRST_ENGINE, Engine, engine_named, engine_of
from supple.engines.factory import load_model
from supple.playback.bake_model import (
    ANATOMY,
    SCALED_LOADS,
    GivenAnatomy,
    check_model,
    model_options,
)
from supple.playback.character_sources import CharacterSource, load_character_model, source_of
from supple.playback.feel.build_reason import build_reason
from supple.playback.feel.feel import AS_BUILT, BEYOND, Feel, FeelRequest
from supple.playback.model_accuracy import Comparison
from supple.playback.progress_bar import ShownProgress, build_log, shows_progress
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.stored_rigs import GIVEN, KINDS, stored_rig
from supple.scenes.characters.character_scene import scene
from supple.user_cache import Cached, cached, cached_file, content_hash, model_cache
from supple.user_cache import keep as store

#: Number of models of characters that are kept; the least recently used is removed first.
MOST_KEPT = 24
_SCENE_MODELS = model_cache(CHARACTER_MODEL, load_model)
_CHARACTER_MODELS = model_cache(CHARACTER_MODEL, load_model, MOST_KEPT)


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """Model of a character, and the `seconds` that reading or building it took.

    `kept` is True if the model was read, not built; `path` is its file in the cache, or None if it
    is not stored there; `scaled_loads` is as for `bake_simulator`. `feel` is the stiffness that its
    simulators take at run time, and `reason` why it was built although the cache has another one.
    """

    model: Any
    seconds: float
    kept: bool
    scaled_loads: bool = SCALED_LOADS
    path: Path | None = None
    feel: Feel = AS_BUILT
    reason: str = ""

    def figures(self) -> dict[str, Any]:
        """Return the figures for the report of a command."""
        figures = {"build_s": round(self.seconds, 3), "model_kept": self.kept}
        descriptions = {"feel": self.feel.words(), "build_reason": self.reason}
        return figures | {name: text for name, text in descriptions.items() if text}


def prepared_model(
    source: CharacterSource,
    *,
    model: Path | None = None,
    flesh: str | Flesh = "normal",
    engine: str = FIRST_ENGINE,
    anatomy: GivenAnatomy = None,
    keep: bool = True,
    log: BuildLog | None = None,
    quiet: bool = True,
    **building: Any,
) -> PreparedModel:
    """Return the model of a character: from a model file, from the cache, or built now.

    `building` has `young`, `poisson`, `stiffness` and options of the engine's builder. Stiffness is
    not an option of the model, but of its simulators, where `FeelRequest` allows: one model is kept
    for all. With `keep` the model is read from the cache or stored there. `log` receives the stages
    of a build in place of the terminal; `quiet` hides them.

    A model that is built here is compared with the full simulation, see `Comparison.checked`; the
    report of the model has its accuracy. `build` and `scene_model` do not compare: their options
    are exact.
    """
    began = perf_counter()
    character, loaded = source.character, source.model
    if model is not None:
        loaded = load_character_model(model)
    if loaded is not None:
        check_model(character, loaded, flesh=flesh, anatomy=anatomy, **building)
        warn_of_model(loaded)
        return PreparedModel(loaded, perf_counter() - began, True)
    scaled = SCALED_LOADS if source.scene else anatomy is not None
    feel_request, reason = _feel_request(source, engine, flesh, anatomy, building), ""
    if _is_plain_scene(source, feel_request):
        comparison = Comparison.of(engine, feel_request.flesh, scaled, source.recipe(engine))
        result = _scene_model(source.scene, engine, quiet, log, keep)
        result = _compared_scene(source.scene, engine, result, comparison, quiet, log)
    else:
        request = _request(source, engine, feel_request)
        comparison = Comparison.of(engine, feel_request.flesh, scaled, request)
        result = _character_model(character, comparison, request, keep, quiet, log)
        if keep and (content := _content(character, engine_named(engine))) is not None:
            options = {**request, "flesh": checked_flesh(feel_request.flesh)}
            reason = build_reason(content_hash(*content, engine), options, result.was_cached)
        if feel_request.beyond and not result.was_cached:
            reason = BEYOND
    feel, seconds = feel_request.feel(result.value), perf_counter() - began
    warn_of_model(result.value, feel)
    return PreparedModel(
        result.value, seconds, result.was_cached, scaled, result.path, feel, reason
    )


def _feel_request(
    source: CharacterSource,
    engine: str,
    flesh: str | Flesh,
    anatomy: GivenAnatomy,
    building: Mapping[str, Any],
) -> FeelRequest:
    """Divide the options of a call into those of a model and those that act at run time."""
    character, row = source.character, engine_named(engine, "character")
    if np.ndim(source.recipe(engine).get("young", 0)) > 1 and building.get("young") is not None:
        return FeelRequest.as_given(character, row, flesh, anatomy, building)  # it follows poses
    return FeelRequest.of(character, row, flesh, anatomy, building)


def fitting_model(
    source: CharacterSource,
    model: Any,
    flesh: Flesh,
    engine: str,
    building: dict[str, Any],
    keep: bool,
    progress: ShownProgress,
) -> PreparedModel:
    """Return the given model if it fits the character; without one, find or build it.

    For a model that a user gave, call `warn_of_model` as well.
    """
    if model is not None:
        check_model(source.character, model, flesh=flesh, **building)
        return PreparedModel(model, 0.0, True)
    options = {"anatomy": default_anatomy(source)} | building
    quiet = not shows_progress(progress)
    return prepared_model(source, flesh=flesh, engine=engine, keep=keep, quiet=quiet, **options)


def kept_model(
    source: CharacterSource,
    *,
    flesh: str | Flesh = "normal",
    engine: str = FIRST_ENGINE,
    anatomy: GivenAnatomy = None,
    **building: Any,
) -> PreparedModel | None:
    """Return the result of `prepared_model` if the model is in the cache, else None.

    `source` must not be a model file.
    """
    feel_request = _feel_request(source, engine, flesh, anatomy, building)
    if _is_plain_scene(source, feel_request):
        label, content = _scene_key(source.scene, engine, {})
    else:
        request = _request(source, engine, feel_request)
        content = _character_key(source.character, feel_request.flesh, engine, request)
        label = "model-own"
    path = cached_file(_SCENE_MODELS, label, content)
    if path is None or not path.is_file():
        return None
    with suppress(Exception):  # a damaged file raises nearly anything
        model = _renamed(load_model(path), source.character.name)
        return PreparedModel(model, 0.0, True, path=path, feel=feel_request.feel(model))
    return None


def warn_of_model(model: Any, feel: Feel = AS_BUILT) -> None:
    """Warn if a model is far from the full simulation; `feel` is its stiffness at run time."""
    name, report = getattr(model, "name", "the model"), getattr(model, "report", {})
    warn_if_bad(name, report, " with normal flesh" if feel.changes else "")


def has_good_model(source: CharacterSource, **options: Any) -> bool:
    """Return whether `kept_model` has a model that is not far from the full simulation."""
    kept = kept_model(source, **options)
    accuracy = None if kept is None else Accuracy.of(getattr(kept.model, "report", {}))
    return kept is not None and not (accuracy is not None and accuracy.bad)


def keeps_models(keep: bool | None) -> bool:
    """Return whether models are cached: `keep`, or if None, whether SUPPLE_KEEP_MODELS is not 0."""
    return os.environ.get("SUPPLE_KEEP_MODELS") != "0" if keep is None else bool(keep)


def default_anatomy(source: CharacterSource) -> GivenAnatomy:
    """Return the default anatomy; None for scenes and model files, whose flesh is given."""
    return None if source.scene or source.model is not None else ANATOMY


def build(
    character: Any,
    *,
    engine: str = FIRST_ENGINE,
    keep: bool | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Any:
    """Build the model of a character for an engine.

    Parameters
    ----------
    character
        Character of `supple.load`, or the path of a file; a mesh for engines of bodies.
    engine
        ``"pose-space"`` or another key of `supple.engines.ENGINES`.
    keep
        Read the model of a character from the user's cache folder, or write it there; a model is
        found by the content of the character and the options. By default True, unless the
        environment variable ``SUPPLE_KEEP_MODELS`` is 0.
    progress
        Show bars; by default on a terminal and in a notebook.
    **options
        Options of the engine's builder. Pose-space has, among others, ``poses``, ``modes``,
        ``tets``, ``material``, ``young``, ``poisson``, ``regions``, ``contacts``, ``executor``,
        ``log``: see `supple.engines.pose_space.build`.

    Returns
    -------
    model
        A model to save, or to step with `supple.Simulator`.

    Examples
    --------
    >>> import supple
    >>> from supple.scenes import scene
    >>> x = scene("x")
    >>> model = supple.build(x.character, **(x.recipe() | {"tets": 1000, "modes": 8}))
    >>> model.engine
    'pose-space'
    """
    row = engine_named(engine)
    row.check_options(options)
    if row.moves == "character" and isinstance(character, str | Path):
        character = source_of(character).character
    if not isinstance(character, Character):
        return row.build_model(character, **options)
    quiet = not shows_progress(progress)
    return _built_model(character, row, options, keeps_models(keep), quiet)


def _built_model(
    character: Character, row: Engine, options: Mapping[str, Any], keep: bool, quiet: bool
) -> Any:
    """Build a model with exactly these options of the builder, or return the cached one."""

    def make() -> Any:
        with build_log(quiet) as log:
            shown = {} if quiet or "log" in options else row.accepted_options(log=log)
            return row.build_model(character, **shown, **options)

    hashed = {name: value for name, value in options.items() if name not in ("executor", "log")}
    content = _content(character, row) if keep else None
    key = None if content is None else content_hash(*content, hashed, row.name)
    return _renamed(cached(_CHARACTER_MODELS, "model-built", make, key).value, character.name)


def _is_plain_scene(source: CharacterSource, feel_request: FeelRequest) -> bool:
    """Return whether the source is a scene that is built by its recipe without changes."""
    normal = checked_flesh(feel_request.flesh) == checked_flesh("normal")
    changed = feel_request.building or feel_request.anatomy is not None
    return bool(source.scene) and normal and not changed


def _request(source: CharacterSource, engine: str, feel_request: FeelRequest) -> dict[str, Any]:
    """Return options of `model_options`: those of a scene's recipe, overridden by given ones."""
    recipe = engine_named(engine).accepted_options(**source.recipe(engine))
    painted, building = recipe.pop("young", None), feel_request.building
    return {"painted": painted, "anatomy": feel_request.anatomy, **recipe, **building}


def _content(character: Character, row: Engine) -> tuple[Any, ...] | None:
    """Return the character's data that a build uses: surface, rig, motions, labels, painted maps.

    Return None for black-box rigs, and for engines or rig classes outside Supple, because the cache
    key does not cover changes of their code.
    """
    header, arrays = stored_rig(character.rig)
    kinds = {part["kind"] for part in header["parts"]}
    if GIVEN in kinds:
        return None
    modules = [row.builder, row.model, *(KINDS[kind].__module__ for kind in kinds)]
    if not all(module.startswith("supple.") for module in modules):
        return None
    mesh = character.surface
    others = dict(character.motions), character.labels, character.painted
    return (mesh.vertices, mesh.triangles, header, arrays, *others)


def _character_key(
    character: Character, flesh: str | Flesh, engine: str, request: dict[str, Any]
) -> str | None:
    """Return the cache key of a character's model; None if the model is not cached.

    The key covers the options of the call, not derived data such as tets, which take seconds.
    """
    row = engine_named(engine)
    content = _content(character, row)
    if content is None:
        return None
    defaults = dict(row.bake_options), _model_engine(engine)
    return content_hash(*content, checked_flesh(flesh), request, *defaults)


def _character_model(
    character: Character,
    comparison: Comparison,
    request: dict[str, Any],
    keep: bool,
    quiet: bool,
    log: BuildLog | None,
) -> Cached:
    """Return the model of a character from the cache, or build it and measure its accuracy."""
    row, flesh, engine = comparison.row, comparison.flesh, comparison.row.name

    def make() -> Any:
        with nullcontext(log) if log is not None else build_log(quiet) as shown:
            with nullcontext() if request["anatomy"] is None else shown.stage("anatomy"):
                options = model_options(character, flesh, engine, **request)
            options |= row.accepted_options(log=shown)
            return comparison.checked(
                lambda **changes: row.build_model(character, **(options | changes)), shown
            )

    key = _character_key(character, flesh, engine, request) if keep else None
    result = cached(_CHARACTER_MODELS, "model-own", make, key)
    return result._replace(value=_renamed(result.value, character.name))


def _renamed(model: Any, name: str) -> Any:
    """Return a model with another name, also in its report; unchanged if its class has no name."""
    if not is_dataclass(model) or isinstance(model, type):
        return model
    named = "name" in {each.name for each in fields(model)}
    if not named or getattr(model, "name", name) == name:
        return model
    report = getattr(model, "report", {})
    changes = {"report": {**report, "name": name}} if "name" in report else {}
    return replace(model, name=name, **changes)


def stepped_by(row: Engine, model: Any) -> Engine:
    """Return the engine `row` if it can step a model, otherwise the engine of the model."""
    return row if row.steps(model) else engine_of(model)


# Models of scenes


def scene_model(name: str, *, quiet: bool = True, **changes: Any) -> Any:
    """Return the model of a scene, built by its recipe; see `scene_model_file`."""
    return _scene_model(name, FIRST_ENGINE, quiet, **changes).value


@contextmanager
def scene_model_file(
    name: str, *, engine: str = FIRST_ENGINE, quiet: bool = True, **changes: Any
) -> Iterator[Path]:
    """Yield the path of a scene's model file in the cache, or else in a temporary folder.

    `changes` are options that differ from the scene's recipe.
    """
    result = _scene_model(name, engine, quiet, **changes)
    if result.path is not None:
        yield result.path
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}{CHARACTER_MODEL}"
        result.value.save(path)
        yield path


def _scene_model(
    name: str,
    engine: str,
    quiet: bool,
    log: BuildLog | None = None,
    keep: bool = True,
    **changes: Any,
) -> Cached:
    def make() -> Any:
        subject, row = scene(name), engine_named(engine)
        with nullcontext(log) if log is not None else build_log(quiet) as shown:
            recipe = row.accepted_options(**subject.recipe(engine), log=shown) | changes
            return row.build_model(subject.character, **recipe)

    label, options = _scene_key(name, engine, changes)
    return cached(_SCENE_MODELS, label, make, options if keep else None)


def _compared_scene(
    name: str,
    engine: str,
    result: Cached,
    comparison: Comparison,
    quiet: bool,
    log: BuildLog | None,
) -> Cached:
    """Return a scene's model with its accuracy; store it again if that was measured now.

    `scene_model` stores models without accuracy in the same file.
    """
    if not comparison.possible or Accuracy.of(getattr(result.value, "report", {})):
        return result
    with nullcontext(log) if log is not None else build_log(quiet) as shown:
        # The recipe determines the reduction: the scene is not built again in another way.
        fixed = replace(comparison, automatic=False)
        model = fixed.checked(lambda: result.value, shown)
    if result.path is not None and model is not result.value:
        label, options = _scene_key(name, engine, {})
        store(_SCENE_MODELS, label, model, options)
    return result._replace(value=model)


def _scene_key(name: str, engine: str, changes: dict[str, Any]) -> tuple[str, str | None]:
    """Return the label of a scene's model file, and the hash of changes to its recipe."""
    model_engine = _model_engine(engine)
    label = f"model-{name}" if model_engine == FIRST_ENGINE else f"model-{name}-{model_engine}"
    return label, content_hash(changes) if changes else ""


def _model_engine(engine: str) -> str:
    """Return the engine name in an engine's model files; engines that share models share it."""
    stored: str = engine_named(engine, "character").model_class.engine
    return stored
