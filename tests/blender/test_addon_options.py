"""Options that the add-on repeats are those that Supple declares.

The add-on cannot import Supple, and Supple cannot import the add-on without Blender, so its source
is read here.
"""

from __future__ import annotations

import ast
import inspect
import math
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args

import pytest

from supple.cli.main import app
from supple.engines.options import BakePlayOptions, FleshName, FleshOptions
from supple.engines.rig_space.simulator import SOLVERS, RigSpaceOptions
from supple.formats.gltf.write.gltf_motion import write_gltf

ADDON = Path(__file__).parents[2] / "blender" / "supple_addon"


def syntax(module: str) -> ast.Module:
    return ast.parse((ADDON / f"{module}.py").read_text(encoding="utf-8"))


def constant(module: str, name: str) -> Any:
    """Return a literal that a module of the add-on assigns."""
    for node in syntax(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{module}.py does not assign {name}")


def class_of(module: str, name: str) -> ast.ClassDef:
    classes = [each for each in syntax(module).body if isinstance(each, ast.ClassDef)]
    return next(each for each in classes if each.name == name)


def declared_defaults() -> dict[str, Any]:
    """Return the defaults of `Options` of the add-on."""
    body = class_of("baking", "Options").body
    return {
        ast.unparse(each.target): ast.literal_eval(each.value)
        for each in body
        if isinstance(each, ast.AnnAssign) and each.value is not None
    }


def shown_defaults() -> dict[str, Any]:
    """Return the defaults of the panel's properties that have one."""
    defaults = {}
    for node in class_of("settings", "CharacterSettings").body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Call):
            for keyword in node.annotation.keywords:
                if keyword.arg == "default":
                    defaults[ast.unparse(node.target)] = ast.literal_eval(keyword.value)
    return defaults


def supple_defaults() -> dict[str, Any]:
    records = FleshOptions, BakePlayOptions
    return {each.name: each.default for record in records for each in fields(record)}


def test_choices_of_the_panel_are_those_of_supple():
    assert [name for name, *_ in constant("settings", "FLESH")] == [*get_args(FleshName)]
    quality = next(each for each in fields(BakePlayOptions) if each.name == "quality")
    assert [name for name, *_ in constant("settings", "QUALITY")] == [*get_args(quality.type)]


def test_defaults_of_the_add_on_are_those_of_supple():
    ours, theirs = supple_defaults(), declared_defaults()
    # A factor in the add-on, and a file or a colour for the command: none of them changes anything.
    assert theirs.pop("stiffness") == 1
    assert ours["stiffness"] is None
    assert theirs.pop("gravity") is None
    assert theirs.pop("error") == inspect.signature(write_gltf).parameters["error"].default
    assert theirs == {name: ours[name] for name in theirs}
    shown = shown_defaults()
    assert shown["flesh"] == theirs["flesh"]
    assert shown["damping"] == theirs["damping"]
    assert shown["stiffness"] == 1
    assert math.isclose(shown["error"] / 100, declared_defaults()["error"])


def test_solvers_of_the_panel_are_those_of_rig_space():
    names = [name for name, *_ in constant("settings", "SOLVER")]
    assert set(names) <= set(SOLVERS)
    assert names[0] == RigSpaceOptions().solver


def test_files_with_a_quality_open_with_the_same_quality():
    numbers = {name: number for name, *_, number in constant("settings", "QUALITY")}
    assert numbers == {"live": 0, "final": 1, "auto": 2}
    assert shown_defaults()["quality"] == supple_defaults()["quality"] == "auto"


class Problem(Exception):
    """Stand in for the add-on's."""


def options_of_add_on(**settings: Any) -> Any:
    names: dict[str, Any] = {"dataclass": dataclass, "shlex": shlex, "Problem": Problem}
    source = ast.Module([class_of("baking", "Options")], [])
    for node in ast.walk(source):  # types of Blender
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for each in node.args.args:
                each.annotation = None
    exec(compile(source, "baking.py", "exec"), names)
    return names["Options"](**settings)


def test_swing_and_anatomy_of_a_file_become_values_and_no_other_options():
    options = options_of_add_on(swing="3% 'Long Tail*=10%' belly=4cm", anatomy="--report")
    _, given, _ = app.parse_args(["bake", "rat.glb", *options.words()])
    bake = given.arguments["options"]
    assert bake.swing == ["3%", "Long Tail*=10%", "belly=4cm"]
    assert (bake.anatomy, bake.report) == ("--report", None)


@pytest.mark.parametrize("swing", ["3% --report /x.html", "-o /x.glb", "3% 'Tail=4cm"])
def test_swing_that_is_no_list_of_goals_is_a_problem(swing: str):
    with pytest.raises(Problem, match=r"Swing: .*(is no goal|quotation mark)"):
        options_of_add_on(swing=swing).words()


@pytest.mark.parametrize(
    ("command", "functions"),
    [
        ("bake", ["words", "swing_words", "anatomy_words", "stiffness_words", "_one_run"]),
        ("curves", ["anatomy_words", "curve_words", "moved_curves"]),
        ("info", ["_shown"]),
        ("view", ["anatomy_words", "stiffness_words", "_alive"]),
    ],
)
def test_commands_have_the_options_that_the_add_on_gives(command: str, functions: list):
    used = set()
    nodes = [n for module in ("baking", "looking") for n in ast.walk(syntax(module))]
    for function in (*functions, "unit_words"):
        found = [n for n in nodes if isinstance(n, ast.FunctionDef) and n.name == function]
        (body,) = found
        text = [n.value for n in ast.walk(body) if isinstance(n, ast.Constant)]
        used |= {t.removesuffix("=") for t in text if isinstance(t, str) and t.startswith("--")}
    known = {name for each in app[command].assemble_argument_collection() for name in each.names}
    assert len(used) > 1
    assert used <= known


def test_the_operator_reports_how_far_flesh_moves_in_the_words_of_the_command():
    functions = [each for each in syntax("operators").body if isinstance(each, ast.FunctionDef)]
    summary = next(each for each in functions if each.name == "_summary")
    names: dict[str, Any] = {"Any": Any}
    exec(compile(ast.Module([summary], []), "operators.py", "exec"), names)
    far = {"flesh_moves": "moves up to 4.1 cm (2.3 % of the size) at 0.83 s: Tail 4.1 cm"}
    calm = {"flesh_moves": "moves at most 0.1 mm (0.01 % of the size): the motion is calm"}
    said = names["_summary"]([{"added": 3, "error": 0.001, **far}])
    assert said == f"3 shapes, within 0.10 % of the size; flesh {far['flesh_moves']}"
    assert names["_summary"]([{"added": 0, **calm}]) == f"flesh {calm['flesh_moves']}"
    assert "flesh hardly moves" in names["_summary"]([{"added": 0}])  # an older command
