"""Loading and evaluating glTF files, for tests."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from supple.errors import SuppleWarning
from supple.formats.gltf.read.gltf import load_gltf
from supple.rig.character import Character


def quietly(path: Path) -> Character:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        return load_gltf(path)


def world(character: Character, pose: np.ndarray, root: np.ndarray) -> np.ndarray:
    return character.rig(pose) @ root[:3, :3].T + root[:3, 3]


def file_positions(character: Character, primitive: int, surface: np.ndarray) -> np.ndarray:
    """Positions of a primitive's vertices, (n, 3), from those of the surface; nan if unused."""
    welded = character.source.primitives[primitive].welded
    return np.where(welded[:, None] >= 0, surface[welded], np.nan)


def farthest(character: Character, surface: np.ndarray, expected: dict) -> float:
    """Return the largest error of a vertex of the file, relative to the size."""
    worst = 0.0
    for number, primitive in enumerate(character.source.primitives):
        found = file_positions(character, number, surface)
        used = primitive.welded >= 0
        there = expected[primitive.node, primitive.primitive] * character.metres_per_unit
        worst = max(worst, float(np.abs(found - there)[used].max()))
    return worst / character.surface.size
