"""Scores of methods on unseen contexts: against a truth file, or by leaving contexts out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.answers.evaluate.baselines import BASELINES, mean_profiles
from msbgen.answers.evaluate.metrics import (
    Warping,
    energy_distance,
    normalised_dtw,
    relative_error,
    wasserstein_distance,
)
from msbgen.core.arguments import checks_arguments
from msbgen.core.draws import count_of, generator
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.machine import OnProgress
from msbgen.data.check import validate_profiles
from msbgen.data.durations_only import (
    has_time_axis,
    with_interval,
    without_interval,
)
from msbgen.data.partial import ended_counters, held_counters
from msbgen.data.quality import warn_of_generated
from msbgen.data.schema import (
    check_datasets,
    complete_array,
    context_table,
    count_array,
    counter_names,
    describe_context,
    duration_array,
    level_labels,
    mean_duration,
    replicate_dim,
    resource_names,
    sampling_interval,
)
from msbgen.engine.faults.counts import find_wrong_counts
from msbgen.engine.faults.findings import NOTHING, Findings
from msbgen.engine.generate.faults import known_faults, log_faults, without_faults
from msbgen.engine.generate.fit import PRESETS, fit_profiles
from msbgen.engine.generate.model import Kind, ProfileModel

_log = logging.getLogger("msbgen")

# Draws of groups of left-out contexts.
_DRAWS = 100

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
    """Every method by name; consecutive calls of the kinds of a preset share one fit."""
    return _methods(part=False)


def _methods(*, part: bool) -> dict[str, Method]:
    """Every method by name; `part` as :func:`msbgen.engine.generate.fit.fit_profiles`."""
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


@checks_arguments
def score_methods(
    train: xr.Dataset,
    truth: xr.Dataset,
    methods: Mapping[str, Method] | Sequence[str] = METHODS,
    *,
    warping: Sequence[Warping] = ("exact",),
    part: bool = False,
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
    part : bool
        Both are parts of one dataset, about which warnings were logged.
    progress : callable, optional
        Called with (done, total) methods.

    Returns
    -------
    xarray.Dataset
        Variable ``score`` (method, context, metric), NaN where a method is not defined or a
        metric is not requested, with the contexts' resources as coordinates.  Select by
        ``scores.sel({"method": name})``: the keyword ``method`` has another meaning in xarray.

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
    train, truth = _checked_truth(train, truth)
    if not part:
        warn_of_generated(truth)
        _log_truth_warnings(train, truth)
    reference = _Reference.of(truth, train)
    scores = []
    for done, (name, method) in enumerate(chosen.items()):
        if progress:
            progress(done, len(chosen))
        generated = with_interval(method(train, context_table(truth)), sampling_interval(truth))
        _check_answer(generated, truth, name)
        scores.append(_score(generated, reference, warping))
    if progress:
        progress(len(chosen), len(chosen))
    return _score_dataset(np.stack(scores), list(chosen), truth)


def score_counters(
    train: xr.Dataset, truth: xr.Dataset, methods: Mapping[str, Method] | Sequence[str]
) -> xr.Dataset:
    """Exact normalised DTW of each counter separately, by the counter's largest count.

    Parameters and errors as :func:`score_methods`.  The variable ``score`` (method, context,
    counter) is NaN where a method is not defined, or the counter counted nothing.  The largest
    count is that of the context's mean run.
    """
    chosen = _chosen(methods)
    train, truth = _checked_truth(train, truth)
    true_profiles = [_running(profile) for profile in count_array(mean_profiles(truth))[:, 0]]
    names = counter_names(truth)
    scores = np.full((len(chosen), len(true_profiles), len(names)), np.nan)
    for m, (name, method) in enumerate(chosen.items()):
        generated = with_interval(method(train, context_table(truth)), sampling_interval(truth))
        _check_answer(generated, truth, name)
        profiles = mean_profiles(generated) if replicate_dim(generated) else generated
        counts = count_array(profiles)[:, 0]
        for c in np.flatnonzero(np.isfinite(mean_duration(profiles))):
            profile, true = _running(counts[c]), true_profiles[c]
            for k in np.flatnonzero(true.any(axis=0)):
                scores[m, c, k] = normalised_dtw(profile[:, [k]], true[:, [k]])
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
    """Scores of contexts that are left out in random groups of `size`, each context once.

    Returns and raises as :func:`score_methods`; contexts keep the order of `dataset`.  Contexts at
    the edge of the known ones are extrapolated when they are left out.  Contexts without a complete
    run, or with faults, are always in the training data (see :func:`scored_contexts`).
    """
    chosen = _chosen(methods, part=True)
    check_datasets(dataset)
    dataset = with_interval(dataset)
    warn_of_generated(dataset)
    findings = known_faults(dataset)
    log_faults(dataset, findings)
    rows, truth = scored_contexts(dataset, findings)
    every = np.arange(dataset.sizes["context"])
    n = len(rows)
    if count_of(size, "size") >= n:
        raise ArgumentError(
            f"size is {size}; 1 to {n - 1} of the {n} contexts, to leave out, are wanted."
        )
    groups = left_out_groups(truth, size, generator(rng))
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
            part=True,
            progress=step,
        )
        scores[:, group] = fold["score"].values
    return _score_dataset(scores, list(chosen), truth)


def left_out_groups(
    dataset: xr.Dataset, size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Random groups of `size` contexts, none of which holds all contexts of a word.

    ArgumentError where a hundred draws find no such groups.
    """
    labels, n = level_labels(dataset), dataset.sizes["context"]
    words = [dataset[name].values for name in labels if labels[name]]
    for _ in range(_DRAWS):
        order = rng.permutation(n)
        groups = [order[i : i + size] for i in range(0, n, size)]
        kept = [np.delete(np.arange(n), group) for group in groups]
        if all(set(word[group]) <= set(word[rest]) for word in words
               for group, rest in zip(groups, kept)):  # fmt: skip
            return groups
    raise ArgumentError(
        f"size is {size}; so many contexts cannot be left out at a time without all of some word; "
        f"fewer are wanted, or more contexts of each word."
    )


