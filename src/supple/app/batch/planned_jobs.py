"""Jobs of a batch: characters × clips × settings, each with a separate output.

A job's key is a hash of its command, source, options and output name; its stamp has the sizes and
times of the files that it reads. A result is up to date if the journal has the same key and stamp.
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

#: Largest number of jobs of one batch.
MOST_JOBS = 2_000_000
#: Largest number of bytes of a file name, and of a path inside the output folder.
_LONGEST_NAME, _LONGEST_PATH = 200, 1000


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Requested jobs of one source, one per setting.

    `source` is an absolute path or the name of a scene; `name` is the result's name inside the
    output folder, with its extension only if `keeps_suffix`; `settings` has a label ("" for none)
    and the options of each job. With a `fault`, the jobs fail with that message.
    """

    command: str
    source: str
    name: str
    settings: tuple[tuple[str, JobOptions], ...] = (("", ()),)
    keeps_suffix: bool = False
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Job of a batch; `model` is the key of a shared model, "" for none.

    A job with a `fault` is not run: it fails with that message.
    """

    command: str
    source: str
    output: str
    options: JobOptions
    model: str
    fault: str = ""

    @property
    def key(self) -> str:
        """Return a hash of the command, the source, the options and the output name."""
        content = json.dumps([self.command, self.source, self.output, self.options])
        return hashlib.sha256(content.encode()).hexdigest()[:20]

    def words(self, folder: Path) -> list[str]:
        """Return the job as arguments of a command line that writes into this folder."""
        options = tuple(
            (name, tuple(str(folder / word) for word in words) if name in WRITTEN_FILES else words)
            for name, words in self.options
        )
        output = f"--output={folder / self.output}"
        return [self.command, self.source, output, *words_of(self.command, options)]

    def written(self) -> list[str]:
        """Return the names of all files that the job writes into the output folder."""
        named = [word for name, words in self.options if name in WRITTEN_FILES for word in words]
        return [self.output, *named]

    def folders(self) -> set[str]:
        """Return the folders inside the output folder that the job writes into."""
        return {str(PurePosixPath(each).parent) for each in self.written()}

    def inputs(self) -> list[str]:
        """Return the files that the job reads: its source and files named by options."""
        named = [
            word.rpartition("=")[2] if name == "stiffness-at" else word  # POSE=FILE
            for name, words in self.options
            if name in READ_FILES
            for word in words
        ]
        return [each for each in (self.source, *named) if os.path.isabs(each)]

    def read_files(self) -> list[str]:
        """Return the inputs with the files that .gltf inputs refer to."""
        return [file for each in self.inputs() for file in (each, *_beside(each, file_stamp(each)))]

    def stamp(self) -> str:
        """Return sizes and modification times of the files that the job reads; "" for scenes."""
        return " ".join(file_stamp(each) for each in self.read_files())


@lru_cache(maxsize=100_000)
def file_stamp(path: str) -> str:
    """Return size and modification time of a file as text; "gone" if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return "gone"
    return f"{status.st_size}-{status.st_mtime_ns}"


@lru_cache(maxsize=10_000)
def _beside(path: str, stamp: str) -> tuple[str, ...]:
    """Return paths of the files that a .gltf refers to, cached by its stamp."""
    return tuple(str(Path(path).parent / name) for name in files_beside(path))


def safe_name(text: str) -> str:
    """Return text as part of a file name, with other characters replaced by underscores."""
    cleaned = re.sub(r"[^\w.+=-]+", "_", text).strip("._")
    return cleaned.encode()[:80].decode(errors="ignore") or "x"


def plan(requests: Iterable[JobRequest], folder: Path, suffix: str | None = None) -> list[Job]:
    """Return the jobs of a batch, ordered so that jobs with a common model are adjacent.

    `suffix` is the extension of results; by default the command chooses it. Raise SuppleError if
    two jobs would write the same file, a name is outside the folder, or a result would replace a
    source.
    """
    jobs: list[Job] = []
    writers: dict[str, Job] = {}
    firsts: dict[str, str] = {}
    for request in requests:
        for name, options in request.settings:
            job = _job(request, name, options, suffix, firsts)
            _check_writers(job, writers)
            jobs.append(job)
            if len(jobs) > MOST_JOBS:
                raise SuppleError(f"more than {MOST_JOBS:,} jobs; split them into several batches")
    _check_places(jobs, writers, folder)
    order: dict[str, int] = {}
    for job in jobs:
        order.setdefault(job.model or job.source, len(order))
    return sorted(jobs, key=lambda job: order[job.model or job.source])


