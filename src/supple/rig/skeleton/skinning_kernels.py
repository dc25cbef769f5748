"""Compiled loops of skinning: from a pose to transforms of joints, and from those to vertices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_brief
from supple.maths.quaternions import exponential, multiply, to_matrix
from supple.maths.small_matrices import rotation_svd
from supple.rig.skeleton.joints import times_affine

# The innermost part of linear blend skinning is written in vector instructions: the loop vectoriser
# does not combine the four sums, and its scalar code took 12 ns per vertex with four influences;
# this takes 7. The instructions are LLVM's, for any processor, and nothing is contracted or
# reordered, so that a vertex has the same bits wherever it is evaluated.

INDEX, LANE = ir.IntType(64), ir.IntType(32)
FOUR = ir.VectorType(ir.DoubleType(), 4)
UNSET = ir.Constant(FOUR, ir.Undefined)


@intrinsic
def blended_point(
    typing: Any, columns: Any, joints: Any, weights: Any, x: Any, y: Any, z: Any
) -> Any:
    """Return (Σ w T) (x, y, z, 1) as three numbers.

    `columns` (J, 4, 4) float64 holds the columns of the transforms T as rows; `joints` int32 and
    `weights` float64 are one vertex's, contiguous. Indices are not checked.
    """
    of_doubles = all(array.dtype == types.float64 for array in (columns, weights))
    contiguous = all(array.layout == "C" for array in (columns, joints, weights))
    if not (of_doubles and contiguous and joints.dtype == types.int32):
        raise TypeError("blended_point takes contiguous float64 arrays and int32 joints")
    signature = types.UniTuple(types.float64, 3)(columns, joints, weights, x, y, z)
    return signature, _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    arrays = [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args[:3], arguments[:3], strict=True)
    ]
    sums = _blended_columns(builder, *arrays)
    result = sums[3]
    for column, coordinate in zip(sums[:3], arguments[3:], strict=True):
        result = builder.fadd(result, builder.fmul(_in_all_lanes(builder, coordinate), column))
    lanes = [builder.extract_element(result, LANE(lane)) for lane in range(3)]
    return context.make_tuple(builder, signature.return_type, lanes)


def _blended_columns(builder: Any, columns: Any, joints: Any, weights: Any) -> list[Any]:
    """Emit the four columns of Σ w T."""
    count = cgutils.unpack_tuple(builder, joints.shape)[0]
    zero = ir.Constant(FOUR, [0.0] * 4)
    sums = [cgutils.alloca_once_value(builder, zero) for _ in range(4)]
    with cgutils.for_range(builder, count) as loop:
        joint = builder.sext(builder.load(builder.gep(joints.data, [loop.index])), INDEX)
        weight = _in_all_lanes(builder, builder.load(builder.gep(weights.data, [loop.index])))
        start = builder.gep(columns.data, [builder.mul(joint, INDEX(16))])
        matrix = builder.bitcast(start, FOUR.as_pointer())
        for k, total in enumerate(sums):
            column = builder.load(builder.gep(matrix, [INDEX(k)]), align=8)
            builder.store(builder.fadd(builder.load(total), builder.fmul(weight, column)), total)
    return [builder.load(total) for total in sums]


def _in_all_lanes(builder: Any, scalar: Any) -> Any:
    first = builder.insert_element(UNSET, scalar, LANE(0))
    return builder.shuffle_vector(first, UNSET, ir.Constant(ir.VectorType(LANE, 4), [0] * 4))


#: A joint's Gram matrix this near to I is a rotation's: rounding of chained products.
RIGID = 1e-9


@compiled_brief
def multiply_all(a: Floats, b: Floats, out: Floats) -> None:
    """Multiply 4 × 4 matrices, one by one; NumPy's call costs more than the sixty products."""
    for k in range(len(a)):
        _times(a[k], b[k], out[k])


@compiled_brief
def turn_over(matrices: Floats) -> None:
    """Transpose 4 × 4 matrices in place."""
    for k in range(len(matrices)):
        for row in range(4):
            for column in range(row):
                entry = matrices[k, row, column]
                matrices[k, row, column] = matrices[k, column, row]
                matrices[k, column, row] = entry


