"""Resources that cap the rate of a counter (rooflines), detected in the times of known contexts.

Where a cap binds, the time is

    t = E max(u, c·X),   c = counter / (rate · level),   log X ~ N(−w²/2, w²).

u is the time without the cap, the *free* time, which is smooth over the contexts.  X is how
unevenly the counter is spread within a bin.  It rounds the knee between the two times.  A measured
t then determines u poorly; the weight of u is its share ∂ log t / ∂ log u in t.

At a cap, many bins run at the same rate per level.  The error on left-out contexts decides whether
that is a cap, and on the width w and the smoothness of u.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import LOGARITHMS, NOT_NEGATIVE, POSITIVE, Stored
from msbgen.core.lazy import lazy_module
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.problem import UNKNOWN, Problem, SmoothingParameters
from msbgen.engine.trend.search import LENGTHS

_kernels = lazy_module("msbgen.engine.trend._kernels")
special = lazy_module("scipy.special")

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Counter, resource, and rate per level of a cap.
Rate = tuple[int, int, float]

# From here on erfc is below the rounding of 1.
_BEYOND = 6.5
# Times below this count as this [s], and ratios of times.
_LEAST_TIME = 1e-200
# Below this share a time determines no free time; the noise of the free time is that over it.
_LEAST_SHARE = 0.02
# Nor does a time that exceeds the least time by less than this share, which is about its noise.
_EXCESS = 0.05
# A share above this counts as 1, so that the contexts of a bin without a cap have equal noise.
_FREE_SHARE = 0.99
# Widths of the knee that the search for a cap starts from.
_WIDTHS = (0.03, 0.1, 0.3)
# A cap must lower the held-out error of time by this share, with at most so many left-out levels.
# The required share falls with the root of their number, as the error is then known better.
_CAP_SAVES, _FEW_LEVELS = 0.25, 3
# Bins of a search with few and with many contexts, and the number that is many.
_FEW_BINS, _FEWER_BINS, _MANY_CONTEXTS = 14, 6, 200
# A rate above this share of a cap's rate is at the cap.
NEAR_RATE = 0.85
# Bins accumulate at a rate if they spend more time within this share of it than at rates below,
# within twice that share: more by this share, which falls with the root of the levels, too.
_AT, _MORE = 0.1, 0.25
# Share of the contexts at the lowest levels of a resource, where a cap binds first.  At a cap the
# spread of a counter between bins is at least this many times the spread of its rate.
_LOWEST, _STEADY = 0.2, 5.0
# Ranges of the search: the width of the knee, the length scales, the nugget.
_WIDTH_RANGE, _LENGTH_RANGE, _NUGGET_RANGE = (0.02, 1.0), (0.1, 8.0), (1e-5, 0.1)


@dataclass(frozen=True, eq=False)
class Cap:
    """A resource caps the rate of a counter: counter per second ≤ rate · level."""

    counter: Annotated[int, Stored((), dtype="i8", below="quantity")]  # column of the state
    resource: Annotated[int, Stored((), dtype="i8", below="column")]  # column of the contexts
    rate: Annotated[float, Stored((), POSITIVE)]  # events per second and unit of the resource
    # unevenness of the counter within a bin: standard deviation of its logarithm
    width: Annotated[float, Stored((), POSITIVE)]
    # held-out squared error over that without a cap, of sums of bins
    gain: Annotated[float, Stored((), NOT_NEGATIVE)]
    lengths: Annotated[Floats, Stored(("column",), POSITIVE)]  # (m,): of the free time
    nugget: Annotated[float, Stored((), NOT_NEGATIVE)]
    # (bins,): mean of the logarithm of the free time, and its upper limit
    mean: Annotated[Floats, Stored(("bin",), LOGARITHMS)]
    highest: Annotated[Floats, Stored(("bin",), LOGARITHMS)]
    coefficients: Annotated[Floats, Stored(("known", "bin"))]  # (n, bins)

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored cap."""
        if self.counter == 0:
            yield "counter", "0, time", "a counter"

    def throttle(self, smooth: Floats, levels: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Time under the cap [s], and the share of the free time in it, (q, bins) each.

        `smooth` (q, bins) is the prediction from the coefficients; `levels` (q,) are of the
        resource, `counts` (q, bins) of the counter.
        """
        logs = smooth + self.mean
        np.minimum(logs, self.highest, out=logs)
        least = counts / (self.rate * levels[:, None])
        return throttled(np.exp(logs, out=logs), least, self.width)


def throttled(free: Floats, least: Floats, width: ArrayLike) -> tuple[Floats, Floats]:
    """Time E max(free, least·X), X log-normal of mean 1, and the share ∂ log t / ∂ log free.

    Free and least times are not negative [s]; `width` > 0 is the standard deviation of log X.  The
    shapes must broadcast.
    """
    spread = np.asarray(width, dtype=float)
    free, least, width = np.broadcast_arrays(free, least, spread)
    # far from the knee, time is the larger one of both up to rounding
    time, share = np.maximum(free, least), (free > least).astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        reach = np.exp(spread * (_BEYOND * np.sqrt(2.0) + 0.5 * spread))
        near = (least <= reach * free) & (free <= reach * least)
    free, least, width = free[near], least[near], width[near]
    ratio = np.maximum(least, _LEAST_TIME) / np.maximum(free, _LEAST_TIME)
    deviation = np.log(ratio) / (width * np.sqrt(2.0))
    half = width * (0.5 * np.sqrt(0.5))
    # time = (free · erfc(below) + least · erfc(above)) / 2, and both terms have the same
    # exponential: free · exp(−below²) = least · exp(−above²)
    below, above = deviation - half, -(deviation + half)
    density = 0.5 * free * np.exp(-(below**2))
    part = _reflected(density * special.erfcx(np.abs(below)), below, free)
    near_time = part + _reflected(density * special.erfcx(np.abs(above)), above, least)
    time[near], share[near] = near_time, part / np.maximum(near_time, 1e-300)
    return time, share


def _reflected(tail: Floats, at: Floats, whole: Floats) -> Floats:
    """erfc(x) from erfc(|x|), as it is 2 − erfc(−x), in units in which 2 is `whole`."""
    return np.where(at < 0, whole - tail, tail)


def unthrottled(time: Floats, least: Floats, width: float) -> Floats:
    """The free time that gives `time` under :func:`throttled`, at least e⁻⁶ of `time`."""
    time, least = np.broadcast_arrays(time, least)
    free = np.empty(time.shape)
    _kernels.unthrottled(_flat(time), _flat(least), width, free.ravel())
    return free


def _flat(values: Floats) -> Floats:
    return np.ascontiguousarray(values).ravel()


def find_cap(
    problem: Problem, segments: Problem, contexts: Floats, parameters: SmoothingParameters
) -> tuple[Cap, ...]:
    """The cap that best predicts the time of left-out contexts, or none.

    All bins, `problem`, determine the rate; the cap is decided on `segments`, the same or sums of
    bins.  `contexts` (n, m) are levels, `parameters` those of the trend without a cap.
    """
    time = problem.amounts[..., 0]
    if not np.all(time > 0):
        return ()
    fine, coarse = (
        _Trials(p, contexts, p.left_out(parameters), _long_bins(p)) for p in (problem, segments)
    )
    weight = time / time.sum()
    least, best_starts = np.inf, []
    for r, level in enumerate(contexts.T):
        if np.ptp(level) == 0 or level.min() <= 0:
            continue
        levels = max(segments.folds.resources.count(r), _FEW_LEVELS)
        doubt = float(np.sqrt(_FEW_LEVELS / levels))
        wanted = 1.0 - _CAP_SAVES * doubt
        for k in range(1, problem.amounts.shape[2]):
            ratio = problem.amounts[..., k] / time / level[:, None]
            rate = _saturation_rate(ratio, weight)
            is_cap = _accumulates(ratio, time, rate, 1.0 + _MORE * doubt)
            starts = _starts(k, r, rate, parameters) if is_cap else []
            if starts and (gain := coarse.best(starts)[0]) <= min(wanted, least):
                least, best_starts = gain, starts
    if not best_starts:
        return ()
    _, best = fine.best(best_starts)
    best = fine.descend(best, _widths, singles=False)
    best = fine.descend(best, _smoothnesses, singles=True)
    return (_fitted(problem, contexts, best, least),)


def at_rates(rates: Sequence[Rate], contexts: Floats, amounts: Floats) -> NDArray[np.bool_]:
    """Whether bins (..., bins, k) of contexts (..., m) run at one of these rates, (..., bins)."""
    time = amounts[..., 0]
    near = np.zeros(time.shape, dtype=bool)
    for counter, resource, rate in rates:
        near |= amounts[..., counter] > NEAR_RATE * rate * contexts[..., resource, None] * time
    return near


def cap_rates(contexts: Floats, amounts: Floats) -> list[Rate]:
    """Counter, resource, and rate per level of each rate at which bins accumulate.

    Contexts (n, m) are levels; amounts (n, bins, k) have time first.  Bins accumulate in the time
    of all contexts, or at the lowest levels of a resource, where a cap may bind in few contexts.
    """
    time, rates = amounts[..., 0], list[Rate]()
    if not np.all(time > 0):
        return rates
    for r, level in enumerate(contexts.T):
        if np.ptp(level) == 0 or level.min() <= 0:
            continue
        for k in range(1, amounts.shape[2]):
            counter = amounts[..., k]
            ratio = counter / time / level[:, None]
            both = (
                _saturation_rate(ratio, time / time.sum()),
                _saturation_rate_at_low_levels(counter, time, level),
            )
            rates += [(k, r, rate) for rate in both if rate > 0]
    return rates


def refit_cap(problem: Problem, contexts: Floats, cap: Cap) -> Cap:
    """The cap with the same parameters and a new fit of the free time."""
    return _fitted(problem, contexts, _Candidate.of(cap), cap.gain)


def left_out_time(problem: Problem, contexts: Floats, cap: Cap, left_out: Floats) -> Floats:
    """Predicted time of each row of the folds under the cap, (rows, bins).

    `left_out` (rows, bins, k) are the predicted amounts without a cap.
    """
    folds = problem.folds
    rows, bins = np.arange(len(folds.weight)), np.arange(problem.amounts.shape[1])
    trials = _Trials(problem, contexts, left_out, bins)
    return trials.predicted(_Candidate.of(cap), folds, rows)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """The parameters of a cap in a search."""

    counter: int
    resource: int
    rate: float
    width: float
    lengths: Floats
    nugget: float

    @classmethod
    def of(cls, cap: Cap) -> _Candidate:
        return cls(cap.counter, cap.resource, cap.rate, cap.width, cap.lengths, cap.nugget)


def _starts(
    counter: int, resource: int, rate: float, parameters: SmoothingParameters
) -> list[_Candidate]:
    """The starts of the search for a cap."""
    lengths, nugget = parameters.lengths[0], float(parameters.nugget[0])
    # the free time may hardly depend on the resource, since the cap does
    free = np.where(np.arange(len(lengths)) == resource, LENGTHS[-1], lengths)
    return [
        _Candidate(counter, resource, rate, width, scales, nugget)
        for scales, width in product((lengths, free), _WIDTHS)
    ]


def _widths(cap: _Candidate) -> list[list[_Candidate]]:
    """Other widths of the knee; the rate is kept, since it is known to a per cent."""
    factors = (0.35, 0.7, 1.4, 2.8)
    return [[replace(cap, width=float(np.clip(f * cap.width, *_WIDTH_RANGE))) for f in factors]]


def _smoothnesses(cap: _Candidate) -> list[list[_Candidate]]:
    """Other length scales, one resource after the other, and other nuggets."""
    tried = []
    for r in range(len(cap.lengths)):
        scale = np.where(np.arange(len(cap.lengths)) == r, 1.0, 0.0)
        tried.append(
            [
                replace(cap, lengths=np.clip(cap.lengths * f**scale, *_LENGTH_RANGE))
                for f in (2.0, 0.5)
            ]
        )
    tried.append(
        [replace(cap, nugget=float(np.clip(f * cap.nugget, *_NUGGET_RANGE))) for f in (5.0, 0.2)]
    )
    return tried


@dataclass(frozen=True, eq=False)
class _Free:
    """The free time under a cap in the known contexts."""

    logs: Floats  # (n, bins)
    noise: Floats  # (n, bins): variance of the logarithm over that of a context of mean weight
    certain: NDArray[np.bool_]  # (n, bins): whether more than an upper limit is known
    highest: Floats  # (bins,): limit of predicted logarithms

    @classmethod
    def of(cls, problem: Problem, contexts: Floats, cap: _Candidate, bins: Indices) -> _Free:
        time = problem.amounts[:, bins, 0]
        level = cap.rate * contexts[:, cap.resource, None]
        least = problem.amounts[:, bins, cap.counter] / level
        free = unthrottled(time, least, cap.width)
        share = throttled(free, least, cap.width)[1]
        share = np.where(share > _FREE_SHARE, 1.0, share)
        certain = (share > _LEAST_SHARE) & (time > (1.0 + _EXCESS) * least)
        noise = problem.noise[:, bins, 0] / np.maximum(share, _LEAST_SHARE) ** 2
        return cls(
            np.log(free), np.where(certain, noise, UNKNOWN), certain, np.log(time.max(axis=0)) + 1.0
        )

    def centred(self, nugget: float) -> tuple[Floats, Floats]:
        """Mean over the contexts (bins,), and the logarithms less it; 0 where not certain."""
        confidence = np.where(self.certain, 1.0 / (nugget * self.noise + 0.02), 1e-12)
        mean = (self.logs * confidence).sum(axis=0) / confidence.sum(axis=0)
        return mean, np.where(self.certain, self.logs - mean, 0.0)


def _fitted(problem: Problem, contexts: Floats, cap: _Candidate, gain: float) -> Cap:
    free = _Free.of(problem, contexts, cap, np.arange(problem.amounts.shape[1]))
    mean, centred = free.centred(cap.nugget)
    smoother = problem.smoother("gaussian-process")
    coefficients = smoother.coefficients(centred, free.noise, cap.lengths, cap.nugget)
    return Cap(
        cap.counter, cap.resource, cap.rate, cap.width, gain, cap.lengths, cap.nugget, mean,
        free.highest, np.ascontiguousarray(coefficients),
    )  # fmt: skip


class _Trials:
    """Held-out errors of time under caps, in selected bins.

    `contexts` (n, m) are levels, `left_out` (rows, bins, k) the amounts of the left-out contexts
    without a cap.
    """

    def __init__(self, problem: Problem, contexts: Floats, left_out: Floats, bins: Indices) -> None:
        self._problem, self._contexts, self._bins = problem, contexts, bins
        self._left_out = left_out[:, bins]
        # the free time of known contexts depends neither on its smoothness nor on the folds
        self._free: dict[tuple[int, int, float, float], _Free] = {}

    def predicted(self, cap: _Candidate, folds: Folds, rows: Indices) -> Floats:
        """Time of each row of the folds, (rows, bins); `rows` are those in the problem."""
        key = (cap.counter, cap.resource, cap.rate, cap.width)
        if key not in self._free:
            self._free[key] = _Free.of(self._problem, self._contexts, cap, self._bins)
        free, index = self._free[key], folds.index
        mean, centred = free.centred(cap.nugget)
        errors = self._problem.smoother("gaussian-process").left_out(
            centred, free.noise, cap.lengths, cap.nugget, folds
        )
        logs = np.minimum(mean + centred[index] - errors, free.highest)
        level = cap.rate * self._contexts[index, cap.resource, None]
        least = self._left_out[rows, :, cap.counter] / level
        return throttled(np.exp(logs), least, cap.width)[0]

    def best(self, caps: Sequence[_Candidate]) -> tuple[float, _Candidate]:
        """The least held-out error over that without a cap, and its candidate.

        The candidates are of one resource.
        """
        folds, rows = self._problem.folds.of_resource(caps[0].resource, singles=False)
        errors = [self._square(self.predicted(cap, folds, rows), folds) for cap in caps]
        least = int(np.argmin(errors))
        plain = self._square(self._left_out[rows, :, 0], folds)
        return errors[least] / plain if plain > 0 else np.inf, caps[least]

    def descend(
        self,
        cap: _Candidate,
        neighbours: Callable[[_Candidate], list[list[_Candidate]]],
        *,
        singles: bool,
    ) -> _Candidate:
        """Two sweeps of coordinate descent; `neighbours` lists candidates, axis by axis.

        The error is that on the levels of the cap's resource, with `singles` also on each context.
        """
        folds, rows = self._problem.folds.of_resource(cap.resource, singles=singles)

        def square(cap: _Candidate) -> float:
            return self._square(self.predicted(cap, folds, rows), folds)

        error = square(cap)
        for _ in range(2):
            before = error
            for axis in range(len(neighbours(cap))):
                for tried in neighbours(cap)[axis]:
                    value = square(tried)
                    if value < 0.998 * error:
                        cap, error = tried, value
                        break
            if error > 0.98 * before:
                break
        return cap

    def _square(self, predicted: Floats, folds: Folds) -> float:
        """Mean squared log error of predicted times (rows, bins)."""
        share = self._problem.share[0, self._bins]
        known = self._problem.amounts[:, self._bins, 0][folds.index]
        squares = np.log(np.maximum(predicted, 1e-300) / known) ** 2
        return float(folds.weight @ squares @ (share / share.sum()))


def _long_bins(problem: Problem) -> Indices:
    """Bins for a search, at equal steps through the longest three quarters."""
    count = _FEW_BINS if len(problem.z) <= _MANY_CONTEXTS else _FEWER_BINS
    share = problem.share[0]
    longest = np.argsort(-share, kind="stable")[: max(1, 3 * len(share) // 4)]
    return longest[:: max(1, len(longest) // count)]


def _saturation_rate(ratio: Floats, weight: Floats) -> float:
    """Rate at which a counter's rate per level saturates, 0 where it does not.

    It is the lowest rate that is exceeded by a tenth in at most 0.5 % of the time.  At least 3 % of
    the time must be spent above 85 % of it.
    """
    order = np.argsort(ratio, axis=None)
    value, cumulated = ratio.ravel()[order], np.cumsum(weight.ravel()[order])
    for quantile in (0.9, 0.95, 0.98, 0.99, 0.995):
        rate = float(value[min(np.searchsorted(cumulated, quantile), len(value) - 1)])
        near, above = weight[ratio > NEAR_RATE * rate].sum(), weight[ratio > 1.1 * rate].sum()
        if above <= 0.005:
            return rate if near >= 0.03 and rate > 0 else 0.0
    return 0.0


def _accumulates(ratio: Floats, time: Floats, rate: float, times: float) -> bool:
    """Whether bins (n, bins) accumulate at a rate: `times` as many within a tenth of it as below.

    The highest rate of a few contexts is no cap if as many bins run at somewhat lower rates.
    Contexts have equal weights.  Rates of whole runs, a single bin, are means, and need not.
    """
    if rate <= 0 or time.shape[1] == 1:
        return rate > 0
    share, relative = time / time.sum(axis=1, keepdims=True), ratio / rate
    at = share[np.abs(relative - 1.0) <= _AT].sum()
    below = share[(relative >= 1.0 - 3.0 * _AT) & (relative < 1.0 - _AT)].sum()
    return bool(at > times * below)


def _saturation_rate_at_low_levels(counter: Floats, time: Floats, level: Floats) -> float:
    """Saturation rate in the contexts of the lowest levels, 0 if there is none.

    Counter and time (n, bins) at levels (n,).  Contexts have equal weights, since slow clocks take
    most of the time and no cap binds there.  The highest rate of so few contexts may be that of the
    fastest one.  At a cap, bins of larger counts take longer and their rates are equal.
    """
    low = level <= np.quantile(level, _LOWEST, method="lower")
    counter, time = counter[low], time[low]
    ratio, weight = counter / time / level[low, None], time / time.sum(axis=1, keepdims=True)
    rate = _saturation_rate(ratio, weight / len(weight))
    if rate == 0:
        return 0.0
    at = ratio > NEAR_RATE * rate
    least = _STEADY * _spread(np.log(ratio[at]), weight[at])
    return rate if _spread(np.log(counter[at]), weight[at]) > least else 0.0


def _spread(values: Floats, weight: Floats) -> float:
    """Weighted standard deviation."""
    centred = values - np.average(values, weights=weight)
    return float(np.sqrt(np.average(centred**2, weights=weight)))
