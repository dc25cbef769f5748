"""`supple bench builds`: processor time, memory and errors of builds as tets grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np

from supple.app.processes import peak_megabytes, with_cores
from supple.app.progress_bar import first_use_message, progress_bar
from supple.errors import SuppleError
from supple.lab.bench.growth_bench import scaled_modes
from supple.lab.bench.step_bench import checked_scenes, number
from supple.reduction.build_log import BuildLog

SIZES = (16_000, 32_000, 64_000)
LEAST, MOST = 1_000, 1_000_000


def measure(
    sizes: Sequence[int] = SIZES,
    *,
    modes: int | None = None,
    scene: str = "gorilla",
    quiet: bool = False,
) -> dict[str, Any]:
    """Build a scene at each number of tets, in a process of its own; nothing is kept.

    Parameters
    ----------
    sizes
        Numbers of tets.
    modes
        Number of modes in all, shared out as the scene's are; the scene's own by default.
    scene
        One of the scenes.
    quiet
        Show no progress.
    """
    from supple.scenes.characters.character_scene import scene as scene_of

    checked_scenes([scene])
    for size in sizes:
        if not LEAST <= size <= MOST:
            raise SuppleError(f"{size:,} tets; choose between {LEAST:,} and {MOST:,}")
    own = scene_of(scene).modes
    columns = own if modes is None else scaled_modes(own, modes)
    first_use_message(quiet)
    rows = []
    with progress_bar(quiet) as progress:
        task = progress.add_task("builds", total=len(sizes))
        for size in sizes:
            progress.update(task, description=f"{scene}, {size:,} tets")
            rows.append(with_cores(None, _row, scene, size, columns))
            progress.advance(task)
    return {"scene": scene, "builds": rows, "exponent": _exponent(rows)}


def _row(name: str, tets: int, modes: tuple[int, ...]) -> dict[str, Any]:
    """Build once, and return what that took; compiling does not count."""
    from supple.engines.factory import build
    from supple.scenes.characters.character_scene import scene as scene_of

    shown = scene_of(name)
    recipe = shown.recipe() | {"modes": modes}
    build(shown.character, **recipe | {"tets": LEAST})  # which compiles, or loads what was
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
    """Log of the processor time of each stage, which other programs change little."""

    def __init__(self) -> None:
        super().__init__()
        self.processor: dict[str, float] = {}

    def began(self, name: str) -> None:
        """Begin to count."""
        self._from = process_time()

    def ended(self, name: str) -> None:
        """Add what the stage took."""
        self.processor[name] = self.processor.get(name, 0.0) + process_time() - self._from


def _exponent(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return e of time ~ tetsᵉ by least squares, or None with one size alone."""
    tets = np.log([row["tets"] for row in rows])
    if len(rows) < 2 or np.ptp(tets) == 0:
        return None
    return round(float(np.polyfit(tets, np.log([row["processor_s"] for row in rows]), 1)[0]), 3)


def table(figures: dict[str, Any]) -> None:
    """Print what builds take as tets grow."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    grid = Table(title=f"{figures['scene']}: builds, processor seconds")
    rows = figures["builds"]
    stages = list(dict.fromkeys(stage for row in rows for stage in row["stages"]))
    for heading in ("tets", "modes", "all", "by the clock", "peak MB", "file MB", "held-out error"):
        grid.add_column(heading, justify="right")
    for row in rows:
        grid.add_row(
            f"{row['tets']:,}",
            str(row["modes"]),
            f"{row['processor_s']:.1f}",
            f"{row['seconds']:.1f}",
            number(row["peak_mb"], ",.0f"),
            f"{row['model_mb']:.1f}",
            f"{row['elastic_error']:.4f}",
        )
    console.print(grid)
    parts = Table(title="stages, processor seconds")
    parts.add_column("stage")
    for row in rows:
        parts.add_column(f"{row['tets']:,}", justify="right")
    for stage in stages:
        parts.add_row(stage, *(number(row["stages"].get(stage), ".1f") for row in rows))
    console.print(parts)
    if figures["exponent"] is not None:
        console.print(f"time grows like tets to the power {figures['exponent']:.2f}")
