"""Points embedded in a hexahedral mesh: location, and interpolation of its motion."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.checks import numbers
from supple.errors import MeshError
from supple.mesh.embedding import corner_matrix, locate
from supple.mesh.hexes import CORNERS, OUTWARD_QUADS, HexMesh, shape_functions, shape_gradients
from supple.mesh.tets import TetMesh
from supple.mesh.topology import face_keys

# A cube cut along its diagonal from corner 0 to corner 6.
_TETS = np.array(
    [[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]]
)
# The face that lies beyond the low and the high end of each axis.
_BEYOND = np.array([[5, 3], [2, 4], [0, 1]])
# Step in reference coordinates that ends Newton's method, and most iterations.
_EXACT, _ITERATIONS = 1e-13, 30
# Points outside by at most this count as inside: rounding.
_GAP = 1e-9
# Largest number of moves of a point to a neighbour, across curved faces.
_MOVES = 6


class HexLocation(NamedTuple):
    """Locations of points in a hex mesh."""

    hex: Ints
    """Hex that contains each point, or one near it, (k,)."""
    reference: Floats
    """Coordinates in the unit cube, (k, 3), of the point or, outside, of a point near it."""
    distance: Floats
    """Distance of each point from the hex, (k,); 0 inside."""


def embed_hexes(points: ArrayLike, mesh: HexMesh) -> csr_array:
    """Return the matrix that interpolates points from a mesh, trilinearly.

    Points outside are extrapolated linearly from the nearest point of a hex, so that they follow
    any affine motion of the mesh exactly.

    Parameters
    ----------
    points : (k, 3) array
        Positions of the points for the given mesh.
    mesh : HexMesh
        The mesh of n vertices.

    Returns
    -------
    (k, n) csr_array
        Eight weights a row; ``embed_hexes(points, mesh) @ mesh.vertices`` are the points. The
        transpose maps forces on the points to the mesh.

    Examples
    --------
    >>> mesh = HexMesh(CORNERS, [range(8)])
    >>> embed_hexes([[0.5, 0.0, 0.0]], mesh).toarray().round(9) + 0.0
    array([[0.5, 0.5, 0. , 0. , 0. , 0. , 0. , 0. ]])
    """
    where = locate_hexes(points, mesh)
    places = np.asarray(points, np.float64)
    corners = mesh.vertices[mesh.hexes[where.hex]]
    weights = shape_functions(where.reference)
    outside = np.flatnonzero(where.distance > 0)
    if len(outside):
        slopes = shape_gradients(where.reference[outside])
        nearest = np.einsum("ka,kac->kc", weights[outside], corners[outside])
        tangents = np.einsum("kac,kad->kcd", corners[outside], slopes)
        step = np.linalg.solve(tangents, (places[outside] - nearest)[:, :, None])
        weights[outside] += (slopes @ step)[:, :, 0]
    return corner_matrix(mesh.hexes[where.hex], weights, len(mesh.vertices))


def locate_hexes(points: ArrayLike, mesh: HexMesh) -> HexLocation:
    """Find the hex that contains each point, or else one near it.

    Raises
    ------
    MeshError
        If points are not finite coordinates, or hexes are inverted or flat.
    """
    places = np.ascontiguousarray(numbers("points", points, "coordinates of shape (k, 3)"))
    if not (mesh.jacobians() > 0).all():
        bad = int((mesh.jacobians() <= 0).any(axis=1).argmax())
        raise MeshError(f"hex {bad} is inverted or flat; nothing can be embedded in it")
    if places.ndim != 2 or places.shape[1] != 3 or not np.isfinite(places).all():
        raise MeshError("points must be finite coordinates of shape (k, 3)")
    # The hex with the nearest centre or a neighbour contains the point, unless hexes are elongated
    # or the point is outside; then all are searched.
    centres = mesh.vertices[mesh.hexes].mean(axis=1)
    hexes_at = np.asarray(cKDTree(centres).query(places)[1], np.int64).reshape(len(places))
    reference = _reference(places, mesh, hexes_at, np.full(places.shape, 0.5))
    _move_to_neighbours(places, mesh, hexes_at, reference)
    outside = np.flatnonzero(_excess(reference) > _GAP)
    if len(outside):
        hexes_at[outside], start = _nearest(places[outside], mesh)
        again, nearest = (
            hexes_at[outside],
            _reference(places[outside], mesh, hexes_at[outside], start),
        )
        _move_to_neighbours(places[outside], mesh, again, nearest)
        hexes_at[outside], reference[outside] = again, nearest
    inside = np.clip(reference, 0.0, 1.0)
    out = _excess(reference) > _GAP
    distance = np.zeros(len(places))
    corners = mesh.vertices[mesh.hexes[hexes_at[out]]]
    nearest = np.einsum("ka,kac->kc", shape_functions(inside[out]), corners)
    distance[out] = np.linalg.norm(places[out] - nearest, axis=1)
    reference[out] = inside[out]
    return HexLocation(hexes_at, reference, distance)


def _nearest(places: Floats, mesh: HexMesh) -> tuple[Ints, Floats]:
    """Find the hex nearest to each point, with faces taken as flat, and initial coordinates."""
    near = locate(places, TetMesh(mesh.vertices, mesh.hexes[:, _TETS].reshape(-1, 4)))
    corners = CORNERS[_TETS[near.tet % 6]].astype(np.float64)
    start = np.einsum("ka,kac->kc", near.barycentric, corners)
    return near.tet // 6, np.clip(start, 0.0, 1.0)


def _excess(reference: Floats) -> Floats:
    """Return the distance outside the unit cube along the worst axis; negative inside."""
    return np.maximum(-reference, reference - 1.0).max(axis=1, initial=-1.0)


def _reference(places: Floats, mesh: HexMesh, hexes: Ints, start: Floats) -> Floats:
    """Find reference coordinates of points in their hexes, by Newton's method.
    Without convergence (far outside a bent hex) the start is returned.
    """
    corners = mesh.vertices[mesh.hexes[hexes]]
    corners = corners - corners[:, :1]
    goal = places - mesh.vertices[mesh.hexes[hexes, 0]]
    xi = start.copy()
    todo = np.arange(len(places))
    for _ in range(_ITERATIONS):
        if len(todo) == 0:
            break
        nodes = corners[todo]
        miss = goal[todo] - np.einsum("ka,kac->kc", shape_functions(xi[todo]), nodes)
        tangents = np.einsum("kac,kad->kcd", nodes, shape_gradients(xi[todo]))
        regular = np.abs(np.linalg.det(tangents)) > 0
        tangents[~regular] = np.eye(3)
        step = np.where(regular[:, None], np.linalg.solve(tangents, miss[:, :, None])[:, :, 0], 0.0)
        # Steps are bounded by the element's size, as hexes fold over far outside.
        longest = np.abs(step).max(axis=1, keepdims=True)
        step /= np.maximum(longest, 1.0)
        xi[todo] += step
        todo = todo[longest[:, 0] > _EXACT * (1.0 + np.abs(xi[todo]).max(axis=1))]
    lost = ~np.isfinite(xi).all(axis=1)
    xi[lost] = start[lost]
    return xi


def _move_to_neighbours(places: Floats, mesh: HexMesh, hexes_at: Ints, reference: Floats) -> None:
    """Move points beyond a face of their hex to the neighbour if they are more inside.
    The search uses tets with flat faces, while hexes may have curved ones.
    """
    keys = face_keys(mesh.hexes, OUTWARD_QUADS, len(mesh.vertices))
    _, face, uses = np.unique(keys, return_inverse=True, return_counts=True)
    total = np.bincount(face, np.arange(len(keys)) // 6)  # sum of the one or two hexes at a face
    for _ in range(_MOVES):
        todo = np.flatnonzero(_excess(reference) > _GAP)
        axis = np.abs(reference[todo] - 0.5).argmax(axis=1)
        side = (reference[todo, axis] > 0.5).astype(np.int64)
        number = 6 * hexes_at[todo] + _BEYOND[axis, side]
        shared = uses[face[number]] == 2
        todo, number = todo[shared], number[shared]
        if len(todo) == 0:
            return
        other = (total[face[number]] - hexes_at[todo]).astype(np.int64)
        trial = _reference(places[todo], mesh, other, np.full((len(todo), 3), 0.5))
        better = _excess(trial) < _excess(reference[todo])
        if not better.any():
            return
        hexes_at[todo[better]], reference[todo[better]] = other[better], trial[better]
