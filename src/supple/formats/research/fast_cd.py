"""Characters of the Fast Complementary Dynamics examples (Benchekroun et al. 2023).

``skeleton_rig.json`` has a surface (``V``, ``F``), its weights (``W``), and bones: parents (``pI``)
and rest transforms (``p0``, 3 × 4 each, in the world). Files beside it or in ``anim/`` have
motions: transforms of the bones at every frame (``P``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.checks import checked_number
from supple.errors import FormatError, SuppleError, warn
from supple.formats.file_bytes import read_text, reading
from supple.maths.rotations import decompose, relative_to_parents
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.motion.root_motion import split_root
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton
from supple.rig.skeleton.skinning import SkinnedRig

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


def read_json(path: Path) -> Any:
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


def read_fast_cd(
    path: str | Path,
    content: Any = None,
    *,
    rate: float = FRAMES_PER_SECOND,
    metres_per_unit: float = 1.0,
) -> Character:
    """Read an example whose rig, ``skeleton_rig.json``, is a skeleton on a surface.

    `content` is that of the file, if it was already read; `rate` is in frames per second. Raises
    SuppleError if the file is damaged or inconsistent; warns of motions that cannot be read, and of
    defects of the surface.
    """
    path = Path(path)
    rate = checked_number("frames per second of a motion", rate)
    scale = checked_number("metres per unit", metres_per_unit)
    if not (rate > 0 and scale > 0):
        raise SuppleError(f"rate is {rate:g}, metres_per_unit {scale:g}; both must be positive")
    content = read_json(path) if content is None else content
    notes: list[str] = []
    with reading(path.name):
        try:
            surface, rig, motions = _parts(path, content, scale, rate, notes)
        except SuppleError as error:
            text = str(error)
            raise type(error)(
                text if text.startswith(path.name) else f"{path.name}: {text}"
            ) from error
    notes += [f"{path.name}: {d.message}; continuing" for d in surface.defects()]
    for note in notes:
        warn(note)
    name = path.parent.name if path.stem == "skeleton_rig" and path.parent.name else path.stem
    return Character(name, surface, rig, motions, metres_per_unit=scale, warnings=tuple(notes))


def _parts(
    path: Path, content: Any, scale: float, rate: float, notes: list[str]
) -> tuple[SurfaceMesh, SkinnedRig, dict[str, Motion]]:
    if not isinstance(content, dict) or content.get("rig_type", "surface") != "surface":
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
    rig, motions = _rigged(bound, skeleton, rest, weights[:, order], clips, rate, notes)
    return SurfaceMesh(rig(rig.rest_pose), triangles), rig, motions


def _rigged(
    surface: SurfaceMesh,
    skeleton: Skeleton,
    rest: Floats,
    weights: Floats,
    clips: dict[str, Floats],
    rate: float,
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
        name: Motion(np.arange(len(roots)) / rate, pose.pack(*local), roots, name)
        for name, (roots, *local) in tables.items()
    }
    joints, largest = largest_weights(weights)
    inverse_bind = np.linalg.inv(rest)
    rig = SkinnedRig(pose, surface.vertices, joints, largest, inverse_bind, unweighted_joint=root)
    return rig, motions


def largest_weights(weights: Floats) -> tuple[Ints, Floats]:
    """Return joints and values of the eight largest of the weights (n, J) of each vertex, ≥ 0."""
    joints = np.argsort(-weights, axis=1, kind="stable")[:, :8]
    return joints, np.maximum(np.take_along_axis(weights, joints, axis=1), 0.0)


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
                    f"{file.name}: is beyond the limit of JSON; further motions are ignored"
                )
                break
            content = read_json(file)
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
    """Return finite numbers of this shape; None is any number but zero."""
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
        raise FormatError(f"a bone has the parent {parents.max()} of {count} bones")
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
