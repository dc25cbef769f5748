"""Solvers by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

from supple.checks import shown
from supple.engines.rig_space.model import RigSpaceModel
from supple.engines.rig_space.solvers.condensed import CondensedSolver
from supple.engines.rig_space.solvers.linear_rig import LinearRigSolver
from supple.engines.rig_space.solvers.rig_space_physics import RigSpacePhysics
from supple.errors import SuppleError

__all__ = ["SOLVERS", "make_solver"]

_IV2_JE1 = partial(LinearRigSolver, interior="skinned")
_IV2_JE2 = partial(LinearRigSolver, interior="skinned", deferred=True)
#: Solvers by name, ours first. A new one is a file beside this and a row.
SOLVERS: dict[str, Callable[..., Any]] = {
    "condensed": CondensedSolver,
    "condensed-all-tets": partial(CondensedSolver, exact=True),
    "rsp": RigSpacePhysics,
    "rsp-differences": partial(RigSpacePhysics, differences=True),
    "iv1-je1": LinearRigSolver,
    "iv1-je2": partial(LinearRigSolver, deferred=True),
    "iv2-je1": _IV2_JE1,
    "iv2-je2": _IV2_JE2,
    "iv2-offset-je1": partial(LinearRigSolver, interior="skinned-offset"),
    "iv2-je2-unpredicted": partial(_IV2_JE2, predictor=False),
    "iv1": LinearRigSolver,
    "iv2": _IV2_JE1,
    "je1": _IV2_JE1,
    "je2": _IV2_JE2,
}


def make_solver(name: str, model: RigSpaceModel, *, iterations: int = 2) -> Any:
    """Return the solver of that name for a model; an error that lists those there are."""
    if not isinstance(name, str) or name not in SOLVERS:
        near = difflib.get_close_matches(str(name), SOLVERS, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(SOLVERS)}"
        raise SuppleError(f"no solver {shown(name, 40)}; {hint}")
    return SOLVERS[name](model, iterations=iterations)
