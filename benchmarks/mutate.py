"""Damage inputs at random: each must be refused in one sentence, or answered with sound figures.

    python benchmarks/mutate.py --count 3000 --seed 0
    python benchmarks/mutate.py --seed 0 --only 1234     # that trial again, with its messages
    python benchmarks/mutate.py --of trace.nc plan.csv   # only trials of these originals
    python benchmarks/mutate.py --seed 0 --store         # counts of the seed go onto the page

Small files of every kind are damaged: bytes, texts, datasets, and models whose digest is renewed.
The command that reads them runs in a fork, limited to 20 s of CPU and 2 GB.  A failure is a
traceback, a signal, more time or memory, a wrong exit code, a warning with a source line, a file
left behind, or a figure that is negative or not a number.  The script then exits with 1, after
printing the recipe.
"""

import argparse
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}

import numpy as np
from mutate_answers import DoubtError, doubt_path, doubt_text, one_sentence
from mutate_files import spoil_file
from mutate_originals import Reader, make_originals, readers
from tables import RESULTS, markdown, publish, store, stored

from msbgen.bridge.solve import NotConvergedError
from msbgen.cli.main import main as command
from msbgen.cli.options.messages import Messages
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError

SECONDS = 20  # of CPU that one trial may take
PATIENCE = 300  # on the clock, on a busy machine [s]
MEMORY = 2 * 2**30  # that one trial may take [bytes]
ANSWERED, REFUSED, FAILED = "answered", "refused", "FAILED"
RECORDINGS = 0.08  # share of the trials with recordings, which are half of the readers
OUT, ERR, HOW = "stdout.txt", "stderr.txt", "how.txt"


class Trial(NamedTuple):
    """The verdict of a trial, what was done and said, CPU [s] and memory [bytes]."""

    verdict: str
    why: str
    seconds: float
    peak: int


@cache
def every_reader() -> list[Reader]:
    return readers()


def plan_trial(seed: int, index: int) -> tuple[Reader, np.random.Generator]:
    """The reader of a trial, and the random numbers of its damage; below 0, each reader in turn."""
    every, rng = every_reader(), np.random.default_rng([seed, max(index, 0)])
    if index < 0:
        return every[-1 - index], rng
    some = [reader for reader in every if reader.verb or "/" not in reader.original]
    if rng.random() < RECORDINGS:
        some = [reader for reader in every if reader not in some] or some
    return some[rng.integers(len(some))], rng


