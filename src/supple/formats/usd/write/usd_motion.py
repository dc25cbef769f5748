"""Baked motions as USD: a layer over the character's own file, or a new stage."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.errors import FormatError, SuppleError, warn
from supple.formats.morph_fit import Progress, fit_morphs
from supple.formats.registry import USD_SUFFIXES
from supple.formats.usd.originals import package, package_entries
from supple.formats.usd.process import WRITING, check_library, run_child
from supple.formats.usd.read.usd import UsdSource
from supple.formats.usd.write.layer_plan import LayerPlan, layer_format, opened_original
from supple.mesh.surface import VertexNormals
from supple.mesh.topology import counted
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.drawn_obstacles import COLOURS, drawn_obstacles
from supple.rig.inverse_skinning import largest_stretch, offsets_before_skinning
from supple.saving import write_chunks

#: Names of new shapes.
NAME = "supple_soft_{:03d}"


def fitted_shapes(
    plan: LayerPlan, frames: Singles, folder: Path, error: float, normals: bool, report: Progress
) -> tuple[list[str], Singles, list[bool]]:
    """Fit blend shapes to the difference of baked frames and stage; save each mesh's offsets.

    Returns their names, their weights (t, b), and for each mesh whether it needs a point cache.
    """
    character = plan.character
    # The survey also returns matrices: four times the frames.
    answer = run_child(WRITING, character.name, folder, plan.request("survey"), 4 * plan.work)
    present = np.load(folder / "present.npy", mmap_mode="r", allow_pickle=False)
    matrices = np.load(folder / "matrices.npy", mmap_mode="r", allow_pickle=False)
    has_shapes = np.zeros(plan.n_vertices, dtype=bool)
    for mesh, takes in zip(plan.meshes, answer["takes_shapes"], strict=True):
        has_shapes[mesh["vertices"]] |= takes
    cached = [not takes for takes in answer["takes_shapes"]]
    if not has_shapes.any():
        return [], np.zeros((len(frames), 0), np.float32), cached
    rows = np.flatnonzero(has_shapes)
    offsets = _offsets(character, frames, present, matrices, rows, error)
    shapes, weights, _ = fit_morphs(
        offsets,
        _ByFrame(len(matrices), lambda k: matrices[k][..., rows, :, :].astype(np.float64)),
        character.surface.size,
        error * 0.98,  # room for rounding
        moves=_ByFrame(
            len(frames),
            lambda k: frames[k][..., rows, :].astype(np.float64) - present[k][..., rows, :],
        ),
        progress=lambda part, what: report(0.1 + 0.6 * part, what),
    )
    normal_shapes = None
    if normals and len(shapes):
        normal_shapes = _normal_shapes(character, frames, present, matrices, rows, weights)
    _save(plan, answer["bounds"], folder, rows, shapes, normal_shapes)
    return _names(character, len(shapes)), weights, cached


def _names(character: Character, count: int) -> list[str]:
    """Return `count` names for shapes, none of them a parameter of the character's rig."""
    used = {parameter.name for parameter in character.rig.parameters}
    pattern, number = NAME, 2
    while any(pattern.format(k) in used for k in range(count)):
        pattern, number = f"supple_soft{number}_{{:03d}}", number + 1
    return [pattern.format(k) for k in range(count)]


def _offsets(
    character: Character,
    frames: Singles,
    present: Singles,
    matrices: Singles,
    rows: Ints,
    error: float,
) -> Singles:
    rig = character.rig
    tolerance = 0.25 * error * character.surface.size
    offsets = np.empty((len(frames), len(rows), 3), np.float32)
    all_matrices = np.tile(np.eye(3), (rig.n_vertices, 1, 1))
    stretch = largest_stretch(rig, matrices)
    for k, frame in enumerate(frames):
        # Vertices without shapes are at their targets.
        target, present_positions = frame.astype(np.float64), frame.astype(np.float64)
        present_positions[rows], all_matrices[rows] = present[k][rows], matrices[k][rows]
        if not np.isfinite(all_matrices).all():
            raise FormatError(f"{character.name}: its joints at frame {k} are not finite")
        offsets[k] = offsets_before_skinning(
            rig,
            rig.rest_pose,
            target,
            present=present_positions,
            matrices=all_matrices,
            tolerance=tolerance,
            stretch=stretch,
        )[rows]
    return offsets


class _ByFrame(Sequence[Any]):
    """Sequence of arrays, one per frame, each computed when it is indexed."""

    def __init__(self, count: int, compute: Callable[[Any], Any]) -> None:
        self._count, self._compute = count, compute

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        return self._compute(index)


