"""Reading characters, whatever they come in."""

from __future__ import annotations

from pathlib import Path

from supple.errors import FormatError
from supple.rig.character import Character

__all__ = ["load"]

GLTF = (".glb", ".gltf")
USD = (".usd", ".usda", ".usdc", ".usdz")


def load(path: str | Path) -> Character:
    """Read a rigged character.

    Parameters
    ----------
    path : str or Path
        A glTF file (``.glb``, ``.gltf``), or USD (``.usd``, ``.usda``, ``.usdc``, ``.usdz``;
        needs the extra ``supple[usd]``).

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
        from supple.formats.gltf import load_gltf

        return load_gltf(path)
    if suffix in USD:
        from supple.formats.usd import load_usd

        return load_usd(path)
    known = ", ".join((*GLTF, *USD))
    raise FormatError(f'{path.name}: "{path.suffix}" files are no characters; use one of {known}')
