"""Cubature of a soft skeleton: a few tets for the elastic energy, a few points for the mass."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.flesh_energy import (
    add_flesh_terms,
    add_tet_forces,
    flesh_tables,
    rest_stiffness,
)
from supple.engines.soft_skeleton.flesh.invariant_flesh import FleshTables
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.nnls import nonnegative_fit
from supple.linalg.sparse import symmetrised
from supple.mesh.biharmonic import bilaplacian
from supple.mesh.tets import TetMesh
from supple.progress import Progress, unreported

#: Largest displacement of the skin, as a fraction of the flesh thickness.
MOST_PRESSED = 0.3
#: Handles displaced at once, number of softest modes, and radii of pushes in sizes of the body.
MOVED, MODES, RADII = 4, 40, (0.01, 0.05)
#: Weight of the regularisation towards the volumes around the chosen tets.
TOWARDS_VOLUMES = 0.003
#: Smallest weight of a chosen tet, as a fraction of the volume around it.
LEAST = 0.05
#: Iterations of Lloyd's method.
LLOYD = 12
#: Numbers of deformations for the fit, for the choice of tets, and held out.
FITTED, CHOSEN_BY, UNSEEN = 300, 60, 90
#: Candidates per chosen tet, fraction left by a round of removal, and tets kept per coordinate.
CANDIDATES, LEFT, KEPT = 2.5, 0.8, 3


def flesh_samples(
    layer: FleshLayer, shapes: list[sp.csr_array], stiffness: Floats, count: int, seed: int
) -> Floats:
    """Return coordinates φ (count, m) that contact and motion may cause.

    They are a few displaced handles, mixed modes and normal pushes in turn. The skin's largest
    displacement over the flesh thickness is random, between 0 and 0.3. `shapes` are x, y and z of
    Ψ (n, m), and `stiffness` (m, m) is ∂²W/∂φ² at rest.
    """
    random, m = np.random.default_rng(seed), len(stiffness)
    outer, positions = layer.outer, layer.mesh.vertices[layer.outer]
    thick = cKDTree(layer.mesh.vertices[layer.held]).query(positions)[0]
    thick = np.maximum(thick, 1e-3 * layer.mesh.size)  # zero where bone of another finger touches
    skin = [sp.csr_array(each[outer]) for each in shapes]
    pushed = _pushes(layer, skin, stiffness, random)
    values, modes = scipy.linalg.eigh(stiffness, subset_by_index=[0, min(MODES, m) - 1])
    modes = modes / np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    samples = np.zeros((count, m))
    for s, phi in enumerate(samples):
        if s % 3 == 0:
            handles = random.choice(-(-m // 3), min(MOVED, -(-m // 3)), replace=False)
            columns = (3 * handles[:, None] + np.arange(3)).ravel() % m
            phi[columns] = random.standard_normal(len(columns))
        elif s % 3 == 1:
            phi[:] = modes @ random.standard_normal(modes.shape[1])
        else:
            phi[:] = pushed()
        distances = np.sqrt(sum((each @ phi) ** 2 for each in skin))
        phi *= MOST_PRESSED * random.random() / max(float((distances / thick).max()), 1e-300)
    return samples


def _pushes(
    layer: FleshLayer, skin: list[sp.csr_array], stiffness: Floats, random: np.random.Generator
) -> Callable[[], Floats]:
    """Return a function that draws the response −K⁻¹Ψᵀn (m,) to loads n on a random skin patch."""
    m, positions = len(stiffness), layer.mesh.vertices[layer.outer]
    size = float(np.ptp(layer.mesh.vertices, axis=0).max())
    firm = stiffness + 1e-9 * np.trace(stiffness) / m * np.eye(m)
    factor = scipy.linalg.cho_factor(firm)
    reached: Ints = np.flatnonzero(np.diff(skin[0].indptr))

    def drawn() -> Floats:
        middle = positions[random.choice(reached)]
        radius = size * random.uniform(*RADII)
        near = np.linalg.norm(positions - middle, axis=1) <= radius
        load = sum(-(each[near].T @ layer.normals[near, i]) for i, each in enumerate(skin))
        return np.asarray(scipy.linalg.cho_solve(factor, load))

    return drawn


class TetCubature(NamedTuple):
    """Tets with weights, and their error."""

    tables: FleshTables  # the tets and their weights
    stiffness: Floats  # (m, m) ∂²W/∂φ² of all tets at rest
    error: float  # mean ‖f̂ − f‖/‖f‖ of forces at deformations that weights were not fitted to


class FleshInCoordinates(NamedTuple):
    """Flesh of a layer in coordinates φ."""

    layer: FleshLayer
    shapes: list[sp.csr_array]  # x, y and z of Ψ (n, m)
    all_tables: FleshTables  # all soft tets, with weight 1
    stiffness: Floats  # (m, m) ∂²W/∂φ² of all tets at rest

    @classmethod
    def of(cls, layer: FleshLayer, shapes: list[sp.csr_array]) -> FleshInCoordinates:
        """Return the record with the tables of all soft tets, and their stiffness at rest."""
        soft = layer.soft
        tables = flesh_tables(layer.mesh, layer.material, shapes, soft, np.ones(len(soft)))
        return cls(
            layer, shapes, tables, rest_stiffness(layer.material, tables, shapes[0].shape[1])
        )

    def tables(self, tets: Ints, weights: Floats) -> FleshTables:
        """Return the tables of tets (c,) with weights (c,)."""
        return flesh_tables(self.layer.mesh, self.layer.material, self.shapes, tets, weights)

    def forces(self, tables: FleshTables, phi: Floats) -> Floats:
        """Return ∂W/∂φ (m,) of the tets in `tables`."""
        total = np.zeros(len(phi))
        code = self.layer.material.code
        add_flesh_terms(code, 1.0, tables, phi, 0, total, np.zeros((1, 1)), 1)
        return total

    def stiffness_parts(self, tables: FleshTables, young: Floats) -> sp.csr_array:
        """Return approximate fractions (c, m) of tets in the stiffness of each coordinate."""
        columns = tables.strains if tables.strains.size else tables.gradients
        rows = np.repeat(np.arange(len(young)), np.diff(tables.starts))
        values = (columns**2).sum(axis=0) * (young * tables.volumes)[rows]
        shape = len(young), len(self.stiffness)
        parts = sp.csr_array((values, tables.columns, tables.starts), shape)
        total = np.asarray(parts.sum(axis=0)).ravel()
        return sp.csr_array(parts @ sp.diags_array(1 / np.maximum(total, 1e-300)))

    def unseen_error(self, tables: FleshTables, seed: int) -> float:
        """Return the mean relative error of forces at deformations drawn with `seed` + 1."""
        samples = flesh_samples(self.layer, self.shapes, self.stiffness, UNSEEN, seed + 1)
        return self.error(tables, samples)

    def error(self, tables: FleshTables, samples: Floats) -> float:
        """Return the mean ‖f̂ − f‖/‖f‖ over samples (s, m): f̂ of `tables`, f of all tets."""
        errors = []
        for phi in samples:
            exact = self.forces(self.all_tables, phi)
            missed = np.linalg.norm(self.forces(tables, phi) - exact)
            errors.append(missed / max(float(np.linalg.norm(exact)), 1e-300))
        return float(np.mean(errors))


def fitted_cubature(
    layer: FleshLayer,
    shapes: list[sp.csr_array],
    count: int,
    seed: int,
    report: Progress = unreported,
) -> TetCubature:
    """Choose `count` tets by importance with Lloyd's method, and fit weights ≥ 0 to forces.

    The importance of a tet is its fraction of the stiffness of each coordinate plus its fraction of
    sampled forces. Chosen by volume alone, 700 tets had an error of 0.51; by forces alone 0.25, by
    stiffness alone 0.19, by both 0.14. Starting from 2.5 times as many and removing a fifth at a
    time, smallest forces first, gives 0.08. Held-out deformations use the next seed.
    """
    flesh = FleshInCoordinates.of(layer, shapes)
    samples = flesh_samples(layer, shapes, flesh.stiffness, FITTED, seed)
    report(0.1, "choosing cubature tets")
    strained = np.diff(flesh.all_tables.starts) > 0
    candidates = layer.soft[strained]
    if count >= len(candidates):
        tables = flesh.tables(candidates, np.ones(len(candidates)))
        return TetCubature(tables, flesh.stiffness, flesh.unseen_error(tables, seed))
    importance = _importance(flesh, samples[:CHOSEN_BY])[strained]
    more = min(int(CANDIDATES * count), len(candidates))
    tets, volumes = _lloyd_tets(flesh, candidates, importance, more, seed)
    gram, right = _normal_equations(flesh, tets, samples, report)
    report(0.8, "weights")
    tets, weights = _few(flesh, tets, volumes, gram, right, count)
    tables = flesh.tables(tets, weights)
    return TetCubature(tables, flesh.stiffness, flesh.unseen_error(tables, seed))


def _importance(flesh: FleshInCoordinates, samples: Floats) -> Floats:
    """Return the importance (c,) of all soft tets, which sums to 2; see `fitted_cubature`."""
    tables, young = flesh.all_tables, flesh.layer.youngs[flesh.layer.soft]
    stiff = np.asarray(flesh.stiffness_parts(tables, young).sum(axis=1)).ravel()
    forces, pull = np.zeros((len(stiff), samples.shape[1])), np.zeros(len(stiff))
    for phi in samples:
        forces[:] = 0.0
        add_tet_forces(flesh.layer.material.code, tables, phi, forces)
        total = max(float(np.linalg.norm(forces.sum(axis=0))), 1e-300)
        pull += np.linalg.norm(forces, axis=1) / total
    return stiff / stiff.sum() + pull / pull.sum()


def lloyd_centres(
    positions: Floats, importance: Floats, count: int, seed: int
) -> tuple[Ints, Ints]:
    """Return indices of the positions nearest to centres of clusters, and clusters (n,).

    Positions (n, 3) have weights `importance` (n,); empty clusters are dropped.
    """
    random, part = np.random.default_rng(seed), importance / importance.sum()
    clusters = min(count, int((part > 0).sum()))
    centres = positions[random.choice(len(positions), clusters, replace=False, p=part)]
    for _ in range(LLOYD):
        owner = cKDTree(centres).query(positions)[1]
        heavy = np.bincount(owner, part, clusters)
        sums = [np.bincount(owner, part * positions[:, i], clusters) for i in range(3)]
        means = np.column_stack(sums) / np.maximum(heavy, 1e-300)[:, None]
        centres = np.where(heavy[:, None] > 0, means, centres)
    distances, owner = cKDTree(centres).query(positions)
    order = np.lexsort((distances, owner))
    first = np.unique(owner[order], return_index=True)[1]
    _, owner = np.unique(owner, return_inverse=True)
    return order[first], owner


def _lloyd_tets(
    flesh: FleshInCoordinates, candidates: Ints, importance: Floats, count: int, seed: int
) -> tuple[Ints, Floats]:
    """Return chosen tets, ascending, and volumes of their clusters relative to the tets' own."""
    mesh = flesh.layer.mesh
    volumes = mesh.volumes()[candidates]
    positions = mesh.vertices[mesh.tets[candidates]].mean(axis=1)
    nearest, owner = lloyd_centres(positions, importance, count, seed)
    around = np.bincount(owner, volumes) / volumes[nearest]
    order = np.argsort(nearest)
    return candidates[nearest[order]], around[order]


