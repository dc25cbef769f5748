"""Cubature points that meet the same regions, side by side: their basis rows as dense blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["RegionGroups", "basis_blocks", "group_by_regions"]

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

#: Blocks are as wide as a multiple of this: whole vector registers of float32.
LANES = 8


class RegionGroups(NamedTuple):
    """How points (tets, vertices) are grouped; plain arrays, for compiled loops.

    Attributes
    ----------
    first
        (g + 1,) group k has the points first[k] to first[k + 1] of the new order.
    width
        (g,) columns of its block, padded.
    start
        (g + 1,) where its block begins in the flat array of all blocks.
    columns
        (g, widest) the columns of the basis that the block's are; −1 for padding.
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
        (k, regions) which regions reach each point.
    columns
        Of each region.
    rows
        Basis rows of a point: 12 for a tet, 3 for a vertex.

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


def basis_blocks(groups: RegionGroups, dense: NDArray) -> Singles:
    """Rows of a basis, (m, k, rows, r) in the groups' order, as flat blocks (m, start[-1])."""
    out = np.zeros((len(dense), int(groups.start[-1])), np.float32)
    for g in range(len(groups.width)):
        points = slice(groups.first[g], groups.first[g + 1])
        columns = groups.columns[g, : groups.width[g]]
        real = columns >= 0
        block = np.zeros((*dense[:, points].shape[:3], len(columns)), np.float32)
        block[..., real] = dense[:, points][..., columns[real]]
        out[:, groups.start[g] : groups.start[g + 1]] = block.reshape(len(dense), -1)
    return out