def _normalized(name: str) -> str:
    """Return a normal form of a name, equal for names that some file systems do not distinguish."""
    return unicodedata.normalize("NFC", name).casefold()


def _check_writers(job: Job, writers: dict[str, Job]) -> None:
    """Refuse a job that writes a file twice, or a file of another job."""
    names: set[str] = set()
    for name in job.written():
        same = _normalized(name)
        if same in names:
            what = f"two of its files would be written to {name}"
            raise SuppleError(f"{job.source}: {what}; use different names")
        names.add(same)
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
    request: JobRequest, name: str, options: JobOptions, suffix: str | None, firsts: dict[str, str]
) -> Job:
    output = request.name
    if not request.keeps_suffix:
        ending = suffix or COMMANDS[request.command] or _default_suffix(request)
        output = f"{request.name}{'_' * bool(name)}{name}{ending}"
    output = _checked_name(output, request.source)
    options = tuple(
        (each, tuple(_checked_name(word, f"{request.source}: {each}") for word in words))
        if each in WRITTEN_FILES
        else (each, words)
        for each, words in options
    )
    if request.fault:
        return Job(request.command, request.source, output, options, "", request.fault)
    model, options = _shared_model(request, options, firsts)
    return Job(request.command, request.source, output, options, model)


def _shared_model(
    request: JobRequest, options: JobOptions, firsts: dict[str, str]
) -> tuple[str, JobOptions]:
    """Return the key of the model that a job shares ("" for none), and the job's options.

    Motion files of a body model share the model built for the first file: a body model has no clips
    from which poses could be chosen.
    """
    shared = model_options_of(request.command, options)
    if shared is None or request.source.lower().endswith(CHARACTER_MODEL):
        return "", options
    content = json.dumps([request.command, request.source, shared])
    key = hashlib.sha256(content.encode()).hexdigest()[:20]
    motion = next((words[0] for name, words in options if name == "motion"), "")
    if is_motion_file(motion) and "model-motion" not in dict(options):
        first = firsts.setdefault(key, motion)
        options = tuple(sorted({**dict(options), "model-motion": (first,)}.items()))
    return key, options


def _default_suffix(request: JobRequest) -> str:
    """Return the default extension of results of bake or curves for a source."""
    suffix = Path(request.source).suffix.lower()
    table = BAKED_MOTIONS if request.command == "bake" else FREE_CURVES
    usual = ".glb" if request.command == "bake" else ".json"
    written = suffix != ".npz" and table.find(Path(f"x{suffix}")) is not None
    return suffix if written else usual


def _checked_name(name: str, where: str) -> str:
    """Return a file name inside the output folder; raise SuppleError if it is outside."""
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
            f'{where}: "{short}" is not a name inside the output folder; use e.g. rat/Run.glb'
        )
    return "/".join(parts)


def _check_places(jobs: Iterable[Job], writers: Mapping[str, Job], folder: Path) -> None:
    """Refuse results that would replace an input, or have the name of a folder of results."""
    inputs = dict.fromkeys(each for job in jobs for each in job.read_files())
    read = {_normalized(os.path.realpath(each)) for each in inputs}
    # Writing to a symbolic link replaces the link, not its target.
    read |= {
        _normalized(os.path.join(os.path.realpath(os.path.dirname(p)), os.path.basename(p)))
        for p in inputs
    }
    real: dict[str, str] = {}
    above: set[str] = set()
    for job in jobs:
        for name in job.written():
            place = str(PurePosixPath(name).parent)
            if place not in real:
                real[place] = os.path.realpath(folder / place)
                above.update(_normalized(str(each)) for each in PurePosixPath(name).parents)
            if _normalized(os.path.join(real[place], PurePosixPath(name).name)) in read:
                raise SuppleError(f"{name}: would replace a source; give another folder with -o")
    for name in sorted(above & writers.keys()):
        raise SuppleError(f"{name}: names both a result and a folder of results; rename one")


def crossed(settings: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, dict[str, str]]]:
    """Return all combinations of settings, labelled by the values that differ.

    >>> crossed([("flesh", ["soft", "firm"]), ("rate", ["24"])])
    [('soft', {'flesh': 'soft', 'rate': '24'}), ('firm', {'flesh': 'firm', 'rate': '24'})]
    """
    combinations = []
    for values in product(*(each for _, each in settings)):
        values_by_name = {name: value for (name, _), value in zip(settings, values, strict=True)}
        names = [safe_name(values_by_name[name]) for name, each in settings if len(each) > 1]
        combinations.append(("_".join(names), values_by_name))
    return combinations
