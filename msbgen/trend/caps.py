"""Resources that cap the rate of a counter: rooflines, found in the time of known contexts.

Where a cap binds, the time is

    t = E max(u, c·X),   c = counter / (rate · level),   log X ~ N(−w²/2, w²),

u the unthrottled time, which is smooth over the contexts, and X the unevenness of the counter
within a bin, which rounds the knee (Section 5.7 of the method).  An observed t then says little
about u: the share ∂ log t / ∂ log u of u in t weighs it.  A cap is where bins pile up at one rate
per level; whether it is one, and its width and the smoothness of u, is decided by the error on
held-out contexts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.trend import _kernels
from msbgen.trend.folds import Folds
from msbgen.trend.problem import UNKNOWN, Parameters, Problem
from msbgen.trend.search import LENGTHS

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Counter, resource, and rate per level of a cap.
Rate = tuple[int, int, float]

# A share below this says nothing about the unthrottled time: its noise is that over the share.
_BLIND_SHARE = 0.02
# Nor does a time that exceeds what the cap demands by less than its own noise may do.
_EXCESS = 0.05
# A share above this is one: the contexts of a bin that no cap reaches have equal noise then.
_FREE_SHARE = 0.99
# Widths of the knee that the search for a cap starts from.
_WIDTHS = (0.03, 0.1, 0.3)
# A cap has to lower the held-out error of time by this share, where so many levels are left out or
# fewer; by more of them the error is known better, with the root of their number.
_CAP_SAVES, _FEW_LEVELS = 0.25, 3
# Bins that a search looks at, of a few contexts and of many.
_FEW_BINS, _FEWER_BINS, _MANY_CONTEXTS = 14, 6, 200
# A rate above this share of that of a cap is at it.
NEAR_RATE = 0.85
# The lowest levels of a resource, where a cap binds first: a share of the contexts.  At a cap a
# counter differs this many times more between bins than its rate does.
_LOWEST, _STEADY = 0.2, 5.0
# How far the search goes: of the width of the knee, the length scales, the nugget.
_WIDTH_RANGE, _LENGTH_RANGE, _NUGGET_RANGE = (0.02, 1.0), (0.1, 8.0), (1e-5, 0.1)


@dataclass(frozen=True, eq=False)
class Cap:
    """A resource caps the rate of a counter: counter per second ≤ rate · level.

    Attributes
    ----------
    counter : int
        Column of the state.
    resource : int
        Column of the contexts.
    rate : float
        Events per second and unit of the resource.
    width : float
        Unevenness of the counter within a bin: standard deviation of its logarithm.
    gain : float
        Held-out squared error over that without a cap, of sums of bins, where it was found.
    lengths : ndarray, (m,)
        Length scales of the unthrottled time.
    nugget : float
    mean, highest : ndarray, (bins,)
        Mean and upper limit of the logarithm of the unthrottled time.
    coefficients : ndarray, (n, bins)
    """

    counter: int
    resource: int
    rate: float
    width: float
    gain: float
    lengths: Floats
    nugget: float
    mean: Floats
    highest: Floats
    coefficients: Floats

    def throttle(self, rows: Floats, levels: Floats, counted: Floats) -> tuple[Floats, Floats]:
        """Time under the cap [s], and the share in it of the unthrottled time, (q, bins) each.

        Parameters
        ----------
        rows : ndarray, (q, n)
            Weights of the coefficients.
        levels : ndarray, (q,)
            Of the resource.
        counted : ndarray, (q, bins)
            Amounts of the counter.
        """
        logs = rows @ self.coefficients
        logs += self.mean
        np.minimum(logs, self.highest, out=logs)
        least = counted / (self.rate * levels[:, None])
        return throttled(np.exp(logs, out=logs), least, self.width)


def throttled(free: Floats, least: Floats, width: ArrayLike) -> tuple[Floats, Floats]:
    """Time E max(free, least·X), X log-normal of mean 1, and the share ∂ log t / ∂ log free.

    Free and least times, not negative [s], and the standard deviation of log X, width > 0, of any
    shapes that broadcast.  Section 5.7 of the method.
    """
    free, least, deviation = np.broadcast_arrays(free, least, np.asarray(width, dtype=float))
    time, share = np.empty(free.shape), np.empty(free.shape)
    flat = _flat(free), _flat(least), _flat(deviation)
    _kernels.throttled(*flat, time.ravel(), share.ravel())
    return time, share


def unthrottled(time: Floats, least: Floats, width: float) -> Floats:
    """The free time that gives `time` under :func:`throttled`; e⁻⁶ of it where none above does."""
    time, least = np.broadcast_arrays(time, least)
    free = np.empty(time.shape)
    _kernels.unthrottled(_flat(time), _flat(least), width, free.ravel())
    return free


def _flat(values: Floats) -> Floats:
    return np.ascontiguousarray(values).ravel()


# ------------------------------------------------------------------ finding and fitting


def find_cap(
    problem: Problem, segments: Problem, contexts: Floats, parameters: Parameters
) -> tuple[Cap, ...]:
    """The cap that best explains the time of held-out contexts, or none.

    Parameters
    ----------
    problem : Problem
        Everything measured.
    segments : Problem
        The same, or sums of its bins: whether there is a cap, and of what, is decided here; the
        rate is that at which the bins of `problem` pile up.
    contexts : ndarray, (n, m)
        As levels.
    parameters : Parameters
        Of the trend without a cap.
    """
    time = problem.amounts[..., 0]
    if not np.all(time > 0):
        return ()
    fine, coarse = (
        _Trials(p, contexts, p.held_out(parameters), _telling_bins(p)) for p in (problem, segments)
    )
    weight = time / time.sum()
    least, found = np.inf, []
    for r, level in enumerate(contexts.T):
        if np.ptp(level) == 0 or level.min() <= 0:
            continue
        levels = max(segments.folds.resources.count(r), _FEW_LEVELS)
        wanted = 1.0 - _CAP_SAVES * np.sqrt(_FEW_LEVELS / levels)
        for k in range(1, problem.amounts.shape[2]):
            rate = _pile_up(problem.amounts[..., k] / time / level[:, None], weight)
            starts = _starts(k, r, rate, parameters) if rate > 0 else []
            if starts and (gain := coarse.best(starts)[0]) <= min(wanted, least):
                least, found = gain, starts
    if not found:
        return ()
    _, best = fine.best(found)
    best = fine.descend(best, _widths, singles=False)
    best = fine.descend(best, _smoothnesses, singles=True)
    return (_fitted(problem, contexts, best, least),)


def at_caps(contexts: Floats, amounts: Floats) -> NDArray[np.bool_]:
    """Where bins run at a rate at which bins pile up, whatever caps it, (n, bins).

    Contexts (n, m) as levels; amounts (n, bins, k), time first.  Bins pile up in the time of all
    contexts, or where a cap that binds in a few would show: at the lowest levels of a resource.
    """
    return at_rates(cap_rates(contexts, amounts), contexts, amounts)


def at_rates(rates: Sequence[Rate], contexts: Floats, amounts: Floats) -> NDArray[np.bool_]:
    """Where bins (..., bins, k) of contexts (..., m) run at one of these rates, (..., bins)."""
    time = amounts[..., 0]
    near = np.zeros(time.shape, dtype=bool)
    for counter, resource, rate in rates:
        near |= amounts[..., counter] > NEAR_RATE * rate * contexts[..., resource, None] * time
    return near


def cap_rates(contexts: Floats, amounts: Floats) -> list[Rate]:
    """Counter, resource, and rate per level of each at which bins pile up; as :func:`at_caps`."""
    time, found = amounts[..., 0], list[Rate]()
    if not np.all(time > 0):
        return found
    for r, level in enumerate(contexts.T):
        if np.ptp(level) == 0 or level.min() <= 0:
            continue
        for k in range(1, amounts.shape[2]):
            counter = amounts[..., k]
            ratio = counter / time / level[:, None]
            rates = _pile_up(ratio, time / time.sum()), _pile_up_below(counter, time, level)
            found += [(k, r, rate) for rate in rates if rate > 0]
    return found


def refit_cap(problem: Problem, contexts: Floats, cap: Cap) -> Cap:
    """The cap with its parameters kept and the unthrottled time fitted anew."""
    return _fitted(problem, contexts, _Candidate.of(cap), cap.gain)


def held_out_time(problem: Problem, contexts: Floats, cap: Cap, held_out: Floats) -> Floats:
    """Time of each row of the folds as predicted under the cap, (rows, bins).

    `held_out` (rows, bins, k) are the amounts predicted without a cap.
    """
    folds = problem.folds
    rows, bins = np.arange(len(folds.weight)), np.arange(problem.amounts.shape[1])
    trials = _Trials(problem, contexts, held_out, bins)
    return trials.predicted(_Candidate.of(cap), folds, rows)


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A cap under trial."""

    counter: int
    resource: int
    rate: float
    width: float
    lengths: Floats
    nugget: float

    @classmethod
    def of(cls, cap: Cap) -> _Candidate:
        return cls(cap.counter, cap.resource, cap.rate, cap.width, cap.lengths, cap.nugget)


