"""Characters from USD: .usd, .usda, .usdc, .usdz, with UsdSkel."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from supple.arrays import Floats, Ints, Singles
from supple.errors import FormatError, SuppleError, warn
from supple.formats.file_bytes import LARGEST_FILE, reading
from supple.formats.painted_maps import PaintedMaps
from supple.formats.registry import CURVES, FLESH, USD_SUFFIXES
from supple.formats.usd.originals import LayersBelow
from supple.formats.usd.process import read_stage
from supple.formats.usd.read.joint_forest import PARTS, SHEAR, Branch, JointForest, read_joints
from supple.formats.usd.read.skinned_surface import SkinnedSurface, read_meshes
from supple.maths.rotations import decompose, scaling
from supple.mesh.appearance import Appearance, SurfaceMaterial, Texture
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import MotionTracks, TrackSpace, joint_reach
from supple.rig.motion.root_motion import Locals, RootPolicy, pose_of_motions
from supple.rig.motion.tracks import Track
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names
from supple.rig.skeleton.skinning import SkinnedRig

#: Deviation from unit length of a quaternion that is rounding.
ROUNDED = 1e-3
#: Names of shapes that Supple bakes.
BAKED = re.compile(r"supple_soft\d*_\d{3,}")


@dataclass(frozen=True, eq=False)
class UsdMesh:
    """Path of a mesh prim, and the surface vertex of each of its points (n,), -1 without a face."""

    path: str
    welded: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UsdSource:
    """Origin of a character in a USD file.

    `from_stage` (4, 4) maps the stage's world space to metres with +Y up. `time_codes` are
    the time codes of each motion's keys. `without` lists the kinds of Supple's layers that were
    skipped, if the character was read from the original file inside the package `path`.
    """

    path: Path
    meshes: tuple[UsdMesh, ...]
    from_stage: Floats
    time_codes: dict[str, Floats]
    time_codes_per_second: float
    without: tuple[str, ...] = ()


def load_usd(
    path: str | Path,
    metres_per_unit: float | None = None,
    *,
    curves: bool = True,
    flesh: bool = False,
) -> Character:
    """Read a character from a ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file.

    All meshes become one surface in metres, +Y up, in the bind pose; meshes without a skin follow
    the transforms above them. The first motion is the stage's; with one skeleton, animations
    that are not bound to it follow. An in-between of a blend shape is a separate parameter,
    ``smile@0.5``. `metres_per_unit` replaces the stage's ``metersPerUnit``. If `curves` or
    `flesh` is False and the file is a layer of Supple with those, the file below it is read. Raises
    SuppleError if the file has no character, or ``supple[usd]`` is not installed. Files outside the
    file's folder are not read. Mistakes and ignored parts are warnings.
    """
    path = Path(path)
    _check_file(path)
    without = tuple(name for name, keep in ((CURVES, curves), (FLESH, flesh)) if not keep)
    # Numbers that overflow are not finite; they are errors or warnings.
    with LayersBelow(path) as below, reading(path.name), np.errstate(all="ignore"):
        notes = []
        while "record" in (stage := read_stage(below.path, without)):
            below.descend(stage["record"])
            _check_file(below.path)
            if stage["record"]["added"] == FLESH:
                what = f"{path.name}: has flesh that Supple baked"
                notes = [f"{what}; {below.path.name} below it is read"]
        if not flesh:
            notes += _lasting_flesh(path.name, stage)
        character = staged_character(below.path, stage, metres_per_unit)
        source = character.source
        if below.inside:
            source = replace(source, path=path, without=without)
        character = replace(character, source=source, warnings=(*notes, *character.warnings))
    for message in character.warnings:
        warn(message)
    return character


def _lasting_flesh(name: str, stage: dict[str, Any]) -> list[str]:
    """Return a note about shapes that have names like Supple's, if there are any."""
    shapes = (shape["name"] for mesh in stage["meshes"] for shape in mesh["shapes"])
    first = next((shape for shape in shapes if BAKED.fullmatch(shape)), None)
    if first is None:
        return []
    what = f'has shapes such as "{first}", which Supple may have baked'
    return [f"{name}: {what}; baking would add to them, so use the original"]


