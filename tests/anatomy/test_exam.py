"""A sample of `make exam`: characters that nobody tuned keep to the bounds, at any size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anatomy.exam import (
    HARD_BOUND,
    LIMITS_BOUND,
    OFFSET_BOUND,
    examine_live,
    labels,
    quantile,
    summary,
)
from supple.anatomy.anatomy import anatomy_of
from supple.formats.load import load
from supple.playback.baking import bake

#: Characters and clips; `make exam` bakes all clips of all characters.
SAMPLE = {
    "untuned/q_Stag.glb": ("Attack_Headbutt", "Death", "Gallop_Jump", "Walk"),
    "gltf_characters/q_Whale.glb": ("Swim",),
}


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.filterwarnings("ignore")
def test_an_untuned_character_keeps_to_the_bounds(assets: Path, name: str):
    character = load(assets / name)
    some = {k: v for k, v in character.motions.items() if k.endswith(SAMPLE[name])}
    assert len(some) == len(SAMPLE[name])
    chosen = replace(character, motions=some)
    record, _ = examine_live(chosen, labels()[name], anatomy_of(chosen), tets=2000)
    found = summary(record)
    assert found["inverted"] == 0
    assert found["stiffened"] == 0
    assert found["limits"] < LIMITS_BOUND
    assert found["hard"] <= HARD_BOUND
    assert found["offset"] <= OFFSET_BOUND


@pytest.mark.filterwarnings("ignore")
def test_a_character_a_thousand_times_smaller_or_larger_moves_alike(assets: Path):
    path = assets / "gltf_characters" / "q_Whale.glb"
    usual = load(path).metres_per_unit
    moved = []
    for scale in (1.0, 0.001, 100.0):
        character = load(path, metres_per_unit=scale * usual)
        baked = bake(character, rate=15.0, tets=800, modes=8, most_poses=2)
        rig = np.stack([baked.rig_frame(k) for k in range(baked.n_frames)])
        moved.append((baked.frames - rig) / character.surface.size)
    largest = np.abs(moved[0]).max()
    assert largest > 1e-5
    for other in moved[1:]:
        assert np.abs(other - moved[0]).max() < 0.01 * largest


def test_a_quantile_is_of_area_not_of_vertices():
    values = np.array([1.0, 2.0, 3.0])
    assert quantile(values, np.array([1.0, 1.0, 98.0]), 0.5) == 3.0
    assert quantile(values, np.array([98.0, 1.0, 1.0]), 0.95) == 1.0
    assert quantile(np.empty(0), np.empty(0), 0.5) == 0.0