def _normal_equations(
    flesh: FleshInCoordinates, tets: Ints, samples: Floats, report: Progress
) -> tuple[Floats, Floats]:
    """Return AᵀA (c, c) and Aᵀb (c,) for the fit of weights to forces at the samples.

    A has a column of forces per tet, b the total forces. They are scaled by K_cc^(−1/4), so that
    soft coordinates count, and such that the total force of each sample has norm 1.
    """
    single = flesh.tables(tets, np.ones(len(tets)))
    scale = np.maximum(np.diag(flesh.stiffness), 1e-12 * np.diag(flesh.stiffness).max()) ** -0.25
    forces, rows, totals = np.zeros((len(tets), samples.shape[1])), [], []
    for s, phi in enumerate(samples):
        if s % 30 == 0:
            report(0.2 + 0.5 * s / len(samples), f"forces {s}/{len(samples)}")
        forces[:] = 0.0
        add_tet_forces(flesh.layer.material.code, single, phi, forces)
        total = flesh.forces(flesh.all_tables, phi) * scale
        length = max(float(np.linalg.norm(total)), 1e-300)
        rows.append(sp.csr_array(forces * (scale / length)))
        totals.append(total / length)
    columns = sp.csr_array(sp.hstack(rows))
    return (columns @ columns.T).toarray(), columns @ np.concatenate(totals)


