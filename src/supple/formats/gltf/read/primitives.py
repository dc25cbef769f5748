"""Primitives of glTF meshes as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.formats.gltf.accessors import COLUMNS_AND_ROWS, COMPONENTS, Accessors, decode_draco
from supple.formats.gltf.document import DRACO, QUANTIZATION, Document
from supple.formats.gltf.read.materials import GltfMaterial, Materials
from supple.formats.painted_maps import PAINTED

ATTRIBUTE = re.compile(r"POSITION|NORMAL|TANGENT|(TEXCOORD|COLOR|JOINTS|WEIGHTS)_\d{1,3}|_.*", re.S)
BYTE, UBYTE, SHORT, USHORT, UINT, FLOAT = 5120, 5121, 5122, 5123, 5125, 5126
TRIANGLES, STRIP, FAN = 4, 5, 6
MODES = ("points", "lines", "line loops", "line strips")
# Deviation of a sum of weights from one that is rounding of 8-bit weights.
WEIGHT_ROUNDING = 1e-2


@dataclass
class PrimitiveData:
    """A primitive of the file, with its triangles listed one by one.

    `joints` index the joints of the node's skin; they and `weights` are None where the primitive
    has none. `targets` are displacements, (b, n, 3); `painted` has values (n,) of maps by name: see
    `supple.formats.painted_maps`. `material` is None where the file has none; `uv` (n, 2) are
    coordinates on its texture, `tints` (n, 4) vertex colours.
    """

    positions: Floats
    triangles: Ints
    targets: Floats
    joints: Ints | None
    weights: Floats | None
    painted: dict[str, Floats] = field(default_factory=dict)
    material: GltfMaterial | None = None
    uv: Singles | None = None
    tints: Singles | None = None


def read_primitive(
    document: Document, accessors: Accessors, materials: Materials, mesh: int, number: int
) -> PrimitiveData | None:
    """Read a primitive; None, with a warning, if it has no surface."""
    primitive = document.part("meshes")[mesh]["primitives"][number]
    notes = document.notes
    label = f"{document.label('mesh', mesh)}, primitive {number}"
    if "POSITION" not in primitive["attributes"]:
        notes.warn("MESH_PRIMITIVE_NO_POSITION", f"{label} has no positions; ignored")
        return None
    count = _check_counts(document, accessors, mesh, number)
    reader = _Reader(document, accessors, primitive, count)
    joints, weights = _influences(reader, label)
    mode = primitive.get("mode", TRIANGLES)
    if mode < TRIANGLES:
        notes.warn("MESH_PRIMITIVE_NO_SURFACE", f"{label} consists of {MODES[mode]}; ignored")
        return None
    positions = reader.floats("POSITION")
    triangles = _triangles(reader, mode, label)
    if len(triangles) == 0:
        notes.warn("MESH_PRIMITIVE_NO_SURFACE", f"{label} has no triangle; ignored")
        return None
    material = materials[primitive["material"]] if "material" in primitive else None
    return PrimitiveData(
        positions,
        triangles,
        _targets(reader, label),
        joints,
        weights,
        _painted(reader),
        material,
        None if material is None else _coordinates(reader, material, label),
        _tints(reader, label),
    )


def _check_counts(document: Document, accessors: Accessors, mesh: int, number: int) -> int:
    """Return the number of vertices of a primitive; other attributes must have as many."""
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
            document.notes.warn(code, f"{what}; ignored")
    return count


def expanded_size(document: Document, accessors: Accessors, mesh: int) -> int:
    """Return how many numbers a mesh has, before it is read."""
    total = 0
    for primitive in document.part("meshes")[mesh]["primitives"]:
        used = [a for name, a in primitive["attributes"].items() if name != "_"]
        used += [t["POSITION"] for t in primitive.get("targets", []) if "POSITION" in t]
        used += [primitive["indices"]] if "indices" in primitive else []
        for accessor in used:
            kind, _, _ = accessors.describe(accessor)
            total += accessors.count(accessor) * int(np.prod(COLUMNS_AND_ROWS[kind]))
    return total


class _Reader:
    """Attributes of one primitive, decoded if they are compressed."""

    def __init__(
        self, document: Document, accessors: Accessors, primitive: dict[str, Any], count: int
    ) -> None:
        self.document, self.accessors, self.primitive = document, accessors, primitive
        self.count, self.attributes = count, primitive["attributes"]
        self.decoded: dict[str, NDArray[Any]] = {}
        self.corners: Ints | None = None
        if DRACO in primitive.get("extensions", {}):
            self.decoded, self.corners = decode_draco(document, primitive, count)

    def raw(self, name: str) -> NDArray[Any]:
        """Return an attribute as stored."""
        return (
            self.decoded[name]
            if name in self.decoded
            else self.accessors.raw(self.attributes[name])
        )

    def floats(self, name: str) -> Floats:
        """Return an attribute as finite float64."""
        if name not in self.decoded:
            return self.accessors.floats(self.attributes[name])
        _, component, normalized = self.accessors.describe(self.attributes[name])
        values = self.decoded[name].astype(np.float64)
        if not np.isfinite(values).all():
            self.document.notes.fail("ACCESSOR_INVALID_FLOAT", f"its {name} is not finite")
        if normalized and component in COMPONENTS and COMPONENTS[component].kind in "iu":
            values = np.maximum(values / np.iinfo(COMPONENTS[component]).max, -1.0)
        return values

    def optional_floats(self, name: str, what: str) -> Floats | None:
        """Return an attribute of the appearance; None, with a note, if it is invalid."""
        accessor = self.attributes.get(name)
        if accessor is None or self.accessors.count(accessor) != self.count:
            return None
        if name not in self.decoded and not self.accessors.has_data(accessor):
            return None
        _, component, normalized = self.accessors.describe(accessor)
        values = self.raw(name).astype(np.float64)
        if normalized and component in COMPONENTS and COMPONENTS[component].kind in "iu":
            values = np.maximum(values / np.iinfo(COMPONENTS[component]).max, -1.0)
        if not np.isfinite(values).all():
            message = f"{what} has {name} that are not finite; its base colour is used"
            self.document.notes.warn("ACCESSOR_INVALID_FLOAT", message)
            return None
        return values


def _coordinates(reader: _Reader, material: GltfMaterial, what: str) -> Singles | None:
    """Return coordinates on the material's texture, (n, 2), if there are any."""
    if material.uv_set < 0:
        return None
    values = reader.optional_floats(f"TEXCOORD_{material.uv_set}", what)
    if values is None or values.shape[1] != 2:
        return None
    return material.texture_coordinates(values)


