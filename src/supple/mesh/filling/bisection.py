"""Local refinement of tets by bisection of edges, and cuts along a surface."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.mesh.tets import EDGES, TetMesh
from supple.mesh.topology import row_keys

#: Least part of an edge between its end and a cut.
NEAREST = 0.2
#: Most rounds; each halves the longest edges of marked tets.
MOST_ROUNDS = 40


def refined(
    mesh: TetMesh, marked: Callable[[Floats, Ints, Floats], Bools], most: int = 1_000_000
) -> TetMesh:
    """Return tets bisected until none is marked; existing vertices come first.

    A marked tet is halved across its longest edge, together with all tets around that edge. If the
    edge is not their longest, theirs are halved first (Rivara 1984), so that angles stay bounded.
    ``marked(vertices, tets, longest)`` returns a mask (T,), with the length (T,) of the longest
    edge. No round begins with more than `most` tets.
    """
    vertices, tets = mesh.vertices, mesh.tets
    origin = np.arange(len(tets))
    for _ in range(MOST_ROUNDS):
        edges, pairs, lengths = _edges(vertices, tets)
        side = _ranks(lengths)[edges].argmax(axis=1)
        longest = edges[np.arange(len(tets)), side]
        chosen = marked(vertices, tets, lengths[longest])
        if not chosen.any() or len(tets) > most:
            break
        split = _terminal_edges(edges, longest, chosen, len(lengths))
        middles = vertices[pairs[split]].mean(axis=1)
        tets, origin = _halved(tets, origin, edges, side, split, len(vertices))
        vertices = np.concatenate([vertices, middles])
    return _with_sets(mesh, vertices, tets, origin)


def cut(mesh: TetMesh, levels: Floats) -> tuple[TetMesh, Floats]:
    """Return tets cut where levels (n,) change sign, and levels of all vertices.

    New vertices are at zeros of the level along edges, with level 0, so that no tet has corners on
    both sides. Zeros nearer to an end than `NEAREST` of an edge are moved away from it.
    """
    vertices, tets = mesh.vertices, mesh.tets
    origin, levels = np.arange(len(tets)), np.asarray(levels, np.float64)
    while True:
        edges, pairs, lengths = _edges(vertices, tets)
        crossing = levels[pairs[:, 0]] * levels[pairs[:, 1]] < 0
        if not crossing.any():
            return _with_sets(mesh, vertices, tets, origin), levels
        ranks = np.where(crossing, 1 + _ranks(lengths), 0)
        side = ranks[edges].argmax(axis=1)
        first = edges[np.arange(len(tets)), side]
        blocked = np.zeros(len(lengths), bool)
        for k in range(6):
            blocked[edges[edges[:, k] != first, k]] = True
        split = crossing & ~blocked
        a, b = pairs[split].T
        part = np.clip(levels[a] / (levels[a] - levels[b]), NEAREST, 1 - NEAREST)[:, None]
        tets, origin = _halved(tets, origin, edges, side, split, len(vertices))
        vertices = np.concatenate([vertices, (1 - part) * vertices[a] + part * vertices[b]])
        levels = np.concatenate([levels, np.zeros(int(split.sum()))])


def _halved(
    tets: Ints, origin: Ints, edges: Ints, side: Ints, split: Bools, n: int
) -> tuple[Ints, Ints]:
    """Return tets halved across their edges `side` (T,) where these are in the mask `split`.

    New vertices are numbered from n, in the order of the edges; `origin` is inherited.
    """
    number = np.full(len(split), -1)
    number[split] = n + np.arange(int(split.sum()))
    middles = number[edges[np.arange(len(tets)), side]]
    halved = np.flatnonzero(middles >= 0)
    children = []
    for end in range(2):
        child = tets[halved].copy()
        child[np.arange(len(halved)), EDGES[side[halved], end]] = middles[halved]
        children.append(child)
    kept = middles < 0
    together = np.concatenate([tets[kept], *children])
    return together, np.concatenate([origin[kept], origin[halved], origin[halved]])


def _with_sets(mesh: TetMesh, vertices: Floats, tets: Ints, origin: Ints) -> TetMesh:
    """Return a mesh whose tets are in the sets of the tets (T,) they come from."""
    sets = {name: np.flatnonzero(np.isin(origin, listed)) for name, listed in mesh.sets.items()}
    return TetMesh(vertices, tets, sets)


def _edges(vertices: Floats, tets: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the edge (T, 6) of each tet's sides, and the ends (k, 2) and lengths (k,) of edges."""
    ends = np.sort(tets[:, EDGES].reshape(-1, 2), axis=1)
    keys = row_keys(ends, len(vertices))
    _, first, edges = np.unique(keys, return_index=True, return_inverse=True)
    pairs = ends[first]
    lengths = np.linalg.norm(vertices[pairs[:, 0]] - vertices[pairs[:, 1]], axis=1)
    return edges.reshape(-1, 6), pairs, lengths


def _ranks(lengths: Floats) -> Ints:
    """Return the rank of each edge by length; rounding does not decide between equal ones."""
    ranks, order = np.empty(len(lengths), np.int64), np.arange(len(lengths))
    ranks[np.lexsort((order, np.round(lengths / lengths.max(), 9)))] = order
    return ranks


def _terminal_edges(edges: Ints, longest: Ints, chosen: Bools, count: int) -> Bools:
    """Return the mask of edges to halve: each is the longest edge of all tets around it."""
    requested = np.zeros(count, bool)
    requested[longest[chosen]] = True
    while True:  # a tet with a requested edge must first be halved across its longest
        around = requested[edges].any(axis=1)
        more = requested.copy()
        more[longest[around]] = True
        if (more == requested).all():
            break
        requested = more
    blocked = np.zeros(count, bool)
    for side in range(6):
        inner = edges[:, side] != longest
        blocked[edges[inner, side]] = True
    return requested & ~blocked
