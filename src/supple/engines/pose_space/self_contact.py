"""Contact of the skin with itself in reduced coordinates: displacements of samples, and forces.

The depth d of a contact has a row of derivatives c with respect to z: of the displacement of its
sample minus those of the opposite samples, along their normals. Forces of equal size act on both
sides, so that they sum to zero, and their potential ½ k d² w adds the stiffness k w c cᵀ.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
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
from supple.engines.common.self_contact.samples import SkinSamples, skin_samples
from supple.engines.pose_space.blend import NEGLIGIBLE, Blend
from supple.engines.pose_space.newton import System
from supple.engines.pose_space.runtime import RuntimeModel, group_by_regions
from supple.engines.pose_space.state import BodyState
from supple.engines.pose_space.step import Workspace
from supple.engines.pose_space.step_options import StepOptions
from supple.rig.placement.placement import Placement, placement

#: Depth beyond the rig's own, in sizes, from which forces act, and range in which they ramp up.
LEAST, RAMP = 1e-4, 4e-4
#: Seconds of the damper of contacts: its force is the spring's at a depth of `DAMPING` s of speed.
DAMPING = 0.01
#: Factor on estimates of displacements in a patch, which take the columns as orthogonal.
SAFETY = 2.0
#: Number of rows whose products are added at once.
ROWS = 32


class SampleTables(NamedTuple):
    """Bases at the samples, read only; a sample moves with the frame of its nearest carrier."""

    samples: SkinSamples
    rows: Singles
    """Flat, by sample and pose: three rows of the columns of the sample's group."""
    starts: Ints
    """(s,) first entry of each sample in `rows`."""
    groups: Ints
    """(s,) group of regions of each sample, or −1 without a basis."""
    width: Ints
    columns: Ints
    """(g,) and (g, widest) columns of the groups, padded; see `RegionGroups`."""
    largest: Singles
    differences: Singles
    """(p, r) largest displacement in a patch for a unit of each column, and largest difference of
    one from its first sample's."""
    quaternions: Singles
    """(m, s, 4) rotations of the samples' rows at the poses; (m, 0, 4) in world axes."""
    near: NDArray[np.int32]
    near_shares: Singles
    """(s, 4) tets whose rotations correct the frames, as in `FrameTables`; none: (0, 4)."""


class SelfContactScratch(NamedTuple):
    """Scratch arrays of a thread."""

    detection: DetectionScratch
    z: Floats
    before: Floats
    """(r,) ϒ(q + v dt), at which contacts are detected, and ϒq."""
    grouped: Singles
    """(g, widest) z by group."""
    spread: Singles
    """(p,) bounds of differences of displacements in the patches."""
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


class SelfContactArguments(NamedTuple):
    """Arguments of `detect_skin` and `press_skin`."""

    tables: SampleTables
    blend: Blend
    system: System
    scratch: SelfContactScratch