@compiled
def skin_linear(
    points: Floats,
    joints: NDArray[np.int32],
    weights: Floats,
    rows: Ints,
    columns: Floats,
    out: Floats,
) -> None:
    """Write Σ w T x over the influences of each point.

    Point i has row ``rows[i]`` of `joints` and `weights`; an empty list means row i. `columns`
    (J, 4, 4) holds the transforms' columns as rows.
    """
    everything = len(rows) == 0
    for i in range(len(out)):
        vertex, point = i if everything else rows[i], points[i]
        out[i, 0], out[i, 1], out[i, 2] = blended_point(  # type: ignore[call-arg]
            columns, joints[vertex], weights[vertex], point[0], point[1], point[2]
        )


@compiled
def skin_dual(
    points: Floats,
    joints: NDArray[np.int32],
    weights: Floats,
    rows: Ints,
    duals: Floats,
    stretches: Floats,
    stretched: bool,
    out: Floats,
) -> None:
    """Skin by dual quaternions (Kavan et al. 2008) after linearly blended stretches.

    Rows as in `skin_linear`; `duals` (J, 8) are rotation and dual part, `stretches` (J, 3, 3)
    is applied when `stretched`.
    """
    everything = len(rows) == 0
    for i in range(len(out)):
        vertex, point = i if everything else rows[i], points[i]
        follow, weight = joints[vertex], weights[vertex]
        x, y, z = point[0], point[1], point[2]
        if stretched:
            x, y, z = _stretch(follow, weight, stretches, x, y, z)
        _blend_and_move(follow, weight, duals, x, y, z, out[i])


@compiled
def skin_dual_if_stretched(
    points: Floats,
    joints: NDArray[np.int32],
    weights: Floats,
    rows: Ints,
    duals: Floats,
    stretches: Floats,
    stretched: Ints,
    out: Floats,
) -> None:
    """Call `skin_dual`, with stretches if `stretched` (1,) is not 0."""
    skin_dual(points, joints, weights, rows, duals, stretches, stretched[0] != 0, out)


@compiled
def _stretch(
    follow: NDArray[np.int32], weight: Floats, stretches: Floats, x: float, y: float, z: float
) -> tuple[float, float, float]:
    a = b = c = 0.0
    for slot in range(len(follow)):
        m, w = stretches[follow[slot]], weight[slot]
        a += w * (m[0, 0] * x + m[0, 1] * y + m[0, 2] * z)
        b += w * (m[1, 0] * x + m[1, 1] * y + m[1, 2] * z)
        c += w * (m[2, 0] * x + m[2, 1] * y + m[2, 2] * z)
    return a, b, c


@compiled
def _blend_and_move(
    follow: NDArray[np.int32],
    weight: Floats,
    duals: Floats,
    px: float,
    py: float,
    pz: float,
    out: Floats,
) -> None:
    """Move a point by the unit blend of its dual quaternions.

    Each dual quaternion has the sign nearer to that of the heaviest joint, which is the first: the
    component of the blend along it is then at least its weight, so that the blend is never zero.
    """
    pivot = duals[follow[0]]
    i, j, k, l = pivot[0], pivot[1], pivot[2], pivot[3]
    x = y = z = w = e = f = g = h = 0.0
    for slot in range(len(follow)):
        dual, part = duals[follow[slot]], weight[slot]
        if dual[0] * i + dual[1] * j + dual[2] * k + dual[3] * l < 0:
            part = -part
        x, y, z, w = x + part * dual[0], y + part * dual[1], z + part * dual[2], w + part * dual[3]
        e, f, g, h = e + part * dual[4], f + part * dual[5], g + part * dual[6], h + part * dual[7]
    # Rotate by q, then move by the vector part of 2 d q*; both are quadratic in the blend, so
    # dividing by its squared length makes it unit.
    twice = 2 / (x * x + y * y + z * z + w * w)
    cx, cy, cz = y * pz - z * py + w * px, z * px - x * pz + w * py, x * py - y * px + w * pz
    out[0] = px + twice * (y * cz - z * cy + w * e - h * x + y * g - z * f)
    out[1] = py + twice * (z * cx - x * cz + w * f - h * y + z * e - x * g)
    out[2] = pz + twice * (x * cy - y * cx + w * g - h * z + x * f - y * e)


