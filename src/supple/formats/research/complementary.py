"""Characters of the Complementary Dynamics examples (Zhang et al. 2020).

A ``.json`` file names four others: a surface or tet mesh, bones as a graph (``.tgf``), weights of
the tet vertices (``.dmat``) and an animation in Euler angles (``_anim.txt``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from supple.arrays import Floats, Ints
from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, as_integers, checked_count, read_text, reading
from supple.formats.meshes.read_mesh import read_surface, read_tets
from supple.formats.research.fast_cd import largest_weights, read_fast_cd, read_json
from supple.mesh.embedding import embed
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

#: The examples are modelled in centimetres.
CENTIMETRE = 0.01


@dataclass(frozen=True, eq=False)
class ComplementaryExample:
    """Surface, tets, rig and motion of one example, in metres.

    The surface is the ``.obj`` beside the tets, or their boundary; its rig has interpolated weights
    of the tets. Poses are rotations of bones; the root has their common motion.
    """

    name: str
    surface: SurfaceMesh
    tets: TetMesh
    rig: SkinnedRig
    motion: Motion
    metres_per_unit: float = CENTIMETRE

    @property
    def character(self) -> Character:
        """The example as a character."""
        motions = {self.motion.name or self.name: self.motion}
        return Character(
            self.name, self.surface, self.rig, motions, metres_per_unit=self.metres_per_unit
        )


def read_complementary(
    path: str | Path, *, metres_per_unit: float = CENTIMETRE
) -> ComplementaryExample:
    """Read an example whose handles are bones; the files that its ``.json`` names must be beside
    it.

    Raises FormatError or MeshError if a file is missing, damaged, or does not fit the others.
    """
    path = Path(path)
    files = _named_files(path)
    with reading(path.name):
        tets = read_tets(files["mesh_file"])
        tets = TetMesh(tets.vertices * metres_per_unit, tets.tets)
        surface = _surface(files["mesh_file"].with_suffix(".obj"), tets, metres_per_unit)
        points, edges = _parsed(files["handle_file"], ".tgf", _parse_graph)
        points = points * metres_per_unit
        weights = _parsed(files["weight_file"], ".dmat", _parse_dmat)
        if weights.shape != (len(tets.vertices), len(edges)):
            raise FormatError(
                f"{path.name}: weights of {weights.shape[0]} vertices and {weights.shape[1]} bones "
                f"for {len(tets.vertices)} vertices and {len(edges)} bones"
            )
        numbers = _parsed(files["anim_file"], ".txt", _parse_numbers)
        animation = _animation(files["anim_file"].name, numbers, len(edges))
        rig = _rig(surface, tets, points, edges, weights)
        motion = _motion(rig, points[edges[:, 0]], animation, files["dt"], metres_per_unit)
    return ComplementaryExample(path.stem, surface, tets, rig, motion, metres_per_unit)


def _named_files(path: Path) -> dict[str, Any]:
    name, content = path.name, read_json(path)
    files: dict[str, Any] = {}
    for key in ("mesh_file", "handle_file", "weight_file", "anim_file"):
        value = content.get(key) if isinstance(content, dict) else None
        # Named files must be in the folder.
        if not isinstance(value, str) or not value or Path(value).name != value:
            raise FormatError(f'{name}: "{key}" must name a file beside it')
        files[key] = path.parent / value
    dt = content.get("dt", 1 / 24)
    if not isinstance(dt, int | float) or not 1e-5 < dt < 10:
        raise FormatError(f'{name}: "dt" is not a time step in seconds')
    files["dt"] = float(dt)
    return files


def _parsed(path: Path, suffix: str, parse: Callable[[str, str], Any]) -> Any:
    return parse(path.name, read_text(path, (suffix,)))


def _surface(path: Path, tets: TetMesh, metres_per_unit: float) -> SurfaceMesh:
    if not path.is_file():
        return tets.surface()[0]
    surface = read_surface(path)
    return SurfaceMesh(surface.vertices * metres_per_unit, surface.triangles)


def _parse_graph(name: str, text: str) -> tuple[Floats, Ints]:
    """Return points (p, 3) and edges (b, 2) of a trivial graph format file."""
    sections: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        columns = line.split()
        if columns and columns[0].startswith("#"):
            sections.append([])
        elif columns:
            sections[-1].append(columns)
    points, edges = (*sections, [], [])[:2]
    if not edges:
        raise FormatError(f"{name}: has no bones; use an example with bones")
    if any(len(row) < 4 for row in points) or any(len(row) < 2 for row in edges):
        raise FormatError(
            f"{name}: has an incomplete line; points have a number and three coordinates"
        )
    coordinates = as_floats(name, [number for row in points for number in row[1:4]], "points")
    ends = as_floats(name, [number for row in edges for number in row[:2]], "bones")
    bones = as_integers(name, ends, "bones").reshape(-1, 2) - 1
    if not np.isfinite(coordinates).all() or bones.min() < 0 or bones.max() >= len(points):
        raise FormatError(f"{name}: has a bone with a missing or infinite point")
    return coordinates.reshape(-1, 3), bones


def _parse_dmat(name: str, text: str) -> Floats:
    """Return a dense matrix: columns and rows, then its values column by column."""
    numbers = text.split()
    if len(numbers) < 2:
        raise FormatError(f"{name}: does not declare the size of its matrix")
    columns = checked_count(name, numbers[0], "columns", 1, len(text))
    rows = checked_count(name, numbers[1], "rows", 1, len(text))
    if len(numbers) - 2 != rows * columns:
        raise FormatError(f"{name}: declares {rows} × {columns} values but has {len(numbers) - 2}")
    values = as_floats(name, numbers[2:], "weights").reshape(columns, rows).T
    if not np.isfinite(values).all():
        raise FormatError(f"{name}: has a weight that is not finite")
    return values


def _parse_numbers(name: str, text: str) -> Floats:
    numbers = as_floats(name, text.split(), "animation")
    if not np.isfinite(numbers).all():
        raise FormatError(f"{name}: has a number that is not finite")
    return numbers


class _Animation(NamedTuple):
    """Rest position of the root, its rotations and positions (t, 3), and rotations of bones (t ·
    b), about axes of the neutral pose.
    """

    rest_position: Floats
    root: Rotation
    positions: Floats
    bones: Rotation


def _animation(name: str, numbers: Floats, n_bones: int) -> _Animation:
    row = 3 * (n_bones + 2)
    if len(numbers) < 2 + row or numbers[0] != n_bones:
        raise FormatError(f"{name}: is not an animation of {n_bones} bones")
    frames = (len(numbers) - 2) // row - 1
    if numbers[1] != frames or len(numbers) != 2 + row * (frames + 1):
        raise FormatError(
            f"{name}: declares {numbers[1]:g} frames but has {frames}; it is cut off or damaged"
        )
    table = numbers[2:].reshape(frames + 1, n_bones + 2, 3)
    # The first row is the neutral pose: position and orientation of the root, then of bones.
    rest_position, rest = table[0, 0], Rotation.from_euler("xyz", table[0, 1:], degrees=True)
    poses = table[1:]
    root = rest[0] * Rotation.from_euler("xyz", poses[:, 0], degrees=True) * rest[0].inv()
    axes = Rotation.from_quat(np.tile(rest[1:].as_quat(), (frames, 1)))
    rotations = Rotation.from_euler("xyz", poses[:, 2:].reshape(-1, 3), degrees=True)
    return _Animation(rest_position, root, poses[:, 1], axes * rotations * axes.inv())


def _rig(
    surface: SurfaceMesh, tets: TetMesh, points: Floats, edges: Ints, weights: Floats
) -> SkinnedRig:
    """Return a rig with a joint at the first point of every bone."""
    parents = np.full(len(edges), -1)
    for bone, (first, _) in enumerate(edges):
        above = np.flatnonzero(edges[:, 1] == first)
        parents[bone] = above[0] if len(above) else -1
    if not (parents < np.arange(len(edges))).all():
        raise FormatError("bones must be listed with parents first")
    positions = points[edges[:, 0]]
    offsets = positions - np.where(parents[:, None] >= 0, positions[parents], 0.0)
    skeleton = Skeleton([f"bone{bone}" for bone in range(len(edges))], parents, offsets)
    surface_weights = np.maximum(embed(surface.vertices, tets) @ np.maximum(weights, 0.0), 0.0)
    joints, largest = largest_weights(surface_weights)
    inverse_bind = np.linalg.inv(skeleton.rest_world())
    pose = JointPose(skeleton)
    return SkinnedRig(pose, surface.vertices, joints, largest, inverse_bind, unweighted_joint=0)


def _motion(
    rig: SkinnedRig, positions: Floats, animation: _Animation, dt: float, metres_per_unit: float
) -> Motion:
    """Return poses of the bones relative to the root's motion.

    The file rotates bones without a parent by q·r, with r the root's rotation. That equals a
    rotation of everything by r after a rotation of the bone by r⁻¹ q r.
    """
    parents = rig.skeleton.parents
    frames, bones = len(animation.positions), len(parents)
    roots = np.flatnonzero(parents < 0)
    rotations = animation.bones.as_quat().reshape(frames, bones, 4)
    matrices = np.tile(np.eye(4), (frames, 1, 1))
    shift = (animation.positions - animation.rest_position) * metres_per_unit
    pivot = positions[roots[0]]
    if len(roots) > 1:
        root = animation.root
        for bone in roots:
            rotation = Rotation.from_quat(rotations[:, bone])
            rotations[:, bone] = (root.inv() * rotation * root).as_quat()
        matrices[:, :3, :3] = root.as_matrix()
        shift = shift + pivot - root.apply(pivot)
    matrices[:, :3, 3] = shift
    poses = rig.joint_pose.pack(rotations=rotations)
    return Motion(dt * np.arange(frames), poses, matrices, name="animation")


# Files in JSON of both papers; the keys in them differ.


def load_json_example(path: Path, metres_per_unit: float | None = None) -> Character:
    """Read an example of Complementary Dynamics or of Fast Complementary Dynamics."""
    content = read_json(path)
    keys = content.keys() if isinstance(content, dict) else frozenset()
    unit_option = {} if metres_per_unit is None else {"metres_per_unit": metres_per_unit}
    if "mesh_file" in keys:
        return read_complementary(path, **unit_option).character
    if "p0" in keys:
        return read_fast_cd(path, content, **unit_option)
    if "P" in keys:
        raise FormatError(f"{path.name}: is a motion; load the skeleton_rig.json it belongs to")
    raise FormatError(
        f"{path.name}: is JSON, but no character: neither mesh_file nor p0 is in it;"
        f" glTF's JSON ends in .gltf"
    )
