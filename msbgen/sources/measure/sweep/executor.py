"""Execution of single runs: set the levels, place and count the program, classify its end."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msbgen.data.files import deferred_signals, sync_path
from msbgen.sources.measure.actuators.actuator import Actuator, Usage
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import other_cores, program_cores
from msbgen.sources.measure.sweep.interference import InterferenceMeter
from msbgen.sources.measure.sweep.journal import CUT, DONE, OUT_OF_MEMORY, Record
from msbgen.sources.measure.sweep.order import Slot
from msbgen.sources.measure.sweep.perf_stat import PerfError, error_text
from msbgen.sources.measure.sweep.process import (
    ProcessResult,
    Watchdog,
    become_subreaper,
    child_processes,
    kill_leftovers,
    kill_process_group,
    paused_process,
)
from msbgen.sources.measure.sweep.recorder import PerfRecorder, Recorder
from msbgen.sources.measure.sweep.requirements import missing_program
from msbgen.sources.measure.sweep.restore import sighup_handled_by
from msbgen.sources.measure.sweep.spec import Spec

_log = logging.getLogger("msbgen")

# Outcomes of runs that are not kept, as journals store them.
FAILED, TIMED_OUT, NOT_RECORDED = "failed", "hung", "silent"


def describe_failure(spec: Spec, record: Record) -> str:
    """A sentence about a run that is not kept."""
    variant = f" of variant {record['variant']}" if "variant" in record else ""
    context = spec.describe(record["context"])
    return f"run {record['run']}{variant} of context {context}: {record['why']}."


class RunExecutor:
    """Makes the runs of a sweep within a block; all settings are restored at its end.

    Recordings are written to the folder `recordings`, by default by perf; `tag` is the sweep's, and
    there is one actuator per resource.
    """

    def __init__(
        self,
        spec: Spec,
        recordings: Path,
        tag: str,
        settings: KernelSettings,
        actuators: Sequence[Actuator],
        recorder: Recorder | None = None,
    ):
        self.spec = spec
        self._programs = spec.programs()
        self._recorder = recorder or PerfRecorder(spec)
        self._recordings = recordings
        self._tag = tag
        self._settings = settings
        self._actuators = actuators
        self._cores = program_cores(spec)
        self._other_cores = other_cores(self._cores)
        self._cores_before = os.sched_getaffinity(0)
        self._sighup = sighup_handled_by(signal.getsignal(signal.SIGTERM))

    def __enter__(self) -> RunExecutor:
        self._sighup.__enter__()
        self._watchdog = Watchdog()
        become_subreaper(True)
        self._spared = child_processes()
        os.sched_setaffinity(0, self._other_cores)  # the program has its cores for itself
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with deferred_signals():
                kill_leftovers(0, self._tag, self._spared)
                become_subreaper(False)
                report = self._settings.restore()
                self._watchdog.stop()
                os.sched_setaffinity(0, self._cores_before)
                for sentence in (*report.changed_by_others, *report.failed):
                    _log.warning("%s", sentence)
        finally:  # after the deferred signals have been handled
            self._sighup.__exit__(None, None, None)

    def warm_up(self, contexts: NDArray[np.float64]) -> None:
        """Set the lowest and highest level of each resource; make the runs that are not kept."""
        for column, actuator in zip(contexts.T, self._actuators):
            for level in sorted({float(column.min()), float(column.max())}):
                actuator.apply(level)
        highest = tuple(map(float, contexts.max(axis=0)))
        for variant in [*self._programs] * self.spec.warmups:
            record = self.run(Slot(-1, highest, 0, variant=variant), 0)
            (self._recordings / record["recording"]).unlink(missing_ok=True)

    def run(self, slot: Slot, attempt: int) -> Record:
        """Make a run; return its record for the journal, with the outcome."""
        for actuator, level in zip(self._actuators, slot.context):
            actuator.apply(level)
        time.sleep(self.spec.cooldown)
        name = "warmup" if slot.number < 0 else f"{slot.number:05d}-{attempt}"
        path = self._recordings / f"{name}.csv"
        path.unlink(missing_ok=True)
        record: Record = {
            "event": "run", "slot": slot.number, "attempt": attempt,
            "context": list(slot.context), "run": slot.run, "recording": path.name,
            "began": time.time(), **({"variant": slot.variant} if slot.variant else {}),
        }  # fmt: skip
        interference = InterferenceMeter(self._cores)
        stderr_file = path.with_suffix(".err")
        try:
            ended = self._run_recorded(path, stderr_file, slot)
            outcome, why = self._classify(ended, path, slot)
            message = error_text(stderr_file) if why else ""
        except PerfError as error:
            return {**record, "outcome": NOT_RECORDED, "why": str(error)}
        finally:
            stderr_file.unlink(missing_ok=True)
        if why:
            reason = f"{why}; its message: {message}" if message else why
            return {**record, "outcome": outcome, "why": reason}
        usage = Usage(ended.wall, ended.cpu)
        achieved = {a.name: a.achieved(usage) for a in self._actuators}
        sync_path(path)
        return {
            **record, "outcome": outcome, "wall": ended.wall, "cpu": ended.cpu,
            "achieved": achieved, **interference.measure(ended.cpu), "digest": digest_of(path),
        }  # fmt: skip

    def _run_recorded(self, path: Path, stderr_file: Path, slot: Slot) -> ProcessResult:
        spec = self._programs[slot.variant]
        with paused_process(
            spec.command_in(slot.context),
            folder=spec.folder,
            stdin=spec.stdin,
            stderr=stderr_file,
            environment={
                **spec.environment_in(slot.context),
                **self._recorder.environment(path, slot.context),
            },
            tag=self._tag,
        ) as process:
            self._watchdog.watch_group(process.pid)
            os.sched_setaffinity(process.pid, self._cores)
            for actuator in self._actuators:
                actuator.place(process.pid)
            events = slot.events or spec.events
            with self._recorder.recording(process.pid, path, self._other_cores, self._tag, events):
                for actuator in self._actuators:
                    actuator.begin()
                ended = process.run(spec.timeout, self._watch)
                for actuator in self._actuators:
                    actuator.end()
                kill_process_group(process.pid)  # perf would go on counting the children
            self._settings.end_processes()
            kill_leftovers(process.pid, self._tag, self._spared)
            self._watchdog.watch_group(0)
        return ended

    def _watch(self) -> None:
        for actuator in self._actuators:
            actuator.watch()

    def _classify(self, ended: ProcessResult, path: Path, slot: Slot) -> tuple[str, str]:
        """Outcome of a run, and why it is not kept; the reason is empty if it is kept."""
        if limits := [reason for actuator in self._actuators if (reason := actuator.failure())]:
            return OUT_OF_MEMORY, limits[0]
        if not ended.in_time and not self.spec.keep_cut:
            return TIMED_OUT, f"did not end within {self.spec.timeout:g} s and was killed"
        if ended.in_time and ended.status < 0:
            return FAILED, f"was ended by {signal.Signals(-ended.status).name}"
        if ended.in_time and ended.status:
            spec = self._programs[slot.variant]
            program = spec.command_in(slot.context)[0]
            missing = missing_program(spec, program) if ended.status in (126, 127) else None
            return FAILED, (missing or f"exited with {ended.status}").rstrip(".")
        why = self._recorder.rejection_reason(path, ended)
        return (DONE if ended.in_time else CUT, "") if why is None else (NOT_RECORDED, why)


def digest_of(path: Path) -> str:
    """Digest of a recording, to detect changes."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
