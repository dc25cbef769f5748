"""Convergence in time: a motion played with ever shorter steps until that changes little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from supple.checks import checked_number, checked_whole_numbers, numbers
from supple.errors import SolverError, SuppleError

Result = TypeVar("Result")

#: Options that make the full simulation converge, unless the caller says otherwise: of second
#: order with accelerations of the rig that are centred, and solved to the end.
CONVERGING: dict[str, Any] = {"integrator": "bdf2", "newton": 20, "tolerance": 1e-6}


@dataclass(frozen=True)
class Converged(Generic[Result]):
    """Result whose step has been halved until that changed little.

    Attributes
    ----------
    result
        That of the shortest step.
    substeps
        Steps that the longest was cut into.
    changes
        Change that each halving made; inf where the longer step found no solution.
    done
        Whether the last of them is as small as was asked.
    """

    result: Result
    substeps: int
    changes: tuple[float, ...]
    done: bool

    @property
    def change(self) -> float:
        """Change by the last halving; of the second order, so the error left is a third."""
        return self.changes[-1] if self.changes else np.inf


def converged(
    level: Callable[[int], Result | None],
    change: Callable[[Result, Result], float],
    *,
    accuracy: float,
    most_substeps: int,
    begun: tuple[Result | None, int, tuple[float, ...]] | None = None,
) -> Converged[Result]:
    """Halve the step until that changes little.

    Parameters
    ----------
    level
        Called with the number of sub-steps, 1, 2, 4 …; None where there is no solution.
    change
        Called with a result and the next, it says how far apart they are.
    accuracy
        The largest change that ends the halving.
    most_substeps
        Most sub-steps; the result then says ``done=False``.
    begun
        A result, its sub-steps and the changes until it, to go on from.

    Raises
    ------
    SolverError
        If even the shortest step has no solution.
    """
    limit = checked_number("accuracy", accuracy)
    (most,) = checked_whole_numbers("most substeps", [most_substeps])
    if not (limit > 0 and most >= 2):
        raise SuppleError("truth needs a positive accuracy and two sub-steps at least")
    before, substeps, known = (level(1), 1, ()) if begun is None else begun
    changes = list(known)
    while 2 * substeps <= most and not (changes and changes[-1] <= limit):
        substeps, after = 2 * substeps, level(2 * substeps)
        found = before is not None and after is not None
        changes.append(change(before, after) if found else np.inf)  # type: ignore[arg-type]
        before = after
    if before is None:
        raise SolverError(
            f"no solution with {substeps} sub-steps; use firmer flesh, more damping or more of them"
        )
    return Converged(before, substeps, tuple(changes), bool(changes) and changes[-1] <= limit)


def rms_difference(frames: ArrayLike, true: ArrayLike, rig_only: ArrayLike) -> float:
    """RMS over time and vertices of |a − b|, relative to that of the truth's displacement |b − Φ̄|.

    Parameters
    ----------
    frames, true, rig_only
        (t, n̄, 3): frames that are judged, the truth, and the skin as the rig alone has it.
    """
    shape = numbers("true frames", true).shape
    a, b, c = (np.asarray(numbers("frames", each)) for each in (frames, true, rig_only))
    if len(shape) != 3 or shape[2] != 3 or a.shape != shape or c.shape != shape:
        raise SuppleError(f"frames of shapes {a.shape}, {shape}, {c.shape}; all must be (t, n, 3)")
    displacement = float(np.sqrt(np.mean((b - c) ** 2)))
    if not 0 < displacement < np.inf:
        raise SuppleError("the true flesh never leaves the rig, so nothing can be relative to it")
    return float(np.sqrt(np.mean((a - b) ** 2))) / displacement
