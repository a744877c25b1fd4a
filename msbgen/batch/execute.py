"""Units of work: what each is, and how one is carried out, wherever that is.

A unit is told everything, leaves its results in files that appear whole, and answers with a few
numbers: it may be carried out anywhere, again, and twice at once.
"""

from __future__ import annotations

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

from msbgen.batch import job as jobs
from msbgen.batch.job import Facts, FindContexts, Job
from msbgen.batch.limits import OutOfTime, fatal_time_limit, memory_limit, time_limit
from msbgen.batch.manifest import DONE, FAILED, LOST
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.machine import limit_cores
from msbgen.generate.law import Kind

# Characters of an error that are kept, and of the trace of one that is nobody's fault but ours.
_SAID, _TRACE = 600, 3000


@dataclass(frozen=True)
class StepResult:
    """What a step has found.

    Attributes
    ----------
    files : sequence of str
        Names in the task's folder.
    figures : mapping of str to float
        For the index of the batch.
    """

    files: Sequence[str]
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchStep:
    """What is done with a fitted task, beyond generating profiles.

    Attributes
    ----------
    run : callable
        From a job to what it has found; a function of a module, as others import it.
    last : bool
        Whether it waits for the profiles and all other steps.
    """

    run: Callable[[Job], StepResult]
    last: bool = False


@dataclass(frozen=True)
class Unit:
    """A piece of work.

    Attributes
    ----------
    job : Job
    name : str
        ``fit``, ``generate/KIND/START``, ``join/KIND``, or a step's.
    stop : int
        Of a block: the context before which it ends.
    facts : mapping
        What the fit said of the task.
    rows : int
        Of a join: times that the longest block has.
    """

    job: Job
    name: str
    stop: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    rows: int = 0

    @property
    def key(self) -> str:
        """Name among all tasks."""
        return f"{self.job.task.name}/{self.name}"

    def mark(self, what: str) -> Path:
        """File that tells whoever carries the unit out next of this attempt."""
        return self.job.scratch / f"{self.name.replace('/', '-')}.{what}"


@dataclass(frozen=True)
class ExecutionConfig:
    """How units are carried out.

    Attributes
    ----------
    contexts_of : callable
        Contexts that a text names, of what was measured.
    steps : mapping of str to BatchStep
        Every step that there is.
    timeout : float
        Longest time of a unit [s].
    memory : float
        Most memory that a unit may take on top of what its process holds [bytes].
    retries : int
        Times that a unit is begun again whose worker was lost.
    worker : bool
        Whether this is a process that is started again when it ends, and one of several.
    """

    contexts_of: FindContexts
    steps: Mapping[str, BatchStep]
    timeout: float = 3600.0
    memory: float = math.inf
    retries: int = 0
    worker: bool = False


def execute(unit: Unit, config: ExecutionConfig) -> Facts:
    """Carry a unit out; returns the fields of its line in the manifest, whatever happens.

    Only what ends the process is not answered: then the unit is begun again elsewhere, and knows
    from the marks of its attempts how often it was.
    """
    begun = time.perf_counter()
    answer: Facts = {"host": socket.gethostname(), "attempt": 1}
    try:
        with _attempt(unit, config) as answer["attempt"]:
            facts, files = _result(unit, config)
        answer |= {"outcome": DONE, "facts": facts, "files": files, "bytes": sum(files.values())}
    except _LostError as error:
        answer |= {"outcome": LOST, "attempt": error.attempts - 1, "error": str(error)}
    except OutOfTime:
        answer |= {"outcome": FAILED, "error": timeout_message(config)}
    except Exception as error:
        answer |= {"outcome": FAILED, "error": _describe_error(error, config)}
        if not isinstance(error, _EXPECTED):
            answer["facts"] = {"trace": traceback.format_exc()[-_TRACE:]}
    return {**answer, "seconds": time.perf_counter() - begun}


class _LostError(Exception):
    """The unit was begun too often."""

    def __init__(self, attempts: int):
        super().__init__(lost_message(attempts - 1))
        self.attempts = attempts


def lost_message(attempts: int) -> str:
    """What is said of a unit that has lost its workers."""
    return (
        f"its worker was lost in attempt {attempts} of {attempts}; it may need more memory than "
        f"there is."
    )


def timeout_message(config: ExecutionConfig) -> str:
    """What is said of a unit that took too long."""
    return f"took longer than {config.timeout:g} s (--timeout)."


_EXPECTED = (ArgumentError, MeasurementError, ProfileError, OSError, MemoryError)


@contextmanager
def _attempt(unit: Unit, config: ExecutionConfig) -> Iterator[int]:
    """Carry out within the limits, and in a worker with marks for the next; yields which it is."""
    if not config.worker:
        with time_limit(config.timeout), memory_limit(config.memory):
            yield 1
        return
    limit_cores(1)  # others have the rest
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
        raise _LostError(attempt)
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
    """Remove the marks of attempts that were another batch's, or no fault of the unit."""
    _remove(unit.mark("late"), unit.mark("begun"))


def timed_out(unit: Unit) -> bool:
    """Whether the last attempt of a unit took too long."""
    return unit.mark("late").exists()


def attempts(unit: Unit) -> int:
    """How often a unit was begun that has not ended."""
    try:
        return unit.mark("begun").stat().st_size
    except OSError:
        return 0


def _result(unit: Unit, config: ExecutionConfig) -> tuple[Facts, dict[str, int]]:
    """Facts of a unit, and the files that it leaves in the task's folder, with their sizes."""
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
    found = config.steps[name].run(job)
    figures = {key: float(value) for key, value in found.figures.items() if math.isfinite(value)}
    return {"figures": figures}, {file: (job.folder / file).stat().st_size for file in found.files}


def _describe_error(error: Exception, config: ExecutionConfig) -> str:
    """What went wrong, in a sentence."""
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
    return text[:_SAID]


def describe_os_error(error: OSError) -> str:
    """An error of the system in a sentence."""
    if not error.strerror:
        return str(error)
    place = f"{os.fsdecode(error.filename)}: " if error.filename is not None else ""
    return f"{place}{error.strerror[:1].lower()}{error.strerror[1:]}."
