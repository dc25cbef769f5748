"""Sources of a batch: folders, patterns, files, scenes, and lists with options per row."""

from __future__ import annotations

import csv
import glob
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from supple.app.batch.job_commands import COMMANDS, READ_FILES, checked_options
from supple.app.batch.planned_jobs import JobRequest, crossed, safe_name
from supple.app.options import is_motion_file
from supple.checks import shown
from supple.engines.engine import CHARACTER_MODEL
from supple.errors import SuppleError
from supple.formats.registry import CHARACTERS, GLTF_SUFFIXES, SURFACES, TETS, USD_SUFFIXES
from supple.rig.motion.motion_names import is_pattern, matching_names
from supple.scenes.characters.character_scene import SCENES

#: Largest numbers of bytes and rows of a list.
_LARGEST_LIST, _MOST_ROWS = 2**30, 2_000_000
#: Function that returns the clip names of each source by path, or the error of reading them.
Clips = Callable[[Sequence[str]], Mapping[str, list[str] | SuppleError]]
#: Extensions searched for in folders: not those of body models, which motion files have as well.
_CHARACTERS = (*GLTF_SUFFIXES, *USD_SUFFIXES)


def requested_jobs(
    words: Sequence[str],
    command: str,
    settings: Sequence[str],
    clips: Sequence[str],
    folder: Path,
    names_of: Clips,
) -> list[JobRequest]:
    """Return the jobs requested on the command line.

    `words` are folders, patterns, files, scenes and lists; `command` is the default of list rows;
    `settings` are NAME=VALUE, with one job per value of a name; `clips` are names, patterns, "all"
    or motion files, none for the command's default. The output `folder` is not searched.
    `names_of` reads clip names, and is called only if `clips` has patterns.
    """
    if command not in COMMANDS:
        raise SuppleError(f"--command {shown(command, 20)}: use one of {', '.join(COMMANDS)}")
    assignments = _settings(settings)
    requests: list[JobRequest] = []
    sources: list[tuple[str, str]] = []
    for word in words:
        if (rows := _rows(word)) is not None:
            requests += _listed(rows, Path(word), command, assignments)
        else:
            sources += _sources(word, command, folder)
    if not sources and not requests:
        raise SuppleError(f"{words[0]}: has no sources; give characters (.glb .usd …)")
    options = [(name, dict(values)) for name, values in crossed(assignments)]
    by_source = _clips_by_source([source for source, _ in sources], clips, names_of)
    for source, name in sources:
        cases = []
        clips_of_source = by_source[source]
        fault = str(clips_of_source) if isinstance(clips_of_source, SuppleError) else ""
        for clip in [None] if isinstance(clips_of_source, SuppleError) else clips_of_source:
            for setting, values in options:
                values_with_clip = values if clip is None else {**values, "motion": clip}
                label = None if clip is None else Path(clip).stem if is_motion_file(clip) else clip
                parts = [safe_name(label)] if label is not None else []
                parts += [setting] if setting else []
                paths = _absolute(values_with_clip, Path())
                cases.append(("_".join(parts), checked_options(command, paths, f"{name}: --set")))
        requests.append(JobRequest(command, source, name, tuple(cases), fault=fault))
    return requests


def _settings(assignments: Sequence[str]) -> list[tuple[str, list[str]]]:
    values_by_name: dict[str, list[str]] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise SuppleError(f"--set {assignment[:60]}: use NAME=VALUE, such as --set flesh=soft")
        values_by_name.setdefault(name.strip().replace("_", "-"), []).append(value)
    return list(values_by_name.items())


# Folders, patterns, files


