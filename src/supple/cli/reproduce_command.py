"""The command `supple reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from supple.cli.common_options import DISPLAY, Flag, Shown


def reproduce(
    *what: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("supple-reproduce"),
    quick: Flag = False,
    display: Shown = DISPLAY,
) -> None:
    """Make the papers' tables and figures, ours beside theirs.

    Parameters
    ----------
    what
        Of xu2016: table1, table2, table3, fig4, fig5, fig6, fig7, fig10, fig11, fig14, fig15,
        projection and beam. Of barbic2005: barbic2005-fig5, -fig8, -fig10, -fig11 and -fig12,
        also written barbic2005/fig12. Of hahn2013: hahn2013-table1, -fig2, -fig3, -fig4, -fig5,
        -skinning and -jacobians. Of tapia2021: tapia2021-table1, -modes, and -fig1 to -fig16 but
        the live -fig11. A paper's name stands for all of it; by default, all there is.
    output
        Folder for NAME.png, NAME.json and the page reproduce.md.
    quick
        Smaller bodies and fewer steps, to see whether it runs.
    """
    from supple.lab.reproduce.reproduce import run_reproduce

    display.show(run_reproduce(what, output, quick=quick, quiet=display.silent))
