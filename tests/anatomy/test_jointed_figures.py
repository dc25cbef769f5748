"""Robots and jointed figures: pieces are hard or flesh as a whole, and what is hard is said."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.sample_bodies import BodyParts, bending, figure, mannequin
from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.hard_parts import hard_warning
from supple.anatomy.region_entries import RegionEntry
from supple.app.info.info import describe
from supple.errors import SuppleWarning
from supple.formats.load import load
from supple.playback.bake_model import body_plan_of
from supple.playback.baking import bake

#: Row of the belly among the mannequin's skins.
BELLY = 1
SMALL: dict[str, Any] = {"quality": "live", "tets": 1500, "modes": 10, "most_poses": 2}


def hard_pieces(anatomy: Anatomy) -> list[float]:
    """Return the hard part of each piece of the skin."""
    return [
        float(anatomy.hard[anatomy.part == piece].mean()) for piece in range(anatomy.part.max() + 1)
    ]


def piece_of(parts: BodyParts, joint: str) -> int:
    """Return the row of the skin that follows a joint alone."""
    row = parts.names.index(joint)
    return next(k for k, (_, _, weights) in enumerate(parts.skins) if weights[:, row].min() > 0.99)


def blend(parts: BodyParts, joint: str, other: str, part: float, share: float) -> None:
    """Let the first part of a piece's vertices follow another joint, too."""
    piece = piece_of(parts, joint)
    vertices, triangles, weights = parts.skins[piece]
    weights = weights.copy()
    some = slice(0, int(np.ceil(part * len(vertices))))
    weights[some] *= 1 - share
    weights[some, parts.names.index(other)] += share
    parts.skins[piece] = (vertices, triangles, weights)


def largest_motion(parts: BodyParts) -> tuple[Anatomy, np.ndarray]:
    """Bake a bow of the figure; return the peak of each vertex, relative to the size."""
    character = bending(parts.character("mannequin"), "spine_02", 0.4, seconds=0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuppleWarning)
        baked = bake(character, "bend", **SMALL)
    rig = np.stack([baked.rig_frame(k) for k in range(baked.n_frames)])
    peaks = np.linalg.norm(baked.frames - rig, axis=2).max(axis=0)
    return anatomy_of(character), peaks / character.surface.size


def test_all_pieces_of_a_mannequin_are_hard_as_a_whole_and_its_belly_is_flesh():
    found = hard_pieces(anatomy_of(mannequin().character()))
    assert found[BELLY] == 0
    assert set(found[:BELLY] + found[BELLY + 1 :]) == {1}


def test_a_spine_of_a_jointed_figure_is_trunk_and_no_forearm():
    roles = {
        joint: each.role for joint, each in anatomy_of(mannequin().character()).entries.items()
    }
    assert {roles[name] for name in ("pelvis", "spine_01", "spine_02")} == {"trunk"}
    assert (roles["head"], roles["hand_l"], roles["foot_r"]) == ("head", "hand", "foot")


@pytest.mark.parametrize("named", [True, False])
def test_a_stray_weight_does_not_make_one_arm_flesh(named: bool):
    parts = mannequin()
    blend(parts, "lowerarm_l", "hand_l", 0.03, 0.5)
    found = hard_pieces(anatomy_of(parts.character(), use_names=named))
    assert [k for k, hard in enumerate(found) if hard < 1] == [BELLY]


def test_an_arm_that_bends_is_hard_if_the_other_arm_is():
    parts = mannequin()
    blend(parts, "lowerarm_l", "hand_l", 0.7, 0.5)
    found = hard_pieces(anatomy_of(parts.character()))
    assert [k for k, hard in enumerate(found) if hard < 1] == [BELLY]


def test_arms_that_bend_are_flesh_as_a_whole():
    parts = mannequin()
    for side in "lr":
        blend(parts, f"lowerarm_{side}", f"hand_{side}", 0.7, 0.5)
    arms = [piece_of(mannequin(), f"lowerarm_{side}") for side in "lr"]
    found = hard_pieces(anatomy_of(parts.character()))
    assert [k for k, hard in enumerate(found) if hard < 1] == sorted([BELLY, *arms])
    assert {found[each] for each in arms} == {0}


@pytest.mark.filterwarnings("ignore::supple.errors.SuppleWarning")
def test_pieces_of_a_robot_are_hard_or_flesh_as_a_whole(assets: Path):
    found = hard_pieces(anatomy_of(load(assets / "gltf_characters/RobotExpressive.glb")))
    assert set(found) == {0, 1}


def test_an_entry_of_the_user_makes_a_rigid_piece_flesh():
    soft = {"head": RegionEntry("head", 0.8, "soft")}
    anatomy = anatomy_of(mannequin().character(), entries=soft)
    head = anatomy.region == anatomy.joints.index("head")
    assert not anatomy.hard[head].any()


@pytest.mark.parametrize("belly", [True, False])
def test_hard_pieces_do_not_move(belly: bool):
    parts = mannequin()
    if not belly:  # hard all over
        parts.skins.pop(BELLY)
    anatomy, peaks = largest_motion(parts)
    assert peaks[anatomy.hard].max() <= 5e-4
    assert not belly or peaks[~anatomy.hard].max() > 2e-3


def test_a_mostly_hard_skin_is_a_warning_before_tets_are_made(monkeypatch: pytest.MonkeyPatch):
    def nothing(*_: object) -> None:
        raise AssertionError("built before the warning")

    monkeypatch.setattr("supple.playback.bake_model.plan_body", nothing)
    said = r"figure: 90 % of the skin is held hard: .*rigid pieces.*anatomy none"
    with pytest.warns(SuppleWarning, match=said), pytest.raises(AssertionError):
        body_plan_of(mannequin().character("figure"), "auto", 1500)


def test_skin_that_the_user_made_hard_is_no_warning():
    character = figure().character()
    usual = anatomy_of(character)
    assert hard_warning(usual, character) is None
    entries = {joint: RegionEntry("trunk", 0.0, "hard") for joint in usual.joints}
    told = anatomy_of(character, entries=entries, like=usual)
    assert told.hard_part > 0.9
    assert hard_warning(told, character) is None


@pytest.mark.parametrize("anatomy", [None, ()])
def test_info_reports_that_a_robot_is_mostly_hard(assets: Path, anatomy: tuple[Path, ...] | None):
    found = describe(assets / "gltf_characters/RobotExpressive.glb", anatomy)
    said = [each for each in found["defects"] if "85 % of the skin is held hard" in each["what"]]
    assert len(said) == 1
    assert "use anatomy none" in said[0]["consequence"]
    assert "jointed" not in found
