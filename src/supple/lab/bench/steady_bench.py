"""`supple bench --steady N`: steps that take longer than others, beside a loop of arithmetic.

After each step a loop that touches no memory runs for as long. What makes it late makes steps
late: the machine's own interruptions. Steps beyond these, collections of garbage, page faults and
memory that Python took meanwhile are the step's own.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from supple.app.character_models import load_character_model
from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.arrays import Bools, Floats
from supple.compiled.jit import compiled_brief
from supple.engines.engine import FIRST_ENGINE, engine_named
from supple.errors import SuppleError
from supple.lab.bench.step_bench import checked_scenes, model_files
from supple.lab.bench.timing import RATE, WARM_UP, back_and_forth, motion_of, timed

#: A step is late that takes longer than so many medians.
LATE = 2.0
#: Rounds of a loop whose time says how many take as long as a step.
CALIBRATED = 10_000
#: Most steps of a run; poses of the motion are made once, and gone through again and again.
MOST_STEPS, MOST_POSES = 10_000_000, 5_000


def measure(
    scenes: Sequence[str] = (),
    *,
    engine: str = FIRST_ENGINE,
    model: Path | None = None,
    steps: int = 100_000,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Return a row for each scene, or for a model of your own.

    Parameters
    ----------
    scenes, engine, model, quiet
        As for `supple.lab.bench.step_bench.measure`.
    steps
        Number of steps.
    """
    if not 100 <= steps <= MOST_STEPS:
        raise SuppleError(f"{steps:,} steps; choose between 100 and {MOST_STEPS:,}")
    engine_named(engine, "character")
    names = checked_scenes(scenes, model)
    first_use_message(quiet)
    rows: list[dict[str, Any]] = []
    with model_files(names, engine, model, quiet) as paths, progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(paths))
        for path in paths:
            progress.update(task, description=path.stem if model else names[len(rows)])
            rows.append(with_cores(1, steadiness, path, engine, steps))
            progress.advance(task)
    return rows


@compiled_brief
def _arithmetic(times: int, value: float) -> float:
    for _ in range(times):
        value = value * value - 1.9  # has no closed form, which a compiler would take
    return value


def steadiness(path: Path, engine: str, steps: int) -> dict[str, Any]:
    """Return how even steps are; to be called in a process of its own."""
    if hasattr(os, "sched_setaffinity"):  # steps and loops on the same core
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model = load_character_model(path)
    simulator: Any = engine_named(engine).simulate(model, 1 / RATE)
    poses, roots = back_and_forth(motion_of(model), min(steps + WARM_UP, MOST_POSES))
    simulator.reset(poses[0], roots[0])
    out = np.array(simulator.surface())
    # All arrays are written before: memory that is new is given a page at its first use.
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
    # After an interruption the caches are somebody else's, and the next step is slow, too.
    calm = np.diff(switched) == 0
    calm[1:] &= calm[:-1].copy()
    return {
        "scene": model.name,
        "engine": engine,
        "steps": steps,
        "step": _unevenness(seconds[0], cpu[0], calm),
        "loop": _unevenness(seconds[1], cpu[1], calm),
        "collections": collections,
        "blocks": blocks,
        "page_faults": None if faults is None else faults_after - faults,
        "switches": None if switches is None else switches_after - switches,
    }


def _warm_up(simulator: Any, poses: Floats, roots: Floats, out: Any) -> float:
    """Step a while; return the median seconds of a step."""
    found = []
    for pose, root in zip(poses[: 4 * WARM_UP], roots, strict=False):
        began = perf_counter()
        simulator.step(pose, root)
        simulator.surface(out)
        found.append(perf_counter() - began)
    gc.collect()
    return float(np.median(found))


def _collections() -> int:
    """Return how often Python has searched for garbage."""
    return sum(each["collections"] for each in gc.get_stats())


def _page_faults() -> tuple[Any, Any]:
    """Return page faults and interruptions of this process, where the system counts them."""
    try:
        import resource
    except ImportError:  # on Windows
        return None, None
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt + used.ru_majflt, used.ru_nivcsw


def _unevenness(seconds: Floats, cpu: Floats, calm: Bools) -> dict[str, Any]:
    """Return median, largest, and how many are late by the wall's clock and by the processor's.

    `calm` says when nothing interrupted the process.
    """
    middle, used = float(np.median(seconds)), float(np.median(cpu))
    return {
        "median_ms": 1e3 * middle,
        "p99": float(np.percentile(seconds, 99)) / middle,
        "worst": float(seconds.max()) / middle,
        "late": int((seconds > LATE * middle).sum()),
        "late_on_processor": int((cpu > LATE * used).sum()),
        "late_undisturbed": int((seconds > LATE * middle)[calm].sum()),
    }


def table(rows: list[dict[str, Any]]) -> None:
    """Print a column for each model."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(
        title=f"Steps of more than {LATE:g} medians, on one core",
        caption="Beside each step runs a loop of arithmetic that takes as long; it is late where "
        "the machine is. Nothing interrupted: no other process had the core in this step or the "
        "one before, after which caches are cold. By the processor's clock: time on the core.",
    )
    grid.add_column("")
    for row in rows:
        grid.add_column(row["scene"], justify="right")
    lines = {
        "steps": [f"{row['steps']:,}" for row in rows],
        "median, ms": [f"{row['step']['median_ms']:.3f}" for row in rows],
    }
    for what, key in (("steps", "step"), ("loops", "loop")):
        own = [row[key] for row in rows]
        lines |= {
            f"{what} that are late": [f"{each['late']:,}" for each in own],
            "  though nothing interrupted" + " " * (key == "loop"): [
                f"{each['late_undisturbed']:,}" for each in own
            ],
            "  by the processor's clock" + " " * (key == "loop"): [
                f"{each['late_on_processor']:,}" for each in own
            ],
            "  99th percentile, worst, in medians" + " " * (key == "loop"): [
                f"{each['p99']:.2f}, {each['worst']:.1f}" for each in own
            ],
        }
    counts = {
        "collections of garbage": "collections",
        "page faults": "page_faults",
        "blocks of memory that stayed": "blocks",
        "interruptions by other processes": "switches",
    }
    for what, key in counts.items():
        lines[what] = ["–" if row[key] is None else f"{row[key]:,}" for row in rows]
    for name, cells in lines.items():
        grid.add_row(name, *cells)
    Console().print(grid)
