"""The ratio of a quantity between two versions in each context, and a band that holds all at once.

A Gaussian process over the contexts predicts the logarithm of NEW/OLD: a constant of free size, and
a smooth part (Matérn) of the length scale and amplitude that the differences make most likely.  The
band is as wide as the largest deviation of draws from the process, and as that of runs with their
labels permuted, where the noise has more than one mode.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.compare.ratio import Differences
from msbgen.trend.coordinates import Coordinates, default_names
from msbgen.trend.covariance import matern

Floats = NDArray[np.float64]

# Degrees of freedom of the mean variance in that of a context.
_PRIOR_FREEDOM = 16.0
# Length scales, of coordinates that span one, and amplitudes over the noise that are compared.
_LENGTHS = (0.3, 0.8, 2.5)
_AMPLITUDES = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
# Draws for the simultaneous band, and the most contexts of a draw.
_DRAWS, _MOST_DRAWN = 2000, 400
# Log likelihood that a smooth part of the band must add: equal likelihoods mean a constant.
_PENALTY = 2.0
# Jitter of a covariance before its root, of the largest variance.
_JITTER = 1e-9


def ratios_everywhere(
    differences: Differences, targets: Floats, confidence: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Ratios of any contexts (q, m), and a band that holds all of them at once.

    Returns
    -------
    value, low, high : (q,)
        The simultaneous band is value · exp(± z · standard deviation), where z is the quantile of
        the largest deviation.
    """
    names = default_names(differences.contexts)
    coordinates = Coordinates.of(names, differences.contexts)
    known, asked = coordinates.scaled(differences.contexts), coordinates.scaled(targets)
    noise = _steady_variance(differences)
    scale = float(np.median(noise))
    constant = 100 * (scale + float(np.mean(differences.value**2)))
    noise = np.maximum(noise, 1e-12 * constant)  # else equal runs make a singular matrix
    best = (-np.inf, 0.0, _LENGTHS[0])
    for length in _LENGTHS:
        smooth = _correlation(known, known, length)
        for amplitude in scale * _AMPLITUDES:
            fit = _log_likelihood(differences.value, constant + amplitude * smooth + np.diag(noise))
            # a smooth part must be earned: equal likelihoods mean a constant
            best = max(best, (fit - _PENALTY * (amplitude > 0), amplitude, length))
    _, amplitude, length = best
    own = constant + amplitude * _correlation(known, known, length) + np.diag(noise)
    cross = constant + amplitude * _correlation(asked, known, length)
    gain = np.linalg.solve(own, cross.T).T
    mean = gain @ differences.value
    gain_known = np.linalg.solve(own, own - np.diag(noise)).T
    variance = constant + amplitude - (gain * cross).sum(axis=1)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    # the process is smooth: the largest deviation of many contexts is that of some of them
    some = rng.permutation(len(asked))[:_MOST_DRAWN]
    prior = constant + amplitude * _correlation(asked[some], asked[some], length)
    root = _root(prior - gain[some] @ cross[some].T)
    draws = np.abs(root @ rng.standard_normal((root.shape[1], _DRAWS)))
    largest = (draws / np.maximum(deviation[some], 1e-300)[:, None]).max(axis=0)
    # the noise itself is an estimate: the draws are those of Student's t
    free = float(
        differences.freedom[0] if differences.from_neighbours else differences.freedom.sum()
    )
    largest /= np.sqrt(rng.chisquare(free, _DRAWS) / free)
    z = float(np.quantile(largest, confidence))
    # runs whose noise is not normal, as of two modes, deviate more with their labels permuted
    permuted = differences.permuted_values(gain_known @ differences.value)
    if len(permuted):
        apart = np.abs(permuted @ gain[some].T) / np.maximum(deviation[some], 1e-300)
        z = max(z, float(np.quantile(apart.max(axis=1), confidence)))
    half = z * deviation
    return np.exp(mean), np.exp(mean - half), np.exp(mean + half)


def _steady_variance(differences: Differences) -> Floats:
    """Variances (n,) shrunk further to their mean: few runs leave each of them unsure."""
    noise = differences.positive_variance()
    own = np.zeros(len(noise)) if differences.from_neighbours else differences.freedom
    return (own * noise + _PRIOR_FREEDOM * noise.mean()) / (own + _PRIOR_FREEDOM)


def _correlation(z: Floats, other: Floats, length: float) -> Floats:
    """Matérn correlations of scaled coordinates (q, m) and (n, m), (q, n)."""
    steps = z[:, None] - other[None]
    return np.prod(matern(steps, length), axis=2)


def _log_likelihood(value: Floats, covariance: Floats) -> float:
    """Log density of a centred normal vector, without its constant."""
    try:
        lower = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return -np.inf
    whitened = np.linalg.solve(lower, value)
    return float(-0.5 * whitened @ whitened - np.log(np.diag(lower)).sum())


def _root(covariance: Floats) -> Floats:
    """A root R of a covariance, R Rᵀ, without its negligible directions."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _JITTER * max(float(values[-1]), 1e-300)
    return vectors[:, kept] * np.sqrt(values[kept])
