"""Units on a Dask cluster: processes of this machine, or the workers of a scheduler.

Workers and schedulers can be lost; every wait has a limit.
"""

import json
import logging
import math
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.machine import load_library
from msbgen.data.files import followed, open_private
from msbgen.output.batch.execute import (
    ExecutionConfig,
    Unit,
    attempts,
    clear_attempts,
    execute,
    lost_message,
    timed_out,
    timeout_message,
)
from msbgen.output.batch.job import Facts
from msbgen.output.batch.manifest import FAILED, LOST
from msbgen.output.batch.pool import ClusterError

_log = logging.getLogger("msbgen")

# Longest waits [s]: for the start of a cluster, an answer of its scheduler, its end, the return of
# a lost scheduler, of a lost worker; and, beyond the time limit of a unit, for the next one to end.
_START, _ANSWER, _END, _GONE, _AWAY, _GRACE = 120.0, 30.0, 15.0, 20.0, 20.0, 60.0
# Attempts to start a cluster of this machine.
_STARTS = 3
# Errors that would repeat at every start.
_MISTAKES = (TypeError, AttributeError, NameError, ImportError)
# Intervals of checks for the scheduler and for the number of workers [s].
_LOOK, _COUNT = 0.5, 5.0
# Units submitted for each worker thread: one runs, one waits.
_EACH = 2
# The longest scheduler file [bytes].
_MOST_BYTES = 10**6


class DaskPool:
    """Executes units on the workers of a Dask cluster.

    The scheduler is ``local:N`` for N processes of this machine, the address of a scheduler, such
    as ``tls://head:8786``, or its scheduler file.  Raises :class:`ClusterError` where the cluster
    does not start or its scheduler does not answer.
    """

    def __init__(self, scheduler: str, config: ExecutionConfig):
        self._distributed = load_library("distributed", "dist", "--scheduler")
        self._scheduler = scheduler
        self._local = check_scheduler(scheduler)
        self._config = replace(config, worker=True)
        self._units: dict[str, tuple[Unit, Any]] = {}
        self._ended: queue.Queue[Any] = queue.Queue()
        self._serial = 0
        self._threads, self._counted, self._short_since = 0, -math.inf, math.inf
        self._cluster: Any = None
        self._client: Any = None
        self._levels = _silence_libraries()
        # a folder that other users share could be exchanged by one of them
        self._scratch = tempfile.TemporaryDirectory(prefix="msbgen-batch-")
        self._start()
        if not self._local and not self._client.scheduler_info()["address"].startswith("tls://"):
            _log.warning(
                "the scheduler '%s' runs programs of every user who can reach its port, under your "
                "account; start it with TLS.",
                scheduler,
            )

    def _start(self) -> None:
        config = load_library("dask.config", "dist", "--scheduler")
        # units count their own attempts; units lost with another one are repeated here
        settings = {"distributed.scheduler.allowed-failures": self._config.retries}
        problem = "no cluster started on this machine."
        for left in reversed(range(_STARTS if self._local else 1)):
            try:
                if self._local:
                    with config.set(settings):
                        self._cluster = _within(_START, self._start_workers, problem)
                self._client = _within(_START, self._connect, self._no_answer)
                return
            except ClusterError as error:
                self._end()
                if isinstance(error.__cause__, _MISTAKES):
                    raise error.__cause__ from None
                if not left:  # a worker that dies at its start ends the cluster
                    raise

    def _start_workers(self) -> Any:
        # only this process handles interrupts, and ends its workers.  Threads and processes inherit
        # the signal mask of this thread; the resource tracker must start before, or it would
        # change the mask
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        from msbgen.output.batch.local_cluster import start_cluster

        return start_cluster(self._local, self._scratch.name)

    def _connect(self) -> Any:
        if self._cluster is not None:
            return self._distributed.Client(self._cluster, timeout=_ANSWER, set_as_default=False)
        # a restarted scheduler has written its file anew
        address = _address_in_file(self._scheduler) or self._scheduler
        return self._distributed.Client(address, timeout=_ANSWER, set_as_default=False)

    @property
    def _no_answer(self) -> str:
        return (
            f"the scheduler '{self._scheduler}' does not answer; restart it and continue with "
            f"--resume."
        )

    def room(self) -> int:
        """See :class:`msbgen.output.batch.pool.Pool`: two units for each thread."""
        self._count()
        return _EACH * max(self._threads, 1) - len(self._units)

    def _count(self) -> None:
        """Count the workers' threads at intervals.

        Raises where workers of this machine are missing: Dask does not restart one that dies at its
        start.
        """
        now = time.monotonic()
        if now < self._counted + _COUNT:
            return
        self._counted = now
        with suppress(ClusterError):  # a missing scheduler is detected elsewhere
            threads = _within(_ANSWER, self._client.nthreads, "no answer.")
            self._threads = sum(threads.values())
        if self._threads >= self._local:
            self._short_since = math.inf
            return
        self._short_since = min(self._short_since, now)
        if now > self._short_since + _AWAY:
            self._short_since = math.inf
            raise ClusterError("workers of this machine were not restarted.", suspect=False)

    def submit(self, unit: Unit) -> None:
        """See :class:`msbgen.output.batch.pool.Pool`."""
        clear_attempts(unit)
        self._submit(unit)

    def _submit(self, unit: Unit) -> None:
        self._serial += 1
        key = f"{unit.key}#{self._serial}"
        future = self._client.submit(
            execute_alone, unit, self._config, key=key, pure=False, retries=0
        )
        self._units[key] = unit, future
        future.add_done_callback(self._ended.put)

    def collect(self) -> list[tuple[Unit, Facts]]:
        """See :class:`msbgen.output.batch.pool.Pool`."""
        until = time.monotonic() + self._config.timeout + _GRACE
        gone = math.inf
        while time.monotonic() < until:
            try:
                future = self._ended.get(timeout=_LOOK)
            except queue.Empty:
                self._count()
                there = self._client.status == "running" and self._client.scheduler is not None
                gone = math.inf if there else min(gone, time.monotonic() + _GONE)
                if time.monotonic() > gone:
                    raise ClusterError(self._no_answer) from None
                continue
            answered = self._answer(future)
            if answered is not None:
                return [answered]
        raise ClusterError(
            f"no unit ended within {self._config.timeout + _GRACE:g} s: the workers are lost or "
            f"do not answer."
        )

    def _answer(self, future: Any) -> tuple[Unit, Facts] | None:
        """Result of a future; None where its unit is repeated."""
        if future.key not in self._units:  # of an earlier cluster
            return None
        unit, _ = self._units.pop(future.key)
        try:
            if future.status == "finished":
                return unit, future.result(timeout=_ANSWER)
            error = future.exception(timeout=_ANSWER) if future.status == "error" else None
        except Exception as failure:
            error = failure
        killed = self._distributed.KilledWorker
        if error is not None and not isinstance(error, (killed, TimeoutError, OSError)):
            message = f"could not be sent to a worker, {type(error).__name__}: {error}"
            return unit, {"outcome": FAILED, "error": message[:600]}
        begun, late = attempts(unit), timed_out(unit)
        # lost with another unit, or with attempts left
        if begun <= self._config.retries and not late:
            self._submit(unit)
            return None
        clear_attempts(unit)
        outcome = FAILED if late else LOST
        message = timeout_message(self._config) if late else lost_message(begun)
        return unit, {"outcome": outcome, "attempt": begun, "error": message}

    def renew(self) -> list[Unit]:
        """See :class:`msbgen.output.batch.pool.Pool`."""
        lost = [unit for unit, _ in self._units.values()]
        self._units.clear()
        self._end()
        self._start()
        return lost

    def close(self) -> None:
        """See :class:`msbgen.output.batch.pool.Pool`; ends workers of this machine."""
        self._units.clear()
        self._end()
        self._scratch.cleanup()
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)

    def _end(self) -> None:
        client, cluster = self._client, self._cluster
        self._client = self._cluster = None
        for one in (client, cluster):
            if one is not None:
                try:
                    _within(_END, lambda one=one: one.close(timeout=_END / 2), "it does not end.")
                except ClusterError:
                    _abandon(one)


