"""What the README and the pages of docs/ show runs, with a small rat in place of the reader's."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import supple
from helpers.batch_samples import HereFarm
from helpers.build_samples import kept_scenes
from helpers.rat_sample import write_rat
from supple.anatomy.flesh_presets import stiffness_factors
from supple.anatomy.region_entries import MARK
from supple.cli.main import app, main
from supple.engines.common.fitted_flesh import FleshOptions
from supple.engines.common.model_file import stored_fields
from supple.engines.engine import ENGINES
from supple.engines.pose_space import BuildOptions
from supple.rig.stored_rigs import GIVEN, KINDS

ROOT = Path(__file__).resolve().parents[2]
#: Examples of extending.md are programs of their own: tests/test_extending.py runs them.
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem != "extending"),
]
PACKAGES = (
    "engines",
    "engines.pose_space",
    "engines.stvk",
    "engines.full",
    "playback",
    "dynamics",
    "reduction",
    "anatomy",
    "elastic",
    "formats",
    "linalg",
    "mesh",
    "rig",
    "scenes",
    "errors",
)

#: What the pages ask for is for a real character; the small rat needs less.
LESS = {"tets": 500, "modes": 9, "poses": 2, "most_poses": 3}
#: Defaults of engines, likewise.
SMALLER: dict[str, dict[str, int]] = {
    "pose-space": {name: LESS[name] for name in ("tets", "modes", "most_poses")},
    "rig-space": {"tets": 1000, "modes": 6, "cubature": 40},
    "soft-skeleton": {"tets": 2000, "handles": 24, "cubature": 200, "points": 100},
}
#: Tets of engines that have no defaults of their own for baking.
LEAST_TETS = 1500
#: Commands that are run, not only understood: the others serve a page, or take minutes.
RUN = ("info", "bake", "build", "curves", "batch")
#: Languages whose blocks are checked; text is what a command prints.
#: C and JavaScript are run by tests/app/test_export.py.
KNOWN = {"python", "sh", "json", "csv", "text", "c", "js", ""}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line before it."""

    language: str
    text: str
    before: str


