"""Reading characters, whatever they come in."""

from __future__ import annotations

from pathlib import Path

from supple.errors import FormatError
from supple.rig.character import Character

__all__ = ["load"]

GLTF = (".glb", ".gltf")
USD = (".usd", ".usda", ".usdc", ".usdz")
JSON = (".json",)


def load(path: str | Path) -> Character:
    """Read a rigged character.

    Parameters
    ----------
    path : str or Path
        A glTF file (``.glb``, ``.gltf``), or USD (``.usd``, ``.usda``, ``.usdc``, ``.usdz``;
        needs the extra ``supple[usd]``), or the ``.json`` of an example of Complementary
        Dynamics (``elephant.json``) or Fast Complementary Dynamics (``skeleton_rig.json``, with
        motions beside it or in ``anim/``).

    Returns
    -------
    Character

    Raises
    ------
    SuppleError
        When the file cannot be read; the message begins with its name.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in GLTF:
        from supple.formats.gltf.read.gltf import load_gltf

        return load_gltf(path)
    if suffix in USD:
        from supple.formats.usd.read.usd import load_usd

        return load_usd(path)
    if suffix in JSON:
        return _load_json(path)
    known = ", ".join((*GLTF, *USD, *JSON))
    raise FormatError(f'{path.name}: "{path.suffix}" files are no characters; use one of {known}')


def _load_json(path: Path) -> Character:
    """JSON says by its keys what it is."""
    from supple.formats.research.complementary import read_complementary
    from supple.formats.research.fast_cd import read_fast_cd, read_json

    content = read_json(path)
    keys = content.keys() if isinstance(content, dict) else frozenset()
    if "mesh_file" in keys:
        return read_complementary(path).character
    if "p0" in keys:
        return read_fast_cd(path, content)
    if "P" in keys:
        raise FormatError(f"{path.name}: is a motion; load the skeleton_rig.json it belongs to")
    raise FormatError(
        f"{path.name}: is JSON, but no character: neither mesh_file nor p0 is in it;"
        f" glTF's JSON ends in .gltf"
    )
