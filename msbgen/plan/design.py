"""Sequential design under a Gaussian process: the contexts to measure next, and their runs.

The problem: a quantity f over the N contexts of a platform (a product of levels) has the prior of
the trend (:mod:`msbgen.trend.covariance`): a smooth part of unit variance and a free line.  R runs
of context x observe f(x) with variance δ + σ²/R: the misfit δ, which no repetition removes, and the
run-to-run noise σ².  The expected squared error over all contexts, weighted by w, is Σ_t w_t v_t
with v the posterior variance.  An observation of x with variance η lowers it by

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

With the rows ℓ of all updates in L, c = k − LᵀL.  A step between few candidates needs only their
rows of c.  These are computed for many proposals at once, as a product of matrices is faster than
its rows one by one, and lack the few updates since then: a step takes O(N·n).  Where all contexts
are candidates, as for repetitions, S is kept for all of them:

    S ← S − 2 ℓ∘(c·(w∘ℓ)) + ℓ∘ℓ·(ℓᵀ(w∘ℓ)),

where k times a vector is one product of small matrices per resource.  A step takes
O(N·(n + Σ levels)) after n observations.  Once L is large, c replaces it, and a step takes O(N²).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, solve_triangular
from scipy.stats import qmc

from msbgen.core.machine import OnProgress
from msbgen.plan.prior import Quantity, all_points
from msbgen.trend.covariance import LINEAR, line, matern, prior_covariance, prior_variance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Numbers of runs that are tried for a new context, where preparing it costs time.
_REPEATS = (1, 2, 3, 5, 8, 13, 20)
# Rounding errors of S stay while S falls: it is computed anew once it has fallen to this share.
_CANCELLED = 1e-5
# Draws of the low-discrepancy sequence for each context of the platform.
_DRAWS = 8
# Contexts whose covariances to all others are in memory at a time.
_BLOCK = 256
# S of at most so many candidates is computed without keeping that of all contexts.
_FEW = 8
# Proposals whose covariances are computed at once.
_AHEAD = 64
# With more updates than this share of the contexts, the covariances themselves are stored, and new
# updates are merged into them after so many.
_DENSE, _MERGED = 0.5, 64


class Posterior:
    """Posterior variance of one quantity over a product of levels, and gains of observations.

    The posterior is given the earlier measurements of the quantity.  Contexts are the product of
    its axes, the last resource fastest.  `variance` (N,) is kept for all contexts; S is computed
    for the queried contexts.  Once it was needed for all, O(N²·n), it is kept for all, too.
    """

    def __init__(self, quantity: Quantity) -> None:
        axes, lengths, points = quantity.axes, quantity.lengths, quantity.points
        self._factors = [matern(a[:, None] - a, length) for a, length in zip(axes, lengths)]
        self._z = all_points(axes)
        self._weight = quantity.weight
        self._n = len(points)
        self._rows = np.empty((max(64, 2 * self._n), len(self._z)))
        if self._n:
            noise = quantity.measured_noise
            self._rows[: self._n] = _updates(points, noise, self._z, lengths)
        explained = np.einsum("ij,ij->j", self._observed, self._observed)
        self.variance = np.maximum(prior_variance(self._z) - explained, 0.0)
        # Covariances of some contexts to all, which lack the updates from row `_first` on.
        self._block = np.empty((0, len(self._z)))
        self._place = np.full(len(self._z), -1)
        self._first, self._dense = 0, False
        self._reach: Floats | None = None
        self._largest = 0.0

    @property
    def reach(self) -> Floats:
        """S(x) = Σ_t w_t c(x, t)² of all contexts, (N,)."""
        if self._reach is None:
            self._reach = self._measure()
            self._largest = float(self._reach.max())
        return self._reach

    def _measure(self) -> Floats:
        """Compute variance and S of all contexts anew, O(N²·n) in blocks."""
        size = len(self._z)
        dense = self._n > _DENSE * size
        kept = np.empty((size if dense else 0, size))
        reach = np.empty(size)
        for start in range(0, size, _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, size))
            covariance = self.covariance(rows)
            self.variance[rows] = np.maximum(covariance[np.arange(len(rows)), rows], 0.0)
            reach[rows] = covariance**2 @ self._weight
            if dense:
                kept[rows] = covariance
        if dense:  # the updates are in the covariances and no longer needed
            self._n, self._rows, self._dense = 0, np.empty((_MERGED, size)), True
            self._keep(np.arange(size), kept)
        return reach

    @property
    def error(self) -> float:
        """Weighted sum of the variances."""
        return float(self._weight @ self.variance)

    @property
    def _observed(self) -> Floats:
        return self._rows[: self._n]

    def _keep(self, index: Indices, block: Floats) -> None:
        self._block, self._first = block, self._n
        self._place[:] = -1
        self._place[index] = np.arange(len(index))

    def prepare(self, index: Indices) -> None:
        """Compute the covariances that the next steps need, all at once."""
        if self._reach is None and (self._place[index[:_FEW]] < 0).any():
            self._keep(index, self.covariance(index))

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
            self._make_room()
        row = self.covariance(np.array([index]))[0]
        row /= np.sqrt(max(row[index], 0.0) + noise)
        if self._reach is not None:
            weighted = self._weight * row
            spread = self._times(weighted) - (self._observed @ weighted) @ self._observed
            reach = self._reach + row * (row * (row @ weighted) - 2.0 * spread)
            self._reach = np.maximum(reach, 0.0)
        self.variance = np.maximum(self.variance - row**2, 0.0)
        self._rows[self._n] = row
        self._n += 1
        if self._reach is not None and self._reach.max() < _CANCELLED * self._largest:
            self._reach = None

    def _make_room(self) -> None:
        """Make room for further updates."""
        if self._dense:
            self._block -= self._observed.T @ self._observed
            self._n = 0
        elif self._reach is not None and self._n > _DENSE * len(self._z):
            self._reach = self._measure()
        else:
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])

    def gain(self, candidates: Indices, noise: Floats) -> Floats:
        """Decrease of the error by an observation of each candidate, of the variances `noise`."""
        if self._reach is None and len(candidates) <= _FEW:
            reach = self.covariance(candidates) ** 2 @ self._weight
        else:
            reach = self.reach[candidates]
        return reach / (self.variance[candidates] + noise)

    def _times(self, vector: Floats) -> Floats:
        """Covariance of all contexts, without the stored updates, times a vector."""
        if self._dense:
            return get_blas_funcs(("symv",), (vector,))[0](1.0, self._block.T, vector)
        shape = [len(factor) for factor in self._factors]
        smooth = vector.reshape(shape)
        for r, factor in enumerate(self._factors):
            smooth = np.moveaxis(np.tensordot(factor, smooth, axes=(1, r)), 0, r)
        return smooth.ravel() + LINEAR * (vector.sum() + 12.0 * (self._z @ (vector @ self._z)))


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

    A Sobol sequence in one dimension per resource, over the ranks of its levels (`sizes`), and one
    more: a context is passed over where that last coordinate exceeds √(least cost / cost).  Each
    allowed context comes once; those never drawn come last, cheap ones first.
    """
    m = len(sizes)
    # a power of two keeps the sequence balanced; its first point is the corner of the lowest levels
    draws = (_DRAWS * len(cost)).bit_length()
    points = qmc.Sobol(m + 1, scramble=False).random_base2(draws)[1:]
    levels = (points[:, :m] * np.asarray(sizes)).astype(np.int64)
    drawn = np.asarray(np.ravel_multi_index(tuple(levels.T), tuple(sizes)))
    least = cost[allowed].min()
    kept = allowed[drawn] & (points[:, m] ** 2 * cost[drawn] <= least)
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
    # largest total cost [s].  The plan ends before the step that would exceed it: plans of smaller
    # budgets are the beginnings of those of larger ones.
    seconds: float = np.inf
    # largest number of new contexts; the time that is left then goes to repetitions
    contexts: float = np.inf
    overhead: float = 0.0  # cost of preparing a context, for any number of runs [s]
    least_runs: int = 1  # runs of each context of the plan, at least
    most_runs: int = 20


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
    left = seconds
    repeats = [n for n in _REPEATS if least_runs < n <= limits.most_runs] if overhead > 0 else []
    none = np.empty(0, dtype=np.int64)
    while len(order) < limits.contexts or seconds < np.inf:
        fresh, repeated = waiting[: limits.window], none
        if len(fresh) == 0 and seconds == np.inf:
            break
        new = np.count_nonzero((before == 0) & (planned > 0))
        if new >= limits.contexts or len(fresh) == 0:
            fresh, repeated = none, proposals[(planned + before)[proposals] > 0]
            repeated = repeated[planned[repeated] < limits.most_runs]
        if 0 < len(fresh) <= _FEW:
            for posterior in posteriors:
                posterior.prepare(waiting[:_AHEAD])
        best, chosen = 0.0, (0, 0, 0.0)
        for runs, candidates, setup in [
            *((n, fresh, overhead) for n in (least_runs, *repeats)),
            (1, repeated, np.where(planned[repeated] > 0, 0.0, overhead)),
        ]:
            if len(candidates) == 0:
                continue
            cost = setup + runs * run_seconds[candidates]
            gain = np.zeros(len(candidates))
            for quantity, posterior in zip(quantities, posteriors):
                noise = quantity.step_noise(before + planned, runs, candidates)
                gain += quantity.importance * posterior.gain(candidates, noise)
            rate = gain / cost
            i = int(rate.argmax())
            if rate[i] > best * (1 + 1e-9):
                best, chosen = float(rate[i]), (int(candidates[i]), runs, float(cost[i]))
        i, runs, cost = chosen
        if best <= 0.0 or cost > left:
            break
        for quantity, posterior in zip(quantities, posteriors):
            posterior.observe(i, float(quantity.step_noise(before + planned, runs)[i]))
        left -= cost
        if progress:
            share = max(1.0 - left / seconds if seconds < np.inf else 0.0, new / limits.contexts)
            progress(int(1000 * min(share, 1.0)), 1000)
        if planned[i] == 0:
            order.append(i)
            waiting = waiting[waiting != i]
        planned[i] += runs
    index = np.array(order, dtype=np.int64)
    runs = planned[index]
    return Design(
        index, runs, overhead + runs * run_seconds[index], _errors(quantities, before, index, runs)
    )


