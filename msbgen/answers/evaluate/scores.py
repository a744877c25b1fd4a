"""Scores of methods on unseen contexts: against a truth file, or by leaving contexts out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.answers.evaluate.baselines import BASELINES, mean_counts
from msbgen.answers.evaluate.metrics import (
    Warping,
    energy_distance,
    normalised_dtw,
    relative_error,
    wasserstein_distance,
)
from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, checks_arguments
from msbgen.data.check import checked_profiles
from msbgen.data.durations_only import (
    with_interval,
    without_interval,
)
from msbgen.data.partial import ended_counters
from msbgen.data.profiles import Profiles
from msbgen.data.quality import warn_of_generated
from msbgen.data.schema import labels_of
from msbgen.engine.faults.counts import find_wrong_counts
from msbgen.engine.faults.findings import NOTHING, Findings
from msbgen.engine.generate.detection import known_faults, log_faults, without_faults
from msbgen.engine.generate.fit import PRESETS, fit_model
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
    return _methods(quiet=False)


def _methods(*, quiet: bool) -> dict[str, Method]:
    """Every method by name; `quiet` as :func:`msbgen.engine.generate.fit.fit_model`."""
    kinds = {
        f"{preset}/{kind}": method
        for preset in PRESETS
        for kind, method in _generator(preset, quiet=quiet).items()
    }
    return {**kinds, **BASELINES}


def _generator(preset: str, *, quiet: bool) -> dict[Kind, Method]:
    last: list[tuple[xr.Dataset, ProfileModel]] = []

    def method(kind: Kind) -> Method:
        def generate(train: xr.Dataset, contexts: ArrayLike) -> xr.Dataset:
            if not last or last[0][0] is not train:
                profiles = checked_profiles(train, part=True)
                last[:] = [(train, fit_model(profiles, PRESETS[preset], quiet=quiet))]
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
    warping: tuple[Warping, ...] = ("exact",),
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
    train, known, unseen = checked_pair(train, truth)
    warn_of_generated(unseen)
    _log_truth_warnings(known, unseen)
    return score_answers(chosen, train, known, unseen, warping=warping, progress=progress)


def score_answers(
    methods: Mapping[str, Method],
    train: xr.Dataset,
    known: Profiles,
    truth: Profiles,
    *,
    warping: Sequence[Warping] = ("exact",),
    progress: OnProgress | None = None,
) -> xr.Dataset:
    """Scores of methods that see the dataset `train`, whose record is `known`.

    Both are valid, and match the truth; result and errors as :func:`score_methods`.
    """
    reference, scores = _Reference.of(truth, known), []
    for done, (name, method) in enumerate(methods.items()):
        if progress:
            progress(done, len(methods))
        scores.append(_score(_answer(method, name, train, truth), reference, warping))
    if progress:
        progress(len(methods), len(methods))
    return _score_dataset(np.stack(scores), list(methods), truth)


def score_counters(methods: Mapping[str, Method], train: xr.Dataset, truth: Profiles) -> xr.Dataset:
    """Exact normalised DTW of each counter separately, by the counter's largest count.

    Parameters and errors as :func:`score_answers`.  The variable ``score`` (method, context,
    counter) is NaN where a method is not defined, or the counter counted nothing.  The largest
    count is that of the context's mean run.
    """
    true_profiles = [_running(profile) for profile in mean_counts(truth)]
    names = list(truth.counters)
    scores = np.full((len(methods), len(true_profiles), len(names)), np.nan)
    for m, (name, method) in enumerate(methods.items()):
        generated = _answer(method, name, train, truth)
        counts = mean_counts(generated)
        for c in np.flatnonzero(np.isfinite(generated.mean_duration)):
            profile, true = _running(counts[c]), true_profiles[c]
            for k in np.flatnonzero(true.any(axis=0)):
                scores[m, c, k] = normalised_dtw(profile[:, [k]], true[:, [k]])
    attrs = {"long_name": "normalised DTW of each counter alone", "units": "1"}
    return xr.Dataset(
        {"score": (("method", "context", "counter"), scores, attrs)},
        coords={**_labels(truth), "method": list(methods), "counter": names},
        attrs={"task": truth.task},
    )


@checks_arguments
def leave_contexts_out(
    dataset: xr.Dataset,
    size: Count,
    methods: Mapping[str, Method] | Sequence[str] = METHODS,
    *,
    rng: np.random.Generator | int = 0,
    warping: tuple[Warping, ...] = ("exact",),
    progress: OnProgress | None = None,
) -> xr.Dataset:
    """Scores of contexts that are left out in random groups of `size`, each context once.

    Returns and raises as :func:`score_methods`; contexts keep the order of `dataset`.  Contexts at
    the edge of the known ones are extrapolated when they are left out.  Contexts without a complete
    run, or with faults, are always in the training data (see :func:`scored_contexts`).
    """
    chosen = _chosen(methods, quiet=True)
    profiles = checked_profiles(dataset, source="measured", part=True)
    dataset = with_interval(dataset)
    warn_of_generated(profiles)
    findings = known_faults(profiles)
    log_faults(profiles, findings)
    rows, truth = scored_contexts(profiles, findings)
    every = np.arange(len(profiles.contexts))
    n = len(rows)
    if size >= n:
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

        fold = score_answers(
            chosen,
            dataset.isel(context=kept),
            profiles.of_contexts(kept),
            truth.of_contexts(group),
            warping=warping,
            progress=step,
        )
        scores[:, group] = fold["score"].values
    return _score_dataset(scores, list(chosen), truth)


def left_out_groups(
    profiles: Profiles, size: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Random groups of `size` contexts, none of which holds all contexts of a word.

    ArgumentError where a hundred draws find no such groups.
    """
    n, words = len(profiles.contexts), _word_levels(profiles)
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
    profiles: Profiles, findings: Findings = NOTHING
) -> tuple[NDArray[np.int64], Profiles]:
    """Contexts that may be left out, and their runs as the truth; ProfileError where none.

    Faulty contexts and runs are excluded, since good profiles differ from them; so is the only
    context of a word, of which nothing else is known.
    """
    faultless = without_faults(profiles, findings)
    complete = _is_complete(faultless) & ~_has_lone_word(profiles)
    if not complete.any():
        raise ProfileError(
            "every context lacks a counter in all runs that went on to their end, or looks "
            "measured wrongly, so that none can be left out and compared with; measure some whole."
        )
    for sentence in describe_excluded(profiles, findings):
        _log.warning("%s", sentence)
    rows = np.flatnonzero(complete)
    return rows, faultless.of_contexts(rows)


