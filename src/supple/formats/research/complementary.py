"""Characters of the Complementary Dynamics examples (Zhang et al. 2020).

A ``.json`` file names four others: a surface or tet mesh, bones as a graph (``.tgf``), weights
of the tet vertices (``.dmat``) and an animation by Euler angles (``_anim.txt``).
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
from supple.errors import FormatError
from supple.formats.file_bytes import as_floats, as_integers, checked_count, read_text, reading
from supple.formats.meshes.read_mesh import read_surface, read_tets
from supple.formats.research.fast_cd import read_fast_cd, read_json
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

    Attributes
    ----------
    name : str
    surface : SurfaceMesh
        The ``.obj`` beside the tets, or else their boundary.
    tets : TetMesh
        The example's own tets.
    rig : SkinnedRig
        Of the surface; its weights are the tets' weights interpolated.
    motion : Motion
        Bones' rotations as poses, what all of them share as the root.
    metres_per_unit : float
        What lengths in the files were multiplied by.
    """

    name: str
    surface: SurfaceMesh
    tets: TetMesh
    rig: SkinnedRig
    motion: Motion
    metres_per_unit: float = CENTIMETRE

    @property
    def character(self) -> Character:
        """The example as a character like any other."""
        motions = {self.motion.name or self.name: self.motion}
        return Character(
            self.name, self.surface, self.rig, motions, metres_per_unit=self.metres_per_unit
        )


def read_complementary(
    path: str | Path, *, metres_per_unit: float = CENTIMETRE
) -> ComplementaryExample:
    """Read an example whose handles are bones.

    Parameters
    ----------
    path : str or Path
        Its ``.json`` file; the files it names must be beside it.
    metres_per_unit : float
        Length of the files' unit.

    Raises
    ------
    FormatError, MeshError
        When a file is missing, damaged, or does not fit the others.
    """
    path = Path(path)
    named = _named_files(path)
    with reading(path.name):
        tets = read_tets(named["mesh_file"])
        tets = TetMesh(tets.vertices * metres_per_unit, tets.tets)
        surface = _surface(named["mesh_file"].with_suffix(".obj"), tets, metres_per_unit)
        points, edges = _parsed(named["handle_file"], ".tgf", _parse_graph)
        points = points * metres_per_unit
        weights = _parsed(named["weight_file"], ".dmat", _parse_dmat)
        if weights.shape != (len(tets.vertices), len(edges)):
            raise FormatError(
                f"{path.name}: weights of {weights.shape[0]} vertices and {weights.shape[1]} bones "
                f"for {len(tets.vertices)} vertices and {len(edges)} bones"
            )
        numbers = _parsed(named["anim_file"], ".txt", _parse_numbers)
        animation = _animation(named["anim_file"].name, numbers, len(edges))
        rig = _rig(surface, tets, points, edges, weights)
        motion = _motion(rig, points[edges[:, 0]], animation, named["dt"], metres_per_unit)
    return ComplementaryExample(path.stem, surface, tets, rig, motion, metres_per_unit)


def _named_files(path: Path) -> dict[str, Any]:
    name, text = path.name, read_text(path, (".json",))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: is no JSON ({error})") from error
    named: dict[str, Any] = {}
    for key in ("mesh_file", "handle_file", "weight_file", "anim_file"):
        value = content.get(key) if isinstance(content, dict) else None
        # A file that is named must not lead out of the folder.
        if not isinstance(value, str) or not value or Path(value).name != value:
            raise FormatError(f'{name}: "{key}" must name a file beside it')
        named[key] = path.parent / value
    dt = content.get("dt", 1 / 24)
    if not isinstance(dt, int | float) or not 1e-5 < dt < 10:
        raise FormatError(f'{name}: "dt" is no time step in seconds')
    named["dt"] = float(dt)
    return named


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
        words = line.split()
        if words and words[0].startswith("#"):
            sections.append([])
        elif words:
            sections[-1].append(words)
    points, edges = (*sections, [], [])[:2]
    if not edges:
        raise FormatError(f"{name}: has no bones; only examples with bones are read")
    if any(len(words) < 4 for words in points) or any(len(words) < 2 for words in edges):
        raise FormatError(f"{name}: a point has a number and three coordinates, a bone two points")
    places = as_floats(name, [word for words in points for word in words[1:4]], "points")
    ends = as_floats(name, [word for words in edges for word in words[:2]], "bones")
    bones = as_integers(name, ends, "bones").reshape(-1, 2) - 1
    if not np.isfinite(places).all() or bones.min() < 0 or bones.max() >= len(points):
        raise FormatError(f"{name}: a bone's point is not there, or not finite")
    return places.reshape(-1, 3), bones


