"""Point caches: the skin's vertices frame by frame, for Blender, Maya, Houdini and NumPy.

All formats have world positions in metres, +Y up, of the character's welded surface. A cache has no
faces and fits only a mesh with the same vertex order, so the matching mesh is written beside it as
``…_rest.obj``. In Blender: import that mesh with its vertex order kept, add a Mesh Cache modifier,
choose the cache; the default axes are right, since an imported .obj is rotated as an object. The
scene should have the frame rate of the bake.
"""

from __future__ import annotations

import io
import math
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats, Ints, Singles
from supple.errors import FormatError, SuppleError, one_line
from supple.formats import alembic_process
from supple.formats.file_bytes import reading
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.saving import write_chunks

PC2_MAGIC = b"POINTCACHE2\0"
#: Most frames, or points, of a cache: counts are 32-bit in .pc2 and .mdd.
MOST = 2**31 - 1
#: Most bytes of an uncompressed .npz.
MOST_BYTES = 16 * 2**30
#: Time limit for a small .abc file in seconds; it is longer for large files.
LONGEST_READ, BYTES_PER_SECOND = 60.0, 1e6
#: Bytes written at a time.
CHUNK = 2**24
#: Lines of text written at a time.
LINES = 50_000


def write_point_cache(
    path: str | Path,
    baked: BakedMotion,
    *,
    vertices: Literal["welded", "file"] = "welded",
    up: Literal["y", "z"] = "y",
    mesh: bool | str | Path = True,
) -> dict[str, Any]:
    """Write a ``.pc2`` or ``.mdd`` point cache.

    Parameters
    ----------
    path, baked
        Target, whose suffix selects the format, and motion.
    vertices : {"welded", "file"}
        Order of vertices: as in ``character.surface``, or as in the character's file: its
        meshes one after the other, each with all its primitives. Vertices of glTF without faces are
        omitted, as when Blender imports them; those of USD are kept.
    up : {"y", "z"}
        Upward axis. Meshes that Blender imported from glTF have z.
    mesh : bool, str or Path
        Where to write the matching mesh, as .obj: True for beside the cache as ``…_rest.obj``,
        False for nowhere, or a path. No mesh is written with ``vertices="file"``.

    Returns
    -------
    dict
        n_frames, n_points, bytes, and the mesh's name if one was written.
    """
    path = Path(path)
    if up not in ("y", "z"):
        raise FormatError(f'{path.name}: the upward axis cannot be "{up}"; use y or z')
    rows = _cached_vertices(path, baked.character, vertices)
    if len(rows) > MOST or baked.n_frames > MOST:
        raise FormatError(f"{path.name}: {len(rows)} points are too many for the format")
    frames = (_upwards(frame[rows], up) for frame in baked.frames)
    header, dtype = (_mdd_header if path.suffix.lower() == ".mdd" else _pc2_header)(baked, rows)
    content = _with_header(header, frames, dtype)
    figures: dict[str, Any] = {"n_frames": baked.n_frames, "n_points": len(rows)}
    if vertices != "welded" or mesh is False:
        return {**figures, "bytes": write_chunks(path, content)}
    mesh_file = mesh_beside(path) if mesh is True else Path(mesh)
    is_new, surface = not mesh_file.exists(), baked.character.surface
    points = _upwards(np.asarray(surface.vertices, np.float32), up)
    write_chunks(mesh_file, _mesh_text(baked.character.name, points, surface.triangles))
    try:
        size = write_chunks(path, content)
    except BaseException:
        if is_new:
            mesh_file.unlink(missing_ok=True)
        raise
    return {**figures, "mesh": mesh_file.name, "bytes": size}


def _pc2_header(baked: BakedMotion, rows: Ints) -> tuple[bytes, str]:
    """Return the header of a ``.pc2`` file, and the type of the numbers after it."""
    first = float(baked.times[0] * baked.rate)
    counts = (1, len(rows), first, 1.0, baked.n_frames)
    return PC2_MAGIC + struct.pack("<iiffi", *counts), "<f4"


