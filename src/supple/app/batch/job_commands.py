"""Commands that a batch runs, with the options that they have on the command line.

A row of a list gives options by these names, and each is checked as the command line would: what a
job does is what ``supple COMMAND`` does with the same words.
"""

from __future__ import annotations

import difflib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from supple.app.contact_options import ContactOptions
from supple.app.options import BakeOptions, BuildOptions, CurveOptions
from supple.checks import shown
from supple.engines.options import SourceOptions
from supple.errors import SuppleError
from supple.saving import write_whole

#: Names of options with their words, in order of names: what `checked_options` returns.
JobOptions = tuple[tuple[str, tuple[str, ...]], ...]
#: Options that may name files to read, and those that name files to write.
READ_FILES = ("motion", "model-motion", "model", "anatomy", "stiffness", "obstacle", "free")
WRITTEN_FILES = ("report", "readings", "plot", "page", "sheet")
#: Options of commands that a batch has its own way for.
_NOT_HERE = ("output", "remove", "processes")
#: Options on which no model depends.
_PLAYED = {
    *("all", "from", "to", "range", "rate", "fps", "loop", "error", "normals", "points", "clay"),
    *("report", "readings", "keys", "strength", "additive", "blend", "smooth", "settle", "damping"),
    *("follow", "firmness", "tolerance", "plot", "page", "obstacle", "ground", "friction"),
    *("gravity", "tracking", "root", "self-contact", "joint-limits", "motion"),
}
#: Characters that the words of one option may have.
_LONGEST = 10_000
_LARGEST = 10**18


@dataclass
class Looked:
    """Picture of what a job made, for its page; None for none."""

    picture: bytes | None = None


_Aside = Annotated[Looked | None, Parameter(parse=False)]
commands = App(name="supple", help_flags=[], version_flags=[])


@commands.command
def bake(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[BakeOptions | None, Parameter(name="*")] = None,
    touch: Annotated[ContactOptions | None, Parameter(name="*")] = None,
    looked: _Aside = None,
) -> dict[str, Any]:
    """Do what `supple bake` does."""
    from supple.app.baking import run_bake
    from supple.app.pictures.filmstrip import baked_thumbnail
    from supple.rig.baked_motion import BakedMotion

    def look(bakes: Sequence[BakedMotion]) -> None:
        if looked is not None:
            looked.picture = baked_thumbnail(bakes)

    return run_bake(source, output, options, touch, quiet=True, look=look)


@commands.command
def curves(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[CurveOptions | None, Parameter(name="*")] = None,
    looked: _Aside = None,
) -> dict[str, Any]:
    """Do what `supple curves` does."""
    from supple.app.curve_making import run_curves
    from supple.app.pictures.filmstrip import baked_thumbnail
    from supple.rig.free_curves import FreeCurves

    def look(found: FreeCurves) -> None:
        if looked is not None:
            looked.picture = baked_thumbnail([found.baked()])

    return run_curves(source, output, options, quiet=True, look=look)


@commands.command
def build(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[BuildOptions | None, Parameter(name="*")] = None,
    looked: _Aside = None,
) -> dict[str, Any]:
    """Do what `supple build` does."""
    from supple.app.building import run_build
    from supple.app.pictures.filmstrip import surface_thumbnail
    from supple.playback.character_sources import load_character_model

    figures = run_build(source, output, options, quiet=True)
    if looked is not None:
        looked.picture = surface_thumbnail(load_character_model(output).surface)
    return figures


@commands.command
def info(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[SourceOptions | None, Parameter(name="*")] = None,
    looked: _Aside = None,
) -> dict[str, Any]:
    """Write what `supple info` says of a file, as JSON."""
    from supple.app.info.info import describe

    given = options or SourceOptions()
    body = {"motion": given.motion, "betas": given.betas, "armature": given.armature}
    figures = describe(Path(source), None, given.unit, **body)
    write_whole(output, json.dumps(figures, indent=2).encode())
    return figures


#: Commands of jobs, and the ending of what each writes: "" for that of its source, where it can be.
COMMANDS = {"bake": "", "curves": "", "build": ".supple", "info": ".json"}


# Options


@cache
def _known(command: str) -> dict[str, Any]:
    """Return the options of a command by their names."""
    found = {}
    for argument in commands[command].assemble_argument_collection():
        for name in argument.names:
            plain = name.removeprefix("--")
            if name.startswith("--") and plain not in _NOT_HERE and not plain.startswith("no-"):
                found[plain] = argument
    return found


