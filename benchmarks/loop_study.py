"""The whole loop on this machine: `sort` over four knobs, planned, held out, bounded and killed.

    python benchmarks/reproduce.py loop [--work FOLDER] [--only sweep kills] [--quick]

It needs perf, control groups with memory limits, and root; ``sweep`` needs an idle machine, and
reports its load.  The knobs are the lines to sort (an argument), the buffer of `sort` (an
environment variable), the cores and the memory limit.  16 contexts are planned from the levels
alone and 8 more from a model of these; 12 random others are the truth.  An interrupted study goes
on in the same folder.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr
from measure_study import busyness, command, groups, measured
from scipy.stats import beta
from tables import RESULTS, ROOT, markdown, store

import msbgen
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, same_level
from msbgen.sources.measure.sweep.journal import read_journal
from msbgen.sources.measure.sweep.process import tagged_processes

RESULT = RESULTS / "loop.json"
FIRST, PLANNED, TRUE = 16, 8, 12
MISCOVERAGE = 0.1
LEVELS = {
    "lines": [100_000, 200_000, 300_000, 400_000, 600_000],
    "buffer": [4, 8, 16, 32],
    "n_cores": [1, 2],
    "memory": [64, 96, 128, 256],
}
SPEC = """\
task = "sort"
command = ["sh", "-c", "head -n {lines} words.txt | sort -S \\"$BUFFER\\"M --parallel=2 -T ."]
environment = {LC_ALL = "C"}
events = ["task-clock", "page-faults", "context-switches"]
cores = [0, 1]
"""
ACTUATORS = {
    "lines": 'by = "argument"',
    "buffer": 'by = "environment"\nname = "BUFFER"\nunits = "MiB"',
    "n_cores": 'by = "cores"',
    "memory": 'by = "memory"',
}
# Exit codes of a sweep after each signal.
SIGNALS = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}
PATIENCE = 20.0  # for the processes of a killed sweep [s]


def spec(work: Path, scale: float = 1.0, **more: object) -> Path:
    """Write the lines to sort, and the spec; `scale` multiplies the numbers of lines."""
    work.mkdir(parents=True, exist_ok=True)
    lines = [max(int(scale * n), 1) for n in LEVELS["lines"]]
    words = work / "words.txt"
    if not words.exists():
        rng = np.random.default_rng(0)
        values = rng.integers(10**9, size=(max(lines), 3))
        words.write_text("".join(f"{a} {b} {c}\n" for a, b, c in values.tolist()))
    text = SPEC + "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    for name, actuator in ACTUATORS.items():
        levels = lines if name == "lines" else LEVELS[name]
        text += f"[resources.{name}]\n{actuator}\nlevels = {levels}\n"
    path = work / "spec.toml"
    path.write_text(text)
    return path


def table(path: Path, rows: np.ndarray, runs: np.ndarray) -> Path:
    """Write contexts and their runs."""
    lines = [",".join([*(f"{x:.10g}" for x in row), str(n)]) for row, n in zip(rows, runs)]
    path.write_text("\n".join([",".join([*LEVELS, "runs"]), *lines]) + "\n")
    return path


def planned(path: Path) -> np.ndarray:
    """Contexts of a plan."""
    names, *rows = [line.split(",") for line in path.read_text().splitlines()]
    return np.array([[float(row[names.index(name)]) for name in LEVELS] for row in rows])


def is_among(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether contexts are among others."""
    return same_level(rows[:, None], others[None]).all(axis=2).any(axis=1)


