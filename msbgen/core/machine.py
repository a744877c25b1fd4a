"""Cores and memory that this process may use, and libraries of optional extras."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from msbgen.core.errors import ArgumentError

# Files of control groups, of both versions, with the memory limit of their processes.
_MEMORY_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
# Callback of long computations: steps done, steps in total.
OnProgress = Callable[[int, int], None]

# The limit that `limit_cores` set.
_most_cores: list[int] = []


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        there = len(os.sched_getaffinity(0))
    else:
        there = os.cpu_count() or 1
    return min([there, *_most_cores])


def limit_cores(most: int | None) -> None:
    """Limit this process to a number of cores from now on; None for all available ones."""
    _most_cores[:] = [] if most is None else [most]


def physical_memory() -> int:
    """Memory of the machine, or as much of it as the container of this process may use [bytes]."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _MEMORY_LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such control group, or one whose limit is "max"
            continue
    return min(limits)


def load_library(name: str, extra: str = "ml", purpose: str = "what is learned here") -> Any:
    """Import a library of an optional extra; ArgumentError, naming the extra, if it is missing."""
    library = name.partition(".")[0].replace("sklearn", "scikit-learn")
    try:
        if library == "matplotlib" and library not in sys.modules:
            _import_matplotlib()
        return import_module(name)
    except ModuleNotFoundError:
        raise ArgumentError(
            f"{library} is not installed; 'pip install msbgen[{extra}]' is wanted for {purpose}."
        ) from None


def _import_matplotlib() -> None:
    """Import matplotlib without the windows that MPLBACKEND names: pictures are files here."""
    named = os.environ.pop("MPLBACKEND", "")
    try:
        library = import_module("matplotlib")
    finally:
        if named:
            os.environ["MPLBACKEND"] = named
    if named:
        with suppress(ValueError):  # an unknown name, which its own import would refuse
            library.rcParams["backend"] = named
