"""Limits of time and memory on a unit of work."""

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
    """A unit exceeded its time limit.  Not an Exception, so that libraries do not catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`OutOfTime` in the body after `seconds`.

    Only in the main thread, where signals arrive; elsewhere without effect.
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
        if callable(before):  # an alarm of the caller
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
    """Call `before_end` and end the process when the body exceeds `seconds`.

    For worker threads, which cannot be interrupted; the process must be restarted by others.
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
    """Raise MemoryError in the body when the process exceeds its present memory by `most` [bytes].

    The limit holds for all threads of the process together.
    """
    if not math.isfinite(most):
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _data_size() + int(most)
    if before[1] != resource.RLIM_INFINITY:
        limit = min(limit, before[1])
    resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_size() -> int:
    """Data segment of this process, which the limit counts [bytes]."""
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmData:"):
            return 1024 * int(line.split()[1])
    return 0
