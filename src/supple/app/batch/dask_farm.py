"""Jobs on a Dask cluster: a running cluster, or processes on this machine.

A worker runs each job in a separate `JobProcess`, so that a crash of the job does not end the
worker. A model is built once, stays on the cluster and is copied to the workers that need it. So
are files, if the machines do not share a disk. Dask computes the data of a lost worker again; tasks
of a lost scheduler are submitted again.
"""

from __future__ import annotations

import logging
import os
import queue
import secrets
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import supple
from supple.app.batch.dask_tasks import end_jobs, greet, held, make_model, run_job, without_data
from supple.app.batch.job_process import Limits, Outcome, failure
from supple.app.batch.process_farm import Task
from supple.app.batch.sent_files import bundle_of, sent_words
from supple.errors import SuppleError
from supple.saving import write_whole

#: Seconds that the scheduler may be unreachable, and seconds between queries of the workers.
_AWAY, _LOOK = 20.0, 5.0
#: Timeout of the first connection to the scheduler, in seconds.
_PATIENCE = 15.0
#: How often a task is submitted again if the cluster lost it.
_MOST_LOST = 5


@dataclass(frozen=True)
class Cluster:
    """Address of a Dask cluster and how to use it.

    `address` is "local", the address of a scheduler, or a scheduler file (.json); `files` states
    whether machines share a disk ("auto" tests it); `count` is the number of processes of a local
    cluster; `tls` has the files of the authority, the certificate and the key.
    """

    address: str
    files: Literal["auto", "shared", "sent"] = "auto"
    count: int = 1
    tls: tuple[Path | None, Path | None, Path | None] = (None, None, None)


