"""Measuring on this machine: from a spec to scores; CPU shares; killed sweeps.

    python benchmarks/reproduce.py measure example --work FOLDER [--quick] [--sweeps 3]
    python benchmarks/reproduce.py measure shares --work FOLDER
    python benchmarks/reproduce.py measure kills --work FOLDER [--count 20]

It needs perf, control groups with CPU quotas, and root. ``example`` and ``shares`` need an idle
machine, and report its load. An interrupted sweep goes on in the same folder.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import xarray as xr
from tables import ROOT, store

import msbgen
from msbgen.answers.evaluate.scores import methods
from msbgen.data.schema import same_level
from msbgen.sources.measure.sweep.journal import read_journal
from msbgen.sources.measure.sweep.process import tagged_processes

# A database is filled, indexed and queried: the same phases in every run.
JOB = """
import random, sqlite3
random.seed(1)
db = sqlite3.connect(":memory:")
db.execute("create table t(id integer primary key, a integer, b text)")
for _ in range(4):
    rows = [(random.randrange(10**6), "x%07d" % random.randrange(10**7)) for _ in range(SIZE)]
    db.executemany("insert into t(a, b) values(?, ?)", rows)
db.execute("create index ia on t(a)")
db.execute("create index ib on t(b)")
for i in range(SIZE // 2):
    db.execute("select count(*) from t where a between ? and ?", (i * 40, i * 40 + 300)).fetchone()
db.execute("select b, count(*) from t group by substr(b, 1, 4) order by 2 desc").fetchall()
"""
LEVELS = list(range(10, 101, 5))
FIRST = [10, 25, 40, 60, 80, 100]
EVENTS = ["task-clock", "page-faults", "context-switches"]


def spec(work: Path, size: int, *, levels=LEVELS, runs=5, **more) -> Path:
    """Write the job, and its spec with CPU quotas."""
    (work / "job.py").write_text(JOB.replace("SIZE", str(size)))
    given = {"runs": runs, "warmups": 1, "cooldown": 0.05, "timeout": 120, **more}
    lines = [
        'task = "sqlite"',
        f'command = ["{sys.executable}", "-S", "job.py"]',
        f"events = {json.dumps(EVENTS)}",
        *(f"{key} = {json.dumps(value)}" for key, value in given.items()),
        "[resources.cpu_share]",
        'by = "quota"',
        f"levels = {levels}",
    ]
    path = work / "spec.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def command(*words, check=True) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [sys.executable, "-m", "msbgen", *map(str, words)], capture_output=True, text=True,
        check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if check and done.returncode:
        raise SystemExit(f"msbgen {' '.join(map(str, words))}: {done.returncode}\n{done.stderr}")
    return done


def measured(path: Path, spec: Path, *more) -> xr.Dataset:
    """Profiles of a file, measured first if it is missing; an interrupted sweep goes on."""
    if not path.exists():
        resume = ["--resume"] if path.with_suffix(".journal").exists() else []
        print(command("measure", spec, "-o", path, *more, *resume).stderr, end="")
    return msbgen.read_profiles(path)


def contexts(path: Path, levels) -> Path:
    path.write_text("cpu_share\n" + "".join(f"{level:g}\n" for level in levels))
    return path


def example(work: Path, sweep: int, *, quick: bool) -> dict:
    """Measure, check, plan, measure again, generate, evaluate; scores of unseen quotas."""
    folder = work / f"{'quick' if quick else 'sweep'}-{sweep}"
    folder.mkdir(parents=True, exist_ok=True)
    runs, size = (2, 6000) if quick else (5, 25000)
    one = spec(folder, size, runs=runs, seed=sweep)
    measured(folder / "first.nc", one, "--contexts", contexts(folder / "first.csv", FIRST))
    print(command("check", folder / "first.nc").stdout)
    plan, both = folder / "plan.csv", folder / "both.nc"
    if not plan.exists():
        words = ["--budget", "4", "--least-runs", runs, "-o", plan]
        print(command("plan", folder / "first.nc", *words).stdout)
    planned = [float(row.split(",")[0]) for row in plan.read_text().splitlines()[1:]]
    known = [*FIRST, *planned]
    unseen = [level for level in LEVELS if not same_level(level, np.array(known)).any()]
    many = contexts(folder / "truth.csv", unseen)
    # planned and true contexts in one random order, so that a drift affects both alike
    second = folder / "second.csv"
    second.write_text(
        "cpu_share,runs\n"
        + "".join(f"{level:g},{runs}\n" for level in planned)
        + "".join(f"{level:g},{2 * runs}\n" for level in unseen)
    )
    everything = measured(
        folder / "all.nc", one, "--contexts", second, "--with", folder / "first.nc"
    )
    is_true = np.array([same_level(c, np.array(unseen)).any() for c in everything["cpu_share"]])
    train, truth = everything.isel(context=~is_true), everything.isel(context=is_true)
    msbgen.write_profiles(train, both, overwrite=True)
    msbgen.write_profiles(truth, folder / "truth.nc", overwrite=True)
    generated = ["--contexts", many, "--kind", "mean", "-o", folder / "generated.nc", "--force"]
    command("generate", both, *generated)
    print(command("evaluate", both, "--truth", folder / "truth.nc").stdout)
    return {**scores(train, truth, runs), **busyness(train, truth), "planned": planned}


def scores(train: xr.Dataset, truth: xr.Dataset, runs: int) -> dict:
    """Distances from one half of the true runs: default, bracketing, the other half."""
    half, other = truth.isel(run=slice(0, None, 2)), truth.isel(run=slice(1, None, 2))
    known = methods()
    contestants = {
        "default/mean": known["default/mean"],
        "bracketing": known["bracketing"],
        "other half": lambda train, contexts: msbgen.evaluate.mean_profiles(other),
    }
    table = msbgen.summarise(msbgen.score_methods(train, half, contestants))
    return {"scores": table, "runs": runs, "contexts": int(truth.sizes["context"])}


def busyness(*parts: xr.Dataset) -> dict:
    load = np.concatenate([p["load"].values.ravel() for p in parts])
    return {"load": float(np.nanmedian(load)), "load_most": float(np.nanmax(load))}


def shares(work: Path) -> list[dict]:
    """Achieved and wanted shares of a program that always wants to run."""
    folder = work / "shares"
    folder.mkdir(parents=True, exist_ok=True)
    one = spec(folder, 25000, levels=list(range(10, 101, 10)), runs=5)
    data = measured(folder / "shares.nc", one)
    rows = []
    for c, level in enumerate(data["cpu_share"].values.tolist()):
        had = data["cpu_share_achieved"].values[c]
        rows.append({"asked": level, "had": had.tolist(), "off": float(np.abs(had - level).max())})
        print(f"asked {level:g} %: {had.min():.2f} to {had.max():.2f}")
    return [*rows, busyness(data)]


def kills(work: Path, count: int, seed: int = 0) -> dict:
    """Kill sweeps at random moments, restore and resume: nothing is left, the file is the same."""
    rng = random.Random(seed)
    folder = work / "kills"
    folder.mkdir(parents=True, exist_ok=True)
    one = spec(folder, 1500, levels=[25, 50, 100], runs=3, warmups=0, cooldown=0.0)
    for path in folder.glob("k*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    whole = until_killed(one, folder / "k.nc", math.inf)
    wanted, twice, killed = shape(folder / "k.nc"), 0, 0
    while killed < count:
        out = folder / f"k{killed}.nc"
        journal = out.with_suffix(".journal")
        if until_killed(one, out, rng.uniform(0.0, whole)) is not None:  # it was faster this time
            for path in folder.glob(f"{out.stem}.*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            continue
        begun = read_journal(journal)
        message = command("measure", "--restore", journal).stdout.strip()
        print(killed, "runs made:", sum(r["event"] == "run" for r in begun), "|", message)
        tag = begun[0]["tag"] if begun else "none"
        assert not tagged_processes(tag), "a process is left"
        assert not groups(tag), "a group is left"
        command("measure", one, "-o", out, "--resume", "--force")
        runs = [r["slot"] for r in read_journal(journal) if r["event"] == "run"]
        twice += len(runs) - len(set(runs))
        assert not groups(tag), "a group is left"
        assert shape(out) == wanted, "the file differs"
        killed += 1
    print(f"{killed} killed, repaired and resumed; runs made twice: {twice}")
    return {"killed": killed, "made_twice": twice}


def until_killed(spec: Path, out: Path, seconds: float) -> float | None:
    """Seconds of a sweep that is killed after so many; None if it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "msbgen", "measure", str(spec), "-o", str(out)],
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    while not out.with_suffix(".journal").exists():
        assert process.poll() is None, "it did not start"
        time.sleep(0.001)
    start = time.monotonic()
    try:
        process.wait(None if math.isinf(seconds) else seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    killed = process.wait() == -signal.SIGKILL
    return None if killed else time.monotonic() - start


def groups(tag: str) -> list[Path]:
    return list(Path("/sys/fs/cgroup").rglob(f"msbgen-{tag}"))


def shape(path: Path) -> dict:
    """The content of a file without measured values."""
    data = msbgen.read_profiles(path)
    return {
        "names": {str(n): (v.dims, str(v.dtype), str(v.attrs)) for n, v in data.variables.items()},
        "contexts": data["cpu_share"].values.tolist(),
        "runs": data["duration"].notnull().values.tolist(),
        "attrs": {k: v for k, v in data.attrs.items() if k != "history"},
    }


def run(part: str, work: Path, *, quick: bool = False, sweeps: int = 3, count: int = 20) -> None:
    work.mkdir(parents=True, exist_ok=True)
    if part == "kills":
        content: object = kills(work, count)
    elif part == "shares":
        content = shares(work)
    else:
        content = [example(work, sweep, quick=quick) for sweep in range(sweeps)]
        for metric in ("ndtw_scaled", "duration_error"):
            for name in ("default/mean", "bracketing", "other half"):
                values = [row["scores"]["methods"][name][metric] for row in content]
                print(f"{metric:15} {name:12} median of sweeps {np.median(values):.4f}  {values}")
    store(work / f"{part}{'-quick' if quick else ''}.json", content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("example", "shares", "kills")
    parser.add_argument("part", nargs="?", choices=parts, default="example")
    parser.add_argument("--work", type=Path, required=True, help="folder for what is measured")
    parser.add_argument("--quick", action="store_true", help="few, short runs, for a trial")
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--count", type=int, default=20, help="moments to kill at")
    options = parser.parse_args()
    run(options.part, options.work, quick=options.quick, sweeps=options.sweeps, count=options.count)
