"""Tasks on workers of a Dask cluster; each runs its job in a separate process.

Workers import this module, so its imports are few.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import supple
from supple.app.batch.job_process import JobProcess, Limits, Outcome, failure
from supple.app.batch.sent_files import Bundle, in_temporary_folder, keep_model, local_words
from supple.errors import SuppleError

#: Idle processes, and busy processes with the names of their batches.
_idle: list[JobProcess] = []
_busy: dict[JobProcess, str] = {}
#: Batches that were ended; their queued tasks do not start.
_ended: set[str] = set()
_lock = threading.Lock()


def greet(token: str) -> tuple[str, bool]:
    """Return the version of Supple, and whether the file `token` exists on this machine."""
    return supple.__version__, os.path.exists(token)


def held(digest: str, bundle: Bundle) -> tuple[str, Bundle]:
    """Return a hash and its bundle unchanged: Dask repeats lost tasks, but not lost data."""
    return digest, bundle


def without_data(outcome: Outcome) -> Outcome:
    """Return the outcome of a build without the model's bytes."""
    return {name: value for name, value in outcome.items() if name != "data"}


def make_model(
    request: dict[str, Any], limits: Limits, fresh: bool, shared: bool, batch: str, bundles: Any
) -> Outcome:
    """Build a model; the outcome has its bytes and its file name in the cache."""
    outcome = run_job(request, limits, fresh, shared, batch, bundles, None)
    path = outcome.get("path")
    if outcome["ok"] and path:
        outcome |= {"name": Path(path).name, "data": Path(path).read_bytes()}
    return outcome


def run_job(
    request: dict[str, Any],
    limits: Limits,
    fresh: bool,
    shared: bool,
    batch: str,
    bundles: list[tuple[str, Bundle]],
    model: Outcome | None,
) -> Outcome:
    """Run a job in a process of this worker; return its outcome with the worker's address."""
    from distributed import get_worker

    here = {"worker": get_worker().address}
    if request["supple"] != supple.__version__:  # a worker that joined after the first check
        versions = f"has supple {supple.__version__}, but the batch runs {request['supple']}"
        advice = "install the same version on all machines"
        return failure(f"{here['worker']}: {versions}; {advice}") | here
    try:
        if model is not None and model.get("data"):
            with suppress(OSError, SuppleError, RuntimeError):  # the job can build it instead
                keep_model(model["name"], model["data"])
        if shared:
            return _in_process(request, limits, fresh, batch) | here
        bundle_by_digest = dict(bundles)

        def run(folder: Path) -> Outcome:
            words = local_words(request["words"], bundle_by_digest, folder)
            for word in words:
                _, mark, inside = word.partition(f"{folder}{os.sep}")
                if mark:
                    (folder / inside).parent.mkdir(parents=True, exist_ok=True)
            local_request = {**request, "words": words, "source": words[0]}
            return _in_process(local_request, limits, fresh, batch)

        return in_temporary_folder(run) | here
    except (OSError, SuppleError) as error:
        return failure(" ".join(str(error).split())) | here


def _in_process(request: dict[str, Any], limits: Limits, fresh: bool, batch: str) -> Outcome:
    with _lock:
        if batch in _ended:
            return failure("the batch was ended")
        same = [each for each in _idle if each.limits == limits]
        process = same[0] if same else JobProcess(limits)
        if same:
            _idle.remove(process)
        _busy[process] = batch
    try:
        return process.run(request, fresh=fresh)
    finally:
        with _lock:
            if _busy.pop(process, None) is not None:  # None if `end_jobs` has closed it
                _idle.append(process)


def end_jobs(batch: str) -> None:
    """End the jobs of a batch and all idle processes."""
    with _lock:
        _ended.add(batch)
        ended = [process for process, owner in _busy.items() if owner == batch]
        for process in ended:
            del _busy[process]
        ended += _idle
        _idle.clear()
    for process in ended:
        process.end(closed=True)