def describe_excluded(profiles: Profiles, findings: Findings) -> Iterator[str]:
    """Sentences that name the contexts excluded by :func:`scored_contexts`."""
    complete = _is_complete(profiles)
    faultless = _is_complete(without_faults(profiles, findings))
    for excluded, reason in (
        (~complete, "not every counter has a run there that went on to its end"),
        (complete & ~faultless, "what was measured there looks wrong"),
        (complete & faultless & _has_lone_word(profiles), "no other context has its word"),
    ):
        if excluded.any():
            n = int(excluded.sum())
            yield (
                f"{n} context{'s are' if n > 1 else ' is'} learned from but not left out, first "
                f"{profiles.describe_context(int(np.argmax(excluded)))}: {reason}."
            )


def _word_levels(profiles: Profiles) -> list[Floats]:
    """Levels of the contexts, (n_contexts,), of each resource whose levels are words."""
    resources = zip(profiles.resources.values(), profiles.contexts.T)
    return [levels for attrs, levels in resources if labels_of(attrs)]


def _has_lone_word(profiles: Profiles) -> NDArray[np.bool_]:
    """Contexts that are the only ones of a word, (n_contexts,)."""
    alone = np.zeros(len(profiles.contexts), dtype=bool)
    for values in _word_levels(profiles):
        alone |= (values[:, None] == values).sum(axis=1) == 1
    return alone