class DaskFarm:
    """Farm that runs tasks on a Dask cluster and writes their results into a folder."""

    def __init__(self, cluster: Cluster, limits: Limits, folder: Path) -> None:
        self.limits, self.folder, self.address = limits, folder, cluster.address
        self._local: Any = None
        self._name = secrets.token_hex(8)
        self._client = self._connected(cluster)
        self._outcomes: queue.SimpleQueue[tuple[Task, Any]] = queue.SimpleQueue()
        self._futures: dict[int, tuple[Task, Any]] = {}
        self._models: dict[str, Any] = {}
        self._bundles: dict[str, Any] = {}
        self._lost: dict[str, int] = {}
        self._workers: dict[str, int] = {}
        self._looked = -_LOOK
        try:
            self.shared = self._shares(cluster.files)
        except BaseException:
            self.close()
            raise

    def _connected(self, cluster: Cluster) -> Any:
        try:
            import dask
            import distributed
        except ImportError:
            advice = "run pip install 'supple[cluster]'"
            raise SuppleError(f"--cluster needs the package distributed; {advice}") from None
        # Dask runs a task again if its worker is lost, and gives it up after three lost workers.
        dask.config.set({"distributed.client.heartbeat": "2s"})
        # Errors that matter to the user are raised below.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        security = _security(cluster.tls)
        if cluster.address == "local" and security is None:
            security = _temporary_security()
        with _plain_errors(cluster.address):
            if cluster.address == "local":
                self._local = distributed.LocalCluster(
                    n_workers=cluster.count,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,  # each job has a process with a limit
                    dashboard_address=None,
                    silence_logs=50,
                    **({} if security is None else {"security": security, "protocol": "tls://"}),
                )
                return distributed.Client(self._local, security=security)
            where = {"address": cluster.address}
            if cluster.address.lower().endswith(".json"):
                if not Path(cluster.address).is_file():
                    raise SuppleError(f"--cluster {cluster.address}: there is no such file")
                where = {"scheduler_file": cluster.address}
            return distributed.Client(**where, security=security, timeout=_PATIENCE)

    def _wait_for_workers(self) -> None:
        if self._threads():
            return
        # An adaptive cluster starts workers only if there is a task.
        with _quiet():
            first = self._client.submit(int, pure=False)
            while not self._threads():
                self._check_scheduler()
                time.sleep(0.2)
                self._looked = -_LOOK
            del first

    def _threads(self) -> dict[str, int]:
        """Return the number of threads of each worker, queried every few seconds."""
        now = time.monotonic()
        if now - self._looked > _LOOK:
            with suppress(Exception):  # `_check_scheduler` handles a missing scheduler
                self._workers = dict(self._client.nthreads())
            self._looked = now
        return self._workers

    def _shares(self, files: str) -> bool:
        """Return whether workers can read our files; SuppleError if Supple's versions differ."""
        token = self.folder / f".{os.getpid()}-{time.time_ns()}.seen"
        replies: dict[str, tuple[str, bool]] = {}
        token.write_bytes(b"")
        try:
            while not replies:  # the worker may have disconnected
                self._wait_for_workers()
                with _plain_errors(self.address):
                    replies = self._client.run(greet, str(token))
                self._looked = -_LOOK
        finally:
            token.unlink(missing_ok=True)
        for worker, (version, _) in replies.items():
            if version != supple.__version__:
                raise SuppleError(
                    f"{worker}: has supple {version}, but this machine has {supple.__version__};"
                    " install the same version on all machines"
                )
        return all(sees for _, sees in replies.values()) if files == "auto" else files == "shared"

    @property
    def slots(self) -> int:
        """Return the number of tasks that the workers run in parallel."""
        return max(1, sum(self._threads().values()))

    @property
    def most_models(self) -> int:
        """Return the largest number of models in use at once."""
        return 20 + self.slots

    def submit(self, task: Task) -> None:
        """Send a task to the cluster."""
        request, bundles = dict(task.request) | {"supple": supple.__version__}, []
        try:
            if not self.shared:
                bundles = self._sent(request, task)
        except SuppleError as error:
            self._outcomes.put((task, failure(str(error))))
            return
        others = [each for each in self._threads() if each != task.avoid] if task.avoid else []
        placement: dict[str, Any] = {"pure": False, "retries": 0}
        if others:
            placement |= {"workers": others, "allow_other_workers": True}
        job = (request, self.limits, task.fresh, self.shared, self._name)
        with _quiet():
            if task.what == "model":
                kept = self._client.submit(make_model, *job, bundles, **placement)
                self._models[task.key] = kept
                future = self._client.submit(without_data, kept, pure=False)
            else:
                model = None if task.job is None else self._models.get(task.job.model)
                future = self._client.submit(run_job, *job, bundles, model, **placement)
        self._futures[id(task)] = task, future
        future.add_done_callback(lambda done: self._outcomes.put((task, done)))

    def _sent(self, request: dict[str, Any], task: Task) -> list[Any]:
        """Send input files; name them by content hash in `request`, and return their futures."""
        inputs = [task.key] if task.job is None else task.job.inputs()
        words = request.get("words") or [request["source"]]
        request["words"], needed = sent_words(words, inputs, self.folder)
        futures = []
        for digest, path in needed.items():
            future = self._bundles.get(digest)
            if future is None or future.status in ("cancelled", "lost", "error"):
                # A task that returns the bytes: unlike scattered data, Dask can compute it again.
                now, bundle = bundle_of(path)
                if now != digest:
                    raise SuppleError(f"{path}: changed while the batch ran; run the batch again")
                with _quiet():
                    future = self._client.submit(held, digest, bundle, pure=False)
                self._bundles[digest] = future
            futures.append(future)
        for digest in list(self._bundles)[: -4 * self.slots - 16]:
            if digest not in needed:
                del self._bundles[digest]
        return futures

    def outcome(self) -> tuple[Task, Outcome]:
        """Wait for the next finished task; return it and its outcome."""
        while True:
            try:
                task, done = self._outcomes.get(timeout=0.5)
            except queue.Empty:
                self._check_scheduler()
                continue
            if isinstance(done, dict):
                return task, done
            current = self._futures.get(id(task))
            if current is None or current[1] is not done:
                continue  # submitted before the scheduler was lost
            del self._futures[id(task)]
            outcome = self._result(task, done)
            if outcome is not None:
                return task, outcome

    def _result(self, task: Task, future: Any) -> Outcome | None:
        """Return the outcome of a task; None if it was lost and submitted again."""
        status = future.status
        while status == "finished":
            try:
                outcome: Outcome = future.result(timeout=60)
            except TimeoutError:  # a large result on a slow network
                self._check_scheduler()
            except Exception:  # the worker with the result disconnected
                status = "lost"
            else:
                return self._written(outcome)
        if status == "error":
            error = future.exception(timeout=60)
            if type(error).__name__ == "KilledWorker":
                return failure("three workers were lost while running it; give them more memory")
            if type(error).__name__ not in ("FutureCancelledError", "CancelledError"):
                return failure(f"{type(error).__name__}: {error}")
        self._check_scheduler()
        self._lost[task.key] = self._lost.get(task.key, 0) + 1
        if self._lost[task.key] > _MOST_LOST:
            return failure(f"the cluster lost the job {_MOST_LOST + 1} times; check the scheduler")
        model = "" if task.job is None else task.job.model
        built = self._models.get(model)
        if built is not None and built.status in ("cancelled", "lost"):
            del self._models[model]  # the job loads the model from a cache, or builds it
        time.sleep(0.2)
        self.submit(task)
        return None

    def _written(self, outcome: Outcome) -> Outcome:
        """Write the files in an outcome; return the outcome with their names, or a failure."""
        sent = outcome.pop("sent", {})
        for name, data in sent.items():
            place = os.path.normpath(self.folder / name)
            if not place.startswith(f"{os.path.normpath(self.folder)}{os.sep}"):
                return failure(f"{name[:60]}: the job returned a file outside the output folder")
            try:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                write_whole(place, data)
            except (OSError, SuppleError) as error:
                return failure(str(error))
        if sent:
            outcome["names"] = sorted(sent)
        return outcome

    def _check_scheduler(self) -> None:
        """Raise SuppleError if the scheduler stays unreachable."""
        began = time.monotonic()
        while self._client.status != "running":
            if self._client.status == "closed" or time.monotonic() - began > _AWAY:
                raise SuppleError(
                    f"the scheduler at {self.address} is gone; start it, and run the same command"
                    " again to resume"
                )
            time.sleep(0.1)

    def release(self, model: str) -> None:
        """Release a model on the cluster."""
        self._models.pop(model, None)

    def close(self) -> None:
        """Cancel the remaining jobs and disconnect; shut down a local cluster."""
        unfinished = [future for _, future in self._futures.values()]
        self._futures, self._models, self._bundles = {}, {}, {}
        with suppress(Exception), _quiet():
            if self._client.status == "running":
                self._client.cancel(unfinished)  # waiting tasks; running tasks have processes
                self._client.run(end_jobs, self._name)
        for each in (self._client, self._local):
            with suppress(Exception), _quiet():
                if each is not None:
                    each.close(timeout=5)


def _temporary_security() -> Any:
    """Return temporary keys of a local cluster, so that other users of the machine are locked out.

    None without the package `cryptography`.
    """
    from distributed.security import Security

    try:
        return Security.temporary()
    except ImportError:
        return None


def _security(tls: tuple[Path | None, Path | None, Path | None]) -> Any:
    if not any(tls):
        return None
    from distributed.security import Security

    for file in tls:
        if file is not None and not file.is_file():
            raise SuppleError(f"{file}: there is no such file")
    authority, certificate, key = (None if each is None else str(each) for each in tls)
    fields = {"tls_ca_file": authority}
    for role in ("client", "scheduler", "worker"):
        fields |= {f"tls_{role}_cert": certificate, f"tls_{role}_key": key}
    used = {name: value for name, value in fields.items() if value is not None}
    return Security(require_encryption=True, **used)


@contextmanager
def _plain_errors(address: str) -> Iterator[None]:
    """Raise errors of a cluster as SuppleError of one line."""
    try:
        with _quiet():
            yield
    except SuppleError:
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise SuppleError(f"--cluster {address}: {why}; check the scheduler there") from None


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
