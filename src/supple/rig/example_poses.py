"""The poses a rig on tets is fitted at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.errors import SuppleError
from supple.mesh import SurfaceMesh
from supple.rig.pose_weights import PoseWeights, parameter_scales
from supple.rig.protocol import Rig

__all__ = ["check_rest", "example_weights", "vertex_areas"]

Floats = NDArray[np.float64]

#: Poses nearer to the neutral one than this part of the farthest are the neutral one.
SAME_POSE = 1e-8


def check_rest(rig: Rig, surface: SurfaceMesh) -> None:
    """Refuse a surface that is not where the rig has it at rest."""
    if rig.n_vertices != len(surface.vertices):
        counts = f"{rig.n_vertices} vertices, and the surface {len(surface.vertices)}"
        raise SuppleError(f"the rig has {counts}; they must be the same ones")
    apart = float(np.abs(rig(rig.rest_pose) - surface.vertices).max())
    if apart > 1e-4 * surface.size:
        raise SuppleError(
            f"the surface is {apart:.3g} m away from where the rig has it at rest; use that"
        )


def example_weights(
    rig: Rig,
    surface: SurfaceMesh,
    poses: ArrayLike,
    names: Sequence[str] | None,
    scales: ArrayLike | None,
) -> PoseWeights:
    """Weights of the neutral pose and of those given that differ from it."""
    count, width = len(np.asarray(poses, dtype=object)), len(rig.parameters)
    given = np.asarray(poses, np.float64).reshape(-1, width) if count == 0 else poses
    given = checked_array("poses", given, (count, width))
    called = [str(i) for i in range(count)] if names is None else [str(name) for name in names]
    if len(called) != count:
        raise SuppleError(f"{len(called)} names for {count} poses")
    if scales is None:
        scales = parameter_scales(rig, masses=vertex_areas(surface))
    metric = checked_array("pose scales", scales, (width,))
    far = np.linalg.norm((given - rig.rest_pose) * metric, axis=1)
    other = np.flatnonzero(far > SAME_POSE * max(far.max(initial=0.0), np.finfo(float).tiny))
    rows = np.vstack([rig.rest_pose[None], given[other]])
    return PoseWeights(rows, metric, names=["neutral", *(called[i] for i in other)])


def vertex_areas(surface: SurfaceMesh) -> Floats:
    """A third of the triangles around each vertex, (n̄,); all 1 where no triangle has an area."""
    areas = np.zeros(len(surface.vertices))
    np.add.at(areas, surface.triangles, surface.areas()[:, None] / 3)
    return areas if areas.sum() > 0 else np.ones_like(areas)
