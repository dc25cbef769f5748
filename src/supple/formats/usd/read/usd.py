"""USD characters: .usd, .usda, .usdc, .usdz, with UsdSkel."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from supple.arrays import Floats
from supple.errors import FormatError, SuppleError, warn
from supple.formats.file_bytes import LARGEST_FILE, reading
from supple.formats.painted_maps import PaintedMaps
from supple.formats.registry import CURVES, FLESH, USD_SUFFIXES
from supple.formats.usd.originals import LayersBelow
from supple.formats.usd.process import read_stage
from supple.formats.usd.read.joint_forest import SHEAR, Branch, JointForest, read_joints
from supple.formats.usd.read.skinned_surface import BlendShapes, SkinnedSurface, read_meshes
from supple.formats.usd.read.staged_appearance import staged_appearance
from supple.maths.transforms import decompose, scaling
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_tracks import MotionTracks, TrackSpace, joint_reach
from supple.rig.motion.root_policy import Locals, RootPolicy, pose_of_motions
from supple.rig.motion.tracks import Track
from supple.rig.protocol import Rig
from supple.rig.skeleton.joint_pose import JointPose
from supple.rig.skeleton.joints import Skeleton, unique_names
from supple.rig.skeleton.skinning import SkinnedRig

#: Quaternions nearer to unit length than this are rounded ones.
ROUNDED = 1e-3
#: Names of shapes that Supple bakes.
BAKED = re.compile(r"supple_soft\d*_\d{3,}")


@dataclass(frozen=True, eq=False)
class UsdMesh:
    """Surface vertices of a mesh prim's points.

    Attributes
    ----------
    path : str
        Of the prim in the stage.
    welded : (n,) int array
        The surface vertex of each of its points, -1 for a point of no face.
    """

    path: str
    welded: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class UsdSource:
    """Origin of a character in a USD file.

    Attributes
    ----------
    path : Path
    meshes : tuple of UsdMesh
    from_stage : (4, 4) array
        From the stage's world space to Supple's: metres, +Y up.
    time_codes : dict of arrays
        For each motion the time codes of its keys.
    time_codes_per_second : float
    without : tuple of str
        Records of what Supple added to the package `path`, where the original inside is meant.
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
    """Read a character from a USD file.

    Parameters
    ----------
    path : str or Path
        A ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file. All its meshes become one surface in
        metres, +Y up, in the pose they were bound in. Those without a skin follow the
        transforms they stand under.
    metres_per_unit : float, optional
        Length of its unit, in place of the stage's ``metersPerUnit``.
    curves : bool
        Whether curves are in it where it is a layer of Supple's with curves; without, the file
        below is read.
    flesh : bool
        Whether flesh is in it where it is a layer of Supple's with flesh, as blend shapes; by
        default the file below is read, and a warning says so.

    Returns
    -------
    Character
        Its `source` is a `UsdSource`. What the stage plays is the first of its motions; with
        one skeleton, animations that are not bound to it are further ones. An in-between of
        a blend shape is a parameter of its own, ``smile@0.5``.

    Raises
    ------
    SuppleError
        When there is no character in the file, or no USD library: it comes with the extra
        ``supple[usd]``. Files outside the file's folder are not read.

    Warns
    -----
    SuppleWarning
        Of everything that is wrong with the file or left out.
    """
    path = Path(path)
    _check_file(path)
    without = tuple(name for name, kept in ((CURVES, curves), (FLESH, flesh)) if not kept)
    # What overflows is not finite, and refused or told of.
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
    """Return a note of shapes with names as Supple gives them."""
    shapes = (shape["name"] for mesh in stage["meshes"] for shape in mesh["shapes"])
    first = next((shape for shape in shapes if BAKED.fullmatch(shape)), None)
    if first is None:
        return []
    what = f'has shapes such as "{first}", which Supple baked, without a record'
    return [f"{name}: {what}; baking adds to them, take the original"]


def _check_file(path: Path) -> None:
    name = path.name or str(path)
    if path.suffix.lower() not in USD_SUFFIXES:
        known = ", ".join(USD_SUFFIXES)
        raise FormatError(f'{name}: "{path.suffix}" files are not USD; use one of {known}')
    try:
        if not path.is_file():
            raise FormatError(f"{name}: there is no such file in {path.parent}")
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise FormatError(f"{name}: cannot be opened ({error})") from error
    if size > LARGEST_FILE:
        raise FormatError(f"{name}: has {size / 2**30:.1f} GiB, which is more than is read")