def _save(
    plan: LayerPlan,
    bounds: list[Any],
    folder: Path,
    rows: Ints,
    shapes: Singles,
    normal_shapes: Singles | None,
) -> None:
    """Save each mesh's offsets, (b, n, 3); equal for welded points, so that seams stay closed."""
    row_of = np.full(plan.n_vertices + 1, len(rows))
    row_of[rows] = np.arange(len(rows))
    for number, (mesh, bound) in enumerate(zip(plan.meshes, bounds, strict=True)):
        points = row_of[mesh["welded"]]  # -1, a point of no face, selects the zero row
        unit_bound = bound / np.cbrt(abs(np.linalg.det(bound)))
        _save_rows(folder / f"shapes{number}.npy", shapes, points, np.linalg.inv(bound).T)
        if normal_shapes is not None:
            _save_rows(folder / f"normals{number}.npy", normal_shapes, points, unit_bound)


def _save_rows(file: Path, shapes: Singles, points: Ints, matrix: Any) -> None:
    padded = np.pad(shapes, ((0, 0), (0, 1), (0, 0)))
    np.save(file, (padded[:, points] @ matrix).astype(np.float32))


# Normals of baked frames.


def baked_normals(baked: BakedMotion) -> Singles:
    """Return unit normals (t, n̄, 3) in the world, weighted by the areas of the faces."""
    normals_of = _normals_of(baked.character)
    normals = np.stack([normals_of(frame.astype(np.float64)) for frame in baked.frames])
    return normals.astype(np.float32)


def _normal_shapes(
    character: Character,
    frames: Singles,
    present: Singles,
    matrices: Singles,
    rows: Ints,
    weights: Singles,
) -> Singles:
    """Return offsets (b, n, 3) of bound normals for the shapes' weights, (t, b).

    The goal is the difference between the normals of the frame and of the stage's surface, both
    transformed back before skinning: n → Mᵀ n with M from `matrices`. So hard edges stay hard.
    """
    normals_of = _normals_of(character)
    targets = np.empty((len(frames), 3 * len(rows)), np.float32)
    for k, frame in enumerate(frames):
        simulated = frame.astype(np.float64)
        present_positions = simulated.copy()
        present_positions[rows] = present[k][rows]
        unskinned = [
            _unit(np.einsum("nji,nj->ni", matrices[k][rows], normals_of(points)[rows]))
            for points in (simulated, present_positions)
        ]
        targets[k] = (unskinned[0] - unskinned[1]).ravel()
    matrix = weights.astype(np.float64)
    solution = np.linalg.lstsq(matrix, targets.astype(np.float64), rcond=1e-6)[0]
    return solution.reshape(weights.shape[1], len(rows), 3).astype(np.float32)


def _normals_of(character: Character) -> VertexNormals:
    surface = character.surface
    return VertexNormals(surface.triangles, len(surface.vertices), flat=(0.0, 0.0, 0.0))


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


# The files.


POINTS = ("blend-shapes", "cache")
#: Factor by which rounding may exceed the error.
ROUNDING = 1.02


