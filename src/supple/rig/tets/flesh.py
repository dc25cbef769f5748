"""What is inside of a character: tets that follow its rig, held by its bones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Ints
from supple.errors import SuppleError, warn
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.part_embedding import embed_parts
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.bones import BONE_RADIUS, Bones, held_tets
from supple.rig.tets.fitting import GAMMA
from supple.rig.tets.tet_rig import TetRig, Variant, fit_tet_rig

__all__ = ["Flesh", "flesh_out", "skinned_rigs"]

Progress = Callable[[float, str], None]

#: How far the tets may carry the surface away from itself at rest, as a part of its size.
MOST_REST_ERROR = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Flesh:
    """The tets of a character.

    Attributes
    ----------
    surface
        The skin, at the neutral pose.
    mesh
        The tets inside, at the neutral pose.
    embedding
        (n̄, n) A: the skin's vertices from the tet vertices.
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
        return f"Flesh({self.mesh!r}, {len(self.fixed)} vertices fixed, {poses} poses)"

    def rest_error(self) -> float:
        """Largest distance between the skin and what the tets carry, at rest, in metres."""
        away = self.embedding @ self.mesh.vertices - self.surface.vertices
        return float(np.linalg.norm(away, axis=1).max(initial=0.0))


def flesh_out(
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
) -> Flesh:
    """Fill a character with tets, fit them at example poses and find what its bones hold.

    Parameters
    ----------
    surface, rig
        The skin, at the rig's rest pose, and its rig.
    poses, names
        (m, s) example poses, without the neutral one, and what they are called.
    tets
        How many to make, or tets that fill the surface already.
    bones
        Bones, or the tet vertices to fix; by default the bones of the rig's skeleton, if it
        has one.
    bone_radius
        As a part of the distance to the skin; see `held_tets`.
    variant, gamma
        How the rig is carried to the tets and fitted; see `fit_tet_rig`.
    progress
        Called with the part done, 0 to 1, and what is being done.

    Raises
    ------
    SuppleError
        If the surface cannot be filled, or tets stay inverted at a pose.
    """
    tell = progress or (lambda part, what: None)
    if isinstance(tets, TetMesh):
        mesh = tets
    else:
        mesh = tetrahedralise(surface, tets=tets, progress=lambda p, what: tell(0.2 * p, what))
    own = np.arange(len(surface.vertices))
    embedding = embed_parts(surface, surface.vertices, own, mesh)
    tet_rig = fit_tet_rig(
        rig,
        surface,
        mesh,
        poses,
        names=names,
        variant=variant,
        gamma=gamma,
        progress=lambda p, what: tell(0.2 + 0.75 * p, what),
    )
    tell(0.95, "finding what bones hold")
    flesh = Flesh(surface, mesh, embedding, tet_rig, _fixed(bones, rig, surface, mesh, bone_radius))
    if flesh.rest_error() > MOST_REST_ERROR * surface.size:
        raise SuppleError(
            f"the tets carry the surface {flesh.rest_error():.3g} m away from itself at rest; "
            "use tets that fill it"
        )
    tell(1.0, repr(flesh))
    return flesh


def skinned_rigs(rig: Rig) -> list[SkinnedRig]:
    """Those a rig is built on, however it poses them: bones are looked for at rest only."""
    if isinstance(rig, SkinnedRig):
        return [rig]
    base = getattr(rig, "base", None)
    links = [base] if isinstance(base, Rig) else getattr(rig, "rigs", ())
    return [skinned for link in links for skinned in skinned_rigs(link)]


def _fixed(
    bones: Bones | ArrayLike | None, rig: Rig, surface: SurfaceMesh, mesh: TetMesh, radius: float
) -> Ints:
    if bones is None:
        skinned = skinned_rigs(rig)
        if len(skinned) != 1:
            warn("the rig has no skeleton, and no bones are given; nothing holds its flesh")
            return np.empty(0, np.int64)
        bones = Bones.of_rig(skinned[0])
    if isinstance(bones, Bones):
        return held_tets(bones, surface, mesh, radius).vertices
    listed = np.asarray(bones)
    if listed.size and (listed.dtype.kind not in "iu" or listed.min() < 0):
        raise SuppleError("fixed vertices must be a list of vertex numbers")
    if listed.size and listed.max() >= len(mesh.vertices):
        raise SuppleError(
            f"fixed vertex {listed.max()} is not there; there are {len(mesh.vertices)}"
        )
    return np.unique(listed.astype(np.int64))
