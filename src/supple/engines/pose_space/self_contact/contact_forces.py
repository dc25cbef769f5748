"""Contact of the skin with itself in reduced coordinates: displacements of samples, and forces.

The depth d of a contact has a row of derivatives c with respect to z: of the displacement of its
sample minus those of the opposite samples, along their normals. Forces of equal size act on both
sides, so that they sum to zero, and their potential ½ k d² w adds the stiffness k w c cᵀ.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Singles
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.simd import add_outer_products, add_three_rows
from supple.compiled.tables import ArgumentTable, table_contents
from supple.engines.common.self_contact.detection import (
    DetectionScratch,
    find_contacts,
    find_near_patches,
    list_pairs,
    place_patches,
)
from supple.engines.pose_space.blend import NEGLIGIBLE, Blend
from supple.engines.pose_space.newton import System
from supple.engines.pose_space.self_contact.sample_tables import SampleTables

#: Depth beyond the rig's own, in sizes, from which forces act, and range in which they ramp up.
LEAST, RAMP = 1e-4, 4e-4
#: Factor on the stiffness of obstacles. Contacts of both sides act together, and their samples
#: press where skin between them goes deeper (heavy man: 0.40 % of the size with ½, 0.37 with 2.5).
HARDER = 2.5
#: Seconds of the damper of contacts: its force is the spring's at a depth of `DAMPING` s of speed.
DAMPING = 0.01
#: Factor on estimates of displacements in a patch, which take the columns as orthogonal.
SAFETY = 2.0
#: Number of rows whose products are added at once.
ROWS = 32


class SelfContactScratch(NamedTuple):
    """Scratch arrays of a thread."""

    detection: DetectionScratch
    z: Floats
    before: Floats
    """(r,) ϒ(q + v dt), at which contacts are detected, and ϒq."""
    grouped: Singles
    """(g, widest) z by group."""
    frames: Singles
    """(s, 4) quaternions of the samples."""
    known: NDArray[np.uint8]
    """(s,) whether a sample's displacement is valid."""
    along: Singles
    """(3,) a direction in the frame of a sample."""
    short: Singles
    """(widest,) a row in the columns of a group."""
    lines: Singles
    """(`ROWS`, r) rows c √k, padded to eight columns."""
    product: Singles
    """(r, r) sum of the products of rows, padded."""
    pushes: Floats
    """(s,) force of each contact at detection in N, without its damper."""


class SelfContactArguments(NamedTuple):
    """Arguments of `detect_skin` and `press_skin`."""

    tables: SampleTables
    blend: Blend
    system: System
    scratch: SelfContactScratch


@compiled_fused
def detect_skin(bound: ArgumentTable, q: Floats, v: Floats, dt: float) -> int:
    """Detect contacts for flesh that keeps its velocity; return their number.

    `bound` holds `SelfContactArguments`.
    """
    arguments: SelfContactArguments = table_contents(bound)
    tables, blend, scratch = arguments.tables, arguments.blend, arguments.scratch
    samples, found, z, before = tables.samples, scratch.detection, scratch.z, scratch.before
    for j in range(len(q)):
        before[j] = blend.column_scale[j] * q[j]
        z[j] = before[j] + blend.column_scale[j] * v[j] * dt
    for g in range(len(tables.width)):
        for j in range(tables.width[g]):
            column = tables.columns[g, j]
            scratch.grouped[g, j] = z[column] if column >= 0 else 0.0
    scratch.known[:] = 0
    place_patches(samples, found)
    for k in range(len(samples.radius)):
        found.bounds[k] = SAFETY * _length(tables.largest[k], z)
    if find_near_patches(samples, found) == 0 or list_pairs(samples, found) == 0:
        found.counts[1] = found.counts[2] = 0
        return 0
    for k in range(len(samples.radius)):
        if found.marked[k]:
            for s in range(samples.starts[k], samples.starts[k + 1]):
                if found.needed[s] == 2:
                    _displace(tables, blend, s, scratch)
    return find_contacts(samples, LEAST * samples.size, found)


