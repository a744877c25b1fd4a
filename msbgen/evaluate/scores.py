"""Score methods on contexts they have not seen: against a truth file, or by leaving some out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.machine import OnProgress
from msbgen.data.check import validate_profiles
from msbgen.data.partial import ended_counters, held_counters
from msbgen.data.schema import (
    complete_array,
    context_table,
    count_array,
    counter_names,
    describe_context,
    duration_array,
    mean_duration,
    replicate_dim,
    resource_names,
    sampling_interval,
)
from msbgen.evaluate.baselines import BASELINES, mean_profiles
from msbgen.evaluate.metrics import (
    Warping,
    energy_distance,
    normalised_dtw,
    relative_error,
    wasserstein_distance,
)
from msbgen.faults.counts import find_wrong_counts
from msbgen.faults.findings import NOTHING, Findings
from msbgen.generate.faults import known_faults, log_faults, without_faults
from msbgen.generate.model import PRESETS, Kind, ProfileModel, fit_profiles

_log = logging.getLogger("msbgen")

Floats = NDArray[np.float64]
Method = Callable[[xr.Dataset, ArrayLike], xr.Dataset]

# Fractions of the execution at which the clouds of generated and measured states are compared.
CLOUD_TIMES = (0.1, 0.3, 0.5, 0.7, 0.9)

METRICS: dict[str, str] = {
    "ndtw": "normalised DTW of raw counts, exact",
    "ndtw_scaled": "normalised DTW, each counter divided by its training maximum, exact",
    "fastdtw": "normalised DTW of raw counts by fastdtw (the paper's)",
    "fastdtw_scaled": "normalised DTW of scaled counts by fastdtw",
    "duration_error": "relative error of the mean duration",
    "energy_distance": "energy distance of the scaled states, mean over times of the execution",
    "wasserstein": "Wasserstein-1 distance of the scaled states, mean over the same times",
}


def methods() -> dict[str, Method]:
    """Every method by name; the kinds of a preset that are called in a row share one fit."""
    return _methods(part=False)


def _methods(*, part: bool) -> dict[str, Method]:
    """The same, for measurements or a part of those whose faults were named."""
    kinds = {
        f"{preset}/{kind}": method
        for preset in PRESETS
        for kind, method in _generator(preset, part=part).items()
    }
    return {**kinds, **BASELINES}


def _generator(preset: str, *, part: bool) -> dict[Kind, Method]:
    last: list[tuple[xr.Dataset, ProfileModel]] = []

    def method(kind: Kind) -> Method:
        def generate(train: xr.Dataset, contexts: ArrayLike) -> xr.Dataset:
            if not last or last[0][0] is not train:
                last[:] = [(train, fit_profiles(train, PRESETS[preset], part=part))]
            return last[0][1].generate(contexts, kind=kind, rng=0)

        return generate

    return {kind: method(kind) for kind in get_args(Kind)}


METHODS = tuple(methods())


def score_methods(
    train: xr.Dataset,
    truth: xr.Dataset,
    methods: Mapping[str, Method] | Sequence[str] = METHODS,
    *,
    warping: Sequence[Warping] = ("exact",),
    progress: OnProgress | None = None,
) -> xr.Dataset:
    """Score what methods generate from `train` for the contexts of `truth`.

    Parameters
    ----------
    train, truth : xarray.Dataset
        Measured profiles with the same resources and counters.  A method sees `train` and the
        context table of `truth`, nothing else.
    methods : mapping of name to method, or names out of :data:`METHODS`
    warping : sequence of {"exact", "fastdtw"}
        Which forms of DTW to report; fastdtw is slow.
    progress : callable, optional
        Called with (done, total) methods.

    Returns
    -------
    xarray.Dataset
        Variable ``score`` (method, context, metric), NaN where a method is not defined or a
        metric was not asked for, with the contexts' resources as coordinates.  Select by
        ``scores.sel({"method": name})``: as a keyword ``method`` means something else to xarray.

    Raises
    ------
    ProfileError
        The two files, or what a method generates and the truth, do not have the same resources,
        counters or interval, or a method answers for other contexts.
    ArgumentError
        An unknown method or form of DTW.
    """
    chosen = _chosen(methods)
    if isinstance(warping, str) or not set(warping) <= set(get_args(Warping)):
        raise ArgumentError(f"warping is {warping!r}; a list out of {get_args(Warping)} is wanted.")
    _check_truth(train, truth)
    _warn_of_doubtful_truth(train, truth)
    reference = _Reference.of(truth, train)
    scores = []
    for done, (name, method) in enumerate(chosen.items()):
        if progress:
            progress(done, len(chosen))
        generated = method(train, context_table(truth))
        _check_answer(generated, truth, name)
        scores.append(_score(generated, reference, warping))
    if progress:
        progress(len(chosen), len(chosen))
    return _tidy(np.stack(scores), list(chosen), truth)


def score_counters(
    train: xr.Dataset, truth: xr.Dataset, methods: Mapping[str, Method] | Sequence[str]
) -> xr.Dataset:
    """How far each counter is off by itself: its normalised DTW, exact.

    Parameters and errors as :func:`score_methods`.

    Returns
    -------
    xarray.Dataset
        Variable ``score`` (method, context, counter), over the largest count of the context's mean
        run; NaN where a method is not defined, or the counter counted nothing.
    """
    chosen = _chosen(methods)
    _check_truth(train, truth)
    theirs = [_running(profile) for profile in count_array(mean_profiles(truth))[:, 0]]
    names = counter_names(truth)
    scores = np.full((len(chosen), len(theirs), len(names)), np.nan)
    for m, (name, method) in enumerate(chosen.items()):
        generated = method(train, context_table(truth))
        _check_answer(generated, truth, name)
        profiles = mean_profiles(generated) if replicate_dim(generated) else generated
        counts = count_array(profiles)[:, 0]
        for c in np.flatnonzero(np.isfinite(mean_duration(profiles))):
            mine = _running(counts[c])
            for k in np.flatnonzero(theirs[c].any(axis=0)):
                scores[m, c, k] = normalised_dtw(mine[:, [k]], theirs[c][:, [k]])
    attrs = {"long_name": "normalised DTW of each counter alone", "units": "1"}
    return xr.Dataset(
        {"score": (("method", "context", "counter"), scores, attrs)},
        coords={**_labels(truth), "method": list(chosen), "counter": names},
        attrs={"task": str(truth.attrs.get("task", ""))},
    )


def leave_contexts_out(
    dataset: xr.Dataset,
    size: int,
    methods: Mapping[str, Method] | Sequence[str] = METHODS,
    *,
    rng: np.random.Generator | int = 0,
    warping: Sequence[Warping] = ("exact",),
    progress: OnProgress | None = None,
) -> xr.Dataset:
    """Leave `size` contexts out at a time, in random groups, until each was left out once.

    Returns and raises as :func:`score_methods`; contexts keep the order of `dataset`.  Contexts at
    the edge of the known ones are extrapolated when they are left out.  Contexts without a complete
    run, or with faults, are only learned from (see :func:`scored_contexts`).
    """
    chosen = _chosen(methods, part=True)
    findings = known_faults(dataset)
    log_faults(dataset, findings)
    rows, truth = scored_contexts(dataset, findings)
    every = np.arange(dataset.sizes["context"])
    n = len(rows)
    if not 1 <= size < n:
        raise ArgumentError(
            f"size is {size}; 1 to {n - 1} of the {n} contexts, to leave out, are wanted."
        )
    order = np.random.default_rng(rng).permutation(n)
    groups = [order[i : i + size] for i in range(0, n, size)]
    scores = np.full((len(chosen), n, len(METRICS)), np.nan)
    for done, group in enumerate(groups):
        kept = np.setdiff1d(every, rows[group])

        def step(part: int, parts: int, done: int = done) -> None:
            if progress:
                progress(done * parts + part, len(groups) * parts)

        fold = score_methods(
            dataset.isel(context=kept),
            truth.isel(context=group),
            chosen,
            warping=warping,
            progress=step,
        )
        scores[:, group] = fold["score"].values
    return _tidy(scores, list(chosen), truth)


def scored_contexts(
    dataset: xr.Dataset, findings: Findings = NOTHING
) -> tuple[NDArray[np.int64], xr.Dataset]:
    """Contexts that may be left out, and what others are compared with there.

    Not those, nor runs, in which something was found wrong: good profiles would be far from them.

    Raises
    ------
    ProfileError
        There are none.
    """
    sound = without_faults(dataset, findings)
    seen = _is_seen(sound)
    if not seen.any():
        raise ProfileError(
            "every context lacks a counter in all runs that went on to their end, or looks "
            "measured wrongly, so that none can be left out and compared with; measure some whole."
        )
    for sentence in describe_excluded(dataset, findings):
        _log.warning("%s", sentence)
    rows = np.flatnonzero(seen)
    return rows, sound.isel(context=rows)


def describe_excluded(dataset: xr.Dataset, findings: Findings) -> Iterator[str]:
    """That some contexts judge nobody, in sentences, where :func:`scored_contexts` skips any."""
    ended, seen = _is_seen(dataset), _is_seen(without_faults(dataset, findings))
    for skipped, why in (
        (~ended, "not every counter has a run there that went on to its end"),
        (ended & ~seen, "what was measured there looks wrong"),
    ):
        if skipped.any():
            n = int(skipped.sum())
            yield (
                f"{n} context{'s are' if n > 1 else ' is'} learned from but not left out, first "
                f"{describe_context(dataset, int(np.argmax(skipped)))}: {why}."
            )


def _is_seen(dataset: xr.Dataset) -> NDArray[np.bool_]:
    """Contexts in which each counter has a run that went on to its end, (n_contexts,)."""
    return np.asarray(ended_counters(dataset).all(axis=1))


def score_halves(train: xr.Dataset, truth: xr.Dataset) -> xr.Dataset:
    """How far two halves of a context's measured runs are apart: every other run, and the rest.

    What is left to gain below that is noise.

    Parameters
    ----------
    train, truth : xarray.Dataset
        As :func:`score_methods` takes them; `train` may hold the contexts of the truth.

    Returns
    -------
    xarray.Dataset
        Of the form of :func:`score_methods`, with the one method ``halves``; NaN where a context
        has fewer than two whole runs.
    """
    dim, present = replicate_dim(truth), _whole_runs(truth)
    scores = np.full((1, len(present), len(METRICS)), np.nan)
    rows = np.flatnonzero(present.sum(axis=1) > 1)
    if dim and len(rows):
        rank = present[rows].cumsum(axis=1)
        one, other = (
            _only(truth.isel(context=rows), present[rows] & (rank % 2 == side)) for side in (1, 0)
        )
        scores[0, rows] = _score(other, _Reference.of(one, train), ("exact",))
    return _tidy(scores, ["halves"], truth)


def _only(dataset: xr.Dataset, runs: NDArray[np.bool_]) -> xr.Dataset:
    """The dataset with some runs (context, run), the others missing."""
    kept = xr.DataArray(runs, dims=("context", replicate_dim(dataset)))
    return dataset.assign(
        {name: dataset[name].where(kept) for name in (*counter_names(dataset), "duration")}
    )


def lookup_method(dataset: xr.Dataset, source: str) -> Method:
    """Profiles that were generated already, as a method: those of the contexts asked for.

    Parameters
    ----------
    dataset : xarray.Dataset
    source : str
        What sentences call it: the name of its file.
    """
    rows = {tuple(context): i for i, context in enumerate(context_table(dataset))}

    def look_up(_train: xr.Dataset, contexts: ArrayLike) -> xr.Dataset:
        wanted = [tuple(context) for context in np.asarray(contexts, dtype=float)]
        missing = [context for context in wanted if context not in rows]
        if missing:
            first = ", ".join(f"{level:g}" for level in missing[0])
            raise ProfileError(
                f"{source}: lacks {len(missing)} contexts of the truth, first {first}; generate "
                f"them with --contexts TRUTH.nc."
            )
        return dataset.isel(context=[rows[context] for context in wanted])

    return look_up


def mean_scores(scores: xr.Dataset) -> xr.DataArray:
    """Mean score over the contexts where every method is defined, (method, metric)."""
    return scores["score"].where(_defined(scores)).mean("context")


def improvement(scores: xr.Dataset, baseline: str = "bracketing") -> xr.DataArray:
    """1 − mean score / mean score of the baseline, (method, metric); positive is better.

    Means over the contexts where every method is defined.
    """
    if baseline not in scores["method"].values:
        names = ", ".join(map(str, scores["method"].values))
        raise ArgumentError(f"baseline is {baseline!r}; one of the scored {names} is wanted.")
    mean = mean_scores(scores)
    return 1 - mean / mean.sel({"method": baseline}, drop=True)


def summarise(scores: xr.Dataset, baseline: str = "bracketing") -> dict[str, Any]:
    """Means and improvements as plain numbers for JSON: method -> metric -> figure.

    Without the baseline among the methods there is no entry ``baseline``, nor any ``improvement``.
    """
    mean = mean_scores(scores)
    better = improvement(scores, baseline) if baseline in scores["method"].values else None
    summary: dict[str, Any] = {
        "n_contexts": int(_defined(scores).sum()),
        "n_contexts_undefined": int((~_defined(scores)).sum()),
        **({} if better is None else {"baseline": baseline}),
        "methods": {},
    }
    metrics = [m for m in METRICS if np.isfinite(mean.sel(metric=m)).any()]

    def figures(table: xr.DataArray, method: str) -> dict[str, float]:
        return {m: float(table.sel({"method": method, "metric": m})) for m in metrics}

    for method in map(str, mean["method"].values):
        summary["methods"][method] = figures(mean, method)
        if better is not None:
            gained = figures(better, method)
            # over a baseline without an error there is none
            gained = {metric: gain for metric, gain in gained.items() if np.isfinite(gain)}
            summary["methods"][method]["improvement"] = gained
    return summary


def _chosen(
    wanted: Mapping[str, Method] | Sequence[str], *, part: bool = False
) -> dict[str, Method]:
    if isinstance(wanted, str) or not wanted:
        raise ArgumentError(f"methods is {wanted!r}; a list of names or a mapping is wanted.")
    if isinstance(wanted, Mapping):
        return dict(wanted)
    unknown = [name for name in wanted if name not in METHODS]
    if unknown:
        raise ArgumentError(f"method is {unknown[0]!r}; one of {', '.join(METHODS)} is wanted.")
    every = _methods(part=part)
    return {name: every[name] for name in wanted}


def _check_truth(train: xr.Dataset, truth: xr.Dataset) -> None:
    """Refuse what nobody can be scored on."""
    validate_profiles(train, source="measured", part=True)
    validate_profiles(truth, source="truth", part=True)
    _check_same_labels(train, truth, "the measured file")
    _check_ends(truth)


def _warn_of_doubtful_truth(train: xr.Dataset, truth: xr.Dataset) -> None:
    known = {tuple(row) for row in context_table(train)}
    seen = [i for i, row in enumerate(context_table(truth)) if tuple(row) in known]
    tasks = [str(ds.attrs.get("task", "")) for ds in (train, truth)]
    if tasks[0] != tasks[1]:
        _log.warning("the truth is of the task '%s', what was measured of '%s'.", *tasks[::-1])
    if seen:
        _log.warning(
            "%d contexts of the truth were measured too, first %s: their scores are not those "
            "of unseen contexts.",
            len(seen),
            describe_context(truth, seen[0]),
        )


def _check_ends(truth: xr.Dataset) -> None:
    """Whoever was never seen to end, or in one of the counters, cannot be compared with."""
    unknown = ~_is_seen(truth)
    if unknown.any():
        raise ProfileError(
            f"the truth has no run of some counter that went on to its end in "
            f"{describe_context(truth, int(np.argmax(unknown)))}: drop the context, or measure it."
        )


def _whole_runs(ds: xr.Dataset) -> NDArray[np.bool_]:
    """Runs that hold every counter and went on to their end, (n_contexts, n_runs)."""
    return held_counters(ds).all(axis=2) & complete_array(ds) & np.isfinite(duration_array(ds))


def _check_same_labels(other: xr.Dataset, truth: xr.Dataset, source: str) -> None:
    for what, names in (("resources", resource_names), ("counters", counter_names)):
        if names(other) != names(truth):
            raise ProfileError(
                f"the truth has {what} {', '.join(names(truth))}, {source} "
                f"{', '.join(names(other))}: compare profiles of one task and platform."
            )
    if not np.isclose(sampling_interval(other), sampling_interval(truth)):
        raise ProfileError(
            f"the truth is sampled every {sampling_interval(truth):g} s, {source} every "
            f"{sampling_interval(other):g} s: compare profiles of one interval."
        )


def _check_answer(generated: xr.Dataset, truth: xr.Dataset, name: str) -> None:
    """Whoever wrote a method may have mixed up contexts or counters: no figure would show it."""
    _check_same_labels(generated, truth, f"what '{name}' generates")
    if not np.array_equal(context_table(generated), context_table(truth)):
        raise ProfileError(
            f"'{name}' answers for other contexts than it was asked for, or in another order."
        )


@dataclass(frozen=True, eq=False)
class _Reference:
    """What every method is compared with.

    Attributes
    ----------
    profiles : list of ndarray, (n_times, n_counters)
        Mean profile of each context.
    duration : ndarray, (n_contexts,)
        Its mean execution time [s].
    scale : ndarray, (n_counters,)
        Largest measured count of each counter that is not absurd; 1 where nothing was counted.
    rows : list of list of int
        Sampling intervals at which each context's clouds are compared.
    clouds : list of list of ndarray, (n_runs, n_counters)
        The scaled states of all runs in these intervals.
    """

    profiles: list[Floats]
    duration: Floats
    scale: Floats
    rows: list[list[int]]
    clouds: list[list[Floats]]

    @classmethod
    def of(cls, truth: xr.Dataset, train: xr.Dataset) -> _Reference:
        known = count_array(train)
        for one in find_wrong_counts(known):  # one of them would be the scale of all others
            known[one.contexts[0], one.run, one.interval, one.counter] = np.nan
        largest = np.nanmax(known, axis=(0, 1, 2))
        scale = np.where(largest > 0, largest, 1.0)
        duration, interval = mean_duration(truth), sampling_interval(truth)
        rows = [[int(share * end / interval) for share in CLOUD_TIMES] for end in duration]
        counts = count_array(truth)
        counts[~_whole_runs(truth)] = np.nan  # others do not show what goes together
        clouds = [[_cloud(c, row, scale) for row in at] for c, at in zip(counts, rows)]
        profiles = [_running(c) for c in count_array(mean_profiles(truth))[:, 0]]
        return cls(profiles, duration, scale, rows, clouds)


def _score(generated: xr.Dataset, reference: _Reference, warping: Sequence[Warping]) -> Floats:
    """Every metric at every context of the truth, (context, metric)."""
    counts = count_array(generated)
    profiles = mean_profiles(generated) if replicate_dim(generated) else generated
    profile, end = count_array(profiles)[:, 0], mean_duration(profiles)
    scores = np.full((len(reference.profiles), len(METRICS)), np.nan)
    column = {name: i for i, name in enumerate(METRICS)}
    for c in np.flatnonzero(np.isfinite(end)):
        mine, theirs = _running(profile[c]), reference.profiles[c]
        for form in warping:
            name = {"exact": "ndtw", "fastdtw": "fastdtw"}[form]
            scores[c, column[name]] = normalised_dtw(mine, theirs, method=form)
            scores[c, column[f"{name}_scaled"]] = normalised_dtw(
                mine, theirs, scale=reference.scale, method=form
            )
        scores[c, column["duration_error"]] = relative_error(end[c], reference.duration[c])
        clouds = [_cloud(counts[c], row, reference.scale) for row in reference.rows[c]]
        pairs = list(zip(clouds, reference.clouds[c]))
        if not all(len(theirs) for theirs in reference.clouds[c]):
            continue
        scores[c, column["energy_distance"]] = np.mean([energy_distance(*p) for p in pairs])
        scores[c, column["wasserstein"]] = np.mean([wasserstein_distance(*p) for p in pairs])
    return scores


def _running(profile: Floats) -> Floats:
    return profile[np.isfinite(profile).all(axis=1)]


def _cloud(runs: Floats, row: int, scale: Floats) -> Floats:
    """Scaled states of all runs (run, time, counter) in one interval, zero after a run's end."""
    present = np.isfinite(runs[:, 0, 0])
    if row >= runs.shape[1]:
        return np.zeros((int(present.sum()), runs.shape[2]))
    return np.nan_to_num(runs[present, row] / scale)


def _tidy(scores: Floats, names: list[str], truth: xr.Dataset) -> xr.Dataset:
    attrs = {"long_name": "score, lower is better", "units": "1"}
    return xr.Dataset(
        {"score": (("method", "context", "metric"), scores, attrs)},
        coords={**_labels(truth), "method": names, "metric": list(METRICS)},
        attrs={"task": str(truth.attrs.get("task", ""))},
    )


def _labels(truth: xr.Dataset) -> dict[str, Any]:
    return {name: truth[name] for name in resource_names(truth)}


def _defined(scores: xr.Dataset) -> xr.DataArray:
    """Contexts where every method has a duration, so that all are compared on the same ones."""
    return scores["score"].sel(metric="duration_error").notnull().all("method")
