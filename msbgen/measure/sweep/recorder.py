"""What takes the recording of a run: perf, from outside, or the program itself."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from msbgen.core.errors import ProfileError
from msbgen.measure.readers.perf import read_perf
from msbgen.measure.sweep.perf_stat import counting, perf_command
from msbgen.measure.sweep.process import ProcessResult
from msbgen.measure.sweep.requirements import (
    disk_problems,
    event_problems,
    perf_problems,
    perf_version,
)
from msbgen.measure.sweep.spec import Spec


class Recorder(Protocol):
    """Takes recordings, one file a run.

    Attributes
    ----------
    name : str
        What records, as a journal's first line names it, with its version.
    """

    name: str

    def version(self) -> str | None:
        """Of what records; None where there is none."""
        ...

    def problems(self, folder: Path, runs: int) -> Iterator[str]:
        """What the machine lacks for so many recordings in a folder, with a remedy each."""
        ...

    def environment(self, path: Path, context: Sequence[float]) -> Mapping[str, str]:
        """Variables that the program gets for a recording in a context."""
        ...

    def recording(
        self, pid: int, path: Path, cores: Sequence[int], tag: str, events: Sequence[str]
    ) -> AbstractContextManager[None]:
        """Within the block these events of a held program are recorded, from these cores."""
        ...

    def rejection_reason(self, path: Path, ended: ProcessResult) -> str | None:
        """Why the recording of a run that ended well is not kept; None where it is."""
        ...

    def plan(self, cores: Sequence[int], beside: str, events: Sequence[str]) -> Iterator[str]:
        """What a dry run says of it, in lines."""
        ...


class PerfRecorder:
    """Events, counted by ``perf stat``."""

    name = "perf"

    def __init__(self, spec: Spec):
        self._spec = spec

    def version(self) -> str | None:
        """Of perf."""
        return perf_version()

    def problems(self, folder: Path, runs: int) -> Iterator[str]:
        """Perf, events, room."""
        problems = [*perf_problems(), *disk_problems(self._spec, folder, runs)]
        yield from problems or event_problems(self._spec)

    def environment(self, path: Path, context: Sequence[float]) -> Mapping[str, str]:
        """Nothing: the program knows nothing of it."""
        return {}

    def recording(
        self, pid: int, path: Path, cores: Sequence[int], tag: str, events: Sequence[str]
    ) -> AbstractContextManager[None]:
        """Perf counts."""
        interval = self._spec.interval
        return counting(pid, path, events=events, interval=interval, cores=cores, tag=tag)

    def rejection_reason(self, path: Path, ended: ProcessResult) -> str | None:
        """Nothing counted, or cut off."""
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
                f"cut off, as by a full disk"
            )
        return None

    def plan(self, cores: Sequence[int], beside: str, events: Sequence[str]) -> Iterator[str]:
        """The command that counts."""
        counted = perf_command(events, self._spec.interval, "RECORDING.csv", "PID")
        yield f"perf, on cores {list(cores)} ({beside}): {shlex.join(counted)} fd:IN,OUT"