def _check_file(path: Path) -> None:
    name = path.name or str(path)
    if path.suffix.lower() not in USD_SUFFIXES:
        suffixes = ", ".join(USD_SUFFIXES)
        raise FormatError(f'{name}: "{path.suffix}" files are not USD; use one of {suffixes}')
    try:
        if not path.is_file():
            raise FormatError(f"{name}: there is no such file in {path.parent}")
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise FormatError(f"{name}: cannot be opened ({error})") from error
    if size > LARGEST_FILE:
        raise FormatError(f"{name}: has {size / 2**30:.1f} GiB, more than can be read; simplify it")


def staged_character(
    path: Path, stage: dict[str, Any], metres_per_unit: float | None = None
) -> Character:
    """Return the character of a stage that `read_stage` returned."""
    unit = stage["unit"] if metres_per_unit is None else metres_per_unit
    to_supple = _upright(stage["up"], unit)
    try:
        forest = read_joints(stage, to_supple)
        surface = read_meshes(stage, forest, to_supple)
        joint_pose, motions, codes = _read_motions(path.stem, stage, forest, surface, to_supple)
        rig = _rig(joint_pose, forest, surface)
        mesh = SurfaceMesh(rig(rig.rest_pose), surface.triangles)
    except SuppleError as error:
        # Errors of the rig do not name the file.
        raise type(error)(f"{path.name}: {error}") from error
    meshes = [
        UsdMesh(data["path"], welded)
        for data, welded in zip(stage["meshes"], surface.welded, strict=True)
    ]
    painted = PaintedMaps(len(mesh.vertices), forest.notes.append)
    for data, each in zip(stage["meshes"], meshes, strict=True):
        for name, values in data.get("painted", {}).items():
            painted.add(name, each.welded, values)
    appearance = _appearance(path.name, stage, surface.corners, forest.notes)
    guessed = [stage["unit_note"]] if stage["unit_note"] and metres_per_unit is None else []
    defects = [f"{defect.message}; continuing" for defect in mesh.defects()]
    notes = [*guessed, *stage["notes"], *forest.notes, *defects]
    return Character(
        name=path.stem,
        surface=mesh,
        rig=rig,
        motions=motions,
        source=UsdSource(path, tuple(meshes), to_supple, codes, stage["rate"]),
        metres_per_unit=unit,
        warnings=tuple(f"{path.name}: {note}" for note in dict.fromkeys(notes)),
        labels={f"mesh:{mesh.path}": np.unique(mesh.welded[mesh.welded >= 0]) for mesh in meshes},
        painted=painted.maps(),
        appearance=appearance,
    )


def _upright(axis: str, unit: float) -> Floats:
    """Return the transform (4, 4) from the stage's space to metres with +Y up."""
    transform = scaling(unit)
    z_to_y = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    return transform @ z_to_y if axis == "Z" else transform


def _rig(joint_pose: JointPose, forest: JointForest, surface: SkinnedSurface) -> Rig:
    skin = SkinnedRig(
        joint_pose,
        surface.vertices,
        surface.joints,
        surface.weights,
        np.array(forest.inverse_bind),
        "dual-quaternion" if surface.dual else "linear",
    )
    if not len(surface.deltas):
        return skin
    used = [parameter.name for parameter in skin.parameters]
    names = unique_names([*used, *surface.shapes.names()])[len(used) :]
    return BlendShapeRig(skin, surface.deltas, names)


# Motions of the stage's clips.


