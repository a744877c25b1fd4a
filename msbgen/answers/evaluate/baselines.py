"""Baselines: interpolation between the mean profiles of known contexts.

Every baseline is ``(train, contexts) -> Dataset``: at each time a weighted mean of the known
contexts' mean profiles, with weights that depend on the contexts alone.  `log_log` and `reciprocal`
predict the duration instead, and the counters in equal parts of it.  Where a baseline is not
defined (no two contexts bracket the query; a level is not positive, and has no logarithm), profile
and duration are NaN throughout.  Levels that are words are not interpolated: contexts with the
words of the query alone are used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.contexts import (
    LevelGrid,
    gaussian_log_weights,
    scott_bandwidth,
    squared_distances,
    to_unit_range,
)
from msbgen.core.errors import MeasurementError
from msbgen.data import schema
from msbgen.data.build import join_profiles, make_profiles
from msbgen.data.partial import ended_counters
from msbgen.data.profiles import Profiles

Floats = NDArray[np.float64]
Baseline = Callable[[xr.Dataset, ArrayLike], xr.Dataset]

# Largest difference of equal levels by rounding, in units of the known range.
_ROUNDING = 1e-9
# Equal parts of a run, in which methods that predict the duration predict the counters.
_PARTS = 200
# Logarithm of a count of zero.
_LEAST_LOG = -30.0


def _baseline(method: Callable[[Profiles, Floats], xr.Dataset]) -> Baseline:
    """The method on datasets, among the known contexts with the words of a query.

    Words have no order.
    """

    @wraps(method)
    def interpolate(train: xr.Dataset, contexts: ArrayLike) -> xr.Dataset:
        profiles = Profiles.of(train)
        query = schema.checked_contexts(contexts, list(profiles.resources))
        named = [i for i, a in enumerate(profiles.resources.values()) if schema.labels_of(a)]
        if not named:
            return method(profiles, query)
        parts, rows = [], []
        for words in np.unique(query[:, named], axis=0):
            own, alike = (
                (table[:, named] == words).all(axis=1) for table in (query, profiles.contexts)
            )
            rows.append(np.flatnonzero(own))
            # without such a context, the one of other words that it is compared with is undefined
            part = method(profiles.of_contexts(alike if alike.any() else [0]), query[own])
            parts.append(part if alike.any() else part.where(part["duration"] < 0))
        return join_profiles(parts).isel(context=np.argsort(np.concatenate(rows)))

    return interpolate


def mean_profiles(dataset: xr.Dataset) -> xr.Dataset:
    """Mean empirical profile of every context, dims (context, time).

    The expected count of every interval until the end of the longest run; a run that has ended
    counts zero.  ``duration`` is the mean duration.  Each counter's mean is over the runs that hold
    it, and over runs that were cut until their cut; NaN where there is none.
    """
    profiles = Profiles.of(dataset)
    return _labelled(mean_counts(profiles), profiles.mean_duration, profiles.contexts, profiles)


def mean_counts(profiles: Profiles) -> Floats:
    """Counts of :func:`mean_profiles`, (n, t, k); the profile where there is one per context."""
    if not profiles.replicate:
        return profiles.counts[:, 0]
    counts = profiles.counts
    running = np.isfinite(counts)
    ended = np.isfinite(profiles.ended)[:, :, None, None]
    known = running | (ended & running.any(axis=2, keepdims=True))
    with np.errstate(invalid="ignore"):
        mean = np.nan_to_num(counts).sum(axis=1) / known.sum(axis=1)
    mean[~running.any(axis=(1, 3))] = np.nan
    return mean.astype(np.float32).astype(float)  # as files hold it


@_baseline
def bracketing(train: Profiles, query: Floats) -> xr.Dataset:
    """Mean of the two known contexts that bracket each context most tightly (the paper's).

    β⁻ ≤ β ≤ β⁺ in every resource (Section IV-B, footnote 5).  The tightest ones have the least sum
    of distances in the resources, each divided by its known range.
    """
    return _interpolate(train, query, _bracketing_weights)


@_baseline
def nearest_context(train: Profiles, query: Floats) -> xr.Dataset:
    """Mean profile of the nearest known context, each resource divided by its known range."""
    return _interpolate(train, query, _nearest_weights)


@_baseline
def multilinear(train: Profiles, query: Floats) -> xr.Dataset:
    """Multilinear interpolation on a full grid of known contexts, else barycentric (Delaunay).

    A context outside a grid is moved to the nearest point of the grid's box; outside the hull of
    scattered contexts the nearest known context is taken.
    """
    return _interpolate(train, query, _multilinear_weights)


@_baseline
def kernel_mean(train: Profiles, query: Floats) -> xr.Dataset:
    """Nadaraya-Watson mean over the known contexts with a Gaussian kernel.

    The bandwidth is Scott's times a factor of 1/4, 1/2, 1 or 2: the one with the least squared
    error of mean profiles of known contexts, each left out in turn.
    """
    train = _fully_measured(train)
    known = to_unit_range(train.contexts, train.contexts)
    profiles = np.nan_to_num(mean_counts(train))
    largest = profiles.max(axis=(0, 1))
    # a counter may be zero in all of a few contexts
    flat = (profiles / np.where(largest > 0, largest, 1.0)).reshape(len(profiles), -1)
    errors = {}
    for factor in (0.25, 0.5, 1.0, 2.0):
        weights = _gaussian_weights(known, known, factor, leave_self_out=len(known) > 1)
        errors[factor] = float(((weights @ flat - flat) ** 2).sum())
    best = min(errors, key=errors.__getitem__)
    return _interpolate(train, query, lambda x, q: _gaussian_weights(x, q, best))


@_baseline
def log_log(train: Profiles, query: Floats) -> xr.Dataset:
    """Multilinear interpolation of logarithms over logarithms of the levels, clamped to their box.

    Of the duration, and of each counter in equal parts of it; scattered contexts as `multilinear`.
    """

    def predict(known: Floats, query: Floats, values: Floats) -> Floats:
        known, query = np.log(known), np.log(query)
        weights = _multilinear_weights(to_unit_range(known, known), to_unit_range(known, query))
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(values), _LEAST_LOG)
        return np.exp(weights @ logs)

    return _in_parts(train, query, predict)


@_baseline
def reciprocal(train: Profiles, query: Floats) -> xr.Dataset:
    """Least squares a + Σ b_i / x_i over the levels x_i of all resources.

    Of the duration, and of each counter in equal parts of it.  Negative counts become zero, and
    the duration stays between a tenth of the shortest and ten times the longest known one.
    """

    def predict(known: Floats, query: Floats, values: Floats) -> Floats:
        design, wanted = (np.column_stack([np.ones(len(x)), 1.0 / x]) for x in (known, query))
        found = np.maximum(wanted @ np.linalg.pinv(design) @ values, 0.0)
        lasting = values[:, 0]
        found[:, 0] = np.clip(found[:, 0], 0.1 * lasting.min(), 10 * lasting.max())
        return found

    return _in_parts(train, query, predict)


BASELINES: dict[str, Baseline] = {
    "bracketing": bracketing,
    "nearest_context": nearest_context,
    "multilinear": multilinear,
    "kernel_mean": kernel_mean,
    "log_log": log_log,
    "reciprocal": reciprocal,
}


def _interpolate(
    train: Profiles, query: Floats, weigh: Callable[[Floats, Floats], Floats]
) -> xr.Dataset:
    """Weighted means of the known mean profiles, by weights (n_query, n_known) of contexts."""
    train = _fully_measured(train)
    known = train.contexts
    weights = weigh(to_unit_range(known, known), to_unit_range(known, query))
    profiles = mean_counts(train)
    running = np.isfinite(profiles).all(axis=2)
    mean = np.tensordot(weights, np.nan_to_num(profiles), axes=1)
    mean[~(weights @ running >= schema.NEGLIGIBLE)] = np.nan
    longest = np.flatnonzero(np.isfinite(mean).any(axis=(0, 2)))
    length = int(longest[-1]) + 1 if len(longest) else 1
    return _labelled(mean[:, :length], weights @ train.mean_duration, query, train)


def _in_parts(
    train: Profiles, query: Floats, predict: Callable[[Floats, Floats, Floats], Floats]
) -> xr.Dataset:
    """Profiles from a prediction of durations and of counts in equal parts of a run.

    ``predict(known, query, values)`` returns the values (n_query, v) of (n_known, v), the durations
    first.  If all known levels are positive, it predicts contexts with positive levels alone.
    """
    train = _fully_measured(train)
    table, interval = train.contexts, train.interval
    share, parts = np.linspace(0, 1, _PARTS + 1), []
    for profile in mean_counts(train):
        run = profile[np.isfinite(profile).all(axis=1)]
        sums = np.vstack([np.zeros(run.shape[1]), run.cumsum(axis=0)])
        ends = np.linspace(0, 1, len(sums))
        parts.append(np.diff([np.interp(share, ends, column) for column in sums.T], axis=1).T)
    values = np.column_stack([train.mean_duration, np.reshape(parts, (len(table), -1))])
    defined = np.flatnonzero((query > 0).all(axis=1) & (table > 0).all())
    found = np.full((len(query), values.shape[1]), np.nan)
    if len(defined):
        found[defined] = predict(table, query[defined], values)
    duration, counts = found[:, 0], found[:, 1:].reshape(len(query), _PARTS, -1)
    rows = np.ones(len(query), dtype=int)
    rows[defined] = np.maximum(np.ceil(duration[defined] / interval - _ROUNDING), 1)
    mean = np.full((len(query), rows.max(), counts.shape[2]), np.nan)
    for i in defined:
        ends = np.minimum(np.arange(rows[i] + 1) * interval / duration[i], 1.0)
        sums = np.vstack([np.zeros(counts.shape[2]), counts[i].cumsum(axis=0)])
        found_counts = np.diff([np.interp(ends, share, column) for column in sums.T], axis=1)
        mean[i, : rows[i]] = found_counts.T
    return _labelled(mean, duration, query, train)


def _fully_measured(train: Profiles) -> Profiles:
    """Contexts in which complete runs hold every counter; MeasurementError where there is none."""
    known = ended_counters(train).all(axis=1)
    if not known.any():
        raise MeasurementError(
            "in no context do runs that went on to their end hold every counter; one at least is "
            "wanted."
        )
    return train if known.all() else train.of_contexts(known)


def _bracketing_weights(known: Floats, query: Floats) -> Floats:
    weights = np.zeros((len(query), len(known)))
    for i, q in enumerate(query):
        distance = np.abs(known - q).sum(axis=1)
        below = np.where((known <= q + _ROUNDING).all(axis=1), distance, np.inf)
        above = np.where((known >= q - _ROUNDING).all(axis=1), distance, np.inf)
        if np.isinf(below.min()) or np.isinf(above.min()):
            weights[i] = np.nan
        else:
            weights[i, below.argmin()] += 0.5
            weights[i, above.argmin()] += 0.5
    return weights


def _nearest_weights(known: Floats, query: Floats) -> Floats:
    weights = np.zeros((len(query), len(known)))
    weights[np.arange(len(query)), squared_distances(query, known).argmin(axis=1)] = 1.0
    return weights


def _multilinear_weights(known: Floats, query: Floats) -> Floats:
    varying = np.flatnonzero(np.ptp(known, axis=0) > 0)
    if not len(varying):
        return np.ones((len(query), 1))
    known = known[:, varying]
    query = np.clip(query[:, varying], known.min(axis=0), known.max(axis=0))
    grid = LevelGrid.of(known)
    if grid.is_full:
        cells = np.eye(len(known))[grid.rows].reshape(*grid.shape, len(known))
        # imported here, as reports of saved models interpolate nothing
        from scipy.interpolate import RegularGridInterpolator

        return RegularGridInterpolator(grid.levels, cells)(query)
    return _barycentric_weights(known, query)


def _barycentric_weights(known: Floats, query: Floats) -> Floats:
    from scipy.spatial import Delaunay, QhullError  # imported here, as above

    weights = _nearest_weights(known, query)
    try:
        mesh = Delaunay(known)
    except QhullError:  # no simplices: fewer than m + 2 contexts, or all in one plane
        return weights
    simplex = mesh.find_simplex(query)
    inside = np.flatnonzero(simplex >= 0)
    transform = mesh.transform[simplex[inside]]
    m = known.shape[1]
    part = np.einsum("qij,qj->qi", transform[:, :m], query[inside] - transform[:, m])
    weights[inside] = 0.0
    corners = mesh.simplices[simplex[inside]]
    share = np.column_stack([part, 1 - part.sum(axis=1)])
    np.add.at(weights, (inside[:, None], corners), share)
    return weights


def _gaussian_weights(
    known: Floats, query: Floats, factor: float, *, leave_self_out: bool = False
) -> Floats:
    bandwidth = factor * scott_bandwidth(known)
    log_weight = gaussian_log_weights(known / bandwidth, query / bandwidth)
    if leave_self_out:
        np.fill_diagonal(log_weight, -np.inf)
    weights = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _labelled(counts: Floats, duration: Floats, contexts: Floats, train: Profiles) -> xr.Dataset:
    return make_profiles(
        counts,
        duration,
        contexts,
        interval=train.interval,
        resources=train.resources,
        counters=train.counter_attrs,
        attrs=train.inherited_attrs,
    )