def sweep(work: Path, *, quick: bool) -> dict:
    """Plan, measure, plan, measure, generate, bound; errors in contexts that were held out."""
    work = work / ("quick" if quick else "sweep")
    runs = 2 if quick else 5
    one = spec(work, 0.1 if quick else 1.0, runs=runs, cooldown=0.05, timeout=60)
    lines = [max(int((0.1 if quick else 1.0) * n), 1) for n in LEVELS["lines"]]
    axes = {**LEVELS, "lines": lines}
    first = work / "first.csv"
    if not first.exists():
        levels = ",".join(f"{name}={'/'.join(map(str, axis))}" for name, axis in axes.items())
        words = ["--levels", levels, "--budget", FIRST, "--least-runs", runs]
        print(command("plan", *words, "-o", first).stdout)
    started = measured(work / "first.nc", one, "--contexts", first)
    second = work / "second.csv"
    if not (work / "next.csv").exists():
        words = ["--budget", PLANNED, "--least-runs", runs, "--whole-budget"]
        print(command("plan", work / "first.nc", *words, "-o", work / "next.csv").stdout)
    more, every = planned(work / "next.csv"), msbgen.all_contexts(started)
    known = np.concatenate([context_table(started), more])
    unseen = every[~is_among(every, known)]
    unseen = unseen[np.random.default_rng(1).choice(len(unseen), TRUE, replace=False)]
    # planned and held-out contexts in one random order, so that a drift affects both alike
    repeats = np.repeat([runs, 2 * runs], [len(more), TRUE])
    table(second, np.concatenate([more, unseen]), repeats)
    whole = measured(work / "all.nc", one, "--contexts", second, "--with", work / "first.nc")
    held = is_among(context_table(whole), unseen)
    train, truth = whole.isel(context=~held), whole.isel(context=held)
    return {
        "contexts": {"first": started.sizes["context"], "planned": len(more), "true": TRUE},
        "runs": runs,
        "seconds": float(np.nansum(whole["duration"].values)),
        **scores(train, truth),
        **busyness(whole),
    }


def scores(train: xr.Dataset, truth: xr.Dataset) -> dict:
    """Errors of durations against one half of the true runs, and the runs below their bounds."""
    model = msbgen.fit_profiles(train)
    half, other = truth.isel(run=slice(0, None, 2)), truth.isel(run=slice(1, None, 2))
    contexts, true = context_table(truth), Profiles.of(half).mean_duration
    found = {
        "generated": Profiles.of(model.generate(contexts, kind="mean")).mean_duration,
        "other half": Profiles.of(other).mean_duration,
        "multilinear": Profiles.of(
            msbgen.evaluate.BASELINES["multilinear"](train, contexts)
        ).mean_duration,
    }
    errors = {name: np.abs(seconds / true - 1) for name, seconds in found.items()}
    bound = msbgen.calibrate_model(model, train).duration_bound(contexts, MISCOVERAGE)
    duration = truth["duration"].values
    present = np.isfinite(duration)
    below, n = int((duration <= bound[:, None])[present].sum()), int(present.sum())
    return {
        "context": contexts.tolist(),
        "true_seconds": true.tolist(),
        "errors": {name: error.tolist() for name, error in errors.items()},
        "error": {name: float(error.mean()) for name, error in errors.items()},
        "bounds": {
            "covered": below,
            "of": n,
            "low": float(beta.ppf(0.025, below, n - below + 1)) if below else 0.0,
            "margin": float((bound / Profiles.of(truth).mean_duration - 1).mean()),
        },
    }


