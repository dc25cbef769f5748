"""Flesh from shapes: skin that free shapes move is soft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from supple.arrays import Ints
from supple.engines.rig_space.flesh_rig import affine_entries
from supple.engines.rig_space.free_parameters import free_entries
from supple.rig.character import Character
from supple.rig.jacobian import rig_jacobian
from supple.rig.protocol import Rig
from supple.rig.skeleton.skinning import skinned_rigs

#: Largest flesh share φ of skin that a free shape moves, and the relative displacement from which
#: it applies.
SHARE, FULL = 0.5, 0.5


def prepared_character(character: Character, options: Mapping[str, Any]) -> Character | None:
    """Return a character with flesh where a build's options make shapes free.

    None if the rig implies no bone: see `has_anatomy`.
    """
    if not has_anatomy(character.rig):
        return None
    with catch_warnings():
        simplefilter("ignore")  # the build warns
        entries = free_entries(character, options.get("free", "auto"))
    return shaped_flesh(character, entries)


def has_anatomy(rig: Rig) -> bool:
    """Return whether a rig has one skeleton of several joints, or one joint and shapes.

    Other deformers, such as a wire, would bend bone: a trunk with a core of bone swung by 0.3 % of
    the size, one of flesh by 9 %.
    """
    skinned = skinned_rigs(rig)
    if len(skinned) != 1:
        return False
    several = bool(np.ptp(skinned[0].joints[:, 0]) > 0)
    return several or bool(affine_entries(rig, np.arange(len(rig.parameters))).any())


def shaped_flesh(character: Character, entries: Ints) -> Character:
    """Return a character painted as flesh where the shapes among the free parameters move its skin.

    A head is hard, but cheeks with shapes are not: as bone they had no mass, and their weights
    jumped between bounds in every frame.
    """
    rig = character.rig
    shapes = entries[affine_entries(rig, entries)]
    if not len(shapes):
        return character
    flesh = np.zeros(rig.n_vertices)
    rest, column = np.array(rig.rest_pose, np.float64), np.empty((rig.n_vertices, 3, 1))
    for entry in shapes:  # one at a time to save memory
        rig_jacobian(rig, np.array([entry])).evaluate(rest, column)
        moved = np.linalg.norm(column[:, :, 0], axis=1)
        much = moved / max(float(moved.max()), 1e-300)
        np.maximum(flesh, SHARE * np.minimum(much / FULL, 1.0), out=flesh)
    painted = dict(character.painted)
    flesh *= 1 - np.asarray(painted.get("rigid", 0.0))  # painted as rigid
    painted["flesh"] = np.maximum(painted.get("flesh", 0.0), flesh)
    return replace(character, painted=painted)
