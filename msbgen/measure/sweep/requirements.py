"""What a sweep needs of the machine, asked before it is changed: each lack with its remedy."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from numpy.typing import NDArray

from msbgen.measure.actuators.actuator import Actuator
from msbgen.measure.sweep.actuators import program_cores
from msbgen.measure.sweep.perf_stat import error_text
from msbgen.measure.sweep.spec import Spec

# perf is told by a pipe when to count since this version.
_SINCE = (5, 10)
# Bytes of a line of a recording, and what a recording may take where nobody says how long runs are.
_LINE, _UNKNOWN = 70, 60.0
_RESERVE = 20_000_000  # bytes that stay free
_PROBED = 20.0  # seconds that perf may take to count nothing
_NEVER = ("user_time", "system_time")


class RequirementError(RuntimeError):
    """The machine lacks what a sweep needs.

    Attributes
    ----------
    problems : tuple of str
        Every lack, a sentence with its remedy each.
    """

    def __init__(self, *problems: str):
        self.problems = problems
        super().__init__("\n".join(problems))


def check_machine(
    spec: Spec, contexts: NDArray, actuators: Sequence[Actuator], lacks_of_recorder: Iterable[str]
) -> None:
    """Raise :class:`RequirementError` with all that is lacking; changes nothing.

    Parameters
    ----------
    spec : Spec
    contexts : ndarray, (n_contexts, n_resources)
    actuators : sequence of Actuator
        One a resource.
    lacks_of_recorder : iterable of str
        What is lacking for recordings; asked last.
    """
    problems = [*_of_system(), *_of_program(spec)]
    for column, actuator in zip(contexts.T, actuators):
        levels = sorted(set(column.tolist()))
        problems += actuator.capability().level_problems(actuator.name, levels, actuator.units)
    problems += lacks_of_recorder
    if problems:
        raise RequirementError(*problems)


def perf_version() -> str | None:
    """What perf says of its version; None where there is no perf."""
    if shutil.which("perf") is None:
        return None
    said = subprocess.run(["perf", "--version"], capture_output=True, text=True, check=False)
    return said.stdout.strip().removeprefix("perf version ").strip()


def describe_machine() -> str:
    """The machine in a line: processor, cores, kernel."""
    model = platform.machine()
    try:
        named = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        model = named[1] if named else model
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def _of_system() -> Iterator[str]:
    if not sys.platform.startswith("linux"):
        yield f"measuring needs Linux, this is {sys.platform}; recordings can be imported anywhere."


def perf_problems() -> Iterator[str]:
    """Why perf cannot count."""
    version = perf_version()
    if version is None:
        yield (
            "perf is not found; install it (Debian: apt-get install linux-perf, Ubuntu: apt-get "
            "install linux-tools-$(uname -r))."
        )
        return
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if not numbers:
        yield f"perf does not start ('perf --version' says '{version}'); install one that does."
    elif numbers < _SINCE:
        yield f"perf is of version {version}; 5.10 or newer is wanted."


def _of_program(spec: Spec) -> Iterator[str]:
    lack = missing_program(spec)
    if lack:
        yield lack
    unknown = sorted(set(program_cores(spec)) - os.sched_getaffinity(0))
    if unknown:
        ours = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        yield f"cores {unknown} are not ours to use; some of {ours} are wanted."


def missing_program(spec: Spec) -> str | None:
    """Why the program cannot be started; None if it can."""
    program = spec.command[0]
    if "/" in program:
        path = Path(spec.folder, program)
        found = path.is_file() and os.access(path, os.X_OK)
        return None if found else f"'{path}' is no program that can be run; build or install it."
    if shutil.which(program, path=spec.environment.get("PATH")) is None:
        return f"'{program}': no such program; install it, or name it with its folder."
    return None


def disk_problems(spec: Spec, folder: Path, runs: int) -> Iterator[str]:
    """Why so many recordings would not fit on the disk."""
    seconds = min(spec.timeout, spec.seconds or _UNKNOWN)
    wanted = runs * len(spec.events) * _LINE * (seconds / spec.interval + 1) + _RESERVE
    free = shutil.disk_usage(folder).free
    if wanted > free:
        yield (
            f"{folder}: {runs} recordings may take {wanted / 1e6:.3g} MB, {free / 1e6:.3g} MB are "
            f"free; make room, or name an output elsewhere."
        )


def event_problems(spec: Spec) -> Iterator[str]:
    """Why events cannot be counted: every one is, once, of nothing."""
    with tempfile.TemporaryDirectory(prefix="msbgen-probe-") as scratch:
        output, words = Path(scratch, "out"), Path(scratch, "words")
        for event in spec.events:
            if event in _NEVER:
                yield f"event '{event}' never counts in intervals; measure task-clock in its place."
                continue
            command = ["perf", "stat", "-x", ";", "-e", event, "-o", str(output), "--", "true"]
            output.write_bytes(b"")
            with words.open("wb") as stderr:
                try:
                    code = subprocess.run(
                        command, stderr=stderr, stdout=subprocess.DEVNULL, check=False,
                        stdin=subprocess.DEVNULL, timeout=_PROBED,
                        env={**os.environ, "LC_ALL": "C"},
                    ).returncode  # fmt: skip
                except subprocess.TimeoutExpired:
                    yield f"event '{event}': perf is silent for {_PROBED:g} s; leave it out."
                    continue
            if code or "<not supported>" in output.read_text(errors="replace"):
                yield _about(event, error_text(words) if code else "not supported on this machine")


def _about(event: str, said: str) -> str:
    """Why an event cannot be counted, and what would help."""
    if re.search("permission|paranoid|access", said, re.I):
        remedy = (
            "run as root, or: sysctl kernel.perf_event_paranoid=1 (tracepoints: -1, and read "
            "access to /sys/kernel/tracing)"
        )
    elif "not supported" in said:
        remedy = "there is no counter for it here (virtual machines have none): leave it out"
    elif ":" in event:
        remedy = (
            "tracepoints and probes must exist: mount -t tracefs none /sys/kernel/tracing; 'perf "
            "list', 'perf probe -l'"
        )
    else:
        remedy = "'perf list' shows those that there are"
    return f"event '{event}' cannot be counted ({said[:200]}); {remedy}."