def _read_motions(
    stem: str,
    stage: dict[str, Any],
    forest: JointForest,
    surface: SkinnedSurface,
    to_supple: Floats,
) -> tuple[JointPose, dict[str, Motion], dict[str, Floats]]:
    """Return a pose vector for all clips, the motions, and the time codes of their keys."""
    clips, skeleton = stage["clips"], forest.skeleton()
    weight = np.zeros(skeleton.n_joints)
    np.add.at(weight, surface.joints, surface.weights)
    size = float(np.linalg.norm(np.ptp(surface.vertices, axis=0)))
    samples = [_clip_locals(forest, skeleton, clip, to_supple) for clip in clips]
    policy = RootPolicy.chosen(skeleton, samples, weight, size)
    split = [policy.split(local) for local in samples]
    joint_pose = pose_of_motions(skeleton, [local for local, _ in split], size)
    rest = np.zeros(len(surface.deltas))
    reach = joint_reach(skeleton, surface.vertices, surface.joints, surface.weights)
    shapes = np.linalg.norm(surface.deltas, axis=2).max(axis=1) if len(rest) else rest
    space = TrackSpace(joint_pose, policy, np.zeros(3), rest, reach, shapes, size)
    motions: dict[str, Motion] = {}
    codes: dict[str, Floats] = {}
    for clip, local in zip(clips, samples, strict=True):
        name = _free_name(clip["name"] or stem, motions)
        times = (clip["times"] - clip["times"][0]) / stage["rate"]
        drivers = [driver["path"] for driver in stage["skeletons"]]
        animations = dict(zip(drivers, clip["animations"], strict=True))
        weights = surface.shapes.weights(animations, len(times))
        tracks = _tracks(space, times, local, weights, stage.get("held", False))
        poses, roots = tracks.sample(times)
        motions[name] = Motion(times, poses, roots, name, tracks=tracks)
        codes[name] = clip["times"]
    return joint_pose, motions, codes


def _tracks(
    space: TrackSpace, times: Floats, local: Locals, weights: Floats, held: bool
) -> MotionTracks:
    """Return tracks of moving parameters, linear between samples, or constant if `held`."""
    kind, rest = "STEP" if held else "LINEAR", space.skeleton
    rest_parts = rest.translations, rest.rotations, rest.scales
    tracks = []
    for path, values, rest_values in zip(
        ("translation", "rotation", "scale"), local, rest_parts, strict=True
    ):
        moving = np.flatnonzero((values != rest_values).any(axis=(0, 2)))
        if len(moving):
            tracks.append(Track(path, moving, kind, times, values[:, moving]))
    if weights.shape[1]:
        shapes = np.arange(weights.shape[1])
        tracks.append(Track("weights", shapes, kind, times, weights[:, :, None]))
    return MotionTracks.of_file(space, tracks)


def _free_name(name: str, used: dict[str, Motion]) -> str:
    number, unused = 2, name
    while unused in used:
        unused, number = f"{name}_{number}", number + 1
    return unused


def _clip_locals(
    forest: JointForest, skeleton: Skeleton, clip: dict[str, Any], to_supple: Floats
) -> Locals:
    """Return translations, rotations and scales of all joints over time, (t, J, …)."""
    count = len(clip["times"])
    local = tuple(np.repeat(getattr(skeleton, part)[None], count, axis=0) for part in PARTS)
    for branch in forest.branches:
        frames = to_supple @ clip["frames"][branch.number] @ scaling(1 / branch.unit)
        if branch.above >= 0:
            base = forest.world(branch.above, clip["frames"][branch.above], to_supple)
            frames = np.linalg.solve(base, frames)
        if branch.carrier >= 0:
            _move(forest, local, branch.carrier, frames)
        if len(branch.order):
            animation = clip["animations"][branch.number]
            rows = slice(branch.first, branch.first + len(branch.order))
            branch_local = _branch_locals(forest, branch, animation, count)
            if branch.folded:
                joints = range(rows.start, rows.stop)
                is_root = np.array([forest.parents[joint] not in joints for joint in joints])
                _fold(branch_local, is_root, frames)
            for table, part in zip(local, branch_local, strict=True):
                table[:, rows] = part
    _same_signs(forest, skeleton, local[2])
    return local  # type: ignore[return-value]


