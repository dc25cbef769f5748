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

    Stages that a step takes in one compiled call are taken one by one here. Forces are evaluated
    in the same stage as the solution: they are evaluated once more beside it, and what is left is
    the solution's.
    """
    from supple.dynamics import Simulator, stepper
    from supple.reduction.model import PoseSpaceModel

    model = PoseSpaceModel.load(path)
    poses, roots = back_and_forth(motion_of(model), steps + WARM_UP)
    watch = _Watch()
    simulator = Simulator(model, 1 / RATE)
    own: Any = simulator._stepper
    own._placement = _WatchedPlacement(watch, own._placement)
    vars(stepper)["take_steps"] = _by_stages(watch, stepper.take_steps)
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


def _by_stages(watch: _Watch, take_steps: Callable[..., int]) -> Callable[..., int]:
    """`take_steps` with a clock between its stages."""
    from supple.dynamics.whole_step import ADVANCE, INERTIA, PREPARE, REMEMBER

    parts = {
        PREPARE: "basis interpolation",
        INERTIA: "inertial forces",
        ADVANCE: "integration",
        REMEMBER: "inertial forces",  # displacements from which the next step has its own
    }

    def call(stages: int, *arguments: Any) -> int:
        taken = 1
        for stage, part in parts.items():
            if stages & stage:
                forces = _force_seconds(*arguments) if stage == ADVANCE else 0.0
                began = perf_counter()
                taken = take_steps(stage, *arguments)
                watch.seconds[part] += perf_counter() - began - forces
                if stage == ADVANCE:
                    watch.seconds["internal forces"] += forces
                    watch.seconds["twice"] += forces
        return taken

    return call


def _force_seconds(
    first: int, _count: int, given: Any, tables: Any, _settings: Any, work: Any, states: Any
) -> float:
    """How long elastic forces and stiffness of a state take."""
    from supple.dynamics.reduced_elastic import add_elastic

    blend, system, room = work.content[:3]
    began = perf_counter()
    system.stiffness[:] = 0
    system.force[:] = 0
    np.multiply(blend.stretch, states.content.q[first], out=system.z)
    add_elastic(
        tables.content.elastic,
        tables.content.kind,
        False,
        blend.weights,
        given.content.points[0],
        blend.frames,
        blend.basis,
        system.z,
        room,
        system.stiffness,
        system.force,
    )
    return perf_counter() - began


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
