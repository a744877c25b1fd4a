"""Units of work and their execution, in this process or in a worker.

A unit is self-contained, writes its results to files that appear whole, and returns a few facts.
It can run anywhere, repeatedly, and twice at once.
"""

import math
import os
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError, printable
from msbgen.core.machine import limit_cores
from msbgen.engine.generate.distribution import Kind
from msbgen.output.batch import job as jobs
from msbgen.output.batch.job import Facts, FindContexts, Job
from msbgen.output.batch.limits import OutOfTime, fatal_time_limit, memory_limit, time_limit
from msbgen.output.batch.manifest import DONE, FAILED, LOST

# Characters kept of an error, and of the traceback of an internal error.
_ERROR_LENGTH, _TRACE_LENGTH = 600, 3000


@dataclass(frozen=True)
class StepResult:
    """Result of a step."""

    files: Sequence[str]  # names of files in the task's folder
    figures: Mapping[str, float] = field(default_factory=dict)  # for the index of the batch


@dataclass(frozen=True)
class BatchStep:
    """A step after generation, such as bounds or a report."""

    run: Callable[[Job], StepResult]  # a module-level function, since workers import it
    last: bool = False  # whether it runs after the profiles and all other steps


@dataclass(frozen=True)
class Unit:
    """A piece of work."""

    job: Job
    name: str  # "fit", "generate/KIND/START", "join/KIND", or that of a step
    stop: int = 0  # end of a block of contexts (exclusive)
    facts: Mapping[str, Any] = field(default_factory=dict)  # of the fit
    rows: int = 0  # length of the longest block, for a join

    @property
    def key(self) -> str:
        """Unique name among all tasks."""
        return f"{self.job.task.name}/{self.name}"

    def mark(self, what: str) -> Path:
        """File that tells later attempts about this one."""
        return self.job.scratch / f"{self.name.replace('/', '-')}.{what}"


@dataclass(frozen=True)
class ExecutionConfig:
    """Settings of the execution of units."""

    contexts_of: FindContexts
    steps: Mapping[str, BatchStep]  # all known ones
    timeout: float = 3600.0  # time limit of a unit [s]
    memory: float = math.inf  # memory limit of a unit beyond that of its process [bytes]
    retries: int = 0  # how often a unit is repeated after its worker was lost
    worker: bool = False  # whether this is one of several workers, which are restarted at their end


def execute(unit: Unit, config: ExecutionConfig) -> Facts:
    """Execute a unit; returns the fields of its line in the manifest, also after an error.

    If the process ends, the unit is repeated elsewhere; marker files count its attempts.
    """
    begun = time.perf_counter()
    answer: Facts = {"host": socket.gethostname(), "attempt": 1}
    try:
        with _attempt(unit, config) as answer["attempt"]:
            facts, files = _result(unit, config)
        answer |= {"outcome": DONE, "facts": facts, "files": files, "bytes": sum(files.values())}
    except _LostError as error:
        answer |= {"outcome": LOST, "attempt": error.args[0], "error": lost_message(error.args[0])}
    except OutOfTime:
        answer |= {"outcome": FAILED, "error": timeout_message(config)}
    except Exception as error:
        answer |= {"outcome": FAILED, "error": _describe_error(error, config)}
        if not isinstance(error, _EXPECTED):
            answer["facts"] = {"trace": traceback.format_exc()[-_TRACE_LENGTH:]}
    return {**answer, "seconds": time.perf_counter() - begun}


class _LostError(Exception):
    """The unit has used up its attempts, whose number is the argument."""


def lost_message(attempts: int) -> str:
    """Message for a unit whose workers were lost."""
    return (
        f"its worker was lost in attempt {attempts} of {attempts}; the unit may need more "
        f"memory than there is."
    )


def timeout_message(config: ExecutionConfig) -> str:
    """Message for a unit that exceeded its time limit."""
    return f"took longer than {config.timeout:g} s (--timeout)."


_EXPECTED = (ArgumentError, MeasurementError, ProfileError, OSError, MemoryError)


@contextmanager
def _attempt(unit: Unit, config: ExecutionConfig) -> Iterator[int]:
    """Apply the limits and, in a worker, count attempts in marker files; yields the attempt."""
    if not config.worker:
        with time_limit(config.timeout), memory_limit(config.memory):
            yield 1
        return
    limit_cores(1)  # the other cores belong to other workers
    late, begun = unit.mark("late"), unit.mark("begun")
    begun.parent.mkdir(parents=True, exist_ok=True)
    if late.exists():
        _remove(late, begun)
        raise OutOfTime
    with begun.open("ab") as stream:
        stream.write(b".")
    attempt = begun.stat().st_size
    if attempt > config.retries + 1:
        _remove(begun)
        raise _LostError(attempt - 1)
    try:
        with fatal_time_limit(config.timeout, late.touch), memory_limit(config.memory):
            yield attempt
    finally:
        _remove(begun)


def _remove(*paths: Path) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


def clear_attempts(unit: Unit) -> None:
    """Remove the marker files of earlier attempts."""
    _remove(unit.mark("late"), unit.mark("begun"))


def timed_out(unit: Unit) -> bool:
    """Whether the last attempt of a unit exceeded its time limit."""
    return unit.mark("late").exists()


def attempts(unit: Unit) -> int:
    """Number of unfinished attempts of a unit."""
    try:
        return unit.mark("begun").stat().st_size
    except OSError:
        return 0


def _result(unit: Unit, config: ExecutionConfig) -> tuple[Facts, dict[str, int]]:
    """Run a unit; returns its facts and the sizes of its files in the task's folder."""
    job, name = unit.job, unit.name
    if name == "fit":
        facts = jobs.fit(job, config.contexts_of)
        size = job.model_file.stat().st_size
        return {**facts, "model_bytes": size}, {"model.nc": size} if job.models else {}
    if name.startswith("generate/"):
        _, kind, start = name.split("/")
        facts = jobs.generate(job, cast(Kind, kind), int(start), unit.stop)
        part = job.part(kind, int(start))
        return {**facts, "part_bytes": 0 if job.zarr else part.stat().st_size}, {}
    if name.startswith("join/"):
        kind = name.split("/")[1]
        jobs.join(job, cast(Kind, kind), dict(unit.facts), unit.rows)
        return {}, jobs.product_files(job.product(kind))
    job.folder.mkdir(parents=True, exist_ok=True)
    result = config.steps[name].run(job)
    figures = {key: float(value) for key, value in result.figures.items() if math.isfinite(value)}
    return {"figures": figures}, {file: (job.folder / file).stat().st_size for file in result.files}


def _describe_error(error: Exception, config: ExecutionConfig) -> str:
    """Message of an error, in one sentence."""
    if isinstance(error, MemoryError):
        if math.isfinite(config.memory):
            return f"took more than {config.memory / 1e9:g} GB of memory (--memory)."
        return "took more memory than there is."
    if isinstance(error, OSError):
        text = describe_os_error(error)
    elif isinstance(error, _EXPECTED):
        text = " ".join(getattr(error, "problems", ())) or str(error)
    else:
        text = f"internal error, {type(error).__name__}: {error}"
    return printable(text, _ERROR_LENGTH)  # the end of a message is its remedy


def describe_os_error(error: OSError) -> str:
    """Message of an error of the system, in one sentence."""
    if not error.strerror:
        return str(error)
    place = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
    return f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}."
