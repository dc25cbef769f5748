"""Sources of characters: files, scenes and model files, by name or path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from supple.checks import shown
from supple.engines.engine import (
    BODY_MODEL,
    CHARACTER_MODEL,
    ENGINES,
    CharacterModel,
    engine_of,
)
from supple.engines.factory import load_model
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import reading
from supple.formats.gltf.container import Notes
from supple.formats.gltf.document import Document
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.length_units import metres_in
from supple.formats.load import load
from supple.formats.registry import SURFACES, TETS
from supple.rig.character import Character
from supple.scenes.bodies.elastic_scene import STVK_SCENES
from supple.scenes.characters.character_scene import SCENES, scene

SourceKind = Literal["scene", "model", "character", "body scene", "body", "mesh"]


def source_kind(given: str) -> SourceKind:
    """Return the kind of a source by its name; an existing file precedes a scene of that name.

    A name without a suffix counts as a scene, so that the error for a misspelt name suggests the
    nearest. All files of unknown suffixes count as characters, whose reader refuses them.
    """
    file = Path(given)
    suffix, exists = file.suffix.lower(), file.is_file()
    if not exists and given in STVK_SCENES:
        return "body scene"
    if not exists and (given in SCENES or not suffix):
        return "scene"
    if suffix == BODY_MODEL:
        return "body"
    if SURFACES.find(file) is not None or TETS.find(file) is not None:
        return "mesh"
    return "model" if suffix == CHARACTER_MODEL else "character"


def is_body(given: str) -> bool:
    """Return whether a source is an elastic body rather than a character."""
    return source_kind(given) in ("body scene", "body", "mesh")


@dataclass(frozen=True, eq=False)
class CharacterSource:
    """Character, the name of its scene ("" for none), and the model of its model file or None."""

    character: Character
    scene: str = ""
    model: CharacterModel | None = None

    def recipe(self, engine: str) -> dict[str, Any]:
        """Return the scene's options of an engine's builder; no options without a scene."""
        return scene(self.scene).recipe(engine) if self.scene else {}


def read_any_character(
    given: str, unit: str | None = None, *, curves: bool = True, **body: Any
) -> CharacterSource:
    """Read the character of a file or a scene; an existing file precedes a scene of that name.

    `unit` is the file's unit (`metres_in`), by default as stored in it. With `curves`, curves that
    Supple added to the file are kept. `body` has options of `supple.load` for a body model or an
    armature.
    """
    metres = None if unit is None else metres_in(unit)
    if source_kind(given) in ("scene", "body scene"):
        _check_body(given, body)
        character = scene(given).character  # SuppleError with the nearest name for an unknown one
        _check_unit(given, unit)
        return CharacterSource(character, given)
    return CharacterSource(load(given, metres_per_unit=metres, curves=curves, **body))


def _check_unit(given: str, unit: str | None) -> None:
    if unit is not None:
        raise SuppleError(f"{given}: is in metres; --unit is for files of characters")


def _check_body(given: str, body: dict[str, Any]) -> None:
    if "armature" in body:
        raise SuppleError(f"{given}: is not a .blend or .fbx file; leave out --armature")
    if body:
        raise SuppleError(f"{given}: is not a body model; leave out motion files and --betas")


def read_character(
    given: str, unit: str | None = None, *, curves: bool = True, **body: Any
) -> CharacterSource:
    """Read the character of a file, a scene or a model file; see `read_any_character`.

    SuppleError if there is no such source, or if it has no mesh, no rig or several characters.
    """
    if source_kind(given) == "model":
        _check_unit(given, unit)
        _check_body(given, body)
        model = load_character_model(given)
        character = Character(model.name, model.surface, model.rig, dict(model.motions))
        return CharacterSource(character, model=model)
    source = read_any_character(given, unit, curves=curves, **body)
    if not source.scene:
        _check_character(Path(given).name, source.character)
    return source


def _check_character(name: str, character: Character) -> None:
    if not character.has_mesh:
        raise SuppleError(f"{name}: has no mesh; flesh needs one")
    joints = _weighted_joints(character)
    if joints is not None and joints <= 1 and not character.motions:
        raise SuppleError(f"{name}: has no rig; bind its mesh to joints, and save it again")
    if isinstance(character.source, GltfSource):
        names = _skeletons(character.source)
        if len(names) > 1:
            listed = ", ".join(f'"{each}"' for each in names[:4])
            raise SuppleError(
                f"{name}: has {len(names)} characters ({listed}); save each in a separate file"
            )


def _weighted_joints(character: Character) -> int | None:
    """Return the number of joints that move the skin; None for rigs without a weight matrix."""
    matrix = getattr(character.rig, "weight_matrix", None)
    return None if matrix is None else int(np.count_nonzero(matrix().sum(axis=0)))


def gltf_document(source: GltfSource) -> Document:
    """Read the glTF file of a character again without warnings."""
    with reading(source.path.name):
        return Document(source.path, source.read(), Notes(source.path.name))


def _skeletons(source: GltfSource) -> list[str]:
    """Return the name of the root joint of each separate character in a glTF file.

    Two skins belong to one character if they share a joint or one is attached to the other.
    """
    document = gltf_document(source)
    nodes = document.part("nodes")
    parent = {child: k for k, node in enumerate(nodes) for child in node.get("children", ())}
    shown = [primitive.node for primitive in source.primitives if primitive.node >= 0]
    used = {nodes[node]["skin"] for node in shown if "skin" in nodes[node]}
    groups: list[set[int]] = []
    for skin in sorted(used):
        joints = set(document.part("skins")[skin]["joints"])
        above = _with_ancestors(joints, parent)
        # A joint of one skin is an ancestor of the other; a common parent that is no joint is not.
        same = [g for g in groups if g & above or joints & _with_ancestors(g, parent)]
        groups = [g for g in groups if g not in same] + [joints.union(*same)]
    tops = [min(group, key=lambda k: (len(_ancestors(k, parent)), k)) for group in groups]
    return sorted(str(nodes[node].get("name") or f"node {node}")[:40] for node in tops)


def _ancestors(node: int, parent: dict[int, int]) -> set[int]:
    ancestors: set[int] = set()
    while node in parent and parent[node] not in ancestors:
        node = parent[node]
        ancestors.add(node)
    return ancestors


def _with_ancestors(group: set[int], parent: dict[int, int]) -> set[int]:
    return group.union(*(_ancestors(joint, parent) for joint in group))


def load_character_model(path: str | Path) -> Any:
    """Read a model file of any engine of characters."""
    model = load_model(path)
    if engine_of(model).moves != "character":
        raise FormatError(f"{Path(path).name}: is not a model of a character")
    return model


def source_of(character: Character | str | Path, *, curves: bool = True) -> CharacterSource:
    """Return the source of a character, which may also be a path or the name of a scene.

    `curves` is as for `read_any_character`.
    """
    if isinstance(character, str | Path):
        return read_character(str(character), curves=curves)
    if not isinstance(character, Character):
        advice = "give one, or a file's path"
        if getattr(character, "engine", None) in ENGINES:
            advice = "give its character first, and the model as model="
        raise SuppleError(f"{shown(character)} is not a character; {advice}")
    return CharacterSource(character)
