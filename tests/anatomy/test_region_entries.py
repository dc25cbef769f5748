"""What people say of regions goes before what is found, and their files fit whoever has the rig."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.sample_bodies import figure
from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.region_entries import RegionEntry, read_entries, read_feel, write_entries
from supple.errors import SuppleError, SuppleWarning
from supple.playback.bake_model import model_options
from supple.rig.character import Character


@pytest.fixture(scope="module")
def body() -> Character:
    return figure().character()


@pytest.fixture(scope="module")
def anatomy(body: Character) -> Anatomy:
    return anatomy_of(body)


def told(body: Character, anatomy: Anatomy, **feels: str) -> Anatomy:
    entries = dict(anatomy.entries)
    for joint, feel in feels.items():
        entries[joint] = replace(entries[joint], feel=feel)
    return anatomy_of(body, entries=entries)


def of_region(anatomy: Anatomy, joint: str) -> np.ndarray:
    return anatomy.region == anatomy.joints.index(joint)


def test_a_saved_anatomy_is_the_same_again(body: Character, anatomy: Anatomy, tmp_path: Path):
    anatomy.save(tmp_path / "body.anatomy.json")
    again = Anatomy.load(tmp_path / "body.anatomy.json", body)
    assert again.entries == anatomy.entries
    np.testing.assert_array_equal(again.share, anatomy.share)


def test_an_anatomy_file_with_a_byte_order_mark_is_read(anatomy: Anatomy, tmp_path: Path):
    file = tmp_path / "body.anatomy.json"
    anatomy.save(file, {"stiffness": 2})
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_entries(file).keys() == anatomy.entries.keys()
    assert read_feel(file) == {"stiffness": 2}


def test_reasons_with_odd_characters_are_written_and_read(tmp_path: Path):
    entries = {"chest": RegionEntry("trunk", 0.5, reasons=("\ud800", "größer", "\n"))}
    write_entries(tmp_path / "a.anatomy.json", "a", entries)
    assert read_entries(tmp_path / "a.anatomy.json") == entries


def test_an_unknown_key_of_an_anatomy_file_has_a_hint(tmp_path: Path):
    file = tmp_path / "a.anatomy.json"
    file.write_text('{"supple_anatomy": 1, "regions": {}, "Feel": {"stiffness": 2}}')
    with pytest.raises(SuppleError, match='did you mean "feel"'):
        read_feel(file)


def test_a_region_made_hard_is_hard_all_over(body: Character, anatomy: Anatomy):
    assert not anatomy.hard[of_region(anatomy, "chest")].any()
    hard = told(body, anatomy, chest="hard")
    assert hard.hard[of_region(hard, "chest")].all()
    assert hard.entries["chest"].reasons[-1] == "told"


def test_a_hard_region_made_soft_has_flesh_in_spite_of_its_name(body, anatomy):
    own = np.flatnonzero(of_region(anatomy, "hand.L"))
    labelled = replace(body, labels={"material:Claws": own})
    assert anatomy_of(labelled).hard[own].all()
    soft = told(labelled, anatomy_of(labelled), **{"hand.L": "soft"})
    assert not soft.hard[own].all()
    assert (soft.share[own] > 0.8).mean() > 0.8


def test_firm_and_normal_flesh_have_the_same_bone(body: Character, anatomy: Anatomy):
    firm = told(body, anatomy, chest="firm")
    np.testing.assert_array_equal(firm.share, anatomy.share)
    assert (firm.firmness[of_region(firm, "chest")] > 1.5).mean() > 0.9


def test_an_anatomy_from_the_same_surface_is_the_same(body: Character, anatomy: Anatomy):
    again = anatomy_of(body, like=anatomy)
    np.testing.assert_array_equal(again.share, anatomy.share)
    assert again.balls is anatomy.balls
    nameless = anatomy_of(body, use_names=False)
    again = anatomy_of(body, use_names=False, like=anatomy)
    np.testing.assert_array_equal(again.hard, nameless.hard)
    assert again.entries == nameless.entries


def test_left_and_right_are_matched_by_name_and_by_place(anatomy: Anatomy):
    assert anatomy.mirrored["hand.L"] == "hand.R"
    assert anatomy.mirrored["hand.R"] == "hand.L"
    assert "chest" not in anatomy.mirrored
    parts = figure()
    nameless = [f"joint_{k}" for k in range(len(parts.names))]
    found = anatomy_of(parts.character(names=nameless)).mirrored
    left, right = (nameless[parts.names.index(f"shin.{side}")] for side in "LR")
    assert found[left] == right


def test_joints_that_another_character_has_not_are_named_in_a_line(body, anatomy, tmp_path):
    path = tmp_path / "other.anatomy.json"
    entries = {**anatomy.entries, "wing.L": anatomy.entries["tail1"]}
    entries["chest"] = replace(entries["chest"], feel="hard")
    write_entries(path, "other", entries)
    with pytest.warns(SuppleWarning, match='other.anatomy.json: sample has no joint "wing.L"'):
        found = Anatomy.load(path, body)
    assert found.entries["chest"].feel == "hard"


def test_a_file_of_another_rig_is_refused(body, anatomy, tmp_path: Path):
    path = tmp_path / "other.anatomy.json"
    write_entries(path, "other", {"a": anatomy.entries["head"], "b\n": anatomy.entries["head"]})
    with pytest.raises(SuppleError, match="is for another rig") as caught:
        Anatomy.load(path, body)
    assert "\n" not in str(caught.value)


def test_the_files_of_a_reader_and_a_writer_agree(anatomy: Anatomy, tmp_path: Path):
    write_entries(tmp_path / "a.anatomy.json", "a", anatomy.entries)
    assert read_entries(tmp_path / "a.anatomy.json") == dict(anatomy.entries)


# What is painted


def test_painted_rigid_parts_are_hard_and_others_unchanged(body, anatomy):
    paint = np.zeros(len(body.surface.vertices))
    own = of_region(anatomy, "chest")
    paint[own] = 1.0
    found = anatomy_of(replace(body, painted={"rigid": paint}))
    assert found.hard[own].all()
    np.testing.assert_array_equal(found.share[~own], anatomy.share[~own])


def test_painted_flesh_overrides_detected_hard_parts(body, anatomy):
    own = np.array(anatomy.role) == "head"
    found = anatomy_of(replace(body, painted={"flesh": own.astype(float)}))
    assert anatomy.hard[own].all()
    assert not found.hard[own].any()


def test_painted_stiffness_is_a_factor_with_an_anatomy_and_without(body):
    factors = np.where(body.surface.vertices[:, 1] > 1.0, 3.0, 1.0)
    painted = replace(body, painted={"stiffness": factors})
    for anatomy in ("auto", None):
        plain, more = (model_options(each, anatomy=anatomy, tets=600) for each in (body, painted))
        usual = plain.get("young", plain["material"].young)
        np.testing.assert_allclose(more["young"], factors * usual)


def test_rigid_paint_without_an_anatomy_is_a_warning(body):
    painted = replace(body, painted={"rigid": np.ones(len(body.surface.vertices))})
    with pytest.warns(SuppleWarning, match="maps need an anatomy"):
        model_options(painted, anatomy=None, tets=600)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SuppleWarning)
        model_options(body, anatomy=None, tets=600)
