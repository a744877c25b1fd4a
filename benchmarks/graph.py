"""Task graphs: time and energy predicted beside every peer, with intervals, over five seeds.

Splits of each seed (other devices, other runs): a quarter of the contexts of every graph; each
eighth of the families; each device, unseen and after fifty of its runs.  Networks, which take most
of the time, see one of the eight and one of the devices a seed (:mod:`graph_networks`).  Every job
keeps what was said of each run in the work folder; :func:`report` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import graph_peers as peers
import numpy as np
import xarray as xr
from graph_data import Study, all_kinds, study
from numpy.typing import NDArray
from tables import RESULTS, markdown, put_into_readme, store

from msbgen.graphs.boards import Board
from msbgen.graphs.devices import Device
from msbgen.graphs.kinds import read_kinds
from msbgen.graphs.predictor.evaluation import (
    compare_over_graphs,
    holm,
    log_errors,
    order_within,
    split_families,
)
from msbgen.graphs.predictor.features import Shape, plain_features
from msbgen.graphs.predictor.predictor import GraphPredictor
from msbgen.graphs.runs import run_contexts
from msbgen.graphs.simulator import Simulator

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SEEDS = range(5)
PARTS = 8
HELD_CONTEXTS = 0.25
NEW_RUNS = 50
MISCOVERAGE = 0.05
# What the project asked for; errors as multiples of the noise floor where it says so.
CONTEXTS_ASKED, FAMILIES_ASKED = (1.8, 0.04), (2.7, 0.07)
PLATFORM_ASKED, AFTER_ASKED = 0.10, 0.08
OURS, SCHEDULE, SHEET = "default", "list schedule", "the truth's simulator, by the sheet"


@dataclass(frozen=True)
class Table:
    """All runs of a seed in a row, as every method takes them.

    Attributes
    ----------
    log : ndarray, (n, 2)
    plain : ndarray, (n, d)
    graph, family, device : ndarray of str, (n,)
    """

    log: Floats
    plain: Floats
    graph: NDArray[np.str_]
    family: NDArray[np.str_]
    device: NDArray[np.str_]


def table_of(data: Study, predictor: GraphPredictor) -> Table:
    parts = []
    for name, runs in data.runs.items():
        board = Board(data.devices[name], predictor.kinds_)
        plain = np.empty((runs.sizes["run"], 0))
        for graph, own, rows, start in asked(data, predictor, runs, data.devices[name]):
            found = plain_features(Shape(graph.graph, board), rows, start)
            if not plain.size:
                plain = np.empty((runs.sizes["run"], found.shape[1]))
            plain[own] = found
        parts.append(plain)
    whole = {
        name: np.concatenate([r[name].values for r in data.runs.values()])
        for name in ("graph", "family", "makespan", "energy")
    }
    device = np.repeat(list(data.runs), [r.sizes["run"] for r in data.runs.values()])
    log = np.log(np.stack([whole["makespan"], whole["energy"]], axis=1))
    names = (whole[name].astype(str) for name in ("graph", "family"))
    return Table(log, np.concatenate(parts), *names, device.astype(str))


def asked(
    data: Study, predictor: GraphPredictor, runs: xr.Dataset, device: Device
) -> Iterator[tuple[Any, NDArray[np.int64], NDArray[np.int64], Floats]]:
    """Questions about the graphs of runs, with the runs, rows and temperatures of each."""
    contexts = run_contexts(runs, device)
    start = runs["start_temperature"].values
    for name in np.unique(runs["graph"].values):
        own = np.flatnonzero(runs["graph"].values == name)
        question = predictor.prepare(data.graphs[str(name)], device)
        yield question, own, question.rows(contexts[own]), start[own]


def splits(table: Table, seed: int) -> dict[str, Flags]:
    """What is held back in each split, (n,) each; a device, then that less some of its runs."""
    rng = np.random.default_rng([7, seed])
    found = {"contexts": rng.random(len(table.log)) < HELD_CONTEXTS}
    for k, held in enumerate(split_families(table.family, PARTS, rng)):
        found[f"families {k}"] = held
    for name in np.unique(table.device):
        found[f"platform {name}"] = held = table.device == name
        some = np.random.default_rng([8, seed]).permutation(np.flatnonzero(held))[:NEW_RUNS]
        found[f"after {name}"] = held & ~np.isin(np.arange(len(held)), some)
    return found


def shown_runs(data: Study, shown: Flags) -> list[xr.Dataset]:
    """Runs to learn from, of each device that has any."""
    found, first = [], 0
    for runs in data.runs.values():
        own = np.flatnonzero(shown[first : first + runs.sizes["run"]])
        first += runs.sizes["run"]
        if len(own):
            found.append(runs.isel(run=own))
    return found


def fitted(data: Study, shown: Flags, seed: int, **given: Any) -> GraphPredictor:
    predictor = GraphPredictor(random_state=seed, **given)
    sheets = list(data.devices.values())
    return predictor.fit(
        shown_runs(data, shown), devices=sheets, graphs=data.graphs, profiles=data.profiles
    )


def answers(
    data: Study, predictor: GraphPredictor, held: Flags, answer: Callable[..., Floats]
) -> Floats:
    """What is answered about the runs held back, (n_held, ...).

    Parameters
    ----------
    answer : callable
        From a question, rows and temperatures of some runs, what is said of them, (m, ...).
    """
    parts, first = [], 0
    for name, runs in data.runs.items():
        own = np.flatnonzero(held[first : first + runs.sizes["run"]])
        first += runs.sizes["run"]
        if len(own):
            some, device = runs.isel(run=own), data.devices[name]
            told = [
                (at, answer(question, rows, start))
                for question, at, rows, start in asked(data, predictor, some, device)
            ]
            order = np.argsort(np.concatenate([at for at, _ in told]))
            parts.append(np.concatenate([found for _, found in told])[order])
    return np.concatenate(parts)


def scheduled(question: Any, rows: NDArray[np.int64], start: Floats) -> Floats:
    """Logarithms by the schedule of profiles alone, (m, 2)."""
    return np.log(question.scheduled(rows, start)[:, :2])


# ------------------------------------------------------------------------------------------- jobs


def job(seed: int, part: str, work: Path) -> str:
    """What methods say of the runs held back in each split, kept in a file of its own."""
    path = work / f"graph-{seed}-{part}.npz"
    if not path.exists():
        data = study(work, seed)
        found = JOBS[part](data, seed)
        unfinished = path.with_suffix(".partial.npz")
        np.savez_compressed(unfinished, **found)
        unfinished.rename(path)
    return path.name


def our_job(data: Study, seed: int) -> dict[str, NDArray]:
    """The truth, what is held back in each split, and what our methods say of it."""
    table = whole_table(data, seed)
    found: dict[str, NDArray] = {"floor": noise_floor(data, seed)}
    for field in ("log", "graph", "family", "device"):
        found[field] = getattr(table, field)
    exact, predictor = by_the_sheets(data), GraphPredictor()
    for name, held in splits(table, seed).items():
        found[f"{name}|held"] = held
        group, _, device = name.partition(" ")
        if group == "after":  # behind the same device unseen
            runs = shown_runs(data, (table.device == device) & ~held)[0]
            predictor.adapt(runs, device=data.devices[device], graphs=data.graphs)
        else:
            predictor = fitted(data, ~held, seed).calibrate()
        if group == "platform":
            found[f"{name}|{SHEET}"] = exact[held]
        found |= _told(name, data, table, held, predictor)
        print(f"seed {seed}: {name}", flush=True)
    return found


def peers_job(data: Study, seed: int) -> dict[str, NDArray]:
    """What tabular peers say of runs held back in each split."""
    table, kinds = whole_table(data, seed), read_kinds(data.profiles)
    found = {}
    for name, held in splits(table, seed).items():
        for peer, learn in peers.tabular(kinds).items():
            said = learn(table.plain[~held], table.log[~held], table.plain[held], seed)
            found[f"{name}|{peer}"] = said
    return found


def whole_table(data: Study, seed: int) -> Table:
    every = np.ones(sum(r.sizes["run"] for r in data.runs.values()), dtype=bool)
    return table_of(data, fitted(data, every, seed, residual=False))


def _told(
    name: str, data: Study, table: Table, held: Flags, predictor: GraphPredictor
) -> dict[str, NDArray]:
    """What our methods say of runs held back."""
    bounded = set(table.device[held]) <= predictor.devices_.keys()

    def answer(question: Any, rows: NDArray[np.int64], start: Floats) -> Floats:
        alone = question.scheduled(rows, start)
        middle, low, high = (
            question.interval(rows, MISCOVERAGE, start, alone)
            if bounded
            else [question.predict(rows, start, alone)] * 3
        )
        return np.log(np.stack([alone[:, :2], middle, low, high], axis=1))

    said = answers(data, predictor, held, answer)
    found = {f"{name}|{SCHEDULE}": said[:, 0], f"{name}|{OURS}": said[:, 1]}
    if bounded:
        found |= {f"{name}|low": said[:, 2], f"{name}|high": said[:, 3]}
    return found


def by_the_sheets(data: Study) -> Floats:
    """Logarithms of all runs by the truth's own simulator and rates, but the sheets', (n, 2).

    Nobody who knows no run of a device can be expected to do better.
    """
    parts = []
    for name, runs in data.runs.items():
        device, found = data.devices[name], np.empty((runs.sizes["run"], 2))
        simulator = Simulator(device, data.truth)
        contexts, start = run_contexts(runs, device), runs["start_temperature"].values
        for graph in np.unique(runs["graph"].values):
            own = np.flatnonzero(runs["graph"].values == graph)
            told = simulator.run(
                data.graphs[str(graph)], contexts[own], temperature=start[own], noise=False
            )
            found[own] = np.log(np.column_stack([told.makespan, told.energy]))
        parts.append(found)
    return np.concatenate(parts)


def noise_floor(data: Study, seed: int) -> Floats:
    """Deviation of the logarithms of time and energy between runs alike, (2,)."""
    rng, squares = np.random.default_rng([9, seed]), []
    for name, runs in data.runs.items():
        device, simulator = data.devices[name], data.simulators[name]
        contexts = run_contexts(runs, device)
        for i in rng.permutation(runs.sizes["run"])[:150]:
            outcome = simulator.run(
                data.graphs[str(runs["graph"].values[i])],
                contexts[[i]],
                temperature=runs["start_temperature"].values[[i]],
                runs=12,
                rng=rng,
            )
            both = np.log(np.stack([outcome.makespan[0], outcome.energy[0]]))
            squares.append(both.var(axis=1, ddof=1))
    return np.sqrt(np.mean(squares, axis=0))


def by_networks(data: Study, seed: int, what: str) -> dict[str, NDArray]:
    """What networks say, as a function of :mod:`graph_networks` has it; needs torch."""
    import graph_networks

    return getattr(graph_networks, what)(data, seed)


JOBS: dict[str, Callable[[Study, int], dict[str, NDArray]]] = {
    "ours": our_job,
    "peers": peers_job,
    "networks": partial(by_networks, what="compared"),
    "ablations": partial(by_networks, what="ablated"),
    "ensemble": partial(by_networks, what="together"),
    "longer": partial(by_networks, what="longer"),
}
# Of the first draw alone.
ONCE = ("ablations", "ensemble", "longer")

# ----------------------------------------------------------------------------------------- report

GROUPS = ("contexts", "families", "platform", "after")
TABULAR = ("Brent", "ridge", "forest", "boosting", "MLP")
NETWORKS = ("GCN", "HGT", "HGT, MC dropout", peers.ENSEMBLE, "network", "network on schedule")
ABLATIONS = (
    *("edges of one type", "without telemetry", "without memories", "squared errors alone"),
    peers.TRAINED_LONGER,
)
METHODS = (OURS, SCHEDULE, SHEET, *TABULAR, *NETWORKS)


def run(work: Path, seeds: Sequence[int] = SEEDS, processes: int = 2) -> None:
    """All jobs that are not done yet, some at a time, and the report."""
    all_kinds(work, processes)  # once for all
    jobs = [(seed, part) for part in JOBS for seed in (seeds if part not in ONCE else [0])]
    with ProcessPoolExecutor(processes, max_tasks_per_child=1) as pool:
        for done in pool.map(job, *zip(*jobs), [work] * len(jobs)):
            print(done, flush=True)
    report(work, seeds)


def report(work: Path, seeds: Sequence[int] = SEEDS) -> None:
    """JSON, tables and the picture of what the jobs found."""
    results = summary(work, seeds)
    store(RESULTS / "graph.json", results)
    put_into_readme("graph", error_table(results))
    put_into_readme("graph-intervals", interval_table(results))
    put_into_readme("graph-tests", test_table(results))
    put_into_readme("graph-ablations", ablation_table(results))
    draw(results)


def summary(work: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Scores of each method on each split of each seed, and what follows from them."""
    rows, ours, against, floors = [], [], {m: [] for m in METHODS if m != OURS}, []
    for seed in [n for n in seeds if (work / f"graph-{n}-ours.npz").exists()]:
        kept = dict(np.load(work / f"graph-{seed}-ours.npz"))
        said = dict(kept)
        for part in JOBS:
            more = work / f"graph-{seed}-{part}.npz"
            said |= dict(np.load(more)) if more.exists() else {}
        floors.append(kept["floor"])
        for name in [key.removesuffix("|held") for key in kept if key.endswith("|held")]:
            held = kept[f"{name}|held"]
            truth, graph = kept["log"][held], kept["graph"][held]
            key = np.char.add(np.char.add(graph, "@"), kept["device"][held])
            for method in (*METHODS, *ABLATIONS):
                found = said.get(f"{name}|{method}")
                if found is None:
                    continue
                time, energy = log_errors(np.exp(found), np.exp(truth)).tolist()
                order = order_within(found[:, 0], truth[:, 0], key)
                rows.append(
                    {
                        "seed": seed,
                        "split": name,
                        "method": method,
                        "time": time,
                        "energy": energy,
                        "order": order,
                    }
                )
                if name.startswith("families") and method in against:
                    mine = said[f"{name}|{OURS}"]
                    where = np.char.add(np.char.add(graph, " "), str(seed))
                    against[method].append(
                        (np.abs(mine - truth)[:, 0], np.abs(found - truth)[:, 0], where)
                    )
            for title, ends in (
                ("conformal", ("low", "high")),
                ("evidential", ("network low", "network high")),
            ):
                if f"{name}|{ends[0]}" in said:
                    low, high = (said[f"{name}|{end}"] for end in ends)
                    inside = ((low <= truth) & (truth <= high)).mean(axis=0).tolist()
                    width = (high - low).mean(axis=0).tolist()
                    ours.append(
                        {
                            "seed": seed,
                            "split": name,
                            "kind": title,
                            "inside": inside,
                            "width": width,
                        }
                    )
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
    """Mean errors of time and energy over splits and seeds, mean order, and how many splits.

    `beside` another method: over the splits alone that it was scored on.
    """
    places = {
        (r["seed"], r["split"]) for r in results["scores"] if r["method"] == (beside or method)
    }
    own = [
        r
        for r in results["scores"]
        if r["method"] == method
        and r["split"].split()[0] == group
        and (r["seed"], r["split"]) in places
    ]
    if not own:
        return np.nan, np.nan, np.nan, 0
    time, energy, order = (float(np.mean([r[k] for r in own])) for k in ("time", "energy", "order"))
    return time, energy, order, len(own)


