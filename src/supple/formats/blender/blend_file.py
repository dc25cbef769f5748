"""Characters from .blend and .fbx files, and baked motions back into them.

Blender opens or imports a file and samples its character into a binary glTF, which is read like
any other. What was baked goes the same way back: shapes and weights in that glTF become shape keys
in Blender, as its add-on makes them, in a copy of the file.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from supple.errors import FormatError, warn
from supple.formats.blender.blender_process import ask_blender, find_blender
from supple.formats.file_bytes import read_bytes
from supple.formats.gltf.read.gltf import GltfSource, read_gltf
from supple.formats.gltf.write.gltf_motion import write_gltf
from supple.formats.registry import BLENDER_SUFFIXES
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

#: Beginnings of .blend files, plain and compressed.
BLEND = (b"BLENDER", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
FBX = b"Kaydara FBX Binary"


@dataclass(frozen=True, eq=False)
class BlendSource(GltfSource):
    """Origin in a .blend or .fbx file: that of the glTF file which Blender sampled.

    Attributes
    ----------
    sample
        The bytes of that glTF file.
    armature
        Name of the character's in Blender.
    frame_rate
        Frames of the scene in a second.
    digest
        Of the bytes of the file itself.
    """

    sample: bytes = b""
    armature: str = ""
    frame_rate: float = 24.0
    digest: str = ""

    def read(self) -> bytes:
        """Return the bytes of the sampled character; an error where the file has changed."""
        if _digest(read_bytes(self.path, BLENDER_SUFFIXES)) != self.digest:
            raise FormatError(f"{self.path.name}: has changed since it was loaded; load it again")
        return self.sample


def load_blend(
    path: str | Path, metres_per_unit: float | None = None, *, armature: str | None = None
) -> Character:
    """Read a character from a .blend or .fbx file, through Blender.

    Parameters
    ----------
    path : str or Path
        The file; nothing in it is executed.
    metres_per_unit : float, optional
        Length of its unit; by default what its scene says.
    armature : str, optional
        Name of the character's armature, where the file has several.

    Returns
    -------
    Character
        All visible meshes of the armature, and the actions that move it, or the scene's frames
        where none does.

    Raises
    ------
    SuppleError
        When there is no Blender, or it cannot read the file; the message begins with its name.
    """
    path = Path(path)
    data = read_bytes(path, BLENDER_SUFFIXES)
    _check_kind(path, data)
    blender = find_blender(path.name)
    with tempfile.TemporaryDirectory(prefix="supple-sample-") as folder:
        sampled = Path(folder) / "sample.glb"
        request = {"action": "sample", "path": str(path.absolute()), "armature": armature}
        found = ask_blender(blender, path.name, request | {"sample": str(sampled)})
        sample = sampled.read_bytes()
    if metres_per_unit is None and abs(found["unit"] - 1) > 1e-6:
        metres_per_unit = float(found["unit"])
    character = read_gltf(path, sample, metres_per_unit)
    own = {field.name: getattr(character.source, field.name) for field in fields(GltfSource)}
    source = BlendSource(
        **own,
        sample=sample,
        armature=found["armature"],
        frame_rate=found["rate"],
        digest=_digest(data),
    )
    return replace(character, source=source)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data).hexdigest()


def _check_kind(path: Path, data: bytes) -> None:
    """Refuse what Blender would refuse, in fewer words."""
    if path.suffix.lower() == ".blend":
        if not data.startswith(BLEND):
            raise FormatError(f"{path.name}: is no .blend file, though it has that name")
    elif not data.startswith(FBX):
        text = b"\0" not in data[:1000]
        what = "is a text FBX, which Blender does not read" if text else "is no FBX file"
        raise FormatError(f"{path.name}: {what}; save it as binary FBX")


def holds_clips(character: Character, options: Any) -> bool:
    """Return whether a file holds several motions of this character: these always do."""
    return True


def check_blend_target(path: Path, character: Character, motions: Sequence[str] = ()) -> None:
    """Refuse characters that did not come through Blender, and motions that are no clips there."""
    source = character.source
    if not isinstance(source, BlendSource):
        wanted = " and ".join(BLENDER_SUFFIXES)
        raise FormatError(f"{path.name}: is for characters from {wanted}; use .glb")
    if not source.clips:
        what = f"{source.path.name} has no action that flesh could play in"
        raise FormatError(f"{path.name}: {what}; add one, or write to .glb")
    lost = next((name for name in motions if name not in source.clips), None)
    if lost is not None:
        raise FormatError(f'{path.name}: "{lost}" is no clip of the file; write it to .glb')


def write_blend(
    path: str | Path, baked: BakedMotion | Sequence[BakedMotion], *, error: float = 0.002
) -> dict[str, Any]:
    """Write baked motions into a copy of the .blend or .fbx file that their character came from.

    Parameters
    ----------
    path
        A ``.blend``: the same file with shape keys and an NLA track for each clip, or point caches
        beside it for meshes that cannot have keys. An ``.fbx``: all of the scene, a take for each
        action, with shapes that play in it.
    baked
        One motion, or several of one character; each must be a clip of the file.
    error
        How far any vertex may be from its simulated place at any frame, as part of the size.

    Returns
    -------
    dict
        ``n_shapes`` (the most of any mesh), ``error`` reached, ``bytes``, ``animation`` or
        ``animations``, and ``added``, the number of shape keys and modifiers in Blender.
    """
    path = Path(path)
    bakes = [baked] if isinstance(baked, BakedMotion) else list(baked)
    names = [each.motion.name for each in bakes]
    check_blend_target(path, bakes[0].character, names)
    source: BlendSource = bakes[0].character.source
    with tempfile.TemporaryDirectory(prefix="supple-flesh-") as folder:
        flesh = Path(folder) / "flesh.glb"
        figures = write_gltf(flesh, bakes, error=error)
        if figures["new"]:
            raise FormatError(
                f'{path.name}: "{names[0]}" is another motion than the clip of that name'
            )
        request = {
            "action": "write",
            "path": str(source.path.absolute()),
            "armature": source.armature,
            "flesh": str(flesh),
            "clips": names,
            "loop": any(each.loop for each in bakes),
        }
        found = _written(path, request)
    if found["lost"]:
        listed = ", ".join(f'"{name}"' for name in found["lost"][:4])
        listed += " …" if found["lost"][4:] else ""
        what = f"is without modifiers of {listed}, as an .fbx has shapes or them"
        warn(f"{path.name}: {what}; apply them before, or write a .blend")
    return {**figures, "added": found["added"], "bytes": path.stat().st_size}


def _written(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Have Blender write a file and its point caches beside; then both take their places, or none.

    Caches of clips that are not written again stay: the file itself may have been read.
    """
    mark = f".{secrets.token_hex(8)}"
    beside = path.parent / f"{mark}{path.suffix.lower()}"
    caches = path.parent / f"{path.stem}_supple"
    new, old = (path.parent / f"{mark}_{what}supple" for what in ("", "old_"))
    where = {"target": str(beside.absolute()), "new_caches": new.name, "caches": caches.name}
    try:
        if path.suffix.lower() == ".blend" and caches.is_dir():
            shutil.copytree(caches, new, copy_function=_linked)
        found = ask_blender(find_blender(path.name), path.name, request | where)
        with _replaced(caches, new, old):
            os.replace(beside, path)
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise FormatError(f"{path.name}: cannot be written ({why})") from None
    finally:
        beside.unlink(missing_ok=True)
        shutil.rmtree(new, ignore_errors=True)
    return found


@contextmanager
def _replaced(folder: Path, new: Path, old: Path) -> Iterator[None]:
    """Give a new folder, if there is one, the place of another; back again where a step fails."""
    if not new.is_dir():
        yield
        return
    try:
        if folder.is_dir():
            os.rename(folder, old)
        os.rename(new, folder)
        yield
    except BaseException:
        if not new.exists():
            os.rename(folder, new)
        if old.exists():
            os.rename(old, folder)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _linked(file: str, new: str) -> None:
    """Give a file a second name, which is as good as a copy: caches are replaced, never changed."""
    try:
        os.link(file, new)
    except OSError:
        shutil.copy2(file, new)
