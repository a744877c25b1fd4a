"""The joint allotment beside exhaustive search, on 1,000 small random cases; and its time."""

import argparse
import itertools
import time
from pathlib import Path

import numpy as np
import xarray as xr
from tables import RESULTS, store

from msbgen.answers.choose.allotment import share_resources
from msbgen.answers.choose.costs import context_costs
from msbgen.core.choice import InfeasibleError
from msbgen.sources.platform import PlatformConfig

COSTS = "cache_ways=1,bandwidth=0.01/MBps,frequency=3"
UNITS = {"cache_ways": "1", "bandwidth": "MB s-1", "frequency": "GHz"}


def made_bounds(rng, levels):
    """Bounds that mostly fall with every resource, over a grid."""
    contexts = np.array(list(itertools.product(*levels.values())))
    seconds = (rng.uniform(0.1, 1, len(levels)) / (contexts / contexts.max(axis=0))).sum(axis=1)
    seconds *= rng.uniform(0.9, 1.1, len(seconds))
    flags = ("context", np.zeros(len(seconds), dtype=np.int8))
    columns = zip(levels, contexts.T)
    return xr.Dataset(
        {"duration_bound": ("context", seconds), "extrapolated": flags, "beyond": flags},
        {n: ("context", c, {"role": "resource", "units": UNITS[n]}) for n, c in columns},
    )


def some_levels(rng):
    return {
        "cache_ways": np.sort(rng.choice(np.arange(2, 21), int(rng.integers(1, 5)), replace=False)),
        "bandwidth": 70.0 * np.sort(rng.choice(np.arange(1, 21), 3, replace=False)),
        "frequency": np.sort(rng.choice(np.arange(12, 24), 2, replace=False)) / 10,
    }


def least_cost(tasks, deadlines, total, weights):
    """Least cost of all joint choices within totals and deadlines, one by one; infinite if none."""
    least = np.inf
    kept = [np.flatnonzero(t["duration_bound"].values <= d) for t, d in zip(tasks, deadlines)]
    costs = [w * context_costs(t, COSTS) for t, w in zip(tasks, weights)]
    uses = [np.stack([t[name].values for name in total], axis=1) for t in tasks]
    most = np.array([*total.values()]) + 1e-6
    for rows in itertools.product(*kept):
        if (sum(use[row] for use, row in zip(uses, rows)) <= most).all():
            least = min(least, sum(cost[row] for cost, row in zip(costs, rows)))
    return least


def compare(cases, rng):
    """How many cases agree, and the largest relative difference of costs."""
    agree = infeasible = 0
    worst = 0.0
    for _ in range(cases):
        tasks = [made_bounds(rng, some_levels(rng)) for _ in range(int(rng.integers(2, 4)))]
        deadlines = [float(np.quantile(t["duration_bound"], rng.uniform(0.4, 1))) for t in tasks]
        total = {"cache_ways": float(rng.integers(12, 61)), "bandwidth": 70.0 * rng.integers(8, 61)}
        weights = rng.uniform(0.5, 2, len(tasks)).tolist()
        wanted = least_cost(tasks, deadlines, total, weights)
        try:
            found = share_resources(tasks, deadlines, COSTS, total, weights=weights).cost
        except InfeasibleError:
            found = np.inf
        infeasible += bool(wanted == np.inf)
        difference = 0.0 if found == wanted else abs(found / wanted - 1)
        agree += bool(difference <= 1e-12)
        worst = max(worst, float(difference))
    return {"cases": cases, "agree": agree, "infeasible": infeasible, "worst": worst}


def seconds_of_tasks(counts, rng):
    """CPU seconds of an allotment of so many tasks over all contexts of the virtual platform."""
    levels = PlatformConfig().levels
    out = {}
    for n in counts:
        tasks = [made_bounds(rng, levels) for _ in range(n)]
        deadlines = [float(np.quantile(t["duration_bound"], 0.7)) for t in tasks]
        total = {"cache_ways": 20.0 * n / 2, "bandwidth": 1400.0 * n / 2}
        began = time.process_time()
        share_resources(tasks, deadlines, COSTS, total)
        out[str(n)] = time.process_time() - began
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "choose-exhaustive.json")
    parser.add_argument("--cases", type=int, default=1000)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    content = {
        "exhaustive": compare(options.cases, rng),
        "cpu_seconds_of_tasks": seconds_of_tasks((2, 4, 8), rng),
    }
    print(content)
    store(options.output, content)


if __name__ == "__main__":
    main()