def staged_character(
    path: Path, stage: dict[str, Any], metres_per_unit: float | None = None
) -> Character:
    """Make the character of a stage that has been read."""
    unit = stage["unit"] if metres_per_unit is None else metres_per_unit
    to_supple = _upright(stage["up"], unit)
    try:
        forest = read_joints(stage, to_supple)
        surface = read_meshes(stage, forest, to_supple)
        rig, motions, codes = _rigged(path.stem, stage, forest, surface, to_supple)
        mesh = SurfaceMesh(rig(rig.rest_pose), surface.triangles)
    except SuppleError as error:
        # Errors of the rig do not know the file.
        raise type(error)(f"{path.name}: {error}") from error
    meshes = [
        UsdMesh(data["path"], welded)
        for data, welded in zip(stage["meshes"], surface.welded, strict=True)
    ]
    painted = PaintedMaps(len(mesh.vertices), forest.notes.append)
    for data, each in zip(stage["meshes"], meshes, strict=True):
        for name, values in data.get("painted", {}).items():
            painted.add(name, each.welded, values)
    appearance = staged_appearance(path.name, stage, surface.corners, forest.notes)
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
    turn = scaling(unit)
    if axis == "Z":
        turn = turn @ np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    return turn


def _rigged(
    stem: str,
    stage: dict[str, Any],
    forest: JointForest,
    surface: SkinnedSurface,
    to_supple: Floats,
) -> tuple[Rig, dict[str, Motion], dict[str, Floats]]:
    """Return the rig, its motions, and the time codes of their keys."""
    skeleton = forest.skeleton()
    weight = np.zeros(skeleton.n_joints)
    np.add.at(weight, surface.joints, surface.weights)
    size = float(np.linalg.norm(np.ptp(surface.vertices, axis=0)))
    joint_pose, motions, codes = _read_motions(
        stage, forest, skeleton, surface, weight, size, to_supple, stem
    )
    skin = SkinnedRig(
        joint_pose,
        surface.vertices,
        surface.joints,
        surface.weights,
        np.array(forest.inverse_bind),
        "dual-quaternion" if surface.dual else "linear",
    )
    return _with_shapes(skin, surface), motions, codes


def _with_shapes(skin: SkinnedRig, surface: SkinnedSurface) -> Rig:
    if not len(surface.deltas):
        return skin
    taken = [parameter.name for parameter in skin.parameters]
    names = unique_names([*taken, *surface.shapes.names()])[len(taken) :]
    return BlendShapeRig(skin, surface.deltas, names)


# Clips of the stage as motions.


def _read_motions(
    stage: dict[str, Any],
    forest: JointForest,
    skeleton: Skeleton,
    surface: SkinnedSurface,
    weight: Floats,
    size: float,
    to_supple: Floats,
    stem: str,
) -> tuple[JointPose, dict[str, Motion], dict[str, Floats]]:
    """Return a pose vector that all clips fit in, the motions, and time codes of their keys."""
    clips = stage["clips"]
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
        weights = _shape_weights(stage, clip, surface.shapes)
        tracks = _tracks(space, times, local, weights, stage.get("held", False))
        poses, roots = tracks.sample(times)
        motions[name] = Motion(times, poses, roots, name, tracks=tracks)
        codes[name] = clip["times"]
    return joint_pose, motions, codes


def _tracks(
    space: TrackSpace, times: Floats, local: Locals, weights: Floats, held: bool
) -> MotionTracks:
    """Return tracks of what leaves its rest: linear between samples, or held, as the stage says."""
    kind, rest = "STEP" if held else "LINEAR", space.skeleton
    still = rest.translations, rest.rotations, rest.scales
    tracks = []
    for path, values, calm in zip(("translation", "rotation", "scale"), local, still, strict=True):
        moving = np.flatnonzero((values != calm).any(axis=(0, 2)))
        if len(moving):
            tracks.append(Track(path, moving, kind, times, values[:, moving]))
    if weights.shape[1]:
        shapes = np.arange(weights.shape[1])
        tracks.append(Track("weights", shapes, kind, times, weights[:, :, None]))
    return MotionTracks.of_file(space, tracks)


