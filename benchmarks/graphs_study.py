"""Task graphs: time and energy predicted beside every peer, with intervals, over five seeds.

Splits of each seed hold out a quarter of the contexts of every graph, each eighth of the families,
and each device before and after fifty of its runs. Networks take most of the time, and see one of
the eighths and one of the devices a seed (:mod:`graphs_networks`). Every job keeps its predictions
in the work folder; :func:`report` reads them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import graphs_peers as peers
import numpy as np
from graphs_data import Study, all_kinds, study
from graphs_scores import compare_over_graphs, holm, log_errors, order_within
from graphs_splits import (
    MISCOVERAGE,
    NEW_RUNS,
    Flags,
    Floats,
    Table,
    answers,
    fitted,
    shown_runs,
    splits,
    whole_table,
)
from numpy.typing import NDArray
from tables import RESULTS, find, markdown, parser, publish, store, stored, subplots

from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.runs import run_contexts
from msbgen.systems.graphs.simulator import Simulator

SEEDS = range(5)
# Goals; errors as multiples of the noise floor, where there are two.
CONTEXTS_GOAL, FAMILIES_GOAL = (1.8, 0.04), (2.7, 0.07)
PLATFORM_GOAL, AFTER_GOAL = 0.10, 0.08
OURS, SCHEDULE, SHEET = "default", "list schedule", "the truth's simulator, by the sheet"


def job(seed: int, part: str, work: Path) -> str:
    """Compute a method's predictions for the held-out runs of each split, once."""
    path = work / f"graph-{seed}-{part}.npz"
    if not path.exists():
        data = study(work, seed)
        found = JOBS[part](data, seed)
        unfinished = path.with_suffix(".partial.npz")
        np.savez_compressed(unfinished, **found)
        unfinished.rename(path)
    return path.name


def our_job(data: Study, seed: int) -> dict[str, NDArray]:
    """The truth, the held-out runs of each split, and our predictions."""
    table = whole_table(data, seed)
    found: dict[str, NDArray] = {"floor": noise_floor(data, seed)}
    for field in ("log", "graph", "family", "device"):
        found[field] = getattr(table, field)
    exact, predictor = by_the_sheets(data), GraphPredictor()
    for name, held_out in splits(table, seed).items():
        found[f"{name}|held"] = held_out
        group, _, device = name.partition(" ")
        if group == "after":  # behind the same device unseen
            runs = shown_runs(data, (table.device == device) & ~held_out)[0]
            predictor.adapt(runs, device=data.devices[device], graphs=data.graphs)
        else:
            predictor = fitted(data, ~held_out, seed).calibrate()
        if group == "platform":
            found[f"{name}|{SHEET}"] = exact[held_out]
        found |= our_predictions(name, data, table, held_out, predictor)
        print(f"seed {seed}: {name}", flush=True)
    return found


def peers_job(data: Study, seed: int) -> dict[str, NDArray]:
    """Predictions of tabular peers for held-out runs of each split."""
    table, kinds = whole_table(data, seed), read_kinds(data.profiles)
    found = {}
    for name, held_out in splits(table, seed).items():
        for peer, learn in peers.tabular(kinds).items():
            known = table.plain[~held_out], table.log[~held_out]
            found[f"{name}|{peer}"] = learn(*known, table.plain[held_out], seed)
    return found


def our_predictions(
    name: str, data: Study, table: Table, held_out: Flags, predictor: GraphPredictor
) -> dict[str, NDArray]:
    """Our predictions for held-out runs."""
    bounded = set(table.device[held_out]) <= predictor.devices_.keys()

    def answer(question: Any, rows: NDArray[np.int64], start: Floats) -> Floats:
        alone = question.scheduled(rows, start)
        middle, low, high = (
            question.interval(rows, MISCOVERAGE, start, alone)
            if bounded
            else [question.predict(rows, start, alone)] * 3
        )
        return np.log(np.stack([alone[:, :2], middle, low, high], axis=1))

    predicted = answers(data, predictor, held_out, answer)
    found = {f"{name}|{SCHEDULE}": predicted[:, 0], f"{name}|{OURS}": predicted[:, 1]}
    if bounded:
        found |= {f"{name}|low": predicted[:, 2], f"{name}|high": predicted[:, 3]}
    return found