def _is_complete(profiles: Profiles) -> NDArray[np.bool_]:
    """Contexts in which each counter has a complete run, (n_contexts,)."""
    return np.asarray(ended_counters(profiles).all(axis=1))


def score_halves(train: Profiles, truth: Profiles) -> xr.Dataset:
    """Scores between two halves of a context's measured runs: every other run, and the rest.

    Scores of methods below these are within the noise of the runs.  The dataset is that of
    :func:`score_methods`, with the one method ``halves``; NaN where a context has fewer than two
    whole runs.  `train` may hold the contexts of the truth.
    """
    present = _whole_runs(truth)
    scores = np.full((1, len(present), len(METRICS)), np.nan)
    rows = np.flatnonzero(present.sum(axis=1) > 1)
    if truth.replicate and len(rows):
        rank, some = present[rows].cumsum(axis=1), truth.of_contexts(rows)
        one, other = (some.of_runs(present[rows] & (rank % 2 == side)) for side in (1, 0))
        scores[0, rows] = _score(other, _Reference.of(one, train), ("exact",))
    return _score_dataset(scores, ["halves"], truth)


def lookup_method(dataset: xr.Dataset, source: str) -> Method:
    """Method that looks up profiles that were already generated; messages name their `source`."""
    rows = {tuple(context): i for i, context in enumerate(Profiles.of(dataset).contexts)}

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
    methods: Mapping[str, Method] | Sequence[str], *, quiet: bool = False
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
    every = _methods(quiet=quiet)
    return {name: every[name] for name in methods}


def checked_pair(train: xr.Dataset, truth: xr.Dataset) -> tuple[xr.Dataset, Profiles, Profiles]:
    """Measurements as methods see them, their record and that of the truth.

    Durations without a time axis get one interval in both.  Raises an error for invalid files, or
    a truth that methods cannot be compared with.
    """
    known = checked_profiles(train, source="measured", part=True)
    unseen = checked_profiles(truth, source="truth", part=True)
    if not unseen.is_timed:
        longest = float(max(np.nanmax(known.duration), np.nanmax(unseen.duration)))
        train = with_interval(without_interval(train), longest)
        known, unseen = Profiles.of(train), Profiles.of(without_interval(truth), longest)
    _check_same_labels(known, unseen, "the measured file")
    _check_ends(unseen)
    return train, known, unseen


def _log_truth_warnings(train: Profiles, truth: Profiles) -> None:
    known = {tuple(row) for row in train.contexts}
    measured = [i for i, row in enumerate(truth.contexts) if tuple(row) in known]
    if train.task != truth.task:
        _log.warning(
            "the truth is of the task '%s', what was measured of '%s'.", truth.task, train.task
        )
    if measured:
        _log.warning(
            "%d contexts of the truth were measured too, first %s: their scores are not those "
            "of unseen contexts.",
            len(measured),
            truth.describe_context(measured[0]),
        )


def _check_ends(truth: Profiles) -> None:
    """Raise an error where a context has no complete run of some counter."""
    incomplete = ~_is_complete(truth)
    if incomplete.any():
        raise ProfileError(
            f"the truth has no run of some counter that went on to its end in "
            f"{truth.describe_context(int(np.argmax(incomplete)))}: drop the context, or measure "
            f"it."
        )


def _whole_runs(profiles: Profiles) -> NDArray[np.bool_]:
    """Complete runs that hold every counter, (n_contexts, n_runs)."""
    return np.asarray(profiles.held.all(axis=2)) & np.isfinite(profiles.ended)


