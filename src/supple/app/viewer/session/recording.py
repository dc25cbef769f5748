"""Recording of the skin that is seen, saved to a file in one folder."""

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

#: Frames a second, as near as whole steps come to it.
RATE = 30.0
#: Bytes that a recording may take; it ends there.
LARGEST = 256 * 2**20
LONGEST_NAME = 100


class Recorder:
    """Recorder that keeps the skin at 30 frames a second while it is on.

    Parameters
    ----------
    vertices
        Number of vertices of the skin.

    Attributes
    ----------
    on
        Whether it records.
    most
        Frames at which it ends.
    """

    def __init__(self, vertices: int) -> None:
        self._dt = 1 / 90
        self.on = False
        self._steps = 0
        self._changing, self._saving = threading.Lock(), threading.Lock()
        self._frames: list[Singles] = []
        self._poses: list[Floats] = []
        self._roots: list[Floats] = []
        self.most = max(2, LARGEST // (12 * max(vertices, 1)))

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def seconds(self) -> float:
        """Length of the recording."""
        return self._every * self._dt * len(self)

    @property
    def _every(self) -> int:
        """Steps of a frame."""
        return max(1, round(1 / (RATE * self._dt)))

    def start(self) -> None:
        """Forget what there is, and record."""
        with self._changing:
            self._frames, self._poses, self._roots = [], [], []
            self._steps, self.on = 0, True

    def stop(self) -> None:
        """End the recording, and keep it."""
        self.on = False

    def step(self, dt: float, surface: Callable[[], Singles], pose: Floats, root: Floats) -> None:
        """Keep a frame when it is time; to be called after every step.

        Parameters
        ----------
        dt
            Seconds of the step.
        surface
            Makes the skin (n̄, 3), a new array; it is called for frames that are kept only.
        pose, root
            (s,), (4, 4) at the step.
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
                self.on = self.on and len(self._frames) < self.most
        self._steps += 1

    def baked(self, character: Character, name: str) -> BakedMotion:
        """Return the recording as `supple.save` takes it; its times begin at 0."""
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
        """Write the recording to a new file of that name in the folder."""
        # The writers are needed only now.
        from supple.formats.save import save, written_files

        target = folder / checked_name(name)
        with self._saving:  # pages may save at once
            for file in written_files(target):
                if file.exists() or file.is_symlink():
                    raise SuppleError(f"{file.name} is there already; choose another name")
            save(target, self.baked(character, take_name(character, motion)))
        return target


def take_name(character: Character, motion: str) -> str:
    """Return a name that no motion of the character has: a recording is none of them."""
    number = 1
    while (name := f"{motion} take {number}") in character.motions:
        number += 1
    return name


def checked_name(name: str) -> str:
    """Return the name if it is one of a file right in a folder: a page must not write elsewhere."""
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
