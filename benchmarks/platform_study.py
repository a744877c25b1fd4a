"""Replay of the shipped traces: speed, and agreement with the shipped truth.

    python benchmarks/reproduce.py platform [-o FILE.json] [--tasks gzip zstd ...]

Figures of each task are milliseconds a run, the whole platform (4,560 contexts × 3 runs), and 30
runs of every test context against the shipped runs. These come from four or eight page colourings,
and a trace holds three: misses are also compared between runs of one colouring.
"""

import argparse
import json
import resource
from functools import partial
from pathlib import Path

import numpy as np
from tables import PROFILES, RESULTS, TASKS, markdown, publish, store, stored
from timing import CORES, seconds_of

from msbgen.data.schema import context_table
from msbgen.data.store import read_profiles
from msbgen.sources.platform import platform_contexts, read_trace, replay_trace

COUNTERS = ("instructions", "cache_requests", "cache_misses")


def agreement(trace, truth):
    """Relative errors of 30 replayed runs against the truth, in per cent."""
    table = context_table(truth)
    got = replay_trace(trace, table, 30, 0.01, 0)
    durations = [p.duration.values for p in (got, truth)]
    ours, theirs = (p.duration.mean("run").values for p in (got, truth))
    error = 100 * (ours / theirs - 1)
    corner = (table[:, 1] == 70) | (table[:, 0] <= 3)
    spread = [(p.duration.std("run", ddof=1) / p.duration.mean("run")).values for p in (got, truth)]
    totals = {n: [p[n].sum("time").values.astype(float) for p in (got, truth)] for n in COUNTERS}
    misses = totals["cache_misses"]
    return {
        "duration_error_mean": float(np.abs(error).mean()),
        "duration_error_max": float(np.abs(error).max()),
        "duration_bias": float(error.mean()),
        "duration_error_corner_mean": float(np.abs(error[corner]).mean()),
        "duration_error_corner_max": float(np.abs(error[corner]).max()),
        "duration_bias_same_colouring": same_colouring(trace, table, totals, durations),
        **{f"{n}_bias": float(100 * (a.mean() / b.mean() - 1)) for n, (a, b) in totals.items()},
        "cache_misses_bias_same_colouring": same_colouring(trace, table, totals, misses),
        "spread_ratio": float(spread[0].mean() / spread[1].mean()),
    }


def same_colouring(trace, table, totals, values):
    """Bias in per cent between runs that have the same colouring by their misses."""
    histogram = trace.distance_histogram.sum(["interval", "stream"]).transpose("depth", ...).values
    misses = np.stack([histogram[int(w) :].sum(axis=0) for w in table[:, 0]]).astype(float)
    means = []
    for total, value in zip(totals["cache_misses"], values):
        distance = np.abs(total[:, :, None] - misses[:, None, :])
        near = distance < 3e-4 * misses[:, None, :] + 20
        weight = np.where(near & (distance == distance.min(axis=2, keepdims=True)), 1.0, np.nan)
        sums = np.nansum(weight * value[:, :, None], axis=1)
        n = np.nansum(weight, axis=1)
        means.append(np.divide(sums, n, out=np.full(sums.shape, np.nan), where=n > 0))
    return float(100 * np.nanmean(means[0] / means[1] - 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "platform.json")
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    arguments = parser.parse_args()
    contexts = platform_contexts("all")
    results = {}
    for task in arguments.tasks:
        trace = read_trace(PROFILES / "traces" / f"{task}.nc")
        first = seconds_of(partial(replay_trace, trace, contexts[:1], 1))
        some = contexts[:: len(contexts) // 60]
        replay_trace(trace, some, 1, threads=1)  # the tables of every way count
        profiles = replay_trace(trace, some, 10, threads=1)
        each = seconds_of(partial(replay_trace, trace, some, 10, threads=1))
        each /= profiles.duration.size
        grid = seconds_of(partial(replay_trace, trace, contexts, 3))
        results[task] = {
            "first_call_s": first,
            "mean_duration_s": float(profiles.duration.mean()),
            "ms_a_run_one_thread": 1e3 * each,
            "ms_a_simulated_second": 1e3 * each / float(profiles.duration.mean()),
            "grid_of_4560_by_3_s": grid,
            "cores": len(CORES),
            "peak_memory_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            **agreement(trace, read_profiles(PROFILES / f"{task}-truth.nc")),
        }
        print(task, json.dumps({k: round(v, 4) for k, v in results[task].items()}), flush=True)
    store(arguments.output, results)
    if arguments.output == RESULTS / "platform.json":
        publish(tables())


def tables():
    """Speed of replays, and their difference to the shipped profiles."""
    columns = {
        "ms_a_run_one_thread": "ms per run, one thread",
        "grid_of_4560_by_3_s": "4,560 contexts × 3 runs [s]",
        "duration_error_mean": "duration error, mean [%]",
        "duration_error_max": "largest [%]",
        "duration_bias": "bias [%]",
        "cache_misses_bias": "bias of misses [%]",
        "cache_misses_bias_same_colouring": "bias of misses, same colouring [%]",
        "spread_ratio": "spread of runs over measured",
    }
    rows = [
        [task, *(f"{row[name]:.2f}" for name in columns)]
        for task, row in stored("platform").items()
    ]
    return {"platform": markdown(["task", *columns.values()], rows)}