def error_table(results: dict[str, Any]) -> str:
    rows = []
    named = [(method, method, "") for method in METHODS]
    named += [(f"{OURS}, on splits of networks", OURS, "network")]
    for title, method, beside in named:
        cells = []
        for group in GROUPS:
            time, energy, order, n = means(results, method, group, beside)
            cells.append(f"{time:.3f} / {energy:.3f} ({order:.2f}; {n})" if n else "—")
        rows.append([title, *cells])
    floor = results["floor"]
    asked = [f"≤ {a * floor[0]:.3f} / {b:.3f}" for a, b in (CONTEXTS_ASKED, FAMILIES_ASKED)]
    asked += [f"≤ {PLATFORM_ASKED:.3f}", f"≤ {AFTER_ASKED:.3f}"]
    rows.append(["*asked of the default*", *asked])
    head = ["time / energy (order; splits)", "unseen contexts", "unseen families"]
    return markdown([*head, "unseen platform", f"after {NEW_RUNS} of its runs"], rows)


def interval_table(results: dict[str, Any]) -> str:
    rows = []
    for kind in ("conformal", "evidential"):
        for group in GROUPS:
            own = [
                r
                for r in results["intervals"]
                if r["kind"] == kind and r["split"].split()[0] == group
            ]
            if not own:
                continue
            inside = np.array([r["inside"] for r in own]) * 100
            width = np.mean([r["width"] for r in own], axis=0)
            mean, least = inside.mean(axis=0), inside.min(axis=0)
            rows.append(
                [
                    f"{kind}, {group}",
                    f"{mean[0]:.1f} / {mean[1]:.1f} %",
                    f"{least[0]:.1f} / {least[1]:.1f} %",
                    f"{width[0]:.3f} / {width[1]:.3f}",
                    str(len(own)),
                ]
            )
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
        own = [
            r
            for r in results["scores"]
            if r["method"] == method and r["split"] in where and r["seed"] == 0
        ]
        if own:
            time, energy, order = (
                np.mean([r[k] for r in own]) for k in ("time", "energy", "order")
            )
            rows.append([method, f"{time:.3f}", f"{energy:.3f}", f"{order:.3f}"])
    return markdown(["an eighth of the families held out", "time", "energy", "order"], rows)


def draw(results: dict[str, Any]) -> None:
    """Errors of all methods, and coverage of every split."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
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
        own = [r for r in results["intervals"] if r["kind"] == kind]
        inside = [100 * r["inside"][0] for r in own]
        axes[1].plot([r["width"][0] for r in own], inside, marker, label=kind, alpha=0.7)
    axes[1].axhline(95, color="black", linewidth=0.8)
    axes[1].set_xlabel("width of 95 % intervals of log time")
    axes[1].set_ylabel("runs inside [%]")
    axes[1].legend(fontsize="small")
    figure.savefig(RESULTS / "graph.png", dpi=90)
    pyplot.close(figure)
