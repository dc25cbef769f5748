"""Point caches: the skin's vertices frame by frame, for Blender, Maya, Houdini and NumPy.

What they hold, all three: world positions in metres, +Y up, of the character's welded surface.
A cache has no faces and fits only a mesh whose vertices are in its order, so the matching mesh is
written beside it as ``…_rest.obj``. In Blender: import that with its vertex order kept, add a Mesh
Cache modifier, choose the cache; its default axes are right, since an imported .obj is turned as an
object. The scene should play as many frames a second as were baked.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Ints, Singles
from supple.errors import FormatError
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.saving import write_chunks

__all__ = [
    "cached_vertices",
    "checked_frames",
    "mesh_beside",
    "mesh_text",
    "write_mdd",
    "write_npz",
    "write_pc2",
]


# ----------------------------------------------------------------------------
# In which order a point cache holds its points, and the mesh that has the same.


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


PC2_MAGIC = b"POINTCACHE2\0"


#: Counts are 32-bit in both formats.
MOST = 2**31 - 1


#: Bytes handed on at a time.
CHUNK = 2**24


def write_pc2(
    path: str | Path,
    baked: BakedMotion,
    *,
    vertices: Literal["welded", "file"] = "welded",
    up: Literal["y", "z"] = "y",
    mesh: bool | str | Path = True,
) -> dict[str, Any]:
    """Write a ``.pc2`` point cache.

    Parameters
    ----------
    path, baked
        Where to, and what.
    vertices : {"welded", "file"}
        Whose order: that of ``character.surface``, or that of the file the character came from:
        its meshes one after the other, each with all its primitives. Of glTF's vertices those of
        no face are left out, as Blender does when it imports them; USD's all stay.
    up : {"y", "z"}
        Which axis points upwards. Meshes that Blender imported from glTF have z.
    mesh : bool, str or Path
        Where to write the mesh that fits, as .obj: beside the cache as ``…_rest.obj``, nowhere, or
        to this path. With ``vertices="file"`` the mesh is the file's own and none is written.

    Returns
    -------
    dict
        n_frames, n_points, bytes, and the mesh's name where one was written.
    """
    path = Path(path)
    rows, frames = _prepared(path, baked, vertices, up)
    first = float(baked.times[0] * baked.rate)
    counts = (1, len(rows), first, 1.0, baked.n_frames)
    header = PC2_MAGIC + struct.pack("<iiffi", *counts)
    beside = _mesh_path(path, vertices, mesh)
    return _written(path, baked, _with_header(header, frames, "<f4"), len(rows), up, beside)


def write_mdd(
    path: str | Path,
    baked: BakedMotion,
    *,
    vertices: Literal["welded", "file"] = "welded",
    up: Literal["y", "z"] = "y",
    mesh: bool | str | Path = True,
) -> dict[str, Any]:
    """Write an ``.mdd`` point cache; parameters and result as for `write_pc2`."""
    path = Path(path)
    rows, frames = _prepared(path, baked, vertices, up)
    header = struct.pack(">ii", baked.n_frames, len(rows)) + baked.times.astype(">f4").tobytes()
    beside = _mesh_path(path, vertices, mesh)
    return _written(path, baked, _with_header(header, frames, ">f4"), len(rows), up, beside)


def write_npz(path: str | Path, baked: BakedMotion) -> dict[str, Any]:
    """Write arrays for NumPy: ``np.load(path)`` reads them, no pickle among them.

    ``frames`` (t, n, 3) and ``rest`` (n, 3) are of the welded surface in metres, ``triangles`` its
    faces, ``times`` (t,) seconds in the clip; ``rate``, ``loop``, ``name`` and ``motion`` say whose
    they are.
    """
    path = Path(path)
    frames = checked_frames(path, baked)
    character = baked.character
    arrays: dict[str, NDArray[Any]] = {
        "frames": frames,
        "times": np.asarray(baked.times, np.float64),
        "triangles": np.asarray(character.surface.triangles, np.int32),
        "rest": np.asarray(character.surface.vertices, np.float32),
        "rate": np.array(float(baked.rate)),
        "loop": np.array(bool(baked.loop)),
        "name": np.array(character.name),
        "motion": np.array(baked.motion.name),
    }
    size = write_chunks(path, [], into=lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
    return {"n_frames": len(frames), "n_points": frames.shape[1], "bytes": size}


def _prepared(
    path: Path, baked: BakedMotion, vertices: str, up: str
) -> tuple[NDArray[np.int64], Iterator[Singles]]:
    """The vertex of each point, and the frames one by one."""
    if up not in ("y", "z"):
        raise FormatError(f'{path.name}: the upward axis cannot be "{up}"; use y or z')
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: cannot be written to {path.parent} (no such folder)")
    frames = checked_frames(path, baked)
    rows = cached_vertices(path, baked.character, vertices)
    if len(rows) > MOST or len(frames) > MOST:
        raise FormatError(f"{path.name}: {len(rows)} points are more than the format counts")
    return rows, (_upwards(frame[rows], up) for frame in frames)


def _upwards(points: Singles, up: str) -> Singles:
    if up == "y":
        return points
    return np.stack([points[:, 0], -points[:, 2], points[:, 1]], axis=1)


def _with_header(header: bytes, frames: Iterable[Singles], dtype: str) -> Iterator[bytes]:
    """The file in pieces of a handy size: a cache may be larger than memory."""
    waiting = io.BytesIO()
    waiting.write(header)
    for frame in frames:
        waiting.write(np.ascontiguousarray(frame, dtype=dtype).tobytes())
        if waiting.tell() >= CHUNK:
            yield waiting.getvalue()
            waiting = io.BytesIO()
    yield waiting.getvalue()


def mesh_beside(path: Path) -> Path:
    """Where the mesh goes that fits a cache, unless told otherwise."""
    return path.with_name(f"{path.stem}_rest.obj")


def _mesh_path(path: Path, vertices: str, mesh: bool | str | Path) -> Path | None:
    if vertices != "welded" or mesh is False:
        return None
    return mesh_beside(path) if mesh is True else Path(mesh)


def _written(
    path: Path,
    baked: BakedMotion,
    content: Iterator[bytes],
    n_points: int,
    up: str,
    beside: Path | None,
) -> dict[str, Any]:
    """Write the mesh, then the cache; without the cache the mesh goes again."""
    figures: dict[str, Any] = {"n_frames": baked.n_frames, "n_points": n_points}
    surface, new = baked.character.surface, False
    if beside is not None:
        new = not beside.exists()
        points = _upwards(np.asarray(surface.vertices, np.float32), up)
        write_chunks(beside, mesh_text(baked.character.name, points, surface.triangles))
        figures["mesh"] = beside.name
    try:
        figures["bytes"] = write_chunks(path, content)
    except BaseException:
        if beside is not None and new:
            beside.unlink(missing_ok=True)
        raise
    return figures
