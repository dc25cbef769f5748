"""Characters of any format: the suffix says which."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from supple.errors import FormatError
from supple.formats.length_units import checked_metres
from supple.formats.registry import CHARACTERS, imported
from supple.rig.character import Character

_NONE = inspect.Parameter("none", inspect.Parameter.POSITIONAL_ONLY)


def load(
    path: str | Path,
    *,
    metres_per_unit: float | None = None,
    curves: bool = True,
    flesh: bool = False,
    **options: Any,
) -> Character:
    """Read a rigged character.

    Parameters
    ----------
    path : str or Path
        A glTF file (``.glb``, ``.gltf``, ``.vrm``), or a file that Blender reads (``.blend``,
        ``.fbx``; see ``supple blender``), or USD (``.usd``, ``.usda``, ``.usdc``, ``.usdz``;
        needs the extra ``supple[usd]``), or the ``.json`` of an example of Complementary
        Dynamics (``elephant.json``) or Fast Complementary Dynamics (``skeleton_rig.json``, with
        motions beside it or in ``anim/``), or a body model (``.npz``, ``.pkl``) in the layout of
        SMPL, SMPL-H, SMPL-X or MANO.
    metres_per_unit : float, optional
        Length of the file's unit, in place of what the file says: 0.01 for centimetres. What is
        saved into the file again keeps the file's unit.
    curves : bool
        Whether curves that Supple has added to a file (`supple.curves`) are in it; without, it is
        as it was before, so that they can be made anew.
    flesh : bool
        Whether flesh that Supple has baked into a file (`supple.save`) is in it, as blend shapes;
        by default it is taken off, so that it can be baked anew, and a warning says so.
    **options
        Of files that Blender reads: `armature`, a name where there are several. Of body models:
        `motion`, a file of AMASS or a hand's clip; `betas`, `expression`, and others of
        `supple.formats.smpl.load_body.load_body`.

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
    reader = imported(row.reader)
    taken = inspect.signature(reader).parameters
    told: dict[str, Any] = {}
    if metres_per_unit is not None:
        told["metres_per_unit"] = checked_metres(metres_per_unit)
    if told and "metres_per_unit" not in taken:
        raise FormatError(f"{path.name}: {row.name} files are read in their own unit")
    if not curves and "curves" in taken:
        told["curves"] = False
    if flesh and "flesh" in taken:
        told["flesh"] = True
    unknown = [name for name in options if taken.get(name, _NONE).kind is not _NONE.KEYWORD_ONLY]
    if unknown:
        raise FormatError(f'{path.name}: {row.name} files take no "{unknown[0]}"')
    character: Character = reader(path, **told, **options)
    return character