def _move(forest: JointForest, local: tuple[Floats, ...], joint: int, frames: Floats) -> None:
    parts, shear = decompose(frames)
    if shear.max(initial=0) >= SHEAR:
        name = forest.names[joint]
        forest.notes.append(f"{name} is sheared while it moves; the shear is ignored")
    for table, part in zip(local, PARTS, strict=True):
        table[:, joint] = getattr(parts, part)


def _branch_locals(
    forest: JointForest, branch: Branch, animation: dict[str, Any] | None, count: int
) -> Locals:
    """Return local transforms of a skeleton's joints over time: animated, or the file's rest."""
    rest = branch.rest.copies(count)
    if animation is not None:
        row_of = {branch.joints[old]: row for row, old in enumerate(branch.order)}
        columns = [column for column, joint in enumerate(animation["joints"]) if joint in row_of]
        if len(columns) < len(animation["joints"]):
            n_unknown = len(animation["joints"]) - len(columns)
            forest.notes.append(
                f"animation {animation['path']} has {n_unknown} unknown joints; ignored"
            )
        rows = [row_of[animation["joints"][column]] for column in columns]
        for name in PARTS:
            values = animation[name]
            if values is not None:
                factor = branch.unit if name == "translations" else 1.0
                getattr(rest, name)[:, rows] = values[:, columns] * factor
        _make_unit(forest, rest.rotations)
    return rest.translations, rest.rotations, rest.scales


def _make_unit(forest: JointForest, rotations: Floats) -> None:
    """Replace the file's quaternions by unit quaternions.

    USD converts (v, w) to a matrix without normalisation: with v rounded to four digits it rotates
    by the angle atan2(2 w |v|, 1 - 2 |v|²) and scales slightly. The angle is kept.
    """
    lengths = np.linalg.norm(rotations, axis=-1)
    zero = lengths < 1e-12
    rotations[zero] = (0.0, 0.0, 0.0, 1.0)
    not_unit = (np.abs(lengths - 1) > ROUNDED) & ~zero
    rotations[not_unit] /= lengths[not_unit][:, None]
    zero_note, unit_note = "zero; the identity is used", "not of unit length; normalised"
    for wrong, what in ((zero, zero_note), (not_unit, unit_note)):
        if wrong.any():
            forest.notes.append(f"{int(wrong.sum())} joint rotations are {what}")
    sine = np.linalg.norm(rotations[..., :3], axis=-1)
    half = 0.5 * np.arctan2(2 * rotations[..., 3] * sine, 1 - 2 * sine**2)
    axis = rotations[..., :3] / np.where(sine > 0, sine, 1.0)[..., None]
    rotations[..., :3] = np.sin(half)[..., None] * axis
    rotations[..., 3] = np.cos(half)


def _fold(local: Locals, is_root: NDArray[np.bool_], frames: Floats) -> None:
    """Multiply transforms of root joints by the rigid `frames` (t, 4, 4), in place."""
    rotation = Rotation.from_matrix(frames[:, :3, :3])
    for row in np.flatnonzero(is_root):
        local[0][:, row] = rotation.apply(local[0][:, row]) + frames[:, :3, 3]
        local[1][:, row] = (rotation * Rotation.from_quat(local[1][:, row])).as_quat()


def _same_signs(forest: JointForest, skeleton: Skeleton, scales: Floats) -> None:
    """Replace zero or mirrored scales by tiny scales, since a pose has logarithms of scales."""
    least = 1e-6 * np.abs(skeleton.scales)
    wrong = scales * np.sign(skeleton.scales) < least
    if wrong.any():
        joint = skeleton.names[int(np.argmax(wrong.any(axis=(0, 2))))]
        forest.notes.append(f'joint "{joint}" is scaled to zero or mirrored; a tiny scale is used')
        scales[wrong] = (np.sign(skeleton.scales) * least)[np.nonzero(wrong)[1:]]


