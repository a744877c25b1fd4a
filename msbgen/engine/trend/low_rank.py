"""The Gaussian process of many contexts: its prior covariance approximated by one of low rank.

With n contexts, exact smoothing takes O(n³).  A pivoted Cholesky factorisation K ≈ F Fᵀ of the
prior covariance takes O(n u²), F (n, u): each step adds the context, the *pivot*, whose variance
given the pivots before is largest (Fine and Scheinberg, Journal of Machine Learning Research 2,
2001).  It ends where that variance is far below the noise, or at the largest rank.  The rest of
each variance, diag(K − F Fᵀ), is taken as independent noise beside that of the values: N is the
sum (Snelson and Ghahramani, Advances in Neural Information Processing Systems 18, 2006).  The
posterior mean is then a sum of covariances with the pivots:

    A = I + Fᵀ N⁻¹ F,    w = A⁻¹ Fᵀ N⁻¹ y,    prediction(z) = k(z, pivots) L⁻ᵀ w,

with the lower triangle L = F[pivots].  Left-out predictions follow from A
and Fᵀ N⁻¹ y without the terms of the contexts that are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError
from msbgen.core.lazy import lazy_module
from msbgen.engine.trend.covariance import line, matern, prior_covariance, prior_variance
from msbgen.engine.trend.folds import Folds

linalg = lazy_module("scipy.linalg")

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The largest rank, and that where the columns of the values differ in noise: one system each.
MOST_PIVOTS, _FEW_PIVOTS = 800, 120
# Variance given the pivots, over the noise, at which a factorisation ends; the least of it.
_NEGLIGIBLE, _LEAST = 1e-4, 1e-10
# Factorisations that are cached, one per set of length scales.
_CACHED = 6
# Contexts whose left-out variances are computed at a time.
_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Factor:
    """A pivoted Cholesky factorisation of the prior covariance of points (n, m)."""

    rows: Floats  # (n, rank): F
    pivots: Indices  # (rank,)
    rest: Floats  # (n,): variance of each point given the pivots

    @classmethod
    def of(cls, z: Floats, lengths: Floats, negligible: float) -> Factor:
        """The factorisation for points (n, m) and length scales (m,), O(n · rank²)."""
        most = min(len(z), MOST_PIVOTS)
        columns = np.empty((most, len(z)))
        variance, pivots = prior_variance(z), np.empty(most, dtype=np.intp)
        for j in range(most):
            p = int(variance.argmax())
            if not variance[p] > negligible:
                columns, pivots = columns[:j], pivots[:j]
                break
            smooth = np.ones(len(z))
            for steps, length in zip((z - z[p]).T, lengths):
                smooth *= matern(steps, length)
            smooth += line(z @ z[p])
            smooth -= columns[:j, p] @ columns[:j]
            columns[j] = smooth / np.sqrt(variance[p])
            pivots[j] = p
            variance -= columns[j] ** 2
            variance[p] = 0.0
        return cls(np.ascontiguousarray(columns.T), pivots, np.maximum(variance, 0.0))

    def first(self, rank: int) -> Factor:
        """The factorisation of at most this rank."""
        beyond = (self.rows[:, rank:] ** 2).sum(axis=1)
        return Factor(self.rows[:, :rank], self.pivots[:rank], self.rest + beyond)

    @property
    def lower(self) -> Floats:
        """The lower triangle L (rank, rank)."""
        return self.rows[self.pivots]


def _negligible(nugget: float) -> float:
    """The variance at which a factorisation ends beside noise of the variance `nugget`."""
    return max(_NEGLIGIBLE * float(nugget), _LEAST)


class LowRankProcess:
    """The smoother :class:`msbgen.engine.trend.smooth.GaussianProcess` for many points (n, m).

    O(n u²) a fit where all columns have the same noise, u the rank; else O(n u'²) a column with a
    lower rank u'.
    """

    def __init__(self, known: Floats) -> None:
        self._known = known
        self._lock, self._factors = Lock(), dict[tuple[float, ...], Factor]()

    def predict(self, z: Floats, coefficients: Floats, lengths: Floats, nugget: Floats) -> Floats:
        """See :class:`.smooth.Smoother`; only pivots have coefficients other than 0."""
        out = np.empty((len(coefficients), len(z), coefficients.shape[2]))
        for values, one, scales in zip(out, coefficients, lengths):
            pivots = np.flatnonzero(one.any(axis=1))
            np.matmul(prior_covariance(z, self._known[pivots], scales), one[pivots], out=values)
        return out

    def coefficients(self, values: Floats, noise: Floats, lengths: Floats, nugget: float) -> Floats:
        """Coefficients (n, c) of the covariances with each point, 0 but for the pivots."""
        out = np.zeros_like(values)
        factor = self._factor(lengths, nugget)
        for columns, part in _systems(factor, noise):
            variance = nugget * noise[:, columns[0]] + part.rest
            system = _System.of(part, variance, values[:, columns])
            weights = system.solve(system.right)
            own = linalg.solve_triangular(part.lower, weights, trans=1, lower=True)
            out[part.pivots[:, None], columns] = own
        return out

    def left_out(
        self, values: Floats, noise: Floats, lengths: Floats, nugget: float, folds: Folds
    ) -> Floats:
        """Known minus predicted values for each row of the folds, (rows, c)."""
        out = np.empty((len(folds.weight), values.shape[1]))
        factor, singles = self._factor(lengths, nugget), folds.singles
        for columns, part in _systems(factor, noise):
            known = values[:, columns]
            variance = nugget * noise[:, columns[0]] + part.rest
            system = _System.of(part, variance, known)
            errors = known[:singles] - part.rows[:singles] @ system.solve(system.right)
            free = 1.0 - system.leverage(part.rows[:singles]) / variance[:singles]
            out[:singles, columns] = errors / np.maximum(free, 1e-9)[:, None]
            for group in folds.groups:
                members = folds.members[group]
                without = system.without(part.rows[members], variance[members], known[members])
                predicted = part.rows[members] @ without.solve(without.right)
                rows = slice(singles + group.start, singles + group.stop)
                out[rows, columns] = known[members] - predicted
        return out

    def _factor(self, lengths: Floats, nugget: float) -> Factor:
        negligible = _negligible(nugget)
        key = (*map(float, lengths), negligible)
        with self._lock:
            factor = self._factors.get(key)
            if factor is None:
                while len(self._factors) >= _CACHED:
                    del self._factors[next(iter(self._factors))]
                factor = self._factors[key] = Factor.of(self._known, lengths, negligible)
        return factor


class LowRankVariance:
    """Posterior variances without the noise, given known points (n, m).

    `nugget` is the variance of the noise of all points, or of each, (n,).  See
    :class:`msbgen.engine.trend.deviations.Variance`.
    """

    def __init__(self, known: Floats, lengths: Floats, nugget: float | Floats) -> None:
        self._known, self._lengths = known, lengths
        self._factor = Factor.of(known, lengths, _negligible(np.min(nugget)))
        self._noise = nugget + self._factor.rest
        self._system = _System.of(self._factor, self._noise, np.empty((len(known), 0)))

    def at(self, z: Floats) -> Floats:
        """Variance at points (q, m) given all known ones, (q,)."""
        across = prior_covariance(self._known[self._factor.pivots], z, self._lengths)
        rows = linalg.solve_triangular(self._factor.lower, across, lower=True).T
        unexplained = np.maximum(prior_variance(z) - (rows**2).sum(axis=1), 0.0)
        return unexplained + self._system.leverage(rows)

    def left_out(self, groups: Sequence[Indices]) -> Floats:
        """Variance at each known point of each group, given the points outside the group."""
        rows, noise, empty = self._factor.rows, self._noise, np.empty((len(self._known), 0))
        leverage, parts = self._system.leverage(rows), []
        for group in groups:
            if len(group) == 1:  # of rank one: the inverse follows from Sherman and Morrison
                part = leverage[group] / np.maximum(1.0 - leverage[group] / noise[group], 1e-9)
            else:
                without = self._system.without(rows[group], noise[group], empty[group])
                part = without.leverage(rows[group])
            parts.append(part + self._factor.rest[group])
        return np.concatenate(parts)


def low_rank_updates(points: Floats, noise: Floats, z: Floats, lengths: Floats) -> Floats:
    """Rows (u, q) whose products are what observations explain of the covariance of z (q, m).

    Observations of points (n, m) with the noise variances (n,).  With Fᵀ N⁻¹ F = V Λ Vᵀ the rows
    are (Λ / (1 + Λ))^½ Vᵀ times those of F at z.
    """
    factor = Factor.of(points, lengths, _negligible(noise.min()))
    weighted = factor.rows / (noise + factor.rest)[:, None]
    values, vectors = np.linalg.eigh(weighted.T @ factor.rows)
    values = np.maximum(values, 0.0)
    across = prior_covariance(points[factor.pivots], z, lengths)
    rows = linalg.solve_triangular(factor.lower, across, lower=True)
    return (vectors * np.sqrt(values / (1.0 + values))).T @ rows


@dataclass(frozen=True, eq=False)
class _System:
    """The normal equations A w = b of the weights."""

    matrix: Floats  # (u, u): A
    right: Floats  # (u, c): b

    @classmethod
    def of(cls, factor: Factor, variance: Floats, values: Floats) -> _System:
        """The equations of values (n, c) with noise variances (n,)."""
        weighted = factor.rows / variance[:, None]
        matrix = weighted.T @ factor.rows
        matrix[np.diag_indices_from(matrix)] += 1.0
        return cls(matrix, weighted.T @ values)

    def without(self, rows: Floats, variance: Floats, values: Floats) -> _System:
        """The equations without some contexts: their rows of F, noise variances and values."""
        weighted = rows / variance[:, None]
        return _System(self.matrix - weighted.T @ rows, self.right - weighted.T @ values)

    def _cholesky(self) -> tuple[Floats, bool]:
        try:
            return linalg.cho_factor(self.matrix, lower=True)
        except np.linalg.LinAlgError:
            raise MeasurementError(
                "contexts are so close that they determine no trend; drop those next to others."
            ) from None

    def solve(self, right: Floats) -> Floats:
        """A⁻¹ times a right-hand side (u, c)."""
        return linalg.cho_solve(self._cholesky(), right)

    def leverage(self, rows: Floats) -> Floats:
        """Posterior variances diag(rows A⁻¹ rowsᵀ) of rows (q, u) of F, (q,)."""
        lower, variance = self._cholesky()[0], np.empty(len(rows))
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            half = linalg.solve_triangular(lower, rows[block].T, lower=True)
            variance[block] = (half**2).sum(axis=0)
        return variance


def _systems(factor: Factor, noise: Floats) -> list[tuple[Indices, Factor]]:
    """Columns (c,) of equal noise (n, c), and the factorisation for them."""
    if np.all(noise == noise[:, :1]):
        return [(np.arange(noise.shape[1]), factor)]
    few = factor.first(_FEW_PIVOTS)
    which = np.unique(noise, axis=1, return_inverse=True)[1].reshape(-1)
    order = np.argsort(which, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(which[order])) + 1)
    return [(group, few) for group in groups]
