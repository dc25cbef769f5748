"""Words on the command line about a body model: a file for its motion, numbers for its shape."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from supple.errors import SuppleError

#: Endings of motions of body models.
MOTIONS = (".npz", ".pkl", ".smpl")
BetaWords = Annotated[
    str | None,
    Parameter(
        allow_leading_hyphen=True,
        help="Shape of a body model: numbers with commas, such as 1.5,-2, or motion for those of"
        " the motion's file; by default the average body.",
    ),
]


#: Name of an armature in a file that Blender reads.
ArmatureName = Annotated[
    str | None,
    Parameter(help="Character of a .blend or .fbx that has several: the name of its armature."),
]


def _names_file(word: str | None) -> bool:
    return word is not None and Path(word).suffix.lower() in MOTIONS


def motion_name(word: str | None) -> str | None:
    """Return the name of the motion that a word means: a file's is called as the file."""
    return Path(word).stem if word is not None and _names_file(word) else word


def body_options(
    motion: str | None, betas: str | None, armature: str | None = None
) -> dict[str, Any]:
    """Return options of `supple.load` for a body model, or one of several in a file of Blender's.

    >>> body_options("walk.npz", "1,-2")
    {'motion': 'walk.npz', 'betas': [1.0, -2.0]}
    """
    told: dict[str, Any] = {"motion": motion} if _names_file(motion) else {}
    if armature is not None:
        told["armature"] = armature
    if betas is None:
        return told
    if betas.strip() == "motion":
        return told | {"betas": "motion"}
    try:
        return told | {"betas": [float(word) for word in betas.replace(",", " ").split()]}
    except ValueError:
        raise SuppleError(f"--betas {betas[:40]}: use numbers with commas, or motion") from None
