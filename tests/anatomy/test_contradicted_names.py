"""Names that the shape of a body contradicts do not count, and the reasons say so."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from helpers.sample_bodies import BodyParts, figure, rod
from supple.anatomy.anatomy import anatomy_of
from supple.anatomy.region_entries import RegionEntry

DECIDES = "the shape decides"


def found(names: Mapping[str, str]) -> dict[str, RegionEntry]:
    """Return the entries of the figure with other names, by its own names."""
    parts = figure()
    others = [names.get(name, name) for name in parts.names]
    entries = anatomy_of(parts.character(names=others)).entries
    return {name: entries[other] for name, other in zip(parts.names, others, strict=True)}


def both(names: Mapping[str, str]) -> dict[str, str]:
    """Return names for both sides."""
    return {f"{k}.{side}": f"{v}.{side}" for k, v in names.items() for side in "LR"}


def doubted(entries: Mapping[str, RegionEntry]) -> set[str]:
    return {name for name, each in entries.items() if each.reasons[0].startswith(DECIDES)}


def test_names_that_fit_are_not_doubted():
    assert doubted(found({})) == set()


def test_an_arm_alone_is_not_in_the_middle_of_a_body():
    """A plane along it mirrors each region onto itself."""
    parts = BodyParts()
    names = ["upperarm.L", "forearm.L", "hand.L"]
    for k, name in enumerate(names):
        parts.joint(name, names[k - 1] if k else None, (0.3 * k, 0, 0))
    parts.skin(rod((-0.05, 0, 0), (0.8, 0, 0), [0.07] * 12 + [0.05] * 8), names, 0.08)
    entries = anatomy_of(parts.character()).entries
    assert doubted(entries) == set()
    assert entries["hand.L"].role == "hand"


def test_a_forearm_called_spine_is_a_forearm():
    entries = found({"forearm.L": "spine_02", "forearm.R": "spine_03"})
    assert {entries[f"forearm.{side}"].role for side in "LR"} == {"forearm"}
    assert doubted(entries) == {"forearm.L", "forearm.R"}
    assert "one of a pair" in entries["forearm.L"].reasons[0]


@pytest.mark.parametrize("name", ["hand_x", "lowerarm", "Foot", "Head"])
def test_the_middle_of_a_body_is_trunk_whatever_it_is_called(name: str):
    entries = found({"hips": name, "head": "skull"})
    assert entries["hips"].role == "trunk"
    assert doubted(entries) == {"hips"}


@pytest.mark.parametrize(
    ("names", "upper", "end"),
    [
        ({"hand": "upperarm", "upperarm": "hand"}, "upperarm", "hand"),
        ({"thigh": "foot", "foot": "thigh"}, "thigh", "foot"),
    ],
)
def test_a_limb_whose_names_are_in_another_order_goes_by_its_shape(
    names: dict[str, str], upper: str, end: str
):
    entries = found(both(names))
    for side in "LR":
        assert entries[f"{upper}.{side}"].role == "limb"
        assert entries[f"{end}.{side}"].role == "end"
    assert {f"{upper}.L", f"{end}.R"} <= doubted(entries)


@pytest.mark.parametrize("seed", range(3))
def test_names_of_another_body_do_not_count_at_all(seed: int):
    parts = figure()
    shuffled = np.random.default_rng(seed).permutation(parts.names).tolist()
    character = parts.character(names=shuffled)
    by_shape = {
        joint: each.role for joint, each in anatomy_of(character, use_names=False).entries.items()
    }
    entries = anatomy_of(character).entries
    assert {joint: each.role for joint, each in entries.items()} == by_shape
    assert doubted(entries) == set(entries)


def test_numbered_spines_above_the_arms_are_a_neck_and_a_head():
    """Blender's meta-rigs have no joint called head."""
    spines = {"hips": "spine", "chest": "spine.003", "neck": "spine.004", "head": "spine.006"}
    entries = found(spines)
    assert [entries[name].role for name in spines] == ["trunk", "trunk", "neck", "head"]
