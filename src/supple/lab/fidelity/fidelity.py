"""How far a reduced simulation is from the full one: by position, and by frequency."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Singles
from supple.dynamics.between_poses import pose_before
from supple.engines.full.full_character import FullCharacterSimulator
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.errors import SuppleError
from supple.lab.fidelity.oscillation import (
    CharacterEngine,
    dominant_frequency,
    frequency_error,
    ringdown,
)
from supple.lab.fidelity.truth import CONVERGING, Truth, rms_difference, truth
from supple.rig.motion.motion import Motion

__all__ = ["Fidelity", "Ringing", "compare", "compare_ringing", "played"]

Engine = Callable[..., CharacterEngine]
Progress = Callable[[float, str], None]

#: So little damping that frequencies are sharp: with the step below, a hundredth at 5 Hz.
RINGING: dict[str, Any] = {
    "integrator": "newmark",
    "alpha": 0.2,
    "beta": 3e-4,
    "gravity_mode": "none",
}
RINGING_STEP = 1 / 180
#: An impulse that moves the flesh by about a hundredth of the size, in sizes per second.
IMPULSE = 0.25


@dataclass(frozen=True)
class Ringing:
    """Free oscillation after an impulse.

    Attributes
    ----------
    frequency, reduced_frequency
        In Hz: the strongest of the full and of the reduced simulation.
    error
        Relative difference of the two, for the same movement; see `frequency_error`.
    rms
        RMS difference of the displacements relative to those of the full simulation. A small
        difference in frequency adds up in it over the cycles.
    """

    frequency: float
    reduced_frequency: float
    error: float
    rms: float


@dataclass(frozen=True, eq=False)
class Fidelity:
    """A reduced simulation beside the full one.

    Attributes
    ----------
    rms
        RMS surface difference of the real-time simulation, with its own integrator and a step for
        each frame, from the converged truth; relative to the truth's dynamic displacement. So
        what time steps miss is in it.
    rms_same_step
        The same with both simulations stepped alike, at the truth's step: what the reduction
        misses. None if it was not asked for.
    rms_full_step
        What the full simulation itself is off the truth, stepped as in real time: what time steps
        miss. None if it was not asked for.
    truth
        The converged full simulation.
    frames
        (t, n̄, 3) float32 of the real-time simulation.
    motion_frequency_error
        Relative difference of the dominant frequencies during the motion. It is mostly the
        motion's own frequency; `ringing` has the flesh's.
    ringing
        Free oscillation in the pose halfway through the motion; None if it was not asked for.
    """

    rms: float
    rms_same_step: float | None
    rms_full_step: float | None
    truth: Truth
    frames: Singles
    motion_frequency_error: float
    ringing: Ringing | None

    @property
    def truth_change(self) -> float:
        """What the last halving of the truth's step changed, in the same measure."""
        return self.truth.change

    @property
    def frequency_error(self) -> float:
        """Of free oscillation where it was looked at, otherwise during the motion."""
        return self.motion_frequency_error if self.ringing is None else self.ringing.error

    def rms_over_time(self) -> Floats:
        """(t,) RMS difference of each frame, relative to the displacement over the motion."""
        off = self.frames.astype(np.float64) - self.truth.frames
        displacement = self.truth.frames.astype(np.float64) - self.truth.rig
        return np.sqrt((off**2).mean(axis=(1, 2)) / (displacement**2).mean())


