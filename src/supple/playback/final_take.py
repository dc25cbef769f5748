"""Takes of final quality: unreduced flesh, with steps so short that shorter ones change little."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from supple.arrays import Singles
from supple.dynamics.root_frame import to_world
from supple.engines.common.flesh_fields import FleshFields
from supple.errors import SolverError, SuppleError, SuppleWarning, warn
from supple.playback.checkpoint import Checkpoint
from supple.playback.convergence import Converged, converged
from supple.playback.player import Player
from supple.playback.take import Take
from supple.progress import Progress
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Largest change by the last halving of the step, and the most steps in place of one of live.
ACCURACY, MOST_SUBSTEPS = 0.02, 128
#: Flesh that moves less than this part of the size is taken to move so much: nobody sees it.
LEAST_DISPLACEMENT = 1e-4


def final_take(
    player_with: Callable[[int], Player], every: int, tell: Progress, kept: Checkpoint
) -> Converged[Take]:
    """Record a take with steps so short that halving them changes less than `ACCURACY`.

    Memory holds the skin at the frames of two levels, 24 bytes a vertex and frame, and one state
    of the tets.

    Parameters
    ----------
    player_with
        Function that makes a player with so many steps in place of one.
    every, tell
        Steps of a frame, uncut, and progress: a bar for each level.
    kept
        Checkpoint to go on from, and to keep what is done in.
    """
    levels = _Levels(player_with, every, tell, kept)
    found = converged(
        levels,
        levels.compared,
        accuracy=ACCURACY,
        most_substeps=MOST_SUBSTEPS,
        begun=levels.begin(),
    )
    name = found.result.player.motion.name
    for each in levels.warned:
        warn(each)
    if not found.done:
        warn(
            f'motion "{name}": with {found.substeps} steps in place of one, half of them still '
            f"change flesh by {100 * found.change:.1f} % of its motion; firmer flesh or more "
            "damping takes fewer"
        )
    return found


@dataclass
class _Levels:
    """Takes with ever more sub-steps, and the checkpoint of the one that runs."""

    player_with: Callable[[int], Player]
    every: int
    tell: Progress
    kept: Checkpoint
    changes: list[float] = field(default_factory=list)
    before: Take | None = None
    warned: list[str] = field(default_factory=list)
    _found: dict[str, NDArray] | None = None
    _heard: list[warnings.WarningMessage] = field(default_factory=list)

    def begin(self) -> tuple[Take | None, int, tuple[float, ...]] | None:
        """Return the level to go on from, as `converged` takes it; None to begin with the first."""
        self._found = self.kept.read()
        if self._found is None:
            return None
        try:
            substeps, changes = int(self._found["substeps"]), self._found["changes"].tolist()
            if substeps > 1 and "before" in self._found:
                self.before = self._taken(substeps // 2, self._found["before"])
        except Exception:  # what cannot be gone on with is no checkpoint
            self._found = None
            return None
        self.changes = changes
        return None if substeps == 1 else (self.before, substeps // 2, tuple(changes))

    def _taken(self, substeps: int, frames: NDArray) -> Take:
        """Return the take of a level whose frames are known."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuppleWarning)
            take = self._take(substeps)
        shape = take.n_frames, *take.player.simulator.model.surface.vertices.shape
        if frames.shape != shape or not np.isfinite(frames).all():
            raise SuppleError(f"frames of a checkpoint must be {shape} finite numbers")
        take.frames = frames
        return take

    def __call__(self, substeps: int) -> Take | None:
        """Return the take with so many sub-steps; None where Newton's method found no solution."""
        take: Take | None = None
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            self.warned, self._heard = [], heard
            try:
                take = self._begun(substeps)
                take.recorded()
                self.kept.offer(lambda: self._state(substeps, take), ended=True)
            except SolverError:
                take = None
            self.warned = self._said()
        if take is None or self.before is None:
            # `compared` is not asked: there is nothing to compare with.
            self.changes += [] if substeps == 1 else [np.inf]
            self.before = take
        return take

    def _begun(self, substeps: int) -> Take:
        """Return the take of a level, as far as it was kept."""
        found, own, self._found = self._found, "take.", None
        if found is not None:
            with contextlib.suppress(Exception):  # what cannot be gone on with is no checkpoint
                take, warned = self._take(substeps), found["warned"].tolist()
                take.resume({n[len(own) :]: a for n, a in found.items() if n.startswith(own)})
                self.warned = warned
                return take
            self._heard.clear()
        return self._take(substeps)

    def _said(self) -> list[str]:
        """Return all warnings of this level, each once."""
        ours = [each for each in self._heard if issubclass(each.category, SuppleWarning)]
        return [*dict.fromkeys([*self.warned, *(str(each.message) for each in ours)])]

    def _take(self, substeps: int) -> Take:
        def shown(part: float, what: str) -> None:
            finer = f", {substeps} × finer" if substeps > 1 else ""
            last = ""
            if self.changes and np.isfinite(self.changes[-1]):
                last = f", {100 * self.changes[-1]:.1f} % off"
            self.tell(part, f"{what}{finer}{last}")

        take = Take(self.player_with(substeps), self.every * substeps, shown)
        take.kept = lambda take: self.kept.offer(lambda: self._state(substeps, take))
        return take

    def _state(self, substeps: int, take: Take | None) -> dict[str, NDArray]:
        assert take is not None
        found = {f"take.{name}": array for name, array in take.state().items()}
        found |= {"substeps": np.array(substeps), "changes": np.array(self.changes)}
        found["warned"] = np.array(self._said(), np.str_)
        if self.before is not None and self.before.frames is not None:
            found["before"] = self.before.frames
        return found

    def compared(self, before: Take, after: Take) -> float:
        """Return how far two levels are apart."""
        assert before.frames is not None
        assert after.frames is not None
        model = after.player.simulator.model
        change = _change(before.frames, after.frames, after.motion(), model)
        self.changes.append(change)
        self.before = after
        return change


def displacement_change(baked: BakedMotion, true: BakedMotion) -> float:
    """RMS of |a − b| relative to that of the flesh's displacement |b − Φ̄|, as `rms_difference`.

    Where flesh moves less than anybody sees, relative to that. The rig is evaluated frame by
    frame, so that no third array of frames is needed.

    Parameters
    ----------
    baked, true
        Frames that are judged, and those that are taken for true, with their motion.
    """
    return _change(baked.frames, true.frames, true.motion, true.character)


def _change(
    frames: Singles, true: Singles, motion: Motion, shaped: Character | FleshFields
) -> float:
    apart, moved = 0.0, 0.0
    for ours, theirs, pose, root in zip(frames, true, motion.poses, motion.roots, strict=True):
        rig = to_world(root, shaped.rig(pose))
        apart += float(np.square(ours.astype(np.float64) - theirs).sum())
        moved += float(np.square(theirs - rig).sum())
    least = LEAST_DISPLACEMENT * shaped.surface.size
    return float(np.sqrt(apart / max(moved, least**2 * true.size)))
