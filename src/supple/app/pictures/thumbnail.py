"""Small pictures of results, for pages that list many."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from supple.app.pictures.drawing import PAPER, view_axes
from supple.app.pictures.filmstrip import SOFT, even_frames, liveliest_baked
from supple.app.pictures.render import Body, Camera, cavities, render
from supple.mesh.appearance import Appearance
from supple.mesh.surface import SurfaceMesh, vertex_normals
from supple.rig.baked_motion import BakedMotion

#: Pixels, and JPEG's quality: some 2 kB a picture.
_PIXELS, _QUALITY = (128, 128), 80
#: Frames looked at for the one whose flesh is farthest from the rig.
_GLANCED_AT = 12


def baked_thumbnail(bakes: Sequence[BakedMotion]) -> bytes:
    """Return a JPEG of the frame whose flesh is farthest from the rig."""
    baked = bakes[liveliest_baked(bakes)] if len(bakes) > 1 else bakes[0]
    frames = even_frames(baked, _GLANCED_AT)
    offsets = [baked.frames[k] - baked.rig_frame(int(k)) for k in frames]
    best = int(frames[int(np.argmax([np.mean(np.square(each)) for each in offsets]))])
    character = baked.character
    return _drawn(baked.frames[best], character.surface, character.appearance)


def surface_thumbnail(surface: SurfaceMesh, appearance: Appearance | None = None) -> bytes:
    """Return a JPEG of a surface as it lies."""
    return _drawn(surface.vertices, surface, appearance)


def _drawn(points: ArrayLike, surface: SurfaceMesh, appearance: Appearance | None) -> bytes:
    places = np.asarray(points, np.float64)
    view = view_axes(35.0, 12.0)
    flat = places @ view[:2].T
    low, high = flat.min(axis=0), flat.max(axis=0)
    scale = 0.9 * float(np.min(np.array(_PIXELS) / np.maximum(high - low, 1e-9)))
    camera = Camera(view, (low + high) / 2 @ view[:2], scale, _PIXELS)
    normals = vertex_normals(places, surface.triangles)
    colours = np.broadcast_to(SOFT, places.shape)
    body = Body(places, surface.triangles, normals, colours, cavities(surface), appearance)
    paper = np.array([int(PAPER[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    picture, _ = render(body, camera, float(places[:, 1].min()), paper)
    return _jpeg((255 * picture).round().astype(np.uint8))


def _jpeg(pixels: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()
