"""Characters that commands are given, and their models: read, from the cache, or built now.

A source is a character file, a scene or a model file. Models of scenes and of files are built when
they are needed and kept in the user's cache folder; see `supple.user_cache`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from supple.anatomy.flesh_presets import Flesh, checked_flesh
from supple.anatomy.region_entries import ENTRIES_SUFFIX, entries_for
from supple.app.command_files import CHARACTER_MODEL, source_kind
from supple.app.progress_bar import build_log
from supple.engines.engine import FIRST_ENGINE, CharacterModel, Engine, engine_named, engine_of
from supple.engines.factory import build, load_model
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import reading
from supple.formats.gltf.container import Notes
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.length_units import metres_in
from supple.formats.load import load
from supple.playback.bake_model import (
    ANATOMY,
    SCALED_LOADS,
    GivenAnatomy,
    check_model,
    model_options,
)
from supple.reduction.build_log import BuildLog
from supple.rig.character import Character
from supple.rig.stored_rigs import GIVEN, stored_rig
from supple.scenes.characters.character_scene import scene
from supple.user_cache import Cached, cached, cached_file, content_hash, model_cache

#: Models of files that are kept; the one that was not used for longest goes first.
MOST_KEPT = 24


@dataclass(frozen=True, eq=False)
class CharacterSource:
    """Character, and what is known about its model.

    Attributes
    ----------
    scene
        Name of the scene, "" for none.
    model
        Model of a model file.
    """

    character: Character
    scene: str = ""
    model: CharacterModel | None = None

    def recipe(self, engine: str) -> dict[str, Any]:
        """Return options of an engine's builder that a scene has; nothing for a file."""
        return scene(self.scene).recipe(engine) if self.scene else {}


def read_any_character(
    given: str, unit: str | None = None, *, curves: bool = True, **body: Any
) -> CharacterSource:
    """Read the character of a file or a scene; a file of that name goes first.

    Parameters
    ----------
    given
        A file, or the name of a scene.
    unit
        Unit of the file, as `metres_in` reads it; by default what the file says.
    curves
        Whether curves that were added to the file are in it.
    **body
        Motion and shape of a body model, as `body_options` has them.
    """
    metres = None if unit is None else metres_in(unit)
    if source_kind(given) in ("scene", "body scene"):
        _check_body(given, body)
        shown = scene(given)  # where there is none, an error that knows their names
        _check_unit(given, unit)
        return CharacterSource(shown.character, given)
    return CharacterSource(load(given, metres_per_unit=metres, curves=curves, **body))


def _check_unit(given: str, unit: str | None) -> None:
    if unit is not None:
        raise SuppleError(f"{given}: is in metres; --unit is for files of characters")


def _check_body(given: str, body: dict[str, Any]) -> None:
    if "armature" in body:
        raise SuppleError(f"{given}: has no armature of Blender's; leave out --armature")
    if body:
        raise SuppleError(f"{given}: is no body model; motion files and --betas are for those")


def read_character(
    given: str, unit: str | None = None, *, curves: bool = True, **body: Any
) -> CharacterSource:
    """Read the character of a file, a scene or a model, to which flesh can be given.

    Parameters
    ----------
    given, unit, curves, **body
        As for `read_any_character`.

    Raises
    ------
    SuppleError
        If there is none, or none that flesh can be given: no mesh, no rig, two characters.
    """
    if source_kind(given) == "model":
        _check_unit(given, unit)
        _check_body(given, body)
        model = load_character_model(given)
        own = Character(model.name, model.surface, model.rig, dict(model.motions))
        return CharacterSource(own, model=model)
    source = read_any_character(given, unit, curves=curves, **body)
    if not source.scene:
        _check_character(Path(given).name, source.character)
    return source


def _check_character(name: str, character: Character) -> None:
    if not character.has_mesh:
        raise SuppleError(f"{name}: has no mesh, and so no flesh to move")
    joints = _weighted_joints(character)
    if joints is not None and joints <= 1 and not character.motions:
        raise SuppleError(f"{name}: has no rig; bind its mesh to joints, and save it again")
    if isinstance(character.source, GltfSource):
        found = _skeletons(character.source)
        if len(found) > 1:
            listed = ", ".join(f'"{each}"' for each in found[:4])
            raise SuppleError(
                f"{name}: has {len(found)} characters ({listed}); save each in a file of its own"
            )


def _weighted_joints(character: Character) -> int | None:
    """Count the joints that move the skin; None for rigs that have more than joints, or none."""
    matrix = getattr(character.rig, "weight_matrix", None)
    return None if matrix is None else int(np.count_nonzero(matrix().sum(axis=0)))


def gltf_document(source: GltfSource) -> Document:
    """Read the glTF file of a character again, without its warnings."""
    with reading(source.path.name):
        return Document(source.path, source.read(), Notes(source.path.name))


