"""Goals of a swing: largest displacements of parts of the flesh, given by region."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.anatomy.named_parts import ALL, SkinPart, SkinParts, short_name
from supple.checks import shown
from supple.errors import SuppleError
from supple.rig.character import Character

#: Peaks by region, a number, or words such as ``"3%"`` and ``"belly=4cm"``.
Swing = Mapping[str, Any] | Sequence[Any] | str | float
#: Limits of a peak, relative to the size; simulators cut displacements at 0.3.
LEAST, MOST = 1e-5, 0.3
#: Largest factors on the stiffness, up or down: of all flesh, and of a region.
MOST_STIFFNESS, MOST_LOCAL = 64.0, 16.0
#: Metres by unit; a number without a unit is a fraction of the size.
UNITS = {"mm": 0.001, "cm": 0.01, "m": 1.0, "in": 0.0254, "ft": 0.3048}


@dataclass(frozen=True, eq=False)
class SwingGoal(SkinPart):
    """Largest distance of a part of the skin from the rig.

    Attributes
    ----------
    length
        Distance in m.
    """

    length: float

    @property
    def most(self) -> float:
        """Largest factor on the stiffness, up or down."""
        return MOST_STIFFNESS if self.weights is None else MOST_LOCAL


def swing_goals(character: Character, swing: Swing) -> tuple[SwingGoal, ...]:
    """Return the goals of a swing; the one for all skin leaves out regions with others.

    Parameters
    ----------
    character
        The character.
    swing
        A peak for all flesh, ``{"belly": "4cm", "Tail*": 0.1}``, or words ``["3%", "belly=4cm"]``.
        Numbers without a unit are fractions of the size. Regions are joints with wildcards, roles
        of the anatomy such as ``"tail"``, ``"belly"`` or ``"back"``, meshes, materials or painted
        maps.
    """
    size, lengths = character.surface.size, _by_region(swing)
    goals: list[SwingGoal] = []
    names = SkinParts(character, "swing")
    rest = np.ones(len(character.surface.vertices), bool)
    for region, value in lengths.items():
        if region != ALL:
            mask, weights = names.part(region)
            goals.append(SwingGoal(region, mask, weights, _length(region, value, size)))
            rest &= ~mask
    if ALL in lengths:
        if not rest.any():
            raise SuppleError(
                "swing: the regions cover all of the skin; leave out the peak of the whole skin"
            )
        goals.append(SwingGoal(ALL, rest, None, _length(ALL, lengths[ALL], size)))
    return tuple(goals)


def _by_region(swing: Swing) -> dict[str, Any]:
    """Return lengths by region."""
    if isinstance(swing, Mapping):
        lengths = {str(region): value for region, value in swing.items()}
    else:
        values = list(swing) if isinstance(swing, list | tuple) else [swing]
        lengths = {}
        for word in values:
            region, _, value = word.rpartition("=") if isinstance(word, str) else (ALL, "", word)
            lengths[region.strip() or ALL] = value
    lengths = {ALL if name.lower() == ALL else name: value for name, value in lengths.items()}
    if not lengths:
        raise SuppleError('swing needs a peak such as 3%, or peaks by region such as "belly=4cm"')
    return lengths


def _length(region: str, value: Any, size: float) -> float:
    """Return a peak in m, from a number or text with a unit."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e-?\d+)?)\s*(%|[a-z]*)\s*", str(value).lower())
    number, unit = match.groups() if match is not None else ("", "")
    try:
        metres = float(number) * {"": size, "%": size / 100, **UNITS}[unit]
    except (ValueError, KeyError):
        units = ", ".join(UNITS)
        raise SuppleError(
            f"swing of {short_name(region)} is {shown(value, 30)}; use a fraction of the size such "
            f"as 3% or 0.03, or a length in {units}, such as 4cm"
        ) from None
    if not LEAST * size <= metres <= MOST * size:
        raise SuppleError(
            f"swing of {short_name(region)} is {100 * metres / size:.3g} % of the size; use "
            f"{100 * LEAST:g} to {100 * MOST:g} %"
        )
    return metres
