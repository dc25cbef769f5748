"""The command `supple`.

Commands are imported when they are called, and import what they need when they run, so that
`supple --help` is instant.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

from cyclopts import App, CycloptsError, Parameter

import supple
from supple.cli.common_options import DISPLAY, Shown
from supple.engines.options import SourceOptions
from supple.errors import SuppleError, SuppleWarning

app = App(
    name="supple",
    help="Physically based soft tissue for any rigged character, in real time.",
    version=supple.__version__,
    suppress_keyboard_interrupt=False,
)
#: Commands that have a module of their own, and a line about each.
COMMANDS = {
    "build": "Reduce a character at several poses, into a model file that can be stepped in real"
    " time.",
    "bake": "Give a character flesh: the same file back, with its motion alive.",
    "curves": "Move controls of the rig by physics, and write them as animation curves to edit.",
    "batch": "Run a command on many characters, clips and settings, here or on a cluster.",
    "stvk": "Make an elastic body of any mesh that steps thousands of times a second: no rig"
    " needed.",
    "view": "Open a page with the character or the elastic body alive: play it, pose it, drag its"
    " skin.",
    "demo": "Give the built-in gorilla flesh, and report: a page with a player, pictures and"
    " figures.",
    "bench": "Measure Supple on this machine, beside other software.",
    "blender": "Say which Blender reads .blend and .fbx files, or make an environment with one.",
    "reproduce": "Make the papers' tables and figures, ours beside theirs.",
    "compile": "Compile beforehand what is compiled at first use otherwise, on all cores.",
}
for _name, _line in COMMANDS.items():
    app.command(f"supple.cli.{_name}_command:{_name}", name=_name, help=_line)


@app.command
def info(
    file: Path,
    /,
    *,
    anatomy: Annotated[list[Path] | None, Parameter(consume_multiple=True, negative="")] = None,
    options: Annotated[SourceOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Describe the content of a file, and its defects.

    Parameters
    ----------
    file
        A character (.glb .gltf .vrm .usd .usda .usdc .usdz, .blend and .fbx through Blender), a
        body model (.npz .pkl), a motion (.bvh, of a body model .npz .pkl .smpl), a mesh (.obj .ply
        .stl .off .veg .msh .mesh .vtk), a model (.supple), an elastic body (.stvk), or one of
        VegaFEM's files (.cub, .U, .bou).
    anatomy
        List a character's regions: which are bone, flesh, hard or separate, and why. A file
        sheet.png gets a drawing of them; NAME.anatomy.json a table to edit for bake, build and
        view.
    """
    from supple.app.info.info import describe, print_info

    given = options or SourceOptions()
    body = {"motion": given.motion, "betas": given.betas, "armature": given.armature}
    display.show(describe(file, anatomy, given.unit, **body), print_info)


@app.command
def scene(name: str, /, *, sheet: Path | None = None, display: Shown = DISPLAY) -> None:
    """Make one of the built-in characters, and draw it.

    Parameters
    ----------
    name
        arm, x, bear, gorilla, elephant, sumo, hand or human.
    sheet
        PNG to draw all its poses and frames of its motion into.
    """
    from supple.app.pictures.scene_sheet import run_scene

    figures = run_scene(name, sheet, quiet=display.silent)
    display.show(figures, _print_lines)
    if sheet is not None and not display.silent:
        print(f"wrote {sheet}")


def _print_lines(figures: dict[str, Any]) -> None:
    for key, value in figures.items():
        print(f"{key.replace('_', ' ')}: {value}")


@app.command
def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and options with the Tab key.

    Parameters
    ----------
    shell
        The shell that reads it: for bash, write it to
        ~/.local/share/bash-completion/completions/supple; for zsh, to a file _supple in a folder
        of $fpath; for fish, to ~/.config/fish/completions/supple.fish.
    """
    script = app.generate_completion(shell=shell)
    # Files are completed where no command or option is: cyclopts leaves that out for bash.
    print(script.replace("complete -F", "complete -o bashdefault -o default -F"))


#: Interrupts that callbacks have lost.
_lost_interrupts: list[type] = []


def _interrupt_again(lost: Any) -> None:
    """Let Ctrl-C end the command though a callback lost it, as those of LLVM's loader do."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    _lost_interrupts.append(lost.exc_type)
    later = threading.Timer(0.05, _interrupt_main)  # not from inside the callback
    later.daemon = True
    later.start()


def _interrupt_main() -> None:
    """Send Ctrl-C to the main thread, and wake it if it waits for something."""
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, signal.SIGINT)
    else:  # Windows: heard when the wait ends
        _thread.interrupt_main()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exit with 0, 1 (cannot), 2 (wrong usage) or 130 (Ctrl-C)."""
    warnings.showwarning = _show_warning
    sys.unraisablehook = _interrupt_again
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a pipe that knows no "×" gets a "?"
            stream.reconfigure(errors="replace")
    try:
        tokens = sys.argv[1:] if arguments is None else arguments
        app(tokens, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:
        sys.exit(2)
    except SuppleError as error:
        print(f"supple: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("supple: stopped", file=sys.stderr, flush=True)
        if _lost_interrupts:  # LLVM was torn out of its work, and may crash when it is taken down
            os._exit(130)
        sys.exit(130)
    except MemoryError:
        print(
            "supple: needs more memory than there is; give it less to do at once", file=sys.stderr
        )
        sys.exit(1)
    except BrokenPipeError:  # whoever read our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(f"supple: output cannot be written ({error.strerror})", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, SuppleWarning):
        print(f"supple: warning: {message}", file=sys.stderr)
    elif not issubclass(category, DeprecationWarning):
        print(warnings.formatwarning(message, category, filename, lineno, line), file=sys.stderr)


if __name__ == "__main__":
    main()
