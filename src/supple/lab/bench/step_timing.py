"""Timing the steps of a simulator, with other things in between."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from supple.arrays import Floats

__all__ = ["BREAKS", "DGEMM_SIZE", "WARM_UP", "Timings", "processor_time", "time_steps", "timed"]


DGEMM_SIZE = 256
WARM_UP = 60
#: How often other things are timed between the steps, and dense products each time.
BREAKS, _PRODUCTS = 20, 5
#: Seconds of the processor where the system counts them finely, and of the wall where not.
processor_time: Callable[[], float] = (
    time.process_time if time.get_clock_info("process_time").resolution < 1e-5 else perf_counter
)


@dataclass(frozen=True)
class Timings:
    """Seconds of steps, one by one.

    Attributes
    ----------
    whole, core, dynamics, surface
        (k,) of a step with its surface, and of its parts: poses and bases; forces and the
        solution; the skin.
    cpu
        (k,) of the processor for whole steps: what is left when others use the machine too.
    products
        (j,) of 256³ products of float64, taken in between.
    beside
        (i,) of the processor for what else was timed in between.
    limited
        How often each limit acted.
    """

    whole: Floats
    core: Floats
    dynamics: Floats
    surface: Floats
    cpu: Floats
    products: Floats
    beside: Floats
    limited: dict[str, int]


def time_steps(
    simulator: Any, poses: Floats, roots: Floats, beside: Callable[[], Any] | None = None
) -> Timings:
    """Steps along the poses, each with its surface, after a few that are not counted.

    Twenty times they are interrupted by dense products, and by `beside`: what slows the machine
    down meanwhile slows all of them. The step after that, whose caches are empty, is not counted.

    Parameters
    ----------
    simulator
        `Simulator`, or what looks like it.
    poses, roots
        (k, s), (k, 4, 4) one for each step.
    beside
        What else to time; None for nothing else.
    """
    simulator.reset(poses[0], roots[0])
    out = np.array(simulator.surface())
    for pose, root in zip(poses[:WARM_UP], roots, strict=False):
        simulator.step(pose, root)
        simulator.surface(out)
    multiply = _dense_product()
    multiply()
    simulator.reset(poses[0], roots[0])
    seconds, counted = np.empty((5, len(poses))), np.ones(len(poses), bool)
    dense, others = [], []
    limited: Counter[str] = Counter()
    every = -(-len(poses) // BREAKS)
    for k, (pose, root) in enumerate(zip(poses, roots, strict=True)):
        if k % every == 0:
            dense += [timed(multiply) for _ in range(_PRODUCTS)]
            others += [] if beside is None else [timed(beside, processor_time)]
            counted[k] = len(poses) < 2 * BREAKS
        used, began = processor_time(), perf_counter()
        state = simulator.step(pose, root)
        stepped = perf_counter()
        simulator.surface(out)
        ended, used = perf_counter(), processor_time() - used
        parts = state.seconds
        seconds[:, k] = ended - began, parts["core"], parts["dynamics"], ended - stepped, used
        limited.update(state.limits)
    whole, core, dynamics, surface, cpu = seconds[:, counted]
    beside_seconds, products = np.array(others), np.array(dense)
    return Timings(whole, core, dynamics, surface, cpu, products, beside_seconds, dict(limited))


def _dense_product() -> Callable[[], Any]:
    a, b = np.random.default_rng(0).random((2, DGEMM_SIZE, DGEMM_SIZE))
    out = np.empty_like(a)
    return lambda: np.dot(a, b, out=out)


def timed(function: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> float:
    """Seconds that a call takes."""
    began = clock()
    function()
    return clock() - began
