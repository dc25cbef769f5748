"""Cubature of a soft skeleton: few tets for its energy, few points for its mass."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.cluster.vq import kmeans2

from supple.arrays import Floats, Ints
from supple.elastic.material import Material
from supple.engines.soft_skeleton.flesh.flesh_energy import (
    FleshTables,
    add_flesh_terms,
    add_tet_forces,
    flesh_tables,
)
from supple.linalg.nnls import nonnegative_fit
from supple.mesh.tets import TetMesh

__all__ = ["force_samples", "lloyd_tets", "mass_weights", "weighed_tets"]

#: How firmly weights are pulled towards the volumes around the chosen tets.
TOWARDS_VOLUMES = 0.02
#: Iterations of Lloyd's method.
LLOYD = 12


def lloyd_tets(mesh: TetMesh, candidates: Ints, count: int, seed: int) -> tuple[Ints, Floats]:
    """Return tets spread evenly over candidates, and how many times its own volume each has.

    Parameters
    ----------
    mesh, candidates
        Tets, and which of them may be chosen.
    count
        How many; all where they are fewer.
    seed
        Of the start of Lloyd's method.
    """
    volumes = mesh.volumes()[candidates]
    if count >= len(candidates):
        return candidates, np.ones(len(candidates))
    places = mesh.vertices[mesh.tets[candidates]].mean(axis=1)
    random = np.random.default_rng(seed)
    start = places[random.choice(len(places), count, replace=False, p=volumes / volumes.sum())]
    centres, owner = kmeans2(places, start, iter=LLOYD, minit="matrix", missing="warn")
    found, weights = [], []
    for k in np.unique(owner):
        own = np.flatnonzero(owner == k)
        nearest = own[np.linalg.norm(places[own] - centres[k], axis=1).argmin()]
        found.append(candidates[nearest])
        weights.append(volumes[own].sum() / volumes[nearest])
    order = np.argsort(found)
    return np.array(found)[order], np.array(weights)[order]


def force_samples(stiffness: Floats, count: int, strain: float, seed: int) -> Floats:
    """(count, m) coordinates of flesh that is moved by a few handles, about equal in energy.

    Parameters
    ----------
    stiffness
        (m, m) of the flesh at rest.
    count
        How many.
    strain
        Length of each, as a part of what one J does.
    seed
        Of the draw.
    """
    random = np.random.default_rng(seed)
    m = len(stiffness)
    drawn = random.standard_normal((count, m)) * (random.random((count, m)) < 4 / max(m / 3, 4))
    energy = np.einsum("si,ij,sj->s", drawn, stiffness, drawn)
    return strain * drawn / np.sqrt(np.maximum(energy, 1e-300))[:, None]


def weighed_tets(
    mesh: TetMesh,
    material: Material,
    shapes: list[sp.csr_array],
    whole: FleshTables,
    tets: Ints,
    volumes: Floats,
    samples: Floats,
) -> tuple[FleshTables, float]:
    """Fit weights ≥ 0 of tets to forces on samples, pulled towards volumes; also the error.

    Parameters
    ----------
    mesh, material, shapes
        As for `flesh_tables`.
    whole
        All tets.
    tets, volumes
        (c,) chosen ones, and the volumes around them, in their own.
    samples
        (s, m) coordinates; every third one is not fitted to, but measures the error.
    """
    kind, m = material.code, samples.shape[1]
    single = flesh_tables(mesh, material, shapes, tets, np.ones(len(tets)))
    gram, right = np.zeros((len(tets), len(tets))), np.zeros(len(tets))
    none, rows = np.zeros((1, 1)), []
    for s, phi in enumerate(samples):
        total = np.zeros(m)
        add_flesh_terms(kind, 1.0, whole, phi, 0, total, none, 1)
        own = np.zeros((len(tets), m))
        add_tet_forces(kind, single, phi, own)
        length = max(float(np.linalg.norm(total)), 1e-300)
        rows.append((own / length, total / length))
        if s % 3 < 2:
            gram += rows[-1][0] @ rows[-1][0].T
            right += rows[-1][0] @ rows[-1][1]
    pull = TOWARDS_VOLUMES * np.diag(gram).mean() / max(float(volumes.mean()) ** 2, 1e-300)
    towards = pull * np.eye(len(tets))
    # Weights are pulled as parts of the volume around each.
    scale = np.outer(volumes, volumes)
    fitted = nonnegative_fit(
        gram * scale + towards * volumes.mean() ** 2, right * volumes + pull * volumes.mean() ** 2
    )
    weights = fitted * volumes
    held_out = [
        float(np.linalg.norm(own.T @ weights - total))
        for s, (own, total) in enumerate(rows)
        if s % 3 == 2
    ]
    kept = weights > 0
    table = flesh_tables(mesh, material, shapes, tets[kept], weights[kept])
    return table, float(np.mean(held_out)) if held_out else 0.0


def mass_weights(
    places: Floats, masses: Floats, weights: sp.csr_array, count: int, seed: int
) -> tuple[Ints, Floats]:
    """Choose points, and masses for them with which every bone has the moments of all points.

    Parameters
    ----------
    places, masses
        (n, 3), (n,) of all points, at rest.
    weights
        (n, K) of the bones.
    count
        How many points to choose, spread evenly.
    seed
        Of the start of Lloyd's method.
    """
    random = np.random.default_rng(seed)
    heavy = np.flatnonzero(masses > 0)
    if count >= len(heavy):
        return heavy, masses[heavy]
    own = masses[heavy] / masses[heavy].sum()
    start = places[random.choice(heavy, count, replace=False, p=own)]
    centres, owner = kmeans2(places[heavy], start, iter=LLOYD, minit="matrix", missing="warn")
    found, lumped = [], []
    for k in np.unique(owner):
        group = heavy[owner == k]
        found.append(group[np.linalg.norm(places[group] - centres[k], axis=1).argmin()])
        lumped.append(masses[group].sum())
    chosen, near = np.array(found), np.array(lumped)
    # Σ m w_k (1, x, x xᵀ) of each bone, about its middle and in its size.
    rows, targets = [], []
    bones = sp.csc_array(weights)
    for k in range(weights.shape[1]):
        own = bones[:, [k]].toarray().ravel() * masses
        if own.sum() <= 1e-6 * masses.sum():
            continue
        middle = own @ places / own.sum()
        away = places - middle
        size = np.sqrt(max(float(own @ (away**2).sum(axis=1) / own.sum()), 1e-12))
        away = away / size
        terms = np.column_stack(
            [
                np.ones(len(away)),
                away,
                *(away[:, i] * away[:, j] for i in range(3) for j in range(i, 3)),
            ]
        )
        part = bones[:, [k]].toarray().ravel()[:, None] * terms
        rows.append(part[chosen].T * near)
        targets.append(masses @ part)
    A, b = np.concatenate(rows), np.concatenate(targets)
    scale = 1.0 / max(float(masses.sum()), 1e-300)
    A, b = A * scale, b * scale
    firm = 1e-6
    gram = A.T @ A + firm * np.diag(near * scale) ** 2
    fitted = nonnegative_fit(gram, A.T @ b + firm * (near * scale) ** 2)
    kept = fitted > 0
    return chosen[kept], (fitted * near)[kept]
