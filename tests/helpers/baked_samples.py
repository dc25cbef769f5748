"""Synthetic baked motions: flesh with a prescribed offset, without simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supple.rig.baked_motion import BakedMotion
from supple.scenes.characters.character_scene import scene


def swinging_x(frames: int = 24, *, name: str = "x", swing: float = 0.03) -> BakedMotion:
    """Return the X with a flapping, turning and travelling motion and smoothly swinging flesh."""
    character = replace(scene("x").character, name=name)
    whole = next(iter(character.motions.values()))
    motion = whole.resample(90)
    motion = replace(
        motion,
        times=motion.times[: 3 * frames : 3],
        poses=motion.poses[: 3 * frames : 3],
        roots=_travelling(motion.roots[: 3 * frames : 3]),
        cuts=(),
    )
    blank = BakedMotion(character, motion, np.zeros((frames, 1, 3), np.float32), 30.0)
    rest = character.surface.vertices
    soft = []
    for k in range(frames):
        beat = np.sin(2 * np.pi * (0.1 * k + rest[:, :1]))
        way = np.stack([beat[:, 0], np.roll(beat[:, 0], 1), 0.3 * beat[:, 0] ** 2], axis=1)
        soft.append(blank.rig_frame(k) + swing * way * np.sin(0.4 * k))
    return replace(blank, frames=np.array(soft, np.float32))


def _travelling(roots: np.ndarray) -> np.ndarray:
    """Return roots that move to the right and turn to the left."""
    out = roots.copy()
    for k, root in enumerate(out):
        angle = 0.05 * k
        c, s = np.cos(angle), np.sin(angle)
        root[:3, :3] = [[c, 0, s], [0, 1, 0], [-s, 0, c]]
        root[:3, 3] = [0.05 * k, 0.4, 0.0]
    return out
