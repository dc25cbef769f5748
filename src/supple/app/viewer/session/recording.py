"""Recording of the shown skin, saved to a file in one folder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from supple.arrays import Floats, Singles
from supple.errors import SuppleError
from supple.rig.baked_motion import BakedMotion
from supple.rig.character import Character
from supple.rig.motion.motion import Motion

#: Frames per second, rounded to a whole number of steps.
RATE = 30.0
#: Largest recording in bytes; it ends at this size.
LARGEST = 256 * 2**20
LONGEST_NAME = 100


class Recorder:
    """Recorder of a skin with this number of vertices, at 30 frames per second."""

    def __init__(self, vertices: int) -> None:
        self._dt = 1 / 90
        self.on = False  # whether it records
        self._steps = 0
        self._changing, self._saving = threading.Lock(), threading.Lock()
        self._frames: list[Singles] = []
        self._poses: list[Floats] = []
        self._roots: list[Floats] = []
        self.most_frames = max(2, LARGEST // (12 * max(vertices, 1)))

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def seconds(self) -> float:
        """Duration of the recording in s."""
        return self._every * self._dt * len(self)

    @property
    def _every(self) -> int:
        """Steps per frame."""
        return max(1, round(1 / (RATE * self._dt)))

    def start(self) -> None:
        """Start a new recording."""
        with self._changing:
            self._frames, self._poses, self._roots = [], [], []
            self._steps, self.on = 0, True

    def stop(self) -> None:
        """End the recording."""
        self.on = False

    def step(self, dt: float, surface: Callable[[], Singles], pose: Floats, root: Floats) -> None:
        """Record a frame if one is due; called after every step of `dt` s.

        `surface` returns the skin (n̄, 3) as a new array, and is called for recorded frames only.
        """
        if not self.on:
            return
        if self._steps == 0:
            self._dt = dt
        if self._steps % self._every == 0:
            with self._changing:
                self._frames.append(surface())
                self._poses.append(pose.copy())
                self._roots.append(root.copy())
                self.on = self.on and len(self._frames) < self.most_frames
        self._steps += 1

    def baked(self, character: Character, name: str) -> BakedMotion:
        """Return the recording as a baked motion that starts at time 0."""
        with self._changing:
            frames, poses, roots = self._frames[:], self._poses[:], self._roots[:]
        if len(frames) < 2:
            raise SuppleError("nothing is recorded yet; press Record while the character moves")
        rate = 1 / (self._every * self._dt)
        times = np.arange(len(frames)) / rate
        motion = Motion(times, np.stack(poses), np.stack(roots), name)
        report: dict[str, Any] = {"recorded": True}
        return BakedMotion(character, motion, np.stack(frames), rate, report=report)

    def save(self, folder: Path, name: str, character: Character, motion: str) -> Path:
        """Write the recording to a new file in the folder."""
        from supple.formats.save import save, written_files

        target = folder / checked_name(name)
        with self._saving:  # two pages may save at the same time
            for file in written_files(target):
                if file.exists() or file.is_symlink():
                    raise SuppleError(f"{file.name} already exists; choose another name")
            save(target, self.baked(character, take_name(character, motion)))
        return target


def take_name(character: Character, motion: str) -> str:
    """Return a name for the recording that no motion of the character has."""
    number = 1
    while (name := f"{motion} take {number}") in character.motions:
        number += 1
    return name


def checked_name(name: str) -> str:
    """Return the name of a file directly in the folder; pages must not write elsewhere."""
    bad = {"/", "\\", ":", "\0"}
    plain = name.strip()
    if (
        not plain
        or plain.startswith(".")
        or len(plain) > LONGEST_NAME
        or bad & set(plain)
        or not plain.isprintable()
    ):
        raise SuppleError("a recording needs a plain file name, such as take1.npz")
    return plain
