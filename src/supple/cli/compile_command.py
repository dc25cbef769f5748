"""The command `supple compile`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from supple.cli.common_options import DISPLAY, Flag, Shown


def compile(
    job: str | None = None,
    /,
    *,
    cores: int | None = None,
    clean: Flag = False,
    info: Annotated[bool, Parameter(name=["--list", "--info"], negative="")] = False,
    display: Shown = DISPLAY,
) -> None:
    """Compile beforehand what is compiled at first use otherwise, on all cores.

    Parameters
    ----------
    job
        Only what this command needs: demo, bake, build, curves or stvk.
    cores
        How many processes compile at once; by default one for each core.
    clean
        Remove all compiled code instead.
    info
        Only say where compiled code lies, and how much it takes.
    """
    from supple.app.compiling import remove_compiled, run_compile, where_compiled

    if clean:
        display.show(remove_compiled(), _print_removed)
    elif info:
        display.show(where_compiled(), _print_places)
    else:
        display.show(run_compile(job, cores, quiet=display.silent), _print_compiled)


def _print_removed(figures: dict[str, Any]) -> None:
    print(f"removed {figures['removed']} files, {figures['megabytes']} MB")


def _print_places(figures: dict[str, Any]) -> None:
    print(f"{figures['files']} files, {figures['megabytes']} MB")
    for folder in figures["folders"]:
        print(folder)


def _print_compiled(figures: dict[str, Any]) -> None:
    print(f"{figures['kernels']} functions compiled, {figures['seconds']} s")
    _print_places(figures)
