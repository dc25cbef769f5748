"""Solvers by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

from supple.checks import shown
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.condensed import CondensedSolver
from supple.engines.rig_space.solvers.rig_space_physics import RigSpacePhysics
from supple.errors import SuppleError

__all__ = ["SOLVERS", "make_solver"]

#: Solvers by name, ours first. A new one is a file beside this and a row.
SOLVERS: dict[str, Callable[..., Any]] = {
    "condensed": CondensedSolver,
    "condensed-all-tets": partial(CondensedSolver, exact=True),
    "rsp": RigSpacePhysics,
    "rsp-differences": partial(RigSpacePhysics, differences=True),
}


def make_solver(name: str, model: RigSpaceModel, *, iterations: int = 2) -> Any:
    """Return the solver of that name for a model; an error that lists those there are."""
    if not isinstance(name, str) or name not in SOLVERS:
        near = difflib.get_close_matches(str(name), SOLVERS, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(SOLVERS)}"
        raise SuppleError(f"no solver {shown(name, 40)}; {hint}")
    return SOLVERS[name](model, iterations=iterations)
