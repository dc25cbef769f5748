"""In which order a point cache holds its points, and the mesh that has the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.errors import FormatError
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

__all__ = ["cached_vertices", "checked_frames", "mesh_text"]

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

#: Lines of text made at a time.
LINES = 50_000


def checked_frames(path: Path, baked: BakedMotion) -> Singles:
    """The frames, when there are any, they fit the character and are finite."""
    frames = np.asarray(baked.frames)
    expected = (len(baked.times), len(baked.character.surface.vertices), 3)
    if frames.shape != expected or frames.dtype != np.float32 or not len(frames):
        raise FormatError(
            f"{path.name}: baked frames {frames.shape} {frames.dtype} are not the {expected}"
            f" float32 of {baked.character.name}; bake them again"
        )
    for k, frame in enumerate(frames):
        if not np.isfinite(frame).all():
            raise FormatError(f"{path.name}: baked frame {k} is not finite; bake it again, stiffer")
    return frames


def cached_vertices(path: Path, character: Character, vertices: str) -> Ints:
    """The surface vertex of each point of the cache."""
    if vertices == "welded":
        return np.arange(len(character.surface.vertices))
    if vertices != "file":
        raise FormatError(f'{path.name}: vertices in "{vertices}" order; use welded or file')
    primitives = getattr(character.source, "primitives", None)
    meshes = getattr(character.source, "meshes", None)
    if primitives:
        return np.concatenate([p.welded[p.welded >= 0] for p in primitives])
    if meshes:
        # Points of no face are never seen; they stay where the first vertex is.
        return np.maximum(np.concatenate([mesh.welded for mesh in meshes]), 0)
    raise FormatError(
        f"{path.name}: {character.name} came from no file with vertices of its own;"
        f" use welded vertices"
    )


def mesh_text(name: str, points: Singles, triangles: NDArray[np.integer]) -> Iterator[bytes]:
    """A mesh as Wavefront .obj, in pieces; positions have all digits of float32."""
    shown = "".join(c if c.isprintable() else "?" for c in name)
    yield f"o {shown}\n".encode()
    for line, rows in (("v %.9g %.9g %.9g\n", points), ("f %d %d %d\n", triangles + 1)):
        for first in range(0, len(rows), LINES):
            part = rows[first : first + LINES]
            yield ((line * len(part)) % tuple(part.ravel().tolist())).encode()
