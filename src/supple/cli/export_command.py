"""The command `supple export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from supple.cli.common_options import DISPLAY, Shown


def export(
    *models: Path,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    target: Literal["c", "linux-x86_64", "web"] = "linux-x86_64",
    dt: float | None = None,
    display: Shown = DISPLAY,
) -> None:
    """Export the steps of models for C programs and web pages, with a runtime without Python.

    Parameters
    ----------
    models
        Models (.supple) that supple build wrote. They share one runtime.
    output
        Folder, made if it does not exist.
    target
        linux-x86_64: a shared library and its header; web: a WebAssembly module and an ES module;
        c: an object file for Linux on x86-64 and the C source, for a compiler of your own.
        The first two need a linker: pip install 'supple[live]'.
    dt
        Time step in s, by default 1/90.
    """
    from supple.app.exporting import run_export

    display.show(run_export(models, output, target, dt, quiet=display.silent))
