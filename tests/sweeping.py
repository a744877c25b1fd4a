"""What tests of sweeps share: a fake kernel's machine, short programs, processes to be killed."""

import os
import shutil
import time
from pathlib import Path

import pytest

from fake_kernel import FakeKernel
from msbgen.sources.measure.sweep.journal import VERSION
from msbgen.sources.measure.sweep.spec import ResourceSpec, Spec

needs_perf = pytest.mark.skipif(
    shutil.which("perf") is None, reason="needs perf: apt-get install linux-perf"
)

# The first line of a journal, and a line of a run that was kept.
HEAD = {
    "event": "sweep", "version": VERSION, "tag": "0123456789abcdef", "digest": "d", "task": "work",
    "boot": "b", "perf": "6.1", "machine": "m",
}  # fmt: skip
RUN = {
    "event": "run", "slot": 0, "attempt": 0, "context": [2.0], "run": 0, "recording": "a.csv",
    "outcome": "done", "wall": 0.5, "cpu": 0.4, "achieved": {"cache_ways": 2.0}, "load": 0.1,
    "steal": 0.0, "digest": "d",
}  # fmt: skip


def work(loops):
    """A program of about 2.5 ms of a core for 1,000 loops, page faults all along."""
    return "/bin/sh", "-c", f"i=0; while [ $i -lt {loops} ]; do i=$((i+1)); done"


WORK = work(4000)
WAYS = ResourceSpec("cache_ways", "ways", (2.0, 4.0, 8.0))


def machine(folder):
    """A kernel with resctrl in a folder, and what its tree shows now."""
    return FakeKernel(folder / "kernel").with_resctrl()


def tree(kernel):
    """Every setting of a fake kernel."""
    return {
        str(p): p.read_text() if p.is_file() else None
        for p in (kernel.root / "tree").rglob("*")
        if p.name not in ("last_cmd_status", "scaling_cur_freq")
    }


def spec(*command, **given):
    """A short sweep: three contexts of two runs."""
    given = {"resources": (WAYS,), "task": "work", "runs": 2, "warmups": 0, "timeout": 20.0} | given
    events = ("task-clock", "page-faults")
    return Spec(command=command or WORK, **{"events": events, "interval": 0.005, **given})


def await_that(true, seconds=5.0):
    """Wait until something is true."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.005)


def processes(word):
    """Processes that live and have a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (path / "cmdline").read_bytes() and path.name != str(os.getpid()):
                found.append(int(path.name))
        except OSError:
            continue
    return found
