"""How time grows: with the snapshots, with the contexts asked for, with the points of a snapshot.

    python benchmarks/bench_scaling.py [--quick] [--output benchmarks/results/scaling.json]

Sizes of one series run interleaved in one process on one core; the slope of medians in log-log is
the exponent of the growth.
"""

import argparse
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from tables import PROFILES, store
from timing import interleaved, on_cores, slope

from msbgen import all_contexts, fit_profiles, read_profiles
from msbgen.bridge.solve import SolverConfig, solve_bridge

KINDS = ("max_likelihood", "mean", "sample")
TOL = 1e-6


def bench_snapshots(counts: Sequence[int], n: int, epsilon: float, repeats: int) -> dict[str, Any]:
    """Bridges of so many snapshots of n points; the work is in the pairs, one less."""
    seconds = _solves([(n, s) for s in counts], epsilon, repeats)
    return {"n": n, "epsilon": epsilon, **_series([s - 1 for s in counts], seconds)}


def bench_points(sizes: Sequence[int], epsilon: float, repeats: int) -> dict[str, Any]:
    """One pair of snapshots of so many points."""
    seconds = _solves([(n, 2) for n in sizes], epsilon, repeats)
    return {"epsilon": epsilon, **_series(sizes, seconds)}


def bench_contexts(sizes: Sequence[int], task: str, repeats: int) -> dict[str, Any]:
    """Profiles of so many contexts from one fitted model, kind by kind."""
    measured = read_profiles(PROFILES / f"{task}.nc")
    model = fit_profiles(measured)
    every = np.random.default_rng(0).permutation(all_contexts(measured))
    result = {}
    for kind in KINDS:
        calls = {n: partial(model.generate, every[:n], kind=kind, rng=0) for n in sizes}
        with on_cores(1):
            seconds = interleaved(calls, repeats)
        result[kind] = _series(sizes, [seconds[n] for n in sizes])
    return {"task": task, **result}


def _solves(cases: Sequence[tuple[int, int]], epsilon: float, repeats: int) -> list[float]:
    rng = np.random.default_rng(0)
    config = SolverConfig(tol=TOL, threads=1)
    calls = {
        (n, s): partial(
            solve_bridge, [rng.random((n, 6)) for _ in range(s)], epsilon=epsilon, config=config
        )
        for n, s in cases
    }
    with on_cores(1):
        seconds = interleaved(calls, repeats)
    return [seconds[case] for case in cases]


def _series(sizes: Sequence[int], seconds: Sequence[float]) -> dict[str, Any]:
    return {"sizes": list(sizes), "seconds": list(seconds), "slope": slope(sizes, seconds)}


def report(name: str, row: dict[str, Any]) -> None:
    for kind, series in {k: row[k] for k in KINDS if k in row}.items() or [("", row)]:
        pairs = zip(series["sizes"], series["seconds"])
        cells = ", ".join(f"{size} {s:.3g} s" for size, s in pairs)
        print(f"{name} {kind}: slope {series['slope']:.2f} ({cells})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a trial")
    parser.add_argument("--task", default="zstd")
    parser.add_argument("--parts", nargs="+", default=["snapshots", "points", "contexts"])
    parser.add_argument("--output", type=Path, help="JSON file to write, or whose parts to renew")
    options = parser.parse_args()
    quick, repeats = options.quick, 2 if options.quick else 5
    snapshots = (3, 5, 9) if quick else (3, 5, 9, 17, 33, 65)
    points = (250, 500, 1000) if quick else (500, 1000, 2000, 4000)
    asked = (128, 256, 512) if quick else (285, 570, 1140, 2280, 4560)
    parts = {
        "snapshots": partial(bench_snapshots, snapshots, 300 if quick else 500, 0.05, repeats),
        "points": partial(bench_points, points, 0.05, repeats),
        "contexts": partial(bench_contexts, asked, options.task, 2 if quick else 3),
    }
    results = {}
    if options.output and options.output.exists():
        results = json.loads(options.output.read_text())
    for part in options.parts:
        results[part] = parts[part]()
        report(part, results[part])
        if options.output:
            store(options.output, results)


if __name__ == "__main__":
    main()