def write_usd(
    path: str | Path,
    baked: BakedMotion | Sequence[BakedMotion],
    *,
    error: float = 0.002,
    points: Literal["blend-shapes", "cache"] = "blend-shapes",
    normals: bool = False,
    with_obstacles: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write baked motions as ``.usd``, ``.usda``, ``.usdc`` or ``.usdz``.

    Parameters
    ----------
    path : str or Path
        Target. A character from USD gets a layer with a relative path to its file, which is not
        changed. A ``.usdz`` contains the file and all it needs. Any other character becomes a stage
        with one mesh and its points over time.
    baked : BakedMotion or sequence of those
        One motion, or several of a character from USD, whose animations then share blend shapes;
        the stage plays the same animation as before.
    error : float
        Largest distance of any point from its simulated place, as a fraction of the size.
    points : {"blend-shapes", "cache"}
        Blend shapes before skinning, with weights in the stage's animation; or points at every
        frame, with skinning switched off. Meshes without a skeleton always get a cache.
    normals : bool
        Whether normals are written: as normal offsets of blend shapes, or over time. Otherwise
        caches have no normals, and renderers compute them.
    with_obstacles : bool
        Whether the obstacles and objects of the motion become meshes; of several motions, those of
        the one that the stage plays.
    progress : callable, optional
        Called with the fraction done, 0 to 1, and the name of the step.

    Returns
    -------
    dict
        n_shapes, n_frames, bytes, error: the largest distance of any point from its simulated
        place, as UsdSkel evaluates the result, as a fraction of the size. Warns if it is larger
        than `error`, or the layer refers to a file outside its folder.
    """
    path = Path(path)
    if path.suffix.lower() not in USD_SUFFIXES:
        suffixes = ", ".join(USD_SUFFIXES)
        raise FormatError(f'{path.name}: "{path.suffix}" is not USD; use {suffixes}')
    if points not in POINTS:
        raise SuppleError(f'{path.name}: points cannot be "{points}"; use {" or ".join(POINTS)}')
    check_library(path.name)
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: there is no folder {path.parent}; create it first")
    bakes = [baked] if isinstance(baked, BakedMotion) else list(baked)
    report = progress or (lambda part, what: None)
    try:
        with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
            source, work = bakes[0].character.source, Path(folder)
            if not isinstance(source, UsdSource):
                return _write_stage(path, bakes[0], work, normals, report, with_obstacles)
            with opened_original(path, source) as original:
                plan = LayerPlan(path, bakes, original)
                shown = bakes[plan.shown]
                codes, outward = plan.clips[plan.shown].codes, plan.source.from_stage
                obstacles = _obstacles(shown, codes, outward) if with_obstacles else []
                options = error, points, normals, obstacles
                return _write_layer(plan, path, bakes, work, *options, report)
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise FormatError(f"{path.name}: cannot be written ({why})") from problem


def holds_several(character: Character, options: Mapping[str, Any]) -> bool:
    """Return whether one file can hold several motions: blend shapes over a USD character."""
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
    obstacles: list[dict[str, Any]],
    report: Progress,
) -> dict[str, Any]:
    parts = [np.asarray(baked.frames, np.float32) for baked in bakes]
    frames = parts[0] if len(parts) == 1 else np.concatenate(parts)
    np.save(folder / "frames.npy", frames)
    if points == "blend-shapes":
        report(0.02, "evaluating the stage")
        shapes, weights, cached = fitted_shapes(plan, frames, folder, error, normals, report)
    else:
        shapes, weights = [], np.zeros((len(frames), 0), np.float32)
        cached = [True] * len(plan.meshes)
    if normals and any(cached):
        np.save(folder / "normals.npy", baked_normals(bakes[plan.shown]))
    report(0.7, "writing the layer")
    request = plan.author_request(cached, shapes, weights, normals, obstacles)
    answer = run_child(WRITING, path.name, folder, request, plan.work)
    size = deliver(path, folder, plan.source_path, answer["files"])
    reached = answer["error_metres"] / plan.character.surface.size
    if reached > ROUNDING * error:
        missed = f"differs from the simulation by {reached:.2%} of the size, more than {error:.2%}"
        by_shapes = "use a point cache, or a larger error"
        flat = "a transform flattens a mesh; remove its zero scale"
        warn(f"{path.name}: {missed}; {flat if points == 'cache' else by_shapes}")
    if len(bakes) > 1 and any(cached):
        meshes, name = counted(sum(cached), "mesh", "meshes"), plan.clips[plan.shown].name
        warn(f'{path.name}: {meshes} without a skeleton can have only one motion, "{name}"')
    for note in plan.notes:
        warn(note)
    figures = {"n_shapes": len(shapes), "n_frames": len(frames), "error": reached, "bytes": size}
    return {**figures, "cached_meshes": sum(cached), "sublayer": plan.sublayer}


def _obstacles(baked: BakedMotion, codes: Floats, from_stage: Floats) -> list[dict[str, Any]]:
    """Return the obstacles of a motion for the writing process; `codes` (t,) are its time codes."""
    inward = np.linalg.inv(from_stage)
    listed = []
    for each in drawn_obstacles([baked]):
        assert each.places[0] is not None
        places = inward @ each.places[0]
        listed.append(
            {
                "name": each.name,
                "points": each.surface.vertices,
                "triangles": each.surface.triangles,
                "colour": np.array(COLOURS[each.kind]),
                "places": places,
                "codes": codes if len(places) > 1 else np.zeros(0),
            }
        )
    return listed


def _write_stage(
    path: Path,
    baked: BakedMotion,
    folder: Path,
    normals: bool,
    report: Progress,
    with_obstacles: bool,
) -> dict[str, Any]:
    """Write a new stage, for characters from other formats."""
    surface = baked.character.surface
    np.save(folder / "frames.npy", np.asarray(baked.frames, np.float32))
    if normals:
        np.save(folder / "normals.npy", baked_normals(baked))
    report(0.2, "writing the stage")
    codes = np.round(baked.times * baked.rate, 6)
    request = {
        "action": "new",
        "path": None,
        "format": layer_format(path),
        "rate": float(baked.rate),
        "codes": codes,
        "obstacles": _obstacles(baked, codes, np.eye(4)) if with_obstacles else [],
        "name": baked.character.name,
        "triangles": np.asarray(surface.triangles),
        "rest": np.asarray(surface.vertices),
    }
    run_child(WRITING, path.name, folder, request, baked.frames.nbytes)
    size = deliver(path, folder, None, [])
    return {"n_shapes": 0, "n_frames": baked.n_frames, "error": 0.0, "bytes": size}


def deliver(path: Path, folder: Path, original: Path | None, files: list[str]) -> int:
    """Copy the layer in a folder to its path, alone or in a package; return the number of bytes."""
    layer = folder / f"layer.{layer_format(path)}"
    if not layer.is_file():
        raise FormatError(f"{path.name}: USD wrote no layer; the disk may be full")
    if path.suffix.lower() == ".usdz":
        entries = package_entries(layer, original, files)
        return write_chunks(path, [], into=lambda file: package(path.name, file, entries))
    with layer.open("rb") as file:
        return write_chunks(path, iter(lambda: file.read(2**24), b""))
