"""Baked motions and free curves saved in any format: the suffix says which."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError
from supple.formats.registry import (
    BAKED_MOTIONS,
    BLENDER_SUFFIXES,
    FREE_CURVES,
    BakedMotionFormat,
    CurveFormat,
    imported,
)
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.free_curves import FreeCurves


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
        over the character's own. ``.pc2``, ``.mdd``, ``.npz``, ``.abc``: positions of all vertices.
    baked
        What `supple.bake` gives, `supple.bake_all` or `supple.curves`. Where a file holds one
        motion, each of several gets a file of its own, with the motion's name in it; see
        `clip_targets`.
    error
        How far any vertex may be from its simulated place, as part of the character's size, in
        formats that store shapes and weights, by default 0.002, or keys of curves, 0.0005.
    normals
        Whether shapes move normals, too.
    **options
        Of the format: see ``write_gltf``, ``write_usd``, ``write_point_cache`` and so on. Curves
        have ``keys`` ("every", "linear" or "spline") and ``additive``, and go to ``.glb``,
        ``.gltf``, ``.usd…``, ``.bvh``, ``.csv`` and ``.json``.

    Returns
    -------
    dict
        Figures: ``n_shapes``, the ``error`` reached, ``bytes`` and more, as the format has them.
        Of several files ``paths``, the most shapes, the largest error, and all bytes.

    Raises
    ------
    SuppleError
        For an unknown suffix or option, frames that are not finite, or a file that cannot be
        written; each file is whole or not there.
    """
    path = Path(path)
    if isinstance(baked, FreeCurves):
        return _save_curves(path, baked, options if error is None else {**options, "error": error})
    bakes = _checked_bakes(path, baked)
    row = _row(path)
    for each in bakes:
        _check_frames(path, each)
    known = _checked_options(path, row, options)
    given = {"error": 0.002 if error is None else error, "normals": normals, **options}
    given = {name: value for name, value in given.items() if name in known}
    names = [each.motion.name for each in bakes]
    targets = clip_targets(path, bakes[0].character, names, **options)
    write = imported(row.writer)
    if len(targets) == 1:
        written = write(path, bakes if len(bakes) > 1 else bakes[0], **given)
        return {"path": str(path), **written}
    figures = [write(file, each, **given) for file, each in zip(targets, bakes, strict=True)]
    return {"paths": [str(file) for file in targets], **_summed(figures)}


def clip_targets(
    path: str | Path, character: Character, names: Sequence[str], **options: Any
) -> list[Path]:
    """Return the files that saving motions of these names to `path` writes.

    That is `path` itself for one motion, and for several in a format whose files hold them. Else
    each motion has a file of its own beside it, ``rat_soft_Run.pc2``; of a name that leads
    elsewhere, or that a file cannot have, letters, digits, points and dashes are kept.
    """
    path = Path(path)
    row = _row(path)
    if len(names) == 1 or (row.several and imported(row.several)(character, options)):
        return [path]
    taken: set[str] = set()
    targets = []
    for name in names:
        kept = re.sub(r"[^\w.-]+", "_", name).strip("._").encode()[:80].decode(errors="ignore")
        kept = kept or "motion"
        free, number = kept, 2
        while free.lower() in taken:  # some file systems do not tell capitals from others
            free, number = f"{kept}_{number}", number + 1
        taken.add(free.lower())
        targets.append(path.with_name(f"{path.stem}_{free}{path.suffix}"))
    return targets


