"""Compliance of soft skeletons: a sphere pressed into one meets what it meets in all tets."""

from __future__ import annotations

import numpy as np

from helpers.build_samples import bar_mesh
from helpers.soft_skeleton_samples import elbow
from supple.lab.bench.soft_skeleton.sphere_compliance import Probe, compliance

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
    assert 0.7 < by[True]["ratio"] < 1.6  # few tets, few handles
    assert by[False]["ratio"] > 1.3 * by[True]["ratio"]
    assert by[True]["motion_error"] < by[False]["motion_error"]
