"""Damage inputs at random: each must be refused in one sentence, or answered with sound figures.

    python benchmarks/mutate.py --count 3000 --seed 0
    python benchmarks/mutate.py --seed 0 --only 1234     # that trial again, with its messages
    python benchmarks/mutate.py --of trace.nc plan.csv   # only trials of these originals

Small files of every kind are damaged in values, types, shapes, names, attributes and bytes. The
verb or function that reads them runs in a process of its own. A failure is a traceback, a crash, a
hang, a wrong exit code, a warning with a source line, or a figure that is negative or not a number.
The script then exits with 1, after printing the recipe.
"""

import argparse
import io
import json
import logging
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutate_graphs
import mutate_kernels
import mutate_machines
import numpy as np
import xarray as xr
from mutate_files import spoil_file
from mutate_machines import DoubtError

import msbgen
from msbgen.bridge.solve import NotConvergedError
from msbgen.cli.main import main as command
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.kernels.predictor.storage import load
from msbgen.platform.trace import make_trace, write_trace

SECONDS = 60.0  # that one trial may take; most take less than one
MEMORY = 16 * 2**30  # address space of a worker: who asks for more is refused [bytes]
ANSWERED, REFUSED, FAILED = "answered", "refused", "FAILED"
WARM = -1  # the originals, unspoilt: every reader must answer


def make_originals(folder: Path) -> None:
    """Write one small file of every kind."""
    grid = np.array([(ways, clock) for ways in (2.0, 4.0, 8.0) for clock in (1.0, 2.0)])
    measured = small_task(grid)
    msbgen.write_profiles(measured, folder / "measured.nc")
    msbgen.write_profiles(small_task(np.array([(6.0, 1.5), (3.0, 2.0)])), folder / "truth.nc")
    model = msbgen.fit_profiles(measured)
    model.save(folder / "model-default.nc")
    msbgen.fit_profiles(measured, msbgen.PRESETS["paper"]).save(folder / "model-paper.nc")
    msbgen.calibrate_model(model, measured).save(folder / "model-calibrated.nc")
    rng = np.random.default_rng(0)
    depth = np.sort(rng.integers(0, 4000, (21, 8, 1, 2)), axis=0)[::-1]
    trace = make_trace(
        np.full(8, 10**6), np.full(8, 8e5), np.full(8, 1e4), np.repeat(depth, 2, axis=2),
        attrs={"program": "small", "platform": "made up"},
    )  # fmt: skip
    write_trace(trace, folder / "trace.nc")
    (folder / "contexts.csv").write_text("cache_ways,frequency\n3,1.5\n6,2\n4,1\n")
    (folder / "plan.csv").write_text(
        "cache_ways,bandwidth,frequency,runs,seconds,cumulative_seconds,expected_error\n"
        "2,70,1.2,2,0.1,0.1,0.3\n4,700,2.3,1,0.1,0.2,0.2\n3,1400,1.9,3,0.1,0.3,0.1\n"
    )
    mutate_machines.make_originals(folder)
    mutate_graphs.make_originals(folder)
    mutate_kernels.make_originals(folder)


def small_task(contexts: np.ndarray) -> xr.Dataset:
    """A task of two phases, one computing and one missing; three runs of about 15 rows."""
    rng = np.random.default_rng(7)
    ways, clock = contexts[:, None].T
    speed = 1 + 0.01 * rng.standard_normal((3, 1))
    ends = np.cumsum(np.stack([0.1 / clock * speed, 0.3 / ways * speed]), axis=0)
    duration = ends[-1].T  # (context, run)
    time = 0.02 * np.arange(1, int(np.ceil(duration.max() / 0.02)) + 1)
    edges = np.concatenate([[0.0], time])
    work = np.stack([np.clip(edges / ends[0].T[..., None], 0, 1),
                     np.clip((edges - ends[0].T[..., None]) / np.diff(ends, axis=0)[0].T[..., None],
                             0, 1)], axis=-1)  # fmt: skip
    counts = np.diff(work, axis=2) @ np.array([[1e8, 1e5], [5e7, 1e6]])
    counts[time - 0.02 >= duration[..., None]] = np.nan
    return msbgen.make_profiles(
        counts, duration, contexts, interval=0.02,
        resources={
            "cache_ways": {"units": "1", "long_name": "ways", "levels": [2.0, 3.0, 4.0, 6.0, 8.0]},
            "frequency": {"units": "GHz", "long_name": "clock", "levels": [1.0, 1.5, 2.0]},
        },
        counters={"instructions": {"long_name": "work"}, "cache_misses": {"long_name": "misses"}},
        attrs={"task": "small"},
    )  # fmt: skip


