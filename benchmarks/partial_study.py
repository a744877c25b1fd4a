"""Partial measurements: groups of counters, runs cut short, lost samples.

``python benchmarks/reproduce.py partial [--tasks …] [--designs 27x3 125x10] [--cases a b …] [--only
errors joint] [--work FOLDER] [--no-run]``. The work folder keeps finished studies.

Six programs are replayed from their traces. A design is a number of contexts and of runs of each
counter. Cases and peers are listed in ``benchmarks/partial.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast
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
    context_table,
    duration_array,
    sampling_interval,
)
from msbgen.engine.generate.progress_distribution import ProgressDistribution
from msbgen.engine.generate.residuals import Residuals
from msbgen.sources.platform import PlatformConfig
from msbgen.sources.platform.replay import _Program, replay_trace
from msbgen.sources.platform.trace import read_trace

Floats = NDArray[np.float64]

CASES = ("a", "b", "c", "d", "e lost", "e carried", "f")
DESIGNS = ("27x3", "125x10")
PARTS = ("errors", "joint")
# Cases with joint clouds.
_JOINT_CASES = ("a", "b")
# Step of the test contexts of joint clouds, test runs, and samples.
_EVERY, _TRUTH_RUNS, _SAMPLES = 8, 30, 30
# Seeds of the measured and of the tested replays.
_MEASURED, _TRUTH = 21, 22
_SLOWEST, _LOST = 1 / 3, 0.02
_RATES = (0.05, 0.1)


def replayed(task: str, contexts: Floats, runs: int, seed: int, *, streams: bool) -> xr.Dataset:
    """Whole runs; with `streams`, misses on demand and prefetched ones instead of requests."""
    trace = read_trace(PROFILES / "traces" / f"{task}.nc")
    if not streams:
        return replay_trace(trace, contexts, runs, rng=seed)
    plain = _Program.table

    def demanded(
        program: _Program, ways: int, colouring: int, config: PlatformConfig
    ) -> tuple[Floats, ...]:
        events, *times = plain(program, ways, colouring, config)
        events = events.copy()
        events[:, 1] = program.histogram[colouring, 0, ways:].sum(axis=0)
        return events, *times

    with patch.object(_Program, "table", demanded):
        ds = replay_trace(trace, contexts, runs, rng=seed)
    counts = Profiles.of(ds).counts
    # in float32, the second is the sum of demand misses and all misses
    demand = np.clip(counts[..., 1] - counts[..., 2], 0.0, counts[..., 2])
    counts = np.stack([counts[..., 0], demand, counts[..., 2] - demand], axis=-1)
    names = ("instructions", "demand_misses", "prefetched_misses")
    return _rebuilt(ds, counts, duration_array(ds), counters={name: {} for name in names})


@cache
def tested(task: str, *, streams: bool) -> xr.Dataset:
    """The test runs, in all shipped test contexts."""
    tested_contexts = context_table(msbgen.read_profiles(PROFILES / f"{task}-truth.nc"))
    return replayed(task, tested_contexts, _TRUTH_RUNS, _TRUTH, streams=streams)


def known_contexts(task: str, n: int) -> Floats:
    """The 125 contexts of the shipped grid, or 27 of them at every second level."""
    known = msbgen.read_profiles(PROFILES / f"{task}.nc")
    return context_table(at_levels(known, range(5) if n == 125 else (0, 2, 4), runs=1))


def _rebuilt(ds: xr.Dataset, counts: Floats, duration: Floats, **other: Any) -> xr.Dataset:
    attrs = {k: v for k, v in ds.attrs.items() if k in ("task", "platform", "source")}
    return relabelled(ds, counts, duration, attrs=attrs, **other)


def in_groups(ds: xr.Dataset) -> xr.Dataset:
    """The dataset with the second counter in even runs only, and the third in odd ones."""
    counts = Profiles.of(ds).counts
    counts[:, 1::2, :, 1] = np.nan
    counts[:, 0::2, :, 2] = np.nan
    return _rebuilt(ds, counts, duration_array(ds))


def cut(ds: xr.Dataset, ends: Floats) -> xr.Dataset:
    """Runs cut at shares (n, runs) of their durations, at a whole interval; 1 for none."""
    counts, duration, interval = (
        Profiles.of(ds).counts,
        duration_array(ds).copy(),
        sampling_interval(ds),
    )
    complete = ends >= 1
    kept = np.maximum(np.floor(ends * duration / interval), 1).astype(int)
    for c, r in np.argwhere(~complete):
        counts[c, r, kept[c, r] :] = np.nan
        duration[c, r] = kept[c, r] * interval
    return _rebuilt(ds, counts, duration, complete=complete)


def lost(ds: xr.Dataset, kind: str, rng: np.random.Generator) -> xr.Dataset:
    """The dataset without 2 % of the samples; with "carried", the next sample holds them."""
    counts = Profiles.of(ds).counts
    there = np.asarray(np.isfinite(counts).any(axis=-1))
    last = there & ~np.roll(there, -1, axis=2)
    last[:, :, -1] = there[:, :, -1]
    gone = there & (rng.random(there.shape) < _LOST) & ~last
    if kind == "carried":
        for t in range(counts.shape[2] - 1):
            counts[:, :, t + 1] += np.where(gone[:, :, t, None], counts[:, :, t], 0.0)
    counts[gone] = np.nan
    complete = ds["complete"].values.astype(bool) if "complete" in ds else None
    labels = {
        name: {**label, "gaps": kind} for name, label in Profiles.of(ds).counter_attrs.items()
    }
    return _rebuilt(ds, counts, duration_array(ds), counters=labels, complete=complete)


def taken_away(whole: xr.Dataset, case: str, seed: int) -> xr.Dataset:
    """The partial measurements of a case."""
    rng = np.random.default_rng([seed, *case.encode()])
    duration = duration_array(whole)
    slow = np.argsort(duration.mean(axis=1))[-round(_SLOWEST * len(duration)) :]
    ends = np.ones(duration.shape)
    if case in ("c", "f"):
        pairs = np.arange(duration.shape[1]) // (2 if case == "f" else 1)
        ends[slow] = np.where(pairs % 2 == 0, 0.5, 1.0)
    if case == "d":
        ends[slow] = rng.uniform(0.1, 0.9, (len(slow), duration.shape[1]))
    partial = in_groups(whole) if case in "abf" else whole
    partial = cut(partial, ends) if case in "cdf" else partial
    kind = {"e carried": "carried", "e lost": "lost", "f": "lost"}.get(case)
    return lost(partial, kind, rng) if kind else partial


def whole_runs(partial: xr.Dataset) -> xr.Dataset | None:
    """The dataset without partial runs; None if no run is left."""
    counts, duration = Profiles.of(partial).counts, duration_array(partial).copy()
    names = list(Profiles.of(partial).counter_attrs)
    raw = np.stack([partial[name].values for name in names], axis=-1)
    inside = np.arange(raw.shape[2]) < np.isfinite(counts).any(axis=-1).sum(axis=2)[..., None]
    whole = (np.isfinite(raw).all(axis=-1) | ~inside).all(axis=2)
    if "complete" in partial:
        whole &= partial["complete"].values.astype(bool)
    if not whole.any():
        return None
    raw[~whole], duration[~whole] = np.nan, np.nan
    kept = np.flatnonzero(whole.any(axis=1))
    return _rebuilt(partial, raw, duration).isel(context=kept)


def independent(coarse: Floats, lag: Floats, place: Floats, run_context: Any, **_: Any) -> Any:
    """Random donors among the runs of the same context that hold the quantity."""
    rng = np.random.default_rng(0)
    return _whole_donors(coarse, run_context, lambda run, others: int(rng.choice(others)))


def nearest_run(coarse: Floats, lag: Floats, place: Floats, run_context: Any, **_: Any) -> Any:
    """Donors with the most similar time, segment by segment."""
    shared = np.isfinite(coarse).all(axis=(0, 1))
    own = np.concatenate([coarse[..., shared], lag[..., shared]], axis=2)
    own /= own.std(axis=(0, 1))

    def nearest(run: int, others: Any) -> int:
        return int(others[((own[others] - own[run]) ** 2).sum(axis=(1, 2)).argmin()])

    return _whole_donors(coarse, run_context, nearest)


def _whole_donors(coarse: Floats, run_context: Any, choose: Callable[[int, Any], int]) -> Any:
    n, _, k = coarse.shape
    donor = np.broadcast_to(np.arange(n)[:, None, None], coarse.shape).copy()
    holds = np.asarray(np.isfinite(coarse).all(axis=1))
    for run, q in product(range(n), range(k)):
        if not holds[run, q]:
            others = np.flatnonzero(holds[:, q] & (run_context == run_context[run]))
            donor[run, :, q] = choose(run, others)
    return donor


_JOINED: dict[str, Callable[..., Any]] = {"independent": independent, "nearest run": nearest_run}


def fitted_and_asked(
    partial: xr.Dataset,
) -> tuple[msbgen.ProfileModel, Callable[..., Residuals], tuple[Any, ...], dict[str, Any]]:
    """The fit to partial runs, and the call of its residuals: function, arguments, names."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    fit = Residuals.fit

    def noted(*given: Any, **named: Any) -> Residuals:
        calls.append((given, named))
        return fit(*given, **named)

    with patch.object(Residuals, "fit", noted):
        model = msbgen.fit_profiles(partial)
    ((given, named),) = calls
    return model, fit, given, named


