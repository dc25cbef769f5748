"""A glTF file whose JSON has been checked; all later steps read it."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supple.formats.gltf.container import Buffers, Notes, open_container, quoted

DRACO = "KHR_draco_mesh_compression"
QUANTIZATION = "KHR_mesh_quantization"
POINTER = "KHR_animation_pointer"
# Required extensions that change only the appearance, or that Supple supports.
HARMLESS = re.compile(
    r"KHR_(materials|texture|lights|xmp|environment)_?\w*|(EXT|MSFT|AGI|ADOBE)_(texture|lights|materials)_\w+"
    rf"|{DRACO}|{QUANTIZATION}|{POINTER}|KHR_node_visibility|KHR_techniques_webgl|VRM|VRMC_\w+"
)
# Most items of a JSON array; more take too much memory.
MOST_PARTS = 2_000_000


class Document:
    """Parts of a glTF file by name; all references between them are valid."""

    def __init__(self, path: Path, data: bytes, notes: Notes) -> None:
        self.path, self.notes = path, notes
        container = open_container(data, notes)
        self.json: dict[str, Any] = container.json
        self._check_version()
        _SchemaCheck(self.json, notes)
        self._check_extensions()
        self.buffers = Buffers(path, container, notes)

    def part(self, name: str) -> list[dict[str, Any]]:
        """Return a top-level array of the JSON; a missing one is added, empty."""
        return self.json.setdefault(name, [])

    def label(self, kind: str, index: int) -> str:
        """Return an object's description for messages, with its name if it has one."""
        parts = {"mesh": "meshes", "animation": "animations", "node": "nodes", "skin": "skins"}
        name = self.part(parts[kind])[index].get("name")
        return f'{kind} "{name}"' if name else f"{kind} {index}"

    @property
    def extensions_used(self) -> frozenset[str]:
        """Names of the extensions that the file declares."""
        return frozenset(self.json.get("extensionsUsed", []))

    def _check_version(self) -> None:
        asset = self.json.get("asset")
        if not isinstance(asset, dict):
            message = 'has no "asset", which glTF 2.0 requires; save it again'
            self.notes.fail("UNDEFINED_PROPERTY", message)
        versions = {}
        for key in ("version", "minVersion"):
            text = asset.get(key, "2.0")
            match = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", text) if isinstance(text, str) else None
            if match is None:
                self.notes.fail("VALUE_NOT_IN_LIST", f"/asset/{key} is not a version")
            versions[key] = (int(match[1]), int(match[2]))
        if versions["version"][0] != 2:
            code = "UNKNOWN_ASSET_MAJOR_VERSION"
            self.notes.fail(code, f"is glTF {asset['version']}; save it as glTF 2.0")
        if versions["minVersion"] > versions["version"]:
            version, lowest = asset["version"], asset["minVersion"]
            message = f"is glTF {version} but requires a reader of {lowest}; read as {version}"
            self.notes.warn("ASSET_MIN_VERSION_GREATER_THAN_VERSION", message)
        for name, value in self.json.items():
            if isinstance(value, list) and len(value) > MOST_PARTS:
                self.notes.fail("TOO_LARGE", f"has {len(value):,} {name}; simplify it")

    def _check_extensions(self) -> None:
        used, required = (self.json.get(f"extensions{k}", []) for k in ("Used", "Required"))
        for names, where in ((used, "Used"), (required, "Required")):
            if len(set(names)) < len(names):
                self.notes.warn("DUPLICATE_ELEMENTS", f"/extensions{where} has duplicates; ignored")
        for name in required:
            if name not in used:
                what = f"requires {name} without declaring it in extensionsUsed; used anyway"
                self.notes.warn("UNSATISFIED_DEPENDENCY", what)
            if not HARMLESS.fullmatch(name):
                advice = "save it uncompressed" if name.startswith("EXT_meshopt") else "convert it"
                what = f"requires the extension {name[:60]}, which Supple cannot read"
                self.notes.fail("UNSUPPORTED_EXTENSION", f"{what}; {advice}")
        if QUANTIZATION in used and QUANTIZATION not in required:
            what = f"uses {QUANTIZATION} without requiring it"
            self.notes.warn("NON_REQUIRED_EXTENSION", f"{what}; read anyway")


# Schema of the JSON: types, ranges, references. Only the parts of a character are described;
# materials, textures and cameras are checked for references only.


