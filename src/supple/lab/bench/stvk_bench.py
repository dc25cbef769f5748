"""`supple bench stvk`: times of StVK bodies, precomputed and stepped, beside dense products.

Every case runs in a process of its own, so that its peak memory is its own. Coefficients are
computed on all cores, all else on one. Seconds of steps are the processor's: what is left when
others use the machine too; beside them stand products that read as much memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from supple.app.processes import peak_megabytes, with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.arrays import Floats
from supple.engines.stvk.coefficients import pair_count
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.simulator import StvkSimulator
from supple.errors import SuppleError
from supple.lab.bench.timing import DGEMM_SIZE, processor_time, timed
from supple.linalg.blas import single_threaded

#: Everything is timed in turns, so often, and the shortest counts.
_TURNS = 5
#: Matrices take more room than a cache has, so that each comes from memory.
_BEYOND_CACHES = 128 * 2**20
#: Pairs of batches of single steps and of runs, and seconds of a batch.
_PAIRS, _BATCH_SECONDS = 30, 0.01
#: How far the body is made to swing, as a part of its size.
_SWING = 0.03


def check_steps(steps: int) -> None:
    """Refuse a run of steps too short or too long to time."""
    if not 1 <= steps <= 1_000_000:
        raise SuppleError(f"{steps:,} steps; choose between 1 and 1,000,000")


def packed_shape(r: int) -> tuple[int, int]:
    """Return the shape of a matrix with as many numbers as the tangent's K₀, K₁ and half of K₂."""
    pairs = pair_count(r)
    return -(-(pairs * (pairs + 1) // 2 + r * pairs + pairs) // pairs), pairs


def step_times(model: StvkModel, dt: float, steps: int) -> dict[str, Any]:
    """Time a Newmark step in a run of `steps`, and products beside it, in microseconds."""
    simulator = StvkSimulator(model, dt)
    kick = _kick(model)
    read, read_again = _gemv(model.modes)
    a, b = np.random.default_rng(0).random((2, DGEMM_SIZE, DGEMM_SIZE))
    product = np.empty_like(a)

    def multiply() -> None:
        np.dot(a, b, out=product)

    def run() -> float:
        simulator.reset(velocity=kick)
        return timed(lambda: simulator.run(steps), processor_time) / steps

    found: list[list[float]] = []
    with single_threaded():
        for _ in range(_TURNS + 1):  # the first is not counted
            dense = min(timed(multiply, processor_time) for _ in range(5))
            found.append([run(), read(), read_again(), dense])
        step, gemv, cached, dense = np.min(found[1:], axis=0)
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
    """Return a velocity along the first shape that makes the body swing visibly."""
    rest = np.zeros(model.modes)
    stiffness, mass = model.stiffness(rest)[0, 0], model.mass[0, 0]
    reach = np.linalg.norm(model.basis[:, :, 0], axis=1).max()
    swing = _SWING * float(np.ptp(model.rest, axis=0).max()) / reach
    return np.sqrt(stiffness / mass) * swing * np.eye(model.modes)[0]


def _gemv(r: int) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return clocks of a product with a matrix from memory, and with one that was just used."""
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
    """Return the seconds that a single call adds to a step: shortest batch beside shortest run."""
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
    """Body of the paper, or a beam of so many bricks, six tets each; and its number of modes."""

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


#: Seconds to precompute and µs of a step in barbic2005, figures 5 and 11.
PAPER = {
    "spoon": (60.0, 30.2),
    "bridge": (186.0, 65.4),
    "tower": (79.2 * 60, 1395.0),
    "heart": (97.4 * 60, 1395.0),
}


KEYS = (
    *("case", "elements", "modes", "precompute_s", "peak_mb"),
    *("step_us", "gemv_us", "python_step_us", "dgemm256_ms"),
)


#: The shortest of so many: the others were disturbed.
_REPEATS = 3
#: Length of a run of steps.
STEPS = 3_000


def measure(
    cases: Sequence[str] = (), *, steps: int = STEPS, quiet: bool = False
) -> list[dict[str, Any]]:
    """Return a row for each case, by default all.

    Parameters
    ----------
    cases
        Names of `CASES`.
    steps
        Length of a run of steps.
    quiet
        Show no progress.
    """
    for name in cases:
        if name not in CASES:
            near = get_close_matches(name, CASES, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(CASES)}"
            raise SuppleError(f'no case "{name}"; {hint}')
    check_steps(steps)
    chosen = list(dict.fromkeys(cases)) or list(CASES)
    first_use_message(quiet)
    rows = []
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=len(chosen))
        for name in chosen:
            progress.update(task, description=f"{name}, {CASES[name].modes} modes")
            rows.append(with_cores(None, _row, name, CASES[name], steps))
            progress.advance(task)
    return rows


def _row(name: str, case: Case, steps: int) -> dict[str, Any]:
    """Measure one case; in a process of its own."""
    import numpy as np

    from supple.elastic.material import Material
    from supple.engines.stvk.build import elastic_basis
    from supple.engines.stvk.model import StvkModel
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
    basis = elastic_basis(mesh, material, case.modes, fixed, "derivatives", 2)
    basis_s = perf_counter() - began
    with_basis = peak_megabytes()
    times, used = [], []
    for _ in range(_REPEATS):
        model = None  # two at once are not what one needs
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


def table(rows: list[dict[str, Any]]) -> None:
    """Print the rows for people."""
    from rich.console import Console
    from rich.table import Table

    made = Table(
        title="Precomputing StVK polynomials on all cores, seconds",
        caption="Paper: barbic2005, figures 5 (above) and 11 (below).",
    )
    steps = Table(
        title="A Newmark step on one core, microseconds",
        caption="gemv: a product that reads as many coefficients as a step from memory; cached: "
        "the same matrix again and again. Python: what a single call of step adds. dgemm: a 256³ "
        "product of float64 in ms, on one core in the same run.",
    )
    for grid, headings in (
        (made, ("elements", "modes", "basis", "precompute", "paper's", "peak MB")),
        (steps, ("step", "paper's", "gemv", "cached", "step/gemv", "Python", "dgemm")),
    ):
        grid.add_column("case")
        for heading in headings:
            grid.add_column(heading, justify="right")
    for row in rows:
        cells = _cells(row)
        made.add_row(row["case"], *cells[:6])
        steps.add_row(row["case"], *cells[6:])
    console = Console()
    console.print(made)
    console.print(steps)


def _cells(row: dict[str, Any]) -> list[str]:
    def shown(key: str, digits: str) -> str:
        return "–" if row[key] is None else format(row[key], digits)

    return [
        *(shown("elements", ","), shown("modes", "d"), shown("basis_s", ".2f")),
        *(shown("precompute_s", ".3f"), shown("paper_precompute_s", ",.0f")),
        *(shown("peak_mb", ",.0f"), shown("step_us", ".1f"), shown("paper_step_us", ".0f")),
        *(shown("gemv_us", ".1f"), shown("gemv_cached_us", ".1f")),
        *(f"{row['step_us'] / row['gemv_us']:.2f}", shown("python_step_us", ".1f")),
        shown("dgemm256_ms", ".3f"),
    ]
