"""The page about a baked motion: one file, true to the frames, and harmless."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from helpers.baked_samples import swinging_x
from helpers.soft_skeleton_samples import elbow, soft_elbow
from supple.app.report.page_motion import fitted_shapes, packed
from supple.app.report.report_page import write_page
from supple.errors import SuppleError
from supple.mesh.obstacles import Sphere
from supple.playback.baking import bake
from supple.rig.baked_motion import BakedMotion

CHROMIUM = Path("/usr/bin/chromium")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
)
NASTY = '</script><img src=x onerror=alert(1)>&"[[data]]'


class Elements(HTMLParser):
    """All elements with their attributes, and the text of those with an id."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._open: str | None = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.found.append((tag, given))
        self._open = given.get("id")

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data


@pytest.fixture(scope="module")
def baked():
    return swinging_x()


@pytest.fixture(scope="module")
def page(baked, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "x.html"
    figures = write_page(path, baked, {"tets": 8848, "paper_tets": 9303}, {"a picture": PNG})
    return path, figures


def decoded(text: str) -> tuple[dict, np.ndarray, np.ndarray]:
    """Rig and soft frames in the world, read as the format says, without the page's own code."""
    elements = Elements(text)
    head = json.loads(elements.texts["head"])
    head |= head["clips"][head["clip"]]
    data = base64.b64decode(elements.texts["data"])
    first, second = head["bytes"]
    assert len(data) == first + second
    planes = np.frombuffer(zlib.decompress(data[:first]), np.uint8)
    plain = np.frombuffer(zlib.decompress(data[first:]), "<f4")
    parts, at = {}, 0
    for entry in head["packed"]:
        size = entry["count"] * entry["planes"]
        own = planes[at : at + size].reshape(entry["planes"], -1).astype(np.int64)
        folded = sum(own[p] << (8 * p) for p in range(entry["planes"]))
        parts[entry["name"]] = (folded >> 1) ^ -(folded & 1)
        at += size
    assert at == len(planes)
    at = 0
    for entry in head["plain"]:
        parts[entry["name"]] = plain[at : at + entry["count"]]
        at += entry["count"]
    frames, n = sum(clip["frames"] for clip in head["clips"]), head["vertices"]
    triangles = np.cumsum(parts["triangles"]).reshape(-1, 3)
    before = _before(triangles, n)
    shapes = []
    for name, count, step in zip(("rig", "flesh"), head["shapes"], head["steps"], strict=True):
        numbers = parts[name].reshape(count, 3, n).copy()
        for i in range(1, n):
            numbers[:, :, i] += numbers[:, :, before[i]]
        shapes.append(step * numbers.transpose(0, 2, 1))
    weights = parts["weights"].reshape(frames, -1)
    rig = np.einsum("tk,kni->tni", weights[:, : head["shapes"][0]], shapes[0])
    soft = rig + np.einsum("tk,kni->tni", weights[:, head["shapes"][0] :], shapes[1])
    places = parts["places"].reshape(frames, 7)
    return head | {"read_triangles": triangles}, _world(rig, places), _world(soft, places)


def _before(triangles: np.ndarray, n: int) -> list[int]:
    near: list[list[int]] = [[] for _ in range(n)]
    for triangle in triangles.tolist():
        for a in triangle:
            near[a] += [b for b in triangle if b < a]
    return [max(own, default=i - 1) for i, own in enumerate(near)]


def _world(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    vector, real = places[:, None, :3], places[:, None, 3:4]
    turned = points + 2 * np.cross(vector, np.cross(vector, points) + real * points)
    return turned + places[:, None, 4:]


def test_the_page_holds_the_motion_within_its_stated_error(page, baked):
    path, figures = page
    head, rig, soft = decoded(path.read_text())
    assert np.array_equal(head["read_triangles"], baked.character.surface.triangles)
    wanted = np.array([baked.rig_frame(k) for k in range(baked.n_frames)])
    error = max(
        np.linalg.norm(soft - baked.frames, axis=2).max(),
        np.linalg.norm(rig - wanted, axis=2).max(),
    )
    size = baked.character.surface.size
    assert error <= figures["error_m"] + 1e-5 * size
    assert figures["error_m"] < 0.002 * size
    # It is measured, not a bound far above what happens.
    assert error > 0.3 * figures["error_m"]
    assert head["farthest"] > 0.01


def several(swings: tuple[float, ...] = (0.01, 0.05, 0.02)) -> list[BakedMotion]:
    """The X in motions of different lengths, the second the liveliest."""
    first = swinging_x(10, swing=swings[0])
    found = [first]
    for number, swing in enumerate(swings[1:], 1):
        other = swinging_x(10 + 4 * number, swing=swing)
        motion = replace(other.motion, name=f"leap {number}", times=other.motion.times + number)
        found.append(replace(other, character=first.character, motion=motion))
    return found


def test_a_page_of_several_motions_holds_each_and_begins_with_the_liveliest(tmp_path):
    bakes = several()
    write_page(tmp_path / "all.html", bakes)
    text = (tmp_path / "all.html").read_text()
    head, _, soft = decoded(text)
    assert head["clip"] == 1
    assert [clip["motion"] for clip in head["clips"]] == ["flap", "leap 1", "leap 2"]
    size = bakes[0].character.surface.size
    for clip, baked in zip(head["clips"], bakes, strict=True):
        own = soft[clip["first"] : clip["first"] + clip["frames"]]
        assert np.linalg.norm(own - baked.frames, axis=2).max() <= head["error"] + 1e-5 * size
    elements = Elements(text)
    options = [given for tag, given in elements.found if tag == "option" and len(given) < 3]
    chosen = [given for given in options if "selected" in given]
    assert {given["value"] for given in chosen} == {"1"}  # of motions, and of speeds
    assert "“leap 1”" in elements.texts["subtitle"]
    alone = (tmp_path / "one.html", bakes[0])
    write_page(*alone)
    assert ("id", "clip") not in [
        pair for _, given in Elements(alone[0].read_text()).found for pair in given.items()
    ]


def test_with_fewer_bytes_the_motion_is_coarser_and_the_page_shows_the_error(page, baked, tmp_path):
    _, figures = page
    tight = write_page(tmp_path / "tight.html", baked, most_bytes=60_000)
    assert tight["bytes"] < figures["bytes"]
    assert tight["error_m"] > 2 * figures["error_m"]
    _, _, soft = decoded((tmp_path / "tight.html").read_text())
    off = np.linalg.norm(soft - baked.frames, axis=2).max()
    assert off <= tight["error_m"] + 1e-5 * baked.character.surface.size
    assert f"within {1000 * tight['error_m']:.1f} mm (" in (tmp_path / "tight.html").read_text()


def test_the_page_fetches_nothing(page):
    text = page[0].read_text()
    elements = Elements(text)
    for tag, given in elements.found:
        for name in ("src", "href", "srcset", "data", "action", "poster", "background"):
            if name in given:
                assert str(given[name]).startswith("data:image/"), (tag, name)
    assert "@import" not in text
    assert "url(" not in text
    assert "://" not in text
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts|sendBeacon)\b", text)
    (policy,) = [
        str(given["content"])
        for tag, given in elements.found
        if given.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'")


def test_names_and_figures_are_shown_and_never_run(tmp_path):
    baked = swinging_x(4, name=NASTY)
    baked = replace(baked, motion=replace(baked.motion, name=NASTY))
    path = tmp_path / "nasty.html"
    write_page(path, baked, {NASTY: NASTY, "rows": [{NASTY: NASTY}]}, {NASTY: PNG})
    elements = Elements(path.read_text())
    tags = [tag for tag, _ in elements.found]
    assert tags.count("script") == 5
    assert tags.count("img") == 1
    assert not [given for _, given in elements.found if "onerror" in given]
    assert json.loads(elements.texts["head"])["name"] == NASTY
    (picture,) = [given for tag, given in elements.found if tag == "img"]
    assert picture["alt"] == NASTY


def test_the_same_motion_gives_the_same_bytes(baked, tmp_path):
    for name in ("one.html", "two.html"):
        write_page(tmp_path / name, baked)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_a_single_frame_without_any_swing_is_a_page_too(tmp_path):
    still = swinging_x(1, swing=0.0)
    figures = write_page(tmp_path / "still.html", still)
    assert figures["shapes_rig"] == 1
    assert figures["shapes_flesh"] == 0
    _, rig, soft = decoded((tmp_path / "still.html").read_text())
    assert np.array_equal(rig, soft)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ("nan", {}, "finite"),
        ("none", {}, "no frames"),
        ("", {"pictures": {"p": b"GIF89a"}}, "neither PNG nor JPEG"),
        ("", {"pictures": {"p": Path("nowhere.png")}}, "cannot be read"),
    ],
)
def test_invalid_motions_are_one_line_errors_and_leave_no_page(tmp_path, change, options, words):
    baked = swinging_x(3)
    if change == "nan":
        baked.frames[1, 5, 2] = np.nan
    if change == "none":
        baked = replace(baked, frames=baked.frames[:0])
    with pytest.raises(SuppleError, match=words) as error:
        write_page(tmp_path / "p.html", baked, **options)
    assert len(str(error.value).splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SuppleError, match="cannot be written"):
        write_page(tmp_path / "nowhere" / "p.html", swinging_x(2))