def _starts(counter: int, resource: int, rate: float, parameters: Parameters) -> list[_Candidate]:
    """Where the search for a cap starts from."""
    lengths, nugget = parameters.lengths[0], float(parameters.nugget[0])
    # what a cap explains the unthrottled time need not: it may hardly see the resource
    free = np.where(np.arange(len(lengths)) == resource, LENGTHS[-1], lengths)
    return [
        _Candidate(counter, resource, rate, width, scales, nugget)
        for scales, width in product((lengths, free), _WIDTHS)
    ]


def _widths(cap: _Candidate) -> list[list[_Candidate]]:
    """Other widths of the knee; the rate stays where bins pile up, which says it to a per cent."""
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
    """The unthrottled time under a cap as the known contexts show it, (n, bins) each.

    Attributes
    ----------
    logs : ndarray
    noise : ndarray
        Variance of the logarithm over that of a context of mean worth.
    seen : ndarray of bool
        Whether anything is known of it but that it is shorter than the time.
    highest : ndarray, (bins,)
        The most that is predicted for its logarithm.
    """

    logs: Floats
    noise: Floats
    seen: NDArray[np.bool_]
    highest: Floats

    @classmethod
    def of(cls, problem: Problem, contexts: Floats, cap: _Candidate, bins: Indices) -> _Free:
        time = problem.amounts[:, bins, 0]
        level = cap.rate * contexts[:, cap.resource, None]
        least = problem.amounts[:, bins, cap.counter] / level
        free = unthrottled(time, least, cap.width)
        share = throttled(free, least, cap.width)[1]
        share = np.where(share > _FREE_SHARE, 1.0, share)
        seen = (share > _BLIND_SHARE) & (time > (1.0 + _EXCESS) * least)
        noise = problem.noise[:, bins, 0] / np.maximum(share, _BLIND_SHARE) ** 2
        return cls(
            np.log(free), np.where(seen, noise, UNKNOWN), seen, np.log(time.max(axis=0)) + 1.0
        )

    def centred(self, nugget: float) -> tuple[Floats, Floats]:
        """Mean over the contexts (bins,), and what it leaves; 0 where nothing is seen."""
        confidence = np.where(self.seen, 1.0 / (nugget * self.noise + 0.02), 1e-12)
        mean = (self.logs * confidence).sum(axis=0) / confidence.sum(axis=0)
        return mean, np.where(self.seen, self.logs - mean, 0.0)


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
    """Held-out errors of time under caps, in some bins.

    Parameters
    ----------
    problem : Problem
    contexts : ndarray, (n, m)
        As levels.
    held_out : ndarray, (rows, bins, k)
        Amounts of the held-out contexts without a cap.
    bins : ndarray of int
    """

    def __init__(self, problem: Problem, contexts: Floats, held_out: Floats, bins: Indices) -> None:
        self._problem, self._contexts, self._bins = problem, contexts, bins
        self._held_out = held_out[:, bins]
        # what is seen of the free time depends neither on its smoothness nor on the folds
        self._free: dict[tuple[int, int, float, float], _Free] = {}

    def predicted(self, cap: _Candidate, folds: Folds, rows: Indices) -> Floats:
        """Time of each row of some folds, (rows, some); `rows` of the problem's own they are."""
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
        least = self._held_out[rows, :, cap.counter] / level
        return throttled(np.exp(logs), least, cap.width)[0]

    def best(self, caps: Sequence[_Candidate]) -> tuple[float, _Candidate]:
        """Of several of one resource that with the least held-out error, and its gain."""
        folds, rows = self._problem.folds.of_resource(caps[0].resource, singles=False)
        errors = [self._square(self.predicted(cap, folds, rows), folds) for cap in caps]
        least = int(np.argmin(errors))
        plain = self._square(self._held_out[rows, :, 0], folds)
        return errors[least] / plain if plain > 0 else np.inf, caps[least]

    def descend(
        self,
        cap: _Candidate,
        neighbours: Callable[[_Candidate], list[list[_Candidate]]],
        *,
        singles: bool,
    ) -> _Candidate:
        """Two sweeps of coordinate descent; `neighbours` lists what to try, axis by axis.

        Judged by the levels of the cap's resource, with the contexts alone or without.
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
        """Mean squared log error of predicted times (rows, some)."""
        share = self._problem.share[0, self._bins]
        known = self._problem.amounts[:, self._bins, 0][folds.index]
        squares = np.log(np.maximum(predicted, 1e-300) / known) ** 2
        return float(folds.weight @ squares @ (share / share.sum()))


def _telling_bins(problem: Problem) -> Indices:
    """Bins for a search: every few of the longest three quarters."""
    count = _FEW_BINS if len(problem.z) <= _MANY_CONTEXTS else _FEWER_BINS
    share = problem.share[0]
    longest = np.argsort(-share, kind="stable")[: max(1, 3 * len(share) // 4)]
    return longest[:: max(1, len(longest) // count)]


def _pile_up(ratio: Floats, weight: Floats) -> float:
    """Rate at which a counter's rate per level saturates, 0 where it does not.

    The lowest rate that is exceeded by a tenth in at most 0.5 % of the time, if at least 3 % of
    the time is spent within 15 % of it or above.
    """
    order = np.argsort(ratio, axis=None)
    value, passed = ratio.ravel()[order], np.cumsum(weight.ravel()[order])
    for quantile in (0.9, 0.95, 0.98, 0.99, 0.995):
        rate = float(value[min(np.searchsorted(passed, quantile), len(value) - 1)])
        near, above = weight[ratio > NEAR_RATE * rate].sum(), weight[ratio > 1.1 * rate].sum()
        if above <= 0.005:
            return rate if near >= 0.03 and rate > 0 else 0.0
    return 0.0


def _pile_up_below(counter: Floats, time: Floats, level: Floats) -> float:
    """Rate per level at which bins pile up in the contexts of the lowest levels, 0 if none is.

    Counter and time (n, bins) at levels (n,).  Each context weighs the same: slow clocks take most
    of the time, and no cap binds there.  In so few contexts the highest rate may be that of the
    fastest: at a cap, bins that count more take longer, and their rates stay the same.
    """
    low = level <= np.quantile(level, _LOWEST, method="lower")
    counter, time = counter[low], time[low]
    ratio, weight = counter / time / level[low, None], time / time.sum(axis=1, keepdims=True)
    rate = _pile_up(ratio, weight / len(weight))
    if rate == 0:
        return 0.0
    at = ratio > NEAR_RATE * rate
    wanted = _STEADY * _spread(np.log(ratio[at]), weight[at])
    return rate if _spread(np.log(counter[at]), weight[at]) > wanted else 0.0


def _spread(values: Floats, weight: Floats) -> float:
    """Weighted standard deviation, both (some,)."""
    apart = values - np.average(values, weights=weight)
    return float(np.sqrt(np.average(apart**2, weights=weight)))