def _errors(
    quantities: Sequence[Quantity], before: Floats, index: Indices, runs: Indices
) -> Floats:
    """Expected error before and after each row of a design, (1 + rows,)."""
    square = np.zeros(1 + len(index))
    for quantity in quantities:
        z = all_points(quantity.axes)
        noise = np.concatenate(
            [
                quantity.measured_noise,
                [quantity.step_noise(before, int(n))[i] for i, n in zip(index, runs)],
            ]
        )
        points = np.concatenate([quantity.points, z[index]])
        explained = _updates(points, noise, z, quantity.lengths) ** 2 @ quantity.weight
        prior = prior_variance(z) @ quantity.weight
        left = prior - np.cumsum(np.append(0.0, explained))[len(quantity.points) :]
        # every context has an independent misfit
        square += quantity.importance * (np.maximum(left, 0.0) / len(z) + quantity.misfit)
    return np.sqrt(square)


def _updates(points: Floats, noise: Floats, z: Floats, lengths: Floats) -> Floats:
    """Rows ℓ of the updates by observations of `points`, one after the other, (n, N)."""
    among = prior_covariance(points, points, lengths) + np.diag(noise)
    across = prior_covariance(points, z, lengths)
    return solve_triangular(np.linalg.cholesky(among), across, lower=True)
