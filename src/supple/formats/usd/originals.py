"""Originals of USD files that Supple wrote: below a layer, or inside a package.

A layer with curves or flesh has a record in its own data, which names the layer below it. In a
package (.usdz) that layer is inside, with all files that it needs. If the original was a package,
its parts are stored in the new package, and the record has the bytes between the parts.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import IO, Any

from supple.errors import FormatError, warn
from supple.formats.file_bytes import LARGEST_FILE, read_bytes
from supple.formats.registry import ADDED, CURVES, FLESH, USD_SUFFIXES
from supple.formats.usd.process import WRITING, check_library, run_child
from supple.mesh.topology import counted
from supple.saving import write_whole

#: Most layers that are followed.
MOST_LAYERS = 16
#: Most bytes between the parts of a package, and most parts.
MOST_BETWEEN, MOST_PARTS = 2**26, 100_000


def layer_record(path: Path) -> dict[str, Any] | None:
    """Return the record of a layer of Supple: kind ``added``, and file below; None for others."""
    check_library(path.name)
    with tempfile.TemporaryDirectory(prefix="supple-usd-") as folder:
        request = {"action": "record", "path": str(path.absolute())}
        answer = run_child(WRITING, path.name, Path(folder), request, path.stat().st_size)
    record: dict[str, Any] | None = answer["record"]
    return record


class LayersBelow(ExitStack):
    """Walk from the file `path` down through layers that Supple wrote, one file after another.

    `path` becomes the current file. `inside` is True if it was inside a package, `exact` if it
    equals the original to the byte. Files from packages are in folders that exist as long as the
    context.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.inside, self.exact, self._count = path, False, True, 0

    def descend(self, record: dict[str, Any]) -> None:
        """Set `path` to the file below the current layer; `record` is the current layer's record.

        Raises FormatError if that file is not beside the layer, is incomplete in the package, or if
        layers form a loop.
        """
        self._count += 1
        if self._count > MOST_LAYERS:
            raise FormatError(f"{self.path.name}: is a layer over itself; use the original")
        packed = self.path.suffix.lower() == ".usdz"
        self.inside = self.inside or packed
        self.exact = self.exact and ("sha256" in record or not packed)
        if packed:
            folder = tempfile.TemporaryDirectory(prefix="supple-original-")
            self.path = _extracted(self.path, record, Path(self.enter_context(folder)))
        else:
            self.path = _file_below(self.path, record)


@contextmanager
def file_before(path: Path, added: Collection[str]) -> Iterator[Path]:
    """Yield the first file, at or below `path`, that is not a layer of a kind in `added`.

    A file from a package exists as long as the context.
    """
    with LayersBelow(path) as below:
        while added and (record := layer_record(below.path)) is not None:
            if record["added"] not in added:
                break
            below.descend(record)
        yield below.path


def _file_below(path: Path, record: dict[str, Any]) -> Path:
    below = Path(record["where"])
    # Paths in files are untrusted: files outside the folder are not opened.
    inside = below.resolve().is_relative_to(path.absolute().parent.resolve())
    if not inside or not below.is_file() or below.samefile(path):
        what = f"{below.name[:80]}, the file below it, is not beside it"
        raise FormatError(f"{path.name}: {what}; load that file itself")
    return below


# Originals inside packages.


def package_record(original: Path) -> dict[str, str]:
    """Return a layer's record of its original in the package; {} if it cannot be rebuilt."""
    data = original.read_bytes()
    record = {"name": original.name, "sha256": hashlib.sha256(data).hexdigest()}
    if original.suffix.lower() != ".usdz":
        return record
    between = _between(data, original)
    if between is None:
        return {}  # its parts and its first layer can be read
    return record | {"package": between}


def _between(data: bytes, original: Path) -> str | None:
    """Return names of a package's parts and the bytes between them, as JSON; None if not exact."""
    names, gaps, position = [], [], 0
    with zipfile.ZipFile(original) as archive:
        for entry in sorted(archive.infolist(), key=lambda each: each.header_offset):
            name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)
            start = entry.header_offset + 30 + name + extra
            stored = entry.compress_type == zipfile.ZIP_STORED
            if not stored or start < position or not _safe(entry.filename):
                return None
            names.append(entry.filename)
            gaps.append(data[position:start])
            position = start + entry.file_size
    gaps.append(data[position:])
    if len(set(names)) < len(names):
        return None
    packed = base64.b64encode(zlib.compress(b"".join(gaps), 9)).decode("ascii")
    return json.dumps({"parts": names, "gaps": [len(gap) for gap in gaps], "bytes": packed})


