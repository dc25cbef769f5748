"""`supple bench self-contact`: its depths on boxes whose overlap is known."""

from __future__ import annotations

import numpy as np
import pytest

from supple.errors import SuppleError
from supple.lab.bench.self_contact_bench import SkinDepths, measure
from supple.scenes.bodies.beam import beam

SIDE = 1 / 6


@pytest.fixture(scope="module")
def boxes() -> tuple[SkinDepths, np.ndarray]:
    """Two bars, one above the other in z, 0.1 m apart."""
    surface, _ = beam(cells=(24, 4, 4)).surface()
    points = np.asarray(surface.vertices, np.float64)
    rest = np.concatenate([points, points + np.array([0, 0, SIDE + 0.1])])
    triangles = np.concatenate([surface.triangles, surface.triangles + len(points)])
    return SkinDepths(np.ascontiguousarray(triangles, np.int64), rest, 1.0), rest


def lowered(rest: np.ndarray, by: float) -> np.ndarray:
    skin = rest.copy()
    skin[len(rest) // 2 :, 2] -= by
    return skin


def test_the_depth_is_that_of_the_overlap(boxes):
    measured, rest = boxes
    depths, nearest = measured.depths(lowered(rest, 0.13))
    z = lowered(rest, 0.13)[:, 2]
    inner = (rest[:, 0] > 0.2) & (rest[:, 0] < 0.8) & (abs(rest[:, 1] - SIDE / 2) < 0.03)
    low = inner & (abs(z - SIDE) < 1e-9)  # the top of the lower bar
    assert low.any()
    np.testing.assert_allclose(depths[low], 0.03, rtol=1e-6)
    assert (nearest[low] >= 0).all()
    assert (measured.depths(rest)[0] == 0).all()


def test_only_what_goes_beyond_the_rig_counts(boxes):
    measured, rest = boxes
    rig, skin = lowered(rest, 0.13), lowered(rest, 0.135)
    beyond, own = measured.beyond(skin, rig)
    assert beyond.max() == pytest.approx(0.005, rel=1e-3)
    assert own.max() >= 0.03 - 1e-9
    assert measured.beyond(rig, rig)[0].max() == 0


def test_it_needs_a_character():
    with pytest.raises(SuppleError, match="name one or more characters"):
        measure([])
