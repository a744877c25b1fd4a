"""How widely runtimes scatter around their prediction, cell by cell: the widths of bounds.

A conformal bound is a prediction plus a quantile of scores times a width; any width gives a valid
bound, a good one a tight bound.  The widths here are

- ``even``: one for all;
- ``additive``: exp(μ + s_i + s_j + [K] (δ + Σ_k s_k)), additive in the logarithm over workload,
  platform and neighbours, from the residuals of the training runs, drawn towards μ where these
  are few;
- ``disagreement``: the geometric mean of that and of the deviation among the members.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.predict.towers import Observations

Floats = NDArray[np.float64]

WIDTHS = ("even", "additive", "disagreement")

# Residuals that the prior of a workload's or platform's share is worth.
_PRIOR = 4.0
# What is added to residuals before their logarithm, and to the members' deviation: nothing is
# known better than that.
_LEAST_ERROR, _LEAST_DEVIATION = 1e-3, 5e-3
_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class Spread:
    """Shares of the log width.

    Attributes
    ----------
    level, beside : float
        μ and δ.
    workload, neighbour : ndarray, (n_workloads,)
    platform : ndarray, (n_platforms,)
    """

    level: float
    beside: float
    workload: Floats
    neighbour: Floats
    platform: Floats

    def width(self, name: str, runs: Observations, deviation: Floats) -> Floats:
        """One of :data:`WIDTHS` for each run, (n,); `deviation` (n,) is that among members."""
        if name == "even":
            return np.ones(len(runs))
        additive = np.exp(self._log_width(runs))
        if name == "additive":
            return additive
        return np.sqrt(additive * (deviation + _LEAST_DEVIATION))

    def _log_width(self, runs: Observations) -> Floats:
        total = self.level + self.workload[runs.workload] + self.platform[runs.platform]
        if len(runs.felt):
            row, workload = runs.neighbour
            near = np.bincount(row, self.neighbour[workload], len(runs.felt))
            total[runs.felt] += self.beside + near
        return total


def fit_spread(runs: Observations, residual: Floats) -> Spread:
    """Backfitting of the log of absolute residuals, (n,)."""
    log = np.log(np.abs(residual) + _LEAST_ERROR)
    n_workloads, n_platforms = runs.shape
    row, near = runs.neighbour
    felt = runs.degree > 0
    level, beside = float(log.mean()), 0.0
    workload, neighbour = np.zeros(n_workloads), np.zeros(n_workloads)
    platform = np.zeros(n_platforms)

    def left() -> Floats:
        fitted = Spread(level, beside, workload, neighbour, platform)
        return log - fitted._log_width(runs)

    def shrunk(at: NDArray, rest: Floats, before: Floats) -> Floats:
        """Least squares of one share with the others held, drawn towards zero."""
        count = np.bincount(at, minlength=len(before))
        return (np.bincount(at, rest, len(before)) + count * before) / (count + _PRIOR)

    for _ in range(_SWEEPS):
        if not felt.all():
            level += float(left()[~felt].mean())
        if felt.any():
            beside += float(left()[felt].mean())
        workload = shrunk(runs.workload, left(), workload)
        platform = shrunk(runs.platform, left(), platform)
        if felt.any():
            neighbour = shrunk(near, left()[runs.felt[row]], neighbour)
    return Spread(level, beside, workload, neighbour, platform)
