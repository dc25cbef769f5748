"""Normals of a deformed skin as morph targets: offsets of normals before skinning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from supple.formats.gltf_assembly import GltfPrimitive
from supple.formats.gltf_bake_offsets import Shaped
from supple.rig.baked_motion import BakedMotion
from supple.rig.protocol import Rig
from supple.rig.unskinning import offset_matrices, undone

__all__: list[str] = []

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]


class VertexNormals:
    """Unit normals at the vertices of a surface whose triangles stay, by area."""

    def __init__(self, triangles: Ints, n_vertices: int) -> None:
        self._triangles = triangles
        count = len(triangles)
        rows, columns = triangles.ravel(), np.repeat(np.arange(count), 3)
        self._sum = csr_array((np.ones(3 * count), (rows, columns)), (n_vertices, count))

    def __call__(self, places: Floats) -> Floats:
        a, b, c = (places[corner] for corner in self._triangles.T)
        normals = np.asarray(self._sum @ np.cross(b - a, c - a))
        lengths = np.linalg.norm(normals, axis=1, keepdims=True)
        up = np.array([0.0, 1.0, 0.0])  # a vertex of flat triangles only shows none
        return np.where(lengths > 1e-300, normals / np.maximum(lengths, 1e-300), up)


def turned(vectors: Floats, start: Floats, end: Floats) -> Floats:
    """Vectors turned as one unit vector is turned into another, the shorter way."""
    axis = np.cross(start, end)
    cosine = np.einsum("ni,ni->n", start, end)
    once = np.cross(axis, vectors)
    twice = np.cross(axis, once)
    # Opposite normals have no shorter way; hardly turned is better than not a number.
    return vectors + once + twice / np.maximum(1 + cosine, 1e-2)[:, None]


def normal_targets(
    baked: BakedMotion,
    rig: Rig,
    poses: Floats,
    roots: Floats,
    parts: list[tuple[Shaped, GltfPrimitive, Floats]],
) -> list[Singles]:
    """Targets (b, n, 3) of normals, for each of several primitives, played by the same weights.

    `poses` and `roots` are what the file itself plays at the baked frames; `parts` have the fit
    that a primitive takes part in, the primitive, and its normals, (n, 3).

    A normal of the file is turned as the skin around it is, from where the rig has it to where it
    was simulated; so edges that were sharp stay so.
    """
    normals_of = VertexNormals(baked.character.surface.triangles, rig.n_vertices)
    onto = [np.linalg.pinv(fit.weights.astype(np.float64)) for fit, _, _ in parts]
    sums = [np.zeros((len(p), len(own), 3)) for p, (_, _, own) in zip(onto, parts, strict=True)]
    for frame, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        there = (baked.frames[frame].astype(np.float64) - root[:3, 3]) @ root[:3, :3]
        before, after = normals_of(rig(pose)), normals_of(there)
        matrices = offset_matrices(rig, pose)
        for number, (_, primitive, own) in enumerate(parts):
            seen = primitive.welded >= 0
            welded = primitive.welded[seen]
            blended = matrices[welded] @ primitive.to_bind[:3, :3]
            posed = np.einsum("nij,nj->ni", blended, own[seen])
            change = turned(posed, before[welded], after[welded]) - posed
            offsets = undone(blended, change, np.inf)
            sums[number][:, seen] += onto[number][:, frame, None, None] * offsets
    return [total.astype(np.float32) for total in sums]
