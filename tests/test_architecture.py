"""The house keeps its floors: imports go down, folders stay small."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SOURCE / "supple"
#: From the roof to the ground; a module imports from its own package and from those below.
FLOORS = (
    "cli",
    "lab",
    "app",
    "playback",
    "scenes",
    "formats",
    "engines",
    "anatomy",
    "reduction",
    "dynamics",
    "rig",
    "elastic",
    "mesh",
    "linalg",
    "maths",
    "compiled",
)
MOST_MODULES, MOST_IN_FOLDER, MOST_LINES, MOST_FUNCTION_LINES = 640, 20, 450, 80
#: Functions that may be longer, and why.
LONG_FUNCTIONS: dict[str, str] = {
    "supple.engines.rig_space.build.build": "signature and docstring of options",
    "supple.engines.soft_skeleton.build.build": "signature and docstring of options",
}


@cache
def modules() -> dict[str, Path]:
    """Dotted names of all modules but packages, and their files."""
    return {
        ".".join(file.relative_to(SOURCE).with_suffix("").parts): file
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.name != "__init__.py"
    }


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(name: str) -> Iterator[str]:
    """Modules and packages of ours that a module imports: at its top, late, or for types only."""
    for node in ast.walk(tree(modules()[name])):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.split(".")[0] == "supple")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}:{node.lineno} imports relatively"
            if (node.module or "").split(".")[0] == "supple":
                for each in node.names:
                    whole = f"{node.module}.{each.name}"
                    yield whole if whole in modules() else str(node.module)


@cache
def graph() -> dict[str, set[str]]:
    return {name: set(imported(name)) - {name} for name in modules()}


def floor(name: str) -> int:
    """How deep a module lies: what everything uses is the ground, `supple` itself the sky."""
    first = [*name.split("."), ""][1]
    return -1 if not first else FLOORS.index(first) if first in FLOORS else len(FLOORS)


def round_trip(edges: dict[str, set[str]]) -> list[str]:
    """A way that comes back to where it began, if there is one."""
    done: set[str] = set()

    def search(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name not in done:
            for other in sorted(edges.get(name, ())):
                if found := search(other, [*way, name]):
                    return found
            done.add(name)
        return []

    for start in sorted(edges):
        if found := search(start, []):
            return found
    return []


def test_modules_import_what_is_defined_and_not_what_a_package_passes_on():
    packages = [
        f"{name} imports from the package {other}"
        for name, others in graph().items()
        for other in others
        if other not in modules() and other != "supple"
    ]
    assert not packages


def test_imports_go_down():
    upward = [
        f"{name} -> {other}"
        for name, others in graph().items()
        for other in others
        if other in modules() and floor(other) < floor(name)
    ]
    assert not upward


def folders() -> list[str]:
    return sorted({name.rsplit(".", 1)[0] for name in modules()})


def test_no_module_imports_itself_by_a_detour():
    way = round_trip({name: others & set(modules()) for name, others in graph().items()})
    assert not way, " -> ".join(way)


@pytest.mark.parametrize("folder", folders())
def test_folders_are_layered(folder: str):
    """Files and folders of a folder import each other in one direction only."""
    edges: dict[str, set[str]] = defaultdict(set)
    depth = folder.count(".") + 1
    for name, others in graph().items():
        for other in others:
            if name.startswith(f"{folder}.") and other.startswith(f"{folder}."):
                here, there = name.split(".")[depth], other.split(".")[depth]
                if here != there:
                    edges[here].add(there)
    way = round_trip(edges)
    assert not way, f"in {folder}: " + " -> ".join(way)


def test_import_cycles_through_late_imports_are_found():
    """A ring in which every import but one is at the top is found as well: see `imported`."""
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert round_trip(ring) == ["a", "b", "c", "a"]
    assert not round_trip({"a": {"b", "c"}, "b": {"c"}})


def test_folders_are_small():
    counts = Counter(name.rsplit(".", 1)[0] for name in modules())
    assert not {folder: n for folder, n in counts.items() if n > MOST_IN_FOLDER}


def test_there_are_few_modules():
    assert len(modules()) <= MOST_MODULES


def test_files_with_one_prefix_have_a_folder():
    """Three files of a folder that share a first word would be one."""
    families = Counter(
        (name.rsplit(".", 1)[0], name.rsplit(".", 1)[1].split("_")[0])
        for name in modules()
        if "_" in name.rsplit(".", 1)[1]
    )
    assert not [family for family, n in families.items() if n >= 3]


def test_modules_have_a_length_that_one_noun_needs():
    long = {
        name: n
        for name, file in modules().items()
        if (n := len(file.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert not long


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for name, file in modules().items():
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef):
                yield f"{name}.{node.name}", node


def test_functions_are_short_or_listed_with_a_reason():
    long = {
        n for n, node in functions() if (node.end_lineno or 0) - node.lineno > MOST_FUNCTION_LINES
    }
    assert long == set(LONG_FUNCTIONS)


@pytest.mark.parametrize("page", ["architecture", "method", "extending"])
def test_pages_name_files_that_are_there(page: str):
    text = (SOURCE.parent / "docs" / f"{page}.md").read_text(encoding="utf-8")
    plain = re.sub(r"^```python.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    known = {file.relative_to(PACKAGE).as_posix() for file in PACKAGE.rglob("*.py")}
    for folder in ("tests", "tools"):
        files = (SOURCE.parent / folder).rglob("*.py")
        known |= {file.relative_to(SOURCE.parent).as_posix() for file in files}
    named = set(re.findall(r"\b[a-z0-9_]+(?:/[a-z0-9_]+)*\.py\b", plain))
    own = {"log_neo_hookean.py", "blended.py", "squash.py", "table_motion.py", "lagging.py"}
    lost = [file for file in named - own if not any(f"/{k}".endswith(f"/{file}") for k in known)]
    assert not lost


def test_one_step_is_followed_in_a_dozen_files():
    text = (SOURCE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^ *(\d+) ([a-z_/]+\.py) ", text, flags=re.MULTILINE)
    assert [int(number) for number, _ in listed] == list(range(1, len(listed) + 1))
    assert len(listed) <= 12
    way = {f"supple.{file[:-3].replace('/', '.')}" for _, file in listed}
    kernels = "supple.engines.pose_space."
    for name in way:  # whatever kernels of the step call is on the list, or holds tables only
        beside = {"runtime", "local_damping", "skin", "step_options", "contact", "copying"}
        beside |= {"self_contact"}
        called = {other for other in graph()[name] if other.startswith(kernels)}
        assert {o for o in called - way if o.split(".")[3] not in beside | {"model"}} == set(), name
