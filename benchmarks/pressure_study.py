"""Slowdowns of pairs of real programs, predicted from the pressure that each exerts.

    python benchmarks/reproduce.py pressure --work FOLDER [--runs 5]

It needs two cores and an idle machine, GNU sort, xz and sqlite3 of Python. All runs of a round are
in random order: alone, beside the stressor at each level, beside each other program in a loop.
"""

import os
import random
import secrets
import shlex
import sys
import time
from pathlib import Path

import numpy as np
from measure_study import JOB
from tables import RESULTS, markdown, parser, publish, store, stored

from msbgen.sources.measure.actuators.pressure import Stressors
from msbgen.sources.measure.sweep.probe import probe
from msbgen.sources.measure.sweep.process import paused_process
from msbgen.sources.measure.sweep.requirements import describe_machine
from msbgen.sources.measure.sweep.spec import ResourceSpec, Spec

PATH = RESULTS / "pressure.json"
LEVELS = (0.0, 1000.0, 3000.0, 6000.0)  # [MB/s]
STENCIL = """
import numpy as np
a = np.random.default_rng(0).random((2000, 2000))
b = a.copy()
for _ in range(40):
    b[1:-1, 1:-1] = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    b *= 0.25
    a, b = b, a
"""
LINES, BYTES, ROWS = 2_000_000, 8_000_000, 55_000


def programs(work: Path) -> dict[str, tuple[str, ...]]:
    """Commands of the four programs, whose inputs are written into a folder."""
    rng = random.Random(1)
    words = [f"{rng.randrange(10**9):09d} {rng.random():.12f}\n" for _ in range(LINES)]
    (work / "lines.txt").write_text("".join(words))
    (work / "text.txt").write_text("".join(words)[:BYTES])
    (work / "job.py").write_text(JOB.replace("SIZE", str(ROWS)))
    (work / "stencil.py").write_text(STENCIL)
    return {
        "sort": ("sort", "--parallel=1", "-S", "200M", str(work / "lines.txt")),
        "xz": ("xz", "-T1", "-1", "-k", "-c", str(work / "text.txt")),
        "sqlite": (sys.executable, "-S", str(work / "job.py")),
        "stencil": (sys.executable, str(work / "stencil.py")),
    }


def timed(command: tuple[str, ...], core: int, work: Path, tag: str) -> float:
    """Seconds of a run on a core."""
    with paused_process(
        command, folder=work, stdin=os.devnull, stderr=work / "err", environment=ENVIRONMENT,
        tag=tag,
    ) as process:  # fmt: skip
        os.sched_setaffinity(process.pid, {core})
        ended = process.run(60.0)
    if ended.status:
        raise SystemExit(f"{shlex.join(command)}: exited with {ended.status}")
    return ended.wall


ENVIRONMENT = {"LC_ALL": "C", "OPENBLAS_NUM_THREADS": "1"}


def beside(
    command: tuple[str, ...], other: tuple[str, ...], cores: list[int], work: Path, tag: str
) -> float:
    """Seconds of a run while another program runs in a loop on the other core."""
    loop = ("/bin/sh", "-c", f"while :; do {shlex.join(other)}; done > /dev/null 2>&1")
    with paused_process(
        loop, folder=work, stdin=os.devnull, stderr=work / "loop", environment=ENVIRONMENT, tag=tag
    ) as process:
        os.sched_setaffinity(process.pid, {cores[0]})
        assert process._process.stdin is not None
        os.write(process._process.stdin.fileno(), b"\n")
        time.sleep(0.15)
        return timed(command, cores[1], work, tag)


def measure(work: Path, runs: int) -> dict:
    """Durations of all runs [s], and the pressure of each program [MB/s]."""
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    commands, tag = programs(work), secrets.token_hex(8)
    cores = sorted(os.sched_getaffinity(0))[:2]
    stressors = Stressors(cores[:1], cores[1:], tag)
    jobs = [(a, b) for a in commands for b in ("alone", *commands, *LEVELS[1:]) if a != b]
    seconds: dict[str, list[float]] = {f"{a}|{b}": [] for a, b in jobs}
    shuffled = random.Random(0)
    for _ in range(runs):
        for a, b in shuffled.sample(jobs, len(jobs)):
            if not isinstance(b, str):
                stressors.bandwidth = b
                stressors.start()
                try:
                    took = timed(commands[a], cores[1], work, tag)
                finally:
                    stressors.end()
            elif b == "alone":
                took = timed(commands[a], cores[1], work, tag)
            else:
                took = beside(commands[a], commands[b], cores, work, tag)
            seconds[f"{a}|{b}"].append(took)
    pressures = {}
    resource = ResourceSpec("pressure", "pressure", LEVELS, target="bandwidth")
    for name, command in commands.items():
        found = probe(
            Spec(
                command, (resource,), task=name, folder=str(work), environment=ENVIRONMENT,
                cores=(cores[1],), runs=runs, seed=len(pressures),
            )
        )  # fmt: skip
        low, high = found.range
        pressures[name] = {"level": found.pressure, "low": low, "high": high}
    return {"machine": describe_machine(), "seconds": seconds, "pressures": pressures}


