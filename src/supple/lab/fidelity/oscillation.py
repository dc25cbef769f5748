"""Oscillation of flesh: dominant frequency, and free oscillation after an impulse."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.checks import checked_array, checked_number, numbers
from supple.dynamics.character_inputs import Forces
from supple.dynamics.root_frame import checked_root
from supple.engines.engine import CharacterEngine
from supple.errors import SuppleError

#: Zero-padding factor of spectra.
PADDING = 8
#: Oscillations with fewer cycles in a record count as drift.
FEWEST_CYCLES = 1.5
#: Number of steps in which forces on the skin act.
PUSHED = 3
MOST_STEPS = 100_000


def dominant_frequency(signal: ArrayLike, rate: float) -> float:
    """Return the frequency in Hz of the strongest oscillation.

    It is the peak of the spectrum with a Hann window, refined by the parabola through the
    logarithms of three samples. The linear trend is removed, and fewer than 1.5 cycles in the
    record count as drift.

    Parameters
    ----------
    signal
        (t,), or (t, …) such as displacements, projected on their first principal component.
    rate
        Samples per second.

    Examples
    --------
    >>> time = np.arange(200) / 90
    >>> round(dominant_frequency(np.exp(-time) * np.sin(2 * np.pi * 4.3 * time), 90), 1)
    4.3
    """
    samples = _record("signal", signal)
    return _peak(samples @ _first_component(samples), _checked_rate(rate))


def frequency_error(signal: ArrayLike, truth: ArrayLike, rate: float) -> float:
    """Return the relative difference of dominant frequencies of a record and a reference, (t, …).

    Both are projected on the first principal component of the reference, so that frequencies of
    the same motion are compared.
    """
    ours, true = _record("signal", signal), _record("truth", truth)
    if ours.shape[1] != true.shape[1]:
        raise SuppleError(
            f"signal has {ours.shape[1]} numbers a sample, truth {true.shape[1]}; give equal shapes"
        )
    component, rate = _first_component(true), _checked_rate(rate)
    return abs(_peak(ours @ component, rate) / _peak(true @ component, rate) - 1)


def ringdown(
    simulator: CharacterEngine,
    pose: ArrayLike | None = None,
    root: ArrayLike | None = None,
    *,
    velocity: ArrayLike | None = None,
    forces: Forces | None = None,
    seconds: float = 2.0,
) -> Singles:
    """Simulate free oscillation after an impulse; return displacements of the skin (t, n̄, 3).

    The simulator is reset. The character starts with the constant `velocity` (3,) in m/s, which
    gives all flesh the opposite impulse; `forces` on skin vertices act in the first three steps, in
    N. Natural frequencies need little damping and the integrator ``"newmark"``.
    """
    speed = np.zeros(3) if velocity is None else checked_array("velocity", velocity, (3,))
    steps = checked_number("seconds", seconds) / simulator.dt
    if not 1 <= steps <= MOST_STEPS:
        raise SuppleError(
            f"seconds={seconds:g} is {steps:.3g} steps; use a duration of 1 to {MOST_STEPS:,} steps"
        )
    place = checked_root(root)
    simulator.reset(pose, place)
    start = np.asarray(simulator.surface(), np.float64)
    swings = np.empty((round(steps), *start.shape), np.float32)
    for index in range(len(swings)):
        shift = (index + 1) * simulator.dt * speed
        shifted_root = place.copy()
        shifted_root[:3, 3] += shift
        simulator.step(root=shifted_root, forces=forces if index < PUSHED else None)
        swings[index] = simulator.surface() - start - shift
    return swings


def _record(what: str, values: ArrayLike) -> Floats:
    shape = numbers(what, values).shape
    if not shape or shape[0] < 8:
        raise SuppleError(f"{what} has shape {shape}; a frequency needs at least 8 samples")
    samples = checked_array(what, values, shape).reshape(shape[0], -1)
    return samples - samples.mean(axis=0)


def _checked_rate(rate: float) -> float:
    checked = checked_number("samples per second", rate)
    if not checked > 0:
        raise SuppleError(f"samples per second must be positive, not {checked:g}")
    return checked


def _first_component(samples: Floats) -> Floats:
    """Return the first principal direction of samples (t, k), of unit length."""
    _, vectors = np.linalg.eigh(samples @ samples.T)
    direction = samples.T @ vectors[:, -1]
    length = np.linalg.norm(direction)
    if not length > 0:
        raise SuppleError("the signal is constant and has no frequency; give an impulse")
    # The sign of the largest entry makes the sign of the eigenvector repeatable.
    return direction / np.copysign(length, direction[np.argmax(np.abs(direction))])


def _peak(signal: Floats, rate: float) -> float:
    count = len(signal)
    window = np.hanning(count + 2)[1:-1]
    line = np.polynomial.Polynomial.fit(np.arange(count), signal, 1, w=np.sqrt(window))
    power = np.abs(np.fft.rfft(window * (signal - line(np.arange(count))), PADDING * count)) ** 2
    lowest = int(np.ceil(FEWEST_CYCLES * PADDING))
    peak = lowest + int(np.argmax(power[lowest:-1]))
    if not power[peak] > 0:
        raise SuppleError("the signal is constant and has no frequency; give an impulse")
    left, middle, right = np.log(np.maximum(power[peak - 1 : peak + 2], 1e-300))
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend < 0 else 0.0
    return float((peak + np.clip(shift, -0.5, 0.5)) * rate / (PADDING * count))