@dataclass(frozen=True)
class Reader:
    """A verb with IN for its damaged input, or a function, and the file that it reads."""

    original: str
    verb: tuple[str, ...] = ()
    call: Callable[[Path], None] | None = None
    outputs: tuple[str, ...] = ()


def answer(path: Path) -> None:
    """Load a model and generate every kind of profile."""
    model = msbgen.ProfileModel.load(path)
    contexts = [[3.0, 1.5], [4.0, 2.0]]
    for kind in ("mean", "max_likelihood", "sample"):
        made = model.generate(contexts, kind=kind, n_samples=2, rng=0)
        msbgen.validate_profiles(made, source=f"kind {kind}", part=True)
        doubt(made)


def bound(path: Path) -> None:
    """Load a calibrated model and compute a bound."""
    bounds = msbgen.CalibratedModel.load(path).bounds([[3.0, 1.5], [4.0, 2.0]], 0.4)
    doubt(bounds)


OUTPUT = ("o.nc",)
TO_OUTPUT = ("-o", "o.nc")
GENERATE = ("generate", "measured.nc", *TO_OUTPUT)
REPLAY = ("platform", "replay", *TO_OUTPUT)
TO_CONTEXTS = ("--contexts", "contexts.csv")
METHODS = ("--methods", "default/mean,nearest_context,multilinear")
PREDICT = ("machines", "predict", "--source", "old", "--miscoverage", "0.3", "-o", "p.csv")
TO_QUEUE, QUEUE = ("-o", "q", "--force"), ("q/queue.csv",)
READERS = [
    Reader("measured.nc", ("check", "IN")),
    *(
        Reader("measured.nc", ("generate", "IN", *TO_OUTPUT, *TO_CONTEXTS, *more), None, OUTPUT)
        for more in (
            (),
            ("--kind", "mean", "--interval", "0.03"),
            ("--kind", "sample", "--samples", "2", "--preset", "paper"),
        )
    ),
    Reader(
        "measured.nc", ("bound", "IN", "-o", "b.nc", *TO_CONTEXTS, "--miscoverage", "0.4"), None,
        ("b.nc",),
    ),
    Reader("measured.nc", ("plan", "IN", "--budget", "3s", "-o", "p.csv"), None, ("p.csv",)),
    Reader("measured.nc", ("evaluate", "IN", "--truth", "truth.nc", *METHODS)),
    Reader("truth.nc", ("evaluate", "measured.nc", "--truth", "IN", *METHODS)),
    Reader("truth.nc", (*GENERATE, "--contexts", "IN"), None, OUTPUT),
    *(Reader("model-default.nc", call=answer) for _ in range(3)),
    *(Reader("model-paper.nc", call=answer) for _ in range(2)),
    *(Reader("model-calibrated.nc", call=bound) for _ in range(2)),
    *(Reader("trace.nc", (*REPLAY, "IN", "--contexts", "grid:2x2x1", "--runs", "2"), None, OUTPUT)
      for _ in range(2)),
    Reader("contexts.csv", (*GENERATE, "--contexts", "IN"), None, OUTPUT),
    Reader("plan.csv", (*REPLAY, "trace.nc", "--contexts", "IN"), None, OUTPUT),
    Reader("runs.nc", call=mutate_machines.learn),
    Reader("runs.nc", (*PREDICT, "model-relative.nc", "--runs", "IN"), None, ("p.csv",)),
    Reader("runs.csv", (*PREDICT, "model-relative.nc", "--runs", "IN"), None, ("p.csv",)),
    Reader("runs.csv", ("machines", "import", "IN", "-o", "r.nc"), None, ("r.nc",)),
    *(Reader("model-relative.nc", (*PREDICT, "IN", "--runs", "runs.nc"), None, ("p.csv",))
      for _ in range(2)),
    Reader("sim.toml", ("machines", "queue", "IN", *TO_QUEUE), None, QUEUE),
    Reader("jobs.csv", ("machines", "queue", "spoilt-jobs.toml", *TO_QUEUE), None, QUEUE),
    Reader("log.swf", ("machines", "queue", "spoilt-log.toml", *TO_QUEUE), None, QUEUE),
    *(Reader(name, call=mutate_graphs.play) for name in mutate_graphs.GRAPHS),
    *(Reader(name, call=mutate_graphs.read_runs) for name in mutate_graphs.RUNS),
    Reader(mutate_graphs.SHEET, call=mutate_graphs.try_sheet),
    *(Reader(name, verb, None, (out,)) for name, verb, out in mutate_kernels.VERBS),
]  # fmt: skip


