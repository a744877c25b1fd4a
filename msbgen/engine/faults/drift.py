"""A machine that became slower, or faster, over a sweep, found from the start times of runs.

The logarithm of the time of run r of context i, less that which its counts predict, is

    y_ir = f(x_i) + Σ_{d=1..D} c_d P_d(τ_ir) + noise.

f is the Gaussian process over the contexts, P_d are Legendre's polynomials, and τ ∈ [−1, 1] is the
place in the sweep.  Differences between runs of one context show the drift without f; means of
contexts show it in the residuals of the process.  The c_d are those of generalised least squares.

A drift is accepted where its log likelihood exceeds that without one by more than its prior log
odds and half the logarithm of the number of runs per c_d (BIC).  It is *repeated* where the
differences between runs of one context suffice for that.  Else the order in which contexts were
measured may explain it: it is *confounded* where start times follow the levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray

from msbgen.engine.faults.process import Neighbourhoods, ProcessSearch
from msbgen.engine.faults.regression import LEAST_SPREAD
from msbgen.engine.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]

# The most terms of a drift; alternating fits of the terms and the noise.
_TERMS, _STEPS = 3, 3
# Places in the sweep at which the largest and the smallest slowdown are computed.
_PLACES = 101
_PRIOR_ODDS = 0.1
# Share of the variance of start times that the levels must leave unexplained.
_LEAST_UNEXPLAINED = 0.5
# Standard deviation of a normal variable over its median absolute deviation.
_NORMAL = 1.4826


@dataclass(frozen=True)
class Drift:
    """A drift of the machine over a sweep."""

    terms: tuple[float, ...]  # c_1 … c_D
    log_odds: float  # against no drift
    is_repeated: bool  # whether the differences between runs of one context show it, too
    is_confounded: bool  # whether it is not repeated, and start times follow the levels


def drift_basis(started: Floats, terms: int = _TERMS) -> Floats:
    """P_1 … P_D at start times (...) [s], less their means over all runs, (..., D).

    0 where `started` is NaN.
    """
    known = np.isfinite(started)
    if not known.any():
        return np.zeros((*started.shape, terms))
    first, last = started[known].min(), started[known].max()
    place = 2.0 * (np.where(known, started, first) - first) / max(last - first, 1e-300) - 1.0
    basis = legvander(place, terms)[..., 1:]
    return np.where(known[..., None], basis - basis[known].mean(axis=0), 0.0)


def drift_slowdowns(terms: tuple[float, ...], started: Floats) -> Floats:
    """Time of runs over that in the mean of the sweep, by start times [s], of their shape.

    1 where `started` is NaN.
    """
    return np.exp(drift_basis(started, len(terms)) @ np.array(terms))


def slowest_over_fastest(terms: tuple[float, ...]) -> float:
    """Time of a run when the machine was slowest over that when it was fastest."""
    places = np.linspace(-1.0, 1.0, _PLACES)
    return float(np.exp(np.ptp(legvander(places, len(terms))[:, 1:] @ np.array(terms))))


def find_drift(contexts: Floats, residuals: Floats, basis: Floats) -> Drift | None:
    """The drift of the machine over a sweep, or None.

    `residuals` (n, runs) are logarithms of the measured over the predicted time; NaN for runs to
    ignore.  `basis` (n, runs, D) is that of :func:`drift_basis`.
    """
    used = np.isfinite(residuals) & basis.any(axis=2)
    most = min(_TERMS, len(np.unique(basis[used][:, 0])) - 1)  # the start times determine no more
    if most < 1:
        return None
    rows = np.flatnonzero(used.any(axis=1))
    sweep = _Sweep(contexts[rows], residuals[rows], basis[rows], used[rows])
    fits = [sweep.fit(count) for count in range(most + 1)]
    # a fit of the noise may jump between grid points: each set of terms takes the best of all fits
    noises = [sweep.noise(terms) for terms in fits]
    none, *likelihoods = [max(sweep.likelihood(t, noise) for noise in noises) for t in fits]
    best = None
    for count, likelihood in enumerate(likelihoods, start=1):
        log_odds = likelihood - none + np.log(_PRIOR_ODDS) - 0.5 * count * np.log(used.sum())
        if log_odds > (best.log_odds if best else 0.0):
            of_runs = sweep.gain_of_runs(fits[count], noises) - 0.5 * count * np.log(used.sum())
            is_repeated = bool(of_runs + np.log(_PRIOR_ODDS) > 0.0)
            is_confounded = not is_repeated and sweep.is_ordered
            terms = tuple(fits[count][:count].tolist())
            best = Drift(terms, float(log_odds), is_repeated, is_confounded)
    return best


class _Sweep:
    """The runs of all contexts; arguments as of `find_drift`, and which runs are `used`."""

    def __init__(
        self, contexts: Floats, residuals: Floats, basis: Floats, used: NDArray[np.bool_]
    ) -> None:
        z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
        self._used = used
        self._residuals, self._basis = np.where(used, residuals, 0.0), basis
        self._n_runs = used.sum(axis=1)
        self._mean_basis = self._mean(basis)
        self._run_basis = (basis - self._mean_basis[:, None])[used]
        scale, none = self._n_runs.mean() / self._n_runs, np.zeros(len(contexts), dtype=bool)
        self._z = z
        self._search = ProcessSearch(Neighbourhoods.of(z), scale, none)

    def _mean(self, values: Floats) -> Floats:
        """Mean over the runs of each context, of values (n, runs, ...)."""
        shape = (-1,) + (1,) * (values.ndim - 2)
        used = self._used.reshape(*self._used.shape, *shape[1:])
        return np.where(used, values, 0.0).sum(axis=1) / self._n_runs.reshape(shape)

    def _split(self, terms: Floats) -> tuple[Floats, Floats]:
        """Residuals of the terms: means of contexts (n,), and runs less these."""
        left = self._residuals - self._basis @ terms
        means = self._mean(left)
        return means - np.median(means), (left - means[:, None])[self._used]

    def noise(self, terms: Floats) -> tuple[Floats, float]:
        """Precision of means (n, n), and variance of runs, from the residuals of the terms."""
        means, runs = self._split(terms)
        process = self._search.fit(means)
        several = np.broadcast_to((self._n_runs > 1)[:, None], self._used.shape)[self._used]
        if not several.any():
            return process.precision(), 1.0
        freedom = several.sum() / (several.sum() - (self._n_runs > 1).sum())
        spread = _NORMAL * float(np.median(np.abs(runs[several])))
        return process.precision(), freedom * spread**2 + LEAST_SPREAD**2

    def likelihood(self, terms: Floats, noise: tuple[Floats, float]) -> float:
        """Log density of the times, up to a constant."""
        (means, runs), (precision, variance) = self._split(terms), noise
        fit = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * float(means @ precision @ means)
        freedom = len(runs) - len(means)
        return float(fit - 0.5 * freedom * np.log(variance) - 0.5 * (runs**2).sum() / variance)

    @property
    def is_ordered(self) -> bool:
        """Whether the levels explain most of the start times: adjusted R² of a line above one half.

        Also where there are too few contexts to decide.
        """
        start, z = self._mean_basis[:, 0], np.column_stack([np.ones(len(self._z)), self._z])
        freedom = len(start) - np.linalg.matrix_rank(z)
        if freedom < 2:
            return True
        left = start - z @ np.linalg.lstsq(z, start, rcond=None)[0]
        spread = float(((start - start.mean()) ** 2).sum()) / (len(start) - 1)
        return bool((left**2).sum() / freedom < _LEAST_UNEXPLAINED * max(spread, 1e-300))

    def gain_of_runs(self, terms: Floats, noises: Sequence[tuple[Floats, float]]) -> float:
        """Log likelihood of the differences between runs of one context, over that of no drift."""

        def best(terms: Floats) -> float:
            runs = self._split(terms)[1]
            freedom = len(runs) - len(self._n_runs)
            return max(-0.5 * (freedom * np.log(v) + float((runs**2).sum()) / v) for _, v in noises)

        return best(terms) - best(np.zeros_like(terms))

    def fit(self, count: int) -> Floats:
        """The first `count` terms by generalised least squares, the others 0, (D,)."""
        terms = np.zeros(self._basis.shape[2])
        mean_basis, run_basis = self._mean_basis[:, :count], self._run_basis[:, :count]
        for _ in range(_STEPS if count else 0):
            (means, runs), (precision, variance) = self._split(terms), self.noise(terms)
            curvature = mean_basis.T @ precision @ mean_basis + run_basis.T @ run_basis / variance
            slope = mean_basis.T @ precision @ means + run_basis.T @ runs / variance
            terms[:count] += np.linalg.solve(curvature, slope)
        return terms
