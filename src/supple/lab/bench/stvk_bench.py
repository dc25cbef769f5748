"""`supple bench stvk`: times of StVK bodies, compared with dense products.

Every case runs in a separate process, so that its peak memory can be measured. Coefficients are
computed on all cores; steps are timed on one. Times of steps are processor times, which other
processes change little, compared with matrix-vector products that read as much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from supple.app.processes import peak_megabytes, with_cores
from supple.arrays import Floats
from supple.engines.stvk.coefficients import pair_count
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SuppleError
from supple.lab.bench.case_runner import Cells, Row, check_steps, print_rows, run_cases
from supple.lab.bench.timing import dense_product, processor_time, timed
from supple.linalg.blas import single_threaded
from supple.scenes.modelling.scene_data import unknown_name

#: Rounds of alternating measurements; the shortest time counts.
_ROUNDS = 5
#: Bytes of all matrices, more than a cache holds, so that each comes from memory.
_BEYOND_CACHES = 128 * 2**20
#: Number of pairs of batches of single steps and of runs, and seconds of a batch.
_PAIRS, _BATCH_SECONDS = 30, 0.01
#: Amplitude of the body's swing relative to its size.
_SWING = 0.03


def packed_shape(r: int) -> tuple[int, int]:
    """Return the shape of a matrix with as many entries as K₀, K₁ and half of K₂ together."""
    pairs = pair_count(r)
    return -(-(pairs * (pairs + 1) // 2 + r * pairs + pairs) // pairs), pairs


def step_times(model: StvkModel, dt: float, steps: int) -> Row:
    """Return times of a Newmark step in a run of `steps`, and of products, in microseconds."""
    simulator = StvkSimulator(model, dt)
    kick = _kick(model)
    read, read_again = _gemv(model.modes)
    multiply = dense_product()

    def run() -> float:
        simulator.reset(velocity=kick)
        return timed(lambda: simulator.run(steps), processor_time) / steps

    times: list[list[float]] = []
    with single_threaded():
        for _ in range(_ROUNDS + 1):  # the first round does not count
            dense = min(timed(multiply, processor_time) for _ in range(5))
            times.append([run(), read(), read_again(), dense])
        step, gemv, cached, dense = np.min(times[1:], axis=0)
        python = _python_cost(simulator, kick, step)
    return {
        "step_us": round(1e6 * step, 3),
        "gemv_us": round(1e6 * gemv, 3),
        "python_step_us": round(1e6 * python, 3),
        "dgemm256_ms": round(1e3 * dense, 4),
        "gemv_cached_us": round(1e6 * cached, 3),
        "shifted_steps": simulator.shifted_steps,
    }


def _kick(model: StvkModel) -> Floats:
    """Return an initial velocity along the first mode that makes the body swing visibly."""
    rest = np.zeros(model.modes)
    stiffness, mass = model.stiffness(rest)[0, 0], model.mass[0, 0]
    reach = np.linalg.norm(model.basis[:, :, 0], axis=1).max()
    swing = _SWING * float(np.ptp(model.rest, axis=0).max()) / reach
    return np.sqrt(stiffness / mass) * swing * np.eye(model.modes)[0]


def _gemv(r: int) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return functions that time products with matrices from memory, and from the cache."""
    shape = packed_shape(r)
    count = max(2, -(-_BEYOND_CACHES // (8 * shape[0] * shape[1])))
    matrices = np.full((count, *shape), 0.5)
    x, out = np.ones(shape[1]), np.empty(shape[0])

    def read() -> float:
        began = processor_time()
        for matrix in matrices:
            np.dot(matrix, x, out=out)
        return (processor_time() - began) / count

    def read_again() -> float:
        began = processor_time()
        for _ in range(count):
            np.dot(matrices[0], x, out=out)
        return (processor_time() - began) / count

    return read, read_again


def _python_cost(simulator: StvkSimulator, kick: Floats, step: float) -> float:
    """Return the overhead of a single call of step in seconds."""
    count = int(np.clip(_BATCH_SECONDS / step, 10, 1000))
    force, single, together = np.zeros(len(kick)), np.empty(_PAIRS), np.empty(_PAIRS)
    for k in range(_PAIRS):
        simulator.reset(velocity=kick)
        began = processor_time()
        for _ in range(count):
            simulator.step(force)
        single[k] = processor_time() - began
        simulator.reset(velocity=kick)
        together[k] = timed(lambda: simulator.run(count), processor_time)
    return float(single.min() - together.min()) / count


class Case(NamedTuple):
    """Body of the paper, or a beam of bricks of six tets each, and the number of modes."""

    scene: str | None
    cells: tuple[int, int, int]
    modes: int


_BEAM = (27, 4, 4)  # 2,592 tets
CASES = {
    "spoon": Case("spoon", (0, 0, 0), 12),
    "bridge": Case("bridge", (0, 0, 0), 15),
    "tower": Case("tower", (0, 0, 0), 30),
    "heart": Case("heart", (0, 0, 0), 30),
    "beam15": Case(None, _BEAM, 15),
    "beam30": Case(None, _BEAM, 30),
    "beam60": Case(None, _BEAM, 60),
    "beam100k": Case(None, (66, 16, 16), 30),
}
#: Seconds of precomputation and µs of a step in barbic2005, figures 5 and 11.
PAPER = {
    "spoon": (60.0, 30.2),
    "bridge": (186.0, 65.4),
    "tower": (79.2 * 60, 1395.0),
    "heart": (97.4 * 60, 1395.0),
}
#: First keys of a row.
KEYS = (
    "case", "elements", "modes", "precompute_s", "peak_mb", "step_us", "gemv_us",
    "python_step_us", "dgemm256_ms",
)  # fmt: skip
#: Number of precomputations; the shortest time counts.
_REPEATS = 3
#: Number of steps of a run.
STEPS = 3_000


def measure(cases: Sequence[str] = (), *, steps: int = STEPS, quiet: bool = False) -> list[Row]:
    """Return a row for each case of `CASES`, by default all, with runs of `steps`."""
    for name in cases:
        if name not in CASES:
            raise SuppleError(unknown_name("case", name, tuple(CASES)))
    check_steps(steps, 1)
    chosen = list(dict.fromkeys(cases)) or list(CASES)
    return run_cases(
        [
            (
                f"{name}, {CASES[name].modes} modes",
                partial(with_cores, None, _row, name, CASES[name], steps),
            )
            for name in chosen
        ],
        quiet=quiet,
    )


def _row(name: str, case: Case, steps: int) -> Row:
    """Measure one case in a separate process."""
    from supple.elastic.material import Material
    from supple.engines.stvk.bases import linear_mode_count
    from supple.engines.stvk.build import BasisRequest, elastic_basis
    from supple.scenes.bodies.beam import beam
    from supple.scenes.bodies.elastic_scene import stvk_scene

    mesh: Any
    if case.scene is not None:
        scene = stvk_scene(case.scene)
        mesh, material, fixed, dt = scene.mesh, scene.material, scene.fixed, scene.dt
    else:
        mesh, material, dt = beam(cells=case.cells), Material("stvk", young=1e6), 1 / 1000
        fixed = np.flatnonzero(mesh.vertices[:, 0] == 0)
    began = perf_counter()
    request = BasisRequest("derivatives", case.modes, linear_mode_count(case.modes))
    basis = elastic_basis(mesh, material, request, fixed, 2)
    basis_s = perf_counter() - began
    with_basis = peak_megabytes()
    times, used = [], []
    for _ in range(_REPEATS):
        model = None  # frees the memory of the last one
        began, before = perf_counter(), process_time()
        model = StvkModel.from_basis(mesh, material, basis)
        times.append(perf_counter() - began)
        used.append(process_time() - before)
    assert model is not None
    elements = len(model.groups.of_element)
    row = {"case": name, "elements": elements, "modes": case.modes}
    row |= {"precompute_s": round(min(times), 4), "peak_mb": peak_megabytes()}
    row |= step_times(model, dt, steps)
    paper = PAPER.get(name, (None, None))
    return row | {
        "precompute_cpu_s": round(min(used), 4),  # of all cores together
        "basis_s": round(basis_s, 3),
        "basis_peak_mb": with_basis,
        "paper_precompute_s": paper[0],
        "paper_step_us": paper[1],
    }


_CASE: Cells = {"case": ("case", "")}
_PRECOMPUTED: Cells = {
    "elements": ("elements", ","),
    "modes": ("modes", "d"),
    "basis": ("basis_s", ".2f"),
    "precompute": ("precompute_s", ".3f"),
    "paper's": ("paper_precompute_s", ",.0f"),
    "peak MB": ("peak_mb", ",.0f"),
}
_STEPPED: Cells = {
    "step": ("step_us", ".1f"),
    "paper's": ("paper_step_us", ".0f"),
    "gemv": ("gemv_us", ".1f"),
    "cached": ("gemv_cached_us", ".1f"),
    "step/gemv": (lambda row: row["step_us"] / row["gemv_us"], ".2f"),
    "Python": ("python_step_us", ".1f"),
    "dgemm": ("dgemm256_ms", ".3f"),
}


def table(rows: list[Row]) -> None:
    """Print times of precomputation and of steps."""
    print_rows(
        rows,
        {**_CASE, **_PRECOMPUTED},
        "Precomputing StVK polynomials on all cores, seconds",
        "Paper: barbic2005, figures 5 (precomputation) and 11 (steps).",
        left=1,
    )
    print_rows(
        rows,
        {**_CASE, **_STEPPED},
        "A Newmark step on one core, microseconds",
        "gemv: a product that reads as many coefficients as a step from memory; cached: the same "
        "with a matrix in cache. Python: the overhead of a single call of step. dgemm: a 256³ "
        "product of float64 in ms, on one core in the same run.",
        left=1,
    )
