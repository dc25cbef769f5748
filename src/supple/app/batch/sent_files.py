"""Transfer of files to machines that share no disk, addressed by content hash.

A bundle is a file with the files that it refers to, such as the buffers of a .gltf. Jobs refer to
it by a hash of its bytes, and each machine stores it once.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from supple.errors import SuppleError
from supple.saving import write_whole
from supple.user_cache import cache_folder

#: Contents of files by name.
Bundle = dict[str, bytes]
#: Prefixes of a bundle's hash and of a path in the output folder, in transferred arguments.
_MARK, _FOLDER = "\x01bundle:", "\x01folder:"
#: Largest number of bytes of one bundle.
_LARGEST = 2**30
#: Seconds that a machine stores a bundle.
_KEPT = 7 * 86_400.0


def bundle_of(path: str) -> tuple[str, Bundle]:
    """Return the hash and the contents of a file with the files that it refers to."""
    names = [os.path.basename(path), *files_beside(path)]
    try:
        size = sum(os.stat(os.path.join(os.path.dirname(path), name)).st_size for name in names)
        if size > _LARGEST:
            raise SuppleError(
                f"{path}: has {size:,} bytes with its files, more than can be sent to a cluster"
                f" ({_LARGEST:,}); put it on a disk that all machines share"
            )
        data = {name: Path(os.path.dirname(path), name).read_bytes() for name in names}
    except OSError as error:
        raise SuppleError(f"{path}: cannot be read ({error.strerror})") from None
    digest = hashlib.sha256()
    for name, content in sorted(data.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:32], data


def files_beside(path: str) -> list[str]:
    """Return names of existing files that a .gltf refers to, in its folder or below."""
    if not path.lower().endswith(".gltf"):
        return []
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        document = json.loads(Path(path).read_bytes())
        parts = [*document.get("buffers", ()), *document.get("images", ())]
        names = {unquote(part["uri"]) for part in parts if isinstance(part.get("uri"), str)}
        inside = [n for n in sorted(names) if not n.startswith("data:") and _inside(n)]
        return [name for name in inside if (Path(path).parent / name).is_file()]
    return []


def _inside(name: str) -> bool:
    plain = name.replace("\\", "/")
    return not plain.startswith("/") and ".." not in plain.split("/") and "\0" not in plain


@lru_cache(maxsize=4096)
def _hash_of(path: str, stamps: tuple[tuple[int, int], ...]) -> str:
    return bundle_of(path)[0]


def _stamps(path: str) -> tuple[tuple[int, int], ...]:
    """Return sizes and times of a file and of the files that it refers to."""
    places = [Path(path), *(Path(path).parent / name for name in files_beside(path))]
    return tuple((each.stat().st_size, each.stat().st_mtime_ns) for each in places)


def sent_words(words: Sequence[str], inputs: Sequence[str], folder: Path) -> tuple[list[str], Any]:
    """Return arguments with content hashes in place of files, and a dict of the paths by hash.

    `inputs` are the input paths among the arguments, alone or after ``=``; paths in the output
    `folder` become relative.
    """
    digest_by_path: dict[str, str] = {}
    for path in dict.fromkeys(inputs):
        with suppress(OSError):
            digest_by_path[path] = _hash_of(path, _stamps(path))
    sent = []
    for word in words:
        option, equals, value = word.partition("=")
        option, value = (option + equals, value) if option.startswith("--") else ("", word)
        if value in digest_by_path:
            value = f"{_MARK}{digest_by_path[value]}/{os.path.basename(value)}"
        elif value.startswith(f"{folder}{os.sep}"):
            value = _FOLDER + value[len(str(folder)) + 1 :]
        sent.append(option + value)
    return sent, {digest: path for path, digest in digest_by_path.items()}


# On the other machine


def local_words(words: Sequence[str], bundles: dict[str, Bundle], folder: Path) -> list[str]:
    """Store bundles that this machine lacks, and return arguments with local paths."""
    places = {digest: _put(digest, bundle) for digest, bundle in bundles.items()}
    arguments = []
    for word in words:
        before, mark, rest = word.partition(_MARK)
        if mark:
            digest, _, name = rest.partition("/")
            word = f"{before}{places[digest] / name}"
        before, mark, rest = word.partition(_FOLDER)
        arguments.append(f"{before}{folder / rest}" if mark else word)
    return arguments


def _put(digest: str, bundle: Bundle) -> Path:
    """Store a bundle atomically in the user's folder of bundles, and return its path."""
    root = _bundle_folder()
    place = root / digest
    if place.is_dir():
        os.utime(place)
        return place
    _remove_old(root)
    beside = Path(tempfile.mkdtemp(dir=root))
    try:
        for name, content in bundle.items():
            if not _inside(name):
                raise SuppleError(f"{name[:60]}: outside the folder of its bundle")
            (beside / name).parent.mkdir(parents=True, exist_ok=True)
            (beside / name).write_bytes(content)
        with suppress(OSError):  # another job has stored it
            beside.rename(place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return place


def _remove_old(root: Path) -> None:
    for each in root.iterdir():
        with suppress(OSError):
            if time.time() - each.stat().st_mtime > _KEPT:
                shutil.rmtree(each, ignore_errors=True)


def _bundle_folder() -> Path:
    """Return the user's folder of bundles, which no other user can write into."""
    # By number: the user of a container often has no name.
    user = os.getuid() if hasattr(os, "getuid") else getpass.getuser()
    root = Path(tempfile.gettempdir()) / f"supple-batch-{user}"
    root.mkdir(mode=0o700, exist_ok=True)
    if hasattr(os, "getuid") and (root.is_symlink() or root.stat().st_uid != os.getuid()):
        raise SuppleError(f"{root}: belongs to another user; set TMPDIR to one of your folders")
    return root


def collected(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files of a folder by relative path."""
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in files}


def in_temporary_folder(run: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Call a function with a temporary folder; add the files written there to its result."""
    with tempfile.TemporaryDirectory(prefix="supple-job-") as name:
        outcome = run(Path(name))
        return outcome | {"sent": collected(Path(name)) if outcome.get("ok") else {}}


def keep_model(name: str, data: bytes) -> None:
    """Store a model that another machine built in the user's cache."""
    if not name or Path(name).name != name:
        raise SuppleError(f"{name[:60]}: not a file name of a model")
    path = cache_folder() / name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