def _check_same_labels(other: Profiles, truth: Profiles, source: str) -> None:
    for what in ("resources", "counters"):
        here, there = list(getattr(truth, what)), list(getattr(other, what))
        if here != there:
            raise ProfileError(
                f"the truth has {what} {', '.join(here)}, {source} {', '.join(there)}: compare "
                f"profiles of one task and platform."
            )
    if not np.isclose(other.interval, truth.interval):
        raise ProfileError(
            f"the truth is sampled every {truth.interval:g} s, {source} every "
            f"{other.interval:g} s: compare profiles of one interval."
        )


def _answer(method: Method, name: str, train: xr.Dataset, truth: Profiles) -> Profiles:
    """What a method generates from a dataset for the contexts of the truth.

    ProfileError where it answers for other contexts or counters, or in another order.
    """
    generated = Profiles.of(method(train, truth.contexts.copy()), truth.interval)
    _check_same_labels(generated, truth, f"what '{name}' generates")
    if not np.array_equal(generated.contexts, truth.contexts):
        raise ProfileError(
            f"'{name}' answers for other contexts than those of the truth, or in another order."
        )
    return generated


@dataclass(frozen=True, eq=False)
class _Reference:
    """Truth that every method is compared with."""

    profiles: list[Floats]  # mean profile of each context, (n_times, n_counters)
    duration: Floats  # (n_contexts,): its mean execution time [s]
    scale: Floats  # (n_counters,): largest sound count in training; 1 where all counts are zero
    rows: list[list[int]]  # sampling intervals at which each context's clouds are compared
    clouds: list[list[Floats]]  # scaled states of all runs there, (n_runs, n_counters)

    @classmethod
    def of(cls, truth: Profiles, train: Profiles) -> _Reference:
        known = train.counts.copy()
        for one in find_wrong_counts(known):  # a faulty count would be the scale of all others
            known[one.contexts[0], one.run, one.interval, one.counter] = np.nan
        largest = np.nanmax(known, axis=(0, 1, 2))
        scale = np.where(largest > 0, largest, 1.0)
        duration = truth.mean_duration
        rows = [[int(share * end / truth.interval) for share in CLOUD_TIMES] for end in duration]
        # joint states need all counters of a run
        counts = np.where(_whole_runs(truth)[..., None, None], truth.counts, np.nan)
        clouds = [[_cloud(c, row, scale) for row in at] for c, at in zip(counts, rows)]
        profiles = [_running(profile) for profile in mean_counts(truth)]
        return cls(profiles, duration, scale, rows, clouds)


def _score(generated: Profiles, reference: _Reference, warping: Sequence[Warping]) -> Floats:
    """Every metric at every context of the truth, (context, metric).

    Those of the course in time are NaN where none is known.
    """
    counts, profile, end = generated.counts, mean_counts(generated), generated.mean_duration
    scores = np.full((len(reference.profiles), len(METRICS)), np.nan)
    column = {name: i for i, name in enumerate(METRICS)}
    for c in np.flatnonzero(np.isfinite(end)):
        scores[c, column["duration_error"]] = relative_error(end[c], reference.duration[c])
        if not generated.is_timed:
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


def _score_dataset(scores: Floats, names: list[str], truth: Profiles) -> xr.Dataset:
    attrs = {"long_name": "score, lower is better", "units": "1"}
    return xr.Dataset(
        {"score": (("method", "context", "metric"), scores, attrs)},
        coords={**_labels(truth), "method": names, "metric": list(METRICS)},
        attrs={"task": truth.task},
    )


def _labels(truth: Profiles) -> dict[str, Any]:
    """Coordinates of the contexts."""
    columns = zip(truth.resources.items(), truth.contexts.T)
    return {name: ("context", levels, attrs) for (name, attrs), levels in columns}


def _defined(scores: xr.Dataset) -> xr.DataArray:
    """Contexts where every method is defined: all methods are compared on these.

    Methods that are defined in no context at all do not count, unless there are no others.
    """
    defined = scores["score"].sel(metric="duration_error").notnull()
    somewhere = defined.any("context")
    return (defined | (~somewhere & somewhere.any())).all("method")
