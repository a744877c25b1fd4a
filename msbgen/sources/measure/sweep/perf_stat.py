"""``perf stat`` attached to a paused program, counting before the program is released.

With ``-I`` perf exits with 0 even if the program that it started fails.  So it starts none here,
and receives the command to count through a pipe (``--control``, since Linux 5.10).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msbgen.core.processes import die_with_parent
from msbgen.data.files import open_private
from msbgen.sources.measure.sweep.process import TAG

# perf attaches within milliseconds, under heavy load within seconds [s].
_ATTACH_TIMEOUT = 30.0
# perf ends at its next interval after the program has ended [s].
_END_TIMEOUT = 10.0
_PRIORITY = 1


class PerfError(RuntimeError):
    """perf could not count a program; the message is perf's own."""


def perf_command(
    events: Sequence[str], interval: float, output: str | os.PathLike[str], pid: int | str
) -> list[str]:
    """The command that counts a process; the caller appends the pipe's file descriptors."""
    return [
        "perf", "stat", "-I", str(round(1000 * interval)), "-x", ";", "-e", ",".join(events),
        "-o", os.fspath(output), "-D", "-1", "-p", str(pid), "--control",
    ]  # fmt: skip


@contextmanager
def counting(
    pid: int,
    output: Path,
    *,
    events: Sequence[str],
    interval: float,
    cores: Sequence[int],
    tag: str,
) -> Iterator[None]:
    """Count the events of a paused program into a file; perf counts within the block.

    perf samples every `interval` [s] on `cores`, other than the program's if possible, with the
    sweep's `tag`.  PerfError: perf refused, or does not answer.
    """
    stderr_file = output.with_suffix(".perf")
    answers, commands = os.pipe(), os.pipe()  # (read end, write end)
    open_ends, process = {*answers, *commands}, None

    def close(handle: int) -> None:
        open_ends.remove(handle)  # first, so that a signal in between cannot close it twice
        os.close(handle)

    try:
        with open(stderr_file, "wb", opener=open_private) as stderr:
            process = subprocess.Popen(
                [*perf_command(events, interval, output, pid), f"fd:{commands[0]},{answers[1]}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(commands[0], answers[1]),
                env={**os.environ, "LC_ALL": "C", TAG: tag},
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        _pin_with_priority(process.pid, cores)
        close(answers[1])
        close(commands[0])
        with suppress(BrokenPipeError):
            os.write(commands[1], b"enable\n")
        _await_acknowledgement(process, answers[0], stderr_file)
        yield
        _await_end(process, stderr_file)
    finally:
        for handle in sorted(open_ends):
            close(handle)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        stderr_file.unlink(missing_ok=True)


def _pin_with_priority(pid: int, cores: Sequence[int]) -> None:
    """Pin perf to these cores, with real-time priority, if that is permitted."""
    with suppress(OSError):
        os.sched_setaffinity(pid, cores)
    with suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(_PRIORITY))


def _await_acknowledgement(
    process: subprocess.Popen[bytes], answers: int, stderr_file: Path
) -> None:
    until = time.monotonic() + _ATTACH_TIMEOUT
    received = b""
    while b"ack\n" not in received:
        left = until - time.monotonic()
        if left <= 0:
            raise PerfError(f"perf did not count within {_ATTACH_TIMEOUT:g} s")
        if select.select([answers], [], [], left)[0]:
            part = os.read(answers, 64)
            if not part:
                process.wait()
                raise PerfError(error_text(stderr_file) or f"perf exited with {process.returncode}")
            received += part


def _await_end(process: subprocess.Popen[bytes], stderr_file: Path) -> None:
    try:
        process.wait(_END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(_END_TIMEOUT)
    if process.returncode != 0:
        raise PerfError(error_text(stderr_file) or f"perf exited with {process.returncode}")


def error_text(path: Path) -> str:
    """A program's stderr as one line of at most 300 characters, without perf's headings."""
    lines = path.read_bytes().decode(errors="replace").splitlines()
    headings = ("Events enabled", "Events disabled", "Error:", "Warning:")
    kept = [line.strip() for line in lines if line.strip() and not line.startswith(headings)]
    return " ".join(kept)[:300].rstrip(". ")
