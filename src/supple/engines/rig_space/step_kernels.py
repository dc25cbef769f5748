"""Compiled parts of a step: the functional H, its gradient and Gauss–Newton Hessian, and bounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from supple.arrays import Bools, Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.elastic.densities.dispatch import (
    energy_density,
    is_isotropic,
    stress,
    stress_derivative,
)
from supple.elastic.element import position_gradient, tet_gradients
from supple.linalg.upper_triangle import cholesky, solve
from supple.maths.svd import project_psd

__all__ = ["TetTables", "bounded_change", "elastic_terms", "inertial_terms", "quadratic_terms"]

#: Tets that keep less of their volume at a key pose are measured from rest instead.
FLATTENED = 0.05
#: Changes of the set of parameters at their bounds that a step tries.
MOST_SETS = 12


class TetTables(NamedTuple):
    """Tets whose energy is summed."""

    tets: Ints
    """(c, 4) vertices."""
    weights: Floats
    """(c,) what each counts."""
    constants: Floats
    """(c, …) of the material."""
    gradients: Floats
    """(c, 4, 3) of the shape functions at rest."""
    volumes: Floats
    """(c,) at rest."""
    starts: Ints
    """(c + 1,) where the coordinates of each tet begin in `columns`; (1,) where tets have all."""
    columns: Ints
    """Coordinates that move a corner of a tet, ascending."""


@compiled
def elastic_terms(
    kind: int,
    stiffness: float,
    tables: TetTables,
    x: Floats,
    key: Floats,
    Y: Floats,
    strains: Floats,
    stresses: Floats,
    forces: Floats,
    line: Floats,
    gradient: Floats,
    hessian: Floats,
    wanted: int,
) -> float:
    """Return Σ v W_e(x), measured from the key shape; add its derivatives where wanted.

    A tet that the key pose flattens is measured from rest, less the stress that it has at the key
    pose: so the key pose is an equilibrium all the same.

    Parameters
    ----------
    kind, stiffness, tables
        Material, a factor on it, and tets.
    x, key, Y
        (n, 3), (n, 3), (n, 3, K) positions now, at the key pose, and their derivative.
    strains, stresses, forces
        (9c, K), (9c, K), (9c,) scratch: ∂F/∂c, the Hessian times that, and stresses; (9, K) is
        enough where tets have few coordinates.
    line
        (K,) scratch.
    gradient, hessian
        (K,) added to, and (K, K), symmetric before and after.
    wanted
        Derivatives to take: 0 for none, 1 for the gradient, 2 for the Hessian, too; 3 for one of
        which every tet's part is positive semi-definite.
    """
    total, sparse = 0.0, len(tables.starts) > 1
    g, F, P, H = np.empty((4, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty((9, 9))
    P0 = np.zeros((3, 3))
    scratch, frames = np.empty((6, 3, 3)), np.empty((2, 9, 9))
    for e in range(len(tables.tets)):
        tet, constants = tables.tets[e], tables.constants[e]
        volume, energy, flat = _measured(kind, tables, e, x, key, g, F, P0, scratch)
        much = stiffness * tables.weights[e] * volume
        total += much * energy
        if wanted == 0:
            continue
        stress(kind, F, constants, P, scratch)
        at = 0 if sparse else 9 * e
        for i in range(3):
            for j in range(3):
                own = P[i, j] - P0[i, j] if flat else P[i, j]
                forces[at + 3 * i + j] = much * own
        if wanted >= 2:
            stress_derivative(kind, F, constants, H, scratch)
        if wanted == 3:
            project_psd(F, is_isotropic(kind), H, frames)
        if sparse:
            columns = tables.columns[tables.starts[e] : tables.starts[e + 1]]
            own_strains = strains[:, : len(columns)]
            _gather_strains(tet, g, Y, columns, own_strains)
            _scatter_gradient(columns, own_strains, forces, gradient)
            if wanted >= 2:
                _write_stresses(much, H, own_strains, stresses[:, : len(columns)])
                _scatter_hessian(columns, own_strains, stresses, line, hessian)
            continue
        _write_strains(tet, g, Y, strains[at : at + 9])
        if wanted >= 2:
            _write_stresses(much, H, strains[at : at + 9], stresses[at : at + 9])
    if sparse:
        if wanted >= 2:
            _mirror(hessian)
        return total
    if wanted > 0:
        gradient += np.dot(strains.T, forces)
    if wanted >= 2:
        hessian += np.dot(strains.T, stresses)
    return total


@compiled_fused
def _measured(
    kind: int,
    tables: TetTables,
    e: int,
    x: Floats,
    key: Floats,
    g: Floats,
    F: Floats,
    P0: Floats,
    scratch: Floats,
) -> tuple[float, float, bool]:
    """Return volume, energy density and whether it is measured from rest, of one tet.

    Writes gradients `g`, F and, where the key pose flattens the tet, its stress P₀ there.
    """
    constants = tables.constants[e]
    volume = tet_gradients(key, tables.tets, e, g)
    flat = not volume > FLATTENED * tables.volumes[e]
    if not flat:
        position_gradient(x, tables.tets, e, None, g, F)
        return volume, energy_density(kind, F, constants, scratch), flat
    for a in range(4):
        for i in range(3):
            g[a, i] = tables.gradients[e, a, i]
    position_gradient(key, tables.tets, e, None, g, F)
    stress(kind, F, constants, P0, scratch)
    energy = -energy_density(kind, F, constants, scratch)
    for i in range(3):
        for j in range(3):
            energy += P0[i, j] * F[i, j]
    position_gradient(x, tables.tets, e, None, g, F)
    energy += energy_density(kind, F, constants, scratch)
    for i in range(3):
        for j in range(3):
            energy -= P0[i, j] * F[i, j]
    return tables.volumes[e], energy, flat


@compiled_fused
def _write_strains(tet: Ints, g: Floats, Y: Floats, out: Floats) -> None:
    """∂F/∂c (9, K) of a tet: Σ g_a ⊗ Y_a."""
    for i in range(3):
        first, second, third, fourth = Y[tet[0], i], Y[tet[1], i], Y[tet[2], i], Y[tet[3], i]
        for j in range(3):
            a, b, c, d = g[0, j], g[1, j], g[2, j], g[3, j]
            row = out[3 * i + j]
            for k in range(len(row)):
                row[k] = a * first[k] + b * second[k] + c * third[k] + d * fourth[k]


@compiled_fused
def _gather_strains(tet: Ints, g: Floats, Y: Floats, columns: Ints, out: Floats) -> None:
    """∂F/∂c (9, a) of a tet by some coordinates."""
    for i in range(3):
        first, second, third, fourth = Y[tet[0], i], Y[tet[1], i], Y[tet[2], i], Y[tet[3], i]
        for k in range(len(columns)):
            c = columns[k]
            a, b, d, e = first[c], second[c], third[c], fourth[c]
            for j in range(3):
                out[3 * i + j, k] = g[0, j] * a + g[1, j] * b + g[2, j] * d + g[3, j] * e


@compiled_fused
def _scatter_gradient(columns: Ints, strains: Floats, forces: Floats, out: Floats) -> None:
    for k in range(len(columns)):
        total = 0.0
        for i in range(9):
            total += strains[i, k] * forces[i]
        out[columns[k]] += total


@compiled_fused
def _scatter_hessian(
    columns: Ints, strains: Floats, stresses: Floats, line: Floats, out: Floats
) -> None:
    """Add the lower half of strainsᵀ stresses (a, a) at rows and columns of the coordinates.

    A row is made whole in `line` first: sums that are scattered do not vectorise.
    """
    for k in range(len(columns)):
        s0, s1, s2, s3 = strains[0, k], strains[1, k], strains[2, k], strains[3, k]
        s4, s5, s6, s7 = strains[4, k], strains[5, k], strains[6, k], strains[7, k]
        s8, own = strains[8, k], line[: k + 1]
        t0, t1, t2, t3, t4 = stresses[0], stresses[1], stresses[2], stresses[3], stresses[4]
        t5, t6, t7, t8 = stresses[5], stresses[6], stresses[7], stresses[8]
        for j in range(len(own)):
            own[j] = (
                (s0 * t0[j] + s1 * t1[j] + s2 * t2[j])
                + (s3 * t3[j] + s4 * t4[j] + s5 * t5[j])
                + (s6 * t6[j] + s7 * t7[j] + s8 * t8[j])
            )
        row = out[columns[k]]
        for j in range(len(own)):
            row[columns[j]] += own[j]


@compiled_fused
def _mirror(matrix: Floats) -> None:
    """Copy the lower half of a matrix to its upper one."""
    for i in range(len(matrix)):
        for j in range(i):
            matrix[j, i] = matrix[i, j]


@compiled_fused
def _write_stresses(much: float, H: Floats, strains: Floats, out: Floats) -> None:
    """Write a factor times H (9, 9) times strains (9, K)."""
    for i in range(9):
        row = out[i]
        h0, h1, h2 = much * H[i, 0], much * H[i, 1], much * H[i, 2]
        h3, h4, h5 = much * H[i, 3], much * H[i, 4], much * H[i, 5]
        h6, h7, h8 = much * H[i, 6], much * H[i, 7], much * H[i, 8]
        s0, s1, s2, s3, s4 = strains[0], strains[1], strains[2], strains[3], strains[4]
        s5, s6, s7, s8 = strains[5], strains[6], strains[7], strains[8]
        for k in range(len(row)):
            row[k] = (
                (h0 * s0[k] + h1 * s1[k] + h2 * s2[k])
                + (h3 * s3[k] + h4 * s4[k] + h5 * s5[k])
                + (h6 * s6[k] + h7 * s7[k] + h8 * s8[k])
            )


@compiled
def inertial_terms(
    masses: Floats,
    tau: float,
    x: Floats,
    target: Floats,
    load: Floats,
    Y: Floats,
    starts: Ints,
    columns: Ints,
    pull: Floats,
    heavy: Floats,
    gradient: Floats,
    hessian: Floats,
    wanted: int,
    whole: bool,
) -> float:
    """Return 1/(2τ²) ‖x − x̂‖²_M − fᵀx; add its derivatives where wanted.

    Parameters
    ----------
    masses, tau
        (n,) of the vertices, and the length of the stage.
    x, target, load
        (n, 3) positions, where they would go without forces, and forces f.
    Y
        (n, 3, K) derivative of x.
    starts, columns
        Coordinates that move each vertex, as `TurnedFlesh` has them.
    pull, heavy
        (3n,), (3n, K) scratch.
    gradient, hessian
        (K,), (K, K) added to.
    wanted, whole
        As for `elastic_terms`; and whether masses have a part in the Hessian.
    """
    n, total, rate = len(x), 0.0, 1.0 / (tau * tau)
    for v in range(n):
        m = masses[v] * rate
        for i in range(3):
            away = x[v, i] - target[v, i]
            total += 0.5 * m * away * away - load[v, i] * x[v, i]
            pull[3 * v + i] = m * away - load[v, i]
    if wanted > 0:
        flat = Y.reshape(3 * n, Y.shape[2])
        if len(starts) > 1:
            for v in range(n):
                for at in range(starts[v], starts[v + 1]):
                    k = columns[at]
                    for i in range(3):
                        gradient[k] += Y[v, i, k] * pull[3 * v + i]
        else:
            gradient += np.dot(flat.T, pull)
        if whole and wanted >= 2:
            for v in range(n):
                m = masses[v] * rate
                for i in range(3 * v, 3 * v + 3):
                    for k in range(flat.shape[1]):
                        heavy[i, k] = m * flat[i, k]
            hessian += np.dot(flat.T, heavy)
    return total


@compiled
def quadratic_terms(
    matrix: Floats, centre: Floats, c: Floats, gradient: Floats, hessian: Floats, wanted: int
) -> float:
    """Return ½ (c − c₀)ᵀ A (c − c₀); add its derivatives where wanted."""
    total = 0.0
    for i in range(len(c)):
        row, pull = matrix[i], 0.0
        for j in range(len(c)):
            pull += row[j] * (c[j] - centre[j])
        total += 0.5 * pull * (c[i] - centre[i])
        if wanted > 0:
            gradient[i] += pull
        if wanted >= 2:
            for j in range(len(c)):
                hessian[i, j] += row[j]
    return total


@compiled
def bounded_change(
    gradient: Floats,
    hessian: Floats,
    c: Floats,
    lower: Floats,
    upper: Floats,
    factor: Floats,
    held: Bools,
    change: Floats,
) -> bool:
    """Minimise gᵀd + ½ dᵀHd with c + d between bounds, by projected Newton; write d.

    Parameters at a bound that would be left outwards are held, all others solved for; again until
    none goes beyond a bound and none that is held wants back.

    Parameters
    ----------
    gradient, hessian
        (K,) g and (K, K) H, positive definite.
    c, lower, upper
        (K,) where it is, and bounds.
    factor, held
        Scratch: a matrix of `padded_identity`, and (K,).
    change
        (K,) d.

    Returns
    -------
    False if H is not positive definite.
    """
    K = len(c)
    change[:] = 0.0
    for i in range(K):
        low, high = c[i] <= lower[i] and gradient[i] > 0, c[i] >= upper[i] and gradient[i] < 0
        held[i] = low or high
        if c[i] < lower[i]:
            change[i], held[i] = lower[i] - c[i], True
        elif c[i] > upper[i]:
            change[i], held[i] = upper[i] - c[i], True
    trial = np.empty(K)
    for sets in range(MOST_SETS):
        _write_system(gradient, hessian, change, held, factor, trial)
        if not cholesky(factor):
            return False
        solve(factor, trial)
        beyond = False
        for i in range(K):
            if held[i]:
                continue
            if trial[i] < lower[i] - c[i]:
                change[i], held[i], beyond = lower[i] - c[i], True, True
            elif trial[i] > upper[i] - c[i]:
                change[i], held[i], beyond = upper[i] - c[i], True, True
        if not beyond:
            for i in range(K):
                if not held[i]:
                    change[i] = trial[i]
            if sets + 1 == MOST_SETS or not _released(
                gradient, hessian, c, lower, upper, change, held
            ):
                return True
    for i in range(K):  # not settled: what was found, kept within bounds
        change[i] = min(max(trial[i], lower[i] - c[i]), upper[i] - c[i])
    return True


@compiled
def _write_system(
    gradient: Floats, hessian: Floats, change: Floats, held: Bools, factor: Floats, right: Floats
) -> None:
    """Write the system of what is not held.

    Rows of held parameters become the identity's, with what they do to others on the right.
    """
    K = len(gradient)
    for i in range(K):
        right[i] = change[i] if held[i] else -gradient[i]
        for j in range(i, K):
            factor[i, j] = hessian[i, j]
            if held[i] or held[j]:
                factor[i, j] = 1.0 if i == j else 0.0
    for i in range(K):
        if not held[i]:
            for j in range(K):
                if held[j]:
                    right[i] -= hessian[i, j] * change[j]
    for i in range(K, factor.shape[0]):
        for j in range(K):
            factor[j, i] = 0.0
        factor[i, i:] = 0.0
        factor[i, i] = 1.0


@compiled
def _released(
    gradient: Floats,
    hessian: Floats,
    c: Floats,
    lower: Floats,
    upper: Floats,
    change: Floats,
    held: Bools,
) -> bool:
    """Let go of held parameters whose slope points inwards; return whether there are any."""
    found = False
    for i in range(len(c)):
        if held[i]:
            slope = gradient[i]
            for j in range(len(c)):
                slope += hessian[i, j] * change[j]
            at_low = c[i] + change[i] <= lower[i]
            if (at_low and slope < 0) or (not at_low and slope > 0):
                held[i], found = False, True
    return found
