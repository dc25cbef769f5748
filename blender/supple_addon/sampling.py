# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of a character as Blender evaluates it: bones, skin, and other deformation.

Bones are sampled after constraints and drivers, vertices after the Armature modifier and the
deformers that follow it. Differences from linear skinning of the rest mesh (shape keys, lattices,
preserved volume, bendy bones, shear) become shapes, so that Supple gets a skin with morph targets
that moves as in Blender, with any rig.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import bpy
import numpy as np

from .character import MARK, Character, Clip, Problem, playing
from .skin_maths import Skin, few_shapes, local_transforms

__all__ = ["ClipSample", "MeshSample", "Sample", "sampled"]

#: Largest distance of the sampled skin from Blender's, relative to the size.
WITHIN = 5e-4
#: Modifiers that move vertices and create none; they are sampled if they follow the armature.
DEFORMERS = {
    "ARMATURE",
    "CAST",
    "CORRECTIVE_SMOOTH",
    "CURVE",
    "DISPLACE",
    "HOOK",
    "LAPLACIANDEFORM",
    "LAPLACIANSMOOTH",
    "LATTICE",
    "MESH_DEFORM",
    "SHRINKWRAP",
    "SIMPLE_DEFORM",
    "SMOOTH",
    "SURFACE_DEFORM",
    "WARP",
    "WAVE",
}
#: Vertex groups that artists paint, and the attributes of Supple that they become.
GROUPS = {"supple_stiffness": "_SUPPLE_STIFFNESS", "supple_rigid": "_SUPPLE_RIGID"}
#: Factor on the stiffness at weight 1 of its group; at weight 0 it divides.
STIFFEST = 10.0


@dataclass
class ClipSample:
    """Motion of the bones and of the armature itself, frame by frame."""

    clip: Clip
    rate: float
    world: np.ndarray  # (t, 4, 4)
    places: np.ndarray  # (t, j, 3), relative to parents, as the next two
    turns: np.ndarray  # (t, j, 4)
    scales: np.ndarray  # (t, j, 3)
    moved: np.ndarray  # (t, j, 4, 4) from rest, in the armature's space


@dataclass
class MeshSample:
    """Mesh at rest in the armature's space, with its skin and shapes.

    The last column of weights is the armature's, for vertices that follow no bone.
    """

    name: str
    vertices: np.ndarray  # (n, 3)
    triangles: np.ndarray  # (m, 3)
    materials: np.ndarray  # (m,)
    material_names: list[str]
    weights: np.ndarray  # (n, j + 1)
    to_armature: np.ndarray  # (4, 4)
    same_vertices: bool  # as the mesh data, which can then have shape keys
    painted: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, np.ndarray] = field(default_factory=dict)  # (n, 3)
    values: list[np.ndarray] = field(default_factory=list)  # of each clip (t, s)
    placed: list[np.ndarray] = field(default_factory=list)  # of each clip (t, 4, 4), as to_armature


@dataclass
class Sample:
    """Character at rest, and its clips."""

    name: str
    bones: list[str]
    parents: list[int]
    rest: np.ndarray  # (j, 4, 4)
    meshes: list[MeshSample]
    clips: list[ClipSample]


def sampled(
    context: bpy.types.Context, character: Character, clips: Sequence[Clip]
) -> Generator[float, None, Sample]:
    """Sample clips of a character; the generator yields the fraction done.

    It changes the scene's frame. At its end, or at `close()`, the scene is restored.
    """
    scene = context.scene
    rate = scene.render.fps / scene.render.fps_base
    bones = _Bones(character.armature)
    total = sum(len(clip.frames) for clip in clips) + 1
    done = 0
    with _restored_frame(scene), _without_flesh(character):
        meshes = [
            _rest_mesh(context, obj, character.armature, bones.names) for obj in character.meshes
        ]
        samples, read_frames = [], []
        with _stages(context, character) as stages:
            for clip in clips:
                with playing(character.armature, clip.action):
                    frames = _Frames(clip, len(bones.names), meshes)
                    for at, frame in enumerate(clip.frames):
                        scene.frame_set(int(frame))
                        frames.read(at, context.evaluated_depsgraph_get(), bones, stages)
                        done += 1
                        yield done / total
                samples.append(bones.sample(clip, rate, frames))
                read_frames.append(frames)
    for k, mesh in enumerate(meshes):
        _add_shapes(mesh, samples, [frames.meshes[k] for frames in read_frames])
    return Sample(character.name, bones.names, bones.parents, bones.rest, meshes, samples)


