"""Interference during a run: other tasks on the machine, and CPU time that its host took away."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

_STAT = Path("/proc/stat")
# Columns of a core in /proc/stat (proc(5)): busy time, idle time, stolen time.
_BUSY, _IDLE, _STEAL = (0, 1, 2, 5, 6), (3, 4), 7


class InterferenceMeter:
    """Measures interference from its creation on; stolen time on the program's `cores`."""

    def __init__(self, cores: Sequence[int]):
        self._cores = cores
        self._start = time.monotonic()
        self._times_at_start = _core_times()

    def measure(self, cpu: float) -> dict[str, float]:
        """``load`` and ``steal`` so far, as a profile file stores them.

        ``load`` is the mean number of other tasks that ran on all cores [1], ``steal`` the share of
        time that the host took from the program's cores [1].  The program's own CPU time, `cpu`
        [s], is no interference.
        """
        elapsed = time.monotonic() - self._start
        spent = {
            core: [b - a for a, b in zip(self._times_at_start[core], times)]
            for core, times in _core_times().items()
            if core in self._times_at_start
        }
        busy = sum(times[i] for times in spent.values() for i in _BUSY)
        program = [spent[core] for core in self._cores if core in spent]
        total = sum(times[i] for times in program for i in (*_BUSY, *_IDLE, _STEAL))
        stolen = sum(times[_STEAL] for times in program)
        return {
            "load": max(busy - cpu, 0.0) / elapsed,
            "steal": stolen / total if total > 0 else 0.0,
        }


def _core_times() -> dict[int, list[float]]:
    """Columns of /proc/stat of every core [s]."""
    tick = os.sysconf("SC_CLK_TCK")
    lines = re.findall(r"^cpu(\d+) (.*)$", _STAT.read_text(), re.MULTILINE)
    return {int(core): [int(n) / tick for n in numbers.split()] for core, numbers in lines}
