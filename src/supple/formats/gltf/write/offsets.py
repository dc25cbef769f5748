"""Baked frames as offsets before the skinning of the file that is to play them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from supple.arrays import Floats, Ints, Singles
from supple.formats.gltf.read.gltf import GltfSource
from supple.formats.gltf.read.skinned_body import GltfPrimitive
from supple.formats.morph_fit import MOST_KEPT, Progress, fit_morphs, unit_weights
from supple.formats.vertex_normals import VertexNormals
from supple.rig.inverse_skinning import (
    OffsetMatrices,
    largest_stretch,
    offset_matrices,
    offsets_before_skinning,
    undone,
)
from supple.rig.protocol import Rig

#: What a vertex may miss for the sake of a small offset, as part of the allowed error.
GIVEN_UP = 0.25


@dataclass
class ShapedNodes:
    """Nodes that are played with the same weights, and their shapes.

    Attributes
    ----------
    nodes
        In the file.
    vertices
        (m,) those of the surface that they show.
    shapes
        (b, m, 3) in the space of bound positions, metres.
    weights
        (t, b) over the baked frames.
    reached
        Largest error, as part of the size.
    """

    nodes: tuple[int, ...]
    vertices: Ints
    shapes: Singles
    weights: Singles
    reached: float

    def of_vertices(self, welded: Ints) -> Singles:
        """Return shapes (b, n, 3) of a primitive's vertices; zero for a vertex of no triangle."""
        place = np.searchsorted(self.vertices, np.maximum(welded, 0))
        place = np.minimum(place, len(self.vertices) - 1)
        return np.where((welded >= 0)[:, None], self.shapes[:, place], np.float32(0))


def fit_groups(
    frames: Singles,
    rig: Rig,
    source: GltfSource,
    poses: Floats,
    roots: Floats,
    size: float,
    error: float,
    progress: Progress,
) -> list[ShapedNodes]:
    """Fit shapes and weights to each group of nodes that share vertices.

    `rig` and `source` are the file's, `poses` and `roots` what it plays by itself at the frames,
    (t, n, 3), of one motion or of several. `error` is a part of the size.
    """
    given_up = GIVEN_UP * error * size
    offsets, moves, kept = offsets_of_frames(frames, rig, poses, roots, given_up, progress)
    groups = _groups(source)
    found = []
    for number, (nodes, vertices) in enumerate(groups):
        some = slice(None) if len(vertices) == rig.n_vertices else vertices
        begin, share = 0.4 + 0.6 * number / len(groups), 0.6 / len(groups)
        shapes, weights, reached = fit_morphs(
            offsets[:, some],
            OffsetMatrices(rig, poses, vertices) if kept is None else kept[:, some],
            size,
            error,
            moves=moves[:, some],
            progress=_within(progress, begin, share),
        )
        shapes, weights = unit_weights(shapes, weights)
        found.append(ShapedNodes(nodes, vertices, shapes, weights, reached))
    return found


def in_root_space(points: Singles, root: Floats) -> Floats:
    """Return points (n, 3) of a baked frame without the root's motion, (4, 4)."""
    there: Floats = (points.astype(np.float64) - root[:3, 3]) @ root[:3, :3]
    return there


def _within(progress: Progress, begin: float, share: float) -> Progress:
    return lambda part, what: progress(begin + share * part, what)