def _mdd_header(baked: BakedMotion, rows: Ints) -> tuple[bytes, str]:
    """Return the header of an ``.mdd`` file, and the type of the numbers after it."""
    counts = struct.pack(">ii", baked.n_frames, len(rows))
    return counts + baked.times.astype(">f4").tobytes(), ">f4"


def write_npz(path: str | Path, baked: BakedMotion) -> dict[str, Any]:
    """Write arrays for ``np.load``, without pickle: ``frames`` (t, n, 3) and ``rest`` (n, 3) of the
    welded surface in metres, ``triangles``, ``times`` (t,) in seconds, ``rate``, ``loop``, ``name``
    and ``motion``.
    """
    path = Path(path)
    frames, character = np.asarray(baked.frames, np.float32), baked.character
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


def mesh_beside(path: Path) -> Path:
    """Return the default path of the mesh of a cache."""
    return path.with_name(f"{path.stem}_rest.obj")


def _upwards(points: Singles, up: str) -> Singles:
    if up == "y":
        return points
    return np.stack([points[:, 0], -points[:, 2], points[:, 1]], axis=1)


def _with_header(header: bytes, frames: Iterable[Singles], dtype: str) -> Iterator[bytes]:
    """Yield the file in pieces, since a cache may be larger than memory."""
    buffer = io.BytesIO()
    buffer.write(header)
    for frame in frames:
        buffer.write(np.ascontiguousarray(frame, dtype=dtype).tobytes())
        if buffer.tell() >= CHUNK:
            yield buffer.getvalue()
            buffer = io.BytesIO()
    yield buffer.getvalue()


def _cached_vertices(path: Path, character: Character, vertices: str) -> Ints:
    """Return the surface vertex of each point of the cache."""
    if vertices == "welded":
        return np.arange(len(character.surface.vertices))
    if vertices != "file":
        raise FormatError(f'{path.name}: vertices cannot be "{vertices}"; use welded or file')
    stored = file_order(character)
    if stored is None:
        why = f"{character.name} has no file with its own vertex order"
        raise FormatError(f"{path.name}: {why}; use welded vertices")
    return stored


def file_order(character: Character) -> Ints | None:
    """Return the surface vertex of each vertex in a character's file; None without a file."""
    primitives = getattr(character.source, "primitives", None)
    meshes = getattr(character.source, "meshes", None)
    if primitives:
        return np.concatenate([p.welded[p.welded >= 0] for p in primitives])
    if meshes:
        # Points of no face are invisible; they follow the first vertex.
        return np.maximum(np.concatenate([mesh.welded for mesh in meshes]), 0)
    return None


def _mesh_text(name: str, points: Singles, triangles: NDArray[np.integer]) -> Iterator[bytes]:
    """Yield a mesh as Wavefront .obj, in pieces; positions have all digits of float32."""
    shown = "".join(c if c.isprintable() else "?" for c in name)
    yield f"o {shown}\n".encode()
    for line, rows in (("v %.9g %.9g %.9g\n", points), ("f %d %d %d\n", triangles + 1)):
        for first in range(0, len(rows), LINES):
            part = rows[first : first + LINES]
            yield ((line * len(part)) % tuple(part.ravel().tolist())).encode()


# Reading caches.


@dataclass(frozen=True, eq=False)
class PointCache:
    """Points over time.

    Attributes
    ----------
    frames : (t, n, 3) float32 array
        Mapped from the file (``.pc2``, ``.mdd``).
    times : (t,) array
        Seconds; frame numbers for a ``.pc2``, which has no times.
    arrays : dict
        Other arrays of an ``.npz``.
    """

    frames: NDArray[Any]
    times: Floats
    arrays: dict[str, NDArray[Any]]


