"""Damage inputs at random: each must be refused in one sentence, or answered with sound figures.

    python benchmarks/mutate.py --count 3000 --seed 0
    python benchmarks/mutate.py --seed 0 --only 1234     # that trial again, with its messages
    python benchmarks/mutate.py --of trace.nc plan.csv   # only trials of these originals
    python benchmarks/mutate.py --seed 0 --store         # counts of the seed go onto the page

Small files of every kind are damaged: bytes, texts, datasets, and models whose digest is renewed.
The command that reads them runs in a fork, each trial limited to 20 s of CPU and 2 GB.  Up to 25
trials of a command share a fork, and what fails is tried again in its own.  A failure is a
traceback, a signal, more time or memory, a wrong exit code, a warning with a source line, a file
left behind, or a figure that is negative or not a number.  The script then exits with 1, after
printing the recipe.
"""

import argparse
import json
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
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

os.environ |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}

import numpy as np
from mutate_answers import DoubtError, doubt_path, doubt_text, one_sentence
from mutate_files import spoil_file
from mutate_originals import make_originals
from mutate_readers import Reader, readers
from tables import RESULTS, markdown, publish, store, stored

import msbgen
from msbgen.cli.main import main as command
from msbgen.cli.options.messages import Messages
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.engine.bridge.solve import NotConvergedError

SECONDS = 20  # of CPU that one trial may take
PATIENCE = 300  # on the clock, on a busy machine [s]
MEMORY = 2 * 2**30  # that one trial may take [bytes]
ANSWERED, REFUSED, FAILED = "answered", "refused", "FAILED"
RECORDINGS = 0.08  # share of the trials with recordings, which are half of the readers
TOGETHER = 25  # trials that share a fork
BINS = 50  # of progress in the models that are fitted here, not 400: a tenth of the time
# A sound file may be too small for these, lack what they name, or ask too much of this machine.
_DEMANDING = {
    "replay", "--leave-out", "--capacity", "report", "beside", "--beside", "--dry-run", "--source",
    "--device",
}  # fmt: skip
OUT, ERR, HOW, DONE = "stdout.txt", "stderr.txt", "how.txt", "done.json"


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
    return try_some(originals, seed, [index])[0]


def try_some(originals: Path, seed: int, indices: Sequence[int]) -> list[Trial]:
    """Trials of one reader in one fork; what fails among others is tried again alone."""
    with tempfile.TemporaryDirectory(prefix="mutate-", ignore_cleanup_errors=True) as name:
        pid = os.fork()
        if not pid:
            _become(originals, seed, indices, Path(name))
        _, status, usage = os.wait4(pid, 0)
        folders = [Path(name, str(index)) for index in indices]
        begun = [folder for folder in folders if folder.exists()]
        for folder in begun:
            if not (folder / DONE).exists():  # it ended the fork
                seconds, peak = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
                code = os.waitstatus_to_exitcode(status)
                (folder / DONE).write_text(json.dumps([code, seconds, peak]))
        trials = [
            _verdict(originals, folder, seed, index)
            for folder, index in zip(begun, indices, strict=False)
        ]
    if len(indices) > 1:
        trials = [
            _alone(originals, seed, index, trial) if trial.verdict == FAILED else trial
            for index, trial in zip(indices, trials, strict=False)
        ]
    left = indices[max(len(begun), 1) :]
    return [*trials, *(try_some(originals, seed, left) if left else [])]


def _alone(originals: Path, seed: int, index: int, among: Trial) -> Trial:
    """The trial in a fork of its own; one that fails after others only has failed, too.

    Its time counts alone only, as a machine that is short of memory or cores adds to it.
    """
    alone = try_one(originals, seed, index)
    if alone.verdict == FAILED or among.seconds > SECONDS:
        return alone
    return among._replace(why=f"only after other trials: {among.why}")