def doubt(ds: xr.Dataset) -> None:
    """Raise if a figure is negative, infinite, or not a number before the end of its run."""
    for name, variable in ds.data_vars.items():
        if variable.dtype.kind not in "iuf":
            continue
        values = variable.values.astype(float)
        ended = np.isnan(values) if {"time", "run"} & set(variable.dims) else False
        bad = ~ended & ~(np.isfinite(values) & (values >= 0))
        if bad.any():
            raise DoubtError(f"'{name}' is {values[bad][0]} in an answer")


def doubt_file(path: Path) -> None:
    """Check the output of a verb."""
    checks = {
        **dict.fromkeys(("p.csv", "queue.csv"), mutate_machines.doubt_table),
        "m.nc": load,
        "k.nc": mutate_kernels.doubt_kernels,
        "r.nc": mutate_machines.doubt_runs,
        "b.nc": lambda path: doubt(xr.load_dataset(path)),
    }
    if path.name in checks:
        checks[path.name](path)
    elif path.suffix == ".csv":
        for line in path.read_text().splitlines()[1:]:
            values = np.array(line.split(","), dtype=float)
            if not (np.isfinite(values) & (values >= 0)).all():
                raise DoubtError(f"{path.name} says {line}")
    else:
        doubt(msbgen.read_profiles(path))


def plan_trial(seed: int, index: int) -> tuple[Reader, np.random.Generator]:
    """The reader of a trial, and the random numbers of its damage."""
    if index < 0:
        return READERS[WARM - index], np.random.default_rng(0)
    rng = np.random.default_rng([seed, index])
    return READERS[rng.integers(len(READERS))], rng


def try_one(folder: Path, seed: int, index: int) -> tuple[str, str]:
    """Damage an input and have it read: verdict and reason."""
    reader, rng = plan_trial(seed, index)
    spoilt = folder / f"spoilt{Path(reader.original).suffix}"
    for name in (spoilt.name, *reader.outputs):
        (folder / name).unlink(missing_ok=True)
    if index < 0:
        how = "nothing"
        spoilt.write_bytes((folder / reader.original).read_bytes())
    else:
        how = spoil_file(folder / reader.original, spoilt, rng)
    what = " ".join(reader.verb) or f"{reader.call.__name__}() of {reader.original}"
    with chdir(folder):
        verdict, why = (judge_verb if reader.verb else judge_call)(reader, spoilt, folder)
    if index < 0 and verdict != ANSWERED:
        verdict = FAILED
    return verdict, f"{what}; {how}\n{why}"


def judge_call(reader: Reader, spoilt: Path, folder: Path) -> tuple[str, str]:
    """Call a function: errors need a type of the package and one sentence."""
    messages = io.StringIO()
    try:
        with redirect_stderr(messages):
            reader.call(spoilt)
    except (ProfileError, ArgumentError, MeasurementError, NotConvergedError) as error:
        return (REFUSED if one_sentence(str(error)) else FAILED), str(error)
    except Exception:
        return FAILED, traceback.format_exc()
    return (FAILED if "Warning" in messages.getvalue() else ANSWERED), messages.getvalue()


