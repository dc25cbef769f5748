"""Baked motions saved in any format: the suffix says which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError
from supple.formats.registry import BAKED_MOTIONS, BakedMotionFormat, imported
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

__all__ = ["check_target", "save", "written_files"]


def save(
    path: str | Path,
    baked: BakedMotion,
    *,
    error: float = 0.002,
    normals: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Save a baked motion in the format that the suffix names.

    Parameters
    ----------
    path
        ``.glb``, ``.gltf``: the character's own file with morph targets and their weights, or a
        new file if it came from another format. ``.usd``, ``.usda``, ``.usdc``, ``.usdz``: a layer
        over the character's own. ``.pc2``, ``.mdd``, ``.npz``, ``.abc``: positions of all vertices.
    baked
        What `supple.bake` gives.
    error
        How far any vertex may be from its simulated place, as part of the character's size, in
        formats that store shapes and weights.
    normals
        Whether shapes move normals, too.
    **options
        Of the format: see ``write_gltf``, ``write_usd``, ``write_point_cache`` and so on.

    Returns
    -------
    dict
        Figures: ``n_shapes``, the ``error`` reached, ``bytes`` and more, as the format has them.

    Raises
    ------
    SuppleError
        For an unknown suffix or option, frames that are not finite, or a file that cannot be
        written; nothing is left behind.
    """
    path = Path(path)
    if not isinstance(baked, BakedMotion):
        raise SuppleError(f"{path.name}: a {type(baked).__name__} is no baked motion")
    row = _row(path)
    _check_frames(path, baked)
    known = row.options()
    for name in options:
        if name not in known:
            rest = ", ".join(sorted(known)) or "none"
            raise SuppleError(f'{path.name}: "{name}" is no option of this format; it has {rest}')
    given = {"error": error, "normals": normals, **options}
    result = imported(row.writer)(
        path, baked, **{name: value for name, value in given.items() if name in known}
    )
    return {"path": str(path), **result}


def written_files(path: str | Path) -> list[Path]:
    """Return all files that saving to this one writes, itself first."""
    path = Path(path)
    row = BAKED_MOTIONS.find(path)
    if row is None or not row.mesh_beside:
        return [path]
    return [path, imported(row.mesh_beside)(path)]


def check_target(path: str | Path, character: Character) -> None:
    """Refuse a target that cannot be written to, or that the character's own file needs.

    To be asked before a motion is simulated; `save` finds the same later.

    Raises
    ------
    SuppleError
        In a line.
    """
    path = Path(path)
    for file in written_files(path):
        if file.exists() and not file.is_file():
            raise FormatError(f"{file.name}: cannot be written to {file.parent}; it is no file")
    row = BAKED_MOTIONS.find(path)
    if row is not None and row.target_check:
        imported(row.target_check)(path, character)


def _row(path: Path) -> BakedMotionFormat:
    row = BAKED_MOTIONS.find(path)
    if row is None:
        listed = ", ".join(BAKED_MOTIONS.suffixes())
        raise FormatError(
            f'{path.name}: cannot save a motion as "{path.suffix.lower()}"; use one of {listed}'
        )
    return row


def _check_frames(path: Path, baked: BakedMotion) -> None:
    frames, count = np.asarray(baked.frames), baked.motion.n_frames
    expected = (count, len(baked.character.surface.vertices), 3)
    if frames.shape != expected:
        raise SuppleError(f"{path.name}: frames of shape {frames.shape}; expected {expected}")
    for number, frame in enumerate(frames):
        if not np.isfinite(frame).all():
            raise SuppleError(
                f"{path.name}: frame {number} at {baked.times[number]:.3f} s is not finite; the"
                f" simulation failed there, try stiffer flesh"
            )
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: there is no folder {path.parent}; make it first")
