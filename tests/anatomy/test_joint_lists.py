"""Names of joints of common skeletons give each part its role, without its shape."""

from __future__ import annotations

import re

import pytest

from anatomy.joint_lists import LISTS, joint_list
from supple.anatomy.roles import joint_roles

#: Roles that must be right for all joints, and the least part of the others, in %.
CERTAIN, LEAST = {"head", "hand", "foot", "trunk", "tail"}, 95


def found(family: str) -> list[tuple[str, str | None, tuple[str | None, ...]]]:
    joints = joint_list(family)
    roles = joint_roles([each.name for each in joints], [each.parent for each in joints])
    return [(each.name, role, each.roles) for each, role in zip(joints, roles, strict=True)]


@pytest.mark.parametrize("family", LISTS)
def test_heads_hands_feet_spines_and_tails_have_their_roles_in_all_families(family: str):
    joints = found(family)
    assert [each for each in joints if CERTAIN & {*each[2]} and each[1] not in each[2]] == []
    others = [role in roles for _, role, roles in joints if not CERTAIN & {*roles}]
    assert 100 * sum(others) >= LEAST * len(others)


@pytest.mark.parametrize("family", LISTS)
def test_a_spine_is_trunk_neck_head_or_tail_in_all_families(family: str):
    roles = {role for name, role, _ in found(family) if re.search("spine", name, re.IGNORECASE)}
    assert roles <= {"trunk", "neck", "head", "tail"}


def test_the_lists_have_ten_families_and_both_sides():
    assert len(LISTS) >= 10
    for family in LISTS:
        names = [each.name for each in joint_list(family)]
        assert len(set(names)) == len(names) > 20
        assert any("*" in name for name in names) is False


def test_a_leg_alone_is_no_shin():
    assert joint_roles(["Hips", "Leg.L", "Foot.L"], [-1, 0, 1]) == ["trunk", "limb", "foot"]


def test_numbered_spines_keep_their_role_where_a_neck_is_named():
    names = ["spine", "spine.001", "spine.002", "neck", "shoulder.L"]
    assert joint_roles(names, [-1, 0, 1, 2, 0])[:3] == ["trunk"] * 3


CHAIN = ["spine1", "spine2", "spine3", "spine4"]


@pytest.mark.parametrize("head", ["head_01", "head.x", "skull", "Kopf", "HeadTop_End"])
def test_numbered_spines_stay_a_trunk_where_a_head_is_named(head: str):
    parents = [-1, 0, 1, 2, 3, 1]
    assert joint_roles([*CHAIN, head, "shoulder_L"], parents)[:5] == ["trunk"] * 4 + ["head"]
    downwards = [*CHAIN[::-1], head, "shoulder_L"]
    assert joint_roles(downwards, parents)[:5] == ["trunk"] * 4 + ["head"]


def test_spines_numbered_downwards_are_no_tail_on_the_way_to_the_arms():
    roles = joint_roles([*CHAIN[::-1], "shoulder_L"], [-1, 0, 1, 2, 1])
    assert roles[:4] == ["trunk", "trunk", "neck", "head"]


def test_spines_below_the_arms_that_carry_legs_are_no_neck():
    names = [*CHAIN, "shoulder_L", "thigh_L"]
    assert joint_roles(names, [-1, 0, 1, 2, 0, 3])[:4] == ["trunk"] * 4


def test_words_of_fingers_count_only_below_a_hand():
    fingers = ["middle1", "Ring", "little", "index_01", "mid"]
    below = [1] * len(fingers)
    assert joint_roles(["Root", "Box", *fingers, "Ball"], [-1, 0, *below, 1])[2:] == [None] * 6
    for above in ("wrist", "lower_arm", "Hand"):
        assert joint_roles(["Root", above, *fingers], [-1, 0, *below])[2:] == ["hand"] * 5
    assert joint_roles(["foot", "ball"], [-1, 0]) == ["foot", "foot"]
    assert joint_roles(["Root", "Ring.L"], [-1, 0]) == [None, "hand"]


def test_rear_is_an_ear_only_beside_a_left_one():
    assert joint_roles(["head", "lear", "rear"], [-1, 0, 0]) == ["head", "ear", "ear"]
    assert joint_roles(["head", "rear"], [-1, 0]) == ["head", None]
