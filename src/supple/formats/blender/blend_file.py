"""Characters from .blend and .fbx files, and baked motions back into them.

Blender samples the character of a file into a binary glTF, which is read as usual. Baked shapes and
weights in that glTF become shape keys in a copy of the file, made by the add-on in Blender.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supple.errors import FormatError, warn
from supple.formats.blender.blender_process import ask_blender, find_blender
from supple.formats.file_bytes import read_bytes
from supple.formats.gltf.read.gltf import GltfSource, read_gltf
from supple.formats.gltf.write.animation_curves import write_gltf_curves
from supple.formats.gltf.write.gltf_motion import write_gltf
from supple.formats.registry import BLENDER_SUFFIXES
from supple.maths.key_reduction import KeyKind
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.free_curves import FreeCurves

#: First bytes of .blend files, plain and compressed.
BLEND = (b"BLENDER", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
FBX = b"Kaydara FBX Binary"


@dataclass(frozen=True, eq=False)
class BlendSource(GltfSource):
    """Origin in a .blend or .fbx file: `sample` has the bytes of the glTF file that Blender
    sampled, `armature` the character's armature in Blender, and `digest` the hash of the file.
    """

    sample: bytes = b""
    armature: str = ""
    frame_rate: float = 24.0
    digest: str = ""

    def read(self) -> bytes:
        """Return the bytes of the sampled character; FormatError if the file has changed."""
        if _digest(read_bytes(self.path, BLENDER_SUFFIXES)) != self.digest:
            raise FormatError(f"{self.path.name}: has changed since it was loaded; load it again")
        return self.sample


def load_blend(
    path: str | Path,
    metres_per_unit: float | None = None,
    *,
    armature: str | None = None,
    curves: bool = True,
) -> Character:
    """Read all visible meshes of an armature and its actions (or the scene's frames) through
    Blender.

    `armature` is needed if the file has several; without `curves`, layers of curves are muted.
    Nothing in the file is executed. Raises SuppleError if Blender is not found or cannot read the
    file.
    """
    path = Path(path)
    data = read_bytes(path, BLENDER_SUFFIXES)
    _check_kind(path, data)
    blender = find_blender(path.name)
    with tempfile.TemporaryDirectory(prefix="supple-sample-") as folder:
        sampled = Path(folder) / "sample.glb"
        request: dict[str, Any] = {"action": "sample", "path": str(path.absolute())}
        request |= {"armature": armature, "with_curves": curves}
        answer = ask_blender(blender, path.name, request | {"sample": str(sampled)})
        sample = sampled.read_bytes()
    if metres_per_unit is None and abs(answer["unit"] - 1) > 1e-6:
        metres_per_unit = float(answer["unit"])
    character = read_gltf(path, sample, metres_per_unit)
    source = BlendSource(
        **vars(character.source),
        sample=sample,
        armature=answer["armature"],
        frame_rate=answer["rate"],
        digest=_digest(data),
    )
    return replace(character, source=source)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data).hexdigest()


def _check_kind(path: Path, data: bytes) -> None:
    """Raise FormatError for files that Blender would reject."""
    if path.suffix.lower() == ".blend":
        if not data.startswith(BLEND):
            raise FormatError(f"{path.name}: is not a .blend file, despite its suffix")
    elif not data.startswith(FBX):
        text = b"\0" not in data[:1000]
        what = "is a text FBX, which Blender cannot read" if text else "is not an FBX file"
        raise FormatError(f"{path.name}: {what}; save it as binary FBX")


def check_blend_target(path: Path, character: Character, motions: Sequence[str] = ()) -> None:
    """Raise FormatError for characters from other formats, and for motions that are not clips."""
    source = character.source
    if not isinstance(source, BlendSource):
        suffixes = " and ".join(BLENDER_SUFFIXES)
        raise FormatError(
            f"{path.name}: only characters from {suffixes} can be saved there; use .glb"
        )
    if not source.clips:
        what = f"{source.path.name} has no action to add the flesh to"
        raise FormatError(f"{path.name}: {what}; add one, or save as .glb")
    unknown = next((name for name in motions if name not in source.clips), None)
    if unknown is not None:
        what = f'{source.path.name} has no clip "{unknown}"'
        raise FormatError(f"{path.name}: {what}; save as .glb")


def write_blend(
    path: str | Path, baked: BakedMotion | Sequence[BakedMotion], *, error: float = 0.002
) -> dict[str, Any]:
    """Write baked motions, each a clip of the file, into a copy of their .blend or .fbx file.

    A ``.blend`` gets shape keys and an NLA track per clip, or point caches beside it for meshes
    that cannot have keys; an ``.fbx`` a take per action, with animated shapes. `error` is the
    largest distance of any vertex from its simulated position, as a fraction of the size. Returns
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
                f'{path.name}: "{names[0]}" differs from the clip of that name; save it as .glb'
            )
        request = {
            "action": "write",
            "path": str(source.path.absolute()),
            "armature": source.armature,
            "flesh": str(flesh),
            "clips": names,
            "loop": any(each.loop for each in bakes),
        }
        answer = _written(path, request)
    if answer["lost"]:
        listed = ", ".join(f'"{name}"' for name in answer["lost"][:4])
        listed += " …" if answer["lost"][4:] else ""
        what = f"modifiers of {listed} are missing, as an .fbx has either shapes or modifiers"
        warn(f"{path.name}: {what}; apply them first, or save as .blend")
    return {**figures, "added": answer["added"], "bytes": path.stat().st_size}


