"""Pictures, page and viewer show a character in its own colours, and in clay where asked."""

from __future__ import annotations

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import supple
from helpers.baked_samples import swinging_x
from helpers.build_samples import bar_options, bending_bar
from supple.app.pictures.filmstrip import filmstrip
from supple.app.pictures.render import Body, Camera, render
from supple.app.report.page_motion import MOST_BYTES, encoded_appearance
from supple.app.report.report_page import write_page
from supple.app.viewer.scene.colours import appearance_bands
from supple.mesh.appearance import Appearance, SurfaceMaterial, Texture
from supple.rig.baked_motion import BakedMotion

CHROMIUM = Path("/usr/bin/chromium")
GREEN, BLUE = (0.0, 0.5, 0.0, 1.0), (0.0, 0.0, 0.5, 1.0)


def picture(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def halves(surface: Any) -> Appearance:
    """Green to the left of the middle and blue to the right."""
    middles = surface.vertices[surface.triangles].mean(axis=1)
    right = middles[:, 0] > np.median(middles[:, 0])
    return Appearance(
        (SurfaceMaterial("l", GREEN), SurfaceMaterial("r", BLUE)), right.astype(np.int64)
    )


def striped(surface: Any, *, side: int = 64, noise: float = 0.0) -> Appearance:
    """Stripes of red and white along x, by a texture."""
    x = surface.vertices[surface.triangles][..., 0]
    uv = np.stack([(x - x.min()) / np.ptp(x), np.full_like(x, 0.5)], axis=-1).astype(np.float32)
    pixels = np.full((side, side, 3), 255)
    pixels[:, np.arange(side) * 8 // side % 2 == 0] = (200, 0, 0)
    pixels = pixels + noise * np.random.default_rng(0).normal(size=pixels.shape)
    texture = Texture("stripes", picture(np.clip(pixels, 0, 255)), smooth=False)
    material = SurfaceMaterial("stripes", texture=texture)
    return Appearance((material,), np.zeros(len(x), np.int64), uv)


def coloured(make: Any, frames: int = 6) -> BakedMotion:
    baked = swinging_x(frames)
    surface = baked.character.surface
    return replace(baked, character=replace(baked.character, appearance=make(surface)))


# Pictures


def shares(pixels: np.ndarray) -> list[float]:
    """Parts of a picture that are clearly red, green and blue."""
    most = [(pixels[..., k] - np.delete(pixels, k, axis=-1).max(axis=-1)) for k in range(3)]
    return [float((each > 0.1).mean()) for each in most]


def test_a_filmstrip_shows_the_characters_colours_or_clay_on_request(tmp_path):
    from matplotlib.image import imread

    baked, found = coloured(halves), {}
    for clay in (False, True):
        filmstrip(tmp_path / "a.png", baked, frames=[3], chart=False, clay=clay)
        found[clay] = shares(imread(tmp_path / "a.png")[..., :3])
    assert found[False][1] > 0.02
    assert found[False][2] > 0.02
    assert max(found[True][1:]) < 0.005
    plain = replace(baked, character=replace(baked.character, appearance=None))
    filmstrip(tmp_path / "b.png", plain, frames=[3], chart=False)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def wall(front: SurfaceMaterial) -> np.ndarray:
    """The middle pixel of a square before a blue one."""
    square = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0]], float)
    points = np.concatenate([square + np.array([0, 0, 0.5]), square])
    triangles = np.array([[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]])
    appearance = Appearance((front, SurfaceMaterial(colour=BLUE)), np.array([0, 0, 1, 1]))
    normals, even = np.tile([0.0, 0, 1], (8, 1)), np.ones(8)
    body = Body(points, triangles, normals, np.ones((8, 3)), even, appearance)
    camera = Camera(np.eye(3), np.zeros(3), 10.0, (8, 8))
    shown, covered = render(body, camera, -1.0, np.ones(3))
    assert covered[4, 4] == 1.0
    return shown[4, 4]


def test_surfaces_behind_show_through_by_the_materials_opacity():
    red = (0.5, 0.0, 0.0, 0.4)
    opaque, mask, blend = (
        wall(SurfaceMaterial("", red, None, a)) for a in ("opaque", "mask", "blend")
    )
    assert opaque[0] > 2 * opaque[2]
    assert mask[2] > 2 * mask[0]
    np.testing.assert_allclose(blend, 0.4 * opaque + 0.6 * mask, atol=1e-6)


# The page


def test_every_corner_of_the_page_has_its_own_coordinates():
    baked = coloured(striped)
    appearance, triangles = baked.character.appearance, baked.character.surface.triangles
    assert appearance is not None
    assert appearance.uv is not None
    found = encoded_appearance(appearance, triangles)
    ways, corners = found.numbers["ways"], found.numbers["corners"]
    first = np.cumsum(ways) - ways
    drawn = first[triangles.reshape(-1)] + corners
    assert (corners < ways[triangles.reshape(-1)]).all()
    whole = np.cumsum(found.numbers["uv"], axis=1)[:, drawn]
    low, span = np.reshape(found.header["uv"], (2, 2))
    read = low + span * whole.T / 65535
    np.testing.assert_allclose(read, appearance.uv.reshape(-1, 2), atol=1e-5)


def test_large_textures_are_shrunk_until_a_page_can_carry_them():
    """Noise, which does not compress, of twelve megabytes."""
    surface = swinging_x(2).character.surface
    appearance = striped(surface, side=2048, noise=60.0)
    (address,) = encoded_appearance(appearance, surface.triangles).pictures
    assert 10_000 < len(address) <= MOST_BYTES
    shown = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    assert max(shown.size) <= 1024