def execute_alone(unit: Unit, config: ExecutionConfig) -> Facts:
    """Execute a unit on a worker, whose writers of arrays need no cluster.

    They would begin a client of the worker's own, which outlives a scheduler that is ended.
    """
    from dask import config as dask_config

    with dask_config.set(scheduler="synchronous"):
        return execute(unit, config)


def check_scheduler(scheduler: str) -> int:
    """Number of processes of this machine; 0 for a scheduler.  Raises for any other text."""
    for library in ("distributed", "cryptography"):
        load_library(library, "dist", "--scheduler")
    kind, _, rest = scheduler.partition(":")
    if kind != "local":
        if "://" not in scheduler and not _address_in_file(scheduler):
            raise ArgumentError(
                f"scheduler is '{scheduler}'; local:N, an address such as tls://head:8786 or an "
                f"existing scheduler file is wanted."
            )
        return 0
    if not (rest.isascii() and rest.isdigit() and 1 <= int(rest) <= 1000):
        raise ArgumentError(f"scheduler is '{scheduler}'; local:N with N ≥ 1 is wanted.")
    return int(rest)


def _address_in_file(scheduler: str) -> str:
    """The address in a scheduler file; empty where the text names none.

    ArgumentError where other users could have written the file: their scheduler could run any
    program under this user's account.
    """
    try:
        path = Path(scheduler)
        if not path.is_file():
            return ""
        with open(followed(path), "rb", opener=open_private) as stream:
            content = json.loads(stream.read(_MOST_BYTES))
    except ProfileError:
        raise ArgumentError(
            f"scheduler is '{scheduler}', a file that other users can write; one of yours that "
            f"they cannot write (chmod go-w) is wanted."
        ) from None
    except (OSError, ValueError, RecursionError):
        return ""
    address = content.get("address") if isinstance(content, dict) else None
    return address if isinstance(address, str) else ""


def _within(seconds: float, act: Callable[[], Any], problem: str) -> Any:
    """Result of a call; raises :class:`ClusterError` after `seconds`, or if it fails."""
    answer: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(act())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    try:
        thread.start()
        thread.join(seconds)
    except BaseException:  # an interrupt
        thread.join(_END)
        for one in answer:
            _abandon(one)
        raise
    if answer:
        return answer[0]
    cause = errors[0] if errors else None
    why = str(cause) if cause else ""
    raise ClusterError(f"{problem}{f' ({why[:300]})' if why else ''}") from cause


def _abandon(one: Any) -> None:
    """Leave a client or cluster to the end of this process, which ends its processes.

    Its destructor would close it again, after its event loop has ended.
    """
    if hasattr(one, "status"):
        one.status = "closed"


def _silence_libraries() -> dict[str, int]:
    """Silence the libraries about lost workers, which the batch reports; returns the old levels."""
    names = ("distributed", "distributed.nanny", "distributed.worker", "distributed.scheduler")
    names += ("distributed.comm", "distributed.client", "tornado.application", "bokeh")
    before = {}
    for name in names:
        logger = logging.getLogger(name)
        before[name] = logger.level
        logger.setLevel(logging.CRITICAL)
    return before
