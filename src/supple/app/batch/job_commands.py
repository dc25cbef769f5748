"""Commands that a batch runs, with their command-line options.

Rows of a list give options by these names, and the command line's parser checks them: a job does
exactly what ``supple COMMAND`` does with the same arguments.
"""

from __future__ import annotations

import difflib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from supple.app.contact_options import ContactOptions, ObstacleOptions
from supple.app.options import BakeOptions, BuildOptions, CurveOptions
from supple.checks import shown
from supple.engines.options import SourceOptions
from supple.errors import SuppleError
from supple.saving import write_whole

#: Names of options with their arguments, sorted by name: the result of `checked_options`.
JobOptions = tuple[tuple[str, tuple[str, ...]], ...]
#: Options that may name files to read, and those that name files to write.
READ_FILES = (
    *("motion", "model-motion", "model", "anatomy", "stiffness", "obstacle", "object", "free"),
    *("handles", "skeleton", "stiffness-at"),
)
WRITTEN_FILES = ("report", "video", "readings", "plot", "page", "sheet")
#: Options of commands that a batch replaces by options of `supple batch`.
_NOT_HERE = ("output", "remove", "processes")
#: Options that do not change the model.
_PLAYED = {
    *("all", "from", "to", "range", "rate", "fps", "loop", "error", "normals", "points", "clay"),
    *("report", "readings", "keys", "strength", "additive", "blend", "smooth", "settle", "damping"),
    *("follow", "firmness", "tolerance", "plot", "page", "obstacle", "object", "ground"),
    *("friction", "gravity", "tracking", "root", "self-contact", "joint-limits", "motion", "swing"),
    *("with-obstacles", "video", "video-size", "video-show", "solver", "deferral"),
}
#: Largest number of characters in the arguments of one option, and largest integer.
_LONGEST = 10_000
_LARGEST = 10**18
#: Options that act on a kept model, with these engines.
_FELT, _FEELING = {"flesh", "young", "stiffness"}, (("pose-space",), ("full",))

#: List that receives the picture of a job's result, for the page of the batch; None for no picture.
Pictures = Annotated[list[bytes] | None, Parameter(parse=False)]
commands = App(name="supple", help_flags=[], version_flags=[])


@commands.command
def bake(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[BakeOptions | None, Parameter(name="*")] = None,
    touch: Annotated[ContactOptions | None, Parameter(name="*")] = None,
    pictures: Pictures = None,
) -> dict[str, Any]:
    """Run `supple bake`."""
    from supple.app.baking import run_bake
    from supple.app.pictures.filmstrip import baked_thumbnail
    from supple.rig.baked_motion import BakedMotion

    def look(bakes: Sequence[BakedMotion]) -> None:
        if pictures is not None:
            pictures.append(baked_thumbnail(bakes))

    return run_bake(source, output, options, touch, quiet=True, look=look, use_cache=False)


@commands.command
def curves(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[CurveOptions | None, Parameter(name="*")] = None,
    touch: Annotated[ObstacleOptions | None, Parameter(name="*")] = None,
    pictures: Pictures = None,
) -> dict[str, Any]:
    """Run `supple curves`."""
    from supple.app.curve_making import run_curves
    from supple.app.pictures.filmstrip import baked_thumbnail
    from supple.rig.free_curves import FreeCurves

    def look(result: FreeCurves) -> None:
        if pictures is not None:
            pictures.append(baked_thumbnail([result.baked()]))

    return run_curves(source, output, options, touch, quiet=True, look=look)


@commands.command
def build(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[BuildOptions | None, Parameter(name="*")] = None,
    pictures: Pictures = None,
) -> dict[str, Any]:
    """Run `supple build`."""
    from supple.app.building import run_build
    from supple.app.pictures.filmstrip import surface_thumbnail
    from supple.playback.character_sources import load_character_model

    figures = run_build(source, output, options, quiet=True)
    if pictures is not None:
        pictures.append(surface_thumbnail(load_character_model(output).surface))
    return figures


@commands.command
def info(
    source: str,
    /,
    *,
    output: Path,
    options: Annotated[SourceOptions | None, Parameter(name="*")] = None,
    pictures: Pictures = None,
) -> dict[str, Any]:
    """Run `supple info`, and write the description as JSON."""
    from supple.app.info.info import describe

    figures = describe(Path(source), **vars(options or SourceOptions()))
    write_whole(output, json.dumps(figures, indent=2).encode())
    return figures


