"""`supple build`: a file or a scene in, a model file out, and figures about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from supple.anatomy.flesh_presets import flesh_material
from supple.app.build_display import build_log, print_summary
from supple.app.processes import peak_megabytes
from supple.app.progress_bar import console, first_use_message, working
from supple.engines.pose_space.build.build import build
from supple.errors import SuppleError
from supple.mesh.obstacles import Plane
from supple.scenes.characters.character_scene import SCENES, scene

__all__ = ["build_options", "run_build"]

SUFFIX = ".supple"


def run_build(
    source: str,
    output: Path | None,
    *,
    sheet: Path | None = None,
    processes: int | None = None,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Build a model of a character file or a scene, save it, and say how it went.

    Parameters
    ----------
    source
        A file, or the name of a scene; a file of that name goes first.
    output
        Where to; by default the character's name in the current folder.
    sheet
        PNG to draw the model into; None for no picture.
    processes
        How many to compute poses in; None for threads.
    quiet
        Show nothing.
    **options
        For `supple.build`; they go before a scene's own. `constants` go into its material.
    """
    target = _checked_target(source, output)
    if sheet is not None:
        from supple.app.pictures.drawing import checked_sheet

        checked_sheet(sheet)
    first_use_message(quiet)
    with working("reading", quiet):
        character, recipe = _character(source)
    constants = options.pop("constants", {})
    chosen = recipe | options
    if constants:
        usual = chosen.get("material") or flesh_material(character.surface.size)
        chosen["material"] = replace(usual, **constants)
    if "young" in constants:
        chosen.pop("young", None)  # in place of what a scene has painted
    with build_log(quiet) as log, _executor(processes) as executor:
        model = build(character, **chosen, executor=executor, log=log)
    with working("writing", quiet):
        model.save(target)
    if sheet is not None:
        from supple.app.pictures.model_sheet import write_model_sheet

        with working("drawing", quiet):
            write_model_sheet(model, sheet)
    figures = {
        "seconds": round(log.seconds, 3),
        "stages": {name: round(seconds, 3) for name, seconds in log.stages.items()},
        "peak_mb": _rounded(peak_megabytes()),
        "model_mb": round(target.stat().st_size / 1e6, 3),
        "output": str(target),
        **model.report,
    }
    if not quiet:
        print_summary(figures)
        console.print(f"wrote {target}" + ("" if sheet is None else f" and {sheet}"))
    return figures


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def build_options(
    *,
    poses: Sequence[str] | None = None,
    modes: Sequence[int] | None = None,
    regions: str | None = None,
    contacts: str | None = None,
    ground: float | None = None,
    kind: str | None = None,
    young: float | None = None,
    poisson: float | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Options of `run_build` from words on a command line; what was not said is left out."""
    options = {name: value for name, value in others.items() if value is not None}
    if poses is not None:
        options["poses"] = _poses(poses)
    if modes is not None:
        if len(modes) == 0:
            raise SuppleError("--modes needs one or more numbers, such as --modes 100")
        options["modes"] = modes[0] if len(modes) == 1 else list(modes)
    if regions is not None:
        options["regions"] = None if regions == "none" else regions
    if contacts is not None:
        options["contacts"] = None if contacts == "none" else contacts
    if ground is not None:
        options["obstacles"] = (Plane((0.0, ground, 0.0), (0.0, 1.0, 0.0)),)
    constants = {"kind": kind, "young": young, "poisson": poisson}
    options["constants"] = {name: value for name, value in constants.items() if value is not None}
    return options


def _poses(words: Sequence[str]) -> Any:
    if len(words) == 0:
        raise SuppleError("--poses needs a number, auto, or frames such as Run:12")
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        return int(words[0])
    return "auto" if list(words) == ["auto"] else list(words)


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
    from supple.formats.load import load

    file = Path(source)
    if not file.exists() and (source in SCENES or not file.suffix):
        shown = scene(source)  # where there is none, an error that knows their names
        return shown.character, shown.recipe()
    return load(file), {}


@contextmanager
def _executor(processes: int | None) -> Iterator[Executor | None]:
    if processes is None:
        yield None
        return
    if processes < 1:
        raise SuppleError(f"--processes {processes}; use 1 or more")
    # Started afresh: OpenMP's threads do not survive a fork.
    with ProcessPoolExecutor(processes, get_context("spawn")) as executor:
        yield executor
