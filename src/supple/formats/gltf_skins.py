"""Skins: which nodes are joints, and where they were when the mesh was bound to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.formats.gltf_accessors import Accessors
from supple.formats.gltf_document import Document
from supple.formats.gltf_nodes import NodeForest

__all__: list[str] = []

Floats = NDArray[np.float64]

# Skins times nodes beyond which their hierarchy is not looked into: it decides nothing.
MOST_STEPS = 20_000_000


@dataclass
class Skin:
    """Nodes that are joints, and their inverse bind matrices (j, 4, 4)."""

    joints: NDArray[np.int64]
    inverse_bind: Floats


def read_skins(
    document: Document, accessors: Accessors, forest: NodeForest, used: set[int]
) -> dict[int, Skin]:
    """The skins that nodes use; mistakes are noted in all of them."""
    skins = {}
    for index, described in enumerate(document.part("skins")):
        joints = np.array(described["joints"], dtype=np.int64)
        if len(joints) == 0:
            document.notes.fail("EMPTY_ENTITY", f"{document.label('skin', index)} has no joints")
        _check_hierarchy(document, forest, index, joints)
        matrices = _inverse_bind(document, accessors, index, len(joints), index in used)
        if index in used:
            skins[index] = Skin(joints, matrices)
            if not forest.in_scene[joints].any():
                what = f"the joints of {document.label('skin', index)} are not in the scene"
                document.notes.warn("NODE_SKIN_NO_SCENE", f"{what}; taken all the same")
    return skins


def _inverse_bind(
    document: Document, accessors: Accessors, index: int, count: int, used: bool
) -> Floats:
    accessor = document.part("skins")[index].get("inverseBindMatrices")
    none = np.broadcast_to(np.eye(4), (count, 4, 4))
    if accessor is None:
        return none
    notes, what = document.notes, document.label("skin", index)
    described = document.part("accessors")[accessor]
    if (described["type"], described["componentType"]) != ("MAT4", 5126):
        notes.fail(
            "SKIN_IBM_INVALID_FORMAT", f"{what}: its inverse bind matrices are not of floats"
        )
    if described["count"] < count:
        number = described["count"]
        code = "INVALID_IBM_ACCESSOR_COUNT"
        notes.fail(code, f"{what} has {number} inverse bind matrices for {count} joints")
    view = described.get("bufferView")
    if view is not None:
        described_view = document.part("bufferViews")[view]
        if "byteStride" in described_view:
            code = "SKIN_IBM_ACCESSOR_WITH_BYTESTRIDE"
            notes.warn(code, f"{what}: its inverse bind matrices have a stride; followed")
        if not used and not document.buffers.present(described_view["buffer"]):
            return none
    # Stored column by column.
    matrices = accessors.floats(accessor)[:count].reshape(-1, 4, 4).transpose(0, 2, 1).copy()
    if view is not None and not np.allclose(matrices[:, 3], (0, 0, 0, 1), atol=1e-5):
        code = "ACCESSOR_INVALID_IBM"
        notes.warn(code, f"{what}: inverse bind matrices are not affine; their last row is ignored")
    matrices[:, 3] = (0, 0, 0, 1)
    return matrices


def _check_hierarchy(
    document: Document, forest: NodeForest, index: int, joints: NDArray[np.int64]
) -> None:
    if len(document.part("skins")) * len(forest.parents) > MOST_STEPS:
        return
    children: dict[int, set[int]] = {}
    seen: set[int] = set()
    for joint in joints.tolist():
        node = joint
        while node >= 0 and node not in seen:
            seen.add(node)
            children.setdefault(int(forest.parents[node]), set()).add(node)
            node = int(forest.parents[node])
    # Down from the root, as long as all joints are below or at one node.
    common: list[int] = []
    below = children[-1]
    bones = set(joints.tolist())
    while len(below) == 1 and not (common and common[-1] in bones):
        common += below
        below = children.get(common[-1], set())
    what = document.label("skin", index)
    if not common:
        code = "SKIN_NO_COMMON_ROOT"
        document.notes.warn(code, f"the joints of {what} hang on no common node; used as they are")
    skeleton = document.part("skins")[index].get("skeleton")
    if skeleton is not None and skeleton not in common:
        code = "SKIN_SKELETON_INVALID"
        message = f"{what} names node {skeleton} as the one above its joints, which it is not"
        document.notes.warn(code, f"{message}; not needed here")
