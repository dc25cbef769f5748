"""Rigs put on tets link by link: the same deformers, with tables of their own for tet vertices."""

from __future__ import annotations

import copy

import numpy as np

from supple.arrays import Floats
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.deformers.bend import Bend
from supple.rig.deformers.blend_shapes import BlendShapeRig
from supple.rig.deformers.chain import RigChain
from supple.rig.deformers.free_form import Lattice
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

__all__ = ["rig_on_tets"]

#: Smoothness of displacements and influences that are extended, in edges of a tet: the boundary
#: must do what the surface does.
SMOOTHNESS = 0.05
#: Part of the body's size that a rig on tets may be off at rest.
OFF_REST = 1e-6


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
    samples = SurfaceSamples.of(surface, mesh)
    found = _carried(rig, mesh, samples)
    if found is not None:
        off = np.abs(found(found.rest_pose) - mesh.vertices).max()
        if off <= OFF_REST * mesh.size and _same_names(found, rig):
            return found
    return ShepardRig(rig, surface.vertices, mesh.vertices)


def _same_names(one: Rig, other: Rig) -> bool:
    return tuple(one.parameters) == tuple(other.parameters)


def _carried(rig: Rig, mesh: TetMesh, samples: SurfaceSamples) -> Rig | None:
    """Return the same kind of rig on tet vertices; None for a class that is not known."""
    kind = type(rig)
    if kind is SkinnedRig:
        return _carried_skin(rig, mesh, samples)  # type: ignore[arg-type]
    if kind in (Bend, Twist, Lattice):
        twin = copy.copy(rig)
        twin.rest_points = mesh.vertices.copy()  # type: ignore[attr-defined]
        return twin
    if kind is Wire:
        influence = _extended(mesh, samples, rig.influence[:, None])[:, 0]  # type: ignore[attr-defined]
        influence = np.clip(influence, 0.0, rig.influence.max(initial=0.0))  # type: ignore[attr-defined]
        return Wire(
            mesh.vertices,
            rig.control_points,  # type: ignore[attr-defined]
            turning=rig.turning,  # type: ignore[attr-defined]
            influence=influence,
            name=rig.parameters[0].name.rsplit(".", 2)[0],
        )
    if kind is BlendShapeRig:
        return _carried_shapes(rig, mesh, samples)  # type: ignore[arg-type]
    if kind is PoseSpaceDeformation:
        return _carried_corrections(rig, mesh, samples)  # type: ignore[arg-type]
    if kind is RigChain:
        links = [_carried(link, mesh, samples) for link in rig.rigs]  # type: ignore[attr-defined]
        if any(link is None for link in links):
            return None
        return RigChain(*links)  # type: ignore[arg-type]
    return None


def _extended(mesh: TetMesh, samples: SurfaceSamples, values: Floats) -> Floats:
    return harmonic_extension(mesh, samples, values, SMOOTHNESS)


def _carried_skin(rig: SkinnedRig, mesh: TetMesh, samples: SurfaceSamples) -> SkinnedRig:
    joints, weights = carried_influences(rig, mesh, samples)
    bound = rig.with_influences(mesh.vertices, joints, weights)
    return rig.with_influences(bound_positions(bound), joints, weights)


def _carried_shapes(
    rig: BlendShapeRig, mesh: TetMesh, samples: SurfaceSamples
) -> BlendShapeRig | None:
    base = _carried(rig.base, mesh, samples)
    if base is None:
        return None
    count = len(rig.names)
    flat = rig.deltas.transpose(1, 0, 2).reshape(rig.n_vertices, -1)
    spread = _extended(mesh, samples, flat).reshape(-1, count, 3)
    # What no shape moves on the surface stays where it is inside.
    faint = 1e-3 * np.abs(spread).max(axis=(0, 2), keepdims=True)
    deltas = np.where(np.abs(spread).max(axis=2, keepdims=True) > faint, spread, 0.0)
    deltas = np.ascontiguousarray(deltas.transpose(1, 0, 2))
    rest = rig.rest_pose[len(rig.base.parameters) :]
    if np.any(rest) and isinstance(base, SkinnedRig):
        bound = base.vertices - np.einsum("b,bvi->vi", rest, deltas)
        base = base.with_influences(bound, base.joints, base.weights)
    return BlendShapeRig(base, deltas, rig.names, rest=rest)  # type: ignore[arg-type]


def _carried_corrections(
    rig: PoseSpaceDeformation, mesh: TetMesh, samples: SurfaceSamples
) -> PoseSpaceDeformation | None:
    base = _carried(rig.base, mesh, samples)
    if base is None:
        return None
    flat = rig.corrections.transpose(1, 0, 2).reshape(rig.n_vertices, -1)
    spread = _extended(mesh, samples, flat).reshape(len(mesh.vertices), -1, 3)
    deltas = np.ascontiguousarray(spread.transpose(1, 0, 2))
    return PoseSpaceDeformation(base, rig.poses, deltas, rig.pose_weights)
