"""Clocks inside the steps of a soft skeleton: system, solution, contact and skin."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from supple.arrays import Singles
from supple.engines.soft_skeleton.flesh.flesh_energy import add_flesh_terms
from supple.engines.soft_skeleton.simulator import SoftSkeletonSimulator
from supple.lab.bench.soft_skeleton.soft_cases import Run
from supple.lab.bench.timing import processor_time, timed

#: Parts of a step: what is called for each.
PARTS = {
    "system": (("_system", "evaluate"),),
    "solve": (("_system", "advance"),),
    "contact": (
        ("_contact", "add"),
        ("_contact", "settle"),
        ("_contact", "mismatch"),
        ("_contact", "finish"),
        ("_contact", "readings"),
    ),
    "skin": (("_skin", "place"), ("_correction", "write")),
}


class ClockedRun:
    """Runs again and again, step by step, with a clock on each part; `time_steps` plays it.

    Parameters
    ----------
    make
        Makes a run, anew for every reset: objects move.
    """

    def __init__(self, make: Callable[[], Run]) -> None:
        self._make = make
        self.contacts: list[int] = []
        self.iterations: list[int] = []
        self.reset()

    def reset(self, *_: Any) -> None:
        """Start anew."""
        self.run, self._at = self._make(), 0
        self._seconds, self._inner = dict.fromkeys(PARTS, 0.0), [0.0]
        for part, calls in PARTS.items():
            for owner, method in calls:
                self._watch(part, getattr(self.simulator, owner), method)

    @property
    def simulator(self) -> SoftSkeletonSimulator:
        """Simulator that steps."""
        return self.run.simulator

    def _watch(self, part: str, owner: Any, method: str) -> None:
        """Have a method of an object add its time to a part, and take it from what called it."""
        if owner is None:
            return
        function, seconds, inner = getattr(owner, method), self._seconds, self._inner

        def watched(*given: Any) -> Any:
            inner.append(0.0)
            began = processor_time()
            found = function(*given)
            took = processor_time() - began
            seconds[part] += took - inner.pop()
            inner[-1] += took
            return found

        setattr(owner, method, watched)

    def step(self, *_: Any) -> SimpleNamespace:
        """Take a step; the report has seconds of its parts."""
        if self._at == self.run.steps:
            self.reset()
        self._at += 1
        self._seconds.update(dict.fromkeys(PARTS, 0.0))
        state = self.run.step(self._at)
        self.contacts.append(int(state.readings["contacts"]))
        self.iterations.append(int(state.readings["iterations"]))
        return SimpleNamespace(limits=state.limits, seconds=dict(self._seconds))

    def surface(self, out: Singles | None = None) -> Singles:
        """Return the skin."""
        return self.simulator.surface(out)


def force_seconds(simulator: SoftSkeletonSimulator, tries: int = 40) -> float:
    """Return the seconds of the flesh's forces alone, where the simulator is."""
    model, phi = simulator.model, simulator.phi
    size = 3 + 3 * len(model.parents)
    gradient = np.zeros(size + len(phi))
    nothing = np.zeros((len(gradient), len(gradient)))

    def force() -> None:
        add_flesh_terms(model.material.code, 1.0, model.flesh, phi, size, gradient, nothing, 1)

    return float(np.median([timed(force, processor_time) for _ in range(tries)][5:]))
