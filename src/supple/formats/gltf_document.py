"""A glTF file whose JSON has been checked: what every later step reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from supple.formats.gltf_container import Buffers, open_container
from supple.formats.gltf_notes import Notes
from supple.formats.gltf_schema import SchemaCheck

__all__: list[str] = []

DRACO = "KHR_draco_mesh_compression"
QUANTIZATION = "KHR_mesh_quantization"
POINTER = "KHR_animation_pointer"
# Required extensions that change looks only, or that Supple follows.
HARMLESS = re.compile(
    r"KHR_(materials|texture|lights|xmp|environment)_?\w*|(EXT|MSFT|AGI|ADOBE)_(texture|lights|materials)_\w+"
    rf"|{DRACO}|{QUANTIZATION}|{POINTER}|KHR_node_visibility|KHR_techniques_webgl"
)
# A JSON array of this many parts takes more memory than the file is worth.
MOST_PARTS = 2_000_000


class Document:
    """The parts of a glTF file by name; every reference in them resolves."""

    def __init__(self, path: Path, data: bytes, notes: Notes) -> None:
        self.path, self.notes = path, notes
        container = open_container(data, notes)
        self.json: dict[str, Any] = container.json
        self._check_version()
        SchemaCheck(self.json, notes)
        self._check_extensions()
        self.buffers = Buffers(path, container, notes)

    def part(self, name: str) -> list[dict[str, Any]]:
        """The objects of a top-level array."""
        return self.json.setdefault(name, [])

    def label(self, kind: str, index: int) -> str:
        """How messages call an object: its name if it has one."""
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
            self.notes.fail("UNDEFINED_PROPERTY", 'has no "asset", as glTF 2.0 must have')
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
            self.notes.warn(
                "ASSET_MIN_VERSION_GREATER_THAN_VERSION",
                f"is glTF {asset['version']} but wants a reader of {asset['minVersion']};"
                f" read as {asset['version']}",
            )
        for name, value in self.json.items():
            if isinstance(value, list) and len(value) > MOST_PARTS:
                self.notes.fail("TOO_LARGE", f"has {len(value):,} {name}; simplify it")

    def _check_extensions(self) -> None:
        used, required = (self.json.get(f"extensions{k}", []) for k in ("Used", "Required"))
        for names, where in ((used, "Used"), (required, "Required")):
            if len(set(names)) < len(names):
                self.notes.warn("DUPLICATE_ELEMENTS", f"/extensions{where} repeats itself")
        for name in required:
            if name not in used:
                what = f"requires {name} without declaring it in extensionsUsed"
                self.notes.warn("UNSATISFIED_DEPENDENCY", what)
            if not HARMLESS.fullmatch(name):
                advice = "save it without" if name.startswith("EXT_meshopt") else "convert it"
                self.notes.fail(
                    "UNSUPPORTED_EXTENSION",
                    f"requires the extension {name[:60]}, which Supple cannot read; {advice}",
                )
        if QUANTIZATION in used and QUANTIZATION not in required:
            what = f"uses {QUANTIZATION} without requiring it"
            self.notes.warn("NON_REQUIRED_EXTENSION", f"{what}; read all the same")
