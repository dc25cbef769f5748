"""`supple batch`: run a command on many sources, and resume after interruptions.

Data flow: `requested_jobs` (inputs) ▸ `plan` (planned_jobs) ▸ jobs missing from the journal
(journal) ▸ a farm (process_farm, dask_farm) ▸ the journal ▸ one HTML page (batch_page).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from supple.app.batch.batch_options import BatchOptions, parse_since
from supple.app.batch.batch_page import write_batch_page
from supple.app.batch.dask_farm import Cluster, DaskFarm
from supple.app.batch.inputs import requested_jobs
from supple.app.batch.job_process import NO_MEMORY_LIMIT, Limits, can_read_memory
from supple.app.batch.journal import JOURNAL, Journal, JournalState, read_journal
from supple.app.batch.planned_jobs import Job, file_stamp, plan
from supple.app.batch.process_farm import Farm, ProcessFarm, Task, usable_cores
from supple.app.batch.running_jobs import Run
from supple.errors import SuppleError
from supple.playback.progress_bar import console, working
from supple.saving import remove_abandoned

#: Seconds within which a writer locks a file that it has created.
_LOCK_DELAY = 1.0


def _farm(options: BatchOptions, folder: Path) -> Farm:
    """Return the farm that runs the jobs: local processes, or a Dask cluster."""
    if options.cluster is None:
        return ProcessFarm(_count(options), _limits(options))
    tls = options.tls_ca, options.tls_cert, options.tls_key
    cluster = Cluster(options.cluster, options.files, _count(options), tls)
    return DaskFarm(cluster, _limits(options), folder)


def _limits(options: BatchOptions) -> Limits:
    if options.memory_limit is not None and options.cluster is None and not can_read_memory():
        raise SuppleError(NO_MEMORY_LIMIT)
    usual = 1 if options.cluster else max(1, usable_cores() // _count(options))
    return Limits(options.memory_limit, options.time_limit, options.threads or usual)


def _count(options: BatchOptions) -> int:
    return options.jobs or usable_cores()


def run_batch(
    sources: Sequence[str],
    output: Path,
    options: BatchOptions | None = None,
    *,
    quiet: bool = False,
) -> dict[str, Any]:
    """Run the jobs whose results are missing from the folder `output`; return a summary.

    `sources` are folders, patterns, files, scenes and lists; without sources, only the page of the
    existing results is written.
    """
    began, options, folder = time.perf_counter(), options or BatchOptions(), _folder(output)
    if not sources:
        return _page_alone(folder)
    file_stamp.cache_clear()  # files may have changed since the last batch of this process
    since = None if options.since is None else parse_since(options.since)
    if options.dry_run:
        return _dry_run(sources, folder, options, since, read_journal(folder / JOURNAL), quiet)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SuppleError(f"{folder}: cannot be created ({error.strerror})") from None
    journal = Journal(folder / JOURNAL)
    built = journal.state.models
    farm: Farm | None = None
    try:
        _remove_parts(folder)
        with working("planning", quiet):
            jobs = _planned(sources, folder, options, journal)
        missing, given_up, kept, skipped = _missing(jobs, folder, journal.state, options, since)
        failures = [journal.state.failed[job.key] for job in given_up]
        journal.add("begin", jobs=len(jobs), missing=len(missing))
        if missing:
            with working("waiting for workers" if options.cluster else "starting", quiet):
                farm = _farm(options, folder)
            failures += Run(farm, journal, folder, jobs).all(missing, quiet)
    finally:
        if farm is not None:
            farm.close()
        journal.close()
    page = write_batch_page(folder)
    return {
        "jobs": len(jobs),
        "made": len(missing) + len(given_up) - len(failures),
        "kept": kept,
        "skipped": skipped,
        "failed": len(failures),
        "models_built": journal.state.models - built,
        "torn_lines": journal.state.damaged,
        "seconds": round(time.perf_counter() - began, 3),
        "failures": [_named(line) for line in failures],
        "journal": str(folder / JOURNAL),
        "page": str(page),
    }


def _named(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line.get(name) for name in ("source", "output", "line")}


def _page_alone(folder: Path) -> dict[str, Any]:
    if not (folder / JOURNAL).is_file():
        raise SuppleError(f"{folder}: has no {JOURNAL} to make a page of; give sources")
    state = read_journal(folder / JOURNAL)
    page = write_batch_page(folder)
    return {
        "jobs": len(state.done) + len(state.failed),
        "kept": len(state.done),
        "failed": len(state.failed),
        "failures": [_named(line) for line in state.failed.values()],
        "journal": str(folder / JOURNAL),
        "page": str(page),
    }


def _folder(output: Path) -> Path:
    if output.exists() and not output.is_dir():
        raise SuppleError(f"{output}: not a folder; give a folder for results with -o")
    return Path(os.path.abspath(output))


def _remove_parts(folder: Path) -> None:
    """Remove unlocked partial files of jobs that were killed."""
    for place, _, files in os.walk(folder):
        if any(file.endswith(".part") for file in files):
            remove_abandoned(Path(place), _LOCK_DELAY)


# Planning


def _planned(
    sources: Sequence[str], folder: Path, options: BatchOptions, journal: Journal | None
) -> list[Job]:
    def names_of(sources: Sequence[str]) -> dict[str, list[str] | SuppleError]:
        state = read_journal(folder / JOURNAL) if journal is None else journal.state
        known: dict[str, list[str] | SuppleError] = {
            s: state.clips[s, file_stamp(s)] for s in sources if (s, file_stamp(s)) in state.clips
        }
        unknown = [source for source in dict.fromkeys(sources) if source not in known]
        if unknown:
            known |= _read_clips(unknown, options, journal)
        return known

    selection = options.set or (), options.clips or ()
    requests = requested_jobs(sources, options.command, *selection, folder, names_of)
    jobs = plan(requests, folder, options.suffix)
    if not jobs:
        raise SuppleError(f"{sources[0]}: no clip matches --clips; supple info lists the names")
    return jobs


def _read_clips(
    sources: Sequence[str], options: BatchOptions, journal: Journal | None
) -> dict[str, list[str] | SuppleError]:
    """Read clip names of sources in separate processes, since a bad file may crash its process.

    A source that fails twice gets its error in place of names.
    """
    names_by_source: dict[str, list[str] | SuppleError] = {}
    farm = ProcessFarm(min(_count(options), len(sources)), _limits(options))
    try:
        for source in sources:
            farm.submit(Task("clips", source, None, {"what": "clips", "source": source}))
        while len(names_by_source) < len(sources):
            task, outcome = farm.outcome()
            if outcome["ok"]:
                names = names_by_source[task.key] = list(outcome.get("names") or ())
                if journal is not None:
                    journal.add("clips", source=task.key, stamp=file_stamp(task.key), names=names)
            elif task.tries:
                names_by_source[task.key] = SuppleError(outcome["line"])
            else:
                task.tries, task.fresh = 1, bool(outcome.get("fresh"))
                farm.submit(task)
    finally:
        farm.close()
    return names_by_source


def _missing(
    jobs: Sequence[Job],
    folder: Path,
    state: JournalState,
    options: BatchOptions,
    since: float | None,
) -> tuple[list[Job], list[Job], int, int]:
    """Return missing jobs, jobs that failed before, and numbers of done and of skipped jobs.

    Jobs are skipped if their inputs have not changed `since` this time, in s since the epoch.
    """
    missing: list[Job] = []
    given_up: list[Job] = []
    kept = skipped = 0
    for job in jobs:
        if since is not None and not _changed_since(job, since):
            skipped += 1
        elif _is_done(job, folder, state):
            kept += 1
        elif _is_given_up(job, state) and not options.retry_failed:
            given_up.append(job)
        else:
            missing.append(job)
    return missing, given_up, kept, skipped


def _changed_since(job: Job, since: float) -> bool:
    for path in job.read_files():
        with suppress(OSError):
            if os.stat(path).st_mtime >= since:
                return True
    return False


def _is_done(job: Job, folder: Path, state: JournalState) -> bool:
    """Return whether all files of the result exist in full and the inputs are unchanged."""
    stamp, files = state.done.get(job.key, ("", ()))
    if not files or stamp != job.stamp():
        return False
    try:
        return all(os.stat(folder / name).st_size == size for name, size in files)
    except OSError:
        return False


def _is_given_up(job: Job, state: JournalState) -> bool:
    line = state.failed.get(job.key)
    return line is not None and line.get("stamp") == job.stamp()


def _dry_run(
    sources: Sequence[str],
    folder: Path,
    options: BatchOptions,
    since: float | None,
    state: JournalState,
    quiet: bool,
) -> dict[str, Any]:
    with working("planning", quiet):
        jobs = _planned(sources, folder, options, None)
    missing, _, kept, skipped = _missing(jobs, folder, state, options, since)
    models = {job.model for job in missing if job.model}
    listed = [{"words": job.words(folder), "output": job.output} for job in missing]
    figures = {"jobs": len(jobs), "kept": kept, "skipped": skipped, "models": len(models)}
    return {"dry_run": True, **figures, "missing": listed, "failed": 0}


def print_batch(figures: dict[str, Any]) -> None:
    """Print a summary of the batch on standard error."""
    if figures.get("dry_run"):
        for job in figures["missing"]:
            console.print(" ".join(job["words"]), markup=False, soft_wrap=True)
        models = f", {figures['models']} models" if figures["models"] else ""
        console.print(f"{len(figures['missing'])} of {figures['jobs']} jobs to do{models}")
        return
    made = f"{figures['made']} made, " if "made" in figures else ""
    summary = (
        f"{figures['jobs']} jobs: {made}{figures['kept']} there before, {figures['failed']} failed"
    )
    if figures.get("skipped"):
        summary += f", {figures['skipped']} not changed"
    console.print(summary)
    console.print(f"wrote {figures['page']}", markup=False, soft_wrap=True)
