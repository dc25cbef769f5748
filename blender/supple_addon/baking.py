# SPDX-FileCopyrightText: The Supple developers
# SPDX-License-Identifier: GPL-3.0-or-later
"""Baking of flesh: sample the character, run the command, add the result to the character.

A task is a generator that yields its progress, so that an operator can advance it by a timer while
the interface stays responsive; `finished` runs it to the end, for scripts.
"""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import bpy

from .character import Character, Clip, Problem
from .command import Job
from .curve_layers import add_curves, read_curves, without_curves
from .exchange import read_flesh, write_sample
from .layers import add_flesh, check_place
from .sampling import Sample, sampled

__all__ = [
    "Options",
    "Step",
    "finished",
    "given_flesh",
    "job_steps",
    "sampling_steps",
    "work_folder",
]

#: Fraction of the progress bar for sampling.
SAMPLING = 0.2
#: Custom property of bones: a factor on the stiffness of the flesh that follows them.
BONE_STIFFNESS = "supple_stiffness"
Result = TypeVar("Result")


@dataclass(frozen=True)
class Options:
    """Options of `supple bake`."""

    flesh: str = "normal"
    stiffness: float = 1.0
    damping: float = 1.0
    gravity: float | None = None
    error: float = 0.002
    quality: str = "auto"
    swing: str | None = None
    anatomy: str | None = None

    def words(self) -> list[str]:
        words = ["--flesh", self.flesh, "--damping", f"{self.damping:g}"]
        words += ["--error", f"{self.error:g}", "--quality", self.quality]
        words += self.swing_words() + self.anatomy_words()
        return words + ([] if self.gravity is None else ["--gravity", f"{self.gravity:g}"])

    def swing_words(self) -> list[str]:
        """Return the option for the swing; raise Problem if it is not a list of goals."""
        try:
            goals = shlex.split(self.swing or "")
        except ValueError:
            raise Problem(f"Swing: {self.swing} has a quotation mark without its pair") from None
        for goal in goals:
            if goal.startswith("-"):
                raise Problem(f"Swing: {goal} is no goal; use 3%, or belly=4cm Tail*=10%")
        return [f"--swing={goal}" for goal in goals]

    def anatomy_words(self) -> list[str]:
        """Return the option for the anatomy file."""
        return [f"--anatomy={self.anatomy}"] if self.anatomy else []

    def stiffness_words(self, armature: bpy.types.Object, folder: Path) -> list[str]:
        """Return the option for the stiffness; write the factors of bones to a file in `folder`."""
        bones = bone_stiffness(armature)
        if not bones and self.stiffness == 1:
            return []
        scaled = {name: self.stiffness * factor for name, factor in bones.items()}
        factors = {"default": self.stiffness, "joints": scaled}
        (folder / "stiffness.json").write_text(json.dumps(factors), encoding="utf-8")
        return ["--stiffness", "stiffness.json"]


@dataclass(frozen=True)
class CurveOptions:
    """Options of `supple curves` alone."""

    free: tuple[str, ...] = ()
    bounds: str | None = None
    ground: bool = False
    solver: str | None = None

    def curve_words(self) -> list[str]:
        """Return the options as words of the command."""
        words = [f"--free={each}" for each in self.free]
        words += [f"--bounds={self.bounds}"] if self.bounds else []
        words += [f"--ground={'auto'}"] if self.ground else []
        return words + ([f"--solver={self.solver}"] if self.solver else [])


@dataclass(frozen=True)
class Step:
    """Fraction done of a task, its description, and whether it waits for another process."""

    part: float
    what: str
    waits: bool = False


Steps = Generator[Step, None, Result]


def finished(steps: Steps[Result]) -> Result:
    """Run a task to its end, and return its result."""
    while True:
        try:
            if next(steps).waits:
                time.sleep(0.05)
        except StopIteration as stop:
            return stop.value


