"""H(c) of a stage with its gradient and Hessian: compiled, on arrays that are bound once.

Elastic and inertial forces are summed at vertices first, and Yᵀ maps them to the coordinates, so
that the cost of a tet does not depend on the number of coordinates. The Hessian is Yᵀ(K + M/τ²)Y.
"""

from __future__ import annotations

from typing import NamedTuple

from supple.arrays import Floats, Ints, ShortInts, Singles
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.tables import ArgumentTable, table_contents
from supple.elastic.densities.dispatch import (
    energy_density,
    is_isotropic,
    stress,
    stress_derivative,
)
from supple.elastic.element import (
    add_element_forces,
    add_point_stiffness,
    complete_stiffness,
    position_gradient,
    scatter_stiffness,
    tet_gradients,
)
from supple.engines.rig_space.solvers.column_spans import (
    add_block_rows,
    add_outer_rows,
    add_row_sums,
    add_turned_rows,
    row_products,
    write_turned_rows,
)
from supple.maths.small_matrices import project_psd

#: Fraction of its volume below which a tet at a key pose is measured from rest instead.
FLATTENED = 0.05


class TetArrays(NamedTuple):
    """Tets whose energy is summed, and their reference shape at the key pose."""

    kind: int  # material code
    tets: Ints  # (c, 4) vertices
    weights: Floats  # (c,) cubature weights
    constants: Floats  # (c, …) of the material
    rest_slopes: Floats  # (c, 4, 3) gradients of the shape functions at rest
    rest_volumes: Floats  # (c,) at rest
    slopes: Floats  # (c, 4, 3) at the key pose, or at rest if that flattens the tet
    volumes: Floats  # (c,) at the key pose; negative, that at rest, for flattened tets
    pulled: Floats  # (c, 3, 3) stress of a flattened tet at the key pose
    offsets: Floats  # (c,) offset that makes a flattened tet's energy zero at the key pose
    starts: Ints  # (n + 1,) first stiffness block of each vertex
    neighbours: ShortInts  # vertices of the blocks
    slots: ShortInts  # (c, 16) indices of the blocks of each tet
    blocks: Floats  # values of the blocks, as `scatter_stiffness` writes them
    small: Floats  # (3, 3, 3) scratch: F, P, and the stress of one tet
    scratch: Floats  # (6, 3, 3) scratch
    derivative: Floats  # (9, 9) scratch
    frames: Floats  # (2, 9, 9) scratch
    matrix: Floats  # (12, 12) scratch


class FleshArrays(NamedTuple):
    """Flesh positions x(c), and the arrays that they are computed from."""

    x: Floats  # (n, 3) flesh
    key: Floats  # (n, 3) at the key pose
    rig: Floats  # (n, 3) Φ, for nonlinear rigs
    jacobian: Floats  # (n, 3, k) ∂Φ/∂p of nonlinear rigs; (0, 3, k) for affine ones
    inner: Ints  # (n,) row of each vertex in the corrections, -1 for none
    rotations: Floats  # (q, 3, 3) R
    single_rotations: Singles  # R, flat, in float32
    corrections: Singles  # rows of Z and Ψ of q vertices, flat
    frames: Singles  # flat (n, 3, 3): rotations of the shapes of an affine rig
    shapes: Singles  # rows of the shapes of an affine rig, of n vertices, flat
    columns: Singles  # rows of Y of n vertices, flat
    starts: Ints  # (n + 1,) first span of each vertex
    spans: Ints  # (s, 2), from `column_spans`


class StageArrays(NamedTuple):
    """Inputs and results of the evaluation of H."""

    tets: TetArrays
    flesh: FleshArrays
    settings: Floats  # τ, and a factor on the stiffness
    masses: Floats  # (n,)
    target: Floats  # (n, 3) x̂
    load: Floats  # (n, 3) forces f
    matrix: Floats  # (width, K) A of springs, damping and added mass: ½ cᵀAc − bᵀc
    pull: Floats  # (width,) b
    c: Floats  # (width,) coordinates, and zeros
    forces: Floats  # (n, 3) scratch
    rows: Floats  # (3 width,) scratch
    gradient: Floats  # (width,)
    hessian: Floats  # (width, width)


@compiled_sums
def begin_pull(damping: Floats, start: Floats, push: Floats, out: Floats) -> None:
    """Write b = D c* (K,) plus forces `push` (k,) on the parameters to `out` (width,)."""
    for i in range(len(start)):
        row, total = damping[i], 0.0
        for j in range(len(row)):
            total += row[j] * start[j]
        out[i] = total + push[i] if i < len(push) else total


