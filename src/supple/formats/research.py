"""Characters of research examples, with files in JSON.

Complementary Dynamics (Zhang et al. 2020): a ``.json`` file names four others: a surface or tet
mesh, bones as a graph (``.tgf``), weights of the tet vertices (``.dmat``) and an animation in Euler
angles (``_anim.txt``).

Fast Complementary Dynamics (Benchekroun et al. 2023): ``skeleton_rig.json`` has a surface (``V``,
``F``), its weights (``W``), and bones: parents (``pI``) and rest transforms (``p0``, 3 × 4 each, in
the world). Files beside it or in ``anim/`` have motions: transforms of the bones at every frame
(``P``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from supple.arrays import Floats, Ints
from supple.errors import FormatError, SuppleError, warn
from supple.formats.file_bytes import as_floats, as_integers, checked_count, read_text, reading
from supple.formats.meshes.read_mesh import read_surface, read_tets
from supple.maths.rotations import decompose, relative_to_parents
from supple.mesh.embedding import embed
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.motion.root_motion import split_root
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

#: The examples are modelled in centimetres.
CENTIMETRE = 0.01
#: Frame rate, which files do not have: 24, the default of Blender.
FRAMES_PER_SECOND = 24.0
#: Most bytes of JSON, whose numbers take twenty times as much memory.
LARGEST_JSON = 256 * 2**20
#: Most files that are searched for motions.
MOST_FILES = 100
#: Fraction of the size below which a bone does not move.
STILL = 1e-6
#: Deviation from orthogonal columns above which a transform is sheared: float32.
SHEAR = 1e-5


def load_json_example(path: Path, metres_per_unit: float | None = None) -> Character:
    """Read an example of Complementary Dynamics or of Fast Complementary Dynamics."""
    content = _read_json(path)
    keys = content.keys() if isinstance(content, dict) else frozenset()
    if "mesh_file" in keys:
        return read_complementary(path, metres_per_unit=metres_per_unit or CENTIMETRE).character
    if "p0" in keys:
        return _read_fast_cd(path, content, metres_per_unit or 1.0)
    if "P" in keys:
        raise FormatError(f"{path.name}: is a motion; load the skeleton_rig.json it belongs to")
    raise FormatError(
        f'{path.name}: is JSON, but not a character: it has neither "mesh_file" nor "p0";'
        f" give a glTF file the suffix .gltf"
    )


def _read_json(path: Path) -> Any:
    """Return the content of a JSON file, if it is not too large."""
    name = path.name
    try:
        if path.is_file() and path.stat().st_size > LARGEST_JSON:
            raise FormatError(f"{name}: has over {LARGEST_JSON >> 20} MiB, too much for JSON")
    except (OSError, ValueError) as error:
        raise FormatError(f"{name}: cannot be opened ({error})") from error
    try:
        return json.loads(read_text(path, (".json",)))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: is not JSON ({str(error)[:100]})") from error


def _largest_weights(weights: Floats) -> tuple[Ints, Floats]:
    """Return joints and values of each vertex's eight largest weights, ≥ 0, from all (n, J)."""
    joints = np.argsort(-weights, axis=1, kind="stable")[:, :8]
    return joints, np.maximum(np.take_along_axis(weights, joints, axis=1), 0.0)


# Complementary Dynamics.


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
    metres_per_unit: float

    @property
    def character(self) -> Character:
        """The example as a character."""
        motions, unit = {self.motion.name: self.motion}, self.metres_per_unit
        return Character(self.name, self.surface, self.rig, motions, metres_per_unit=unit)


def read_complementary(
    path: str | Path, *, metres_per_unit: float = CENTIMETRE
) -> ComplementaryExample:
    """Read an example whose handles are bones; the files that its ``.json`` names must be beside
    it.

    Raises FormatError or MeshError if a file is missing, damaged, or inconsistent with the others.
    """
    path = Path(path)
    files = _named_files(path)
    with reading(path.name):
        tets = read_tets(files["mesh_file"])
        tets = TetMesh(tets.vertices * metres_per_unit, tets.tets)
        surface, obj = tets.surface()[0], files["mesh_file"].with_suffix(".obj")
        if obj.is_file():
            skin = read_surface(obj)
            surface = SurfaceMesh(skin.vertices * metres_per_unit, skin.triangles)
        points, edges = _parsed(files["handle_file"], ".tgf", _parse_graph)
        points = points * metres_per_unit
        weights = _parsed(files["weight_file"], ".dmat", _parse_dmat)
        if weights.shape != (len(tets.vertices), len(edges)):
            raise FormatError(
                f"{path.name}: has weights of {weights.shape[0]} vertices and {weights.shape[1]} "
                f"bones, but {len(tets.vertices)} vertices and {len(edges)} bones"
            )
        text = read_text(files["anim_file"], (".txt",))
        animation = _parse_animation(files["anim_file"].name, text, len(edges))
        rig = _rig(surface, tets, points, edges, weights)
        motion = _motion(rig, points[edges[:, 0]], animation, files["dt"], metres_per_unit)
    return ComplementaryExample(path.stem, surface, tets, rig, motion, metres_per_unit)