def _safe(name: str) -> bool:
    """Return whether a part's name is a plain relative path that stays inside its folder."""
    path = PurePosixPath(name)
    plain = not any(c in name for c in ':\\\0"') and name.isprintable()
    return plain and not path.is_absolute() and ".." not in path.parts and bool(path.name)


def _extracted(path: Path, record: dict[str, Any], folder: Path) -> Path:
    """Extract the original inside a package to a folder, to the byte; return its path."""
    lost = "no longer contains its original (another program may have saved it)"
    error_lost = FormatError(f"{path.name}: {lost}; use the original")
    layer = str(record["original"]).removeprefix("./")
    original_name = str(record.get("name") or layer)
    is_usd = original_name.lower().endswith(USD_SUFFIXES)
    if not (_safe(layer) and _safe(original_name) and is_usd):
        raise error_lost
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()[1:]
            if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > LARGEST_FILE:
                raise error_lost
            if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
                raise error_lost
            if "package" in record:
                target = folder / PurePosixPath(original_name).name
                target.write_bytes(_rebuilt(archive, str(record["package"])))
            else:
                target = folder / layer
                for part in parts:
                    if _safe(part.filename) and not part.is_dir():
                        (folder / part.filename).parent.mkdir(parents=True, exist_ok=True)
                        (folder / part.filename).write_bytes(archive.read(part))
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, zlib.error) as error:
        raise error_lost from error
    if not target.is_file():
        raise error_lost
    digest = record.get("sha256")
    if digest is not None and hashlib.sha256(target.read_bytes()).hexdigest() != digest:
        raise error_lost
    return target


