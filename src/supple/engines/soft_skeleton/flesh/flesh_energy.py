"""Elastic energy of flesh on the body at rest, in coordinates of its handles."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.elastic.densities.dispatch import (
    energy_density,
    is_isotropic,
    stress,
    stress_derivative,
)
from supple.elastic.material import Material
from supple.engines.soft_skeleton.flesh.invariant_flesh import (
    FIRMER,
    FleshTables,
    add_invariant_terms,
    has_invariants,
)
from supple.maths.small_matrices import determinant, project_psd
from supple.mesh.tets import TetMesh, hat_gradients


def flesh_tables(
    mesh: TetMesh, material: Material, shapes: list[sp.csr_array], tets: Ints, weights: Floats
) -> FleshTables:
    """Return the tables of tets (c,) with weights (c,); `shapes` are x, y and z of Ψ (n, m)."""
    part = TetMesh(mesh.vertices, mesh.tets[tets])
    hats = np.ascontiguousarray(hat_gradients(part))
    reach = nodal_weights(shapes)
    if reach is None:
        pattern = sp.csr_array(shapes[0])
        values = np.column_stack([sp.csr_array(each).data for each in shapes])
    else:
        pattern, values = reach, reach.data[:, None]
    corners = np.ascontiguousarray(part.tets, np.int64)
    rows = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int64)
    slots = np.full(pattern.shape[1], -1)
    starts = _counted(*rows, corners, slots)
    columns = np.empty(starts[-1], np.int64)
    table = np.zeros((3 * values.shape[1], starts[-1]))
    _fill(*rows, np.ascontiguousarray(values, np.float64), corners, hats, starts, columns, table)
    return FleshTables(
        np.ascontiguousarray(part.volumes() * weights),
        np.ascontiguousarray(material.element_parameters(len(mesh.tets))[tets]),
        starts,
        columns if reach is None else 3 * columns,
        table if reach is None else np.zeros((9, 0)),
        np.zeros((3, 0)) if reach is None else table,
    )


def rest_stiffness(material: Material, tables: FleshTables, m: int) -> Floats:
    """Return ∂²W/∂φ² at rest, (m, m)."""
    hessian = np.zeros((m, m))
    add_flesh_terms(material.code, 1.0, tables, np.zeros(m), 0, np.zeros(m), hessian, 2)
    return np.triu(hessian) + np.triu(hessian, 1).T


def nodal_weights(shapes: list[sp.csr_array]) -> sp.csr_array | None:
    """Return weights (n, h) of Ψ if its coordinates are x, y and z of handles; else None."""
    pattern = sp.csr_array(shapes[0])
    values = np.column_stack([sp.csr_array(each).data for each in shapes])
    if not len(values) or pattern.shape[1] % 3 or (np.diff(pattern.indptr) % 3).any():
        return None
    columns, blocks = pattern.indices.reshape(-1, 3), values.reshape(-1, 3, 3)
    if (columns[:, :1] % 3 != 0).any() or (columns != columns[:, :1] + np.arange(3)).any():
        return None
    if (blocks != blocks[:, :1, :1] * np.eye(3)).any():
        return None
    shape = pattern.shape[0], pattern.shape[1] // 3
    return sp.csr_array((blocks[:, 0, 0], columns[:, 0] // 3, pattern.indptr // 3), shape)


@compiled
def _counted(indptr: Ints, indices: Ints, corners: Ints, slots: Ints) -> Ints:
    """Return the first entry (c + 1,) of each tet in the columns; slots (m,) must be −1."""
    starts = np.zeros(len(corners) + 1, np.int64)
    for e in range(len(corners)):
        count = 0
        for corner in corners[e]:
            for at in range(indptr[corner], indptr[corner + 1]):
                if slots[indices[at]] != e:
                    slots[indices[at]] = e
                    count += 1
        starts[e + 1] = starts[e] + count
    return starts


@compiled
def _fill(
    indptr: Ints,
    indices: Ints,
    values: Floats,
    corners: Ints,
    hats: Floats,
    starts: Ints,
    columns: Ints,
    table: Floats,
) -> None:
    """Write columns of each tet, ascending, and Σ_corners values ⊗ ∇N: rows 3i + j."""
    slots = np.full(1 + (indices.max() if len(indices) else 0), -1)
    for e in range(len(corners)):
        begin, end = starts[e], starts[e]
        for corner in corners[e]:
            for at in range(indptr[corner], indptr[corner + 1]):
                if slots[indices[at]] < 0:
                    slots[indices[at]] = 0
                    columns[end] = indices[at]
                    end += 1
        columns[begin:end].sort()
        for k in range(begin, end):
            slots[columns[k]] = k
        for a in range(4):
            for at in range(indptr[corners[e, a]], indptr[corners[e, a] + 1]):
                k = slots[indices[at]]
                for i in range(values.shape[1]):
                    for j in range(3):
                        table[3 * i + j, k] += values[at, i] * hats[e, a, j]
        for k in range(begin, end):
            slots[columns[k]] = -1


@compiled
def add_flesh_terms(
    kind: int,
    stiffness: float,
    tables: FleshTables,
    phi: Floats,
    first: int,
    gradient: Floats,
    hessian: Floats,
    order: int,
) -> float:
    """Return W(φ) in J; add its derivatives from row `first` on, to the Hessian's upper triangle.

    Order 0 is for the energy only, 1 for the gradient as well, 2 also for the Hessian, with each
    tet's part projected to be positive semi-definite, 3 for the Hessian without projection. Add 4
    to skip the energy, which is then returned as 0. `stiffness` is a factor on the energy.
    """
    nodal, energetic = tables.gradients.shape[1] > 0, order < 4
    order %= 4
    if order >= 2 and nodal and has_invariants(kind):
        add_invariant_terms(kind, stiffness, tables, phi, first, order == 2, gradient, hessian)
        order = 0
        if not energetic:
            return 0.0
    F, P, H = np.empty((3, 3)), np.empty((3, 3)), np.empty((9, 9))
    scratch, frames = np.empty((6, 3, 3)), np.empty((2, 9, 9))
    widest = 0
    for e in range(len(tables.volumes)):
        widest = max(widest, tables.starts[e + 1] - tables.starts[e])
    stresses, blocks, total = np.empty((27, widest)), np.empty((9, widest)), 0.0
    for e in range(len(tables.volumes)):
        begin, end = tables.starts[e], tables.starts[e + 1]
        strains, columns = tables.strains[:, begin:end], tables.columns[begin:end]
        gradients = tables.gradients[:, begin:end]
        if nodal:
            _write_nodal_gradient(gradients, columns, phi, F)
        else:
            _write_gradient(strains, columns, phi, F)
        constants, volume = tables.constants[e], stiffness * tables.volumes[e]
        if energetic:
            total += volume * energy_density(kind, F, constants, scratch)
        if order == 0:
            continue
        stress(kind, F, constants, P, scratch)
        if nodal:
            _add_nodal_pull(volume, P, gradients, columns, first, gradient)
        else:
            _add_pull(volume, P, strains, columns, first, gradient)
        if order >= 2:
            stress_derivative(kind, F, constants, H, scratch)
            if order == 2:
                _regularise(H)
                project_psd(F, is_isotropic(kind), H, frames)
            if nodal:
                _add_nodal_hessian(volume, H, gradients, columns, first, stresses, blocks, hessian)
            else:
                _add_hessian(volume, H, strains, columns, first, stresses, hessian)
    return total


@compiled
def write_orientation(tables: FleshTables, phi: Floats, out: Floats) -> None:
    """Write the inverted part of the volume, the least det F, and the largest |F − I| to `out`."""
    F, total, inverted, lowest, largest = np.empty((3, 3)), 0.0, 0.0, np.inf, 0.0
    for e in range(len(tables.volumes)):
        begin, end = tables.starts[e], tables.starts[e + 1]
        columns = tables.columns[begin:end]
        if tables.gradients.shape[1] > 0:
            _write_nodal_gradient(tables.gradients[:, begin:end], columns, phi, F)
        else:
            _write_gradient(tables.strains[:, begin:end], columns, phi, F)
        J = determinant(F)
        total += tables.volumes[e]
        inverted += tables.volumes[e] if J <= 0.0 else 0.0
        lowest = min(lowest, J)
        for i in range(3):
            for j in range(3):
                largest = max(largest, abs(F[i, j] - (1.0 if i == j else 0.0)))
    out[0] = inverted / total if total > 0.0 else 0.0
    out[1], out[2] = lowest, largest


@compiled_fused
def _regularise(H: Floats) -> None:
    """Add a hundredth of its mean to the diagonal of ∂P/∂F.

    Rotations near rest have zero energy, so rounding errors can make H indefinite. Without the
    added term every tet would be projected, which takes more than half of the Hessian's time.
    """
    trace = 0.0
    for i in range(9):
        trace += H[i, i]
    for i in range(9):
        H[i, i] += FIRMER * trace / 9.0


@compiled
def add_tet_forces(kind: int, tables: FleshTables, phi: Floats, out: Floats) -> None:
    """Add ∂W_e/∂φ of each tet e to row e of `out` (c, m)."""
    F, P, scratch = np.empty((3, 3)), np.empty((3, 3)), np.empty((6, 3, 3))
    for e in range(len(tables.volumes)):
        begin, end = tables.starts[e], tables.starts[e + 1]
        columns, volume = tables.columns[begin:end], tables.volumes[e]
        if tables.gradients.shape[1] > 0:
            gradients = tables.gradients[:, begin:end]
            _write_nodal_gradient(gradients, columns, phi, F)
            stress(kind, F, tables.constants[e], P, scratch)
            _add_nodal_pull(volume, P, gradients, columns, 0, out[e])
        else:
            strains = tables.strains[:, begin:end]
            _write_gradient(strains, columns, phi, F)
            stress(kind, F, tables.constants[e], P, scratch)
            _add_pull(volume, P, strains, columns, 0, out[e])


@compiled_fused
def _write_nodal_gradient(gradients: Floats, columns: Ints, phi: Floats, F: Floats) -> None:
    """Write F = I + Σ_a φ_a g_aᵀ over handles a, with g_a the columns of `gradients` (3, k)."""
    for i in range(3):
        for j in range(3):
            F[i, j] = 1.0 if i == j else 0.0
    for k in range(len(columns)):
        at, x, y, z = columns[k], gradients[0, k], gradients[1, k], gradients[2, k]
        for i in range(3):
            F[i, 0] += phi[at + i] * x
            F[i, 1] += phi[at + i] * y
            F[i, 2] += phi[at + i] * z


@compiled_fused
def _add_nodal_pull(
    volume: float, P: Floats, gradients: Floats, columns: Ints, first: int, out: Floats
) -> None:
    for k in range(len(columns)):
        x, y, z = gradients[0, k], gradients[1, k], gradients[2, k]
        for i in range(3):
            out[first + columns[k] + i] += volume * (P[i, 0] * x + P[i, 1] * y + P[i, 2] * z)


@compiled_fused
def _add_nodal_hessian(
    volume: float,
    H: Floats,
    gradients: Floats,
    columns: Ints,
    first: int,
    stresses: Floats,
    blocks: Floats,
    out: Floats,
) -> None:
    """Add Σ_jl g_aj H_ij,kl g_bl to rows 3a + i and columns 3b + k, for a ≤ b."""
    count = len(columns)
    x, y, z = gradients[0], gradients[1], gradients[2]
    for i in range(9):
        for k in range(3):
            row = stresses[3 * i + k]
            p, q, r = volume * H[i, 3 * k], volume * H[i, 3 * k + 1], volume * H[i, 3 * k + 2]
            for b in range(count):
                row[b] = p * x[b] + q * y[b] + r * z[b]
    for a in range(count):
        for i in range(3):
            for k in range(3):
                row = blocks[3 * i + k]
                u, v, w = stresses[9 * i + k], stresses[9 * i + 3 + k], stresses[9 * i + 6 + k]
                for b in range(a, count):
                    row[b] = x[a] * u[b] + y[a] * v[b] + z[a] * w[b]
        for i in range(3):
            target = out[first + columns[a] + i]
            for k in range(i, 3):
                target[first + columns[a] + k] += blocks[3 * i + k, a]
            for b in range(a + 1, count):
                at = first + columns[b]
                target[at] += blocks[3 * i, b]
                target[at + 1] += blocks[3 * i + 1, b]
                target[at + 2] += blocks[3 * i + 2, b]


@compiled_fused
def _add_pull(
    volume: float, P: Floats, strains: Floats, columns: Ints, first: int, out: Floats
) -> None:
    for k in range(len(columns)):
        pull = 0.0
        for i in range(3):
            for j in range(3):
                pull += P[i, j] * strains[3 * i + j, k]
        out[first + columns[k]] += volume * pull


@compiled_fused
def _write_gradient(strains: Floats, columns: Ints, phi: Floats, F: Floats) -> None:
    for i in range(3):
        for j in range(3):
            row, total = strains[3 * i + j], 1.0 if i == j else 0.0
            for k in range(len(columns)):
                total += row[k] * phi[columns[k]]
            F[i, j] = total


@compiled_fused
def _add_hessian(
    volume: float,
    H: Floats,
    strains: Floats,
    columns: Ints,
    first: int,
    stresses: Floats,
    out: Floats,
) -> None:
    count = len(columns)
    for i in range(9):
        row = stresses[i]
        for k in range(count):
            row[k] = 0.0
        for j in range(9):
            h, strain = volume * H[i, j], strains[j]
            for k in range(count):
                row[k] += h * strain[k]
    for k in range(count):
        row = out[first + columns[k]]
        for j in range(k, count):
            total = 0.0
            for i in range(9):
                total += strains[i, k] * stresses[i, j]
            row[first + columns[j]] += total
