"""Stiffness of what shapes do to the skin and the tets do not see."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.engines.rig_space.flesh_rig import FleshRig
from supple.mesh.embedding import embed_parts
from supple.mesh.surface import SurfaceMesh
from supple.mesh.tets import TetMesh
from supple.rig.jacobian import rig_jacobian
from supple.rig.protocol import Rig
from supple.rig.tets.surface_samples import typical_edge


def unresolved_stiffness(
    surface: SurfaceMesh, rig: Rig, mesh: TetMesh, moved: FleshRig, material: Material
) -> Floats:
    """(k, k) Σ_v a_v E_v/ℓ r_vᵀr_v, with r the skin's motion by shapes less that of its tets.

    A cell of width ℓ that the skin shears by r resists like a layer of that thickness. Without it,
    eight shapes of cheeks and neck that move three vertices of a coarse head can cancel each other:
    weights went from 0 to 1 in a step, and nothing held them.

    Parameters
    ----------
    surface, rig
        The skin, and the rig that moves it.
    mesh, moved
        Tets, and the rig on them, at rest with its Jacobian.
    material
        Of the tets.
    """
    k = len(moved.entries)
    shapes = np.flatnonzero(moved.shapes)
    found = np.zeros((k, k))
    if not len(shapes):
        return found
    n = len(surface.vertices)
    places = embed_parts(surface, surface.vertices, np.arange(n), mesh)
    skin = np.empty((n, 3, len(shapes)))
    rig_jacobian(rig, moved.entries[shapes]).evaluate(np.array(rig.rest_pose, np.float64), skin)
    tets = moved.jacobian[:, :, shapes].reshape(len(mesh.vertices), -1)
    left = skin.reshape(n, -1) - places @ tets
    much = surface.vertex_areas() * _skin_young(mesh, material, places) / typical_edge(mesh)
    left = (np.sqrt(much)[:, None] * left).reshape(3 * n, len(shapes))
    found[np.ix_(shapes, shapes)] = left.T @ left
    return found


def _skin_young(mesh: TetMesh, material: Material, places: csr_array) -> Floats:
    """(n̄,) Young's modulus of the tets around each vertex of the skin."""
    young = np.broadcast_to(np.asarray(material.young, np.float64), (len(mesh.tets),))
    corners, n = mesh.tets.ravel(), len(mesh.vertices)
    total = np.bincount(corners, np.repeat(young, 4), n)
    firm = total / np.maximum(np.bincount(corners, minlength=n), 1)
    # Skin outside of the tets is extrapolated to.
    return np.clip(places @ firm, young.min(), young.max())
