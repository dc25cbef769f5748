"""Saving baked motions and free curves in any format; the suffix selects the writer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError, warn
from supple.formats.registry import (
    BAKED_MOTIONS,
    BLENDER_SUFFIXES,
    FREE_CURVES,
    CurveFormat,
    imported,
)
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.free_curves import FreeCurves

#: Action in messages about suffixes.
SAVE_MOTION = "save a motion in"


def save(
    path: str | Path,
    baked: BakedMotion | FreeCurves | Sequence[BakedMotion],
    *,
    error: float | None = None,
    normals: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Save a baked motion, several of one character, or curves, in the format of the suffix.

    Parameters
    ----------
    path
        ``.glb``, ``.gltf``: the character's own file with morph targets and their weights, or a
        new file if it came from another format. ``.usd``, ``.usda``, ``.usdc``, ``.usdz``: a layer
        over the character's own file. ``.pc2``, ``.mdd``, ``.npz``, ``.abc``: positions of all
        vertices.
    baked
        Result of `supple.bake`, `supple.bake_all` or `supple.curves`. In formats with one motion
        per file, each of several gets a file with its name; see `clip_targets`.
    error
        Largest distance of any vertex from its simulated place, as a fraction of the character's
        size: in formats with shapes and weights (default 0.002), or with keys of curves (0.0005).
    normals
        Whether shapes move normals as well.
    **options
        Options of the format, such as ``with_obstacles=True`` to write obstacles and objects into
        glTF and USD: see ``write_gltf``, ``write_usd``, ``write_point_cache`` and so on.
        Curves have ``keys`` ("every", "linear" or "spline") and ``additive``, and are saved as
        ``.glb``, ``.gltf``, ``.usd…``, ``.blend``, ``.fbx``, ``.bvh``, ``.csv`` and ``.json``.

    Returns
    -------
    dict
        Results: ``n_shapes``, the ``error`` reached, ``bytes`` and more, depending on the format.
        For several files ``paths``, the most shapes, the largest error, and the sum of bytes.

    Raises
    ------
    SuppleError
        For an unknown suffix or option, frames that are not finite, or a file that cannot be
        written. No file is left half written.
    """
    path = Path(path)
    if isinstance(baked, FreeCurves):
        return _save_curves(path, baked, options if error is None else {**options, "error": error})
    bakes = _checked_bakes(path, baked)
    row = BAKED_MOTIONS.required(path, SAVE_MOTION)
    for each in bakes:
        _check_frames(path, each)
    accepted = _checked_options(path, row, options)
    if options.get("with_obstacles") and not any(each.obstacles for each in bakes):
        warn(f"{path.name}: gets no obstacles, as the motion was baked without any")
    writer_options = {"error": 0.002 if error is None else error, "normals": normals, **options}
    writer_options = {name: value for name, value in writer_options.items() if name in accepted}
    names = [each.motion.name for each in bakes]
    targets = clip_targets(path, bakes[0].character, names, **options)
    write = imported(row.writer)
    if len(targets) == 1:
        written = write(path, bakes if len(bakes) > 1 else bakes[0], **writer_options)
        return {"path": str(path), **written}
    figures = [
        write(file, each, **writer_options) for file, each in zip(targets, bakes, strict=True)
    ]
    return {"paths": [str(file) for file in targets], **_summed(figures)}


def clip_targets(
    path: str | Path, character: Character, names: Sequence[str], **options: Any
) -> list[Path]:
    """Return the files that saving motions of these names to `path` writes.

    One motion goes to `path`, and so do several if the format's files hold several. Otherwise each
    motion has a file beside `path`, ``rat_soft_Run.pc2``; characters other than letters, digits,
    points and dashes become underscores.
    """
    path = Path(path)
    row = BAKED_MOTIONS.required(path, SAVE_MOTION)
    several = row.several
    if isinstance(several, str):
        several = imported(several)(character, options)
    if len(names) == 1 or several:
        return [path]
    used: set[str] = set()
    targets = []
    for name in names:
        stem = re.sub(r"[^\w.-]+", "_", name).strip("._").encode()[:80].decode(errors="ignore")
        stem = stem or "motion"
        unused, number = stem, 2
        while unused.lower() in used:  # some file systems ignore case
            unused, number = f"{stem}_{number}", number + 1
        used.add(unused.lower())
        targets.append(path.with_name(f"{path.stem}_{unused}{path.suffix}"))
    return targets


def _checked_bakes(path: Path, baked: Any) -> list[BakedMotion]:
    is_list = isinstance(baked, Sequence) and not isinstance(baked, str) and len(baked) > 0
    bakes = list(baked) if is_list else [baked]
    for each in bakes:
        if not isinstance(each, BakedMotion):
            raise SuppleError(f"{path.name}: expected a baked motion, not {type(each).__name__}")
    if any(each.character is not bakes[0].character for each in bakes):
        raise SuppleError(f"{path.name}: has motions of several characters; save each separately")
    names = [each.motion.name for each in bakes]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise SuppleError(f'{path.name}: motion "{repeated}" is given twice; save each once')
    return bakes