def test_shapes_are_no_more_than_the_motion_has_and_near_all_samples():
    random = np.random.default_rng(1)
    basis = random.standard_normal((3, 40, 3))
    samples = np.einsum("tk,kni->tni", random.standard_normal((50, 3)), basis).astype(np.float32)
    shapes = fitted_shapes(samples, 1e-3)
    assert 3 <= len(shapes.numbers) <= 7  # the mean, and six at a time
    flat = shapes.numbers.reshape(len(shapes.numbers), -1) * shapes.step
    weights, *_ = np.linalg.lstsq(flat.T, samples.reshape(50, -1).T, rcond=None)
    off = (flat.T @ weights).T.reshape(samples.shape) - samples
    assert np.linalg.norm(off, axis=2).max() < 2e-3


def test_packing_takes_as_few_planes_as_the_largest_number_needs():
    assert packed(np.array([0, -1, 1, -2]))[0] == bytes([0, 1, 2, 3])
    assert packed(np.array([127, -128]))[1] == 1
    assert packed(np.array([128]))[1] == 2
    assert packed(np.array([1 << 24]))[1] == 4
    assert packed(np.array([], np.int64)) == (b"", 1)


# In a real browser.


@pytest.fixture(scope="module")
def browsers():
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no {CHROMIUM}; apt-get install chromium")
    with sync_api.sync_playwright() as play:
        yield lambda *more: play.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", *more]
        )


