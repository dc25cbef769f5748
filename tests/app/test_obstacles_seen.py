"""Obstacles and objects are seen in pages and filmstrips, and do not hide the character."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from helpers.baked_samples import swinging_x
from helpers.browser_pages import running_browser
from helpers.obstacle_samples import flight, with_ground_and_ball
from supple.app.pictures.filmstrip import filmstrip
from supple.app.report.report_page import write_page
from supple.mesh.obstacles import Box, Plane
from supple.playback.obstacles.recording import baked_colliders
from supple.rig.baked_motion import BakedMotion
from supple.rig.baked_obstacles import BakedObstacle, in_own_axes, simplified
from supple.rig.drawn_obstacles import clear_azimuth, drawn_obstacles, ground_height
from supple.scenes.characters.character_scene import scene


@pytest.fixture(scope="module")
def baked() -> BakedMotion:
    return with_ground_and_ball(swinging_x())


@pytest.fixture(scope="module")
def browser():
    yield from running_browser()


def header(path) -> dict:
    text = path.read_text()
    found = re.search(r'<script id="head" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_page_lists_obstacles_and_grows_little(baked, tmp_path):
    plain = write_page(tmp_path / "plain.html", swinging_x())
    with_them = write_page(tmp_path / "with.html", baked)
    assert header(tmp_path / "plain.html")["obstacles"] == []
    ground, ball = header(tmp_path / "with.html")["obstacles"]
    assert (ground["kind"], ball["kind"], ball["smooth"]) == ("plane", "object", True)
    assert ground["tracks"][0][1] == 1
    assert ball["tracks"][0][1] == baked.n_frames
    assert with_them["bytes"] - plain["bytes"] < 20_000


def test_the_browser_draws_the_ball_where_it_is_and_hides_it_on_request(baked, browser, tmp_path):
    write_page(tmp_path / "page.html", baked)
    tab = browser.new_page(viewport={"width": 700, "height": 800})
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.goto((tmp_path / "page.html").as_uri())
    tab.wait_for_selector("body.live", timeout=30_000)
    centre = flight(baked.n_frames, baked.character.surface.size)[12]
    found = tab.evaluate(
        """([x, y, z]) => {
          const page = window.supplePage;
          const look = () => {
            page.seek(12 / page.motion.head.rate);
            page.draw();
            const { gl } = page.renderer, view = page.views[0];
            const m = view.camera, at = (r) => m[r] * x + m[4 + r] * y + m[8 + r] * z + m[12 + r];
            const [u, v, w] = [at(0), at(1), at(3)];
            const [wide, tall] = [gl.drawingBufferWidth, gl.drawingBufferHeight];
            const pixel = new Uint8Array(4);
            gl.readPixels(wide * (0.5 + 0.5 * u / w), tall * (0.5 + 0.5 * v / w), 1, 1, gl.RGBA,
              gl.UNSIGNED_BYTE, pixel);
            return Array.from(pixel);
          };
          const place = page.motion.obstacleAt(1, 12 / page.motion.head.rate);
          const seen = look();
          document.getElementById("obstacles").click();
          return [place, seen, look()];
        }""",
        centre.tolist(),
    )
    tab.close()
    assert wrong == []
    place, seen, hidden = found
    assert np.allclose(place[4:], centre, atol=1e-5)
    assert seen[2] > seen[0] + 40, "the ball is blue"
    assert not hidden[2] > hidden[0] + 40


def test_a_filmstrip_shows_obstacles_behind_and_before_the_character(baked, tmp_path):
    blue = {}
    for name, each in {"with": baked, "plain": replace(baked, obstacles=())}.items():
        filmstrip(tmp_path / f"{name}.png", each, frames=[16, 18, 20], clay=True, chart=False)
        pixels = np.asarray(Image.open(tmp_path / f"{name}.png").convert("RGB"), np.int16)
        blue[name] = np.count_nonzero(pixels[..., 2] > pixels[..., 0] + 30)
    assert blue["plain"] == 0
    assert blue["with"] > 500


def test_the_floor_of_pictures_is_the_plane_below_the_character(baked):
    low = float(baked.frames[..., 1].min())
    assert ground_height(baked) == pytest.approx(low)
    lower = baked_colliders([Plane((3, low - 0.5, 0), (0, 1, 0))], np.eye(4)[None, None], 1, LOW)
    assert ground_height(replace(baked, obstacles=lower)) == pytest.approx(low - 0.5)


LOW = np.zeros(3)


@pytest.mark.parametrize("normal", [(0, 0, -1), (-1, 0, 0), (-0.6, 0, -0.8)])
def test_the_camera_is_on_the_side_of_the_wall_on_which_the_character_is(baked, normal):
    wall = baked_colliders([Plane((0, 0, 0), normal)], np.eye(4)[None, None], 1, LOW)
    found = np.radians(clear_azimuth(replace(baked, obstacles=wall), 35.0))
    assert np.dot([np.sin(found), 0, np.cos(found)], normal) >= 0.3
    assert clear_azimuth(baked, 35.0) == 35.0, "a floor hides nothing"


def test_equal_shapes_are_drawn_once_and_a_plane_is_around_the_motion(baked):
    drawn = drawn_obstacles([baked, replace(baked, obstacles=baked.obstacles[1:])])
    assert [each.name for each in drawn] == ["obstacle 0", "ball"]
    assert drawn[0].places[1] is None
    place = drawn[0].places[0]
    assert place is not None
    corners = drawn[0].surface.vertices @ place[0, :3, :3].T + place[0, :3, 3]
    low, high = baked.frames.min(axis=(0, 1)), baked.frames.max(axis=(0, 1))
    assert (corners.min(axis=0)[[0, 2]] < low[[0, 2]]).all()
    assert (corners.max(axis=0)[[0, 2]] > high[[0, 2]]).all()
    assert np.allclose(corners[:, 1], low[1])


def test_a_turned_box_is_drawn_where_it_is():
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    box = Box((1, 2, 3), (0.1, 0.2, 0.3), turn)
    own, place = in_own_axes(box)
    each = BakedObstacle.of("box", box, np.eye(4)[None], "obstacle", LOW)
    surface = each.surface(1.0)
    assert surface is not None
    points = surface.vertices @ place[:3, :3].T + place[:3, 3]
    assert np.allclose(np.abs(box.distances(points)[0]), 0, atol=1e-12)
    assert np.allclose(own.distances(surface.vertices)[0], 0, atol=1e-12)


def test_huge_meshes_are_drawn_with_fewer_triangles():
    surface = scene("gorilla").character.surface
    small = simplified(surface, most=1000)
    assert 100 < len(small.triangles) <= 1000
    assert np.allclose(small.bounds, surface.bounds, atol=0.1 * surface.size)
