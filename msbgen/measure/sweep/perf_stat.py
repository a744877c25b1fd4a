"""perf attached to a program that is held: enabled, and known to count, before it is released.

With ``-I`` perf exits 0 whatever became of the program that it started; so it starts none, and is
told by a pipe when to count (``--control``, since Linux 5.10).
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

from msbgen.measure.sweep.process import TAG, die_with_parent

# perf attaches within milliseconds; on a machine under heavy load within seconds [s].
_ATTACHED = 30.0
# It ends at its next interval once the program is gone [s].
_ENDED = 10.0
_PRIORITY = 1


class PerfError(RuntimeError):
    """perf could not count a program; the message is perf's own."""


def perf_command(
    events: Sequence[str], interval: float, output: str | os.PathLike[str], pid: int | str
) -> list[str]:
    """The command that counts a process; the pipe's numbers are put behind it."""
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
    """Count a held program's events into a file; within the block perf counts.

    Parameters
    ----------
    pid : int
    output : Path
        The file to write.
    events : sequence of str
    interval : float
        [s]
    cores : sequence of int
        Where perf runs: others than the program's, if there are others.
    tag : str
        Of the sweep.

    Raises
    ------
    PerfError
        perf refused, or does not answer.
    """
    words = output.with_suffix(".perf")
    heard, told = os.pipe(), os.pipe()  # (ours, perf's) and (perf's, ours), by their ends
    ours, process = {*heard, *told}, None

    def close(handle: int) -> None:
        ours.remove(handle)  # first: a signal in between must not have it closed twice
        os.close(handle)

    try:
        with words.open("wb") as stderr:
            process = subprocess.Popen(
                [*perf_command(events, interval, output, pid), f"fd:{told[0]},{heard[1]}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(told[0], heard[1]),
                env={**os.environ, "LC_ALL": "C", TAG: tag},
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        _prefer(process.pid, cores)
        close(heard[1])
        close(told[0])
        with suppress(BrokenPipeError):
            os.write(told[1], b"enable\n")
        _await_acknowledgement(process, heard[0], words)
        yield
        _await_end(process, words)
    finally:
        for handle in sorted(ours):
            close(handle)
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        words.unlink(missing_ok=True)


def _prefer(pid: int, cores: Sequence[int]) -> None:
    """Another core than the program's, and before everything else there, where that is allowed."""
    with suppress(OSError):
        os.sched_setaffinity(pid, cores)
    with suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(_PRIORITY))


def _await_acknowledgement(process: subprocess.Popen[bytes], heard: int, words: Path) -> None:
    until = time.monotonic() + _ATTACHED
    said = b""
    while b"ack\n" not in said:
        left = until - time.monotonic()
        if left <= 0:
            raise PerfError(f"perf did not count within {_ATTACHED:g} s")
        if select.select([heard], [], [], left)[0]:
            part = os.read(heard, 64)
            if not part:
                process.wait()
                raise PerfError(error_text(words) or f"perf exited with {process.returncode}")
            said += part


def _await_end(process: subprocess.Popen[bytes], words: Path) -> None:
    try:
        process.wait(_ENDED)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        process.wait(_ENDED)
    if process.returncode != 0:
        raise PerfError(error_text(words) or f"perf exited with {process.returncode}")


def error_text(path: Path) -> str:
    """What a program said, in a line: without what perf says of itself."""
    lines = path.read_bytes().decode(errors="replace").splitlines()
    own = ("Events enabled", "Events disabled", "Error:", "Warning:")
    said = [line.strip() for line in lines if line.strip() and not line.startswith(own)]
    return " ".join(said)[:300].rstrip(". ")