def scored_contexts(
    dataset: xr.Dataset, findings: Findings = NOTHING
) -> tuple[NDArray[np.int64], xr.Dataset]:
    """Contexts that may be left out, and their runs as the truth; ProfileError where none.

    Faulty contexts and runs are excluded, since good profiles differ from them; so is the only
    context of a word, of which nothing else is known.
    """
    faultless = without_faults(dataset, findings)
    complete = _is_complete(faultless) & ~_has_lone_word(dataset)
    if not complete.any():
        raise ProfileError(
            "every context lacks a counter in all runs that went on to their end, or looks "
            "measured wrongly, so that none can be left out and compared with; measure some whole."
        )
    for sentence in describe_excluded(dataset, findings):
        _log.warning("%s", sentence)
    rows = np.flatnonzero(complete)
    return rows, faultless.isel(context=rows)


def describe_excluded(dataset: xr.Dataset, findings: Findings) -> Iterator[str]:
    """Sentences that name the contexts excluded by :func:`scored_contexts`."""
    complete = _is_complete(dataset)
    faultless = _is_complete(without_faults(dataset, findings))
    for excluded, reason in (
        (~complete, "not every counter has a run there that went on to its end"),
        (complete & ~faultless, "what was measured there looks wrong"),
        (complete & faultless & _has_lone_word(dataset), "no other context has its word"),
    ):
        if excluded.any():
            n = int(excluded.sum())
            yield (
                f"{n} context{'s are' if n > 1 else ' is'} learned from but not left out, first "
                f"{describe_context(dataset, int(np.argmax(excluded)))}: {reason}."
            )


def _has_lone_word(dataset: xr.Dataset) -> NDArray[np.bool_]:
    """Contexts that are the only ones of a word, (n_contexts,)."""
    alone, labels = np.zeros(dataset.sizes["context"], dtype=bool), level_labels(dataset)
    for name in labels:
        if labels[name]:
            values = dataset[name].values
            alone |= (values[:, None] == values).sum(axis=1) == 1
    return alone


def _is_complete(dataset: xr.Dataset) -> NDArray[np.bool_]:
    """Contexts in which each counter has a complete run, (n_contexts,)."""
    return np.asarray(ended_counters(dataset).all(axis=1))


def score_halves(train: xr.Dataset, truth: xr.Dataset) -> xr.Dataset:
    """Scores between two halves of a context's measured runs: every other run, and the rest.

    Scores of methods below these are within the noise of the runs.  The dataset is that of
    :func:`score_methods`, with the one method ``halves``; NaN where a context has fewer than two
    whole runs.  `train` may hold the contexts of the truth.
    """
    train, truth = _with_intervals(train, truth)
    dim, present = replicate_dim(truth), _whole_runs(truth)
    scores = np.full((1, len(present), len(METRICS)), np.nan)
    rows = np.flatnonzero(present.sum(axis=1) > 1)
    if dim and len(rows):
        rank = present[rows].cumsum(axis=1)
        one, other = (
            _only(truth.isel(context=rows), present[rows] & (rank % 2 == side)) for side in (1, 0)
        )
        scores[0, rows] = _score(other, _Reference.of(one, train), ("exact",))
    return _score_dataset(scores, ["halves"], truth)


