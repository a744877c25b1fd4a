"""Relative performance: the default beside its peers and its parts, on held-out runs.

``python benchmarks/reproduce.py machines [--only runs programs …] [--data FOLDER]``. Held out are
whole runs, programs or scales, or single rows, which leaks. FOLDER holds tasks of dense linear
algebra (`tasks_cpu_gpu1_gpu2.csv`), which do not ship.
"""

import csv
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from machines_peers import PAPER, PEERS, Peer, lookup, plain
from numpy.typing import NDArray
from tables import RESULTS, markdown, mean_rows, parser, publish, store, stored, subplots
from timing import run_python, seconds_of

import msbgen
from msbgen.systems.machines.dataset import machines_of, runtimes_of, words_of
from msbgen.systems.machines.dataset import make as make_relative
from msbgen.systems.machines.evaluation import MEASURES, complete_runs, score_rows, scores
from msbgen.systems.machines.intervals import calibrate_widths
from msbgen.systems.machines.predictions import PartPredictions, joined
from msbgen.systems.machines.predictor import PARTS as PARTS_OF_DEFAULT
from msbgen.systems.machines.predictor import RelativePredictor
from msbgen.systems.machines.readers import from_runtimes as relative_from_runtimes
from msbgen.systems.machines.splits import held_rows

Floats = NDArray[np.float64]

MIXED = {
    "Tiger Lake": "hc-33", "Zen 3": "hc-10", "Goldmont Plus": "hc-15", "Cortex-A72": "hc-21",
}  # fmt: skip
SERVERS = {"Skylake": "hc-12", "Zen 3": "hc-10", "Zen 2": "hc-13", "Haswell": "hc-11"}
FOLDS = 10
# Folds of intervals; each calibrates anew, on 99 programs or more.
INTERVAL_FOLDS = 10
# Starts of the command, of which the fastest counts.
STARTS = 5
RATES = (0.1, 0.01)
# Goals by split: error at most, same order at least [%].
TARGETS = {
    "runs": (0.10, 92.0),
    "programs": (0.112, 88.0),
    "scales": (0.147, 85.5),
    "servers": (0.052, 80.0),
}
HALF_WIDTHS = {0.1: 1.21, 0.01: 1.65}
TYPICAL_ERROR = 65.0


def shipped_runs(machines: dict[str, str]) -> xr.Dataset:
    """Runs of every workload in every configuration that ran on all of the machines."""
    runtimes = msbgen.runtimes.read(msbgen.shipped_file("runtimes/pitot.nc"))
    return complete_runs(relative_from_runtimes(runtimes, machines))


