"""`supple bench --steady N`: late steps, compared with a loop of arithmetic.

After each step a loop without memory accesses runs as long. The loop is late only if the machine
interrupts the process. Late steps beyond these, garbage collections, page faults and memory that
Python allocates are caused by the step.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from supple.arrays import Bools, Floats
from supple.compiled.jit import compiled_brief
from supple.engines.engine import FIRST_ENGINE, engine_named
from supple.lab.bench.case_runner import Cells, check_between, print_columns
from supple.lab.bench.step_bench import measure_models
from supple.lab.bench.timing import RATE, WARM_UP, back_and_forth, motion_of, timed
from supple.playback.character_sources import load_character_model

#: A late step takes longer than this many medians.
LATE = 2.0
#: Iterations of the loop that is timed to find its length.
CALIBRATED = 10_000
#: Maximum numbers of steps of a run, and of poses, which repeat.
MOST_STEPS, MOST_POSES = 10_000_000, 5_000


def measure(
    scenes: Sequence[str] = (),
    *,
    engine: str = FIRST_ENGINE,
    model: Path | None = None,
    steps: int = 100_000,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Return a row for each scene, or for a model file; see `step_bench.measure`."""
    check_between(steps, 100, MOST_STEPS, "steps")
    engine_named(engine, "character")
    return measure_models(scenes, engine, model, steadiness, arguments=(engine, steps), quiet=quiet)


@compiled_brief
def _arithmetic(times: int, value: float) -> float:
    for _ in range(times):
        value = value * value - 1.9  # without a closed form that a compiler could use
    return value


def steadiness(path: Path, engine: str, steps: int) -> dict[str, Any]:
    """Return numbers of late steps and their causes; called in a separate process."""
    if hasattr(os, "sched_setaffinity"):  # steps and loops on the same core
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model = load_character_model(path)
    simulator: Any = engine_named(engine).simulate(model, 1 / RATE)
    poses, roots = back_and_forth(motion_of(model), min(steps + WARM_UP, MOST_POSES))
    simulator.reset(poses[0], roots[0])
    out = np.array(simulator.surface())
    # Arrays are written first, so that no page faults occur later.
    seconds, cpu, switched = np.ones((2, steps)), np.ones((2, steps)), np.ones(steps + 1)
    step_seconds = _warm_up(simulator, poses, roots, out)
    _arithmetic(10, 0.5)
    quickest = min(timed(lambda: _arithmetic(CALIBRATED, 0.5)) for _ in range(50))
    times = int(CALIBRATED * step_seconds / quickest) + 1
    faults, switches = _page_faults()
    switched[0] = switches or 0
    blocks, collections = sys.getallocatedblocks(), _collections()
    for k in range(steps):
        at = k % len(poses)
        pose, root = poses[at], roots[at]
        used, began = thread_time(), perf_counter()
        simulator.step(pose, root)
        simulator.surface(out)
        ended, between = perf_counter(), thread_time()
        _arithmetic(times, 0.5)
        seconds[0, k], seconds[1, k] = ended - began, perf_counter() - ended
        cpu[0, k], cpu[1, k] = between - used, thread_time() - between
        switched[k + 1] = _page_faults()[1] or 0
    collections, blocks = _collections() - collections, sys.getallocatedblocks() - blocks
    faults_after, switches_after = _page_faults()
    # After an interruption the caches are cold, and the next step is slow, too.
    undisturbed = np.diff(switched) == 0
    undisturbed[1:] &= undisturbed[:-1].copy()
    return {
        "scene": model.name,
        "engine": engine,
        "steps": steps,
        "step": _unevenness(seconds[0], cpu[0], undisturbed),
        "loop": _unevenness(seconds[1], cpu[1], undisturbed),
        "collections": collections,
        "blocks": blocks,
        "page_faults": None if faults is None else faults_after - faults,
        "switches": None if switches is None else switches_after - switches,
    }


def _warm_up(simulator: Any, poses: Floats, roots: Floats, out: Any) -> float:
    """Take steps; return the median seconds of a step."""
    seconds = []
    for pose, root in zip(poses[: 4 * WARM_UP], roots, strict=False):
        began = perf_counter()
        simulator.step(pose, root)
        simulator.surface(out)
        seconds.append(perf_counter() - began)
    gc.collect()
    return float(np.median(seconds))


def _collections() -> int:
    """Return the number of garbage collections."""
    return sum(each["collections"] for each in gc.get_stats())


def _page_faults() -> tuple[Any, Any]:
    """Return numbers of page faults and interruptions of this process, None if unknown."""
    try:
        import resource
    except ImportError:  # on Windows
        return None, None
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt + used.ru_majflt, used.ru_nivcsw


def _unevenness(seconds: Floats, cpu: Floats, undisturbed: Bools) -> dict[str, Any]:
    """Return the median in ms, percentile and maximum relative to it, and numbers of late steps."""
    middle, used = float(np.median(seconds)), float(np.median(cpu))
    return {
        "median_ms": 1e3 * middle,
        "p99": float(np.percentile(seconds, 99)) / middle,
        "worst": float(seconds.max()) / middle,
        "late": int((seconds > LATE * middle).sum()),
        "late_on_processor": int((cpu > LATE * used).sum()),
        "late_undisturbed": int((seconds > LATE * middle)[undisturbed].sum()),
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print a column for each model."""
    general: Cells = {
        "steps": ("steps", ","),
        "median, ms": (lambda row: row["step"]["median_ms"], ".3f"),
    }
    counts: Cells = {
        "garbage collections": ("collections", ","),
        "page faults": ("page_faults", ","),
        "memory blocks that remained": ("blocks", ","),
        "interruptions by other processes": ("switches", ","),
    }
    print_columns(
        rows,
        (general, _late("steps", "step"), _late("loops", "loop"), counts),
        f"Steps of more than {LATE:g} medians, on one core",
        "After each step a loop of arithmetic runs as long; it is late where the machine is. "
        "Undisturbed: no other process had the core in this step or the one before, after which "
        "caches are cold. Processor time: time on the core.",
        "scene",
    )


def _late(name: str, key: str) -> Cells:
    def part(which: str) -> Callable[[dict[str, Any]], Any]:
        return lambda row: row[key][which]

    return {
        f"{name} that are late": (part("late"), ","),
        "  undisturbed": (part("late_undisturbed"), ","),
        "  by processor time": (part("late_on_processor"), ","),
        "  99th percentile, in medians": (part("p99"), ".2f"),
        "  maximum, in medians": (part("worst"), ".1f"),
    }
