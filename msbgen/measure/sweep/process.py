"""The program that is measured: held at a pipe until everything is in place, then let go.

It waits in a shell that reads a line and then becomes the program, so that what is counted from
the release on is the program, and a few hundred microseconds of its loading.  Whatever happens to
us, it dies: by the kernel's hand when this process dies (``PR_SET_PDEATHSIG``), with those that it
started by the hand of a guard that waits for the end of a pipe, and otherwise by our own.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# The variable by which processes of a sweep are found, whatever became of their groups.
TAG = "MSBGEN_SWEEP"

_HOLD = 'read -r _ && exec "$@" < "$0"'
_GUARD = 'group=; while read -r line; do group=$line; done; [ -z "$group" ] || kill -9 "-$group"'
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# Killed processes are gone within this time [s], or are stuck in the kernel.
_PATIENCE = 2.0
_PAUSE = 0.002


@dataclass(frozen=True)
class ProcessResult:
    """How a run ended.

    Attributes
    ----------
    status : int
        Exit status; minus the signal's number, if a signal ended it.
    wall : float
        From its release to its end [s].
    cpu : float
        Of the program and of the children that it waited for [s].
    in_time : bool
        Whether it ended by itself.
    """

    status: int
    wall: float
    cpu: float
    in_time: bool


class PausedProcess:
    """A program that waits to be released.

    Attributes
    ----------
    pid : int
        Also the number of its session and group.
    """

    def __init__(self, process: subprocess.Popen[bytes]):
        self._process = process
        self.pid = process.pid

    def run(self, timeout: float, watch: Callable[[], None] | None = None) -> ProcessResult:
        """Release it and wait for its end.

        Parameters
        ----------
        timeout : float
            After this time it is killed [s].
        watch : callable, optional
            Called ten times a second meanwhile.
        """
        gate = self._process.stdin
        assert gate is not None
        handle = os.pidfd_open(self.pid)
        try:
            end = select.poll()
            end.register(handle, select.POLLIN)
            spent = _on_cpu(self.pid)  # by the shell that became the program
            start = time.monotonic()
            os.write(gate.fileno(), b"\n")
            gate.close()
            ended = False
            while not ended and (left := start + timeout - time.monotonic()) > 0:
                ended = bool(end.poll(1000 * min(left, 0.1) if watch else 1000 * left))
                if watch and not ended:
                    watch()
            wall = time.monotonic() - start
        finally:
            os.close(handle)
        if not ended:
            kill_process_group(self.pid)
        _, status, usage = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code
        return ProcessResult(code, wall, max(usage.ru_utime + usage.ru_stime - spent, 0.0), ended)


def _on_cpu(pid: int) -> float:
    """CPU time of a process so far [s]; 0 where the kernel does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextmanager
def paused_process(
    command: Sequence[str],
    *,
    folder: str | os.PathLike[str],
    stdin: str | os.PathLike[str],
    stderr: str | os.PathLike[str],
    environment: Mapping[str, str],
    tag: str,
) -> Iterator[PausedProcess]:
    """A program that is held; at the end of the block it and all that it started are dead.

    Parameters
    ----------
    command : sequence of str
    folder : path
        Where it runs.
    stdin : path
        What it reads; what it prints is thrown away.
    stderr : path
        File for its messages.
    environment : mapping of str to str
        Variables beside ours.
    tag : str
        Of the sweep.
    """
    with open(stderr, "wb") as messages:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _HOLD, os.fspath(stdin), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=messages,
            cwd=folder,
            env={**os.environ, **environment, TAG: tag},
            start_new_session=True,
            preexec_fn=die_with_parent(),
            bufsize=0,
        )
    try:
        yield PausedProcess(process)
    finally:
        if process.poll() is None:
            kill_process_group(process.pid)
            process.wait()
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()


def die_with_parent() -> Callable[[], None]:
    """What a new process is to call so that the kernel ends it with us."""
    prctl = ctypes.CDLL(None).prctl  # not looked up between fork and exec
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill_process_group(group: int) -> None:
    """Kill a group of processes, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def kill_leftovers(group: int, tag: str, spared: frozenset[int] | None = None) -> int:
    """Kill what a program left behind, wherever it went.

    Parameters
    ----------
    group : int
        The program's; 0 for none.
    tag : str
        Of the sweep: processes that have it in their environment.
    spared : frozenset of int, optional
        Children of ours (:func:`children`) that are not the program's; where it is given, the
        others are: orphans that a process with :func:`become_subreaper` gets.

    Returns
    -------
    int
        How many processes there were.
    """
    until = time.monotonic() + _PATIENCE
    found = 0
    while True:
        there, adopted = set(tagged_processes(tag)), frozenset[int]()
        if group:
            there |= {pid for pid, where in _processes().items() if where.group == group}
        if spared is not None:
            adopted = child_processes() - spared
            there |= adopted
        for pid in there:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in adopted:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        found = max(found, len(there))
        if not there or time.monotonic() > until:
            return found
        time.sleep(_PAUSE)


@dataclass(frozen=True)
class _Where:
    """Where a process belongs: numbers of its parent, its group, its session."""

    parent: int
    group: int
    session: int


def _processes() -> dict[int, _Where]:
    """Processes that live: neither gone nor waiting for somebody to notice."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
            if stat[0] not in "ZX":
                found[int(name)] = _Where(*map(int, stat[1:4]))
    return found


def child_processes() -> frozenset[int]:
    """Children of ours in other sessions than our own: held programs, and what they orphaned."""
    own, session = os.getpid(), os.getsid(0)
    return frozenset(
        pid
        for pid, where in _processes().items()
        if where.parent == own and where.session != session
    )


def become_subreaper(adopt: bool) -> None:
    """Whether processes whose parents end become children of ours, rather than of the system."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0)


def tagged_processes(tag: str) -> list[int]:
    """Processes that live and were started by the sweep of this tag."""
    wanted = f"{TAG}={tag}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):  # gone meanwhile, or another user's
                if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    found.append(int(name))
    return found


class Watchdog:
    """A shell that outlives us by a moment: it kills the program's group when we are gone."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch_group(self, group: int) -> None:
        """From now on this group dies with us; 0 for none."""
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(BrokenPipeError):  # somebody killed the guard: --restore does its work
            os.write(pipe.fileno(), f"{group or ''}\n".encode())

    def stop(self) -> None:
        """End it, with nothing to kill."""
        self.watch_group(0)
        pipe = self._process.stdin
        assert pipe is not None
        pipe.close()
        self._process.wait()
