"""Points of a soft skeleton: positions by bones and flesh, and their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused, compiled_fused_inline
from supple.engines.soft_skeleton.bones.bone_chain import BoneChain
from supple.errors import SuppleError

#: Largest number of bones that move one point: `PointTables.hangs` has a bit for each.
MOST_FOLLOWED = 62


class PointTables(NamedTuple):
    """Weights of points on bones and flesh coordinates.

    x_i = Σ_k w_ik (G_k (X_i + Σ_c Ψ_ic φ_c) + t_k).
    """

    rest: Floats  # (n, 3) X, on the body at rest
    bone_starts: Ints  # (n + 1,) first entry of each point in `bones` and `weights`
    bones: Ints
    weights: Floats  # w_ik
    flesh_starts: Ints  # (n + 1,) first entry of each point in `columns` and `shapes`
    columns: Ints  # coordinates φ_c that move a point, ascending
    shapes: Floats  # (…, 3) Ψ_ic
    joint_starts: Ints  # (n + 1,) first entry of each point in `joints`
    joints: Ints  # joints above a bone of the point, ascending
    hangs: Ints  # bit mask of the point's bones below each of `joints`


class PosedPoints(NamedTuple):
    """Points, and the bones and flesh that place them."""

    tables: PointTables
    offsets: Floats  # (n, 3) displacements on the body at rest, before the bones move it
    rotations: Floats  # (K, 3, 3) G_k of the bones
    translations: Floats  # (K, 3) t_k of the bones
    joints: Floats  # (K, 3) positions o_k of the joints in the world
    phi: Floats  # (m,) coordinates of the flesh


def point_tables(
    parents: Ints, rest: Floats, weights: sp.csr_array, shapes: Sequence[sp.csr_array] | None = None
) -> PointTables:
    """Return the tables of points (n, 3) at rest, with bone weights (n, K), whose rows sum to 1.

    Each bone is listed after its parent. `shapes` are the x, y and z components of Ψ, (n, m) each,
    with the same sparsity pattern; None for points on bone.
    """
    n = len(rest)
    weights = sp.csr_array(weights)
    weights.sort_indices()
    if np.diff(weights.indptr).max(initial=0) > MOST_FOLLOWED:
        raise SuppleError(
            f"a vertex follows more than {MOST_FOLLOWED} bones; limit its weights, say to 8"
        )
    above = [_and_above(parents, bone) for bone in range(len(parents))]
    starts, joints, hangs = [0], [], []
    for i in range(n):
        bones = weights.indices[weights.indptr[i] : weights.indptr[i + 1]]
        bits: dict[int, int] = {}
        for bit, bone in enumerate(bones):
            for joint in above[bone]:
                bits[joint] = bits.get(joint, 0) | 1 << bit
        joints += sorted(bits)
        hangs += [bits[joint] for joint in sorted(bits)]
        starts.append(len(joints))
    x, y, z = [sp.csr_array(each) for each in shapes or [sp.csr_array((n, 0))] * 3]
    flesh = x.indptr.astype(np.int64), x.indices.astype(np.int64)
    return PointTables(
        np.ascontiguousarray(rest, np.float64),
        weights.indptr.astype(np.int64),
        weights.indices.astype(np.int64),
        np.ascontiguousarray(weights.data, np.float64),
        *flesh,
        np.column_stack([x.data, y.data, z.data]),
        np.array(starts, np.int64),
        np.array(joints, np.int64),
        np.array(hangs, np.int64),
    )


def _and_above(parents: Ints, bone: int) -> list[int]:
    joints = [bone]
    while parents[joints[-1]] >= 0:
        joints.append(int(parents[joints[-1]]))
    return joints


class BodyPoints:
    """Points that bones and flesh move; see `point_tables`."""

    def __init__(self, tables: PointTables) -> None:
        self.tables, self.x = tables, tables.rest.copy()
        #: (n, 3) displacements on the body at rest, such as pose blend shapes.
        self.offsets = np.zeros_like(self.x)

    def posed(self, chain: BoneChain, phi: Floats) -> PosedPoints:
        """Return these points with the bones of `chain` and flesh φ (m,), for compiled loops."""
        bones = chain.rotations, chain.translations, chain.positions
        return PosedPoints(self.tables, self.offsets, *bones, phi)

    def place(self, chain: BoneChain, phi: Floats) -> None:
        """Set `x` (n, 3) for bones and flesh φ (m,)."""
        _place(self.posed(chain, phi), self.x)

    def place_some(self, points: Ints, chain: BoneChain, phi: Floats) -> None:
        """Set `x` of the points with indices `points` (k,) only."""
        _place_some(self.posed(chain, phi), points, self.x)

    def displacements(self, phi: Floats) -> Floats:
        """Return displacements Σ_c Ψ_c φ_c (n, 3) by the flesh, before the bones rotate them."""
        tables = self.tables
        rows = np.repeat(np.arange(len(self.x)), np.diff(tables.flesh_starts))
        total = np.zeros_like(self.x)
        np.add.at(total, rows, phi[tables.columns, None] * tables.shapes)
        return total

    def work(self, chain: BoneChain, phi: Floats, loads: tuple[Ints, Floats] | None) -> float:
        """Return the work in J of forces (k, 3) on points (k,) on displacements by flesh φ (m,)."""
        if loads is None or not len(loads[0]):
            return 0.0
        points, forces = loads
        self.place_some(points, chain, np.zeros(len(phi)))
        before = self.x[points]
        self.place_some(points, chain, phi)
        return float(np.sum(forces * (self.x[points] - before)))

    def unposed(self, chain: BoneChain, moves: Floats) -> Floats:
        """Return (Σ w G)⁻¹ u (n, 3): displacements `moves` u in the world, transformed to rest."""
        pattern = self.tables.weights, self.tables.bones, self.tables.bone_starts
        weights = sp.csr_array(pattern, (len(moves), len(chain.rotations)))
        blend = (weights @ chain.rotations.reshape(-1, 9)).reshape(-1, 3, 3)
        return np.asarray(np.linalg.solve(blend, moves[..., None])[..., 0])


@compiled_fused
def _unposed(body: PosedPoints, i: int) -> tuple[float, float, float]:
    """Return point i with its offset and flesh displacement, before the bones move it."""
    tables, offsets, phi = body.tables, body.offsets, body.phi
    x, y = tables.rest[i, 0] + offsets[i, 0], tables.rest[i, 1] + offsets[i, 1]
    z = tables.rest[i, 2] + offsets[i, 2]
    for at in range(tables.flesh_starts[i], tables.flesh_starts[i + 1]):
        amount = phi[tables.columns[at]]
        x += amount * tables.shapes[at, 0]
        y += amount * tables.shapes[at, 1]
        z += amount * tables.shapes[at, 2]
    return x, y, z


@compiled_fused
def _place(body: PosedPoints, out: Floats) -> None:
    for i in range(len(out)):
        _place_one(body, i, out)


@compiled_fused
def _place_some(body: PosedPoints, points: Ints, out: Floats) -> None:
    for i in points:
        _place_one(body, i, out)


@compiled_fused_inline
def _place_one(body: PosedPoints, i: int, out: Floats) -> None:
    out[i, 0], out[i, 1], out[i, 2] = posed_point(body, i)


@compiled_fused_inline
def posed_point(body, i):  # type: ignore[no-untyped-def]
    """Return the coordinates of point i, placed by bones and flesh."""
    tables, rotations, translations = body.tables, body.rotations, body.translations
    x, y, z = _unposed(body, i)
    a = b = c = 0.0
    for at in range(tables.bone_starts[i], tables.bone_starts[i + 1]):
        w, k = tables.weights[at], tables.bones[at]
        G, t = rotations[k], translations[k]
        a += w * (G[0, 0] * x + G[0, 1] * y + G[0, 2] * z + t[0])
        b += w * (G[1, 0] * x + G[1, 1] * y + G[1, 2] * z + t[1])
        c += w * (G[2, 0] * x + G[2, 1] * y + G[2, 2] * z + t[2])
    return a, b, c


@compiled_fused
def write_columns(body: PosedPoints, i: int, out: Floats, index: Ints, spread: Floats) -> int:
    """Write the nonzero columns of ∂x_i/∂q to `out` (3, …); return their number.

    Their coordinates are written to `index`; `spread` (64, 3) is a work array.
    ∂x/∂ω_j = −[S_j]× with S_j = Σ w_k (x_k − o_j) over the bones below joint j, and
    ∂x/∂φ_c = Σ w_k G_k Ψ_c.
    """
    tables, rotations, translations = body.tables, body.rotations, body.translations
    positions = body.joints
    x, y, z = _unposed(body, i)
    first, last = tables.bone_starts[i], tables.bone_starts[i + 1]
    g00 = g01 = g02 = g10 = g11 = g12 = g20 = g21 = g22 = 0.0
    for at in range(first, last):
        w, k = tables.weights[at], tables.bones[at]
        G, t = rotations[k], translations[k]
        spread[at - first, 0] = w * (G[0, 0] * x + G[0, 1] * y + G[0, 2] * z + t[0])
        spread[at - first, 1] = w * (G[1, 0] * x + G[1, 1] * y + G[1, 2] * z + t[1])
        spread[at - first, 2] = w * (G[2, 0] * x + G[2, 1] * y + G[2, 2] * z + t[2])
        g00, g01, g02 = g00 + w * G[0, 0], g01 + w * G[0, 1], g02 + w * G[0, 2]
        g10, g11, g12 = g10 + w * G[1, 0], g11 + w * G[1, 1], g12 + w * G[1, 2]
        g20, g21, g22 = g20 + w * G[2, 0], g21 + w * G[2, 1], g22 + w * G[2, 2]
    for a in range(3):
        index[a] = a
        for b in range(3):
            out[b, a] = 1.0 if a == b else 0.0
    count = 3
    for at in range(tables.joint_starts[i], tables.joint_starts[i + 1]):
        j, bits = tables.joints[at], tables.hangs[at]
        s0 = s1 = s2 = 0.0
        for bone in range(last - first):
            if bits >> bone & 1:
                w = tables.weights[first + bone]
                s0 += spread[bone, 0] - w * positions[j, 0]
                s1 += spread[bone, 1] - w * positions[j, 1]
                s2 += spread[bone, 2] - w * positions[j, 2]
        for a in range(3):
            index[count + a] = 3 + 3 * j + a
        out[0, count], out[1, count], out[2, count] = 0.0, -s2, s1
        out[0, count + 1], out[1, count + 1], out[2, count + 1] = s2, 0.0, -s0
        out[0, count + 2], out[1, count + 2], out[2, count + 2] = -s1, s0, 0.0
        count += 3
    bones = 3 + 3 * len(positions)
    for at in range(tables.flesh_starts[i], tables.flesh_starts[i + 1]):
        u, v, w = tables.shapes[at, 0], tables.shapes[at, 1], tables.shapes[at, 2]
        index[count] = bones + tables.columns[at]
        out[0, count] = g00 * u + g01 * v + g02 * w
        out[1, count] = g10 * u + g11 * v + g12 * w
        out[2, count] = g20 * u + g21 * v + g22 * w
        count += 1
    return count


@compiled
def add_point_terms(
    body: PosedPoints,
    away: Floats,
    masses: Floats,
    rate: float,
    gravity: Floats,
    gradient: Floats,
    hessian: Floats,
    weight: Floats,
) -> None:
    """Add Σ m J_iᵀ d_i/τ² to the gradient, and Σ m J_iᵀ J_i/τ² to the upper half of the Hessian.

    `away` is d = x − x̂ (n, 3) and `rate` 1/τ²; −Σ m J_iᵀ g is added to `weight` (N,).
    """
    size = len(gradient)
    out, index, spread = np.empty((3, size)), np.empty(size, np.int64), np.empty((64, 3))
    g0, g1, g2 = gravity[0], gravity[1], gravity[2]
    for i in range(len(away)):
        count = write_columns(body, i, out, index, spread)
        m = masses[i]
        d0, d1, d2 = away[i, 0], away[i, 1], away[i, 2]
        _add_rows(out, index, count, rate * m, d0, d1, d2, gradient, hessian)
        for a in range(count):
            pull = out[0, a] * g0 + out[1, a] * g1 + out[2, a] * g2
            weight[index[a]] -= m * pull


@compiled_fused
def _add_rows(
    rows: Floats,
    index: Ints,
    count: int,
    m: float,
    d0: float,
    d1: float,
    d2: float,
    gradient: Floats,
    hessian: Floats,
) -> None:
    first, second, third = rows[0], rows[1], rows[2]
    for a in range(count):
        x, y, z, row = m * first[a], m * second[a], m * third[a], index[a]
        gradient[row] += x * d0 + y * d1 + z * d2
        target = hessian[row]
        for b in range(a, count):
            target[index[b]] += x * first[b] + y * second[b] + z * third[b]