@compiled_fused
def press_skin(bound: ArgumentTable, count: int, dt: float, stiffness: float) -> None:
    """Add the forces of detected contacts to the system; `stiffness` is in Pa/m."""
    arguments: SelfContactArguments = table_contents(bound)
    tables, blend, system, scratch = arguments
    _add_forces(tables, blend, system, dt, stiffness, count, scratch)


@compiled_sums
def _length(lengths, z):  # type: ignore[no-untyped-def]
    """Return the length of a sum of columns of these lengths times z, if they are orthogonal."""
    total = np.float32(0)
    for j in range(len(z)):
        part = lengths[j] * np.float32(z[j])
        total += part * part
    return np.float32(math.sqrt(total))


@compiled_sums
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled_fused
def _displace(tables: SampleTables, blend: Blend, s: int, scratch: SelfContactScratch) -> None:
    """Write a sample's frame, and its displacement at z in the root's axes, once per step."""
    if scratch.known[s]:
        return
    scratch.known[s] = 1
    u, group = scratch.detection.u[s], tables.groups[s]
    u[0], u[1], u[2] = 0, 0, 0
    if group < 0:
        return
    width, weights = tables.width[group], blend.weights
    z = scratch.grouped[group, :width]
    at = tables.starts[s]
    for pose in range(len(weights)):
        if abs(weights[pose]) > NEGLIGIBLE:
            for axis in range(3):
                u[axis] += weights[pose] * _dot(tables.rows[at : at + width], z)
                at += width
        else:
            at += 3 * width
    if tables.quaternions.shape[1] > 0:
        frame = scratch.frames[s]
        _write_frame(tables, blend, s, frame)
        _rotate(frame, np.float32(1), u)


@compiled_fused
def _write_frame(tables: SampleTables, blend: Blend, s: int, frame: Singles) -> None:
    """Write the unit quaternion of a sample's frame; see `carrier_quaternions`."""
    weights, strongest = blend.weights, 0
    x, y, z, w = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for pose in range(len(weights)):
        weight, row = np.float32(weights[pose]), tables.quaternions[pose, s]
        if abs(weights[pose]) > abs(weights[strongest]):
            strongest = pose
        x, y = x + weight * row[0], y + weight * row[1]
        z, w = z + weight * row[2], w + weight * row[3]
    if len(tables.near) > 0:
        a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
        for k in range(4):
            share, row = tables.near_shares[s, k], blend.tet_rotations[tables.near[s, k]]
            a, b = a + share * row[0], b + share * row[1]
            c, d = c + share * row[2], d + share * row[3]
        x, y, z, w = (
            d * x + a * w + b * z - c * y,
            d * y + b * w + c * x - a * z,
            d * z + c * w + a * y - b * x,
            d * w - a * x - b * y - c * z,
        )
    squared = x * x + y * y + z * z + w * w
    if squared > 1e-8:
        scale = np.float32(1 / math.sqrt(squared))
        frame[0], frame[1], frame[2], frame[3] = x * scale, y * scale, z * scale, w * scale
    else:
        for i in range(4):
            frame[i] = tables.quaternions[strongest, s, i]


@compiled_fused
def _rotate(q, sign, u):  # type: ignore[no-untyped-def]
    """Rotate u by a unit quaternion, or with `sign` −1 by its inverse."""
    a, b, c, w = sign * q[0], sign * q[1], sign * q[2], q[3]
    x, y, z = u[0], u[1], u[2]
    p, r, t = 2 * (b * z - c * y), 2 * (c * x - a * z), 2 * (a * y - b * x)
    u[0] = x + w * p + b * t - c * r
    u[1] = y + w * r + c * p - a * t
    u[2] = z + w * t + a * r - b * p


