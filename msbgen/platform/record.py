"""Record one run of a real program as a trace, on an emulated processor.

The program runs under ``qemu-x86_64`` with a plugin (``recorder.c``, built with the system's
compiler) that simulates private caches and a branch predictor and writes every request to the
last-level cache.  One pass over the requests (Mattson et al., 1970) gives the misses for every
number of ways at once, for several random assignments of physical pages.

Optional: Linux on x86-64 with two Debian packages, ``qemu-user`` and ``gcc``.
"""

from __future__ import annotations

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

from msbgen.platform._kernels import stack_distances
from msbgen.platform.trace import make_trace, write_trace

_log = logging.getLogger("msbgen")

# 20 MiB: 16,384 sets of 64 B lines, 20 ways.  A page has 64 lines, so that its colour gives the
# upper 8 of the 14 bits of the set.
_LINES_PER_PAGE, _COLOURS, _WAYS = 64, 256, 20
_PLATFORM = (
    "32K L1I+L1D 8-way, 256K L2 8-way, 20 MiB 20-way last level (16384 sets), "
    "random page colourings"
)
_SUMMARY = 4  # instructions, hundredths of core cycles, fixed time [ns], requests
_CHUNK = 1 << 20
_X86_64 = 62


class RecordError(RuntimeError):
    """A program that could not be recorded; the message says why and what would help."""


def record_trace(
    command: Sequence[str],
    output: str | os.PathLike[str],
    *,
    stdin: str | os.PathLike[str] = os.devnull,
    interval: int = 400_000,
    colourings: int = 3,
    rng: int | np.random.Generator = 0,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda instructions: None,
) -> xr.Dataset:
    """Record a run of a program and write its trace.

    The command runs twice, natively and recorded, in the current folder: it must find its
    inputs both times, and print the same both times.

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
        Random assignments of physical pages; a replayed run draws one of them.
    rng : int or numpy.random.Generator
        Draws the assignments.
    overwrite : bool
        Whether an existing `output` may be replaced.
    progress : callable
        Called a few times a second with the number of instructions recorded so far.

    Returns
    -------
    xarray.Dataset
        The trace.

    Raises
    ------
    RecordError
        A package is missing, the program cannot run under emulation, or what it printed or
        returned differs from its native run.
    FileExistsError
        `output` exists and `overwrite` is False.

    Notes
    -----
    40 to 200 million instructions a second, and 8 B of temporary storage a request.
    """
    for name, value in (("interval", interval), ("colourings", colourings)):
        if value < 1:
            raise ValueError(f"{name}: got {value}, want at least 1")
    output = Path(output)
    if output.exists() and not overwrite:
        raise FileExistsError(f"{output}: exists already; remove it or allow overwriting.")
    check_recording_needs()
    program = [_executable(command), *command[1:]]
    with tempfile.TemporaryDirectory(prefix="msbgen-record-") as folder:
        scratch = Path(folder)
        prefix = scratch / "run"
        plugin = _build_plugin(scratch)
        options = _plugin_options(plugin, prefix, interval)
        emulated = ["qemu-x86_64", "-cpu", "max", "-plugin", options, *program]
        native_code = _run(program, scratch / "native", stdin, lambda: None)
        code = _run(emulated, scratch / "emulated", stdin, lambda: progress(_recorded(prefix)))
        name = shlex.join([Path(command[0]).name, *command[1:]])
        if not prefix.with_suffix(".end").exists():
            raise RecordError(
                f"'{name}' did not end by itself under emulation (exit code {code}, native run "
                f"{native_code}){_last_words(scratch)}. A program that is killed, replaces itself "
                f"by another or fills the disk cannot be recorded, and QEMU must have plugins "
                f"of API version 1."
            )
        same = filecmp.cmp(scratch / "native.out", scratch / "emulated.out", shallow=False)
        if code != native_code or not same:
            what = "printed something else" if code == native_code else f"returned {code}"
            raise RecordError(
                f"'{name}' {what} under emulation than in its native run (which returned "
                f"{native_code}){_last_words(scratch)}. The recording was thrown away: a program "
                f"must find its inputs in both runs and print nothing that changes, such as times."
            )
        if code != 0:
            _log.warning("'%s' returned %d, natively as well as recorded", name, code)
        share = _recorded_share(prefix)
        if share < 0.99:
            _log.warning(
                "'%s' has several threads; the trace is the first one's, with %.0f %% of the "
                "instructions",
                *(name, 100 * share),
            )
        trace = _summarise(prefix, colourings, np.random.default_rng(rng), name)
    write_trace(trace, output, overwrite=overwrite)
    return trace


