"""Baked motions as new glTF files, for characters from other formats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Singles
from supple.formats.gltf.gltf_file import CORNERS, VERTICES, GltfFile
from supple.formats.gltf.write.animations import Times, add_channel
from supple.formats.gltf.write.morph_targets import (
    REGULARISATION_ERROR,
    in_root_space,
    offsets_of_frames,
    played_names,
    target_names,
    unused_names,
)
from supple.formats.gltf.write.obstacle_nodes import ObstacleNodes
from supple.formats.morph_fit import Progress, fit_morphs, unit_weights
from supple.maths.rotations import continuous, from_matrix
from supple.mesh.surface import SurfaceMesh, VertexNormals
from supple.rig.baked_motion import BakedMotion
from supple.rig.inverse_skinning import OffsetMatrices
from supple.rig.skeleton.skinning import SkinnedCore, SkinnedRig

SKIN_COLOUR = [0.78, 0.58, 0.5, 1.0]
#: Fraction of the size, or angle, below which a root does not move.
STILL = 1e-7


def new_scene(
    bakes: Sequence[BakedMotion], error: float, progress: Progress, with_obstacles: bool = False
) -> tuple[GltfFile, dict[str, Any]]:
    """Return a glTF file of baked motions for any rig, and the results of `write_gltf`.

    One node has the skin in its rest pose and the root's motion; all other motion is in morph
    targets, which all motions share. Normals have targets as well, since no joint rotates them.
    """
    character = bakes[0].character
    surface = character.surface
    offsets = np.concatenate([_offsets(baked) for baked in bakes])
    shapes, weights, reached = fit_morphs(
        offsets, None, surface.size, error, progress=lambda part, what: progress(0.8 * part, what)
    )
    shapes, weights = unit_weights(shapes, weights)
    progress(0.8, "turning normals")
    normals = _normal_shapes(surface, offsets, weights)
    file = GltfFile({"asset": {"version": "2.0", "generator": "Supple"}})
    mesh = _mesh(file, bakes, surface.vertices, shapes, normals=normals)
    node = file.add("nodes", {"name": character.name, "mesh": file.add("meshes", mesh)})
    file.json["scene"] = file.add("scenes", {"name": character.name, "nodes": [node]})
    names = _animate(file, bakes, weights, node, with_obstacles=with_obstacles)
    return file, {"n_shapes": len(shapes), "error": reached, "new": True, **played_names(names)}


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


def _mesh(
    file: GltfFile,
    bakes: Sequence[BakedMotion],
    vertices: Floats,
    shapes: Singles,
    *,
    normals: Singles | None = None,
    skin: SkinnedRig | None = None,
) -> dict[str, Any]:
    """Return the mesh of a character at rest, with morph targets, and joints of a skin if given.

    `normals` are the targets of normals, (b, n, 3).
    """
    triangles, count = bakes[0].character.surface.triangles, len(vertices)
    rest_normals = VertexNormals(triangles, count)(vertices)
    attributes = {
        "POSITION": file.accessor(vertices.astype(np.float32), bounds=True, target=VERTICES),
        "NORMAL": file.accessor(rest_normals.astype(np.float32), target=VERTICES),
    }
    if skin is not None:
        attributes |= _influences(file, skin)
    corners = triangles.astype(np.uint16 if count < 65535 else np.uint32)
    primitive: dict[str, Any] = {
        "attributes": attributes,
        "indices": file.accessor(corners.reshape(-1, 1), target=CORNERS),
        "material": file.add("materials", _plain_material()),
    }
    mesh: dict[str, Any] = {"name": bakes[0].character.name, "primitives": [primitive]}
    if len(shapes):
        targets = [{"POSITION": k} for k in file.accessors(shapes, bounds=True, target=VERTICES)]
        if normals is not None:
            for target, accessor in zip(
                targets, file.accessors(normals, target=VERTICES), strict=True
            ):
                target["NORMAL"] = accessor
        primitive["targets"] = targets
        mesh["weights"] = [0.0] * len(shapes)
        mesh["extras"] = {"targetNames": target_names(bakes, len(shapes))}
    return mesh


def _plain_material() -> dict[str, Any]:
    """Return a material of plain skin."""
    surface = {"baseColorFactor": SKIN_COLOUR, "metallicFactor": 0.0, "roughnessFactor": 0.6}
    # Skins may be open, and thin parts are visible from both sides.
    return {"name": "skin", "pbrMetallicRoughness": surface, "doubleSided": True}


def _root_tracks(baked: BakedMotion) -> dict[str, NDArray[np.floating]]:
    """Return the root's translation and rotation over the frames, if it moves."""
    roots = baked.motion.roots
    size = baked.character.surface.size
    tracks: dict[str, NDArray[np.floating]] = {}
    if np.abs(roots[:, :3, 3]).max() > STILL * size:
        tracks["translation"] = roots[:, :3, 3]
    if np.abs(roots[:, :3, :3] - np.eye(3)).max() > STILL:
        tracks["rotation"] = continuous(from_matrix(roots[:, :3, :3]))
    return tracks


# Body models: joints, a skin, and morph targets before skinning.


#: Joints and weights of a vertex are stored in sets of four.
SET = 4


