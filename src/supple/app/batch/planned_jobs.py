"""Jobs of a batch: characters × clips × settings, each with an output of its own.

A job's key is a hash of what it does and where its result goes; its stamp tells the sizes and times
of the files that it reads. A result counts as made where the journal has the same key and stamp.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path, PurePosixPath

from supple.app.batch.job_commands import (
    COMMANDS,
    READ_FILES,
    WRITTEN_FILES,
    JobOptions,
    model_options_of,
    words_of,
)
from supple.app.batch.sent_files import files_beside
from supple.app.options import is_motion_file
from supple.engines.engine import CHARACTER_MODEL
from supple.errors import SuppleError
from supple.formats.registry import BAKED_MOTIONS, FREE_CURVES

#: Jobs that one batch may have.
MOST_JOBS = 2_000_000
#: Bytes of a file's name, and of a whole path inside the output folder.
_LONGEST_NAME, _LONGEST_PATH = 200, 1000


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Job that was asked for: a source, and options that may have several values.

    Attributes
    ----------
    source
        A file, absolute, or the name of a scene.
    name
        Name of the result inside the output folder, without its ending; or with it, where `whole`.
    settings
        Names of what differs, "" for none, and the options of each: for each of them a job.
    fault
        Why it cannot be done; "" where nothing is known against it.
    """

    command: str
    source: str
    name: str
    settings: tuple[tuple[str, JobOptions], ...] = (("", ()),)
    whole: bool = False
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Job of a batch; `model` is the key of jobs that share one, "" for none.

    A job with a `fault` is not run: it fails with that line.
    """

    command: str
    source: str
    output: str
    options: JobOptions
    model: str
    fault: str = ""

    @property
    def key(self) -> str:
        """Return a hash of what is done, and where its result goes."""
        told = json.dumps([self.command, self.source, self.output, self.options])
        return hashlib.sha256(told.encode()).hexdigest()[:20]

    def words(self, folder: Path) -> list[str]:
        """Return the job as words of a command line that writes into this folder."""
        options = tuple(
            (name, tuple(str(folder / word) for word in words) if name in WRITTEN_FILES else words)
            for name, words in self.options
        )
        output = f"--output={folder / self.output}"
        return [self.command, self.source, output, *words_of(self.command, options)]

    def written(self) -> list[str]:
        """Return names of files inside the output folder that it writes: its result, and others."""
        named = [word for name, words in self.options if name in WRITTEN_FILES for word in words]
        return [self.output, *named]

    def folders(self) -> set[str]:
        """Return folders inside the output folder that it writes into."""
        return {str(PurePosixPath(each).parent) for each in self.written()}

    def inputs(self) -> list[str]:
        """Return the files that it reads: its source, and those that options name."""
        named = [word for name, words in self.options if name in READ_FILES for word in words]
        return [each for each in (self.source, *named) if os.path.isabs(each)]

    def read_files(self) -> list[str]:
        """Return its inputs, and the files that those of glTF refer to."""
        return [file for each in self.inputs() for file in (each, *_beside(each, file_stamp(each)))]

    def stamp(self) -> str:
        """Return sizes and times of the files that it reads; "" for scenes."""
        return " ".join(file_stamp(each) for each in self.read_files())


@lru_cache(maxsize=100_000)
def file_stamp(path: str) -> str:
    """Return size and time of a file; "gone" where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return "gone"
    return f"{found.st_size}-{found.st_mtime_ns}"


@lru_cache(maxsize=10_000)
def _beside(path: str, stamp: str) -> tuple[str, ...]:
    """Return paths of the files that a .gltf of this stamp refers to."""
    return tuple(str(Path(path).parent / name) for name in files_beside(path))


def safe_name(text: str) -> str:
    """Return text as part of a file's name: what leads elsewhere or cannot be a name is gone."""
    kept = re.sub(r"[^\w.+=-]+", "_", text).strip("._")
    return kept.encode()[:80].decode(errors="ignore") or "x"


def plan(wishes: Iterable[JobRequest], folder: Path, suffix: str | None = None) -> list[Job]:
    """Return the jobs of a batch, those that share a model after each other.

    Parameters
    ----------
    wishes
        As they were asked for.
    folder
        Where results go.
    suffix
        Ending of results; by default what the command writes of such a source.

    Raises
    ------
    SuppleError
        If two jobs would write the same file, a name leads out of the folder, or one would be
        written over a source.
    """
    found: list[Job] = []
    writers: dict[str, Job] = {}
    firsts: dict[str, str] = {}
    for wish in wishes:
        for name, options in wish.settings:
            job = _job(wish, name, options, suffix, firsts)
            _check_writers(job, writers)
            found.append(job)
            if len(found) > MOST_JOBS:
                raise SuppleError(f"more than {MOST_JOBS:,} jobs; split the list in several")
    _check_places(found, writers, folder)
    order: dict[str, int] = {}
    for job in found:
        order.setdefault(job.model or job.source, len(order))
    return sorted(found, key=lambda job: order[job.model or job.source])


def _same(name: str) -> str:
    """Return what names have in common that are one file on some disk."""
    return unicodedata.normalize("NFC", name).casefold()


