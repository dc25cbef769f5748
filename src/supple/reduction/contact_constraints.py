"""Constraints that contacts impose, as rows of a matrix: C u = 0."""

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

# A corner with a smaller part of the touched point than this is not touched.
_PART = 1e-6


def contact_constraints(
    contacts: BoundaryContacts, n_vertices: int, *, kind: ContactKind = "two-sided"
) -> sp.csr_array:
    """Return C of the constraints C u = 0 that keep contacts as they are (xu2016 §6).

    Parameters
    ----------
    contacts
        At one pose.
    n_vertices
        Of the tet mesh.
    kind
        ``"two-sided"``: N · (u_a - Σ β u_b) = 0, a vertex neither enters the triangle it
        touches nor leaves it, but both sides move together and slide; each pair of touching
        patches is counted once, see `one_way`. ``"one-sided"``: Nᵀ S u = 0, every vertex in
        contact slides in its plane of contact. ``"fixed"``: S u = 0, it does not move. Obstacles
        do not move, so their contacts are one-sided where others are two-sided.

    Returns
    -------
    csr_array, (rows, 3 n_vertices)
        In world coordinates at the pose; unknown 3 v + axis is vertex v's. Rows have length 1
        and follow the order of the contacts. Some may still depend on others.

    Raises
    ------
    SuppleError
        If there is no such kind, or a vertex is not there.
    """
    if kind not in get_args(ContactKind):
        raise SuppleError(f'no kind "{kind}" of contact; use {", ".join(get_args(ContactKind))}')
    last = max(contacts.vertices.max(initial=-1), contacts.others.max(initial=-1))
    if last >= n_vertices:
        raise SuppleError(f"a contact has vertex {last}, but there are {n_vertices} vertices")
    if kind == "fixed":
        held = 3 * np.unique(contacts.vertices)[:, None] + np.arange(3)
        return _rows(np.ones((held.size, 1)), held.reshape(-1, 1), n_vertices)
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
    """Make rows of as many values each; the same column twice in a row adds up, zeros go."""
    rows = np.repeat(np.arange(len(values)), values.shape[1])
    shape = len(values), 3 * n_vertices
    matrix = sp.csr_array((values.ravel(), (rows, columns.ravel())), shape)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def one_way(contacts: BoundaryContacts) -> Ints:
    """Choose contacts that count each pair of touching patches once, ascending.

    Where patches touch, vertices of both are found. If both kinds were kept, each side would
    have to be what the other interpolates to: only linear motions of the patches are left,
    and flesh that touches would be stiff. So patches are gone through, first those that most
    vertices touch, and a vertex is left out when a triangle of its own is touched already: the
    finer side keeps its contacts.

    Returns
    -------
    (k,) int array
        Numbers of contacts, those with obstacles included.
    """
    own = np.flatnonzero(contacts.obstacles < 0)
    vertices, compact = np.unique(
        np.column_stack([contacts.vertices[own], contacts.others[own]]), return_inverse=True
    )
    compact = compact.reshape(-1, 4)
    patch = _patches(compact, len(vertices))[compact[:, 1]]  # the touched one
    sizes = np.bincount(patch)[patch] if len(own) else patch
    order = np.lexsort([compact[:, 0], patch, -sizes])
    touched = np.where(contacts.barycentric[own] > _PART, compact[:, 1:], -1)
    kept = own[_untouched(order, compact[:, 0].copy(), touched, len(vertices))]
    return np.union1d(kept, np.flatnonzero(contacts.obstacles >= 0))


def _patches(compact: Ints, count: int) -> Ints:
    """Label vertices by patch: corners of one touched triangle are in one."""
    ends = compact[:, [1, 1]].ravel(), compact[:, [2, 3]].ravel()
    graph = sp.coo_array((np.ones(len(ends[0]), bool), ends), (count, count))
    return connected_components(graph, directed=False)[1].astype(np.int64)


@compiled
def _untouched(order: Ints, vertices: Ints, touched: Ints, count: int) -> Bools:
    """Mark contacts to keep: in this order, none whose vertex an earlier one touches."""
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
