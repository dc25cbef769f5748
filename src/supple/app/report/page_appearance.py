"""Colours of a character as a page can carry them: textures small enough, corners in few bytes."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Ints
from supple.mesh.appearance import SIDE, Appearance, Texture

if TYPE_CHECKING:
    from PIL.Image import Image

#: Bytes of all textures together; more are shown more coarsely.
MOST_BYTES = 1_500_000
#: Pixels along the longer side, at the least.
LEAST_SIDE = 64
#: Steps that coordinates are rounded to, from the least to the greatest.
STEPS = 65535
_KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg"}


@dataclass(frozen=True, eq=False)
class EncodedAppearance:
    """Appearance as it goes into the page.

    Attributes
    ----------
    header
        Plain values: materials, and the range of coordinates.
    numbers
        Whole numbers by name, to be packed with the shapes.
    pictures
        Textures, as addresses that hold them.
    """

    header: dict[str, Any] = field(default_factory=dict)
    numbers: dict[str, Ints] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)


def encoded_appearance(appearance: Appearance | None, triangles: Ints) -> EncodedAppearance:
    """Encode what the corners of triangles (m, 3) look like; nothing where there is no appearance.

    A vertex is drawn once for every way its corners look. ``ways`` has their number for each
    vertex, ``corners`` the way of each corner, ``uv`` and ``tints`` theirs one after the other.
    """
    if appearance is None:
        return EncodedAppearance()
    rows, header = _corner_rows(appearance)
    vertices = triangles.reshape(-1)
    keys, way_of = np.unique(np.column_stack([vertices, rows]), axis=0, return_inverse=True)
    ways = np.bincount(keys[:, 0], minlength=int(vertices.max()) + 1)
    first = np.cumsum(ways) - ways
    numbers: dict[str, Ints] = {
        "materials": np.diff(appearance.material_of, prepend=0),
        "ways": ways,
        "corners": way_of.reshape(-1) - first[vertices],
    }
    at = 1
    for name, width in (("uv", 2), ("tints", 4)):
        if header[name]:
            # All of one coordinate, then all of the next, each as the step from the one before.
            numbers[name] = np.diff(keys[:, at : at + width], axis=0, prepend=0).T
            at += width
    pictures, number = _pictures(appearance)
    header["materials"] = [
        {
            "colour": list(each.colour),
            "picture": -1 if each.texture is None else number[id(each.texture)],
            "wrap": list(each.texture.wrap) if each.texture else [],
            "smooth": bool(each.texture and each.texture.smooth),
            "alpha": each.alpha,
            "cutoff": each.cutoff,
        }
        for each in appearance.materials
    ]
    return EncodedAppearance(header, numbers, pictures)


def _corner_rows(appearance: Appearance) -> tuple[Ints, dict[str, Any]]:
    """Return whole numbers of every corner, (3m, k), and what they mean."""
    columns: list[NDArray] = [np.empty((3 * len(appearance.material_of), 0), np.int64)]
    header: dict[str, Any] = {"uv": None, "tints": appearance.tints is not None}
    if appearance.uv is not None:
        flat = appearance.uv.reshape(-1, 2).astype(np.float64)
        low, span = flat.min(axis=0), np.maximum(np.ptp(flat, axis=0), 1e-9)
        header["uv"] = [*low.tolist(), *span.tolist()]
        columns.append(np.rint((flat - low) / span * STEPS).astype(np.int64))
    if appearance.tints is not None:
        # Squared on the page: eyes tell dark colours apart better than bright ones.
        columns.append(np.rint(255 * np.sqrt(appearance.tints.reshape(-1, 4))).astype(np.int64))
    return np.hstack(columns), header


def _pictures(appearance: Appearance) -> tuple[list[str], dict[int, int]]:
    """Return textures as addresses, and the number of each, by its identity."""
    used = [each for each in appearance.materials if each.texture is not None]
    own: dict[bytes, Texture] = {each.texture.data: each.texture for each in used if each.texture}
    clear = {each.texture.data for each in used if each.texture and each.alpha != "opaque"}
    side, addresses = SIDE, [""]
    while side >= LEAST_SIDE:
        addresses = [_address(texture, side, data in clear) for data, texture in own.items()]
        if sum(map(len, addresses)) <= MOST_BYTES:
            break
        side //= 2
    place = {data: k for k, data in enumerate(own)}
    return addresses, {id(each.texture): place[each.texture.data] for each in used if each.texture}


def _address(texture: Texture, side: int, clear: bool) -> str:
    """Return a data URI of a texture; an empty one if it is damaged."""
    image = texture.image(side)
    if image is None:
        return ""
    kind = next((kind for start, kind in _KINDS.items() if texture.data.startswith(start)), "")
    data = texture.data
    if not kind or max(texture.size) > side or len(data) > MOST_BYTES // 4:
        kind, data = _written(image, clear)
    return f"data:image/{kind};base64," + base64.b64encode(data).decode("ascii")


def _written(image: Image, clear: bool) -> tuple[str, bytes]:
    """Return a picture as JPEG, or as PNG where its opacity matters."""
    file = io.BytesIO()
    if clear:
        image.save(file, "PNG", optimize=True)
        return "png", file.getvalue()
    image.convert("RGB").save(file, "JPEG", quality=88)
    return "jpeg", file.getvalue()