def _few(
    flesh: FleshInCoordinates, tets: Ints, volumes: Floats, gram: Floats, right: Floats, count: int
) -> tuple[Ints, Floats]:
    """Return `count` tets and their weights, after rounds that remove tets with small forces."""
    young = flesh.layer.youngs
    around = volumes
    while True:
        weights = _weights(gram, right, volumes)
        if len(tets) <= count:
            return tets, np.maximum(weights, LEAST * around)
        part = weights**2 * np.diag(gram)
        tables = flesh.tables(tets, np.maximum(weights, LEAST * around))
        parts = sp.csc_array(flesh.stiffness_parts(tables, young[tets]))
        part[_largest(parts, KEPT)] = np.inf
        keep = np.sort(np.argsort(-part, kind="stable")[: max(count, int(LEFT * len(tets)))])
        volumes = np.maximum(weights[keep], LEAST * around[keep])
        tets, around, right = tets[keep], around[keep], right[keep]
        gram = gram[np.ix_(keep, keep)]


def _weights(gram: Floats, right: Floats, volumes: Floats) -> Floats:
    """Return weights (c,) ≥ 0 that fit the forces, regularised towards `volumes`."""
    scaled = gram * np.outer(volumes, volumes)
    pull = TOWARDS_VOLUMES * float(np.diag(scaled).mean())
    return nonnegative_fit(scaled + pull * np.eye(len(scaled)), right * volumes + pull) * volumes