def _named_files(path: Path) -> dict[str, Any]:
    name, content = path.name, _read_json(path)
    files: dict[str, Any] = {}
    for key in ("mesh_file", "handle_file", "weight_file", "anim_file"):
        value = content.get(key) if isinstance(content, dict) else None
        # Named files must be in the folder.
        if not isinstance(value, str) or not value or Path(value).name != value:
            raise FormatError(f'{name}: "{key}" must name a file beside it')
        files[key] = path.parent / value
    dt = content.get("dt", 1 / 24)
    if not isinstance(dt, int | float) or not 1e-5 < dt < 10:
        raise FormatError(f'{name}: "dt" is not a time step; give positive seconds')
    files["dt"] = float(dt)
    return files


def _parsed(path: Path, suffix: str, parse: Callable[[str, str], Any]) -> Any:
    return parse(path.name, read_text(path, (suffix,)))


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


class _Animation(NamedTuple):
    """Rest position of the root, its rotations (t) and positions (t, 3), and rotations of bones
    (t · b, frame by frame) about axes of the neutral pose.
    """

    rest_position: Floats
    root: Rotation
    positions: Floats
    bones: Rotation


def _parse_animation(name: str, text: str, n_bones: int) -> _Animation:
    numbers = as_floats(name, text.split(), "animation")
    if not np.isfinite(numbers).all():
        raise FormatError(f"{name}: has a number that is not finite")
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
    joints, largest = _largest_weights(surface_weights)
    inverse_bind = np.linalg.inv(skeleton.rest_world())
    pose = JointPose(skeleton)
    return SkinnedRig(pose, surface.vertices, joints, largest, inverse_bind, unweighted_joint=0)


