"""Named arrays of a body or motion file: an archive of NumPy, or a pickle."""

from __future__ import annotations

import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from supple.errors import FormatError, SuppleError
from supple.formats.file_bytes import read_bytes, reading
from supple.formats.smpl.restricted_pickle import read_pickle

#: Suffixes of archives of NumPy; .smpl is Meshcapade's.
ARCHIVES = (".npz", ".smpl")
PICKLES = (".pkl", ".pickle")
#: Most members of an archive, and most bytes of one: SMPL-X has 170 MB of pose shapes.
MOST_MEMBERS, LARGEST_MEMBER = 1000, 2 * 2**30
#: Most bytes of all requested members.
LARGEST_SUM = 4 * 2**30
#: Most bytes of the header of an array.
LONGEST_HEADER = 4096


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Turn errors of the library inside the context into errors that begin with the file's name."""
    try:
        yield
    except SuppleError as error:
        text = str(error)
        raise FormatError(text if text.startswith(f"{name}: ") else f"{name}: {text}") from None


def read_fields(path: str | Path, names: Iterable[str]) -> dict[str, Any]:
    """Return the named fields that a file has: arrays, numbers, text.

    `path` is an ``.npz``, ``.smpl`` or ``.pkl`` file; nothing in it is executed. Raises FormatError
    when it is damaged, or a named field is an array of objects.
    """
    path = Path(path)
    data = read_bytes(path, (*ARCHIVES, *PICKLES))
    if path.suffix.lower() in PICKLES:
        return read_pickle(data, path.name, names)
    with reading(path.name), _archive(path.name, data) as archive:
        n_bytes_left = LARGEST_SUM
        fields: dict[str, Any] = {}
        for name in names:
            if f"{name}.npy" in archive.namelist():
                fields[name] = _member(path.name, archive, name, n_bytes_left)
                n_bytes_left -= fields[name].nbytes
        return fields


def archive_names(path: str | Path) -> set[str]:
    """Return the names of all fields of an archive; the empty set for a pickle."""
    path = Path(path)
    if path.suffix.lower() not in ARCHIVES:
        return set()
    data = read_bytes(path, ARCHIVES)
    with reading(path.name), _archive(path.name, data) as archive:
        return {name.removesuffix(".npy") for name in archive.namelist()}


def _archive(name: str, data: bytes) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise FormatError(f"{name}: is not an archive of arrays, or damaged ({error})") from None
    if len(archive.infolist()) > MOST_MEMBERS:
        raise FormatError(
            f"{name}: has {len(archive.infolist()):,} arrays, too many for a body model"
        )
    return archive


def _member(file: str, archive: zipfile.ZipFile, name: str, n_bytes_left: int) -> NDArray[Any]:
    info = archive.getinfo(f"{name}.npy")
    if info.file_size > min(LARGEST_MEMBER, n_bytes_left):
        raise FormatError(f'{file}: "{name}" has {info.file_size >> 20:,} MiB, which is too large')
    try:
        with archive.open(info) as member:
            shape, fortran, kind = _head(file, name, member)
            if kind.hasobject or kind.names or kind.kind not in "biufSU":
                raise FormatError(f'{file}: "{name}" holds objects, which are not read')
            size = math.prod(shape) * kind.itemsize
            # Empty texts take no bytes in the file, but memory once they are created.
            is_hollow = not kind.itemsize and 0 not in shape
            if is_hollow or size > info.file_size or len(shape) > 8:
                raise FormatError(f'{file}: "{name}" is cut off, or declares more data than it has')
            raw = member.read(size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise FormatError(f'{file}: "{name}" is damaged ({str(error)[:80]})') from None
    if len(raw) != size:
        raise FormatError(f'{file}: "{name}" is cut off')
    if size == 0:
        return np.zeros(shape, kind)
    return np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")


def _head(file: str, name: str, member: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = npy.read_magic(member)
        with warnings.catch_warnings():  # about headers by Python 2, and damaged characters
            warnings.simplefilter("ignore")
            if version == (1, 0):
                return npy.read_array_header_1_0(member, max_header_size=LONGEST_HEADER)
            if version == (2, 0):
                return npy.read_array_header_2_0(member, max_header_size=LONGEST_HEADER)
    except (ValueError, SyntaxError, TypeError, RecursionError) as error:
        raise FormatError(f'{file}: "{name}" is damaged ({str(error)[:80]})') from None
    raise FormatError(f'{file}: "{name}" is of an unknown version of NumPy\'s format')
