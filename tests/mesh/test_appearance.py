"""A surface's own colours: what textures, tints and opacity make of a point on it."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from supple.errors import FormatError, MeshError, SuppleWarning
from supple.mesh import Appearance, SurfaceMaterial, Texture

PIXELS = np.array(
    [[[255, 0, 0, 255], [0, 255, 0, 255]], [[0, 0, 255, 255], [255, 255, 255, 0]]], np.uint8
)
MIDDLES = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def huge_png(width: int, height: int) -> bytes:
    """A few bytes that declare any size."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def square(**material) -> Appearance:
    """Two triangles that a texture covers from corner to corner."""
    uv = np.array([[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]], np.float32)
    return Appearance((SurfaceMaterial(**material),), np.zeros(2, np.int64), uv)


def test_the_middle_of_a_pixel_has_its_colour_and_the_first_row_is_at_v_0():
    found = Texture("t", png(PIXELS)).sample(MIDDLES)
    np.testing.assert_allclose(found, PIXELS.reshape(4, 4) / 255, atol=1e-12)


def test_colours_are_light_not_numbers_in_a_file():
    grey = np.full((1, 1, 3), 188, np.uint8)  # half the light of white
    assert Texture("t", png(grey)).sample(np.zeros((1, 2)))[0, 0] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("wrap", "beyond"),
    [("repeat", [1, 0, 0]), ("clamp", [0, 1, 0]), ("mirror", [0, 1, 0])],
)
def test_beyond_its_edge_a_texture_follows_its_wrap_mode(wrap, beyond):
    texture = Texture("t", png(PIXELS), (wrap, wrap), smooth=False)
    assert texture.sample(np.array([[1.25, 0.25]]))[0, :3].tolist() == beyond


def test_a_sample_that_stands_for_many_pixels_is_their_average():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    texture = Texture("t", png(noise))
    near = texture.sample(np.full((1, 2), 0.5), np.array([1.0]))
    far = texture.sample(np.full((1, 2), 0.5), np.array([64.0**2]))
    average = (noise / 255).mean(axis=(0, 1))
    assert np.abs(far[0, :3] ** (1 / 2.2) - average).max() < 0.03
    assert np.abs(near[0, :3] ** (1 / 2.2) - average).max() > 0.05


def test_texture_factor_and_tint_are_multiplied():
    texture = Texture("t", png(PIXELS))
    plain = square(texture=texture, colour=(0.5, 0.5, 0.5, 1.0))
    tints = np.full((2, 3, 4), 0.5, np.float32)
    painted = Appearance(plain.materials, plain.material_of, plain.uv, tints)
    corner = np.array([[1.0, 0.0, 0.0]])
    for appearance, share in ((plain, 0.5), (painted, 0.25)):
        found = appearance.colours(np.array([0]), corner)
        expected = share * texture.sample(np.zeros((1, 2)))[0, :3]
        np.testing.assert_allclose(found[0, :3], expected)


@pytest.mark.parametrize(("alpha", "expected"), [("opaque", 1.0), ("mask", 0.0), ("blend", 0.3)])
def test_opacity_follows_the_alpha_mode_of_the_material(alpha, expected):
    appearance = square(colour=(1.0, 1.0, 1.0, 0.3), alpha=alpha)
    found = appearance.colours(np.array([1]), np.full((1, 3), 1 / 3))
    assert found[0, 3] == pytest.approx(expected)
    assert appearance.is_opaque == (alpha == "opaque")


def test_a_texture_cut_off_is_warned_of_and_the_base_colour_shown():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    cut = Texture("rat.glb: picture 0", png(noise)[:-6000])
    cut.check()  # its first bytes are well
    appearance = square(texture=cut, colour=(0.2, 0.4, 0.6, 1.0))
    with pytest.warns(SuppleWarning, match="rat.glb: picture 0: is damaged .*base colour"):
        found = appearance.colours(np.array([0]), np.full((1, 3), 1 / 3))
    np.testing.assert_allclose(found[0], [0.2, 0.4, 0.6, 1.0])


@pytest.mark.parametrize(
    "data",
    [b"", b"no picture", b"\x89PNG\r\n\x1a\n", huge_png(60_000, 60_000), huge_png(9_000, 9_000)],
)
def test_invalid_and_too_large_pictures_are_refused_before_decoding(data):
    with pytest.raises(FormatError):
        Texture("t", data).check()


def test_an_appearance_that_does_not_fit_its_triangles_is_refused():
    with pytest.raises(MeshError, match="needs the index of a material"):
        Appearance((SurfaceMaterial(),), np.array([0, 1]))
    with pytest.raises(MeshError, match="uv"):
        Appearance((SurfaceMaterial(),), np.array([0]), np.full((1, 3, 2), np.nan, np.float32))