def _skeletons(source: GltfSource) -> list[str]:
    """Return names of the topmost joints of skins that have nothing in common.

    Two skins are of one character if they share a joint, or one hangs on a joint of the other.
    """
    document = gltf_document(source)
    nodes = document.part("nodes")
    parent = {child: k for k, node in enumerate(nodes) for child in node.get("children", ())}
    shown = [primitive.node for primitive in source.primitives if primitive.node >= 0]
    used = {nodes[node]["skin"] for node in shown if "skin" in nodes[node]}
    groups: list[set[int]] = []
    for skin in sorted(used):
        joints = set(document.part("skins")[skin]["joints"])
        above = joints.union(*(_ancestors(joint, parent) for joint in joints))
        # A joint of one above the other; what both merely hang on is the scene's.
        same = [g for g in groups if g & above or joints & _all_above(g, parent)]
        groups = [g for g in groups if g not in same] + [joints.union(*same)]
    return sorted(_name(nodes, _top(group, parent)) for group in groups)


def _ancestors(node: int, parent: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while node in parent and parent[node] not in found:
        node = parent[node]
        found.add(node)
    return found


def _all_above(group: set[int], parent: dict[int, int]) -> set[int]:
    return set().union(*(_ancestors(joint, parent) for joint in group))


def _top(group: set[int], parent: dict[int, int]) -> int:
    return min(group, key=lambda joint: (len(_ancestors(joint, parent)), joint))


def _name(nodes: list[dict[str, Any]], node: int) -> str:
    return str(nodes[node].get("name") or f"node {node}")[:40]


# Models of characters


def chosen_anatomy(
    word: str | None, source: CharacterSource, model: Path | None = None
) -> GivenAnatomy:
    """Return the anatomy that a word on the command line means: auto, none or a file of entries.

    Without a word a file's character has the usual one; a scene's recipe and a model file have
    their flesh already.
    """
    if word is None:
        known = source.scene or source.model is not None or model is not None
        return None if known else ANATOMY
    if word in ("auto", "none"):
        return "auto" if word == "auto" else None
    if not word.endswith(".json"):
        raise SuppleError(f"--anatomy {word}: use auto, none or a file, NAME{ENTRIES_SUFFIX}")
    return entries_for(source.character, word)


def load_character_model(path: str | Path) -> Any:
    """Read a model file, of any engine that moves characters."""
    model = load_model(path)
    if engine_of(model).moves != "character":
        raise FormatError(f"{Path(path).name}: is no model of a character")
    return model


@dataclass(frozen=True, eq=False)
class PreparedModel:
    """Model, the seconds it took to get, whether it was there already, and its file in the cache.

    With `scaled_loads` gravity goes with the size: see `supple.playback.bake.bake_simulator`.
    """

    model: Any
    seconds: float
    kept: bool
    scaled_loads: bool = SCALED_LOADS
    path: Path | None = None


def prepared_model(
    source: CharacterSource,
    *,
    model: Path | None = None,
    flesh: str | Flesh = "normal",
    engine: str = FIRST_ENGINE,
    anatomy: GivenAnatomy = None,
    log: BuildLog | None = None,
    quiet: bool = True,
    **told: Any,
) -> PreparedModel:
    """Return the model of a character: of a file, from the cache, or built now.

    Parameters
    ----------
    source
        See `read_character`.
    model
        A model file of this character.
    flesh, engine, **told
        As for `supple.bake`: `young`, `poisson`, `stiffness` and options of `supple.build`.
    anatomy
        ``"auto"``, entries by joint, or None for bones alone; models of files have theirs.
    log
        Told of the stages of a build, in place of the terminal.
    quiet
        Do not show the stages of a build.
    """
    began = perf_counter()
    character, own = source.character, source.model
    told = {name: value for name, value in told.items() if value is not None}
    if model is not None:
        own = load_character_model(model)
    if own is not None:
        check_model(character, own, flesh=flesh, anatomy=anatomy, **told)
        return PreparedModel(own, perf_counter() - began, True)
    if source.scene and flesh == "normal" and anatomy is None and not told:
        found = _scene_model(source.scene, engine, quiet)
    else:
        wanted = _wanted(source, engine, anatomy, told)
        found = _own_model(character, flesh, engine, wanted, quiet, log)
    scaled = SCALED_LOADS if source.scene else anatomy is not None
    return PreparedModel(found.value, perf_counter() - began, found.found, scaled, found.path)


def kept_model(
    source: CharacterSource,
    *,
    flesh: str | Flesh = "normal",
    engine: str = FIRST_ENGINE,
    anatomy: GivenAnatomy = None,
    **told: Any,
) -> Any:
    """Return the model that `prepared_model` would, if it was kept; None if it must be built.

    Parameters
    ----------
    source, flesh, engine, anatomy, **told
        As for `prepared_model`; `source` is no model file.
    """
    told = {name: value for name, value in told.items() if value is not None}
    label, content = _scene_key(source.scene, engine, {})
    if not (source.scene and flesh == "normal" and anatomy is None and not told):
        wanted = _wanted(source, engine, anatomy, told)
        label, content = "model-own", _own_key(source.character, flesh, engine, wanted)
    path = cached_file(_SCENE_MODELS, label, content)
    if path is None or not path.is_file():
        return None
    with suppress(Exception):  # a damaged file raises nearly anything
        return load_model(path)
    return None


def _wanted(
    source: CharacterSource, engine: str, anatomy: GivenAnatomy, told: dict[str, Any]
) -> dict[str, Any]:
    """Return options of `model_options` for a character that is no scene as it is."""
    recipe = engine_named(engine).taken(**source.recipe(engine))
    return {"painted": recipe.pop("young", None), "anatomy": anatomy, **recipe, **told}


def _own_key(
    character: Character, flesh: str | Flesh, engine: str, wanted: dict[str, Any]
) -> str | None:
    """Hash what the model of a file's character is known by; None for black-box rigs.

    What follows from that, tets above all, takes seconds to find.
    """
    header, arrays = stored_rig(character.rig)
    if any(part["kind"] == GIVEN for part in header["parts"]):  # nobody knows what it does
        return None
    mesh = character.surface
    shape = (character.name, mesh.vertices, mesh.triangles, header, arrays)
    said = (dict(character.motions), character.labels, character.painted)
    usual = dict(engine_named(engine).bake_options), _model_engine(engine)
    return content_hash(*shape, *said, checked_flesh(flesh), wanted, *usual)


def _own_model(
    character: Character,
    flesh: str | Flesh,
    engine: str,
    wanted: dict[str, Any],
    quiet: bool,
    log: BuildLog | None,
) -> Cached:
    """Return the model of a file's character; those of black-box rigs are not kept."""

    def make() -> Any:
        with nullcontext(log) if log is not None else build_log(quiet) as own:
            with nullcontext() if wanted["anatomy"] is None else own.stage("anatomy"):
                options = model_options(character, flesh, engine, **wanted)
            more = engine_named(engine).taken(log=own)
            return build(character, engine=engine, **options, **more)

    kind = model_cache(CHARACTER_MODEL, load_model, MOST_KEPT)
    return cached(kind, "model-own", make, _own_key(character, flesh, engine, wanted))


def stepped_by(row: Engine, model: Any) -> Engine:
    """Return the engine that was asked for, or the model's own where that cannot step it."""
    return row if row.steps(model) else engine_of(model)


# Models of scenes


_SCENE_MODELS = model_cache(CHARACTER_MODEL, load_model)


def scene_model(name: str, *, quiet: bool = True, **changes: Any) -> Any:
    """Return the model of a scene, built with its recipe; see `scene_model_file`."""
    return _scene_model(name, FIRST_ENGINE, quiet, **changes).value


@contextmanager
def scene_model_file(
    name: str, *, engine: str = FIRST_ENGINE, quiet: bool = True, **changes: Any
) -> Iterator[Path]:
    """Give the path of a scene's model: in the cache, or where there is none in a folder that goes.

    Parameters
    ----------
    name
        One of `supple.scenes.SCENES`.
    engine
        Engine that builds and steps it.
    quiet
        Do not show the stages of a build.
    **changes
        Options that differ from the scene's recipe.
    """
    found = _scene_model(name, engine, quiet, **changes)
    if found.path is not None:
        yield found.path
        return
    with TemporaryDirectory() as folder:
        own = Path(folder) / f"{name}{CHARACTER_MODEL}"
        found.value.save(own)
        yield own


def _scene_model(name: str, engine: str, quiet: bool, **changes: Any) -> Cached:
    def make() -> Any:
        shown = scene(name)
        with build_log(quiet) as log:
            row = engine_named(engine)
            recipe = row.taken(**shown.recipe(engine), log=log) | changes
            return build(shown.character, engine=engine, **recipe)

    label, options = _scene_key(name, engine, changes)
    return cached(_SCENE_MODELS, label, make, options)


def _scene_key(name: str, engine: str, changes: dict[str, Any]) -> tuple[str, str | None]:
    """Return the label of a scene's model file, and the hash of what differs from its recipe."""
    own = _model_engine(engine)
    label = f"model-{name}" if own == FIRST_ENGINE else f"model-{name}-{own}"
    return label, content_hash(changes) if changes else ""


def _model_engine(engine: str) -> str:
    """Return the engine that an engine's models are known by."""
    found: str = engine_named(engine, "character").model_class.engine
    return found