@compiled_fused
def _add_row(
    tables: SampleTables,
    blend: Blend,
    s: int,
    x: float,
    y: float,
    z: float,
    scratch: SelfContactScratch,
    line: Singles,
) -> None:
    """Add the derivatives of the displacement of a sample along (x, y, z) to a row (r,)."""
    group = tables.groups[s]
    if group < 0:
        return
    along, weights, width = scratch.along, blend.weights, tables.width[group]
    along[0], along[1], along[2] = x, y, z
    if tables.quaternions.shape[1] > 0:
        _rotate(scratch.frames[s], np.float32(-1), along)
    short = scratch.short[:width]
    for j in range(width):
        short[j] = 0
    for pose in range(len(weights)):
        weight = np.float32(weights[pose])
        if abs(weights[pose]) > NEGLIGIBLE:
            at = tables.starts[s] + 3 * pose * width
            a, b, c = weight * along[0], weight * along[1], weight * along[2]
            add_three_rows(tables.rows, at, width, a, b, c, short)
    columns = tables.columns[group]
    for j in range(width):
        if columns[j] >= 0:
            line[columns[j]] += short[j]


@compiled_fused
def _add_forces(
    tables: SampleTables,
    blend: Blend,
    system: System,
    dt: float,
    stiffness: float,
    count: int,
    scratch: SelfContactScratch,
) -> None:
    """Add linearised forces and stiffness of the contacts to the system."""
    r, found, samples = len(scratch.z), scratch.detection, tables.samples
    padded = (r + 7) // 8 * 8
    product, lines = scratch.product, scratch.lines
    if system.pressing[0] == 0:
        system.contact[:] = 0
    system.pressing[0] += count
    product[:] = 0
    for first in range(0, count, ROWS):
        last = min(first + ROWS, count)
        lines[:] = 0
        for k in range(first, last):
            s = found.contacts[k]
            line = lines[(k - first) * padded : (k - first) * padded + r]
            total = found.sums[s, 0]
            x, y, z = found.sums[s, 1] / total, found.sums[s, 2] / total, found.sums[s, 3] / total
            _add_row(tables, blend, s, x, y, z, scratch, line)
        for pair in range(found.counts[1]):
            a, b, weight = found.ends[pair, 0], found.ends[pair, 1], found.weights[pair]
            for c, d in ((a, b), (b, a)):
                k = found.rows[c]
                if first <= k < last:
                    line = lines[(k - first) * padded : (k - first) * padded + r]
                    share, n = -weight / found.sums[c, 0], found.normals[d]
                    x, y, z = share * n[0], share * n[1], share * n[2]
                    _add_row(tables, blend, d, x, y, z, scratch, line)
        for k in range(first, last):
            line = lines[(k - first) * padded : (k - first) * padded + r]
            _scale_row(found, samples, k, dt, stiffness, line, scratch, system.external)
        add_outer_products(lines, lines, last - first, padded, product)
    for i in range(r):
        for j in range(i, r):
            system.contact[i, j] += product[i * padded + j]


@compiled_fused
def _scale_row(found, samples, k, dt, stiffness, line, scratch, force):  # type: ignore[no-untyped-def]
    """Scale a contact's row by √k, and add its force at z = 0 to `force`."""
    s = found.contacts[k]
    depth = found.depths[k] - LEAST * samples.size
    hard = HARDER * stiffness * samples.areas[s] * found.shares[k]
    ramp = RAMP * samples.size
    slope = min(depth / ramp, 1.0)
    push = hard * (0.5 * depth * slope if depth < ramp else depth - 0.5 * ramp)
    hard *= slope
    scratch.pushes[k] = push
    damper = hard * DAMPING / dt
    there, here = 0.0, 0.0
    for j in range(len(line)):
        there += line[j] * scratch.z[j]
        here += line[j] * scratch.before[j]
    # −∂depth/∂z = c, so the force along c at z = 0 is push + k c·z, and the damper's k′ c·z before.
    total = push + hard * there + damper * here
    for j in range(len(line)):
        force[j] += total * line[j]
    scale = np.float32(math.sqrt(hard + damper))
    for j in range(len(line)):
        line[j] *= scale
