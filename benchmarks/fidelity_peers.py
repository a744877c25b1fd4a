"""Peers of the generator, each tuned on the known contexts alone.

Every peer is ``(train, contexts) -> Dataset``, like :mod:`msbgen.evaluate.baselines`. Peers named
``progress/…`` map scaled log contexts to the logarithm of the state at equal progress, and
integrate the prediction back to wall time. Their settings minimise the error on left-out known
contexts: each alone, and each inner level of a grid.

``whole_runs`` needs no transport: the generator's trend times residuals of whole runs from nearby
contexts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, product
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import LinearNDInterpolator, RegularGridInterpolator

from msbgen.answers.evaluate.metrics import energy_distance
from msbgen.core.contexts import inner_levels
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    NEGLIGIBLE,
    context_table,
    counter_names,
    duration_array,
    resource_attrs,
    sampling_interval,
)
from msbgen.engine.generate.fit import DEFAULT
from msbgen.engine.generate.progress import (
    deconvolve,
    lost_counts,
    to_progress,
    to_wall_time,
    uniform_knots,
)
from msbgen.engine.trend.fit import Trend, fit_trend

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Predictor = Callable[[Floats], Floats]  # contexts (q, m) -> values (q, p)
Method = Callable[[xr.Dataset, ArrayLike], xr.Dataset]

BINS, SEGMENTS = DEFAULT.bins, DEFAULT.segments
# Deconvolution steps, as in the generator.
SHARED_STEPS = 6
# Numbers of trees for boosting.
ROUNDS = (15, 50, 100, 200)
# Counts below this share of their mean are treated additively: log(count + share · mean).
FLOOR = 0.1


@dataclass(frozen=True)
class Measured:
    """Runs that did not lose counts, at equal progress, (n, bins, d).

    ``own`` (n,) is the context of each run, not decreasing, and ``total`` the mean total of the
    clock's counter. Interval and clock are as for
    :func:`msbgen.engine.generate.progress.to_progress`.
    """

    counts: Floats
    duration: Floats
    own: NDArray[np.int64]
    contexts: Floats
    state: Floats
    total: float
    interval: float
    clock: int

    @classmethod
    def of(cls, train: xr.Dataset) -> Measured:
        names = counter_names(train)
        clock = 1 + names.index("instructions") if "instructions" in names else 0
        counts, duration = Profiles.of(train).counts, duration_array(train)
        interval = sampling_interval(train)
        found = to_progress(counts, duration, interval, knots=uniform_knots(BINS), clock=clock)
        used = np.isfinite(found.total) & ~lost_counts(found.total)
        runs = counts[used], duration[used], np.nonzero(used)[0]
        total = float(found.total[used].mean())
        return cls(*runs, context_table(train), found.state[used], total, interval, clock)

    def context_means(self, state: Floats) -> Floats:
        return np.stack([state[self.own == c].mean(axis=0) for c in range(len(self.contexts))])

    def wall_time(self, state: Floats) -> tuple[Floats, Floats]:
        return to_wall_time(
            state, self.total, self.interval, knots=uniform_knots(BINS), clock=self.clock
        )

    def coordinates(self, contexts: Floats, names: tuple[str, ...] | None = None) -> Floats:
        """Contexts (q, m) with each known range moved to [0, 1] on the named axes; log if none."""
        axes = {"log": np.log, "reciprocal": lambda x: -1 / x, "linear": lambda x: x}
        columns = []
        for r, name in enumerate(names or ("log",) * self.contexts.shape[1]):
            known, requested = (axes[name](table[:, r]) for table in (self.contexts, contexts))
            columns.append((requested - known.min()) / (np.ptp(known) or 1.0))
        return np.stack(columns, axis=1)


def nearest(known: Measured, values: Floats, weight_of_bin: Floats) -> Predictor:
    """The nearest context; the weight of each resource is 1/2, 1, 2 or 4 over its range."""
    z, tests = known.coordinates(known.contexts), _tests(known)

    def closest(query: Floats, weight: Floats, barred: Bools) -> NDArray[np.int64]:
        distance = (((query[:, None] - z) * weight) ** 2).sum(axis=2)
        return np.where(barred, np.inf, distance).argmin(axis=1)

    def error(weight: tuple[float, ...]) -> float:
        return sum(
            _error(values[closest(z[rows], np.array(weight), barred)] - values[rows], weight_of_bin)
            for rows, barred in tests
        )

    best = np.array(min(product((0.5, 1.0, 2.0, 4.0), repeat=z.shape[1]), key=error))

    def predict(contexts: Floats) -> Floats:
        query = known.coordinates(contexts)
        return values[closest(query, best, np.zeros((len(query), len(z)), dtype=bool))]

    return predict


def kernel_mean(known: Measured, values: Floats, weight_of_bin: Floats) -> Predictor:
    """Nadaraya-Watson with a Gaussian kernel; a bandwidth per resource by coordinate descent."""
    z, tests = known.coordinates(known.contexts), _tests(known)
    grid = np.geomspace(0.03, 4.0, 15)

    def weights(query: Floats, index: list[int], barred: Bools) -> Floats:
        exponent = -0.5 * (((query[:, None] - z) / grid[index]) ** 2).sum(axis=2)
        exponent = np.where(barred, -np.inf, exponent)
        weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
        return weight / weight.sum(axis=1, keepdims=True)

    def error(index: list[int]) -> float:
        return sum(
            _error(weights(z[rows], index, barred) @ values - values[rows], weight_of_bin)
            for rows, barred in tests
        )

    best = [8] * z.shape[1]
    for _ in range(3):
        for r in range(z.shape[1]):
            tried = [[*best[:r], i, *best[r + 1 :]] for i in range(len(grid))]
            best = min(tried, key=error)

    def predict(contexts: Floats) -> Floats:
        query = known.coordinates(contexts)
        return weights(query, best, np.zeros((len(query), len(z)), dtype=bool)) @ values

    return predict


def multilinear(known: Measured, values: Floats, weight_of_bin: Floats) -> Predictor:
    """Multilinear on a full grid, barycentric on scattered contexts (nearest outside their hull).

    On a grid each resource has the logarithmic, reciprocal or linear axis that predicts left-out
    inner levels best.
    """
    levels = [np.unique(column) for column in known.contexts.T]
    chosen = ("log",) * len(levels)
    if np.prod([len(level) for level in levels]) != len(known.contexts):
        return _barycentric(known, values)

    def error(names: tuple[str, ...]) -> float:
        total = 0.0
        for r, level in enumerate(levels):
            for left_out in level[1:-1]:
                out = known.contexts[:, r] == left_out
                rest = _on_grid(known, names, known.contexts[~out], values[~out])
                total += _error(rest(known.contexts[out]) - values[out], weight_of_bin) / len(level)
        return total

    for r in range(len(levels)):
        if len(levels[r]) > 2:
            tried = [(*chosen[:r], n, *chosen[r + 1 :]) for n in ("log", "reciprocal", "linear")]
            chosen = min(tried, key=error)
    return _on_grid(known, chosen, known.contexts, values)


def gaussian_process(known: Measured, values: Floats, weight_of_bin: Floats) -> Predictor:
    """Gaussian process on each principal component.

    Kernel parameters and noise by marginal likelihood; the kind of kernel (Matérn 5/2 or squared
    exponential, each with a linear part) by leave-one-context-out error in closed form.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels

    z = known.coordinates(known.contexts)
    scale, mean = np.sqrt(weight_of_bin), values.mean(axis=0)
    u, s, directions = np.linalg.svd((values - mean) * scale, full_matrices=False)
    # at most 12 components, with 99.99 % of the variance
    explained = np.cumsum(s**2) / max((s**2).sum(), 1e-300)
    count = min(12, int(np.searchsorted(explained, 0.9999)) + 1, len(z) - 1)
    scales = np.ones(z.shape[1])
    smooth = (kernels.Matern(scales, (0.05, 20), nu=2.5), kernels.RBF(scales, (0.05, 20)))
    fitted = []
    for component in range(count):
        target = u[:, component] * np.sqrt(len(z))
        options = []
        for kind in smooth:
            kernel = (
                kernels.ConstantKernel(1.0, (1e-3, 1e3)) * kind
                + kernels.ConstantKernel(1.0, (1e-3, 1e3)) * kernels.DotProduct(1.0, "fixed")
                + kernels.WhiteKernel(1e-2, (1e-6, 1.0))
            )
            process = GaussianProcessRegressor(kernel, alpha=1e-10)
            with warnings.catch_warnings(action="ignore"):  # of an optimum at the edge of its box
                process.fit(z, target)
            inverse = np.linalg.inv(process.kernel_(z) + 1e-10 * np.eye(len(z)))
            left_out = (inverse @ target) / np.diag(inverse)
            options.append((float((left_out**2).mean()), process))
        fitted.append(min(options, key=lambda pair: pair[0])[1])

    def predict(contexts: Floats) -> Floats:
        query = known.coordinates(contexts)
        out = np.zeros((len(query), values.shape[1]))
        for component, process in enumerate(fitted):
            score = process.predict(query) * s[component] / np.sqrt(len(z))
            out += score[:, None] * directions[component]
        return mean + out / np.where(scale > 0, scale, np.inf)

    return predict


