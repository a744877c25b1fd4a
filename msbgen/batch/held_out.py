"""How good generated profiles are where they were held out: the judgement of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.bounds.model import CalibratedModel, calibrate_model
from msbgen.bridge.solve import NotConvergedError
from msbgen.core.conformal import groups_needed
from msbgen.core.contexts import Hull
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import available_cores
from msbgen.data.schema import (
    context_table,
    replicate_dim,
)
from msbgen.evaluate import scores as evaluate
from msbgen.evaluate.baselines import BASELINES, mean_profiles
from msbgen.faults.findings import NOTHING, Findings
from msbgen.generate.model import ProfileModel, fit_profiles
from msbgen.report.data import Bounds, HeldOutScores, ShownContext, Unavailable

Floats = NDArray[np.float64]
BoundsOf = Callable[[Floats], Bounds | Unavailable]

# The method that the report is about, and the metric that says which context is best and worst.
MEAN, RANKED_BY = "default/mean", "ndtw_scaled"
# What it is beside, counter by counter.
BASELINE = "bracketing"
# Random profiles of a context that is drawn.
_SAMPLES = 200
# Fewer contexts than these make no model without those that are left out.
_FEWEST = 4


def bounds_of(model: ProfileModel, measured: xr.Dataset, rate: float) -> BoundsOf:
    """What bounds contexts (n, n_resources) at a rate, calibrated once; or says why it cannot."""
    try:
        known = isinstance(model, CalibratedModel)
        calibrated = model if known else calibrate_model(model, measured)
        calibrated.calibration.check(rate)
    except (MeasurementError, ArgumentError) as error:
        missing = Unavailable(f"No bounds: {error}")
        return lambda contexts: missing

    def bound(contexts: Floats) -> Bounds:
        beyond = calibrated.calibration.beyond(contexts)
        return Bounds(rate, calibrated.duration_bound(contexts, rate), beyond)

    return bound


def supported_rate(rates: Sequence[float], n_contexts: int) -> float:
    """The first rate of bounds that so many contexts support; the last where none is."""
    return next((rate for rate in rates if groups_needed(rate) <= n_contexts), rates[-1])


def score_held_out(
    measured: xr.Dataset,
    truth: xr.Dataset,
    model: ProfileModel,
    bound: BoundsOf,
    generated: Mapping[str, xr.Dataset],
    scores: xr.Dataset | None,
    seed: int,
) -> HeldOutScores:
    """Judge a model on measured runs of other contexts.

    Parameters
    ----------
    measured, truth, generated, scores, seed
        As :func:`msbgen.batch.report_data.collect_report_data` takes them.
    model : ProfileModel
        Fitted to `measured`.
    bound : callable
        What bounds contexts.
    """
    files = {name: evaluate.lookup_method(ds, name) for name, ds in generated.items()}
    if scores is None:
        methods = {**files, **_kinds(model), **BASELINES}
        scores = evaluate.score_methods(measured, truth, methods)
    elif files:
        extra = evaluate.score_methods(measured, truth, files)
        scores = xr.concat([extra, scores], dim="method")
    method = next(iter(files), MEAN)
    judged = files or {MEAN: _method_of(model, "mean")}
    wanted = context_table(truth)

    def shown(place: str, row: int) -> ShownContext:
        own = wanted[row : row + 1]
        profiles = files[method](measured, own) if files else model.generate(own, kind="mean")
        samples: xr.Dataset | Unavailable
        if replicate_dim(profiles):
            samples, profiles = profiles, mean_profiles(profiles)
        else:
            samples = _samples(model, own, seed)
        return ShownContext(place, row, profiles, samples)

    return HeldOutScores(
        how=f"{len(wanted)} other contexts, measured to compare with",
        truth=truth,
        method=method,
        scores=scores,
        summary=evaluate.summarise(scores),
        counters=evaluate.score_counters(
            measured, truth, {method: judged[method], BASELINE: BASELINES[BASELINE]}
        ),
        halves=_halves(measured, truth, scores),
        extrapolated=Hull.of(context_table(measured)).outside(wanted),
        bounds=bound(wanted),
        shown=tuple(shown(*one) for one in _places(scores, method)),
    )


@dataclass(frozen=True, eq=False)
class _FoldResult:
    """What a group of contexts says of a model that has not seen it."""

    scores: xr.Dataset
    counters: xr.Dataset
    bounds: Bounds | Unavailable
    outside: NDArray[np.bool_]


def score_left_out(
    measured: xr.Dataset,
    size: int | None,
    parts: int,
    rates: Sequence[float],
    seed: int,
    findings: Findings = NOTHING,
) -> HeldOutScores | Unavailable:
    """Judge by leaving contexts out in turn: each is met by a model that has not seen it.

    Parameters
    ----------
    measured : xarray.Dataset
    size : int or None
        Contexts that are left out at a time; None for as many as make `parts` groups.
    parts : int
    rates : sequence of float
        Of the bounds: the first that the contexts left support.
    seed : int
        Forms the groups, and draws the random profiles.
    findings : Findings
        What was measured wrongly, and judges nobody.

    Raises
    ------
    ArgumentError
        A size that leaves no context.
    """
    rows, truth = evaluate.scored_contexts(measured, findings)
    n = len(rows)
    check_leave_out(size, n)
    if n < _FEWEST:
        return Unavailable(
            f"{n} measured context{'s are' if n != 1 else ' is'} too few to leave some out: "
            f"measure others and name them (--truth)."
        )
    size = size or math.ceil(n / parts)
    order = np.random.default_rng(seed).permutation(n)
    groups = [np.sort(order[i : i + size]) for i in range(0, n, size)]
    rate = supported_rate(rates, n - size)
    table, every = context_table(truth), np.arange(measured.sizes["context"])
    known = [measured.isel(context=np.setdiff1d(every, rows[group])) for group in groups]
    with ThreadPoolExecutor(available_cores()) as pool:
        try:
            models = list(pool.map(partial(fit_profiles, part=True), known))
        except MeasurementError as error:
            return Unavailable(f"Contexts could not be left out: {error}")

        def met(i: int) -> _FoldResult:
            unseen, wanted = truth.isel(context=groups[i]), table[groups[i]]
            methods = {**_kinds(models[i]), **BASELINES}
            two = {name: methods[name] for name in (MEAN, BASELINE)}
            return _FoldResult(
                evaluate.score_methods(known[i], unseen, methods),
                evaluate.score_counters(known[i], unseen, two),
                bounds_of(models[i], known[i], rate)(wanted),
                Hull.of(context_table(known[i])).outside(wanted),
            )

        found = list(pool.map(met, range(len(groups))))
    place = np.argsort(np.concatenate(groups))
    together, by_counter = (  # of methods that every model has
        xr.concat(several, dim="context", join="inner").isel(context=place)
        for several in ([part.scores for part in found], [part.counters for part in found])
    )
    fold = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[place]

    def shown(place: str, row: int) -> ShownContext:
        model, own = models[fold[row]], table[row : row + 1]
        return ShownContext(
            place, row, model.generate(own, kind="mean"), _samples(model, own, seed)
        )

    return HeldOutScores(
        how=f"the {n} measured contexts, {size} left out at a time",
        truth=truth,
        method=MEAN,
        scores=together,
        summary=evaluate.summarise(together),
        counters=by_counter,
        halves=_halves(measured, truth, together),
        extrapolated=np.concatenate([part.outside for part in found])[place],
        bounds=_joined([part.bounds for part in found], place),
        shown=tuple(shown(*one) for one in _places(together, MEAN)),
    )


def check_leave_out(size: int | None, n: int) -> None:
    """Raise ArgumentError where so many of n contexts, left out at a time, leave none."""
    if size is not None and not 1 <= size < n:
        raise ArgumentError(
            f"leave_out is {size}; 1 to {n - 1} of the {n} contexts, to leave out, are wanted."
        )


def _method_of(model: ProfileModel, kind: evaluate.Kind) -> evaluate.Method:
    return lambda _train, contexts: model.generate(contexts, kind=kind, rng=0)


def _kinds(model: ProfileModel) -> dict[str, evaluate.Method]:
    """What a model generates, by name: means alone where its bridge could not be solved."""
    kinds: tuple[evaluate.Kind, ...] = ("mean", "max_likelihood", "sample")
    kept = kinds if _has_paths(model) else kinds[:1]
    return {f"default/{kind}": _method_of(model, kind) for kind in kept}


def _has_paths(model: ProfileModel) -> bool:
    """Whether the bridge that paths follow could be solved."""
    try:
        model.prepare("sample")
    except NotConvergedError:
        return False
    return True


def _samples(model: ProfileModel, context: Floats, seed: int) -> xr.Dataset | Unavailable:
    try:
        return model.generate(context, kind="sample", n_samples=_SAMPLES, rng=seed)
    except NotConvergedError as error:
        return Unavailable(f"No random profiles: {error.reached}.")


def _joined(
    parts: Sequence[Bounds | Unavailable], place: NDArray[np.int64]
) -> Bounds | Unavailable:
    """The bounds of groups of contexts, in the order of all contexts; missing where one is."""
    found = [part for part in parts if isinstance(part, Bounds)]
    if len(found) < len(parts):
        return next(part for part in parts if isinstance(part, Unavailable))
    return Bounds(
        found[0].miscoverage,
        np.concatenate([part.duration for part in found])[place],
        np.concatenate([part.beyond for part in found])[place],
    )


def _places(scores: xr.Dataset, method: str) -> list[tuple[str, int]]:
    """The best, the median and the worst context by score; each once, where there are fewer."""
    own = scores["score"].sel({"method": method, "metric": RANKED_BY}).values
    order = np.argsort(own, kind="stable")[: int(np.isfinite(own).sum())]
    if not len(order):
        return []
    places = {"best": order[0], "worst": order[-1], "median": order[(len(order) - 1) // 2]}
    rows = {int(row): place for place, row in places.items()}
    names = {place: row for row, place in rows.items()}
    return [(place, names[place]) for place in ("best", "median", "worst") if place in names]


def _halves(measured: xr.Dataset, truth: xr.Dataset, scores: xr.Dataset) -> dict[str, float]:
    """Mean distance of halves of the runs by metric, over contexts where every method is defined.

    Empty where no context has two runs.
    """
    defined = scores["score"].sel(metric="duration_error").notnull().all("method")
    halves = evaluate.score_halves(measured, truth)["score"].sel({"method": "halves"})
    mean = halves.where(defined).mean("context").dropna("metric")
    return {str(metric): float(mean.sel(metric=metric)) for metric in mean["metric"].values}
