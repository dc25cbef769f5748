"""Baked motions: the skin of a character at every frame of a motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from supple.arrays import Floats, Singles
from supple.rig.character import Character
from supple.rig.motion.motion import Motion


@dataclass(frozen=True, eq=False, repr=False)
class BakedMotion:
    """A motion with living flesh.

    Attributes
    ----------
    character
        Whose skin it is; its `source` ties vertices to the file they came from.
    motion
        Poses and roots at the baked frames; its `name` is that of the character's motion and its
        `times` are that motion's own, so that frame k belongs to times[k] of the clip in the file.
    frames
        (t, n̄, 3) the skin in the world, metres.
    rate
        Frames per second.
    loop
        Whether the last frame leads into the first.
    report
        What was simulated, with which figures; plain values, for JSON.
    readings
        For each frame, what the engine read at the step before it, by name: see `frame_readings`;
        empty for the first frame, where nothing was stepped yet.
    """

    character: Character
    motion: Motion
    frames: Singles
    rate: float
    loop: bool = False
    report: dict[str, Any] = field(default_factory=dict)
    readings: Sequence[Mapping[str, Any]] = ()

    def __repr__(self) -> str:
        n, name = self.n_frames, self.motion.name
        return (
            f'BakedMotion("{self.character.name}", "{name}", {n} frames at {self.rate:g} a second)'
        )

    @property
    def n_frames(self) -> int:
        """Number of frames."""
        return len(self.frames)

    @property
    def times(self) -> Floats:
        """(t,) seconds in the clip."""
        return self.motion.times

    def rig_frame(self, frame: int) -> Floats:
        """Return the skin (n̄, 3) as the rig alone has it, in the world."""
        root = self.motion.roots[frame]
        place = self.character.rig(self.motion.poses[frame])
        return place @ root[:3, :3].T + root[:3, 3]