def new_skin(
    bakes: Sequence[BakedMotion],
    core: SkinnedCore,
    error: float,
    progress: Progress,
    with_obstacles: bool = False,
) -> tuple[GltfFile, dict[str, Any]]:
    """Make a glTF file of baked motions, for a character with a linearly skinned rig inside.

    A node above the joints has the root's motion, joints have theirs, and morph targets the other
    motion: pose blend shapes and flesh, fitted before skinning. Returns the file, and the results
    of `write_gltf`.
    """
    character, skin = bakes[0].character, core.rig
    size = character.surface.size
    poses = np.concatenate([baked.motion.poses[:, core.entries] for baked in bakes])
    roots = np.concatenate([baked.motion.roots for baked in bakes])
    frames = np.concatenate([baked.frames for baked in bakes])
    offsets, moves, matrices = offsets_of_frames(
        frames, skin, poses, roots, REGULARISATION_ERROR * error * size, progress
    )
    shapes, weights, reached = fit_morphs(
        offsets,
        OffsetMatrices(skin, poses) if matrices is None else matrices,
        size,
        error,
        moves=moves,
        progress=lambda part, what: progress(0.4 + 0.6 * part, what),
    )
    shapes, weights = unit_weights(shapes, weights)
    file, node = _skin_scene(bakes, skin, shapes)
    names = _animate(file, bakes, weights, node, core, with_obstacles=with_obstacles)
    return file, {"n_shapes": len(shapes), "error": reached, "new": True, **played_names(names)}


def _skin_scene(
    bakes: Sequence[BakedMotion], skin: SkinnedRig, shapes: Singles
) -> tuple[GltfFile, int]:
    """Return a file with the character at rest, and the index of the mesh's node.

    Node 0 is the root, node 1 + j is joint j.
    """
    skeleton, label = skin.skeleton, bakes[0].character.name
    file = GltfFile({"asset": {"version": "2.0", "generator": "Supple"}})
    tops = [1 + int(j) for j in np.flatnonzero(skeleton.parents < 0)]
    file.add("nodes", {"name": f"{label} root", "children": tops})
    for joint, name in enumerate(skeleton.names):
        node: dict[str, Any] = {"name": name}
        below = np.flatnonzero(skeleton.parents == joint)
        if len(below):
            node["children"] = [1 + int(child) for child in below]
        node["translation"] = skeleton.translations[joint].astype(np.float32).tolist()
        node["rotation"] = skeleton.rotations[joint].astype(np.float32).tolist()
        node["scale"] = skeleton.scales[joint].astype(np.float32).tolist()
        file.add("nodes", node)
    mesh = _mesh(file, bakes, skin.vertices, shapes, skin=skin)
    bind = skin.inverse_bind.transpose(0, 2, 1).reshape(-1, 16).astype(np.float32)
    bound = {
        "inverseBindMatrices": file.accessor(bind),
        "joints": list(range(1, 1 + skeleton.n_joints)),
        "skeleton": 0,
    }
    mesh_node = {"name": label, "mesh": file.add("meshes", mesh), "skin": file.add("skins", bound)}
    number = file.add("nodes", mesh_node)
    file.json["scene"] = file.add("scenes", {"name": label, "nodes": [0, number]})
    return file, number


def _influences(file: GltfFile, skin: SkinnedRig) -> dict[str, int]:
    """Return accessors of joints and weights, in sets of four, by the names of attributes."""
    count, width = skin.joints.shape
    sets = -(-width // SET)
    joints = np.zeros((count, SET * sets), np.uint16)
    weights = np.zeros((count, SET * sets), np.float32)
    joints[:, :width] = np.where(skin.weights > 0, skin.joints, 0)
    weights[:, :width] = skin.weights
    attributes = {}
    for number in range(sets):
        columns = slice(SET * number, SET * (number + 1))
        attributes[f"JOINTS_{number}"] = file.accessor(joints[:, columns], target=VERTICES)
        attributes[f"WEIGHTS_{number}"] = file.accessor(weights[:, columns], target=VERTICES)
    return attributes


def _joint_tracks(skin: SkinnedRig, poses: np.ndarray) -> list[tuple[int, str, np.ndarray]]:
    """Return node, path and values of joints that move."""
    skeleton = skin.skeleton
    local = skin.joint_pose.unpack(poses)
    rest = (skeleton.translations, skeleton.rotations, skeleton.scales)
    tracks = []
    for path, values, still in zip(("translation", "rotation", "scale"), local, rest, strict=True):
        for joint in np.flatnonzero(np.abs(values - still).max(axis=(0, 2)) > 0):
            tracks.append((1 + int(joint), path, values[:, joint]))
    return tracks


def _animate(
    file: GltfFile,
    bakes: Sequence[BakedMotion],
    weights: Singles,
    mesh_node: int,
    core: SkinnedCore | None = None,
    *,
    with_obstacles: bool = False,
) -> list[str]:
    """Add an animation of each motion: the root, joints of a skin if given, weights of shapes.

    With `with_obstacles` also nodes of the obstacles. Return the names of the animations.
    """
    obstacles = ObstacleNodes(file, bakes if with_obstacles else [], 1.0)
    names = unused_names([baked.motion.name or "motion" for baked in bakes], [])
    starts = np.cumsum([0, *(baked.n_frames for baked in bakes)])
    spans = zip(bakes, names, pairwise(starts), strict=True)
    for number, (baked, name, (first, last)) in enumerate(spans):
        tracks = [(0, path, values) for path, values in _root_tracks(baked).items()]
        if core is not None:
            tracks += _joint_tracks(core.rig, baked.motion.poses[:, core.entries])
        if weights.shape[1]:
            tracks.append((mesh_node, "weights", weights[first:last].reshape(-1, 1)))
        animation: dict[str, Any] = {"name": name, "channels": [], "samplers": []}
        times = Times(file)
        for node, path, values in tracks:
            add_channel(animation, node, path, times.sampler(baked.times, values))
        obstacles.animate(animation, number, baked.times, times)
        if animation["channels"]:
            file.add("animations", animation)
    return names
