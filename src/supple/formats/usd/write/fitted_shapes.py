"""Blend shapes of a stage's meshes that play a baked motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.errors import FormatError
from supple.formats.morph_fit import Progress, fit_morphs
from supple.formats.usd.process import WRITING, run_child
from supple.formats.usd.write.layer_plan import LayerPlan
from supple.formats.vertex_normals import VertexNormals
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.inverse_skinning import largest_stretch, offsets_before_skinning

#: Names of the shapes that are added.
NAME = "supple_soft_{:03d}"


@dataclass
class FittedShapes:
    """Names of the shapes, their weights (t, b), and which meshes take none."""

    names: list[str]
    weights: Singles
    cached: list[bool]


def fitted_shapes(
    plan: LayerPlan, frames: Singles, folder: Path, error: float, normals: bool, tell: Progress
) -> FittedShapes:
    """Fit shapes to what the stage lacks at the frames of all motions.

    Those of each mesh go to a file in the folder.
    """
    character = plan.character
    # The survey passes matrices too: four times the frames.
    answer = run_child(WRITING, character.name, folder, plan.request("survey"), 4 * plan.work)
    present = np.load(folder / "present.npy", mmap_mode="r", allow_pickle=False)
    matrices = np.load(folder / "matrices.npy", mmap_mode="r", allow_pickle=False)
    shaped = np.zeros(plan.n_vertices, dtype=bool)
    for mesh, takes in zip(plan.meshes, answer["takes_shapes"], strict=True):
        shaped[mesh["vertices"]] |= takes
    cached = [not takes for takes in answer["takes_shapes"]]
    if not shaped.any():
        return FittedShapes([], np.zeros((len(frames), 0), np.float32), cached)
    rows = np.flatnonzero(shaped)
    offsets = _offsets(character, frames, present, matrices, rows, error)
    shapes, weights, _ = fit_morphs(
        offsets,
        _Part(matrices, rows),
        character.surface.size,
        error * 0.98,  # room for rounding between here and there
        moves=_Moves(frames, present, rows),
        progress=lambda part, what: tell(0.1 + 0.6 * part, what),
    )
    turned = None
    if normals and len(shapes):
        turned = _normal_shapes(character, frames, present, matrices, rows, weights)
    _save(plan, answer["bounds"], folder, rows, shapes, turned)
    return FittedShapes(_names(character, len(shapes)), weights, cached)


def _names(character: Character, count: int) -> list[str]:
    """Return names that no shape of the character has."""
    taken = {parameter.name for parameter in character.rig.parameters}
    pattern, again = NAME, 2
    while any(pattern.format(k) in taken for k in range(count)):
        pattern, again = f"supple_soft{again}_{{:03d}}", again + 1
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
    allowed = 0.25 * error * character.surface.size
    offsets = np.empty((len(frames), len(rows), 3), np.float32)
    slopes = np.tile(np.eye(3), (rig.n_vertices, 1, 1))
    stretch = largest_stretch(rig, matrices)
    for k, frame in enumerate(frames):
        # Vertices that take no shapes are where they are wanted, as far as shapes go.
        wanted, now = frame.astype(np.float64), frame.astype(np.float64)
        now[rows], slopes[rows] = present[k][rows], matrices[k][rows]
        if not np.isfinite(slopes).all():
            raise FormatError(f"{character.name}: its joints at frame {k} are not finite")
        offsets[k] = offsets_before_skinning(
            rig,
            rig.rest_pose,
            wanted,
            present=now,
            matrices=slopes,
            tolerance=allowed,
            stretch=stretch,
        )[rows]
    return offsets


class _Part(Sequence[Any]):
    """Some vertices' matrices, frame by frame."""

    def __init__(self, tables: Singles, rows: Ints) -> None:
        self._tables, self._rows = tables, rows

    def __len__(self) -> int:
        return len(self._tables)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._tables[index][..., self._rows, :, :].astype(np.float64)


class _Moves(Sequence[Any]):
    """Wanted moves of some vertices from where the stage has them, frame by frame."""

    def __init__(self, frames: Singles, present: Singles, rows: Ints) -> None:
        self._frames, self._present, self._rows = frames, present, rows

    def __len__(self) -> int:
        return len(self._frames)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        wanted = self._frames[index][..., self._rows, :].astype(np.float64)
        return wanted - self._present[index][..., self._rows, :]


def _save(
    plan: LayerPlan,
    bounds: list[Any],
    folder: Path,
    rows: Ints,
    shapes: Singles,
    turned: Singles | None,
) -> None:
    """Save each mesh's own offsets, (b, n, 3); welded points get the same, seams stay closed."""
    place = np.full(plan.n_vertices + 1, len(rows))
    place[rows] = np.arange(len(rows))
    for number, (mesh, bound) in enumerate(zip(plan.meshes, bounds, strict=True)):
        points = place[mesh["welded"]]  # -1, a point of no face, is the last: no vertex
        even = bound / np.cbrt(abs(np.linalg.det(bound)))
        _save_rows(folder / f"shapes{number}.npy", shapes, points, np.linalg.inv(bound).T)
        if turned is not None:
            _save_rows(folder / f"normals{number}.npy", turned, points, even)


def _save_rows(file: Path, shapes: Singles, points: Ints, matrix: Any) -> None:
    padded = np.pad(shapes, ((0, 0), (0, 1), (0, 0)))
    np.save(file, (padded[:, points] @ matrix).astype(np.float32))


# Normals of baked frames.


def baked_normals(baked: BakedMotion) -> Singles:
    """Return unit normals (t, n̄, 3) in the world, each the mean of its faces' by their areas."""
    normals_of = _normals_of(baked.character)
    return np.stack([normals_of(frame.astype(np.float64)) for frame in baked.frames]).astype(
        np.float32
    )


def _normal_shapes(
    character: Character,
    frames: Singles,
    present: Singles,
    matrices: Singles,
    rows: Ints,
    weights: Singles,
) -> Singles:
    """Return offsets (b, n, 3) of bound normals that go with the shapes' weights, (t, b).

    What is wanted is the difference between the frame's normals and those of the surface as the
    stage has it, both brought back before skinning: n → Mᵀ n. So edges that are hard stay hard.
    """
    normals_of = _normals_of(character)
    wanted = np.empty((len(frames), 3 * len(rows)), np.float32)
    for k, frame in enumerate(frames):
        then = frame.astype(np.float64)
        now = then.copy()
        now[rows] = present[k][rows]
        turned = [
            _unit(np.einsum("nji,nj->ni", matrices[k][rows], normals_of(points)[rows]))
            for points in (then, now)
        ]
        wanted[k] = (turned[0] - turned[1]).ravel()
    found = np.linalg.lstsq(weights.astype(np.float64), wanted.astype(np.float64), rcond=1e-6)[0]
    return found.reshape(weights.shape[1], len(rows), 3).astype(np.float32)


def _normals_of(character: Character) -> VertexNormals:
    surface = character.surface
    return VertexNormals(surface.triangles, len(surface.vertices), flat=(0.0, 0.0, 0.0))


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
