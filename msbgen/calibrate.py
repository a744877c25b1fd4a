"""Conformal bounds on execution times and on profiles, in contexts that were not measured.

The problem: from n known contexts with some runs each, find U(β) such that a new run in a new
context β ends by U(β) [s] with probability 1 − α, whatever the law of the noise and of the trend's
error.  Known contexts are left out in turn and predicted from the others; the score of a left-out
run is how far it exceeds a *head* (a guess of location and scale at its context, learned from the
others), s = (log T − m(β)) / w(β), and U(β) = exp(m(β) + q·w(β)) with q a quantile of the scores.

What is exchangeable.  Contexts, with their runs nested in them: the runs of one context share the
trend's error there, so ten runs of one context say less than one run of ten.  If a new context is
drawn like the known ones, its scores are exchangeable with each left-out context's as a whole, and

    q = inf {s : Σ_c 1/(n+1) · mean_r 1[s_cr ≤ s] ≥ 1 − α}

covers a new run with probability at least 1 − α and at most about 1 − α + 1/(n+1) (hierarchical
conformal prediction, Lee, Barber and Willett 2023, Section 3): the new context itself is the
missing 1/(n+1), at infinity.  A rate below 1/(n+1) has no finite bound and is refused.

Where this departs from the theorem, and what is done about it:

- The head at a new context uses all n contexts, at a left-out one n − 1 (the jackknife): bounds
  are a little wide.  Scores of contexts left out alone are in closed form (`Trend.loo`), which
  keeps the length scales that were chosen with the left-out context present: a few parameters
  against hundreds of runs.  ``folds=K`` repeats every choice instead.  Residuals of the bridge
  at the left-out context are never used.
- Known contexts are mostly a grid, new ones lie between its levels: they are not drawn alike.
  Contexts left out alone are too easy inside the grid (their neighbours give away the level) and
  too hard at its edge.  So each inner level is left out as a whole too, half of the weight, and
  scores are pooled by how far the left-out context was from the rest: the deviation of the
  trend's Gaussian process there (`doubt`), a distance in the learned metric that knows the
  geometry of the neighbours.  Pools are used as far as their contexts support the rate.
- The tightest head is chosen on the same scores that calibrate it (as Pitot does, Section 3.5,
  "Optimal Quantile Choice"); with few heads the optimism is of the order of 1/n.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.clock import sharpen, uniform_knots
from msbgen.files import ProfileError, load_netcdf, save_netcdf
from msbgen.generate import DEFAULT, ProfileModel, fit_profiles
from msbgen.progress import ProgressLaw, ProgressSettings
from msbgen.schema import count_array, counter_names
from msbgen.trend import Trend, fit_trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# What a band holds at once: all segments of a run, or one at a time.
Holds = Literal["run", "segment"]

CALIBRATION_SCHEMA = "msbgen-calibration/1"

# Heads of the execution time, plain ones first.
HEADS = ("mean", "median", "quantile 0.9", "quantile 0.99", "spread", "local", "doubt")
_QUANTILES = {"median": 0.5, "quantile 0.9": 0.9, "quantile 0.99": 0.99}
# Heads of the bands.
BAND_HEADS = ("even", "local")

# Heads are chosen at these rates; a rate between two uses the choice of the smaller one.
_RATES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
# A head has to be tighter by this share than a plainer one.
_GAIN = 0.02
# Radius of neighbourhoods, in median distances of a known context to its nearest.
_RADIUS = 1.5
# Weight of far contexts in a neighbourhood: where no context is near, all are alike.
_FAR = 1e-6
# Least width of a head: scores are divided by it.
_NARROW = 1e-9
# Variance of a linear trend over that of the smooth rest, as in the trend's own prior.
_LINEAR = 100.0


def contexts_needed(miscoverage: float) -> int:
    """Fewest contexts, of one run or more each, whose runs can support a rate: 1/α − 1."""
    if not 0 < miscoverage < 1:
        raise ValueError(f"miscoverage is {miscoverage}; a rate between 0 and 1 is wanted.")
    return max(1, int(np.ceil(1.0 / miscoverage - 1.0 - 1e-9)))


def conformal_quantile(
    score: ArrayLike, context: ArrayLike, miscoverage: float, *, weight: ArrayLike = 1.0
) -> float:
    """Score that a new run of a new context exceeds with probability at most `miscoverage`.

    Parameters
    ----------
    score : array_like, (runs,)
    context : array_like of int, (runs,)
        The context that each run belongs to: the exchangeable unit.
    miscoverage : float
        α in (0, 1).
    weight : array_like, broadcastable to (runs,)
        How much a run counts; the default counts every run alike, 1/n_c makes contexts alike.

    Returns
    -------
    float
        Smallest score whose weighted distribution function, with the share 1/(n+1) of the new
        context at infinity, reaches 1 − α.

    Raises
    ------
    ValueError
        The rate is not in (0, 1), or the n contexts cannot support it.
    """
    value = np.asarray(score, dtype=float)
    n = len(np.unique(np.asarray(context)))
    needed = contexts_needed(miscoverage)
    if n < needed:
        raise ValueError(_refusal(miscoverage, needed, n, value.size))
    share = np.broadcast_to(np.asarray(weight, dtype=float), value.shape)
    order = np.argsort(value, kind="stable")
    reached = np.cumsum(share[order])
    wanted = (1.0 - miscoverage) * (1.0 + 1.0 / n) * reached[-1]
    # equal weights add up with rounding: a hair less than wanted is enough
    place = int(np.searchsorted(reached, wanted - 1e-9 * reached[-1]))
    return float(value[order[min(place, value.size - 1)]])


def _refusal(miscoverage: float, needed: int, n: int, runs: int) -> str:
    return (
        f"miscoverage is {miscoverage:g}: it needs at least {needed} runs of as many different "
        f"contexts; there are {runs} runs of {n} contexts, which support {1 / (n + 1):.2g}."
    )


@dataclass(frozen=True)
class Calibration:
    """Left-out predictions beside the measured runs, and the bounds that follow from them.

    Attributes
    ----------
    trend : Trend
        Fitted to all known contexts; it predicts the mean at new ones.
    quantities : tuple of str
        What bands are for: "duration" [s], then every counter but the clock [events].
    context : ndarray of int, (rows,)
        Known context that each left-out prediction is for.
    left_out : ndarray of bool, (rows, n_known)
        The contexts that were left out with it.
    weight : ndarray, (rows,)
        Sums to 1; half on contexts left out alone, half on whole levels.
    doubt : ndarray, (rows,)
        Deviation of the trend's Gaussian process at the left-out context, given the rest.
    predicted : ndarray, (rows, segments, k)
        Left-out prediction of the amounts per segment of progress.
    run_context : ndarray of int, (runs,)
    duration : ndarray, (runs,)
        Measured execution times [s].
    state : ndarray, (pairs, segments, k)
        Measured amounts per segment of progress of every run of every left-out prediction,
        placed within the sampling intervals by that prediction (`clock.sharpen`).
    """

    trend: Trend
    quantities: tuple[str, ...]
    context: Indices
    left_out: NDArray[np.bool_]
    weight: Floats
    doubt: Floats
    predicted: Floats
    run_context: Indices
    duration: Floats
    state: Floats

    def duration_bound(self, contexts: ArrayLike, miscoverage: float) -> Floats:
        """Execution time [s] that a new run exceeds with probability at most `miscoverage`.

        Parameters
        ----------
        contexts : array_like, (q, n_resources)
        miscoverage : float
            α in (0, 1).  Smaller rates never give smaller bounds.

        Returns
        -------
        ndarray, (q,)

        Raises
        ------
        ValueError
            Contexts of the wrong form; a rate that the known contexts cannot support, with the
            number of runs that it needs.
        """
        log_bound = np.full(len(np.asarray(contexts)), -np.inf)
        doubt = self.doubt_at(contexts)
        centre = np.log(self.trend.predict(contexts)[..., 0].sum(axis=1))
        heads = self._heads(self._near(contexts), centre, doubt)
        for rate, asked in self._rungs(miscoverage):
            head = self.head(rate)
            location, width = heads[head]
            offset = self._offsets(self._scores(head), rate, asked)[self._pool(doubt, rate)]
            log_bound = np.maximum(log_bound, location + offset * width)
        return np.exp(log_bound)

    def bands(
        self, contexts: ArrayLike, miscoverage: float, *, holds: Holds = "run"
    ) -> tuple[Floats, Floats]:
        """Band around the amounts that a new run spends in each segment of progress.

        Each quantity has a band by itself.  The amounts of a run are those that `clock.sharpen`
        finds with ``trend.predict`` as its prior, summed over segments.

        Parameters
        ----------
        contexts, miscoverage
            As :meth:`duration_bound`, and its errors.
        holds : {"run", "segment"}
            The band holds with probability 1 − α all segments of a run at once, or each segment
            by itself.

        Returns
        -------
        lower, upper : ndarray, (q, segments, k)
            Amounts per segment, in the order of `quantities` [s, events].
        """
        if holds not in get_args(Holds):
            raise ValueError(f"holds is {holds!r}; one of {', '.join(get_args(Holds))} is wanted.")
        doubt = self.doubt_at(contexts)
        centre = np.log(_in_segments(self.trend.predict(contexts), self._segments) + self._floor)
        widths = self._band_widths(self._near(contexts))
        half = np.full_like(centre, _NARROW)  # what is never seen must not fail by rounding
        for rate, asked in self._rungs(miscoverage):
            pool = self._pool(doubt, rate)
            for k in range(len(self.quantities)):
                head = self.band_head(rate, k, holds=holds)
                offset = self._band_offsets(head, k, holds, rate, asked)[pool]
                half[..., k] = np.maximum(half[..., k], offset * widths[head][..., k])
        lower = np.maximum(np.exp(centre - half) - self._floor, 0.0)
        return lower, np.exp(centre + half) - self._floor

    def doubt_at(self, contexts: ArrayLike) -> Floats:
        """How far (q, n_resources) contexts are from the known ones, (q,).

        The deviation of the trend's Gaussian process, relative to that of its smooth part: a
        distance in the learned metric to all known contexts together.
        """
        z, known = self.trend.scaled(contexts), self.trend.scaled(self.trend.contexts)
        lengths, nugget = self.trend.lengths[0], self.trend.nugget[0]
        across = _covariance(z, known, lengths)
        inverse = np.linalg.inv(_covariance(known, known, lengths) + nugget * np.eye(len(known)))
        prior = 1.0 + _LINEAR * (1.0 + 12.0 * (z**2).sum(axis=1))
        return np.sqrt(np.maximum(prior - ((across @ inverse) * across).sum(axis=1), 0.0))

    def beyond(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Where contexts are farther away than any left-out one: bounds are guesses there."""
        return self.doubt_at(contexts) > self.doubt.max()

    def head(self, miscoverage: float) -> str:
        """The head whose calibrated bounds are the tightest over the left-out runs.

        The least mean over-provisioning, mean of bound / measured − 1; out of :data:`HEADS`.
        """
        self._check(miscoverage)
        pool = self._pool(self.doubt[self._row], miscoverage)
        margins = []
        for name, (location, width) in self._left_out_heads.items():
            offset = self._offsets(self._scores(name), miscoverage, miscoverage)[pool]
            bound = location[self._row] + offset * width[self._row]
            margins.append(float(self._share @ np.expm1(bound - self._log_time)))
        return _tightest(tuple(self._left_out_heads), margins)

    def band_head(self, miscoverage: float, quantity: int, *, holds: Holds = "run") -> str:
        """The head of the narrowest bands of a quantity over the left-out runs, mean of logs."""
        self._check(miscoverage)
        pool = self._pool(self.doubt, miscoverage)
        widths = []
        for name, width in self._left_out_band_widths.items():
            offset = self._band_offsets(name, quantity, holds, miscoverage, miscoverage)[pool]
            widths.append(float(self.weight @ (offset * width[..., quantity]).mean(axis=1)))
        return _tightest(BAND_HEADS, widths)

    def to_arrays(self) -> dict[str, NDArray]:
        """Everything as plain arrays, for :meth:`from_arrays`; no object among them."""
        own = {name: np.asarray(getattr(self, name)) for name in _ARRAYS}
        trend = {f"trend_{name}": array for name, array in self.trend.to_arrays().items()}
        return {**own, **trend, "quantities": np.array(self.quantities)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> Calibration:
        """The calibration that :meth:`to_arrays` described."""
        trend = {
            name.removeprefix("trend_"): array
            for name, array in arrays.items()
            if name.startswith("trend_")
        }
        return cls(
            trend=Trend.from_arrays(trend),
            quantities=tuple(str(name) for name in arrays["quantities"]),
            **{name: arrays[name] for name in _ARRAYS},
        )

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write to one netCDF file (numbers and names; nothing is pickled).

        Raises
        ------
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        arrays = self.to_arrays()
        quantities = arrays.pop("quantities").tolist()
        arrays["left_out"] = arrays["left_out"].astype(np.int8)
        dataset = xr.Dataset(
            {
                name: (tuple(f"{name}_{i}" for i in range(array.ndim)), array)
                for name, array in arrays.items()
            },
            attrs={"schema": CALIBRATION_SCHEMA, "quantities": json.dumps(quantities)},
        )
        save_netcdf(dataset, path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read what :meth:`save` wrote; it answers as the saved one did.

        Raises
        ------
        ProfileError
            The file cannot be read or is no calibration.
        """
        ds = load_netcdf(path)
        if ds.attrs.get("schema") != CALIBRATION_SCHEMA:
            raise ProfileError(
                f"{Path(path).name}: attribute 'schema' is {ds.attrs.get('schema')!r}; a "
                f"calibration says '{CALIBRATION_SCHEMA}'."
            )
        arrays = {str(name): variable.values for name, variable in ds.data_vars.items()}
        arrays["left_out"] = arrays["left_out"].astype(bool)
        arrays["quantities"] = np.array(json.loads(ds.attrs["quantities"]))
        return cls.from_arrays(arrays)

    # Pairs are left-out predictions × runs of their contexts; everything below has one per row.

    @cached_property
    def _pairs(self) -> tuple[Indices, Indices]:
        row, run = np.nonzero(self.context[:, None] == self.run_context)
        return row, run

    @property
    def _row(self) -> Indices:
        return self._pairs[0]

    @cached_property
    def _share(self) -> Floats:
        return (self.weight / self._n_runs[self.context])[self._row]

    @cached_property
    def _n_runs(self) -> Indices:
        return np.bincount(self.run_context, minlength=len(self.trend.contexts))

    @cached_property
    def _log_time(self) -> Floats:
        return np.log(self.duration)[self._pairs[1]]

    @property
    def _segments(self) -> int:
        return self.predicted.shape[1]

    @cached_property
    def _floor(self) -> Floats:
        """Amounts per segment below which bands are additive, as the trend is."""
        return self.trend.offset * (self.trend.mean.shape[1] // self._segments)

    # Neighbourhoods: weights of the known contexts around others.

    @cached_property
    def _radius(self) -> float:
        apart = self.trend.distance(self.trend.contexts)
        np.fill_diagonal(apart, np.inf)
        return _RADIUS * max(float(np.median(apart.min(axis=1))), 1e-12)

    def _near(self, contexts: ArrayLike) -> Floats:
        return np.exp(-0.5 * (self.trend.distance(contexts) / self._radius) ** 2) + _FAR

    @cached_property
    def _near_left_out(self) -> Floats:
        near = self._near(self.trend.contexts)[self.context]
        return np.where(self.left_out, 0.0, near)

    # Heads of the execution time.

    @cached_property
    def _noise(self) -> tuple[Floats, Floats]:
        """Runs' log distance from their context's mean (runs,), and its variance (n_known,).

        Both corrected for the mean being estimated; 0 for a context of one run.
        """
        n = self._n_runs[self.run_context]
        total = np.bincount(self.run_context, self.duration, minlength=len(self._n_runs))
        away = np.log(self.duration * n / total[self.run_context])
        away *= np.sqrt(n / np.maximum(n - 1, 1))
        square = np.bincount(self.run_context, away**2, minlength=len(self._n_runs))
        return away, square / np.maximum(self._n_runs, 1)

    @cached_property
    def _row_square(self) -> Floats:
        """Mean squared log error of the left-out prediction over the runs, (rows,)."""
        error = self._log_time - self._left_out_centre[self._row]
        total = np.bincount(self._row, error**2, minlength=len(self.context))
        return total / self._n_runs[self.context]

    @cached_property
    def _left_out_centre(self) -> Floats:
        return np.log(self.predicted[..., 0].sum(axis=1))

    def _heads(
        self, near: Floats, centre: Floats, doubt: Floats
    ) -> dict[str, tuple[Floats, Floats]]:
        """Location and width of every head, in the order of HEADS."""
        one = np.ones(len(centre))
        heads = {"mean": (centre, one)}
        local = near[:, self.context] * self.weight
        local = np.sqrt(local @ self._row_square / local.sum(axis=1))
        repeated = near * (self._n_runs > 1)
        total = repeated.sum(axis=1)
        noise = np.zeros(len(centre))
        if np.all(total > 0):  # with one run a context nothing is known of its noise
            away, square = self._noise
            weight = (repeated / np.maximum(self._n_runs, 1))[:, self.run_context]
            for name, level in _QUANTILES.items():
                heads[name] = (centre + _weighted_quantile(away, weight, level), one)
            noise = np.sqrt(repeated @ square / total)
            heads["spread"] = (centre, np.maximum(noise, _NARROW))
        heads["local"] = (centre, np.maximum(local, _NARROW))
        heads["doubt"] = (centre, np.sqrt(noise**2 + (self._per_doubt * doubt) ** 2 + _NARROW**2))
        return heads

    @cached_property
    def _per_doubt(self) -> float:
        """Error of the trend per unit of doubt, from the left-out contexts."""
        bias = np.maximum(self._row_square - self._noise[1][self.context], 0.0)
        return float(np.sqrt(self.weight @ bias / max(self.weight @ self.doubt**2, _NARROW**2)))

    @cached_property
    def _left_out_heads(self) -> dict[str, tuple[Floats, Floats]]:
        return self._heads(self._near_left_out, self._left_out_centre, self.doubt)

    def _scores(self, head: str) -> Floats:
        location, width = self._left_out_heads[head]
        return (self._log_time - location[self._row]) / width[self._row]

    # Heads of the bands.

    @cached_property
    def _log_ratio(self) -> Floats:
        """Absolute log of measured over predicted amounts, (pairs, segments, k)."""
        ratio = np.abs(
            np.log((self.state + self._floor) / (self.predicted + self._floor)[self._row])
        )
        return np.where(np.isfinite(ratio), ratio, 0.0)  # a hole in a counter says nothing

    @cached_property
    def _band_square(self) -> Floats:
        first = np.searchsorted(self._row, np.arange(len(self.context)))
        total = np.add.reduceat(self._log_ratio**2, first, axis=0)
        return total / self._n_runs[self.context][:, None, None]

    def _band_widths(self, near: Floats) -> dict[str, Floats]:
        """Width (q, segments, k) of every head, in the order of BAND_HEADS."""
        shape = (-1, *self._band_square.shape[1:])
        local = near[:, self.context] * self.weight
        local /= local.sum(axis=1, keepdims=True)
        flat = self._band_square.reshape(len(self.context), -1)
        even = np.broadcast_to(self.weight @ flat, (len(near), flat.shape[1]))
        return {
            name: np.sqrt(square.reshape(shape)) + _NARROW
            for name, square in (("even", even), ("local", local @ flat))
        }

    @cached_property
    def _left_out_band_widths(self) -> dict[str, Floats]:
        return self._band_widths(self._near_left_out)

    def _band_offsets(
        self, head: str, quantity: int, holds: Holds, rate: float, asked: float
    ) -> Floats:
        """Conformal quantiles of the band scores, (pools, segments or 1)."""
        width = self._left_out_band_widths[head][self._row, :, quantity]
        score = self._log_ratio[..., quantity] / width
        if holds == "run":
            score = score.max(axis=1, keepdims=True)
        return np.stack([self._offsets(column, rate, asked) for column in score.T], axis=1)

    # Rates, pools, quantiles.

    def _check(self, miscoverage: float) -> None:
        needed, n = contexts_needed(miscoverage), len(np.unique(self.context))
        if n < needed:
            raise ValueError(_refusal(miscoverage, needed, n, len(self.duration)))

    def _rungs(self, miscoverage: float) -> Iterator[tuple[float, float]]:
        """Pairs (rate at which heads and pools are chosen, rate asked of them).

        The largest bound of all of them does not fall as the rate falls: within a rung the
        choices are fixed, and a finer rung starts from the end of the coarser ones.
        """
        self._check(miscoverage)
        least = 1.0 / (len(np.unique(self.context)) + 1)
        for rate in _RATES:
            if rate <= miscoverage or rate <= least:
                yield max(rate, least), miscoverage
                return
            yield rate, rate
        yield least, miscoverage

    @cached_property
    def _cut(self) -> float:
        """Weighted median doubt of the left-out contexts: where near ends and far begins."""
        order = np.argsort(self.doubt, kind="stable")
        reached = np.cumsum(self.weight[order])
        return float(self.doubt[order[np.searchsorted(reached, (0.5 - 1e-9) * reached[-1])]])

    def _pool(self, doubt: Floats, rate: float) -> Indices:
        """0 for near and 1 for far contexts; 0 for all where a pool cannot support the rate."""
        far = self.doubt > self._cut
        sizes = [len(np.unique(self.context[side])) for side in (~far, far)]
        if min(sizes) < contexts_needed(rate):
            return np.zeros(len(doubt), dtype=np.int64)
        return (doubt > self._cut).astype(np.int64)

    def _offsets(self, score: Floats, rate: float, asked: float) -> Floats:
        """Conformal quantile of every pool, at the rate `asked`, (pools,)."""
        pool = self._pool(self.doubt[self._row], rate)
        context = self.context[self._row]
        return np.array(
            [
                conformal_quantile(
                    score[pool == i], context[pool == i], asked, weight=self._share[pool == i]
                )
                for i in np.unique(pool)
            ]
        )


_ARRAYS = (
    "context", "left_out", "weight", "doubt", "predicted", "run_context", "duration", "state",
)  # fmt: skip


def calibrate(
    dataset: xr.Dataset,
    settings: ProgressSettings = DEFAULT,
    *,
    folds: int = 0,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Fit a task's profiles, and predict its known contexts from one another.

    Parameters
    ----------
    dataset : xarray.Dataset
        Measured profiles.
    settings : ProgressSettings
    folds : int
        0: each context alone in closed form, and each inner level of a resource, with the
        parameters of the trend kept.  K ≥ 2: K random groups of contexts, with every choice of
        the trend made anew without them; K fits of the trend.
        For scattered contexts: on a grid random groups leave no level out, and bounds come out
        too small between its levels.
    rng : numpy.random.Generator
        Forms the groups.
    progress : callable
        Called with (done, total) fits.

    Returns
    -------
    Calibration

    Raises
    ------
    ProfileError
        As :func:`msbgen.generate.fit_profiles`.
    ValueError
        Settings without a trend; a number of folds that the contexts do not make.
    """
    if not isinstance(settings, ProgressSettings):
        raise ValueError(f"settings are {type(settings).__name__}; ProgressSettings are wanted.")
    model = fit_profiles(dataset, settings)
    return calibrate_model(model, dataset, folds=folds, rng=rng, progress=progress)


def calibrate_model(
    model: ProfileModel,
    dataset: xr.Dataset,
    *,
    folds: int = 0,
    rng: np.random.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """As :func:`calibrate`, for a model that was fitted to `dataset` already."""
    law = model.law
    if not isinstance(law, ProgressLaw):
        raise ValueError("the model has no trend; fit it with ProgressSettings.")
    if law.clock == 0:
        raise ValueError("the clock is wall time; bounds need a counter as the clock.")
    n, segments = len(law.contexts), law.settings.segments
    if folds != 0 and not 2 <= folds <= n:
        raise ValueError(f"folds is {folds}; 0, or 2 to {n} of the {n} contexts, is wanted.")
    rng = np.random.default_rng() if rng is None else rng
    used = np.isfinite(law.total)
    means = _known_states(law)
    if folds:
        groups = [np.sort(g) for g in np.array_split(rng.permutation(n), folds)]
        weight = np.full(n, 1.0 / n)
    else:
        levels = _inner_levels(law.contexts)
        groups = [np.array([i]) for i in range(n)] + levels
        count = sum(map(len, levels))
        weight = np.repeat([0.5 / n, 0.5 / max(count, 1)], [n, count])
        weight /= weight.sum()
    counts = count_array(dataset)
    predicted, state = [], []
    for done, group in enumerate(groups):
        if not folds and len(group) == 1:
            prior = law.trend.loo[group]
        else:
            kept = np.setdiff1d(np.arange(n), group)
            worth = used.sum(axis=1)[kept]
            if folds:
                trend = fit_trend(law.contexts[kept], means[kept], weights=worth)
            else:
                trend = replace(law.trend, contexts=law.contexts[kept])
                trend = trend.refit(means[kept], weights=worth)
            prior = trend.predict(law.contexts[group])
        predicted.append(_in_segments(prior, segments))
        place, run = np.nonzero(used[group])
        runs = (counts[group[place], run], law.duration[group[place], run], law.interval)
        own = sharpen(*runs, prior[place], knots=uniform_knots(prior.shape[1]), clock=law.clock)
        state.append(_in_segments(own.state, segments))
        if progress:
            progress(done + 1, len(groups))
    context = np.concatenate(groups)
    left_out = np.repeat([np.isin(np.arange(n), g) for g in groups], [*map(len, groups)], axis=0)
    counters = counter_names(dataset)
    return Calibration(
        trend=law.trend,
        quantities=("duration", *counters[: law.clock - 1], *counters[law.clock :]),
        context=context,
        left_out=left_out,
        weight=weight,
        doubt=_left_out_doubt(law.trend, groups),
        predicted=np.concatenate(predicted),
        run_context=np.nonzero(used)[0],
        duration=law.duration[used],
        state=np.concatenate(state),
    )


def _known_states(law: ProgressLaw) -> Floats:
    """Mean measured amounts per bin of each known context, (n, bins, k), as the law has them."""
    own = law.trend.predict(law.contexts)[law.run_context] * np.exp(law.residual)
    first = np.searchsorted(law.run_context, np.arange(len(law.contexts)))
    return np.add.reduceat(own, first, axis=0) / np.bincount(law.run_context)[:, None, None]


def _inner_levels(contexts: Floats) -> list[Indices]:
    """Contexts of each level of a resource that lies between others; none where all differ."""
    groups = []
    for column in contexts.T:
        levels = np.unique(column)
        if 3 <= len(levels) <= len(contexts) // 2:
            groups += [np.flatnonzero(column == level) for level in levels[1:-1]]
    return groups


def _left_out_doubt(trend: Trend, groups: list[Indices]) -> Floats:
    """`Calibration.doubt_at` of every context in every group, given the contexts outside it."""
    known, nugget = trend.scaled(trend.contexts), trend.nugget[0]
    covariance = _covariance(known, known, trend.lengths[0])
    inverse = np.linalg.inv(covariance + nugget * np.eye(len(known)))
    variance = [np.diag(np.linalg.inv(inverse[np.ix_(g, g)])) - nugget for g in groups]
    return np.sqrt(np.maximum(np.concatenate(variance), 0.0))


def _covariance(z: Floats, known: Floats, lengths: Floats) -> Floats:
    """Product of Matérn-5/2 kernels and a nearly free line: the prior of the trend, (q, n)."""
    step = np.sqrt(5.0) * np.abs(z[:, None] - known) / lengths
    smooth = ((1.0 + step + step**2 / 3.0) * np.exp(-step)).prod(axis=2)
    return smooth + _LINEAR * (1.0 + 12.0 * (z @ known.T))


def _in_segments(state: Floats, segments: int) -> Floats:
    return state.reshape(len(state), segments, -1, state.shape[2]).sum(axis=2)


def _weighted_quantile(values: Floats, weight: Floats, level: float) -> Floats:
    """Smallest of the values (n,) whose share of each row of weights (q, n) reaches `level`."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[:, order], axis=1)
    place = (reached < level * (1 - 1e-12) * reached[:, -1:]).sum(axis=1)
    return values[order[np.minimum(place, len(values) - 1)]]


def _tightest(names: tuple[str, ...], margins: list[float]) -> str:
    """The plainest of those within _GAIN of the least margin."""
    least = min(margins)
    return next(n for n, margin in zip(names, margins) if margin <= least + _GAIN * abs(least))
