"""Allocating shared resources by generated and by measured profiles.

`allocation_data.py` prepares tables and true runs once. Parts are shares of sets without a miss,
breakdown utilisations, clocks, forecasts and replays, for six tasks on four cores under global EDF.
Five other programs check the choices.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from allocation_data import phase_tables, prepare, truth, wcets
from scipy.stats import ks_2samp
from tables import RESULTS, TASKS, markdown, parser, publish, store, stored, subplots

from msbgen.systems.realtime.allocate import Allocator
from msbgen.systems.realtime.clocks import reference_slack, simulated_slack
from msbgen.systems.realtime.edf import EdfResult, meets_deadlines, simulate_edf
from msbgen.systems.realtime.tasksets import TaskSet, draw_task_set
from msbgen.systems.realtime.truth import Truth

CAPACITY = {"cache_ways": 20.0, "bandwidth": 1400.0}
CORES = 4
STEPS = [round(0.2 * i, 1) for i in range(1, 21)]
SETS = 20
SHAPES = 50
# Resolution and range of breakdown utilisations.
RESOLUTION, LOWEST, HIGHEST = 0.005, 1.0, 4.0
# Seeds of test sets.
SHARE_SEED, SHAPE_SEED, FORECAST_SETS_SEED = 50_000, 60_000, 75_000
FORECAST_SETS = 100
PROMISED = 0.9
CLOCKED = (2.0, 2.6, 3.0)

# Tables, allocator and objective of each method.
METHODS = {
    **{
        f"{allocator}, {'paper preset' if table == 'paper' else table}": (table, allocator, goal)
        for allocator, goal in (("dna", "instructions"), ("optimum", "progress"))
        for table in ("empirical", "default", "paper", "nearest", "bracketing")
    },
    "optimum of instructions, empirical": ("empirical", "optimum", "instructions"),
    "optimum of instructions, default": ("default", "optimum", "instructions"),
    "equal": ("empirical", "equal", "instructions"),
}
# Tables and clock rules that are compared.
CLOCK_RULES = (
    ("empirical", "highest"),
    ("empirical", "reference"),
    ("default", "highest"),
    ("default", "reference"),
    ("default", "simulated"),
    ("bracketing", "highest"),
    ("bracketing", "reference"),
    ("first half", "reference"),
    ("second half", "reference"),
)
# Five programs of which only traces ship, and their methods.
OTHERS = ("bc", "cg", "gcc", "sort", "sqlite")
OF_OTHERS = tuple(
    f"{allocator}, {known}"
    for allocator in ("dna", "optimum")
    for known in ("empirical", "default", "bracketing")
)
# Methods whose time is added up: 400 sets each.
TIMED = ("dna, empirical", "dna, default", "dna, bracketing", "optimum, default")


class Experiment:
    """Tables and true runs of some tasks; allocators by method and slack."""

    def __init__(self, work: Path, tasks: Sequence[str]):
        names = ("first half", "second half", *(name for name, *_ in METHODS.values()))
        self._tables = {name: phase_tables(work, name, tasks) for name in names}
        self.truth = truth(work, "truth", tasks)
        self._work, self._tasks = work, tasks
        self.wcets = wcets(tasks)

    def allocator(self, method: str, slack: float | None = None) -> Allocator:
        return self.of(*METHODS[method], slack)

    def of(self, name: str, allocator: Any, objective: Any, slack: float | None) -> Allocator:
        table_of = self._tables[name]
        return Allocator(
            table_of, CAPACITY, CORES, method=allocator, objective=objective, slack=slack
        )

    def generated(self, name: str) -> Truth:
        return truth(self._work, name, self._tasks)

    def draw(self, utilisation: float, seed: int) -> TaskSet:
        return draw_task_set(self.wcets, utilisation, cores=CORES, capacity=CAPACITY, rng=seed)


def in_threads(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(work, items))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 95 % interval."""
    x = np.asarray(values, dtype=float)
    return float(x.mean()), float(1.96 * x.std(ddof=1) / np.sqrt(len(x)))


