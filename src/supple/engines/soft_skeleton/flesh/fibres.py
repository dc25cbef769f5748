"""Fibres of the flesh: along the bones, for orthotropic materials (tapia2021 §4.1)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats
from supple.elastic.material import Material
from supple.mesh.tets import TetMesh
from supple.rig.skeleton.skinning import SkinnedRig
from supple.rig.tets.bones import Bones

#: Young's moduli along the fibres, outwards and around, relative to their geometric mean.
ALONG, OUTWARDS, AROUND = 2.0, 2.0**-0.5, 2.0**-0.5


def with_fibres(
    material: Material,
    rig: SkinnedRig,
    names: tuple[str, ...],
    weights: sp.csr_array,
    mesh: TetMesh,
) -> Material:
    """Return an orthotropic material with fibres along the bones; unchanged if it has axes.

    `weights` (n, K) are skinning weights of the bones `names` at the vertices of the tets. The
    material has one Young's modulus, or one for each tet: the geometric mean of those along axes.
    """
    if material.isotropic or material.axes is not None:
        return material
    young = np.broadcast_to(np.asarray(material.young, np.float64), (len(mesh.tets),))
    axes = fibre_axes(rig, names, weights, mesh)
    return replace(material, young=young[:, None] * [ALONG, OUTWARDS, AROUND], axes=axes)


def fibre_axes(
    rig: SkinnedRig, names: tuple[str, ...], weights: sp.csr_array, mesh: TetMesh
) -> Floats:
    """Return axes (T, 3, 3) of tets: columns along the bones, outwards from them, and around.

    The direction is the mean of those of the bones that a tet follows, by weight, so that fibres
    are continuous over joints.
    """
    starts, directions, lengths = _segments(rig, names, mesh)
    corners = np.repeat(np.arange(len(mesh.tets)), 4), mesh.tets.ravel()
    shape = len(mesh.tets), len(mesh.vertices)
    by_tet = sp.csr_array(sp.coo_array((np.full(len(corners[0]), 0.25), corners), shape) @ weights)
    shares = by_tet.toarray()
    strongest = shares.argmax(axis=1)
    lead = directions[strongest]
    signs = np.sign(lead @ directions.T)  # fibres have no sense of direction
    along = (shares * np.where(signs == 0, 1.0, signs)) @ directions
    along = _unit(along, lead)
    middles = mesh.vertices[mesh.tets].mean(axis=1)
    offsets = middles - starts[strongest]
    heights = np.clip((offsets * lead).sum(axis=1), 0.0, lengths[strongest])
    outwards = offsets - heights[:, None] * lead
    outwards -= (outwards * along).sum(axis=1, keepdims=True) * along
    aside = np.eye(3)[np.abs(along).argmin(axis=1)]
    aside = aside - (aside * along).sum(axis=1, keepdims=True) * along
    outwards = _unit(outwards, _unit(aside, aside))
    return np.stack([along, outwards, np.cross(along, outwards)], axis=2)


def _segments(
    rig: SkinnedRig, names: tuple[str, ...], mesh: TetMesh
) -> tuple[Floats, Floats, Floats]:
    """Return start (K, 3), direction (K, 3) and length (K,) of each bone: its longest segment."""
    bones = Bones.of_rig(rig)
    starts, lengths = np.zeros((len(names), 3)), np.zeros(len(names))
    directions = np.tile(_longest_axis(mesh), (len(names), 1))
    place = {name: k for k, name in enumerate(names)}
    for start, end, name in zip(bones.starts, bones.ends, bones.names, strict=True):
        length, k = float(np.linalg.norm(end - start)), place.get(name)
        if k is not None and length > lengths[k]:
            starts[k], directions[k], lengths[k] = start, (end - start) / length, length
    return starts, directions, lengths


def _longest_axis(mesh: TetMesh) -> Floats:
    """Return the axis of the largest extent, for bones without a length."""
    axis: Floats = np.eye(3)[int(np.ptp(mesh.vertices, axis=0).argmax())]
    return axis


def _unit(vectors: Floats, otherwise: Floats) -> Floats:
    """Return unit vectors (m, 3), those of `otherwise` where they are nearly zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Floats = np.where(norms > 1e-9, vectors / np.maximum(norms, 1e-300), otherwise)
    return result