def _largest(columns: sp.csc_array, count: int) -> Ints:
    """Return the rows of the `count` largest entries of each column, without repetition."""
    rows = []
    for c in range(columns.shape[1]):
        begin, end = columns.indptr[c], columns.indptr[c + 1]
        order = np.argsort(-columns.data[begin:end], kind="stable")[:count]
        rows.append(columns.indices[begin:end][order])
    return np.unique(np.concatenate(rows))


def mass_weights(
    positions: Floats, masses: Floats, weights: sp.csr_array, count: int, seed: int
) -> tuple[Ints, Floats]:
    """Return indices of at most `count` of the positions (n, 3), and their masses in kg.

    Masses are fitted to mass, centre and second moments of every bone. `weights` (n, K) are the
    bones' weights; `seed` is for Lloyd's method.
    """
    heavy = np.flatnonzero(masses > 0)
    if count >= len(heavy):
        return heavy, masses[heavy]
    nearest, owner = lloyd_centres(positions[heavy], masses[heavy], count, seed)
    chosen, near = heavy[nearest], np.bincount(owner, masses[heavy])
    # Σ m w_k (1, x, x xᵀ) of each bone, centred and scaled.
    rows, targets = [], []
    bones = sp.csc_array(weights)
    for k in range(weights.shape[1]):
        bone = bones[:, [k]].toarray().ravel()
        weighted = bone * masses
        if weighted.sum() <= 1e-6 * masses.sum():
            continue
        middle = weighted @ positions / weighted.sum()
        centred = positions - middle
        size = np.sqrt(max(float(weighted @ (centred**2).sum(axis=1) / weighted.sum()), 1e-12))
        centred = centred / size
        squares = [centred[:, i] * centred[:, j] for i in range(3) for j in range(i, 3)]
        part = bone[:, None] * np.column_stack([np.ones(len(centred)), centred, *squares])
        rows.append(part[chosen].T * near)
        targets.append(masses @ part)
    A, b = np.concatenate(rows), np.concatenate(targets)
    scale = 1.0 / max(float(masses.sum()), 1e-300)
    A, b = A * scale, b * scale
    firm = 1e-6
    gram = A.T @ A + firm * np.diag(near * scale) ** 2
    fitted = nonnegative_fit(gram, A.T @ b + firm * (near * scale) ** 2)
    keep = fitted > 0
    return chosen[keep], (fitted * near)[keep]


