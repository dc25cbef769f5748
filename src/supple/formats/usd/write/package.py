"""Packages, .usdz: stored zip files whose entries begin at multiples of 64 bytes."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO

from supple.errors import FormatError
from supple.formats.registry import USD_SUFFIXES

ALIGNMENT = 64
#: Suffixes of layers; a package within a package cannot be its first entry.
LAYERS = tuple(suffix for suffix in USD_SUFFIXES if suffix != ".usdz")
#: Sizes in a package are 32-bit.
MOST_BYTES = 4 * 2**30 - 2**20
#: The earliest date a zip file knows: the same content makes the same bytes.
DATE = (1980, 1, 1, 0, 0, 0)
#: Marks the padding as USD does.
PADDING = 0x1986

Entry = tuple[str, Path, str | None]


def root_entry(original: Path) -> str:
    """Return the name of the original's root layer for a layer in the same package."""
    if original.suffix.lower() != ".usdz":
        return f"./{original.name}"
    return f"./{_first_layer(original)}"


def _first_layer(original: Path) -> str:
    try:
        with zipfile.ZipFile(original) as archive:
            names = [entry.filename for entry in archive.infolist()]
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise FormatError(f"{original.name}: is no package that can be read ({error})") from error
    if not names or not names[0].lower().endswith(LAYERS):
        raise FormatError(f"{original.name}: does not begin with a layer; save it again")
    return names[0]


def package_entries(layer: Path, original: Path | None, files: list[str]) -> list[Entry]:
    """Name in the package, file, and name within that file where it is a package itself.

    The layer comes first, as it must; the original's parts keep their names.
    """
    parts: list[Entry] = []
    for file in map(Path, files):
        assert original is not None
        if file == Path(files[0]) and original.suffix.lower() == ".usdz":
            with zipfile.ZipFile(file) as archive:
                parts += [(e.filename, file, e.filename) for e in archive.infolist()]
        else:
            parts.append((file.relative_to(Path(files[0]).parent).as_posix(), file, None))
    taken = {name for name, _, _ in parts}
    own, number = f"soft{layer.suffix}", 2
    while own in taken:
        own, number = f"soft{number}{layer.suffix}", number + 1
    return [(own, layer, None), *parts]


def package(name: str, target: IO[bytes], entries: list[Entry]) -> None:
    """Write the entries, uncompressed and aligned."""
    total = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for entry, file, inner in entries:
            if PurePosixPath(entry).is_absolute() or ".." in PurePosixPath(entry).parts:
                continue  # such a name leads out of the package; no reader follows it
            data = _content(file, inner)
            total += len(data)
            if total > MOST_BYTES:
                raise FormatError(f"{name}: has over 4 GiB, too much for a package; use .usdc")
            info = zipfile.ZipInfo(entry, DATE)
            begin = target.tell() + 30 + len(entry.encode())
            short = -(begin + 4) % ALIGNMENT
            info.extra = struct.pack("<HH", PADDING, short) + bytes(short)
            archive.writestr(info, data)


def _content(file: Path, inner: str | None) -> bytes:
    if inner is None:
        return file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        entry = archive.getinfo(inner)
        if entry.file_size > MOST_BYTES or entry.compress_type != zipfile.ZIP_STORED:
            raise FormatError(f"{file.name}: its part {inner[:60]} is packed; save it again")
        return archive.read(inner)