def _tints(reader: _Reader, what: str) -> Singles | None:
    """Return vertex colours, (n, 4), 0 to 1."""
    values = reader.optional_floats("COLOR_0", what)
    if values is None or values.shape[1] not in (3, 4):
        return None
    opaque = np.ones((len(values), 4 - values.shape[1]))
    return np.clip(np.hstack([values, opaque]), 0.0, 1.0).astype(np.float32)


def _influences(reader: _Reader, what: str) -> tuple[Ints | None, Floats | None]:
    """Return joints and weights of all sets side by side; weights ≥ 0, not normalised."""
    notes = reader.document.notes
    joints, weights = [], []
    for number in range(len(reader.attributes)):
        names = f"JOINTS_{number}", f"WEIGHTS_{number}"
        present = [name in reader.attributes for name in names]
        if not any(present):
            break
        if not all(present):
            notes.warn(
                "MESH_PRIMITIVE_JOINTS_WEIGHTS_MISMATCH",
                f"{what} lacks {names[present[0]]}; ignored",
            )
            break
        joint, weight = reader.raw(names[0]), reader.floats(names[1])
        if joint.shape[1] != 4 or weight.shape[1] != 4 or joint.dtype.kind not in "iu":
            code = "MESH_PRIMITIVE_ATTRIBUTES_ACCESSOR_INVALID_FORMAT"
            notes.fail(code, f"{what}: its {names[0]} or {names[1]} are not four per vertex")
        joints.append(joint.astype(np.int64))
        weights.append(weight)
    if not joints:
        return None, None
    joint, weight = np.hstack(joints), np.hstack(weights)
    if (weight < 0).any():
        notes.warn("ACCESSOR_WEIGHTS_NEGATIVE", f"{what} has negative weights; set to zero")
        weight = np.maximum(weight, 0)
    sums = weight.sum(axis=1)
    wrong = (np.abs(sums - 1) > WEIGHT_ROUNDING) & (sums > 0)
    if wrong.any():
        worst = float(sums[wrong][np.argmax(np.abs(sums[wrong] - 1))])
        message = f"{what} has {int(wrong.sum())} vertices whose weights sum to up to {worst:.4g}"
        notes.warn("ACCESSOR_WEIGHTS_NON_NORMALIZED", f"{message}; normalised")
    return joint, weight