@pytest.fixture(scope="module")
def drawing(browsers):
    browser = browsers("--use-angle=swiftshader", "--enable-unsafe-swiftshader")
    yield browser
    browser.close()


@pytest.fixture
def opened(drawing, page):
    """The page, playing, with what it asked for and what went wrong."""
    tab = drawing.new_page(viewport={"width": 700, "height": 800})
    tab.asked, tab.wrong = [], []
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.on("pageerror", lambda error: tab.wrong.append(str(error)))
    tab.on("console", lambda said: said.type == "error" and tab.wrong.append(said.text))
    tab.goto(page[0].as_uri())
    tab.wait_for_selector("body.live", timeout=30_000)
    yield tab
    assert tab.wrong == []
    tab.close()


def test_another_motion_is_chosen_on_the_page(drawing, tmp_path):
    bakes = several()
    write_page(tmp_path / "all.html", bakes)
    tab = drawing.new_page(viewport={"width": 700, "height": 800})
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.goto((tmp_path / "all.html").as_uri())
    tab.wait_for_selector("body.live", timeout=30_000)
    size = bakes[0].character.surface.size
    for number in (2, 0, 1):
        tab.select_option("#clip", str(number))
        found = tab.evaluate(
            """() => {
              const { motion, chart } = window.supplePage;
              window.supplePage.seek(3 / motion.head.rate);
              motion.moveTo(3 / motion.head.rate);
              const [rig, soft] = motion.pathOf(11);
              const clock = motion.head.start + window.supplePage.time;
              return [clock, Array.from(soft), chart.lines[0].length, motion.duration];
            }"""
        )
        baked = bakes[number]
        assert found[0] == pytest.approx(float(baked.times[3]), abs=1e-4)
        off = np.array(found[1]).reshape(-1, 3) - baked.frames[:, 11]
        assert np.linalg.norm(off, axis=1).max() < 0.002 * size
        assert found[2] == baked.n_frames
        assert f"“{baked.motion.name}”" in tab.inner_text("#subtitle")
    assert wrong == []
    tab.close()