def fitted_apart(partial: xr.Dataset) -> dict[str, msbgen.ProfileModel]:
    """The fit to partial runs, and the peers, which differ in their donors."""
    own, fit, given, named = fitted_and_asked(partial)
    models = {"partial": own}
    for name, donors in _JOINED.items():
        with patch("msbgen.engine.generate.residuals.find_donors", donors):
            distribution = replace(
                cast(ProgressDistribution, own.distribution), residuals=fit(*given, **named)
            )
        models[name] = replace(own, distribution=distribution)
    return models


@dataclass(frozen=True)
class Study:
    """A case of a task and design; ``limit`` and ``limit b`` are the references.

    The part is ``errors`` or ``joint``.
    """

    task: str
    design: str
    case: str
    part: str = "errors"

    @property
    def name(self) -> str:
        part = "" if self.part == "errors" else f"-{self.part}"
        return f"{self.design}-{self.task}-{self.case}{part}".replace(" ", "-")

    @property
    def limit(self) -> Study:
        return replace(self, case="limit b" if self.case.endswith("b") else "limit")

    def scores(self) -> dict[str, Any]:
        """Figures of every fit, by its name."""
        contexts, runs = map(int, self.design.split("x"))
        streams = self.case.endswith("b")
        known = known_contexts(self.task, contexts)
        whole = replayed(self.task, known, 2 * runs, _MEASURED, streams=streams)
        truth = tested(self.task, streams=streams)
        train = whole.isel(run=slice(0, runs))
        if self == self.limit:
            measured = {"limit": train}
        else:
            partial = taken_away(whole if self.case in "abf" else train, self.case, _MEASURED)
            left = whole_runs(partial)
            measured = {"partial": partial} | ({} if left is None else {"whole runs": left})
        if self.part == "joint":
            clouds = truth.isel(context=slice(None, None, _EVERY))
            if self == self.limit:
                return _energies(train, clouds, {"limit": msbgen.fit_profiles(train)})
            return _energies(train, clouds, fitted_apart(measured["partial"]))
        models = {name: msbgen.fit_profiles(data) for name, data in measured.items()}
        out = _errors(train, truth, models)
        for name, data in measured.items():
            out[name] |= _coverage(models[name], data, truth)
        if self.case == "d":
            marked = models["partial"].generate(known, kind="mean")["extrapolated"].values
            out["partial"]["marked"] = int(marked.sum())
        return out


