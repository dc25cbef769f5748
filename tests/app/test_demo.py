"""The demonstration: what it makes, what it refuses, and the pictures it draws."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple.app.pictures.filmstrip
from helpers.baked_samples import swinging_x
from supple.app.demo import run_demo
from supple.app.pictures.filmstrip import best_frames, filmstrip, liveliest_vertex
from supple.app.pictures.render import Body, Camera, cavities, rasterised, render
from supple.errors import SuppleError
from supple.formats.load import load
from supple.mesh.surface import SurfaceMesh, vertex_normals

SMALL: dict[str, Any] = {"scene": "x", "tets": 1000, "modes": 8}
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Demonstration:
    folder: Path
    figures: dict[str, Any]
    out: str
    err: str


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What it makes, drawn as large as people get it, and what it says."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        figures = run_demo(folder, **SMALL)
    return Demonstration(folder, figures, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def _small_pictures(monkeypatch):
    """Of all but the demonstration itself."""
    monkeypatch.setattr(supple.app.pictures.filmstrip, "_WIDEST", 120.0)


def test_the_demo_writes_a_page_a_filmstrip_and_the_character_and_nothing_else(made):
    folder, figures = made.folder, made.figures
    assert {path.name for path in folder.iterdir()} == {
        "report.html",
        "filmstrip.png",
        "x_soft.glb",
    }
    assert (folder / "filmstrip.png").read_bytes().startswith(PNG)
    assert figures["page"]["bytes"] == (folder / "report.html").stat().st_size < 5e6
    assert f"{figures['tets']:,}" in (folder / "report.html").read_text()
    assert json.loads(json.dumps(figures)) == figures
    assert 850 <= figures["tets"] <= 1150
    assert figures["modes"] == 8
    assert figures["paper_modes"] == 30
    assert figures["step_ms"] > 0


def test_the_character_that_is_written_moves_when_it_is_loaded_again(made):
    folder, figures = made.folder, made.figures
    again = load(folder / "x_soft.glb", flesh=True)
    motion = next(iter(again.motions.values()))
    first, later = (again.rig(motion.at(time)[0]) for time in (0.0, 1.0))
    assert np.linalg.norm(later - first, axis=1).max() > 0.05
    assert figures["character"]["error"] <= 0.002


def test_the_terminal_shows_figures_and_how_to_open_the_page(made):
    assert "paper" in made.out
    assert "step ms" in made.out
    assert (made.folder / "report.html").as_uri() in made.err.replace("\n", "")


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(SuppleError, match="is a file"):
        run_demo(tmp_path / "taken", quiet=True)
    with pytest.raises(SuppleError, match="cannot be written to"):
        run_demo(tmp_path / "taken" / "below", quiet=True)
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_scene_that_does_not_exist_leaves_no_folder(tmp_path):
    with pytest.raises(SuppleError, match='did you mean "gorilla"'):
        run_demo(tmp_path / "a" / "b", scene="gorila", quiet=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_being_stopped_while_drawing_leaves_nothing(tmp_path, monkeypatch, error):
    def stopped(*given, **options):
        raise error

    monkeypatch.setattr(supple.app.pictures.filmstrip, "render", stopped)
    with pytest.raises(error):
        run_demo(tmp_path / "out", quiet=True, **SMALL)
    assert not list(tmp_path.iterdir())


def test_a_filmstrip_has_the_same_bytes_again_and_its_content_is_reported(tmp_path):
    baked = swinging_x(20)
    told = [filmstrip(tmp_path / name, baked, columns=3) for name in ("a.png", "b.png")]
    assert told[0] == told[1]
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert len(told[0]["frames"]) == 3
    offsets = [np.linalg.norm(baked.frames[k] - baked.rig_frame(k), axis=1) for k in range(20)]
    assert told[0]["farthest_m"] == pytest.approx(np.max(offsets), rel=1e-5)


def test_its_rows_differ_where_the_flesh_does(tmp_path):
    from matplotlib.image import imread

    shown = {}
    for name, swing in (("still", 0.0), ("swung", 0.05)):
        filmstrip(tmp_path / f"{name}.png", swinging_x(8, swing=swing), frames=[4], chart=False)
        shown[name] = imread(io.BytesIO((tmp_path / f"{name}.png").read_bytes()))[..., :3]
    tall = min(len(each) for each in shown.values())
    assert tall > 200
    assert np.abs(shown["still"][:tall] - shown["swung"][:tall]).max() > 0.2


@pytest.mark.parametrize("frames", [[], [20], [-1]])
def test_frames_that_do_not_exist_are_refused(tmp_path, frames):
    with pytest.raises(SuppleError, match="choose some from 0 to 19"):
        filmstrip(tmp_path / "a.png", swinging_x(20), frames=frames)
    assert not list(tmp_path.iterdir())


def test_a_name_with_formulas_and_line_breaks_is_drawn_as_it_is(tmp_path):
    baked = swinging_x(4, name="a $\\frac{b$\nc" * 20)
    baked = replace(baked, motion=replace(baked.motion, name="$x^$"))
    filmstrip(tmp_path / "a.png", baked, columns=1)
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_moments_are_the_best_of_different_swings():
    frames = np.arange(100)
    scores = np.sin(np.pi * frames / 25) ** 2 * (1 + frames / 100)
    chosen = best_frames(frames, scores, 3)
    assert len(chosen) == 3
    assert np.diff(chosen).min() > 10
    assert int(np.argmax(scores)) in chosen
    assert best_frames(np.array([0]), [0.0], 5) == [0]


def test_the_liveliest_vertex_is_found_with_the_way_it_goes():
    offsets = np.zeros((10, 5, 3), np.float32)
    offsets[:, 3] = np.sin(np.arange(10))[:, None] * np.array([0.0, -0.6, 0.8])
    offsets[:, 1, 0] = 0.1
    vertex, way = liveliest_vertex(offsets)
    assert vertex == 3
    assert way == pytest.approx([0.0, -0.6, 0.8], abs=1e-6)


def test_a_triangle_covers_its_area_and_the_nearer_one_hides_the_other():
    seen = np.array(
        [[10.0, 10, 0], [90, 10, 0], [10, 70, 0], [10, 10, 1], [50, 10, 1], [10, 40, 1]]
    )
    depth, which, parts = rasterised(seen, np.array([[0, 1, 2], [3, 4, 5]]), 100, 80)
    assert (which >= 0).sum() == pytest.approx(80 * 60 / 2, rel=0.03)
    assert (which == 1).sum() == pytest.approx(40 * 30 / 2, rel=0.05)
    assert set(np.unique(depth[which >= 0])) == {0.0, 1.0}
    y, x = 12, 20  # the first coordinate is the share of the first corner
    assert parts[y, x, 0] == pytest.approx(1 - (x + 0.5 - 10) / 40 - (y + 0.5 - 10) / 30, abs=1e-5)


def test_triangles_outside_the_picture_or_without_area_are_left_out():
    seen = np.array([[-1e30, 0, 0], [-1e29, 5, 0], [-1e30, 9, 0], [np.nan, 1, 0], [5, 5, 0]])
    which = rasterised(seen, np.array([[0, 1, 2], [3, 4, 4], [4, 4, 4], [3, 4, 2]]), 10, 10)[1]
    assert (which == -1).all()


def test_a_body_throws_a_shadow_away_from_the_light():
    ball = _ball()
    camera = Camera(np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]), np.zeros(3), 40.0, (200, 200))
    normals = vertex_normals(ball.vertices, ball.triangles)
    grey, sky = np.full(ball.vertices.shape, 0.6), np.ones(len(ball.vertices))
    body = Body(ball.vertices, ball.triangles, normals, grey, sky)
    picture, covered = render(body, camera, -1.0, np.ones(3))
    assert covered[100, 100] == 1
    ground = np.where(covered[..., None] == 0, picture, 1.0).mean(axis=2)
    # The light comes from the left and the front: seen from above, from the lower left.
    assert ground[:100, 100:].min() < ground[100:, :100].min() - 0.03


def test_a_dent_is_darker_than_a_bump():
    ball = _ball()
    points = ball.vertices.copy()
    up = points[:, 1] > 0.85
    dented = SurfaceMesh(np.where(up[:, None], points * [1, 0.75, 1], points), ball.triangles)
    raised = SurfaceMesh(np.where(up[:, None], points * [1, 1.25, 1], points), ball.triangles)
    top = int(np.argmax(points[:, 1]))
    assert cavities(dented)[top] < cavities(raised)[top] - 0.2
    for surface in (dented, raised):
        assert ((cavities(surface) >= 0.35) & (cavities(surface) <= 1.15)).all()


def _ball() -> SurfaceMesh:
    """A sphere of radius 1 by cutting an octahedron's triangles in four, four times."""
    points = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], float)
    faces = [(0, 2, 4), (2, 1, 4), (1, 3, 4), (3, 0, 4), (2, 0, 5), (1, 2, 5), (3, 1, 5), (0, 3, 5)]
    corners = points[np.array(faces)]
    for _ in range(4):
        a, b, c = corners.transpose(1, 0, 2)
        ab, bc, ca = a + b, b + c, c + a
        corners = np.concatenate(
            [np.stack(t, 1) for t in ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca))]
        )
        corners /= np.linalg.norm(corners, axis=2, keepdims=True)
    triangles = np.arange(3 * len(corners)).reshape(-1, 3)
    return SurfaceMesh(corners.reshape(-1, 3), triangles).welded(1e-6)[0]


def test_of_several_motions_the_one_with_the_liveliest_flesh_is_drawn(tmp_path):
    calm, lively = swinging_x(8, swing=0.01), swinging_x(8, swing=0.05)
    lively = replace(lively, motion=replace(lively.motion, name="leap"))
    told = filmstrip(tmp_path / "a.png", [calm, lively], columns=2, chart=False)
    assert told["motion"] == "leap"