def predicted(result: dict, a: str, b: str) -> float:
    """Slowdown of A beside B: its duration at B's pressure over its duration alone."""
    seconds = result["seconds"]
    at = ["alone", *LEVELS[1:]]
    curve = [np.median(seconds[f"{a}|{level}"]) for level in at]
    return float(np.interp(result["pressures"][b]["level"], LEVELS, curve) / curve[0])


def pairs(result: dict) -> list[dict]:
    """True and predicted slowdowns of each program of each pair, and how reruns differ."""
    rows = []
    for a in result["pressures"]:
        alone = np.array(result["seconds"][f"{a}|alone"])
        for b in result["pressures"]:
            if a != b:
                together = np.array(result["seconds"][f"{a}|{b}"])
                ratios = together / np.median(alone)
                rows.append(
                    {
                        "program": a, "beside": b, "slowdown": float(np.median(ratios)),
                        "predicted": predicted(result, a, b),
                        "rerun": float(np.mean(np.abs(ratios / np.median(ratios) - 1))),
                    }
                )  # fmt: skip
    for row in rows:
        others = [
            r["slowdown"]
            for r in rows
            if {r["program"], r["beside"]} != {row["program"], row["beside"]}
        ]
        row["others"] = float(np.mean(others))
    return rows


def tables() -> dict[str, str]:
    """Tables of the page."""
    result = stored("pressure")
    rows = pairs(result)
    truth = np.array([row["slowdown"] for row in rows])
    each = [
        [
            row["program"],
            row["beside"],
            f"{row['slowdown']:.3f}",
            f"{row['predicted']:.3f}",
            f"{100 * (row['predicted'] / row['slowdown'] - 1):+.1f} %",
            f"{100 * row['rerun']:.1f} %",
        ]
        for row in rows
    ]
    methods = {
        "pressure": [row["predicted"] for row in rows],
        "alone (no slowdown)": np.ones(len(rows)),
        "mean slowdown of the other pairs": [row["others"] for row in rows],
    }
    errors = [
        [name, f"{100 * np.mean(e):.1f} %", f"{100 * np.max(e):.1f} %"]
        for name, values in methods.items()
        for e in [np.abs(np.array(values) / truth - 1)]
    ]
    reruns = [100 * row["rerun"] for row in rows]
    errors.append(
        ["a run from the median of its reruns", f"{np.mean(reruns):.1f} %", f"{max(reruns):.1f} %"]
    )
    seconds = result["seconds"]
    curves = [
        [
            name,
            f"{np.median(seconds[f'{name}|alone']):.2f} s",
            *(
                f"{np.median(seconds[f'{name}|{level}']) / np.median(seconds[f'{name}|alone']):.3f}"
                for level in LEVELS[1:]
            ),
            f"{p['level']:.0f} ({p['low']:.0f} to {p['high']:.0f})",
        ]
        for name, p in result["pressures"].items()
    ]
    levels = [f"at {level:.0f} MB/s" for level in LEVELS[1:]]
    return {
        "pressure-errors": markdown(["prediction", "mean error", "worst"], errors),
        "pressure-programs": markdown(["program", "alone", *levels, "own pressure [MB/s]"], curves),
        "pressure-pairs": markdown(
            ["program", "beside", "slowdown", "predicted", "error", "reruns"], each
        ),
    }


def main() -> None:
    """Measure, store, and write the tables."""
    options = parser(__doc__ or "", work="folder for inputs and scratch", required=["work"])
    options.add_argument("--runs", type=int, default=5, help="of each context and pair")
    chosen = options.parse_args()
    store(PATH, measure(chosen.work, chosen.runs))
    publish(tables())


if __name__ == "__main__":
    main()
