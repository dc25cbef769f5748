"""An elastic body in the viewer: one simulation that hands, sliders and pages share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.browser_pages import open_tab, running_browser, until
from supple import Material, StvkModel, StvkSimulator
from supple.app.viewer.session.body_actor import GRAVITIES, BodyActor, steps_a_frame
from supple.app.viewer.session.session import Session
from supple.errors import SolverError, SuppleError
from supple.scenes.bodies.beam import beam

pytest.importorskip("viser", reason="viser is not installed")

BodySession = Session[BodyActor]


@pytest.fixture(scope="module")
def model() -> StvkModel:
    mesh = beam(cells=(8, 2, 2))
    ends = np.ptp(mesh.vertices[:, 0]) / 8
    inner = (mesh.vertices[mesh.tets].mean(axis=1)[:, 0] > 4 * ends).astype(int)
    wall = np.flatnonzero(mesh.vertices[:, 0] == 0)
    material = Material("stvk", young=4e6, poisson=0.3)
    return StvkModel.build(mesh, material, 6, fixed=wall, groups=inner)


@pytest.fixture
def session(model: StvkModel) -> BodySession:
    return Session(BodyActor(model))


def tip(model: StvkModel) -> int:
    return int(model.surface.vertices[:, 0].argmax())


def taken(session: BodySession, way: Any, vertex: int | None = None) -> np.ndarray:
    """Pull a vertex by so many metres for two seconds; how far it went along."""
    way, at = np.asarray(way, float), tip(session.actor.built) if vertex is None else vertex
    place = session.actor.built.surface.vertices[at]
    session.grip("hand", place)
    session.pull("hand", place + way)
    session.advance(180)
    session.refresh()
    return np.asarray(session.skin[at] - place)


def away(session: BodySession) -> float:
    """How far anything is from rest, of the body's size."""
    session.refresh()
    surface = session.actor.built.surface
    return float(np.abs(session.skin - surface.vertices).max() / surface.size)


def swinging(session: BodySession) -> BodySession:
    session.actor.set_gravity("down (-y)")
    session.advance(20)
    return session


# Steps -------------------------------------------------------------------------------------


def test_steps_do_not_depend_on_clock_speed_or_on_viewers(model):
    runs = {}
    for speed in (1.0, 0.1):
        session = Session(BodyActor(model))
        session.speed = speed
        swinging(session).reset()
        session.advance(0)
        session.actor.set_gravity("-z")
        while session.actor.time < 0.5 - 1e-9:
            session.advance(1)
            if speed < 1:
                session.refresh()
        runs[speed] = session
    assert runs[1.0].steps > runs[0.1].steps == 1  # slow motion goes on smoothly
    count = round(runs[1.0].actor.time / runs[1.0].actor.simulator.dt)
    while runs[0.1].actor.time < runs[1.0].actor.time - 1e-9:
        runs[0.1].advance(1)
    own = runs[1.0].actor.simulator
    alone = StvkSimulator(model, own.dt, alpha=own.alpha, beta=own.beta, gravity=GRAVITIES["-z"])
    alone.run(count)
    for session in runs.values():
        assert np.array_equal(session.actor.simulator.q, alone.q)


def test_many_modes_are_stepped_less_often():
    assert [steps_a_frame(r) for r in (1, 20, 30, 60, 120)] == [11, 11, 11, 1, 1]


def test_time_stands_still_when_paused(session):
    swinging(session).pause()
    session.advance(1)
    time, q = session.actor.time, session.actor.simulator.q
    session.advance(5)
    assert session.actor.time == time
    assert np.array_equal(session.actor.simulator.q, q)
    session.play()
    session.advance(1)
    assert session.actor.time > time


# Hands -------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [1, 2])
def test_a_hand_takes_the_tip_along_and_it_swings_back(session, axis):
    way = 0.1 * session.actor.built.surface.size * np.eye(3)[axis]
    moved = taken(session, way)
    assert 0.7 < moved @ way / (way @ way) < 1.05
    session.release("hand")
    swung = []
    for _ in range(40):
        session.advance(3)
        session.refresh()
        swung.append(session.skin[tip(session.actor.built), axis])
    rest = session.actor.built.surface.vertices[tip(session.actor.built), axis]
    assert min(swung) < rest - 0.3 * moved[axis]  # past where it came from
    session.actor.damp(0.5)
    session.advance(400)
    assert away(session) < 1e-3


def test_pulling_at_what_is_held_moves_nothing(session):
    wall = int(session.actor.built.surface.vertices[:, 0].argmin())
    taken(session, [0.0, 5.0, 0.0], wall)
    assert away(session) < 0.02


@pytest.mark.parametrize("far", [1.0, 1e3, 1e12])
def test_a_wild_hand_neither_tears_nor_feeds_the_body(session, far):
    size, at = (
        session.actor.built.surface.size,
        session.actor.built.surface.vertices[tip(session.actor.built)],
    )
    session.grip("hand", at)
    for swing in range(60):
        session.pull("hand", at + far * size * np.eye(3)[swing % 3] * (-1) ** swing)
        session.advance(2)
        assert away(session) < 2.0
    held = session.actor.simulator.energies()["total"]
    session.release("hand")
    session.advance(200)
    assert session.actor.simulator.energies()["total"] < held
    assert session.run_requests() is None


