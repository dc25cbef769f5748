"""Baked motions: the skin of a character at every frame of a motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from supple.arrays import Floats, Singles
from supple.rig.baked_obstacles import BakedObstacle
from supple.rig.character import Character
from supple.rig.motion.motion import Motion


@dataclass(frozen=True, eq=False, repr=False)
class BakedMotion:
    """A motion with simulated flesh.

    Attributes
    ----------
    character
        The character; its `source` maps vertices to the original file.
    motion
        Poses and roots at the baked frames, with the name of the character's motion. Frame k is at
        times[k] of the clip in the file.
    frames
        (t, n̄, 3) the skin in the world, metres.
    rate
        Frames per second.
    loop
        Whether the last frame leads into the first.
    report
        Settings and results of the simulation, as plain values for JSON.
    readings
        Readings of the engine by name at the step before each frame; see `frame_readings`. Empty
        for the first frame.
    obstacles
        Obstacles and rigid objects of the simulation, with their places at the frames.
    """

    character: Character
    motion: Motion
    frames: Singles
    rate: float
    loop: bool = False
    report: dict[str, Any] = field(default_factory=dict)
    readings: Sequence[Mapping[str, Any]] = ()
    obstacles: tuple[BakedObstacle, ...] = ()

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
        """Return the skin (n̄, 3) of the rig without simulation at a frame, in the world."""
        root = self.motion.roots[frame]
        place = self.character.rig(self.motion.poses[frame])
        return place @ root[:3, :3].T + root[:3, 3]
