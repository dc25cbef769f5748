"""Choice between the full simulation and the reduced one, by their expected times.

The times are those of one core of a desktop computer of 2024; only their ratio matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from supple.engines.engine import Engine, engine_named
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.playback.bake_model import TETS
from supple.playback.bake_plan import BakePlan, check_unreduced

#: Seconds per tet of building a reduced model, and of building the unreduced one.
_LIVE_BUILD, _FINAL_BUILD = 3e-3, 6e-4
#: Seconds of a reduced step, and per tet of an unreduced one with all attempts at its sub-steps.
_LIVE_STEP, _FINAL_STEP = 1e-3, 13e-6
#: Seconds of reading and writing.
_FILES = 1.0
#: Undivided steps per second of motion, and cycles until a loop closes.
_STEPS, _CYCLES = 90.0, 3
#: Tets that fill a character, relative to the option.
_FILLED = 0.8
#: The full simulation is used if it takes at most this many times as long as the live one.
LONGER = 2.0


class QualityChoice(NamedTuple):
    """Quality of a bake, "live" or "final", and the reason in words."""

    quality: str
    reason: str


def choose_quality(
    live: Engine,
    plans: Sequence[BakePlan],
    building: Mapping[str, Any],
    simulation: Mapping[str, Any],
    *,
    given: bool,
    kept: bool,
) -> QualityChoice:
    """Choose the full simulation where it takes at most about twice as long as the live one.

    Parameters
    ----------
    live
        Engine of live quality.
    plans
        Plans of all motions that are baked with one model.
    building, simulation
        Options of the builder and of the simulator.
    given
        Whether a model or a scene is given, whose reduced model is then used.
    kept
        Whether the reduced model is cached.
    """
    if not live.unreduced:
        return QualityChoice("live", f"{live.name} has no full simulation")
    if given:
        return QualityChoice("live", "its model is given")
    try:
        check_unreduced(live, "final", building, simulation)
    except SuppleError:
        return QualityChoice("live", "the full simulation lacks some of the options")
    tets = building.get("tets", engine_named(live.name).bake_options.get("tets", TETS))
    count = len(tets.tets) if isinstance(tets, TetMesh) else _FILLED * float(tets)
    seconds = sum((plan.end - plan.start) * (_CYCLES if plan.loop else 1) for plan in plans)
    final = _FILES + count * (_FINAL_BUILD + _FINAL_STEP * _STEPS * seconds)
    reduced = _FILES + _LIVE_STEP * 2 * _STEPS * seconds + (0.0 if kept else _LIVE_BUILD * count)
    times = f"about {final:.0f} s, the reduced one {reduced:.0f} s"
    model = " with the model kept from before" if kept else " with its build"
    reason = f"the full simulation takes {times}{model}"
    return QualityChoice("final" if final <= LONGER * reduced else "live", reason)