def by_the_sheets(data: Study) -> Floats:
    """Logarithms of all runs by the true simulator and rates with data-sheet values, (n, 2).

    Without runs of a device, this is the best possible predictor.
    """
    parts = []
    for name, runs in data.runs.items():
        device, found = data.devices[name], np.empty((runs.sizes["run"], 2))
        simulator = Simulator(device, data.truth)
        contexts, start = run_contexts(runs, device), runs["start_temperature"].values
        for graph in np.unique(runs["graph"].values):
            own = np.flatnonzero(runs["graph"].values == graph)
            outcome = simulator.run(
                data.graphs[str(graph)], contexts[own], temperature=start[own], noise=False
            )
            found[own] = np.log(np.column_stack([outcome.makespan, outcome.energy]))
        parts.append(found)
    return np.concatenate(parts)


def noise_floor(data: Study, seed: int) -> Floats:
    """Deviation of the logarithms of time and energy between equal runs, (2,)."""
    rng, squares = np.random.default_rng([9, seed]), []
    for name, runs in data.runs.items():
        device, simulator = data.devices[name], data.simulators[name]
        contexts = run_contexts(runs, device)
        for i in rng.permutation(runs.sizes["run"])[:150]:
            graph, start = (runs[n].values[i] for n in ("graph", "start_temperature"))
            outcome = simulator.run(
                data.graphs[str(graph)], contexts[[i]], temperature=[start], runs=12, rng=rng
            )
            both = np.log(np.stack([outcome.makespan[0], outcome.energy[0]]))
            squares.append(both.var(axis=1, ddof=1))
    return np.sqrt(np.mean(squares, axis=0))


def by_networks(data: Study, seed: int, what: str) -> dict[str, NDArray]:
    """Answers of networks, by a function of :mod:`graphs_networks`; needs torch."""
    import graphs_networks

    return getattr(graphs_networks, what)(data, seed)


JOBS: dict[str, Callable[[Study, int], dict[str, NDArray]]] = {
    "ours": our_job,
    "peers": peers_job,
    "networks": partial(by_networks, what="compared"),
    "ablations": partial(by_networks, what="ablated"),
    "ensemble": partial(by_networks, what="together"),
    "longer": partial(by_networks, what="longer"),
}
# Jobs of the first draw only.
ONCE = ("ablations", "ensemble", "longer")


GROUPS = ("contexts", "families", "platform", "after")
TABULAR = ("Brent", "ridge", "forest", "boosting", "MLP")
NETWORKS = ("GCN", "HGT", "HGT, MC dropout", peers.ENSEMBLE, "network", "network on schedule")
ABLATIONS = (
    *("edges of one type", "without telemetry", "without memories", "squared errors alone"),
    peers.TRAINED_LONGER,
)
METHODS = (OURS, SCHEDULE, SHEET, *TABULAR, *NETWORKS)


def run(work: Path, seeds: Sequence[int] = SEEDS, processes: int = 2) -> None:
    """Compute all missing jobs, some at a time, and report."""
    all_kinds(work, processes)  # once for all
    jobs = [(seed, part) for part in JOBS for seed in (seeds if part not in ONCE else [0])]
    with ProcessPoolExecutor(processes, max_tasks_per_child=1) as pool:
        for done in pool.map(job, *zip(*jobs), [work] * len(jobs)):
            print(done, flush=True)
    report(work, seeds)


def report(work: Path, seeds: Sequence[int] = SEEDS) -> None:
    """Write JSON, tables and the picture of the finished jobs."""
    results = summary(work, seeds)
    store(RESULTS / "graph.json", results)
    publish(tables(results))
    draw(results)


def tables(results: dict[str, Any] | None = None) -> dict[str, str]:
    """All tables of the page, of the stored results if none are given."""
    results = results or stored("graph")
    return {
        "graph": error_table(results),
        "graph-intervals": interval_table(results),
        "graph-tests": test_table(results),
        "graph-ablations": ablation_table(results),
    }