def oblivious_cubature(
    layer: FleshLayer,
    shapes: list[sp.csr_array],
    handles: Ints,
    count: int,
    seed: int,
    sampling: str = "uniform",
) -> TetCubature:
    """Sample points with the integrals of their biharmonic coordinates (tapia2021 eq. 7).

    Weights may be negative, as in the paper; `fitted_cubature` is our method. Sampling is
    ``"uniform"`` by volume; ``"colocated"`` with the handles (h,), regardless of `count`; or
    ``"importance"``, by the fraction of each vertex in the stiffness. The paper has 5 to 10 points
    per handle.
    """
    flesh = FleshInCoordinates.of(layer, shapes)
    soft = TetMesh(layer.mesh.vertices, layer.mesh.tets[layer.soft])
    volumes = soft.volumes()
    around: Floats = np.asarray(
        np.bincount(soft.tets.ravel(), np.repeat(volumes / 4, 4), len(soft.vertices)), np.float64
    )
    if sampling == "colocated":
        points = np.sort(handles)
    else:
        likely = around
        if sampling == "importance":
            importance = flesh.stiffness_parts(flesh.all_tables, layer.youngs[layer.soft]).sum(
                axis=1
            )
            counted = np.bincount(soft.tets.ravel(), np.repeat(importance, 4), len(around))
            likely = np.asarray(counted, np.float64)
        elif sampling != "uniform":
            raise SuppleError(f"sampling is {sampling!r}; use uniform, colocated or importance")
        random, likely_count = np.random.default_rng(seed), int((likely > 0).sum())
        part = likely / likely.sum()
        points = np.sort(random.choice(len(part), min(count, likely_count), replace=False, p=part))
    weights = integrated_coordinates(soft, around, points)
    largest = _largest_tets(soft, points)
    tables = flesh.tables(layer.soft[largest], weights / volumes[largest])
    return TetCubature(tables, flesh.stiffness, flesh.unseen_error(tables, seed))


def integrated_coordinates(mesh: TetMesh, volumes: Floats, points: Ints) -> Floats:
    """Return ∫α_i (k,) of coordinates that are 1 at one of the points and 0 at the others.

    vᵀα = v_P − A_PF A_FF⁻¹ v_F with A the bilaplacian and v the volumes of vertices: one solve.
    """
    energy = bilaplacian(mesh)
    free = np.setdiff1d(np.unique(mesh.tets), points)
    inner = symmetrised(energy[free][:, free])
    solved = SparseCholesky(inner).factorise(inner).solve(volumes[free])
    return np.asarray(volumes[points] - energy[points][:, free] @ solved)


def _largest_tets(mesh: TetMesh, points: Ints) -> Ints:
    """Return the largest tet at each point, (k,)."""
    order = np.argsort(mesh.volumes(), kind="stable")
    ranks = np.full(len(mesh.vertices), -1)
    for corner in range(4):  # the last of equal indices is stored
        last = np.full(len(mesh.vertices), -1)
        last[mesh.tets[order, corner]] = np.arange(len(order))
        ranks = np.maximum(ranks, last)
    return order[ranks[points]]
