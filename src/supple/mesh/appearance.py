"""Appearance of a surface: materials, textures and painted colours."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats, Ints, Singles
from supple.errors import FormatError, MeshError, warn

if TYPE_CHECKING:
    from PIL.Image import Image

Wrap = Literal["repeat", "clamp", "mirror"]
Alpha = Literal["opaque", "mask", "blend"]

#: Largest size of a texture in bytes, and in pixels, as a few bytes can declare billions.
MOST_BYTES, MOST_PIXELS = 128 * 2**20, 2**26
#: Longest side in pixels of the decoded picture.
SIDE = 1024
_KINDS = ("PNG", "JPEG", "WEBP")


def _linear_light(srgb: ArrayLike) -> Floats:
    """Return linear light, 0 to 1, for sRGB values, 0 to 1."""
    value = np.asarray(srgb, np.float64)
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


_LIGHT = _linear_light(np.arange(256) / 255)


@dataclass(frozen=True, eq=False)
class Texture:
    """PNG, JPEG or WebP picture on a surface.

    Its first row is at v = 0, its first column at u = 0.

    Attributes
    ----------
    name
        Name in messages: the file, and the name in it.
    data
        Bytes of the picture file.
    wrap
        Wrap mode outside the range 0 to 1, along u and along v.
    smooth
        Whether pixels are interpolated.
    """

    name: str
    data: bytes
    wrap: tuple[Wrap, Wrap] = ("repeat", "repeat")
    smooth: bool = True

    def check(self) -> None:
        """Check the picture's header.

        Raises
        ------
        FormatError
            If the picture cannot be read: ``has 40,000 × 40,000 pixels, which is too many``.
        """
        if len(self.data) > MOST_BYTES:
            raise FormatError(f"has {len(self.data) / 2**20:.0f} MiB, which is too much")
        self._opened()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels; raises as `check` does."""
        return self._opened().size

    def _opened(self) -> Image:
        """Return the picture, not yet decoded."""
        from PIL import Image

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the size is checked here
                image = Image.open(io.BytesIO(self.data), formats=_KINDS)
        except Image.DecompressionBombError:
            raise FormatError("has too many pixels") from None
        except Exception:  # Pillow's readers raise various errors
            raise FormatError("is not a readable PNG, JPEG or WebP") from None
        width, height = image.size
        if width * height > MOST_PIXELS:
            raise FormatError(f"has {width:,} × {height:,} pixels, which is too many")
        return image

    def image(self, side: int = SIDE) -> Image | None:
        """Return the picture as RGBA, at most `side` pixels wide and high.

        None, with a warning, if it is damaged.
        """
        from PIL import Image

        try:
            opened = self._opened()
            opened.draft("RGB", (side, side))  # a JPEG can be decoded at an eighth of its size
            decoded = opened.convert("RGBA")
        except FormatError as error:
            warn(f"{self.name}: {error}; the base colour is shown")
            return None
        except Exception as error:
            why = "".join(c if c.isprintable() else "?" for c in str(error))[:100]
            warn(f"{self.name}: is damaged ({why}); the base colour is shown")
            return None
        decoded.thumbnail((side, side), Image.Resampling.BOX)
        return decoded

    @cached_property
    def levels(self) -> list[NDArray[np.uint8]]:
        """Pixels (h, w, 4), each level half as wide and high as the one before; none if damaged."""
        image = self.image()
        levels = []
        while image is not None:
            levels.append(np.asarray(image, np.uint8))
            if max(image.size) <= 2:
                break
            image = image.reduce(2)
        return levels

    def sample(self, uv: Floats, texels: Floats | None = None) -> Floats:
        """Return linear light and opacity (k, 4) at coordinates (k, 2); ones if it is damaged.

        Parameters
        ----------
        uv
            Finite coordinates.
        texels
            (k,) number of pixels that each sample averages; by default one.
        """
        levels = self.levels
        colours = np.ones((len(uv), 4))
        if not levels:
            return colours
        if texels is None:
            level = np.zeros(len(uv), np.int64)
        else:
            level = np.rint(0.5 * np.log2(np.maximum(texels, 1.0))).astype(np.int64)
        level = np.minimum(level, len(levels) - 1)
        for number in np.unique(level):
            chosen = np.flatnonzero(level == number)
            colours[chosen] = self._interpolated(levels[number], uv[chosen])
        return colours

    def _interpolated(self, pixels: NDArray[np.uint8], uv: Floats) -> Floats:
        height, width = pixels.shape[:2]
        columns, across = self._places(uv[:, 0], width, self.wrap[0])
        rows, down = self._places(uv[:, 1], height, self.wrap[1])
        colours = np.zeros((len(uv), 4))
        for i in (0, 1):
            for j in (0, 1):
                corner = pixels[rows[i], columns[j]]
                share = (down if i else 1 - down) * (across if j else 1 - across)
                colours[:, :3] += share[:, None] * _LIGHT[corner[:, :3]]
                colours[:, 3] += share * (corner[:, 3] / 255)
        return colours

    def _places(self, along: Floats, count: int, wrap: Wrap) -> tuple[tuple[Ints, Ints], Floats]:
        """Return the two pixels around a coordinate, and the fraction between them."""
        if wrap == "repeat":
            inside = np.mod(along, 1.0)
        elif wrap == "mirror":
            inside = 1.0 - np.abs(np.mod(along, 2.0) - 1.0)
        else:
            inside = np.clip(along, 0.0, 1.0)
        place = inside * count - 0.5
        first = np.floor(place if self.smooth else place + 0.5).astype(np.int64)
        part = place - first if self.smooth else np.zeros(len(place))
        if wrap == "repeat":
            return (first % count, (first + 1) % count), part
        return (np.clip(first, 0, count - 1), np.clip(first + 1, 0, count - 1)), part


