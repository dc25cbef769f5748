"""Soft skeletons in the viewer: objects and bones that are dragged, and what is felt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import supple
from helpers.browser_pages import open_tab, running_browser, until
from helpers.build_samples import bar_options, bending_bar
from helpers.soft_skeleton_samples import elbow, soft_elbow
from supple.app.viewer.panels.touch_panel import ObjectPanel
from supple.app.viewer.scene.colours import RAMP, by_pressure
from supple.app.viewer.scene.contact_nodes import FixedObstacles
from supple.app.viewer.server import start_server
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.session import Session
from supple.engines.engine import ENGINES
from supple.engines.optional_parts import RigidObjects, SoftContact
from supple.errors import SuppleError
from supple.mesh.obstacles import Plane
from supple.playback.bake_plan import bake_plan
from supple.playback.obstacles.words import placed_options

pytest.importorskip("viser", reason="viser is not installed")

FLOOR = Plane((0.0, -0.3, 0.0), (0.0, 1.0, 0.0))


def session(**options: Any) -> Session[CharacterActor]:
    """The arm above a floor, at rest."""
    given = {"obstacles": (FLOOR,), **options}
    shown = CharacterActor(soft_elbow(), engine="soft-skeleton", simulation=given)
    opened = Session(shown)
    shown.hold()
    return opened


def advanced(opened: Session[CharacterActor], steps: int) -> None:
    for _ in range(steps):
        opened.advance()
    opened.refresh()


def test_an_engine_that_feels_has_the_parts_of_touch_and_others_do_not():
    shown = session().actor
    assert {"touch", "objects", "obstacles"} <= shown.parts
    assert isinstance(shown.simulator, SoftContact)
    assert isinstance(shown.simulator, RigidObjects)
    assert not any(hasattr(ENGINES[name].simulate, "pressure") for name in ("full", "rig-space"))


def test_an_object_falls_on_the_floor_and_is_led_while_it_is_held():
    opened = session()
    objects = opened.actor.objects
    box = objects.add("box", opened.skin)
    advanced(opened, 240)
    rest = float(np.asarray(FLOOR.point)[1]) + 0.8 * objects.radius
    assert box.place[1, 3] == pytest.approx(rest, abs=1e-3)
    objects.hold(box)
    objects.drag(box, (0.8, 0.1, 0.1))
    felt = []
    for _ in range(60):
        opened.advance()
        felt.append(len(opened.actor.simulator.contacts().points))
    assert np.allclose(box.place[:3, 3], (0.8, 0.1, 0.1), atol=1e-3)
    assert max(felt) > 0, "it went through the arm and nothing was felt"
    objects.drag(box, (0.8, 0.3, 0.8))
    objects.drag(box, (np.nan, 0.0, 0.0))  # pages may send anything
    advanced(opened, 60)
    objects.release(box)
    advanced(opened, 20)
    assert box.place[1, 3] < 0.25, "it is let go, and does not fall"


def test_objects_are_there_for_pose_space():
    options = bar_options((12, 3, 3), modes=16, elastic_cubature=40)
    model = supple.build(bending_bar(cells=(12, 3, 3)), **options)
    place = np.eye(4)
    place[:3, 3] = 0.5, 0.3, 0.083
    ball = supple.RigidObject(supple.Sphere((0, 0, 0), 0.1), 1.0, place=place)
    given = {"obstacles": (FLOOR,), "objects": (ball,)}
    opened = Session(CharacterActor(model, engine="pose-space", simulation=given))
    assert "objects" in opened.actor.parts
    assert "touch" not in opened.actor.parts
    box = opened.actor.objects.add("box", opened.skin)
    assert opened.actor.objects.objects == [ball, box]
    opened.actor.hold()
    height = box.place[1, 3]
    advanced(opened, 30)
    assert opened.actor.simulator.objects == (ball, box)
    assert box.place[1, 3] < height - 0.05
    assert ball.place[1, 3] < 0.3
    server = start_server("127.0.0.1", 0, "Supple")
    try:
        panel = ObjectPanel(server, opened)
        panel.update()
        panel.forces.update()
    finally:
        server.stop()


def test_given_obstacles_are_drawn_and_those_with_a_path_move_with_the_motion():
    clip = bake_plan(elbow(), "Swing").place_of(elbow())
    words = ["plane:ground", "sphere:2,0,0,0.1@-4,0,0", "box:3,0,0,0.1,0.2,0.3"]
    given = placed_options({"obstacles": words}, clip)
    opened = Session(
        CharacterActor(soft_elbow(), "Swing", engine="soft-skeleton", simulation=given)
    )
    server = start_server("127.0.0.1", 0, "obstacles")
    try:
        shown = FixedObstacles(server, opened)
        advanced(opened, 30)
        shown.update()
        handles = {each.name: each for each in shown.handles}
        assert set(handles) == {f"/obstacle/obstacle {number}" for number in range(3)}
        since = opened.actor.player.time - clip.start
        assert since > 0
        flying = handles["/obstacle/obstacle 1"]
        assert np.allclose(flying.position, [2 - 4 * since, 0, 0], atol=1e-6)
        assert np.allclose(handles["/obstacle/obstacle 2"].position, [3, 0, 0])
        assert np.allclose(handles["/obstacle/obstacle 2"].wxyz, [1, 0, 0, 0])
    finally:
        server.stop()


def test_an_object_that_is_lost_comes_back_and_there_are_not_too_many():
    opened = session(obstacles=())
    objects = opened.actor.objects
    ball = objects.add("ball", opened.skin)
    ball.velocity = (0.0, -60.0, 0.0)
    advanced(opened, 12)
    assert abs(float(ball.place[1, 3])) < 3 * objects.size
    for _ in range(7):
        objects.add("ball", opened.skin)
    with pytest.raises(SuppleError, match="remove some"):
        objects.add("ball", opened.skin)
    objects.clear()
    advanced(opened, 1)
    assert opened.actor.simulator.objects == ()


def pulled(grabs: Any) -> float:
    """Radians that the elbow is turned when the end of the arm is pulled down by 0.2 m."""
    opened = session()
    shown = opened.actor
    shown.grabs = grabs
    advanced(opened, 2)
    end = int(np.argmax(opened.skin[:, 0]))
    before = opened.skin[end].astype(float)
    opened.grip("hand", before)
    opened.pull("hand", before - (0.0, 0.2, 0.0))
    advanced(opened, 60)
    assert np.isfinite(opened.skin).all()
    return float((shown.pose - shown.simulator.parameters)[0])


def test_a_bone_that_is_dragged_goes_along_and_flesh_only_stretches():
    bone, flesh = pulled("bone"), pulled("flesh")
    assert bone > 0.05
    assert bone > 2 * flesh > 0


def test_a_limp_arm_hangs_and_settings_survive_a_change_of_the_time_step():
    opened = session(obstacles=())
    simulator = opened.actor.simulator
    simulator.tracking, simulator.friction = 0.0, 0.9
    simulator.gravity = (0.0, 9.81, 0.0)
    advanced(opened, 60)
    end = int(np.argmax(opened.actor.undeformed()[:, 0]))
    assert opened.skin[end, 1] > opened.actor.undeformed()[end, 1] + 0.1
    opened.actor._new_simulator(1 / 60)
    again = opened.actor.simulator
    assert again is not simulator
    assert (again.tracking, again.friction) == (0.0, 0.9)
    assert again.gravity[1] == 9.81


def test_pressure_is_grey_where_nothing_presses_and_red_where_it_is_full():
    triangles = np.array([[0, 1, 2], [2, 3, 4], [4, 5, 6]])
    pressure = np.array([0.0, 0, 0, 300, 300, 1e5, 1e5])
    bands = by_pressure(pressure, triangles, 2e4).bands
    assert bands[0] == 0
    assert 0 < bands[1] < bands[2] == len(RAMP) - 1


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from running_browser()


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    from supple.app.viewer.page import Page

    with Page(session(joint_limits=None), port=0) as opened:
        yield opened


def test_the_page_adds_objects_and_switches_tracking_off(page: Any, browser: Any) -> None:
    tab, shown = open_tab(browser, page), page.session.actor
    tab.get_by_role("tab", name="Touch").click()
    tab.get_by_role("button", name="Add a ball", exact=True).click()
    until(tab, lambda: len(shown.simulator.objects) == 1, "there is a ball")
    tab.get_by_role("button", name="Add a box", exact=True).click()
    until(tab, lambda: len(shown.simulator.objects) == 2, "there is a box")
    tab.get_by_label("Force arrows").click()
    tab.get_by_label("Unposed flesh").click()
    until(tab, lambda: page.touch._unposed.visible, "unposed flesh is shown")
    tab.get_by_label("Follow the motion").click()
    until(tab, lambda: shown.simulator.tracking == 0, "it is limp")
    tab.get_by_text("contacts,").wait_for()  # it hangs down onto the floor
    page.session.submit(page.scene.recolour, "pressure")
    tab.get_by_role("button", name="Remove objects", exact=True).click()
    until(tab, lambda: not shown.simulator.objects, "they are gone")
    tab.set_viewport_size({"width": 420, "height": 800})
    tab.get_by_role("tab", name="Touch").click()  # narrow pages have a panel of their own
    for name in ("Add a ball", "Add a box", "Remove objects"):
        button = tab.get_by_role("button", name=name, exact=True)
        button.scroll_into_view_if_needed()
        box = button.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 420
    assert page.clock.failure is None
    tab.close()
