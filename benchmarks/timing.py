"""Timing side by side: medians of interleaved calls, slopes, whole processes and their memory."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from tables import ROOT

CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved(contenders: Mapping[Any, Callable[[], object]], repeats: int) -> dict[Any, float]:
    """Median seconds of each callable, called in turn, after one round that does not count."""
    seconds: dict[Any, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats + 1):
        for name, call in contenders.items():
            spent = seconds_of(call)
            if turn:
                seconds[name].append(spent)
    return {name: statistics.median(times) for name, times in seconds.items()}


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Exponent of the growth: least squares in log-log."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Keep this process, and the threads that it starts, on the last of its cores."""
    if not CORES:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def replaced(parts: Mapping[str, Any]) -> Iterator[None]:
    """Replace attributes of modules, by their dotted names."""
    with ExitStack() as stack:
        for target, other in parts.items():
            stack.enter_context(patch(target, other))
        yield


@contextmanager
def standing_in(part: Any, other: Any) -> Iterator[None]:
    """Replace a function or class wherever the package has imported it."""
    places = [
        (module, name)
        for title, module in list(sys.modules.items())
        if title.split(".")[0] == "msbgen"
        for name, value in list(vars(module).items())
        if value is part
    ]
    if not places:
        raise LookupError(f"{part} is nowhere in the package")
    for module, name in places:
        setattr(module, name, other)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, part)


@dataclass(frozen=True)
class Run:
    """A finished process: wall and processor seconds, peak memory, output."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def run_python(arguments: Sequence[str | Path], **environment: str) -> Run:
    """Run this interpreter on the package of this checkout; a RuntimeError if it fails."""
    settings = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, **settings, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as stream:
        output = stream.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {process.returncode}")
    kibibyte = 1 if sys.platform == "darwin" else 1024
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * kibibyte, output)
