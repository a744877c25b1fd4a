"""Error against seconds of measuring: planned, random, space-filling and full-factorial contexts.

A recorded program is measured on the virtual platform, context by context, until the next one would
exceed the budget. Planned contexts come in batches, each from the model of all batches before.

The error is the mean scaled nDTW (exact) of the mean profile over test contexts, which no design
may measure. No model learns from more than MOST_CONTEXTS contexts, since a fit takes O(n³).
Finished cells are kept in ``results/plan-cells.json``: remove that file when the model or the
planner has changed.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import xarray as xr
from scipy.stats import gmean, qmc
from tables import PROFILES, RESULTS, TASKS, markdown, publish, stored, subplots

import msbgen
from msbgen.answers.evaluate.metrics import normalised_dtw
from msbgen.answers.plan.plan import plan_contexts
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, duration_array
from msbgen.sources.platform import PlatformConfig, platform_contexts, read_trace, replay_trace

BUDGETS = (30, 60, 120, 240, 600)  # [s]
# Budgets at which batches of the plan end.
BATCHES = (10, 20, *BUDGETS)
RUNS = (1, 2, 4)
SEEDS = (0,)
FEWEST_CONTEXTS, MOST_CONTEXTS = 6, 250
GRIDS = [
    (2, 2, 2), (3, 2, 2), (3, 3, 2), (3, 3, 3), (4, 3, 3), (4, 4, 3), (4, 4, 4), (5, 4, 4),
    (5, 5, 4), (5, 5, 5), (6, 5, 5), (6, 6, 5), (6, 6, 6),
]  # fmt: skip
CONFIG = PlatformConfig()
LEVELS = CONFIG.levels

Cell = dict[str, Any]


class Bench:
    """A program, its test contexts and the cost of measuring it."""

    def __init__(self, task: str) -> None:
        self.trace = read_trace(PROFILES / "traces" / f"{task}.nc")
        held_back = PROFILES / f"{task}-truth.nc"
        every = platform_contexts("all")
        if held_back.exists():
            test = context_table(msbgen.read_profiles(held_back))
        else:
            test = every[np.random.default_rng(99).choice(len(every), 200, replace=False)]
        forbidden = {tuple(row) for row in test.round(6)}
        self.allowed = every[[tuple(row) not in forbidden for row in every.round(6)]]
        self.truth = msbgen.evaluate.mean_profiles(replay_trace(self.trace, test[::4], 30, rng=1))
        self.scale = np.nanmax(Profiles.of(self.truth).counts, axis=(0, 1, 2))
        self.durations: dict[int, np.ndarray] = {}

    def measure(self, contexts: np.ndarray, runs: np.ndarray, seed: int) -> xr.Dataset:
        """Runs of each context."""
        return replay_trace(self.trace, contexts, runs, rng=seed, threads=1)

    def score(self, measured: xr.Dataset) -> tuple[Cell, msbgen.ProfileModel]:
        model = msbgen.fit_profiles(measured)
        generated = model.generate(context_table(self.truth), kind="mean")
        profiles, wanted = Profiles.of(generated).counts[:, 0], Profiles.of(self.truth).counts[:, 0]
        ended = ([p[np.isfinite(p).all(axis=1)] for p in both] for both in zip(profiles, wanted))
        errors = [normalised_dtw(*both, scale=self.scale, method="exact") for both in ended]
        ratio = Profiles.of(generated).mean_duration / Profiles.of(self.truth).mean_duration
        return {
            "error": float(np.mean(errors)),
            "duration_error": float(np.abs(ratio - 1).mean()),
            "seconds": float(np.nansum(duration_array(measured))),
            "contexts": measured.sizes["context"],
            "runs": int(np.isfinite(duration_array(measured)).sum()),
        }, model

    def cost(self, seed: int) -> np.ndarray:
        """Seconds of the first runs of all allowed contexts, (n, max(RUNS))."""
        if seed not in self.durations:
            out = replay_trace(
                self.trace, self.allowed, max(RUNS), interval=1.0, rng=seed, threads=1
            )
            self.durations[seed] = duration_array(out)
        return self.durations[seed]


@cache
def bench(task: str) -> Bench:
    return Bench(task)


def order(design: str, seed: int, here: Bench) -> np.ndarray:
    """Rows of the allowed contexts, in the order of measuring."""
    rng = np.random.default_rng(seed)
    if design == "random":
        return rng.permutation(len(here.allowed))
    # a scrambled Sobol sequence over the ranks of the levels
    points = qmc.Sobol(3, scramble=True, rng=rng).random(4096)
    levels = [np.array(values) for values in LEVELS.values()]
    wanted = [axis[(u * len(axis)).astype(int)] for axis, u in zip(levels, points.T)]
    return _rows(np.stack(wanted, axis=1), here)


def _rows(contexts: np.ndarray, here: Bench) -> np.ndarray:
    place = {tuple(row): i for i, row in enumerate(here.allowed.round(6))}
    rows = [place[key] for key in map(tuple, contexts.round(6)) if key in place]
    return np.array(list(dict.fromkeys(rows)), dtype=int)


def fixed_design(task: str, design: str, runs: int, seed: int, budget: int) -> Cell:
    here = bench(task)
    cost = here.cost(seed)[:, :runs].sum(axis=1)
    if design == "factorial":
        grids = (platform_contexts("grid:" + "x".join(map(str, g))) for g in GRIDS)
        fitting = [rows for g in grids if cost[rows := _rows(g, here)].sum() <= budget]
        chosen = fitting[-1] if fitting else np.empty(0, dtype=int)
    else:
        rows = order(design, seed, here)
        chosen = rows[np.cumsum(cost[rows]) <= budget]
    if not FEWEST_CONTEXTS <= len(chosen) <= MOST_CONTEXTS:
        return {"contexts": len(chosen)}
    counts = np.full(len(chosen), runs)
    return here.score(here.measure(here.allowed[chosen], counts, seed))[0]


def planned(task: str, seed: int, batches: Sequence[int] = BATCHES) -> Iterator[Cell]:
    """The cell of each batch."""
    here = bench(task)
    cost, row_of = here.cost(seed), {tuple(c): i for i, c in enumerate(here.allowed.round(6))}
    runs = np.zeros(len(here.allowed), dtype=int)
    spent, model = 0.0, None
    for budget in batches:
        if model is None:
            # the first run, in the fastest context, shows how long a run takes
            first = int(here.allowed.sum(axis=1).argmax())
            runs[first], spent = 1, float(cost[first, 0])
            plan = plan_contexts(
                LEVELS, f"{budget - spent}s", run_seconds=spent, candidates=here.allowed
            )
        else:
            plan = plan_contexts(
                model, f"{budget - spent}s", candidates=here.allowed, most_contexts=MOST_CONTEXTS,
                most_runs=max(RUNS), whole_budget=True,
            )  # fmt: skip
        for context, n in zip(plan.contexts, plan.runs):
            i = row_of[tuple(context.round(6))]
            n = min(n, cost.shape[1] - runs[i])
            took = cost[i, runs[i] : runs[i] + n].sum()
            if spent + took > budget:
                break
            runs[i] += n
            spent += took
        chosen = np.flatnonzero(runs)
        cell, model = here.score(here.measure(here.allowed[chosen], runs[chosen], seed))
        cell["expected"] = float(plan.error[-1])
        cell["expected_before"] = float(plan.error[0])
        yield cell


DESIGNS = ("random", "sobol", "factorial")


def units(tasks: list[str], budgets: list[int]) -> list[tuple]:
    """Cells that are computed together: (task, design, runs, seed, budget)."""
    plans = [(task, "plan", 0, seed, max(budgets)) for seed in SEEDS for task in tasks]
    fixed = [
        (task, design, runs, seed, budget)
        for budget, task, design, runs in product(budgets, tasks, DESIGNS, RUNS)
        for seed in SEEDS[: 1 if design == "factorial" else None]
    ]
    return plans + fixed


def compute(unit: tuple) -> dict[str, Cell]:
    """Finished cells by their names, task/design/runs/seed/budget."""
    task, design, runs, seed, budget = unit
    if design == "plan":
        batches = [b for b in BATCHES if b <= budget]
        return {f"{task}/plan/0/{seed}/{b}": c for b, c in zip(batches, planned(task, seed))}
    return {"/".join(map(str, unit)): fixed_design(task, design, runs, seed, budget)}


def run(tasks: list[str], budgets: list[int], workers: int, path: Path) -> dict[str, Cell]:
    cells: dict[str, Cell] = json.loads(path.read_text()) if path.exists() else {}
    todo = [u for u in units(tasks, budgets) if "/".join(map(str, u)) not in cells]
    with ProcessPoolExecutor(workers) as pool:
        futures = {pool.submit(compute, unit): unit for unit in todo}
        for done, future in enumerate(as_completed(futures), start=1):
            cells.update(future.result())
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(dict(sorted(cells.items())), indent=0) + "\n")
            partial.replace(path)
            print(f"{done}/{len(todo)} {futures[future]}", file=sys.stderr, flush=True)
    return cells


def curve(cells: dict[str, Cell], task: str, design: str, metric: str) -> dict[int, float]:
    """Error at each budget: geometric mean over seeds, with the best number of runs.

    A number of runs counts if it has a cell for every seed.
    """
    out = {}
    for budget in BATCHES:
        by_runs: dict[str, list[float]] = {}
        for name, cell in cells.items():
            t, d, runs, _, b = name.split("/")
            if (t, d, b) == (task, design, str(budget)):
                by_runs.setdefault(runs, []).append(cell.get(metric, np.nan))
        means = [float(gmean(values)) for values in by_runs.values()]
        if np.isfinite(means).any():
            out[budget] = float(np.nanmin(means))
    return out


def seconds_to_reach(line: dict[int, float], error: float) -> float:
    """Budget at which a curve reaches an error; inf if it never does.

    The curve is made non-increasing and interpolated linearly in the logarithms of budget and
    error. It is not extrapolated below its first budget.
    """
    budgets = np.array(list(line))
    best = np.minimum.accumulate(list(line.values()))
    if best[0] <= error:
        return float(budgets[0])
    if best[-1] > error:
        return float("inf")
    i = int(np.argmax(best <= error))
    share = np.log(best[i - 1] / error) / np.log(best[i - 1] / best[i])
    return float(budgets[i - 1] * (budgets[i] / budgets[i - 1]) ** share)


def compare(cells: dict[str, Cell], metric: str = "error") -> dict:
    """Measuring time of the plan over that of the best other design, for the same error.

    The best other design of a task has the lowest geometric mean error over the budgets. The ratio
    is taken at its error at each budget. If the plan does not reach that by the last budget, the
    last budget is taken: a lower bound.
    """
    tasks = {}
    for task in sorted({name.split("/")[0] for name in cells}):
        lines = {d: curve(cells, task, d, metric) for d in ("plan", *DESIGNS)}
        common = [b for b in BUDGETS if all(b in line for line in lines.values())]
        means = {d: float(gmean([line[b] for b in common])) for d, line in lines.items()}
        best = min(DESIGNS, key=means.__getitem__)
        reached = dict(zip(common, np.minimum.accumulate([lines[best][b] for b in common])))
        times = {b: seconds_to_reach(lines["plan"], float(e)) for b, e in reached.items()}
        last = max(lines["plan"])
        ratios = {b: min(t, last) / b for b, t in times.items()}
        tasks[task] = {
            "curves": lines,
            "mean_error": means,
            "best_other": best,
            "ratio": float(gmean(list(ratios.values()))),
            "ratios": ratios,
            "not_reached": [b for b, t in times.items() if not np.isfinite(t)],
        }
    errors = [t["mean_error"] for t in tasks.values()]
    return {
        "mean_ratio": float(np.mean([t["ratio"] for t in tasks.values()])),
        "error_over_best_other": {
            d: float(gmean([e[d] / e[t["best_other"]] for t, e in zip(tasks.values(), errors)]))
            for d in ("plan", *DESIGNS)
        },
        "tasks": tasks,
    }


def draw(result: dict, path: Path) -> None:
    from matplotlib import ticker

    figure, axes = subplots(2, 3, figsize=(11, 6), squeeze=False)
    for axis, (task, found) in zip(axes.ravel(), result["tasks"].items()):
        for design, line in found["curves"].items():
            style = {"color": "black", "linewidth": 2} if design == "plan" else {}
            axis.loglog(list(line), list(line.values()), marker="o", label=design, **style)
        axis.set_title(f"{task}: time × {found['ratio']:.2f}")
        axis.set_xticks(BATCHES, labels=map(str, BATCHES))
        axis.xaxis.set_minor_locator(ticker.NullLocator())
        axis.yaxis.set_minor_formatter(ticker.FormatStrFormatter("%.3g"))
        axis.yaxis.set_major_formatter(ticker.FormatStrFormatter("%.3g"))
        axis.grid(alpha=0.3, which="both")
    for axis in axes[-1]:
        axis.set_xlabel("seconds of measuring")
    for axis in axes[:, 0]:
        axis.set_ylabel("nDTW, scaled")
    axes[0, 0].legend(fontsize="small")
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(TASKS), help="names of traces (%(default)s)")
    parser.add_argument(
        "--budgets", default=",".join(map(str, BUDGETS)), help="some of %(default)s [s]"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder (benchmarks/results)")
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    path = options.out / "plan-cells.json"
    cells = run(options.tasks.split(","), budgets, options.workers, path)
    report(cells, options.out)


def report(cells: dict[str, Cell], folder: Path) -> None:
    result = {metric: compare(cells, metric) for metric in ("error", "duration_error")}
    (folder / "plan.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result["error"], folder / "plan.png")
    if folder == RESULTS:
        publish(tables())


def tables() -> dict[str, str]:
    """Mean errors of each design by task, and the measuring time of the plan."""
    found, rows = stored("plan")["error"], []
    for task, row in found["tasks"].items():
        errors = [f"{row['mean_error'][design]:.4f}" for design in ("plan", *DESIGNS)]
        missed = ", ".join(map(str, row["not_reached"]))
        rows.append([task, *errors, row["best_other"], f"{row['ratio']:.2f} ×", missed])
    over = [f"{found['error_over_best_other'][design]:.2f} ×" for design in ("plan", *DESIGNS)]
    rows.append(["mean, over the best other", *over, "", f"{found['mean_ratio']:.2f} ×", ""])
    header = ["error (geometric mean of the budgets)", "plan", *DESIGNS, "best other"]
    return {"plans": markdown([*header, "time of the plan", "not reached at [s]"], rows)}
