"""Runs of made-up programs on made-up machines, whose times are known."""

import numpy as np

import queues
from msbgen.systems.learn.boosting import BoostingSettings
from msbgen.systems.learn.randomised import TreesSettings
from msbgen.systems.machines.dataset import make as make_relative
from msbgen.systems.machines.kriging import KrigingSettings
from msbgen.systems.machines.predictions import PartPredictions
from msbgen.systems.machines.queue import make_jobs

# Seconds an instruction, and what a share of loads adds to it.
MACHINES = {"old": (2e-9, 1.0), "new": (1e-9, 0.2), "odd": (0.5e-9, 8.0)}
QUICK = {
    "boosting": BoostingSettings(rounds=15, rate=0.15),
    "kriging": KrigingSettings(tuned=30, steps=6),
    "trees": TreesSettings(trees=20),
}


def made_runs(programs=24, scales=("small", "large"), noise=0.0, seed=0, per_machine=False):
    """Every program at every scale, on all machines: time = instructions × (a + b × loads)."""
    rng = np.random.default_rng(seed)
    rows = [(p, s) for p in range(programs) for s in range(len(scales))]
    share = rng.random(programs)[[p for p, _ in rows]]
    work = np.exp(rng.normal(15, 1, programs)[[p for p, _ in rows]]) * 10.0 ** np.array(rows)[:, 1]
    times = np.stack([a * work * (1 + b * share) for a, b in MACHINES.values()], axis=1)
    times *= np.exp(noise * rng.standard_normal(times.shape))
    loads = share * work
    factor = np.array([1.0, 2.0, 4.0])
    counted = (
        [work, loads] if not per_machine else [work[:, None] * factor, loads[:, None] * factor]
    )
    return make_relative(
        times,
        list(MACHINES),
        program=[f"p{p}" for p, _ in rows],
        scale=[scales[s] for _, s in rows],
        counters=dict(zip(("instructions", "loads"), counted)),
        work="instructions",
    )


def made_predictions(ratio, **fields):
    """Predictions with log ratios (n, sources, machines) by boosting; all times are 1 s."""
    n, machines, _ = ratio.shape
    default = {
        "seconds": np.ones((n, machines)), "ratio": ratio, "kriged": 0 * ratio, "prior": 0 * ratio,
        "spread": np.ones_like(ratio), "context": np.empty((n, 0)),
        "covariance": np.eye(machines)[None], "fit": np.zeros(n, dtype=int),
        "parts": ("boosting",), "source_time": True,
    }  # fmt: skip
    return PartPredictions(**default | fields)


def queue_of(arrays):
    """Jobs and nodes by machine of the arrays of :func:`queues.instance`."""
    submission, nodes, runtime, estimate, suits, sizes = arrays
    jobs = make_jobs(submission, nodes, runtime, estimate=estimate, suits=suits)
    return jobs, {f"m{i}": int(n) for i, n in enumerate(sizes)}


def made_queue(seed):
    """Random jobs and machines."""
    return queue_of(queues.instance(seed))
