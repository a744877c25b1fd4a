"""Shrinkage of predictions where the members disagree.

Predictions of the towers can be far off on a platform that is unlike all others.  Different pairs
of towers are off in different cells, so the variance d² among the members is a sign.  Predictions
that all members agree on do not change.

- A cell's residual is also kriged within its platform, from similar workloads observed there.  The
  similarity is half that of features, half that of the towers' predictions on all platforms.  With
  the kriging variance v, the cell moves by the share d²/(d² + 0.75 v) towards the kriged value.
- Interference m is shrunk to m·s²/(s² + d²·2/3), where s² is the mean square interference over the
  fitted runs (empirical Bayes).

Constants were chosen on calibration runs (see the page of this wing).
"""

import numpy as np
from numpy.typing import NDArray

from msbgen.systems.runtimes.kriging import feature_kernel
from msbgen.systems.runtimes.runs import Observations

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Noise of a cell, in variances of the platform's residuals.
_NOISE = 0.03
# Weights of the kriging variance, and of the members' variance of interference.
_KRIGING, _MEMBERS = 0.75, 2.0 / 3.0
# The most workloads of a platform to krige from, as the cost grows with the square.
_MOST = 500


def krige_platforms(
    runs: Observations,
    residual: Floats,
    alone: Singles,
    limits: tuple[float, float],
    workload_features: Floats,
) -> Singles:
    """Shift of the log runtime of each cell, (n_workloads, n_platforms); 0 where members agree.

    The log residuals (n,) of the fitted runs are without interference. `alone` (members,
    n_workloads, n_platforms) has the log residual of every cell from each member; their mean is
    clipped to the limits.
    """
    shape = runs.shape
    towers, disagreement = np.clip(alone.mean(axis=0), *limits), alone.var(axis=0)
    shift = np.zeros(shape, dtype=np.float32)
    if not disagreement.any():
        return shift
    covariance = 0.5 * (feature_kernel(workload_features) + _prediction_kernel(towers))
    size = shape[0] * shape[1]
    count = np.bincount(runs.cell, minlength=size).reshape(shape)
    total = np.bincount(runs.cell, residual, size).reshape(shape)
    for j in range(shape[1]):
        observed = np.flatnonzero(count[:, j])
        if len(observed) < 2:
            continue
        observed = observed[:: -(-len(observed) // _MOST)]
        mean, variance = _kriged(covariance, observed, total[observed, j] / count[observed, j])
        variance = np.maximum(disagreement[:, j] + _KRIGING * variance, 1e-12)
        shift[:, j] = disagreement[:, j] / variance * (mean - towers[:, j])
    return shift


def shrunk_mean(interference: NDArray, mean_square: float) -> NDArray:
    """Mean over the members' interference (members, n), shrunk towards 0, (n,).

    `mean_square` is that of the interference of the fitted runs.
    """
    disagreement = _MEMBERS * interference.var(axis=0)
    share = mean_square / np.maximum(mean_square + disagreement, 1e-12)
    return interference.mean(axis=0) * share


def _kriged(covariance: Singles, observed: NDArray, values: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and variance of all workloads from some; the covariance is up to a factor."""
    level = values.mean()
    cross = covariance[:, observed].astype(float)
    system = cross[observed] + _NOISE * np.eye(len(observed))
    share = np.linalg.solve(system, cross.T).T
    factor = (values - level) @ np.linalg.solve(system, values - level) / len(observed)
    rest = 1.0 + _NOISE - (share * cross).sum(axis=1)
    return level + share @ (values - level), factor * np.maximum(rest, _NOISE)


def _prediction_kernel(towers: Singles) -> Singles:
    """Gaussian kernel over predictions of workloads, (n, n); its length is their deviation."""
    centred = towers - towers.mean(axis=0)
    square = (centred**2).sum(axis=1)
    distance = square[:, None] + square - 2.0 * centred @ centred.T
    return np.exp(-0.5 * np.maximum(distance, 0.0) / max(float(square.mean()), 1e-12))