def test_a_hand_holds_on_while_the_body_is_changed(session):
    taken(session, [0.0, 0.05 * session.actor.built.surface.size, 0.0])
    for change in (
        lambda: session.actor.truncate(2),
        lambda: session.actor.stiffen(0, 2.0),
        lambda: session.actor.truncate(6),
    ):
        session.submit(change)
        session.advance(20)
        assert session.run_requests() is None
        assert list(session.hands) == ["hand"]
        assert 0 < away(session) < 1


def test_two_hands_pull_at_once(session):
    up = np.array([0.0, 0.1 * session.actor.built.surface.size, 0.0])
    alone = taken(session, up)[1]
    place = session.actor.built.surface.vertices[tip(session.actor.built)]
    session.grip("other", session.skin[tip(session.actor.built)])
    session.pull("other", place - up)
    session.advance(180)
    session.refresh()
    assert abs(session.skin[tip(session.actor.built), 1] - place[1]) < 0.5 * alone


# What sliders do ---------------------------------------------------------------------------


def test_stiffness_doubles_without_a_jump(session):
    before = swinging(session).actor.frequencies
    session.refresh()
    skin, velocity = session.skin.copy(), session.actor.simulator.velocity
    for group in range(2):
        session.actor.stiffen(group, 2.0)
    session.pause()
    session.advance(1)
    session.refresh()
    assert np.array_equal(session.skin, skin)
    assert np.array_equal(session.actor.simulator.velocity, velocity)
    assert session.actor.frequencies == pytest.approx(2 * before)
    session.actor.stiffen(0, 0.0)  # one group as it was
    session.play()
    session.advance(1)
    assert (before < session.actor.frequencies).all()
    assert (session.actor.frequencies < 2 * before).all()


def test_truncation_is_the_models_own_and_comes_back(session, model):
    session.actor.truncate(2)
    swinging(session)
    assert session.actor.simulator.q.shape == (2,)
    own = session.actor.simulator
    alone = StvkSimulator(
        model.truncate(2), own.dt, alpha=own.alpha, beta=own.beta, gravity=own.gravity
    )
    alone.run(20 * session.steps)
    assert np.array_equal(own.q, alone.q)
    session.actor.truncate(6)
    session.advance(1)
    assert session.actor.simulator.q.shape == (6,)


def test_gravity_bends_it_to_where_forces_balance(session, model):
    session.actor.set_gravity("down (-y)")
    session.actor.damp(1.0)
    session.advance(900)
    q = session.actor.simulator.q
    assert session.actor.simulator.surface()[tip(model), 1] < model.surface.vertices[tip(model), 1]
    weight = model.weight(GRAVITIES["down (-y)"])
    assert np.abs(model.force(q) - weight).max() < 1e-4 * np.abs(weight).max()


def test_reset_lets_go_and_lays_it_at_rest(session):
    taken(session, [0.0, 0.1, 0.0])
    session.reset()
    session.pause()
    session.advance(1)
    assert not session.hands
    assert away(session) < 1e-6


def test_bad_values_from_pages_do_no_harm(session):
    for bad in (np.nan, np.inf, -np.inf, 1e300):
        session.submit(session.actor.stiffen, 0, bad)
        session.submit(session.actor.damp, bad)
        session.submit(session.actor.truncate, bad)
        session.speed = bad
        session.grip("hand", [bad, 0, 0])
        session.pull("hand", [bad, 0, 0])
        session.advance(1)
    session.submit(session.actor.set_gravity, "sideways")
    assert "one of none" in str(session.run_requests())
    session.submit(session.actor.stiffen, 99, 1.0)
    assert session.run_requests() is not None
    swinging(session)
    assert np.isfinite(session.actor.simulator.q).all()


def test_a_diverging_body_restarts_with_a_message(session, monkeypatch):
    def diverges(steps: int) -> None:
        raise SolverError("the simulation diverges")

    swinging(session)
    monkeypatch.setattr(session.actor.simulator, "run", diverges)
    session.advance(1)
    assert "restarts" in str(session.run_requests())
    assert away(session) < 1e-6
    monkeypatch.undo()
    session.advance(2)
    assert away(session) > 0


# What nothing holds ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loose() -> StvkModel:
    return StvkModel.build(beam(cells=(8, 2, 2)), Material("stvk", young=4e5, poisson=0.3), 6)


def test_a_body_that_nothing_holds_flies(model, loose):
    assert not BodyActor(model).flies
    assert BodyActor(loose).flies
    assert not BodyActor(replace(loose, inertia=None)).flies  # of an old file


