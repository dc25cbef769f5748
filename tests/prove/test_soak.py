"""A minute of the day at 90 Hz, and of what is checked in it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from prove.limits import peak_memory, reset_peak
from prove.soak import FLAT, Soak, draw, growth, restored, run
from prove.soak_page import visit


@pytest.fixture(scope="module")
def soaked():
    soak = Soak(seed=3)
    run(soak, 600, 300)  # compiles, and reaches the memory that it keeps
    return soak, run(soak, 1600, 200)


def test_memory_is_flat_and_what_was_saved_goes_on_to_the_bit(soaked):
    soak, found = soaked
    assert soak.steps == 2200
    assert len(found["memory"]) == 8
    assert growth(found["memory"]) <= FLAT
    assert found["slow"] == 0


def test_a_run_meets_obstacles_forces_and_settings(soaked):
    soak, _ = soaked
    changed = (soak.simulator.stiffness, soak.simulator.friction, soak.simulator.gravity_mode)
    assert changed != (1.0, 0.0, "relative")
    met: set[str] = set()
    for seed in range(40):
        soak.change(np.random.default_rng(seed))
        met.update(type(each).__name__ for each in soak.simulator.obstacles)
        soak.step()
    assert met == {"Sphere", "Plane", "Capsule", "Box"}
    soak.check()


def test_drift_is_noticed():
    soak = Soak()
    twin = restored(soak.state())
    twin.simulator.q = 1e-9 * np.ones(twin.model.n_modes)
    for each in (soak, twin):
        each.step()
        each.check()
    assert soak.bits() != twin.bits()


def test_growth_is_noticed(tmp_path):
    assert growth([300.0, 310.0, *[310.1] * 18]) < 0.2
    assert growth([300.0, *np.linspace(310, 313, 19)]) > FLAT
    draw([300.0, 300.1], 1.0, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_pages_that_come_go_drag_and_break_off_leave_nothing(tmp_path):
    found = visit(visits=8, folder=tmp_path)
    assert found["visits"] == 8
    assert found["broken"] > 0
    assert found["failure"] is None
    assert found["left"] == 0
    assert found["threads"] <= 1


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells how much memory a process has had")
def test_memory_that_was_taken_for_a_moment_is_measured():
    before = reset_peak()
    taken = np.ones(20 * 2**17)
    del taken
    assert 15 < peak_memory() - before < 40
    assert peak_memory() - reset_peak() < 25
