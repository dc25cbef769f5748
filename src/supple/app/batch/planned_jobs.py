"""Jobs of a batch: characters × clips × settings, each with an output of its own.

A job's key is a hash of what it does and where its result goes; its stamp tells the sizes and times
of the files that it reads. A result counts as made where the journal has the same key and stamp.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path, PurePosixPath

from supple.app.batch.job_commands import (
    COMMANDS,
    READ_FILES,
    WRITTEN_FILES,
    JobOptions,
    is_motion_file,
    model_options_of,
    words_of,
)
from supple.app.command_files import CHARACTER_MODEL
from supple.errors import SuppleError
from supple.formats.registry import BAKED_MOTIONS, FREE_CURVES

__all__ = ["Job", "Wish", "plan", "safe_name"]

#: Jobs that one batch may have.
MOST_JOBS = 2_000_000
#: Bytes of a file's name, and of a whole path inside the output folder.
_LONGEST_NAME, _LONGEST_PATH = 200, 1000


@dataclass(frozen=True, slots=True)
class Wish:
    """Job that was asked for: a source, and options that may have several values.

    Attributes
    ----------
    source
        A file, absolute, or the name of a scene.
    name
        Name of the result inside the output folder, without its ending; or with it, where `whole`.
    settings
        Names of what differs, "" for none, and the options of each: for each of them a job.
    """

    command: str
    source: str
    name: str
    settings: tuple[tuple[str, JobOptions], ...] = (("", ()),)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Job of a batch; `model` is the key of jobs that share one, "" for none."""

    command: str
    source: str
    output: str
    options: JobOptions
    model: str

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

    def folders(self) -> set[str]:
        """Return folders inside the output folder that it writes into."""
        written = [w for name, words in self.options if name in WRITTEN_FILES for w in words]
        return {str(PurePosixPath(each).parent) for each in (self.output, *written)}

    def inputs(self) -> list[str]:
        """Return the files that it reads: its source, and those that options name."""
        named = [word for name, words in self.options if name in READ_FILES for word in words]
        return [each for each in (self.source, *named) if os.path.isabs(each)]

    def stamp(self) -> str:
        """Return sizes and times of the files that it reads; "" for scenes."""
        return " ".join(file_stamp(each) for each in self.inputs())


@lru_cache(maxsize=100_000)
def file_stamp(path: str) -> str:
    """Return size and time of a file; "gone" where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return "gone"
    return f"{found.st_size}-{found.st_mtime_ns}"


def safe_name(text: str) -> str:
    """Return text as part of a file's name: what leads elsewhere or cannot be a name is gone."""
    kept = re.sub(r"[^\w.+=-]+", "_", text).strip("._")
    return kept.encode()[:80].decode(errors="ignore") or "x"


def plan(wishes: Iterable[Wish], folder: Path, suffix: str | None = None) -> list[Job]:
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
    found: dict[str, Job] = {}
    sources: set[str] = set()
    firsts: dict[str, str] = {}
    for wish in wishes:
        sources.add(wish.source)
        for name, options in wish.settings:
            job = _job(wish, name, options, suffix, firsts)
            if (other := found.setdefault(job.output.lower(), job)) is not job:
                raise SuppleError(
                    f"{_both(other, job)} would both be written to {job.output}; "
                    "give each an output in a list, or begin at a folder that holds both"
                )
            if len(found) > MOST_JOBS:
                raise SuppleError(f"more than {MOST_JOBS:,} jobs; split the list in several")
    _check_outputs(found.values(), folder, sources)
    order: dict[str, int] = {}
    for job in found.values():
        order.setdefault(job.model or job.source, len(order))
    return sorted(found.values(), key=lambda job: order[job.model or job.source])


def _both(one: Job, other: Job) -> str:
    if one.source == other.source:
        return f"two jobs of {Path(one.source).name}"
    return f"{one.source} and {other.source}"


def _job(
    wish: Wish, name: str, options: JobOptions, suffix: str | None, firsts: dict[str, str]
) -> Job:
    output = wish.name
    if not wish.whole:
        ending = suffix or COMMANDS[wish.command] or _own_ending(wish)
        output = f"{wish.name}{'_' * bool(name)}{name}{ending}"
    output = _checked_name(output, wish.source)
    for each, words in options:
        if each in WRITTEN_FILES:
            for word in words:
                _checked_name(word, f"{wish.source}: {each}")
    model, options = _shared_model(wish, options, firsts)
    return Job(wish.command, wish.source, output, options, model)


def _shared_model(
    wish: Wish, options: JobOptions, firsts: dict[str, str]
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


def _own_ending(wish: Wish) -> str:
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
        or parts[0].startswith((".", "batch."))  # the journal, the page and its pictures
    )
    if wrong:
        short = "".join(c if c.isprintable() else "?" for c in name)[:60]
        raise SuppleError(
            f'{where}: "{short}" is no name inside the output folder; use one such as rat/Run.glb'
        )
    return "/".join(parts)


def _check_outputs(jobs: Iterable[Job], folder: Path, sources: set[str]) -> None:
    """Refuse results that would lie on sources, or on each other's folders."""
    real = os.path.realpath(folder)
    own = {os.path.realpath(each) for each in sources if os.path.isabs(each)}
    names: set[str] = set()
    above: set[str] = set()
    for job in jobs:
        if os.path.normpath(os.path.join(real, job.output)) in own:
            raise SuppleError(
                f"{job.output}: would be written over a source; give another folder with -o"
            )
        names.add(job.output)
        above.update(str(each) for each in PurePosixPath(job.output).parents)
    if both := sorted(names & above):
        raise SuppleError(f"{both[0]}: is the name of a result and of a folder of results")


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
