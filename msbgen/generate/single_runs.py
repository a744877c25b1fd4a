"""Probability that durations of single runs depart from the trend by noise alone.

The logarithm of a measured duration over the trend's is f(β_i) + ε_i in context β_i.  A single run
does not show how much of it is the run's own deviation ε_i.  Two hypotheses are compared: f is 0,
or a Gaussian process with a squared exponential covariance over the contexts.  Marginal likelihoods
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, eq. 5.8) are maximal in the
variance of ε_i.  They are averaged over length scales, and over ratios of both variances.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import squared_distances

Floats = NDArray[np.float64]

# Length scales in ranges of the known contexts.  All combinations are tried for up to three
# resources that vary, those of fewer scales for up to six, and equal scales for more.
_LENGTHS, _FEW_LENGTHS, _SEVERAL, _MOST = (0.15, 0.5, 1.5), (0.3, 1.5), 3, 6
# Variances of the process over that of a run.
_RATIOS = (0.1, 0.3, 1.0, 3.0, 10.0)
# Added to the variance of a run, whose unit it is, and the least variance of residuals: rounding.
_ROUNDING, _LEAST_SQUARE = 1e-6, 1e-300


def noise_probability(points: Floats, residual: Floats, n_runs: NDArray[np.int64]) -> float:
    """Probability that residuals (n,) at points (n, m) are noise, of variance inverse to the runs.

    Residuals are logarithms of ratios, of contexts with `n_runs` (n,) runs.  Both hypotheses are
    equally probable before.  Points are in any unit of each resource.

    Examples
    --------
    >>> points, runs = np.linspace(0.0, 1.0, 30)[:, None], np.ones(30)
    >>> noise = np.random.default_rng(0).normal(0.0, 0.01, 30)
    >>> noise_probability(points, noise, runs) > 0.5
    True
    >>> noise_probability(points, noise + 0.02 * np.sin(6.0 * points[:, 0]), runs) < 0.01
    True
    """
    span = np.ptp(points, axis=0)
    points = points[:, span > 0] / span[span > 0]
    noise = np.diag(1.0 / n_runs + _ROUNDING)
    alone = _log_likelihood(noise, residual)
    logs = [
        _log_likelihood(ratio * covariance + noise, residual) - alone
        for covariance in _covariances(points)
        for ratio in _RATIOS
    ]
    return float(1.0 / (1.0 + np.mean(np.exp(np.minimum(logs, 500.0)))))


def _covariances(points: Floats) -> list[Floats]:
    """Covariances of unit variance (n, n) with each combination of length scales."""
    m = points.shape[1]
    if m > _MOST:
        scales = [(scale,) * m for scale in _LENGTHS]
    else:
        scales = list(product(_LENGTHS if m <= _SEVERAL else _FEW_LENGTHS, repeat=m))
    scaled = (points / np.array(scale) for scale in scales)
    return [np.exp(-0.5 * squared_distances(p, p)) for p in scaled]


def _log_likelihood(covariance: Floats, residual: Floats) -> float:
    """Log density of residuals (n,) whose covariance is a multiple of this one, the likeliest."""
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, residual)
    square = max(float(white @ white) / len(white), _LEAST_SQUARE)
    return -0.5 * len(white) * float(np.log(square)) - float(np.log(np.diag(factor)).sum())
