"""Sources of a batch: folders, patterns, files, scenes, and lists with options for each row."""

from __future__ import annotations

import csv
import glob
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from supple.app.batch.job_commands import (
    COMMANDS,
    READ_FILES,
    checked_options,
)
from supple.app.batch.planned_jobs import JobRequest, crossed, safe_name
from supple.app.options import is_motion_file
from supple.checks import shown
from supple.engines.engine import CHARACTER_MODEL
from supple.errors import SuppleError
from supple.formats.registry import CHARACTERS, GLTF_SUFFIXES, SURFACES, TETS, USD_SUFFIXES
from supple.rig.motion.motion_names import is_pattern, matching_names
from supple.scenes.characters.character_scene import SCENES

#: Bytes and rows of a list.
_LARGEST_LIST, _MOST_ROWS = 2**30, 2_000_000
#: Names of clips that each file has in a list of sources, by path, or why they cannot be read.
Clips = Callable[[Sequence[str]], Mapping[str, list[str] | SuppleError]]
#: Endings that are looked for in folders: not those of body models, which motions have, too.
_CHARACTERS = (*GLTF_SUFFIXES, *USD_SUFFIXES)


def asked_jobs(
    given: Sequence[str],
    command: str,
    settings: Sequence[str],
    clips: Sequence[str],
    folder: Path,
    names_of: Clips,
) -> list[JobRequest]:
    """Return what was asked for on the command line.

    Parameters
    ----------
    given
        Folders, patterns, files, scenes and lists.
    command
        For all that name none themselves.
    settings
        NAME=VALUE; several of one name make a job for each.
    clips
        Names, patterns, "all", or files with motions of body models; none for the usual one.
    folder
        Where results go; it is not searched for sources.
    names_of
        Tells names of clips, where patterns have to be held against them.
    """
    if command not in COMMANDS:
        raise SuppleError(f"--command {shown(command, 20)}: use one of {', '.join(COMMANDS)}")
    chosen = _settings(settings)
    found: list[JobRequest] = []
    plain: list[tuple[str, str]] = []
    for word in given:
        if (rows := _rows(word)) is not None:
            found += _listed(rows, Path(word), command, chosen)
        else:
            plain += _sources(word, command, folder)
    if not plain and not found:
        raise SuppleError(f"{given[0]}: nothing to do there; give characters (.glb .usd …)")
    options = [(name, dict(told)) for name, told in crossed(chosen)]
    by_source = _clips_by_source([source for source, _ in plain], clips, names_of)
    for source, name in plain:
        every = []
        named = by_source[source]
        fault = str(named) if isinstance(named, SuppleError) else ""
        for clip in [None] if isinstance(named, SuppleError) else named:
            for setting, told in options:
                whole = told if clip is None else {**told, "motion": clip}
                label = None if clip is None else Path(clip).stem if is_motion_file(clip) else clip
                parts = [safe_name(label)] if label is not None else []
                parts += [setting] if setting else []
                own = _absolute(whole, Path())
                every.append(("_".join(parts), checked_options(command, own, f"{name}: --set")))
        found.append(JobRequest(command, source, name, tuple(every), fault=fault))
    return found