@compiled_fused
def measure_tets(table: ArgumentTable) -> None:
    """Set the reference shapes of the tets at a new key pose.

    A tet that the key pose flattens is measured from rest, less its stress at the key pose, so that
    the key pose is still an equilibrium.
    """
    arrays: StageArrays = table_contents(table)
    t, key = arrays.tets, arrays.flesh.key
    F, scratch = t.small[0], t.scratch
    for e in range(len(t.tets)):
        g, constants = t.slopes[e], t.constants[e]
        volume = tet_gradients(key, t.tets, e, g)
        t.volumes[e] = volume
        if volume > FLATTENED * t.rest_volumes[e]:
            continue
        t.volumes[e] = -t.rest_volumes[e]
        for a in range(4):
            for i in range(3):
                g[a, i] = t.rest_slopes[e, a, i]
        P = t.pulled[e]
        position_gradient(key, t.tets, e, None, g, F)
        stress(t.kind, F, constants, P, scratch)
        offset = -energy_density(t.kind, F, constants, scratch)
        for i in range(3):
            for j in range(3):
                offset += P[i, j] * F[i, j]
        t.offsets[e] = offset


@compiled_fused
def write_columns(table: ArgumentTable) -> None:
    """Write Y = [∂Φ/∂p, 0] + R [Z, Ψ], in the spans of each vertex."""
    arrays: StageArrays = table_contents(table)
    f, width = arrays.flesh, len(arrays.c)
    bends, k = len(f.jacobian) > 0, f.jacobian.shape[2]
    flat = f.rotations.reshape(f.rotations.size)
    for i in range(len(flat)):
        f.single_rotations[i] = flat[i]
    for v in range(len(f.x)):
        at, row = 3 * width * v, f.inner[v]
        for s in range(f.starts[v], f.starts[v + 1]):
            begin, end = f.spans[s, 0], f.spans[s, 1]
            if bends:
                _copy_span(f.jacobian, v, begin, end, min(end, k), f.columns, at, width)
            else:
                write_turned_rows(f.frames, 9 * v, f.shapes, at, width, begin, end, f.columns, at)
            if row >= 0:
                source = 3 * width * row
                add_turned_rows(
                    f.single_rotations,
                    9 * row,
                    f.corrections,
                    source,
                    width,
                    begin,
                    end,
                    f.columns,
                    at,
                )


@compiled_fused
def _copy_span(
    jacobian: Floats, v: int, begin: int, end: int, filled: int, out: Singles, at: int, width: int
) -> None:
    for k in range(begin, filled):
        out[at + k] = jacobian[v, 0, k]
        out[at + width + k] = jacobian[v, 1, k]
        out[at + 2 * width + k] = jacobian[v, 2, k]
    for k in range(max(begin, filled), end):
        out[at + k] = out[at + width + k] = out[at + 2 * width + k] = 0.0


@compiled_fused
def place_flesh(table: ArgumentTable) -> None:
    """Set x(c): Φ + R [Z, Ψ] c, or key + Y c of an affine rig."""
    arrays: StageArrays = table_contents(table)
    f, c, width = arrays.flesh, arrays.c, len(arrays.c)
    bends = len(f.jacobian) > 0
    for v in range(len(f.x)):
        row = f.inner[v]
        x = y = z = 0.0
        if row >= 0 or not bends:
            at = 3 * width * (row if bends else v)
            source = f.corrections if bends else f.columns
            for s in range(f.starts[v], f.starts[v + 1]):
                span = row_products(source, at, width, f.spans[s, 0], f.spans[s, 1], c)
                x, y, z = x + span[0], y + span[1], z + span[2]
        if bends:
            if row >= 0:
                R = f.rotations[row]
                x, y, z = (
                    R[0, 0] * x + R[0, 1] * y + R[0, 2] * z,
                    R[1, 0] * x + R[1, 1] * y + R[1, 2] * z,
                    R[2, 0] * x + R[2, 1] * y + R[2, 2] * z,
                )
            f.x[v, 0], f.x[v, 1], f.x[v, 2] = f.rig[v, 0] + x, f.rig[v, 1] + y, f.rig[v, 2] + z
        else:
            f.x[v, 0], f.x[v, 1], f.x[v, 2] = f.key[v, 0] + x, f.key[v, 1] + y, f.key[v, 2] + z


@compiled_fused
def evaluate(table: ArgumentTable, order: int) -> float:
    """Return H up to a constant, and write its derivatives, of a `StageArrays` with x and Y at c.

    Order 0 is for no derivatives, 1 for the gradient, 2 also for the Hessian, 3 with each tet's
    part of the Hessian projected to be positive semi-definite.
    """
    arrays: StageArrays = table_contents(table)
    f, forces, width = arrays.flesh, arrays.forces, len(arrays.c)
    total = _inertial_terms(arrays)
    if order >= 2:
        _begin_stiffness(arrays)
    total += _elastic_terms(arrays.tets, arrays.settings[1], f.x, forces, order)
    total += _quadratic_terms(arrays.matrix, arrays.pull, arrays.c, arrays.gradient)
    if order == 0:
        return total
    for v in range(len(f.x)):
        x, y, z = forces[v, 0], forces[v, 1], forces[v, 2]
        for s in range(f.starts[v], f.starts[v + 1]):
            begin, end = f.spans[s, 0], f.spans[s, 1]
            at = 3 * width * v
            add_row_sums(f.columns, at, width, begin, end, x, y, z, arrays.gradient)
    if order >= 2:
        _write_hessian(arrays)
    return total


