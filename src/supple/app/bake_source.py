"""What is given to bake or to view: a character file, a scene or a model; and what it lacks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import read_bytes, reading
from supple.formats.gltf.accessors import COMPONENTS, Accessors
from supple.formats.gltf.document import DRACO, Document
from supple.formats.gltf.draco import decode_draco
from supple.formats.gltf.notes import Notes
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.registry import GLTF_SUFFIXES
from supple.rig.character import Character
from supple.scenes.characters.character_scene import SCENES, scene

__all__ = ["Source", "read_bake_source", "read_stiffness"]


MODEL = ".supple"
LARGEST_MAP = 16 * 2**20
#: Black is not without any stiffness.
LEAST_FACTOR = 0.02
CHANNELS = {"red": [0], "green": [1], "blue": [2], "alpha": [3], "brightness": [0, 1, 2]}


@dataclass(frozen=True, eq=False)
class Source:
    """A character, and what is known about its model.

    Attributes
    ----------
    scene
        The name of the scene, "" for none.
    recipe
        How a scene is to be built.
    model
        Of a model file.
    """

    character: Character
    scene: str = ""
    recipe: dict[str, Any] = field(default_factory=dict)
    model: PoseSpaceModel | None = None


def read_bake_source(given: str) -> Source:
    """The character of a file, a scene or a model; a file of that name goes first.

    Raises
    ------
    SuppleError
        If there is none, or none that flesh can be given: no mesh, no rig, two characters.
    """
    from supple.formats.load import load

    file = Path(given)
    if not file.is_file() and (given in SCENES or not file.suffix):
        shown = scene(given)  # where there is none, an error that knows their names
        return Source(shown.character, given, shown.recipe())
    if file.suffix.lower() == MODEL:
        model = PoseSpaceModel.load(file)
        own = Character(model.name, model.surface, model.rig, dict(model.motions))
        return Source(own, model=model)
    character = load(file)
    _check_character(file.name, character)
    return Source(character)


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
    """How many joints move the skin; None for rigs that have more than joints, or none."""
    matrix = getattr(character.rig, "weight_matrix", None)
    return None if matrix is None else int(np.count_nonzero(matrix().sum(axis=0)))


def _document(source: GltfSource) -> Document:
    """The file again; what was wrong with it has been said."""
    data = read_bytes(source.path, GLTF_SUFFIXES)
    with reading(source.path.name):
        return Document(source.path, data, Notes(source.path.name))


def _skeletons(source: GltfSource) -> list[str]:
    """Names of the topmost joints of skins that have nothing in common.

    Two skins are of one character if they share a joint, or one hangs on a joint of the other.
    """
    document = _document(source)
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


def read_stiffness(text: str, character: Character) -> Any:
    """What `supple.bake` takes as stiffness, from a word on a command line.

    Parameters
    ----------
    text
        ``color:COLOR_0``, a vertex colour of the glTF file, whose brightness is the factor
        (``color:COLOR_0:red`` for a channel of it; black is 0.02), or a JSON file.
    character
        Of the file.
    """
    kind, _, rest = text.partition(":")
    if kind.lower() in ("color", "colour") and rest:
        attribute, _, channel = rest.partition(":")
        return _painted(character, attribute, channel or "brightness")
    path = Path(text)
    try:
        if path.stat().st_size > LARGEST_MAP:
            raise FormatError(f"{path.name}: is no stiffness map; it is too large")
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise FormatError(f"{path.name}: cannot be read ({why}); see --stiffness") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path.name}: is not JSON ({str(error)[:80]})") from None
    if not isinstance(found, dict):
        raise FormatError(f'{path.name}: must be an object, such as {{"joints": {{"Tail*": 0.3}}}}')
    return found


def _painted(character: Character, attribute: str, channel: str) -> Floats:
    """(n̄,) factors: the mean of the colours that a vertex has in the file."""
    if channel not in CHANNELS:
        raise SuppleError(f'no channel "{channel}" of a colour; there are {", ".join(CHANNELS)}')
    source = character.source
    if not isinstance(source, GltfSource):
        raise SuppleError(f"{character.name}: vertex colours are read from glTF files only")
    document = _document(source)
    with reading(source.path.name):
        accessors = Accessors(document)
        count = len(character.surface.vertices)
        total, seen = np.zeros(count), np.zeros(count)
        known: set[str] = set()
        for part in source.primitives:
            described = document.part("meshes")[part.mesh]["primitives"][part.primitive]
            attributes = described.get("attributes", {})
            known.update(name for name in attributes if not name.startswith(("JOINTS", "WEIGHTS")))
            if attribute not in attributes:
                continue
            colours = _colours(document, accessors, described, attribute)
            columns = CHANNELS[channel]
            if len(colours) != len(part.welded) or colours.shape[1] <= max(columns):
                raise FormatError(f'{source.path.name}: "{attribute}" has no {channel} everywhere')
            used = part.welded >= 0
            np.add.at(total, part.welded[used], colours[used][:, columns].mean(axis=1))
            np.add.at(seen, part.welded[used], 1.0)
    if not seen.any():
        listed = ", ".join(sorted(known))
        raise SuppleError(f'{source.path.name}: no vertex colour "{attribute}"; it has {listed}')
    # What is not painted is as it is.
    return np.maximum(np.where(seen > 0, total / np.maximum(seen, 1), 1.0), LEAST_FACTOR)


def _colours(
    document: Document, accessors: Accessors, primitive: dict[str, Any], attribute: str
) -> Floats:
    """(n, 3 or 4) colours from 0 to 1; of compressed primitives they are not in the accessor."""
    index = primitive["attributes"][attribute]
    if DRACO in primitive.get("extensions", {}):
        count = accessors.count(primitive["attributes"]["POSITION"])
        decoded, _ = decode_draco(document, primitive, count)
        if attribute in decoded:
            values = decoded[attribute].astype(np.float64)
            kind = COMPONENTS[accessors.describe(index)[1]]
            return values if kind.kind == "f" else values / np.iinfo(kind).max
    return accessors.floats(index)
