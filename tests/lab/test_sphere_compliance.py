"""Compliance of soft skeletons: a sphere pressed into one meets what it meets in all tets."""

from __future__ import annotations

import numpy as np

from helpers.build_samples import bar_mesh
from helpers.soft_skeleton_samples import elbow
from supple.engines.soft_skeleton.bones.rig_bones import RigBones
from supple.engines.soft_skeleton.build import build
from supple.engines.soft_skeleton.flesh.soft_layer import flesh_layer
from supple.lab.bench.soft_skeleton.sphere_compliance import (
    Probe,
    contact_points,
    press_full,
    press_model,
    without_residual,
)

CELLS = (15, 4, 4)


def test_with_what_handles_lack_a_sphere_meets_the_force_of_all_tets():
    arm = elbow(CELLS)
    top = arm.surface.vertices[
        np.abs(arm.surface.vertices - [0.3, 1 / 6, 1 / 12]).sum(axis=1).argmin()
    ]
    probe = Probe("top", top, np.array([0.0, 1.0, 0.0]), 0.05, 0.01)
    mesh = bar_mesh(CELLS)
    model = build(arm, handles=24, tets=mesh, cubature=300, points=40)
    layer = flesh_layer(arm, RigBones(arm.rig), mesh, None, None, None)
    full = press_full(layer, arm.surface, probe)
    ours, plain = press_model(model, probe), press_model(without_residual(model), probe)
    assert 0.85 < ours.force / full.force < 1.15
    missed = np.linalg.norm(ours.displacements - full.displacements)
    assert missed / np.linalg.norm(full.displacements) < 0.4
    assert plain.force / full.force > 3.0  # the paper's handles, without it


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
