"""The command `supple batch`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from supple.app.batch.batch_options import BatchOptions
from supple.cli.common_options import DISPLAY, Shown

#: Failures that are told one by one; the page has all.
_MOST_TOLD = 20


def batch(
    *sources: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    options: Annotated[BatchOptions | None, Parameter(name="*")] = None,
    display: Shown = DISPLAY,
) -> None:
    """Run a command on many characters, clips and settings, here or on a cluster.

    Parameters
    ----------
    sources
        Folders, patterns such as 'rats/*.glb', files, scenes, or lists (.csv, .json, .jsonl) with a
        source, an output and options in each row. Without any, the page of what is there is
        written.
    output
        Folder of the results, of the journal (batch.jsonl) and of the page (batch.html). What is
        there already is not made again: after a break, run the same command again.
    """
    from supple.app.batch.batch import print_batch, run_batch
    from supple.app.compiling import compiled_for

    told = options or BatchOptions()
    job = told.command
    if sources and job in ("bake", "build") and not told.dry_run:
        with compiled_for(job, display.silent):
            figures = run_batch(sources, output, options, quiet=display.silent)
    else:
        figures = run_batch(sources, output, options, quiet=display.silent)
    display.show(figures, print_batch)
    failures = figures.get("failures", ())
    for each in failures[:_MOST_TOLD]:
        named = f"{each['output']}: "  # most lines begin with the file's name already
        print(f"supple: {named}{each['line'].removeprefix(named)}", file=sys.stderr)
    if len(failures) > _MOST_TOLD:
        more = f"and {len(failures) - _MOST_TOLD} more failed"
        print(f"supple: {more}; see {figures['page']}", file=sys.stderr)
    if failures:
        sys.exit(1)
