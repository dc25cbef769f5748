"""The primitives of glTF meshes as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.formats.gltf_accessors import COMPONENTS, Accessors
from supple.formats.gltf_document import DRACO, Document
from supple.formats.gltf_draco import decode_draco
from supple.formats.gltf_primitive_checks import check_counts

__all__: list[str] = []

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRIANGLES, STRIP, FAN = 4, 5, 6
MODES = ("points", "lines", "line loops", "line strips")
# Sums of weights within this of one are rounding of 8-bit weights.
WEIGHT_ROUNDING = 1e-2


@dataclass
class PrimitiveData:
    """A primitive as the file has it, with its triangles listed one by one.

    `joints` index the joints of the node's skin; both they and `weights` are None where the
    primitive has none. `targets` are displacements, (b, n, 3).
    """

    positions: Floats
    triangles: Ints
    targets: Floats
    joints: Ints | None
    weights: Floats | None


def read_primitive(
    document: Document, accessors: Accessors, mesh: int, number: int
) -> PrimitiveData | None:
    """The primitive, or None, with a warning, where it has no surface."""
    described = document.part("meshes")[mesh]["primitives"][number]
    notes = document.notes
    what = f"{document.label('mesh', mesh)}, primitive {number}"
    if "POSITION" not in described["attributes"]:
        notes.warn("MESH_PRIMITIVE_NO_POSITION", f"{what} has no positions; left out")
        return None
    count = check_counts(document, accessors, mesh, number)
    reader = _Reader(document, accessors, described, count)
    joints, weights = _influences(reader, what)
    mode = described.get("mode", TRIANGLES)
    if mode < TRIANGLES:
        notes.warn("MESH_PRIMITIVE_NO_SURFACE", f"{what} is made of {MODES[mode]}; left out")
        return None
    positions = reader.floats("POSITION")
    triangles = _triangles(reader, mode, what)
    if len(triangles) == 0:
        notes.warn("MESH_PRIMITIVE_NO_SURFACE", f"{what} has no triangle; left out")
        return None
    return PrimitiveData(positions, triangles, _targets(reader, what), joints, weights)


class _Reader:
    """Attributes of one primitive, decoded when they are compressed."""

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
        """As stored."""
        return (
            self.decoded[name]
            if name in self.decoded
            else self.accessors.raw(self.attributes[name])
        )

    def floats(self, name: str) -> Floats:
        """Finite float64."""
        if name not in self.decoded:
            return self.accessors.floats(self.attributes[name])
        _, component, normalized = self.accessors.describe(self.attributes[name])
        values = self.decoded[name].astype(np.float64)
        if not np.isfinite(values).all():
            self.document.notes.fail("ACCESSOR_INVALID_FLOAT", f"its {name} is not finite")
        if normalized and component in COMPONENTS and COMPONENTS[component].kind in "iu":
            values = np.maximum(values / np.iinfo(COMPONENTS[component]).max, -1.0)
        return values


def _influences(reader: _Reader, what: str) -> tuple[Ints | None, Floats | None]:
    """Joints and weights of all sets side by side; weights not negative, not yet of sum 1."""
    notes = reader.document.notes
    joints, weights = [], []
    for number in range(len(reader.attributes)):
        names = f"JOINTS_{number}", f"WEIGHTS_{number}"
        present = [name in reader.attributes for name in names]
        if not any(present):
            break
        if not all(present):
            notes.warn(
                "MESH_PRIMITIVE_JOINTS_WEIGHTS_MISMATCH", f"{what} lacks {names[present[0]]}"
            )
            break
        joint, weight = reader.raw(names[0]), reader.floats(names[1])
        if joint.shape[1] != 4 or weight.shape[1] != 4 or joint.dtype.kind not in "iu":
            code = "MESH_PRIMITIVE_ATTRIBUTES_ACCESSOR_INVALID_FORMAT"
            notes.fail(code, f"{what}: its {names[0]} or {names[1]} are not four to a vertex")
        joints.append(joint.astype(np.int64))
        weights.append(weight)
    if not joints:
        return None, None
    joint, weight = np.hstack(joints), np.hstack(weights)
    if (weight < 0).any():
        notes.warn("ACCESSOR_WEIGHTS_NEGATIVE", f"{what} has negative weights; taken as zero")
        weight = np.maximum(weight, 0)
    sums = weight.sum(axis=1)
    wrong = (np.abs(sums - 1) > WEIGHT_ROUNDING) & (sums > 0)
    if wrong.any():
        worst = float(sums[wrong][np.argmax(np.abs(sums[wrong] - 1))])
        message = (
            f"{what} has {int(wrong.sum())} vertices whose weights sum to as much as {worst:.4g}"
        )
        notes.warn("ACCESSOR_WEIGHTS_NON_NORMALIZED", f"{message}; divided by their sum")
    return joint, weight


def _targets(reader: _Reader, what: str) -> Floats:
    targets = reader.primitive.get("targets", [])
    result = np.zeros((len(targets), reader.count, 3))
    for number, target in enumerate(targets):
        if "POSITION" not in target:
            continue
        if reader.accessors.count(target["POSITION"]) != reader.count:
            code = "MESH_PRIMITIVE_MORPH_TARGET_INVALID_ATTRIBUTE_COUNT"
            found = reader.accessors.count(target["POSITION"])
            reader.document.notes.fail(
                code, f"{what}: morph target {number} has {found} vertices of {reader.count}"
            )
        result[number] = reader.accessors.floats(target["POSITION"])
    return result


def _triangles(reader: _Reader, mode: int, what: str) -> Ints:
    notes = reader.document.notes
    corners = _corners(reader, what)
    if reader.corners is not None:
        mode = TRIANGLES  # the decoder has taken strips apart
    if mode == TRIANGLES:
        if len(corners) % 3:
            code = "MESH_PRIMITIVE_INCOMPATIBLE_MODE"
            notes.warn(
                code, f"{what} has {len(corners)} corners, not a multiple of 3; the rest is cut"
            )
        return corners[: len(corners) // 3 * 3].reshape(-1, 3)
    if len(corners) < 3:
        return np.empty((0, 3), dtype=np.int64)
    if mode == STRIP:
        triangles = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
        # Every second triangle of a strip runs the other way round.
        triangles[1::2] = triangles[1::2][:, [1, 0, 2]]
    else:
        first = np.full(len(corners) - 2, corners[0])
        triangles = np.stack([corners[1:-1], corners[2:], first], axis=1)
    # Strips are joined by triangles that are none.
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
            notes.fail(
                code, f"{what} has the index {restart}, which glTF keeps free; save it again"
            )
        corners = raw.astype(np.int64)
    if len(corners) and not (corners.min() >= 0 and corners.max() < reader.count):
        bad = int(corners.max())
        message = f"{what} refers to vertex {bad}, and has {reader.count}"
        notes.fail("ACCESSOR_INDEX_OOB", f"{message}; it is damaged")
    return corners
