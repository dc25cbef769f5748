"""Constraints and bodies that tests of modes and bases share."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.mesh.tets import TetMesh
from supple.scenes.bodies.beam import beam


def units(rng, count):
    normals = rng.standard_normal((count, 3))
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def rows_of(n_vertices, *rows):
    """Return a matrix with a row for each list of (vertex, vector)."""
    matrix = np.zeros((len(rows), 3 * n_vertices))
    for row, parts in zip(matrix, rows, strict=True):
        for vertex, vector in parts:
            row[3 * vertex : 3 * vertex + 3] += vector
    return sp.csr_array(matrix)


def sliding(rng, n_vertices, vertices):
    return rows_of(
        n_vertices,
        *([(v, n)] for v, n in zip(vertices, units(rng, len(vertices)), strict=True)),
    )


def two_sided(rng, n_vertices, pairs):
    normals = units(rng, len(pairs))
    return rows_of(
        n_vertices, *([(a, n), (b, -n)] for (a, b), n in zip(pairs, normals, strict=True))
    )


def some_constraints(n, free):
    rng = np.random.default_rng(0)
    chosen = rng.permutation(free)
    local = sliding(rng, n, chosen[:10])
    pairs = two_sided(rng, n, chosen[10:22].reshape(-1, 2))
    chain = two_sided(rng, n, np.stack([chosen[30:35], chosen[31:36]], axis=1))
    return sp.csr_array(sp.vstack([local, pairs, chain, pairs[[2]], local[[0]]]))


def same_span(A, B, mass):
    root = np.sqrt(np.repeat(mass, 3))[:, None]
    cosines = np.linalg.svd((root * A).T @ (root * B), compute_uv=False)
    return np.abs(cosines - 1).max() < 1e-9


def joined(*meshes):
    start = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    return TetMesh(
        np.vstack([m.vertices for m in meshes]),
        np.vstack([m.tets + s for m, s in zip(meshes, start, strict=False)]),
    )


def bent_beam(kind="stvk", cells=(6, 2, 2)):
    """Return a body, a deformed rest shape, its stiffness there and its free vertices."""
    mesh = beam(cells=cells)
    young = (
        [1e5, 2e5, 4e5]
        if kind in ("orthotropic", "saturating")
        else np.linspace(1e5, 2e5, len(mesh.tets))
    )
    body = ElasticBody(mesh, Material(kind, young=young, poisson=0.3))
    rest = mesh.vertices + np.outer(mesh.vertices[:, 0] ** 2, [0.0, 0.2, 0.5])
    free = np.flatnonzero(mesh.vertices[:, 0] > 1e-9)
    return body, rest, body.stiffness(rest, rest=rest).copy(), free
