"""A batch: every unit of every task, whatever happens to some of them, resumable.

The manifest is behind the results: a unit is noted once its files are where they belong.  So
whatever happens, what is noted is there, and at most what was going on is done again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from msbgen.batch import job as jobs
from msbgen.batch.execute import BatchStep, ExecutionConfig, Unit, describe_os_error
from msbgen.batch.index import write_index
from msbgen.batch.job import Facts, Job
from msbgen.batch.manifest import LOST, open_manifest, unit_record
from msbgen.batch.pool import ClusterError, LocalPool, Pool
from msbgen.batch.state import EarlierTask, TaskState
from msbgen.batch.tasks import BatchTask
from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress
from msbgen.data.journal import Journal, Record

_log = logging.getLogger("msbgen")

# Times that a cluster may be lost without a unit having ended between.
_MOST_CLUSTERS = 3
# Tasks that are under way at most: what their units leave for one another takes room.
_UNDER_WAY = 64


class BatchIncompleteError(RuntimeError):
    """Some units failed; the others are done.

    Attributes
    ----------
    problems : tuple of str
        A sentence each.
    """

    def __init__(self, *problems: str):
        super().__init__(" ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class BatchResult:
    """What a batch has come to.

    Attributes
    ----------
    out : Path
    states : sequence of TaskState
        Of every task, in their order.
    executed : int
        Units that were, this time.
    problems : tuple of str
        Sentences on what failed beside units.
    """

    out: Path
    states: Sequence[TaskState]
    executed: int
    problems: tuple[str, ...] = ()

    @property
    def failures(self) -> list[Record]:
        """Units that failed."""
        return [record for state in self.states for record in state.failures]

    def describe(self) -> str:
        """How many tasks are complete."""
        done, n = sum(state.is_complete for state in self.states), len(self.states)
        tasks = "task is" if n == 1 else "tasks are"
        units = "unit was" if self.executed == 1 else "units were"
        return f"{done} of {n} {tasks} complete; {self.executed} {units} carried out"

    def complete(self) -> None:
        """Raise :class:`BatchIncompleteError` where something failed."""
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
    """Fit every task, generate its profiles, and carry out the steps that it wants.

    Parameters
    ----------
    tasks : sequence of BatchTask
    out : Path
        Folder of the results, made where its parent is; one folder a task, the manifest, an index.
    config : ExecutionConfig
    scheduler : str
        As :class:`msbgen.batch.cluster.DaskPool` has it; "" for this process.
    resume : bool
        Go on with what was begun there: what is done, and whose input is as it was, stays.
    zarr, models, block
        As :class:`msbgen.batch.job.Job` has them.
    progress : callable
        Called with (done, total) tasks.

    Returns
    -------
    BatchResult
        Failures included; `complete` raises them.

    Raises
    ------
    ArgumentError
        A step that there is not; a scheduler of another form, or without the extra; a batch was
        begun there, and is not to be resumed, or with other settings or another version.
    ProfileError
        The manifest is damaged.
    ClusterError
        The scheduler is lost; what is done is noted.
    OSError
        The manifest cannot be written: the disk is full, say.
    """
    steps = {task.name: _steps_of(task, config.steps) for task in tasks}
    out = out.resolve()
    if scheduler:
        from msbgen.batch.cluster import check_scheduler

        check_scheduler(scheduler)  # before anything is written
    journal = open_manifest(out, tasks, {"zarr": zarr, "models": models}, resume=resume)
    states: list[TaskState] = []
    earlier: list[EarlierTask] = []
    try:
        told: dict[str, list[Record]] = {}
        for record in journal.records[1:]:
            told.setdefault(record["task"], []).append(record)
        for task in tasks:
            job = Job(task, out, zarr, models, block)
            states.append(TaskState(job, steps[task.name], told.pop(task.name, ())))
        for name, records in told.items():
            earlier.append(EarlierTask(name, out / name, records, list(config.steps)))
        executed = 0
        if not all(state.is_over for state in states):
            pool = _pool(scheduler, config)
            try:
                executed = _Run(pool, states, journal, config.retries, progress).run()
            finally:
                pool.close()
                jobs.clear_caches()
    except BaseException as error:
        with suppress(OSError):  # what ended the batch is said, whatever becomes of the index
            write_index(out, [*states, *earlier])
        if not isinstance(error, Exception):  # those have a sentence of their own
            _log.warning("%s: what is done is kept; go on with --resume.", out)
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
    """Remove what the units of complete tasks left for one another."""
    for state in states:
        if state.is_complete:
            jobs.clear(state.job)
    with suppress(OSError):  # others still need it
        (out / jobs.SCRATCH).rmdir()


def _steps_of(task: BatchTask, steps: Mapping[str, BatchStep]) -> dict[str, BatchStep]:
    """Steps that a task wants, in the order of all."""
    wanted = task.settings.steps
    unknown = [name for name in wanted if name != "all" and name not in steps]
    if unknown:
        raise ArgumentError(
            f"task '{task.name}' wants the step '{unknown[0][:60]}'; {', '.join(steps)}, or all, "
            f"are known."
        )
    return {name: step for name, step in steps.items() if "all" in wanted or name in wanted}


def _pool(scheduler: str, config: ExecutionConfig) -> Pool:
    if not scheduler:
        return LocalPool(config)
    from msbgen.batch.cluster import DaskPool

    return DaskPool(scheduler, config)


class _Run:
    """Units given to a pool as there is room, and noted as they end."""

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
        """Carry out all there is; returns how many units that were."""
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
                        self._restart("a unit lost its worker too often", suspect=False)
            except ClusterError as error:
                in_a_row += 1
                if in_a_row >= _MOST_CLUSTERS:
                    raise
                self._restart(str(error), suspect=error.suspect)

    def _next_units(self) -> Iterator[Unit]:
        for state in self._open:
            yield from state.next_units()

    def _close(self, state: TaskState) -> bool:
        """Whether nothing is left of a task; then what its units left is removed."""
        if not state.is_over:
            return False
        if state.is_complete:
            jobs.clear(state.job)
        self._done += 1
        self._progress(self._done, len(self._by_task))
        return True

    def _note(self, unit: Unit, fields: Facts) -> None:
        task = unit.job.task
        found = fields.get("facts") or unit.facts  # a fit finds its inputs, others are told them
        own = {"input": found.get("input", unit.facts.get("input", "")), **fields}
        record = unit_record(task, unit.name, str(fields["outcome"]), own)
        self._journal.append(record)
        self._by_task[task.name].end(record)
        self._executed += 1

    def _restart(self, why: str, *, suspect: bool) -> None:
        """Have a fresh cluster carry out what the last one has not.

        Where nobody knows which unit is to `suspect`, all that were under way may be, and none of
        them is tried for ever.
        """
        _log.warning("a fresh cluster is wanted: %s", why)
        for unit in self._pool.renew():
            self._lost[unit.key] = self._lost.get(unit.key, 0) + suspect
            if self._lost[unit.key] > self._retries:
                fields = {"outcome": LOST, "attempt": self._lost[unit.key], "error": why}
                self._note(unit, fields)
            else:
                self._by_task[unit.job.task.name].running.discard(unit.name)