def _motion(
    rig: SkinnedRig, positions: Floats, animation: _Animation, dt: float, metres_per_unit: float
) -> Motion:
    """Return the motion: root transforms, and poses of the bones relative to them.

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


# Fast Complementary Dynamics.


def _read_fast_cd(path: Path, content: dict[str, Any], metres_per_unit: float) -> Character:
    """Return an example whose rig, ``skeleton_rig.json``, is a skeleton on a surface.

    Raises SuppleError if the file is damaged or inconsistent; warns of motions that cannot be read,
    and of defects of the surface.
    """
    notes: list[str] = []
    with reading(path.name):
        try:
            surface, rig, motions = _parts(path, content, metres_per_unit, notes)
        except SuppleError as error:
            message = str(error).removeprefix(f"{path.name}: ")
            raise type(error)(f"{path.name}: {message}") from error
    notes += [f"{path.name}: {d.message}; continuing" for d in surface.defects()]
    for note in notes:
        warn(note)
    name = path.parent.name if path.stem == "skeleton_rig" and path.parent.name else path.stem
    unit, messages = metres_per_unit, tuple(notes)
    return Character(name, surface, rig, motions, metres_per_unit=unit, warnings=messages)


def _parts(
    path: Path, content: dict[str, Any], scale: float, notes: list[str]
) -> tuple[SurfaceMesh, SkinnedRig, dict[str, Motion]]:
    if content.get("rig_type", "surface") != "surface":
        raise FormatError("is not a rig of a surface; use one with rig_type surface")
    vertices = _array(content, "V", (None, 3)) * scale
    triangles = _integers(content, "F", (None, 3))
    weights = _array(content, "W", (len(vertices), None))
    bones = weights.shape[1]
    order, parents = _parents_first(_integers(content, "pI", (bones,)))
    rest = _worlds(_array(content, "p0", (bones, 3, 4)), scale)[order]
    local, shear = decompose(relative_to_parents(rest, parents))
    if shear.max() >= SHEAR:
        raise FormatError('a bone in "p0" is sheared; use rotations and scales only')
    names = [f"bone{bone}" for bone in order]
    skeleton = Skeleton(names, parents, local.translations, local.rotations, local.scales)
    clips = _clips(path, bones, scale, order, notes)
    bound = SurfaceMesh(vertices, triangles)
    rig, motions = _rigged(bound, skeleton, rest, weights[:, order], clips, notes)
    return SurfaceMesh(rig(rig.rest_pose), triangles), rig, motions


def _rigged(
    surface: SurfaceMesh,
    skeleton: Skeleton,
    rest: Floats,
    weights: Floats,
    clips: dict[str, Floats],
    notes: list[str],
) -> tuple[SkinnedRig, dict[str, Motion]]:
    size = surface.size
    root_joints = np.flatnonzero(skeleton.parents < 0)
    root = int(root_joints[np.argmax(weights.sum(axis=0)[root_joints])])
    tables, translating, scaled = {}, *np.zeros((2, skeleton.n_joints), dtype=bool)
    for name, world in clips.items():
        local, shear = decompose(relative_to_parents(world, skeleton.parents))
        if shear.max() >= SHEAR:
            notes.append(f"{name}.json: has sheared bones; the shear is ignored")
        roots, translations, rotations = split_root(
            skeleton, local.translations, local.rotations, local.scales, joint=root
        )
        tables[name] = roots, translations, rotations, local.scales
        translating |= np.abs(translations - skeleton.translations).max(axis=(0, 2)) > STILL * size
        scaled |= np.abs(local.scales - skeleton.scales).max(axis=(0, 2)) > 1e-5
    pose = JointPose(skeleton, np.flatnonzero(translating), np.flatnonzero(scaled))
    motions = {
        name: Motion(np.arange(len(roots)) / FRAMES_PER_SECOND, pose.pack(*local), roots, name)
        for name, (roots, *local) in tables.items()
    }
    joints, largest = _largest_weights(weights)
    inverse_bind = np.linalg.inv(rest)
    rig = SkinnedRig(pose, surface.vertices, joints, largest, inverse_bind, unweighted_joint=root)
    return rig, motions


def _clips(
    path: Path, bones: int, scale: float, order: Ints, notes: list[str]
) -> dict[str, Floats]:
    """Return world transforms of the bones, (t, b, 4, 4), by name of the file."""
    clips: dict[str, Floats] = {}
    try:
        files = [file for file in sorted(path.parent.glob("*.json")) if file.name != path.name]
        files += sorted((path.parent / "anim").glob("*.json"))
    except OSError:
        return clips
    budget = LARGEST_JSON
    for file in files[:MOST_FILES]:
        try:
            budget -= file.stat().st_size
            if budget < 0:
                notes.append(
                    f"{file.name}: exceeds the limit of JSON data; further motions are ignored"
                )
                break
            content = _read_json(file)
            if not isinstance(content, dict) or "P" not in content or file.stem in clips:
                continue
            transforms = _array(content, "P", (None, bones, 3, 4))
        except (SuppleError, OSError) as error:
            text = str(error).removeprefix(f"{file.name}: ")
            notes.append(f"{file.name}: {text}; this motion is ignored")
            continue
        clips[file.stem] = _worlds(transforms, scale)[:, order]
    return clips


def _array(content: dict[str, Any], key: str, shape: tuple[int | None, ...]) -> Floats:
    """Return `content[key]` as a finite array; None in `shape` matches any positive length."""
    if key not in content:
        raise FormatError(f'has no "{key}"')
    try:
        array = np.array(content[key], dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise FormatError(f'"{key}" is not a table of numbers') from None
    sizes = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or not all(n > 0 and n == (m or n) for n, m in sizes):
        expected = " × ".join("any" if m is None else str(m) for m in shape)
        raise FormatError(f'"{key}" has shape {array.shape}, not {expected}')
    if not np.isfinite(array).all() or np.abs(array).max() > 1e12:
        raise FormatError(f'"{key}" has a number that is not finite')
    return array


def _integers(content: dict[str, Any], key: str, shape: tuple[int | None, ...]) -> Ints:
    array = _array(content, key, shape)
    if (array != np.floor(array)).any():
        raise FormatError(f'"{key}" has an index that is not an integer')
    return array.astype(np.int64)


def _parents_first(parents: Ints) -> tuple[Ints, Ints]:
    """Return an order with parents before children, and the parents in that order."""
    count = len(parents)
    if parents.max() >= count:
        raise FormatError(f"a bone has parent {parents.max()}, but the last bone is {count - 1}")
    depth, above = np.zeros(count, np.int64), np.maximum(parents, -1)
    for _ in range(count + 1):
        if (above < 0).all():
            break
        depth += above >= 0
        above = np.where(above >= 0, np.maximum(parents, -1)[above], -1)
    else:
        raise FormatError("the parents of bones form a cycle")
    order = np.argsort(depth, kind="stable")
    row = np.empty(count, np.int64)
    row[order] = np.arange(count)
    parents_in_order = parents[order]
    return order, np.where(parents_in_order >= 0, row[np.maximum(parents_in_order, 0)], -1)


def _worlds(transforms: Floats, scale: float) -> Floats:
    worlds = np.zeros((*transforms.shape[:-2], 4, 4))
    worlds[..., :3, :] = transforms
    worlds[..., :3, 3] *= scale
    worlds[..., 3, 3] = 1
    if not (np.abs(np.linalg.det(worlds)) > 1e-12).all():
        raise FormatError("a bone is scaled to zero")
    return worlds
