"""Scores of generated profiles in held-out contexts, for a report."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.answers.evaluate import scores as evaluate
from msbgen.answers.evaluate.baselines import BASELINES, mean_counts
from msbgen.core.conformal import groups_needed
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import available_cores
from msbgen.data.profiles import Profiles
from msbgen.engine.bounds.model import CalibratedModel, calibrate
from msbgen.engine.bridge.solve import NotConvergedError
from msbgen.engine.faults.findings import NOTHING, Findings
from msbgen.engine.generate.fit import fit_model
from msbgen.engine.generate.model import ProfileModel
from msbgen.engine.generate.word_columns import WordColumns, outside_hull
from msbgen.output.report.data import Bounds, HeldOutScores, ShownContext, Unavailable
from msbgen.output.report.numbers import best_simple

Floats = NDArray[np.float64]
BoundsOf = Callable[[Floats], Bounds | Unavailable]

# The reported method, and the metric that ranks contexts.
MEAN, RANKED_BY = "default/mean", "ndtw_scaled"
# The baseline of the comparison by counter.
BASELINE = "bracketing"
# Random profiles of a context in a panel.
_SAMPLES = 200
# Fewest contexts for leave-out fits.
_FEWEST = 4


def bounds_of(model: ProfileModel, measured: Profiles | None, rate: float) -> BoundsOf:
    """Return a function that bounds contexts (n, n_resources), or gives the reason why not.

    Without the measured runs, the model must be calibrated.
    """
    try:
        if isinstance(model, CalibratedModel):
            calibrated = model
        elif measured is None:
            raise MeasurementError(
                "the model was not calibrated; msbgen bound --model saves a calibrated one."
            )
        else:
            calibrated = calibrate(model, measured)
        calibrated.calibration.check(rate)
    except (MeasurementError, ArgumentError) as error:
        missing = Unavailable(f"No bounds: {error}")
        return lambda contexts: missing

    def bound(contexts: Floats) -> Bounds | Unavailable:
        try:
            bounds = calibrated.duration_bound(contexts, rate)
        except MeasurementError as error:  # only the measured context has a bound
            return Unavailable(f"No bounds: {error}")
        return Bounds(rate, bounds, calibrated.beyond(contexts))

    return bound


def supported_rate(rates: Sequence[float], n_contexts: int) -> float:
    """The first rate that the number of contexts supports, else the last."""
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
    """Score a model, fitted to `measured`, on measured runs of other contexts.

    `bound` is that of :func:`bounds_of`; the others are those of
    :func:`msbgen.output.batch.report_data.collect_report_data`.
    """
    files = {name: evaluate.lookup_method(ds, name) for name, ds in generated.items()}
    if scores is None:
        methods = {**files, **_kinds(model), **BASELINES}
        scores = evaluate.score_methods(measured, truth, methods)
    elif files:
        extra = evaluate.score_methods(measured, truth, files)
        scores = xr.concat([extra, scores], dim="method")
    method = next(iter(files), MEAN)
    scored = files or {MEAN: _method_of(model, "mean")}
    measured, known, unseen = evaluate.checked_pair(measured, truth)
    wanted = unseen.contexts

    def shown(place: str, row: int) -> ShownContext:
        context = wanted[row : row + 1]
        profiles = (
            files[method](measured, context) if files else model.generate(context, kind="mean")
        )
        generated = Profiles.of(profiles, unseen.interval)
        samples = generated.counts[0] if generated.replicate else _samples(model, context, seed)
        return ShownContext(place, row, mean_counts(generated)[0], samples)

    summary = evaluate.summarise(scores)
    return HeldOutScores(
        how=f"{len(wanted)} other measured contexts",
        truth=unseen,
        method=method,
        scores=scores,
        summary=summary,
        counters=evaluate.score_counters(
            {method: scored[method], **_compared(summary)}, measured, unseen
        ),
        halves=_halves(known, unseen, scores),
        extrapolated=_outside(known, wanted),
        bounds=bound(wanted),
        shown=tuple(shown(*one) for one in _places(scores, method)),
    )


@dataclass(frozen=True, eq=False)
class _FoldResult:
    """Scores of a model on the group of contexts that it was not fitted to."""

    scores: xr.Dataset
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
    """Score measured contexts, each by a model that was fitted without it.

    Groups of `size` contexts, or `parts` equal groups, are left out at a time; `seed` draws them
    and the random profiles.  Bounds are at the first of the miscoverages `rates` that the remaining
    contexts support.  Faulty contexts are not scored against.
    """
    profiles = Profiles.of(measured)
    rows, truth = evaluate.scored_contexts(profiles, findings)
    n = len(rows)
    check_leave_out(size, n)
    if n < _FEWEST:
        return Unavailable(
            f"{n} measured context{'s are' if n != 1 else ' is'} too few for leave-out scores: "
            f"measure other contexts and name them (--truth)."
        )
    size = size or math.ceil(n / parts)
    drawn = evaluate.left_out_groups(truth, size, np.random.default_rng(seed))
    groups = [np.sort(group) for group in drawn]
    rate = supported_rate(rates, n - size)
    table, every = truth.contexts, np.arange(len(profiles.contexts))
    kept = [np.setdiff1d(every, rows[group]) for group in groups]
    training, known = zip(*((measured.isel(context=k), profiles.of_contexts(k)) for k in kept))
    with ThreadPoolExecutor(available_cores()) as pool:
        try:
            models = list(pool.map(partial(fit_model, quiet=True), known))
        except MeasurementError as error:
            return Unavailable(f"Contexts could not be left out: {error}")

        def score(i: int) -> _FoldResult:
            unseen, wanted = truth.of_contexts(groups[i]), table[groups[i]]
            methods = {**_kinds(models[i]), **BASELINES}
            return _FoldResult(
                evaluate.score_answers(methods, training[i], known[i], unseen),
                bounds_of(models[i], known[i], rate)(wanted),
                _outside(known[i], wanted),
            )

        results = list(pool.map(score, range(len(groups))))
        place = np.argsort(np.concatenate(groups))
        together = _in_order([part.scores for part in results], place)
        summary = evaluate.summarise(together)

        def score_counters(i: int) -> xr.Dataset:
            methods = {MEAN: _method_of(models[i], "mean"), **_compared(summary)}
            return evaluate.score_counters(methods, training[i], truth.of_contexts(groups[i]))

        by_counter = _in_order(list(pool.map(score_counters, range(len(groups)))), place)
    fold = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[place]

    def shown(place: str, row: int) -> ShownContext:
        model, context = models[fold[row]], table[row : row + 1]
        mean = Profiles.of(model.generate(context, kind="mean"), model.distribution.interval)
        return ShownContext(place, row, mean.counts[0, 0], _samples(model, context, seed))

    return HeldOutScores(
        how=f"the {n} measured contexts, {size} left out at a time", truth=truth, method=MEAN,
        scores=together, summary=summary, counters=by_counter,
        halves=_halves(profiles, truth, together),
        extrapolated=np.concatenate([part.outside for part in results])[place],
        bounds=_joined([part.bounds for part in results], place),
        shown=tuple(shown(*one) for one in _places(together, MEAN)), left_out=size,
    )  # fmt: skip


def _outside(measured: Profiles, contexts: Floats) -> NDArray[np.bool_]:
    """Contexts outside of the convex hull of the measured ones, (n,)."""
    words = WordColumns.of(measured.resources, measured.contexts)
    return outside_hull(measured.contexts, contexts, words)


def _in_order(parts: Sequence[xr.Dataset], place: NDArray[np.int64]) -> xr.Dataset:
    """Scores of groups of contexts in the order of all; only methods that every model has."""
    return xr.concat(parts, dim="context", join="inner").isel(context=place)


def _compared(summary: Mapping[str, Any]) -> dict[str, evaluate.Method]:
    """Simple methods that counters are compared with: the baseline, and the best one."""
    best = best_simple(summary["methods"])
    names = dict.fromkeys((BASELINE, BASELINE if best is None else best["method"]))
    return {name: BASELINES[name] for name in names}


def check_leave_out(size: int | None, n: int) -> None:
    """Raise :class:`ArgumentError` unless 1 to n - 1 contexts are left out."""
    if size is not None and not 1 <= size < n:
        raise ArgumentError(
            f"leave_out is {size}; a number from 1 to {n - 1} of the {n} contexts is wanted."
        )


def _method_of(model: ProfileModel, kind: evaluate.Kind) -> evaluate.Method:
    return lambda _train, contexts: model.generate(contexts, kind=kind, rng=0)


def _kinds(model: ProfileModel) -> dict[str, evaluate.Method]:
    """Methods of a model by name; only means where its bridge did not converge."""
    kinds: tuple[evaluate.Kind, ...] = ("mean", "max_likelihood", "sample")
    kept = kinds if _has_paths(model) else kinds[:1]
    return {f"default/{kind}": _method_of(model, kind) for kind in kept}


def _has_paths(model: ProfileModel) -> bool:
    """Whether the bridge converged."""
    try:
        model.prepare("sample")
    except NotConvergedError:
        return False
    return True


def _samples(model: ProfileModel, context: Floats, seed: int) -> Floats | Unavailable:
    """Counts of random profiles of a context, (samples, t, k)."""
    try:
        drawn = model.generate(context, kind="sample", n_samples=_SAMPLES, rng=seed)
    except NotConvergedError as error:
        return Unavailable(f"No random profiles: {error.reached}.")
    return Profiles.of(drawn, model.distribution.interval).counts[0]


def _joined(
    parts: Sequence[Bounds | Unavailable], place: NDArray[np.int64]
) -> Bounds | Unavailable:
    """Bounds of all contexts in order, from those of groups; unavailable if one lacks them."""
    found = [part for part in parts if isinstance(part, Bounds)]
    if len(found) < len(parts):
        return next(part for part in parts if isinstance(part, Unavailable))
    return Bounds(
        found[0].miscoverage,
        np.concatenate([part.duration for part in found])[place],
        np.concatenate([part.beyond for part in found])[place],
    )


def _places(scores: xr.Dataset, method: str) -> list[tuple[str, int]]:
    """The best, the median and the worst context by score, without duplicates."""
    values = scores["score"].sel({"method": method, "metric": RANKED_BY}).values
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]
    if not len(order):
        return []
    places = {"best": order[0], "worst": order[-1], "median": order[(len(order) - 1) // 2]}
    rows = {int(row): place for place, row in places.items()}
    names = {place: row for row, place in rows.items()}
    return [(place, names[place]) for place in ("best", "median", "worst") if place in names]


def _halves(measured: Profiles, truth: Profiles, scores: xr.Dataset) -> dict[str, float]:
    """Mean distance between halves of the runs by metric: the noise of the measurements.

    Contexts where a method is undefined are left out; empty where no context has two runs.
    """
    defined = scores["score"].sel(metric="duration_error").notnull().all("method")
    halves = evaluate.score_halves(measured, truth)["score"].sel({"method": "halves"})
    mean = halves.where(defined).mean("context").dropna("metric")
    return {str(metric): float(mean.sel(metric=metric)) for metric in mean["metric"].values}