def read_point_cache(path: str | Path) -> PointCache:
    """Read a ``.pc2``, ``.mdd``, ``.npz`` or ``.abc`` cache.

    The meshes of an ``.abc`` follow one another, in the order of the file, at the places of their
    transforms; it needs the optional package alembic3d.

    Raises FormatError when the file is missing, truncated or inconsistent.
    """
    path = Path(path)
    readers = {".pc2": _read_pc2, ".mdd": _read_mdd, ".npz": _read_npz, ".abc": _read_abc}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FormatError(
            f'{path.name}: "{path.suffix}" is not a point cache; use {", ".join(readers)}'
        )
    with reading(path.name):  # archives raise any exception
        if not path.is_file():
            raise FormatError(f"{path.name}: there is no such file in {path.parent}")
        return reader(path, path.stat().st_size)


def _read_pc2(path: Path, size: int) -> PointCache:
    head = _head(path, 32, size)
    if head[:12] != PC2_MAGIC:
        raise FormatError(f"{path.name}: is not a PC2 point cache; its first bytes differ")
    version, points, start, sampling, count = struct.unpack("<iiffi", head[12:])
    if version != 1:
        raise FormatError(f"{path.name}: is PC2 of version {version}; only version 1 is supported")
    frames = _mapped(path, 32, "<f4", count, points, size)
    start, sampling = _finite(path, np.array([start, sampling]))
    return PointCache(frames, start + sampling * np.arange(count, dtype=np.float64), {})


def _read_mdd(path: Path, size: int) -> PointCache:
    count, points = struct.unpack(">ii", _head(path, 8, size))
    frames = _mapped(path, 8 + 4 * max(count, 0), ">f4", count, points, size)
    with path.open("rb") as file:
        file.seek(8)
        times = np.frombuffer(file.read(4 * count), ">f4").astype(np.float64)
    return PointCache(frames, _finite(path, times), {})


def _read_npz(path: Path, size: int) -> PointCache:
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
            raise FormatError(f"{path.name}: expands to more than {MOST_BYTES / 2**30:.0f} GiB")
        if any(entry.file_size > max(size, 2**20) * 64 for entry in archive.infolist()):
            raise FormatError(f"{path.name}: expands to far more than its size; it is not a cache")
        with warnings.catch_warnings():  # about headers by Python 2, and damaged characters
            warnings.simplefilter("ignore")
            for entry in archive.infolist():
                _check_declared(path, archive, entry)
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
    missing = {"frames", "times"} - arrays.keys()
    if missing:
        raise FormatError(f'{path.name}: has no "{min(missing)}"; it is not a point cache')
    frames, times = arrays.pop("frames"), arrays.pop("times")
    fits = frames.ndim == 3 and frames.shape[2] == 3 and times.shape == frames.shape[:1]
    if not fits or frames.dtype.kind != "f" or times.dtype.kind != "f":
        raise FormatError(
            f"{path.name}: has frames {frames.shape} and times {times.shape}; expected floats of"
            f" shapes (t, n, 3) and (t,)"
        )
    return PointCache(frames, _finite(path, times.astype(np.float64)), arrays)


def _check_declared(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Raise FormatError for an array that declares more numbers than it has."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if math.prod(shape) * dtype.itemsize > entry.file_size or max(shape, default=0) > MOST:
            raise FormatError(
                f"{path.name}: its {entry.filename[:40]} declares shape {shape}, which its"
                f" {entry.file_size} bytes do not hold; it is damaged"
            )


def _head(path: Path, length: int, size: int) -> bytes:
    if size < length:
        raise FormatError(f"{path.name}: has {size} bytes, fewer than its header; it is cut off")
    with path.open("rb") as file:
        return file.read(length)


def _mapped(
    path: Path, offset: int, dtype: str, count: int, points: int, size: int
) -> NDArray[Any]:
    """Map the numbers into memory; FormatError if the file does not have as many as it declares."""
    if count < 0 or points < 0 or size != offset + 12 * count * points:
        raise FormatError(
            f"{path.name}: declares {count} frames of {points} points, which its {size} bytes"
            f" do not hold; it is cut off or damaged"
        )
    if points == 0 or count == 0:
        raise FormatError(f"{path.name}: has {count} frames of {points} points; it is empty")
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=(count, points, 3))


