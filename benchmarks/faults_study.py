"""Fits to measurements with faults, beside fits to the same measurements without.

Faults in the known contexts of the six tasks are listed in ``benchmarks/faults.md``. For drifts
(``d``) each run is replayed on a machine as slow as at the start of the run, and the clean fit is
to replays on a steady machine. To share out counts evenly within intervals, as the other faults do,
would blur every run.

Every fit is scored on test contexts. Peers are the fit to the clean data (the limit), the fit to
everything, and the fit without contexts whose duration is three deviations from the median of their
neighbours.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import xarray as xr
from fidelity_peers import relabelled
from fidelity_scores import at_levels, made_by
from numpy.typing import NDArray
from tables import PROFILES, RESULTS, TASKS, cached, markdown, publish, store, stored

import msbgen
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    STARTED,
    context_table,
    duration_array,
    sampling_interval,
)
from msbgen.engine.faults.findings import Findings, StretchedRun, WrongCount
from msbgen.engine.generate.detection import detect_faults
from msbgen.sources.platform.replay import replay_trace
from msbgen.sources.platform.trace import read_trace

Floats = NDArray[np.float64]

FAULTS = ("a", "b", "c", "ac", "d", "e")
# Numbers of known contexts, and of runs.
DESIGNS = tuple(product((125, 27), (10, 1)))
NAMES = tuple(f"{contexts}x{runs}" for contexts, runs in DESIGNS)
SEEDS = (0, 1, 2)
# The design with several draws; the others have one.
_MOST_UNSURE = (27, 1)
PARTS = ("named", "fits", "peers")
# Every fourth test context.
SOME = slice(0, None, 4)
METHODS = ("robust", "unweighted", "median rule")
METRICS = ("ndtw", "ndtw_scaled", "duration_error")
# Slowness of a fault, its share of contexts, of runs, and of the length of a run.
_SLOWER, _CONTEXTS, _RUNS, _LENGTH = (1.3, 3.0), 0.04, 0.1, (0.1, 1 / 3)
_DRIFT, _ABSURD, _POWERS = 0.05, 1e-5, (32, 48)
# Least change of a duration by an exchange, and least factor of a slow context, that count.
_MOVES, _PLAIN = 0.2, 1.5


@dataclass
class Truth:
    """The faults that were put into a dataset: factors of slow contexts, and the places of others.

    ``moved`` is the change of the logarithm of a duration by the exchange of two contexts. Places
    of stretched runs and absurd counts are pairs of context and run.
    """

    slow: dict[int, float] = field(default_factory=dict)
    exchanged: tuple[int, ...] = ()
    moved: float = 0.0
    stretched: set[tuple[int, int]] = field(default_factory=set)
    absurd: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Run:
    """One run: events (intervals, k), and its length [s]."""

    counts: Floats
    duration: float

    def slowed(self, interval: float, factor: float, begin: float = 0.0, end: float = 1.0) -> Run:
        """The run slowed by a factor between two shares of its time, sampled as before."""
        n, k = self.counts.shape
        edges = np.append(interval * np.arange(n), self.duration)
        reached = np.concatenate([np.zeros((1, k)), np.cumsum(self.counts, axis=0)])
        times = np.union1d(edges, self.duration * np.array([begin, end]))
        there = np.column_stack([np.interp(times, edges, reached[:, j]) for j in range(k)])
        spent = np.clip(times / self.duration, begin, end) - begin
        later = times + spent * self.duration * (factor - 1.0)
        longer = float(later[-1])
        ends = np.minimum(interval * np.arange(np.ceil(longer / interval - 1e-9) + 1), longer)
        out = np.column_stack([np.interp(ends, later, there[:, j]) for j in range(k)])
        return Run(np.diff(out, axis=0), longer)


def spoil(clean: xr.Dataset, faults: str, rng: np.random.Generator) -> tuple[xr.Dataset, Truth]:
    """The dataset with faults, and the faults."""
    counts, duration = Profiles.of(clean).counts, duration_array(clean)
    interval, (n, repeats), truth = sampling_interval(clean), duration.shape, Truth()
    runs = _runs_of(counts, duration)
    if "a" in faults:
        for i in rng.choice(n, max(1, round(_CONTEXTS * n)), replace=False).tolist():
            truth.slow[i] = float(rng.uniform(*_SLOWER))
            runs[i] = [run.slowed(interval, truth.slow[i]) for run in runs[i]]
    if "b" in faults:
        for i, r in product(range(n), range(repeats)):
            if rng.random() < _RUNS:
                length = rng.uniform(*_LENGTH)
                begin = rng.uniform(0.0, 1.0 - length)
                factor = rng.uniform(*_SLOWER)
                runs[i][r] = runs[i][r].slowed(interval, factor, begin, begin + length)
                truth.stretched.add((i, r))
    if "c" in faults:
        free = np.setdiff1d(np.arange(n), list(truth.slow))
        i, j = sorted(rng.choice(free, 2, replace=False).tolist())
        runs[i], runs[j] = runs[j], runs[i]
        truth.exchanged = (i, j)
        truth.moved = float(abs(np.log(duration[i].mean() / duration[j].mean())))
    out = _together(runs)
    if "e" in faults:
        places = np.argwhere(np.isfinite(out))
        some = rng.choice(len(places), max(1, round(_ABSURD * len(places))), replace=False)
        for place in places[some].tolist():
            out[tuple(place)] = 2.0 ** rng.uniform(*_POWERS)
            truth.absurd.add((place[0], place[1]))
    return _like(clean, out, runs), truth


def _runs_of(counts: Floats, duration: Floats) -> list[list[Run]]:
    return [
        [Run(own[np.isfinite(own).all(axis=1)], float(d)) for own, d in zip(*row)]
        for row in zip(counts, duration)
    ]


def _together(runs: Sequence[Sequence[Run]]) -> Floats:
    """Counts with a context a row, (n_contexts, n_runs, n_times, k); NaN after the ends."""
    longest = max(len(run.counts) for row in runs for run in row)
    out = np.full((len(runs), len(runs[0]), longest, runs[0][0].counts.shape[1]), np.nan)
    for i, r in product(*map(range, out.shape[:2])):
        out[i, r, : len(runs[i][r].counts)] = runs[i][r].counts
    return out


def _like(dataset: xr.Dataset, counts: Floats, runs: Sequence[Sequence[Run]]) -> xr.Dataset:
    """The dataset with other counts, and the lengths of the runs."""
    duration = np.array([[run.duration for run in row] for row in runs])
    return relabelled(dataset, counts, duration, attrs=dataset.attrs)


def drift(measured: xr.Dataset, task: str, rng: np.random.Generator) -> tuple[xr.Dataset, ...]:
    """Replays of a task on a steady machine, and on one that slows down."""
    trace, interval = read_trace(PROFILES / "traces" / f"{task}.nc"), sampling_interval(measured)
    table, (n, repeats) = context_table(measured), duration_array(measured).shape
    seed = int(rng.integers(2**31))
    clean = replay_trace(trace, table, repeats, interval, seed)
    began, order = np.zeros((n, repeats)), rng.permutation(n * repeats)
    began.flat[order] = np.arange(n * repeats)
    runs: list[list[Run]] = []
    for context, places in zip(table, began):
        runs.append([])
        for r, place in enumerate(places):
            # a slower machine does less in an interval: it is the same run in its own time
            factor = 1.0 + _DRIFT * (place / (n * repeats - 1) - 0.5)
            own = replay_trace(trace, context[None], r + 1, interval / factor, seed)
            counts = Profiles.of(own).counts[0, r]
            counts = counts[np.isfinite(counts).all(axis=1)]
            runs[-1].append(Run(counts, factor * float(duration_array(own)[0, r])))
    spoilt = _like(clean, _together(runs), runs)
    spoilt[STARTED] = ("context", "run"), began, {"units": "s"}
    return clean, spoilt


def spoilt_case(
    task: str, kind: str, contexts: int, runs: int, seed: int, *, scattered: bool = False
) -> tuple[xr.Dataset, xr.Dataset, Truth]:
    """Known profiles of a task without and with faults of a kind, and the faults."""
    clean = known(task, contexts, runs, seed, scattered=scattered)
    rng = np.random.default_rng([seed, contexts, runs, *task.encode(), *kind.encode()])
    if kind == "d":
        return *drift(clean, task, rng), Truth()
    if kind == "8 %":
        return clean, _noisy(clean, rng), Truth()
    return clean, *spoil(clean, kind, rng)


def known(task: str, contexts: int, runs: int, seed: int, *, scattered: bool = False) -> xr.Dataset:
    """Some contexts and runs of a task; single runs are drawn at random.

    Contexts are those of its grid or, if scattered, test contexts drawn at random.
    """
    train = msbgen.read_profiles(PROFILES / f"{task}{'-truth' if scattered else ''}.nc")
    if scattered:
        drawn = np.random.default_rng(seed).choice(train.sizes["context"], contexts, replace=False)
        train = train.isel(context=np.sort(drawn))
    elif contexts < train.sizes["context"]:
        train = at_levels(train, (0, 2, 4), runs=train.sizes["run"])
    if runs == 1:
        return train.isel(run=[int(np.random.default_rng(seed).integers(train.sizes["run"]))])
    return train.isel(run=slice(0, runs))


def _among(names: Sequence[str]) -> list[tuple[int, int]]:
    return [design for design, name in zip(DESIGNS, NAMES) if name in names]


def _seeds(contexts: int, runs: int, seeds: Sequence[int]) -> Sequence[int]:
    """Draws of faults for a number of contexts and runs."""
    return seeds if (contexts, runs) == _MOST_UNSURE else seeds[:1]


def named(task: str, seeds: Sequence[int] = SEEDS, designs: Sequence[str] = NAMES) -> dict:
    """Counts of faults that were put in and found, by design and fault."""
    out: dict[str, dict[str, int]] = {}
    grids = _among(designs)
    single = [design for design in grids if design[1] == 1]
    cases = [(False, *case) for case in product(grids, ("", "8 %", *FAULTS), seeds)]
    cases += [(True, *case) for case in product(single, ("", "a", "c", "ac"), seeds)]
    for scattered, (contexts, runs), faults, seed in cases:
        if seed not in _seeds(contexts, runs, seeds):
            continue
        _, spoilt, truth = spoilt_case(task, faults, contexts, runs, seed, scattered=scattered)
        found = detect_faults(Profiles.of(spoilt), clock=1)
        whole = {
            i for f in found if f.kind not in ("stretched", "count") for i in f.contexts
        }  # fmt: skip
        parts = {(f.contexts[0], f.run) for f in found if isinstance(f, StretchedRun)}
        cells = {(f.contexts[0], f.run) for f in found if isinstance(f, WrongCount)}
        plain = {i for i, factor in truth.slow.items() if factor >= _PLAIN}
        guilty = {*truth.slow, *truth.exchanged, *(i for i, _ in truth.stretched)}
        guilty |= {i for i, _ in truth.absurd}
        counted = abs(truth.moved) >= np.log1p(_MOVES)
        place = f"{contexts}{' scattered' if scattered else ''} x {runs}"
        row = out.setdefault(f"{place}, {faults or 'clean'}", {})
        for name, value in {
            "contexts": contexts,
            "false alarms": len((whole | {i for i, _ in parts | cells}) - guilty),
            "slow": len(plain),
            "slow, named": len(plain & (whole | {i for i, _ in parts})),
            "exchanged": int(counted),
            "exchanged, named": int(counted and set(truth.exchanged) <= whole),
            "stretched": len(truth.stretched),
            "stretched, named": len(truth.stretched & parts),
            "absurd": len(truth.absurd),
            "absurd, named": len(truth.absurd & cells),
            "drift": int(faults == "d"),
            "drift, named": int(faults == "d" and any(f.kind == "drift" for f in found)),
        }.items():
            row[name] = row.get(name, 0) + value
    return out


def _noisy(clean: xr.Dataset, rng: np.random.Generator) -> xr.Dataset:
    """The dataset with every run faster or slower by 8 %, in the root mean square."""
    interval = sampling_interval(clean)
    runs = [
        [run.slowed(interval, float(np.exp(0.08 * rng.standard_normal()))) for run in row]
        for row in _runs_of(Profiles.of(clean).counts, duration_array(clean))
    ]
    return _like(clean, _together(runs), runs)


def without_outliers(dataset: xr.Dataset) -> xr.Dataset:
    """The contexts whose duration is within three deviations of their neighbours' median."""
    place = np.log(context_table(dataset))
    place = (place - place.min(axis=0)) / np.maximum(np.ptp(place, axis=0), 1e-12)
    logs = np.log(duration_array(dataset).mean(axis=1))
    apart = ((place[:, None] - place[None]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1, kind="stable")[:, :6]
    departure = logs - np.median(logs[near], axis=1)
    departure -= np.median(departure)
    usual = 1.4826 * np.median(np.abs(departure))
    return dataset.isel(context=np.flatnonzero(np.abs(departure) <= 3.0 * usual))


def _fitted(dataset: xr.Dataset, *, robust: bool) -> msbgen.ProfileModel:
    if robust:
        return msbgen.fit_profiles(dataset)
    with patch("msbgen.engine.generate.fit.detect_faults", return_value=Findings()):
        return msbgen.fit_profiles(dataset)


def _caps(model: msbgen.ProfileModel) -> list[tuple[int, int]]:
    """Counter and resource of each cap that the trend found."""
    return [(cap.counter, cap.resource) for cap in model.distribution.centre.trend.caps]


def fits(part: str, task: str, contexts: int, runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Scores of fits by fault and method: ours and the clean fit, or the peers."""
    truth = msbgen.read_profiles(PROFILES / f"{task}-truth.nc").isel(context=SOME)
    measured, models = known(task, contexts, runs, seed), {}
    for kind in FAULTS:
        clean, spoilt, _ = spoilt_case(task, kind, contexts, runs, seed)
        if part == "fits":
            if _limit(kind) not in models:
                models[_limit(kind)] = _fitted(clean, robust=True)
            models[f"{kind}/robust"] = _fitted(spoilt, robust=True)
        else:
            models[f"{kind}/unweighted"] = _fitted(spoilt, robust=False)
            models[f"{kind}/median rule"] = _fitted(without_outliers(spoilt), robust=False)
    # counters are scaled by the clean counts for all fits
    methods = {name: made_by(model) for name, model in models.items()}
    scores = msbgen.summarise(msbgen.score_methods(measured, truth, methods))["methods"]
    out = {name: {metric: own[metric] for metric in METRICS} for name, own in scores.items()}
    for name in out if part == "fits" else ():
        limit = models[_limit(name.partition("/")[0])]
        out[name]["caps alike"] = float(_caps(models[name]) == _caps(limit))
    return out


def _limit(kind: str) -> str:
    """Name of the clean fit that a fit to data with such faults is compared with."""
    return "d/clean" if kind == "d" else "clean"


def run(
    parts: Sequence[str],
    tasks: Sequence[str],
    seeds: int,
    work: Path | None,
    jobs: int,
    designs: Sequence[str],
) -> None:
    """Measure the parts; write JSON and, of all tasks, the tables.

    Fits are kept in the folder `work`, one file a part, task, design and seed. Peers are fitted to
    the first draw of faults only.
    """
    chosen = SEEDS[:seeds]
    whole = tuple(tasks) == TASKS and chosen == SEEDS
    with ProcessPoolExecutor(jobs) as pool:
        if "named" in parts:
            some = [chosen] * len(tasks), [designs] * len(tasks)
            results = dict(zip(tasks, pool.map(named, tasks, *some)))
            _publish("named", results, _named_table(results), whole=whole)
        # the cheapest first, so that errors show early
        cells = [
            (part, task, *design, seed)
            for part in PARTS[1:]
            if part in parts
            for design in reversed(_among(designs))
            for seed in (_seeds(*design, chosen) if part == "fits" else SEEDS[:1])
            for task in tasks
        ]
        if cells:
            results = dict(zip(map(_name, cells), pool.map(partial(cached_fits, work), cells)))
            table = _fits_table(results, tasks, chosen, _among(designs))
            _publish("fits", results, table, whole=whole)


def _publish(part: str, results: dict[str, dict], table: str, *, whole: bool) -> None:
    if whole:
        store(RESULTS / f"dirty-{part}.json", results)
        publish({f"dirty-{part}": table})
    else:
        print(f"\n{part}\n\n{table}", flush=True)


def tables() -> dict[str, str]:
    """All tables of the page."""
    fitted = _fits_table(stored("dirty-fits"), TASKS, SEEDS, DESIGNS)
    return {"dirty-named": _named_table(stored("dirty-named")), "dirty-fits": fitted}


Cell = tuple[str, str, int, int, int]


def _name(cell: Cell) -> str:
    part, task, contexts, runs, seed = cell
    return f"{part}-{task}-{contexts}x{runs}-{seed}"


def cached_fits(work: Path | None, cell: Cell) -> dict[str, dict[str, float]]:
    """`fits` of a cell, read from the folder if they are there."""
    return cached(work and work / f"{_name(cell)}.json", partial(fits, *cell))


def _named_table(results: dict[str, dict]) -> str:
    rows = []
    for case in results[next(iter(results))]:
        total: dict[str, int] = {}
        for result in results.values():
            for name, value in result[case].items():
                total[name] = total.get(name, 0) + value
        cells = [f"{total['false alarms']} of {total['contexts']}"]
        for name in ("slow", "exchanged", "stretched", "absurd", "drift"):
            wanted = total[name]
            cells.append(f"{total[f'{name}, named']} of {wanted}" if wanted else "—")
        rows.append([case, *cells])
    header = ["contexts × runs, fault", "false alarms"]
    names = ["slow", "exchanged", "stretched runs", "absurd counts", "drifts"]
    return markdown([*header, *names], rows)


def _fits_table(
    results: dict[str, dict],
    tasks: Sequence[str],
    seeds: Sequence[int],
    designs: Sequence[tuple[int, int]],
) -> str:
    """Errors over those of the clean fit, means over the seeds: mean and worst of the tasks."""

    def ratio(case: tuple[str, int, int], kind: str, method: str, metric: str) -> float:
        """Ratio over the draws to which the method was fitted; NaN without one."""
        part = "fits" if method == METHODS[0] else "peers"
        names = [(_name((part, *case, seed)), _name(("fits", *case, seed))) for seed in seeds]
        pairs = [
            (results[own][f"{kind}/{method}"][metric], results[clean][_limit(kind)][metric])
            for own, clean in names
            if own in results and clean in results
        ]
        own, clean = np.sum(pairs, axis=0) if pairs else (np.nan, np.nan)
        return float(own / clean)

    rows = []
    for (contexts, runs), kind in product(designs, FAULTS):
        cases = [(task, contexts, runs) for task in tasks]
        row = [f"{contexts} x {runs}, {kind}"]
        for method, metric in product(METHODS, METRICS[:2]):
            ratios = [ratio(case, kind, method, metric) for case in cases]
            known = np.isfinite(ratios).all()
            row.append(f"{np.mean(ratios):.2f} ({max(ratios):.2f})" if known else "—")
        alike = np.mean([ratio(case, kind, METHODS[0], "caps alike") for case in cases])
        rows.append([*row, f"{alike:.0%}"])
    header = [f"{name}, {metric}" for name in METHODS for metric in ("raw", "scaled")]
    return markdown(["contexts × runs, fault", *header, "caps alike"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--seeds", type=int, choices=(1, 2, 3), default=3, help="draws of faults")
    parser.add_argument("--designs", nargs="+", choices=NAMES, default=[*NAMES])
    parser.add_argument("--work", type=Path, help="folder that keeps the fits, to go on later")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    run(options.only, options.tasks, options.seeds, options.work, options.jobs, options.designs)