def pixels(tab) -> np.ndarray:
    """(h, w, 4) of the canvas, drawn anew."""
    found = tab.evaluate(
        """() => {
          const page = window.supplePage;
          page.draw();
          const { gl } = page.renderer, w = gl.drawingBufferWidth, h = gl.drawingBufferHeight;
          const data = new Uint8Array(4 * w * h);
          gl.readPixels(0, 0, w, h, gl.RGBA, gl.UNSIGNED_BYTE, data);
          let text = "";
          for (let i = 0; i < data.length; i += 8192)
            text += String.fromCharCode(...data.subarray(i, i + 8192));
          return [w, h, btoa(text)];
        }"""
    )
    width, height, text = found
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(height, width, 4)


def until(tab, true: str) -> None:
    """Wait for it; Playwright's own way is a script that the page's policy forbids."""
    for _ in range(300):
        if tab.evaluate(true):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"never: {true}")


def at_rest(tab, time: float) -> None:
    tab.evaluate(f"supplePage.seek({time})")


def test_the_page_opens_from_a_file_loads_nothing_else_and_plays(opened, page):
    assert opened.asked == [page[0].as_uri()]
    before = opened.evaluate("supplePage.time")
    until(opened, f"supplePage.time > {before} + 0.1 || supplePage.time < {before}")
    opened.click("#play")
    assert opened.evaluate("supplePage.playing") is False


def test_the_browser_puts_vertices_where_the_simulation_had_them(opened, page, baked):
    for frame in (0, 7, baked.n_frames - 1):
        at_rest(opened, frame / baked.rate)
        opened.evaluate("supplePage.draw()")
        soft = opened.evaluate("Array.from(supplePage.motion.soft)")
        local = np.reshape(soft, (-1, 3))
        root = baked.motion.roots[frame]
        world = local @ root[:3, :3].T + root[:3, 3]
        off = np.linalg.norm(world - baked.frames[frame], axis=1).max()
        assert off <= page[1]["error_m"] + 1e-4 * baked.character.surface.size


@pytest.mark.filterwarnings("ignore:motion .Swing.:supple.errors.SuppleWarning")
@pytest.mark.filterwarnings("ignore:obstacle 0 is .* deep:supple.errors.SuppleWarning")
def test_a_soft_skeleton_that_is_thrown_far_off_its_motion_is_where_it_was(drawing, tmp_path):
    ball = Sphere((0.8, 0.3, 0.1), 0.16)  # in the way of the forearm
    stepped = {"obstacles": [ball], "tracking": 3.0, "root": "tracked"}
    felt = bake(elbow(), "Swing", soft_elbow(), simulation=stepped)
    figures = write_page(tmp_path / "arm.html", felt)
    tab = drawing.new_page(viewport={"width": 700, "height": 800})
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.goto((tmp_path / "arm.html").as_uri())
    tab.wait_for_selector("body.live", timeout=30_000)
    for frame in (0, felt.n_frames - 1):
        at_rest(tab, frame / felt.rate)
        seen = pixels(tab)
        assert 0.01 < (seen[..., 3] == 255).mean() < 0.6
        local = np.reshape(tab.evaluate("Array.from(supplePage.motion.soft)"), (-1, 3))
        root = felt.motion.roots[frame]
        world = local @ root[:3, :3].T + root[:3, 3]
        off = np.linalg.norm(world - felt.frames[frame], axis=1).max()
        assert off <= figures["error_m"] + 1e-4 * felt.character.surface.size
    assert wrong == []
    tab.close()


def test_a_body_is_seen_and_moves_with_time_and_with_the_hand(opened):
    at_rest(opened, 0.1)
    first = pixels(opened)
    solid = first[..., 3] == 255
    assert 0.03 < solid.mean() < 0.6
    assert first[solid][:, :3].std() > 10  # lit, not flat
    at_rest(opened, 0.5)
    later = pixels(opened)
    assert (np.abs(later.astype(int) - first).max(axis=2) > 20).mean() > 0.01
    box = opened.locator("#scene").bounding_box()
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.mouse.move(*middle)
    opened.mouse.down()
    opened.mouse.move(middle[0] + 120, middle[1] + 20, steps=4)
    opened.mouse.up()
    turned = pixels(opened)
    assert (np.abs(turned.astype(int) - later).max(axis=2) > 20).mean() > 0.01
    opened.mouse.wheel(0, -600)
    until(opened, "supplePage.camera.nearer < 0.9")
    assert (pixels(opened)[..., 3] == 255).mean() > (turned[..., 3] == 255).mean()
    opened.click("#home")
    assert np.array_equal(pixels(opened), later)


