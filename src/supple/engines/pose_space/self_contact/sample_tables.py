"""Tables of a model for contact of its skin with itself: samples, and bases at the samples."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Ints, Singles
from supple.engines.common.self_contact.samples import SkinSamples, skin_samples
from supple.engines.pose_space.runtime import RuntimeModel, group_by_regions
from supple.rig.placement.placement import Placement, placement


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
    """(p, r) largest displacement in a patch for a unit of each column."""
    quaternions: Singles
    """(m, s, 4) rotations of the samples' rows at the poses; (m, 0, 4) in world axes."""
    near: NDArray[np.int32]
    near_shares: Singles
    """(s, 4) tets whose rotations correct the frames, as in `FrameTables`; none: (0, 4)."""


_known: WeakKeyDictionary[RuntimeModel, tuple[SampleTables, Placement]] = WeakKeyDictionary()


def shared_tables(runtime: RuntimeModel) -> tuple[SampleTables, Placement]:
    """Return the tables of a model and a placement of its samples, made at the first call."""
    if runtime not in _known:
        tables = sample_tables(runtime)
        made = placement(runtime.model.rig, tables.samples.vertices, single=True)
        _known[runtime] = tables, made
    return _known[runtime]


def sample_tables(runtime: RuntimeModel) -> SampleTables:
    """Return the tables of a model's samples."""
    model, skin = runtime.model, runtime.skin
    b, m, r = len(runtime.carriers), runtime.n_poses, runtime.n_modes
    rest = np.asarray(model.rig(model.rig.rest_pose), np.float64)
    shapes = [rest, *(np.asarray(model.rig(pose), np.float64) for pose in model.poses)]
    moved = np.asarray((skin.carriers < b).any(axis=1))
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
    for s, g in enumerate(group.tolist()):
        starts[s] = at
        if g < 0:
            continue
        columns = groups.columns[g, : groups.width[g]]
        block = np.where(columns >= 0, rows[:, s][..., columns], 0)
        blocks.append(block.reshape(-1))
        at += block.size
    patch = np.repeat(np.arange(len(samples.radius)), np.diff(samples.starts))
    largest = np.zeros((len(samples.radius), r), np.float32)
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
