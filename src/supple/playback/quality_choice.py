"""Choice between the full and the reduced simulation, by their expected times.

The times are for one core of a desktop computer of 2024; only their ratio matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
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
#: Seconds per tet of a Newton iteration of the unreduced one.
_ITERATION = 1e-6
#: Seconds of reading and writing.
_FILES = 1.0
#: Cycles until a loop closes.
_CYCLES = 3
#: The full simulation is used if it takes at most this many times as long as the live one.
LONGER = 2.0
#: Reason of live quality with a swing.
SEARCHED = "the stiffness for the swing is found with the reduced model"


class QualityChoice(NamedTuple):
    """Quality of a bake, "live" or "final", and the reason in words.

    `most_work` is the number of Newton iterations per step of the motion at which the full
    simulation takes `LONGER` times as long as the live one; 0 if clips are never baked live.
    """

    quality: str
    reason: str
    most_work: float = 0.0


def choose_quality(
    live: Engine,
    plans: Sequence[BakePlan],
    building: Mapping[str, Any],
    simulation: Mapping[str, Any],
    *,
    given: bool,
    kept: bool,
) -> QualityChoice:
    """Choose the full simulation where it takes at most about twice as long as a live bake.

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
    if live.unreduced == live.name:
        return QualityChoice("live", 'steps are not divided; quality "final" divides them')
    if not live.unreduced:
        return QualityChoice("live", f"{live.name} has no other simulation")
    if choice := unreduced_choice(live, simulation):
        return choice
    if given:
        return QualityChoice("live", "its model is given")
    try:
        check_unreduced(live, "final", building, simulation)
    except SuppleError:
        return QualityChoice("live", "the full simulation lacks some of the options")
    tets = building.get("tets", live.bake_options.get("tets", TETS))
    if isinstance(tets, TetMesh):
        count = float(len(tets.tets))
    else:  # an invalid number is refused by the builder
        count = float(tets if isinstance(tets, Integral) else TETS)
    steps = _steps(plans, live.unreduced)
    final = _FILES + count * (_FINAL_BUILD + _FINAL_STEP * steps)
    build = 0.0 if kept else _LIVE_BUILD * count
    reduced = _FILES + _LIVE_STEP * _steps(plans, live.name) + build
    times = f"about {final:.0f} s, the reduced one {reduced:.0f} s"
    model = " with the model kept from before" if kept else " with its build"
    reason = f"the full simulation takes {times}{model}"
    most_work = LONGER * reduced / max(count * _ITERATION * steps, 1e-9)
    return QualityChoice("final" if final <= LONGER * reduced else "live", reason, most_work)


def unreduced_choice(live: Engine, simulation: Mapping[str, Any]) -> QualityChoice | None:
    """Return the choice of the full simulation for options that no other has; None without one."""
    if live.unreduced in ("", live.name):
        return None
    unreduced = engine_named(live.unreduced)
    names = [
        name
        for name in simulation
        if name in unreduced.step_options and name not in live.step_options
    ]
    if not names:
        return None
    are = "is an option" if len(names) == 1 else "are options"
    return QualityChoice("final", f"{', '.join(names)} {are} of the full simulation only")


def _steps(plans: Sequence[BakePlan], engine: str) -> float:
    """Return the number of steps of all plans with an engine."""
    stepped = [plan.stepped_by(engine) for plan in plans]
    return sum((p.end - p.start) / p.dt * (_CYCLES if p.loop else 1) for p in stepped)