def try_one(originals: Path, seed: int, index: int) -> Trial:
    """Damage an input and have it read by a fork.

    An index below 0 is the original of a reader, unspoilt, which must be answered.
    """
    reader, rng = plan_trial(seed, index)
    with tempfile.TemporaryDirectory(prefix="mutate-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        shutil.copytree(originals, folder, copy_function=os.link, dirs_exist_ok=True)
        before = {path.name for path in folder.iterdir()} | {OUT, ERR, HOW, reader.spoilt}
        pid = os.fork()
        if not pid:
            _become(reader, originals / reader.original, folder, rng if index >= 0 else None)
        _, status, usage = os.wait4(pid, 0)
        how = (folder / HOW).read_text() if (folder / HOW).exists() else "not placed"
        why, messages = complaints(reader, folder, before, status, usage)
    code = os.waitstatus_to_exitcode(status)
    verdict = FAILED if why or (code and index < 0) else REFUSED if code else ANSWERED
    lines = [f"{reader}; {reader.original}: {how}", *why, messages[-3000:]]
    seconds, peak = used(usage)
    return Trial(verdict, "\n".join(lines), seconds, peak)


def used(usage: resource.struct_rusage) -> tuple[float, int]:
    """CPU time [s] and largest memory [bytes] of a process."""
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def place(reader: Reader, original: Path, folder: Path, rng: np.random.Generator | None) -> str:
    """Write the input, damaged if there are random numbers; a description of the damage."""
    target = folder / reader.spoilt
    target.unlink(missing_ok=True)  # it may be a link to the original
    if rng is not None:
        with warnings.catch_warnings(action="ignore"):
            return spoil_file(original, target, rng)
    shutil.copy(original, target)
    return "nothing"


def _become(
    reader: Reader, original: Path, folder: Path, rng: np.random.Generator | None
) -> NoReturn:
    """Be the process of a trial, within its limits; never returns."""
    code = 1
    try:
        os.setsid()
        for number, stream in ((1, OUT), (2, ERR)):
            os.dup2(os.open(folder / stream, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
        sys.stdout, sys.stderr = (
            os.fdopen(n, "w", buffering=1, errors="backslashreplace") for n in (1, 2)
        )
        (folder / HOW).write_text(place(reader, original, folder, rng))
        sys.stderr.flush()
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS + 1, SECONDS + 9))
        (held,) = re.findall(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())
        most = int(held) * 1024 + MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        signal.alarm(PATIENCE)
        code = read(reader, folder)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def read(reader: Reader, folder: Path) -> int:
    """Run the command or function in this process, and check its answer; its exit code."""
    with chdir(folder):
        try:
            if reader.verb:
                code = command([reader.spoilt if part == "IN" else part for part in reader.verb])
                if code == 0:
                    with warnings.catch_warnings(action="ignore"):
                        for name in reader.outputs:
                            doubt_path(folder / name)
                return code
            if reader.call:
                with Messages():
                    reader.call(folder / reader.spoilt)
        except (ProfileError, ArgumentError, MeasurementError, NotConvergedError) as error:
            if reader.verb:
                raise
            for line in str(error).splitlines() or [""]:
                print(f"msbgen: {line}", file=sys.stderr)
            return 3
        except (Exception, SystemExit):
            traceback.print_exc()
            return 1
    return 0


def complaints(
    reader: Reader, folder: Path, before: set[str], status: int, usage: resource.struct_rusage
) -> tuple[list[str], str]:
    """What a process did that it must not do, and its messages."""
    code, found = os.waitstatus_to_exitcode(status), []
    seconds, peak = used(usage)
    messages = (folder / ERR).read_text(errors="replace")
    lines = messages.splitlines()
    if code < 0:
        found.append(f"died of {signal.Signals(-code).name} after {seconds:.0f} s of CPU")
    elif code not in _codes(reader):
        found.append(f"exit code {code}")
    if seconds > SECONDS or peak > MEMORY:
        found.append(f"took {seconds:.0f} s and {peak / 2**30:.1f} GiB")
    if any(not line.startswith("msbgen: ") for line in lines):
        found.append("printed more than messages")
    elif code > 0 and not one_sentence("\n".join(lines)):
        found.append("no clear sentence")
    may_write = reader.outputs if code in (0, 5) else ()
    if left := sorted({path.name for path in folder.iterdir()} - before - {*may_write}):
        found.append(f"left {', '.join(left)}")
    if code == 0:
        try:
            doubt_text((folder / OUT).read_text(errors="replace"))
        except DoubtError as error:
            found.append(str(error))
    return found, messages


def _codes(reader: Reader) -> set[int]:
    """Exit codes of sound answers and refusals."""
    verb = reader.verb
    codes = {0, 3}
    if "paper" in verb or "evaluate" in verb:
        codes.add(4)
    # a sound file may be too small for the options, or lack a resource that they name
    if {"replay", "--leave-out", "--capacity"} & {*verb}:
        codes.add(2)
    if verb[:1] == ("choose",):  # a deadline or a total may become too small, too
        codes |= {2, 6}
    return codes | {5} if "batch" in verb or verb[:2] == ("machines", "predict") else codes


def warm(originals: Path, reader: Reader) -> None:
    """Read an original in this process, so that forks have everything imported and compiled."""
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        shutil.copytree(originals, name, copy_function=os.link, dirs_exist_ok=True)
        place(reader, originals / reader.original, Path(name), None)
        messages = StringIO()
        with redirect_stdout(StringIO()), redirect_stderr(messages):
            code = read(reader, Path(name))
        if code:
            raise RuntimeError(
                f"{reader} refuses the original {reader.original}: {messages.getvalue()}"
            )


def main() -> int:
    options = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    options.add_argument("--count", type=int, default=3000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, nargs="*", help="these trials, and what they print")
    options.add_argument("--store", action="store_true", help="store the counts of this seed")
    options.add_argument("--of", nargs="*", metavar="NAME", help="only what spoils these originals")
    chosen = options.parse_args()
    indices = chosen.only or range(chosen.count)
    started, warmed, trials = time.perf_counter(), set[str](), list[tuple[str, Trial]]()
    with tempfile.TemporaryDirectory(prefix="mutate-originals-") as name:
        make_originals(Path(name))
        for index in indices:
            reader, _ = plan_trial(chosen.seed, index)
            if chosen.of and reader.original not in chosen.of:
                continue
            if str(reader) not in warmed:
                warm(Path(name), reader)
                warmed.add(str(reader))
            trial = try_one(Path(name), chosen.seed, index)
            trials.append((reader.kind, trial))
            if trial.verdict == FAILED or chosen.only:
                print(
                    f"{trial.verdict}: --seed {chosen.seed} --only {index}: {trial.why}", flush=True
                )
    found = Counter(trial.verdict for _, trial in trials)
    if chosen.store:
        every = {**stored("mutate"), str(chosen.seed): counted(trials)}
        store(RESULTS / "mutate.json", dict(sorted(every.items())))
        publish(tables())
    counts = ", ".join(f"{found[verdict]} {verdict}" for verdict in (ANSWERED, REFUSED, FAILED))
    print(f"{sum(found.values())} trials in {time.perf_counter() - started:.0f} s: {counts}")
    return 1 if found[FAILED] else 0


def counted(trials: list[tuple[str, Trial]]) -> dict[str, dict[str, float]]:
    """Verdicts, most CPU time [s] and largest memory [GB] by kind of input."""
    found: dict[str, dict[str, float]] = {}
    for kind in sorted({kind for kind, _ in trials}):
        some = [trial for k, trial in trials if k == kind]
        verdicts = Counter(trial.verdict for trial in some)
        found[kind] = {
            **{name.lower(): verdicts[name] for name in (ANSWERED, REFUSED, FAILED)},
            "seconds": round(max(trial.seconds for trial in some), 2),
            "memory": round(max(trial.peak for trial in some) / 1e9, 3),
        }
    return found


def tables() -> dict[str, str]:
    """The table of the page."""
    found = stored("mutate")
    return {"mutate": mutate_table(found)} if found else {}


def mutate_table(found: dict[str, Any]) -> str:
    """A row for each kind of input, and one for all; `found` holds the counts by seed and kind."""
    kinds: dict[str, list[dict[str, float]]] = {}
    for of_seed in found.values():
        for kind, row in of_seed.items():
            kinds.setdefault(kind, []).append(row)
    kinds[f"all, seed {', '.join(found)}"] = [row for rows in kinds.values() for row in rows]
    lines = []
    for kind, rows in kinds.items():
        sums = [sum(int(row[name]) for row in rows) for name in ("answered", "refused", "failed")]
        most = [f"{max(row[name] for row in rows):.2g}" for name in ("seconds", "memory")]
        lines.append([kind, str(sum(sums)), *map(str, sums), *most])
    head = ("input", "trials", "answered", "refused", "failed", "slowest [s CPU]", "memory [GB]")
    return markdown(head, lines)


if __name__ == "__main__":
    sys.exit(main())
