"""Timing of the steps of any engine: motions of any length, and clocks around each step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from supple.arrays import Floats
from supple.rig.motion.motion import Motion
from supple.rig.motion.motion_names import one_name

#: Steps per second, as in the papers.
RATE = 90.0
#: Duration of a reversal at an end of the motion, in seconds.
REVERSAL = 0.5
#: Amplitude of the vertical motion of a model without motions and poses, relative to its size.
_BOBBING = 0.05
DGEMM_SIZE = 256
WARM_UP = 60
#: Number of interruptions in which other functions are timed, and dense products in each.
BREAKS, _PRODUCTS = 20, 5
#: Processor time where its resolution is fine, else wall-clock time.
processor_time: Callable[[], float] = (
    time.process_time if time.get_clock_info("process_time").resolution < 1e-5 else perf_counter
)


def motion_of(model: Any, name: str | None = None) -> Motion:
    """Return the named motion of a model, by default the first with several frames.

    Without such a motion, return a tour of its example poses; with one pose, an up-and-down motion.
    """
    if name is not None:
        return model.motions[one_name(model.motions, name, model.name)]
    for motion in model.motions.values():
        if motion.n_frames > 1:
            return motion
    weights = getattr(model, "pose_weights", None)  # pose-space models have them
    poses = np.asarray(model.rig.rest_pose)[None] if weights is None else weights.poses
    if len(poses) > 1:
        return Motion(np.arange(len(poses), dtype=np.float64), poses, name="tour of the poses")
    times = np.arange(31) / 30.0
    roots = np.tile(np.eye(4), (len(times), 1, 1))
    roots[:, 1, 3] = _BOBBING * model.surface.size * np.sin(2 * np.pi * times)
    return Motion(times, np.tile(poses, (len(times), 1)), roots, name="up and down")


def back_and_forth(motion: Motion, steps: int, rate: float = RATE) -> tuple[Floats, Floats]:
    """Return poses (steps, s) and roots (steps, 4, 4) of a motion played to and fro."""
    times = motion.times[0] + reversing_times(motion.duration, steps, rate)
    poses, roots = motion.at(times)
    return np.ascontiguousarray(poses), np.ascontiguousarray(roots)


def reversing_times(duration: float, steps: int, rate: float = RATE) -> Floats:
    """Return times (steps,) of a motion played to and fro, between 0 and `duration`.

    Near the ends the motion reverses within `REVERSAL` seconds, with continuous velocity.
    """
    reversal = min(REVERSAL, duration)
    # The parabola at an end covers half of the distance of the two straight lines.
    length = duration + reversal / 2
    phase = np.mod(np.arange(steps) / rate, 2 * length)
    to_end = np.abs(length - phase)  # time since or until the far end
    to_start = length - to_end
    times = duration + reversal / 4 - to_end
    near = reversal / 2
    slow = to_end < near
    times[slow] = duration - to_end[slow] ** 2 / (2 * near)
    slow = to_start < near
    times[slow] = to_start[slow] ** 2 / (2 * near)
    return np.clip(times, 0.0, duration)


@dataclass(frozen=True)
class Timings:
    """Durations of steps in seconds."""

    #: (k,) durations of steps with the surface, and of the surface alone.
    whole: Floats
    surface: Floats
    #: (k,) durations of parts that the engine reports, by name. Pose-space reports ``core`` (poses
    #: and bases) and ``dynamics`` (forces and solution).
    parts: dict[str, Floats]
    cpu: Floats  # (k,) processor time of whole steps; other processes change it little
    products: Floats  # (j,) durations of 256³ products of float64 between the steps
    beside: Floats  # (i,) processor time of another function between the steps
    limited: dict[str, int]  # number of steps in which each limit acted


def time_steps(
    simulator: Any, poses: Floats, roots: Floats, beside: Callable[[], Any] | None = None
) -> Timings:
    """Time a step of `simulator`, with its surface, for each pose (k, s) and root, after a warm-up.

    Twenty times dense products and `beside` are timed between steps, so that all are slowed down
    alike by other processes. The step after an interruption, with cold caches, does not count.
    """
    simulator.reset(poses[0], roots[0])
    out = np.array(simulator.surface())
    for pose, root in zip(poses[:WARM_UP], roots, strict=False):
        simulator.step(pose, root)
        simulator.surface(out)
    multiply = dense_product()
    multiply()
    simulator.reset(poses[0], roots[0])
    seconds, counted = np.empty((3, len(poses))), np.ones(len(poses), bool)
    parts: dict[str, Floats] = {}
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
        seconds[:, k] = ended - began, ended - stepped, used
        for name, value in getattr(state, "seconds", {}).items():
            parts.setdefault(name, np.zeros(len(poses)))[k] = value
        limited.update(state.limits)
    steps, surface, cpu = seconds[:, counted]
    parts = {name: values[counted] for name, values in parts.items()}
    return Timings(steps, surface, parts, cpu, np.array(dense), np.array(others), dict(limited))


def dense_product(kind: Any = np.float64) -> Callable[[], Any]:
    """Return a function that multiplies two matrices of 256 rows and columns."""
    a, b = np.random.default_rng(0).random((2, DGEMM_SIZE, DGEMM_SIZE), kind)
    out = np.empty_like(a)
    return lambda: np.dot(a, b, out=out)


def timed(function: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> float:
    """Return the seconds that a call takes."""
    began = clock()
    function()
    return clock() - began
