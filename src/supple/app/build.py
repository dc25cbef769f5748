"""`supple build`: a file or a scene in, a model file out, and figures about it."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supple.app.build_display import build_log, print_summary
from supple.app.progress import console, first_use_message, working
from supple.errors import SuppleError
from supple.reduction.build import build
from supple.reduction.model import PoseSpaceModel
from supple.scenes.character_scene import SCENES, scene

__all__ = ["build_figures", "run_build"]

SUFFIX = ".supple"


def run_build(
    source: str, output: Path | None, *, quiet: bool = False, **options: Any
) -> dict[str, Any]:
    """Build a model of a character file or a scene, save it, and say how it went.

    Parameters
    ----------
    source
        A file, or the name of a scene; a file of that name goes first.
    output
        Where to; by default the character's name in the current folder.
    quiet
        Show nothing.
    **options
        For `supple.build`; they go before a scene's own.
    """
    target = _checked_target(source, output)
    first_use_message(quiet)
    given = {name: value for name, value in options.items() if value is not None}
    with working("reading", quiet):
        character, recipe = _character(source)
    with build_log(quiet) as log:
        model = build(character, **(recipe | given), log=log)
    model.save(target)
    figures = build_figures(model, target.stat().st_size) | {
        "seconds": round(log.seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in log.stages.items()},
        "peak_mb": round(peak_megabytes(), 1),
        "output": str(target),
    }
    if not quiet:
        print_summary(figures)
        console.print(f"wrote {target}")
    return figures


def build_figures(model: PoseSpaceModel, n_bytes: int) -> dict[str, Any]:
    """What a model's own report says, and its size."""
    return {"model_mb": round(n_bytes / 1e6, 3)} | model.report


def _checked_target(source: str, output: Path | None) -> Path:
    target = Path(Path(source).stem + SUFFIX) if output is None else output
    if target.suffix.lower() != SUFFIX:
        raise SuppleError(f"{target}: a model file ends in {SUFFIX}")
    if not target.parent.is_dir():
        raise SuppleError(f"{target}: there is no folder {target.parent}")
    if target.is_dir() or not os.access(target.parent, os.W_OK):
        raise SuppleError(f"{target}: cannot be written")  # better now than after the build
    return target


def _character(source: str) -> tuple[Any, dict[str, Any]]:
    from supple.formats import load

    if not Path(source).exists() and source in SCENES:
        shown = scene(source)
        return shown.character, shown.recipe()
    if not Path(source).exists() and not Path(source).suffix:
        return scene(source).character, {}  # an error that knows the scenes' names
    return load(source), {}


def peak_megabytes() -> float:
    """The most memory this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def parsed_poses(words: Sequence[str] | None) -> Any:
    """Poses as written on the command line: a number, "auto", or frames such as Run:12."""
    if not words:
        return None
    if len(words) == 1 and words[0].isdecimal():
        return int(words[0])
    return "auto" if list(words) == ["auto"] else list(words)