#: Commands of jobs, and extensions of their results: "" for the source's extension if possible.
COMMANDS = {"bake": "", "curves": "", "build": ".supple", "info": ".json"}


# Options


@cache
def _known(command: str) -> dict[str, Any]:
    """Return the parser's arguments of a command by option name."""
    arguments = {}
    for argument in commands[command].assemble_argument_collection():
        for name in argument.names:
            plain = name.removeprefix("--")
            if name.startswith("--") and plain not in _NOT_HERE and not plain.startswith("no-"):
                arguments[plain] = argument
    return arguments


def checked_options(command: str, values: Mapping[str, Any], where: str) -> JobOptions:
    """Check options of one of `COMMANDS`, and return them as command-line arguments.

    Values are text, numbers, booleans, or lists of them; text for an option of several values is
    split at spaces. Error messages begin with `where`.
    """
    known, arguments = _known(command), {}
    for key, value in values.items():
        name = key.strip().removeprefix("--").replace("_", "-")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"see supple {command} --help"
            raise SuppleError(f"{where}: {command} has no option {shown(key, 40)}; {hint}")
        words = _words(value, known[name], f"{where}: {name}")
        if words:
            arguments[name] = words
    options = tuple(sorted(arguments.items()))
    plain = tuple((name, ("x",) if _is_text(known[name]) else words) for name, words in options)
    if problem := _problem(command, plain):
        raise SuppleError(f"{where}: {problem}")
    return options


def _is_text(argument: Any) -> bool:
    """Return whether an option takes any text, so that only the job itself can check it."""
    return argument.hint in (str, str | None)


def _words(value: Any, argument: Any, where: str) -> tuple[str, ...]:
    """Return a value as command-line arguments; an empty tuple for None and blank text."""
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
        raise SuppleError(f"{where}: is too long, or has a null character")
    if count > 1:  # these are separate arguments on the command line
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
        raise SuppleError(f"{where}: is {value}; use a finite number")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise SuppleError(f"{where}: is more than {_LARGEST:.0e}")
    if isinstance(value, str | int | float):
        return str(value)
    raise SuppleError(f"{where}: is {shown(value, 40)}; use text, a number, true or false")


@lru_cache(maxsize=4096)
def _problem(command: str, options: JobOptions) -> str:
    """Return the parser's error message for options; "" if they are valid."""
    try:
        _, bound, _ = _parsed([command, "source", "--output=x", *words_of(command, options)])
    except SuppleError as error:
        return str(error)
    for value in bound.arguments.values():
        for name, number in vars(value).items() if hasattr(value, "__dict__") else ():
            numbers = number if isinstance(number, list | tuple) else [number]
            if any(isinstance(each, float) and not math.isfinite(each) for each in numbers):
                return f"{name.replace('_', '-')} is not a finite number"
    return ""


def _parsed(words: Sequence[str]) -> Any:
    try:
        return commands.parse_args(list(words), exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise SuppleError(" ".join(str(error).split())[:300]) from None


def words_of(command: str, options: JobOptions) -> list[str]:
    """Return options as arguments of a command line."""
    arguments: list[str] = []
    for name, words in options:
        count, several = _known(command)[name].token_count()
        if count > 1:
            arguments += [f"--{name}", *words]
        elif several:
            arguments += [f"--{name}={word}" for word in words]
        else:
            arguments.append(f"--{name}={' '.join(words)}")
    return arguments


def model_options_of(command: str, options: JobOptions) -> JobOptions | None:
    """Return the options that the model of a job depends on; None if the job builds no model."""
    arguments = dict(options)
    if command not in ("bake", "curves") or "model" in arguments:
        return None
    feel = arguments.get("engine", ("pose-space",) if command == "bake" else ())
    played = _PLAYED | _FELT if feel in _FEELING else _PLAYED
    shared = tuple((name, words) for name, words in options if name not in played)
    if arguments.get("betas") == ("motion",):  # each clip has its body shape
        shared += (("motion", arguments.get("motion", ())),)
    return shared


# Running


def run_words(words: Sequence[str], pictures: list[bytes] | None = None) -> dict[str, Any]:
    """Run a command from its command-line arguments, and return its results."""
    function, bound, _ = _parsed(words)
    figures: dict[str, Any] = function(*bound.args, **bound.kwargs, pictures=pictures)
    return figures


def build_model(words: Sequence[str]) -> tuple[Path | None, bool]:
    """Build the model that a bake or curves command needs, unless it is cached.

    Return its file in the user's cache (None without a writable cache), and whether it was cached.
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