# Colours, from the materials that the child process read.


def _appearance(
    name: str, stage: dict[str, Any], corners: list[Ints], notes: list[str]
) -> Appearance | None:
    """Return colours of all triangles; None for a stage without any.

    `corners` has, for each mesh, the indices (m, 3) of the triangles' corners among the corners
    of the file's faces. `notes` gets a line for each image that cannot be used.
    """
    looks = [mesh["look"] for mesh in stage["meshes"]]
    if all((look["materials"] < 0).all() and look["colours"] is None for look in looks):
        return None
    textures = _textures(name, stage, notes)
    materials = [_material(each, textures.get(k)) for k, each in enumerate(stage["materials"])]
    # The last two are for vertex colours without a material: opaque, or with opacity.
    materials += [SurfaceMaterial(), SurfaceMaterial(alpha="blend")]
    material_of_triangle, uv, tints = [], [], []
    for mesh, look, mesh_corners in zip(stage["meshes"], looks, corners, strict=True):
        face = np.repeat(np.arange(len(mesh["counts"])), mesh["counts"])[mesh_corners[:, 0]]
        painted = look["colours"]
        has_alpha = painted is not None and bool((painted[:, 3] < 1).any())
        material = look["materials"][face]
        material_of_triangle.append(
            np.where(material < 0, len(materials) - (1 if has_alpha else 2), material)
        )
        uv.append(_texture_coordinates(look["uv"], stage["materials"], material, mesh_corners))
        white = np.ones((*mesh_corners.shape, 4), np.float32)
        tints.append(white if painted is None else np.clip(painted[mesh_corners], 0.0, 1.0))
    used, new_index = np.unique(np.concatenate(material_of_triangle), return_inverse=True)
    coloured = any(look["colours"] is not None for look in looks)
    return Appearance(
        tuple(materials[k] for k in used),
        new_index.astype(np.int64),
        np.concatenate(uv) if any(look["uv"] is not None for look in looks) else None,
        np.concatenate(tints).astype(np.float32) if coloured else None,
    )


def _textures(name: str, stage: dict[str, Any], notes: list[str]) -> dict[int, Texture]:
    """Return textures by index of their material; `notes` gets a line for each invalid image."""
    data = [each["data"].tobytes() for each in stage["pictures"]]
    textures = {}
    for number, material in enumerate(stage["materials"]):
        described = material["texture"]
        if described is None:
            continue
        picture = stage["pictures"][described["picture"]]["name"]
        wrap = described["wrap"]
        texture = Texture(f'{name}: image "{picture}"', data[described["picture"]], tuple(wrap))
        try:
            texture.check()
        except FormatError as error:
            notes.append(f'image "{picture}" {error}; a plain colour is used')
            continue
        textures[number] = texture
    return textures


def _material(described: dict[str, Any], texture: Texture | None) -> SurfaceMaterial:
    red, green, blue, alpha = described["colour"]
    if texture is not None:
        red, green, blue = described["texture"]["scale"]
    colour, mode = (red, green, blue, alpha), described["alpha"]
    return SurfaceMaterial(described["name"], colour, texture, mode, described["cutoff"])


def _texture_coordinates(
    uv: Singles | None, materials: list[Any], which: Ints, corners: Ints
) -> Singles:
    """Return coordinates on the textures, (m, 3, 2), with v downwards."""
    coordinates = np.zeros((*corners.shape, 2), np.float32)
    if uv is None:
        return coordinates
    for number in np.unique(which[which >= 0]):
        if materials[number]["texture"] is None:
            continue
        chosen = which == number
        to_st = materials[number]["texture"]["to_st"]
        placed = uv[corners[chosen]] @ to_st[:, :2].T + to_st[:, 2]
        coordinates[chosen] = np.stack([placed[..., 0], 1 - placed[..., 1]], axis=-1)
    return np.where(np.isfinite(coordinates), coordinates, 0.0).astype(np.float32)
