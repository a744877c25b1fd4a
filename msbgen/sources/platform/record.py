"""Record one run of a real program as a trace, on an emulated processor.

The program runs under ``qemu-x86_64`` with a plugin (``recorder.c``, built with the system's
compiler) that simulates private caches and a branch predictor and writes every request to the
last-level cache.  One pass over the requests (Mattson et al., 1970) gives the misses for every
number of ways at once, for several random assignments of physical pages.

Optional: Linux on x86-64 with two Debian packages, ``qemu-user`` and ``gcc``.
"""

import filecmp
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.records import Count, checks_arguments
from msbgen.data.files import check_output, check_private_folder
from msbgen.sources.platform.caches import stack_histogram
from msbgen.sources.platform.stream import make_stream, write_stream
from msbgen.sources.platform.trace import make_trace, write_trace

_log = logging.getLogger("msbgen")

_PLATFORM = (
    "32K L1I+L1D 8-way, 256K L2 8-way, 20 MiB 20-way last level (16384 sets), "
    "random page colourings"
)
_SUMMARY = 4  # instructions, hundredths of core cycles, fixed time [ns], requests
_FINER = 20  # intervals of a stream in one of its trace
_X86_64 = 62


class RecordError(RuntimeError):
    """A program could not be recorded; the message has the reason and a remedy."""


