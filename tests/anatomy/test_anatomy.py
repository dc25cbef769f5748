"""Anatomy says what is bone, flesh, hard and apart, whatever the size, turn and resolution."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.sample_bodies import figure, rod, with_box
from supple.anatomy.anatomy import Anatomy, anatomy_of
from supple.anatomy.roles import HARD
from supple.anatomy.thickness import InscribedBalls
from supple.errors import SuppleError
from supple.maths.rotations import exponential, to_matrix
from supple.mesh.surface import SurfaceMesh
from supple.rig.character import Character

NAMELESS = [f"joint_{number}" for number in range(64)]


@pytest.fixture(scope="module")
def body() -> Character:
    return figure().character()


@pytest.fixture(scope="module")
def anatomy(body: Character) -> Anatomy:
    return anatomy_of(body)


def roles(anatomy: Anatomy) -> dict[str, str]:
    return {name: each.role for name, each in anatomy.entries.items()}


def test_a_rod_is_as_thick_as_its_radius_and_no_more():
    surface = SurfaceMesh(*rod((0, 0, 0), (1, 0, 0), [0.1] * 20, around=32))
    balls = InscribedBalls(surface)
    middle = np.abs(surface.vertices[:, 0] - 0.5) < 0.3
    np.testing.assert_allclose(balls.skin_thickness(surface)[middle], 0.1, rtol=0.03)
    np.testing.assert_allclose(balls.depth(np.array([[0.5, 0, 0]])), 0.1, rtol=0.02)
    assert balls.depth(np.array([[0.5, 0.2, 0]]))[0] < 0


def test_a_corner_of_a_coarse_box_is_as_thick_as_the_box():
    square = np.sqrt(2) * 0.1
    surface = SurfaceMesh(*rod((0, 0, 0), (1, 0, 0), [square] * 2, around=4))
    np.testing.assert_allclose(InscribedBalls(surface).skin_thickness(surface), 0.1, rtol=0.15)


def test_names_and_shape_give_each_part_its_role(anatomy: Anatomy):
    found = roles(anatomy)
    assert {found["hips"], found["chest"]} == {"trunk"}
    assert (found["neck"], found["head"]) == ("neck", "head")
    for side in "LR":
        wanted = {"upperarm": "limb", "forearm": "forearm", "hand": "hand"}
        wanted |= {"thigh": "limb", "shin": "shin", "foot": "foot", "ear": "ear", "eartip": "ear"}
        for name, role in wanted.items():
            assert found[f"{name}.{side}"] == role
    assert {found[f"tail{k}"] for k in range(5)} == {"tail"}


def test_without_names_head_hands_feet_and_tail_are_still_found():
    parts = figure()
    anatomy = anatomy_of(parts.character(names=NAMELESS[: len(parts.names)]))
    found = dict(zip(parts.names, roles(anatomy).values(), strict=True))
    assert found["head"] == "head"
    assert {found[f"{name}.{side}"] for name in ("hand", "foot") for side in "LR"} == {"end"}
    assert {found[f"tail{k}"] for k in range(5)} == {"tail"}
    assert {found["hips"], found["chest"]} == {"trunk"}


def test_every_role_has_its_reasons(anatomy: Anatomy):
    assert all(each.reasons for each in anatomy.entries.values())


def test_hard_parts_have_no_share_of_flesh_and_the_trunk_most(anatomy: Anatomy):
    role = np.array(anatomy.role)
    assert anatomy.hard[np.isin(role, ("hand", "foot", "head"))].all()
    assert anatomy.share[role == "trunk"].min() > anatomy.share[role == "shin"].max()


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_a_scaled_body_has_the_same_anatomy(anatomy: Anatomy, scale: float):
    scaled = anatomy_of(figure().character(scale=scale))
    assert roles(scaled) == roles(anatomy)
    np.testing.assert_allclose(scaled.share, anatomy.share, atol=1e-6)
    np.testing.assert_allclose(scaled.thickness / scale, anatomy.thickness, rtol=1e-3)


def test_a_turned_body_has_the_same_anatomy(anatomy: Anatomy):
    turn = to_matrix(exponential(np.array([0.5, 1.1, -0.7])))
    turned = anatomy_of(figure().character(turn=turn))
    assert roles(turned) == roles(anatomy)
    np.testing.assert_allclose(turned.share, anatomy.share, atol=1e-6)
    np.testing.assert_allclose(turned.thickness, anatomy.thickness, rtol=0.05)


@pytest.mark.parametrize("named", [True, False])
def test_a_finer_mesh_has_the_same_anatomy(named: bool):
    parts = figure()
    names = None if named else NAMELESS[: len(parts.names)]
    coarse, fine = (anatomy_of(parts.character(names=names, finer=k)) for k in (0, 1))
    assert roles(fine) == roles(coarse)
    assert fine.trunk_radius == pytest.approx(coarse.trunk_radius, rel=0.03)


@pytest.mark.parametrize("named", [True, False])
def test_left_and_right_get_the_same_though_one_hand_holds_something(named: bool):
    parts = with_box(figure())
    names = None if named else NAMELESS[: len(parts.names)]
    anatomy = anatomy_of(parts.character(names=names))
    found = dict(zip(parts.names, roles(anatomy).values(), strict=True))
    for name in parts.names:
        if name.endswith(".L"):
            assert found[name] == found[name[:-1] + "R"]


def test_a_prop_that_follows_one_joint_is_apart_and_the_hand_is_not():
    anatomy = anatomy_of(with_box(figure()).character())
    assert anatomy.apart.sum() == 38  # the box's vertices
    assert anatomy.riding[anatomy.apart].all()
    assert {anatomy.role[vertex] for vertex in np.flatnonzero(anatomy.apart)} == {"prop"}


def test_materials_called_horn_are_hard_wherever_they_are(body: Character):
    own = np.arange(30, 60)
    labelled = Character(
        body.name, body.surface, body.rig, labels={"material:Horns": own, "mesh:Cow": own}
    )
    assert anatomy_of(labelled).hard[own].all()


def test_a_body_of_hard_parts_only_keeps_flesh():
    parts = figure()
    anatomy = anatomy_of(parts.character(names=[f"finger{k}" for k in range(len(parts.names))]))
    assert anatomy.share.max() >= HARD


def test_an_anatomy_file_comes_back_as_it_was(tmp_path: Path, body: Character, anatomy: Anatomy):
    anatomy.save(tmp_path / "figure.anatomy.json")
    again = Anatomy.load(tmp_path / "figure.anatomy.json", body)
    assert roles(again) == roles(anatomy)
    np.testing.assert_array_equal(again.share, anatomy.share)
    np.testing.assert_array_equal(again.apart, anatomy.apart)


def test_people_change_a_region_by_its_joint(tmp_path: Path, body: Character, anatomy: Anatomy):
    file = tmp_path / "figure.anatomy.json"
    anatomy.save(file)
    said = json.loads(file.read_text())
    said["regions"] = {"chest": {"feel": "hard"}, "hips": {"role": "trunk", "feel": "soft"}}
    file.write_text(json.dumps(said))
    changed = Anatomy.load(file, body)
    chest = np.array([changed.joints[region] == "chest" for region in changed.region])
    assert changed.hard[chest].all()
    assert changed.firmness.min() == pytest.approx(0.4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1, 2]",
        '{"supple_anatomy": 2, "regions": {}}',
        '{"supple_anatomy": 1}',
        '{"supple_anatomy": 1, "regions": {"a": 3}}',
        '{"supple_anatomy": 1, "regions": {"a": {"role": "trnk"}}}',
        '{"supple_anatomy": 1, "regions": {"a": {"share": NaN}}}',
        '{"supple_anatomy": 1, "regions": {"a": {"share": 1e999}}}',
        '{"supple_anatomy": 1, "regions": {"a": {"share": true}}}',
        '{"supple_anatomy": 1, "regions": {"a": {"feel": ["hard"]}}}',
        '{"supple_anatomy": 1, "regions": {"a": {"rule": "head"}}}',
        '{"supple_anatomy": 1, "regions": {"a": {"reasons": "why"}}}',
        '{"supple_anatomy": 1, "regions": ' + '{"a":' * 20_000,
        '{"supple_anatomy": true, "regions": {}}',
        '{"supple_anatomy": 1, "regions": {}, "Feel": {"stiffness": 2}}',
    ],
)
def test_hostile_anatomy_files_are_refused_in_one_line(tmp_path: Path, body: Character, text: str):
    file = tmp_path / "bad.anatomy.json"
    file.write_text(text)
    with pytest.raises(SuppleError) as refused:
        Anatomy.load(file, body)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("bad.anatomy.json: ")
    assert len(str(refused.value)) < 200


def test_a_file_that_is_not_there_is_refused_in_one_line(tmp_path: Path, body: Character):
    with pytest.raises(SuppleError, match=r"^none\.json: cannot be read"):
        Anatomy.load(tmp_path / "none.json", body)
