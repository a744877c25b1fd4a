"""Recorders: perf, which counts events from outside, or the program itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.perf import read_perf
from msbgen.sources.measure.sweep.perf_stat import counting, perf_command
from msbgen.sources.measure.sweep.process import ProcessResult
from msbgen.sources.measure.sweep.requirements import (
    disk_problems,
    event_problems,
    perf_problems,
    perf_version,
)
from msbgen.sources.measure.sweep.spec import Spec


class Recorder(Protocol):
    """Writes one recording per run; its version has the key `name` in the journal's first line."""

    name: str

    def version(self) -> str | None:
        """Version of the tool; None if it is not installed."""
        ...

    def problems(self, folder: Path, runs: int) -> Iterator[str]:
        """What the machine lacks for this number of recordings in a folder, with remedies."""
        ...

    def environment(self, path: Path, context: Sequence[float]) -> Mapping[str, str]:
        """Environment variables of the program for a recording in a context."""
        ...

    def recording(
        self, pid: int, path: Path, cores: Sequence[int], tag: str, events: Sequence[str]
    ) -> AbstractContextManager[None]:
        """Record the events of a paused program within the block, from these cores."""
        ...

    def rejection_reason(self, path: Path, ended: ProcessResult) -> str | None:
        """Why the recording of a successful run is rejected; None if it is kept."""
        ...

    def describe(
        self, cores: Sequence[int], shares_cores: bool, events: Sequence[str]
    ) -> Iterator[str]:
        """Lines for a dry run; `cores` may be shared with the program."""
        ...


class PerfRecorder:
    """Events counted by ``perf stat``."""

    name = "perf"

    def __init__(self, spec: Spec):
        self._spec = spec

    def version(self) -> str | None:
        """Version of perf."""
        return perf_version()

    def problems(self, folder: Path, runs: int) -> Iterator[str]:
        """Problems of perf and the disk; if there are none, those of the events."""
        problems = [*perf_problems(), *disk_problems(self._spec, folder, runs)]
        yield from problems or event_problems(self._spec)

    def environment(self, path: Path, context: Sequence[float]) -> Mapping[str, str]:
        """No variables."""
        return {}

    def recording(
        self, pid: int, path: Path, cores: Sequence[int], tag: str, events: Sequence[str]
    ) -> AbstractContextManager[None]:
        """Count with perf within the block."""
        interval = self._spec.interval
        return counting(pid, path, events=events, interval=interval, cores=cores, tag=tag)

    def rejection_reason(self, path: Path, ended: ProcessResult) -> str | None:
        """The recording is unreadable, has no counts or ends too early."""
        try:
            recording = read_perf(path)
        except ProfileError as error:
            return str(error).rstrip(".")
        if not recording.totals.any():
            return f"{recording.source} has not counted one event"
        end = float(recording.times[-1])
        if end < ended.wall - self._spec.interval:
            return (
                f"{recording.source} ends at {end:.3g} s, its run at {ended.wall:.3g} s: it was "
                f"cut off, for example by a full disk"
            )
        return None

    def describe(
        self, cores: Sequence[int], shares_cores: bool, events: Sequence[str]
    ) -> Iterator[str]:
        """The command that counts."""
        command = perf_command(events, self._spec.interval, "RECORDING.csv", "PID")
        where = "shared with the program" if shares_cores else "apart from the program"
        yield f"perf, on cores {list(cores)} ({where}): {shlex.join(command)} fd:IN,OUT"