class SelfContact:
    """Contact of a model's skin with itself, in any state; one per thread."""

    def __init__(self, runtime: RuntimeModel, options: StepOptions, stiffness: float) -> None:
        self._tables, self._placement = _shared(runtime)
        self._placement = _forked(self._placement)
        self._dt, self._stiffness, self._count = options.dt, stiffness, 0
        self._work: Workspace | None = None
        samples, r = self._tables.samples, runtime.n_modes
        padded = -(-r // 8) * 8
        self.scratch = SelfContactScratch(
            DetectionScratch.of(samples),
            np.zeros(r),
            np.zeros(r),
            np.zeros(self._tables.columns.shape, np.float32),
            np.zeros(len(samples.radius), np.float32),
            np.zeros((len(samples.vertices), 4), np.float32),
            np.zeros(len(samples.vertices), np.uint8),
            np.zeros(3, np.float32),
            np.zeros(max(self._tables.columns.shape[1], 8), np.float32),
            np.zeros(ROWS * padded, np.float32),
            np.zeros(padded * padded, np.float32),
        )

    def detect(self, state: BodyState, pose: Floats, work: Workspace) -> int:
        """Find contacts for flesh that keeps its velocity; return their number."""
        self._placement.place(pose, self.scratch.detection.x)
        if self._work is not work:
            self._work = work
            arguments = SelfContactArguments(self._tables, work.blend, work.system, self.scratch)
            self._arguments = ArgumentTable(arguments)
        self._count = int(detect_skin(self._arguments, state.q, state.v, self._dt))
        return self._count

    def press(self, work: Workspace, alone: bool) -> None:
        """Add penalty forces and stiffness of the contacts to the system.

        `alone` tells that no other contacts have been added in this step.
        """
        if alone:
            work.system.pressing[0] = 0
        if self._count > 0:
            press_skin(self._arguments, self._count, self._dt, self._stiffness)


_known: WeakKeyDictionary[RuntimeModel, tuple[SampleTables, Placement]] = WeakKeyDictionary()


def _shared(runtime: RuntimeModel) -> tuple[SampleTables, Placement]:
    """Return the tables of a model and a placement of its samples, made at the first call."""
    if runtime not in _known:
        tables = sample_tables(runtime)
        made = placement(runtime.model.rig, tables.samples.vertices, single=True)
        _known[runtime] = tables, made
    return _known[runtime]


def _forked(made: Placement) -> Placement:
    return made.fork()


def sample_tables(runtime: RuntimeModel) -> SampleTables:
    """Return the tables of a model's samples."""
    model, skin = runtime.model, runtime.skin
    b, m, r = len(runtime.carriers), runtime.n_poses, runtime.n_modes
    rest = np.asarray(model.rig(model.rig.rest_pose), np.float64)
    shapes = [rest, *(np.asarray(model.rig(pose), np.float64) for pose in model.poses)]
    moved = (skin.carriers < b).any(axis=1)
    samples = skin_samples(model.surface, shapes, moved)
    carriers, shares = skin.carriers[samples.vertices], skin.shares[samples.vertices]
    main = carriers[np.arange(len(carriers)), np.abs(shares * (carriers < b)).argmax(axis=1)]
    main = np.where(main < b, main, 0)
    rows = _rows(runtime, carriers, shares, main)
    met = np.stack([(rows[..., c] != 0).any(axis=(0, 2, 3)) for c in model.columns], axis=-1)
    order, groups = group_by_regions(met, model.columns, 1)
    group = np.full(len(carriers), -1, np.int64)
    for g in range(len(groups.width)):
        group[order[groups.first[g] : groups.first[g + 1]]] = g
    blocks, starts, at = [], np.zeros(len(carriers), np.int64), 0
    for s, g in enumerate(group):
        starts[s] = at
        if g < 0:
            continue
        columns = groups.columns[g, : groups.width[g]]
        block = np.where(columns >= 0, rows[:, s][..., columns], 0)
        blocks.append(block.reshape(-1))
        at += block.size
    patch = np.repeat(np.arange(len(samples.radius)), np.diff(samples.starts))
    apart = rows - rows[:, samples.starts[:-1]][:, patch]
    lengths = np.sqrt((apart**2).sum(axis=2)).max(axis=0)  # (s, r)
    largest, differences = np.zeros((2, len(samples.radius), r), np.float32)
    np.maximum.at(differences, patch, lengths)
    np.maximum.at(largest, patch, np.sqrt((rows**2).sum(axis=2)).max(axis=0))
    quaternions = np.zeros((m, 0, 4), np.float32)
    if runtime.in_frames:
        quaternions = np.ascontiguousarray(skin.quaternions.reshape(m, -1, 4)[:, main])
    near, near_shares = np.zeros((0, 4), np.int32), np.zeros((0, 4), np.float32)
    if len(runtime.frames.corners):
        near = np.ascontiguousarray(runtime.frames.carrier_near[main])
        near_shares = np.ascontiguousarray(runtime.frames.carrier_shares[main])
    flat = np.concatenate([np.zeros(0, np.float32), *blocks]).astype(np.float32)
    return SampleTables(
        samples,
        flat,
        starts,
        group,
        groups.width,
        groups.columns,
        largest,
        differences,
        quaternions,
        near,
        near_shares,
    )


def _rows(runtime: RuntimeModel, carriers: NDArray, shares: Singles, main: NDArray) -> Singles:
    """Return basis rows (m, s, 3, r) of samples at the poses, in the frames of the carriers `main`.

    Rows of other carriers are rotated from their own frames.
    """
    b, m = len(runtime.carriers), runtime.n_poses
    out = np.zeros((m, len(carriers), 3, runtime.n_modes), np.float32)
    used = np.unique(carriers[carriers < b])
    steps = runtime.skin.steps[:, None, None, :]
    basis = runtime.basis_rows(runtime.carriers[used])
    stored = basis.astype(np.float32)
    if runtime.model.basis_bits == 16 and basis.dtype == np.int16:
        stored = stored * steps
    turns = runtime.vertex_rotations(runtime.carriers[used]).astype(np.float32)
    own = runtime.vertex_rotations(runtime.carriers[main]).astype(np.float32)
    for corner in range(4):
        moves = carriers[:, corner] < b
        at = np.searchsorted(used, carriers[moves, corner])
        relative = np.einsum("msji,msjk->msik", own[:, moves], turns[:, at])
        rows = np.einsum("msij,msjr->msir", relative, stored[:, at])
        out[:, moves] += shares[moves, corner][None, :, None, None] * rows
    return out


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
    hard = 0.5 * stiffness * samples.areas[s] * found.shares[k]  # each side has its own contacts
    ramp = RAMP * samples.size
    slope = min(depth / ramp, 1.0)
    push = hard * (0.5 * depth * slope if depth < ramp else depth - 0.5 * ramp)
    hard *= slope
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