def _free_name(name: str, taken: dict[str, Motion]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _shape_weights(stage: dict[str, Any], clip: dict[str, Any], shapes: BlendShapes) -> Floats:
    drivers = [skeleton["path"] for skeleton in stage["skeletons"]]
    return shapes.weights(dict(zip(drivers, clip["animations"], strict=True)), len(clip["times"]))


def _clip_locals(
    forest: JointForest, skeleton: Skeleton, clip: dict[str, Any], to_supple: Floats
) -> Locals:
    """Return local transforms of all joints over time, (t, J, …)."""
    count = len(clip["times"])
    rest = (skeleton.translations, skeleton.rotations, skeleton.scales)
    local = tuple(np.repeat(part[None], count, axis=0) for part in rest)
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
            own = _branch_locals(forest, branch, animation, count)
            if branch.folded:
                inner = range(rows.start, rows.stop)
                tops = np.array([forest.parents[joint] not in inner for joint in inner])
                _fold(own, tops, frames)
            for table, part in zip(local, own, strict=True):
                table[:, rows] = part
    _same_signs(forest, skeleton, local[2])
    return local  # type: ignore[return-value]


def _move(forest: JointForest, local: tuple[Floats, ...], joint: int, frames: Floats) -> None:
    parts, shear = decompose(frames)
    if shear.max(initial=0) >= SHEAR:
        forest.notes.append(f"{forest.names[joint]} is sheared as it moves; the shear is lost")
    local[0][:, joint] = parts.translations
    local[1][:, joint] = parts.rotations
    local[2][:, joint] = parts.scales


def _branch_locals(
    forest: JointForest, branch: Branch, animation: dict[str, Any] | None, count: int
) -> Locals:
    """Return the file's rest transforms, replaced for the joints that are animated."""
    rest = branch.rest.copies(count)
    tables = {
        "translations": rest.translations,
        "rotations": rest.rotations,
        "scales": rest.scales,
    }
    if animation is not None:
        row_of = {branch.joints[old]: row for row, old in enumerate(branch.order)}
        known = [column for column, joint in enumerate(animation["joints"]) if joint in row_of]
        if len(known) < len(animation["joints"]):
            lost = len(animation["joints"]) - len(known)
            forest.notes.append(
                f"animation {animation['path']} moves {lost} joints its skeleton has not; left out"
            )
        rows = [row_of[animation["joints"][column]] for column in known]
        for name, table in tables.items():
            values = animation[name]
            if values is not None:
                factor = branch.unit if name == "translations" else 1.0
                table[:, rows] = values[:, known] * factor
        _make_unit(forest, tables["rotations"])
    return tables["translations"], tables["rotations"], tables["scales"]


def _make_unit(forest: JointForest, rotations: Floats) -> None:
    """Replace the file's quaternions by unit ones.

    USD makes a matrix of the numbers (v, w) as they are: with v rounded to four digits it turns
    by the angle atan2(2 w |v|, 1 - 2 |v|²) and shrinks a little. The angle is kept.
    """
    lengths = np.linalg.norm(rotations, axis=-1)
    none = lengths < 1e-12
    rotations[none] = (0.0, 0.0, 0.0, 1.0)
    far = (np.abs(lengths - 1) > ROUNDED) & ~none
    rotations[far] /= lengths[far][:, None]
    for wrong, what in [(none, "zero quaternions; none is used"), (far, "not unit; made so")]:
        if wrong.any():
            forest.notes.append(f"{int(wrong.sum())} joint rotations are {what}")
    sine = np.linalg.norm(rotations[..., :3], axis=-1)
    half = 0.5 * np.arctan2(2 * rotations[..., 3] * sine, 1 - 2 * sine**2)
    axis = rotations[..., :3] / np.where(sine > 0, sine, 1.0)[..., None]
    rotations[..., :3] = np.sin(half)[..., None] * axis
    rotations[..., 3] = np.cos(half)


def _fold(local: Locals, tops: NDArray[np.bool_], frames: Floats) -> None:
    """Put the frame, which is rigid, into the transforms of the topmost joints."""
    turn = Rotation.from_matrix(frames[:, :3, :3])
    for row in np.flatnonzero(tops):
        local[0][:, row] = turn.apply(local[0][:, row]) + frames[:, :3, 3]
        local[1][:, row] = (turn * Rotation.from_quat(local[1][:, row])).as_quat()


def _same_signs(forest: JointForest, skeleton: Skeleton, scales: Floats) -> None:
    """Keep scales from changing sign: a pose has logarithms of scales."""
    least = 1e-6 * np.abs(skeleton.scales)
    wrong = scales * np.sign(skeleton.scales) < least
    if wrong.any():
        joint = skeleton.names[int(np.argmax(wrong.any(axis=(0, 2))))]
        forest.notes.append(
            f'joint "{joint}" is scaled to nothing or mirrored; almost nothing is used'
        )
        scales[wrong] = (np.sign(skeleton.scales) * least)[np.nonzero(wrong)[1:]]
