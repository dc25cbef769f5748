"""The viewer's tab of the anatomy: maps, regions that are chosen, and models that are rebuilt."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.browser_pages import open_tab, running_browser, until
from helpers.character_files import save_character
from helpers.sample_bodies import bending, figure
from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.region_entries import read_entries
from supple.app.contact_options import ContactOptions
from supple.app.options import ViewOptions
from supple.app.pictures.anatomy_sheet import ANATOMY_MAPS, ROLE_COLOURS
from supple.app.viewer import serve
from supple.app.viewer.scene.colours import CHOSEN, by_anatomy
from supple.app.viewer.session.anatomy_editing import AnatomyEditing
from supple.app.viewer.session.character_actor import CharacterActor
from supple.app.viewer.session.session import Session
from supple.engines.engine import ENGINES
from supple.errors import SuppleError
from supple.playback.baking import bake
from supple.playback.character_sources import CharacterSource
from supple.rig.character import Character


def _character(name: str, **options: Any) -> Any:
    """The actor that `supple view` shows."""
    return serve._character(name, ViewOptions(**options), ContactOptions(), True)


pytest.importorskip("viser", reason="viser is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::supple.SuppleWarning")

SMALL = {"tets": 600, "modes": 8, "poses": 1}
PATIENCE = 60.0


@pytest.fixture(scope="module")
def body() -> Character:
    return bending(figure().character(), "chest", 0.3)


@pytest.fixture(scope="module")
def actor_of(body: Character, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Makes actors of the same small model, kept in a cache of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        for name, value in SMALL.items():
            patch.setitem(ENGINES["pose-space"].bake_options, name, value)
        patch.setattr(serve, "read_character", lambda *given: CharacterSource(body))
        yield lambda **options: _character("body", **options)


@pytest.fixture
def actor(actor_of: Any) -> CharacterActor:
    return actor_of()


def editing_of(actor: CharacterActor) -> AnatomyEditing:
    assert actor.anatomy is not None
    return actor.anatomy


# Regions


def test_firm_and_soft_act_at_once_and_hard_waits(actor: CharacterActor):
    editing = editing_of(actor)
    assert editing.waiting == ()
    assert editing.tet_factors(actor.model) is None
    editing.choose("tail2", "firm")
    assert editing.waiting == ()
    factors = editing.tet_factors(actor.model)
    assert factors is not None
    assert factors.max() > 2
    assert np.median(factors) < 1.2
    editing.choose("thigh.L", "hard")
    assert set(editing.waiting) == {"thigh.L", "thigh.R"}
    editing.choose("thigh.L", "normal")
    assert editing.waiting == ()


def test_one_side_can_be_changed_alone(actor: CharacterActor):
    editing = editing_of(actor)
    editing.choose("thigh.L", "apart", mirrored=False)
    assert editing.waiting == ("thigh.L",)


def test_a_change_of_firmness_acts_on_moving_flesh(actor: CharacterActor):
    session = Session(actor)
    session.advance(10)
    editing_of(actor).choose("chest", "firm")
    session.submit(actor.apply_anatomy)
    session.advance(5)
    local = actor.simulator.local_stiffness
    assert local is not None
    assert local.max() > 2
    assert session.run_requests() is None
    session.submit(actor.end_with, "restart")  # which may take other steps
    session.advance(3)
    np.testing.assert_array_equal(actor.simulator.local_stiffness, local)


def test_a_rebuilt_model_goes_on_where_the_motion_is(actor: CharacterActor):
    from supple.reduction.build_log import BuildLog

    session, editing = Session(actor), editing_of(actor)
    session.advance(20)
    editing.choose("chest", "hard")
    entries, time, before = dict(editing.anatomy.entries), actor.time, actor.model
    log = BuildLog()
    assert editing.rebuild is not None
    ready = editing.rebuild(entries, log, "normal")
    model = ready.model
    assert "anatomy" in log.stages
    factors = actor.stable_factors(model, ready.feel)
    session.submit(actor.replace_model, model, entries, factors, ready.feel)
    assert session.run_requests() is None
    assert actor.model is model is not before
    assert actor.time == pytest.approx(time, abs=0.02)
    assert editing.waiting == ()
    session.advance(10)
    assert session.run_requests() is None
    assert len(model.fixed) > len(before.fixed)


def test_the_viewed_motion_is_the_one_baked_with_that_anatomy(actor, body):
    editing = editing_of(actor)
    baked = bake(body, anatomy=editing.anatomy, rate=30, quality="live")
    session = Session(actor)
    session.submit(actor.end_with, "stop")
    for frame in range(6):
        session.advance(0 if frame == 0 else 6)
        assert np.array_equal(actor.surface(), baked.frames[frame]), frame


def test_the_region_under_a_ray_is_the_nearest(actor: CharacterActor):
    editing, skin = editing_of(actor), actor.surface()
    beside = skin[int(np.argmax(skin[:, 0]))] + np.array([1.0, 0, 0])
    assert editing.region_under(skin, beside, [-1, 0, 0]) == "hand.L"
    assert editing.region_under(skin, beside, [1, 0, 0]) is None
    assert editing.region_under(skin, [np.nan, 0, 0], [1, 0, 0]) is None


def test_a_model_of_a_file_can_be_looked_at_but_not_rebuilt(actor_of, tmp_path):
    made = actor_of()
    made.model.save(tmp_path / "body.supple")
    editing = editing_of(actor_of(model=tmp_path / "body.supple"))
    assert editing.rebuild is None
    assert len(editing.waiting) == len(editing.joints)


def test_without_the_anatomy_of_a_model_all_changes_need_a_rebuild(actor_of):
    editing = editing_of(actor_of(anatomy="none"))
    assert editing.waiting == editing.joints
    assert editing.rebuild is not None


def test_a_page_can_only_choose_what_there_is(actor: CharacterActor):
    for joint, feel in (("nobody", "hard"), ("chest", "wet")):
        with pytest.raises(SuppleError, match="use a region and one of"):
            editing_of(actor).choose(joint, feel)


# Files


def test_bake_accepts_the_saved_anatomy(actor, body, tmp_path):
    editing = editing_of(actor)
    editing.choose("chest", "soft")
    editing.save(tmp_path, "body.anatomy.json")
    editing.choose("chest", "firm")
    target = editing.save(tmp_path, "body.anatomy.json")  # its own file may be replaced
    assert read_entries(target)["chest"].feel == "firm"
    np.testing.assert_array_equal(Anatomy.load(target, body).share, editing.anatomy.share)


@pytest.mark.parametrize("name", ["../a.anatomy.json", "/away/a.json", "a.glb", "", ".json", "a\n"])
def test_no_file_is_written_outside_of_the_folder(actor, tmp_path, name):
    folder = tmp_path / "own"
    folder.mkdir()
    with pytest.raises(SuppleError):
        editing_of(actor).save(folder, name)
    assert list(tmp_path.rglob("*")) == [folder]


def test_other_files_and_links_are_not_replaced(actor, tmp_path):
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "link.json").symlink_to(tmp_path / "elsewhere.json")
    for name in ("other.json", "link.json"):
        with pytest.raises(SuppleError, match=name):
            editing_of(actor).save(tmp_path, name)
    assert (tmp_path / "other.json").read_text() == "{}"
    assert not (tmp_path / "elsewhere.json").exists()


# Colours


def test_the_chosen_region_stands_out(body: Character):
    anatomy = anatomy_of(body)
    for which in ANATOMY_MAPS:
        shown = by_anatomy(anatomy, which, ("hand.L", "hand.R"))
        chosen = shown.bands == len(shown.colours) - 1
        assert shown.colours[-1] == CHOSEN
        middle = anatomy.surface.vertices[anatomy.surface.triangles[chosen]].mean(axis=1)
        assert (np.abs(middle[:, 0]) > 0.6).all()
        assert chosen.sum() > 20


# The page


@pytest.fixture
def page(actor: CharacterActor, tmp_path: Path) -> Iterator[Any]:
    from supple.app.viewer.page import Page

    with Page(Session(actor), port=0, folder=tmp_path) as opened:
        yield opened


def test_names_of_a_file_are_no_markup(actor_of: Any, body: Character, tmp_path: Path):
    from supple.app.viewer.page import Page

    actor = actor_of()
    editing = editing_of(actor)
    first = editing.joints[0]
    hostile = replace(editing.anatomy.entries[first], reasons=("<b>{alert(1)}</b> [x](y)",))
    entries = {**editing.anatomy.entries, first: hostile}
    editing.anatomy = replace(editing.anatomy, entries=entries)
    with Page(Session(actor), port=0, folder=tmp_path) as opened:
        assert opened.anatomy is not None
        text = opened.anatomy._about.content
        assert "alert" in text
        assert not set("<>{}[]()") & set(text)


def test_a_page_that_ends_ends_its_build(page: Any):
    editing = editing_of(page.session.actor)
    begun, over = threading.Event(), threading.Event()

    def rebuild(entries: Any, log: Any, flesh: str) -> Any:
        begun.set()
        try:
            for part in range(10_000):
                log.report(part / 10_000, "forever")
                over.wait(0.01)
        finally:
            over.set()

    editing.rebuild = rebuild
    page.anatomy._start(type("Event", (), {"client": None}))
    assert begun.wait(PATIENCE)
    page.close()
    assert over.wait(PATIENCE)


def test_a_build_that_fails_leaves_the_model_as_it_is(page: Any):
    actor = page.session.actor
    before, ended = actor.model, threading.Event()

    def rebuild(entries: Any, log: Any, flesh: str) -> Any:
        ended.set()
        raise SuppleError("no tets")

    editing_of(actor).rebuild = rebuild
    page.anatomy._start(type("Event", (), {"client": None}))
    assert ended.wait(PATIENCE)
    page.anatomy._build.join(PATIENCE)
    assert actor.model is before
    assert not page.anatomy._building


@pytest.fixture
def tab(page: Any) -> Iterator[Any]:
    for browser in running_browser():
        opened = open_tab(browser, page, {"width": 900, "height": 640})
        opened.get_by_role("tab", name="Anatomy").click()
        yield opened


def place_of(tab: Any, colour: tuple[int, int, int]) -> Any:
    """A pixel of the scene that has about this hue."""
    import io

    from matplotlib.image import imread

    area = {"x": 0, "y": 130, "width": 540, "height": 500}
    pixels = np.asarray(imread(io.BytesIO(tab.screenshot(clip=area)), format="png"))[..., :3]
    wanted = np.array(colour) / np.linalg.norm(colour)
    lengths = np.maximum(np.linalg.norm(pixels, axis=2), 1e-6)
    alike = (pixels @ wanted / lengths > 0.995) & (lengths < 1.5) & (np.ptp(pixels, axis=2) > 0.15)
    rows, columns = np.nonzero(alike)
    if len(rows) < 30:
        return None
    nearest = int(np.argmin(np.hypot(rows - np.median(rows), columns - np.median(columns))))
    return area["x"] + float(columns[nearest]), area["y"] + float(rows[nearest])


def test_a_region_is_clicked_made_hard_rebuilt_and_saved(page: Any, tab: Any):
    actor = page.session.actor
    page.session.pause()
    page.anatomy._map.value = "role"
    tab.get_by_text("trunk", exact=True).first.wait_for()  # the legend
    until(tab, lambda: place_of(tab, ROLE_COLOURS["trunk"]) is not None, "the trunk is coloured")
    tab.mouse.click(*place_of(tab, ROLE_COLOURS["trunk"]))
    until(tab, lambda: page.anatomy.joint in ("hips", "chest"), "the trunk is chosen")
    until(tab, lambda: page.scene.chosen == (page.anatomy.joint,), "it stands out")
    until(tab, lambda: place_of(tab, CHOSEN) is not None, "one sees it")
    joint = page.anatomy.joint
    tab.get_by_role("button", name="firm", exact=True).click()
    until(tab, lambda: actor.simulator.local_stiffness is not None, "it is firm at once")
    tab.get_by_role("button", name="hard", exact=True).click()
    tab.get_by_text("Needs a rebuild").wait_for()
    before = actor.model
    page.session.play()
    tab.get_by_role("button", name="Rebuild").click()
    until(tab, lambda: actor.model is not before, "it is rebuilt")
    tab.get_by_text("The model has these regions").wait_for()
    steps = page.session.meter.total_steps
    until(tab, lambda: page.session.meter.total_steps > steps + 10, "it moves on")
    tab.get_by_role("button", name="Save anatomy").click()
    tab.get_by_text("Saved", exact=True).wait_for()
    (saved,) = page.folder.glob("*.anatomy.json")
    assert json.loads(saved.read_text())["regions"][joint]["feel"] == "hard"
    assert page.clock.failure is None


def test_a_file_is_viewed_with_its_own_anatomy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    for name, value in SMALL.items():
        monkeypatch.setitem(ENGINES["pose-space"].bake_options, name, value)
    body = figure().character()
    path = save_character(body, tmp_path / "body.glb", swings="chest")
    anatomy = anatomy_of(body)
    entries = {"chest": replace(anatomy.entries["chest"], feel="firm")}
    replace(anatomy, entries=entries).save(tmp_path / "a.anatomy.json")
    actor = _character(str(path), anatomy=str(tmp_path / "a.anatomy.json"))
    assert editing_of(actor).anatomy.entries["chest"].feel == "firm"
    assert editing_of(actor).waiting == ()