def write_blend_curves(
    path: str | Path,
    curves: FreeCurves,
    *,
    keys: KeyKind | None = None,
    error: float | None = None,
) -> dict[str, Any]:
    """Write curves of a clip into a copy of its .blend or .fbx file.

    A ``.blend`` gets a layer above the clip's action, with the keys `keys` and `error` as for
    glTF; an ``.fbx``, which has no layers, a key at every frame of the clip's actions. Returns the
    results of `write_gltf_curves`, and ``added``, the number of channels in Blender.
    """
    path = Path(path)
    check_blend_target(path, curves.character, [curves.name])
    source: BlendSource = curves.character.source
    with tempfile.TemporaryDirectory(prefix="supple-curves-") as folder:
        layer = Path(folder) / "curves.glb"
        figures = write_gltf_curves(layer, curves, keys=keys, error=error, additive=True)
        request = {
            "action": "curves",
            "path": str(source.path.absolute()),
            "armature": source.armature,
            "curves": str(layer),
            "clip": curves.name,
        }
        answer = _written(path, request)
    figures |= {"animation": curves.name, "new": False, "added": answer["added"]}
    return {**figures, "bytes": path.stat().st_size}


def remove_blend_curves(path: Path, source: Path) -> dict[str, Any]:
    """Remove layers of curves from a .blend file; FormatError if it has none, and for .fbx."""
    if path.suffix.lower() != source.suffix.lower():
        raise FormatError(f"{path.name}: curves are removed into a {source.suffix} file")
    if source.suffix.lower() != ".blend":
        raise FormatError(
            f"{source.name}: curves in an .fbx are ordinary keys; the file that they were made from"
            " is unchanged"
        )
    _check_kind(source, read_bytes(source, BLENDER_SUFFIXES))
    request = {"action": "no_curves", "path": str(source.absolute()), "armature": None}
    answer = _written(path, request)
    return {"removed": answer["removed"], "bytes": path.stat().st_size}


def _written(path: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Let Blender write a file and its point caches, then replace both old files, or neither.

    Caches of other clips are kept, since the source may be the file itself.
    """
    mark = f".{secrets.token_hex(8)}"
    new_file = path.parent / f"{mark}{path.suffix.lower()}"
    caches = path.parent / f"{path.stem}_supple"
    new_caches, old_caches = (path.parent / f"{mark}_{what}supple" for what in ("", "old_"))
    paths = {"new_caches": new_caches.name, "caches": caches.name}
    request = {**request, **paths, "target": str(new_file.absolute())}
    try:
        if path.suffix.lower() == ".blend" and caches.is_dir():
            shutil.copytree(caches, new_caches, copy_function=_linked)
        answer = ask_blender(find_blender(path.name), path.name, request)
        with _replaced(caches, new_caches, old_caches):
            os.replace(new_file, path)
    except OSError as problem:
        why = (problem.strerror or str(problem)).lower()
        raise FormatError(f"{path.name}: cannot be written ({why})") from None
    finally:
        new_file.unlink(missing_ok=True)
        shutil.rmtree(new_caches, ignore_errors=True)
    return answer


@contextmanager
def _replaced(folder: Path, new: Path, old: Path) -> Iterator[None]:
    """Replace `folder` by `new`, if that exists; restore both if the context fails."""
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
    """Create a hard link in place of a copy: caches are replaced, never changed."""
    try:
        os.link(file, new)
    except OSError:
        shutil.copy2(file, new)
