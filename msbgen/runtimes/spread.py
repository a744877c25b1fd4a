"""How widely runtimes scatter around their prediction, cell by cell: the widths of bounds.

A conformal bound is a prediction plus a quantile of scores times a width; any width gives a valid
bound, a good one a tight bound.  The widths here are

- ``even``: one for all;
- ``additive``: exp(μ + s_i + s_j + [K] (δ + Σ_k s_k)), additive in the logarithm over workload,
  platform and neighbours, from the residuals of the training runs, drawn towards μ where these
  are few;
- ``disagreement``: the geometric mean of that and of the deviation among the members;
- ``local``: of both and of what kriging corrected, each cell having a share of its own: kriging of
  the log residuals that the additive width leaves;
- ``blunt``: the last and its mean, half each; at rates of a tenth the tightest.

The exponents were chosen within the known half of one split (see the page of this wing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msbgen.runtimes.kriging import Fields, fit_fields, no_fields
from msbgen.runtimes.runs import Observations

Floats = NDArray[np.float64]

WIDTHS = ("even", "additive", "disagreement", "local", "blunt")

# Residuals that the prior of a workload's or platform's share is worth.
_PRIOR = 4.0
# What is added to residuals before their logarithm, to the members' deviation and to corrections:
# nothing is known better than that.
_LEAST_ERROR, _LEAST_DEVIATION, _LEAST_CORRECTION = 1e-3, 5e-3, 1e-2
# Exponents of the local width: additive, the cell's own share, deviation and correction.
_LOCAL = (0.5, 0.5, 0.4, 0.2)
# Noise of log residuals in kriging: the logarithm of one error tells little of its scale.
_NOISE = (15.0, 15.0)
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
    own : Fields
        Of the log width, what each cell has beyond these shares.
    local : float
        Geometric mean of the local width over the runs learned from.
    """

    level: float
    beside: float
    workload: Floats
    neighbour: Floats
    platform: Floats
    own: Fields
    local: float

    def widths(self, runs: Observations, deviation: Floats, correction: Floats) -> Floats:
        """Those of :data:`WIDTHS` for each run, (widths, n).

        Parameters
        ----------
        runs : Observations
        deviation : ndarray, (n,)
            Among the members.
        correction : ndarray, (n,)
            What kriging added to the log runtime.
        """
        additive, apart = self._log_width(runs), np.log(deviation + _LEAST_DEVIATION)
        corrected = np.log(np.abs(correction) + _LEAST_CORRECTION)
        parts = additive, self.own.at(runs), apart, corrected
        found = np.empty((len(WIDTHS), len(runs)))
        found[0] = 0.0
        found[1] = additive
        found[2] = 0.5 * (additive + apart)
        found[3] = sum(power * part for power, part in zip(_LOCAL, parts))
        np.exp(found[:4], out=found[:4])
        found[4] = found[3] + self.local
        return found

    def _log_width(self, runs: Observations) -> Floats:
        total = self.level + self.workload[runs.workload] + self.platform[runs.platform]
        if len(runs.felt):
            row, workload = runs.neighbour
            near = np.bincount(row, self.neighbour[workload], len(runs.felt))
            total[runs.felt] += self.beside + near
        return total


def fit_spread(
    runs: Observations,
    residual: Floats,
    deviation: Floats,
    correction: Floats,
    features: tuple[Floats, Floats],
) -> Spread:
    """Backfitting of the log of absolute residuals, and kriging of what that leaves.

    Parameters
    ----------
    runs : Observations
    residual : ndarray, (n,)
        What is left of the log runtimes when everything is predicted.
    deviation, correction : ndarray, (n,)
        As for :meth:`Spread.widths`.
    features : pair of ndarray, (n_workloads, d) and (n_platforms, d')
    """
    log = np.log(np.abs(residual) + _LEAST_ERROR)
    n_workloads, n_platforms = runs.shape
    row, near = runs.neighbour
    felt = runs.degree > 0
    level, beside = float(log.mean()), 0.0
    workload, neighbour = np.zeros(n_workloads), np.zeros(n_workloads)
    platform = np.zeros(n_platforms)
    none = no_fields(runs.shape)

    def left() -> Floats:
        return log - Spread(level, beside, workload, neighbour, platform, none, 0.0)._log_width(
            runs
        )

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
    own = fit_fields(runs, left(), features, noise=_NOISE)
    spread = Spread(level, beside, workload, neighbour, platform, own, 0.0)
    local = spread.widths(runs, deviation, correction)[WIDTHS.index("local")]
    return replace(spread, local=float(np.exp(np.log(local).mean())))