def compare(
    model: PoseSpaceModel,
    motion: Motion,
    *,
    simulator: Engine | None = None,
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
    """Play a motion with the reduced and the full simulation, and say how far they are apart.

    Parameters
    ----------
    model, motion
        The character and what it does.
    simulator
        What makes the simulator that is judged, called as `supple.Simulator` is, which is the
        default: with a model, a step, and options.
    rate
        Frames per second; a frame is a step of the real-time simulation.
    reference
        The `truth` of this model and motion, if it is there already.
    same_step, full_step, ringing
        Which of the more expensive figures to find; see `Fidelity`.
    accuracy, cache, progress
        Of the `truth`.
    **options
        Of both simulations: alpha, beta, gravity, gravity_mode.
    """
    engine = _usual() if simulator is None else simulator
    true = reference
    if true is None:
        asked: dict[str, Any] = {"accuracy": accuracy, "cache": cache, "progress": progress}
        true = truth(model, motion, rate, **asked, **options)
    frames = played(engine(model, 1 / rate, **options), motion)
    if frames.shape != true.frames.shape or true.rate != rate:
        raise SuppleError(
            f"a truth of shape {true.frames.shape} for a motion of {len(frames)} frames; "
            "was it made of this model, motion and rate?"
        )
    alike: float | None = None
    if same_step:
        alike = _stepped_alike(model, motion, engine, true, options)
    coarse: float | None = None
    if full_step:
        stepped = FullCharacterSimulator(model, 1 / rate, newton=CONVERGING["newton"], **options)
        coarse = rms_difference(stepped.run(motion), true.frames, true.rig)
    moving = frequency_error(frames - true.rig, true.frames - true.rig, rate)
    middle, _ = motion.at(motion.times[0] + motion.duration / 2)
    rang = compare_ringing(model, middle, simulator=engine) if ringing else None
    rms = rms_difference(frames, true.frames, true.rig)
    return Fidelity(rms, alike, coarse, true, frames, moving, rang)


def compare_ringing(
    model: PoseSpaceModel,
    pose: ArrayLike | None = None,
    *,
    simulator: Engine | None = None,
    velocity: ArrayLike | None = None,
    seconds: float = 2.0,
    **options: Any,
) -> Ringing:
    """Frequencies of free oscillation of the reduced and the full simulation.

    Both step alike, with Newmark's method, 180 times a second and hardly any damping, so that
    what is left is the difference in stiffness and mass.

    Parameters
    ----------
    model, pose
        The character, and where it is; by default the rest pose.
    simulator
        As for `compare`.
    velocity
        (3,) of the impulse, see `ringdown`; by default the same along all three axes.
    seconds
        How long.
    **options
        Of both simulations.
    """
    engine = _usual() if simulator is None else simulator
    if velocity is None:
        velocity = np.full(3, IMPULSE * model.mesh.size / np.sqrt(3))
    given = RINGING | options
    ours = engine(model, RINGING_STEP, **given)
    whole = FullCharacterSimulator(model, RINGING_STEP, newton=5, tolerance=1e-6, **given)
    swings, true = (
        ringdown(each, pose, velocity=velocity, seconds=seconds).astype(np.float64)
        for each in (ours, whole)
    )
    rate = 1 / RINGING_STEP
    return Ringing(
        dominant_frequency(true, rate),
        dominant_frequency(swings, rate),
        frequency_error(swings, true, rate),
        rms_difference(swings, true, np.zeros_like(true)),
    )


def played(simulator: CharacterEngine, motion: Motion, every: int = 1) -> Singles:
    """Step a simulator through a motion, moving as it does at its start, and return the skin.

    Cuts begin anew. All simulators are played alike, step by step.

    Parameters
    ----------
    simulator
        Steps of its `dt`.
    motion
        Evaluated at each of them.
    every
        How many steps make a frame, of which the last is returned.
    """
    keys = motion.resample(1 / simulator.dt)
    frames = []
    for index, (pose, root) in enumerate(zip(keys.poses, keys.roots, strict=True)):
        if index == 0 or index in keys.cuts:
            simulator.reset(pose, root, before=pose_before(keys, index))
        else:
            simulator.step(pose, root)
        if index % every == 0:
            frames.append(np.array(simulator.surface(), np.float32))
    return np.stack(frames)


def _stepped_alike(
    model: PoseSpaceModel, motion: Motion, engine: Engine, true: Truth, options: dict[str, Any]
) -> float:
    """RMS difference with the truth's step, accelerations taken as in real time by both."""
    fine = {"integrator": CONVERGING["integrator"]} | options
    step = 1 / (true.rate * true.substeps)
    frames = played(engine(model, step, **fine), motion, true.substeps)
    whole = FullCharacterSimulator(
        model, 1 / true.rate, substeps=true.substeps, **(CONVERGING | options)
    )
    return rms_difference(frames, whole.run(motion), true.rig)


def _usual() -> Engine:
    # The reduced simulator is judged here, not needed: full ones compare without it.
    from supple.engines.pose_space.simulator import PoseSpaceSimulator

    return PoseSpaceSimulator
