"""Takes of final quality: unreduced flesh, with steps halved until the result converges.

Their checkpoints, and measured distances of live bakes from final ones, are in the user's cache.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Singles
from supple.checks import checked_number, checked_whole_numbers, numbers
from supple.dynamics.root_frame import to_world
from supple.engines.common.flesh_fields import FLESH_SCHEMA, FleshFields
from supple.engines.common.model_file import stored_fields
from supple.engines.pose_space.model.fields import ModelFields
from supple.errors import SolverError, SuppleError, SuppleWarning, warn
from supple.playback.player import Player, without_prefix
from supple.playback.take import Take
from supple.progress import Progress
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.stored_rigs import GIVEN
from supple.user_cache import Arrays, cached_file, content_hash, keep, running_cache

Result = TypeVar("Result")

#: Default options with which the full simulation converges: a method of second order with centred
#: accelerations of the rig, and Newton's method to a small tolerance.
CONVERGING: dict[str, Any] = {"integrator": "bdf2", "newton": 20, "tolerance": 1e-6}
#: Largest change by the last halving of the step, and most sub-steps per step of live quality.
ACCURACY, MOST_SUBSTEPS = 0.02, 128
#: Lower bound of the flesh's displacement relative to the size: smaller ones are not visible.
LEAST_DISPLACEMENT = 1e-4
#: Seconds between two checkpoints, the same at the end of a level, and the least ratio of that time
#: to the time of writing.
EVERY, AT_ENDS, RATIO = 20.0, 5.0, 20.0
#: Largest number of checkpoints; the least recently used is removed first.
MOST_KEPT = 16
_KIND = running_cache(".part.npz", MOST_KEPT)
_LABEL = "bake"
#: Distances of live bakes from final ones, by the content hash of the live one; a few bytes each.
_DISTANCES = running_cache(".distance.npz", 500)


@dataclass(frozen=True)
class Converged(Generic[Result]):
    """Result with the shortest step, and the convergence of the halvings.

    `substeps` is the number of steps per original step, `changes` the change by each halving (inf
    where the longer step found no solution), `done` whether the last is within the accuracy.
    """

    result: Result
    substeps: int
    changes: tuple[float, ...]
    done: bool

    @property
    def change(self) -> float:
        """Change by the last halving; the method has order two, so the error is a third of it."""
        return self.changes[-1] if self.changes else np.inf


def converged(
    level: Callable[[int], Result | None],
    change: Callable[[Result, Result], float],
    *,
    accuracy: float,
    most_substeps: int,
    begun: tuple[Result | None, int, tuple[float, ...]] | None = None,
) -> Converged[Result]:
    """Halve the step until the change is at most `accuracy`, or until `most_substeps`.

    `level` computes the result with 1, 2, 4 … sub-steps, or None where there is no solution;
    `change` is the distance of two successive results. `begun` resumes from a result, its sub-steps
    and the changes so far. SolverError if the shortest step has no solution.
    """
    limit = checked_number("accuracy", accuracy)
    (most,) = checked_whole_numbers("most substeps", [most_substeps])
    if not (limit > 0 and most >= 2):
        raise SuppleError("convergence needs a positive accuracy and at least two sub-steps")
    before, substeps, known = (level(1), 1, ()) if begun is None else begun
    changes = list(known)
    while 2 * substeps <= most and not (changes and changes[-1] <= limit):
        substeps, after = 2 * substeps, level(2 * substeps)
        solved = before is not None and after is not None
        changes.append(change(before, after) if solved else np.inf)  # type: ignore[arg-type]
        before = after
    if before is None:
        raise SolverError(
            f"no solution with {substeps} sub-steps; use more sub-steps, firmer flesh or more "
            "damping"
        )
    return Converged(before, substeps, tuple(changes), bool(changes) and changes[-1] <= limit)


class Checkpoint:
    """File in the user's cache with the state of an unfinished bake.

    `content` is the hash of all inputs of the bake; nothing is stored if it is None. Checkpoints
    with the hashes `beside` belong to the same command and are not removed to make room. The file
    is written atomically, and remains until the bake is written to its file.
    """

    def __init__(self, content: str | None, beside: Sequence[str | None] = ()) -> None:
        self._content, self._cost = content, 0.0
        self._spared = [cached_file(_KIND, _LABEL, each) for each in beside]
        self._last = perf_counter()

    @property
    def path(self) -> Path | None:
        """File of the checkpoint; None if nothing is kept."""
        return cached_file(_KIND, _LABEL, self._content)

    def read(self) -> Arrays | None:
        """Return the stored state; None if there is none, or if the file is damaged."""
        path = self.path
        if path is None or not path.is_file():
            return None
        with contextlib.suppress(Exception):  # a damaged file may raise any exception
            state = _KIND.read(path)
            os.utime(path)  # marks it as recently used
            return state
        return None

    def offer(self, state: Callable[[], Arrays], *, ended: bool = False) -> None:
        """Store a state if the last was stored long ago; sooner if a level has `ended`."""
        if self._content is None:
            return
        began = perf_counter()
        wait = AT_ENDS if ended else EVERY
        if began - self._last >= max(wait, RATIO * self._cost):
            keep(_KIND, _LABEL, state(), self._content, self._spared)
            self._last = perf_counter()
            self._cost = self._last - began

    def remove(self) -> None:
        """Remove the file."""
        path = self.path
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def content_of(model: Any, motion: Motion, *values: Any, reduced: bool = False) -> str | None:
    """Return a hash of the inputs of a bake: flesh, clip and plain values.

    The name and the motions of the model do not count, its reduction only if `reduced`. The result
    is None for black-box rigs and for models without `FleshFields`.
    """
    if not isinstance(model, FleshFields):
        return None
    all_fields = reduced and isinstance(model, ModelFields)
    header, arrays = stored_fields(model, model.schema if all_fields else FLESH_SCHEMA)
    if any(part["kind"] == GIVEN for part in header["rigs"]["parts"]):
        return None
    flesh = {name: each for name, each in arrays.items() if not name.startswith("motions.")}
    clip: list[Any] = [motion.times, motion.poses, motion.roots, np.array(motion.cuts, np.int64)]
    clip += [] if motion.tracks is None else motion.tracks.content()
    names = ("rigs", "material", "interpolation", "basis_bits", "regions")
    return content_hash([header.get(name) for name in names], flesh, clip, *values)


def remember_distance(content: str | None, distance: float) -> None:
    """Store the `displacement_change` of a live bake from the final one, by its content hash."""
    keep(_DISTANCES, "live", {"distance": np.array(distance)}, content)


def known_distance(content: str | None) -> float | None:
    """Return the distance stored by `remember_distance`; None if there is none."""
    path = cached_file(_DISTANCES, "live", content)
    if path is not None and path.is_file():
        with contextlib.suppress(Exception):  # a damaged file may raise any exception
            return float(_DISTANCES.read(path)["distance"])
    return None


def final_take(
    player_with: Callable[[int], Player], every: int, tell: Progress, kept: Checkpoint
) -> Converged[Take]:
    """Record a take with steps so short that halving them changes less than `ACCURACY`.

    `player_with` makes a player with a number of sub-steps; `every` is the number of undivided
    steps per frame. An interrupted take resumes from the checkpoint `kept`. Memory holds the skin
    at the frames of two levels, 24 bytes per vertex and frame, and one state of the tets.
    """
    levels = _Levels(player_with, every, tell, kept)
    result = converged(
        levels,
        levels.compared,
        accuracy=ACCURACY,
        most_substeps=MOST_SUBSTEPS,
        begun=levels.begin(),
    )
    for message in levels.warned:
        warn(message)
    if not result.done:
        warn(
            f'motion "{result.result.player.motion.name}": with {result.substeps} sub-steps, the '
            f"last halving still changes the flesh by {100 * result.change:.1f} % of its motion; "
            "with firmer flesh or more damping fewer sub-steps suffice"
        )
    return result


@dataclass
class _Levels:
    """Takes with 1, 2, 4 … sub-steps, and the checkpoint of the current one."""

    player_with: Callable[[int], Player]
    every: int
    tell: Progress
    kept: Checkpoint
    changes: list[float] = field(default_factory=list)
    before: Take | None = None
    warned: list[str] = field(default_factory=list)
    _stored: Arrays | None = None
    _caught: list[warnings.WarningMessage] = field(default_factory=list)

    def begin(self) -> tuple[Take | None, int, tuple[float, ...]] | None:
        """Return the level to resume from, as `converged` takes it; None for the first level."""
        self._stored = self.kept.read()
        if self._stored is None:
            return None
        try:
            substeps, changes = int(self._stored["substeps"]), self._stored["changes"].tolist()
            if substeps > 1 and "before" in self._stored:
                self.before = self._restored(substeps // 2, self._stored["before"])
        except Exception:  # an unusable checkpoint is ignored
            self._stored = None
            return None
        self.changes = changes
        return None if substeps == 1 else (self.before, substeps // 2, tuple(changes))

    def _restored(self, substeps: int, frames: NDArray) -> Take:
        """Return the take of a level with stored frames."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            take = self._take(substeps)
        shape = take.n_frames, *take.player.simulator.model.surface.vertices.shape
        if frames.shape != shape or not np.isfinite(frames).all():
            raise SuppleError(f"frames of a checkpoint must be finite numbers of shape {shape}")
        take.frames = frames
        return take

    def __call__(self, substeps: int) -> Take | None:
        """Return the take with `substeps` sub-steps; None if Newton's method does not converge."""
        take: Take | None = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.warned, self._caught = [], caught
            try:
                take = self._begun(substeps)
                take.recorded()
                self.kept.offer(lambda: self._state(substeps, take), ended=True)
            except SolverError:
                take = None
            self.warned = self._messages()
        if take is None or self.before is None:
            # `compared` is not called, as one of the two levels has no result.
            self.changes += [] if substeps == 1 else [np.inf]
            self.before = take
        return take

    def _begun(self, substeps: int) -> Take:
        """Return the take of a level, resumed from the checkpoint if possible."""
        stored, self._stored = self._stored, None
        if stored is not None:
            with contextlib.suppress(Exception):  # an unusable checkpoint is ignored
                take, warned = self._take(substeps), stored["warned"].tolist()
                take.resume(without_prefix("take.", stored))
                self.warned = warned
                return take
            self._caught.clear()
        return self._take(substeps)

    def _messages(self) -> list[str]:
        """Return all warnings of this level without repetitions."""
        caught = [str(w.message) for w in self._caught if issubclass(w.category, SuppleWarning)]
        return [*dict.fromkeys([*self.warned, *caught])]

    def _take(self, substeps: int) -> Take:
        def report(part: float, what: str) -> None:
            finer = f", {substeps} × finer" if substeps > 1 else ""
            last = ""
            if self.changes and np.isfinite(self.changes[-1]):
                last = f", {100 * self.changes[-1]:.1f} % off"
            self.tell(part, f"{what}{finer}{last}")

        take = Take(self.player_with(substeps), self.every * substeps, report)
        take.kept = lambda take: self.kept.offer(lambda: self._state(substeps, take))
        return take

    def _state(self, substeps: int, take: Take | None) -> Arrays:
        assert take is not None
        state = {f"take.{name}": array for name, array in take.state().items()}
        state |= {"substeps": np.array(substeps), "changes": np.array(self.changes)}
        state["warned"] = np.array(self._messages(), np.str_)
        if self.before is not None and self.before.frames is not None:
            state["before"] = self.before.frames
        return state

    def compared(self, before: Take, after: Take) -> float:
        """Return the `displacement_change` of the skin between two levels."""
        assert before.frames is not None
        assert after.frames is not None
        model = after.player.simulator.model
        change = _change(before.frames, after.frames, after.motion(), model)
        self.changes.append(change)
        self.before = after
        return change