def _parse_dmat(name: str, text: str) -> Floats:
    """Return a dense matrix: columns and rows, then its values column by column."""
    words = text.split()
    if len(words) < 2:
        raise FormatError(f"{name}: does not say how large its matrix is")
    columns = checked_count(name, words[0], "columns", 1, len(text))
    rows = checked_count(name, words[1], "rows", 1, len(text))
    if len(words) - 2 != rows * columns:
        raise FormatError(f"{name}: declares {rows} × {columns} values but has {len(words) - 2}")
    values = as_floats(name, words[2:], "weights").reshape(columns, rows).T
    if not np.isfinite(values).all():
        raise FormatError(f"{name}: has a weight that is not finite")
    return values


def _parse_numbers(name: str, text: str) -> Floats:
    numbers = as_floats(name, text.split(), "animation")
    if not np.isfinite(numbers).all():
        raise FormatError(f"{name}: has a number that is not finite")
    return numbers


class _Animation(NamedTuple):
    """The root's place at rest, its turns and places (t, 3), and bones' turns (t · b).

    Turns are about axes of the neutral pose.
    """

    rest_place: Floats
    root: Rotation
    places: Floats
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
    # First the neutral pose: the root's place, its orientation, the bones' orientations.
    rest_place, rest = table[0, 0], Rotation.from_euler("xyz", table[0, 1:], degrees=True)
    moved = table[1:]
    turned = Rotation.from_euler("xyz", moved[:, 0], degrees=True)
    root = rest[0] * turned * rest[0].inv()
    axes = Rotation.from_quat(np.tile(rest[1:].as_quat(), (frames, 1)))
    bones = (
        axes * Rotation.from_euler("xyz", moved[:, 2:].reshape(-1, 3), degrees=True) * axes.inv()
    )
    return _Animation(rest_place, root, moved[:, 1], bones)


def _rig(
    surface: SurfaceMesh, tets: TetMesh, points: Floats, edges: Ints, weights: Floats
) -> SkinnedRig:
    """Make a rig with a joint at the first point of every bone, which turns all below it."""
    parents = np.full(len(edges), -1)
    for bone, (first, _) in enumerate(edges):
        above = np.flatnonzero(edges[:, 1] == first)
        parents[bone] = above[0] if len(above) else -1
    if not (parents < np.arange(len(edges))).all():
        raise FormatError("bones must be listed from the root outward")
    places = points[edges[:, 0]]
    offsets = places - np.where(parents[:, None] >= 0, places[parents], 0.0)
    skeleton = Skeleton([f"bone{bone}" for bone in range(len(edges))], parents, offsets)
    carried = np.maximum(embed(surface.vertices, tets) @ np.maximum(weights, 0.0), 0.0)
    joints = np.tile(np.arange(len(edges)), (len(carried), 1))
    kept = np.argsort(-carried, axis=1, kind="stable")[:, :8]
    return SkinnedRig(
        JointPose(skeleton),
        surface.vertices,
        np.take_along_axis(joints, kept, axis=1),
        np.take_along_axis(carried, kept, axis=1),
        np.linalg.inv(skeleton.rest_world()),
        unweighted_joint=0,
    )


def _motion(
    rig: SkinnedRig, places: Floats, animation: _Animation, dt: float, metres_per_unit: float
) -> Motion:
    """Return poses of the bones, with the root's turn and way taken out of them.

    The file turns bones without a parent by q·r, r being the root's turn. That equals turning
    everything by r after turning the bone by r⁻¹ q r.
    """
    parents = rig.skeleton.parents
    frames, bones = len(animation.places), len(parents)
    roots = np.flatnonzero(parents < 0)
    turns = animation.bones.as_quat().reshape(frames, bones, 4)
    matrices = np.tile(np.eye(4), (frames, 1, 1))
    shift = (animation.places - animation.rest_place) * metres_per_unit
    centre = places[roots[0]]
    if len(roots) > 1:
        root = animation.root
        for bone in roots:
            turns[:, bone] = (root.inv() * Rotation.from_quat(turns[:, bone]) * root).as_quat()
        matrices[:, :3, :3] = root.as_matrix()
        shift = shift + centre - root.apply(centre)
    matrices[:, :3, 3] = shift
    poses = rig.joint_pose.pack(rotations=turns)
    return Motion(dt * np.arange(frames), poses, matrices, name="animation")


# Files in JSON of both examples; their keys tell them apart.


def load_json_example(path: Path, metres_per_unit: float | None = None) -> Character:
    """Read an example of Complementary Dynamics or of Fast Complementary Dynamics."""
    content = read_json(path)
    keys = content.keys() if isinstance(content, dict) else frozenset()
    told = {} if metres_per_unit is None else {"metres_per_unit": metres_per_unit}
    if "mesh_file" in keys:
        return read_complementary(path, **told).character
    if "p0" in keys:
        return read_fast_cd(path, content, **told)
    if "P" in keys:
        raise FormatError(f"{path.name}: is a motion; load the skeleton_rig.json it belongs to")
    raise FormatError(
        f"{path.name}: is JSON, but no character: neither mesh_file nor p0 is in it;"
        f" glTF's JSON ends in .gltf"
    )
