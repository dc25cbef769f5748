"""Parts of a step that leave out what is zero or far away: they change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from helpers.soft_skeleton_samples import soft_hand
from supple.engines.soft_skeleton.bones.body_points import BodyPoints
from supple.engines.soft_skeleton.contact.body_geometry import (
    bound_patches,
    patch_gap,
    skin_patches,
    spread_order,
)
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.engines.soft_skeleton.system_solution import SystemSolution
from supple.mesh.obstacles import Obstacle
from supple.mesh.shape_tables import shape_tables


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("sizes", [(9, 24, 0), (12, 17, 6), (6, 0, 12)])
def test_flesh_first_gives_the_same_change(sizes, driven):
    rng, size = np.random.default_rng(1), sum(sizes)
    whole = rng.standard_normal((size, size))
    whole = whole @ whole.T + size * np.eye(size)
    gradient = rng.standard_normal(size)
    solution = SystemSolution(*sizes)
    assert solution.solve(np.triu(whole), gradient, driven)
    free = slice(6 if driven else 0, size)
    wanted = np.zeros(size)
    wanted[free] = np.linalg.solve(whole[free, free], gradient[free])
    np.testing.assert_allclose(solution.change, wanted, atol=1e-10)


@pytest.mark.parametrize("bad", [np.nan, -1.0])
def test_there_is_no_solution_of_a_bad_system(bad):
    whole = np.eye(20)
    whole[10, 10] = bad
    assert not SystemSolution(8, 12, 0).solve(whole, np.ones(20), False)


def test_no_vertex_of_a_patch_is_nearer_than_its_ball():
    surface = soft_hand().surface
    skin, rng = surface.vertices.astype(float), np.random.default_rng(2)
    dents = 0.003 * rng.standard_normal(skin.shape)
    order = spread_order(skin)
    patches = skin_patches(skin, surface.triangles.astype(np.int64), order, 50)
    bound_patches(patches, skin, dents)
    middle = skin.mean(axis=0)
    things: tuple[Obstacle, ...] = (
        supple.Sphere(middle, 0.03),
        supple.Box(skin[0], (0.05, 0.01, 0.02)),
    )
    shapes = shape_tables(things)
    far = 0
    for thing, shape in enumerate(things):
        gaps, ways = shape.distances(skin + dents)
        gaps -= np.einsum("ni,ni->n", ways, dents)
        for patch, ball in enumerate(patches.balls):
            own = patches.corners[patches.starts[patch] : patches.starts[patch + 1]]
            least = patch_gap(shapes, thing, ball)
            far += least > 0
            assert least <= gaps[own].min() + 1e-12
    assert far > len(patches.balls) / 2
    everyone = [
        patches.corners[first : first + count]
        for first, count in zip(patches.starts, patches.owned[: patches.all], strict=False)
    ]
    np.testing.assert_array_equal(np.sort(np.concatenate(everyone)), np.arange(len(skin)))
    np.testing.assert_array_equal(np.sort(patches.triangles), np.arange(len(surface.triangles)))


def test_placing_only_the_skin_that_touches_changes_nothing(monkeypatch):
    model, found = soft_hand(), []
    floor = model.surface.vertices[:, 1].min() + 0.002
    for whole in (False, True):
        if whole:
            monkeypatch.setattr(
                BodyPoints, "place_some", lambda self, some, chain, phi: self.place(chain, phi)
            )
        sim = SoftSkeletonSimulator(model, obstacles=[supple.Plane((0, floor, 0), (0, 1, 0))])
        for _ in range(3):
            state = sim.step()
        assert state.readings["contacts"] > 0
        found.append((state.readings["contact_force"], sim.surface().copy()))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
