"""Rigs put on tets link by link: the same deformers, with tables of their own for tet vertices."""

from __future__ import annotations

import copy

import numpy as np
from scipy.spatial import cKDTree

from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.free_form import Lattice
from supple.rig.deformers.pose_blend_shapes import PoseBlendShapeRig
from supple.rig.deformers.pose_space_deformation import PoseSpaceDeformation
from supple.rig.deformers.twist import Twist
from supple.rig.deformers.wire import Wire
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.carried_weights import (
    bound_positions,
    carried_influences,
    harmonic_extension,
)
from supple.rig.tets.shepard import ShepardRig
from supple.rig.tets.surface_samples import SurfaceSamples

#: Smoothness of displacements and influences that are extended, in edges of a tet: the boundary
#: must do what the surface does.
SMOOTHNESS = 0.05
#: Part of the body's size that a rig on tets may be off at rest.
OFF_REST = 1e-6
#: Displacements of less than this part of the largest of their shape are none.
FAINT = 1e-3
#: Vertices of surface and tets that are this near, as a part of the size, are the same.
SAME = 1e-7


def rig_on_tets(rig: Rig, surface: SurfaceMesh, mesh: TetMesh) -> Rig:
    """Return a rig of the tets with the parameters of the surface's.

    Skins have weights of their own for tet vertices, shapes and corrections displacements, wires
    influences; bends, twists and lattices move any point. Flesh inside then turns as the surface
    does, and no surface vertex is placed for it. Any other rig is followed by displacements of
    the nearest surface vertices (`ShepardRig`), which shear what turns.

    Parameters
    ----------
    rig, surface
        The surface at the rig's rest pose.
    mesh
        Tets that fill it.
    """
    found = _carried(rig, _Carrier(surface, mesh))
    if found is not None:
        off = np.abs(found(found.rest_pose) - mesh.vertices).max()
        if off <= OFF_REST * mesh.size and _same_names(found, rig):
            return found
    return ShepardRig(rig, surface.vertices, mesh.vertices)


def _same_names(one: Rig, other: Rig) -> bool:
    return tuple(one.parameters) == tuple(other.parameters)


def _carried(rig: Rig, carrier: _Carrier) -> Rig | None:
    """Return the same kind of rig on tet vertices; None for a class that is not known."""
    kind = type(rig)
    if kind is SkinnedRig:
        return _carried_skin(rig, carrier)  # type: ignore[arg-type]
    if kind in (Bend, Twist, Lattice):
        twin = copy.copy(rig)
        twin.rest_points = carrier.mesh.vertices.copy()  # type: ignore[attr-defined]
        return twin
    if kind is Wire:
        influence = carrier.extended(rig.influence[:, None])[:, 0]  # type: ignore[attr-defined]
        influence = np.clip(influence, 0.0, rig.influence.max(initial=0.0))  # type: ignore[attr-defined]
        return Wire(
            carrier.mesh.vertices,
            rig.control_points,  # type: ignore[attr-defined]
            turning=rig.turning,  # type: ignore[attr-defined]
            influence=influence,
            name=rig.parameters[0].name.rsplit(".", 2)[0],
        )
    if kind is BlendShapeRig:
        return _carried_shapes(rig, carrier)  # type: ignore[arg-type]
    if kind is PoseBlendShapeRig:
        base = _carried_skin(rig.base, carrier)  # type: ignore[attr-defined]
        deltas = carrier.spread(rig.deltas)  # type: ignore[attr-defined]
        return PoseBlendShapeRig(base, deltas, rig.joints)  # type: ignore[attr-defined]
    if kind is PoseSpaceDeformation:
        return _carried_corrections(rig, carrier)  # type: ignore[arg-type]
    if kind is RigChain:
        links = [_carried(link, carrier) for link in rig.rigs]  # type: ignore[attr-defined]
        if any(link is None for link in links):
            return None
        return RigChain(*links)  # type: ignore[arg-type]
    return None


class _Carrier:
    """Tets, and the way that values of the surface are carried to them."""

    def __init__(self, surface: SurfaceMesh, mesh: TetMesh) -> None:
        self.mesh, self.samples = mesh, SurfaceSamples.of(surface, mesh)
        away, self._nearest = cKDTree(surface.vertices).query(mesh.vertices)
        self._same = np.flatnonzero(away <= SAME * mesh.size)

    def extended(self, values: Floats) -> Floats:
        """Extend values (n̄, c) of the surface; what is a vertex of both has the same there."""
        found = harmonic_extension(self.mesh, self.samples, values, SMOOTHNESS)
        found[self._same] = values[self._nearest[self._same]]
        return found

    def spread(self, deltas: Floats) -> Floats:
        """Extend displacements (…, n̄, 3); what a set leaves on the surface stays inside."""
        leading = deltas.shape[:-2]
        flat = deltas.reshape(-1, *deltas.shape[-2:]).transpose(1, 0, 2)
        spread = self.extended(flat.reshape(len(flat), -1)).reshape(-1, flat.shape[1], 3)
        faint = FAINT * np.abs(spread).max(axis=(0, 2), keepdims=True, initial=0.0)
        kept = np.where(np.abs(spread).max(axis=2, keepdims=True) > faint, spread, 0.0)
        out = np.ascontiguousarray(kept.transpose(1, 0, 2))
        return out.reshape(*leading, *out.shape[-2:])


def _carried_skin(rig: SkinnedRig, carrier: _Carrier) -> SkinnedRig:
    joints, weights = carried_influences(rig, carrier.mesh, carrier.samples)
    bound = rig.with_influences(carrier.mesh.vertices, joints, weights)
    return rig.with_influences(bound_positions(bound), joints, weights)


def _carried_shapes(rig: BlendShapeRig, carrier: _Carrier) -> BlendShapeRig | None:
    base = _carried(rig.base, carrier)
    if base is None:
        return None
    deltas = carrier.spread(rig.deltas)
    rest = rig.rest_pose[len(rig.base.parameters) :]
    if np.any(rest) and isinstance(base, SkinnedRig):
        bound = base.vertices - np.einsum("b,bvi->vi", rest, deltas)
        base = base.with_influences(bound, base.joints, base.weights)
    return BlendShapeRig(base, deltas, rig.names, rest=rest)  # type: ignore[arg-type]


def _carried_corrections(
    rig: PoseSpaceDeformation, carrier: _Carrier
) -> PoseSpaceDeformation | None:
    base = _carried(rig.base, carrier)
    if base is None:
        return None
    flat = rig.corrections.transpose(1, 0, 2).reshape(rig.n_vertices, -1)
    spread = carrier.extended(flat).reshape(len(carrier.mesh.vertices), -1, 3)
    deltas = np.ascontiguousarray(spread.transpose(1, 0, 2))
    return PoseSpaceDeformation(base, rig.poses, deltas, rig.pose_weights)
