"""Workloads of the study of queues: jobs, their times on every machine, and their estimates.

A job is a random row of measured times on every machine. Its logged run time is that on a random
machine, and its estimates elsewhere are cautious predictions from that run, by a model that knows
nothing of its program. Submissions are those of a stretch of the log. Jobs take 1, 2 or 4 nodes.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from machines_study import MIXED, shipped_runs, task_graph_runs
from numpy.typing import NDArray

from msbgen.systems.machines import queue
from msbgen.systems.machines.dataset import machines_of, runtimes_of, words_of
from msbgen.systems.machines.predictor import RelativePredictor, cross_predict

JOBS = 50_000
WIDTHS = (1, 2, 4)
NODES = {"Tiger Lake": 200, "Zen 3": 200, "Goldmont Plus": 150, "Cortex-A72": 100}
GRAPH_NODES = {"CPU": 200, "GPU 1": 200, "GPU 2": 200}
# Estimates are so many typical distances above predictions: a job of two days that takes six times
# its estimate sets the makespan. Chosen among 0, 1, 2 and 4 on other stretches of the log (seeds 10
# to 12).
CAUTION = 2.0
LOG, TASKS = "LCG.swf.gz", "tasks_cpu_gpu1_gpu2.csv"


@dataclass(frozen=True)
class Vectors:
    """Times on every machine, (rows, machines), and the number of nodes of each machine.

    They are predicted from the time on each source, (rows, sources, machines). ``suits`` (rows,
    machines) marks the machines for a user who knows only the kind of program.
    """

    machines: dict[str, int]
    seconds: NDArray[np.float64]
    predicted: NDArray[np.float64]
    suits: NDArray[np.bool_]


@dataclass(frozen=True)
class Log:
    """Submissions and run times [s] of logged jobs, in order of submission."""

    name: str
    submission: NDArray[np.float64]
    runtime: NDArray[np.float64]


def programs() -> Vectors:
    """Programs in WebAssembly on four machines, each predicted from other programs.

    Users run half of the programs on the two large machines, half on the two small ones.
    """
    runs = shipped_runs(MIXED)
    predicted = cross_predict(runs, RelativePredictor(), split="programs", caution=CAUTION)
    number = np.unique(words_of(runs, "program"), return_inverse=True)[1].reshape(-1)
    large = np.isin(machines_of(runs), ("Tiger Lake", "Zen 3"))
    return Vectors(NODES, runtimes_of(runs), predicted, (number % 2 == 0)[:, None] == large)


def graphs(folder: Path) -> Vectors:
    """Tasks of dense linear algebra on a CPU and two GPUs, predicted from other block sizes.

    Users run them on the GPUs.
    """
    runs = task_graph_runs(find(folder, TASKS).parent)
    predicted = cross_predict(runs, RelativePredictor(), split="scales", caution=CAUTION)
    gpu = np.array([name != "CPU" for name in machines_of(runs)])
    seconds = runtimes_of(runs)
    return Vectors(GRAPH_NODES, seconds, predicted, np.broadcast_to(gpu, seconds.shape))


def logged(folder: Path) -> Log:
    """The log of a grid, without jobs that took no time."""
    path = find(folder, LOG)
    log = queue.read_workload(path)
    ran = log["runtime"].values > 0
    return Log(path.name, log["submission"].values[ran], log["runtime"].values[ran])


def made_up(jobs: int = 4 * JOBS) -> Log:
    """A random log for trials: lognormal run times, sessions of submissions."""
    rng = np.random.default_rng(0)
    gaps = rng.exponential(5.0, jobs) * rng.lognormal(0, 1.5, jobs)
    return Log("made up", gaps.cumsum(), np.minimum(rng.lognormal(6.5, 2.0, jobs), 172_800.0))


def find(folder: Path, name: str) -> Path:
    """A file of that name somewhere in a folder."""
    found = sorted(folder.rglob(name))
    if not found:
        raise SystemExit(f"no {name} in {folder}; give the folder that holds it.")
    return found[0]


def draw(
    vectors: Vectors, log: Log, seed: int, jobs: int = JOBS, widths: tuple[int, ...] = WIDTHS
) -> queue.Jobs:
    """Jobs of a stretch of a log."""
    rng = np.random.default_rng(seed)
    n, m = vectors.seconds.shape
    first = int(rng.integers(len(log.submission) - jobs))
    stretch = slice(first, first + jobs)
    row, source = rng.integers(n, size=jobs), rng.integers(m, size=jobs)
    scale = (log.runtime[stretch] / vectors.seconds[row, source])[:, None]
    return queue.make_jobs(
        log.submission[stretch],
        rng.choice(widths, jobs),
        scale * vectors.seconds[row],
        estimate=scale * vectors.predicted[row, source],
        suits=vectors.suits[row],
    )
