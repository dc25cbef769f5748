"""USD characters: .usd, .usda, .usdc, .usdz, with UsdSkel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.errors import FormatError, SuppleError, warn
from supple.formats.file_bytes import LARGEST_FILE, reading
from supple.formats.usd.process import read_stage
from supple.formats.usd.read.stage_joints import JointForest, read_joints
from supple.formats.usd.read.stage_motion import read_motions
from supple.formats.usd.read.stage_surface import SkinnedSurface, read_meshes
from supple.formats.usd.transforms import upright
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.motion.motion import Motion
from supple.rig.protocol import Rig
from supple.rig.skeleton.joints import unique_names
from supple.rig.skeleton.skinning import SkinnedRig

__all__ = ["UsdMesh", "UsdSource", "load_usd"]

SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")


@dataclass(frozen=True, eq=False)
class UsdMesh:
    """Where the points of a mesh prim went.

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
    """What ties a character to its USD file.

    Attributes
    ----------
    path : Path
    meshes : tuple of UsdMesh
    from_stage : (4, 4) array
        From the stage's world space to Supple's: metres, +Y up.
    time_codes : dict of arrays
        For each motion the time codes of its keys.
    time_codes_per_second : float
    """

    path: Path
    meshes: tuple[UsdMesh, ...]
    from_stage: Floats
    time_codes: dict[str, Floats]
    time_codes_per_second: float


def load_usd(path: str | Path) -> Character:
    """Read a character from a USD file.

    Parameters
    ----------
    path : str or Path
        A ``.usd``, ``.usda``, ``.usdc`` or ``.usdz`` file. All its meshes become one surface in
        metres, +Y up, in the pose they were bound in. Those without a skin follow the
        transforms they stand under.

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
    with reading(path.name):
        character = _character(path)
    for message in character.warnings:
        warn(message)
    return character


def _check_file(path: Path) -> None:
    name = path.name or str(path)
    if path.suffix.lower() not in SUFFIXES:
        raise FormatError(
            f'{name}: "{path.suffix}" files are not USD; use one of {", ".join(SUFFIXES)}'
        )
    try:
        if not path.is_file():
            raise FormatError(f"{name}: there is no such file in {path.parent}")
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise FormatError(f"{name}: cannot be opened ({error})") from error
    if size > LARGEST_FILE:
        raise FormatError(f"{name}: has {size / 2**30:.1f} GiB, which is more than is read")


def _character(path: Path) -> Character:
    return staged_character(path, read_stage(path))


def staged_character(path: Path, stage: dict[str, Any]) -> Character:
    """The character of a stage that has been read."""
    to_supple = upright(stage["up"], stage["unit"])
    try:
        forest = read_joints(stage, to_supple)
        surface = read_meshes(stage, forest, to_supple)
        rig, motions, codes = _rigged(path.stem, stage, forest, surface, to_supple)
        mesh = SurfaceMesh(rig(rig.rest_pose), surface.triangles)
    except SuppleError as error:
        # Errors of the rig room and of the helpers do not know the file.
        raise type(error)(f"{path.name}: {error}") from error
    meshes = [
        UsdMesh(data["path"], welded)
        for data, welded in zip(stage["meshes"], surface.welded, strict=True)
    ]
    notes = [*stage["notes"], *forest.notes, *(f"{d.message}; continuing" for d in mesh.defects())]
    return Character(
        name=path.stem,
        surface=mesh,
        rig=rig,
        motions=motions,
        source=UsdSource(path, tuple(meshes), to_supple, codes, stage["rate"]),
        metres_per_unit=stage["unit"],
        warnings=tuple(f"{path.name}: {note}" for note in dict.fromkeys(notes)),
        labels={f"mesh:{mesh.path}": np.unique(mesh.welded[mesh.welded >= 0]) for mesh in meshes},
    )


def _rigged(
    stem: str,
    stage: dict[str, Any],
    forest: JointForest,
    surface: SkinnedSurface,
    to_supple: Floats,
) -> tuple[Rig, dict[str, Motion], dict[str, Floats]]:
    """The rig, its motions, and the time codes of their keys."""
    skeleton = forest.skeleton()
    weight = np.zeros(skeleton.n_joints)
    np.add.at(weight, surface.joints, surface.weights)
    size = float(np.linalg.norm(np.ptp(surface.vertices, axis=0)))
    joint_pose, motions, codes = read_motions(
        stage, forest, skeleton, surface.shapes, weight, size, to_supple, stem
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
