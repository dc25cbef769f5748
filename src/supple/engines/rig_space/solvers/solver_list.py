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

#: Variants of the paper, and their options.
_LINEAR: dict[str, dict[str, Any]] = {
    "iv1-je1": {},
    "iv1-je2": {"deferred": True},
    "iv2-je1": {"interior": "skinned"},
    "iv2-je2": {"interior": "skinned", "deferred": True},
    "iv2-offset-je1": {"interior": "skinned-offset"},
    "iv1-je2-unpredicted": {"deferred": True, "predictor": None},
    "iv1-je2-printed": {"deferred": True, "predictor": "printed"},
    "iv2-je2-unpredicted": {"interior": "skinned", "deferred": True, "predictor": None},
    "iv2-je2-printed": {"interior": "skinned", "deferred": True, "predictor": "printed"},
}
_IV = {name: partial(LinearRigSolver, **options) for name, options in _LINEAR.items()}
#: Solvers by name, ours first. A new one is a file in this folder and a row.
SOLVERS: dict[str, Callable[..., Any]] = {
    "condensed": CondensedSolver,
    "condensed-all-tets": partial(CondensedSolver, exact=True),
    "rsp": RigSpacePhysics,
    "rsp-differences": partial(RigSpacePhysics, differences=True),
    **_IV,
    **{f"{name}-differences": partial(_IV[name], differences=True) for name in list(_IV)[:4]},
    "iv1": _IV["iv1-je1"],
    "iv2": _IV["iv2-je1"],
    "je1": _IV["iv2-je1"],
    "je2": _IV["iv2-je2"],
}


def make_solver(name: str, model: RigSpaceModel, *, iterations: int = 2) -> Any:
    """Return the solver of that name for a model; raise an error that lists the names."""
    if not isinstance(name, str) or name not in SOLVERS:
        near = difflib.get_close_matches(str(name), SOLVERS, 1)
        hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(SOLVERS)}"
        raise SuppleError(f"no solver {shown(name, 40)}; {hint}")
    return SOLVERS[name](model, iterations=iterations)
