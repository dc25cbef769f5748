"""The viewer's page in a real browser."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from helpers.browser_pages import PATIENCE, open_tab, running_browser, until
from helpers.build_samples import MATERIAL, bar_options, bending_bar
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.session import Session

pytest.importorskip("viser", reason="viser is not installed")

#: Left of the panel, below notes.
SCENE = {"x": 40, "y": 150, "width": 340, "height": 320}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from running_browser()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from supple.app.viewer.page import Page

    firm = replace(MATERIAL, young=3e5)  # comes to rest within a second or two
    model = supple.build(bending_bar(90.0), **bar_options(material=firm))
    folder = tmp_path_factory.mktemp("recordings")
    with Page(Session(CharacterActor(model)), port=0, folder=folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def tab(browser: Any, page: Any) -> Iterator[Any]:
    opened = open_tab(browser, page)
    yield opened
    opened.close()


def pixels(tab: Any) -> np.ndarray:
    from matplotlib.image import imread

    png = tab.screenshot(clip=SCENE, timeout=PATIENCE)
    return np.asarray(imread(io.BytesIO(png), format="png"))[..., :3]


def drawn(picture: np.ndarray) -> np.ndarray:
    """Where the skin is: page, ground and shadow are grey."""
    return np.ptp(picture, axis=2) > 0.06


def play(page: Any, tab: Any) -> None:
    page.session.submit(page.session.actor.choose, "sweep")
    until(tab, lambda: page.session.state == "playing", "it plays")


def hold(page: Any, tab: Any) -> None:
    """The bar straight, and at rest."""
    page.session.submit(page.session.actor.pose_to, [0.0])
    until(tab, lambda: abs(float(page.session.actor.pose[0])) < 1e-4, "it is straight")
    until(tab, lambda: away(page) < 1e-3, "it is at rest")


def away(page: Any) -> float:
    """Metres that flesh is from where the rig has it."""
    return float(np.abs(page.session.skin - page.session.actor.undeformed()).max())


def middle_of_skin(tab: Any) -> tuple[float, float]:
    """A pixel of the page with skin under it, towards its free end."""
    rows, columns = np.nonzero(drawn(pixels(tab)))
    column = int(np.percentile(columns, 85))
    row = int(np.median(rows[columns == column]))
    return SCENE["x"] + column, SCENE["y"] + row


def still(tab: Any) -> np.ndarray:
    """A picture that no longer changes: a slow page may show what was there seconds ago."""
    seen = [pixels(tab)]

    def stands() -> bool:
        tab.wait_for_timeout(400)
        seen.append(pixels(tab))
        return len(seen) > 3 and all(np.abs(seen[-1] - one).max() < 0.02 for one in seen[-4:-1])

    until(tab, stands, "the picture stands still")
    return seen[-1]


def see_it_move(tab: Any) -> None:
    first = pixels(tab)
    until(tab, lambda: bool(np.abs(pixels(tab) - first).max() > 0.2), "pixels change")


def test_the_page_shows_a_mesh_that_moves(page: Any, tab: Any) -> None:
    play(page, tab)
    until(tab, lambda: drawn(pixels(tab)).mean() > 0.005, "something is drawn")
    see_it_move(tab)


def test_the_button_pauses_and_plays(page: Any, tab: Any) -> None:
    play(page, tab)
    tab.get_by_role("button", name="Pause", exact=True).click()
    until(tab, lambda: page.session.state == "paused", "it is paused")
    time = page.session.actor.time
    tab.wait_for_timeout(400)
    assert page.session.actor.time == time
    tab.get_by_role("button", name="Play", exact=True).click()
    until(tab, lambda: page.session.state == "playing", "it plays again")


def test_dragging_moves_flesh_and_it_swings_back(page: Any, tab: Any) -> None:
    hold(page, tab)
    until(tab, lambda: drawn(pixels(tab)).mean() > 0.005, "something is drawn")
    x, y = middle_of_skin(tab)
    before = pixels(tab)
    tab.mouse.move(x, y)
    tab.mouse.down()
    for step in range(1, 9):
        tab.mouse.move(x, y - 8 * step)
        tab.wait_for_timeout(50)
    until(tab, lambda: bool(page.session.hands), "a hand holds the skin")
    until(tab, lambda: away(page) > 0.01, "flesh follows")
    until(tab, lambda: bool((drawn(pixels(tab)) != drawn(before)).sum() > 20), "one sees it")
    pulled = away(page)
    tab.mouse.up()
    until(tab, lambda: not page.session.hands, "the hand lets go")
    until(tab, lambda: away(page) < 0.1 * pulled, "flesh swings back")


def test_toggles_act(page: Any, tab: Any) -> None:
    around = page.session.actor.obstacles
    tab.get_by_label("Ground", exact=True).check(force=True)
    tab.get_by_label("Ball", exact=True).check(force=True)
    until(tab, lambda: around.ground and around.ball, "both are there")
    tab.get_by_label("Ball's shape", exact=True).click()
    tab.get_by_role("option", name="ring", exact=True).click()
    until(tab, lambda: around.object.name == "ring", "the ball is a ring")
    tab.get_by_label("Ground", exact=True).uncheck(force=True)
    tab.get_by_label("Ball", exact=True).uncheck(force=True)
    until(tab, lambda: not (around.ground or around.ball), "both are gone")
    tab.get_by_role("tab", name="Show").click()
    tab.get_by_label("Rig only", exact=True).check(force=True)
    until(tab, lambda: page.scene.rig.visible, "the rig is shown")
    tab.get_by_label("Rig only", exact=True).uncheck(force=True)
    until(tab, lambda: not page.scene.rig.visible, "the rig is hidden")
    tab.get_by_role("tab", name="Play").click()


def test_colours_are_seen(page: Any, tab: Any) -> None:
    hold(page, tab)
    page.show.colour.value = "clay"
    until(tab, lambda: page.scene.colouring == "clay", "clay")
    until(tab, lambda: drawn(pixels(tab)).mean() > 0.005, "something is drawn")
    before = still(tab)
    for colouring in ("displacement", "region", "stiffness", "cubature"):
        page.show.colour.value = colouring
        until(
            tab,
            lambda: bool(np.abs(pixels(tab) - before)[drawn(before)].mean() > 0.02),
            f"the skin is coloured by {colouring}",
        )
        assert page.scene.colouring == colouring
        page.show.colour.value = "clay"
        until(
            tab,
            lambda: bool(np.abs(pixels(tab) - before)[drawn(before)].mean() < 0.01),
            "flesh is flesh again",
        )


def test_sliders_pose_the_rig(page: Any, tab: Any) -> None:
    hold(page, tab)
    tab.get_by_role("tab", name="Pose").click()
    box = tab.locator("input[value='0']:visible, .mantine-NumberInput-input:visible").last
    box.fill("0.7")
    box.press("Enter")
    until(tab, lambda: abs(float(page.session.actor.pose[0]) - 0.7) < 0.02, "the rig is posed")
    tab.get_by_role("tab", name="Play").click()


def test_a_recording_is_saved_in_its_folder_only(page: Any, tab: Any) -> None:
    play(page, tab)
    tab.get_by_role("tab", name="Record").click()
    tab.get_by_role("button", name="Record", exact=True).click()
    until(tab, lambda: len(page.session.actor.recorder) > 3, "frames are kept")
    tab.get_by_role("textbox").last.fill("../outside.npz")
    tab.wait_for_timeout(300)
    tab.get_by_role("button", name="Save", exact=True).click()
    tab.get_by_text("plain file name").wait_for()
    tab.get_by_role("textbox").last.fill("inside.npz")
    tab.wait_for_timeout(300)
    tab.get_by_role("button", name="Save", exact=True).click()
    tab.get_by_text("Saved", exact=True).wait_for()
    folder: Path = page.folder
    assert [path.name for path in folder.iterdir()] == ["inside.npz"]
    assert not (folder.parent / "outside.npz").exists()
    tab.get_by_role("tab", name="Play").click()


def test_two_pages_show_one_simulation_and_closing_one_leaks_nothing(
    browser: Any, page: Any, tab: Any
) -> None:
    play(page, tab)
    threads = threading.active_count()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for visit in range(2):
            other = open_tab(browser, page)
            until(tab, lambda: len(page.server.get_clients()) == 2, "two pages watch")
            if visit == 0:
                see_it_move(other)
            other.close()
            until(tab, lambda: len(page.server.get_clients()) == 1, "one page is left")
    inner = page.server._websock_server
    assert len(inner._client_state_from_id) == 1
    assert len(inner._broadcast_buffer.generator_cursors) == 1
    assert len(inner._broadcast_buffer.message_from_id) < 500
    until(tab, lambda: threading.active_count() <= threads + 1, "its threads are gone")
    assert not [w for w in told if "closed connection" in str(w.message)]
    assert page.clock.failure is None
