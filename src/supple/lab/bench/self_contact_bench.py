"""`supple bench self-contact`: depth of skin inside the skin of other parts, beyond the rig's own.

The measurement shares no code with the detection of contacts in steps: winding numbers tell whether
a point is inside another part, and exact distances to triangles how deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import igl
import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Bools, Floats, Ints, Singles
from supple.engines.factory import load_model
from supple.errors import SuppleError
from supple.lab.bench.case_runner import Cells, Row, print_rows, run_cases
from supple.playback.baking import bake
from supple.rig.baked_motion import BakedMotion

#: Offset along the normal of the point whose winding number tells whether a vertex is inside
#: another part, and smallest distance at rest of triangles that may contain it, in sizes.
OFFSET, APART = 2e-4, 0.02
#: Number of triangles whose distance to a vertex is computed: those with the nearest centres.
NEAREST = 96
#: Quantile of the depths over the skin.
QUANTILE = 0.999
COLUMNS: Cells = {
    "character": ("character", ""),
    "motion": ("motion", ""),
    "frames": ("frames", ""),
    "self-contact": ("self_contact", ""),
    "p99.9 %": ("p999", ".3f"),
    "at frame": ("worst", ""),
    "max %": ("deepest", ".3f"),
    "rig's own %": ("rig", ".3f"),
    "ms a step": ("step_ms", ".3f"),
}


@dataclass(frozen=True, eq=False)
class SkinDepths:
    """Measurement of a skin: triangles, positions at rest (n̄, 3) and size in m."""

    triangles: Ints
    rest: Floats
    size: float

    def depths(self, skin: Floats, chosen: Bools | None = None) -> tuple[Floats, Ints]:
        """Return how deep vertices of a skin (n̄, 3) are inside another part, (n̄,) in m.

        Also return the nearest triangles (n̄,), or −1. Only vertices `chosen` (n̄,) are measured;
        others have 0. A vertex whose nearest triangles are all of its own part has NaN.
        """
        depths, nearest = np.zeros(len(skin)), np.full(len(skin), -1)
        normals = np.nan_to_num(igl.per_vertex_normals(skin, self.triangles))
        within = self._inside(skin, normals)
        inside = np.flatnonzero(within if chosen is None else within & chosen)
        if not len(inside):
            return depths, nearest
        corners = skin[self.triangles]
        middles = corners.mean(axis=1)
        faces = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        count = min(NEAREST, len(middles))
        near = cKDTree(middles).query(skin[inside], k=range(1, count + 1))[1]
        rest_middles = self.rest[self.triangles].mean(axis=1)
        opposed = np.einsum("kni,ki->kn", faces[near], normals[inside]) < 0
        apart = np.linalg.norm(rest_middles[near] - self.rest[inside][:, None], axis=2)
        rows, columns = np.nonzero(opposed & (apart > APART * self.size))
        listed = near[rows, columns]
        points = np.ascontiguousarray(skin[inside[rows]])
        squared = _squared_distances(points, corners[listed])
        order = np.lexsort((squared, rows))
        found, first = np.unique(rows[order], return_index=True)
        depths[inside] = np.nan
        depths[inside[found]] = np.sqrt(squared[order][first])
        nearest[inside[found]] = listed[order][first]
        return depths, nearest

    def beyond(self, skin: Floats, rig: Floats) -> tuple[Floats, Floats]:
        """Return how much deeper vertices are than in the rig's own pose, and the rig's own, in m.

        The same two points of the skin come nearer by at most their relative displacement, which
        bounds the difference where the nearest triangle of the rig is another one.
        """
        deep, nearest = self.depths(skin)
        rig_depths, _ = self.depths(rig, deep > 0)
        moved = skin - rig
        relative = moved[:, None] - moved[self.triangles[nearest]]
        bound = np.linalg.norm(relative, axis=2).max(axis=1)
        return np.nan_to_num(np.clip(deep - rig_depths, 0, bound)), np.nan_to_num(rig_depths)

    def _inside(self, skin: Floats, normals: Floats) -> Bools:
        points = skin + OFFSET * self.size * normals
        winding = igl.fast_winding_number(np.ascontiguousarray(skin), self.triangles, points)
        return np.asarray(winding) > 0.5


def _squared_distances(points: Floats, corners: Floats) -> Floats:
    """Return squared distances of points (k, 3) to triangles (k, 3, 3) (Ericson 2005, 5.1.5)."""
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    normal = np.cross(b - a, c - a)
    lengths = np.maximum((normal**2).sum(axis=1), 1e-300)
    inner = np.ones(len(points), bool)
    best = np.full(len(points), np.inf)
    for p, q in ((a, b), (b, c), (c, a)):
        edge = q - p
        inner &= (np.cross(edge, points - p) * normal).sum(axis=1) >= 0
        along = ((points - p) * edge).sum(axis=1) / np.maximum((edge**2).sum(axis=1), 1e-300)
        foot = p + np.clip(along, 0, 1)[:, None] * edge
        best = np.minimum(best, ((points - foot) ** 2).sum(axis=1))
    plane = ((points - a) * normal).sum(axis=1) ** 2 / lengths
    return np.where(inner, plane, best)


def depths_beyond_rig(baked: BakedMotion, every: int = 1) -> tuple[Singles, Singles]:
    """Return depths of the skin beyond the rig's own, and the rig's own, (t, n̄) in sizes."""
    surface = baked.character.surface
    rest = np.asarray(surface.vertices, np.float64)
    triangles = np.ascontiguousarray(surface.triangles, np.int64)
    measured = SkinDepths(triangles, rest, surface.size)
    beyond = np.zeros((baked.n_frames, len(rest)), np.float32)
    rig_depths = np.zeros_like(beyond)
    for k in range(0, baked.n_frames, every):
        skin = np.ascontiguousarray(baked.frames[k], np.float64)
        deeper, rig = measured.beyond(skin, np.ascontiguousarray(baked.rig_frame(k), np.float64))
        beyond[k], rig_depths[k] = deeper / surface.size, rig / surface.size
    return beyond, rig_depths


def measure(
    sources: Sequence[str], *, model: Path | None = None, quiet: bool = False, **options: Any
) -> list[Row]:
    """Return depths without and with self-contact of characters baked in live quality.

    `model` is a model file of the only source; `options` are those of `supple.bake`.
    """
    if not sources:
        raise SuppleError("name one or more characters, such as gorilla or a .glb file")
    if model is not None and len(sources) > 1:
        raise SuppleError("--model is for a single character")
    cases = [
        (
            f"{Path(each).stem}, {'with' if on else 'without'}",
            partial(_row, each, model, on, options),
        )
        for each in sources
        for on in (False, True)
    ]
    return run_cases(cases, quiet=quiet)


def _row(source: str, model: Path | None, on: bool, options: dict[str, Any]) -> Row:
    row: Row = {"character": Path(source).stem, "self_contact": "with" if on else "without"}
    given = None if model is None else load_model(model)
    simulation = {**options.get("simulation", {}), "self_contact": on}
    baked = bake(source, model=given, **{**options, "quality": "live", "simulation": simulation})
    beyond, rig_depths = depths_beyond_rig(baked)
    quantiles = 100 * np.quantile(beyond, QUANTILE, axis=1)
    return row | {
        "motion": baked.motion.name,
        "frames": baked.n_frames,
        "p999": float(quantiles.max()),
        "worst": int(quantiles.argmax()),
        "deepest": 100 * float(beyond.max()),
        "rig": 100 * float(np.quantile(rig_depths, QUANTILE, axis=1).max()),
        "step_ms": baked.report["step_ms"],
    }


def table(rows: Sequence[Row]) -> None:
    """Print a line for each character, without and with self-contact."""
    note = "% of the size; p99.9 over the skin, at the worst frame"
    print_rows(rows, COLUMNS, "Depth of skin inside skin, beyond the rig's own", note, left=2)
