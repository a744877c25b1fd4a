"""A machine that grew slower, or faster, over a sweep: seen where runs say when they began.

The logarithm of the time of run r of context i, less that of what its counts explain, is

    y_ir = f(x_i) + Σ_{d=1..D} c_d P_d(τ_ir) + noise,

f the process over the contexts, P_d Legendre's polynomials and τ ∈ [−1, 1] the place in the sweep.
Runs of one context tell the drift without f, the means of contexts by what the process leaves them:
the c_d are those of generalised least squares.  A drift has to be likelier than none by its odds,
the noise being fitted with and without it, and by half a logarithm of the runs for each c_d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import NDArray

from msbgen.faults.explained import EVEN
from msbgen.faults.process import Neighbourhoods, fit_process
from msbgen.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]

# The most terms of a drift; steps of fitting them and the noise in turn.
_TERMS, _STEPS = 3, 3
# Places in the sweep at which its largest and smallest pace are sought.
_PLACES = 101
# Odds of a drift.
_ODDS = 0.1
_NORMAL = 1.4826


@dataclass(frozen=True)
class Drift:
    """How a machine's pace changed.

    Attributes
    ----------
    terms : tuple of float
        Coefficients c_1 … c_D.
    gain : float
        Log odds that it is no chance.
    """

    terms: tuple[float, ...]
    gain: float


def drift_basis(started: Floats, terms: int = _TERMS) -> Floats:
    """P_1 … P_D at the times (...) when runs began [s], (..., D), less their means over all runs.

    0 where `started` is NaN.
    """
    known = np.isfinite(started)
    if not known.any():
        return np.zeros((*started.shape, terms))
    first, last = started[known].min(), started[known].max()
    place = 2.0 * (np.where(known, started, first) - first) / max(last - first, 1e-300) - 1.0
    basis = legvander(place, terms)[..., 1:]
    return np.where(known[..., None], basis - basis[known].mean(axis=0), 0.0)


def drift_paces(terms: tuple[float, ...], started: Floats) -> Floats:
    """How many times longer runs took than in the mean of the sweep, by when they began [s].

    1 where `started` is NaN; of its shape.
    """
    return np.exp(drift_basis(started, len(terms)) @ np.array(terms))


def drift_span(terms: tuple[float, ...]) -> float:
    """How many times longer runs took when the machine was slowest than when it was fastest."""
    places = np.linspace(-1.0, 1.0, _PLACES)
    return float(np.exp(np.ptp(legvander(places, len(terms))[:, 1:] @ np.array(terms))))


def find_drift(contexts: Floats, left: Floats, basis: Floats) -> Drift | None:
    """The drift of the machine over a sweep, or none.

    Parameters
    ----------
    contexts : ndarray, (n, m)
    left : ndarray, (n, runs)
        Logarithm of the time that counts do not explain; NaN for runs not to be looked at.
    basis : ndarray, (n, runs, D)
        Of :func:`drift_basis`.
    """
    there = np.isfinite(left) & basis.any(axis=2)
    most = min(_TERMS, len(np.unique(basis[there][:, 0])) - 1)  # more no times could tell apart
    if most < 1:
        return None
    rows = np.flatnonzero(there.any(axis=1))
    sweep = _Sweep(contexts[rows], left[rows], basis[rows], there[rows])
    tried = [sweep.fitted(many) for many in range(most + 1)]
    # whatever the noise is fitted to, each may have it: fits of it jump
    noises = [sweep.noise(terms) for terms in tried]
    plain, *likelihoods = [max(sweep.likelihood(t, noise) for noise in noises) for t in tried]
    best = None
    for many, likelihood in enumerate(likelihoods, start=1):
        gain = likelihood - plain + np.log(_ODDS) - 0.5 * many * np.log(there.sum())
        if gain > (best.gain if best else 0.0):
            best = Drift(tuple(tried[many][:many].tolist()), float(gain))
    return best


class _Sweep:
    """The runs of all contexts; arguments as `find_drift`, and the terms' `basis` (n, runs, D)."""

    def __init__(
        self, contexts: Floats, left: Floats, basis: Floats, there: NDArray[np.bool_]
    ) -> None:
        z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
        self._around, self._there = Neighbourhoods.of(z), there
        self._left, self._basis = np.where(there, left, 0.0), basis
        self._many = there.sum(axis=1)
        self._mean_basis = self._mean(basis)
        self._own_basis = (basis - self._mean_basis[:, None])[there]

    def _mean(self, values: Floats) -> Floats:
        """Of the runs of each context, of values (n, runs, ...)."""
        shape = (-1,) + (1,) * (values.ndim - 2)
        there = self._there.reshape(*self._there.shape, *shape[1:])
        return np.where(there, values, 0.0).sum(axis=1) / self._many.reshape(shape)

    def _residuals(self, terms: Floats) -> tuple[Floats, Floats]:
        """What the terms leave of the means of contexts (n,), and of runs over these."""
        left = self._left - self._basis @ terms
        means = self._mean(left)
        return means - np.median(means), (left - means[:, None])[self._there]

    def noise(self, terms: Floats) -> tuple[Floats, float]:
        """Precision of means (n, n), and variance of runs, by what the terms leave."""
        means, own = self._residuals(terms)
        none = np.zeros(len(means), dtype=bool)
        process = fit_process(self._around, means, self._many.mean() / self._many, none)
        several = np.broadcast_to((self._many > 1)[:, None], self._there.shape)[self._there]
        if not several.any():
            return process.precision(), 1.0
        fewer = several.sum() / (several.sum() - (self._many > 1).sum())
        spread = _NORMAL * float(np.median(np.abs(own[several])))
        return process.precision(), fewer * spread**2 + EVEN**2

    def likelihood(self, terms: Floats, noise: tuple[Floats, float]) -> float:
        """Log density of the times, a constant aside."""
        (means, own), (precision, variance) = self._residuals(terms), noise
        fit = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * float(means @ precision @ means)
        alike = len(own) - len(means)
        return float(fit - 0.5 * alike * np.log(variance) - 0.5 * (own**2).sum() / variance)

    def fitted(self, many: int) -> Floats:
        """The first terms by generalised least squares, the rest 0, (D,)."""
        terms = np.zeros(self._basis.shape[2])
        mean_basis, own_basis = self._mean_basis[:, :many], self._own_basis[:, :many]
        for _ in range(_STEPS if many else 0):
            (means, own), (precision, variance) = self._residuals(terms), self.noise(terms)
            curvature = mean_basis.T @ precision @ mean_basis + own_basis.T @ own_basis / variance
            slope = mean_basis.T @ precision @ means + own_basis.T @ own / variance
            terms[:many] += np.linalg.solve(curvature, slope)
        return terms
