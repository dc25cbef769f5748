"""Cubature of a soft skeleton: few tets that stand for the energy of all, few points for mass."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.flesh_energy import (
    FleshTables,
    add_flesh_terms,
    add_tet_forces,
    flesh_tables,
    rest_stiffness,
)
from supple.engines.soft_skeleton.flesh.pressed_samples import flesh_samples
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.linalg.nnls import nonnegative_fit

#: How firmly weights are pulled towards the volumes around the chosen tets.
TOWARDS_VOLUMES = 0.003
#: Least weight of a chosen tet, in the volume around it.
LEAST = 0.05
#: Iterations of Lloyd's method.
LLOYD = 12
#: Deformations that weights are fitted to, those that tets are chosen by, and unseen ones.
FITTED, CHOSEN_BY, UNSEEN = 300, 60, 90
#: Candidates beside tets that stay, what a round of removal leaves, and tets that every coordinate
#: keeps.
CANDIDATES, LEFT, KEPT = 2.5, 0.8, 3

Tell = Callable[[float, str], None]


class TetCubature(NamedTuple):
    """Tets, their weights, and how well they do."""

    tables: FleshTables
    """The tets and their weights."""
    stiffness: Floats
    """(m, m) ∂²W/∂φ² of all tets at rest."""
    error: float
    """Mean ‖f̂ − f‖/‖f‖ of forces at deformations that weights were not fitted to."""


class FleshInCoordinates(NamedTuple):
    """Flesh of a layer in coordinates φ."""

    layer: FleshLayer
    shapes: list[sp.csr_array]
    whole: FleshTables
    stiffness: Floats

    @classmethod
    def of(cls, layer: FleshLayer, shapes: list[sp.csr_array]) -> FleshInCoordinates:
        """Return the tables of all, and their stiffness at rest."""
        soft = layer.soft
        whole = flesh_tables(layer.mesh, layer.material, shapes, soft, np.ones(len(soft)))
        return cls(layer, shapes, whole, rest_stiffness(layer.material, whole, shapes[0].shape[1]))

    def tables(self, tets: Ints, weights: Floats) -> FleshTables:
        """Return the tables of some tets."""
        return flesh_tables(self.layer.mesh, self.layer.material, self.shapes, tets, weights)

    def forces(self, tables: FleshTables, phi: Floats) -> Floats:
        """(m,) ∂W/∂φ of some tets."""
        found = np.zeros(len(phi))
        code = self.layer.material.code
        add_flesh_terms(code, 1.0, tables, phi, 0, found, np.zeros((1, 1)), 1)
        return found

    def stiffness_parts(self, tables: FleshTables, young: Floats) -> sp.csr_array:
        """(c, m) about the part of each tet in the stiffness of each coordinate."""
        columns = tables.strains if tables.strains.size else tables.gradients
        rows = np.repeat(np.arange(len(young)), np.diff(tables.starts))
        values = (columns**2).sum(axis=0) * (young * tables.volumes)[rows]
        shape = len(young), len(self.stiffness)
        found = sp.csr_array((values, tables.columns, tables.starts), shape)
        total = np.asarray(found.sum(axis=0)).ravel()
        return sp.csr_array(found @ sp.diags_array(1 / np.maximum(total, 1e-300)))

    def unseen_error(self, tables: FleshTables, seed: int) -> float:
        """Mean error at deformations that no build with this seed fits weights to."""
        return self.error(
            tables, flesh_samples(self.layer, self.shapes, self.stiffness, UNSEEN, seed + 1)
        )

    def error(self, tables: FleshTables, samples: Floats) -> float:
        """Mean ‖f̂ − f‖/‖f‖ over samples (s, m)."""
        errors = []
        for phi in samples:
            exact = self.forces(self.whole, phi)
            missed = np.linalg.norm(self.forces(tables, phi) - exact)
            errors.append(missed / max(float(np.linalg.norm(exact)), 1e-300))
        return float(np.mean(errors))


def fitted_cubature(
    layer: FleshLayer, shapes: list[sp.csr_array], count: int, seed: int, tell: Tell | None = None
) -> TetCubature:
    """Choose tets by Lloyd's method where they matter, and fit weights ≥ 0 to forces.

    Tets matter by their part of the stiffness of each coordinate, and by their part of sampled
    forces: spread by volume alone 700 of them missed half of the force (0.51; 0.25 by forces alone,
    0.19 by stiffness alone, 0.14 by both). From 2.5 times as many those with the least part of the
    fitted forces are removed, a fifth at a time (0.08).

    Parameters
    ----------
    layer, shapes
        The flesh, and x, y and z of Ψ (n, m).
    count
        How many tets; all that are strained where they are fewer.
    seed
        Of deformations and of the start of Lloyd's method; unseen deformations have the next.
    tell
        Told what part is done.
    """
    say = tell or (lambda part, what: None)
    flesh = FleshInCoordinates.of(layer, shapes)
    samples = flesh_samples(layer, shapes, flesh.stiffness, FITTED, seed)
    say(0.1, "tets that matter")
    strained = np.diff(flesh.whole.starts) > 0
    candidates = layer.soft[strained]
    if count >= len(candidates):
        tables = flesh.tables(candidates, np.ones(len(candidates)))
        return TetCubature(tables, flesh.stiffness, flesh.unseen_error(tables, seed))
    matters = _importance(flesh, samples[:CHOSEN_BY])[strained]
    more = min(int(CANDIDATES * count), len(candidates))
    tets, volumes = _lloyd_tets(flesh, candidates, matters, more, seed)
    gram, right = _normal_equations(flesh, tets, samples, say)
    say(0.8, "weights")
    tets, weights = _few(flesh, tets, volumes, gram, right, count)
    tables = flesh.tables(tets, weights)
    return TetCubature(tables, flesh.stiffness, flesh.unseen_error(tables, seed))


def _importance(flesh: FleshInCoordinates, samples: Floats) -> Floats:
    """(c,) how much each of all tets matters, of sum 1."""
    whole, young = flesh.whole, flesh.layer.youngs[flesh.layer.soft]
    own = np.asarray(flesh.stiffness_parts(whole, young).sum(axis=1)).ravel()
    forces, pull = np.zeros((len(own), samples.shape[1])), np.zeros(len(own))
    for phi in samples:
        forces[:] = 0.0
        add_tet_forces(flesh.layer.material.code, whole, phi, forces)
        total = max(float(np.linalg.norm(forces.sum(axis=0))), 1e-300)
        pull += np.linalg.norm(forces, axis=1) / total
    return own / own.sum() + pull / pull.sum()


def lloyd_centres(places: Floats, matters: Floats, count: int, seed: int) -> tuple[Ints, Ints]:
    """Return which of places (n, 3) are nearest to centres of weighted clusters, and clusters (n,).

    Parameters
    ----------
    places, matters
        (n, 3), and (n,) weights.
    count
        How many clusters; fewer where some are empty.
    seed
        Of the start.
    """
    random, part = np.random.default_rng(seed), matters / matters.sum()
    few = min(count, int((part > 0).sum()))
    centres = places[random.choice(len(places), few, replace=False, p=part)]
    for _ in range(LLOYD):
        owner = cKDTree(centres).query(places)[1]
        heavy = np.bincount(owner, part, few)
        sums = [np.bincount(owner, part * places[:, i], few) for i in range(3)]
        moved = np.column_stack(sums) / np.maximum(heavy, 1e-300)[:, None]
        centres = np.where(heavy[:, None] > 0, moved, centres)
    away, owner = cKDTree(centres).query(places)
    order = np.lexsort((away, owner))
    first = np.unique(owner[order], return_index=True)[1]
    _, owner = np.unique(owner, return_inverse=True)
    return order[first], owner


def _lloyd_tets(
    flesh: FleshInCoordinates, candidates: Ints, matters: Floats, count: int, seed: int
) -> tuple[Ints, Floats]:
    """Return chosen tets, ascending, and the volumes around them in their own."""
    mesh = flesh.layer.mesh
    volumes = mesh.volumes()[candidates]
    places = mesh.vertices[mesh.tets[candidates]].mean(axis=1)
    nearest, owner = lloyd_centres(places, matters, count, seed)
    around = np.bincount(owner, volumes) / volumes[nearest]
    order = np.argsort(nearest)
    return candidates[nearest[order]], around[order]


def _normal_equations(
    flesh: FleshInCoordinates, tets: Ints, samples: Floats, say: Tell
) -> tuple[Floats, Floats]:
    """AᵀA and Aᵀb of forces of each tet, scaled by K_cc^(−1/4): weak coordinates count, too."""
    single = flesh.tables(tets, np.ones(len(tets)))
    scale = np.maximum(np.diag(flesh.stiffness), 1e-12 * np.diag(flesh.stiffness).max()) ** -0.25
    own, rows, totals = np.zeros((len(tets), samples.shape[1])), [], []
    for s, phi in enumerate(samples):
        if s % 30 == 0:
            say(0.2 + 0.5 * s / len(samples), f"forces {s}/{len(samples)}")
        own[:] = 0.0
        add_tet_forces(flesh.layer.material.code, single, phi, own)
        total = flesh.forces(flesh.whole, phi) * scale
        length = max(float(np.linalg.norm(total)), 1e-300)
        rows.append(sp.csr_array(own * (scale / length)))
        totals.append(total / length)
    columns = sp.csr_array(sp.hstack(rows))
    return (columns @ columns.T).toarray(), columns @ np.concatenate(totals)


def _few(
    flesh: FleshInCoordinates, tets: Ints, volumes: Floats, gram: Floats, right: Floats, count: int
) -> tuple[Ints, Floats]:
    """Fit weights, remove tets with little of the forces, fit again, until few are left."""
    young = flesh.layer.youngs
    around = volumes
    while True:
        weights = _weights(gram, right, volumes)
        if len(tets) <= count:
            return tets, np.maximum(weights, LEAST * around)
        part = weights**2 * np.diag(gram)
        tables = flesh.tables(tets, np.maximum(weights, LEAST * around))
        own = sp.csc_array(flesh.stiffness_parts(tables, young[tets]))
        part[_largest(own, KEPT)] = np.inf
        kept = np.sort(np.argsort(-part, kind="stable")[: max(count, int(LEFT * len(tets)))])
        volumes = np.maximum(weights[kept], LEAST * around[kept])
        tets, around, right = tets[kept], around[kept], right[kept]
        gram = gram[np.ix_(kept, kept)]


def _weights(gram: Floats, right: Floats, volumes: Floats) -> Floats:
    """Weights ≥ 0 that fit forces, pulled towards volumes, each as a part of its own."""
    scaled = gram * np.outer(volumes, volumes)
    pull = TOWARDS_VOLUMES * float(np.diag(scaled).mean())
    return nonnegative_fit(scaled + pull * np.eye(len(scaled)), right * volumes + pull) * volumes


def _largest(columns: sp.csc_array, count: int) -> Ints:
    """Rows of the largest entries of each column."""
    found = []
    for c in range(columns.shape[1]):
        begin, end = columns.indptr[c], columns.indptr[c + 1]
        order = np.argsort(-columns.data[begin:end], kind="stable")[:count]
        found.append(columns.indices[begin:end][order])
    return np.unique(np.concatenate(found))


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
    heavy = np.flatnonzero(masses > 0)
    if count >= len(heavy):
        return heavy, masses[heavy]
    nearest, owner = lloyd_centres(places[heavy], masses[heavy], count, seed)
    chosen, near = heavy[nearest], np.bincount(owner, masses[heavy])
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
