"""Units of length: metres per unit, by symbol or number.

>>> metres_in("cm"), metres_in("0.3"), unit_name(0.0254)
(0.01, 0.3, 'inches')
"""

from __future__ import annotations

from typing import Any

from supple.checks import checked_number, shown
from supple.errors import SuppleError

#: Metres per unit and the unit's name, by its symbol.
UNITS = {
    "m": (1.0, "metres"),
    "cm": (0.01, "centimetres"),
    "mm": (0.001, "millimetres"),
    "in": (0.0254, "inches"),
    "ft": (0.3048, "feet"),
}
#: Limits of metres per unit; beyond them, lengths of a body overflow or vanish.
SHORTEST, LONGEST = 1e-9, 1e9


def metres_in(word: str) -> float:
    """Return metres per unit, from a symbol or a number of metres."""
    unit = UNITS.get(word.strip().lower())
    if unit is not None:
        return unit[0]
    try:
        metres = float(word)
    except ValueError:
        metres = 0.0
    if not SHORTEST <= metres <= LONGEST:
        listed = ", ".join(UNITS)
        raise SuppleError(f"--unit {shown(word, 30)}: use {listed}, or a number of metres per unit")
    return metres


def checked_metres(value: Any) -> float:
    """Return metres per unit; SuppleError if out of range."""
    metres = checked_number("metres_per_unit", value)
    if not SHORTEST <= metres <= LONGEST:
        raise SuppleError(f"metres_per_unit is {metres:g}; use {SHORTEST:g} to {LONGEST:g}")
    return metres


def unit_name(metres: float) -> str:
    """Return the unit's name, or the number of metres per unit."""
    return next((name for each, name in UNITS.values() if each == metres), f"{metres:g} m each")
