"""Timing steps of a StVK body beside products that read as much memory, on one core.

Seconds are the processor's: what is left when others use the machine too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.app.step_timing import DGEMM_SIZE, processor_time, timed
from supple.dynamics.stvk import StvkSimulator
from supple.errors import SuppleError
from supple.linalg.fortran import single_threaded
from supple.reduction.stvk_coefficients import pair_count
from supple.reduction.stvk_model import StvkModel

__all__ = ["check_steps", "packed_shape", "step_times"]

Floats = NDArray[np.float64]

#: Everything is timed in turns, so often, and the shortest counts.
_TURNS = 5
#: Matrices take more room than a cache has, so that each comes from memory.
_BEYOND_CACHES = 128 * 2**20
#: Pairs of batches of single steps and of runs, and seconds of a batch.
_PAIRS, _BATCH_SECONDS = 30, 0.01
#: How far the body is made to swing, as a part of its size.
_SWING = 0.03


def check_steps(steps: int) -> None:
    """Refuse a run of steps too short or too long to time."""
    if not 1 <= steps <= 1_000_000:
        raise SuppleError(f"{steps:,} steps; choose between 1 and 1,000,000")


def packed_shape(r: int) -> tuple[int, int]:
    """A matrix of as many numbers as the tangent's coefficients: K₀, K₁ and half of K₂."""
    pairs = pair_count(r)
    return -(-(pairs * (pairs + 1) // 2 + r * pairs + pairs) // pairs), pairs


def step_times(model: StvkModel, dt: float, steps: int) -> dict[str, Any]:
    """Microseconds of a Newmark step in a run of `steps`, and of what it is compared with."""
    simulator = StvkSimulator(model, dt)
    kick = _kick(model)
    read, read_again = _gemv(model.modes)
    a, b = np.random.default_rng(0).random((2, DGEMM_SIZE, DGEMM_SIZE))
    product = np.empty_like(a)

    def multiply() -> None:
        np.dot(a, b, out=product)

    def run() -> float:
        simulator.reset(velocity=kick)
        return timed(lambda: simulator.run(steps), processor_time) / steps

    found: list[list[float]] = []
    with single_threaded():
        for _ in range(_TURNS + 1):  # the first is not counted
            dense = min(timed(multiply, processor_time) for _ in range(5))
            found.append([run(), read(), read_again(), dense])
        step, gemv, cached, dense = np.min(found[1:], axis=0)
        python = _python_cost(simulator, kick, step)
    return {
        "step_us": round(1e6 * step, 3),
        "gemv_us": round(1e6 * gemv, 3),
        "python_step_us": round(1e6 * python, 3),
        "dgemm256_ms": round(1e3 * dense, 4),
        "gemv_cached_us": round(1e6 * cached, 3),
        "shifted_steps": simulator.shifted_steps,
    }


def _kick(model: StvkModel) -> Floats:
    """A velocity along the first shape that makes the body swing visibly."""
    rest = np.zeros(model.modes)
    stiffness, mass = model.stiffness(rest)[0, 0], model.mass[0, 0]
    reach = np.linalg.norm(model.basis[:, :, 0], axis=1).max()
    swing = _SWING * float(np.ptp(model.rest, axis=0).max()) / reach
    return np.sqrt(stiffness / mass) * swing * np.eye(model.modes)[0]


def _gemv(r: int) -> tuple[Callable[[], float], Callable[[], float]]:
    """Seconds of a product with a matrix from memory, and with one that was just used."""
    shape = packed_shape(r)
    count = max(2, -(-_BEYOND_CACHES // (8 * shape[0] * shape[1])))
    matrices = np.full((count, *shape), 0.5)
    x, out = np.ones(shape[1]), np.empty(shape[0])

    def read() -> float:
        began = processor_time()
        for matrix in matrices:
            np.dot(matrix, x, out=out)
        return (processor_time() - began) / count

    def read_again() -> float:
        began = processor_time()
        for _ in range(count):
            np.dot(matrices[0], x, out=out)
        return (processor_time() - began) / count

    return read, read_again


def _python_cost(simulator: StvkSimulator, kick: Floats, step: float) -> float:
    """Seconds that a single call adds to a step: shortest batch of calls beside shortest run."""
    count = int(np.clip(_BATCH_SECONDS / step, 10, 1000))
    force, single, together = np.zeros(len(kick)), np.empty(_PAIRS), np.empty(_PAIRS)
    for k in range(_PAIRS):
        simulator.reset(velocity=kick)
        began = processor_time()
        for _ in range(count):
            simulator.step(force)
        single[k] = processor_time() - began
        simulator.reset(velocity=kick)
        together[k] = timed(lambda: simulator.run(count), processor_time)
    return float(single.min() - together.min()) / count
