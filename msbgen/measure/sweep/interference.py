"""What else the machine did while a run went on: other work, and what its host took away."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

_STAT = Path("/proc/stat")
# Columns of a core in /proc/stat (proc(5)): time of work, and of none; stolen time is the eighth.
_WORK, _IDLE, _STEAL = (0, 1, 2, 5, 6), (3, 4), 7


class InterferenceMeter:
    """From now on, until asked.

    Parameters
    ----------
    cores : sequence of int
        Those of the program: stolen time counts there.
    """

    def __init__(self, cores: Sequence[int]):
        self._cores = cores
        self._start = time.monotonic()
        self._before = _times()

    def measure(self, cpu: float) -> dict[str, float]:
        """Load and steal, as a profile file notes them, beside the run's own CPU time [s]."""
        wall = time.monotonic() - self._start
        after = _times()
        spent = {
            core: [b - a for a, b in zip(self._before[core], times)]
            for core, times in after.items()
            if core in self._before
        }
        work = sum(times[i] for times in spent.values() for i in _WORK)
        own = [spent[core] for core in self._cores if core in spent]
        whole = sum(times[i] for times in own for i in (*_WORK, *_IDLE, _STEAL))
        steal = sum(times[_STEAL] for times in own)
        return {
            "load": max(work - cpu, 0.0) / wall,
            "steal": steal / whole if whole > 0 else 0.0,
        }


def _times() -> dict[int, list[float]]:
    """Times of every core [s]."""
    tick = os.sysconf("SC_CLK_TCK")
    lines = re.findall(r"^cpu(\d+) (.*)$", _STAT.read_text(), re.MULTILINE)
    return {int(core): [int(n) / tick for n in numbers.split()] for core, numbers in lines}
