"""Readings of an engine at the frames of a motion: forces, pressures, torques."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.engines.engine import StepState
from supple.engines.optional_parts import SoftContact


def frame_readings(simulator: Any, state: StepState | None, moved: Floats) -> dict[str, Any]:
    """Return what a step reports, and each contact where the engine has them.

    Parameters
    ----------
    simulator, state
        Of the step; no readings where there is no state.
    moved
        (4, 4) from the clip's place to the simulator's: what is returned is where the clip is.

    Returns
    -------
    dict
        As `StepState.readings` has it, with ``"torques"`` by bone, and of a `SoftContact` also
        ``"touching"``: vertices ``points`` (c,), ``places`` (c, 3), ``forces`` (c, 3) in N,
        ``pressures`` (c,) in Pa, and ``things``, names of what each touches.
    """
    if state is None:
        return {}
    found = {name: _turned(value, moved[:3, :3]) for name, value in state.readings.items()}
    if isinstance(simulator, SoftContact):
        names = simulator.model.bones
        found["torques"] = dict(zip(names, found.get("torques", ()), strict=False))
        contacts, things = simulator.contacts(), simulator.colliders
        found["touching"] = {
            "points": contacts.points.copy(),
            "places": (contacts.places - moved[:3, 3]) @ moved[:3, :3],
            "forces": contacts.forces @ moved[:3, :3],
            "pressures": contacts.pressures.copy(),
            "things": tuple(things[thing] for thing in contacts.colliders),
        }
    return found


def _turned(value: Any, turn: Floats) -> Any:
    """Return directions (…, 3) as they are before a turn, others as they are; all copied."""
    if isinstance(value, Mapping):
        return {name: _turned(each, turn) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return value @ turn if value.shape[-1:] == (3,) else value.copy()
    return value