@checks_arguments
def record_trace(
    command: Sequence[str],
    output: str | os.PathLike[str],
    *,
    stdin: str | os.PathLike[str] = os.devnull,
    interval: Count = 400_000,
    colourings: Count = 3,
    rng: np.random.Generator | int = 0,
    stream: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    on_instructions: Callable[[int], None] | None = None,
) -> xr.Dataset:
    """Record a run of a program and write its trace.

    The command runs twice in the current folder, natively and recorded.  It must find its inputs
    and print the same text both times.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.  The program is an x86-64 executable, no script; only its first
        thread is recorded, and no child process.
    output : path
        Trace file to write.
    stdin : path
        What the program reads from its standard input.
    interval : int
        Instructions in an interval of the trace.
    colourings : int
        Number of random page colourings; a replayed run draws one of them.
    rng : numpy.random.Generator or int
        Draws the colourings.
    stream : path, optional
        File for every request of the run, too: programs that share a cache are replayed from these
        (:func:`replay_beside`).
    overwrite : bool
        Whether existing files may be replaced.
    on_instructions : callable, optional
        Called a few times per second with the number of instructions recorded so far; the total is
        unknown.

    Returns
    -------
    xarray.Dataset
        The trace.

    Raises
    ------
    RecordError
        A package is missing, the program cannot run under emulation, or what it printed or
        returned differs from its native run.
    ArgumentError
        No command, an input that is no file, or a number out of range.
    FileExistsError
        `output` exists and `overwrite` is False.
    OSError
        `output` cannot be written.

    Notes
    -----
    40 to 200 million instructions per second, and 8 B of temporary storage per request.
    """
    if not command:
        raise ArgumentError("command is empty; a program and its arguments are wanted.")
    if os.fspath(stdin) != os.devnull and not Path(stdin).is_file():  # because it is read twice
        raise ArgumentError(f"stdin is '{stdin}'; an existing file is wanted, no pipe.")
    output = Path(output)
    check_output(output, overwrite=overwrite)
    if stream is not None:
        check_output(Path(stream), overwrite=overwrite)
    check_recording_needs()
    program = [_executable(command), *command[1:]]
    with tempfile.TemporaryDirectory(prefix="msbgen-record-") as folder:
        scratch = Path(folder)
        prefix = scratch / "run"
        fine = interval if stream is None else max(1, interval // _FINER)
        # commas are doubled in an option of QEMU
        paths = [str(path).replace(",", ",,") for path in (_build_plugin(scratch), prefix)]
        options = f"{paths[0]},prefix={paths[1]},interval={fine}"
        emulated = ["qemu-x86_64", "-cpu", "max", "-plugin", options, *program]
        native_code = _run(program, scratch / "native", stdin, lambda: None)

        def poll() -> None:
            if on_instructions:
                on_instructions(_recorded(prefix))

        code = _run(emulated, scratch / "emulated", stdin, poll)
        command_line = shlex.join([Path(command[0]).name, *command[1:]])
        # arguments are bytes; invalid UTF-8 is escaped, so that a file can hold it
        name = command_line.encode("utf-8", "backslashreplace").decode()
        if not prefix.with_suffix(".end").exists():
            raise RecordError(
                f"'{name}' did not end by itself under emulation (exit code {code}, native run "
                f"{native_code}){_last_message(scratch)}. A program that is killed, replaces "
                f"itself by another or fills the disk cannot be recorded, and QEMU must have "
                f"plugins of API version 1."
            )
        same = filecmp.cmp(scratch / "native.out", scratch / "emulated.out", shallow=False)
        if code != native_code or not same:
            what = "printed something else" if code == native_code else f"returned {code}"
            raise RecordError(
                f"'{name}' {what} under emulation than in its native run (which returned "
                f"{native_code}){_last_message(scratch)}. The recording was thrown away: a program "
                f"must find its inputs in both runs and print nothing that changes, such as times."
            )
        if code != 0:
            _log.warning("'%s' returned %d, natively as well as recorded", name, code)
        others = float(np.fromfile(prefix.with_suffix(".end"), np.uint64)[0])
        recorded = float(_recorded(prefix))
        share = recorded / (recorded + others) if recorded > 0 else 0.0
        if share < 0.99:
            _log.warning(
                "'%s' has several threads; the trace is the first one's, with %.0f %% of the "
                "instructions",
                *(name, 100 * share),
            )
        summaries, requests = _read_recording(prefix, name)
        version = subprocess.run(["qemu-x86_64", "--version"], capture_output=True, check=False)
        attrs = {
            "program": name,
            "platform": _PLATFORM,
            "recorder": version.stdout.decode(errors="replace").splitlines()[0],
        }
        keys = generator(rng).integers(2**63, size=colourings, dtype=np.uint64)
        trace = _summarise(summaries, requests, interval, keys, attrs)
        every = None if stream is None else make_stream(_columns(summaries), requests, attrs)
    write_trace(trace, output, overwrite=overwrite)
    if stream is not None and every is not None:
        write_stream(every, stream, overwrite=overwrite)
    return trace


def check_recording_needs() -> None:
    """Raise :class:`RecordError` if a requirement of recording is missing."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        raise RecordError(
            f"recording needs Linux on x86-64, this is {sys.platform} on {platform.machine()}; "
            f"traces can be replayed on every machine."
        )
    needs = {"qemu-x86_64": "qemu-user", "gcc": "gcc"}
    missing = [program for program in needs if shutil.which(program) is None]
    if missing:
        raise RecordError(
            f"recording needs {' and '.join(missing)}, not found here; on Debian and Ubuntu: "
            f"apt install {' '.join(needs[program] for program in missing)}"
        )


def _executable(command: Sequence[str]) -> str:
    """Path of the program, which must be an x86-64 executable."""
    path = shutil.which(command[0])
    if path is None:
        raise RecordError(f"'{command[0]}': no such program; install it, or give its path.")
    with open(path, "rb") as stream:
        head = stream.read(20)
    if head[:2] == b"#!":
        interpreter = head.splitlines()[0][2:].decode(errors="replace").strip()
        raise RecordError(
            f"'{path}' is a script ({interpreter} ...): record its interpreter with the script as "
            f"its argument."
        )
    if head[:4] != b"\x7fELF" or int.from_bytes(head[18:20], "little") != _X86_64:
        raise RecordError(f"'{path}' is no x86-64 executable.")
    return path


def _build_plugin(scratch: Path) -> Path:
    """Path of the compiled plugin, built once for each version of its source and of the compiler.

    It is in the user's cache folder, or in `scratch` if that cannot be written, or if other users
    can write it: they could put a program of theirs there.
    """
    source = files("msbgen.sources.platform").joinpath("recorder.c").read_bytes()
    version = subprocess.run(["gcc", "--version"], capture_output=True, check=False).stdout
    digest = blake2b(source + version, digest_size=8).hexdigest()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "msbgen"
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        check_private_folder(folder)
        ours = os.access(folder, os.W_OK)
    except (OSError, ProfileError):
        ours = False
    if not ours:
        folder = scratch
    plugin = folder / f"recorder-{digest}.so"
    if plugin.exists():
        return plugin
    handle, partial = tempfile.mkstemp(suffix=".so", dir=folder)
    os.close(handle)
    try:
        flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden"]
        done = subprocess.run(
            ["gcc", *flags, "-x", "c", "-", "-o", partial],
            input=source,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            messages = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
            raise RecordError(
                f"gcc could not build the recorder: {messages[0]}. It needs the C library's "
                f"headers, too; on Debian and Ubuntu: apt install gcc libc6-dev"
            )
        os.replace(partial, plugin)
    finally:
        Path(partial).unlink(missing_ok=True)
    return plugin


def _run(
    command: list[str], prefix: Path, stdin: str | os.PathLike[str], poll: Callable[[], None]
) -> int:
    """Run with output into PREFIX.out and PREFIX.err; return the exit code."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("QEMU_")}
    with (
        open(stdin, "rb") as stream,
        prefix.with_suffix(".out").open("wb") as out,
        prefix.with_suffix(".err").open("wb") as err,
    ):
        process = subprocess.Popen(command, stdin=stream, stdout=out, stderr=err, env=environment)
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(0.25)
                poll()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _recorded(prefix: Path) -> int:
    """Number of instructions in the intervals written so far."""
    path = prefix.with_suffix(".summaries")
    if not path.exists():
        return 0
    count = path.stat().st_size // (8 * _SUMMARY)
    return int(np.fromfile(path, np.uint64, _SUMMARY * count)[::_SUMMARY].sum())


def _last_message(scratch: Path) -> str:
    """The last line that the emulated program or QEMU printed, as a part of a message."""
    path = scratch / "emulated.err"
    lines = path.read_bytes().decode(errors="replace").strip().splitlines()
    return f"; its last message: {lines[-1]}" if lines else ""


def _read_recording(prefix: Path, name: str) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Summaries, (n_intervals, 4), and requests, (n_requests,), of a recording."""
    summaries = np.fromfile(prefix.with_suffix(".summaries"), np.uint64).reshape(-1, _SUMMARY)
    stored = prefix.with_suffix(".requests")
    empty = stored.stat().st_size == 0  # an empty file cannot be mapped
    requests = np.empty(0, np.uint64) if empty else np.memmap(stored, np.uint64, mode="r")
    counted = int(summaries[:, 3].sum())
    if counted != len(requests):
        raise RecordError(
            f"the recording of '{name}' holds {len(requests)} requests where its intervals have "
            f"{counted}; more space in '{prefix.parent.parent}' is wanted."
        )
    return summaries, requests


def _columns(summaries: NDArray[np.uint64]) -> dict[str, NDArray[np.float64]]:
    """Summaries by name: instructions, core cycles, fixed time [ns], requests."""
    values = summaries.astype(float)
    names = ("instructions", "core_cycles", "fixed_time", "requests")
    return dict(zip(names, (values / [1, 100, 1, 1]).T))


def _summarise(
    summaries: NDArray[np.uint64],
    requests: NDArray[np.uint64],
    interval: int,
    keys: NDArray[np.uint64],
    attrs: dict[str, str],
) -> xr.Dataset:
    """Trace with intervals of at least `interval` instructions, of finer summaries."""
    # an interval ends with the first summary that reaches its length, as the recorder ends its own
    ends, total = [], 0
    for row, count in enumerate(summaries[:, 0].tolist()):
        total += count
        if total >= interval or row + 1 == len(summaries):
            ends.append(row + 1)
            total = 0
    merged = np.add.reduceat(summaries, [0, *ends[:-1]], axis=0) if ends else summaries
    columns = _columns(merged)
    counts = merged[:, 3].astype(np.int64)
    return make_trace(
        columns["instructions"],
        columns["core_cycles"],
        columns["fixed_time"],
        stack_histogram(requests, counts, keys),
        attrs=attrs,
    )
