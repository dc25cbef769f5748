"""`supple bench --parts`: where a step's time goes, beside what this machine could do.

Stages that a step takes in one compiled call are taken one by one, in their order, so that each
finds the caches as a step leaves them; a call that does nothing is timed, too, and taken off. For
each part the numbers that it must read and write and its floating-point operations are counted
from the tables' sizes and the poses and columns that act. At best it takes the longer of both: the
bytes at the rate at which this core sums as many numbers as a whole step reads, the operations at
the rate of a 256³ product of float32. The rig is timed only: rigs are many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.arrays import Floats, Ints
from supple.compiled.argument_tables import ArgumentTable, table_contents
from supple.compiled.jit import compiled_fused
from supple.engines.pose_space.elastic_force import add_elastic
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.skin import CARRY, DISPLACE, NEGLIGIBLE, TURN
from supple.engines.pose_space.step import (
    BASES,
    FRAMES,
    INERTIA,
    MASS,
    REMEMBER,
    SOLVE,
    StepArguments,
)
from supple.engines.pose_space.stepper import Stepper
from supple.lab.bench.step_bench import checked_scenes, model_files
from supple.lab.bench.timing import (
    BREAKS,
    DGEMM_SIZE,
    RATE,
    WARM_UP,
    back_and_forth,
    dense_product,
    motion_of,
    timed,
)

#: Parts of a step, in their order, and what they are called in the table.
PARTS = {
    "rig_tets": "rig, cubature",
    "frames": "weights, frames",
    "bases": "bases, cubature",
    "mass": "mass, corrections",
    "inertia": "inertial forces",
    "elastic": "elastic forces",
    "solution": "solution",
    "memory": "memory",
    "rig_skin": "rig, skin",
    "skin_bases": "bases, skin",
    "skin_turns": "turns, skin",
    "skin": "skin carried",
}
_STAGES = {"frames": FRAMES, "bases": BASES, "mass": MASS, "inertia": INERTIA}
_SKIN = {"skin_bases": DISPLACE, "skin_turns": TURN, "skin": CARRY}
#: Numbers of float64, float32 and int32.
DOUBLE, SINGLE = 8, 4

Work = dict[str, tuple[float, float]]


def measure(
    scenes: Sequence[str] = (),
    *,
    model: Path | None = None,
    steps: int = 2_000,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Return a row of parts for each scene, or for a model of your own; of pose-space only.

    Parameters
    ----------
    scenes, model, quiet
        As for `supple.lab.bench.step_bench.measure`.
    steps
        Number of steps to time.
    """
    names = checked_scenes(scenes, model)
    first_use_message(quiet)
    rows: list[dict[str, Any]] = []
    with model_files(names, "pose-space", model, quiet) as paths, progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(paths))
        for path in paths:
            progress.update(task, description=path.stem if model else names[len(rows)])
            rows.append(with_cores(1, step_parts, path, steps))
            progress.advance(task)
    return rows


