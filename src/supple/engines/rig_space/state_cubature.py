"""Cubature of the elastic energy in rig space: a few tets, trained on states of the rig."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled
from supple.elastic.body import ElasticBody
from supple.elastic.densities.dispatch import stress, stress_derivative
from supple.elastic.element import position_gradient, tet_gradients
from supple.engines.rig_space.condensation import Condensation, Snapshot, moved_vertices
from supple.engines.rig_space.flesh_rig import CorotatedFlesh
from supple.linalg.nnls import nonnegative_fit
from supple.reduction.cubature.selection import pursue

#: Number of random combinations of the forces of a state.
MIXTURES = 24
#: Weight of whole forces relative to their nonlinear part; corrections make the linear part exact.
WHOLE = 0.3
#: Largest correction, as a fraction of the stiffness at rest.
MOST_MISSED = 0.2
#: Energy of interior modes in training states, as a fraction of the rig's.
RINGING = 0.05


@dataclass(frozen=True, eq=False)
class RigCubature:
    """Tets, their weights, and the stiffness at rest that they miss.

    The energy is Σ v W_e + ½ cᵀ ΔK c of tets (c,), ascending, with weights v ≥ 0. `missed` (K, K)
    is ΔK = YᵀKY − Σ v Y_eᵀ K_e Y_e at rest, so that small vibrations are exact; at most a fifth of
    YᵀKY. `error` is the relative error of forces at states not used for training.
    """

    tets: Ints
    weights: Floats
    missed: Floats
    error: float


def train_cubature(
    flesh: CorotatedFlesh,
    body: ElasticBody,
    condensed: Condensation,
    snapshots: Sequence[Snapshot],
    count: int,
    seed: int = 0,
) -> RigCubature:
    """Choose `count` tets, and fit their weights to forces at states drawn from the snapshots.

    Without snapshots, or if `count` is not less than the number of moving tets, all tets are used.
    """
    tets = np.ascontiguousarray(body.mesh.tets, np.int64)
    moving = _moving_tets(flesh, tets, snapshots)
    if count >= len(moving) or not snapshots:
        nothing = np.zeros_like(condensed.stiffness)
        return RigCubature(np.arange(len(tets)), np.ones(len(tets)), nothing, 0.0)
    rng = np.random.default_rng(seed)
    states = _states(flesh, condensed, snapshots, rng)
    held_out = states[2::3]
    trained = [state for i, state in enumerate(states) if i % 3 != 2]
    problem = _Forces(flesh, body, moving, trained, rng)
    chosen = pursue(problem, count)
    forces = problem.columns(0, chosen)
    weights = nonnegative_fit(forces @ forces.T, forces @ problem.targets[0])
    fresh = _Forces(flesh, body, moving, held_out, rng)
    residual = fresh.targets[0] - weights @ fresh.columns(0, chosen)
    size = float(np.linalg.norm(fresh.targets[0]))
    error = float(np.linalg.norm(residual)) / max(size, 1e-300)
    columns, chosen = _rest_columns(flesh), moving[chosen]
    summed = np.zeros_like(condensed.stiffness)
    constants = body.material.element_parameters(len(tets))
    _add_rest_stiffness(
        body.material.code, body.rest, tets[chosen], constants[chosen], weights, columns, summed
    )
    missed = _bounded(condensed.stiffness - summed, condensed.stiffness)
    return RigCubature(chosen, weights, missed, error)


def _bounded(missed: Floats, stiffness: Floats) -> Floats:
    """Return corrections (K, K) bounded by `MOST_MISSED` times the stiffness.

    Corrections are quadratic, unlike the tets' energy: a large negative correction would dominate
    far from rest, and flesh would fly apart.
    """
    diagonal = np.diag(stiffness)
    lifted = stiffness + np.diag(1e-9 * diagonal + 1e-12 * diagonal.max())
    values, vectors = scipy.linalg.eigh(missed, lifted)
    back = lifted @ vectors
    return np.asarray((back * np.clip(values, -MOST_MISSED, MOST_MISSED)) @ back.T)


def _states(
    flesh: CorotatedFlesh,
    condensed: Condensation,
    snapshots: Sequence[Snapshot],
    rng: np.random.Generator,
) -> list[tuple[Floats, Floats]]:
    """Return key poses and coordinates (K,) of the snapshots; every second has random modes."""
    k = flesh.n_free
    corrections = flesh.corrections[:, :, k:]
    modes = corrections.reshape(3 * len(corrections), flesh.size - k)
    drawn_rows = []
    for each in snapshots:
        interior: Floats = np.zeros(0)
        if modes.size:
            interior = np.asarray(
                np.linalg.lstsq(modes, each.residual.ravel(), rcond=None)[0], np.float64
            )
        drawn_rows.append(np.concatenate([each.offsets, interior]))
    drawn = np.array(drawn_rows).reshape(-1, flesh.size)
    # Amplitudes of the interior: of the snapshots, or of rig modes of equal energy.
    typical = np.sqrt((drawn**2).mean(axis=0))
    energy = np.einsum("si,ij,sj->s", drawn[:, :k], condensed.stiffness[:k, :k], drawn[:, :k])
    amplitudes = np.sqrt(np.median(energy) / np.maximum(np.diag(condensed.stiffness)[k:], 1e-300))
    typical[k:] = np.maximum(typical[k:], RINGING * amplitudes)
    states = []
    for i, each in enumerate(snapshots):
        c = drawn[i].copy()
        if i % 2:
            c[k:] += typical[k:] * rng.standard_normal(flesh.size - k)
        states.append((each.pose, c))
    return states


class _Forces:
    """Generalised forces of tets at states, combined into fewer rows; see `pursue`."""

    def __init__(
        self,
        flesh: CorotatedFlesh,
        body: ElasticBody,
        among: Ints,
        states: list[tuple[Floats, Floats]],
        rng: np.random.Generator,
    ) -> None:
        tets = np.ascontiguousarray(body.mesh.tets[among], np.int64)
        constants = body.material.element_parameters(len(body.mesh.tets))[among]
        rows = min(MIXTURES, flesh.size)
        self.places = tets
        self._table = np.empty((len(tets), 2 * rows * len(states)))
        forces, linear = np.empty((2, len(tets), flesh.size))
        columns = _rest_columns(flesh)
        lengths = np.sqrt((columns**2).sum(axis=(0, 1)))
        lengths = np.where(lengths > 0, lengths, 1.0)
        code, scaled_rest = body.material.code, columns / lengths
        for s, (pose, c) in enumerate(states):
            flesh.set_key(pose)
            flesh.turn(c)
            flesh.move(c)
            _tet_forces(code, flesh.x, flesh.key, tets, constants, flesh.Y / lengths, forces)
            displacements = np.einsum("vik,k->vi", columns, c)
            _linear_forces(code, displacements, body.rest, tets, constants, scaled_rest, linear)
            mixing = np.linalg.qr(rng.standard_normal((flesh.size, rows)))[0]
            for part, (mixed, share) in enumerate(
                ((forces @ mixing, WHOLE), ((forces - linear) @ mixing, 1.0))
            ):
                total = np.linalg.norm(mixed.sum(axis=0))
                at = (2 * s + part) * rows
                self._table[:, at : at + rows] = share * mixed / max(total, 1e-300)
        self.targets = [self._table.sum(axis=0)]
        self.norms = (self._table**2).sum(axis=1)[None]

    def correlations(self, pose: int, residual: Floats) -> Floats:
        """Return products (T,) of each tet's forces with the residual."""
        return self._table @ residual

    def columns(self, pose: int, chosen: Ints) -> Floats:
        """Return combined forces (c, rows) of the tets `chosen` (c,)."""
        return self._table[chosen]


