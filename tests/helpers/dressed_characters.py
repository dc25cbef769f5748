"""Characters with clothes: pieces of their own skin, lifted off it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.character import Character
from supple.rig.skeleton.skinning import SkinnedRig


@dataclass(frozen=True)
class Piece:
    """Copy of the skin at the vertices of a mask (n̄,), lifted by `gap`, relative to the size.

    It follows the joint `joint` alone if one is given, else the joints of the skin. Below `hem`, a
    height in m, it is lifted further, by `flare` times the distance from the hem.
    """

    name: str
    mask: NDArray[np.bool_]
    gap: float = 0.003
    joint: str | None = None
    hem: float = -np.inf
    flare: float = 0.0


def dressed(character: Character, pieces: Sequence[Piece]) -> Character:
    """Return the character with pieces as meshes of their own, named ``mesh:NAME``."""
    rig, surface = character.rig, character.surface
    assert isinstance(rig, SkinnedRig)
    normals = vertex_normals(rig.vertices, surface.triangles)
    points, joints, weights = [rig.vertices], [rig.joints], [rig.weights]
    triangles, labels, count = [surface.triangles], {"mesh:skin": np.arange(rig.n_vertices)}, 0
    count = rig.n_vertices
    for piece in pieces:
        chosen = surface.triangles[piece.mask[surface.triangles].all(axis=1)]
        used, corners = np.unique(chosen, return_inverse=True)
        lift = piece.gap * surface.size + np.zeros(len(used))
        if piece.flare:
            lift += piece.flare * np.maximum(piece.hem - surface.vertices[used, 1], 0.0)
        followed, shares = rig.joints[used].copy(), rig.weights[used].copy()
        if piece.joint is not None:
            followed[:], shares[:] = rig.skeleton.joint(piece.joint), 0.0
            shares[:, 0] = 1.0
        points.append(rig.vertices[used] + lift[:, None] * normals[used])
        joints.append(followed)
        weights.append(shares)
        triangles.append(corners.reshape(-1, 3) + count)
        labels[f"mesh:{piece.name}"] = np.arange(count, count + len(used))
        count += len(used)
    clothed = rig.with_influences(
        np.concatenate(points), np.concatenate(joints), np.concatenate(weights)
    )
    skin = SurfaceMesh(clothed(clothed.rest_pose), np.concatenate(triangles))
    return replace(
        character, surface=skin, rig=clothed, labels=labels, source=None, appearance=None
    )