def _rebuilt(archive: zipfile.ZipFile, between: str) -> bytes:
    """Return the bytes of a package from its parts and the bytes between them."""
    record = json.loads(between)
    names, gaps = list(record["parts"]), [int(gap) for gap in record["gaps"]]
    if len(gaps) != len(names) + 1 or len(set(names)) < len(names) or min(gaps) < 0:
        raise ValueError("names and gaps differ in number")
    if sum(gaps) > MOST_BETWEEN:
        raise ValueError("too many bytes between parts")
    try:
        packed = base64.b64decode(record["bytes"], validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    bytes_between = zlib.decompressobj().decompress(packed, sum(gaps) + 1)
    pieces, position = [], 0
    for gap, name in zip(gaps, [*names, None], strict=True):
        pieces.append(bytes_between[position : position + gap])
        position += gap
        if name is not None:
            pieces.append(archive.read(str(name)))
    return b"".join(pieces)


# Packages (.usdz): stored zip files whose entries begin at multiples of 64 bytes.


ALIGNMENT = 64
#: Suffixes of layers; the first entry of a package cannot be a package.
LAYERS = tuple(suffix for suffix in USD_SUFFIXES if suffix != ".usdz")
#: Most bytes of a package: sizes are 32-bit.
MOST_BYTES = 4 * 2**30 - 2**20
#: Earliest date of a zip file; a fixed date makes the bytes reproducible.
DATE = (1980, 1, 1, 0, 0, 0)
#: Mark of the padding, as in USD.
PADDING = 0x1986
Entry = tuple[str, Path, str | None]


def root_entry(original: Path) -> str:
    """Return the path of the original's root layer, relative to a layer in the same package."""
    if original.suffix.lower() != ".usdz":
        return f"./{original.name}"
    try:
        with zipfile.ZipFile(original) as archive:
            names = [entry.filename for entry in archive.infolist()]
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise FormatError(f"{original.name}: is not a readable package ({error})") from error
    if not names or not names[0].lower().endswith(LAYERS):
        raise FormatError(f"{original.name}: does not begin with a layer; save it again")
    return f"./{names[0]}"


def package_entries(layer: Path, original: Path | None, files: list[str]) -> list[Entry]:
    """Return entries: name in the package, file, and name within that file if it is a package.

    The layer is first, as required; the original's parts keep their names.
    """
    parts: list[Entry] = []
    for file in map(Path, files):
        assert original is not None
        if file == Path(files[0]) and original.suffix.lower() == ".usdz":
            with zipfile.ZipFile(file) as archive:
                parts += [(e.filename, file, e.filename) for e in archive.infolist()]
        else:
            parts.append((file.relative_to(Path(files[0]).parent).as_posix(), file, None))
    used = {name for name, _, _ in parts}
    layer_name, number = f"soft{layer.suffix}", 2
    while layer_name in used:
        layer_name, number = f"soft{number}{layer.suffix}", number + 1
    return [(layer_name, layer, None), *parts]


def package(name: str, target: IO[bytes], entries: list[Entry]) -> None:
    """Write the entries as a zip file, uncompressed and aligned; `name` is for messages."""
    total = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for entry, file, inner in entries:
            if PurePosixPath(entry).is_absolute() or ".." in PurePosixPath(entry).parts:
                continue  # outside the package; no reader follows it
            data = _content(file, inner)
            total += len(data)
            if total > MOST_BYTES:
                raise FormatError(f"{name}: has over 4 GiB, too much for a package; use .usdc")
            info = zipfile.ZipInfo(entry, DATE)
            data_start = target.tell() + 30 + len(entry.encode())
            n_padding = -(data_start + 4) % ALIGNMENT
            info.extra = struct.pack("<HH", PADDING, n_padding) + bytes(n_padding)
            archive.writestr(info, data)


def _content(file: Path, inner: str | None) -> bytes:
    if inner is None:
        return file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        entry = archive.getinfo(inner)
        if entry.file_size > MOST_BYTES or entry.compress_type != zipfile.ZIP_STORED:
            raise FormatError(f"{file.name}: its part {inner[:60]} is compressed; save it again")
        return archive.read(inner)


# Files without the curves or flesh that Supple added: the files below.


def holds_usd_flesh(path: Path) -> bool:
    """Return whether a file is a layer with flesh, or a package with a layer and its original."""
    if find_spec("pxr") is None or not path.is_file():
        return False
    try:
        record = layer_record(path)
    except FormatError:
        return False  # reported when it is read
    return record is not None and record["added"] == FLESH


def remove_usd_curves(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write the file below the layer with curves in `source` to `path`, to the byte."""
    return _removed(Path(path), Path(source), CURVES)


def remove_usd_flesh(path: str | Path, source: str | Path) -> dict[str, Any]:
    """Write the file below the layer with flesh in `source` to `path`, to the byte."""
    return _removed(Path(path), Path(source), FLESH)


def _removed(path: Path, source: Path, added: str) -> dict[str, Any]:
    read_bytes(source, USD_SUFFIXES)  # FormatError if it cannot be read
    with LayersBelow(source) as below:
        while (record := layer_record(below.path)) is not None:
            below.descend(record)
            if record["added"] == added:
                break
            other, what = ADDED[record["added"]], ADDED[added]
            warn(f"{source.name}: {other}, added after the {what}, removed as well")
        else:
            raise FormatError(f"{source.name}: has no {ADDED[added]} from Supple to remove")
        _check_target(path, source, below)
        data = read_bytes(below.path, USD_SUFFIXES)
        write_whole(path, data)
    return {"bytes": len(data)}


def _check_target(path: Path, source: Path, below: LayersBelow) -> None:
    """Raise FormatError for an incomplete original or another suffix; warn of files it needs."""
    if not below.exact:
        raise FormatError(f"{source.name}: contains only parts of its original; unzip it")
    if path.suffix.lower() != below.path.suffix.lower():
        where = "inside it" if below.inside else "unchanged beside it"
        raise FormatError(
            f"{path.name}: {source.name} is a layer over {below.path.name}, which is {where}; use a"
            f" name that ends in {below.path.suffix}"
        )
    folder = below.path.parent
    others = sum(each.is_file() for each in folder.rglob("*")) - 1 if below.inside else 0
    if others > 0:
        needed = f"{counted(others, 'file')} that {below.path.name} needs"
        warn(f"{path.name}: {needed} {'is' if others == 1 else 'are'} in {source.name}; unzip it")