def _settings(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise SuppleError(f"--set {word[:60]}: use NAME=VALUE, such as --set flesh=soft")
        found.setdefault(name.strip().replace("_", "-"), []).append(value)
    return list(found.items())


# Folders, patterns, files


def has_pattern(word: str) -> bool:
    """Return whether a word has signs that stand for others."""
    return glob.has_magic(word)


def _sources(word: str, command: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield sources that a word means, each with the name of its result without an ending."""
    own = os.path.realpath(folder)
    if os.path.isdir(word):
        _check_apart(word, own)
        yield from _in_folder(Path(word), command, folder)
    elif os.path.exists(word):
        yield os.path.abspath(word), safe_name(Path(word).stem)
    elif has_pattern(word):
        base = os.path.dirname(word[: min(word.find(sign) % 2**31 for sign in "*?[")]) or "."
        _check_apart(base, own)
        files = sorted(
            each
            for each in glob.iglob(word, recursive=True)
            if os.path.isfile(each) and not os.path.realpath(each).startswith(own + os.sep)
        )
        if not files:
            raise SuppleError(f"{word}: no file has such a name")
        for file in files:
            yield os.path.abspath(file), _name(Path(os.path.relpath(file, base)))
    elif word in SCENES and command != "info":
        yield word, word
    else:
        raise SuppleError(f"{word}: there is no such file, folder or scene")


def _check_apart(searched: str, own: str) -> None:
    """Refuse an output folder that is searched for sources: results would be sources next time."""
    if os.path.realpath(searched) == own:
        raise SuppleError(f"-o {searched}: has the sources, too; give another folder for results")


def _in_folder(root: Path, command: str, folder: Path) -> Iterator[tuple[str, str]]:
    endings = {*_CHARACTERS}
    if command == "info":
        endings |= {*CHARACTERS.suffixes(), *SURFACES.suffixes(), *TETS.suffixes(), ".bvh"}
    if command != "build":
        endings.add(CHARACTER_MODEL)
    own, found = os.path.realpath(folder), 0
    for place, folders, files in os.walk(root):
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith(".") and os.path.realpath(os.path.join(place, each)) != own
        )
        for file in sorted(files):
            if not file.startswith(".") and Path(file).suffix.lower() in endings:
                found += 1
                path = os.path.join(place, file)
                yield os.path.abspath(path), _name(Path(os.path.relpath(path, root)))
    if not found:
        raise SuppleError(f"{root}: has no files that supple {command} reads")


def _name(relative: Path) -> str:
    parts = [safe_name(each) for each in relative.with_suffix("").parts if each not in ("..", ".")]
    return "/".join(parts)


# Clips


def _clips_by_source(
    sources: Sequence[str], clips: Sequence[str], names_of: Clips
) -> Mapping[str, Sequence[str | None] | SuppleError]:
    """Return the clips of each source; None for the one that the command chooses.

    In place of clips that cannot be read stands the error that says why.
    """
    if not clips:
        return {source: [None] for source in sources}
    asked: list[str] = []
    for word in clips:
        if is_motion_file(word):
            files = sorted(glob.iglob(word, recursive=True)) if has_pattern(word) else [word]
            if not files or not all(os.path.isfile(each) for each in files):
                raise SuppleError(f"--clips {word}: there is no such file")
            asked += [os.path.abspath(each) for each in files]
        else:
            asked.append(word)
    if not any(word == "all" or is_pattern(word) for word in asked):
        return {source: list(dict.fromkeys(asked)) for source in sources}
    known = names_of(sources)
    found: dict[str, Sequence[str | None] | SuppleError] = {}
    for source in sources:
        own = known.get(source, [])
        if isinstance(own, SuppleError):
            found[source] = own
            continue
        # What has no clips is a job all the same, and says so itself.
        found[source] = _chosen_clips(own, asked) or ([None] if "all" in asked else [])
    return found


def _chosen_clips(names: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return clips of one source, each once: words as given, and what patterns stand for."""
    found: dict[str, str] = {}
    for word in asked:
        matches = matching_names(names, word) if not is_motion_file(word) else []
        if word == "all":
            found = {name: found.get(name, name) for name in [*found, *names]}
        elif is_pattern(word) and not is_motion_file(word):
            found = {name: found.get(name, name) for name in [*found, *matches]}
        else:  # a name that matches nothing, or several, is the job's error
            found.setdefault(matches[0] if len(matches) == 1 else word, word)
    return list(found.values())


# Lists


def _rows(word: str) -> list[Any] | None:
    """Return the rows of a list; None for what is no list."""
    path = Path(word)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json", ".jsonl") or not path.is_file():
        return None
    try:
        if path.stat().st_size > _LARGEST_LIST:
            raise SuppleError(f"{path.name}: has more than {_LARGEST_LIST:,} bytes; split it")
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "is no text in UTF-8"
        raise SuppleError(f"{path.name}: cannot be read ({why})") from None
    rows = _csv_rows(path.name, text) if suffix == ".csv" else _json_rows(path, text)
    if rows is not None and not 0 < len(rows) <= _MOST_ROWS:
        raise SuppleError(f"{path.name}: has {len(rows):,} rows; give 1 to {_MOST_ROWS:,}")
    return rows


def _csv_rows(name: str, text: str) -> list[Any]:
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = list(reader)
    except csv.Error as error:
        raise SuppleError(f"{name}: is no list with commas ({error})") from None
    headings = list(reader.fieldnames or ())
    if "source" not in headings:
        raise SuppleError(f'{name}: has no column "source"')
    if len(set(headings)) != len(headings) or not all(headings):
        raise SuppleError(f"{name}: columns have no names, or two the same")
    for number, row in enumerate(rows, 2):
        if None in row or any(value is None for value in row.values()):
            raise SuppleError(f"{name}: row {number} has not {len(headings)} cells, as the first")
    return [{key: cell for key, cell in row.items() if cell.strip()} for row in rows]


def _json_rows(path: Path, text: str) -> list[Any] | None:
    def refuse(word: str) -> None:
        raise SuppleError(f"{path.name}: has {word}, which is no number")

    try:
        if path.suffix.lower() == ".jsonl":
            lines = [line for line in text.splitlines() if line.strip()]
            return [json.loads(line, parse_constant=refuse) for line in lines]
        if not text.lstrip().startswith("["):  # the .json of a small character
            return None
        found = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise SuppleError(f"{path.name}: is no list in JSON ({str(error)[:100]})") from None
    return found if isinstance(found, list) else None


def _listed(
    rows: Sequence[Any], path: Path, command: str, chosen: Sequence[tuple[str, list[str]]]
) -> Iterator[JobRequest]:
    """Yield the jobs of a list; what `--set` says holds for rows that do not say otherwise."""
    base, cases = path.parent, crossed(chosen)
    for number, row in enumerate(rows, 2 if path.suffix.lower() == ".csv" else 1):
        where = f"{path.name}: row {number}"
        if not isinstance(row, dict):
            raise SuppleError(f"{where}: is {shown(row, 40)}; use source, and options by name")
        told = dict(row)
        own, source = told.pop("command", command), told.pop("source", None)
        output = told.pop("output", None)
        if own not in COMMANDS:
            raise SuppleError(f"{where}: command {shown(own, 20)}; use {', '.join(COMMANDS)}")
        if not isinstance(source, str) or not source.strip() or "\0" in source:
            raise SuppleError(f"{where}: has no source; give a file or a scene")
        if output is not None and not isinstance(output, str):
            raise SuppleError(f"{where}: output is {shown(output, 40)}; use a name")
        told = {key.strip().replace("_", "-"): value for key, value in told.items()}
        every = []
        for name, setting in cases:
            whole = _absolute(setting, Path()) | _absolute(told, base)
            every.append((name, checked_options(own, whole, where)))
        place, stem = _placed(source.strip(), base)
        # A name with an ending is the whole name; it cannot hold several settings.
        whole_name = output is not None and len(every) == 1 and bool(Path(output).suffix)
        yield JobRequest(own, place, output or _row_name(stem, told), tuple(every), whole_name)


def _row_name(stem: str, told: dict[str, Any]) -> str:
    motion = told.get("motion")
    if not isinstance(motion, str) or not motion.strip():
        return stem
    return f"{stem}_{safe_name(Path(motion).stem if is_motion_file(motion) else motion)}"


def _placed(source: str, base: Path) -> tuple[str, str]:
    """Return a row's source, as a path from the list's folder, and the name of its result."""
    path = base / source
    if not path.exists() and source in SCENES:
        return source, source
    return os.path.abspath(path), safe_name(Path(source).stem)


def _absolute(told: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return options in which names of files that are there are whole paths."""
    found = dict(told)
    for name in READ_FILES:
        value = found.get(name)
        words = value if isinstance(value, list) else [value]
        if any(isinstance(word, str) and _is_file(base / word) for word in words):
            whole = [
                os.path.abspath(base / word)
                if isinstance(word, str) and _is_file(base / word)
                else word
                for word in words
            ]
            found[name] = whole if isinstance(value, list) else whole[0]
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
