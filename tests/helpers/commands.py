"""The command run in this process, with its status and output."""

from __future__ import annotations

import io
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

from supple.cli.main import main


def run_here(*arguments: str) -> CompletedProcess[str]:
    """Run the command; return its status and output, and let unexpected errors through."""
    out, err = io.StringIO(), io.StringIO()
    told, lost = warnings.showwarning, sys.unraisablehook
    status = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            warnings.showwarning, sys.unraisablehook = told, lost
    return CompletedProcess(["supple", *arguments], status, out.getvalue(), err.getvalue())