def _check_writers(job: Job, writers: dict[str, Job]) -> None:
    """Refuse a job that writes what another does, or two files of one name."""
    own: set[str] = set()
    for name in job.written():
        same = _same(name)
        if same in own:
            raise SuppleError(
                f"{job.source}: two of its files would be written to {name}; give each a name"
            )
        own.add(same)
        if (other := writers.setdefault(same, job)) is not job:
            raise SuppleError(
                f"{_both(other, job)} would both be written to {name}; "
                "give each an output in a list, or begin at a folder that holds both"
            )


def _both(one: Job, other: Job) -> str:
    if one.source == other.source:
        return f"two jobs of {Path(one.source).name}"
    return f"{one.source} and {other.source}"


def _job(
    wish: JobRequest, name: str, options: JobOptions, suffix: str | None, firsts: dict[str, str]
) -> Job:
    output = wish.name
    if not wish.whole:
        ending = suffix or COMMANDS[wish.command] or _own_ending(wish)
        output = f"{wish.name}{'_' * bool(name)}{name}{ending}"
    output = _checked_name(output, wish.source)
    options = tuple(
        (each, tuple(_checked_name(word, f"{wish.source}: {each}") for word in words))
        if each in WRITTEN_FILES
        else (each, words)
        for each, words in options
    )
    if wish.fault:
        return Job(wish.command, wish.source, output, options, "", wish.fault)
    model, options = _shared_model(wish, options, firsts)
    return Job(wish.command, wish.source, output, options, model)


def _shared_model(
    wish: JobRequest, options: JobOptions, firsts: dict[str, str]
) -> tuple[str, JobOptions]:
    """Return the key of the model that a job shares, and its options.

    Clips of a body model that lie in files of their own share the model of the first one: a body
    model has no clips of its own that poses could be chosen from.
    """
    shared = model_options_of(wish.command, options)
    if shared is None or wish.source.lower().endswith(CHARACTER_MODEL):
        return "", options
    told = json.dumps([wish.command, wish.source, shared])
    key = hashlib.sha256(told.encode()).hexdigest()[:20]
    motion = next((words[0] for name, words in options if name == "motion"), "")
    if is_motion_file(motion) and "model-motion" not in dict(options):
        first = firsts.setdefault(key, motion)
        options = tuple(sorted({**dict(options), "model-motion": (first,)}.items()))
    return key, options


def _own_ending(wish: JobRequest) -> str:
    """Return the ending of what bake or curves writes of a source by default."""
    own = Path(wish.source).suffix.lower()
    table = BAKED_MOTIONS if wish.command == "bake" else FREE_CURVES
    usual = ".glb" if wish.command == "bake" else ".json"
    return own if table.find(Path(f"x{own}")) is not None and own not in (".npz",) else usual


def _checked_name(name: str, where: str) -> str:
    """Return the name of a file inside the output folder; SuppleError if it leads out of it."""
    parts = name.replace("\\", "/").split("/")
    wrong = (
        not name.strip()
        or not name.isprintable()
        or ":" in parts[0]
        or any(part in ("", ".", "..") or part.startswith("~") for part in parts)
        or any(part != part.strip() for part in parts)
        or any(len(part.encode()) > _LONGEST_NAME for part in parts)
        or len(name.encode()) > _LONGEST_PATH
        or parts[0].casefold().startswith((".", "batch."))  # the journal, the page and its pictures
    )
    if wrong:
        short = "".join(c if c.isprintable() else "?" for c in name)[:60]
        raise SuppleError(
            f'{where}: "{short}" is no name inside the output folder; use one such as rat/Run.glb'
        )
    return "/".join(parts)


def _check_places(jobs: Iterable[Job], writers: Mapping[str, Job], folder: Path) -> None:
    """Refuse files that would lie on what a job reads, or on each other's folders."""
    inputs = dict.fromkeys(each for job in jobs for each in job.read_files())
    read = {_same(os.path.realpath(each)) for each in inputs}
    # A link is replaced itself, not what it leads to.
    read |= {
        _same(os.path.join(os.path.realpath(os.path.dirname(p)), os.path.basename(p)))
        for p in inputs
    }
    real: dict[str, str] = {}
    above: set[str] = set()
    for job in jobs:
        for name in job.written():
            place = str(PurePosixPath(name).parent)
            if place not in real:
                real[place] = os.path.realpath(folder / place)
                above.update(_same(str(each)) for each in PurePosixPath(name).parents)
            if _same(os.path.join(real[place], PurePosixPath(name).name)) in read:
                raise SuppleError(
                    f"{name}: would be written over a source; give another folder with -o"
                )
    for name in sorted(above & writers.keys()):
        raise SuppleError(f"{name}: is the name of a result and of a folder of results")


def crossed(settings: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, dict[str, str]]]:
    """Return all combinations of settings, each with a name of what differs.

    >>> crossed([("flesh", ["soft", "firm"]), ("rate", ["24"])])
    [('soft', {'flesh': 'soft', 'rate': '24'}), ('firm', {'flesh': 'firm', 'rate': '24'})]
    """
    found = []
    for values in product(*(each for _, each in settings)):
        told = {name: value for (name, _), value in zip(settings, values, strict=True)}
        names = [safe_name(told[name]) for name, each in settings if len(each) > 1]
        found.append(("_".join(names), told))
    return found