def test_a_hand_carries_it_and_lets_it_fly(loose):
    session = Session(BodyActor(loose))
    size, home = loose.surface.size, session.actor.simulator.centre
    place = loose.surface.vertices[tip(loose)]
    session.grip("hand", place)
    session.pull("hand", place + np.array([0.0, size, 0.0]))
    session.advance(10)
    assert session.run_requests() is None
    moving = session.actor.simulator.linear_momentum
    assert moving[1] > 0
    session.release("hand")
    session.submit(session.actor.stiffen, 0, 1.0)  # which changes nothing about its flight
    session.advance(90)
    assert session.actor.simulator.linear_momentum == pytest.approx(moving, rel=1e-9, abs=1e-12)
    session.reset()
    session.grip("hand", place)
    session.pull("hand", place + np.array([0.0, size, 0.0]))
    session.advance(600)
    assert session.actor.simulator.centre[1] > home[1] + 0.3 * size  # it hangs on the hand
    session.refresh()
    assert np.linalg.norm(session.skin[tip(loose)] - place - [0.0, size, 0.0]) < 0.1 * size


def test_a_wild_hand_does_not_tear_what_is_free(loose):
    session = Session(BodyActor(loose))
    at = loose.surface.vertices[tip(loose)]
    session.grip("hand", at)
    for swing in range(60):
        session.pull("hand", at + 1e12 * np.eye(3)[swing % 3] * (-1) ** swing)
        session.advance(2)
        shape = np.abs(loose.surface_at(session.actor.simulator.q) - loose.surface.vertices).max()
        assert shape < loose.surface.size


def test_a_body_that_falls_out_of_sight_restarts(loose):
    session = Session(BodyActor(loose))
    home = session.actor.simulator.centre
    session.actor.set_gravity("down (-y)")
    told = None
    for _ in range(400):
        session.advance(1)
        told = told or session.run_requests()
    assert "flew out of sight" in str(told)
    assert np.abs(session.actor.simulator.centre - home).max() < 30 * loose.surface.size


# The command and the page ------------------------------------------------------------------


def test_view_serves_a_body_on_this_computer_only(model, tmp_path, capsys):
    from supple.app.viewer.serve import run_view

    model.save(tmp_path / "beam.stvk")
    figures = run_view(str(tmp_path / "beam.stvk"), port=0, seconds=0.5, quiet=True)
    assert figures["address"].startswith("http://127.0.0.1:")
    assert capsys.readouterr().out == figures["address"] + "\n"


@pytest.mark.parametrize(
    "told",
    [
        *({"motion": "Run"}, {"flesh": "soft"}, {"engine": "full"}),
        *({"model": Path("a")}, {"folder": Path("a")}),
    ],
)
def test_options_for_characters_are_refused_for_bodies(tmp_path, told):
    from supple.app.options import ViewOptions
    from supple.app.viewer.serve import run_view

    folder = told.get("folder")
    options = ViewOptions(**{name: value for name, value in told.items() if name != "folder"})
    with pytest.raises(SuppleError, match="is for characters"):
        run_view(str(tmp_path / "beam.stvk"), options, folder=folder, quiet=True)


@pytest.fixture
def page(session: BodySession) -> Iterator[Any]:
    from supple.app.viewer.page import Page

    with Page(session, port=0) as opened:
        yield opened


def test_a_body_is_dragged_and_stiffened_in_a_browser(page: Any) -> None:
    for browser in running_browser():
        size = {"width": 760, "height": 420}
        tab = open_tab(browser, page, size, hint="Drag the body")
        _drag(tab, page.session)
        _use_panel(tab, page)
        assert page.clock.failure is None


def _drag(tab: Any, session: BodySession) -> None:
    """From the middle of the scene, which the body is in, upwards."""
    x, y = 380, 210
    for _ in range(20):  # until it is drawn there
        tab.mouse.move(x, y)
        tab.mouse.down()
        tab.mouse.move(x, y - 30, steps=3)
        tab.mouse.move(x, y - 60, steps=3)
        tab.wait_for_timeout(300)
        if session.hands:
            break
        tab.mouse.up()
    until(tab, lambda: bool(session.hands), "a hand holds the body")
    until(tab, lambda: away(session) > 0.01, "it follows")
    tab.mouse.up()
    until(tab, lambda: not session.hands, "the hand lets go")


def _use_panel(tab: Any, page: Any) -> None:
    session = page.session
    tab.get_by_role("button", name="Pause", exact=True).click()
    until(tab, lambda: session.state == "paused", "it is paused")
    tab.get_by_role("button", name="Play", exact=True).click()
    until(tab, lambda: session.state == "playing", "it plays")
    slowest = session.actor.frequencies[0]
    boxes = tab.locator("input[value='0']:visible, .mantine-NumberInput-input:visible")
    stiffness = [box for box in boxes.all() if box.input_value() == "0"][:2]
    for box in stiffness:
        box.fill("2")
        box.press("Enter")
    until(tab, lambda: session.actor.frequencies[0] > 1.9 * slowest, "it is stiffer")
    tab.get_by_role("button", name="Reset", exact=True).click()
    until(tab, lambda: away(session) < 1e-6, "it is at rest")