@dataclass(frozen=True)
class _Property:
    """Rule for a property of the JSON.

    `kind` is string, boolean, integer, number, object, index (into the array `of`), array (the rule
    `items` applies to each item), a key of OBJECTS, or map (of names to indices into `of`). A wrong
    value is removed with a warning if the property is `soft`; otherwise it is an error.
    """

    kind: str
    required: bool = False
    low: float = -math.inf
    high: float = math.inf
    among: tuple[Any, ...] = ()
    of: str = ""
    items: _Property | None = None
    lengths: tuple[int, ...] = ()
    soft: bool = False


def _numbers(*lengths: int) -> _Property:
    return _Property("array", items=_Property("number"), lengths=lengths)


def _array(items: _Property, required: bool = False) -> _Property:
    return _Property("array", required, items=items)


def _index(of: str, required: bool = False, soft: bool = False) -> _Property:
    return _Property("index", required, of=of, soft=soft)


STRING = _Property("string")
OFFSET = _Property("integer", low=0)
SIZE = _Property("integer", required=True, low=1)
COMPONENT_TYPES = (5120, 5121, 5122, 5123, 5125, 5126)
NAME = {"name": _Property("string", soft=True)}
OBJECTS: dict[str, dict[str, _Property]] = {
    "glTF": {
        "asset": _Property("asset", required=True),
        "scene": _index("scenes"),
        "extensionsUsed": _array(STRING),
        "extensionsRequired": _array(STRING),
        "buffers": _array(_Property("buffer")),
        "bufferViews": _array(_Property("bufferView")),
        "accessors": _array(_Property("accessor")),
        "meshes": _array(_Property("mesh")),
        "nodes": _array(_Property("node")),
        "skins": _array(_Property("skin")),
        "animations": _array(_Property("animation")),
        "scenes": _array(_Property("scene")),
        "materials": _Property("array", items=_Property("material", soft=True), soft=True),
        **{
            name: _Property("array", items=_Property("object", soft=True), soft=True)
            for name in ("cameras", "images", "samplers", "textures")
        },
    },
    "material": {
        "alphaCutoff": _Property("number", soft=True),
        "doubleSided": _Property("boolean", soft=True),
        "pbrMetallicRoughness": _Property("object", soft=True),
        **{
            texture: _Property("texture", soft=True)
            for texture in ("normalTexture", "occlusionTexture", "emissiveTexture")
        },
    },
    "texture": {
        "texCoord": _Property("integer", low=0, soft=True),
        **{factor: _Property("number", soft=True) for factor in ("scale", "strength")},
    },
    "asset": {"version": _Property("string", required=True), "minVersion": STRING},
    "buffer": {"byteLength": SIZE, "uri": STRING},
    "bufferView": {
        "buffer": _index("buffers", required=True),
        "byteLength": SIZE,
        "byteOffset": OFFSET,
        "byteStride": _Property("integer", low=4, high=252),
        "target": _Property("integer", among=(34962, 34963), soft=True),
    },
    "accessor": {
        "bufferView": _index("bufferViews"),
        "byteOffset": OFFSET,
        "componentType": _Property("integer", required=True, among=COMPONENT_TYPES),
        "count": SIZE,
        "type": _Property(
            "string",
            required=True,
            among=("SCALAR", "VEC2", "VEC3", "VEC4", "MAT2", "MAT3", "MAT4"),
        ),
        "normalized": _Property("boolean"),
        "min": _Property("array", items=_Property("number"), soft=True),
        "max": _Property("array", items=_Property("number"), soft=True),
        "sparse": _Property("sparse"),
    },
    "sparse": {
        "count": SIZE,
        "indices": _Property("sparseIndices", required=True),
        "values": _Property("sparseValues", required=True),
    },
    "sparseIndices": {
        "bufferView": _index("bufferViews", required=True),
        "byteOffset": OFFSET,
        "componentType": _Property("integer", required=True, among=(5121, 5123, 5125)),
    },
    "sparseValues": {"bufferView": _index("bufferViews", required=True), "byteOffset": OFFSET},
    "mesh": {
        "primitives": _array(_Property("primitive"), required=True),
        "weights": _numbers(),
        **NAME,
    },
    "primitive": {
        "attributes": _Property("map", required=True, of="accessors"),
        "indices": _index("accessors"),
        "material": _index("materials", soft=True),
        "mode": _Property("integer", low=0, high=6),
        "targets": _array(_Property("map", of="accessors")),
    },
    "node": {
        "camera": _index("cameras", soft=True),
        "children": _array(_index("nodes")),
        "mesh": _index("meshes"),
        "skin": _index("skins"),
        "matrix": _numbers(16),
        "translation": _numbers(3),
        "rotation": _numbers(4),
        "scale": _numbers(3),
        "weights": _numbers(),
        **NAME,
    },
    "skin": {
        "joints": _array(_index("nodes"), required=True),
        "inverseBindMatrices": _index("accessors"),
        "skeleton": _index("nodes", soft=True),
        **NAME,
    },
    "animation": {
        "channels": _array(_Property("channel"), required=True),
        "samplers": _array(_Property("sampler"), required=True),
        **NAME,
    },
    "channel": {"sampler": OFFSET, "target": _Property("target", required=True)},
    "target": {"node": _index("nodes"), "path": _Property("string", required=True)},
    "sampler": {
        "input": _index("accessors", required=True),
        "output": _index("accessors", required=True),
        "interpolation": _Property("string", among=("LINEAR", "STEP", "CUBICSPLINE")),
    },
    "scene": {"nodes": _array(_index("nodes")), **NAME},
}
# Objects in which the supported extensions are allowed; others are allowed anywhere.
EXTENSION_OBJECTS = {
    "KHR_mesh_quantization": (),
    "KHR_draco_mesh_compression": ("primitive",),
    "KHR_animation_pointer": ("target",),
}
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "index": (int,),
    "number": (int, float),
    "array": (list,),
}


