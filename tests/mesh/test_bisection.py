"""Bisection and cuts of tets: volumes stay, neighbours conform, sets are inherited."""

from __future__ import annotations

import numpy as np
import pytest

from supple.mesh.filling.bisection import cut, refined
from supple.mesh.tets import OUTWARD_FACES, TetMesh
from supple.scenes.bodies.beam import beam

MESH = beam(cells=(6, 3, 3))


def is_conforming(mesh: TetMesh, area: float) -> bool:
    """Whether each face has at most two tets and the boundary has no hanging vertex: its area."""
    a, b, c = (mesh.vertices[mesh.boundary()[:, k]] for k in range(3))
    total = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    faces = np.sort(mesh.tets[:, OUTWARD_FACES].reshape(-1, 3), axis=1)
    _, counts = np.unique(faces, axis=0, return_counts=True)
    return bool(counts.max() <= 2 and abs(total - area) < 1e-9 * area)


def boundary_area(mesh: TetMesh) -> float:
    a, b, c = (mesh.vertices[mesh.boundary()[:, k]] for k in range(3))
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


def test_refined_tets_conform_and_are_short_where_requested():
    def marked(vertices, tets, longest):
        return (longest > 0.05) & (vertices[tets].mean(axis=1)[:, 0] > 0.7)

    named = TetMesh(MESH.vertices, MESH.tets, {"half": np.arange(len(MESH.tets) // 2)})
    fine = refined(named, marked)
    assert len(fine.tets) > 3 * len(MESH.tets)
    assert fine.volumes().min() > 0
    assert fine.volumes().sum() == pytest.approx(MESH.volumes().sum(), rel=1e-12)
    assert is_conforming(fine, boundary_area(MESH))
    sides = fine.vertices[fine.tets]
    longest = np.linalg.norm(sides[:, :, None] - sides[:, None], axis=3).max(axis=(1, 2))
    assert longest[sides.mean(axis=1)[:, 0] > 0.7].max() <= 0.05
    part = fine.volumes()[fine.sets["half"]].sum()
    assert part == pytest.approx(MESH.volumes()[: len(MESH.tets) // 2].sum(), rel=1e-12)


def test_cut_tets_lie_on_one_side_of_the_level_and_share_its_zeros():
    levels = MESH.vertices @ [1.0, 0.4, -0.3] - 0.437
    mesh, after = cut(MESH, levels)
    np.testing.assert_array_equal(mesh.vertices[: len(levels)], MESH.vertices)
    signs = np.sign(after)[mesh.tets]
    assert not ((signs > 0).any(axis=1) & (signs < 0).any(axis=1)).any()
    assert mesh.volumes().min() > 0
    assert mesh.volumes().sum() == pytest.approx(MESH.volumes().sum(), rel=1e-12)
    assert is_conforming(mesh, boundary_area(MESH))
    new = mesh.vertices[len(levels) :] @ [1.0, 0.4, -0.3] - 0.437
    assert np.median(np.abs(new)) < 1e-12  # some are moved away from the end of an edge
    assert np.abs(new).max() < 0.2 * np.abs(levels).max()