def step_parts(path: Path, steps: int) -> dict[str, Any]:
    """Return parts of a model's step; to be called in a process of its own."""
    model = PoseSpaceModel.load(path)
    simulator = PoseSpaceSimulator(model, 1 / RATE)
    seconds, work = _timed_parts(simulator, *back_and_forth(motion_of(model), steps + WARM_UP))
    dense = float(np.median(seconds.pop("dense")))
    medians = {name: float(np.median(each[WARM_UP // 2 :])) for name, each in seconds.items()}
    # Forces are a part of the solution's stage: they are evaluated beside it on every other step.
    solved = medians.pop("solve")
    medians["solution"] = max(solved - medians["elastic"], 0.0)
    means = {name: np.mean(each, axis=0) for name, each in work.items()}
    total = sum(bytes_ for bytes_, _ in means.values())
    stream, rate = _stream_rate(total), _product_rate()
    parts = {}
    for name in PARTS:
        bytes_, flops = (float(each) for each in means.get(name, (np.nan, np.nan)))
        best, known = max(bytes_ / stream, flops / rate), name in means
        parts[name] = {
            "microseconds": 1e6 * medians[name],
            "in_dgemm": medians[name] / dense,
            "bytes": bytes_ if known else None,
            "flops": flops if known else None,
            "of_limit": best / max(medians[name], 1e-9) if known else None,
            "limited_by": ("flops" if flops / rate == best else "bytes") if known else None,
        }
    return {
        "scene": model.name,
        "parts": parts,
        "call_microseconds": 1e6 * medians["call"],
        "dgemm256_ms": 1e3 * dense,
        "bytes": total,
        "stream_gb_s": stream / 1e9,
        "sgemm_gflop_s": rate / 1e9,
    }


def _timed_parts(
    simulator: PoseSpaceSimulator, poses: Any, roots: Any
) -> tuple[dict[str, list[float]], dict[str, list[tuple[float, float]]]]:
    """Step along the poses; return the seconds of each part, and its bytes and operations."""
    simulator.reset(poses[0], roots[0])
    out = simulator.surface()
    own, state = simulator._stepper, simulator._state
    seconds: dict[str, list[float]] = defaultdict(list)
    work: dict[str, list[tuple[float, float]]] = defaultdict(list)
    multiply, every = dense_product(), -(-len(poses) // BREAKS)

    def clocked(name: str, call: Callable[..., Any], *arguments: Any, less: float = 0.0) -> None:
        began = perf_counter()
        call(*arguments)
        seconds[name].append(perf_counter() - began - less)

    targets = own.workspace.targets
    for k, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        if k % every == 0:
            seconds["dense"] += [timed(multiply) for _ in range(3)]
        own._placed, own._framed = (None, -1), False
        targets.poses[0], targets.roots[0] = pose, root
        clocked("rig_tets", own._placement.place_tets, targets.poses[0], targets.points[0])
        clocked("call", own._take, 0, state)
        call = seconds["call"][-1]
        for name, stage in _STAGES.items():
            clocked(name, own._take, stage, state, less=call)
        if k % 2:
            clocked("elastic", _elastic, own._arguments, state.q, less=call)
            own._take(SOLVE, state)
        else:
            clocked("solve", own._take, SOLVE, state, less=call)
        clocked("memory", own._take, REMEMBER, state, less=call)
        own._placed = (state, state.steps)
        clocked("rig_skin", own._placement.place_surface, out)
        for name, stage in _SKIN.items():
            clocked(name, own._displace, stage, state, out, less=call)
        for name, each in _work(own, state.q).items():
            work[name].append(each)
    return seconds, work


@compiled_fused
def _elastic(bound: ArgumentTable, q: Floats) -> None:
    """Evaluate elastic forces once more, as a step does that comes after."""
    given: StepArguments = table_contents(bound)
    blend, system, n = given.work.blend, given.work.system, len(q)
    for i in range(n):
        system.stiffness[i, i:n] = 0
        system.z[i], system.force[i] = blend.column_scale[i] * q[i], 0.0
    add_elastic(
        given.tables.elastic,
        given.tables.kind,
        False,
        blend.weights,
        given.targets.points[0],
        blend.frames,
        blend.basis,
        system.z,
        given.work.elastic,
        system.stiffness,
        system.force,
    )


def _work(own: Stepper, q: Any) -> Work:
    """Return bytes that parts of a step must move, and operations on floating-point numbers."""
    tables, blend, runtime = own._tables, own.workspace.blend, own.runtime
    elastic, inertial, skin, r = tables.elastic, tables.inertial, runtime.skin, runtime.n_modes
    poses = int((np.abs(blend.shares) > NEGLIGIBLE).sum())
    rows = int((np.abs(blend.pairs) > NEGLIGIBLE).sum())
    rows += int((np.abs(blend.corrections) > NEGLIGIBLE).sum())
    blocks, moving, packed = elastic.basis.shape[1], inertial.plain.shape[1], r * (r + 1) // 2
    count, width = np.diff(elastic.first), elastic.width
    # Of each tet: G from 12 rows, G z, V ∂P/∂F G, Gᵀ P, and the upper blocks of Gᵀ (V ∂P/∂F G).
    products = float((count * (2 * width * (72 + 9 + 81 + 9) + 9 * width * (width + 8))).sum())
    vertices, followed = len(runtime.vertices), len(tables.frames.corners)
    entries = _skin_entries(own, q)
    carriers, drawn = len(runtime.carriers), len(skin.carriers)
    turned = carriers * (poses * 16 + 16 + 32 + 32) if len(skin.turns[0]) else 32 * carriers
    return {
        "frames": (
            vertices * (poses * 16 + 36 + 32 + 24),
            vertices * (8 * poses + 70) + 900 * followed,
        ),
        "bases": (
            (poses * elastic.basis.itemsize + SINGLE) * (blocks + moving),
            2.0 * poses * (blocks + moving),
        ),
        "mass": (SINGLE * packed * (rows + 2), 2.0 * packed * rows),
        "inertia": (SINGLE * moving * (poses + 1), 2.0 * moving * (poses + 1)),
        "elastic": (SINGLE * blocks + DOUBLE * packed, products),
        "solution": (DOUBLE * 5 * packed, r**3 / 3 + 12.0 * r * r),
        "memory": (SINGLE * moving, 2.0 * moving),
        "skin_bases": (skin.basis.itemsize * entries + 16 * carriers, 2.0 * entries),
        "skin_turns": (turned, carriers * (8.0 * poses + 100)),
        "skin": (drawn * (32 + 2 * 12) + 2 * 16 * carriers, drawn * 50.0 + carriers * 18),
    }


def _skin_entries(own: Stepper, q: Any) -> int:
    """Return the number of entries of all columns that move the skin visibly."""
    skin, blend = own.runtime.skin, own.workspace.blend
    factors = np.abs(blend.weights[:, None] * (blend.column_scale * q) * skin.tops)
    seen = ((factors > own.runtime.unseen) & (np.abs(blend.weights) >= NEGLIGIBLE)[:, None]).sum(0)
    by_region = np.add.reduceat(seen, skin.column[:-1])
    return int((3 * np.diff(skin.row_start) * by_region).sum())


@compiled_fused
def _sum(numbers: Ints) -> int:
    total = 0
    for i in range(len(numbers)):
        total += numbers[i]
    return total


def _stream_rate(size: float) -> float:
    """Return bytes a second that this core reads in turn, of so many in all, again and again."""
    numbers = np.ones(max(int(size) // DOUBLE, 1024), np.int64)
    _sum(numbers)
    return float(numbers.nbytes / min(timed(lambda: _sum(numbers)) for _ in range(50)))


def _product_rate() -> float:
    """Return operations a second of a dense product of float32."""
    multiply = dense_product(np.float32)
    multiply()
    return float(2 * DGEMM_SIZE**3 / min(timed(multiply) for _ in range(20)))


# The table for people


def table(rows: list[dict[str, Any]]) -> None:
    """Print a table for each model: microseconds of its parts, and what part of a limit that is."""
    from rich.console import Console
    from rich.table import Table

    for row in rows:
        grid = Table(
            title=f"{row['scene']}: parts of a step on one core",
            caption=f"Limits, measured beside it: {row['stream_gb_s']:.0f} GB/s for the "
            f"{row['bytes'] / 1e6:.1f} MB of a step, {row['sgemm_gflop_s']:.0f} Gflop/s. "
            f"A call from Python takes {row['call_microseconds']:.1f} µs, which are taken off. "
            f"dgemm: {row['dgemm256_ms']:.3f} ms.",
        )
        for name in ("part", "µs", "in dgemm", "KB", "kflop", "GB/s", "GF/s", "of limit"):
            grid.add_column(name, justify="left" if name == "part" else "right")
        for name, part in row["parts"].items():
            grid.add_row(PARTS[name], *_cells(part))
        grid.add_section()
        whole = sum(part["microseconds"] for part in row["parts"].values())
        share = sum(part["in_dgemm"] for part in row["parts"].values())
        grid.add_row("together", f"{whole:.1f}", f"{share:.3f}", f"{row['bytes'] / 1e3:.0f}")
        Console().print(grid)


def _cells(part: dict[str, Any]) -> list[str]:
    shown = [f"{part['microseconds']:.1f}", f"{part['in_dgemm']:.3f}"]
    if part["bytes"] is None:
        return [*shown, *["–"] * 5]
    seconds = max(1e-6 * part["microseconds"], 1e-9)
    return [
        *shown,
        f"{part['bytes'] / 1e3:.0f}",
        f"{part['flops'] / 1e3:.0f}",
        f"{part['bytes'] / seconds / 1e9:.0f}",
        f"{part['flops'] / seconds / 1e9:.0f}",
        f"{100 * part['of_limit']:.0f} % {part['limited_by']}",
    ]
