"""Pressure on the shared cache and memory, by stressors on other cores than the program's.

A stressor changes a word of each cache line of its working set, line after line, at a given speed.
It runs on any machine: neither CAT nor MBA nor root are needed.  One set of stressors serves the
two resources, working set and bandwidth.  It starts for each run and ends with it; the kernel kills
it if this process dies (``PR_SET_PDEATHSIG``).

Source of the idea: J. Mars, L. Tang, R. Hundt, K. Skadron, M. L. Soffa, "Bubble-Up: increasing
utilization in modern warehouse scale computers via sensible co-locations", MICRO 2011.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from msbgen.core.machine import physical_memory
from msbgen.core.processes import die_with_parent
from msbgen.sources.measure.actuators import stressor
from msbgen.sources.measure.actuators.actuator import Actuator, Capability, SettingError, Usage
from msbgen.sources.measure.sweep.process import TAG

_MIB, _MB = 2**20, 1e6
WORKING_SET, BANDWIDTH = "working set", "bandwidth"
# Size of the last-level cache where the kernel does not tell it [bytes].
_ASSUMED_CACHE = 32 * _MIB
# A stressor must be ready, and must once have reached this share of its level, in such times [s].
_READY, _REACHED, _SHARE, _WINDOW = 30.0, 2.0, 0.9, 0.01
_POLL = 0.002


class Companion:
    """A process of :mod:`msbgen.measure.actuators.stressor`, pinned to a core.

    `kind` is ``stream`` or ``gather``, `size` that of its working set [bytes], `speed` the wanted
    one [bytes/s], 0 for the highest.  `tag` is the sweep's.  The kernel kills it with its parent.
    """

    def __init__(self, kind: str, core: int, size: int, speed: float, tag: str):
        self.core = core
        handle = os.memfd_create("msbgen-stressor")
        try:
            os.truncate(handle, 16)
            self._counts = np.frombuffer(mmap.mmap(handle, 16), np.int64)
            words = (kind, handle, os.getpid(), size, speed)
            self._process = subprocess.Popen(
                [sys.executable, "-P", stressor.__file__, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", TAG: tag},
                start_new_session=True,  # Ctrl-C is for the parent alone
                preexec_fn=die_with_parent(),
                pass_fds=(handle,),
            )
        finally:
            os.close(handle)
        self.pid = self._process.pid

    def wait_until_ready(self) -> None:
        """Pin it, and wait until its working set is in use; SettingError if it fails."""
        try:
            os.sched_setaffinity(self.pid, {self.core})
        except OSError as error:
            raise SettingError(
                f"the stressor cannot run on core {self.core} ({error.strerror}); list a core "
                f"that is online and allowed."
            ) from None
        until = time.monotonic() + _READY
        while not self._counts[1] or not self.moved:
            if not self.runs or time.monotonic() > until:
                raise SettingError(
                    f"the stressor on core {self.core} does not start; free memory for its working "
                    f"set, or choose a smaller one."
                )
            time.sleep(_POLL)

    @property
    def moved(self) -> int:
        """Bytes of the lines that were visited so far."""
        return int(self._counts[0])

    @property
    def size(self) -> int:
        """Bytes of the working set."""
        return int(self._counts[1])

    @property
    def runs(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Kill and reap it."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class Stressors:
    """One stressor on each of `cores`; working set and bandwidth are divided among them.

    `program_cores` are those of the program.  A working set or a bandwidth of 0 means no stressor.
    """

    def __init__(self, cores: Sequence[int], program_cores: Sequence[int], tag: str):
        self.cores = list(cores)
        self.program_cores = list(program_cores)
        self.working_set = 2.0 * cache_size() / _MIB  # [MiB]
        self.bandwidth: float | None = None  # [MB/s]; None for the highest
        self.moved = 0.0  # speed in the last run [MB/s]
        self.used = 0.0  # part of the working set visited in the last run [MiB]
        self.ended_early = False
        self._tag = tag
        self._running: list[Companion] = []
        self._began: tuple[float, list[int]] = (0.0, [])

    @property
    def active(self) -> bool:
        """Whether stressors were started and not yet stopped."""
        return bool(self._running)

    def problem(self) -> str:
        """Why there can be no stressor, with a remedy; empty if there can be."""
        if not self.cores or set(self.cores) & set(self.program_cores):
            return (
                f"pressure needs a core beside the program's ({_listed(self.program_cores)}); "
                f"set 'cores' of the program or of the resource to others."
            )
        if missing := sorted(set(self.cores) - os.sched_getaffinity(0)):
            return (
                f"cores {_listed(missing)} of the stressor are not available; cores among "
                f"{_listed(sorted(os.sched_getaffinity(0)))} are wanted."
            )
        return ""

    def start(self) -> None:
        """Start the stressors, and see them reach their bandwidth while the program waits."""
        if self._running:
            return
        self.moved, self.used, self.ended_early = 0.0, 0.0, False
        if not self.working_set or self.bandwidth == 0:
            return
        n = len(self.cores)
        size = round(self.working_set * _MIB / n)
        speed = (self.bandwidth or 0.0) * _MB / n
        for core in self.cores:
            self._running.append(Companion("stream", core, size, speed, self._tag))
        try:
            for each in self._running:
                each.wait_until_ready()
            self._verify()
        except BaseException:
            self.end()
            raise

    def _verify(self) -> None:
        """Wait for one window in which the bandwidth is reached."""
        best, until = 0.0, time.monotonic() + _REACHED
        while self.bandwidth and best < _SHARE * self.bandwidth:
            if time.monotonic() > until:
                raise SettingError(
                    f"pressure is {self.bandwidth:g} MB/s, and the stressor reaches {best:.0f} "
                    f"alone on core {_listed(self.cores)}; use lower levels, or more 'cores' of "
                    f"the resource."
                )
            self.begin()
            time.sleep(_WINDOW)
            best = max(best, self._speed())

    def begin(self) -> None:
        """Count from now on."""
        self._began = (time.monotonic(), [each.moved for each in self._running])

    def _speed(self) -> float:
        """Speed since the count began [MB/s]."""
        start, before = self._began
        moved = sum(each.moved for each in self._running) - sum(before)
        return moved / _MB / max(time.monotonic() - start, 1e-9)

    def end(self) -> None:
        """Take the speed since :meth:`begin`; stop and reap the stressors."""
        running = self._running
        self.moved, self.used = 0.0, 0.0
        if running and len(self._began[1]) == len(running):
            self.moved = self._speed()
            visited = [each.moved - before for each, before in zip(running, self._began[1])]
            self.used = sum(min(v, each.size) for v, each in zip(visited, running)) / _MIB
        self.ended_early = not all(each.runs for each in running)
        self._running = []
        self._began = (0.0, [])
        for each in running:
            each.stop()


class Pressure(Actuator):
    """Working set [MiB] or bandwidth [MB/s] of stressors that run beside the program.

    `what` is ``"working set"`` or ``"bandwidth"``.  A resource that is not varied has its default:
    twice the last-level cache, and the highest speed of the cores.
    """

    def __init__(self, name: str, stressors: Stressors, what: str):
        self.name = name
        self.stressors = stressors
        self._what = what
        self.units = "MiB" if what == WORKING_SET else "MB s-1"
        self.long_name = f"{what} of a stressor on other cores"

    def capability(self) -> Capability:
        """Any working set up to half of the memory; any bandwidth, which a run must reach."""
        problem = self.stressors.problem()
        problems = (f"{self.name}: {problem}",) if problem else ()
        highest = physical_memory() / 2 / _MIB if self._what == WORKING_SET else 1e6
        cores = _listed(self.stressors.cores)
        return Capability(f"stressor on core {cores}", 0.0, highest, 0.0, problems)

    def apply(self, level: float) -> None:
        """Store the level; the stressor of the next run gets it."""
        if self._what == WORKING_SET:
            self.stressors.working_set = level
        else:
            self.stressors.bandwidth = level

    def read(self) -> float:
        """The stored level."""
        if self._what == WORKING_SET:
            return self.stressors.working_set
        return self.stressors.bandwidth or 0.0

    def place(self, pid: int) -> None:
        """Start the stressors while the program waits, and see that they reach their level."""
        self.stressors.start()

    def begin(self) -> None:
        """Count what the stressors do from now on."""
        self.stressors.begin()

    def end(self) -> None:
        """Stop and reap the stressors; the first of two resources does so for both."""
        if self.stressors.active:
            self.stressors.end()

    def achieved(self, usage: Usage) -> float:
        """Bandwidth of the visited lines [MB/s], or size of those visited in the run [MiB]."""
        return self.stressors.used if self._what == WORKING_SET else self.stressors.moved

    def failure(self) -> str:
        """That a stressor ended before the program."""
        early = self.stressors.ended_early
        return "its stressor was killed, perhaps for lack of memory" if early else ""


def cache_size() -> int:
    """Bytes of the last-level cache, as the kernel tells them for core 0."""
    sizes = []
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        with suppress(OSError, ValueError):
            text = file.read_text().strip()
            sizes.append(int(text.rstrip("KM")) * {"K": 2**10, "M": _MIB}.get(text[-1:], 1))
    return max(sizes, default=_ASSUMED_CACHE)


def _listed(cores: Sequence[int]) -> str:
    return ", ".join(map(str, cores))
