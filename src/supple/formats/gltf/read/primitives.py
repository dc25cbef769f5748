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
from supple.formats.gltf.document import DRACO, QUANTIZATION
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
    accessors: Accessors, materials: Materials, mesh: int, number: int
) -> PrimitiveData | None:
    """Read a primitive; None, with a warning, if it has no surface."""
    document = accessors.document
    primitive, notes = document.part("meshes")[mesh]["primitives"][number], document.notes
    label = f"{document.label('mesh', mesh)}, primitive {number}"
    if "POSITION" not in primitive["attributes"]:
        notes.warn("MESH_PRIMITIVE_NO_POSITION", f"{label} has no positions; ignored")
        return None
    reader = _Reader(accessors, primitive, label)
    joints, weights = reader.influences()
    mode = primitive.get("mode", TRIANGLES)
    if mode < TRIANGLES:
        notes.warn("MESH_PRIMITIVE_NO_SURFACE", f"{label} consists of {MODES[mode]}; ignored")
        return None
    positions = reader.floats("POSITION")
    triangles = reader.triangles(mode)
    if len(triangles) == 0:
        notes.warn("MESH_PRIMITIVE_NO_SURFACE", f"{label} has no triangle; ignored")
        return None
    material = materials[primitive["material"]] if "material" in primitive else None
    return PrimitiveData(
        positions,
        triangles,
        reader.targets(),
        joints,
        weights,
        reader.painted(),
        material,
        None if material is None else reader.coordinates(material),
        reader.tints(),
    )


def expanded_size(accessors: Accessors, mesh: int) -> int:
    """Return the count of numbers in a mesh's attributes, targets and indices, before reading."""
    total = 0
    for primitive in accessors.document.part("meshes")[mesh]["primitives"]:
        used = [a for name, a in primitive["attributes"].items() if name != "_"]
        used += [t["POSITION"] for t in primitive.get("targets", []) if "POSITION" in t]
        used += [primitive["indices"]] if "indices" in primitive else []
        for accessor in used:
            kind, _, _ = accessors.describe(accessor)
            total += accessors.count(accessor) * int(np.prod(COLUMNS_AND_ROWS[kind]))
    return total