def blocks(page: Path) -> list[Block]:
    found = re.finditer(
        r"(?P<before>[^\n]*)\n+^```(?P<language>\w*)\n(?P<text>.*?)^```$",
        page.read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    return [Block(each["language"], each["text"], each["before"]) for each in found]


def commands(text: str) -> Iterator[list[str]]:
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words


def smaller(text: str) -> str:
    """The same with fewer tets, modes and poses."""

    def less(found: re.Match[str]) -> str:
        return f"{found[1]}{min(int(found[3]), LESS[found[2]])}"

    text = text.replace("belly=", "trunk=")  # without limbs, the small rat has no belly
    return re.sub(r'(\b(tets|modes|poses|most_poses)(?:[ =]|": ))(\d+)\b', less, text)


#: Records with the defaults of builders, where these are not in a signature.
OPTION_RECORDS: dict[str, Any] = {"pose-space": BuildOptions, "full": FleshOptions}


@pytest.fixture(scope="module", autouse=True)
def _scene_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    with kept_scenes(request.config.cache.mkdir("scenes")):
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with rat.glb, in which models are built smaller than by default."""
    monkeypatch.chdir(tmp_path)
    write_rat(tmp_path / "rat.glb")
    for engine, options in SMALLER.items():
        row = ENGINES[engine]
        builder = OPTION_RECORDS[engine].__init__ if engine in OPTION_RECORDS else row.build
        defaults = builder.__kwdefaults__
        assert defaults is not None
        for name, less in options.items():
            assert name in defaults
            monkeypatch.setitem(defaults, name, less)
            if name in row.bake_options:
                monkeypatch.setitem(row.bake_options, name, less)
    monkeypatch.setattr("supple.playback.bake_model.TETS", LEAST_TETS)
    for farm in ("ProcessFarm", "DaskFarm"):  # jobs of batches run here, with the same defaults
        monkeypatch.setattr(f"supple.app.batch.batch.{farm}", lambda *told: HereFarm())
    return tmp_path


@pytest.mark.filterwarnings(  # of the small rat with few tets, in its calm and its lively clip
    "ignore:motion .*:supple.errors.SuppleWarning"
)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs_in_order(page, folder, capsys):
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page):
        assert block.language in KNOWN, f"{page.name}: nothing runs {block.language} blocks"
        if block.language == "python":
            code = compile(smaller(block.text), f"{page.name}: {block.text[:40]!r}…", "exec")
            exec(code, names)
        elif block.language == "sh":
            for words in commands(smaller(block.text)):
                run(words)
        elif block.language in ("json", "csv"):
            write_file(block, folder)
    assert "Traceback" not in capsys.readouterr().err


def run(words: list[str]) -> None:
    """Run a command line of a page, or at least understand it."""
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert all(f"\n{target}:" in makefile for target in words[1:])
    elif words[:2] == ["pip", "install"]:
        check_extras(words[2])
    else:
        assert words[0] == "supple", f"nothing runs {words}"
        app.parse_args(words[1:], exit_on_error=False, print_error=False)
        if words[1] in RUN:
            main([*words[1:], "--quiet"])


def check_extras(requirement: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = re.fullmatch(r"supple(?:\[([\w,]+)\])?", requirement)
    assert found, requirement
    for extra in filter(None, (found[1] or "").split(",")):
        assert extra in project["optional-dependencies"]


def write_file(block: Block, folder: Path) -> None:
    """A map of stiffness, a list of jobs or an anatomy, whose file the line before it names."""
    named = re.search(rf"`(\w+\.{block.language})`", block.before)
    assert named, f"no file name before {block.text}"
    if block.language == "json" and not block.text.startswith("[") and MARK not in block.text:
        stiffness_factors(supple.load(folder / "rat.glb"), json.loads(block.text))
    (folder / named[1]).write_text(block.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_commands_between_the_lines_exist(page):
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        assert link.startswith("https://") or (page.parent / link).is_file(), link
    for picture in (page.parent / link for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", prose)):
        assert picture.stat().st_size < 300_000, picture
    for requirement in re.findall(r"`pip install '([^`]+)'`", prose):
        check_extras(requirement)
    for command in re.findall(r"`(?:supple) ([a-z]+)", prose):
        assert command in app, f"{page.name}: there is no command supple {command}"


def test_pages_name_no_option_that_a_command_does_not_have():
    script = app.generate_completion(shell="fish")
    offers = [line for line in script.splitlines() if line.startswith("complete ")]
    known = {f"--{name}" for line in offers for name in re.findall(r" -l ([a-z-]+)", line)}
    assert {"--motion", "--most-poses", "--engine", "--growth", "--json"} <= known
    known |= {"--background", "--python-expr"}  # Blender's own
    known |= {"--scheduler-file", "--nworkers", "--nthreads"}  # Dask's
    known |= {"--kind", "--count", "--seed", "--keep"}  # of tests/prove/fuzz.py
    for page in PAGES:
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")):
            assert option in known, f"{page.name}: {option}"


def test_no_public_name_is_missing_from_the_page_of_the_api():
    sections = re.split(r"^## ", (ROOT / "docs/api.md").read_text(encoding="utf-8"), flags=re.M)
    by_title = {section.split("\n")[0].split(":")[0]: section for section in sections}
    for package in ("supple", *(f"supple.{name}" for name in PACKAGES)):
        section = by_title[package]
        listed = set(re.findall(r"^\| `(\w+)` \|", section, flags=re.M))
        module = import_module(package)
        # Modules have no `__all__`: what they define is public.
        defined = (
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == package and not name.startswith("_")
        )
        public = set(getattr(module, "__all__", defined))
        assert all(hasattr(module, name) for name in public), package
        assert not listed - public, f"{package}: these are not public"
        also = re.findall(r"^Also (.*), as above\.$", section, flags=re.M)
        listed |= set(re.findall(r"`(\w+)`", " ".join(also)))
        assert listed == public, f"{package}: docs/api.md lacks {public - listed}"


def test_every_array_of_a_model_file_is_described(folder):
    text = (ROOT / "docs/model_file.md").read_text(encoding="utf-8")
    described = re.findall(r"`([a-zA-Z_.]+)`", "".join(re.findall(r"^\| (`.*?) \|", text, re.M)))
    patterns = [
        re.compile(re.sub(r"\bK\b", r"\\d+", re.escape(name)).replace("FIELD", r"\w+"))
        for name in described
    ]
    character = supple.load(folder / "rat.glb")
    painted = [2e4 + vertex for vertex in range(len(character.surface.vertices))]
    header, tensors = stored_fields(supple.build(character, poses=2, young=painted))
    for name in tensors:
        assert any(pattern.fullmatch(name) for pattern in patterns), name
    for field in (*header, "same"):
        assert f"| `{field}` |" in text, field
    kinds = {part["kind"] for part in header["rigs"]["parts"]}
    for kind in {GIVEN, *kinds, *KINDS}:
        assert re.search(rf"^\| (?:\w+, )?{kind}(?:, \w+)? \|", text, re.M), kind


def test_the_starfish_of_the_api_page_falls(folder, capsys):
    starfish = next(b for b in blocks(ROOT / "docs/api.md") if "starfish()" in b.text)
    names: dict[str, Any] = {}
    exec(starfish.text, names)
    assert "hangs" in capsys.readouterr().out
    assert names["drop"] > 0.05