class _Bones:
    """Bones that deform and their ancestors, with their indices among all bones."""

    def __init__(self, armature: bpy.types.Object) -> None:
        self.armature = armature
        needed = set()
        for bone in armature.data.bones:
            if bone.use_deform:
                needed.update((bone.name, *(above.name for above in bone.parent_recursive)))
        if not needed:
            raise Problem(f'"{armature.name}" has no bone that deforms')
        # Parents come before children among an armature's bones.
        bones = [bone for bone in armature.data.bones if bone.name in needed]
        self.names = [bone.name for bone in bones]
        index = {name: k for k, name in enumerate(self.names)}
        self.parents = [index[bone.parent.name] if bone.parent else -1 for bone in bones]
        self.rest = np.array([bone.matrix_local for bone in bones])
        order = {bone.name: k for k, bone in enumerate(armature.pose.bones)}
        self._at = np.array([order[name] for name in self.names])

    def read(self, depsgraph: bpy.types.Depsgraph) -> tuple[np.ndarray, np.ndarray]:
        """Return bones (j, 4, 4) in the armature's space and the armature (4, 4) in the world."""
        armature = self.armature.evaluated_get(depsgraph)
        flat = np.empty(16 * len(armature.pose.bones))
        armature.pose.bones.foreach_get("matrix", flat)
        matrices = flat.reshape(-1, 4, 4).transpose(0, 2, 1)
        return matrices[self._at], np.array(armature.matrix_world)

    def sample(self, clip: Clip, rate: float, frames: _Frames) -> ClipSample:
        parts, made = local_transforms(frames.poses, self.rest, self.parents)
        from_rest = made @ np.linalg.inv(self.rest)
        return ClipSample(clip, rate, frames.world, *parts, from_rest)


class _Seen:
    """Vertices of a mesh in each frame in its space, and transforms to the armature's."""

    def __init__(self, frames: int, mesh: MeshSample) -> None:
        self.vertices = np.empty((frames, len(mesh.vertices), 3), np.float32)
        self.placed = np.empty((frames, 4, 4))
        self.values = {name: np.zeros(frames) for name in mesh.shapes}


class _Frames:
    """Sampled frames of a clip."""

    def __init__(self, clip: Clip, bones: int, meshes: Sequence[MeshSample]) -> None:
        count = len(clip.frames)
        self.poses = np.empty((count, bones, 4, 4))
        self.world = np.empty((count, 4, 4))
        self.meshes = [_Seen(count, mesh) for mesh in meshes]

    def read(
        self,
        at: int,
        depsgraph: bpy.types.Depsgraph,
        bones: _Bones,
        stages: Iterable[bpy.types.Object],
    ) -> None:
        self.poses[at], self.world[at] = bones.read(depsgraph)
        back = np.linalg.pinv(self.world[at])
        for stage, mesh_frames in zip(stages, self.meshes, strict=True):
            evaluated = stage.evaluated_get(depsgraph)
            vertices = evaluated.data.vertices
            if len(vertices) != mesh_frames.vertices.shape[1]:
                frame = depsgraph.scene.frame_current
                raise Problem(
                    f'"{stage.data.name}" has {len(vertices):,} vertices at frame {frame} and '
                    f"{mesh_frames.vertices.shape[1]:,} at rest; "
                    "modifiers before the Armature add some"
                )
            vertices.foreach_get("co", mesh_frames.vertices[at].reshape(-1))
            mesh_frames.placed[at] = back @ np.array(evaluated.matrix_world)
            keys = stage.data.shape_keys
            if mesh_frames.values and keys is not None:
                blocks = keys.evaluated_get(depsgraph).key_blocks
                for name, values in mesh_frames.values.items():
                    values[at] = blocks[name].value


# Copies are evaluated in place of the objects, which are not changed.


@contextmanager
def _restored_frame(scene: bpy.types.Scene) -> Iterator[None]:
    frame, part = scene.frame_current, scene.frame_subframe
    try:
        yield
    finally:
        scene.frame_set(frame, subframe=part)


@contextmanager
def _without_flesh(character: Character) -> Iterator[None]:
    """Mute shape keys of an earlier bake."""
    ours = [
        (block, block.mute)
        for obj in character.meshes
        if obj.data.shape_keys
        for block in obj.data.shape_keys.key_blocks
        if block.name.startswith(f"{MARK} ")
    ]
    try:
        for block, _ in ours:
            block.mute = True
        yield
    finally:
        for block, muted in ours:
            block.mute = muted


