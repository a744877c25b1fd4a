"""Speed of decisions: compiled, from Python, and of a table; ``--work`` as for the study.

Decisions are for four cores on the tables of the six tasks, in random phases.
"""

from functools import partial
from typing import Any

import numpy as np
from allocation_data import RUNS, TABLE_SEED, prepare
from allocation_study import CAPACITY, CORES, Experiment
from numba import njit
from tables import PROFILES, RESULTS, TASKS, markdown, parser, publish, store, stored
from timing import seconds_of

from msbgen import platform
from msbgen.systems.phases.phases import phase_table
from msbgen.systems.realtime import _kernels

DECISIONS = 20_000
TABLE_TASK = "gzip"
# Allocators, and the goal for a compiled decision [µs].
GOALS = {"dna": 1, "optimum": 8}

_allocate = _kernels.allocate


def compiled(experiment: Experiment, method: str) -> float:
    """Seconds of a decision called from compiled code, the best of some rounds."""
    allocator = experiment.allocator(method)
    (_, first, _), (code, table, work, contexts) = allocator.prepared()
    phases = np.random.default_rng(0).integers(first[-1], size=(1000, CORES))

    decide = partial(_decide_often, code, phases, table, work, contexts)
    decide(10)
    return min(seconds_of(lambda: decide(DECISIONS)) for _ in range(7)) / DECISIONS


@njit(nogil=True)
def _decide_often(code, phases, table, work, contexts, n):
    for k in range(n):
        phase = phases[k % phases.shape[0]]
        _allocate(code, phase, contexts.size, table, work, contexts)


def from_python(experiment: Experiment, method: str) -> dict[str, float]:
    """Quantiles of `decide` from Python [s]."""
    allocator = experiment.allocator(method)
    rng = np.random.default_rng(0)
    names = list(allocator.tasks)
    questions = [
        ([names[i] for i in rng.integers(len(names), size=CORES)], rng.random(CORES).tolist())
        for _ in range(2000)
    ]
    for tasks, done in questions[:100]:
        allocator.decide(tasks, done)
    seconds = [seconds_of(partial(allocator.decide, *question)) for question in questions * 5]
    return {f"p{q}": float(np.quantile(seconds, q / 100)) for q in (50, 99)}


def table_seconds() -> dict[str, float]:
    """Seconds of one task's table from 4,560 contexts with ten runs each."""
    trace = platform.read_trace(PROFILES / "traces" / f"{TABLE_TASK}.nc")
    runs = platform.replay_trace(trace, platform.platform_contexts("all"), RUNS, rng=TABLE_SEED)
    seconds = [seconds_of(lambda: phase_table(runs)) for _ in range(4)]
    return {"first": seconds[0], "warm": min(seconds[1:])}


def main() -> None:
    work = parser(__doc__, required=("work",), work="folder of the experiment").parse_args().work
    prepare(work, TASKS)
    experiment = Experiment(work, TASKS)
    content: dict[str, Any] = {"table": table_seconds()}
    for name in GOALS:
        method = f"{name}, empirical"
        content[name] = {
            "compiled": compiled(experiment, method),
            **from_python(experiment, method),
        }
    store(RESULTS / "schedule.json", {"capacity": CAPACITY, **content})
    publish(tables())


def tables() -> dict[str, str]:
    content = stored("schedule")
    rows = [["table, 4,560 contexts × 10 runs", f"{content['table']['warm']:.2f} s", "≤ 3 s"]]
    for name, goal in GOALS.items():
        row = content[name]
        rows.append([f"{name}, compiled", f"{1e6 * row['compiled']:.2f} µs", f"≤ {goal} µs"])
        rows.append([f"{name}, Python, median", f"{1e6 * row['p50']:.1f} µs", ""])
        rows.append([f"{name}, Python, p99", f"{1e6 * row['p99']:.1f} µs", "≤ 20 µs"])
    return {"schedule": markdown(["decision, 4 cores", "time", "goal"], rows)}


if __name__ == "__main__":
    main()
