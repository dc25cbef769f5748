"""Tet bodies: the tets of a character, with their rig and bone vertices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array
from supple.errors import SuppleError, warn
from supple.mesh.embedding import embed_parts
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.mesh.topology import counted
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import skinned_rigs
from supple.rig.tets.bones import BONE_RADIUS, Bones, held_tets
from supple.rig.tets.fitting import GAMMA, PoseFitter
from supple.rig.tets.surface_samples import SurfaceSamples
from supple.rig.tets.tet_rig import Progress, TetRig, Variant, fit_pose, fit_tet_rig

#: Largest distance of the embedded surface from the surface at rest, relative to its size.
MOST_REST_ERROR = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class TetBody:
    """The tets of a character.

    Attributes
    ----------
    surface
        The skin, at the neutral pose.
    mesh
        The tets inside, at the neutral pose.
    embedding
        (n̄, n) sparse matrix from positions of tet vertices to positions of the skin.
    tet_rig
        Φ(p), the tets' rest shape at a pose.
    fixed
        Tet vertices that bones hold, ascending.
    """

    surface: SurfaceMesh
    mesh: TetMesh
    embedding: sp.csr_array
    tet_rig: TetRig
    fixed: Ints

    def __repr__(self) -> str:
        poses = len(self.tet_rig.poses)
        return f"TetBody({self.mesh!r}, {len(self.fixed)} vertices fixed, {poses} poses)"

    def rest_error(self) -> float:
        """Return the largest distance between skin and embedded skin at rest, in metres."""
        offsets = self.embedding @ self.mesh.vertices - self.surface.vertices
        return float(np.linalg.norm(offsets, axis=1).max(initial=0.0))


def fit_tet_body(
    surface: SurfaceMesh,
    rig: Rig,
    poses: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    tets: int | TetMesh = 12_000,
    bones: Bones | ArrayLike | None = None,
    bone_radius: float = BONE_RADIUS,
    variant: Variant = "auto",
    gamma: float = GAMMA,
    progress: Progress | None = None,
) -> TetBody:
    """Fill a character with tets, fit them at example poses and find those that bones hold.

    Parameters
    ----------
    surface, rig
        The skin, at the rig's rest pose, and its rig.
    poses, names
        (m, s) example poses, without the neutral one, and their names.
    tets
        Number of tets to make, or tets that fill the surface already.
    bones
        Bones, or the tet vertices to fix; by default the bones of the rig's skeleton, if it
        has one.
    bone_radius
        Radius of bones as a fraction of the distance to the skin; see `held_tets`.
    variant, gamma
        Way of transferring the rig to the tets, and stiffness in the fit; see `fit_tet_rig`.
    progress
        Called with the completed fraction, 0 to 1, and a description.

    Raises
    ------
    SuppleError
        If the surface cannot be filled, or tets stay inverted at a pose.
    """
    report = progress or (lambda part, what: None)
    if isinstance(tets, TetMesh):
        mesh = tets
    else:
        mesh = tetrahedralise(surface, tets=tets, progress=lambda p, what: report(0.2 * p, what))
    owners = np.arange(len(surface.vertices))
    embedding = embed_parts(surface, surface.vertices, owners, mesh)
    tet_rig = fit_tet_rig(
        rig,
        surface,
        mesh,
        poses,
        names=names,
        variant=variant,
        gamma=gamma,
        progress=lambda p, what: report(0.2 + 0.75 * p, what),
    )
    report(0.95, "finding the tets that bones hold")
    fixed = _fixed(bones, rig, surface, mesh, bone_radius)
    body = TetBody(surface, mesh, embedding, tet_rig, fixed)
    if body.rest_error() > MOST_REST_ERROR * surface.size:
        distance = f"{body.rest_error():.3g} m"
        raise SuppleError(f"the tets move the surface by {distance} at rest; use tets that fill it")
    report(1.0, repr(body))
    return body


def _fixed(
    bones: Bones | ArrayLike | None, rig: Rig, surface: SurfaceMesh, mesh: TetMesh, radius: float
) -> Ints:
    """Return the tet vertices that bones hold, ascending."""
    if bones is None:
        # Any skinned rig, whatever its parameters: bones are those of the rest pose.
        skinned = skinned_rigs(rig)
        if len(skinned) != 1:
            warn("the rig has no skeleton, and no bones are given; nothing holds its flesh")
            return np.empty(0, np.int64)
        bones = Bones.of_rig(skinned[0])
    if isinstance(bones, Bones):
        return held_tets(bones, surface, mesh, radius).vertices
    listed, count = np.asarray(bones), len(mesh.vertices)
    if listed.size and (listed.dtype.kind not in "iu" or listed.min() < 0):
        raise SuppleError("fixed vertices must be a list of vertex numbers")
    if listed.size and listed.max() >= count:
        raise SuppleError(f"fixed vertex {listed.max()} does not exist; there are {count} vertices")
    return np.unique(listed.astype(np.int64))


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

    The candidate that inverts most tets becomes an example pose, repeatedly.

    Parameters
    ----------
    tet_rig
        The rig on the tets so far.
    surface
        The skin, at the neutral pose.
    candidates
        (k, s) poses where no tet should be inverted: frames of motions, for example.
    most
        Largest number of added poses.
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
        raise SuppleError(f"cannot add {most} poses; the number must not be negative")
    report = progress or (lambda part, what: None)
    fitter: PoseFitter | None = None
    failed = np.zeros(len(rows), bool)
    for added in range(most + 1):
        counts = np.array([len(tets) for tets in tet_rig.inversions(rows)])
        if not counts.any():
            break
        frames = f"{counted(int((counts > 0).sum()), 'pose')} of {len(rows)}"
        if added == most or not counts[~failed].any():
            warn(f"{counts.sum()} tets stay inverted at {frames}; add poses, or raise --fit")
            break
        report(added / most, f"adding a pose; tets are inverted at {frames}")
        fitter = fitter or PoseFitter(tet_rig.mesh, SurfaceSamples.of(surface, tet_rig.mesh), gamma)
        worst = int(np.argmax(np.where(failed, 0, counts)))
        try:
            tet_rig = _with_pose(tet_rig, fitter, surface, rows[worst], f"between {worst}")
        except SuppleError:  # a frame that cannot be fitted is skipped
            failed[worst] = True
    report(1.0, f"{len(tet_rig.poses)} poses")
    return tet_rig


def _with_pose(
    tet_rig: TetRig, fitter: PoseFitter, surface: SurfaceMesh, pose: Floats, name: str
) -> TetRig:
    old = tet_rig.pose_weights
    fit, displacement = fit_pose(fitter, tet_rig.start, surface, pose, name)
    names = (*old.names, name)
    weights = PoseWeights(np.vstack([old.poses, pose]), old.scales, kind=old.kind, names=names)
    everywhere = np.concatenate([tet_rig.away(), displacement[None]])
    return TetRig.fitted(tet_rig.mesh, tet_rig.start, weights, everywhere, (*tet_rig.fits, fit))