def boosting(known: Measured, values: Floats, weight_of_bin: Floats) -> Predictor:
    """Gradient boosting, with trees for every bin.

    The base is a constant or a line in the log contexts. Depth, base and rounds are chosen on the
    24 bins with the largest weight and every few others, by leaving out a third of the contexts,
    and the middle level of each resource.
    """
    z = known.coordinates(known.contexts)
    third = np.random.default_rng(0).permutation(np.arange(len(z)) % 3)
    left_out = [third == k for k in range(3)]
    for _, levels in _by_resource(known.contexts):
        left_out.append(np.isin(np.arange(len(z)), levels[len(levels) // 2]))
    some = np.argsort(-weight_of_bin, kind="stable")[:: max(1, len(weight_of_bin) // 24)]
    errors = {option: 0.0 for option in product((2, 3, 5), (False, True), ROUNDS)}
    for out in left_out if len(z) > 5 else ():
        for depth, line in product((2, 3, 5), (False, True)):
            predict = _boost(z[~out], values[~out][:, some], depth, line, ROUNDS[-1])
            for n in ROUNDS:
                missed = predict(z[out], n) - values[out][:, some]
                errors[depth, line, n] += _error(missed, weight_of_bin[some])
    best = min(errors, key=errors.__getitem__)
    predict = _boost(z, values, *best)
    return lambda contexts: predict(known.coordinates(contexts), best[2])


def _boost(
    z: Floats, values: Floats, depth: int, line: bool, rounds: int
) -> Callable[[Floats, int], Floats]:
    """Fit `rounds` trees to each column; predict from the first of them."""
    import xgboost

    def base(query: Floats) -> Floats:
        return np.column_stack([np.ones(len(query)), query if line else query[:, :0]])

    coefficients = np.linalg.lstsq(base(z), values, rcond=None)[0]
    settings = {
        "max_depth": depth,
        "eta": 0.15,
        "lambda": 0.1,
        "tree_method": "exact",
        "nthread": 1,
        "base_score": 0.0,
        "multi_strategy": "one_output_per_tree",
    }
    left = xgboost.DMatrix(z, values - base(z) @ coefficients)
    model = xgboost.train(settings, left, rounds)

    def predict(query: Floats, first: int) -> Floats:
        boosted = model.predict(xgboost.DMatrix(query), iteration_range=(0, first))
        return base(query) @ coefficients + boosted.reshape(len(query), -1)

    return predict


def _on_grid(
    known: Measured, names: tuple[str, ...], contexts: Floats, values: Floats
) -> Predictor:
    varying = [r for r, column in enumerate(contexts.T) if np.ptp(column) > 0]
    z = known.coordinates(contexts, names)[:, varying]
    axes = [np.unique(column) for column in z.T]
    table = np.empty([len(axis) for axis in axes] + [values.shape[1]])
    table[tuple(np.searchsorted(axis, column) for axis, column in zip(axes, z.T))] = values
    interpolate = RegularGridInterpolator(axes, table)

    def predict(query: Floats) -> Floats:
        inside = np.clip(known.coordinates(query, names)[:, varying], z.min(axis=0), z.max(axis=0))
        return interpolate(inside)

    return predict


def _barycentric(known: Measured, values: Floats) -> Predictor:
    z = known.coordinates(known.contexts)
    interpolate = LinearNDInterpolator(z, values)

    def predict(contexts: Floats) -> Floats:
        query = known.coordinates(contexts)
        out = interpolate(query)
        outside = ~np.isfinite(out).all(axis=1)
        distance = ((query[outside, None] - z) ** 2).sum(axis=2)
        out[outside] = values[distance.argmin(axis=1)]
        return out

    return predict


def _tests(known: Measured) -> list[tuple[NDArray[np.int64], Bools]]:
    """Contexts to predict, and the known ones that are barred for each of them, (rows, n).

    Each context is left out alone. As a grid's neighbours reveal the levels of a resource, each
    inner level of a resource is also left out as a whole.
    """
    contexts = known.contexts
    if len(contexts) < 2:
        return []
    tests = [(np.arange(len(contexts)), np.eye(len(contexts), dtype=bool))]
    for resource, levels in _by_resource(contexts):
        rows, column = np.sort(np.concatenate(levels)), contexts[:, resource]
        tests.append((rows, column[rows, None] == column))
    return tests


def _by_resource(contexts: Floats) -> list[tuple[int, list[NDArray[np.intp]]]]:
    """Inner levels (the rows at each) of each resource that has any."""
    levels = groupby(inner_levels(contexts), key=lambda level: level[0])
    return [(resource, [rows for _, rows in group]) for resource, group in levels]


def _error(difference: Floats, weight_of_bin: Floats) -> float:
    return float((difference**2).mean(axis=0) @ weight_of_bin)


def on_progress(regress: Callable[[Measured, Floats, Floats], Predictor]) -> Method:
    """A peer from a regressor of log states."""

    def method(train: xr.Dataset, contexts: ArrayLike) -> xr.Dataset:
        known = Measured.of(train)
        query = np.asarray(contexts, dtype=float)
        state = known.context_means(known.state)
        offset = FLOOR * state.mean(axis=(0, 1))
        offset[0] *= 1e-8  # time is never zero
        share = state.mean(axis=0) / np.maximum(state.mean(axis=0).sum(axis=0), 1e-300)
        predict = regress(known, np.log(state + offset).reshape(len(state), -1), share.ravel())
        values = predict(query).reshape(len(query), BINS, -1)
        counts, duration = known.wall_time(np.maximum(np.exp(values) - offset, 0.0))
        return relabelled(train, counts, duration, contexts=query, replicate="sample")

    return method


def whole_runs(kind: str, n_samples: int = 10) -> Method:
    """The trend times the residuals of whole runs, drawn from the runs of nearby contexts.

    ``kind`` "sample" draws `n_samples` runs, "mean" averages all that can be drawn. Their number is
    10, 20, 40, 80 or 160. It minimises the energy distance between drawn and measured durations of
    known contexts, whose own runs are left out.
    """

    def method(train: xr.Dataset, contexts: ArrayLike) -> xr.Dataset:
        known = Measured.of(train)
        query = np.asarray(contexts, dtype=float)
        trend, state = _trend(known)
        residual = _ratio(state, trend.predict(known.contexts)[known.own])
        usable = _usable_runs(known, trend, residual)
        distance = trend.distance(query)[:, known.own]
        near = np.argsort(distance, axis=1, kind="stable")[:, :usable]
        if kind == "sample":
            pick = np.random.default_rng(0).integers(near.shape[1], size=(len(query), n_samples))
            near = np.take_along_axis(near, pick, axis=1)
        counts, duration = [], []
        for one, runs in zip(trend.predict(query), near):  # all at once would not fit into memory
            generated, ended = known.wall_time(one * residual[runs])
            if kind == "mean":
                running = np.isfinite(generated[..., 0]).mean(axis=0) >= NEGLIGIBLE
                generated = np.nan_to_num(generated).mean(axis=0)[running]
                ended = ended.mean()
            counts.append(generated)
            duration.append(ended)
        labels = {"contexts": query, "replicate": "sample"}
        return relabelled(train, _padded(counts), np.array(duration), **labels)

    return method


def _trend(known: Measured) -> tuple[Trend, Floats]:
    """The generator's trend, and the deconvolved state of every run."""
    weights = np.bincount(known.own)
    state = known.state
    means = known.context_means(state)
    trend = fit_trend(known.contexts, means, weights=weights, segments=SEGMENTS)
    for _ in range(3):
        prior = trend.predict(known.contexts)[known.own]
        settings = {"knots": uniform_knots(BINS), "clock": known.clock}
        runs = known.counts, known.duration, known.interval
        state = deconvolve(*runs, prior, shared_steps=SHARED_STEPS, **settings).state
        trend = trend.refit(known.context_means(state), weights=weights)
    return trend, state


def _ratio(state: Floats, expected: Floats) -> Floats:
    """Measured over expected amounts, both at least the floor of rounding."""
    floor = 1e-3 * expected.mean(axis=(0, 1))
    return np.maximum(state, floor) / np.maximum(expected, floor)


def _usable_runs(known: Measured, trend: Trend, residual: Floats) -> int:
    numbers = [n for n in (10, 20, 40, 80, 160) if n <= len(residual)]
    if len(known.contexts) < 3 or not numbers:
        return min(10, len(residual))
    distance = trend.distance(known.contexts)
    np.fill_diagonal(distance, np.inf)
    errors = np.zeros(len(numbers))
    for c, time in enumerate(trend.left_out_alone[..., 0]):
        measured = known.duration[known.own == c, None]
        near = np.argsort(distance[c, known.own], kind="stable")[: numbers[-1]]
        drawn = residual[near, :, 0] @ time
        for i, n in enumerate(numbers):
            spread = energy_distance(drawn[:n, None], measured)
            errors[i] += spread / measured.mean()
    return numbers[int(errors.argmin())]


def _padded(profiles: list[Floats]) -> Floats:
    """Arrays (..., time, d) of any lengths as one, NaN after their end."""
    longest = max(p.shape[-2] for p in profiles)
    out = np.full((len(profiles), *profiles[0].shape[:-2], longest, profiles[0].shape[-1]), np.nan)
    for row, profile in zip(out, profiles):
        row[..., : profile.shape[-2], :] = profile
    return out


def relabelled(like: xr.Dataset, counts: Floats, duration: Floats, **other: Any) -> xr.Dataset:
    """Profiles with the labels of a dataset: contexts, interval, resources, counters and names."""
    labels = {
        "contexts": context_table(like),
        "interval": sampling_interval(like),
        "resources": resource_attrs(like),
        "counters": Profiles.of(like).counter_attrs,
        "attrs": Profiles.of(like).inherited_attrs,
    }
    return make_profiles(counts, duration, **{**labels, **other})


PEERS: dict[str, Method] = {
    "progress/nearest": on_progress(nearest),
    "progress/kernel_mean": on_progress(kernel_mean),
    "progress/multilinear": on_progress(multilinear),
    "progress/gaussian_process": on_progress(gaussian_process),
    "progress/boosting": on_progress(boosting),
    "whole_runs/mean": whole_runs("mean"),
}
