"""Run a batch: all units of all tasks; failures do not stop other units; resumable.

A unit is recorded in the manifest after its files are in place.  After an interruption, at most the
running units are repeated.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress
from msbgen.data.files import deferred_signals, followed, remove_all_abandoned
from msbgen.data.journal import Journal, Record
from msbgen.output.batch import job as jobs
from msbgen.output.batch.execute import BatchStep, ExecutionConfig, Unit, describe_os_error
from msbgen.output.batch.index import write_index
from msbgen.output.batch.job import Facts, Job
from msbgen.output.batch.manifest import LOST, open_manifest, unit_record
from msbgen.output.batch.pool import ClusterError, LocalPool, Pool
from msbgen.output.batch.state import EarlierTask, TaskState
from msbgen.output.batch.tasks import BatchTask

_log = logging.getLogger("msbgen")

# Consecutive losses of a cluster, without a finished unit, before the batch ends.
_MOST_CLUSTERS = 3
# Most tasks in progress: their intermediate files take disk space.
_UNDER_WAY = 64


class BatchIncompleteError(RuntimeError):
    """Some units failed; all others are done.  Each problem is one sentence."""

    def __init__(self, *problems: str):
        super().__init__(" ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class BatchResult:
    """Result of a batch."""

    out: Path
    states: Sequence[TaskState]  # of each task, in order
    executed: int  # units executed in this call
    problems: tuple[str, ...] = ()  # failures other than units, one sentence each

    @property
    def failures(self) -> list[Record]:
        """Units that failed."""
        return [record for state in self.states for record in state.failures]

    def describe(self) -> str:
        """Number of complete tasks, in a sentence."""
        done, n = sum(state.is_complete for state in self.states), len(self.states)
        tasks = "task is" if n == 1 else "tasks are"
        units = "unit was" if self.executed == 1 else "units were"
        return f"{done} of {n} {tasks} complete; {self.executed} {units} carried out"

    def complete(self) -> None:
        """Raise :class:`BatchIncompleteError` if something failed."""
        problems = [f"{r['task']}, {r['unit']}: {r['error']}" for r in self.failures]
        if problems or self.problems:
            raise BatchIncompleteError(*problems, *self.problems)


def run_batch(
    tasks: Sequence[BatchTask],
    out: Path,
    config: ExecutionConfig,
    *,
    scheduler: str = "",
    resume: bool = False,
    zarr: bool = False,
    models: bool = False,
    block: int | None = None,
    progress: OnProgress | None = None,
) -> BatchResult:
    """Fit every task, generate its profiles and run its steps.

    The folder `out` is created if its parent exists.  With `resume`, finished units with unchanged
    inputs are kept.  The result includes failures; its `complete` raises them.  For `scheduler`
    see :class:`msbgen.output.batch.cluster.DaskPool` ("" for this process), for `zarr`, `models`
    and `block` :class:`msbgen.output.batch.job.Job`; `progress` is called with (done, total) tasks.

    Raises
    ------
    ArgumentError
        An unknown step; an invalid scheduler, or a missing extra; an existing batch without
        `resume`, or with other settings or another version.
    ProfileError
        The manifest is damaged.
    ClusterError
        The scheduler is lost; finished units are recorded.
    OSError
        The manifest cannot be written, for example on a full disk.
    """
    steps = {task.name: _steps_of(task, config.steps) for task in tasks}
    out = followed(out)
    if scheduler:
        from msbgen.output.batch.cluster import check_scheduler

        check_scheduler(scheduler)  # before anything is written
    journal = open_manifest(out, tasks, {"zarr": zarr, "models": models}, resume=resume)
    states: list[TaskState] = []
    earlier: list[EarlierTask] = []
    try:
        by_task: dict[str, list[Record]] = {}
        for record in journal.records[1:]:
            by_task.setdefault(record["task"], []).append(record)
        for task in tasks:
            job = Job(task, out, zarr, models, block)
            states.append(TaskState(job, steps[task.name], by_task.pop(task.name, ())))
        for name, records in by_task.items():
            earlier.append(EarlierTask(name, out / name, records, list(config.steps)))
        executed = 0
        if not all(state.is_over for state in states):
            pool = _pool(scheduler, config)
            try:
                executed = _Run(pool, states, journal, config.retries, progress).run()
            finally:
                with deferred_signals():  # libraries print their own errors where they are stopped
                    pool.close()
                jobs.clear_caches()
    except BaseException as error:
        with suppress(OSError):  # the cause is raised even if the index cannot be written
            write_index(out, [*states, *earlier])
        if not isinstance(error, Exception):  # exceptions have their own message
            _log.warning("%s: finished units are kept; continue with --resume.", out)
        raise
    finally:
        journal.close()
        _tidy(out, states)
    try:
        write_index(out, [*states, *earlier])
    except OSError as error:
        return BatchResult(out, states, executed, (f"index: {describe_os_error(error)}",))
    return BatchResult(out, states, executed)


def _tidy(out: Path, states: Sequence[TaskState]) -> None:
    """Remove the intermediate files of complete tasks, and what ended workers did not finish."""
    for state in states:
        for folder in (state.job.scratch, state.job.folder):
            remove_all_abandoned(folder)
        if state.is_complete:
            jobs.clear(state.job)
    with suppress(OSError):  # incomplete tasks still need it
        (out / jobs.SCRATCH).rmdir()


def _steps_of(task: BatchTask, steps: Mapping[str, BatchStep]) -> dict[str, BatchStep]:
    """Steps of a task, in the order of all steps."""
    wanted = task.settings.steps
    unknown = [name for name in wanted if name != "all" and name not in steps]
    if unknown:
        raise ArgumentError(
            f"task '{task.name}' has the step '{unknown[0][:60]}'; use {', '.join(steps)}, or all."
        )
    return {name: step for name, step in steps.items() if "all" in wanted or name in wanted}


def _pool(scheduler: str, config: ExecutionConfig) -> Pool:
    if not scheduler:
        return LocalPool(config)
    from msbgen.output.batch.cluster import DaskPool

    return DaskPool(scheduler, config)


class _Run:
    """Submits units to a pool and records them as they end."""

    def __init__(
        self,
        pool: Pool,
        states: Sequence[TaskState],
        journal: Journal,
        retries: int,
        progress: OnProgress | None,
    ):
        self._pool, self._journal, self._retries = pool, journal, retries
        self._progress: Callable[[int, int], None] = progress or (lambda done, total: None)
        waiting = [state for state in states if not state.is_over]
        self._done = len(states) - len(waiting)
        self._waiting = iter(waiting)
        self._open: list[TaskState] = []
        self._by_task = {state.job.task.name: state for state in states}
        self._lost: dict[str, int] = {}
        self._executed = 0

    def run(self) -> int:
        """Execute all units; returns their number."""
        in_a_row = 0
        while True:
            self._open = [state for state in self._open if not self._close(state)]
            self._open += islice(self._waiting, max(_UNDER_WAY - len(self._open), 0))
            try:
                for unit in islice(self._next_units(), max(self._pool.room(), 0)):
                    self._by_task[unit.job.task.name].running.add(unit.name)
                    self._pool.submit(unit)
                if not any(state.running for state in self._open):
                    if not self._open:
                        return self._executed
                    continue
                for unit, fields in self._pool.collect():
                    self._note(unit, fields)
                    in_a_row = 0
                    if fields["outcome"] == LOST:
                        self._restart("a unit has lost its worker too often", suspect=False)
            except ClusterError as error:
                in_a_row += 1
                if in_a_row >= _MOST_CLUSTERS:
                    raise
                self._restart(str(error), suspect=error.suspect)

    def _next_units(self) -> Iterator[Unit]:
        for state in self._open:
            yield from state.next_units()

    def _close(self, state: TaskState) -> bool:
        """Whether a task is over; its intermediate files are then removed."""
        if not state.is_over:
            return False
        if state.is_complete:
            jobs.clear(state.job)
        self._done += 1
        self._progress(self._done, len(self._by_task))
        return True

    def _note(self, unit: Unit, fields: Facts) -> None:
        task = unit.job.task
        found = (
            fields.get("facts") or unit.facts
        )  # the fit hashes the inputs; other units get the hash
        values = {"input": found.get("input", unit.facts.get("input", "")), **fields}
        record = unit_record(task, unit.name, str(fields["outcome"]), values)
        self._journal.append(record)
        self._by_task[task.name].end(record)
        self._executed += 1

    def _restart(self, why: str, *, suspect: bool) -> None:
        """Start a fresh cluster for the unfinished units of the last one.

        If `suspect`, any running unit may have caused the loss, and the loss counts as an attempt
        of each.
        """
        _log.warning("starting a fresh cluster: %s", why)
        for unit in self._pool.renew():
            self._lost[unit.key] = self._lost.get(unit.key, 0) + suspect
            if self._lost[unit.key] > self._retries:
                fields = {"outcome": LOST, "attempt": self._lost[unit.key], "error": why}
                self._note(unit, fields)
            else:
                self._by_task[unit.job.task.name].running.discard(unit.name)
