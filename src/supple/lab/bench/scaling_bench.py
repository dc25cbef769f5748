"""`supple bench builds`, `reduction` and `growth`: builds and steps as modes and tets grow.

Builds have processor time, memory and errors; `reduction` compares modes with contact
constraints and modes without (xu2016 Table 1); `growth` times steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np

from supple.app.processes import peak_megabytes, with_cores
from supple.errors import SuppleError
from supple.lab.bench.case_runner import (
    Cells,
    Row,
    check_between,
    exponent,
    limits_text,
    print_rows,
    run_cases,
)
from supple.lab.bench.step_bench import checked_scenes
from supple.lab.bench.timing import RATE, back_and_forth, motion_of, time_steps
from supple.reduction.build_log import BuildLog
from supple.scenes.characters.character_scene import scene as scene_of

#: Numbers of tets of builds, and of steps; numbers of modes of steps.
BUILD_SIZES = (16_000, 32_000, 64_000)
SIZES = (16_000, 32_000, 64_000, 128_000)
MODES = (100, 50, 25, 10)
LEAST = 1_000
#: Frames per second of the paper's gorilla on one core, by number of modes (xu2016 §9).
PAPER_FPS = {100: 240, 50: 600, 25: 1400, 10: 2200}
#: Models are timed alternately, so that other processes slow all of them alike.
STEPS, _ROUNDS = 1_000, 5
#: Number of modes in contact, and for each scene a pose in which it touches itself, and seconds
#: without and with constraints in the paper's Table 1.
CONTACT_MODES = 20
CONTACT_POSES = {
    "arm": ("flexed", 0.9, 2.6),
    "bear": ("hug", 1.9, 7.3),
    "gorilla": ("chest beat", 1.7, 6.2),
}


# Builds


def measure_builds(
    sizes: Sequence[int] = BUILD_SIZES,
    *,
    modes: int | None = None,
    scene: str = "gorilla",
    quiet: bool = False,
) -> Row:
    """Build a scene with each number of tets in a separate process; return the rows.

    `modes` is the total number of modes, distributed as the scene's.
    """
    checked_scenes([scene])
    _check_sizes(sizes, 1_000_000)
    scene_modes = scene_of(scene).modes
    columns = scene_modes if modes is None else scaled_modes(scene_modes, modes)
    cases: list[tuple[str, Callable[[], Row]]] = [
        (f"{scene}, {size:,} tets", partial(with_cores, None, build_row, scene, size, columns))
        for size in sizes
    ]
    rows = run_cases(cases, quiet=quiet)
    power = exponent(rows, "tets", "processor_s", None)
    return {"scene": scene, "builds": rows, "exponent": power}


def _check_sizes(sizes: Sequence[int], largest: int = 500_000) -> None:
    for size in sizes:
        check_between(size, LEAST, largest, "tets")


def build_row(name: str, tets: int, modes: tuple[int, ...]) -> Row:
    """Return processor time, memory and errors of a build, without compilation."""
    from supple.engines.factory import build

    shown = scene_of(name)
    recipe = shown.recipe() | {"modes": modes}
    build(shown.character, **recipe | {"tets": LEAST})  # compiles, or loads compiled code
    log = _ProcessorLog()
    began, used = perf_counter(), process_time()
    model = build(shown.character, log=log, **recipe | {"tets": tets})
    used, seconds = process_time() - used, perf_counter() - began
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.supple"
        model.save(path)
        megabytes = path.stat().st_size / 1e6
    peak = peak_megabytes()
    return {
        "tets": len(model.mesh.tets),
        "modes": model.n_modes,
        "processor_s": round(used, 2),
        "seconds": round(seconds, 2),
        "peak_mb": None if peak is None else round(peak),
        "model_mb": round(megabytes, 2),
        "elastic_error": model.report["elastic_error"]["held_out"],
        "stages": {stage: round(spent, 2) for stage, spent in log.processor.items()},
    }


class _ProcessorLog(BuildLog):
    """Log of the processor time of each stage; other processes change it little."""

    def __init__(self) -> None:
        super().__init__()
        self.processor: dict[str, float] = {}

    def began(self, name: str) -> None:
        """Start the clock of a stage."""
        self._from = process_time()

    def ended(self, name: str) -> None:
        """Add the time of a stage."""
        self.processor[name] = self.processor.get(name, 0.0) + process_time() - self._from


def builds_table(figures: Row) -> None:
    """Print times, memory and errors of builds, and the stages of each."""
    columns: Cells = {
        "tets": ("tets", ","),
        "modes": ("modes", ""),
        "all": ("processor_s", ".1f"),
        "wall clock": ("seconds", ".1f"),
        "peak MB": ("peak_mb", ",.0f"),
        "file MB": ("model_mb", ".1f"),
        "held-out error": ("elastic_error", ".4f"),
    }
    rows = figures["builds"]
    print_rows(rows, columns, f"{figures['scene']}: builds, processor seconds")
    stages = dict.fromkeys(stage for row in rows for stage in row["stages"])
    lines = [
        {"stage": stage, **{f"{k}": row["stages"].get(stage) for k, row in enumerate(rows)}}
        for stage in stages
    ]
    parts: Cells = {
        "stage": ("stage", ""),
        **{f"{row['tets']:,}{' ' * k}": (f"{k}", ".1f") for k, row in enumerate(rows)},
    }
    print_rows(lines, parts, "stages, processor seconds", left=1)
    _print_exponent(figures)


def _print_exponent(figures: Row) -> None:
    if figures["exponent"] is not None:
        print(f"time grows like tets to the power {figures['exponent']:.2f}")


# Builds, and modes in contact


def measure_reduction(
    sizes: Sequence[int] = SIZES, *, scene: str = "gorilla", quiet: bool = False
) -> Row:
    """Time builds of a scene by number of tets, and modes with and without contact constraints."""
    _check_sizes(sizes)
    cases: list[tuple[str, Callable[[], Row]]] = [
        (f"{name}, modes in contact", partial(_contact_row, name)) for name in CONTACT_POSES
    ]
    cases += [
        (f"{scene}, {size:,} tets", partial(with_cores, None, _staged_build, scene, size))
        for size in sizes
    ]
    rows = run_cases(cases, quiet=quiet)
    builds = rows[len(CONTACT_POSES) :]
    power = exponent(builds, "tets", "seconds", None)
    return {"contact": rows[: len(CONTACT_POSES)], "growth": builds, "exponent": power}


def contact_mode_times(name: str, counts: Sequence[int], repeats: int) -> Row:
    """Return seconds of computing `counts` modes of a scene, with and without contact constraints.

    The scene is one of `CONTACT_POSES`. Times are the shortest of `repeats` alternating runs.
    """
    from supple.elastic.body import ElasticBody
    from supple.mesh.boundary_contacts import find_boundary_contacts
    from supple.reduction import contact_constraints, null_space
    from supple.reduction.modes import linear_modes
    from supple.rig.tets.tet_body import fit_tet_body

    shown, pose = scene_of(name), CONTACT_POSES[name][0]
    recipe = shown.recipe()
    flesh = fit_tet_body(
        shown.character.surface,
        shown.character.rig,
        [shown.pose(pose)],
        tets=recipe["tets"],
        bones=recipe["bones"],
    )
    rest = flesh.tet_rig(shown.pose(pose))
    body = ElasticBody(flesh.mesh, shown.material)
    stiffness, mass, n = body.stiffness(rest, rest), body.vertex_masses(), len(rest)
    free = np.setdiff1d(np.arange(n), flesh.fixed)
    rows = contact_constraints(find_boundary_contacts(flesh.mesh, None, rest), n)
    times = []
    for count in counts:
        seconds: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(repeats):
            for bound in (False, True):
                began = perf_counter()
                space = null_space(rows if bound else None, n, free=free)
                linear_modes(stiffness, mass, count, null_space=space)
                seconds[bound].append(perf_counter() - began)
        times.append({"modes": count, "free_s": min(seconds[False]), "bound_s": min(seconds[True])})
    return {"pose": pose, "unknowns": 3 * len(free), "rows": rows.shape[0], "times": times}


def _contact_row(name: str) -> Row:
    """Return times of 20 modes of the whole body with and without contact."""
    figures = with_cores(None, contact_mode_times, name, (CONTACT_MODES,), 5)
    (times,) = figures["times"]
    free, bound = times["free_s"], times["bound_s"]
    return {
        "scene": name,
        "pose": figures["pose"],
        "unknowns": figures["unknowns"],
        "rows": figures["rows"],
        "unconstrained_s": round(free, 4),
        "constrained_s": round(bound, 4),
        "ratio": round(bound / free, 3),
        "paper_unconstrained_s": CONTACT_POSES[name][1],
        "paper_constrained_s": CONTACT_POSES[name][2],
    }


def _staged_build(name: str, size: int) -> Row:
    from supple.engines.factory import build

    shown, log = scene_of(name), BuildLog()
    model = build(shown.character, **(shown.recipe() | {"tets": size}), log=log)
    return {
        "scene": name,
        "tets": model.report["tets"],
        "seconds": round(log.seconds, 2),
        "stages": {stage: round(seconds, 2) for stage, seconds in log.stages.items()},
        "peak_mb": peak_megabytes(),
        "elastic_error": model.report["elastic_error"]["train"],
    }


def reduction_table(figures: Row) -> None:
    """Print times of modes in contact, and of builds."""
    contact: Cells = {
        "scene": ("scene", ""),
        "pose": ("pose", ""),
        "unknowns": ("unknowns", ","),
        "rows": ("rows", ""),
        "free": ("unconstrained_s", ".3f"),
        "bound": ("constrained_s", ".3f"),
        "ratio": ("ratio", ".2f"),
        "paper's ratio": (
            lambda row: row["paper_constrained_s"] / row["paper_unconstrained_s"],
            ".1f",
        ),
    }
    title = f"{CONTACT_MODES} modes, with contact constraints and without, seconds"
    print_rows(figures["contact"], contact, title)
    builds: Cells = {
        "tets": ("tets", ","),
        "seconds": ("seconds", ".1f"),
        "peak MB": ("peak_mb", ",.0f"),
        "slowest stages": (_slowest, ""),
    }
    print_rows(figures["growth"], builds, "Whole builds")
    _print_exponent(figures)


def _slowest(row: Row) -> str:
    slow = sorted(row["stages"].items(), key=lambda stage: -stage[1])[:3]
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in slow)


# Steps


def measure_steps(
    modes: Sequence[int] = MODES,
    sizes: Sequence[int] = SIZES,
    *,
    scene: str = "gorilla",
    quiet: bool = False,
) -> Row:
    """Time steps of a scene by number of modes, and by number of tets.

    The numbers of cubature tets and vertices, poses and regions are the scene's.
    """
    from supple.playback.character_models import scene_model_file

    checked_scenes([scene])
    _check_sizes(sizes)
    scene_modes = scene_of(scene).modes
    changes: list[Row] = [{"modes": scaled_modes(scene_modes, count)} for count in modes]
    changes += [{"tets": size} for size in sizes]
    changes = [{} if change == {"modes": scene_modes} else change for change in changes]
    paths: list[Path] = []
    rows: list[Row] = []
    with ExitStack() as stack:

        def make(change: Row) -> None:
            paths.append(stack.enter_context(scene_model_file(scene, **change)))

        def time() -> None:
            rows.extend(with_cores(1, _alternating_rows, paths, STEPS // _ROUNDS))

        cases: list[tuple[str, Callable[[], None]]] = []
        for change in changes:
            text = ", ".join(f"{name} {value}" for name, value in change.items())
            cases.append((f"{scene}, {text or 'unchanged'}", partial(make, change)))
        run_cases([*cases, ("timing alternately", time)], quiet=quiet)
    by_modes, by_tets = rows[: len(modes)], rows[len(modes) :]
    for row in by_modes:
        fps = PAPER_FPS.get(row["modes"]) if scene == "gorilla" else None
        row["paper_ms"] = None if fps is None else round(1e3 / fps, 3)
    for row in by_tets:
        row["ratio"] = round(row["reduced_ms"] / by_tets[0]["reduced_ms"], 3)
    return {"scene": scene, "modes": by_modes, "tets": by_tets}


def scaled_modes(modes: Sequence[int], count: int) -> tuple[int, ...]:
    """Return a number of modes for each region, in proportion to `modes`; at least one each."""
    if not len(modes) <= count <= 10 * sum(modes):
        raise SuppleError(f"{count} modes; choose between {len(modes)} and {10 * sum(modes)}")
    exact = np.asarray(modes) * count / sum(modes)
    counts = np.maximum(np.floor(exact).astype(int), 1)
    while counts.sum() != count:
        short = exact - counts
        at = int(np.argmax(short)) if counts.sum() < count else int(np.argmin(short))
        counts[at] += 1 if counts.sum() < count else -1
    return tuple(int(each) for each in counts)


def _alternating_rows(paths: Sequence[Path], steps: int) -> list[Row]:
    from supple.engines.factory import Simulator, load_model

    models = [load_model(path) for path in paths]
    simulators = [Simulator(model, 1 / RATE) for model in models]
    timed: list[list[Any]] = [[] for _ in models]
    for k in range(_ROUNDS):
        for model, simulator, times in zip(models, simulators, timed, strict=True):
            poses, roots = back_and_forth(motion_of(model), (k + 1) * steps)
            part = slice(k * steps, None)
            times.append(time_steps(simulator, poses[part], roots[part]))
    return [_step_row(model, times) for model, times in zip(models, timed, strict=True)]


def _step_row(model: Any, times: list[Any]) -> Row:
    steps, surface = (
        np.concatenate([getattr(each, part) for each in times]) for part in ("whole", "surface")
    )
    limited: Counter[str] = Counter()
    for each in times:
        limited.update(each.limited)
    return {
        "modes": model.n_modes,
        "tets": len(model.mesh.tets),
        "cubature_elastic": len(model.elastic_tets),
        "cubature_inertial": len(model.inertial_vertices),
        "reduced_ms": round(1e3 * float(np.median(steps - surface)), 4),
        "surface_ms": round(1e3 * float(np.median(surface)), 4),
        "step_ms": round(1e3 * float(np.median(steps)), 4),
        "limited_steps": dict(limited),
    }


def steps_table(figures: Row) -> None:
    """Print times of a step as modes and as tets grow."""
    reduced = {"without surface": ("reduced_ms", ".3f")}
    by_modes: Cells = {
        "modes": ("modes", ""),
        **reduced,
        "whole": ("step_ms", ".3f"),
        "paper's, one core": ("paper_ms", ".2f"),
    }
    by_tets: Cells = {
        "tets": ("tets", ","),
        **reduced,
        "to the first": ("ratio", ".2f"),
        "surface": ("surface_ms", ".3f"),
        "whole": ("step_ms", ".3f"),
    }
    for key, columns in (("modes", by_modes), ("tets", by_tets)):
        title = f"{figures['scene']}: a step on one core as {key} grow, milliseconds"
        print_rows(figures[key], columns, title)
    for row in (*figures["modes"], *figures["tets"]):
        if row.get("limited_steps"):
            size = f"{row['modes']} modes and {row['tets']:,} tets"
            print(f"limits acted, with {size}: {limits_text(row['limited_steps'])} steps")
