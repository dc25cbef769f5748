"""Fidelity of an engine to another engine, by position and by frequency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Singles
from supple.engines.engine import CharacterEngine, Engine, engine_named
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.step_options import INTEGRATOR
from supple.errors import SuppleError
from supple.lab.fidelity.oscillation import dominant_frequency, frequency_error, ringdown
from supple.lab.fidelity.truth import Truth, play_finely, played, truth, usual_options
from supple.playback.final_take import CONVERGING, rms_difference
from supple.progress import Progress
from supple.rig.motion.motion import Motion

#: Function that makes a simulator from a model, a step and options.
Maker = Callable[..., CharacterEngine]

#: Options of free oscillation; the damping ratio at 5 Hz is a hundredth.
RINGING: dict[str, Any] = {
    "integrator": "newmark",
    "alpha": 0.2,
    "beta": 3e-4,
    "gravity_mode": "none",
}
RINGING_STEP = 1 / 180
#: Impulse in sizes per second, which moves the flesh by about a hundredth of the size.
IMPULSE = 0.25


@dataclass(frozen=True)
class Ringing:
    """Frequencies of free oscillation after an impulse."""

    #: Dominant frequencies of the full and of the reduced simulation, in Hz.
    frequency: float
    reduced_frequency: float
    error: float  # their relative difference for the same motion; see `frequency_error`
    #: RMS difference of displacements, relative to the full simulation. Phase differences
    #: accumulate over the cycles.
    rms: float


@dataclass(frozen=True, eq=False)
class Fidelity:
    """Errors of a real-time simulation compared with a reference."""

    #: RMS surface difference of the real-time simulation, with its integrator and a step for each
    #: frame, from the converged reference, relative to the reference's dynamic displacement. It
    #: includes the error of the time step.
    rms: float
    #: The same with the reference's step in both simulations: the error of the reduction. None
    #: unless requested.
    rms_same_step: float | None
    #: Difference of the full simulation with the real-time step from the reference: the error of
    #: the time step. None unless requested.
    rms_full_step: float | None
    truth: Truth
    frames: Singles  # (t, n̄, 3) float32 positions of the real-time simulation
    #: Relative difference of the dominant frequencies during the motion, mostly that of the motion
    #: itself; `ringing` has natural frequencies.
    motion_frequency_error: float
    #: Free oscillation in the pose halfway through the motion; None unless requested.
    ringing: Ringing | None

    @property
    def truth_change(self) -> float:
        """Change by the last halving of the reference's step, in the same measure."""
        return self.truth.change

    @property
    def frequency_error(self) -> float:
        """Frequency error of free oscillation if requested, else during the motion."""
        return self.motion_frequency_error if self.ringing is None else self.ringing.error


def compare(
    model: PoseSpaceModel,
    motion: Motion,
    *,
    engine: str | Maker = "pose-space",
    true_engine: str = "full",
    rate: float = 90.0,
    reference: Truth | None = None,
    same_step: bool = True,
    full_step: bool = False,
    ringing: bool = True,
    accuracy: float = 0.02,
    cache: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Fidelity:
    """Play a motion with two engines at `rate` frames per second, and measure their difference.

    `engine` is the measured engine, of `supple.engines.ENGINES`, or a function that makes its
    simulator from a model, a step and options; it takes a step for each frame. `true_engine` is
    the reference's engine; `reference` is the `truth` of this model and motion, if already
    computed. `same_step`, `full_step` and `ringing` request the more expensive errors, see
    `Fidelity`; `accuracy`, `cache` and `progress` are as for `truth`. Other options (alpha, beta,
    gravity, gravity_mode) apply to both simulations.
    """
    make, row = _maker(engine), engine_named(true_engine, "character")
    true = reference
    if true is None:
        settings: dict[str, Any] = {"accuracy": accuracy, "cache": cache, "progress": progress}
        true = truth(model, motion, rate, engine=row.name, **settings, **options)
    frames = played(make(model, 1 / rate, **options), motion)
    if frames.shape != true.frames.shape or true.rate != rate:
        raise SuppleError(
            f"reference of shape {true.frames.shape} for a motion of {len(frames)} frames; "
            "give one of this model, motion and rate"
        )
    reduction: float | None = None
    if same_step:
        reduction = _same_step_error(model, motion, make, row, true, options)
    coarse: float | None = None
    if full_step:
        as_live = {"newton": CONVERGING["newton"], "integrator": INTEGRATOR}
        solved = usual_options(row, as_live) | options
        stepped, _ = play_finely(row, model, motion, rate, 1, solved)
        coarse = rms_difference(stepped, true.frames, true.rig)
    moving = frequency_error(frames - true.rig, true.frames - true.rig, rate)
    middle, _ = motion.at(motion.times[0] + motion.duration / 2)
    oscillation: Ringing | None = None
    if ringing:
        oscillation = compare_ringing(model, middle, engine=make, true_engine=row.name)
    rms = rms_difference(frames, true.frames, true.rig)
    return Fidelity(rms, reduction, coarse, true, frames, moving, oscillation)


def compare_ringing(
    model: PoseSpaceModel,
    pose: ArrayLike | None = None,
    *,
    engine: str | Maker = "pose-space",
    true_engine: str = "full",
    velocity: ArrayLike | None = None,
    seconds: float = 2.0,
    **options: Any,
) -> Ringing:
    """Compare frequencies of free oscillation of two engines after an impulse, see `ringdown`.

    Both use Newmark's method, 180 steps per second and little damping, so that they differ by
    stiffness and mass alone.
    """
    row = engine_named(true_engine, "character")
    if velocity is None:
        velocity = np.full(3, IMPULSE * model.mesh.size / np.sqrt(3))
    settings = RINGING | options
    ours = _maker(engine)(model, RINGING_STEP, **settings)
    solved = usual_options(row, {"newton": 5, "tolerance": 1e-6})
    full = row.simulate(model, RINGING_STEP, **solved, **settings)
    swings, true = (
        ringdown(each, pose, velocity=velocity, seconds=seconds).astype(np.float64)
        for each in (ours, full)
    )
    rate = 1 / RINGING_STEP
    return Ringing(
        dominant_frequency(true, rate),
        dominant_frequency(swings, rate),
        frequency_error(swings, true, rate),
        rms_difference(swings, true, np.zeros_like(true)),
    )


def _maker(engine: str | Maker) -> Maker:
    return engine_named(engine, "character").simulate if isinstance(engine, str) else engine


def _same_step_error(
    model: PoseSpaceModel,
    motion: Motion,
    make: Maker,
    row: Engine,
    true: Truth,
    options: dict[str, Any],
) -> float:
    """Return the RMS difference between the real-time and the reference engine.

    Both use the reference's step, and neither uses centred rig accelerations.
    """
    fine = {"integrator": CONVERGING["integrator"]} | options
    step = 1 / (true.rate * true.substeps)
    frames = played(make(model, step, **fine), motion, true.substeps)
    solved = usual_options(row, CONVERGING) | options
    full, _ = play_finely(row, model, motion, true.rate, true.substeps, solved)
    return rms_difference(frames, full, true.rig)
