"""Blocks of basis rows: points that the same regions reach stand together, so that rows are dense.

Blocks are kept as a model keeps its bases, in steps of sixteen bits, of which half as many bytes
stream by as of float32. Steps are powers of two: blends are those of float32 bases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Ints, Singles
from supple.compiled.simd import LANES


class RegionGroups(NamedTuple):
    """Groups of points (tets, vertices) that the same regions reach, so that rows are dense blocks.

    Attributes
    ----------
    first
        (g + 1,) group k has the points first[k] to first[k + 1] of the new order.
    width
        (g,) columns of its block, padded.
    start
        (g + 1,) where its block begins in the flat array of all blocks.
    columns
        (g, widest) columns of the basis that the block's are; −1 for padding.
    """

    first: Ints
    width: Ints
    start: Ints
    columns: Ints


def group_by_regions(
    met: NDArray[np.bool_], columns: Sequence[slice], rows: int
) -> tuple[Ints, RegionGroups]:
    """Order points so that those that meet the same regions stand together.

    Parameters
    ----------
    met
        (k, regions) whether a region reaches a point.
    columns
        Columns of each region.
    rows
        Number of basis rows of a point: 12 for a tet, 3 for a vertex.

    Returns
    -------
    order, groups
        (k,) the points in the new order, and where the groups begin. Points that nothing reaches
        come last, in no group.
    """
    patterns, of_point = np.unique(met, axis=0, return_inverse=True)
    kept = [p for p in range(len(patterns)) if patterns[p].any()]
    members = [np.flatnonzero(of_point.reshape(-1) == p) for p in kept]
    listed = [
        np.concatenate(
            [np.arange(c.start, c.stop) for c, on in zip(columns, patterns[p], strict=True) if on]
        )
        for p in kept
    ]
    width = np.array([-(-len(each) // LANES) * LANES for each in listed], np.int64)
    table = np.full((len(kept), int(width.max(initial=0))), -1, np.int64)
    for row, each in zip(table, listed, strict=True):
        row[: len(each)] = each
    counts = np.array([len(each) for each in members], np.int64)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(counts * width * rows)]).astype(np.int64)
    rest = np.flatnonzero(~met.any(axis=1))
    order = np.concatenate([*members, rest]).astype(np.int64)
    return order, RegionGroups(first, width, start, table)


def basis_blocks(groups: RegionGroups, dense: NDArray) -> NDArray:
    """Return basis rows (m, k, rows, r), in the groups' order, as flat blocks (m, start[-1])."""
    out = np.zeros((len(dense), int(groups.start[-1])), dense.dtype)
    for g in range(len(groups.width)):
        points = slice(groups.first[g], groups.first[g + 1])
        columns = groups.columns[g, : groups.width[g]]
        real = columns >= 0
        block = np.zeros((*dense[:, points].shape[:3], len(columns)), dense.dtype)
        block[..., real] = dense[:, points][..., columns[real]]
        out[:, groups.start[g] : groups.start[g + 1]] = block.reshape(len(dense), -1)
    return out


def block_columns(groups: RegionGroups, values: NDArray) -> Singles:
    """Return values of columns (m, r) as the groups have them, (m, Σ width); 0 for padding."""
    listed = [row[:width] for row, width in zip(groups.columns, groups.width, strict=True)]
    columns = np.concatenate([np.zeros(0, np.int64), *listed])
    return np.where(columns >= 0, values[:, columns], 0).astype(np.float32)