def _only(dataset: xr.Dataset, runs: NDArray[np.bool_]) -> xr.Dataset:
    """Dataset with some runs (context, run); the others are missing."""
    kept = xr.DataArray(runs, dims=("context", replicate_dim(dataset)))
    return dataset.assign(
        {name: dataset[name].where(kept) for name in (*counter_names(dataset), "duration")}
    )


def lookup_method(dataset: xr.Dataset, source: str) -> Method:
    """Method that looks up profiles that were already generated; messages name their `source`."""
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


@checks_arguments
def summarise(scores: xr.Dataset, baseline: str = "bracketing") -> dict[str, Any]:
    """Means and improvements as plain numbers for JSON: method -> metric -> figure.

    Without the baseline among the methods there is no entry ``baseline``, nor any ``improvement``.
    A method that is defined in no context has no figures, if others are defined.
    """
    mean = mean_scores(scores)
    defined = mean.notnull().any("metric").values
    names = mean["method"].values[defined] if defined.any() else mean["method"].values
    better = improvement(scores, baseline) if baseline in names else None
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
        summary["methods"][method] = figures(mean, method) if method in names else {}
        if better is not None and method in names:
            gains = figures(better, method)
            # not defined for a baseline without an error
            gains = {metric: gain for metric, gain in gains.items() if np.isfinite(gain)}
            summary["methods"][method]["improvement"] = gains
    return summary


def _chosen(
    methods: Mapping[str, Method] | Sequence[str], *, part: bool = False
) -> dict[str, Method]:
    """Methods by name, from names or a mapping."""
    if not isinstance(methods, (Mapping, Sequence)) or isinstance(methods, str) or not methods:
        raise ArgumentError(
            f"methods is {quoted(methods)}; a list of names or a mapping is wanted."
        )
    if isinstance(methods, Mapping):
        return dict(methods)
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ArgumentError(f"method is {unknown[0]!r}; one of {', '.join(METHODS)} is wanted.")
    every = _methods(part=part)
    return {name: every[name] for name in methods}


