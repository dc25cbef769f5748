"""`supple bench --parts`: times of the parts of a step, compared with the machine's limits.

The stages of a step are called one by one in their order, so that each finds the caches as in a
step; the time of an empty call is subtracted. The bytes that a part must read and write and its
floating-point operations are counted from the sizes of the tables and the active poses and
columns. The limit of a part is the longer of two times: time of its bytes at the rate at which
this core sums as many numbers as a step reads, and time of its operations at the rate of a 256³
product of float32. The rig has no limit, as its kind varies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused
from supple.compiled.tables import ArgumentTable, table_contents
from supple.engines.pose_space.elastic_force import add_elastic
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.simulator import PoseSpaceSimulator
from supple.engines.pose_space.skin import DISPLACE, INTERPOLATE, NEGLIGIBLE, ROTATE
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
from supple.lab.bench.case_runner import Cells, print_rows
from supple.lab.bench.step_bench import measure_models
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

#: Parts of a step in their order, and their names in the table.
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
    "skin_turns": "rotations, skin",
    "skin": "interpolation, skin",
}
_STAGES = {"frames": FRAMES, "bases": BASES, "mass": MASS, "inertia": INERTIA}
_SKIN = {"skin_bases": DISPLACE, "skin_turns": ROTATE, "skin": INTERPOLATE}
#: Bytes of a float64, and of a float32 or int32.
DOUBLE, SINGLE = 8, 4

Work = dict[str, tuple[float, float]]


def measure(
    scenes: Sequence[str] = (),
    *,
    model: Path | None = None,
    steps: int = 2_000,
    quiet: bool = False,
) -> list[dict[str, Any]]:
    """Return a row of parts for each scene, or for a model file of pose-space."""
    return measure_models(scenes, "pose-space", model, step_parts, arguments=(steps,), quiet=quiet)


def step_parts(path: Path, steps: int) -> dict[str, Any]:
    """Return the parts of a model's step; called in a separate process."""
    model = PoseSpaceModel.load(path)
    simulator = PoseSpaceSimulator(model, 1 / RATE)
    medians, work = timed_parts(simulator, *back_and_forth(motion_of(model), steps + WARM_UP))
    dense = medians["dense"]
    means = {name: np.mean(each, axis=0) for name, each in work.items()}
    total = sum(bytes_ for bytes_, _ in means.values())
    stream, rate = _stream_rate(total), _product_rate()
    parts = {}
    for name in PARTS:
        bytes_, flops = (float(each) for each in means.get(name, (np.nan, np.nan)))
        best, counted = max(bytes_ / stream, flops / rate), name in means
        parts[name] = {
            "microseconds": 1e6 * medians[name],
            "in_dgemm": medians[name] / dense,
            "bytes": bytes_ if counted else None,
            "flops": flops if counted else None,
            "of_limit": best / max(medians[name], 1e-9) if counted else None,
            "limited_by": ("flops" if flops / rate == best else "bytes") if counted else None,
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


def timed_parts(
    simulator: PoseSpaceSimulator, poses: Any, roots: Any, twin: PoseSpaceSimulator | None = None
) -> tuple[dict[str, float], dict[str, list[tuple[float, float]]]]:
    """Take a step for each pose; return median seconds, and bytes and operations, of each part.

    ``dense`` is a product of 256³, ``call`` an empty call, and ``whole`` a step of `twin`, another
    simulator of the same model, with its surface.
    """
    for each in (simulator, twin or simulator):
        each.reset(poses[0], roots[0])
    out = simulator.surface()
    stepper, state = simulator._stepper, simulator._state
    seconds: dict[str, list[float]] = defaultdict(list)
    work: dict[str, list[tuple[float, float]]] = defaultdict(list)
    multiply, every = dense_product(), -(-len(poses) // BREAKS)

    def clocked(name: str, call: Callable[..., Any], *arguments: Any, less: float = 0.0) -> None:
        began = perf_counter()
        call(*arguments)
        seconds[name].append(perf_counter() - began - less)

    def whole_step() -> None:
        twin.step(pose, root)  # type: ignore[union-attr]
        twin.surface(out)  # type: ignore[union-attr]

    targets = stepper.workspace.targets
    for k, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        if k % every == 0:
            seconds["dense"] += [timed(multiply) for _ in range(3)]
        stepper._placed, stepper._framed = (None, -1), False
        targets.poses[0], targets.roots[0] = pose, root
        clocked("rig_tets", stepper._placement.place_tets, targets.poses[0], targets.points[0])
        clocked("call", stepper._take, 0, state)
        call = seconds["call"][-1]
        for name, stage in _STAGES.items():
            clocked(name, stepper._take, stage, state, less=call)
        if k % 2:
            clocked("elastic", _elastic, stepper._arguments, state.q, less=call)
            stepper._take(SOLVE, state)
        else:
            clocked("solve", stepper._take, SOLVE, state, less=call)
        clocked("memory", stepper._take, REMEMBER, state, less=call)
        stepper._placed = (state, state.steps)
        clocked("rig_skin", stepper._placement.place_surface, out)
        for name, stage in _SKIN.items():
            clocked(name, stepper._displace, stage, state, out, less=call)
        for name, amounts in _work(stepper, state.q).items():
            work[name].append(amounts)
        if twin is not None:
            clocked("whole", whole_step)
    dense = float(np.median(seconds.pop("dense")))
    medians = {name: float(np.median(times[WARM_UP // 2 :])) for name, times in seconds.items()}
    # The stage of the solution includes the forces, which are timed alone in every other step.
    medians["solution"] = max(medians.pop("solve") - medians["elastic"], 0.0)
    return medians | {"dense": dense}, work


@compiled_fused
def _elastic(bound: ArgumentTable, q: Floats) -> None:
    """Evaluate elastic forces as a step does."""
    arguments: StepArguments = table_contents(bound)
    blend, system, n = arguments.work.blend, arguments.work.system, len(q)
    for i in range(n):
        system.stiffness[i, i:n] = 0
        system.z[i], system.force[i] = blend.column_scale[i] * q[i], 0.0
    tables, points = arguments.tables, arguments.targets.points[0]
    scratch = arguments.work.elastic
    add_elastic(tables.elastic, tables.kind, False, points, blend, system, 1.0, scratch)


def _work(stepper: Stepper, q: Any) -> Work:
    """Return (bytes, floating-point operations) of each part of a step, by name."""
    tables, blend, runtime = stepper._tables, stepper.workspace.blend, stepper.runtime
    elastic, inertial, skin, r = tables.elastic, tables.inertial, runtime.skin, runtime.n_modes
    poses = int((np.abs(blend.shares) > NEGLIGIBLE).sum())
    rows = int((np.abs(blend.pairs) > NEGLIGIBLE).sum())
    rows += int((np.abs(blend.corrections) > NEGLIGIBLE).sum())
    blocks, moving, packed = elastic.basis.shape[1], inertial.plain.shape[1], r * (r + 1) // 2
    count, width = np.diff(elastic.first), elastic.width
    # For each tet: G from 12 rows, G z, V ∂P/∂F G, Gᵀ P, and the upper blocks of Gᵀ (V ∂P/∂F G).
    products = float((count * (2 * width * (72 + 9 + 81 + 9) + 9 * width * (width + 8))).sum())
    vertices, followed = len(runtime.vertices), len(tables.frames.corners)
    entries = _skin_entries(stepper, q)
    carriers, drawn = len(runtime.carriers), len(skin.carriers)
    rotated = carriers * (poses * 16 + 16 + 32 + 32) if len(skin.quaternions[0]) else 32 * carriers
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
        "skin_turns": (rotated, carriers * (8.0 * poses + 100)),
        "skin": (drawn * (32 + 2 * 12) + 2 * 16 * carriers, drawn * 50.0 + carriers * 18),
    }


def _skin_entries(stepper: Stepper, q: Any) -> int:
    """Return the number of entries of the columns that move the skin visibly."""
    skin, blend = stepper.runtime.skin, stepper.workspace.blend
    factors = np.abs(blend.weights[:, None] * (blend.column_scale * q) * skin.tops)
    active = (
        (factors > stepper.runtime.unseen) & (np.abs(blend.weights) >= NEGLIGIBLE)[:, None]
    ).sum(0)
    by_region = np.add.reduceat(active, skin.column[:-1])
    return int((3 * np.diff(skin.row_start) * by_region).sum())


@compiled_fused
def _sum(numbers: Ints) -> int:
    total = 0
    for i in range(len(numbers)):
        total += numbers[i]
    return total


def _stream_rate(size: float) -> float:
    """Return the bytes per second at which this core sums an array of `size` bytes repeatedly."""
    numbers = np.ones(max(int(size) // DOUBLE, 1024), np.int64)
    _sum(numbers)
    return float(numbers.nbytes / min(timed(lambda: _sum(numbers)) for _ in range(50)))


def _product_rate() -> float:
    """Return operations per second of a dense product of float32."""
    multiply = dense_product(np.float32)
    multiply()
    return float(2 * DGEMM_SIZE**3 / min(timed(multiply) for _ in range(20)))


_COLUMNS: Cells = {
    "part": ("name", ""),
    "µs": ("microseconds", ".1f"),
    "in dgemm": ("in_dgemm", ".3f"),
    "KB": (lambda part: _scaled(part, "bytes", 1e-3), ".0f"),
    "kflop": (lambda part: _scaled(part, "flops", 1e-3), ".0f"),
    "GB/s": (lambda part: _rate(part, "bytes"), ".0f"),
    "GF/s": (lambda part: _rate(part, "flops"), ".0f"),
    "of limit": (lambda part: _limit(part), ""),
}


def table(rows: list[dict[str, Any]]) -> None:
    """Print the parts of a step for each model, and their shares of the machine's limits."""
    for row in rows:
        lines = [{"name": PARTS[name]} | part for name, part in row["parts"].items()]
        total = {key: sum(part[key] for part in lines) for key in ("microseconds", "in_dgemm")}
        print_rows(
            [*lines, {"name": "together", "bytes": row["bytes"]} | total],
            _COLUMNS,
            f"{row['scene']}: parts of a step on one core",
            f"Limits, measured in the same run: {row['stream_gb_s']:.0f} GB/s for the "
            f"{row['bytes'] / 1e6:.1f} MB of a step, {row['sgemm_gflop_s']:.0f} Gflop/s. "
            f"A call from Python takes {row['call_microseconds']:.1f} µs, which are subtracted. "
            f"dgemm: {row['dgemm256_ms']:.3f} ms.",
            left=1,
        )


def _scaled(part: dict[str, Any], key: str, scale: float) -> float | None:
    value = part.get(key)
    return None if value is None else scale * value


def _rate(part: dict[str, Any], key: str) -> float | None:
    return None if part.get("flops") is None else part[key] / max(1e3 * part["microseconds"], 1.0)


def _limit(part: dict[str, Any]) -> str | None:
    if part.get("of_limit") is None:
        return None
    return f"{100 * part['of_limit']:.0f} % {part['limited_by']}"
