"""Qualities of a bake: as it is seen live, or of the engine's unreduced form."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from supple.engines.engine import ENGINES, Engine, engine_named
from supple.errors import SuppleError

QUALITIES = ("live", "final")


def played_engine(row: Engine, quality: str) -> Engine:
    """Return the engine that plays a quality: for ``"final"`` the unreduced form of another."""
    if quality not in QUALITIES:
        near = get_close_matches(str(quality), QUALITIES, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"use {' or '.join(QUALITIES)}"
        raise SuppleError(f'no quality "{quality}"; {hint}')
    if quality == "live":
        return row
    if not row.unreduced:
        having = " or ".join(each.name for each in ENGINES.values() if each.unreduced)
        raise SuppleError(f"{row.name} has no unreduced form to play as final; {having} has")
    return engine_named(row.unreduced)


def check_unreduced(
    live: Engine, quality: str, building: Mapping[str, Any], simulation: Mapping[str, Any]
) -> None:
    """Refuse options of an engine that a quality has not."""
    if quality == "live":
        return
    row = played_engine(live, quality)
    reduced = {*live.build_options} - {*row.build_options}
    if told := [name for name in building if name in reduced]:
        raise SuppleError(f"final reduces nothing; leave out {', '.join(told)}")
    if "substeps" in simulation:
        raise SuppleError("final cuts steps until that changes little; leave out substeps")
    live_only = {*live.step_options} - {*row.step_options, "stiffness"}
    if told := [name for name in simulation if name in live_only]:
        raise SuppleError(f"final knows no {', '.join(told)}; leave out, or use live")