def summary(work: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Scores of each method on each split of each seed, intervals and tests."""
    rows, ours, against, floors = [], [], {m: [] for m in METHODS if m != OURS}, []
    for seed in [n for n in seeds if (work / f"graph-{n}-ours.npz").exists()]:
        kept = dict(np.load(work / f"graph-{seed}-ours.npz"))
        predictions = dict(kept)
        for part in JOBS:
            more = work / f"graph-{seed}-{part}.npz"
            predictions |= dict(np.load(more)) if more.exists() else {}
        floors.append(kept["floor"])
        for name in [key.removesuffix("|held") for key in kept if key.endswith("|held")]:
            at, held_out = {"seed": seed, "split": name}, kept[f"{name}|held"]
            truth, graph = kept["log"][held_out], kept["graph"][held_out]
            key = np.char.add(np.char.add(graph, "@"), kept["device"][held_out])
            for method in (*METHODS, *ABLATIONS):
                found = predictions.get(f"{name}|{method}")
                if found is None:
                    continue
                time, energy = log_errors(np.exp(found), np.exp(truth)).tolist()
                order = order_within(found[:, 0], truth[:, 0], key)
                errors = {"time": time, "energy": energy, "order": order}
                rows.append({**at, "method": method, **errors})
                if name.startswith("families") and method in against:
                    ours_there = predictions[f"{name}|{OURS}"]
                    where = np.char.add(np.char.add(graph, " "), str(seed))
                    against[method].append(
                        (np.abs(ours_there - truth)[:, 0], np.abs(found - truth)[:, 0], where)
                    )
            for title, ends in (
                ("conformal", ("low", "high")),
                ("evidential", ("network low", "network high")),
            ):
                if f"{name}|{ends[0]}" in predictions:
                    low, high = (predictions[f"{name}|{end}"] for end in ends)
                    inside = ((low <= truth) & (truth <= high)).mean(axis=0).tolist()
                    width = (high - low).mean(axis=0).tolist()
                    ours.append({**at, "kind": title, "inside": inside, "width": width})
    floor = np.sqrt(np.mean(np.square(floors), axis=0)).tolist()
    tests = {}
    for method, parts in against.items():
        if parts:
            a, b, where = (np.concatenate(column) for column in zip(*parts))
            p, effect = compare_over_graphs(a, b, where.tolist())
            tests[method] = {"p": p, "effect": effect, "graphs": len(set(where.tolist()))}
    corrected = holm({method: one["p"] for method, one in tests.items()})
    for method, p in corrected.items():
        tests[method]["corrected"] = p
    return {
        "floor": floor,
        "budget": vars(peers.BUDGET),
        "scores": rows,
        "intervals": ours,
        "tests": tests,
        "worst against the schedule": _worst(rows),
    }


def _worst(rows: list[dict]) -> dict[str, float]:
    """The largest ratio of our error to that of the schedule alone, over all splits and seeds."""
    ratio = {}
    for output in ("time", "energy"):
        by = {(r["seed"], r["split"], r["method"]): r[output] for r in rows}
        ratio[output] = max(
            value / by[seed, split, SCHEDULE]
            for (seed, split, method), value in by.items()
            if method == OURS
        )
    return ratio


def means(
    results: dict[str, Any], method: str, group: str, beside: str = ""
) -> tuple[float, float, float, int]:
    """Mean errors of time and energy over splits and seeds, mean order, number of splits.

    With `beside`, only the splits on which that other method was scored.
    """
    scores = results["scores"]
    places = {(r["seed"], r["split"]) for r in find(scores, method=beside or method)}
    own = [
        r
        for r in find(scores, method=method)
        if r["split"].split()[0] == group and (r["seed"], r["split"]) in places
    ]
    if not own:
        return np.nan, np.nan, np.nan, 0
    time, energy, order = (float(np.mean([r[k] for r in own])) for k in ("time", "energy", "order"))
    return time, energy, order, len(own)


def error_table(results: dict[str, Any]) -> str:
    rows = []
    titles = {SHEET: "true simulator, data-sheet values"}
    named = [(titles.get(method, method), method, "") for method in METHODS]
    named += [(f"{OURS}, on splits of networks", OURS, "network")]
    for title, method, beside in named:
        cells = []
        for group in GROUPS:
            time, energy, order, n = means(results, method, group, beside)
            cells.append(f"{time:.3f} / {energy:.3f} ({order:.2f}; {n})" if n else "—")
        rows.append([title, *cells])
    floor = results["floor"]
    goals = [f"≤ {a * floor[0]:.3f} / {b:.3f}" for a, b in (CONTEXTS_GOAL, FAMILIES_GOAL)]
    goals += [f"≤ {PLATFORM_GOAL:.3f}", f"≤ {AFTER_GOAL:.3f}"]
    rows.append(["*goal for the default*", *goals])
    head = ["time / energy (order; splits)", "unseen contexts", "unseen families"]
    return markdown([*head, "unseen platform", f"after {NEW_RUNS} of its runs"], rows)


def interval_table(results: dict[str, Any]) -> str:
    rows = []
    for kind in ("conformal", "evidential"):
        for group in GROUPS:
            of_kind = find(results["intervals"], kind=kind)
            own = [r for r in of_kind if r["split"].split()[0] == group]
            if not own:
                continue
            inside = np.array([r["inside"] for r in own]) * 100
            width = np.mean([r["width"] for r in own], axis=0)
            mean, least = inside.mean(axis=0), inside.min(axis=0)
            cells = [f"{share[0]:.1f} / {share[1]:.1f} %" for share in (mean, least)]
            cells += [f"{width[0]:.3f} / {width[1]:.3f}", str(len(own))]
            rows.append([f"{kind}, {group}", *cells])
    head = ["95 %, time / energy", "covered", "lowest split", "width of the logarithm", "splits"]
    return markdown(head, rows)


def test_table(results: dict[str, Any]) -> str:
    rows = [
        [method, f"{one['corrected']:.2g}", f"{one['effect']:+.2f}", str(one["graphs"])]
        for method, one in results["tests"].items()
    ]
    return markdown(["default against", "p (Holm)", "effect", "graphs × seeds"], rows)


def ablation_table(results: dict[str, Any]) -> str:
    where = {r["split"] for r in results["scores"] if r["method"] in ABLATIONS}
    rows = []
    for method in ("network", "network on schedule", *ABLATIONS):
        every = find(results["scores"], method=method, seed=0)
        own = [r for r in every if r["split"] in where]
        if own:
            time, energy, order = (
                np.mean([r[k] for r in own]) for k in ("time", "energy", "order")
            )
            rows.append([method, f"{time:.3f}", f"{energy:.3f}", f"{order:.3f}"])
    return markdown(["an eighth of the families held out", "time", "energy", "order"], rows)


def draw(results: dict[str, Any]) -> None:
    """Draw errors of all methods, and coverage of every split."""
    figure, axes = subplots(1, 2, figsize=(12, 4.6))
    names = [m for m in METHODS if means(results, m, "families")[3]]
    for i, group in enumerate(GROUPS):
        heights = [means(results, m, group)[0] for m in names]
        axes[0].bar(np.arange(len(names)) + 0.2 * (i - 1.5), heights, 0.2, label=group)
    axes[0].axhline(results["floor"][0], color="black", linewidth=0.8, label="noise")
    axes[0].set_yscale("log")
    axes[0].set_xticks(range(len(names)), labels=names, rotation=40, ha="right")
    axes[0].set_ylabel("error of log time")
    axes[0].legend(fontsize="small")
    for kind, marker in (("conformal", "o"), ("evidential", "x")):
        own = find(results["intervals"], kind=kind)
        inside = [100 * r["inside"][0] for r in own]
        axes[1].plot([r["width"][0] for r in own], inside, marker, label=kind, alpha=0.7)
    axes[1].axhline(95, color="black", linewidth=0.8)
    axes[1].set_xlabel("width of 95 % intervals of log time")
    axes[1].set_ylabel("runs inside [%]")
    axes[1].legend(fontsize="small")
    figure.savefig(RESULTS / "graph.png", dpi=90)


def main() -> None:
    arguments = parser(__doc__, required=("work",), work="folder for runs and answers")
    arguments.add_argument("--seeds", type=int, default=len(SEEDS), help="draws of devices")
    arguments.add_argument("--processes", type=int, default=2, help="that fit at a time")
    arguments.add_argument("--no-run", action="store_true", help="report what the folder holds")
    options = arguments.parse_args()
    if options.no_run:
        report(options.work, range(options.seeds))
    else:
        run(options.work, range(options.seeds), options.processes)
