"""The command `supple blender`."""

from __future__ import annotations

from supple.cli.common_options import DISPLAY, Flag, Shown


def blender(*, install: Flag = False, remove: Flag = False, display: Shown = DISPLAY) -> None:
    """Say which Blender reads .blend and .fbx files, or make an environment with one.

    It is the program that SUPPLE_BLENDER names, the environment with bpy that SUPPLE_BPY names, the
    one that --install made, or the program blender on the path.

    Parameters
    ----------
    install
        Make an environment with Blender as a Python package in the user's data folder; says what
        it downloads first.
    remove
        Remove that environment.
    """
    from supple.app.blender_setup import print_blender, run_blender

    figures = run_blender(install=install, remove=remove, quiet=display.silent)
    display.show(figures, print_blender)