def _moving_tets(flesh: CorotatedFlesh, tets: Ints, snapshots: Sequence[Snapshot]) -> Ints:
    """Return tets with a corner that some coordinate moves noticeably.

    Otherwise half of an elephant's cubature tets were in flesh that hardly moves with its trunk.
    """
    reached: Bools = np.asarray(moved_vertices(_rest_columns(flesh)).any(axis=1))
    for snapshot in snapshots[::8]:
        flesh.set_key(snapshot.pose)
        flesh.move(np.zeros(flesh.size))
        reached |= moved_vertices(flesh.Y).any(axis=1)
    return np.flatnonzero(reached[tets].any(axis=1))


def _rest_columns(flesh: CorotatedFlesh) -> Floats:
    """Return Y (n, 3, K) at rest."""
    flesh.set_key(np.asarray(flesh.rig.rig.rest_pose, np.float64))
    flesh.rotations.reset()
    flesh.move(np.zeros(flesh.size))
    return flesh.Y.copy()


@compiled
def _linear_forces(
    kind: int, u: Floats, rest: Floats, tets: Ints, constants: Floats, Y: Floats, out: Floats
) -> None:
    """Write Y_eᵀ K_e u of every tet at rest, (T, K), for displacements u (n, 3)."""
    g, G, eye = np.empty((4, 3)), np.empty((3, 3)), np.eye(3)
    H, P, scratch = np.empty((9, 9)), np.empty(9), np.empty((6, 3, 3))
    for e in range(len(tets)):
        out[e] = 0.0
        volume = tet_gradients(rest, tets, e, g)
        position_gradient(u, tets, e, None, g, G)
        stress_derivative(kind, eye, constants[e], H, scratch)
        for i in range(9):
            P[i] = 0.0
            for j in range(9):
                P[i] += H[i, j] * G[j // 3, j % 3]
        for a in range(4):
            for i in range(3):
                f = P[3 * i] * g[a, 0] + P[3 * i + 1] * g[a, 1] + P[3 * i + 2] * g[a, 2]
                for k in range(out.shape[1]):
                    out[e, k] += volume * f * Y[tets[e, a], i, k]


@compiled
def _tet_forces(
    kind: int, x: Floats, rest: Floats, tets: Ints, constants: Floats, Y: Floats, out: Floats
) -> None:
    """Write Y_eᵀ f_e of every tet, (T, K); zero for tets that the key pose flattens."""
    g, F, P, scratch = np.empty((4, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty((6, 3, 3))
    for e in range(len(tets)):
        out[e] = 0.0
        volume = tet_gradients(rest, tets, e, g)
        if not volume > 0:
            continue
        position_gradient(x, tets, e, None, g, F)
        stress(kind, F, constants[e], P, scratch)
        for a in range(4):
            v = tets[e, a]
            for i in range(3):
                f = volume * (P[i, 0] * g[a, 0] + P[i, 1] * g[a, 1] + P[i, 2] * g[a, 2])
                for k in range(out.shape[1]):
                    out[e, k] += f * Y[v, i, k]


@compiled
def _add_rest_stiffness(
    kind: int, rest: Floats, tets: Ints, constants: Floats, weights: Floats, Y: Floats, out: Floats
) -> None:
    """Add Σ v Y_eᵀ K_e Y_e at rest to `out` (K, K)."""
    K = out.shape[0]
    g, F, H, scratch = np.empty((4, 3)), np.eye(3), np.empty((9, 9)), np.empty((6, 3, 3))
    B = np.empty((9, K))
    for e in range(len(tets)):
        volume = tet_gradients(rest, tets, e, g)
        stress_derivative(kind, F, constants[e], H, scratch)
        B[:] = 0.0
        for a in range(4):
            for i in range(3):
                for j in range(3):
                    B[3 * i + j] += g[a, j] * Y[tets[e, a], i]
        out += weights[e] * volume * (B.T @ (H @ B))
