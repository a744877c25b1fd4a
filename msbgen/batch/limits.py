"""Limits of time and memory on a unit of work."""

from __future__ import annotations

import math
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_STATUS = Path("/proc/self/status")


class OutOfTime(BaseException):
    """A unit took longer than it may; no library takes it for an error of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`OutOfTime` in the body once it has taken so long [s].

    In the main thread; elsewhere no signal arrives, and the body takes what it takes.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not math.isfinite(seconds):
        yield
        return
    until = time.monotonic() + seconds
    before = signal.getsignal(signal.SIGALRM)

    def stop(number: int, frame: FrameType | None) -> None:
        if time.monotonic() >= until:
            raise OutOfTime
        if callable(before):  # somebody else's alarm
            before(number, frame)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def fatal_time_limit(seconds: float, before_end: Callable[[], None]) -> Iterator[None]:
    """End this process, after `before_end`, once the body has taken so long [s].

    For threads, which nothing else interrupts: the process must be one that is started again.
    """
    if not math.isfinite(seconds):
        yield
        return

    def end() -> None:
        try:
            before_end()
        finally:
            os._exit(1)

    watch = threading.Timer(seconds, end)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


@contextmanager
def memory_limit(most: float) -> Iterator[None]:
    """Have the body fail with MemoryError where its process would take so much more [bytes].

    Of the process, all its threads together, on top of what it holds when the body begins.
    """
    if not math.isfinite(most):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _held() + int(most)
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _held() -> int:
    """Data of this process, as the limit counts it [bytes]."""
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmData:"):
            return 1024 * int(line.split()[1])
    return 0
