"""What each part of a reduced step takes and keeps (xu2016 Table 2)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.bench_motion import RATE, back_and_forth, motion_of

__all__ = ["part_megabytes", "part_times"]

WARM_UP = 60


class _Watch:
    """Seconds by part; wraps functions so that their calls are counted."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def watched(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = perf_counter()
            found = function(*arguments)
            self.seconds[part] += perf_counter() - began
            return found

        return call


class _WatchedPlacement:
    """A placement whose two halves are timed."""

    def __init__(self, watch: _Watch, placement: Any) -> None:
        self.place_tets = watch.watched("tet mesh fitting", placement.place_tets)
        self.place_surface = watch.watched("pose-space deformation", placement.place_surface)


def part_times(path: Path, steps: int) -> dict[str, float]:
    """Median milliseconds of the parts of a step; to be called in a process of its own.

    The step's own functions are timed where they are called. Forces are evaluated inside one
    compiled function with the solution: they are evaluated once more beside it, and what is left
    is the solution's.
    """
    from supple.dynamics import Simulator, stepper
    from supple.reduction.model import PoseSpaceModel

    model = PoseSpaceModel.load(path)
    poses, roots = back_and_forth(motion_of(model), steps + WARM_UP)
    watch, changed = _Watch(), vars(stepper)
    simulator = Simulator(model, 1 / RATE)
    own: Any = simulator._stepper
    own._placement = _WatchedPlacement(watch, own._placement)
    for name, part in (("prepare", "basis interpolation"), ("inertial_force", "inertial forces")):
        changed[name] = watch.watched(part, changed[name])
    changed["advance"] = _with_forces(watch, changed["advance"])
    simulator.reset(poses[0], roots[0])
    out, rows = simulator.surface(), []
    for pose, root in zip(poses, roots, strict=True):
        watch.seconds.clear()
        began = perf_counter()
        simulator.step(pose, root)
        stepped = perf_counter()
        simulator.surface(out)
        ended = perf_counter()
        rows.append(_parts(dict(watch.seconds), stepped - began, ended - stepped))
    kept = rows[WARM_UP:]
    return {part: 1e3 * float(np.median([row[part] for row in kept])) for part in kept[0]}


def _with_forces(watch: _Watch, advance: Callable[..., Any]) -> Callable[..., Any]:
    from supple.dynamics.reduced_elastic import add_elastic

    def call(*arguments: Any) -> Any:
        elastic, kind, points, blend, system, room = arguments[:6]
        q = arguments[8]
        began = perf_counter()
        system.stiffness[:] = 0
        system.force[:] = 0
        np.multiply(blend.stretch, q, out=system.z)
        add_elastic(
            elastic,
            kind,
            False,
            blend.weights,
            points,
            blend.frames,
            blend.basis,
            system.z,
            room,
            system.stiffness,
            system.force,
        )
        between = perf_counter()
        found = advance(*arguments)
        ended = perf_counter()
        watch.seconds["internal forces"] += between - began
        watch.seconds["integration"] += (ended - between) - (between - began)
        watch.seconds["twice"] += between - began
        return found

    return call


def _parts(seconds: dict[str, float], step: float, surface: float) -> dict[str, float]:
    """All of the step, each second once."""
    twice, skin = seconds.pop("twice"), seconds["pose-space deformation"]
    inside = sum(value for part, value in seconds.items() if part != "pose-space deformation")
    return seconds | {
        "surface displacement": surface - skin,
        "checks and calls": step - twice - inside,
        "whole step": step - twice + surface,
    }


def part_megabytes(model: Any) -> dict[str, float]:
    """What the parts keep: the model file's, and cubature's own arrays."""
    sizes = model.sizes()
    elastic = (model.elastic_tets, model.elastic_weights, model.stiffness_corrections)
    inertial = (model.inertial_vertices, model.inertial_weights, model.inertial_corrections)
    kept = {
        "pose-space deformation": sizes["rig"],
        "tet mesh fitting": sizes["tet rig"],
        "basis interpolation": sizes["bases"]
        + sizes.get("rotations", 0)
        + sizes.get("mass products", 0),
        "internal forces": sum(array.nbytes for array in elastic if array is not None),
        "inertial forces": sum(array.nbytes for array in inertial if array is not None),
        "integration": 0,
        "surface displacement": sizes["embedding"],
    }
    return {part: count / 1e6 for part, count in kept.items()}
