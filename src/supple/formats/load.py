"""Characters of any format: the suffix says which."""

from __future__ import annotations

from pathlib import Path

from supple.errors import FormatError
from supple.formats.registry import CHARACTERS, imported
from supple.rig.character import Character

__all__ = ["load"]


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
    row = CHARACTERS.find(path)
    if row is None:
        known = ", ".join(CHARACTERS.suffixes())
        raise FormatError(
            f'{path.name}: "{path.suffix}" files are no characters; use one of {known}'
        )
    character: Character = imported(row.reader)(path)
    return character
