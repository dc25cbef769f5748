"""Compliance of soft skeletons: a sphere pressed into one meets what it meets in all tets."""

from __future__ import annotations

import numpy as np

from helpers.build_samples import bar_mesh
from helpers.soft_skeleton_samples import elbow
from supple.lab.bench.soft_skeleton.sphere_compliance import Probe, compliance, contact_points

CELLS = (15, 4, 4)


def test_with_what_handles_lack_a_sphere_meets_the_force_of_all_tets():
    arm = elbow(CELLS)
    top = arm.surface.vertices[
        np.abs(arm.surface.vertices - [0.3, 1 / 6, 1 / 12]).sum(axis=1).argmin()
    ]
    probe = Probe("top", top, np.array([0.0, 1.0, 0.0]), 0.05, 0.01)
    rows = compliance(
        arm, [probe], handles=(24,), meshes=(bar_mesh(CELLS),), cubature=300, points=40
    )
    by = {row["residual"]: row for row in rows}
    assert 0.85 < by[True]["ratio"] < 1.15
    assert by[True]["motion_error"] < 0.4
    assert by[False]["ratio"] > 3.0  # the paper's handles, without it


def test_all_tets_are_touched_where_simulators_touch():
    arm = elbow(CELLS)
    middle = arm.surface.vertices[arm.surface.triangles[200]].mean(axis=0)
    small, large = (Probe("", middle, np.array([0.0, 1.0, 0.0]), r, 0.01) for r in (0.02, 2.0))
    shares, areas = contact_points(arm.surface, small)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (np.diff(shares.indptr) == 3).all()  # parts of triangles
    assert areas.max() < 0.1 * arm.surface.vertex_areas().max()
    shares, areas = contact_points(arm.surface, large)
    assert (np.diff(shares.indptr) == 1).all()  # vertices
    assert areas.sum() <= arm.surface.vertex_areas().sum() * (1 + 1e-12)
