"""Adding example poses where the rig on the tets inverts tets between those it has."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.checks import checked_array
from supple.errors import SuppleError, warn
from supple.mesh.surface import SurfaceMesh
from supple.mesh.topology import counted
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.tets.fitting import GAMMA, PoseFitter
from supple.rig.tets.surface_samples import SurfaceSamples
from supple.rig.tets.tet_rig import Progress, TetRig, fit_pose

__all__ = ["with_poses_between"]


def with_poses_between(
    tet_rig: TetRig,
    surface: SurfaceMesh,
    candidates: ArrayLike,
    *,
    most: int = 8,
    gamma: float = GAMMA,
    progress: Progress | None = None,
) -> TetRig:
    """Fit at more poses until no tet is inverted at any of the candidates.

    Again and again the candidate that inverts most tets becomes an example pose.

    Parameters
    ----------
    tet_rig
        The rig on the tets so far.
    surface
        The skin, at the neutral pose.
    candidates
        (k, s) poses where no tet should be inverted: frames of motions, for example.
    most
        How many poses to add at most.
    gamma, progress
        As for `fit_tet_rig`.

    Warns
    -----
    SuppleWarning
        If tets stay inverted with that many poses added.
    """
    shape = (len(np.atleast_2d(candidates)), len(tet_rig.parameters))
    rows = checked_array("poses between", candidates, shape)
    if most < 0:
        raise SuppleError(f"cannot add {most} poses")
    tell = progress or (lambda part, what: None)
    fitter: PoseFitter | None = None
    hopeless = np.zeros(len(rows), bool)
    for added in range(most + 1):
        counts = np.array([len(tets) for tets in tet_rig.inversions(rows)])
        if not counts.any():
            break
        frames = f"{counted(int((counts > 0).sum()), 'pose')} of {len(rows)}"
        if added == most or not counts[~hopeless].any():
            warn(f"{counts.sum()} tets stay inverted at {frames}; add poses, or raise --fit")
            break
        tell(added / most, f"adding a pose; tets are inverted at {frames}")
        fitter = fitter or PoseFitter(tet_rig.mesh, SurfaceSamples.of(surface, tet_rig.mesh), gamma)
        worst = int(np.argmax(np.where(hopeless, 0, counts)))
        try:
            tet_rig = _with_pose(tet_rig, fitter, surface, rows[worst], f"between {worst}")
        except SuppleError:  # one bad frame must not cost the character
            hopeless[worst] = True
    tell(1.0, f"{len(tet_rig.poses)} poses")
    return tet_rig


def _with_pose(
    tet_rig: TetRig, fitter: PoseFitter, surface: SurfaceMesh, pose: np.ndarray, name: str
) -> TetRig:
    old = tet_rig.pose_weights
    fit, away = fit_pose(fitter, tet_rig.start, surface, pose, name)
    names = (*old.names, name)
    weights = PoseWeights(np.vstack([old.poses, pose]), old.scales, kind=old.kind, names=names)
    everywhere = np.concatenate([tet_rig.away(), away[None]])
    return TetRig.fitted(tet_rig.mesh, tet_rig.start, weights, everywhere, (*tet_rig.fits, fit))