class _Reader:
    """Attributes of one primitive, decoded if they are compressed; `label` is for messages."""

    def __init__(self, accessors: Accessors, primitive: dict[str, Any], label: str) -> None:
        self.accessors, self.primitive, self.label = accessors, primitive, label
        self.notes, self.attributes = accessors.document.notes, primitive["attributes"]
        self.count = accessors.count(self.attributes["POSITION"])
        self._check_counts()
        self.decoded: dict[str, NDArray[Any]] = {}
        self.decoded_corners: Ints | None = None
        if DRACO in primitive.get("extensions", {}):
            self.decoded, self.decoded_corners = decode_draco(
                accessors.document, primitive, self.count
            )

    def _check_counts(self) -> None:
        """Check that all attributes have as many vertices as the positions."""
        for name, accessor in self.attributes.items():
            count = self.accessors.count(accessor)
            if count != self.count:
                code = "MESH_PRIMITIVE_UNEQUAL_ACCESSOR_COUNT"
                what = f"{self.label} has {count} {name} for {self.count} positions"
                if name.startswith(("JOINTS_", "WEIGHTS_")):
                    self.notes.fail(code, f"{what}; save it again")
                self.notes.warn(code, f"{what}; ignored")

    def raw(self, name: str) -> NDArray[Any]:
        """Return an attribute as stored."""
        if name in self.decoded:
            return self.decoded[name]
        return self.accessors.raw(self.attributes[name])

    def floats(self, name: str) -> Floats:
        """Return an attribute as finite float64."""
        if name not in self.decoded:
            return self.accessors.floats(self.attributes[name])
        values = self.accessors.scaled(self.attributes[name], self.decoded[name])
        if not np.isfinite(values).all():
            self.notes.fail("ACCESSOR_INVALID_FLOAT", f"its {name} is not finite")
        return values

    def optional_floats(self, name: str) -> Floats | None:
        """Return an attribute of the appearance as float64; None if it is missing or invalid."""
        accessor = self.attributes.get(name)
        if accessor is None or self.accessors.count(accessor) != self.count:
            return None
        if name not in self.decoded and not self.accessors.has_data(accessor):
            return None
        values = self.accessors.scaled(accessor, self.raw(name))
        if not np.isfinite(values).all():
            message = f"{self.label} has {name} that are not finite; its base colour is used"
            self.notes.warn("ACCESSOR_INVALID_FLOAT", message)
            return None
        return values

    def coordinates(self, material: GltfMaterial) -> Singles | None:
        """Return coordinates on the material's texture, (n, 2); None if there are none."""
        if material.uv_set < 0:
            return None
        values = self.optional_floats(f"TEXCOORD_{material.uv_set}")
        if values is None or values.shape[1] != 2:
            return None
        return material.texture_coordinates(values)

    def tints(self) -> Singles | None:
        """Return vertex colours, (n, 4), 0 to 1; None if there are none."""
        values = self.optional_floats("COLOR_0")
        if values is None or values.shape[1] not in (3, 4):
            return None
        opaque = np.ones((len(values), 4 - values.shape[1]))
        return np.clip(np.hstack([values, opaque]), 0.0, 1.0).astype(np.float32)

    def influences(self) -> tuple[Ints | None, Floats | None]:
        """Return joints and weights of all k sets, (n, 4 k); None if there are none.

        Weights are ≥ 0 and not normalised.
        """
        joints, weights = [], []
        for number in range(len(self.attributes)):
            names = f"JOINTS_{number}", f"WEIGHTS_{number}"
            present = [name in self.attributes for name in names]
            if not any(present):
                break
            if not all(present):
                code = "MESH_PRIMITIVE_JOINTS_WEIGHTS_MISMATCH"
                self.notes.warn(code, f"{self.label} lacks {names[present[0]]}; ignored")
                break
            joint, weight = self.raw(names[0]), self.floats(names[1])
            if joint.shape[1] != 4 or weight.shape[1] != 4 or joint.dtype.kind not in "iu":
                code = "MESH_PRIMITIVE_ATTRIBUTES_ACCESSOR_INVALID_FORMAT"
                what = f"{self.label}: its {names[0]} or {names[1]} are not four per vertex"
                self.notes.fail(code, what)
            joints.append(joint.astype(np.int64))
            weights.append(weight)
        if not joints:
            return None, None
        joint, weight = np.hstack(joints), np.hstack(weights)
        if (weight < 0).any():
            message = f"{self.label} has negative weights; set to zero"
            self.notes.warn("ACCESSOR_WEIGHTS_NEGATIVE", message)
            weight = np.maximum(weight, 0)
        sums = weight.sum(axis=1)
        wrong = (np.abs(sums - 1) > WEIGHT_ROUNDING) & (sums > 0)
        if wrong.any():
            worst = float(sums[wrong][np.argmax(np.abs(sums[wrong] - 1))])
            what = f"{int(wrong.sum())} vertices whose weights sum to up to {worst:.4g}"
            message = f"{self.label} has {what}; normalised"
            self.notes.warn("ACCESSOR_WEIGHTS_NON_NORMALIZED", message)
        return joint, weight

    def painted(self) -> dict[str, Floats]:
        """Return painted maps (n,) by name, from ``_SUPPLE_RIGID`` etc.; colours are averaged."""
        maps = {}
        for attribute, accessor in self.attributes.items():
            name = attribute.lower().removeprefix("_supple_")
            if attribute.lower() == f"_supple_{name}" and name in PAINTED:
                _, component, normalized = self.accessors.describe(accessor)
                values = self.raw(attribute).astype(np.float64)
                if normalized and COMPONENTS[component].kind in "iu":
                    values /= np.iinfo(COMPONENTS[component]).max
                maps[name] = values[:, :3].mean(axis=1)  # the fourth value is opacity
        return maps

    def targets(self) -> Floats:
        """Return displacements of the morph targets, (b, n, 3)."""
        targets = self.primitive.get("targets", [])
        result = np.zeros((len(targets), self.count, 3))
        for number, target in enumerate(targets):
            if "POSITION" not in target:
                continue
            count = self.accessors.count(target["POSITION"])
            if count != self.count:
                code = "MESH_PRIMITIVE_MORPH_TARGET_INVALID_ATTRIBUTE_COUNT"
                what = f"morph target {number} has {count} vertices, not {self.count}"
                self.notes.fail(code, f"{self.label}: {what}")
            result[number] = self.accessors.floats(target["POSITION"])
        return result

    def triangles(self, mode: int) -> Ints:
        """Return the triangles (m, 3) of a list, a strip or a fan."""
        corners = self._corners()
        # Draco's strips are decoded as triangles.
        if mode == TRIANGLES or self.decoded_corners is not None:
            if len(corners) % 3:
                what = f"{self.label} has {len(corners)} corners, not a multiple of 3"
                self.notes.warn("MESH_PRIMITIVE_INCOMPATIBLE_MODE", f"{what}; the rest is ignored")
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

    def _corners(self) -> Ints:
        if self.decoded_corners is not None:
            corners = self.decoded_corners
        elif "indices" not in self.primitive:
            return np.arange(self.count)
        else:
            raw = self.accessors.raw(self.primitive["indices"])[:, 0]
            restart = np.iinfo(raw.dtype).max
            if (raw == restart).any():
                what = f"{self.label} has the index {restart}, which glTF reserves"
                self.notes.fail("ACCESSOR_INDEX_PRIMITIVE_RESTART", f"{what}; save it again")
            corners = raw.astype(np.int64)
        if len(corners) and not (corners.min() >= 0 and corners.max() < self.count):
            what = f"{self.label} refers to vertex {int(corners.max())} of {self.count}"
            self.notes.fail("ACCESSOR_INDEX_OOB", f"{what}; it is damaged")
        return corners


# Mistakes that do not prevent reading.


class PrimitiveChecks:
    """Notes of the mistakes of all primitives, used or not."""

    def __init__(self, accessors: Accessors) -> None:
        self.document, self.accessors = accessors.document, accessors
        self.notes = accessors.document.notes
        self.use_of_view: dict[int, str] = {}
        self.strideless: dict[int, int] = {}
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
            code = "MESH_PRIMITIVE_INVALID_ATTRIBUTE"
            self.notes.warn(code, f"{place} is not an attribute; ignored")
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
            message = f"{place} uses a buffer view of {self.use_of_view[view]}; read anyway"
            self.notes.warn("BUFFER_VIEW_TARGET_OVERRIDE", message)

    def target(self, place: str, name: str, accessor: int, primitive: dict[str, Any]) -> None:
        if not ATTRIBUTE.fullmatch(name):
            code = "MESH_PRIMITIVE_INVALID_ATTRIBUTE"
            self.notes.warn(code, f"{place} is not an attribute; ignored")
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
