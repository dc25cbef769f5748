"""Mistakes in the primitives of a glTF file that can be read over, found before reading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from supple.formats.gltf_accessors import COLUMNS_AND_ROWS, Accessors
from supple.formats.gltf_document import QUANTIZATION, Document

__all__: list[str] = []

ATTRIBUTE = re.compile(r"POSITION|NORMAL|TANGENT|(TEXCOORD|COLOR|JOINTS|WEIGHTS)_\d{1,3}|_.*", re.S)
BYTE, UBYTE, SHORT, USHORT, UINT, FLOAT = 5120, 5121, 5122, 5123, 5125, 5126


def check_primitives(document: Document, accessors: Accessors) -> None:
    """Note what is wrong with all primitives, whether or not a node shows them."""
    _PrimitiveChecks(document, accessors).run()


class _PrimitiveChecks:
    def __init__(self, document: Document, accessors: Accessors) -> None:
        self.document, self.accessors, self.notes = document, accessors, document.notes
        self.use_of_view: dict[int, str] = {}
        self.strideless: dict[int, int] = {}

    def run(self) -> None:
        for mesh_index, mesh in enumerate(self.document.part("meshes")):
            for number, primitive in enumerate(mesh["primitives"]):
                place = f"/meshes/{mesh_index}/primitives/{number}"
                for name, accessor in primitive["attributes"].items():
                    self.attribute(f"{place}/attributes/{name}", name, accessor)
                for t, target in enumerate(primitive.get("targets", [])):
                    for name, accessor in target.items():
                        self.target(f"{place}/targets/{t}/{name}", name, accessor, primitive)
                if "indices" in primitive:
                    self.indices(f"{place}/indices", primitive["indices"])
                if "material" in primitive:
                    self.material(place, primitive)

    def attribute(self, place: str, name: str, accessor: int) -> None:
        kind, component, _ = self.accessors.describe(accessor)
        if not ATTRIBUTE.fullmatch(name):
            self.notes.warn("MESH_PRIMITIVE_INVALID_ATTRIBUTE", f"{place} is no attribute; ignored")
        if component == UINT:
            code = "MESH_PRIMITIVE_ATTRIBUTES_ACCESSOR_UNSIGNED_INT"
            self.notes.warn(code, f"{place} has 32-bit integers, which attributes may not have")
        if name == "POSITION":
            self.position(place, accessor, kind, component)
        if name.startswith("COLOR_") and component == FLOAT:
            self.colour(place, accessor)
        self.layout(place, accessor)

    def position(self, place: str, accessor: int, kind: str, component: int) -> None:
        quantized = QUANTIZATION in self.document.extensions_used
        if kind != "VEC3" or (component != FLOAT and not quantized):
            code = "MESH_PRIMITIVE_ATTRIBUTES_ACCESSOR_INVALID_FORMAT"
            message = f"{place} is of type {kind}, component type {component}"
            if kind != "VEC3":
                self.notes.fail(code, f"{message}; positions are vectors of 3")
            self.notes.warn(code, f"{message}; that needs {QUANTIZATION}; read all the same")
        if not self.accessors.has_bounds(accessor):
            code = "MESH_PRIMITIVE_POSITION_ACCESSOR_WITHOUT_BOUNDS"
            self.notes.warn(code, f"{place} declares no bounds; they are not needed here")

    def colour(self, place: str, accessor: int) -> None:
        described = self.document.part("accessors")[accessor]
        view = described.get("bufferView")
        views = self.document.part("bufferViews")
        if view is None or not self.document.buffers.present(views[view]["buffer"]):
            return
        values = self.accessors.raw(accessor)
        if not ((values >= 0) & (values <= 1)).all():
            self.notes.warn(
                "ACCESSOR_NON_CLAMPED", f"{place} has colours outside 0 to 1; not used here"
            )

    def layout(self, place: str, accessor: int) -> None:
        described = self.document.part("accessors")[accessor]
        index = described.get("bufferView")
        if index is None:
            return
        view = self.document.part("bufferViews")[index]
        self.use(place, index, "attributes")
        if described.get("byteOffset", 0) % 4:
            code = "MESH_PRIMITIVE_ACCESSOR_UNALIGNED"
            self.notes.warn(code, f"{place} does not begin at a multiple of 4 bytes; read as it is")
        if "byteStride" in view:
            return
        if self.strideless.setdefault(index, accessor) != accessor:
            code = "MESH_PRIMITIVE_ACCESSOR_WITHOUT_BYTESTRIDE"
            self.notes.warn(code, f"{place} shares a buffer view without stride; read as packed")

    def use(self, place: str, view: int, use: str) -> None:
        if self.use_of_view.setdefault(view, use) != use:
            code = "BUFFER_VIEW_TARGET_OVERRIDE"
            self.notes.warn(
                code, f"{place} uses a buffer view of {self.use_of_view[view]}; read as it is"
            )

    def target(self, place: str, name: str, accessor: int, primitive: dict[str, Any]) -> None:
        if not ATTRIBUTE.fullmatch(name):
            self.notes.warn("MESH_PRIMITIVE_INVALID_ATTRIBUTE", f"{place} is no attribute; ignored")
        elif name not in primitive["attributes"]:
            code = "MESH_PRIMITIVE_MORPH_TARGET_NO_BASE_ACCESSOR"
            self.notes.warn(code, f"{place} changes what the primitive does not have; ignored")
        if name == "POSITION":
            kind, component, _ = self.accessors.describe(accessor)
            self.position(place, accessor, kind, component)

    def indices(self, place: str, accessor: int) -> None:
        kind, component, _ = self.accessors.describe(accessor)
        if kind != "SCALAR" or component not in (UBYTE, USHORT, UINT):
            code = "MESH_PRIMITIVE_INDICES_ACCESSOR_INVALID_FORMAT"
            self.notes.fail(code, f"{place} is of type {kind}, component type {component}")
        view = self.document.part("accessors")[accessor].get("bufferView")
        if view is not None:
            self.use(place, view, "indices")
            if "byteStride" in self.document.part("bufferViews")[view]:
                code = "MESH_PRIMITIVE_INDICES_ACCESSOR_WITH_BYTESTRIDE"
                self.notes.warn(code, f"{place} has a stride, which indices may not have; followed")

    def material(self, place: str, primitive: dict[str, Any]) -> None:
        material = self.document.part("materials")[primitive["material"]]
        for number in _texture_coordinates(material, 8):
            if f"TEXCOORD_{number}" not in primitive["attributes"]:
                what = f"{place} has no TEXCOORD_{number}, which its material wants"
                self.notes.warn("MESH_PRIMITIVE_TOO_FEW_TEXCOORDS", f"{what}; looks only")


def _texture_coordinates(material: Any, depth: int) -> Iterator[int]:
    """Numbers of the texture coordinates that a material's textures use."""
    if not isinstance(material, dict) or depth == 0:
        return
    if isinstance(material.get("index"), int):
        number = material.get("texCoord", 0)
        if isinstance(number, int) and 0 <= number < 2**15:
            yield number
    for value in material.values():
        yield from _texture_coordinates(value, depth - 1)


