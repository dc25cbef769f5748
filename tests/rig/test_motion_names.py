"""Names of motions: which of a file's names a word means."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from supple.errors import SuppleError
from supple.rig.motion import motion_names
from supple.rig.motion.motion_names import MOST_LISTED, is_pattern, matching_names, one_name

RAT = ["RatArmature|Rat_Attack", "RatArmature|Rat_Idle", "RatArmature|Rat_Run"]
HUSKY = [
    *("AnimalArmature|Gallop", "AnimalArmature|Gallop_Jump", "AnimalArmature|Idle"),
    *("AnimalArmature|Idle_2", "AnimalArmature|Idle_2_HeadLow", "AnimalArmature|Jump_ToIdle"),
]


@pytest.mark.parametrize(
    ("names", "asked", "found"),
    [
        # The whole name, though others end with it or are alike but for case.
        (["Run", "A|Run", "run"], "Run", ["Run"]),
        (["Run", "A|Run", "run"], "run", ["run"]),
        (RAT, "RatArmature|Rat_Run", RAT[2:]),
        (["Idle*", "Idle_2"], "Idle*", ["Idle*"]),
        # The part after the last bar, which goes before last words.
        (RAT, "Rat_Run", RAT[2:]),
        (HUSKY, "Idle", HUSKY[2:3]),
        (["A|B|Run", "A|Fast_Run"], "Run", ["A|B|Run"]),
        # Ignoring case, and only where no name has that case.
        (["A|RUN", "A|run"], "run", ["A|run"]),
        (["A|RUN", "A|run"], "Run", ["A|RUN", "A|run"]),
        (["RUN", "A|Run"], "run", ["RUN"]),
        (RAT, "ratarmature|rat_run", RAT[2:]),
        # Last words.
        (RAT, "Run", RAT[2:]),
        (RAT, "run", RAT[2:]),
        (HUSKY, "Jump", HUSKY[1:2]),
        (HUSKY, "2 headlow", HUSKY[4:5]),
        (["Walk.Cycle", "Walk-Left", "Take: 2"], "left", ["Walk-Left"]),
        (["Walk.Cycle", "Walk-Left", "Take: 2"], "2", ["Take: 2"]),
        (["Rat_Run", "Fast_Run"], "Run", ["Rat_Run", "Fast_Run"]),
        (["Rat_Run", "Fast_run"], "Run", ["Rat_Run"]),
        (["X|A|Run", "X|B|Run"], "A|Run", ["X|A|Run"]),
        # A part of a word is no word.
        (["Rat_Rerun", "Running"], "run", []),
        # Patterns, of what the artist named first.
        (RAT, "*run", RAT[2:]),
        (RAT, "Rat_R*", RAT[2:]),
        (RAT, "rat_*", RAT),
        (HUSKY, "a*", HUSKY),
        (["Armature|Attack", "Armature|Idle"], "a*", ["Armature|Attack"]),
        (HUSKY, "Idle?2", HUSKY[3:4]),
        (HUSKY, "AnimalArmature|Gallop*", HUSKY[:2]),
        (HUSKY, "[gj]*", [*HUSKY[:2], HUSKY[5]]),
        # None.
        (RAT, "Swim", []),
        (RAT, "", []),
        (RAT, " ", []),
        (RAT, "_", []),
        (RAT, "|", []),
        (["Armature|"], "", []),
        ([""], "", [""]),
        ([], "Run", []),
    ],
)
def test_the_first_rule_that_matches_decides(names: list[str], asked: str, found: list[str]):
    assert matching_names(names, asked) == found
    if len(found) == 1:
        assert one_name(names, asked, "rat") == found[0]
    else:
        with pytest.raises(SuppleError):
            one_name(names, asked, "rat")


@pytest.mark.parametrize(
    ("names", "asked", "said"),
    [
        (["A|Run", "B|Run"], "Run", 'rat: "Run" matches "A|Run", "B|Run"; give one name in full'),
        (RAT, "rat_?*", '"RatArmature|Rat_Idle", "RatArmature|Rat_Run"; give one name in full'),
        (RAT, "Rum", 'rat: no motion "Rum"; did you mean "RatArmature|Rat_Run"?'),
        (RAT, "atack", 'did you mean "RatArmature|Rat_Attack"?'),
        (RAT, "Swim", f'rat: no motion "Swim"; there are {", ".join(RAT)}'),
        ([f"take {k}" for k in range(30)], "xyz", f"take {MOST_LISTED - 1} and 18 more"),
        ([], "Run", 'rat: no motion "Run"; it has none'),
        (RAT, 3, 'rat: no motion "3"; there are'),
        (RAT, ["Run"], "rat: no motion \"['Run']\""),
    ],
)
def test_names_that_match_no_motion_or_several_are_errors_that_list_them(
    names: list[str], asked: object, said: str
):
    with pytest.raises(SuppleError) as caught:
        one_name(names, asked, "rat")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_any_length_are_compared_in_no_time():
    names = ["_".join(["run"] * 20_000) + str(k) for k in range(20)]
    with pytest.raises(SuppleError, match="no motion"):
        one_name(names, "swim" * 10_000, "rat")
    assert not matching_names(names, "*" * 50 + "swim")


def test_signs_of_patterns():
    assert all(is_pattern(word) for word in ("a*", "?", "[ab]"))
    assert not is_pattern("Rat_Run|(2) {x}")


def addon_names() -> ModuleType:
    file = Path(__file__).parents[2] / "blender/supple_addon/clip_names.py"
    spec = importlib.util.spec_from_file_location("clip_names", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_add_on_has_the_same_rules():
    """It cannot import Supple, and so has a copy."""
    theirs = addon_names()
    functions = inspect.getmembers(theirs, inspect.isfunction)
    own = [(name, each) for name, each in functions if each.__module__ == "clip_names"]
    assert {name for name, _ in own} >= {"matching_names", "is_pattern", "short_name"}
    for name, function in own:
        assert inspect.getsource(function) == inspect.getsource(getattr(motion_names, name))
    assert theirs.matching_names(RAT, "run") == RAT[2:]
