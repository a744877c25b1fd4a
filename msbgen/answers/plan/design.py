"""Sequential design under a Gaussian process: the contexts to measure next, and their runs.

The problem: a quantity f over the N contexts of a platform (a product of levels) has the prior of
the trend (:mod:`msbgen.engine.trend.covariance`): a smooth part of unit variance and a free line.
R runs of context x observe f(x) with variance δ + σ²/R: the misfit δ, which no repetition removes,
and the run-to-run noise σ².  The expected squared error over all contexts, weighted by w, is Σ_t
w_t v_t with v the posterior variance.  An observation of x with variance η lowers it by

    S(x) / (v(x) + η),    S(x) = Σ_t w_t c(x, t)²,

with the posterior covariance c (active learning after Cohn, 1996; integrated mean squared error,
Sacks et al., 1989).  It does not depend on the measured values, so the gain is known before
measuring.  The design repeatedly takes the step of the highest gain per second.

Length scales that were estimated from few contexts may be wrong.  A design by the gain alone visits
few levels and never tests them.  On real programs, profiles from it have errors larger by a fifth
than from plain low-discrepancy points.  Contexts are therefore proposed by a low-discrepancy
sequence over the ranks of the levels, with fewer contexts where measuring is expensive: their
density falls with the square root of the cost, the best allocation for a sum of independent errors.
Each step takes the best of the next few.

A further run of a context that has R of them is an observation of its own whose precision is the
difference 1/(δ + σ²/(R+1)) − 1/(δ + σ²/R), so that every step is one rank-one update.

With the rows ℓ of all updates in L, c = k − LᵀL.  A step needs only the rows of c of a few
candidates.  These are computed for many proposals at once, as a product of matrices is faster than
its rows one by one, and lack the few updates since then: a step takes O(N·n) after n observations.

Where no new context is left, further runs of all contexts are ranked once, O(N·n) each, by their
gains with the posterior of that time; those of one context fall with the runs before them.

A design ends where noise dominates: where 1 % more measuring time, the earlier one included, lowers
the deviation of a new run from its prediction, √(error² + noise²), by less than 0.05 %.  Of earlier
measurements one run of each context counts, as repetitions tell little on other contexts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.answers.plan.prior import Quantity, all_points
from msbgen.core.contexts import are_many
from msbgen.core.gaussian_process import SeenCovariance
from msbgen.core.machine import OnProgress
from msbgen.engine.trend.covariance import line, matern, prior_covariance, prior_variance
from msbgen.engine.trend.low_rank import low_rank_updates

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Numbers of runs that are tried for a new context, where preparing it costs time.
_REPEATS = (1, 2, 3, 5, 8, 13, 20)
# Draws of the low-discrepancy sequence for each context of the platform.
_DRAWS = 8
# Contexts whose covariances to all others are in memory at a time.
_BLOCK = 256
# Proposals whose covariances are computed at once, where a step chooses among so few.
_AHEAD, _FEW = 64, 8
# Measuring is worth its time while 1 % more time lowers the deviation of a new run from its
# prediction by this many per cent.
LEAST_GAIN = 0.05
_EPSILON = np.finfo(np.float64).eps
# Steps between two tests whether a design should end, and the time over that of the rows that pay
# from which on it does.
_TESTED, _PATIENCE = 16, 1.25


class Posterior:
    """Posterior variance of one quantity over a product of levels, and gains of observations.

    The posterior is given the earlier measurements of the quantity.  Contexts are the product of
    its axes, the last resource fastest.  `variance` (N,) is kept for all contexts; S is computed
    for the queried contexts.
    """

    def __init__(self, quantity: Quantity) -> None:
        axes, lengths = quantity.axes, quantity.lengths
        ends = np.cumsum([a[0].size for a in axes])[:-1]
        self._factors = [
            matern(column[:, None] - column[None], own).prod(axis=2)
            for column, own in zip((a.reshape(len(a), -1) for a in axes), np.split(lengths, ends))
        ]
        self._z = all_points(axes)
        self._weight = quantity.weight
        known = _updates(quantity, self._z)
        self._n = len(known)
        self._rows = np.empty((64 + self._n, len(self._z)))
        self._rows[: self._n] = known
        explained = np.einsum("ij,ij->j", self._observed, self._observed)
        self.variance = np.maximum(prior_variance(self._z) - explained, 0.0)
        # Covariances of some contexts to all, which lack the updates from row `_first` on.
        self._block = np.empty((0, len(self._z)))
        self._place = np.full(len(self._z), -1)
        self._first = 0

    @property
    def error(self) -> float:
        """Weighted sum of the variances."""
        return float(self._weight @ self.variance)

    @property
    def _observed(self) -> Floats:
        return self._rows[: self._n]

    def prepare(self, index: Indices) -> None:
        """Compute the covariances that the next steps need, all at once."""
        if (self._place[index[:_FEW]] < 0).any():
            self._block, self._first = self.covariance(index), self._n
            self._place[:] = -1
            self._place[index] = np.arange(len(index))

    def covariance(self, index: Indices) -> Floats:
        """Posterior covariance of some contexts (q,) and all, (q, N)."""
        place = self._place[index]
        if (place >= 0).all():
            covariance, rows = self._block[place], self._rows[self._first : self._n]
        else:
            covariance, rows = self._prior(index), self._observed
        return covariance - rows[:, index].T @ rows

    def _prior(self, index: Indices) -> Floats:
        """Prior covariance of some contexts (q,) and all, (q, N)."""
        levels = np.unravel_index(index, [len(factor) for factor in self._factors])
        smooth = np.ones((len(index), 1))
        for factor, level in zip(self._factors, levels):
            smooth = (smooth[:, :, None] * factor[level][:, None, :]).reshape(len(index), -1)
        return smooth + line(self._z[index] @ self._z.T)

    def observe(self, index: int, noise: float) -> None:
        """Update the posterior by an observation of a context with the variance `noise`."""
        if self._n == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        row = self.covariance(np.array([index]))[0]
        row /= np.sqrt(max(row[index], 0.0) + noise)
        self.variance = np.maximum(self.variance - row**2, 0.0)
        self._rows[self._n] = row
        self._n += 1

    def gain(self, candidates: Indices, noise: Floats) -> Floats:
        """Decrease of the error by an observation of each candidate, of the variances `noise`.

        The variances are (q,), or (q, j) for j observations of each that are made instead of one
        another.
        """
        blocks = [candidates[i : i + _BLOCK] for i in range(0, len(candidates), _BLOCK)]
        reach = [self.covariance(block) ** 2 @ self._weight for block in blocks]
        return (np.concatenate(reach) / (self.variance[candidates] + noise.T)).T


@dataclass(frozen=True, eq=False)
class Design:
    """Contexts in the order to measure them."""

    index: Indices  # (rows,): each context once
    runs: Indices  # (rows,)
    seconds: Floats  # (rows,): cost of all runs of the context [s]
    # (1 + rows,): expected error before, and after each row: root of the weighted mean square over
    # all contexts, misfit included
    error: Floats


def propose_contexts(sizes: Sequence[int], cost: Floats, allowed: NDArray[np.bool_]) -> Indices:
    """Allowed contexts in a low-discrepancy order, expensive ones less often.

    A Sobol sequence in one dimension per resource of several levels, over their ranks (`sizes`),
    and one more: a context is passed over where that last coordinate exceeds √(least cost / cost).
    Each allowed context comes once; those never drawn come last, cheap ones first.
    """
    from scipy.stats import qmc  # here, as its import takes half a second

    # a power of two keeps the sequence balanced; its first point is the corner of the lowest levels
    draws = (_DRAWS * len(cost)).bit_length()
    several = [size for size in sizes if size > 1]
    sequence = qmc.Sobol(len(several) + 1, scramble=False)
    *ranks, last = sequence.random_base2(draws)[1:].T
    drawn = np.zeros(len(last), dtype=np.int64)
    for size, rank in zip(several, ranks):
        drawn = drawn * size + (rank * size).astype(np.int64)
    least = cost[allowed].min()
    kept = allowed[drawn] & (last**2 * cost[drawn] <= least)
    rest = np.flatnonzero(allowed)
    rest = rest[np.argsort(cost[rest], kind="stable")]
    every = np.concatenate([drawn[kept], rest])
    _, first = np.unique(every, return_index=True)
    return every[np.sort(first)]


def with_corners(sizes: Sequence[int], proposals: Indices) -> Indices:
    """Proposals with corners, where all resources are at an end, moved to every other position.

    A low-discrepancy sequence hardly visits the corners, and contexts beyond all known ones are
    extrapolated: even a few contexts should include corners.  Opposite corners follow each other.
    """
    ends = np.meshgrid(*((0, size - 1) for size in sizes), indexing="ij")
    corners = np.ravel_multi_index(tuple(end.ravel() for end in ends), tuple(sizes))
    opposite = np.stack([corners, corners[::-1]], axis=1).ravel()
    _, first = np.unique(opposite, return_index=True)
    corners = opposite[np.sort(first)]
    corners = corners[np.isin(corners, proposals)]
    others = proposals[~np.isin(proposals, corners)]
    both = min(len(corners), len(others))
    alternating = np.stack([corners[:both], others[:both]], axis=1).ravel()
    return np.concatenate([alternating, corners[both:], others[both:]])


@dataclass(frozen=True)
class DesignLimits:
    """Limits and costs of a design."""

    window: int | None = None  # number of proposals among which each step chooses; None for all
    first: int = 0  # number of first proposals that are taken in their order, before all others
    # largest total cost [s].  The plan ends before the step that would exceed it: plans of smaller
    # budgets are the beginnings of those of larger ones.
    seconds: float = np.inf
    # largest number of new contexts; the time that is left then goes to repetitions
    contexts: float = np.inf
    overhead: float = 0.0  # cost of preparing a context, for any number of runs [s]
    least_runs: int = 1  # runs of each context of the plan, at least
    most_runs: int = 20
    ends: bool = False  # whether the design may end where noise dominates, before the budget
    spent: float = 0.0  # cost of one run of each context measured before [s]
    noise: float = 0.0  # deviation of one run from the mean of its context


def rows_that_pay(seconds: Floats, error: Floats, noise: float, spent: float) -> int:
    """Number of first rows of a design that are worth their time.

    After them 1 % more measuring time, with the time `spent` before, lowers √(error² + noise²) by
    less than 0.05 %.  `seconds` (rows,) and `error` (1 + rows,) are those of :class:`Design`.
    Before any measurement the first row is always worth it.
    """
    first = 0 if spent > 0 else 1
    if len(seconds) <= first:
        return len(seconds)
    time = np.log(spent + np.append(0.0, np.cumsum(seconds))[first:])
    deviation = 0.5 * np.log(error[first:] ** 2 + noise**2)
    # the slope over the doubling of the time that ends at each row: single rows are uneven
    start = np.maximum(np.searchsorted(time, time - np.log(2.0), side="right") - 1, 0)
    gain = (deviation[start] - deviation) / np.maximum(time - time[start], 1e-12)
    (paying,) = np.nonzero(gain >= LEAST_GAIN)
    return first + int(paying[-1]) if len(paying) else first


def greedy_design(
    quantities: Sequence[Quantity],
    run_seconds: Floats,
    before: Floats,
    proposals: Indices,
    limits: DesignLimits,
    progress: OnProgress | None = None,
) -> Design:
    """Design whose every step lowers the expected error most per second.

    The errors of the quantities, over the same contexts, add up.  `run_seconds` (N,) is the
    predicted cost of one run of each context [s], `before` (N,) the number of runs that it has.
    `proposals` are the contexts that may be measured, in the order in which they become
    candidates.  The design is empty where the budget does not allow the first step.
    `progress` is called with (done, total) thousandths of the limits.

    Runs are repeated where the overhead is large, as √(overhead · σ² / (seconds · (v + δ))), and
    where no new context may be measured; otherwise a new one lowers the error more nearly always.
    """
    overhead, least_runs, seconds = limits.overhead, limits.least_runs, limits.seconds
    posteriors = [Posterior(quantity) for quantity in quantities]
    planned = np.zeros(len(run_seconds), dtype=np.int64)
    waiting = proposals[before[proposals] == 0]
    order: list[int] = []
    costs: list[float] = []
    errors = [_error(quantities, posteriors)]
    left, wanted = seconds, True
    repeats = [n for n in _REPEATS if least_runs < n <= limits.most_runs] if overhead > 0 else []
    while len(order) < limits.contexts and len(waiting) and wanted:
        fresh = waiting[: 1 if len(order) < limits.first else limits.window]
        if len(fresh) <= _FEW:
            for posterior in posteriors:
                posterior.prepare(waiting[:_AHEAD])
        best, chosen = 0.0, (0, 0, 0.0)
        for runs in (least_runs, *repeats):
            cost = overhead + runs * run_seconds[fresh]
            gain = np.zeros(len(fresh))
            for quantity, posterior in zip(quantities, posteriors):
                noise = quantity.step_noise(before, runs, fresh)
                gain += quantity.importance * posterior.gain(fresh, noise)
            rate = gain / cost
            i = int(rate.argmax())
            if rate[i] > best * (1 + 1e-9):
                best, chosen = float(rate[i]), (int(fresh[i]), runs, float(cost[i]))
        i, runs, cost = chosen
        if best <= 0.0 or cost > left:
            wanted = False
            break
        for quantity, posterior in zip(quantities, posteriors):
            posterior.observe(i, float(quantity.step_noise(before, runs, np.array([i]))[0]))
        left -= cost
        order.append(i)
        planned[i] = runs
        waiting = waiting[waiting != i]
        if progress:
            share = max(
                1.0 - left / seconds if seconds < np.inf else 0.0, len(order) / limits.contexts
            )
            progress(int(1000 * min(share, 1.0)), 1000)
        costs.append(cost)
        errors.append(_error(quantities, posteriors))
        if limits.ends and len(order) % _TESTED == 0:
            wanted = not _is_over(np.array(costs), np.array(errors), limits)
    if wanted and seconds < np.inf:
        known = proposals[(planned + before)[proposals] > 0]
        more = _further_runs(quantities, posteriors, run_seconds, before, planned, known, limits)
        order += [int(i) for i in known if planned[i] == 0 and more[i] > 0]
        planned += more
        if progress:
            progress(1000, 1000)
    index = np.array(order, dtype=np.int64)
    runs = planned[index]
    return Design(
        index, runs, overhead + runs * run_seconds[index], _errors(quantities, before, index, runs)
    )


def _error(quantities: Sequence[Quantity], posteriors: Sequence[Posterior]) -> float:
    """Expected error with the present posteriors."""
    square = sum(
        quantity.importance * (posterior.error / len(posterior.variance) + quantity.misfit)
        for quantity, posterior in zip(quantities, posteriors)
    )
    return float(np.sqrt(square))


def _is_over(seconds: Floats, error: Floats, limits: DesignLimits) -> bool:
    """Whether so much time follows the last row that pays that none will."""
    pays = rows_that_pay(seconds, error, limits.noise, limits.spent)
    return limits.spent + seconds.sum() > _PATIENCE * (limits.spent + seconds[:pays].sum())


def _further_runs(
    quantities: Sequence[Quantity],
    posteriors: Sequence[Posterior],
    run_seconds: Floats,
    before: Floats,
    planned: Indices,
    known: Indices,
    limits: DesignLimits,
) -> Indices:
    """Further runs of the `known` contexts, of the highest gains per second first, (N,)."""
    more = np.zeros(len(planned), dtype=np.int64)
    most = np.arange(limits.most_runs)
    gain = np.zeros((len(known), len(most)))
    done = before + planned
    for quantity, posterior in zip(quantities, posteriors):
        noise = np.stack([quantity.step_noise(done + n, 1, known) for n in most], axis=1)
        gain += quantity.importance * posterior.gain(known, noise)
    cost = np.repeat(run_seconds[known, None], len(most), axis=1)
    cost[:, 0] += np.where(planned[known] > 0, 0.0, limits.overhead)
    gain[planned[known, None] + most >= limits.most_runs] = 0.0
    # a run is never before the earlier ones of its context
    rate = np.minimum.accumulate(gain / cost, axis=1)
    ranked = np.argsort(-rate, axis=None, kind="stable")
    ranked = ranked[rate.ravel()[ranked] > 0]
    spent = (limits.overhead + planned * run_seconds)[planned > 0].sum()
    seconds = cost.ravel()[ranked]
    fits = spent + np.cumsum(seconds) <= limits.seconds * (1 + 1e-12)
    n = int(np.argmin(fits)) if not fits.all() else len(fits)
    if limits.ends:
        square = _error(quantities, posteriors) ** 2
        fallen = np.cumsum(gain.ravel()[ranked]) / len(before)
        error = np.sqrt(np.maximum(square - np.append(0.0, fallen), 0.0))
        n = min(n, rows_that_pay(seconds, error, limits.noise, limits.spent + spent))
    np.add.at(more, known[ranked[:n] // len(most)], 1)
    return more


def _errors(
    quantities: Sequence[Quantity], before: Floats, index: Indices, runs: Indices
) -> Floats:
    """Expected error before and after each row of a design, (1 + rows,)."""
    square = np.zeros(1 + len(index))
    for quantity in quantities:
        z = all_points(quantity.axes)
        known = _updates(quantity, z)
        across = prior_covariance(z[index], z, quantity.lengths) - known[:, index].T @ known
        prior = prior_variance(z)
        # Far beyond the measured contexts the difference above is small against its terms, so that
        # their rounding alone may leave no covariance.
        rounding = _EPSILON * (len(known) + len(index)) * prior[index].max(initial=0.0)
        noise = quantity.step_noise(before, runs, index) + rounding
        among = across[:, index] + np.diag(noise)
        rows = SeenCovariance.of(among).whitened(across)
        measured = (prior - (known**2).sum(axis=0)) @ quantity.weight
        left = measured - np.cumsum(np.append(0.0, rows**2 @ quantity.weight))
        # every context has an independent misfit
        square += quantity.importance * (np.maximum(left, 0.0) / len(z) + quantity.misfit)
    return np.sqrt(square)


def _updates(quantity: Quantity, z: Floats) -> Floats:
    """Rows ℓ of the updates of points (N, m) by the earlier measurements, (n, N).

    Of many measurements the fewer rows of an approximation of low rank.
    """
    points, noise, lengths = quantity.points, quantity.measured_noise, quantity.lengths
    if are_many(points):
        return low_rank_updates(points, noise, z, lengths)
    among = prior_covariance(points, points, lengths) + np.diag(noise)
    across = prior_covariance(points, z, lengths)
    return SeenCovariance.of(among).whitened(across)
