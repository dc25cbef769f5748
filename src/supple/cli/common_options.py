"""What all commands take, and how they print figures for machines."""

from __future__ import annotations

import json
from typing import Annotated, Any

from cyclopts import Parameter

__all__ = ["Json", "Quiet", "print_json"]

Quiet = Annotated[
    bool, Parameter(name=["--quiet", "-q"], negative="", help="Say nothing but errors.")
]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print the figures as JSON.")]


def print_json(figures: Any) -> None:
    """On standard output, indented."""
    print(json.dumps(figures, indent=2))
