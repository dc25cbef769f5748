"""Tasks on workers of a Dask cluster: each gives its job to a process of its own.

Workers import this module, so it imports little.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import supple
from supple.app.batch.job_process import JobProcess, Limits, Outcome, failure
from supple.app.batch.sent_files import Bundle, in_folder_of_its_own, keep_model, local_words
from supple.errors import SuppleError

#: Processes that wait for jobs, and those that do one, with the name of the batch it is of.
_idle: list[JobProcess] = []
_busy: dict[JobProcess, str] = {}
#: Batches that were ended: what of theirs was on its way is not begun.
_ended: set[str] = set()
_lock = threading.Lock()


def greet(token: str) -> tuple[str, bool]:
    """Return the version that is installed here, and whether a file is seen."""
    return supple.__version__, os.path.exists(token)


def held(digest: str, bundle: Bundle) -> tuple[str, Bundle]:
    """Return a bundle: a task that does so can be done again, where data would be lost."""
    return digest, bundle


def without_data(found: Outcome) -> Outcome:
    """Return how a model went, without its bytes."""
    return {name: value for name, value in found.items() if name != "data"}


def make_model(
    request: dict[str, Any], limits: Limits, fresh: bool, shared: bool, batch: str, bundles: Any
) -> Outcome:
    """Build a model, and return its bytes and the name that its content has."""
    found = run_job(request, limits, fresh, shared, batch, bundles, None)
    path = found.get("path")
    if found["ok"] and path:
        found |= {"name": Path(path).name, "data": Path(path).read_bytes()}
    return found


def run_job(
    request: dict[str, Any],
    limits: Limits,
    fresh: bool,
    shared: bool,
    batch: str,
    bundles: list[tuple[str, Bundle]],
    model: Outcome | None,
) -> Outcome:
    """Run a job in a process of this worker's."""
    from distributed import get_worker

    here = {"worker": get_worker().address}
    if request["supple"] != supple.__version__:  # one that came later
        return (
            failure(f"{here['worker']}: has supple {supple.__version__}; install the same") | here
        )
    try:
        if model is not None and model.get("data"):
            with suppress(OSError, SuppleError, RuntimeError):  # or the job builds it
                keep_model(model["name"], model["data"])
        if shared:
            return _in_process(request, limits, fresh, batch) | here
        put = dict(bundles)

        def run(folder: Path) -> Outcome:
            words = local_words(request["words"], put, folder)
            for word in words:
                _, mark, inside = word.partition(f"{folder}{os.sep}")
                if mark:
                    (folder / inside).parent.mkdir(parents=True, exist_ok=True)
            own = {**request, "words": words, "source": words[0]}
            return _in_process(own, limits, fresh, batch)

        return in_folder_of_its_own(run) | here
    except (OSError, SuppleError) as error:
        return failure(" ".join(str(error).split())) | here


def _in_process(request: dict[str, Any], limits: Limits, fresh: bool, batch: str) -> Outcome:
    with _lock:
        if batch in _ended:
            return failure("its batch was ended")
        same = [each for each in _idle if each.limits == limits]
        process = same[0] if same else JobProcess(limits)
        if same:
            _idle.remove(process)
        _busy[process] = batch
    try:
        return process.run(request, fresh=fresh)
    finally:
        with _lock:
            if _busy.pop(process, None) is not None:  # or it was ended for good
                _idle.append(process)


def end_jobs(batch: str) -> None:
    """End the jobs of a batch, and processes that wait for jobs."""
    with _lock:
        _ended.add(batch)
        ended = [process for process, own in _busy.items() if own == batch]
        for process in ended:
            del _busy[process]
        ended += _idle
        _idle.clear()
    for process in ended:
        process.end(closed=True)