@contextmanager
def _copied(context: bpy.types.Context, objects: Iterable[bpy.types.Object]) -> Iterator[list]:
    copies = []
    try:
        for obj in objects:
            copy = obj.copy()
            copies.append(copy)
            context.scene.collection.objects.link(copy)
            copy.hide_viewport, copy.hide_render = False, True
            for modifier in [m for m in copy.modifiers if m.name.startswith(MARK)]:
                copy.modifiers.remove(modifier)
        yield copies
    finally:
        for copy in copies:
            bpy.data.objects.remove(copy)


def _armature_modifiers(obj: bpy.types.Object, armature: bpy.types.Object) -> list[int]:
    return [
        k
        for k, modifier in enumerate(obj.modifiers)
        if modifier.type == "ARMATURE" and modifier.object == armature and modifier.show_viewport
    ]


@contextmanager
def _stages(context: bpy.types.Context, character: Character) -> Iterator[list]:
    """Yield copies of the meshes without the modifiers that follow the deformers."""
    with _copied(context, character.meshes) as copies:
        for copy in copies:
            last = max(_armature_modifiers(copy, character.armature), default=-1)
            stack = list(copy.modifiers)
            end = last + 1
            while end < len(stack) and stack[end].type in DEFORMERS:
                end += 1
            for modifier in stack[end:]:
                copy.modifiers.remove(modifier)
        yield copies


def _rest_mesh(
    context: bpy.types.Context,
    obj: bpy.types.Object,
    armature: bpy.types.Object,
    bones: list[str],
) -> MeshSample:
    """Evaluate a mesh before its Armature modifier, without shape keys."""
    with _copied(context, [obj]) as (copy,):
        first = min(_armature_modifiers(copy, armature), default=0)
        before = first > 0
        for modifier in list(copy.modifiers)[first:]:
            copy.modifiers.remove(modifier)
        copy.show_only_shape_key, copy.active_shape_key_index = True, 0
        if copy.parent_type == "ARMATURE":
            copy.parent_type = "OBJECT"
        context.view_layer.update()
        depsgraph = context.evaluated_depsgraph_get()
        evaluated = copy.evaluated_get(depsgraph)
        mesh = evaluated.data
        world = np.array(obj.evaluated_get(depsgraph).matrix_world)
        back = np.linalg.pinv(np.array(armature.evaluated_get(depsgraph).matrix_world))
        vertices = np.empty(3 * len(mesh.vertices), np.float32)
        mesh.vertices.foreach_get("co", vertices)
        if not np.isfinite(vertices).all():
            raise Problem(f'"{obj.name}" has vertices that are not finite')
        mesh.calc_loop_triangles()
        triangles = np.empty(3 * len(mesh.loop_triangles), np.int32)
        mesh.loop_triangles.foreach_get("vertices", triangles)
        materials = np.empty(len(mesh.loop_triangles), np.int32)
        mesh.loop_triangles.foreach_get("material_index", materials)
        weights, painted = _weights(mesh, obj, armature, bones)
        same_vertices = len(mesh.vertices) == len(obj.data.vertices) and not before
        names = [slot.material.name if slot.material else "" for slot in obj.material_slots]
    to_armature = back @ world
    sample = MeshSample(
        obj.name,
        moved_points(to_armature, vertices.reshape(-1, 3)).astype(np.float32),
        triangles.reshape(-1, 3),
        materials,
        names or [""],
        weights,
        to_armature,
        same_vertices,
        painted,
    )
    if same_vertices:
        sample.shapes = _key_shapes(obj, to_armature)
    return sample


