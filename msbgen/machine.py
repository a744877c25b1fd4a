"""What this process may use of the machine: cores and memory."""

from __future__ import annotations

import os
from collections.abc import Callable

# What long work tells its caller: how many steps are done, of how many.
OnProgress = Callable[[int, int], None]


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def physical_memory() -> int:
    """Memory of the machine [bytes]."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
