"""Large files that are whole or not there, and caches read back within their own bounds."""

from __future__ import annotations

import math
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Floats
from supple.errors import FormatError, SuppleError

__all__ = ["PointCache", "read_point_cache"]


#: What an .npz may unpack to.
MOST_BYTES = 16 * 2**30
#: Frames, or points, of a cache.
MOST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class PointCache:
    """Points over time.

    Attributes
    ----------
    frames : (t, n, 3) float32 array
        Read from the file as it is used (``.pc2``, ``.mdd``).
    times : (t,) array
        Seconds; of a ``.pc2``, which does not know them, frame numbers.
    arrays : dict
        What else an ``.npz`` holds.
    """

    frames: NDArray[Any]
    times: Floats
    arrays: dict[str, NDArray[Any]]


def read_point_cache(path: str | Path) -> PointCache:
    """Read a ``.pc2``, ``.mdd`` or ``.npz`` cache.

    Raises
    ------
    FormatError
        When the file is missing, cut off, or says it holds what it does not.
    """
    path = Path(path)
    readers = {".pc2": _read_pc2, ".mdd": _read_mdd, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise FormatError(
            f'{path.name}: "{path.suffix}" is no point cache; use {", ".join(readers)}'
        )
    try:
        if not path.is_file():
            raise FormatError(f"{path.name}: there is no such file in {path.parent}")
        return reader(path, path.stat().st_size)
    except SuppleError:
        raise
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, struct.error) as error:
        why = "".join(c if c.isprintable() else "?" for c in str(error))[:200]
        raise FormatError(f"{path.name}: is damaged and cannot be read ({why})") from error


def _read_pc2(path: Path, size: int) -> PointCache:
    head = _head(path, 32, size)
    if head[:12] != b"POINTCACHE2\0":
        raise FormatError(f"{path.name}: does not begin as a PC2 point cache does")
    version, points, start, sampling, count = struct.unpack("<iiffi", head[12:])
    if version != 1:
        raise FormatError(f"{path.name}: is PC2 of version {version}; only 1 is known")
    frames = _mapped(path, 32, "<f4", count, points, size)
    times = start + sampling * np.arange(count, dtype=np.float64)
    return PointCache(frames, _finite(path, times), {})


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
            raise FormatError(f"{path.name}: unpacks to more than {MOST_BYTES / 2**30:.0f} GiB")
        if any(entry.file_size > max(size, 2**20) * 64 for entry in archive.infolist()):
            raise FormatError(f"{path.name}: unpacks to far more than it has; it is no cache")
        for entry in archive.infolist():
            _check_declared(path, archive, entry)
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    missing = {"frames", "times"} - arrays.keys()
    if missing:
        raise FormatError(f'{path.name}: holds no "{min(missing)}"; it is no point cache')
    frames, times = arrays.pop("frames"), arrays.pop("times")
    fits = frames.ndim == 3 and frames.shape[2] == 3 and times.shape == frames.shape[:1]
    if not fits or frames.dtype.kind != "f" or times.dtype.kind != "f":
        raise FormatError(f"{path.name}: frames {frames.shape} and times {times.shape} do not fit")
    return PointCache(frames, _finite(path, times.astype(np.float64)), arrays)


def _check_declared(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Refuse an array that declares more numbers than it has: NumPy makes room for all of them."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if math.prod(shape) * dtype.itemsize > entry.file_size or max(shape, default=0) > MOST:
            raise FormatError(
                f"{path.name}: its {entry.filename[:40]} declares {shape} numbers, which its"
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
    """The numbers in place, when the file holds as many as it says."""
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
        raise FormatError(f"{path.name}: has a time that is not finite")
    return times