def moved_points(matrix: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return points (n, 3) under a matrix (4, 4)."""
    return points @ matrix[:3, :3].T + matrix[:3, 3]


def _weights(
    mesh: bpy.types.Mesh, obj: bpy.types.Object, armature: bpy.types.Object, bones: list[str]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return weights (n, j + 1) as of the Armature modifier, and painted maps by attribute."""
    column = {name: k for k, name in enumerate(bones) if armature.data.bones[name].use_deform}
    of_group = [column.get(group.name, -1) for group in obj.vertex_groups]
    counts = np.array([len(vertex.groups) for vertex in mesh.vertices])
    pairs = np.array(
        [(g.group, g.weight) for vertex in mesh.vertices for g in vertex.groups]
    ).reshape(-1, 2)
    rows = np.repeat(np.arange(len(counts)), counts)
    groups = pairs[:, 0].astype(int)
    known = groups < len(of_group)
    rows, groups, values = rows[known], groups[known], pairs[known, 1]
    columns = np.array([*of_group, -1])[groups] if len(groups) else groups
    weights = np.zeros((len(counts), len(bones) + 1), np.float32)
    np.add.at(weights, (rows[columns >= 0], columns[columns >= 0]), values[columns >= 0])
    total = weights.sum(axis=1)
    weights[total <= 1e-6, -1] = 1
    weights /= np.where(total <= 1e-6, 1, total)[:, None]
    painted = {}
    for name, map_name in GROUPS.items():
        group = obj.vertex_groups.get(name)
        if group is None:
            continue
        here = groups == group.index
        value = np.zeros(len(counts), np.float32)  # 0 is neutral in all maps
        given = values[here]
        value[rows[here]] = STIFFEST ** (2 * given - 1) if name == "supple_stiffness" else given
        painted[map_name] = value
    return weights, painted


def _key_shapes(obj: bpy.types.Object, to_armature: np.ndarray) -> dict[str, np.ndarray]:
    """Return shape keys as offsets (n, 3) in the armature's space, except masked and muted ones."""
    keys = obj.data.shape_keys
    if keys is None or not keys.use_relative or obj.show_only_shape_key:
        return {}
    shapes = {}
    for block in keys.key_blocks:
        ours = block.name.startswith(f"{MARK} ")
        if block == keys.reference_key or block.mute or ours or block.vertex_group:
            continue  # the effect of masked ones is sampled by `_add_shapes`
        offsets = coordinates(block) - coordinates(block.relative_key)
        if offsets.any():
            shapes[block.name] = (offsets @ to_armature[:3, :3].T).astype(np.float32)
    return shapes


def coordinates(block: bpy.types.ShapeKey) -> np.ndarray:
    """Return the vertices (n, 3) of a shape key."""
    flat = np.empty(3 * len(block.data), np.float32)
    block.data.foreach_get("co", flat)
    return flat.reshape(-1, 3)


# Deformation beyond linear skinning.


def _add_shapes(mesh: MeshSample, clips: Sequence[ClipSample], seen: Sequence[_Seen]) -> None:
    """Add shapes of the differences from linear skinning, and values of all shapes in each clip."""
    skin = Skin(mesh.weights)
    count = len(mesh.shapes)
    shapes = np.array([*mesh.shapes.values()], np.float32).reshape(count, mesh.vertices.size)
    remainders, farthest = [], 0.0
    for clip, frames in zip(clips, seen, strict=True):
        values = np.array([*frames.values.values()]).reshape(len(shapes), len(clip.world)).T
        mesh.values.append(values)
        mesh.placed.append(frames.placed)
        matrices = _with_armature(clip.moved)
        points = mesh.vertices
        if len(shapes):
            points = points + (values.astype(np.float32) @ shapes).reshape(-1, *points.shape)
        posed = skin.posed(matrices, points)
        placed = frames.placed.astype(np.float32)
        there = frames.vertices @ placed[:, :3, :3].transpose(0, 2, 1) + placed[:, None, :3, 3]
        there -= posed
        farthest = max(farthest, float(np.sqrt((there**2).sum(axis=2).max())))
        remainders.append(there)
    size = float(np.linalg.norm(np.ptp(mesh.vertices, axis=0)))
    if not np.isfinite(farthest):
        raise Problem(f'"{mesh.name}" is evaluated to positions that are not finite')
    if farthest <= WITHIN * size:
        return
    before = [
        skin.unposed(_with_armature(clip.moved), each)
        for clip, each in zip(clips, remainders, strict=True)
    ]
    differences, values = few_shapes(np.concatenate(before), WITHIN * size)
    start = 0
    for k, each in enumerate(before):
        mesh.values[k] = np.hstack([mesh.values[k], values[start : start + len(each)]])
        start += len(each)
    mesh.shapes.update({f"seen {k + 1}": shape for k, shape in enumerate(differences)})


def _with_armature(moved: np.ndarray) -> np.ndarray:
    """Append the armature itself, which does not move in its own space, to bones (t, j, 4, 4)."""
    still = np.broadcast_to(np.eye(4), (len(moved), 1, 4, 4))
    return np.concatenate([moved, still], axis=1)
