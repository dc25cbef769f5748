"""Claims of xu2016: far weights, inertia with neighbours, re-projection, alignment in contact."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.lab.reproduce.xu2016.character_figures import fig8
from supple.lab.reproduce.xu2016.method_claims import (
    CROSS,
    consistent_mass,
    far_weights,
    reprojection,
)
from supple.lab.reproduce.xu2016.tables import sculpted_poses
from supple.rig.poses.pose_weights import PoseWeights
from supple.scenes.bodies.beam import beam


def _quiet(part: float, text: str) -> None:
    assert 0 <= part <= 1


def test_weights_tend_to_their_limit_which_can_be_negative() -> None:
    weights = PoseWeights(CROSS)
    limit = far_weights(weights)
    assert limit.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights([3e6, 4e6]), limit, atol=1e-5)
    assert limit[0] < -0.2
    for three in combinations(np.random.default_rng(0).standard_normal((12, 4)), 3):
        assert far_weights(PoseWeights(np.array(three))).min() > -1e-12


def test_the_consistent_mass_has_the_lumped_masses_as_row_sums() -> None:
    mesh = beam(cells=(4, 2, 2))
    body = ElasticBody(mesh, Material("stvk", young=1e4, density=900.0))
    matrix = consistent_mass(mesh, 900.0)
    np.testing.assert_allclose(matrix.sum(axis=1), body.vertex_masses(), rtol=1e-12)
    assert np.linalg.eigvalsh(matrix.toarray())[0] > 0


def test_projection_to_changing_bases_loses_a_little_of_the_mass_norm(tmp_path: Path) -> None:
    found: dict[str, Any] = reprojection(tmp_path, quick=True, progress=_quiet)
    assert 0.5 < found["norm_left_by_one_sweep"] < 1
    assert (tmp_path / "reprojection.png").stat().st_size > 5_000


def test_columns_match_better_when_aligned_in_contact(tmp_path: Path) -> None:
    found = fig8(tmp_path, quick=True, progress=_quiet)
    direct, aligned = found["rows"]
    assert found["contacts"] > 0
    assert aligned["matched"] > direct["matched"]
    assert aligned["least_eigenvalue_halfway"] > 5 * direct["least_eigenvalue_halfway"]


def test_poses_with_corrections_are_counted() -> None:
    assert [sculpted_poses(name) for name in ("arm", "x", "bear", "gorilla")] == [9, 2, 7, 3]