def displacement_change(baked: BakedMotion, true: BakedMotion) -> float:
    """Return the RMS difference of two bakes, relative to the RMS displacement of `true`.

    The displacement is that of the skin from the rig alone, at least `LEAST_DISPLACEMENT` of the
    size. The rig is evaluated frame by frame, so that no third array of frames is needed.
    """
    return _change(baked.frames, true.frames, true.motion, true.character)


def _change(
    frames: Singles, true: Singles, motion: Motion, shaped: Character | FleshFields
) -> float:
    difference, displacement = 0.0, 0.0
    for frame, true_frame, pose, root in zip(frames, true, motion.poses, motion.roots, strict=True):
        rig = to_world(root, shaped.rig(pose))
        difference += float(np.square(frame.astype(np.float64) - true_frame).sum())
        displacement += float(np.square(true_frame - rig).sum())
    least = LEAST_DISPLACEMENT * shaped.surface.size
    return float(np.sqrt(difference / max(displacement, least**2 * true.size)))


def rms_difference(frames: ArrayLike, true: ArrayLike, rig_only: ArrayLike) -> float:
    """Return the RMS of |a − b| over time and vertices, relative to the true RMS of |b − Φ̄|.

    All arrays are (t, n̄, 3): the frames a, the true frames b, and the skin Φ̄ by the rig alone.
    """
    shape = numbers("true frames", true).shape
    a, b, c = (np.asarray(numbers("frames", each)) for each in (frames, true, rig_only))
    if len(shape) != 3 or shape[2] != 3 or a.shape != shape or c.shape != shape:
        raise SuppleError(f"frames of shapes {a.shape}, {shape}, {c.shape}; all must be (t, n, 3)")
    displacement = float(np.sqrt(np.mean((b - c) ** 2)))
    if not 0 < displacement < np.inf:
        raise SuppleError("the true flesh never leaves the rig; use a motion that moves it")
    return float(np.sqrt(np.mean((a - b) ** 2))) / displacement