def checked_options(command: str, given: Mapping[str, Any], where: str) -> JobOptions:
    """Return options as words of the command line, each of a kind that the command takes.

    Parameters
    ----------
    command
        One of `COMMANDS`.
    given
        Text, numbers, booleans, or lists of them by name; a text for several is split at spaces.
    where
        Where they stand, for errors.
    """
    known, found = _known(command), {}
    for key, value in given.items():
        name = key.strip().removeprefix("--").replace("_", "-")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"see supple {command} --help"
            raise SuppleError(f"{where}: {command} has no option {shown(key, 40)}; {hint}")
        words = _words(value, known[name], f"{where}: {name}")
        if words:
            found[name] = words
    options = tuple(sorted(found.items()))
    plain = tuple((name, ("x",) if _is_text(known[name]) else words) for name, words in options)
    if problem := _problem(command, plain):
        raise SuppleError(f"{where}: {problem}")
    return options


def _is_text(argument: Any) -> bool:
    """Return whether an option takes any one word: whether it makes sense is seen at its turn."""
    return argument.hint in (str, str | None)


def _words(value: Any, argument: Any, where: str) -> tuple[str, ...]:
    """Return a value as words; none for what is not told."""
    count, several = argument.token_count()
    if value is None:
        return ()
    if isinstance(value, str):
        if not value.strip():
            return ()
        try:
            parts = shlex.split(value) if several or count > 1 else [value.strip()]
        except ValueError as error:
            raise SuppleError(f"{where}: {str(error).lower()}") from None
    elif isinstance(value, list) and (several or count > 1):
        parts = [_word(each, where) for each in value]
    else:
        parts = [_word(value, where)]
    if sum(map(len, parts)) > _LONGEST or any("\0" in part for part in parts):
        raise SuppleError(f"{where}: is too long, or no text")
    if count > 1:  # these are words of their own on the command line
        wrong = len(parts) % count or not parts if several else len(parts) != count
        if wrong or any(part.startswith("-") and not _is_number(part) for part in parts):
            raise SuppleError(f"{where}: is {shown(value, 40)}; use {count} values")
    return tuple(parts)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _word(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise SuppleError(f"{where}: is {value}; use a number that is one")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise SuppleError(f"{where}: is more than {_LARGEST:.0e}")
    if isinstance(value, str | int | float):
        return str(value) if not isinstance(value, float) else repr(value)
    raise SuppleError(f"{where}: is {shown(value, 40)}; use text, a number, true or false")


@lru_cache(maxsize=4096)
def _problem(command: str, options: JobOptions) -> str:
    """Return what is wrong with options, "" for nothing."""
    try:
        _, bound, _ = _parsed([command, "source", "--output=x", *words_of(command, options)])
    except SuppleError as error:
        return str(error)
    for value in bound.arguments.values():
        for name, number in vars(value).items() if hasattr(value, "__dict__") else ():
            numbers = number if isinstance(number, list | tuple) else [number]
            if any(isinstance(each, float) and not math.isfinite(each) for each in numbers):
                return f"{name.replace('_', '-')} is no finite number"
    return ""


def _parsed(words: Sequence[str]) -> Any:
    try:
        return commands.parse_args(list(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise SuppleError(" ".join(str(error).split())[:300]) from None


def words_of(command: str, options: JobOptions) -> list[str]:
    """Return options as words of a command line."""
    found: list[str] = []
    for name, words in options:
        count, several = _known(command)[name].token_count()
        if count > 1:
            found += [f"--{name}", *words]
        elif several:
            found += [f"--{name}={word}" for word in words]
        else:
            found.append(f"--{name}={' '.join(words)}")
    return found


def model_options_of(command: str, options: JobOptions) -> JobOptions | None:
    """Return those options that the model of a job depends on; None for jobs that share none."""
    told = dict(options)
    if command not in ("bake", "curves") or "model" in told:
        return None
    shared = tuple((name, words) for name, words in options if name not in _PLAYED)
    if told.get("betas") == ("motion",):  # each clip has a body of its own
        shared += (("motion", told.get("motion", ())),)
    return shared


# Running


def run_words(words: Sequence[str], looked: Looked | None = None) -> dict[str, Any]:
    """Run a command, given as on the command line, and return its figures."""
    function, bound, _ = _parsed(words)
    found: dict[str, Any] = function(*bound.args, **bound.kwargs, looked=looked)
    return found


def build_model(words: Sequence[str]) -> tuple[Path | None, bool]:
    """Build the model that a bake or curves of these words need, unless it is kept.

    Returns
    -------
    path
        Its file in the user's cache; None where nothing can be kept.
    kept
        Whether it was there already.
    """
    from supple.app.model_request import shared_model

    _, bound, _ = _parsed(words)
    defaults = BakeOptions() if words[0] == "bake" else CurveOptions()
    ready = shared_model(bound.arguments["source"], bound.arguments.get("options") or defaults)
    return ready.path, ready.kept


def clip_names(source: str) -> list[str]:
    """Return the names of the motions of a character."""
    from supple.playback.character_sources import read_character

    return list(read_character(source).character.motions)
