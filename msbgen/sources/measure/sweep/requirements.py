"""Requirements of a sweep, checked before any setting is changed, each with a remedy."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from numpy.typing import NDArray

from msbgen.data.groups import clock_among
from msbgen.sources.measure.actuators.actuator import Actuator
from msbgen.sources.measure.sweep.actuators import program_cores
from msbgen.sources.measure.sweep.perf_stat import error_text
from msbgen.sources.measure.sweep.spec import Spec

# The first version of perf that is controlled through a pipe.
_OLDEST_PERF = (5, 10)
# Length of a recording's line [B], and the assumed duration of a run without 'seconds' [s].
_LINE_BYTES, _ASSUMED_SECONDS = 70, 60.0
_RESERVE = 20_000_000  # space that stays free [B]
_PERF_TIMEOUT = 20.0  # for counting an event of `true` [s]
# Tool events that perf never counts in intervals.
_NEVER_COUNTED = ("user_time", "system_time")


class RequirementError(RuntimeError):
    """The machine does not meet the requirements of a sweep; `problems` has a remedy for each."""

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


def check_machine(
    spec: Spec, contexts: NDArray, actuators: Sequence[Actuator], recorder_problems: Iterable[str]
) -> None:
    """Raise :class:`RequirementError` with all unmet requirements; change nothing.

    There is one actuator per column of `contexts`, (n_contexts, n_resources).  The result of
    :meth:`Recorder.problems` is evaluated last.
    """
    problems = [*_system_problems(), *_program_problems(spec, contexts)]
    for column, actuator in zip(contexts.T, actuators):
        levels = sorted(set(column.tolist()))
        problems += actuator.capability().level_problems(actuator.name, levels, actuator.units)
    problems += recorder_problems
    if problems:
        raise RequirementError(*problems)


def perf_version() -> str | None:
    """Version of perf, as perf prints it; None if there is no perf."""
    if shutil.which("perf") is None:
        return None
    printed = subprocess.run(["perf", "--version"], capture_output=True, text=True, check=False)
    return printed.stdout.strip().removeprefix("perf version ").strip()


def describe_machine() -> str:
    """Processor, number of cores and kernel, in one line."""
    model = platform.machine()
    try:
        named = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = named[1] if named else model
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def _system_problems() -> Iterator[str]:
    if not sys.platform.startswith("linux"):
        yield f"measuring needs Linux, this is {sys.platform}; recordings can be imported anywhere."


def perf_problems() -> Iterator[str]:
    """Why perf cannot be used."""
    version = perf_version()
    if version is None:
        yield (
            "perf is not found; install it (Debian: apt-get install linux-perf, Ubuntu: apt-get "
            "install linux-tools-$(uname -r))."
        )
        return
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if not numbers:
        yield f"perf does not start ('perf --version' prints '{version}'); install it again."
    elif numbers < _OLDEST_PERF:
        yield f"perf has version {version}; 5.10 or newer is wanted."


def _program_problems(spec: Spec, contexts: NDArray) -> Iterator[str]:
    for variant in spec.programs().values():
        for program in sorted({variant.command_in(context)[0] for context in contexts.tolist()}):
            if problem := missing_program(variant, program):
                yield problem
    unknown = sorted(set(program_cores(spec)) - os.sched_getaffinity(0))
    if unknown:
        ours = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        yield f"cores {unknown} are not available; cores among {ours} are wanted."


def missing_program(spec: Spec, program: str) -> str | None:
    """Why a program cannot be started; None if it can be."""
    if "/" in program:
        path = Path(spec.folder, program)
        executable = path.is_file() and os.access(path, os.X_OK)
        return None if executable else f"'{path}' is not an executable file; build or install it."
    if shutil.which(program, path=spec.environment.get("PATH")) is None:
        return f"'{program}': no such program; install it, or give its path."
    return None


def disk_problems(spec: Spec, folder: Path, runs: int) -> Iterator[str]:
    """Why this number of recordings may not fit on the disk."""
    seconds = min(spec.timeout, spec.seconds or _ASSUMED_SECONDS)
    wanted = runs * len(spec.events) * _LINE_BYTES * (seconds / spec.interval + 1) + _RESERVE
    free = shutil.disk_usage(folder).free
    if wanted > free:
        yield (
            f"{folder}: {runs} recordings may take {wanted / 1e6:.3g} MB, {free / 1e6:.3g} MB are "
            f"free; make room, or choose an output on another disk."
        )


def event_problems(spec: Spec) -> Iterator[str]:
    """Why events cannot be counted; each is counted once while /bin/true runs."""
    with tempfile.TemporaryDirectory(prefix="msbgen-probe-") as scratch:
        output, stderr_file = Path(scratch, "out"), Path(scratch, "err")
        for event in spec.events:
            if event in _NEVER_COUNTED:
                yield f"event '{event}' never counts in intervals; measure task-clock in its place."
                continue
            command = ["perf", "stat", "-x", ";", "-e", event, "-o", str(output), "--", "true"]
            output.write_bytes(b"")
            with stderr_file.open("wb") as stderr:
                try:
                    code = subprocess.run(
                        command, stderr=stderr, stdout=subprocess.DEVNULL, check=False,
                        stdin=subprocess.DEVNULL, timeout=_PERF_TIMEOUT,
                        env={**os.environ, "LC_ALL": "C"},
                    ).returncode  # fmt: skip
                except subprocess.TimeoutExpired:
                    yield (
                        f"event '{event}': perf does not answer in {_PERF_TIMEOUT:g} s; leave it "
                        f"out."
                    )
                    continue
            if code or "<not supported>" in output.read_text(errors="replace"):
                reason = error_text(stderr_file) if code else "not supported on this machine"
                yield _event_problem(event, reason)


def describe_progress(spec: Spec) -> str:
    """Which event will measure progress, and whether this machine counts a better one."""
    events = spec.events
    chosen = spec.progress or clock_among(events) or "time"
    text = f"progress: {chosen} measures it"
    if spec.progress or any(event.startswith("instructions") for event in events):
        return text
    if any(event_problems(replace(spec, events=("instructions",)))):
        return (
            f"{text}, as this machine counts no 'instructions'; of its software events, CPU time "
            f"is the best, and 'time' for a program that waits"
        )
    return f"{text}; this machine counts 'instructions', which is better: add it to 'events'"


def _event_problem(event: str, reason: str) -> str:
    """Sentence about an event that cannot be counted, with a remedy."""
    if re.search("permission|paranoid|access", reason, re.I):
        remedy = (
            "run as root, or: sysctl kernel.perf_event_paranoid=1 (tracepoints: -1, and read "
            "access to /sys/kernel/tracing)"
        )
    elif "not supported" in reason:
        remedy = "this machine has no counter for it (virtual machines have none): leave it out"
    elif ":" in event:
        remedy = (
            "tracepoints and probes must exist: mount -t tracefs none /sys/kernel/tracing; 'perf "
            "list', 'perf probe -l'"
        )
    else:
        remedy = "'perf list' shows the available events"
    return f"event '{event}' cannot be counted ({reason[:200]}); {remedy}."