def task_graph_runs(folder: Path) -> xr.Dataset:
    """Tasks of dense linear algebra on a CPU and two GPUs; blocks are their scales.

    Features of a task are its graph, its block and their number; a block's cube stands for its
    work.
    """
    with (folder / "tasks_cpu_gpu1_gpu2.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    times = np.array([[float(r[name]) for name in ("cpu", "gpu1", "gpu2")] for r in rows])
    ran = np.flatnonzero((times > 0).all(axis=1))
    rows, times = [rows[i] for i in ran], times[ran]
    block = np.array([float(r["block"]) for r in rows])
    blocks = np.array([float(r["nb"]) for r in rows])
    columns = {"program": "app", "input": "task", "scale": "block", "configuration": "app"}
    words = {name: [r[column] for r in rows] for name, column in columns.items()}
    counters = {"work": block**3, "block": block, "blocks": blocks}
    machines = ["CPU", "GPU 1", "GPU 2"]
    return make_relative(1e-3 * times, machines, counters=counters, work="work", **words)


def by_fold(
    runs: xr.Dataset, split: str, predict: Callable[[xr.Dataset, NDArray, xr.Dataset], Any]
) -> list[tuple[NDArray, Any]]:
    """Predictions for each fold's rows, learned from the other folds."""
    answers = []
    for held_out in held_rows(runs, split, FOLDS):
        kept, tested = np.flatnonzero(~held_out.all(axis=1)), np.flatnonzero(held_out.any(axis=1))
        answer = predict(runs.isel(run=kept), ~held_out[kept], runs.isel(run=tested))
        answers.append((held_out, answer))
    return answers


def together(runs: xr.Dataset, by_part: list[tuple[NDArray, Floats]]) -> tuple[Floats, NDArray]:
    """Times of all folds, (n, n_sources, n_machines), and the runs that were held out."""
    n_machines = len(machines_of(runs))
    found = np.full((runs.sizes["run"], n_machines, n_machines), np.nan)
    for held_out, times in by_part:
        rows = held_out[held_out.any(axis=1)]
        found[held_out] = times[rows]
    return found, np.asarray(np.isfinite(found).all(axis=(1, 2)))


def default_answers(
    **parameters: Any,
) -> Callable[[xr.Dataset, NDArray, xr.Dataset], PartPredictions]:
    def predict(known: xr.Dataset, rows: NDArray, new: xr.Dataset) -> PartPredictions:
        return RelativePredictor(**parameters).fit(known, rows=rows).predict_parts(new)

    return predict


def from_each(answers: PartPredictions) -> Floats:
    """Times from each source, (n, n_sources, n_machines)."""
    return np.stack([answers.times([s]) for s in range(answers.seconds.shape[1])], axis=1)


def alone(answers: PartPredictions, part: str) -> Floats:
    """Times by one part alone."""
    return from_each(replace(answers, parts=(part,)))


def compare(runs: xr.Dataset, split: str) -> dict[str, Any]:
    """Scores of the default, its parts and two machines measured, on one split."""
    by_part = by_fold(runs, split, default_answers())
    whole = [(held_out, from_each(answers)) for held_out, answers in by_part]
    methods = {"default": score(runs, whole)}
    for part in PARTS_OF_DEFAULT:
        by_one = [(held_out, alone(answers, part)) for held_out, answers in by_part]
        methods[f"{part} alone"] = score(runs, by_one)
    if split != "rows":
        methods["two machines measured"] = two_measured(runs, by_part)
    rows = int(np.size(runtimes_of(runs)))
    result = {"split": split, "rows": rows, "folds": len(by_part), "methods": methods}
    if split in ("programs", "scales"):
        found, _ = together(runs, whole)
        result["each"] = by_word(runs, found, split.removesuffix("s"))
    return result


def beside(runs: xr.Dataset, split: str, peers: dict[str, Peer]) -> dict[str, Any]:
    """Scores of peers on one split."""
    return {"methods": {name: score(runs, by_fold(runs, split, p)) for name, p in peers.items()}}


def score(runs: xr.Dataset, by_part: list[tuple[NDArray, Floats]]) -> list[dict[str, Any]]:
    found, tested = together(runs, by_part)
    return score_rows(found[tested], runtimes_of(runs)[tested], machines_of(runs))


def two_measured(
    runs: xr.Dataset, by_part: list[tuple[NDArray, PartPredictions]]
) -> list[dict[str, Any]]:
    """The mean over all pairs of measured machines, relative to the first of the pair."""
    n_machines = len(machines_of(runs))
    truth, rows = np.concatenate([answers.seconds for _, answers in by_part]), []
    for a in range(n_machines):
        for b in set(range(n_machines)) - {a}:
            predicted = np.concatenate([answers.times([a, b]) for _, answers in by_part])
            rows.append(scores(predicted, truth, a))
    return [{"source": "all", "rows": len(truth) * len(rows), **mean_rows(rows)}]


def ablations(runs: xr.Dataset) -> dict[str, Any]:
    """Scores without parts, programs held out."""
    bare = runs.drop_vars(["counters", "counter", "units", "group"])
    del bare.attrs["work"]
    without_time = by_fold(runs, "programs", default_answers(source_time=False))
    without_counters = by_fold(bare, "programs", default_answers())
    logless = by_fold(runs, "programs", lambda known, rows, new: plain(known, new))
    return {
        "without the source's time": score(runs, [(h, from_each(a)) for h, a in without_time]),
        "without counters": score(bare, [(h, from_each(a)) for h, a in without_counters]),
        "without logarithms": score(runs, logless),
    }


def intervals(runs: xr.Dataset) -> dict[str, Any]:
    """Coverage and width of intervals of held-out programs, calibrated anew in each fold."""
    machines, truth = machines_of(runs), runtimes_of(runs)
    n, m = truth.shape
    inside = {rate: np.full((n, m, m), np.nan) for rate in RATES}
    width = {rate: np.full((n, m, m), np.nan) for rate in RATES}
    for held_out in held_rows(runs, "programs", INTERVAL_FOLDS, 1):
        out = held_out[:, 0]
        known, new = (runs.isel(run=np.flatnonzero(rows)) for rows in (~out, out))
        predictor = RelativePredictor().fit(known).calibrate(known)
        for rate in RATES:
            for s, source in enumerate(machines):
                low, high = predictor.predict_interval(new, source, rate)
                inside[rate][out, s] = (low <= truth[out]) & (truth[out] <= high)
                width[rate][out, s] = np.log(high / low) / 2
    return coverage(runs, inside, width)


def crosswise(runs: xr.Dataset) -> dict[str, Any]:
    """The same with ten fits in all: intervals of a part come from the errors of the others."""
    truth = runtimes_of(runs)
    n, m = truth.shape
    by_part = by_fold(runs, "programs", default_answers())
    order = np.argsort(np.concatenate([np.flatnonzero(held_out[:, 0]) for held_out, _ in by_part]))
    answers = joined([answer for _, answer in by_part]).some(order)
    program = np.unique(words_of(runs, "program"), return_inverse=True)[1].reshape(-1)
    inside = {rate: np.full((n, m, m), np.nan) for rate in RATES}
    width = {rate: np.full((n, m, m), np.nan) for rate in RATES}
    for held_out, _ in by_part:
        out = held_out[:, 0]
        known = calibrate_widths(answers.some(np.flatnonzero(~out)), program[~out], 0)
        new = answers.some(np.flatnonzero(out))
        for rate in RATES:
            for s in range(m):
                half = known.half_widths(new, [s], rate, machines_of(runs))
                inside[rate][out, s] = np.abs(new.log_times([s]) - new.log) <= half
                width[rate][out, s] = half
    return coverage(runs, inside, width)


def coverage(
    runs: xr.Dataset, inside: dict[float, Floats], width: dict[float, Floats]
) -> dict[str, Any]:
    """Share of times in their intervals, and half widths in log, by rate."""
    apart = ~np.eye(len(machines_of(runs)), dtype=bool)
    program = np.unique(words_of(runs, "program"), return_inverse=True)[1].reshape(-1)
    each = 1.0 / np.bincount(program)[program]
    return {
        str(rate): {
            "coverage": float(inside[rate][:, apart].mean()),
            "coverage_of_programs": float(np.average(inside[rate][:, apart].mean(1), weights=each)),
            "least_pair": float(inside[rate][:, apart].mean(axis=0).min()),
            "most_pair": float(inside[rate][:, apart].mean(axis=0).max()),
            "half_width": float(np.exp(width[rate][:, apart].mean())),
            "median_half_width": float(np.exp(np.median(width[rate][:, apart]))),
            "arithmetic_half_width": float(np.exp(width[rate][:, apart]).mean()),
        }
        for rate in RATES
    }


def by_word(runs: xr.Dataset, found: Floats, name: str) -> dict[str, dict[str, float]]:
    """Scores of the runs of each program or scale (Figures 6 and 7)."""
    truth, words = runtimes_of(runs), words_of(runs, name)
    tested = np.isfinite(found).all(axis=(1, 2))
    result = {}
    for word in np.unique(words[tested]):
        own = tested & (words == word)
        mean = score_rows(found[own], truth[own], machines_of(runs))[-1]
        result[str(word)] = {measure: mean[measure] for measure in MEASURES}
    return result


def timing() -> dict[str, float]:
    """Seconds of a fit, its calibration, predictions and help; bytes of the model."""
    runs = shipped_runs(MIXED)
    predictor = RelativePredictor()
    fit = seconds_of(lambda: predictor.fit(runs))
    calibrate = seconds_of(lambda: predictor.calibrate(runs))
    predict = seconds_of(lambda: predictor.predict(runs, machines_of(runs)[0]))
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(Path(folder) / "model.nc")
        size = (Path(folder) / "model.nc").stat().st_size
    help_command = ["-m", "msbgen", "machines", "--help"]
    starts = [run_python(help_command).seconds for _ in range(STARTS)]
    return {
        "fit_seconds": fit,
        "calibrate_seconds": calibrate,
        "predict_seconds": predict,
        "runs": float(len(runtimes_of(runs))),
        "model_bytes": float(size),
        "help_seconds": min(starts),
    }


def importances(runs: xr.Dataset) -> dict[str, float]:
    """Gain of each feature of boosting, all runs known (Figure 8)."""
    gains = RelativePredictor(parts="boosting").fit(runs).importances()
    return dict(sorted(gains.items(), key=lambda pair: -pair[1]))


# Machines and split of each comparison.
SPLITS: dict[str, tuple[dict[str, str], str]] = {
    "programs": (MIXED, "programs"),
    "runs": (MIXED, "runs"),
    "scales": (MIXED, "scales"),
    "servers": (SERVERS, "runs"),
    "rows": (MIXED, "rows"),
}
PARTS = (
    *SPLITS,
    *("intervals", "crosswise", "ablations", "importances", "peers", "paper", "graphs", "timing"),
)


def measure(name: str, data: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Results of a part, piece by piece."""
    if name in SPLITS:
        machines, split = SPLITS[name]
        yield name, compare(shipped_runs(machines), split)
    elif name in ("peers", "paper"):
        # for single rows, another peer shows the leak
        leaking = {"looking up another row": lookup}
        for key, (machines, split) in SPLITS.items():
            peers = PEERS | (leaking if split == "rows" else {})
            for title, peer in (peers if name == "peers" else PAPER).items():
                yield key, beside(shipped_runs(machines), split, {title: peer})
    elif name == "graphs" and data is None:
        print("graphs: the tasks of dense linear algebra do not ship; give --data FOLDER.")
    elif name == "graphs" and data is not None:
        yield name, task_graphs(data)
    elif name == "timing":
        yield name, timing()
    else:
        makers = {
            "intervals": intervals, "crosswise": crosswise, "ablations": ablations,
            "importances": importances,
        }  # fmt: skip
        yield name, makers[name](shipped_runs(MIXED))


def task_graphs(folder: Path) -> dict[str, Any]:
    """Tasks with block sizes never seen, from a run on one of three processors."""
    runs = task_graph_runs(folder)
    found = compare(runs, "scales")
    found["methods"] |= beside(runs, "scales", PEERS | PAPER)["methods"]
    return found


def run(only: Sequence[str], data: Path | None) -> None:
    """Measure the parts, keep the stored results of others, and write everything."""
    results = stored("relative")
    for name in only:
        for key, found in measure(name, data):
            old = results.get(key, {})
            methods = {**old.get("methods", {}), **found.get("methods", {})}
            results[key] = {**old, **found, **({"methods": methods} if methods else {})}
            store(RESULTS / "relative.json", results)
    report(results)


def report(results: dict[str, Any]) -> None:
    """Write the tables, and draw the picture, of the measured parts."""
    publish(tables(results))
    if "intervals" in results:
        print(interval_table(results["intervals"]))
    drawn = {"programs", "runs", "scales", "importances"} <= results.keys()
    if drawn and all(set(_SHOWN) <= results[s]["methods"].keys() for s in _DRAWN):
        draw(results)


def tables(results: dict[str, Any] | None = None) -> dict[str, str]:
    """The tables of the parts that were measured, of the stored results if none are given."""
    results, found = results or stored("relative"), {}
    for name in ("runs", "programs", "scales", "servers", "rows", "graphs"):
        if name in results:
            found[f"relative-{name}"] = comparison(name, results[name])
    if "ablations" in results and "programs" in results:
        found["relative-ablations"] = ablation_table(results)
    if "crosswise" in results:
        found["relative-crosswise"] = interval_table(results["crosswise"])
    if "timing" in results:
        found["relative-timing"] = timing_table(results["timing"])
    return found


def comparison(name: str, result: dict[str, Any]) -> str:
    """A row for each method."""
    rows = []
    for method in [name for name in _ORDER if name in result["methods"]]:
        rows.append([method, *_cells(result["methods"][method][-1])])
    head = ["held out: " + name, *_HEAD]
    if name in TARGETS:
        error, order = TARGETS[name]
        rows.append(["*goal for the default*", f"≤ {error:g}", "", f"≥ {order:g} %", "", "", ""])
    if name == "graphs":
        rows.append(["*goal for the default*", "", "", "", f"≤ {TYPICAL_ERROR:g} %", "", ""])
    return markdown(head, rows)


_ORDER = (
    *("default", "boosting alone", "kriging alone", "trees alone", "two machines measured"),
    "boosting (paper)",
    *("forest", "linear", "median per source", "mean", "looking up another row"),
)
_HEAD = ("error", "on other machines", "same order", "typical error", "best found", "time lost")


def _cells(mean: dict[str, float]) -> list[str]:
    return [
        f"{mean['error']:.3f}",
        f"{mean['error_elsewhere']:.3f}",
        f"{100 * mean['same_order']:.1f} %",
        f"{100 * (mean['factor'] - 1):.1f} %",
        f"{100 * mean['best_found']:.1f} %",
        f"{100 * mean['time_lost']:.2f} %",
    ]


def ablation_table(results: dict[str, Any]) -> str:
    methods = results["programs"]["methods"]
    names = ("default", *(f"{part} alone" for part in PARTS_OF_DEFAULT), "two machines measured")
    rows = [[name, *_cells(methods[name][-1])] for name in names]
    rows += [[name, *_cells(rows_[-1])] for name, rows_ in results["ablations"].items()]
    return markdown(["programs held out", *_HEAD], rows)


def interval_table(result: dict[str, Any]) -> str:
    rows = []
    for rate, row in result.items():
        pairs = f"{100 * row['least_pair']:.1f} to {100 * row['most_pair']:.1f} %"
        cells = [f"{100 * (1 - float(rate)):g} %", f"{100 * row['coverage']:.1f} %", pairs]
        cells += [f"{row[name]:.3f}" for name in ("half_width", "median_half_width")]
        rows.append([*cells, f"≤ {HALF_WIDTHS[float(rate)]:g}"])
    head = ["nominal", "covered", "pairs of machines", "half width (mean of log)", "median", "goal"]
    return markdown(head, rows)


def timing_table(result: dict[str, float]) -> str:
    """Seconds beside their goals."""
    runs = f"{result['runs']:.0f} runs on four machines"
    both = result["fit_seconds"] + result["calibrate_seconds"]
    rows = [
        [f"fit, {runs}", f"{result['fit_seconds']:.1f} s", "≤ 60 s"],
        ["the same with intervals, `msbgen machines fit`", f"{both:.1f} s", "≤ 60 s"],
        [f"predict, {runs}", f"{result['predict_seconds']:.2f} s", ""],
        ["`msbgen machines --help`", f"{result['help_seconds']:.2f} s", "≤ 0.3 s"],
        ["model", f"{result['model_bytes'] / 1e6:.1f} MB", ""],
    ]
    return markdown(["", "measured", "goal"], rows)


_SHOWN = ["default", "boosting (paper)", "forest", "linear", "median per source", "mean"]
_DRAWN = ("runs", "programs", "scales")


def draw(results: dict[str, Any]) -> None:
    """Draw Figures 2 to 8 of the paper, with our methods and runs."""
    figure, axes = subplots(3, 2, figsize=(12, 14))
    methods = results["programs"]["methods"]
    names = _SHOWN
    for axis, measure, title in (
        (axes[0, 0], "error", "mean absolute error of relative times (Figure 2)"),
        (axes[0, 1], "same_order", "share of runs in the same order (Figure 3)"),
    ):
        for split, shift in zip(_DRAWN, (-0.27, 0.0, 0.27)):
            heights = [results[split]["methods"][n][-1][measure] for n in names]
            axis.bar(np.arange(len(names)) + shift, heights, 0.26, label=f"{split} held out")
        axis.set_xticks(range(len(names)), labels=[n.replace(" ", "\n", 1) for n in names])
        axis.set_title(title)
        axis.legend(fontsize="small")
    axes[0, 0].set_yscale("log")
    for axis, measure, title in (
        (axes[1, 0], "error", "error by the machine measured (Figure 4)"),
        (axes[1, 1], "same_order", "same order by the machine measured (Figure 5)"),
    ):
        table = np.array([[row[measure] for row in methods[n][:-1]] for n in names])
        axis.imshow(table, aspect="auto", vmax=0.5 if measure == "error" else 1.0, cmap="viridis")
        for (i, j), value in np.ndenumerate(table):
            axis.text(j, i, f"{value:.2f}", ha="center", va="center", color="white")
        axis.set_xticks(range(table.shape[1]), [row["source"] for row in methods["default"][:-1]])
        axis.set_yticks(range(len(names)), names)
        axis.set_title(title)
    _draw_units(axes[2, 0], results)
    gains = list(results["importances"].items())[:15][::-1]
    axes[2, 1].barh([name for name, _ in gains], [gain for _, gain in gains])
    axes[2, 1].set_title("gain of features, the largest (Figure 8)")
    figure.savefig(RESULTS / "relative.png", dpi=80)


def _draw_units(axis: Any, results: dict[str, Any]) -> None:
    """Draw errors of programs by suite, and of scales."""
    suites: dict[str, list[float]] = {}
    for program, row in results["programs"]["each"].items():
        suite = program.partition("/")[0].partition(":")[0]
        suites.setdefault(suite, []).append(row["error"])
    groups = list(suites.items())
    axis.boxplot([errors for _, errors in groups])
    labels = [f"{suite}\n({len(errors)})" for suite, errors in groups]
    scales = {name: results["scales"]["each"][name] for name in ("small", "medium", "large")}
    places = np.arange(len(scales)) + len(groups) + 1.5
    axis.bar(places, [row["error"] for row in scales.values()], 0.6, color="tab:orange")
    axis.set_xticks([*range(1, len(groups) + 1), *places], [*labels, *scales], fontsize="small")
    axis.set_yscale("log")
    axis.set_title("error of programs by suite (Figure 7), of scales (Figure 6), held out")


def main() -> None:
    options = parser(__doc__, PARTS, data="folder of tasks of dense linear algebra").parse_args()
    run(options.only, options.data)