def dual_quaternions(matrices: Floats) -> tuple[Floats, Floats, bool]:
    """Decompose affine transforms: rigid part (J, 8), stretch (J, 3, 3), whether any stretches.

    Each transform is x ↦ R S x + t with S symmetric, by polar decomposition; mirroring
    makes S negative, as in UsdSkel.
    """
    linear = np.ascontiguousarray(matrices[:, :3, :3])
    duals, stretches = np.empty((len(matrices), 8)), np.empty((len(matrices), 3, 3))
    rotations = linear.copy()
    stretched = _find_stretched(linear, stretches)
    if stretched.any():
        u, s, vt = np.linalg.svd(linear[stretched])
        mirrored = np.linalg.det(u @ vt) < 0
        signs = np.where(mirrored, -1.0, 1.0)[:, None, None]
        rotations[stretched] = signs * (u @ vt)
        stretches[stretched] = signs * np.einsum("jki,jk,jkl->jil", vt, s, vt)
    _to_duals(rotations, np.ascontiguousarray(matrices[:, :3, 3]), duals)
    return duals, stretches, bool(stretched.any())


@compiled
def decompose_transforms(
    matrices: Floats, duals: Floats, stretches: Floats, stretched: Ints, work: Floats
) -> None:
    """Write what `dual_quaternions` returns, without allocation, up to rounding.

    `stretches` (J, 4, 4) keep their last rows and columns; `stretched` (1,) is 1 or 0, and `work`
    (5, 3, 3) is scratch.
    """
    stretched[0] = 0
    linear, U, V, rotation, sigma = work[0], work[1], work[2], work[3], work[4, 0]
    for joint in range(len(matrices)):
        matrix, stretch = matrices[joint], stretches[joint]
        rigid = _is_rotation(matrix)
        for i in range(3):
            for j in range(3):
                linear[i, j] = rotation[i, j] = matrix[i, j]
                stretch[i, j] = 1.0 if i == j else 0.0
        if not rigid:
            stretched[0] = 1
            rotation_svd(linear, U, sigma, V)
            sign = -1.0 if sigma[0] * sigma[1] * sigma[2] < 0 else 1.0
            for i in range(3):
                for j in range(3):
                    rotation[i, j] = stretch[i, j] = 0.0
                    for k in range(3):
                        side = sign if sigma[k] >= 0 else -sign
                        rotation[i, j] += side * U[i, k] * V[j, k]
                        stretch[i, j] += side * V[i, k] * sigma[k] * V[j, k]
        _to_dual(rotation, matrix[0, 3], matrix[1, 3], matrix[2, 3], duals[joint])


@compiled
def _find_stretched(linear: Floats, stretches: Floats) -> NDArray[np.bool_]:
    """Return a mask of matrices that are not rotations, and set all stretches to I."""
    stretched = np.zeros(len(linear), dtype=np.bool_)
    for joint in range(len(linear)):
        stretched[joint] = not _is_rotation(linear[joint])
        stretches[joint] = np.eye(3)
    return stretched


@compiled
def _is_rotation(m: Floats) -> bool:
    """Return whether the upper left 3 × 3 part of a matrix is a rotation, up to rounding."""
    for i in range(3):
        for j in range(i, 3):
            gram = m[0, i] * m[0, j] + m[1, i] * m[1, j] + m[2, i] * m[2, j]
            if not abs(gram - (1.0 if i == j else 0.0)) < RIGID:
                return False
    determinant = (
        m[0, 0] * (m[1, 1] * m[2, 2] - m[1, 2] * m[2, 1])
        - m[0, 1] * (m[1, 0] * m[2, 2] - m[1, 2] * m[2, 0])
        + m[0, 2] * (m[1, 0] * m[2, 1] - m[1, 1] * m[2, 0])
    )
    return determinant > 0


