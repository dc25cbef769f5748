"""Detection of skin that is deeper in other skin than in the rig's own pose.

The opposite skin of a sample is the weighted mean of the tangent planes of samples that face it.
With x the positions by the rig, u the displacements and n the normals at the rig's pose, the gap of
sample a is Σ w_b n_b·(x_a + u_a − x_b − u_b), and in the rig's own pose Σ w_b n_b·(x_a − x_b). The
depth that counts is that beyond the surface, or where the rig overlaps beyond the rig's own depth:
−Σ w_b n_b·(u_a − u_b) − max(rig's gap, 0). Without displacements no depth is positive. Weights are
smooth functions of the positions, so that no force jumps.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.compiled.jit import compiled_fused
from supple.engines.common.self_contact.samples import FACING, SkinSamples

#: Cosine between normals from which the weight of a pair is no longer reduced.
OPPOSED = -0.5
#: Sum of weights from which a contact has its full force.
WHOLE = 0.25
#: Largest numbers of pairs of patches and of samples, for each sample.
PATCH_PAIRS, PAIRS = 8, 24


class DetectionScratch(NamedTuple):
    """Scratch arrays of a thread, and the contacts of the last detection."""

    x: Singles
    """(s, 3) positions of the samples by the rig."""
    u: Singles
    """(s, 3) displacements, valid for samples of marked patches."""
    normals: Singles
    """(s, 3) unit normals at the rig's pose, valid for samples of marked patches."""
    marked: NDArray[np.uint8]
    """(p,) patches that may touch another."""
    places: Singles
    """(6, p) positions and normals of the patches' first samples, by the rig."""
    bounds: Singles
    """(p,) largest displacements in the patches, in m."""
    reaches: Singles
    """(p,) radii of balls around displaced patches, whose pairs overlap if they may touch, in m."""
    hits: NDArray[np.uint8]
    words: Ints
    """(p,) whether each patch may touch another, padded, and the same memory in words."""
    near: NDArray[np.int32]
    """(…, 2) pairs of patches that may touch."""
    opposed: Singles
    """(…,) factor on the weights of each pair of patches, by the angle of their normals."""
    moved: Singles
    """(…,) largest relative displacement of each pair of patches, in m."""
    needed: NDArray[np.uint8]
    """(s,) 1 for samples whose normal is valid, 2 for those of listed pairs."""
    counts: Ints
    """(4,) numbers of pairs of patches, pairs of samples and contacts, and of pairs left out."""
    sums: Floats
    """(s, 6) sums by sample: weights, weighted normals, gaps in the rig's pose and their change."""
    ends: NDArray[np.int32]
    """(…, 2) pairs of samples that are in the skin opposite to each other."""
    weights: Floats
    """(…,) weight of each pair."""
    contacts: NDArray[np.int32]
    """(s,) samples in contact."""
    rows: NDArray[np.int32]
    """(s,) number of the contact of each sample, or −1."""
    depths: Floats
    """(s,) depth of each contact beyond the rig's own, in m."""
    shares: Floats
    """(s,) factor on the force of each contact, up to 1, at the edge of the opposite skin."""

    @classmethod
    def of(cls, samples: SkinSamples) -> Self:
        """Make arrays for these samples."""
        s, p = len(samples.vertices), len(samples.radius)
        words = np.zeros(-(-p // 8), np.int64)
        return cls(
            x=np.zeros((s, 3), np.float32),
            u=np.zeros((s, 3), np.float32),
            normals=np.zeros((s, 3), np.float32),
            marked=np.zeros(p, np.uint8),
            places=np.zeros((6, p), np.float32),
            bounds=np.zeros(p, np.float32),
            reaches=np.zeros(p, np.float32),
            hits=words.view(np.uint8),
            words=words,
            near=np.zeros((PATCH_PAIRS * s, 2), np.int32),
            moved=np.zeros(PATCH_PAIRS * s, np.float32),
            needed=np.zeros(s, np.uint8),
            opposed=np.zeros(PATCH_PAIRS * s, np.float32),
            counts=np.zeros(4, np.int64),
            sums=np.zeros((s, 6)),
            ends=np.zeros((PAIRS * s, 2), np.int32),
            weights=np.zeros(PAIRS * s),
            contacts=np.zeros(s, np.int32),
            rows=np.full(s, -1, np.int32),
            depths=np.zeros(s),
            shares=np.zeros(s),
        )


@compiled_fused
def sample_normal(samples: SkinSamples, x: Singles, s: int) -> tuple[float, float, float]:
    """Return the unit normal of a sample at the rig's pose."""
    a, b, c = samples.corners[s, 0], samples.corners[s, 1], samples.corners[s, 2]
    p, q, r = x[b, 0] - x[a, 0], x[b, 1] - x[a, 1], x[b, 2] - x[a, 2]
    u, v, w = x[c, 0] - x[a, 0], x[c, 1] - x[a, 1], x[c, 2] - x[a, 2]
    i, j, k = q * w - r * v, r * u - p * w, p * v - q * u
    length = math.sqrt(i * i + j * j + k * k)
    scale = 1 / length if length > 0 else 0.0
    return i * scale, j * scale, k * scale


@compiled_fused
def place_patches(samples: SkinSamples, scratch: DetectionScratch) -> None:
    """Write positions and normals of the patches' first samples, by the rig."""
    places = scratch.places
    for k in range(len(samples.radius)):
        s = samples.starts[k]
        places[3, k], places[4, k], places[5, k] = sample_normal(samples, scratch.x, s)
        for i in range(3):
            places[i, k] = scratch.x[s, i]


@compiled_fused
def find_near_patches(samples: SkinSamples, scratch: DetectionScratch) -> int:
    """List pairs of patches that may touch, and mark them; return the number of pairs.

    `scratch.bounds` (p,) are the largest displacements in the patches, in m.
    """
    near, marked, hits, words = scratch.near, scratch.marked, scratch.hits, scratch.words
    places, bounds, reaches = scratch.places, scratch.bounds, scratch.reaches
    x, y, z, p, q, r = places[0], places[1], places[2], places[3], places[4], places[5]
    count, patches = 0, len(samples.radius)
    for k in range(patches):
        marked[k] = 0
        reaches[k] = samples.radius[k] + bounds[k] + 0.5 * samples.reach
    for a in range(patches):
        _mark_near(a, x, y, z, p, q, r, reaches, samples.facing[a], hits)
        for w in range(a // 8, len(words)):
            if words[w] == 0:
                continue
            for b in range(max(8 * w, a), min(8 * w + 8, patches)):
                moved = bounds[a] + bounds[b]
                opposed = _opposed(samples, places, a, b, moved) if hits[b] else 0.0
                if opposed == 0:
                    continue
                if count == len(near):
                    scratch.counts[3] += 1
                    continue
                near[count, 0], near[count, 1] = a, b
                scratch.opposed[count], scratch.moved[count] = opposed, moved
                marked[a] = marked[b] = 1
                count += 1
    scratch.counts[0] = count
    return count


@compiled_fused
def _mark_near(a, x, y, z, p, q, r, reaches, facing, hits):  # type: ignore[no-untyped-def]
    """Mark patches that are near patch a and face it; a loop without branches, for vectors."""
    ax, ay, az, ap, aq, ar, reach = x[a], y[a], z[a], p[a], q[a], r[a], reaches[a]
    limit = np.float32(FACING)
    for b in range(len(x)):  # from 0 on: with a negative index possible, it has branches
        i, j, k = ax - x[b], ay - y[b], az - z[b]
        cosine = ap * p[b] + aq * q[b] + ar * r[b]
        within = reach + reaches[b]
        near = (i * i + j * j + k * k < within * within) & (cosine < limit)
        hits[b] = near & (facing[b] != 0)


@compiled_fused
def _opposed(samples: SkinSamples, places: Singles, a: int, b: int, moved: float) -> float:
    """Return how much the normals of two patches are opposed, 0 to 1.

    The result is 0 if relative displacements of up to `moved` cannot close the gap.
    """
    above, below, cosine = 0.0, 0.0, 0.0
    for i in range(3):
        offset = places[i, a] - places[i, b]
        above += offset * places[3 + i, b]
        below -= offset * places[3 + i, a]
        cosine += places[3 + i, a] * places[3 + i, b]
    sine = math.sqrt(max(1 - cosine * cosine, 0.0))
    p, q = samples.radius[a] * sine, samples.radius[b] * sine
    thick = samples.thickness[a] + samples.thickness[b] + moved
    if max(above - p, below - q) >= thick or min(above + p, below + q) <= -samples.reach - thick:
        return 0.0
    part = min(max((FACING - cosine) / (FACING - OPPOSED), 0.0), 1.0)
    return part * part * (3 - 2 * part)


@compiled_fused
def list_pairs(samples: SkinSamples, scratch: DetectionScratch) -> int:
    """List pairs of samples of the near patches that may touch; mark and count them."""
    starts, x, normals = samples.starts, scratch.x, scratch.normals
    scratch.needed[:] = 0
    count = 0
    for k in range(scratch.counts[0]):
        p, q, moved = scratch.near[k, 0], scratch.near[k, 1], scratch.moved[k]
        within, opposed = (samples.reach + moved) ** 2, scratch.opposed[k]
        deepest = -samples.reach - moved
        for a in range(starts[p], starts[p + 1]):
            for b in range(a + 1 if p == q else starts[q], starts[q + 1]):
                i, j, m = x[a, 0] - x[b, 0], x[a, 1] - x[b, 1], x[a, 2] - x[b, 2]
                if i * i + j * j + m * m >= within or samples.excluded[a, b]:
                    continue
                _find_normal(samples, a, scratch)
                _find_normal(samples, b, scratch)
                above = i * normals[b, 0] + j * normals[b, 1] + m * normals[b, 2]
                below = -i * normals[a, 0] - j * normals[a, 1] - m * normals[a, 2]
                if min(above, below) >= moved or max(above, below) <= deepest:
                    continue
                if count == len(scratch.weights):
                    scratch.counts[3] += 1
                    continue
                scratch.ends[count, 0], scratch.ends[count, 1] = a, b
                scratch.weights[count] = opposed
                scratch.needed[a] = scratch.needed[b] = 2
                count += 1
    scratch.counts[1] = count
    return count


@compiled_fused
def _find_normal(samples: SkinSamples, s: int, scratch: DetectionScratch) -> None:
    """Write the normal of a sample, once per step."""
    if scratch.needed[s] == 0:
        n = sample_normal(samples, scratch.x, s)
        scratch.normals[s, 0], scratch.normals[s, 1], scratch.normals[s, 2] = n
        scratch.needed[s] = 1


@compiled_fused
def find_contacts(samples: SkinSamples, least: float, scratch: DetectionScratch) -> int:
    """List samples that are deeper than `least` m in other skin, beyond the rig's own depth.

    Displacements of samples of listed pairs must be valid. Returns the number of contacts.
    """
    starts, sums, counts = samples.starts, scratch.sums, scratch.counts
    for k in range(len(samples.radius)):
        if scratch.marked[k]:
            for s in range(starts[k], starts[k + 1]):
                scratch.rows[s] = -1
                for i in range(6):
                    sums[s, i] = 0
    pairs = 0
    for k in range(counts[1]):
        a, b = scratch.ends[k, 0], scratch.ends[k, 1]
        weight = scratch.weights[k] * _distance_weight(samples, a, b, scratch)
        if weight > 0:
            _add_pair(a, b, weight, scratch)
            scratch.ends[pairs, 0], scratch.ends[pairs, 1] = a, b
            scratch.weights[pairs] = weight
            pairs += 1
    counts[1] = pairs
    count = 0
    for k in range(len(samples.radius)):
        if not scratch.marked[k]:
            continue
        for s in range(starts[k], starts[k + 1]):
            total = sums[s, 0]
            if total <= 0:
                continue
            depth = -sums[s, 5] / total - max(sums[s, 4] / total, 0.0)
            if depth > least:
                scratch.contacts[count], scratch.rows[s] = s, count
                scratch.depths[count], scratch.shares[count] = depth, min(total / WHOLE, 1.0)
                count += 1
    counts[2] = count
    return count


@compiled_fused
def _distance_weight(samples: SkinSamples, a: int, b: int, scratch: DetectionScratch) -> float:
    """Return the weight of a pair of samples by their distance: 1 at 0, smoothly 0 at the reach."""
    x, u, squared = scratch.x, scratch.u, 0.0
    for i in range(3):
        squared += (x[a, i] + u[a, i] - x[b, i] - u[b, i]) ** 2
    part = max(1 - squared / (samples.reach * samples.reach), 0.0)
    return part**4


@compiled_fused
def _add_pair(a: int, b: int, weight: float, scratch: DetectionScratch) -> None:
    """Add two samples to the opposite skin of each other."""
    x, u, n, sums = scratch.x, scratch.u, scratch.normals, scratch.sums
    p, q, r = x[a, 0] - x[b, 0], x[a, 1] - x[b, 1], x[a, 2] - x[b, 2]
    i, j, k = u[a, 0] - u[b, 0], u[a, 1] - u[b, 1], u[a, 2] - u[b, 2]
    sums[a, 0] += weight
    sums[b, 0] += weight
    for m in range(3):
        sums[a, 1 + m] += weight * n[b, m]
        sums[b, 1 + m] += weight * n[a, m]
    # The mean gap from both planes: a point outside a sharp edge may be behind the edge's plane.
    gap = 0.5 * ((n[b, 0] - n[a, 0]) * p + (n[b, 1] - n[a, 1]) * q + (n[b, 2] - n[a, 2]) * r)
    sums[a, 4] += weight * gap
    sums[b, 4] += weight * gap
    sums[a, 5] += weight * (n[b, 0] * i + n[b, 1] * j + n[b, 2] * k)
    sums[b, 5] -= weight * (n[a, 0] * i + n[a, 1] * j + n[a, 2] * k)


@compiled_fused
def add_sample_forces(scratch: DetectionScratch, pushes: Floats, out: Floats) -> None:
    """Add forces of contacts to `out` (s, 3): `pushes` (c,) in N, and the opposite on the others.

    Both sides of a contact get the same force, so that all forces sum to zero.
    """
    sums, rows, weights, normals = scratch.sums, scratch.rows, scratch.weights, scratch.normals
    for k in range(scratch.counts[1]):
        a, b = scratch.ends[k, 0], scratch.ends[k, 1]
        for i in range(3):
            if rows[a] >= 0:
                force = pushes[rows[a]] * weights[k] / sums[a, 0] * normals[b, i]
                out[a, i], out[b, i] = out[a, i] + force, out[b, i] - force
            if rows[b] >= 0:
                force = pushes[rows[b]] * weights[k] / sums[b, 0] * normals[a, i]
                out[b, i], out[a, i] = out[b, i] + force, out[a, i] - force
