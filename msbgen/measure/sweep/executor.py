"""One run: levels applied, the program held, placed, pinned and counted, its end judged."""

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

from msbgen.measure.actuators.actuator import Actuator, Usage
from msbgen.measure.actuators.kernel_settings import KernelSettings
from msbgen.measure.sweep.actuators import other_cores, program_cores
from msbgen.measure.sweep.interference import InterferenceMeter
from msbgen.measure.sweep.journal import CUT, DONE, Record
from msbgen.measure.sweep.order import Slot
from msbgen.measure.sweep.perf_stat import PerfError, error_text
from msbgen.measure.sweep.process import (
    ProcessResult,
    Watchdog,
    become_subreaper,
    child_processes,
    kill_leftovers,
    kill_process_group,
    paused_process,
)
from msbgen.measure.sweep.recorder import PerfRecorder, Recorder
from msbgen.measure.sweep.requirements import missing_program
from msbgen.measure.sweep.restore import deferred_signals, sighup_handled_by
from msbgen.measure.sweep.spec import Spec

_log = logging.getLogger("msbgen")

# How else a run can end.
FAILED, TIMED_OUT, NOT_RECORDED = "failed", "hung", "silent"


def describe_failure(spec: Spec, record: Record) -> str:
    """A run that is not kept, in a sentence."""
    pairs = zip(spec.resources, record["context"])
    context = ", ".join(f"{resource.name}={level:g}" for resource, level in pairs)
    return f"run {record['run']} of context {context}: {record['why']}."


class RunExecutor:
    """The machine while a sweep changes it; as it was before at the end of the block."""

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
        self._recorder = recorder or PerfRecorder(spec)
        self._recordings = recordings
        self._tag = tag
        self._settings = settings
        self._actuators = actuators
        self._cores = program_cores(spec)
        self._others = other_cores(self._cores)
        self._before = os.sched_getaffinity(0)
        self._hangup = sighup_handled_by(signal.getsignal(signal.SIGTERM))

    def __enter__(self) -> RunExecutor:
        self._hangup.__enter__()
        self._guard = Watchdog()
        become_subreaper(True)
        self._spared = child_processes()
        os.sched_setaffinity(0, self._others)  # the program's core is its own
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with deferred_signals():
                kill_leftovers(0, self._tag, self._spared)
                become_subreaper(False)
                outcome = self._settings.restore()
                self._guard.stop()
                os.sched_setaffinity(0, self._before)
                for sentence in (*outcome.changed_by_others, *outcome.failed):
                    _log.warning("%s", sentence)
        finally:  # not before those handlers that waited are back
            self._hangup.__exit__(None, None, None)

    def warm_up(self, contexts: NDArray[np.float64]) -> None:
        """Try the ends of each resource's levels, then run the program without keeping its runs."""
        for column, actuator in zip(contexts.T, self._actuators):
            for level in sorted({float(column.min()), float(column.max())}):
                actuator.apply(level)
        slot = Slot(-1, tuple(map(float, contexts.max(axis=0))), 0)
        for _ in range(self.spec.warmups):
            record = self.run(slot, 0)
            (self._recordings / record["recording"]).unlink(missing_ok=True)

    def run(self, slot: Slot, attempt: int) -> Record:
        """Make a run; its record says how it ended."""
        for actuator, level in zip(self._actuators, slot.context):
            actuator.apply(level)
        time.sleep(self.spec.cooldown)
        name = "warmup" if slot.number < 0 else f"{slot.number:05d}-{attempt}"
        path = self._recordings / f"{name}.csv"
        path.unlink(missing_ok=True)
        record: Record = {
            "event": "run", "slot": slot.number, "attempt": attempt,
            "context": list(slot.context), "run": slot.run, "recording": path.name,
            "began": time.time(),
        }  # fmt: skip
        interference = InterferenceMeter(self._cores)
        messages = path.with_suffix(".err")
        try:
            ended = self._recorded(path, messages, slot)
            outcome, why = self._judge(ended, path)
            said = error_text(messages) if why else ""
        except PerfError as error:
            return {**record, "outcome": NOT_RECORDED, "why": str(error)}
        finally:
            messages.unlink(missing_ok=True)
        if why:
            return {**record, "outcome": outcome, "why": f"{why}; it said: {said}" if said else why}
        usage = Usage(ended.wall, ended.cpu)
        achieved = {a.name: a.achieved(usage) for a in self._actuators}
        _sync(path)
        return {
            **record, "outcome": outcome, "wall": ended.wall, "cpu": ended.cpu,
            "achieved": achieved, **interference.measure(ended.cpu), "digest": digest_of(path),
        }  # fmt: skip

    def _recorded(self, path: Path, messages: Path, slot: Slot) -> ProcessResult:
        spec = self.spec
        with paused_process(
            spec.command,
            folder=spec.folder,
            stdin=spec.stdin,
            stderr=messages,
            environment={**spec.environment, **self._recorder.environment(path, slot.context)},
            tag=self._tag,
        ) as child:
            self._guard.watch_group(child.pid)
            os.sched_setaffinity(child.pid, self._cores)
            for actuator in self._actuators:
                actuator.place(child.pid)
            events = slot.events or spec.events
            with self._recorder.recording(child.pid, path, self._others, self._tag, events):
                ended = child.run(spec.timeout, self._watch)
                kill_process_group(child.pid)  # what it left running would be counted on
            self._settings.end_processes()
            kill_leftovers(child.pid, self._tag, self._spared)
            self._guard.watch_group(0)
        return ended

    def _watch(self) -> None:
        for actuator in self._actuators:
            actuator.watch()

    def _judge(self, ended: ProcessResult, path: Path) -> tuple[str, str]:
        """How a run ended, and why it is not kept; empty where it is."""
        if not ended.in_time and not self.spec.keep_cut:
            return TIMED_OUT, f"did not end within {self.spec.timeout:g} s and was killed"
        if ended.in_time and ended.status < 0:
            return FAILED, f"was ended by {signal.Signals(-ended.status).name}"
        if ended.in_time and ended.status:
            missing = missing_program(self.spec) if ended.status in (126, 127) else None
            return FAILED, (missing or f"exited with {ended.status}").rstrip(".")
        why = self._recorder.rejection_reason(path, ended)
        return (DONE if ended.in_time else CUT, "") if why is None else (NOT_RECORDED, why)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest_of(path: Path) -> str:
    """What tells a recording from one that was changed."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
