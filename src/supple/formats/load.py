"""Reading characters of any format; the suffix selects the reader."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from supple.errors import FormatError
from supple.formats.length_units import checked_metres
from supple.formats.registry import CHARACTERS, imported
from supple.rig.character import Character


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
        Length of the file's unit, if the file's value is wrong or missing: 0.01 for centimetres.
        Saving into the file keeps its unit.
    curves : bool
        Whether to keep curves that Supple has added to the file (`supple.curves`). False restores
        the original, so that curves can be computed again.
    flesh : bool
        Whether to keep flesh that Supple has baked into the file (`supple.save`), as blend shapes.
        By default it is removed with a warning, so that it can be baked again.
    **options
        For files that Blender reads: `armature`, the name of one of several. For body models:
        `motion`, a file of AMASS or a clip of a hand; `betas`, `expression`, and other options of
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
    row = CHARACTERS.required(path, "read characters from")
    reader = imported(row.reader)
    parameters = inspect.signature(reader).parameters
    for name in options:
        if name not in parameters or parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY:
            raise FormatError(f'{path.name}: {row.name} files have no option "{name}"')
    if metres_per_unit is not None:
        options["metres_per_unit"] = checked_metres(metres_per_unit)
        if "metres_per_unit" not in parameters:
            what = f"{row.name} files define their unit"
            raise FormatError(f"{path.name}: {what}; omit metres_per_unit")
    additions = {"curves": curves, "flesh": flesh}
    options |= {name: value for name, value in additions.items() if name in parameters}
    character: Character = reader(path, **options)
    return character