@compiled_fused
def _inertial_terms(arrays: StageArrays) -> float:
    """Return 1/(2τ²) ‖x − x̂‖²_M − fᵀx; write its forces."""
    x, target, load = arrays.flesh.x, arrays.target, arrays.load
    total, rate = 0.0, 1.0 / (arrays.settings[0] * arrays.settings[0])
    for v in range(len(x)):
        m = arrays.masses[v] * rate
        for i in range(3):
            difference = x[v, i] - target[v, i]
            total += 0.5 * m * difference * difference - load[v, i] * x[v, i]
            arrays.forces[v, i] = m * difference - load[v, i]
    return total


@compiled_sums
def _quadratic_terms(matrix: Floats, pull: Floats, c: Floats, gradient: Floats) -> float:
    """Return ½ cᵀAc − bᵀc; write its derivative."""
    total = 0.0
    for i in range(len(c)):
        row, product = matrix[i], 0.0
        for j in range(len(row)):
            product += row[j] * c[j]
        total += (0.5 * product - pull[i]) * c[i]
        gradient[i] = product - pull[i]
    return total


@compiled_fused
def _elastic_terms(t: TetArrays, stiffness: float, x: Floats, forces: Floats, order: int) -> float:
    """Return Σ v W_e(x), measured from the key shape; add forces and stiffnesses."""
    total = 0.0
    F, P, scratch, H = t.small[0], t.small[1], t.scratch, t.derivative
    for e in range(len(t.tets)):
        g, constants, volume = t.slopes[e], t.constants[e], t.volumes[e]
        flat = volume < 0
        weight = stiffness * t.weights[e] * abs(volume)
        position_gradient(x, t.tets, e, None, g, F)
        energy = energy_density(t.kind, F, constants, scratch)
        if flat:
            energy += t.offsets[e]
            for i in range(3):
                for j in range(3):
                    energy -= t.pulled[e, i, j] * F[i, j]
        total += weight * energy
        if order == 0:
            continue
        stress(t.kind, F, constants, P, scratch)
        if flat:
            for i in range(3):
                for j in range(3):
                    P[i, j] -= t.pulled[e, i, j]
        add_element_forces(weight, g, P, t.tets, e, None, forces)
        if order >= 2:
            stress_derivative(t.kind, F, constants, H, scratch)
            if order == 3:
                project_psd(F, is_isotropic(t.kind), H, t.frames)
            add_point_stiffness(0, weight, g, H, None, t.matrix)
            complete_stiffness(None, t.matrix)
            scatter_stiffness(t.matrix, t.tets, e, None, t.starts, t.slots, t.blocks)
    return total


@compiled_fused
def _begin_stiffness(arrays: StageArrays) -> None:
    """Set the blocks to M/τ²."""
    t, rate = arrays.tets, 1.0 / (arrays.settings[0] * arrays.settings[0])
    for i in range(len(t.blocks)):
        t.blocks[i] = 0.0
    for v in range(len(arrays.masses)):
        start = t.starts[v]
        degree = t.starts[v + 1] - start
        for s in range(degree):
            if t.neighbours[start + s] == v:
                for i in range(3):
                    t.blocks[9 * start + 3 * degree * i + 3 * s + i] = rate * arrays.masses[v]


@compiled_fused
def _write_hessian(arrays: StageArrays) -> None:
    """Write Yᵀ (K + M/τ²) Y + A."""
    t, f, width = arrays.tets, arrays.flesh, len(arrays.c)
    hessian, rows, K = arrays.hessian, arrays.rows, arrays.matrix.shape[1]
    for i in range(width):
        for j in range(K):
            hessian[i, j] = arrays.matrix[i, j]
        for j in range(K, width):
            hessian[i, j] = 0.0
    flat = hessian.reshape(hessian.size)
    for v in range(len(f.x)):
        if f.starts[v] == f.starts[v + 1]:
            continue
        for i in range(len(rows)):
            rows[i] = 0.0
        start, stride = t.starts[v], 3 * (t.starts[v + 1] - t.starts[v])
        for slot in range(t.starts[v + 1] - start):
            u, block = t.neighbours[start + slot], 9 * start + 3 * slot
            for s in range(f.starts[u], f.starts[u + 1]):
                begin, end, at = f.spans[s, 0], f.spans[s, 1], 3 * width * u
                add_block_rows(t.blocks, block, stride, f.columns, at, width, begin, end, rows)
        for s in range(f.starts[v], f.starts[v + 1]):
            begin, end = f.spans[s, 0], f.spans[s, 1]
            add_outer_rows(f.columns, 3 * width * v, width, begin, end, rows, flat)
    for i in range(width):
        for j in range(i):
            hessian[i, j] = hessian[j, i]
