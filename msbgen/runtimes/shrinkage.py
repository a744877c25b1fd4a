"""A second opinion where the members disagree: on cells of a platform unlike all others.

Towers fill a table by products, which on a platform unlike all others are far off now and then,
each pair of towers elsewhere: the variance d² among them tells.  Two remedies, both of which leave
alone what they agree on:

- A cell's residual is also kriged within its platform, from the workloads observed there that are
  like this one, half by their features and half by what the towers say of them on all platforms.
  With v the variance of that, the cell is moved by d²/(d² + 0.75 v) of the way from the towers.
- What neighbours add is drawn towards nothing: of interference m remains m·s²/(s² + d²·2/3), where
  s² is the mean square of it over the runs learned from (empirical Bayes).

Constants were chosen among calibration runs (see the page of this wing).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.runtimes.kriging import likeness
from msbgen.runtimes.runs import Observations

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Noise of a cell, in variances of the platform's residuals.
_NOISE = 0.03
# What the variance of kriging, and that among members in interference, count.
_OPINION, _CALM = 0.75, 2.0 / 3.0
# Workloads of a platform that are kriged from: the cost grows with the square.
_MOST = 500


def second_opinion(
    runs: Observations,
    residual: Floats,
    alone: Singles,
    limits: tuple[float, float],
    workload_features: Floats,
) -> Singles:
    """How far to move each cell, (n_workloads, n_platforms); nowhere where members agree.

    Parameters
    ----------
    runs : Observations
        Those learned from.
    residual : ndarray, (n,)
        Their log residual, without interference.
    alone : ndarray, (members, n_workloads, n_platforms)
        Log residual of every cell, from each member.
    limits : pair of float
        What their mean is clipped to.
    workload_features : ndarray, (n_workloads, d)
    """
    shape = runs.shape
    towers, apart = np.clip(alone.mean(axis=0), *limits), alone.var(axis=0)
    moved = np.zeros(shape, dtype=np.float32)
    if not apart.any():
        return moved
    covariance = 0.5 * (likeness(workload_features) + _alike(towers))
    size = shape[0] * shape[1]
    count = np.bincount(runs.cell, minlength=size).reshape(shape)
    total = np.bincount(runs.cell, residual, size).reshape(shape)
    for j in range(shape[1]):
        known = np.flatnonzero(count[:, j])
        if len(known) < 2:
            continue
        known = known[:: -(-len(known) // _MOST)]
        mean, variance = _kriged(covariance, known, total[known, j] / count[known, j])
        weight = apart[:, j] / np.maximum(apart[:, j] + _OPINION * variance, 1e-12)
        moved[:, j] = weight * (mean - towers[:, j])
    return moved


def calmed(interference: NDArray, usual: float) -> NDArray:
    """What neighbours add, (n,), from that of the members, (members, n), and its usual square."""
    apart = _CALM * interference.var(axis=0)
    return interference.mean(axis=0) * (usual / np.maximum(usual + apart, 1e-12))


def _kriged(covariance: Singles, known: NDArray, values: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and variance of all from some values, in a covariance known up to a factor."""
    level = values.mean()
    near = covariance[:, known].astype(float)
    system = near[known] + _NOISE * np.eye(len(known))
    share = np.linalg.solve(system, near.T).T
    factor = (values - level) @ np.linalg.solve(system, values - level) / len(known)
    rest = 1.0 + _NOISE - (share * near).sum(axis=1)
    return level + share @ (values - level), factor * np.maximum(rest, _NOISE)


def _alike(towers: Singles) -> Singles:
    """Gaussian kernel over what is said of workloads, (n, n), of their root mean square length."""
    centred = towers - towers.mean(axis=0)
    square = (centred**2).sum(axis=1)
    apart = square[:, None] + square - 2.0 * centred @ centred.T
    return np.exp(-0.5 * np.maximum(apart, 0.0) / max(float(square.mean()), 1e-12))
