"""`supple bake --remove` and `supple curves --remove`: a file as it was before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from supple.app.command_files import check_place
from supple.errors import SuppleError
from supple.playback.progress_bar import console


def run_removal(
    remove: Callable[[Path, Path], dict[str, Any]],
    what: str,
    source: Path,
    output: Path | None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Take something out of a file, in place or to another; return figures.

    Parameters
    ----------
    remove
        Function of a target and a source.
    what
        Name of what it takes out.
    source, output
        Files; in place without an output.
    quiet
        Show nothing.
    """
    target = source if output is None else output
    if not source.is_file():
        raise SuppleError(f"{source}: there is no such file")
    check_place(target)
    figures = remove(target, source)
    if not quiet:
        console.print(f"wrote {target}, without {what}", markup=False)
    return {"output": str(target), "bytes": figures["bytes"]}