@dataclass(frozen=True, eq=False)
class SurfaceMaterial:
    """Colour of a part of a surface.

    Attributes
    ----------
    name
        Name in the file, or "".
    colour
        Linear light and opacity, four numbers from 0 to 1, which multiply the texture's colours.
    texture
        Texture, or None.
    alpha
        Meaning of the opacity: ``"opaque"``: ignored; ``"mask"``: invisible below `cutoff`;
        ``"blend"``: transparency.
    cutoff
        Least opacity of visible points, for ``"mask"``.
    """

    name: str = ""
    colour: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    texture: Texture | None = None
    alpha: Alpha = "opaque"
    cutoff: float = 0.5


@dataclass(frozen=True, eq=False)
class Appearance:
    """Colours of a surface by triangle.

    Vertices of the surface are welded; texture coordinates belong to the triangles' corners.

    Attributes
    ----------
    materials
        All materials.
    material_of
        (m,) material of each of the surface's triangles.
    uv
        (m, 3, 2) finite coordinates on the texture at their corners; None without textures.
    tints
        (m, 3, 4) painted linear light and opacity, which multiply the colours; None for none.
    """

    materials: tuple[SurfaceMaterial, ...]
    material_of: Ints
    uv: Singles | None = None
    tints: Singles | None = None

    def __post_init__(self) -> None:
        m, count = len(self.material_of), len(self.materials)
        if m == 0 or not (self.material_of.min() >= 0 and self.material_of.max() < count):
            raise MeshError(f"each triangle needs the index of a material, 0 to {count - 1}")
        for name, values, shape in (("uv", self.uv, (m, 3, 2)), ("tints", self.tints, (m, 3, 4))):
            if values is not None and not (values.shape == shape and np.isfinite(values).all()):
                raise MeshError(f"{name} of an appearance are not finite numbers of shape {shape}")

    def __repr__(self) -> str:
        textures = len({id(each.texture) for each in self.materials if each.texture})
        return f"Appearance({len(self.materials)} materials, {textures} textures)"

    @property
    def is_opaque(self) -> bool:
        """Whether the surface is opaque everywhere."""
        return all(self.materials[k].alpha == "opaque" for k in np.unique(self.material_of))

    def colours(self, triangles: Ints, shares: Floats, parts: Floats | None = None) -> Floats:
        """Return linear light and opacity (k, 4) of points on the surface.

        Parameters
        ----------
        triangles
            (k,) triangles of the points.
        shares
            (k, 3) barycentric weights of the corners.
        parts
            (k,) fraction of its triangle over which the texture is averaged; by default the colour
            is that of the point alone.
        """
        result = np.empty((len(triangles), 4))
        which = self.material_of[triangles]
        for number in np.unique(which):
            chosen = np.flatnonzero(which == number)
            part = None if parts is None else parts[chosen]
            result[chosen] = self._material_colours(number, triangles[chosen], shares[chosen], part)
        return result

    def _material_colours(
        self, number: int, triangles: Ints, shares: Floats, parts: Floats | None
    ) -> Floats:
        material = self.materials[number]
        colours = np.tile(material.colour, (len(triangles), 1))
        if self.tints is not None:
            colours *= np.einsum("kc,kci->ki", shares, self.tints[triangles])
        if material.texture is not None and self.uv is not None:
            corners = self.uv[triangles].astype(np.float64)
            texels = None
            if parts is not None and material.texture.levels:
                height, width = material.texture.levels[0].shape[:2]
                a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
                area = 0.5 * np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
                texels = area * height * width * parts
            colours *= material.texture.sample(np.einsum("kc,kci->ki", shares, corners), texels)
        if material.alpha == "opaque":
            colours[:, 3] = 1.0
        elif material.alpha == "mask":
            colours[:, 3] = colours[:, 3] >= material.cutoff
        return np.clip(colours, 0.0, 1.0)