class _SchemaCheck:
    """Check of a tree against the schema; wrong values of soft properties are removed."""

    def __init__(self, tree: dict[str, Any], notes: Notes) -> None:
        self._tree, self._notes = tree, notes
        used = tree.get("extensionsUsed")
        self._used = used if isinstance(used, list) else []
        self._object(tree, "glTF", "")

    def _object(self, value: dict[str, Any], kind: str, where: str) -> None:
        for name, rule in OBJECTS[kind].items():
            place = f"{where}/{name}"
            if name not in value:
                if rule.required:
                    code, what = "UNDEFINED_PROPERTY", f'{where or "/"} has no "{name}"'
                    self._notes.fail(code, f"{what}; save it again")
            elif not self._value(value[name], rule, place):
                del value[name]
        extensions = value.get("extensions", {})
        if not isinstance(extensions, dict):
            self._notes.warn("TYPE_MISMATCH", f"{where}/extensions is not an object; ignored")
            del value["extensions"]
            return
        for name in extensions:
            self._extension(name, kind, f"{where}/extensions/{name}")

    def _extension(self, name: str, kind: str, place: str) -> None:
        if name not in self._used:
            message = f"{place} is not declared in extensionsUsed; ignored"
            self._notes.warn("UNDECLARED_EXTENSION", message)
        if name in EXTENSION_OBJECTS and kind not in EXTENSION_OBJECTS[name]:
            code = "UNEXPECTED_EXTENSION_OBJECT"
            self._notes.warn(code, f"{place} is not allowed there; ignored")

    def _value(self, value: Any, rule: _Property, place: str) -> bool:
        """Return whether the value may stay in the tree; its parts are checked as well."""
        mistake = self._wrong(value, rule)
        if mistake:
            code, what = mistake
            if rule.soft:
                self._notes.warn(code, f"{place} is {quoted(value)}, {what}; ignored")
                return False
            self._notes.fail(code, f"{place} is {quoted(value)}, {what}; save it again")
        if isinstance(value, (list, dict)) and not value and rule.kind in ("array", "map"):
            self._notes.warn("EMPTY_ENTITY", f"{place} is empty; ignored")
        if rule.kind in OBJECTS:
            self._object(value, rule.kind, place)
        elif rule.kind == "map":
            for key, item in value.items():
                self._value(item, _index(rule.of), f"{place}/{key}")
        elif rule.items is not None:
            for number, item in enumerate(value):
                self._value(item, rule.items, f"{place}/{number}")
        return True

    def _wrong(self, value: Any, rule: _Property) -> tuple[str, str] | None:
        fits = isinstance(value, TYPES.get(rule.kind, (dict,)))
        if not fits or (isinstance(value, bool) and rule.kind != "boolean"):
            return "TYPE_MISMATCH", f"not of type {rule.kind}"
        if rule.kind == "index":
            listed = self._tree.get(rule.of, [])
            count = len(listed) if isinstance(listed, list) else 0
            if not 0 <= value < count:
                return "UNRESOLVED_REFERENCE", f"but there are {count} {rule.of}"
        elif rule.kind in ("integer", "number"):
            in_range = rule.low <= value <= rule.high and abs(value) <= sys.float_info.max
            if not in_range:
                return "VALUE_NOT_IN_RANGE", "out of range"
        if rule.among and value not in rule.among:
            return "VALUE_NOT_IN_LIST", f"none of {', '.join(map(str, rule.among))}"
        if rule.lengths and len(value) not in rule.lengths:
            return "ARRAY_LENGTH_NOT_IN_LIST", f"not of {rule.lengths[0]} numbers"
        return None
