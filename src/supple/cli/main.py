"""The command `supple`: its commands, exit codes, warnings and interrupts."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, Literal, TextIO

from cyclopts import App, CycloptsError

import supple
from supple.cli.bench_command import bench
from supple.cli.commands import COMMANDS
from supple.cli.export_command import export
from supple.cli.fit_command import fit, fit_body
from supple.cli.setup_commands import SETUP_COMMANDS
from supple.errors import SuppleError, SuppleWarning

app = App(
    name="supple",
    help="Physically based soft tissue for any rigged character, in real time.",
    version=supple.__version__,
    suppress_keyboard_interrupt=False,
)
for _command in (*COMMANDS, fit, fit_body, export, bench, *SETUP_COMMANDS):
    app.command(_command)


@app.command
def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and options with the Tab key.

    Parameters
    ----------
    shell
        Shell that reads the script: for bash, write it to
        ~/.local/share/bash-completion/completions/supple; for zsh, to a file _supple in a folder
        of $fpath; for fish, to ~/.config/fish/completions/supple.fish.
    """
    script = app.generate_completion(shell=shell)
    # Also complete file names, which the script of cyclopts for bash does not.
    print(script.replace("complete -F", "complete -o bashdefault -o default -F"))


#: Interrupts that callbacks have swallowed.
_lost_interrupts: list[type] = []


def _interrupt_again(lost: Any) -> None:
    """Repeat a Ctrl-C that a callback swallowed, such as one of LLVM's loader."""
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    _lost_interrupts.append(lost.exc_type)
    timer = threading.Timer(0.05, _interrupt_main)  # not from inside the callback
    timer.daemon = True
    timer.start()


def _interrupt_main() -> None:
    """Send Ctrl-C to the main thread, and wake it if it is waiting."""
    main_thread = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main_thread is not None:
        signal.pthread_kill(main_thread, signal.SIGINT)
    else:  # Windows: takes effect when the wait ends
        _thread.interrupt_main()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exit with 0, 1 (failure), 2 (wrong usage) or 130 (Ctrl-C)."""
    warnings.showwarning = _show_warning
    sys.unraisablehook = _interrupt_again
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # characters that a pipe cannot encode become "?"
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
        if _lost_interrupts:  # LLVM was interrupted, and may crash at a normal exit
            os._exit(130)
        sys.exit(130)
    except MemoryError:
        print("supple: not enough memory; use smaller input or fewer jobs", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # the reader of the output has closed it
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