def kills(work: Path, count: int) -> dict:
    """End sweeps by signals at random moments: nothing is left, and they resume to the same."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background
    work = work / "kills"
    one = spec(work, 0.05, runs=2, warmups=0, cooldown=0.0)
    corners = np.array([[5000, 4, 1, 64], [5000, 4, 2, 256], [30000, 32, 1, 64]], dtype=float)
    contexts = table(work / "contexts.csv", corners, np.full(len(corners), 2))
    for path in work.glob("k*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    seconds, code = interrupted(one, work / "k.nc", contexts)
    assert code == 0, "the sweep failed"
    wanted, rng, rows = shape(work / "k.nc"), random.Random(0), []
    while len(rows) < count:
        number, out = [*SIGNALS][len(rows) % 3], work / f"k{len(rows)}.nc"
        moment = rng.uniform(0, seconds)
        _, code = interrupted(one, out, contexts, number, moment)
        if code == 0:  # it was faster this time
            for path in work.glob(f"{out.stem}.*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            continue
        journal = out.with_suffix(".journal")
        tag = read_journal(journal)[0]["tag"]
        if number == signal.SIGKILL:
            command("measure", "--restore", journal)
        left = what_is_left(tag, work)
        made = {r["slot"] for r in read_journal(journal) if r["event"] == "run"}
        command("measure", one, "-o", out, "--contexts", contexts, "--resume", "--force")
        again = [r["slot"] for r in read_journal(journal) if r["event"] == "run"]
        rows.append(
            {
                "signal": number.name,
                "moment": round(moment, 2),
                "exit": code,
                "right_exit": code == SIGNALS[number],
                "left": left + what_is_left(tag, work),
                "runs_before": len(made),
                "measured_twice": len(again) - len(set(again)),
                "equal": shape(out) == wanted,
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return {"rows": rows}


def interrupted(
    spec: Path, out: Path, contexts: Path, number: int = 0, moment: float = np.inf
) -> tuple[float, int]:
    """Seconds since the first line of its journal, and exit code of a sweep that gets a signal."""
    process = subprocess.Popen(
        [sys.executable, "-m", "msbgen", "measure", spec, "-o", out, "--contexts", contexts],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    journal = out.with_suffix(".journal")
    while not (journal.exists() and journal.stat().st_size):
        assert process.poll() is None, "it did not start"
        time.sleep(0.001)
    begun = time.monotonic()
    try:
        process.wait(None if np.isinf(moment) else moment)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    return time.monotonic() - begun, process.wait()


def what_is_left(tag: str, work: Path) -> list[str]:
    """Processes, control groups and partial files of a sweep, after some patience."""
    until = time.monotonic() + PATIENCE
    while tagged_processes(tag) and time.monotonic() < until:
        time.sleep(0.1)
    found = [f"process {process}" for process in tagged_processes(tag)]
    found += [f"group {path}" for path in groups(tag)]
    return found + [f"file {path.name}" for path in work.glob(".*partial*")]


def shape(path: Path) -> dict:
    """The content of a file without measured values."""
    data = msbgen.read_profiles(path)
    return {
        "names": {str(n): (v.dims, str(v.dtype), str(v.attrs)) for n, v in data.variables.items()},
        "contexts": context_table(data).tolist(),
        "runs": data["duration"].notnull().values.tolist(),
        "attrs": {k: v for k, v in data.attrs.items() if k != "history"},
    }


def tables() -> dict[str, str]:
    """Tables of the page, from the stored JSON."""
    found = json.loads(RESULT.read_text())
    one, ends = found["sweep"], found["kills"]["rows"]
    n = one["contexts"]
    noise = one["error"]["other half"]
    rows = [
        [name, f"{100 * one['error'][key]:.1f} %", f"{one['error'][key] / noise:.2f}"]
        for name, key in (
            ("generated mean", "generated"),
            ("multilinear interpolation", "multilinear"),
            ("the other half of the runs: noise", "other half"),
        )
    ]
    held = one["bounds"]
    faults = sum(bool(r["left"] or not r["equal"] or not r["right_exit"]) for r in ends)
    return {
        "loop errors": markdown(["duration", "mean error", "over that of noise"], rows),
        "loop figures": markdown(
            ["figure", "value"],
            [
                ["contexts: first, planned, held out", ", ".join(map(str, n.values()))],
                [
                    "runs below their bound at 10 %",
                    f"{held['covered']} of {held['of']}, {100 * held['covered'] / held['of']:.0f} %"
                    f" (95 % interval from {100 * held['low']:.0f} %)",
                ],
                ["mean margin of the bounds", f"{100 * held['margin']:.0f} %"],
                [
                    "load of the machine, median and most",
                    f"{one['load']:.2f}, {one['load_most']:.2f}",
                ],
                ["sweeps ended by signals; with a fault", f"{len(ends)}; {faults}"],
                ["runs measured twice", str(sum(r["measured_twice"] for r in ends))],
            ],
        ),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, help="folder for what is measured (a temporary one)")
    parser.add_argument("--only", nargs="+", choices=("sweep", "kills"), default=["sweep", "kills"])
    parser.add_argument("--quick", action="store_true", help="few lines and runs, for a trial")
    parser.add_argument("--count", type=int, default=10, help="sweeps ended by signals")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    result = work / "quick.json" if options.quick else RESULT
    found = json.loads(result.read_text()) if result.exists() else {}
    if "sweep" in options.only:
        found["sweep"] = sweep(work, quick=options.quick)
        print(json.dumps({k: found["sweep"][k] for k in ("error", "bounds", "load")}))
    if "kills" in options.only:
        found["kills"] = kills(work, options.count)
    store(result, found)


if __name__ == "__main__":
    main()
