"""`supple bake`: a character in, the same character out with flesh that moves."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.markup import escape
from rich.table import Table

from supple.app.bake_models import prepared_model
from supple.app.bake_source import Source, read_bake_source, read_stiffness
from supple.app.progress_bar import console, first_use_message, progress_bar, working
from supple.checks import checked_number
from supple.errors import SuppleError
from supple.formats.registry import BAKED_MOTIONS, CHARACTERS
from supple.formats.save import check_target, save
from supple.mesh.topology import counted
from supple.playing.bake import bake, bake_plan, flesh_damping
from supple.playing.wiggle import WIGGLE
from supple.rig.baked_motion import BakedMotion

__all__ = ["checked_target", "run_bake"]

#: Bytes tried before the work begins: a full disk takes none.
_TRIED = 65_536


def run_bake(
    given: str,
    output: Path | None = None,
    *,
    model: Path | None = None,
    motion: str | None = None,
    stiffness: str | None = None,
    flesh: str = "normal",
    damping: float = 1.0,
    saving: dict[str, Any] | None = None,
    building: dict[str, Any] | None = None,
    page: Path | None = None,
    quiet: bool = False,
    **playing: Any,
) -> dict[str, Any]:
    """Bake a motion of a file, a scene or a model, write it, and say how it went.

    Parameters
    ----------
    given
        A file, or the name of a scene; a file of that name goes first.
    output
        Where to; by default the name with "_soft" in the current folder.
    model
        A model file to use instead of building one.
    motion, flesh, damping, **playing
        As for `supple.bake`: `rate`, `start`, `end`, `loop`, `method`.
    stiffness
        See `read_stiffness`.
    saving
        Options of `supple.save`.
    building
        `young`, `poisson`, and options of `supple.build`.
    page
        A .html file to show the result in.
    quiet
        Show nothing.
    """
    began = perf_counter()
    target = checked_target(given, output)
    _check_saving(target, saving or {})
    if page is not None:
        _check_page(page)
    first_use_message(quiet)
    with working("reading", quiet):
        source = read_bake_source(given)
        check_target(target, source.character)
        told = dict(building or {})
        if stiffness is not None:
            told["stiffness"] = read_stiffness(stiffness, source.character)
    plan = bake_plan(source.character, motion, **playing)
    stepping = flesh_damping(flesh, damping)
    if told.get("young") is not None:
        stepping["stiffness"] = 1.0
    _say_what(source, plan.motion.name, motion, quiet)
    ready = prepared_model(source, model=model, flesh=flesh, quiet=quiet, **told)
    with _simulating(quiet) as tell:
        baked = bake(
            source.character,
            plan.motion,
            ready.model,
            simulation=stepping,
            progress=tell,
            **playing,
        )
    with working("writing", quiet):
        written = _write(target, baked, saving or {})
    figures = baked.report | {
        "flesh": flesh,
        "loop": baked.loop,
        "build_s": round(ready.seconds, 3),
        "model_kept": ready.kept,
        "bake_s": round(perf_counter() - began, 3),
        **written,
        "output": str(target),
        "bytes": target.stat().st_size,
    }
    if page is not None:
        from supple.app.report.report_page import write_page

        with working("drawing", quiet):
            write_page(page, baked, figures)
        figures["report"] = str(page)
    if not quiet:
        _print_summary(figures)
    return figures


def checked_target(given: str, output: Path | None) -> Path:
    """Where the result goes; an error when it cannot be written, before any work is done."""
    file = Path(given)
    if output is None:
        came = CHARACTERS.find(file)
        suffix = ".glb" if came is None else came.baked_suffix or file.suffix.lower()
        output = Path(f"{file.stem}_soft{suffix}")
    row = BAKED_MOTIONS.find(output)
    if row is None:
        wanted = ", ".join(BAKED_MOTIONS.suffixes())
        raise SuppleError(f'{output}: "{output.suffix}" files are not written; use one of {wanted}')
    if row.library and find_spec(row.library) is None:
        raise SuppleError(f"{output}: needs an extra; run pip install 'supple[{row.extra}]'")
    _check_place(output, file)
    return output


def _check_place(output: Path, file: Path) -> None:
    try:
        if output.exists() and not output.is_file():
            raise SuppleError(f"{output}: cannot be written; it is no file")
        if output.exists() and file.exists() and output.samefile(file):
            raise SuppleError(f"{output}: is what is baked; give the result another name")
        if not output.parent.is_dir():
            raise SuppleError(f"{output}: there is no folder {output.parent}")
        _try_to_write(output.parent)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise SuppleError(f"{output}: cannot be written ({why})") from None


def _check_page(page: Path) -> None:
    if page.suffix.lower() not in (".html", ".htm"):
        raise SuppleError(f"{page}: a report ends in .html")
    _check_place(page, Path())


def _check_saving(target: Path, options: dict[str, Any]) -> None:
    row = BAKED_MOTIONS.find(target)
    if "points" in options and row is not None and "points" not in row.options():
        having = [each for each in BAKED_MOTIONS.rows if "points" in each.options()]
        suffixes = ", ".join(suffix for each in having for suffix in each.suffixes)
        raise SuppleError(f"{target}: --points is for {suffixes}")
    error = checked_number("error", options.get("error", 0.002))
    if not 1e-6 <= error <= 0.5:
        raise SuppleError(f"--error is {error:g} of the size; use 0.000001 to 0.5")


def _try_to_write(folder: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(bytes(_TRIED))
            file.flush()
            os.fsync(file.fileno())
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)


def _say_what(source: Source, name: str, asked: str | None, quiet: bool) -> None:
    if quiet or asked is not None:
        return
    others = [each for each in source.character.motions if each != name]
    if not source.character.motions:
        console.print(f'it has no motion; "{WIGGLE}" shakes and tilts it', markup=False)
    elif others:
        more = ", ".join(others[:8]) + (" …" if len(others) > 8 else "")
        console.print(f'motion "{name}"; --motion for another: {more}', markup=False)


@contextmanager
def _simulating(quiet: bool) -> Iterator[Callable[[float, str], None]]:
    """A bar with the time left, anew for each cycle."""
    with progress_bar(quiet) as progress:
        tasks: dict[str, Any] = {}

        def tell(part: float, what: str) -> None:
            if what not in tasks:
                for other in tasks.values():
                    progress.update(other, visible=False)
                tasks[what] = progress.add_task(what, total=100)
            progress.update(tasks[what], completed=round(100 * part))

        yield tell


def _write(target: Path, baked: BakedMotion, options: dict[str, Any]) -> dict[str, Any]:
    written = save(target, baked, **options)
    written.pop("path", None)
    return {"shapes" if key == "n_shapes" else key: value for key, value in written.items()}


def _print_summary(figures: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    cycles = f", {figures['cycles']} cycles" if figures["loop"] else ""
    rows = {
        "character": f"{figures['vertices']:,} vertices, {figures['tets']:,} tets",
        "model": f"{counted(figures['poses'], 'pose')}, {figures['modes']} modes, "
        + ("kept from before" if figures["model_kept"] else f"built in {figures['build_s']:.1f} s"),
        "motion": f"{figures['motion']}, {figures['frames']} frames at {figures['rate']:.4g} a "
        f"second{cycles}",
        "step": f"{figures['step_ms']:.2f} ms",
    }
    reached = 100 * float(figures.get("error") or 0)
    if figures.get("shapes"):
        rows["shapes"] = f"{figures['shapes']}, within {reached:.2f} % of the size"
    elif figures.get("shapes") == 0:
        rows["shapes"] = (
            f"none: flesh moves by {reached:.2g} % of the size only; try a livelier motion, "
            "softer flesh or a smaller --error"
        )
    rows["time"] = f"{figures['bake_s']:.1f} s in all"
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console.print(table)
    beside = [str(figures[name]) for name in ("mesh", "report") if name in figures]
    shown = "".join(f" and {each}" for each in beside)
    console.print(f"wrote {figures['output']}{shown}", markup=False)
