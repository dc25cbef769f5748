"""Jobs on a cluster of Dask's: a running one, or one of processes on this machine.

A worker gives each job to a `JobProcess` of its own, so that a job that crashes does not take the
worker along. A model is built once, stays on the cluster, and goes from worker to worker as jobs
need it; so do files, where machines do not share a disk. Whatever a lost worker had is computed
again by Dask; what the scheduler had is asked for anew.
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
from supple.app.batch.dask_tasks import (
    end_jobs,
    greet,
    held,
    make_model,
    run_job,
    without_data,
)
from supple.app.batch.job_process import Limits, Outcome, failure
from supple.app.batch.process_farm import Task
from supple.app.batch.sent_files import bundle_of, sent_words
from supple.errors import SuppleError
from supple.saving import write_whole

#: Seconds that the scheduler may be away, and between looks at workers.
_AWAY, _LOOK = 20.0, 5.0
#: Seconds that a scheduler has to answer at first.
_PATIENCE = 15.0
#: How often a task is asked for anew that was lost with the scheduler, or with its data.
_MOST_LOST = 5


@dataclass(frozen=True)
class Cluster:
    """Cluster that is asked for.

    Attributes
    ----------
    address
        "local", the address of a scheduler, or a scheduler's file (.json).
    files
        Whether machines see the same files: "shared", "sent", or "auto" to ask them.
    count
        Processes of a local cluster.
    tls
        Files of the authority, the certificate and the key; None for none.
    """

    address: str
    files: Literal["auto", "shared", "sent"] = "auto"
    count: int = 1
    tls: tuple[Path | None, Path | None, Path | None] = (None, None, None)


class DaskFarm:
    """Client of a cluster.

    Parameters
    ----------
    cluster
        Where.
    limits
        Of each job.
    folder
        Where results go.
    """

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
            raise SuppleError(
                "--cluster: needs an extra; run pip install 'supple[cluster]'"
            ) from None
        # Jobs that a worker loses are run again; one that takes three workers along is not.
        dask.config.set({"distributed.client.heartbeat": "2s"})
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is told below
        security = _security(cluster.tls)
        if cluster.address == "local" and security is None:
            security = _security_for_now()
        with _plain_errors(cluster.address):
            if cluster.address == "local":
                self._local = distributed.LocalCluster(
                    n_workers=cluster.count,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,  # jobs have processes, and limits, of their own
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
        # A cluster that adapts to its work brings workers when there is a task, and not before.
        with _quiet():
            first = self._client.submit(int, pure=False)
            while not self._threads():
                self._check_scheduler()
                time.sleep(0.2)
                self._looked = -_LOOK
            del first

    def _threads(self) -> dict[str, int]:
        """Return how many tasks each worker does at once, as it was a few seconds ago."""
        now = time.monotonic()
        if now - self._looked > _LOOK:
            with suppress(Exception):  # the scheduler is away; that is seen to elsewhere
                self._workers = dict(self._client.nthreads())
            self._looked = now
        return self._workers

    def _shares(self, files: str) -> bool:
        """Return whether workers see the files that are here; SuppleError for other versions."""
        token = self.folder / f".{os.getpid()}-{time.time_ns()}.seen"
        found: dict[str, tuple[str, bool]] = {}
        token.write_bytes(b"")
        try:
            while not found:  # a worker that came may have gone
                self._wait_for_workers()
                with _plain_errors(self.address):
                    found = self._client.run(greet, str(token))
                self._looked = -_LOOK
        finally:
            token.unlink(missing_ok=True)
        for worker, (version, _) in found.items():
            if version != supple.__version__:
                raise SuppleError(
                    f"{worker}: has supple {version}, and here is {supple.__version__};"
                    " install the same on all machines"
                )
        return all(sees for _, sees in found.values()) if files == "auto" else files == "shared"

    @property
    def slots(self) -> int:
        """Return how many tasks workers do at once."""
        return max(1, sum(self._threads().values()))

    @property
    def most_models(self) -> int:
        """Return how many models may be in use at once: jobs bring theirs along."""
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
        how: dict[str, Any] = {"pure": False, "retries": 0}
        if others:
            how |= {"workers": others, "allow_other_workers": True}
        own = (request, self.limits, task.fresh, self.shared, self._name)
        with _quiet():
            if task.what == "model":
                kept = self._client.submit(make_model, *own, bundles, **how)
                self._models[task.key] = kept
                future = self._client.submit(without_data, kept, pure=False)
            else:
                model = None if task.job is None else self._models.get(task.job.model)
                future = self._client.submit(run_job, *own, bundles, model, **how)
        self._futures[id(task)] = task, future
        future.add_done_callback(lambda done: self._outcomes.put((task, done)))

    def _sent(self, request: dict[str, Any], task: Task) -> list[Any]:
        """Have files on the cluster, and name them in the request by their content."""
        inputs = [task.key] if task.job is None else task.job.inputs()
        words = request.get("words") or [request["source"]]
        request["words"], needed = sent_words(words, inputs, self.folder)
        found = []
        for digest, path in needed.items():
            own = self._bundles.get(digest)
            if own is None or own.status in ("cancelled", "lost", "error"):
                # A task that gives the bytes back, not data: it can be done again.
                now, bundle = bundle_of(path)
                if now != digest:
                    raise SuppleError(f"{path}: was changed while the batch ran; run it again")
                with _quiet():
                    own = self._client.submit(held, digest, bundle, pure=False)
                self._bundles[digest] = own
            found.append(own)
        for digest in list(self._bundles)[: -4 * self.slots - 16]:
            if digest not in needed:
                del self._bundles[digest]
        return found

    def outcome(self) -> tuple[Task, Outcome]:
        """Wait for the next task that is done."""
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
                continue  # of before the scheduler was lost
            del self._futures[id(task)]
            found = self._told(task, done)
            if found is not None:
                return task, found

    def _told(self, task: Task, future: Any) -> Outcome | None:
        """Return how a task went; None if it was lost, and is asked for anew."""
        status = future.status
        while status == "finished":
            try:
                found: Outcome = future.result(timeout=60)
            except TimeoutError:  # a large result on a slow line
                self._check_scheduler()
            except Exception:  # the worker that had it went before we did
                status = "lost"
            else:
                return self._written(found)
        if status == "error":
            error = future.exception(timeout=60)
            if type(error).__name__ == "KilledWorker":
                return failure("its workers were lost, one after the other; is there memory?")
            if type(error).__name__ not in ("FutureCancelledError", "CancelledError"):
                return failure(f"{type(error).__name__}: {error}")
        self._check_scheduler()
        self._lost[task.key] = self._lost.get(task.key, 0) + 1
        if self._lost[task.key] > _MOST_LOST:
            return failure("was lost by the cluster again and again; is the scheduler well?")
        model = "" if task.job is None else task.job.model
        built = self._models.get(model)
        if built is not None and built.status in ("cancelled", "lost"):
            del self._models[model]  # a job finds the model where it is, or builds it
        time.sleep(0.2)
        self.submit(task)
        return None

    def _written(self, found: Outcome) -> Outcome:
        """Write the files that a job sent back."""
        sent = found.pop("sent", {})
        for name, data in sent.items():
            place = os.path.normpath(self.folder / name)
            if not place.startswith(f"{os.path.normpath(self.folder)}{os.sep}"):
                return failure(f"{name[:60]}: leads out of the output folder")
            try:
                os.makedirs(os.path.dirname(place), exist_ok=True)
                write_whole(place, data)
            except (OSError, SuppleError) as error:
                return failure(str(error))
        if sent:
            found["names"] = sorted(sent)
        return found

    def _check_scheduler(self) -> None:
        """Raise if the scheduler has been away for long."""
        began = time.monotonic()
        while self._client.status != "running":
            if self._client.status == "closed" or time.monotonic() - began > _AWAY:
                raise SuppleError(
                    f"the scheduler at {self.address} is gone; start it, and run the same command"
                    " again: it goes on with what is missing"
                )
            time.sleep(0.1)

    def release(self, model: str) -> None:
        """Let the cluster forget a model."""
        self._models.pop(model, None)

    def close(self) -> None:
        """End what jobs are left, and leave the cluster; end it if it is ours."""
        left = [future for _, future in self._futures.values()]
        self._futures, self._models, self._bundles = {}, {}, {}
        with suppress(Exception), _quiet():
            if self._client.status == "running":
                self._client.cancel(left)  # those that wait; those that run have processes
                self._client.run(end_jobs, self._name)
        for each in (self._client, self._local):
            with suppress(Exception), _quiet():
                if each is not None:
                    each.close(timeout=5)


def _security_for_now() -> Any:
    """Return keys for a cluster of our own, so that others on this machine cannot use it."""
    from distributed.security import Security

    try:
        return Security.temporary()
    except ImportError:  # without cryptography
        return None


def _security(tls: tuple[Path | None, Path | None, Path | None]) -> Any:
    if not any(tls):
        return None
    from distributed.security import Security

    for file in tls:
        if file is not None and not file.is_file():
            raise SuppleError(f"{file}: there is no such file, for TLS")
    authority, certificate, key = (None if each is None else str(each) for each in tls)
    told = {
        "tls_ca_file": authority,
        "tls_client_cert": certificate,
        "tls_client_key": key,
        "tls_scheduler_cert": certificate,
        "tls_scheduler_key": key,
        "tls_worker_cert": certificate,
        "tls_worker_key": key,
    }
    given = {name: value for name, value in told.items() if value is not None}
    return Security(require_encryption=True, **given)


@contextmanager
def _plain_errors(address: str) -> Iterator[None]:
    """Turn what goes wrong with a cluster into one line."""
    try:
        with _quiet():
            yield
    except SuppleError:
        raise
    except Exception as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise SuppleError(f"--cluster {address}: {why}; is a scheduler there?") from None


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
