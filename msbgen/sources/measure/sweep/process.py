"""The measured program's process: started paused, released, and killed in every case.

A shell says that it has started, reads a line, and then becomes the program (exec).  So the counts
from the release on are those of the program and a few hundred microseconds of its loading.  The
program also dies when this process dies: the kernel kills it (``PR_SET_PDEATHSIG``), and a watchdog
kills its children.
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

from msbgen.core.processes import die_with_parent
from msbgen.data.files import open_private

# Environment variable that marks the processes of a sweep, wherever they have moved.
TAG = "MSBGEN_SWEEP"

_PAUSE_THEN_EXEC = 'echo && read -r _ && exec "$@" < "$0" > /dev/null'
_KILL_GROUP_AT_END = (
    'group=; while read -r line; do group=$line; done; [ -z "$group" ] || kill -9 "-$group"'
)
_PR_SET_CHILD_SUBREAPER = 36
# Killed processes end within this time [s], or hang in the kernel.
_KILL_TIMEOUT = 2.0
_RETRY_PAUSE = 0.002


@dataclass(frozen=True)
class ProcessResult:
    """How a run ended."""

    status: int  # exit status; the negative signal number if a signal ended the program
    wall: float  # time from the release to the end [s]
    cpu: float  # CPU time of the program and of the children that it waited for [s]
    in_time: bool  # whether it ended before the timeout


class PausedProcess:
    """A program that waits to be released; `pid` is also that of its session and process group."""

    def __init__(self, process: subprocess.Popen[bytes]):
        self._process = process
        self.pid = process.pid

    def run(self, timeout: float, watch: Callable[[], None] | None = None) -> ProcessResult:
        """Release the program and wait for its end; kill it after the timeout [s].

        `watch` is called ten times a second while the program runs.
        """
        gate = self._process.stdin
        assert gate is not None
        handle = os.pidfd_open(self.pid)
        try:
            end = select.poll()
            end.register(handle, select.POLLIN)
            cpu_of_shell = _cpu_seconds(self.pid)
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
        cpu = max(usage.ru_utime + usage.ru_stime - cpu_of_shell, 0.0)
        return ProcessResult(code, wall, cpu, ended)


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process so far [s]; 0 if the kernel does not tell."""
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
    """A paused program; at the end of the block it and its process group are killed.

    It runs in `folder`, reads the file `stdin`, and writes standard error to a file; standard
    output is discarded.  `environment` is added to ours; `tag` is the sweep's.
    """
    with open(stderr, "wb", opener=open_private) as messages:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _PAUSE_THEN_EXEC, os.fspath(stdin), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            cwd=folder,
            env={**os.environ, **environment, TAG: tag},
            start_new_session=True,
            preexec_fn=die_with_parent(),
            bufsize=0,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdout as started:  # what counts from now on does not count the shell's start
            started.read(1)
        yield PausedProcess(process)
    finally:
        if process.poll() is None:
            kill_process_group(process.pid)
            process.wait()
        with suppress(OSError):
            process.stdin.close()


def kill_process_group(group: int) -> None:
    """Kill a process group, if it exists."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def kill_leftovers(group: int, tag: str, spared: frozenset[int] | None = None) -> int:
    """Kill the processes that a program left behind; return how many there were.

    These are its process group (0 for none) and the processes with the sweep's tag in their
    environment.  If `spared` children of ours (:func:`child_processes`) are given, all others are
    killed: they are orphans that this process has adopted (:func:`become_subreaper`).
    """
    until = time.monotonic() + _KILL_TIMEOUT
    most = 0
    while True:
        leftovers, adopted = set(tagged_processes(tag)), frozenset[int]()
        running = _processes()
        if group:
            leftovers |= {pid for pid, entry in running.items() if entry.group == group}
        if spared is not None:
            adopted = _children(running) - spared
            leftovers |= adopted
        for pid in leftovers:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in adopted:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        most = max(most, len(leftovers))
        if not leftovers or time.monotonic() > until:
            return most
        time.sleep(_RETRY_PAUSE)


@dataclass(frozen=True)
class _ProcessEntry:
    """Numbers of a process's parent, group and session."""

    parent: int
    group: int
    session: int


def _processes() -> dict[int, _ProcessEntry]:
    """All running processes, without zombies."""
    entries = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = _proc_file(name, "stat").rpartition(b")")[2].split(maxsplit=4)
            if stat[0] not in b"ZX":
                entries[int(name)] = _ProcessEntry(*map(int, stat[1:4]))
    return entries


def _proc_file(process: str, name: str) -> bytes:
    """Content of a file of a process; unbuffered, as a sweep reads those of all processes often."""
    with open(f"/proc/{process}/{name}", "rb", buffering=0) as file:
        return file.read()


def child_processes() -> frozenset[int]:
    """Children of this process in other sessions: paused programs and adopted orphans."""
    return _children(_processes())


def _children(running: Mapping[int, _ProcessEntry]) -> frozenset[int]:
    parent, session = os.getpid(), os.getsid(0)
    return frozenset(
        pid for pid, entry in running.items() if entry.parent == parent and entry.session != session
    )


def become_subreaper(enabled: bool) -> None:
    """Make this process, instead of init, the parent of orphaned descendants; or stop it."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0)


def tagged_processes(tag: str) -> list[int]:
    """Running processes that the sweep with this tag started."""
    entry = f"{TAG}={tag}".encode()
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):  # it has ended, or belongs to another user
                if entry in _proc_file(name, "environ").split(b"\0"):
                    pids.append(int(name))
    return pids


class Watchdog:
    """A shell that kills the program's process group when this process ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _KILL_GROUP_AT_END],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )

    def watch_group(self, group: int) -> None:
        """Set the group to kill; 0 for none."""
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(BrokenPipeError):  # the watchdog was killed: --restore does its work
            os.write(pipe.fileno(), f"{group or ''}\n".encode())

    def stop(self) -> None:
        """End the watchdog without killing anything."""
        self.watch_group(0)
        pipe = self._process.stdin
        assert pipe is not None
        pipe.close()
        self._process.wait()