def test_a_small_texture_goes_into_the_page_as_it_came():
    surface = swinging_x(2).character.surface
    appearance = striped(surface)
    (address,) = encoded_appearance(appearance, surface.triangles).pictures
    texture = appearance.materials[0].texture
    assert texture is not None
    assert address == "data:image/png;base64," + base64.b64encode(texture.data).decode()


@pytest.fixture(scope="module")
def drawing():
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if not CHROMIUM.is_file():
        pytest.skip(f"there is no {CHROMIUM}; apt-get install chromium")
    with sync_api.sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=str(CHROMIUM),
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        yield browser
        browser.close()


def opened(drawing: Any, path: Path) -> tuple[Any, list[str]]:
    tab: Any = drawing.new_page(viewport={"width": 700, "height": 800})
    wrong: list[Any] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda said: wrong.extend([said.text] if said.type == "error" else []))
    tab.goto(path.as_uri())
    tab.wait_for_selector("body.live", timeout=30_000)
    tab.evaluate("supplePage.seek(0)")
    return tab, wrong


def seen(tab: Any) -> list[float]:
    tab.wait_for_timeout(300)
    shot = Image.open(io.BytesIO(tab.locator("#scene").screenshot())).convert("RGB")
    return shares(np.asarray(shot) / 255)


def test_the_page_shows_materials_and_a_button_clay(drawing, tmp_path):
    write_page(tmp_path / "a.html", coloured(halves))
    tab, wrong = opened(drawing, tmp_path / "a.html")
    own = seen(tab)
    assert own[1] > 0.01
    assert own[2] > 0.01
    tab.click("#clay")
    assert tab.get_attribute("#clay", "aria-pressed") == "true"
    assert max(seen(tab)[1:]) < 0.001
    assert wrong == []


def test_the_page_lays_textures_where_they_belong(drawing, tmp_path):
    """Red stripes cover half of it, white ones the rest."""
    write_page(tmp_path / "a.html", coloured(striped))
    tab, wrong = opened(drawing, tmp_path / "a.html")
    red = seen(tab)[0]
    tab.click("#clay")
    clay = seen(tab)[0]
    assert 0.25 * clay < red < 0.75 * clay
    assert wrong == []


def test_a_page_can_begin_in_clay_and_one_without_colours_has_no_button(drawing, tmp_path):
    write_page(tmp_path / "a.html", coloured(halves), clay=True)
    tab, _ = opened(drawing, tmp_path / "a.html")
    assert max(seen(tab)[1:]) < 0.001
    tab.click("#clay")
    assert seen(tab)[1] > 0.01
    write_page(tmp_path / "b.html", swinging_x(6))
    tab, wrong = opened(drawing, tmp_path / "b.html")
    assert tab.locator("#clay").is_hidden()
    assert wrong == []


# The viewer


def test_bands_of_the_viewer_have_the_materials_colours_and_all_triangles():
    character = bending_bar()
    shown = appearance_bands(halves(character.surface), character.surface.triangles)
    assert {band.colour for band in shown.bands} == {(0, 188, 0), (0, 0, 188)}
    assert sum(len(band.faces) for band in shown.bands) == len(character.surface.triangles)
    skin = character.surface.vertices.astype(np.float32)
    assert shown.subdivided(skin) is skin


def test_a_texture_is_cut_out_of_the_skin_and_lies_on_it():
    surface = bending_bar().surface
    shown = appearance_bands(striped(surface), surface.triangles)
    fine = shown.subdivided(surface.vertices.astype(np.float32))
    assert len(fine) > len(surface.vertices)
    areas = {"red": 0.0, "white": 0.0}
    for band in shown.bands:
        a, b, c = fine[band.vertices][band.faces].transpose(1, 0, 2)
        area = 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()
        areas["red" if band.colour[1] < 128 else "white"] += float(area)
    assert sum(areas.values()) == pytest.approx(surface.areas().sum(), rel=1e-5)
    assert min(areas.values()) > 0.2 * surface.areas().sum()


def test_masked_parts_are_not_there_and_glass_is_seen_through():
    surface = bending_bar().surface
    glass = SurfaceMaterial("glass", (1.0, 1.0, 1.0, 0.5), None, "blend")
    gone = SurfaceMaterial("gone", (1.0, 1.0, 1.0, 0.1), None, "mask")
    which = np.arange(len(surface.triangles)) % 2
    shown = appearance_bands(Appearance((glass, gone), which), surface.triangles)
    assert [band.opacity for band in shown.bands] == [0.5]
    assert len(shown.bands[0].faces) == int((which == 0).sum())


@pytest.mark.parametrize("clay", [False, True])
def test_the_viewer_starts_with_own_colours_or_clay_on_request(tmp_path, clay):
    pytest.importorskip("viser", reason="viser is not installed")
    from supple.app.viewer.page import Page
    from supple.app.viewer.session.character_actor import CharacterActor
    from supple.app.viewer.session.session import Session

    character = bending_bar()
    character = replace(character, appearance=halves(character.surface))
    model = supple.build(character, **bar_options())
    session = Session(CharacterActor(model, character=character))
    with Page(session, port=0, folder=tmp_path, clay=clay) as page:
        assert page.scene.colourings[:2] == ("own colours", "clay")
        assert page.show.colour.value == ("clay" if clay else "own colours")
        assert len(page.scene.soft._meshes) == (1 if clay else 2)