def _checked_truth(train: xr.Dataset, truth: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Both datasets as the engine takes them.

    Raises an error for invalid files, or a truth that methods cannot be compared with.
    """
    validate_profiles(train, source="measured", part=True)
    validate_profiles(truth, source="truth", part=True)
    train, truth = _with_intervals(train, truth)
    _check_same_labels(train, truth, "the measured file")
    _check_ends(truth)
    return train, truth


def _with_intervals(train: xr.Dataset, truth: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Both datasets as the engine takes them, with one interval where they hold durations."""
    if has_time_axis(truth):
        return train, truth
    train, truth = without_interval(train), without_interval(truth)
    longest = max(float(np.nanmax(duration_array(dataset))) for dataset in (train, truth))
    return with_interval(train, longest), with_interval(truth, longest)


def _log_truth_warnings(train: xr.Dataset, truth: xr.Dataset) -> None:
    known = {tuple(row) for row in context_table(train)}
    measured = [i for i, row in enumerate(context_table(truth)) if tuple(row) in known]
    tasks = [str(ds.attrs.get("task", "")) for ds in (train, truth)]
    if tasks[0] != tasks[1]:
        _log.warning("the truth is of the task '%s', what was measured of '%s'.", *tasks[::-1])
    if measured:
        _log.warning(
            "%d contexts of the truth were measured too, first %s: their scores are not those "
            "of unseen contexts.",
            len(measured),
            describe_context(truth, measured[0]),
        )


def _check_ends(truth: xr.Dataset) -> None:
    """Raise an error where a context has no complete run of some counter."""
    incomplete = ~_is_complete(truth)
    if incomplete.any():
        raise ProfileError(
            f"the truth has no run of some counter that went on to its end in "
            f"{describe_context(truth, int(np.argmax(incomplete)))}: drop the context, or measure "
            f"it."
        )


def _whole_runs(ds: xr.Dataset) -> NDArray[np.bool_]:
    """Complete runs that hold every counter, (n_contexts, n_runs)."""
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
    """Raise an error where a method answers for other contexts or counters, or in another order."""
    _check_same_labels(generated, truth, f"what '{name}' generates")
    if not np.array_equal(context_table(generated), context_table(truth)):
        raise ProfileError(
            f"'{name}' answers for other contexts than those of the truth, or in another order."
        )


@dataclass(frozen=True, eq=False)
class _Reference:
    """Truth that every method is compared with."""

    profiles: list[Floats]  # mean profile of each context, (n_times, n_counters)
    duration: Floats  # (n_contexts,): its mean execution time [s]
    scale: Floats  # (n_counters,): largest sound count in training; 1 where all counts are zero
    rows: list[list[int]]  # sampling intervals at which each context's clouds are compared
    clouds: list[list[Floats]]  # scaled states of all runs there, (n_runs, n_counters)

    @classmethod
    def of(cls, truth: xr.Dataset, train: xr.Dataset) -> _Reference:
        known = count_array(train)
        for one in find_wrong_counts(known):  # a faulty count would be the scale of all others
            known[one.contexts[0], one.run, one.interval, one.counter] = np.nan
        largest = np.nanmax(known, axis=(0, 1, 2))
        scale = np.where(largest > 0, largest, 1.0)
        duration, interval = mean_duration(truth), sampling_interval(truth)
        rows = [[int(share * end / interval) for share in CLOUD_TIMES] for end in duration]
        counts = count_array(truth)
        counts[~_whole_runs(truth)] = np.nan  # joint states need all counters of a run
        clouds = [[_cloud(c, row, scale) for row in at] for c, at in zip(counts, rows)]
        profiles = [_running(c) for c in count_array(mean_profiles(truth))[:, 0]]
        return cls(profiles, duration, scale, rows, clouds)


def _score(generated: xr.Dataset, reference: _Reference, warping: Sequence[Warping]) -> Floats:
    """Every metric at every context of the truth, (context, metric).

    Those of the course in time are NaN where none is known.
    """
    counts = count_array(generated)
    profiles = mean_profiles(generated) if replicate_dim(generated) else generated
    profile, end = count_array(profiles)[:, 0], mean_duration(profiles)
    scores = np.full((len(reference.profiles), len(METRICS)), np.nan)
    column = {name: i for i, name in enumerate(METRICS)}
    for c in np.flatnonzero(np.isfinite(end)):
        scores[c, column["duration_error"]] = relative_error(end[c], reference.duration[c])
        if not has_time_axis(generated):
            continue
        pair = _running(profile[c]), reference.profiles[c]
        for form in warping:
            name = {"exact": "ndtw", "fastdtw": "fastdtw"}[form]
            scores[c, column[name]] = normalised_dtw(*pair, method=form)
            scores[c, column[f"{name}_scaled"]] = normalised_dtw(
                *pair, scale=reference.scale, method=form
            )
        clouds = [_cloud(counts[c], row, reference.scale) for row in reference.rows[c]]
        pairs = list(zip(clouds, reference.clouds[c]))
        if not all(len(cloud) for cloud in reference.clouds[c]):
            continue
        scores[c, column["energy_distance"]] = np.mean([energy_distance(*p) for p in pairs])
        scores[c, column["wasserstein"]] = np.mean([wasserstein_distance(*p) for p in pairs])
    return scores


def _running(profile: Floats) -> Floats:
    """Rows of a profile (time, counter) until its end."""
    return profile[np.isfinite(profile).all(axis=1)]


def _cloud(runs: Floats, row: int, scale: Floats) -> Floats:
    """Scaled states of all runs (run, time, counter) in one interval, zero after a run's end."""
    present = np.isfinite(runs[:, 0, 0])
    if row >= runs.shape[1]:
        return np.zeros((int(present.sum()), runs.shape[2]))
    return np.nan_to_num(runs[present, row] / scale)


def _score_dataset(scores: Floats, names: list[str], truth: xr.Dataset) -> xr.Dataset:
    attrs = {"long_name": "score, lower is better", "units": "1"}
    return xr.Dataset(
        {"score": (("method", "context", "metric"), scores, attrs)},
        coords={**_labels(truth), "method": names, "metric": list(METRICS)},
        attrs={"task": str(truth.attrs.get("task", ""))},
    )


def _labels(truth: xr.Dataset) -> dict[str, Any]:
    return {name: truth[name] for name in resource_names(truth)}


def _defined(scores: xr.Dataset) -> xr.DataArray:
    """Contexts where every method is defined: all methods are compared on these.

    Methods that are defined in no context at all do not count, unless there are no others.
    """
    defined = scores["score"].sel(metric="duration_error").notnull()
    somewhere = defined.any("context")
    return (defined | (~somewhere & somewhere.any())).all("method")
