"""Takes of final quality: unreduced flesh, with steps halved until the result converges.

Their checkpoints, and measured distances of live bakes from final bakes, are in the user's cache.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Singles
from supple.checks import numbers
from supple.dynamics.root_frame import to_world
from supple.engines.common.flesh_fields import FLESH_SCHEMA, FleshFields
from supple.engines.common.model_file import stored_fields
from supple.engines.pose_space.model.fields import ModelFields
from supple.errors import SuppleError, SuppleWarning, warn
from supple.playback.player import Player, without_prefix
from supple.playback.refined_player import LEAST_DISPLACEMENT, RefinedPlayer
from supple.playback.take import Take
from supple.progress import Progress
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion
from supple.rig.stored_rigs import GIVEN
from supple.user_cache import Arrays, cached_file, content_hash, keep, running_cache

#: Default options with which the full simulation converges: a method of second order with centred
#: accelerations of the rig, and Newton's method to a small tolerance.
CONVERGING: dict[str, Any] = {"integrator": "bdf2", "newton": 20, "tolerance": 1e-6}
#: Largest change by the last halving of the step, in final and in auto quality.
ACCURACY, AUTO_ACCURACY = 0.02, 0.05
#: Seconds between two checkpoints, the same at the end of a clip, and the least ratio of that time
#: to the time of writing.
EVERY, AT_ENDS, RATIO = 20.0, 5.0, 20.0
#: Largest number of checkpoints; the least recently used is removed first.
MOST_KEPT = 16
_KIND = running_cache(".part.npz", MOST_KEPT)
_LABEL = "bake"
#: Distances of live bakes from final ones, by the content hash of the live one; a few bytes each.
_DISTANCES = running_cache(".distance.npz", 500)


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
        """Store a state if the last was stored long ago; sooner if the clip has `ended`."""
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
    """Store the `displacement_change` of a live bake from the final bake, by its content hash."""
    keep(_DISTANCES, "live", {"distance": np.array(distance)}, content)


def known_distance(content: str | None) -> float | None:
    """Return the distance stored by `remember_distance`; None if there is none."""
    path = cached_file(_DISTANCES, "live", content)
    if path is not None and path.is_file():
        with contextlib.suppress(Exception):  # a damaged file may raise any exception
            return float(_DISTANCES.read(path)["distance"])
    return None


def final_take(
    player_with: Callable[[int], Player],
    every: int,
    progress: Progress,
    kept: Checkpoint,
    accuracy: float = ACCURACY,
    most_work: float | None = None,
) -> tuple[Take, dict[str, Any]]:
    """Record a take with steps so short that halving them changes less than `accuracy`.

    `player_with` makes a player with a number of sub-steps; `every` is the number of undivided
    steps per frame. Steps are halved segment by segment, see `RefinedPlayer`. An interrupted take
    resumes from the checkpoint `kept`. A motion that takes more than `most_work` Newton iterations
    per step, if given, is a SolverError. Return the take, and figures of its convergence.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warned: list[str] = []

        def messages() -> list[str]:
            """Return all warnings without repetitions."""
            new = [str(w.message) for w in caught if issubclass(w.category, SuppleWarning)]
            return [*dict.fromkeys([*warned, *new])]

        def finer(part: float, substeps: int) -> None:
            progress(part, "simulating" + (f", {substeps} × finer" if substeps > 1 else ""))

        def begin() -> tuple[Take, RefinedPlayer]:
            player = RefinedPlayer(player_with, every, accuracy, most_work, finer)
            return Take(player, every, progress), player

        stored, (take, player) = kept.read(), begin()
        if stored is not None:
            try:
                warned += stored["warned"].tolist()
                take.resume(without_prefix("take.", stored))
            except Exception:  # an unusable checkpoint is ignored
                warned.clear()
                caught.clear()
                take, player = begin()

        def state() -> Arrays:
            arrays = {f"take.{name}": array for name, array in take.state().items()}
            return arrays | {"warned": np.array(messages(), np.str_)}

        def keep_checkpoint(take: Take) -> None:
            if player.between_segments:
                kept.offer(state, ended=take.at == take.n_frames)

        take.kept = keep_checkpoint
        take.recorded()
    for message in messages():
        warn(message)
    take.warn_of_limits()
    return take, _convergence(take, player)


def _convergence(take: Take, player: RefinedPlayer) -> dict[str, Any]:
    """Return figures of the steps of a take; warn where halving them still changes much."""
    refined = player.refinement
    least = LEAST_DISPLACEMENT * player.simulator.model.surface.size
    unresolved, change = refined.unresolved(player.accuracy), refined.change(least)
    if unresolved:
        worst = max(refined.changes)
        by = f"by {100 * worst:.0f} %" if np.isfinite(worst) else "much"
        warn(
            f'motion "{player.motion.name}": in {len(unresolved)} of {len(refined.changes)} '
            f"segments, the first at {unresolved[0]:.2f} s, halving the time step still changes "
            f"the flesh {by}; look at these frames, or use firmer flesh or more damping"
        )
    chosen = refined.chosen or [1]
    return {
        "substeps": {"least": min(chosen), "most": max(chosen), "mean": round(mean(chosen), 2)},
        "change": float(f"{change:.4g}") if np.isfinite(change) else None,
        "converged": not unresolved,
        "unconverged_steps": take.unconverged,
    }


def displacement_change(baked: BakedMotion, true: BakedMotion) -> float:
    """Return the RMS difference of two bakes, relative to the RMS displacement of `true`.

    The displacement is the skin's from the rig alone, at least `LEAST_DISPLACEMENT` of the
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
        raise SuppleError("the true frames equal the rig's; use a motion that moves the flesh")
    return float(np.sqrt(np.mean((a - b) ** 2))) / displacement