@contextmanager
def work_folder() -> Iterator[Path]:
    """Yield a temporary folder."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="supple-"))
    except OSError as error:
        raise Problem(f"There is no place for temporary files: {error.strerror}") from None
    try:
        yield folder
    except OSError as error:
        raise Problem(f"{error.filename or folder}: {error.strerror}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sampling_steps(
    context: bpy.types.Context, character: Character, clips: Sequence[Clip], file: Path
) -> Steps[Sample]:
    """Sample a character into a file."""
    sampling = sampled(context, character, clips)
    try:
        while True:
            try:
                part = next(sampling)
            except StopIteration as stop:
                sample: Sample = stop.value
                break
            yield Step(SAMPLING * part, f"{character.name}: sampling")
    finally:
        sampling.close()
    write_sample(sample, file)
    return sample


def job_steps(job: Job, name: str) -> Steps[None]:
    """Wait for a process; end it when the generator is closed."""
    try:
        while job.running:
            part = SAMPLING + (1 - SAMPLING) * job.part
            yield Step(part, f"{name}: {job.what}", waits=True)
    finally:
        job.end()


def given_flesh(
    context: bpy.types.Context,
    command: str,
    character: Character,
    clips: Sequence[Clip],
    options: Options | None = None,
) -> Steps[list[dict[str, Any]]]:
    """Add flesh to a character in some clips; return the figures of each run of the command.

    Clips that loop need another run than those that do not.
    """
    options, figures = options or Options(), []
    for loop in (False, True):
        alike = [clip for clip in clips if clip.loop == loop]
        if alike:
            figures.append((yield from _one_run(context, command, character, alike, options)))
    return figures


def _one_run(
    context: bpy.types.Context,
    command: str,
    character: Character,
    clips: Sequence[Clip],
    options: Options,
) -> Steps[dict[str, Any]]:
    with work_folder() as folder:
        given = [*options.words(), *options.stiffness_words(character.armature, folder)]
        name = character.name
        sample = yield from sampling_steps(context, character, clips, folder / "sample.glb")
        check_place(sample)
        words = [command, "bake", "sample.glb", "-o", "flesh.glb", "--json", *given]
        words += ["--all"] if len(clips) > 1 else [f"--motion={clips[0].name}"]
        words += ["--rate", f"{sample.clips[0].rate:.9g}", *unit_words(context)]
        words += ["--loop"] if clips[0].loop else []
        job = Job(words, folder)
        yield from job_steps(job, name)
        figures = job.figures()
        flesh = read_flesh(sample, folder / "flesh.glb")
        figures["added"] = add_flesh(context, sample, flesh)
        figures["warnings"] = [line.removeprefix("sample.glb: ") for line in job.warnings]
        return figures


def moved_curves(
    context: bpy.types.Context,
    command: str,
    character: Character,
    clip: Clip,
    curves: CurveOptions,
    options: Options | None = None,
) -> Steps[dict[str, Any]]:
    """Simulate free bones and shape keys of a character, and add a layer of curves."""
    options, name = options or Options(), character.name
    with work_folder() as folder, without_curves(character):
        sample = yield from sampling_steps(context, character, [clip], folder / "sample.glb")
        words = [command, "curves", "sample.glb", "-o", "curves.glb", "--json", "--additive"]
        words += ["--keys", "spline", f"--motion={clip.name}", "--flesh", options.flesh]
        words += ["--rate", f"{sample.clips[0].rate:.9g}", *unit_words(context)]
        words += ["--damping", f"{options.damping:g}"] + (["--loop"] if clip.loop else [])
        words += curves.curve_words() + options.anatomy_words()
        job = Job(words, folder)
        yield from job_steps(job, name)
        figures = job.figures()
        added = read_curves(sample, folder / "curves.glb")
    figures["added"] = add_curves(context, character, sample, added)
    figures["warnings"] = [line.removeprefix("sample.glb: ") for line in job.warnings]
    return figures


def unit_words(context: bpy.types.Context) -> list[str]:
    """Return the option for the scene's unit of length; none for metres."""
    length = context.scene.unit_settings.scale_length
    return [] if abs(length - 1) < 1e-6 else ["--unit", f"{length:.9g}"]


def bone_stiffness(armature: bpy.types.Object) -> dict[str, float]:
    """Return factors by bone, from the custom property of the pose bone or of the bone."""
    factors = {}
    for bone in armature.pose.bones:
        value = bone.get(BONE_STIFFNESS, bone.bone.get(BONE_STIFFNESS))
        if isinstance(value, int | float) and value > 0:
            factors[bone.name] = float(value)
        elif value is not None:
            raise Problem(f'Bone "{bone.name}": {BONE_STIFFNESS} is {value}; use a factor above 0')
    return factors