def _painted(reader: _Reader) -> dict[str, Floats]:
    """Return maps by name: ``_SUPPLE_RIGID`` and others, numbers or mean values of colours."""
    maps = {}
    for attribute in reader.attributes:
        name = attribute.lower().removeprefix("_supple_")
        if attribute.lower() == f"_supple_{name}" and name in PAINTED:
            _, component, normalized = reader.accessors.describe(reader.attributes[attribute])
            values = reader.raw(attribute).astype(np.float64)
            if normalized and COMPONENTS[component].kind in "iu":
                values /= np.iinfo(COMPONENTS[component]).max
            maps[name] = values[:, :3].mean(axis=1)  # the fourth value is opacity
    return maps


def _targets(reader: _Reader, what: str) -> Floats:
    targets = reader.primitive.get("targets", [])
    result = np.zeros((len(targets), reader.count, 3))
    for number, target in enumerate(targets):
        if "POSITION" not in target:
            continue
        if reader.accessors.count(target["POSITION"]) != reader.count:
            code = "MESH_PRIMITIVE_MORPH_TARGET_INVALID_ATTRIBUTE_COUNT"
            n_vertices = reader.accessors.count(target["POSITION"])
            reader.document.notes.fail(
                code, f"{what}: morph target {number} has {n_vertices} vertices, not {reader.count}"
            )
        result[number] = reader.accessors.floats(target["POSITION"])
    return result


