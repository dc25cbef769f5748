"""Saving baked motions: the suffix says how."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import FormatError, SuppleError
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character

__all__ = ["SUFFIXES", "check_target", "save", "written_files"]

#: Module and function that write each kind of file, below this package.
WRITERS = {
    ".glb": ("gltf.write.gltf_bake", "write_gltf"),
    ".gltf": ("gltf.write.gltf_bake", "write_gltf"),
    ".usd": ("usd.write.usd_bake", "write_usd"),
    ".usda": ("usd.write.usd_bake", "write_usd"),
    ".usdc": ("usd.write.usd_bake", "write_usd"),
    ".usdz": ("usd.write.usd_bake", "write_usd"),
    ".pc2": ("caches.point_cache", "write_pc2"),
    ".mdd": ("caches.point_cache", "write_mdd"),
    ".npz": ("caches.point_cache", "write_npz"),
    ".abc": ("caches.alembic", "write_abc"),
}
SUFFIXES = tuple(WRITERS)
USD = (".usd", ".usda", ".usdc", ".usdz")
#: Those that write the mesh that fits beside them.
WITH_MESH = (".pc2", ".mdd")


def save(
    path: str | Path,
    baked: BakedMotion,
    *,
    error: float = 0.002,
    normals: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Save a baked motion in the format that the suffix names.

    Parameters
    ----------
    path
        ``.glb``, ``.gltf``: the character's own file with morph targets and their weights, or a
        new file if it came from another format. ``.usd``, ``.usda``, ``.usdc``, ``.usdz``: a layer
        over the character's own. ``.pc2``, ``.mdd``, ``.npz``, ``.abc``: positions of all vertices.
    baked
        What `supple.bake` gives.
    error
        How far any vertex may be from its simulated place, as part of the character's size, in
        formats that store shapes and weights.
    normals
        Whether shapes move normals, too.
    **options
        Of the format: see ``write_gltf``, ``write_usd``, ``write_pc2`` and so on.

    Returns
    -------
    dict
        Figures: ``n_shapes``, the ``error`` reached, ``bytes`` and more, as the format has them.

    Raises
    ------
    SuppleError
        For an unknown suffix or option, frames that are not finite, or a file that cannot be
        written; nothing is left behind.
    """
    path = Path(path)
    if not isinstance(baked, BakedMotion):
        raise SuppleError(f"{path.name}: a {type(baked).__name__} is no baked motion")
    writer = _writer(path, baked)
    _check(path, baked)
    known = {
        name
        for name, parameter in inspect.signature(writer).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for name in options:
        if name not in known:
            rest = ", ".join(sorted(known)) or "none"
            raise SuppleError(f'{path.name}: "{name}" is no option of this format; it has {rest}')
    given = {"error": error, "normals": normals, **options}
    result = writer(path, baked, **{name: v for name, v in given.items() if name in known})
    return {"path": str(path), **result}


def written_files(path: str | Path) -> list[Path]:
    """All files that saving to this one writes, itself first."""
    path = Path(path)
    if path.suffix.lower() not in WITH_MESH:
        return [path]
    from supple.formats.caches.point_cache import mesh_beside

    return [path, mesh_beside(path)]


def check_target(path: str | Path, character: Character) -> None:
    """Refuse a target that cannot be written to, or that the character's own file needs.

    To be asked before a motion is simulated; `save` finds the same later.

    Raises
    ------
    SuppleError
        In a line.
    """
    path = Path(path)
    for file in written_files(path):
        if file.exists() and not file.is_file():
            raise FormatError(f"{file.name}: cannot be written to {file.parent}; it is no file")
    if path.suffix.lower() in USD:
        from supple.formats.usd.read.usd import UsdSource
        from supple.formats.usd.write.plan import check_usd_target

        if isinstance(character.source, UsdSource):
            check_usd_target(path, character.source.path)


def _writer(path: Path, baked: BakedMotion) -> Callable[..., dict[str, Any]]:
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        listed = ", ".join(SUFFIXES)
        raise FormatError(f'{path.name}: cannot save a motion as "{suffix}"; use one of {listed}')
    module, function = WRITERS[suffix]
    if module == "gltf.write.gltf_bake":
        from supple.formats.gltf.read.gltf import GltfSource

        if not isinstance(baked.character.source, GltfSource):
            module, function = "gltf.write.gltf_new", "write_new_gltf"
    found: Callable[..., dict[str, Any]] = getattr(
        import_module(f"supple.formats.{module}"), function
    )
    return found


def _check(path: Path, baked: BakedMotion) -> None:
    frames, count = np.asarray(baked.frames), baked.motion.n_frames
    expected = (count, len(baked.character.surface.vertices), 3)
    if frames.shape != expected:
        raise SuppleError(f"{path.name}: frames of shape {frames.shape}; expected {expected}")
    for number, frame in enumerate(frames):
        if not np.isfinite(frame).all():
            raise SuppleError(
                f"{path.name}: frame {number} at {baked.times[number]:.3f} s is not finite; the"
                f" simulation failed there, try stiffer flesh"
            )
    if not path.parent.is_dir():
        raise FormatError(f"{path.name}: there is no folder {path.parent}; make it first")