def judge_verb(reader: Reader, spoilt: Path, folder: Path) -> tuple[str, str]:
    """Run a verb, and check its exit code, sentences and outputs."""
    results, messages = io.StringIO(), io.StringIO()
    arguments = [spoilt.name if part == "IN" else part for part in reader.verb]
    try:
        with redirect_stdout(results), redirect_stderr(messages):
            code = command(arguments)
            for name in reader.outputs if code == 0 else ():
                with redirect_stderr(io.StringIO()):
                    doubt_file(folder / name)
        messages_text = messages.getvalue()
        if any(not line.startswith("msbgen: ") for line in messages_text.splitlines()):
            return FAILED, messages_text
        if code == 0:
            return ANSWERED, messages_text
    except (Exception, SystemExit):
        return FAILED, messages.getvalue() + traceback.format_exc()
    # a sound trace may be too small for the wanted levels
    blamed = (
        code == 3 or (code == 4 and "paper" in arguments) or (code == 2 and "replay" in arguments)
    )
    written = [name for name in reader.outputs if (folder / name).exists()]
    if not blamed or written or not one_sentence(messages_text):
        return FAILED, f"exit {code}, wrote {written}\n{messages_text}"
    return REFUSED, messages_text


def one_sentence(message: str) -> bool:
    """Whether every line is printable, and ends like a sentence."""
    lines = message.splitlines()
    return bool(lines) and all(
        line.isprintable() and line.endswith((".", ")", "?")) and len(line) < 1000 for line in lines
    )


def serve(folder: Path, seed: int) -> None:
    """Run a worker: it reads an index a line, and writes a verdict a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    prepare()
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what libraries print is no verdict
        for line in sys.stdin:
            print(json.dumps(try_one(folder, seed, int(line))), file=out, flush=True)


def prepare() -> None:
    """Send every message to the current stderr, and show every warning each time."""
    logging.getLogger().handlers[:] = [Listening(logging.WARNING)]
    warnings.simplefilter("always")


class Listening(logging.StreamHandler):
    """A handler that writes to the current stderr."""

    def __init__(self, level: int):
        logging.Handler.__init__(self, level)
        self.setFormatter(logging.Formatter("msbgen: warning: %(message)s"))

    @property
    def stream(self) -> Any:
        return sys.stderr


class Worker:
    """A process that runs one trial after another, and is replaced when it dies."""

    def __init__(self, seed: int):
        self.seed = seed
        self.folder = Path(tempfile.mkdtemp(prefix="mutate-"))
        make_originals(self.folder)
        self.process: Any = None

    def start(self) -> None:
        arguments = ["--serve", str(self.folder), "--seed", str(self.seed)]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, index: int) -> tuple[str, str]:
        """Run one trial."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        with suppress(BrokenPipeError):  # it died meanwhile, and its output ends
            self.process.stdin.write(f"{index}\n")
            self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else ""
        if line:
            return tuple(json.loads(line))
        if not ready:
            self.process.kill()
        code = self.process.wait()
        self.process = None
        reader, _ = plan_trial(self.seed, index)
        why = f"died with {code}" if ready else f"took more than {SECONDS:g} s"
        return FAILED, f"{' '.join(reader.verb)} {reader.original}\n{why}"

    def stop(self) -> None:
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
        shutil.rmtree(self.folder)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--count", type=int, default=3000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", type=int, nargs="*", help="these trials, and what they print")
    options.add_argument("--of", nargs="*", metavar="NAME", help="only what spoils these originals")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        serve(chosen.serve, chosen.seed)
        return 0
    indices = chosen.only or [*range(WARM, WARM - len(READERS), -1), *range(chosen.count)]
    if chosen.of:
        indices = [i for i in indices if plan_trial(chosen.seed, i)[0].original in chosen.of]
    workers = [Worker(chosen.seed) for _ in range(chosen.workers)]
    started, found = time.perf_counter(), Counter[str]()

    def work(share: int) -> None:
        for index in indices[share :: chosen.workers]:
            verdict, why = workers[share].ask(index)
            found[verdict] += 1
            if verdict == FAILED or chosen.only:
                print(f"{verdict}: --seed {chosen.seed} --only {index}: {why}", flush=True)

    try:
        with ThreadPoolExecutor(chosen.workers) as pool:
            list(pool.map(work, range(chosen.workers)))
    finally:
        for worker in workers:
            worker.stop()
    counts = ", ".join(f"{found[verdict]} {verdict}" for verdict in (ANSWERED, REFUSED, FAILED))
    print(f"{sum(found.values())} trials in {time.perf_counter() - started:.0f} s: {counts}")
    return 1 if found[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
