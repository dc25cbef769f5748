"""Baked motions as new glTF files, for characters that came from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Singles
from supple.formats.gltf.gltf_file import CORNERS, VERTICES, GltfFile
from supple.formats.gltf.write.morph_targets import played_names, target_names, unused_names
from supple.formats.gltf.write.offsets import in_root_space
from supple.formats.morph_fit import Progress, fit_morphs, unit_weights
from supple.formats.vertex_normals import VertexNormals
from supple.maths.rotations import continuous, from_matrix
from supple.mesh.surface import SurfaceMesh
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

SKIN_COLOUR = [0.78, 0.58, 0.5, 1.0]
#: Parts of the size, or of a turn, below which a root stays where it is.
STILL = 1e-7


def new_scene(
    bakes: Sequence[BakedMotion], error: float, progress: Progress
) -> tuple[GltfFile, dict[str, Any]]:
    """Make a glTF file of baked motions alone, of any character with any rig.

    One node has the skin in its rest pose. The root's motion moves the node; all other motion,
    the rig's and the flesh's, is in morph targets, the same for all motions. Normals always get
    targets, too: no joint turns them.

    Returns
    -------
    GltfFile
    dict
        ``n_shapes``, ``error`` reached, ``animation`` or ``animations``, ``new``: True.
    """
    character = bakes[0].character
    surface = character.surface
    offsets = np.concatenate([_offsets(baked) for baked in bakes])
    shapes, weights, reached = fit_morphs(
        offsets, None, surface.size, error, progress=lambda part, what: progress(0.8 * part, what)
    )
    shapes, weights = unit_weights(shapes, weights)
    progress(0.8, "turning normals")
    turned = _normal_shapes(surface, offsets, weights)
    names = unused_names([baked.motion.name or "motion" for baked in bakes], [])
    file = _scene(character, shapes, turned, target_names(bakes, len(shapes)))
    starts = np.cumsum([0, *(baked.n_frames for baked in bakes)])
    for baked, name, (first, last) in zip(bakes, names, pairwise(starts), strict=True):
        _animate(file, baked, weights[first:last], name)
    figures = {"n_shapes": len(shapes), "error": reached, "new": True}
    return file, figures | played_names(names)


def _offsets(baked: BakedMotion) -> Singles:
    """Return the frames in the root's space, relative to the rest pose."""
    rest = baked.character.surface.vertices
    offsets = np.empty_like(baked.frames)
    for frame, root in enumerate(baked.motion.roots):
        offsets[frame] = in_root_space(baked.frames[frame], root) - rest
    return offsets


def _normal_shapes(surface: SurfaceMesh, offsets: Singles, weights: Singles) -> Singles:
    normals_of = VertexNormals(surface.triangles, len(surface.vertices))
    rest = normals_of(surface.vertices)
    onto = np.linalg.pinv(weights.astype(np.float64)) if weights.shape[1] else weights.T
    total = np.zeros((weights.shape[1], len(rest), 3))
    for frame, offset in enumerate(offsets if len(total) else ()):
        change = normals_of(surface.vertices + offset) - rest
        total += onto[:, frame, None, None] * change
    return total.astype(np.float32)


def _scene(character: Character, shapes: Singles, turned: Singles, names: list[str]) -> GltfFile:
    surface, label = character.surface, character.name
    file = GltfFile({"asset": {"version": "2.0", "generator": "Supple"}})
    places = surface.vertices.astype(np.float32)
    normals = VertexNormals(surface.triangles, len(places))(surface.vertices)
    corners = surface.triangles.astype(np.uint16 if len(places) < 65535 else np.uint32)
    attributes = {
        "POSITION": file.accessor(places, bounds=True, target=VERTICES),
        "NORMAL": file.accessor(normals.astype(np.float32), target=VERTICES),
    }
    primitive: dict[str, Any] = {
        "attributes": attributes,
        "indices": file.accessor(corners.reshape(-1, 1), target=CORNERS),
        "material": file.add("materials", plain_material()),
    }
    mesh: dict[str, Any] = {"name": label, "primitives": [primitive]}
    if len(shapes):
        moved = file.accessors(shapes, bounds=True, target=VERTICES)
        spun = file.accessors(turned, target=VERTICES)
        pairs = zip(moved, spun, strict=True)
        primitive["targets"] = [{"POSITION": p, "NORMAL": n} for p, n in pairs]
        mesh["weights"] = [0.0] * len(shapes)
        mesh["extras"] = {"targetNames": names}
    node = file.add("nodes", {"name": label, "mesh": file.add("meshes", mesh)})
    file.json["scene"] = file.add("scenes", {"name": label, "nodes": [node]})
    return file


def plain_material() -> dict[str, Any]:
    """Return a material of plain skin."""
    surface = {"baseColorFactor": SKIN_COLOUR, "metallicFactor": 0.0, "roughnessFactor": 0.6}
    # Skins may be open, and thin things show both sides.
    return {"name": "skin", "pbrMetallicRoughness": surface, "doubleSided": True}


def root_tracks(baked: BakedMotion) -> dict[str, NDArray[np.floating]]:
    """Return the root's translation and rotation over the frames, as far as it moves."""
    roots = baked.motion.roots
    size = baked.character.surface.size
    tracks: dict[str, NDArray[np.floating]] = {}
    if np.abs(roots[:, :3, 3]).max() > STILL * size:
        tracks["translation"] = roots[:, :3, 3]
    if np.abs(roots[:, :3, :3] - np.eye(3)).max() > STILL:
        tracks["rotation"] = continuous(from_matrix(roots[:, :3, :3]))
    return tracks


def _animate(file: GltfFile, baked: BakedMotion, weights: Singles, name: str) -> None:
    tracks = root_tracks(baked)
    if weights.shape[1]:
        tracks["weights"] = weights.reshape(-1, 1)
    if not tracks:
        return
    times = file.accessor(baked.times.astype(np.float32)[:, None], bounds=True)
    animation: dict[str, Any] = {"name": name, "channels": [], "samplers": []}
    for path, values in tracks.items():
        output = file.accessor(values.astype(np.float32))
        animation["samplers"].append({"input": times, "output": output, "interpolation": "LINEAR"})
        target = {"node": 0, "path": path}
        animation["channels"].append({"sampler": len(animation["samplers"]) - 1, "target": target})
    file.add("animations", animation)
