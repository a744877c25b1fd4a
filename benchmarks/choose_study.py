"""Kept deadlines and costs of chosen contexts, over fresh replays of eleven programs.

Each program is measured in 27, 64 or 125 contexts of the virtual platform, by a grid of its levels.
The cheapest context is chosen for each of five deadlines and three prices, and replayed afresh; a
run is late if it is longer than the deadline.  The oracle chooses by replays of all 4,560 contexts.
"""

import time
from itertools import product

import numpy as np
from fidelity_scores import PROGRAMS
from tables import PROFILES, RESULTS, cached, markdown, mean_rows, parser, publish, store, stored

import msbgen
from msbgen.answers.choose.context import choose_context
from msbgen.answers.choose.costs import context_costs
from msbgen.core.choice import InfeasibleError
from msbgen.core.contexts import grid_contexts
from msbgen.sources.platform import PlatformConfig, read_trace, replay_trace

# Levels of each resource and runs of a context that are measured.
GRIDS = {"27 × 3": ((3, 3, 3), 3), "64 × 4": ((4, 4, 4), 4), "125 × 10": ((5, 5, 5), 10)}
RATES = (0.1, 0.05)
# Deadlines: where they lie between the least and the longest mean duration, in logarithms.
PLACES = (0.1, 0.25, 0.4, 0.6, 0.8)
# Prices of a way, of a partition of bandwidth [MB/s] and of the clock [GHz].
PRICES = {
    "even": "cache_ways=0.05,bandwidth=0.0007,frequency=0.45",
    "cache and bandwidth": "cache_ways=1,bandwidth=0.01/MBps",
    "clock": "frequency=1/GHz,cache_ways=0.001,bandwidth=0.00001",
}
# Fresh runs of a chosen context, and runs of every context for the oracle.
FRESH, ORACLE_RUNS = 100, 5
# The choice by mean durations without a bound, with this margin; the peer.
MARGIN = 0.05
# Bounds for chosen contexts, bounds for contexts fixed beforehand, and mean durations.
METHODS = ("bound", "plain", "margin")


def study(program):
    """Late runs and costs of every choice of one program."""
    began = time.process_time()
    trace = read_trace(PROFILES / "traces" / f"{program}.nc")
    levels = PlatformConfig().levels
    every = grid_contexts(levels, [len(set(values)) for values in levels.values()])
    runs = replayed_durations(trace, every, ORACLE_RUNS, seed=11)
    truth = runs.mean(axis=1)
    low, high = np.log(truth.min()), np.log(truth.max())
    deadlines = np.exp(low + np.array(PLACES) * (high - low))
    spread = np.sort(runs / truth[:, None], axis=None)
    rows = []
    for name, (counts, n) in GRIDS.items():
        measured = replay_trace(trace, grid_contexts(levels, counts), n, rng=1)
        model = msbgen.calibrate_model(msbgen.fit_profiles(measured), measured)
        means = model.generate(every, kind="mean")["duration"].values
        for rate in RATES:
            bounds = model.bounds(every, rate, chosen=True)
            plain = model.bounds(every, rate)
            true_bound = truth * np.quantile(spread, 1 - rate)
            guess = bounds.assign(duration_bound=("context", means * (1 + MARGIN)))
            for (price, costs), deadline in product(PRICES.items(), deadlines):
                row = {"grid": name, "rate": rate, "price": price}
                cost = context_costs(bounds, costs)
                best = cost[true_bound <= deadline].min(initial=np.inf)
                row["deadline"], row["oracle"] = float(deadline), float(best)
                row["feasible"] = bool(best < np.inf)
                for method, given in zip(METHODS, (bounds, plain, guess)):
                    row[method] = outcome(trace, given, every, deadline, costs)
                rows.append(row)
    return {"rows": rows, "cpu_seconds": time.process_time() - began}


def outcome(trace, bounds, every, deadline, costs):
    """Cost of a choice and its share of late runs; None where nothing is feasible."""
    try:
        chosen = choose_context(bounds, float(deadline), costs)
    except InfeasibleError:
        return None
    seconds = replayed_durations(trace, every[[chosen.row]], FRESH, seed=1000 + chosen.row)
    return {
        "row": chosen.row, "cost": chosen.cost, "bound": chosen.bound,
        "late": float((seconds > deadline).mean()),
    }  # fmt: skip


def replayed_durations(trace, contexts, runs, seed):
    """Durations of runs [s], (n_contexts, n_runs), replayed in blocks of contexts."""
    blocks = np.array_split(contexts, max(1, len(contexts) // 200))
    found = [
        replay_trace(trace, block, runs, rng=seed + i)["duration"].values
        for i, block in enumerate(blocks)
    ]
    return np.concatenate(found)


def main():
    options = parser(
        __doc__, PROGRAMS, work="folder in which finished programs are kept"
    ).parse_args()
    found = {}
    for program in options.only:
        work = options.work / f"choose-{program}.json" if options.work else None
        result = cached(work, lambda program=program: study(program))
        found[program] = summary(result["rows"])
        found[program]["cpu_seconds"] = result["cpu_seconds"]
        print(program, found[program], flush=True)
    if len(found) == len(PROGRAMS):
        store(RESULTS / "choose.json", {"programs": found})
        publish(tables())


def summary(rows):
    """Late runs, cost over the oracle's and refusals, by grid, rate and method."""
    out = {}
    for name, rate in product(dict.fromkeys(row["grid"] for row in rows), RATES):
        cases = [r for r in rows if (r["grid"], r["rate"]) == (name, rate) and r["feasible"]]
        for method in METHODS:
            chosen = [(row[method], row["oracle"]) for row in cases if row[method]]
            out[f"{name}, {rate:g}, {method}"] = {
                "late": float(np.mean([found["late"] for found, _ in chosen])),
                "worst": float(np.max([found["late"] for found, _ in chosen])),
                "cost": float(np.mean([found["cost"] / best - 1 for found, best in chosen])),
                "refused": (len(cases) - len(chosen)) / len(cases),
            }
    return {"methods": out}


def tables():
    """All tables of the page."""
    programs = stored("choose")["programs"]
    found = {name: each["methods"] for name, each in programs.items()}
    return {"choose": methods_table(found), "choose-programs": programs_table(found)}


def methods_table(found):
    """Means over the programs, for every grid and rate."""
    titles = ("bound for choices", "bound fixed beforehand", f"mean + {MARGIN:.0%}")
    header = ["contexts × runs", "miscoverage"]
    header += [text for title in titles for text in (f"{title}: late", "cost", "refused")]
    rows = []
    for name, rate in product(GRIDS, RATES):
        cells = [name, f"{rate:.0%}"]
        for method in METHODS:
            mean = mean_rows([each[f"{name}, {rate:g}, {method}"] for each in found.values()])
            cells += [f"{100 * mean['late']:.1f} %", f"{100 * mean['cost']:+.1f} %"]
            cells.append(f"{100 * mean['refused']:.1f} %")
        rows.append(cells)
    return markdown(header, rows)


def programs_table(found):
    """Late runs of each program by the bound at 10 %, and cost over the oracle's."""
    header = ["program"] + [f"{name}: {what}" for name in GRIDS for what in ("late", "cost")]
    rows = []
    for program, each in found.items():
        cells = [program]
        for name in GRIDS:
            row = each[f"{name}, {RATES[0]:g}, bound"]
            cells += [f"{100 * row['late']:.1f} %", f"{100 * row['cost']:+.1f} %"]
        rows.append(cells)
    return markdown(header, rows)
