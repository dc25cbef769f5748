"""Commands of the installation: doctor, blender and compile."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from supple.cli.common_options import DISPLAY, Flag, Shown


def doctor(*, display: Shown = DISPLAY) -> None:
    """Describe this installation: versions, machine, caches, extras, and problems with remedies.

    The text can be pasted into a report of a defect.
    """
    from supple.app.doctor import print_doctor, run_doctor

    display.show(run_doctor(quiet=display.silent), print_doctor)


def blender(*, install: Flag = False, remove: Flag = False, display: Shown = DISPLAY) -> None:
    """Show which Blender reads .blend and .fbx files, or install one.

    The first of these is used: the program that SUPPLE_BLENDER names, the environment with bpy that
    SUPPLE_BPY names, the environment of --install, or the program blender on the path.

    Parameters
    ----------
    install
        Create an environment with Blender as a Python package in the user's data folder; the
        download is described first.
    remove
        Remove that environment.
    """
    from supple.app.blender_setup import print_blender, run_blender

    figures = run_blender(install=install, remove=remove, quiet=display.silent)
    display.show(figures, print_blender)


def compile(
    job: str | None = None,
    /,
    *,
    cores: int | None = None,
    clean: Flag = False,
    info: Annotated[bool, Parameter(name=["--list", "--info"], negative="")] = False,
    display: Shown = DISPLAY,
) -> None:
    """Compile functions on all cores in advance, which are otherwise compiled at first use.

    Parameters
    ----------
    job
        Only the functions of this command: demo, bake, build, curves or stvk.
    cores
        Number of processes; by default one per core.
    clean
        Remove all compiled code instead.
    info
        List the folders of compiled code and its size instead.
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


SETUP_COMMANDS = (doctor, blender, compile)
