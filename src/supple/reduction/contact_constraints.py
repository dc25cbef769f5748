"""Linear constraints C u = 0 of contacts."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled
from supple.errors import SuppleError
from supple.mesh.boundary_contacts import BoundaryContacts

ContactKind = Literal["two-sided", "one-sided", "fixed"]

# Smallest barycentric weight of a corner that counts as in contact.
_PART = 1e-6


def contact_constraints(
    contacts: BoundaryContacts, n_vertices: int, *, kind: ContactKind = "two-sided"
) -> sp.csr_array:
    """Return C of the constraints C u = 0 that preserve contacts (xu2016 §6).

    Parameters
    ----------
    contacts
        Contacts at one pose.
    n_vertices
        Number of vertices of the tet mesh.
    kind
        ``"two-sided"``: N · (u_a - Σ β u_b) = 0, a vertex neither penetrates its triangle nor
        separates from it, but both sides move together and slide; each pair of patches in contact
        counts once, see `one_way`. ``"one-sided"``: Nᵀ S u = 0, every vertex in contact slides in
        its contact plane. ``"fixed"``: S u = 0, vertices in contact do not move. Obstacles are
        static, so their contacts are one-sided where others are two-sided.

    Returns
    -------
    csr_array, (rows, 3 n_vertices)
        In world coordinates at the pose; unknowns 3 v to 3 v + 2 belong to vertex v. Rows have
        length 1 and the order of the contacts. They may be linearly dependent.

    Raises
    ------
    SuppleError
        If the kind is unknown, or a vertex does not exist.
    """
    if kind not in get_args(ContactKind):
        raise SuppleError(f'contact kind "{kind}"; use {", ".join(get_args(ContactKind))}')
    last = max(contacts.vertices.max(initial=-1), contacts.others.max(initial=-1))
    if last >= n_vertices:
        raise SuppleError(f"a contact has vertex {last}, but there are {n_vertices} vertices")
    if kind == "fixed":
        unknowns = 3 * np.unique(contacts.vertices)[:, None] + np.arange(3)
        return _rows(np.ones((unknowns.size, 1)), unknowns.reshape(-1, 1), n_vertices)
    if kind == "two-sided":
        contacts = contacts[one_way(contacts)]
        vertices = np.column_stack([contacts.vertices, contacts.others])
        parts = np.column_stack([np.ones(len(contacts)), -contacts.barycentric])
    else:
        vertices, parts = contacts.vertices[:, None], np.ones((len(contacts), 1))
    parts = np.where(vertices < 0, 0.0, parts)  # obstacles do not move
    parts = parts / np.linalg.norm(parts, axis=1, keepdims=True)
    values = parts[:, :, None] * contacts.normals[:, None, :]
    columns = 3 * np.maximum(vertices, 0)[:, :, None] + np.arange(3)
    shape = len(contacts), 3 * vertices.shape[1]
    return _rows(values.reshape(shape), columns.reshape(shape), n_vertices)


def _rows(values: Floats, columns: Ints, n_vertices: int) -> sp.csr_array:
    """Return a matrix of rows of equal length; repeated columns add up, zeros are removed."""
    rows = np.repeat(np.arange(len(values)), values.shape[1])
    shape = len(values), 3 * n_vertices
    matrix = sp.csr_array((values.ravel(), (rows, columns.ravel())), shape)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def one_way(contacts: BoundaryContacts) -> Ints:
    """Return the numbers (k,), ascending, of contacts that count each pair of patches in contact
    once, contacts with obstacles included.

    Contacts are found from the vertices of both patches. With all of them each side would have to
    interpolate the other, which leaves only linear motions of the patches and makes flesh in
    contact stiff. So patches are processed in the order of their number of contacts, and the
    contact of a vertex is dropped if a contact on one of the vertex's own triangles is kept: the
    finer side keeps its contacts.
    """
    internal = np.flatnonzero(contacts.obstacles < 0)
    vertices, compact = np.unique(
        np.column_stack([contacts.vertices[internal], contacts.others[internal]]),
        return_inverse=True,
    )
    compact = compact.reshape(-1, 4)
    patch = _patches(compact, len(vertices))[compact[:, 1]]  # of the triangle
    sizes = np.bincount(patch)[patch] if len(internal) else patch
    order = np.lexsort([compact[:, 0], patch, -sizes])
    touched = np.where(contacts.barycentric[internal] > _PART, compact[:, 1:], -1)
    chosen = internal[_untouched(order, compact[:, 0].copy(), touched, len(vertices))]
    return np.union1d(chosen, np.flatnonzero(contacts.obstacles >= 0))


def _patches(compact: Ints, count: int) -> Ints:
    """Return the patch of each vertex; the corners of a triangle in contact are in one patch."""
    ends = compact[:, [1, 1]].ravel(), compact[:, [2, 3]].ravel()
    graph = sp.coo_array((np.ones(len(ends[0]), bool), ends), (count, count))
    return connected_components(graph, directed=False)[1].astype(np.int64)


@compiled
def _untouched(order: Ints, vertices: Ints, touched: Ints, count: int) -> Bools:
    """Return a mask of contacts whose vertex is on no triangle of a contact kept before.

    Contacts are visited in `order`; `touched` (k, 3) are corners of their triangles, or −1.
    """
    kept = np.zeros(len(vertices), np.bool_)
    taken = np.zeros(count, np.bool_)
    for i in order:
        if taken[vertices[i]]:
            continue
        kept[i] = True
        for corner in touched[i]:
            if corner >= 0:
                taken[corner] = True
    return kept