def _triangles(reader: _Reader, mode: int, what: str) -> Ints:
    notes = reader.document.notes
    corners = _corners(reader, what)
    if reader.corners is not None:
        mode = TRIANGLES  # strips are decoded as triangles
    if mode == TRIANGLES:
        if len(corners) % 3:
            code = "MESH_PRIMITIVE_INCOMPATIBLE_MODE"
            message = f"{what} has {len(corners)} corners, not a multiple of 3; the rest is ignored"
            notes.warn(code, message)
        return corners[: len(corners) // 3 * 3].reshape(-1, 3)
    if len(corners) < 3:
        return np.empty((0, 3), dtype=np.int64)
    if mode == STRIP:
        triangles = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
        # Every second triangle of a strip has the opposite orientation.
        triangles[1::2] = triangles[1::2][:, [1, 0, 2]]
    else:
        first = np.full(len(corners) - 2, corners[0])
        triangles = np.stack([corners[1:-1], corners[2:], first], axis=1)
    # Strips are joined by degenerate triangles.
    a, b, c = triangles.T
    return triangles[(a != b) & (b != c) & (c != a)]


def _corners(reader: _Reader, what: str) -> Ints:
    notes = reader.document.notes
    if reader.corners is not None:
        corners = reader.corners
    elif "indices" not in reader.primitive:
        return np.arange(reader.count)
    else:
        raw = reader.accessors.raw(reader.primitive["indices"])[:, 0]
        restart = np.iinfo(raw.dtype).max
        if (raw == restart).any():
            code = "ACCESSOR_INDEX_PRIMITIVE_RESTART"
            notes.fail(code, f"{what} has the index {restart}, which glTF reserves; save it again")
        corners = raw.astype(np.int64)
    if len(corners) and not (corners.min() >= 0 and corners.max() < reader.count):
        bad = int(corners.max())
        message = f"{what} refers to vertex {bad} of {reader.count}"
        notes.fail("ACCESSOR_INDEX_OOB", f"{message}; it is damaged")
    return corners


# Mistakes that do not prevent reading.


def check_primitives(document: Document, accessors: Accessors) -> None:
    """Note the mistakes of all primitives, used or not."""
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
            self.notes.warn(
                "MESH_PRIMITIVE_INVALID_ATTRIBUTE", f"{place} is not an attribute; ignored"
            )
        if component == UINT:
            code = "MESH_PRIMITIVE_ATTRIBUTES_ACCESSOR_UNSIGNED_INT"
            self.notes.warn(code, f"{place} has 32-bit integers, which glTF forbids; read anyway")
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
                self.notes.fail(code, f"{message}; positions must be VEC3")
            self.notes.warn(code, f"{message}, which requires {QUANTIZATION}; read anyway")
        if not self.accessors.has_bounds(accessor):
            code = "MESH_PRIMITIVE_POSITION_ACCESSOR_WITHOUT_BOUNDS"
            self.notes.warn(code, f"{place} declares no bounds; ignored")

    def colour(self, place: str, accessor: int) -> None:
        described = self.document.part("accessors")[accessor]
        view = described.get("bufferView")
        views = self.document.part("bufferViews")
        if view is None or not self.document.buffers.present(views[view]["buffer"]):
            return
        values = self.accessors.raw(accessor)
        if not ((values >= 0) & (values <= 1)).all():
            self.notes.warn("ACCESSOR_NON_CLAMPED", f"{place} has colours outside 0 to 1; clamped")

    def layout(self, place: str, accessor: int) -> None:
        described = self.document.part("accessors")[accessor]
        index = described.get("bufferView")
        if index is None:
            return
        view = self.document.part("bufferViews")[index]
        self.use(place, index, "attributes")
        if described.get("byteOffset", 0) % 4:
            code = "MESH_PRIMITIVE_ACCESSOR_UNALIGNED"
            self.notes.warn(code, f"{place} does not begin at a multiple of 4 bytes; read anyway")
        if "byteStride" in view:
            return
        if self.strideless.setdefault(index, accessor) != accessor:
            code = "MESH_PRIMITIVE_ACCESSOR_WITHOUT_BYTESTRIDE"
            self.notes.warn(code, f"{place} shares a buffer view without stride; read as packed")

    def use(self, place: str, view: int, use: str) -> None:
        if self.use_of_view.setdefault(view, use) != use:
            code = "BUFFER_VIEW_TARGET_OVERRIDE"
            self.notes.warn(
                code, f"{place} uses a buffer view of {self.use_of_view[view]}; read anyway"
            )

    def target(self, place: str, name: str, accessor: int, primitive: dict[str, Any]) -> None:
        if not ATTRIBUTE.fullmatch(name):
            self.notes.warn(
                "MESH_PRIMITIVE_INVALID_ATTRIBUTE", f"{place} is not an attribute; ignored"
            )
        elif name not in primitive["attributes"]:
            code = "MESH_PRIMITIVE_MORPH_TARGET_NO_BASE_ACCESSOR"
            self.notes.warn(code, f"{place} has no base attribute; ignored")
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
                self.notes.warn(code, f"{place} has a stride, which indices must not have; used")

    def material(self, place: str, primitive: dict[str, Any]) -> None:
        material = self.document.part("materials")[primitive["material"]]
        for number in _texture_coordinates(material, 8):
            if f"TEXCOORD_{number}" not in primitive["attributes"]:
                what = f"{place} has no TEXCOORD_{number}, which its material needs"
                self.notes.warn("MESH_PRIMITIVE_TOO_FEW_TEXCOORDS", f"{what}; ignored")


def _texture_coordinates(material: Any, depth: int) -> Iterator[int]:
    """Yield the numbers of the texture coordinates that a material's textures use."""
    if not isinstance(material, dict) or depth == 0:
        return
    if isinstance(material.get("index"), int):
        number = material.get("texCoord", 0)
        if isinstance(number, int) and 0 <= number < 2**15:
            yield number
    for value in material.values():
        yield from _texture_coordinates(value, depth - 1)