def offsets_of_frames(
    frames: Singles,
    rig: Rig,
    poses: Floats,
    roots: Floats,
    tolerance: float,
    progress: Progress,
) -> tuple[Singles, Singles, Singles | None]:
    """Return offsets before skinning, the moves they are to make after it, and the matrices.

    The matrices are None where all of them would take too much memory.
    """
    offsets, moves = np.empty_like(frames), np.empty_like(frames)
    shape = (*frames.shape, 3)
    kept = np.empty(shape, np.float32) if np.prod(shape) <= MOST_KEPT else None
    stretch = largest_stretch(rig, OffsetMatrices(rig, poses))
    for frame, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        wanted = in_root_space(frames[frame], root)
        present = rig(pose)
        matrices = offset_matrices(rig, pose)
        offsets[frame] = offsets_before_skinning(
            rig,
            pose,
            wanted,
            present=present,
            matrices=matrices,
            tolerance=tolerance,
            stretch=stretch,
        )
        moves[frame] = wanted - present
        if kept is not None:
            kept[frame] = matrices
        progress(0.4 * (frame + 1) / len(poses), "undoing the skinning")
    return offsets, moves, kept


def _groups(source: GltfSource) -> list[tuple[tuple[int, ...], Ints]]:
    """Group nodes whose meshes meet in vertices: they must move alike or a seam would open."""
    nodes = sorted({primitive.node for primitive in source.primitives})
    number = {node: k for k, node in enumerate(nodes)}
    shown: list[list[Ints]] = [[] for _ in nodes]
    for primitive in source.primitives:
        used = primitive.welded[primitive.welded >= 0]
        shown[number[primitive.node]].append(used)
    sets = [np.unique(np.concatenate(parts)) for parts in shown]
    rows = np.repeat(np.arange(len(nodes)), [len(s) for s in sets])
    columns = np.concatenate(sets)
    shape = (len(nodes), int(columns.max()) + 1)
    meets = coo_array((np.ones(len(rows)), (rows, columns)), shape).tocsr()
    count, label = connected_components(meets @ meets.T, directed=False)
    groups = []
    for group in range(count):
        members = np.flatnonzero(label == group)
        vertices = np.unique(np.concatenate([sets[k] for k in members]))
        groups.append((tuple(nodes[k] for k in members), vertices))
    return groups


# Normals of a deformed skin as morph targets: offsets of normals before skinning.


def _turned(vectors: Floats, start: Floats, end: Floats) -> Floats:
    """Turn vectors as one unit vector is turned into another, the shorter way."""
    axis = np.cross(start, end)
    cosine = np.einsum("ni,ni->n", start, end)
    once = np.cross(axis, vectors)
    twice = np.cross(axis, once)
    # Opposite normals have no shorter way; hardly turned is better than not a number.
    return vectors + once + twice / np.maximum(1 + cosine, 1e-2)[:, None]


def normal_targets(
    frames: Singles,
    triangles: Ints,
    rig: Rig,
    poses: Floats,
    roots: Floats,
    parts: list[tuple[ShapedNodes, GltfPrimitive, Floats]],
) -> list[Singles]:
    """Return targets (b, n, 3) of normals, for each of several primitives.

    `poses` and `roots` are what the file itself plays at the baked frames; `parts` have the fit
    that a primitive takes part in, the primitive, and its normals, (n, 3).

    A normal of the file is turned as the skin around it is, from where the rig has it to where it
    was simulated; so edges that were sharp stay so.
    """
    normals_of = VertexNormals(triangles, rig.n_vertices)
    onto = [np.linalg.pinv(fit.weights.astype(np.float64)) for fit, _, _ in parts]
    sums = [np.zeros((len(p), len(own), 3)) for p, (_, _, own) in zip(onto, parts, strict=True)]
    for frame, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        there = in_root_space(frames[frame], root)
        before, after = normals_of(rig(pose)), normals_of(there)
        matrices = offset_matrices(rig, pose)
        for number, (_, primitive, own) in enumerate(parts):
            seen = primitive.welded >= 0
            welded = primitive.welded[seen]
            blended = matrices[welded] @ primitive.to_bind[:3, :3]
            posed = np.einsum("nij,nj->ni", blended, own[seen])
            change = _turned(posed, before[welded], after[welded]) - posed
            offsets = undone(blended, change, np.inf)
            sums[number][:, seen] += onto[number][:, frame, None, None] * offsets
    return [total.astype(np.float32) for total in sums]