def shares(experiment: Experiment, methods: Sequence[str] = tuple(METHODS)) -> dict[str, Any]:
    """Number of sets without a miss, by utilisation."""
    jobs = [(u, SHARE_SEED + 100 * i + k) for i, u in enumerate(STEPS) for k in range(SETS)]
    sets = [(experiment.draw(u, seed), seed) for u, seed in jobs]
    found, seconds = {}, {}
    for method in methods:
        allocator = experiment.allocator(method)

        def one(job: tuple[TaskSet, int], allocator: Allocator = allocator) -> bool:
            return not simulate_edf(job[0], allocator, experiment.truth, rng=job[1]).late.any()

        started = time.perf_counter()
        good = in_threads(one, sets)
        seconds[method] = time.perf_counter() - started
        found[method] = np.reshape(good, (len(STEPS), SETS)).sum(axis=1).tolist()
        print(f"{method}: {found[method]}, {seconds[method]:.1f} s", flush=True)
        found[f"{method} (sets)"] = np.array(good, dtype=int).tolist()
    hard = np.repeat(np.array(STEPS) >= 3.0 - 1e-9, SETS)

    def ratio(one: str, other: str) -> dict[str, float]:
        """Ratio of the numbers of sets from 3.0 on; bootstrap over the sets."""
        a, b = (np.array(found[f"{m} (sets)"])[hard] for m in (one, other))
        rows = np.random.default_rng(0).integers(len(a), size=(10_000, len(a)))
        drawn = a[rows].sum(axis=1) / np.maximum(b[rows].sum(axis=1), 1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        return {
            "sets": [int(a.sum()), int(b.sum())],
            "ratio": float(a.sum() / max(b.sum(), 1)),
            "low": float(low),
            "high": float(high),
        }

    compared = {
        "dna: default over bracketing": ("dna, default", "dna, bracketing"),
        "dna: default over equal": ("dna, default", "equal"),
        "bracketing over equal": ("dna, bracketing", "equal"),
        "optimum, default over dna, empirical": ("optimum, default", "dna, empirical"),
        "optimum, empirical over dna, empirical": ("optimum, empirical", "dna, empirical"),
    }
    ratios = {name: ratio(*of) for name, of in compared.items() if set(of) <= set(methods)}
    apart = {
        a: int(np.abs(np.subtract(found[f"{a}, default"], found[f"{a}, empirical"])).max())
        for a in ("dna", "optimum")
    }
    return {
        "utilisation": STEPS,
        "sets_each": SETS,
        "without_misses": {m: found[m] for m in methods},
        "ratios_from_3.0": ratios,
        "default_from_empirical_most_sets_apart": apart,
        "seconds": seconds,
        "seconds_of_four": sum(seconds[m] for m in TIMED if m in methods),
    }


def breakdown(shape: TaskSet, allocator: Allocator, truth: Truth, seed: int) -> float:
    """Highest utilisation without misses when all periods are scaled, by bisection."""
    good, bad = LOWEST, HIGHEST
    while bad - good > RESOLUTION:
        middle = 0.5 * (good + bad)
        if meets_deadlines(shape.scaled(middle), allocator, truth, rng=seed):
            good = middle
        else:
            bad = middle
    return good


def breakdowns(experiment: Experiment, methods: Sequence[str] = tuple(METHODS)) -> dict[str, Any]:
    shapes = [(experiment.draw(3.2, SHAPE_SEED + i), SHAPE_SEED + i) for i in range(SHAPES)]
    found = {}
    for method in methods:
        allocator = experiment.allocator(method)

        def one(job: tuple[TaskSet, int], allocator: Allocator = allocator) -> float:
            return breakdown(job[0], allocator, experiment.truth, job[1])

        found[method] = np.array(in_threads(one, shapes))
        print(f"{method}: breakdown {found[method].mean():.3f}", flush=True)

    def difference(one: str, other: str) -> list[float]:
        return list(interval(found[one] - found[other]))

    pairs = [("dna, default", "dna, empirical"), ("optimum, default", "optimum, empirical")]
    pairs += [("optimum of instructions, default", "optimum of instructions, empirical")]
    pairs += [("optimum, default", "dna, empirical"), ("optimum, empirical", "dna, empirical")]
    pairs += [("dna, default", "dna, bracketing"), ("dna, default", "equal")]
    return {
        "shapes": SHAPES,
        "mean": {m: list(interval(b)) for m, b in found.items()},
        "difference": {
            f"{a} minus {b}": difference(a, b) for a, b in pairs if {a, b} <= set(methods)
        },
        "each": {m: b.tolist() for m, b in found.items()},
    }


def greedy_distance(experiment: Experiment, decisions: int = 5000) -> dict[str, float]:
    """Loss of the greedy choice against the optimum of instruction rates, in random phases."""
    rng = np.random.default_rng(0)
    greedy, exact = (
        experiment.allocator(m) for m in ("dna, empirical", "optimum of instructions, empirical")
    )
    table_of = experiment._tables["empirical"]
    number = {tuple(c): k for k, c in enumerate(greedy.grid.contexts.tolist())}
    flat = {
        task: (t["end"].values, t["speed"].values.reshape(t.sizes["phase"], -1) * t.attrs["work"])
        for task, t in table_of.items()
    }

    def total(contexts: Any, tasks: list[str], done: Any) -> float:
        rates = 0.0
        for context, task, share in zip(contexts.tolist(), tasks, done):
            ends, rate = flat[task]
            phase = min(int(np.searchsorted(ends, share, side="right")), len(ends) - 1)
            rates += float(rate[phase, number[tuple(context)]])
        return rates

    lost = []
    for _ in range(decisions):
        tasks = [str(t) for t in rng.choice(list(table_of), CORES)]
        done = rng.random(CORES)
        best = total(exact.decide(tasks, done), tasks, done)
        lost.append(1.0 - total(greedy.decide(tasks, done), tasks, done) / best)
    return {"mean": float(np.mean(lost)), "worst": float(np.max(lost)), "decisions": decisions}


def clocks(experiment: Experiment) -> dict[str, Any]:
    """Energy saved against the highest clock, responses, and misses, with both rules."""
    choice = experiment.generated("choice")
    return {
        "dna": _clocks(experiment, choice, "dna", "instructions"),
        "optimum": _clocks(experiment, choice, "optimum", "progress"),
    }


def _clocks(experiment: Experiment, choice: Truth, method: str, objective: str) -> dict[str, Any]:
    found: dict[str, Any] = {"quantiles": {}}
    for u in CLOCKED:
        sets = [(experiment.draw(u, s), s) for s in range(90_000, 90_000 + SETS)]

        def outcomes(name: str, rule: str, sets: Any = sets) -> list[EdfResult]:
            def allocator(slack: float | None) -> Allocator:
                return experiment.of(name, method, objective, slack)

            def one(job: tuple[TaskSet, int]) -> EdfResult:
                chosen, seed = job
                slack = None
                if rule == "reference":
                    slack = reference_slack(chosen)
                elif rule == "simulated":
                    slack = simulated_slack(chosen, allocator, choice, rng=seed + 1)
                return simulate_edf(chosen, allocator(slack), experiment.truth, rng=seed)

            return in_threads(one, sets)

        rows = {(name, rule): outcomes(name, rule) for name, rule in CLOCK_RULES}
        full = sum(o.energy.sum() for o in rows["empirical", "highest"])
        ratios = {key: np.concatenate([o.ratio for o in row]) for key, row in rows.items()}
        part = {
            f"{name}, {rule}": {
                "saved": float(1 - sum(o.energy.sum() for o in row) / full),
                "mean_response_over_deadline": float(ratios[name, rule].mean()),
                "sets_with_misses": int(sum(o.late.any() for o in row)),
            }
            for (name, rule), row in rows.items()
        }
        measured, generated, *halves = (
            ratios[name, "reference"]
            for name in ("empirical", "default", "first half", "second half")
        )
        part["default against empirical"] = {
            "mean_response": float(generated.mean() / measured.mean() - 1),
            "kolmogorov": kolmogorov(generated, measured),
            "kolmogorov_of_two_halves": kolmogorov(*halves),
        }
        found[f"{u}"] = part
        found["quantiles"][f"{u}"] = {
            f"{name}, {rule}": np.quantile(ratios[name, rule], np.linspace(0, 1, 101)).tolist()
            for name, rule in rows
            if "half" not in name
        }
        print(method, u, part, flush=True)
    return found


def kolmogorov(a: Any, b: Any) -> float:
    return float(ks_2samp(a, b, method="asymp").statistic)


def forecasts(experiment: Experiment) -> dict[str, Any]:
    """Whether a set holds by generated profiles alone, beside the true outcome.

    A set is promised if its generated responses stay below 0.9 of their deadlines, the share that
    simulated clocks also keep, or below 1.
    """
    generated = experiment.generated("forecast")
    allocator = experiment.allocator("optimum, default")
    levels = np.linspace(3.2, 3.8, FORECAST_SETS)
    seeds = range(FORECAST_SETS_SEED, FORECAST_SETS_SEED + FORECAST_SETS)
    sets = [(experiment.draw(float(u), seed), seed) for u, seed in zip(levels, seeds)]

    def worst(truth: Truth, job: tuple[TaskSet, int], other: int) -> float:
        return float(simulate_edf(job[0], allocator, truth, rng=job[1] + other).ratio.max())

    # the true runs are unknown, so that the forecast draws its own
    forecast = np.array(in_threads(lambda job: worst(generated, job, 500_000), sets))
    true = np.array(in_threads(lambda job: worst(experiment.truth, job, 0), sets))

    def verdict(share: float) -> dict[str, float]:
        promised, on_time = forecast <= share, true <= 1 + 1e-9
        return {
            "share": share,
            "right": float((promised == on_time).mean()),
            "wrongly_promised": float((promised & ~on_time).mean()),
            "held": float(on_time.mean()),
        }

    return {
        "sets": FORECAST_SETS,
        "with_margin": verdict(PROMISED),
        "without": verdict(1.0),
        "worst_forecast": forecast.tolist(),
        "worst_true": true.tolist(),
    }


def replays(experiment: Experiment, sets: int = 20, horizon: float = 20.0) -> dict[str, Any]:
    """Mean responses beside jobs replayed on their traces, for fixed and dynamic allocations."""
    from allocation_replay import Programs, replay_set

    programs = Programs()
    found: dict[str, Any] = {}
    drawn = [
        (experiment.draw(float(u), 95_000 + i), 95_000 + i)
        for i, u in enumerate(np.linspace(1.6, 3.2, sets))
    ]
    for method in ("equal", "dna, empirical", "optimum, empirical"):
        name, *how = METHODS[method]

        def one(job: tuple[TaskSet, int], name: str = name, how: Any = how) -> tuple[float, float]:
            chosen, seed = job
            allocator = experiment.of(name, *how, None)
            given = experiment._tables[name]
            traced = replay_set(chosen, allocator, programs, given, horizon=horizon, seed=seed)
            played = simulate_edf(chosen, allocator, experiment.truth, horizon=horizon, rng=seed)
            return float(traced.mean()), float(played.ratio.mean())

        both = np.array([one(job) for job in drawn])
        apart = both[:, 1] / both[:, 0] - 1
        found[method] = {
            "mean": float(both[:, 1].mean() / both[:, 0].mean() - 1),
            "each": apart.tolist(),
            "largest": float(np.abs(apart).max()),
        }
        print(f"{method}: simulated over replayed {found[method]}", flush=True)
    return found


def others(experiment: Experiment) -> dict[str, Any]:
    """Shares, breakdowns and forecasts of the programs on which no choice was made."""
    return {
        "shares": shares(experiment, OF_OTHERS),
        "breakdowns": breakdowns(experiment, OF_OTHERS),
        "forecasts": forecasts(experiment),
    }


# Each part with its programs.
PARTS: dict[str, tuple[Callable[[Experiment], Any], Sequence[str]]] = {
    "shares": (shares, TASKS),
    "breakdowns": (breakdowns, TASKS),
    "greedy_distance": (greedy_distance, TASKS),
    "clocks": (clocks, TASKS),
    "forecasts": (forecasts, TASKS),
    "replays": (replays, TASKS),
    "others": (others, OTHERS),
}


def run(work: Path, only: Sequence[str] = tuple(PARTS)) -> None:
    """Prepare, simulate, store, tabulate and draw."""
    experiments: dict[Sequence[str], Experiment] = {}
    content = stored("allocation")
    for name in only:
        started = time.perf_counter()
        part, tasks = PARTS[name]
        if tasks not in experiments:
            prepare(work, tasks)
            experiments[tasks] = Experiment(work, tasks)
        content[name] = part(experiments[tasks])
        print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
        store(RESULTS / "allocation.json", content)
    if all(name in content for name in PARTS):
        publish(tables())
        draw(content)


def tables() -> dict[str, str]:
    """All tables of the page, from the stored results."""
    content, found = stored("allocation"), {}
    share, broken = content["shares"], content["breakdowns"]
    shown = [f"{u}" for u in STEPS if u >= 2.8]
    rows = []
    for method in METHODS:
        mean, half = broken["mean"][method]
        good = dict(zip(map(str, STEPS), share["without_misses"][method]))
        rows.append([method, f"{mean:.3f} ± {half:.3f}", *(str(good[u]) for u in shown)])
    header = ["allocator, tables", "breakdown", *(f"U = {u}" for u in shown)]
    found["allocation"] = markdown(header, rows)
    others = content["others"]
    differences = broken["difference"], others["breakdowns"]["difference"]
    rows = [[name, *(_with_half(d.get(name)) for d in differences)] for name in differences[0]]
    header = ["breakdown utilisation, paired", "the six", "five others"]
    found["allocation-breakdown"] = markdown(header, rows)
    ratios = share["ratios_from_3.0"], others["shares"]["ratios_from_3.0"]
    rows = [[name, *(_counted(r.get(name)) for r in ratios)] for name in ratios[0]]
    header = ["sets without misses of 120, 3.0 to 4.0 (95 %)", "the six", "five others"]
    found["allocation-ratios"] = markdown(header, rows)
    rows, against = [], []
    for method, clocked in content["clocks"].items():
        for u in map(str, CLOCKED):
            for name, row in clocked[u].items():
                if "half" in name:
                    continue
                if "saved" in row:
                    ratio = f"{row['mean_response_over_deadline']:.3f}"
                    cells = [f"{100 * row['saved']:.1f} %", ratio, str(row["sets_with_misses"])]
                    rows.append([method, u, name, *cells])
                else:
                    cells = [f"{100 * row['mean_response']:+.1f} %", f"{row['kolmogorov']:.3f}"]
                    against.append([method, u, *cells, f"{row['kolmogorov_of_two_halves']:.3f}"])
    header = ["", "U", "mean response", "Kolmogorov distance", "of two halves of the runs"]
    found["allocation-responses"] = markdown(header, against)
    header = ["", "U", "tables, clock", "energy saved", "response / deadline", "sets with misses"]
    found["allocation-clocks"] = markdown(header, rows)
    rows = []
    forecast_of = {"the six": content["forecasts"], "five others": others["forecasts"]}
    for programs, name in product(forecast_of, ("with_margin", "without")):
        r = forecast_of[programs][name]
        shares = [f"{100 * r[part]:.1f} %" for part in ("right", "wrongly_promised")]
        rows.append([programs, f"{r['share']:g}", *shares, f"{100 * r['held']:.0f} %"])
    header = ["programs", "responses below", "right", "wrongly promised", "sets that hold"]
    found["allocation-forecasts"] = markdown(header, rows)
    rows = [
        [name, f"{100 * r['mean']:+.2f} %", f"{100 * r['largest']:.2f} %"]
        for name, r in content["replays"].items()
    ]
    header = ["allocator, tables", "mean response, simulated over replayed", "largest of a set"]
    found["allocation-replays"] = markdown(header, rows)
    return found


def _with_half(difference: Sequence[float] | None) -> str:
    return "" if difference is None else f"{difference[0]:+.3f} ± {difference[1]:.3f}"


def _counted(r: dict[str, Any] | None) -> str:
    if r is None:
        return ""
    one, other = r["sets"]
    return f"{one} / {other} = {r['ratio']:.2f} ({r['low']:.2f}, {r['high']:.2f})"


def draw(content: dict[str, Any]) -> None:
    figure, axes = subplots(2, 3, figsize=(13, 7.5))
    share, broken = content["shares"], content["breakdowns"]
    shown = ["dna, empirical", "dna, default", "dna, bracketing", "optimum, empirical"]
    shown += ["optimum, default", "equal"]
    for method in shown:
        good = np.array(share["without_misses"][method]) / SETS
        style = "--" if "empirical" in method else "-"
        axes[0, 0].plot(STEPS, good, style, marker=".", label=method)
    axes[0, 0].set(xlabel="utilisation", title="share of sets without a miss", xlim=(2, 4.05))
    axes[0, 0].legend(fontsize="x-small")
    names = list(METHODS)
    mean = [broken["mean"][m][0] for m in names]
    half = [broken["mean"][m][1] for m in names]
    axes[0, 1].barh(names, mean, xerr=half, color="tab:blue", alpha=0.7)
    axes[0, 1].invert_yaxis()
    axes[0, 1].tick_params(labelsize=7)
    axes[0, 1].set(xlim=(2, 4), title="breakdown utilisation")
    part = content["clocks"]["dna"]
    rules = ["empirical, reference", "default, reference", "bracketing, reference"]
    rules += ["default, simulated"]
    for k, rule in enumerate(rules):
        saved = [100 * part[str(u)][rule]["saved"] for u in CLOCKED]
        axes[0, 2].bar(np.arange(len(CLOCKED)) + 0.2 * k, saved, 0.2, label=rule)
    axes[0, 2].set_xticks(np.arange(len(CLOCKED)) + 0.3, labels=[str(u) for u in CLOCKED])
    axes[0, 2].set(xlabel="utilisation", title="dynamic energy saved [%]")
    axes[0, 2].legend(fontsize="x-small")
    for axis, u in zip(axes[1], map(str, CLOCKED)):
        for rule in (*rules, "empirical, highest"):
            quantiles = part["quantiles"][u][rule]
            axis.plot(quantiles, np.linspace(0, 1, len(quantiles)), label=rule)
        axis.axvline(1, color="k", lw=0.8)
        axis.set(xlabel="response / deadline", title=f"responses at {u}", xlim=(0, 1.2))
    axes[1, 0].legend(fontsize="x-small")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
    figure.savefig(RESULTS / "allocation.png", dpi=100)


def main() -> None:
    folder = "folder for replays and tables"
    options = parser(__doc__, PARTS, required=("work",), work=folder).parse_args()
    run(options.work, options.only)