def test_every_way_of_showing_it_shows_something_else(opened):
    at_rest(opened, 0.5)
    shown = {}
    for mode in ("rig", "soft", "both", "difference"):
        opened.click(f"[data-mode={mode}]")
        shown[mode] = pixels(opened).astype(int)
        assert opened.locator("[aria-pressed=true]").all_inner_texts() == [
            {"rig": "Rig", "soft": "Flesh", "both": "Both", "difference": "Difference"}[mode]
        ]
    for a, b in (("rig", "soft"), ("soft", "difference"), ("soft", "both")):
        assert (np.abs(shown[a] - shown[b]).max(axis=2) > 20).mean() > 0.01
    halves = np.split(shown["both"][..., 3] == 255, [shown["both"].shape[1] // 2], axis=1)
    assert all(half.mean() > 0.02 for half in halves)
    assert opened.locator("#legend").is_visible()
    opened.click("#wire")
    assert np.abs(pixels(opened).astype(int) - shown["difference"]).max() > 20


def test_scrubbing_speed_keys_themes_and_tapping_act(opened, baked):
    opened.locator("#scrub").fill("500")
    half = (baked.n_frames - 1) / baked.rate / 2
    assert opened.evaluate("supplePage.time") == pytest.approx(half, abs=1e-3)
    opened.select_option("#speed", "0.25")
    assert opened.evaluate("supplePage.speed") == 0.25
    opened.locator("body").click(position={"x": 2, "y": 2})
    opened.keyboard.press("ArrowRight")
    assert opened.evaluate("supplePage.time") == pytest.approx(half + 1 / baked.rate, abs=1e-3)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(paper)
    opened.click("#theme")
    assert opened.evaluate(paper) != light
    opened.evaluate("supplePage.draw()")
    before = opened.evaluate("supplePage.chart.vertex")
    spot = opened.evaluate(
        """() => { const p = supplePage, v = p.views[0], { normals } = p.renderer.bodies.soft;
          let best = 0, most = -2;
          for (let i = 0; i < p.motion.n; i++) {
            const n = unitOf(normals, i), e = v.eye, m = v.model;
            const w = [0, 1, 2].map((c) => m[c] * n[0] + m[4 + c] * n[1] + m[8 + c] * n[2]);
            const l = Math.hypot(...e), f = (w[0] * e[0] + w[1] * e[1] + w[2] * e[2]) / l;
            if (f > most) { most = f; best = i; }
          }
          function unitOf(a, i) { const s = [a[3*i], a[3*i+1], a[3*i+2]];
            const l = Math.hypot(...s) || 1; return s.map((x) => x / l); }
          return p.onCanvas(v, p.motion.soft, 3 * best, 1); }"""
    )
    opened.locator("#scene").click(position={"x": spot[0], "y": spot[1]})
    assert opened.evaluate("supplePage.chart.vertex") != before


def test_a_phone_shows_all_of_it(drawing, page):
    context = drawing.new_context(
        viewport={"width": 360, "height": 740},
        device_scale_factor=2,
        has_touch=True,
        is_mobile=True,
    )
    tab = context.new_page()
    tab.goto(page[0].as_uri())
    tab.wait_for_selector("body.live", timeout=30_000)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 360
    assert (pixels(tab)[..., 3] == 255).mean() > 0.02
    context.close()


def test_without_webgl_the_picture_is_shown_with_the_reason(browsers, page):
    browser = browsers("--disable-gpu", "--disable-3d-apis")
    tab = browser.new_page()
    tab.goto(page[0].as_uri())
    tab.wait_for_selector("#still", state="visible", timeout=30_000)
    assert "WebGL" in tab.locator("#still").inner_text()
    assert not tab.locator("#player").is_visible()
    assert tab.locator("#pictures img").is_visible()
    browser.close()