def _errors(
    train: xr.Dataset, truth: xr.Dataset, models: dict[str, msbgen.ProfileModel]
) -> dict[str, dict[str, Any]]:
    """Errors of mean profiles, mean of the test contexts."""
    methods = {name: made_by(model) for name, model in models.items()}
    scored = msbgen.score_methods(train, truth, methods)["score"].mean("context")
    metrics = ("ndtw", "ndtw_scaled", "duration_error")
    return {
        name: {m: float(scored.sel({"method": name, "metric": m})) for m in metrics}
        for name in models
    }


def _energies(
    train: xr.Dataset, truth: xr.Dataset, models: dict[str, msbgen.ProfileModel]
) -> dict[str, dict[str, Any]]:
    """Energy distances of samples, context by context."""
    drawn = {"kind": "sample", "n_samples": _SAMPLES, "rng": 3}
    methods = {name: made_by(model, **drawn) for name, model in models.items()}
    scored = msbgen.score_methods(train, truth, methods)["score"].sel(metric="energy_distance")
    return {name: {"energies": scored.sel({"method": name}).values.tolist()} for name in models}


def _coverage(
    model: msbgen.ProfileModel, measured: xr.Dataset, truth: xr.Dataset
) -> dict[str, float]:
    """Shares of the test runs within their bounds, for the rates that the contexts support."""
    calibrated = msbgen.calibrate_model(model, measured)
    took, out = duration_array(truth), {}
    for rate in _RATES:
        with suppress(msbgen.MeasurementError):
            bound = calibrated.duration_bound(context_table(truth), rate)
            out[f"within {1 - rate:.0%}"] = float((took <= bound[:, None]).mean())
    return out