def _checked_bakes(path: Path, baked: Any) -> list[BakedMotion]:
    bakes = [baked] if isinstance(baked, BakedMotion) else baked
    if not isinstance(bakes, Sequence) or isinstance(bakes, str) or not bakes:
        raise SuppleError(f"{path.name}: a {type(baked).__name__} is no baked motion")
    wrong = next((each for each in bakes if not isinstance(each, BakedMotion)), None)
    if wrong is not None:
        raise SuppleError(f"{path.name}: a {type(wrong).__name__} is no baked motion")
    if any(each.character is not bakes[0].character for each in bakes):
        raise SuppleError(f"{path.name}: motions of several characters; save each in its own file")
    names = [each.motion.name for each in bakes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SuppleError(f'{path.name}: motion "{twice}" is there twice; save each once')
    return list(bakes)


def _checked_options(
    path: Path, row: BakedMotionFormat | CurveFormat, options: Mapping[str, Any]
) -> frozenset[str]:
    """Return the options of a format; refuse one that it has not."""
    known = row.options()
    for name in options:
        if name not in known:
            rest = ", ".join(sorted(known)) or "none"
            raise SuppleError(f'{path.name}: "{name}" is no option of this format; it has {rest}')
    return known


def _save_curves(path: Path, curves: FreeCurves, options: Mapping[str, Any]) -> dict[str, Any]:
    row = curve_format(path)
    _checked_options(path, row, options)
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: there is no folder {path.parent}; make it first")
    return {"path": str(path), **imported(row.writer)(path, curves, **options)}


def remove_curves(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write a file as it was before `supple.curves` were saved into it, to the byte.

    Parameters
    ----------
    path
        Where to; it may be the file itself.
    source
        A file with curves.

    Raises
    ------
    SuppleError
        If it has none, or is of a format that holds nothing but curves.
    """
    path, source = Path(path), Path(source)
    row = curve_format(source)
    if not row.remover:
        raise FormatError(f"{source.name}: holds nothing but a motion; the original is untouched")
    return {"path": str(path), **imported(row.remover)(path, source)}


def remove_flesh(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write a file as it was before `supple.bake` gave it flesh, to the byte.

    Parameters
    ----------
    path
        Where to; it may be the file itself.
    source
        A file that a baked motion was saved into.

    Raises
    ------
    SuppleError
        If it has no flesh, or is of a format that holds nothing but a motion.
    """
    path, source = Path(path), Path(source)
    row = _row(source)
    if source.suffix.lower() in BLENDER_SUFFIXES:
        what = "flesh is taken out in Blender, by Remove of the add-on"
        raise FormatError(f"{source.name}: {what}; what it was baked from is untouched")
    if not row.remover:
        raise FormatError(f"{source.name}: holds nothing but a motion; the original is untouched")
    _check_extra(source, row)
    return {"path": str(path), **imported(row.remover)(path, source)}


def holds_flesh(path: str | Path) -> bool:
    """Return whether a file has flesh in it that `remove_flesh` would take out."""
    row = BAKED_MOTIONS.find(path)
    check = row.flesh_check if row is not None else ""
    return bool(check) and bool(imported(check)(Path(path)))


def curve_format(path: Path) -> CurveFormat:
    """Return the format of curves that a path's suffix names; an error for none."""
    row = FREE_CURVES.find(path)
    if row is None:
        listed = ", ".join(FREE_CURVES.suffixes())
        suffix = path.suffix.lower()
        raise FormatError(f'{path.name}: curves are not saved as "{suffix}"; use one of {listed}')
    _check_extra(path, row)
    return row


def _check_extra(path: Path, row: BakedMotionFormat | CurveFormat) -> None:
    if row.library and find_spec(row.library) is None:
        raise FormatError(f"{path.name}: needs an extra; run pip install 'supple[{row.extra}]'")


def _summed(figures: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return figures of several files as one: the most shapes, the largest error, all bytes."""
    how: dict[str, Callable[..., Any]] = {
        "n_shapes": max,
        "error": max,
        "bytes": sum,
        "n_frames": sum,
    }
    return {
        name: total(each[name] for each in figures)
        for name, total in how.items()
        if all(name in each for each in figures)
    }


def written_files(path: str | Path) -> list[Path]:
    """Return all files that saving to this one writes, itself first."""
    path = Path(path)
    row = BAKED_MOTIONS.find(path)
    if row is None or not row.mesh_beside:
        return [path]
    return [path, imported(row.mesh_beside)(path)]


def check_target(path: str | Path, character: Character, motions: Sequence[str] = ()) -> None:
    """Refuse a target that cannot be written to, or that the character's own file needs.

    To be asked before motions, of these names, are simulated; `save` finds the same later.

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
        imported(row.target_check)(path, character, motions)


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