def _sources(word: str, command: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the sources that a word stands for, with names of results without extension."""
    output = os.path.realpath(folder)
    if os.path.isdir(word):
        _check_apart(word, output)
        yield from _in_folder(Path(word), command, folder)
    elif os.path.exists(word):
        yield os.path.abspath(word), safe_name(Path(word).stem)
    elif glob.has_magic(word):
        base = os.path.dirname(word[: min(word.find(sign) % 2**31 for sign in "*?[")]) or "."
        _check_apart(base, output)
        matches = sorted(each for each in glob.iglob(word, recursive=True) if os.path.isfile(each))
        inside = output + os.sep
        files = [file for file in matches if not os.path.realpath(file).startswith(inside)]
        if not files:
            raise SuppleError(f"{word}: no file matches the pattern")
        for file in files:
            yield os.path.abspath(file), _name(Path(os.path.relpath(file, base)))
    elif word in SCENES and command != "info":
        yield word, word
    else:
        raise SuppleError(f"{word}: there is no such file, folder or scene")


def _check_apart(searched: str, output: str) -> None:
    """Refuse an output folder that contains the sources: the next run would read the results."""
    if os.path.realpath(searched) == output:
        raise SuppleError(f"-o {searched}: contains the sources; give another folder for results")


def _in_folder(root: Path, command: str, folder: Path) -> Iterator[tuple[str, str]]:
    endings = {*_CHARACTERS}
    if command == "info":
        endings |= {*CHARACTERS.suffixes(), *SURFACES.suffixes(), *TETS.suffixes(), ".bvh"}
    if command != "build":
        endings.add(CHARACTER_MODEL)
    output, count = os.path.realpath(folder), 0
    for place, folders, files in os.walk(root):
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith(".") and os.path.realpath(os.path.join(place, each)) != output
        )
        for file in sorted(files):
            if not file.startswith(".") and Path(file).suffix.lower() in endings:
                count += 1
                path = os.path.join(place, file)
                yield os.path.abspath(path), _name(Path(os.path.relpath(path, root)))
    if not count:
        raise SuppleError(f"{root}: there are no files that supple {command} reads")


def _name(relative: Path) -> str:
    parts = [safe_name(each) for each in relative.with_suffix("").parts if each not in ("..", ".")]
    return "/".join(parts)


# Clips


def _clips_by_source(
    sources: Sequence[str], clips: Sequence[str], names_of: Clips
) -> Mapping[str, Sequence[str | None] | SuppleError]:
    """Return the clips of each source, None for the command's default, or the error of reading."""
    if not clips:
        return {source: [None] for source in sources}
    patterns: list[str] = []
    for word in clips:
        if is_motion_file(word):
            files = sorted(glob.iglob(word, recursive=True)) if glob.has_magic(word) else [word]
            if not files or not all(os.path.isfile(each) for each in files):
                raise SuppleError(f"--clips {word}: there is no such file")
            patterns += [os.path.abspath(each) for each in files]
        else:
            patterns.append(word)
    if not any(word == "all" or is_pattern(word) for word in patterns):
        return {source: list(dict.fromkeys(patterns)) for source in sources}
    known = names_of(sources)
    clips_by_source: dict[str, Sequence[str | None] | SuppleError] = {}
    for source in sources:
        names = known.get(source, [])
        if isinstance(names, SuppleError):
            clips_by_source[source] = names
            continue
        # A source without clips still gets a job, which fails with the reason.
        default = [None] if "all" in patterns else []
        clips_by_source[source] = _chosen_clips(names, patterns) or default
    return clips_by_source


def _chosen_clips(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the clips of one source, each once: names as given, and matches of patterns."""
    chosen: dict[str, str] = {}
    for word in patterns:
        matches = matching_names(names, word) if not is_motion_file(word) else []
        if word == "all":
            chosen = {name: chosen.get(name, name) for name in [*chosen, *names]}
        elif is_pattern(word) and not is_motion_file(word):
            chosen = {name: chosen.get(name, name) for name in [*chosen, *matches]}
        else:  # the job fails if a name matches nothing, or several clips
            chosen.setdefault(matches[0] if len(matches) == 1 else word, word)
    return list(chosen.values())


# Lists


def _rows(word: str) -> list[Any] | None:
    """Return the rows of a list (.csv, .json, .jsonl); None for any other source."""
    path = Path(word)
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json", ".jsonl") or not path.is_file():
        return None
    try:
        if path.stat().st_size > _LARGEST_LIST:
            raise SuppleError(f"{path.name}: has more than {_LARGEST_LIST:,} bytes; split it")
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
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
        raise SuppleError(f"{name}: not a valid CSV file ({error})") from None
    headings = list(reader.fieldnames or ())
    if "source" not in headings:
        raise SuppleError(f'{name}: has no column "source"; add one')
    if len(set(headings)) != len(headings) or not all(headings):
        raise SuppleError(f"{name}: two columns have the same name, or one has none; rename them")
    for number, row in enumerate(rows, 2):
        if None in row or any(value is None for value in row.values()):
            raise SuppleError(f"{name}: row {number} must have {len(headings)} cells")
    return [{key: cell for key, cell in row.items() if cell.strip()} for row in rows]


def _json_rows(path: Path, text: str) -> list[Any] | None:
    def refuse(word: str) -> None:
        raise SuppleError(f"{path.name}: has {word}; use finite numbers")

    try:
        if path.suffix.lower() == ".jsonl":
            lines = [line for line in text.splitlines() if line.strip()]
            return [json.loads(line, parse_constant=refuse) for line in lines]
        if not text.lstrip().startswith("["):  # a character file in JSON
            return None
        rows = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise SuppleError(f"{path.name}: not a valid JSON list ({str(error)[:100]})") from None
    return rows if isinstance(rows, list) else None


def _listed(
    rows: Sequence[Any], path: Path, command: str, assignments: Sequence[tuple[str, list[str]]]
) -> Iterator[JobRequest]:
    """Yield the jobs of a list; `--set` applies to options that a row leaves out."""
    base, cases = path.parent, crossed(assignments)
    for number, row in enumerate(rows, 2 if path.suffix.lower() == ".csv" else 1):
        where = f"{path.name}: row {number}"
        if not isinstance(row, dict):
            what = f"is {shown(row, 40)}"
            raise SuppleError(f"{where}: {what}; use an object with source and options")
        options = dict(row)
        row_command, source = options.pop("command", command), options.pop("source", None)
        output = options.pop("output", None)
        if row_command not in COMMANDS:
            what = f"command {shown(row_command, 20)}"
            raise SuppleError(f"{where}: {what}; use {', '.join(COMMANDS)}")
        if not isinstance(source, str) or not source.strip() or "\0" in source:
            raise SuppleError(f"{where}: has no source; give a file or a scene")
        if output is not None and not isinstance(output, str):
            raise SuppleError(f"{where}: output is {shown(output, 40)}; give the result's name")
        options = {key.strip().replace("_", "-"): value for key, value in options.items()}
        settings = []
        for name, setting in cases:
            merged = _absolute(setting, Path()) | _absolute(options, base)
            settings.append((name, checked_options(row_command, merged, where)))
        place, stem = _placed(source.strip(), base)
        # A name with an extension is complete, and can be used by one job only.
        whole_name = output is not None and len(settings) == 1 and bool(Path(output).suffix)
        yield JobRequest(
            row_command, place, output or _row_name(stem, options), tuple(settings), whole_name
        )


def _row_name(stem: str, options: dict[str, Any]) -> str:
    motion = options.get("motion")
    if not isinstance(motion, str) or not motion.strip():
        return stem
    return f"{stem}_{safe_name(Path(motion).stem if is_motion_file(motion) else motion)}"


def _placed(source: str, base: Path) -> tuple[str, str]:
    """Return a row's source, as an absolute path or a scene, and the name of its result."""
    path = base / source
    if not path.exists() and source in SCENES:
        return source, source
    return os.path.abspath(path), safe_name(Path(source).stem)


def _absolute(options: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return options in which names of existing files, relative to `base`, are absolute paths."""

    def absolute(word: Any, option: str) -> Any:
        with suppress(OSError, ValueError):
            if isinstance(word, str):
                posed = option == "stiffness-at"  # POSE=FILE
                pose, sign, file = word.rpartition("=") if posed else ("", "", word)
                if (base / file).is_file():
                    return f"{pose}{sign}{os.path.abspath(base / file)}"
        return word

    resolved = dict(options)
    for name in resolved.keys() & {*READ_FILES}:
        value = resolved[name]
        listed = isinstance(value, list)
        resolved[name] = (
            [absolute(word, name) for word in value] if listed else absolute(value, name)
        )
    return resolved