def check_counts(document: Document, accessors: Accessors, mesh: int, number: int) -> int:
    """Vertices of a primitive; its other attributes must have as many."""
    primitive = document.part("meshes")[mesh]["primitives"][number]
    attributes = primitive["attributes"]
    count = accessors.count(attributes["POSITION"])
    for name, accessor in attributes.items():
        if accessors.count(accessor) != count:
            code = "MESH_PRIMITIVE_UNEQUAL_ACCESSOR_COUNT"
            what = (
                f"{document.label('mesh', mesh)}, primitive {number} has"
                f" {accessors.count(accessor)} {name} for {count} positions"
            )
            if name.startswith(("JOINTS_", "WEIGHTS_")):
                document.notes.fail(code, f"{what}; save it again")
            document.notes.warn(code, f"{what}; not used here")
    return count


def expanded_size(document: Document, accessors: Accessors, mesh: int) -> int:
    """Numbers that reading a mesh once takes, to be added up before anything is read."""
    total = 0
    for primitive in document.part("meshes")[mesh]["primitives"]:
        used = [a for name, a in primitive["attributes"].items() if name != "_"]
        used += [t["POSITION"] for t in primitive.get("targets", []) if "POSITION" in t]
        used += [primitive["indices"]] if "indices" in primitive else []
        for accessor in used:
            kind, _, _ = accessors.describe(accessor)
            total += accessors.count(accessor) * int(np.prod(COLUMNS_AND_ROWS[kind]))
    return total
