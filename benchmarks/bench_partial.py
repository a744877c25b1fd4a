"""Growth with the snapshots of joining partial runs: time and memory of each part.

    python benchmarks/bench_partial.py [--task gzip] [--snapshots 50 100 200 400]

The data are requests and misses in different runs of 27 contexts (case (a) of
``partial_study.py``).  The parts are the search for donors, the bridge, and joint paths drawn from
it, at several numbers of segments of progress.  Figures are seconds of the processor, which other
jobs hardly change, and the peak of allocated memory (``tracemalloc``).
"""

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from partial_study import fitted_and_asked, known_contexts, replayed, taken_away
from tables import RESULTS, TASKS, markdown, publish, store, stored
from timing import slope

from msbgen.engine.bridge.paths import Chain

_RUNS, _SEED, _PATHS, _REPEATS = 3, 21, 30, 3
PARTS = ("lenders", "bridge", "paths")


def measured(call: Callable[[], Any]) -> tuple[Any, float, int]:
    """Result of a call, its least seconds of the processor, and the peak of allocated bytes."""
    seconds = []
    for _ in range(_REPEATS):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    tracemalloc.start()
    out = call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return out, min(seconds), peak


def growth(task: str, snapshots: list[int]) -> dict[str, Any]:
    """Seconds and bytes of each part by the number of snapshots."""
    whole = replayed(task, known_contexts(task, 27), 2 * _RUNS, _SEED, streams=False)
    _, fit, (runs, state, centre), named = fitted_and_asked(taken_away(whole, "a", _SEED))
    out: dict[str, Any] = {"task": task, "runs": len(runs.context), "snapshots": snapshots}
    out |= {part: {"seconds": [], "bytes": []} for part in PARTS}
    # the runs of the context itself serve as well as others
    active = np.array([np.flatnonzero(runs.context == c) for c in range(len(runs.contexts))])
    weight = np.zeros(active.shape)
    for n in snapshots:
        cut = replace(centre, segments=n)
        residuals, *of_lenders = measured(lambda cut=cut: fit(runs, state, cut, **named))
        points = residuals.points(cut.scaled_contexts)
        chain, *of_bridge = measured(lambda points=points: Chain.fit(points, **named))
        uniform = np.random.default_rng(0).random((len(active), _PATHS, n))
        _, *of_paths = measured(lambda c=chain, u=uniform: c.draw(active, weight, u))
        for part, (seconds, held) in zip(PARTS, (of_lenders, of_bridge, of_paths)):
            out[part]["seconds"].append(seconds)
            out[part]["bytes"].append(held)
    return out


def growth_table(result: dict[str, Any]) -> str:
    """Seconds and megabytes by snapshots, and the exponents of their growth."""
    sizes, rows = result["snapshots"], []
    for part in PARTS:
        own = result[part]
        cells = [f"{s:.2g} s, {b / 1e6:.2g} MB" for s, b in zip(own["seconds"], own["bytes"])]
        exponents = [f"{slope(sizes, own[what]):.2f}" for what in ("seconds", "bytes")]
        rows.append([part, *cells, *exponents])
    header = ["part", *(f"{n} snapshots" for n in sizes), "exponent of time", "of memory"]
    return markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="gzip", choices=TASKS)
    parser.add_argument("--snapshots", nargs="+", type=int, default=[50, 100, 200, 400])
    options = parser.parse_args()
    result = growth(options.task, options.snapshots)
    store(RESULTS / "partial-growth.json", result)
    publish(tables())


def tables() -> dict[str, str]:
    return {"partial-growth": growth_table(stored("partial-growth"))}


if __name__ == "__main__":
    main()
