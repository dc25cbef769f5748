"""Costs of the simulation and of the page, measured while they run."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats

#: Steps in the chart.
CHART_STEPS = 360


@dataclass(frozen=True)
class Costs:
    """Average costs of steps and updates over a measurement."""

    seconds: float  # duration of the measurement
    steps: float  # per second
    updates: float  # per second
    step_ms: float  # wall-clock time of a step
    skin_ms: float  # wall-clock time of the skin of an update
    update_ms: float  # processor time of an update: that of the process without the simulation
    processor: float  # processor time of the process, as a fraction of one core

    def text(self) -> str:
        """Return the averages as one line of text."""
        ms = self.step_ms
        step = f"{1e3 * ms:.0f} µs" if ms < 0.1 else f"{ms:.2f} ms"
        return (
            f"step {step}, skin {self.skin_ms:.2f} ms, "
            f"page {self.update_ms:.2f} ms per update; "
            f"{self.steps:.0f} steps and {self.updates:.0f} updates per second, "
            f"{100 * self.processor:.0f} % of a core"
        )


class Meter:
    """Counter of steps and updates; `costs` ends a measurement and starts the next."""

    def __init__(self) -> None:
        self.history = np.zeros(CHART_STEPS)  # ring buffer in ms; the oldest step is at `start`
        self.start = self.total_steps = self.total_updates = 0
        self._begin()

    def _begin(self) -> None:
        self._wall, self._process = time.perf_counter(), time.process_time()
        self._steps = self._updates = 0
        self._step_seconds = self._skin_seconds = self._simulation = 0.0

    def add_steps(self, seconds: float, processor: float, count: int = 1) -> None:
        """Add steps with their total wall-clock and processor time."""
        self.history[self.start] = 1e3 * seconds / count
        self.start = (self.start + 1) % CHART_STEPS
        self._steps += count
        self.total_steps += count
        self._step_seconds += seconds
        self._simulation += processor

    def add_update(self, seconds: float, processor: float) -> None:
        """Add an update with the wall-clock and processor time of its skin."""
        self._updates += 1
        self.total_updates += 1
        self._skin_seconds += seconds
        self._simulation += processor

    def chart(self) -> tuple[Floats, Floats]:
        """Return step numbers relative to the last step, and times in ms, (CHART_STEPS,) each."""
        return np.arange(-CHART_STEPS + 1.0, 1.0), np.roll(self.history, -self.start)

    def costs(self) -> Costs:
        """Return the costs since the last call."""
        seconds = max(time.perf_counter() - self._wall, 1e-9)
        used = time.process_time() - self._process
        steps, updates = max(self._steps, 1), max(self._updates, 1)
        costs = Costs(
            seconds=seconds,
            steps=self._steps / seconds,
            updates=self._updates / seconds,
            step_ms=1e3 * self._step_seconds / steps,
            skin_ms=1e3 * self._skin_seconds / updates,
            update_ms=1e3 * max(used - self._simulation, 0.0) / updates if self._updates else 0.0,
            processor=used / seconds,
        )
        self._begin()
        return costs