def _checked_options(path: Path, row: CurveFormat, options: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of a format's options; SuppleError for an unknown option."""
    accepted = row.options()
    for name in options:
        if name not in accepted:
            rest = ", ".join(sorted(accepted)) or "none"
            raise SuppleError(f'{path.name}: this format has no option "{name}"; it has {rest}')
    return accepted


def _save_curves(path: Path, curves: FreeCurves, options: Mapping[str, Any]) -> dict[str, Any]:
    row = curve_format(path)
    _checked_options(path, row, options)
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: there is no folder {path.parent}; create it first")
    return {"path": str(path), **imported(row.writer)(path, curves, **options)}


def remove_curves(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Restore a file as it was before `supple.curves` were saved into it: to the byte, except a
    .blend, from which Blender removes the layers.

    Parameters
    ----------
    path
        Where to write; it may be the file itself.
    source
        A file with curves.

    Raises
    ------
    SuppleError
        If it has no curves, or its format holds only curves.
    """
    path, source = Path(path), Path(source)
    row = curve_format(source)
    if not row.remover:
        raise FormatError(f"{source.name}: holds only a motion, so there is no original to restore")
    return {"path": str(path), **imported(row.remover)(path, source)}


def remove_flesh(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Restore a file as it was before `supple.bake` added flesh, to the byte.

    Parameters
    ----------
    path
        Where to write; it may be the file itself.
    source
        A file into which a baked motion was saved.

    Raises
    ------
    SuppleError
        If it has no flesh, or its format holds only a motion.
    """
    path, source = Path(path), Path(source)
    row = BAKED_MOTIONS.required(source, SAVE_MOTION)
    if source.suffix.lower() in BLENDER_SUFFIXES:
        how = "remove its flesh in Blender, with Remove in the add-on"
        raise FormatError(f"{source.name}: {how}; the file it was baked from is unchanged")
    if not row.remover:
        raise FormatError(f"{source.name}: holds only a motion, so there is no original to restore")
    _check_extra(source, row)
    return {"path": str(path), **imported(row.remover)(path, source)}


def holds_flesh(path: str | Path) -> bool:
    """Return whether `remove_flesh` can remove flesh from a file."""
    row = BAKED_MOTIONS.find(path)
    check = row.flesh_check if row is not None else ""
    return bool(check) and bool(imported(check)(Path(path)))


def curve_format(path: Path) -> CurveFormat:
    """Return the format of curves for a path's suffix; FormatError if there is none."""
    row = FREE_CURVES.required(path, "save curves in")
    _check_extra(path, row)
    return row


def _check_extra(path: Path, row: CurveFormat) -> None:
    if row.library and find_spec(row.library) is None:
        raise FormatError(f"{path.name}: needs an extra; run pip install 'supple[{row.extra}]'")


def _summed(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the results of several files as one: most shapes, largest error, sum of bytes."""
    combine = {"n_shapes": max, "error": max, "bytes": sum, "n_frames": sum}
    return {
        name: total(each[name] for each in figures)  # type: ignore[operator]
        for name, total in combine.items()
        if all(name in each for each in figures)
    }


def written_files(path: str | Path) -> list[Path]:
    """Return all files that saving to this path writes, the path itself first."""
    path = Path(path)
    row = BAKED_MOTIONS.find(path)
    if row is None or not row.mesh_beside:
        return [path]
    return [path, imported(row.mesh_beside)(path)]


def check_target(path: str | Path, character: Character, motions: Sequence[str] = ()) -> None:
    """Raise SuppleError for a target that cannot be written, or that the character's file needs.

    Call it before the motions named `motions` are simulated; `save` repeats the checks later.
    """
    path = Path(path)
    for file in written_files(path):
        if file.exists() and not file.is_file():
            raise FormatError(
                f"{file.name}: cannot be written, as it is not a file; use another name"
            )
    row = BAKED_MOTIONS.find(path)
    if row is not None and row.target_check:
        imported(row.target_check)(path, character, motions)


def _check_frames(path: Path, baked: BakedMotion) -> None:
    frames, count = np.asarray(baked.frames), baked.motion.n_frames
    expected = (count, len(baked.character.surface.vertices), 3)
    if frames.shape != expected:
        raise SuppleError(f"{path.name}: frames of shape {frames.shape}; expected {expected}")
    if frames.dtype.kind != "f":
        raise SuppleError(f"{path.name}: frames of type {frames.dtype}; give float32 numbers")
    for number, frame in enumerate(frames):
        with np.errstate(over="ignore"):
            finite = np.isfinite(frame.astype(np.float32, copy=False)).all()
        if not finite:
            raise SuppleError(
                f"{path.name}: the simulation failed at frame {number}, {baked.times[number]:.3f} s"
                f" (not finite); use stiffer flesh"
            )
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: there is no folder {path.parent}; create it first")