def check_recording_needs() -> None:
    """Raise :class:`RecordError` where something that recording needs is missing."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        raise RecordError(
            f"recording needs Linux on x86-64, this is {sys.platform} on {platform.machine()}; "
            f"traces that others recorded can be replayed everywhere."
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
    if not command:
        raise ValueError("command: got nothing, want a program and its arguments")
    path = shutil.which(command[0])
    if path is None:
        raise RecordError(f"'{command[0]}': no such program.")
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
    """Compile the plugin, once for each version of its source and of the compiler.

    It is kept in the user's cache folder, or in `scratch` where that cannot be written.
    """
    source = files("msbgen.platform").joinpath("recorder.c").read_bytes()
    version = subprocess.run(["gcc", "--version"], capture_output=True, check=False).stdout
    digest = blake2b(source + version, digest_size=8).hexdigest()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "msbgen"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
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
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
            raise RecordError(
                f"gcc could not build the recorder: {said[0]}. Its C library's headers are needed "
                f"as well; on Debian and Ubuntu: apt install gcc libc6-dev"
            )
        os.replace(partial, plugin)
    finally:
        Path(partial).unlink(missing_ok=True)
    return plugin


def _plugin_options(plugin: Path, prefix: Path, interval: int) -> str:
    """Options of QEMU's command line, in which a comma is written twice."""
    plugin_path, prefix_path = (str(p).replace(",", ",,") for p in (plugin, prefix))
    return f"{plugin_path},prefix={prefix_path},interval={interval}"


def _run(
    command: list[str], prefix: Path, stdin: str | os.PathLike[str], poll: Callable[[], None]
) -> int:
    """Run with output into PREFIX.out and PREFIX.err; return the exit code."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("QEMU_")}
    with (
        open(stdin, "rb") as given,
        prefix.with_suffix(".out").open("wb") as out,
        prefix.with_suffix(".err").open("wb") as err,
    ):
        process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, env=environment)
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
    """Instructions of the intervals written so far, about."""
    path = prefix.with_suffix(".summaries")
    if not path.exists():
        return 0
    count = path.stat().st_size // (8 * _SUMMARY)
    return int(np.fromfile(path, np.uint64, _SUMMARY * count)[::_SUMMARY].sum())


def _recorded_share(prefix: Path) -> float:
    others = float(np.fromfile(prefix.with_suffix(".end"), np.uint64)[0])
    recorded = float(_recorded(prefix))
    return recorded / (recorded + others) if recorded > 0 else 0.0


def _last_words(scratch: Path) -> str:
    """Return the last line that the emulated program or QEMU said, if any."""
    path = scratch / "emulated.err"
    lines = path.read_bytes().decode(errors="replace").strip().splitlines()
    return f"; it said: {lines[-1]}" if lines else ""


def _summarise(prefix: Path, colourings: int, rng: np.random.Generator, name: str) -> xr.Dataset:
    summaries = np.fromfile(prefix.with_suffix(".summaries"), np.uint64).reshape(-1, _SUMMARY)
    requests = np.memmap(prefix.with_suffix(".requests"), np.uint64, mode="r")
    counts = summaries[:, 3].astype(np.int64)
    keys = rng.integers(2**63, size=colourings, dtype=np.uint64)
    version = subprocess.run(["qemu-x86_64", "--version"], capture_output=True, check=False)
    return make_trace(
        summaries[:, 0],
        summaries[:, 1] / 100,
        summaries[:, 2],
        stack_histogram(requests, counts, keys),
        attrs={
            "program": name,
            "platform": _PLATFORM,
            "recorder": version.stdout.decode(errors="replace").splitlines()[0],
        },
    )


def stack_histogram(
    requests: NDArray[np.uint64],
    counts: NDArray[np.int64],
    keys: NDArray[np.uint64],
) -> NDArray[np.uint32]:
    """Histogram of LRU stack distances in a last-level cache of 16,384 sets and 20 ways.

    Parameters
    ----------
    requests : ndarray, (n_requests,)
        Twice the virtual line number (address / 64), plus one for a prefetched line, in order.
    counts : ndarray, (n_intervals,)
        Requests in each interval.
    keys : ndarray, (n_colourings,)
        Each key assigns a random colour to every page.

    Returns
    -------
    ndarray, (21, n_intervals, n_colourings, 2)
    """
    histogram = np.zeros((len(keys), _WAYS + 1, len(counts), 2), dtype=np.uint32)
    ends = np.cumsum(counts)
    for c, key in enumerate(keys):
        stacks = np.full((_LINES_PER_PAGE * _COLOURS, _WAYS), -1, dtype=np.int64)
        for start in range(0, len(requests), _CHUNK):
            chunk = np.asarray(requests[start : start + _CHUNK])
            stack_distances(
                (chunk // 2).astype(np.int64),
                cache_sets(chunk // 2, key).astype(np.int64),
                np.searchsorted(ends, np.arange(start, start + len(chunk)), side="right"),
                (chunk % 2).astype(np.int64),
                stacks,
                histogram[c],
            )
    return histogram.transpose(1, 2, 0, 3)


def cache_sets(lines: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Set of each line: its place in its page, and the page's random colour, given by the key."""
    # the finaliser of splitmix64 (Steele et al., 2014)
    z = np.bitwise_xor(lines // _LINES_PER_PAGE, key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    colours = (z ^ (z >> np.uint64(31))) % np.uint64(_COLOURS)
    return lines % _LINES_PER_PAGE + _LINES_PER_PAGE * colours