def run(
    tasks: Sequence[str],
    designs: Sequence[str],
    cases: Sequence[str],
    parts: Sequence[str],
    work: Path | None,
    *,
    do: bool = True,
) -> None:
    """Compute every design; write its JSON and, of all tasks and cases, its tables.

    Finished studies are read from the folder `work`. Without `do` only these are reported.
    """
    for design, part in product(designs, parts):
        studied = [case for case in cases if part == "errors" or case in _JOINT_CASES]
        done: dict[Study, dict[str, Any]] = {}
        results: dict[str, dict[str, Any]] = {}
        for case, task in product(studied, tasks):
            study = Study(task, design, case, part)
            for one in (study.limit, study):
                file = work and work / f"{one.name}.json"
                if one not in done and (do or (file and file.exists())):
                    done[one] = cached(file, one.scores)
                    print(one.name, flush=True)
            if study in done and study.limit in done:
                results.setdefault(task, {})[case] = _beside_limit(done, study)
        name = f"partial-{design}" if part == "errors" else f"partial-{design}-{part}"
        table = errors_table(results) if part == "errors" else joint_table(results)
        if tuple(tasks) == TASKS and tuple(cases) == CASES:
            store(RESULTS / f"{name}.json", results)
            publish({name: table})
        else:
            print(f"\n{table}", flush=True)


def _beside_limit(done: dict[Study, dict[str, Any]], study: Study) -> dict[str, dict[str, float]]:
    """Figures of a case with those of its limit; energy distances beyond the limit's."""
    every = {**done[study.limit], **done[study]}
    if study.part == "errors":
        return every
    limit, out = np.array(every["limit"]["energies"]), {}
    for name, figures in every.items():
        energy = np.array(figures["energies"])
        out[name] = {
            "energy": float(energy.mean()),
            "beyond limit": float((energy - limit).mean()),
            "standard error": float((energy - limit).std(ddof=1) / len(energy) ** 0.5),
        }
    return out


def errors_table(results: dict[str, Any]) -> str:
    """Errors over those of the limit, mean of the tasks (worst), and coverage."""
    header = ["case", "tasks", "method", "nDTW", "scaled", "duration error", *_within()]
    rows = []
    for case in CASES:
        every = [result[case] for result in results.values() if case in result]
        for name in ("limit", "partial", "whole runs"):
            if not every or any(name not in one for one in every):
                continue
            cells = []
            for metric in ("ndtw", "ndtw_scaled"):
                ratio = [one[name][metric] / one["limit"][metric] for one in every]
                cells.append(f"{np.mean(ratio):.2f} ({max(ratio):.2f})")
            cells.append(f"{np.mean([one[name]['duration_error'] for one in every]):.2%}")
            for within in _within():
                own = [one[name][within] for one in every if within in one[name]]
                cells.append(f"{np.mean(own):.1%}" if own else "refused")
            rows.append([case, str(len(every)), name, *cells])
    return markdown(header, rows)


def joint_table(results: dict[str, Any]) -> str:
    """Energy distances of joint clouds, and the standard error of the difference to the limit."""
    rows = []
    for case in _JOINT_CASES:
        every = [result.get(case, {}) for result in results.values()]
        for name in ("limit", "partial", "independent", "nearest run"):
            if any(name in one for one in every):
                found = [one.get(name) for one in every]
                pairs = [f and (f["energy"], f["standard error"]) for f in found]
                cells = [f"{pair[0]:.4f} ± {pair[1]:.4f}" if pair else "—" for pair in pairs]
                rows.append([case, name, *cells])
    return markdown(["case", "method", *results], rows)


def _within() -> list[str]:
    return [f"within {1 - rate:.0%}" for rate in _RATES]


def tables() -> dict[str, str]:
    """All tables of the page."""
    found = {}
    for design in DESIGNS:
        found[f"partial-{design}"] = errors_table(stored(f"partial-{design}"))
        found[f"partial-{design}-joint"] = joint_table(stored(f"partial-{design}-joint"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS])
    parser.add_argument("--designs", nargs="+", default=[*DESIGNS])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--work", type=Path, help="folder that keeps what was done, to go on later")
    parser.add_argument("--no-run", action="store_true", help="report what the folder holds")
    options = parser.parse_args()
    part = options.tasks, options.designs, options.cases, options.only
    run(*part, options.work, do=not options.no_run)
