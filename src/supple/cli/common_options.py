"""Options that commands share, and the printing of results."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

Flag = Annotated[bool, Parameter(negative="")]
Numbers = Annotated[list[int] | None, Parameter(consume_multiple=True, negative="")]
Output = Annotated[Path | None, Parameter(name=["--output", "-o"])]


@dataclass(frozen=True)
class Display:
    """Options ``--json`` and ``--quiet``, which select the output of a command."""

    json: Flag = False
    """Print the results as JSON."""
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False
    """Print errors only."""

    @property
    def silent(self) -> bool:
        """True if no progress is shown."""
        return self.quiet or self.json

    def show(self, figures: Any, table: Callable[[Any], None] | None = None) -> None:
        """Print results: with --json as JSON, otherwise by `table` unless quiet."""
        if self.json:
            print(json.dumps(figures, indent=2))
        elif table is not None and not self.quiet:
            table(figures)


DISPLAY = Display()
#: The options `--json` and `--quiet` of a command.
Shown = Annotated[Display, Parameter(name="*")]
