"""A minute of the day at 90 Hz, and of what is checked in it."""

from __future__ import annotations

import json
import mmap
import sys
from random import Random

import numpy as np
import pytest

from prove import soak, soak_page
from prove.limits import peak_memory, reset_peak
from prove.soak import FLAT, RATE, Soak, crowd_of, draw, growth, judged, restored, run
from prove.soak_page import visit, wrong


@pytest.fixture(scope="module")
def soaked():
    own = Soak(seed=3, crowd=crowd_of(2))
    run(own, 300, 150)  # compiles, and reaches the memory that it keeps
    return own, run(own, 800, 100)


def test_memory_is_flat_and_what_was_saved_goes_on_to_the_bit(soaked):
    own, found = soaked
    assert own.steps == 1100
    assert len(found["memory"]) == 8
    assert growth(found["memory"]) <= FLAT
    assert found["slow"] == 0


def test_a_run_meets_obstacles_forces_and_settings(soaked):
    own, _ = soaked
    changed = (own.simulator.stiffness, own.simulator.friction, own.simulator.gravity_mode)
    assert changed != (1.0, 0.0, "relative")
    met: set[str] = set()
    for seed in range(40):
        own.change(np.random.default_rng(seed))
        met.update(type(each).__name__ for each in own.simulator.obstacles)
        own.step()
    assert met == {"Sphere", "Plane", "Capsule", "Box"}
    own.check()


def test_drift_is_noticed():
    own = Soak()
    twin = restored(own.state())
    twin.simulator.q = 1e-9 * np.ones(twin.model.n_modes)
    for each in (own, twin):
        each.step()
        each.check()
    assert own.bits() != twin.bits()


def test_growth_is_noticed(tmp_path):
    assert growth([300.0, 310.0, *[310.1] * 18]) < 0.2
    assert growth([300.0, *np.linspace(310, 313, 19)]) > FLAT
    draw([300.0, 300.1], 1.0, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_resumed_run_is_judged_by_all_its_parts(tmp_path, monkeypatch):
    """Also when nothing is left to do: what has failed has failed."""
    monkeypatch.setattr(soak, "PLACE", tmp_path)
    monkeypatch.setattr(soak, "PIECE", 5)
    monkeypatch.setattr(soak, "SLOWEST", -1.0)  # all steps are slow
    hours = ["--hours", str(10 / RATE / 3600)]
    assert soak.main(["--hours", str(5 / RATE / 3600)]) == 1
    monkeypatch.undo()
    monkeypatch.setattr(soak, "PLACE", tmp_path)
    assert soak.main(hours) == 1  # by its first part
    assert json.loads((tmp_path / "soak.json").read_text())["parts"] == 2
    assert soak.main(hours) == 1
    assert soak.main([*hours, "--anew"]) == 0
    grown = {"median_s": 1.0, "longest_s": 1.0, "slow": 0, "memory": [300.0, 310.0, 310.7]}
    level = grown | {"memory": [200.0, 210.0, 210.0]}
    assert judged([grown, grown, level], 90)["grown_mb"] == pytest.approx(1.4)


def test_pages_that_come_go_drag_and_break_off_leave_nothing(tmp_path):
    found = visit(visits=12, folder=tmp_path)
    assert found["visits"] >= 12
    assert found["refused"] == 0
    assert found["broken"] > 0
    assert found["failure"] is None
    assert found["taken"] > 0
    assert found["errors"] == []
    assert found["left"] == found["hands"] == 0
    assert found["threads"] <= 1


def test_a_page_that_refuses_guests_has_no_visits(tmp_path, monkeypatch):
    first = iter([False])

    def refuse(page: object, rng: Random) -> bool:
        for broken in first:  # the guest that shows how many threads there are
            return broken
        raise ConnectionRefusedError

    monkeypatch.setattr(soak_page, "_one_visit", refuse)
    found = visit(visits=3, folder=tmp_path)
    assert found["visits"] == 0
    assert found["refused"] >= 3
    sound: dict[str, object] = {"failure": None, "left": 0, "hands": 0, "threads": 1}
    sound |= {"refused": 1, "visits": 100, "errors": []}
    assert not wrong(sound, 1.0)
    worse: dict[str, object] = {"failure": "x"}
    worse |= {"threads": 2, "refused": 2, "visits": 0, "left": 1, "hands": 1, "errors": ["x"]}
    for name, value in worse.items():
        assert wrong(sound | {name: value}, 1.0)
    assert wrong(sound, 30.0)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells how much memory a process has had")
def test_memory_that_was_taken_for_a_moment_is_measured():
    before = reset_peak()
    with mmap.mmap(-1, 20 * 2**20) as taken:  # malloc may have room from before
        for page in range(0, len(taken), 4096):
            taken[page] = 1
    assert 15 < peak_memory() - before < 40
    assert peak_memory() - reset_peak() < 25