def _finite(path: Path, times: Floats) -> Floats:
    if not np.isfinite(times).all():
        raise FormatError(f"{path.name}: has a time that is not finite; save it again")
    return times


# Alembic, through the optional package alembic3d.


def write_abc(path: str | Path, baked: BakedMotion) -> dict[str, Any]:
    """Write an ``.abc`` file with one polygon mesh.

    Its points are the welded surface in the world, metres, +Y up (Blender converts that on import),
    with a sample per baked frame. Faces are clockwise, as in Alembic. Returns n_frames, n_points,
    bytes.
    """
    path = Path(path)
    _check_alembic(path)
    try:
        with tempfile.TemporaryDirectory(prefix="supple-abc-") as folder:
            # The library writes directly to the path, and would leave half a file if interrupted.
            part = Path(folder) / "part.abc"
            _write_archive(part, baked)
            with part.open("rb") as file:
                size = write_chunks(path, iter(lambda: file.read(2**24), b""))
    except (RuntimeError, OSError) as error:
        why = " ".join(str(error).split())[:200]
        raise FormatError(f"{path.name}: Alembic cannot write it ({why})") from error
    return {"n_frames": baked.n_frames, "n_points": baked.frames.shape[1], "bytes": size}


def _write_archive(path: Path, baked: BakedMotion) -> None:
    import imath
    from alembic3d.Abc import OArchive
    from alembic3d.AbcCoreAbstract import TimeSampling
    from alembic3d.AbcGeom import OPolyMesh, OPolyMeshSchemaSample

    archive = OArchive(os.fspath(path))
    sampling = archive.addTimeSampling(TimeSampling(1 / baked.rate, float(baked.times[0])))
    name = "".join(c if c.isalnum() and c.isascii() else "_" for c in baked.character.name)
    mesh = OPolyMesh(archive.getTop(), name or "character", sampling)
    schema = mesh.getSchema()
    triangles = baked.character.surface.triangles
    corners = imath.IntArrayFromBuffer(np.ascontiguousarray(triangles[:, ::-1], np.int32).ravel())
    counts = imath.IntArrayFromBuffer(np.full(len(triangles), 3, np.int32))
    for frame in baked.frames:
        points = imath.V3fArrayFromBuffer(np.ascontiguousarray(frame, np.float32))
        schema.set(OPolyMeshSchemaSample(points, corners, counts))
    # The file is complete once all references to the archive are gone.
    del schema, mesh, archive


def _check_alembic(path: Path) -> None:
    try:
        import alembic3d  # noqa: F401
    except ImportError:
        raise SuppleError(
            f"{path.name}: Alembic files need an extra; run pip install 'supple[alembic]'"
        ) from None


def _read_abc(path: Path, size: int) -> PointCache:
    """Return the points of all polygon meshes, in the world."""
    _check_alembic(path)
    with tempfile.TemporaryDirectory(prefix="supple-abc-") as folder:
        answer = Path(folder) / "answer.npz"
        arguments = [alembic_process.__file__, str(path.absolute()), str(answer), str(size)]
        command = [sys.executable, "-I", *arguments, *filter(os.path.isabs, sys.path)]
        allowed = LONGEST_READ + size / BYTES_PER_SECOND
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "timeout": allowed}
        try:
            ended = subprocess.run(command, capture_output=True, check=False, **how)
        except subprocess.TimeoutExpired:
            why = f"Alembic needed more than {allowed:.0f} s to read it; simplify it"
            raise FormatError(f"{path.name}: {why}") from None
        if ended.returncode < 0:
            raise FormatError(f"{path.name}: is damaged: Alembic crashed on it; save it again")
        if ended.returncode:
            lines = ended.stderr.decode(errors="replace").strip().splitlines()
            why = one_line(lines[-1] if lines else "no reason given")[:200]
            if ended.returncode != alembic_process.REFUSED:
                why = f"is damaged and cannot be read ({why}); save it again"
            raise FormatError(f"{path.name}: {why}")
        with np.load(answer, allow_pickle=False) as stored:
            return PointCache(stored["frames"], _finite(path, stored["times"]), {})
