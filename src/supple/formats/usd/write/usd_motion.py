"""Baked motions as USD: a layer over the character's own file, or a stage of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from supple.errors import FormatError, SuppleError, warn
from supple.formats.caches.point_cache import checked_frames
from supple.formats.morph_fit import Progress
from supple.formats.registry import USD_SUFFIXES
from supple.formats.usd.process import WRITING, check_library, run_child
from supple.formats.usd.read.usd import UsdSource
from supple.formats.usd.write.fitted_shapes import baked_normals, fitted_shapes
from supple.formats.usd.write.layer_plan import LayerPlan, opened_original
from supple.formats.usd.write.package import package, package_entries
from supple.mesh.topology import counted
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.saving import write_chunks

POINTS = ("blend-shapes", "cache")
#: What is over the error by less than this is rounding.
ROUNDING = 1.02


def write_usd(
    path: str | Path,
    baked: BakedMotion | Sequence[BakedMotion],
    *,
    error: float = 0.002,
    points: Literal["blend-shapes", "cache"] = "blend-shapes",
    normals: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write baked motions as ``.usd``, ``.usda``, ``.usdc`` or ``.usdz``.

    Parameters
    ----------
    path : str or Path
        Where to. A character that came from USD gets a layer over its file: nothing in that is
        touched or copied, the layer names it by a relative path. A ``.usdz`` has it, and all it
        needs, inside. Any other character becomes a stage with one mesh and its points over time.
    baked : BakedMotion or sequence of those
        What to write. Several, of a character that came from USD, become blend shapes that its
        animations share; the stage goes on playing the animation it played.
    error : float
        How far any point may be from its place at any frame, as part of the character's size.
    points : {"blend-shapes", "cache"}
        Blend shapes on the meshes, with weights in the animation that the stage plays, before
        skinning; or points at every frame, with skinning switched off. Meshes without a skeleton
        get the latter in any case.
    normals : bool
        Whether normals follow: as normal offsets of blend shapes, or over time. Without, caches
        leave the file's normals out, which do not fit them, and renderers make their own.
    progress : callable, optional
        Called with the part done, 0 to 1, and what is being done.

    Returns
    -------
    dict
        n_shapes, n_frames, bytes, error: the largest distance of any point at any frame from
        where it was wanted, as UsdSkel evaluates the result, as part of the size.

    Raises
    ------
    SuppleError
        When the character's file is gone or has changed, or the target cannot be written.

    Warns
    -----
    SuppleWarning
        When the error is not reached, or the layer's path leads out of its folder.
    """
    path = Path(path)
    if path.suffix.lower() not in USD_SUFFIXES:
        known = ", ".join(USD_SUFFIXES)
        raise FormatError(f'{path.name}: "{path.suffix}" is not USD; use {known}')
    if points not in POINTS:
        raise SuppleError(f'{path.name}: points as "{points}"; use one of {", ".join(POINTS)}')
    check_library(path.name)
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: cannot be written to {path.parent} (no such folder)")
    bakes = [baked] if isinstance(baked, BakedMotion) else list(baked)
    for each in bakes:
        checked_frames(path, each)
    tell = progress or (lambda part, what: None)
    try:
        with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
            source, work = bakes[0].character.source, Path(folder)
            if not isinstance(source, UsdSource):
                return _write_stage(path, bakes[0], work, normals, tell)
            with opened_original(path, source) as original:
                plan = LayerPlan(path, bakes, original)
                return _write_layer(plan, path, bakes, work, error, points, normals, tell)
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise FormatError(f"{path.name}: cannot be written ({why})") from problem


def holds_several(character: Character, options: Mapping[str, Any]) -> bool:
    """Return whether a file holds several motions: blend shapes over a USD character do."""
    shapes = options.get("points", POINTS[0]) == POINTS[0]
    return shapes and isinstance(character.source, UsdSource)


def _write_layer(
    plan: LayerPlan,
    path: Path,
    bakes: Sequence[BakedMotion],
    folder: Path,
    error: float,
    points: str,
    normals: bool,
    tell: Progress,
) -> dict[str, Any]:
    parts = [np.asarray(baked.frames, np.float32) for baked in bakes]
    frames = parts[0] if len(parts) == 1 else np.concatenate(parts)
    np.save(folder / "frames.npy", frames)
    shapes, weights = [], np.zeros((len(frames), 0), np.float32)
    cached = [True] * len(plan.meshes)
    if points == "blend-shapes":
        tell(0.02, "evaluating the stage")
        shaped = fitted_shapes(plan, frames, folder, error, normals, tell)
        cached, shapes, weights = shaped.cached, shaped.names, shaped.weights
    if normals and any(cached):
        np.save(folder / "normals.npy", baked_normals(bakes[plan.shown]))
    tell(0.7, "writing the layer")
    request = plan.author_request(layer_format(path), cached, shapes, weights, normals)
    answer = run_child(WRITING, path.name, folder, request, plan.work)
    layer = folder / f"layer.{layer_format(path)}"
    size = deliver(path, layer, plan.source_path, answer["files"])
    reached = answer["error_metres"] / plan.character.surface.size
    if reached > ROUNDING * error:
        missed = f"is off by {reached:.2%} of the size, not {error:.2%}"
        warn(f"{path.name}: {missed}; {_advice(points)}")
    if len(bakes) > 1 and any(cached):
        alone, name = counted(sum(cached), "mesh", "meshes"), plan.clips[plan.shown].name
        warn(f'{path.name}: {alone} without a skeleton can play one motion, "{name}"')
    for note in plan.notes:
        warn(note)
    figures = {"n_shapes": len(shapes), "n_frames": len(frames), "error": reached, "bytes": size}
    return {**figures, "cached_meshes": sum(cached), "sublayer": plan.sublayer}


def _advice(points: str) -> str:
    if points == "cache":
        return "its transforms flatten a mesh"
    return "use points as a cache, or a larger error"


def layer_format(path: Path) -> str:
    """Return the format in which a layer for this path is exported."""
    return "usda" if path.suffix.lower() == ".usda" else "usdc"


def _write_stage(
    path: Path, baked: BakedMotion, folder: Path, normals: bool, tell: Progress
) -> dict[str, Any]:
    """Write a stage of its own, for characters from elsewhere."""
    surface = baked.character.surface
    np.save(folder / "frames.npy", np.asarray(baked.frames, np.float32))
    if normals:
        np.save(folder / "normals.npy", baked_normals(baked))
    tell(0.2, "writing the stage")
    request = {
        "action": "new",
        "path": None,
        "format": layer_format(path),
        "rate": float(baked.rate),
        "codes": np.round(baked.times * baked.rate, 6),
        "name": baked.character.name,
        "triangles": np.asarray(surface.triangles),
        "rest": np.asarray(surface.vertices),
    }
    run_child(WRITING, path.name, folder, request, baked.frames.nbytes)
    size = deliver(path, folder / f"layer.{layer_format(path)}", None, [])
    return {"n_shapes": 0, "n_frames": baked.n_frames, "error": 0.0, "bytes": size}


def deliver(path: Path, layer: Path, original: Path | None, files: list[str]) -> int:
    """Put the layer where it belongs, alone or in a package, and return the number of bytes."""
    if not layer.is_file():
        raise FormatError(f"{path.name}: USD wrote no layer; the disk may be full")
    if path.suffix.lower() == ".usdz":
        entries = package_entries(layer, original, files)
        return write_chunks(path, [], into=lambda file: package(path.name, file, entries))
    with layer.open("rb") as file:
        return write_chunks(path, iter(lambda: file.read(2**24), b""))