@compiled
def _to_duals(rotations: Floats, translations: Floats, out: Floats) -> None:
    for joint in range(len(rotations)):
        t = translations[joint]
        _to_dual(rotations[joint], t[0], t[1], t[2], out[joint])


@compiled
def _to_dual(rotation: Floats, t: float, u: float, v: float, dual: Floats) -> None:
    """Write the dual quaternion of a rotation and a translation (t, u, v)."""
    to_quaternion(rotation, dual)
    x, y, z, w = dual[0], dual[1], dual[2], dual[3]
    # Half of (t, 0) times q.
    dual[4] = 0.5 * (t * w + u * z - v * y)
    dual[5] = 0.5 * (u * w + v * x - t * z)
    dual[6] = 0.5 * (v * w + t * y - u * x)
    dual[7] = -0.5 * (t * x + u * y + v * z)


@compiled
def to_quaternion(m: Floats, out: Floats) -> None:
    """Write the unit quaternion (x, y, z, w) of a rotation (Shepperd 1978)."""
    trace = m[0, 0] + m[1, 1] + m[2, 2]
    largest = 3
    best = trace
    for axis in range(3):
        if m[axis, axis] > best:
            largest, best = axis, m[axis, axis]
    if largest == 3:
        out[3] = 1 + trace
        out[0], out[1], out[2] = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    else:
        i, j, k = largest, (largest + 1) % 3, (largest + 2) % 3
        out[i] = 1 + 2 * m[i, i] - trace
        out[j] = m[j, i] + m[i, j]
        out[k] = m[k, i] + m[i, k]
        out[3] = m[k, j] - m[j, k]
    length = math.sqrt(out[0] ** 2 + out[1] ** 2 + out[2] ** 2 + out[3] ** 2)
    for entry in range(4):
        out[entry] /= length


@compiled_brief
def skin_transforms(
    pose: Floats, entries: Ints, rest: Floats, inverse_bind: Floats, world: Floats, matrices: Floats
) -> None:
    """Write `matrices` (J, 4, 4) from bound to posed, as `SkinnedRig.skin_matrices` returns them.

    `entries` (J, 10) are the parent of each joint or -1, then the indices in the pose of its
    rotation vector, offset and logarithms of scale, -1 for missing ones. `rest` (J, 10) are
    translation, rotation and scale at rest; `world` (J + 1, 4, 4) is scratch for the joints'
    transforms and, last, a local transform.
    """
    count = len(entries)
    local = world[count]
    for joint in range(count):
        entry, at_rest = entries[joint], rest[joint]
        # The joint's matrix, which is written last, is scratch for its rotation.
        vector, turn = world[joint, 0], world[joint, 1]
        for axis in range(3):
            vector[axis] = pose[entry[1 + axis]] if entry[1 + axis] >= 0 else 0.0
        exponential(vector, turn)
        turned = world[joint, 2]
        multiply(at_rest[3:7], turn, turned)
        to_matrix(turned, local)
        for axis in range(3):
            scale, offset = at_rest[7 + axis], at_rest[axis]
            if entry[7 + axis] >= 0:
                scale *= math.exp(pose[entry[7 + axis]])
            if entry[4 + axis] >= 0:
                offset += pose[entry[4 + axis]]
            for row in range(3):
                local[row, axis] *= scale
            local[axis, 3] = offset
        times_affine(world, entry[0], local, world[joint])
        _times(world[joint], inverse_bind[joint], matrices[joint])


@compiled
def _times(a: Floats, b: Floats, out: Floats) -> None:
    for row in range(4):
        for column in range(4):
            total = a[row, 0] * b[0, column]
            for m in range(1, 4):
                total += a[row, m] * b[m, column]
            out[row, column] = total


@compiled_brief
def rigid_duals(matrices: Floats, duals: Floats) -> bool:
    """Write unit dual quaternions (J, 8) of rigid transforms; False if one of them is not rigid."""
    for joint in range(len(matrices)):
        if not _is_rotation(matrices[joint]):
            return False
    _to_duals(matrices[:, :3, :3], matrices[:, :3, 3], duals)
    return True