def _verdict(originals: Path, folder: Path, seed: int, index: int) -> Trial:
    """What a trial in a folder came to."""
    reader, _ = plan_trial(seed, index)
    code, seconds, peak = json.loads((folder / DONE).read_text())
    how = (folder / HOW).read_text() if (folder / HOW).exists() else "not placed"
    before = {path.name for path in originals.iterdir()}
    before |= {OUT, ERR, HOW, DONE, reader.spoilt}
    why, messages = complaints(reader, folder, before, code, seconds, peak)
    verdict = FAILED if why or (code and index < 0) else REFUSED if code else ANSWERED
    lines = [f"{reader}; {reader.original}: {how}", *why, messages[-3000:]]
    return Trial(verdict, "\n".join(lines), seconds, peak)


def used() -> tuple[float, int]:
    """CPU time [s] of this process and its ended children, and its largest memory [bytes]."""
    seconds = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    (peak,) = re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return seconds, int(peak) * 1024


def place(reader: Reader, original: Path, folder: Path, rng: np.random.Generator | None) -> str:
    """Write the input, damaged if there are random numbers; a description of the damage."""
    target = folder / reader.spoilt
    target.unlink(missing_ok=True)  # it may be a link to the original
    if rng is not None:
        with warnings.catch_warnings(action="ignore"):
            return spoil_file(original, target, rng)
    shutil.copy(original, target)
    return "nothing"


def _become(originals: Path, seed: int, indices: Sequence[int], work: Path) -> NoReturn:
    """Be the process of some trials, within the limits of each; never returns."""
    code = 1
    try:
        os.setsid()
        for index in indices:
            code = _try_here(originals, seed, index, work / str(index))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _try_here(originals: Path, seed: int, index: int, folder: Path) -> int:
    """Do a trial in this process, and write its code, CPU time and memory into the folder."""
    reader, rng = plan_trial(seed, index)
    shutil.copytree(originals, folder, copy_function=os.link)
    for number, stream in ((1, OUT), (2, ERR)):
        file = os.open(folder / stream, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    sys.stdout, sys.stderr = (
        os.fdopen(n, "w", buffering=1, errors="backslashreplace", closefd=False) for n in (1, 2)
    )
    Path("/proc/self/clear_refs").write_text("5")  # forgets the largest memory
    started, _ = used()
    how = place(reader, originals / reader.original, folder, rng if index >= 0 else None)
    (folder / HOW).write_text(how)
    sys.stderr.flush()
    never = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + SECONDS + 2, never))
    (held,) = re.findall(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())
    resource.setrlimit(resource.RLIMIT_DATA, (int(held) * 1024 + MEMORY, never))
    signal.alarm(PATIENCE)
    try:
        code = read(reader, folder)
    except BaseException:
        traceback.print_exc()
        code = 1
    signal.alarm(0)
    sys.stdout.flush()
    ended, peak = used()
    (folder / DONE).write_text(json.dumps([code, ended - started, peak]))
    return code


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
    reader: Reader, folder: Path, before: set[str], code: int, seconds: float, peak: int
) -> tuple[list[str], str]:
    """What a trial did that it must not do, and its messages."""
    found = []
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
    if _DEMANDING & {*verb} or any(part.startswith("grid:") for part in verb):
        codes.add(2)
    if "--strict" in verb:
        codes.add(7)
    if "choose" in verb[:2]:  # a deadline or a total may become too small, too
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
    started, trials = time.perf_counter(), list[tuple[str, Trial]]()
    groups: dict[str, list[int]] = {}
    for index in chosen.only or range(chosen.count):
        reader, _ = plan_trial(chosen.seed, index)
        if not chosen.of or reader.original in chosen.of:
            groups.setdefault(str(reader), []).append(index)
    object.__setattr__(msbgen.DEFAULT, "bins", BINS)
    with tempfile.TemporaryDirectory(prefix="mutate-originals-") as name:
        make_originals(Path(name))
        for indices in groups.values():
            reader, _ = plan_trial(chosen.seed, indices[0])
            warm(Path(name), reader)
            for first in range(0, len(indices), TOGETHER):
                some = indices[first : first + TOGETHER]
                for index, trial in zip(some, try_some(Path(name), chosen.seed, some), strict=True):
                    trials.append((reader.kind, trial))
                    if trial.verdict == FAILED or chosen.only:
                        recipe = f"--seed {chosen.seed} --only {index}"
                        print(f"{trial.verdict}: {recipe}: {trial.why}", flush=True)
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
