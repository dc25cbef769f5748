"""Transfer of a surface's rig to tets: the same deformers, with data of the tet vertices."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Floats, ShortInts
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.protocol import Rig, optional_method
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.skinned_tets import extended_influences, harmonic_extension
from supple.rig.tets.surface_samples import SurfaceSamples

#: Smoothness of extended displacements and influences, in edges of a tet: small, so that the
#: boundary moves as the surface does.
SMOOTHNESS = 0.05
#: Largest error of a rig on tets at rest, relative to the body's size.
OFF_REST = 1e-6
#: Displacements below this part of the largest of their shape are set to zero.
FAINT = 1e-3
#: Vertices of surface and tets nearer than this part of the size are the same.
SAME = 1e-7


def rig_on_tets(rig: Rig, surface: SurfaceMesh, mesh: TetMesh) -> Rig:
    """Return a rig of the tets that fill a surface, with the parameters of the surface's rig.

    Rigs with a method ``on_tets(transfer)`` return it: skins with extended weights, shapes and
    corrections with extended displacements, wires with extended influences; bends, twists and
    lattices move any point. Flesh inside then rotates as the surface does, and no surface vertex
    is evaluated. All other rigs are interpolated from the nearest surface vertices (`ShepardRig`),
    which shears flesh that rotates.
    """
    transferred = _Transfer(surface, mesh).rig(rig)
    if transferred is not None:
        error = np.abs(transferred(transferred.rest_pose) - mesh.vertices).max()
        same_parameters = tuple(transferred.parameters) == tuple(rig.parameters)
        if error <= OFF_REST * mesh.size and same_parameters:
            return transferred
    return ShepardRig(rig, surface.vertices, mesh.vertices)


class _Transfer:
    """Extension of a surface's values to the vertices of tets; see `TetTransfer`."""

    def __init__(self, surface: SurfaceMesh, mesh: TetMesh) -> None:
        self.vertices, self._mesh = mesh.vertices, mesh
        self._samples = SurfaceSamples.of(surface, mesh)
        distances, self._nearest = cKDTree(surface.vertices).query(mesh.vertices)
        self._same = np.flatnonzero(distances <= SAME * mesh.size)

    def rig(self, rig: Rig) -> Rig | None:
        """Return a rig on the tet vertices; None if its class has no method for it."""
        transfer = optional_method(rig, "on_tets")
        return None if transfer is None else transfer(self)

    def influences(self, skin: SkinnedRig) -> tuple[ShortInts, Floats]:
        """Return joints (n, k) and weights (n, k) of the tet vertices."""
        return extended_influences(skin, self._mesh, self._samples)

    def extended(self, values: Floats) -> Floats:
        """Extend values (n̄, c) of the surface; vertices of both keep theirs."""
        extension = harmonic_extension(self._mesh, self._samples, values, SMOOTHNESS)
        extension[self._same] = values[self._nearest[self._same]]
        return extension

    def extended_displacements(self, deltas: Floats) -> Floats:
        """Extend displacements (…, n̄, 3), and set faint ones of each set to zero."""
        leading = deltas.shape[:-2]
        flat = deltas.reshape(-1, *deltas.shape[-2:]).transpose(1, 0, 2)
        extension = self.extended(flat.reshape(len(flat), -1)).reshape(-1, flat.shape[1], 3)
        faint = FAINT * np.abs(extension).max(axis=(0, 2), keepdims=True, initial=0.0)
        visible = np.abs(extension).max(axis=2, keepdims=True) > faint
        out = np.ascontiguousarray(np.where(visible, extension, 0.0).transpose(1, 0, 2))
        return out.reshape(*leading, *out.shape[-2:])
