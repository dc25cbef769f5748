"""`supple bench growth`: a step of the gorilla as its modes and its tets grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from supple.app.processes import with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.errors import SuppleError
from supple.lab.bench.step_bench import checked_scenes, limits_text, number
from supple.lab.bench.timing import RATE, back_and_forth, motion_of, time_steps

MODES = (100, 50, 25, 10)
SIZES = (16_000, 32_000, 64_000, 128_000)
#: Frames per second of the paper's gorilla on one core, by number of modes (xu2016 §9).
PAPER_FPS = {100: 240, 50: 600, 25: 1400, 10: 2200}
STEPS = 1_000
#: Models are timed in turns, so often: whatever slows the machine down slows all of them.
_TURNS = 5


def measure(
    modes: Sequence[int] = MODES,
    sizes: Sequence[int] = SIZES,
    *,
    scene: str = "gorilla",
    quiet: bool = False,
) -> dict[str, Any]:
    """Time steps of a scene by number of modes, and by number of tets.

    The numbers of cubature tets and vertices stay, as do the poses and the regions.
    """
    from supple.app.character_models import scene_model_file
    from supple.scenes.characters.character_scene import scene as scene_of

    checked_scenes([scene])
    for size in sizes:
        if not 1_000 <= size <= 500_000:
            raise SuppleError(f"{size:,} tets; choose between 1,000 and 500,000")
    own = scene_of(scene).modes
    changes: list[dict[str, Any]] = [{"modes": scaled_modes(own, count)} for count in modes]
    changes += [{"tets": size} for size in sizes]
    changes = [{} if each == {"modes": own} else each for each in changes]
    first_use_message(quiet)
    with ExitStack() as stack, progress_bar(quiet) as progress:
        task = progress.add_task("models", total=len(changes) + 1)
        paths = []
        for each in changes:
            what = ", ".join(f"{name} {value}" for name, value in each.items())
            progress.update(task, description=f"{scene}, {what or 'as it is'}")
            paths.append(stack.enter_context(scene_model_file(scene, **each)))
            progress.advance(task)
        progress.update(task, description="timing in turns")
        rows = with_cores(1, _rows, paths, STEPS // _TURNS)
        progress.advance(task)
    by_modes, by_tets = rows[: len(modes)], rows[len(modes) :]
    for row in by_modes:
        fps = PAPER_FPS.get(row["modes"]) if scene == "gorilla" else None
        row["paper_ms"] = None if fps is None else round(1e3 / fps, 3)
    for row in by_tets:
        row["ratio"] = round(row["reduced_ms"] / by_tets[0]["reduced_ms"], 3)
    return {"scene": scene, "modes": by_modes, "tets": by_tets}


def scaled_modes(own: Sequence[int], count: int) -> tuple[int, ...]:
    """Spread a number of modes over the regions as `own` are; each has at least one."""
    if not len(own) <= count <= 10 * sum(own):
        raise SuppleError(f"{count} modes; choose between {len(own)} and {10 * sum(own)}")
    exact = np.asarray(own) * count / sum(own)
    found = np.maximum(np.floor(exact).astype(int), 1)
    while found.sum() != count:
        short = exact - found
        at = int(np.argmax(short)) if found.sum() < count else int(np.argmin(short))
        found[at] += 1 if found.sum() < count else -1
    return tuple(int(each) for each in found)


def _rows(paths: Sequence[Path], steps: int) -> list[dict[str, Any]]:
    from supple.engines.factory import Simulator, load_model

    models = [load_model(path) for path in paths]
    simulators = [Simulator(model, 1 / RATE) for model in models]
    timed: list[list[Any]] = [[] for _ in models]
    for turn in range(_TURNS):
        for model, simulator, times in zip(models, simulators, timed, strict=True):
            poses, roots = back_and_forth(motion_of(model), (turn + 1) * steps)
            part = slice(turn * steps, None)
            times.append(time_steps(simulator, poses[part], roots[part]))
    return [_row(model, times) for model, times in zip(models, timed, strict=True)]


def _row(model: Any, times: list[Any]) -> dict[str, Any]:
    whole, surface = (
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
        "reduced_ms": round(1e3 * float(np.median(whole - surface)), 4),
        "surface_ms": round(1e3 * float(np.median(surface)), 4),
        "step_ms": round(1e3 * float(np.median(whole)), 4),
        "limited_steps": dict(limited),
    }


def table(figures: dict[str, Any]) -> None:
    """Print times of a step as modes and tets grow."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    modes = Table(title=f"{figures['scene']}: a step on one core as modes grow, milliseconds")
    for heading in ("modes", "without surface", "whole", "paper's, one core"):
        modes.add_column(heading, justify="right")
    for row in figures["modes"]:
        modes.add_row(
            str(row["modes"]),
            f"{row['reduced_ms']:.3f}",
            f"{row['step_ms']:.3f}",
            number(row["paper_ms"], ".2f"),
        )
    tets = Table(title=f"{figures['scene']}: a step on one core as tets grow, milliseconds")
    for heading in ("tets", "without surface", "to the first", "surface", "whole"):
        tets.add_column(heading, justify="right")
    for row in figures["tets"]:
        tets.add_row(
            f"{row['tets']:,}",
            f"{row['reduced_ms']:.3f}",
            f"{row['ratio']:.2f}",
            f"{row['surface_ms']:.3f}",
            f"{row['step_ms']:.3f}",
        )
    for grid in (modes, tets):
        if grid.row_count:
            console.print(grid)
    for row in (*figures["modes"], *figures["tets"]):
        if row.get("limited_steps"):
            which = f"{row['modes']} modes and {row['tets']:,} tets"
            console.print(f"limits acted, with {which}: {limits_text(row['limited_steps'])} steps")
