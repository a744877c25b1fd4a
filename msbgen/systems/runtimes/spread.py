"""Spread of runtimes around their prediction, cell by cell: the widths of bounds.

A conformal bound is a prediction plus a quantile of scores times a width.  Any width gives a valid
bound; a good width gives a tight one.  The widths are:

- ``even``: 1 for all runs.
- ``additive``: exp(μ + s_i + s_j + [K] (δ + Σ_k s_k)), for workload i on platform j beside the
  workloads K.  It is fitted to log absolute residuals and shrunk towards μ where runs are few.
- ``disagreement``: the geometric mean of ``additive`` and the deviation among the members.
- ``local``: a weighted geometric mean of ``additive``, the deviation, the size of the correction by
  kriging, and the kriged residual of ``additive`` in each cell.
- ``blunt``: the mean of ``local`` and its average; the tightest at a rate of 0.1.

Exponents were chosen on the training half of one split (see the page of this wing).
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOG_TIMES, NOT_NEGATIVE, Stored
from msbgen.systems.runtimes.kriging import Fields, fit_fields, no_fields
from msbgen.systems.runtimes.runs import Observations

Floats = NDArray[np.float64]

WIDTHS = ("even", "additive", "disagreement", "local", "blunt")

# Weight of the prior of a workload's or platform's share, in residuals.
_PRIOR = 4.0
# Added to absolute residuals, to the members' deviation and to corrections before the logarithm.
_LEAST_ERROR, _LEAST_DEVIATION, _LEAST_CORRECTION = 1e-3, 5e-3, 1e-2
# Exponents of the local width: additive, its kriged residual, deviation and correction.
_LOCAL = (0.5, 0.5, 0.4, 0.2)
# Noise of log residuals in kriging: one error is a very noisy measure of its scale.
_NOISE = (15.0, 15.0)
_MAX_ITER = 20


@dataclass(frozen=True, eq=False)
class Spread:
    """Fitted terms of the log width.

    `level` is μ, `beside` is δ, the arrays are shares of each workload, neighbour and platform.
    `residual` is the kriged residual of the log width, `local` the geometric mean of the local
    width over the fitted runs.
    """

    level: Annotated[float, Stored((), LOG_TIMES)]
    beside: Annotated[float, Stored((), LOG_TIMES)]
    workload: Annotated[Floats, Stored(("workload",), LOG_TIMES)]
    neighbour: Annotated[Floats, Stored(("workload",), LOG_TIMES)]
    platform: Annotated[Floats, Stored(("platform",), LOG_TIMES)]
    residual: Fields
    local: Annotated[float, Stored((), NOT_NEGATIVE)]

    def widths(self, runs: Observations, deviation: Floats, correction: Floats) -> Floats:
        """Those of :data:`WIDTHS` for each run, (widths, n).

        They grow with the deviation among the members (n,) and with the correction of the log
        runtime by kriging (n,).
        """
        additive, log_deviation = self._log_width(runs), np.log(deviation + _LEAST_DEVIATION)
        log_correction = np.log(np.abs(correction) + _LEAST_CORRECTION)
        parts = additive, self.residual.at(runs), log_deviation, log_correction
        widths = np.empty((len(WIDTHS), len(runs)))
        widths[0] = 0.0
        widths[1] = additive
        widths[2] = 0.5 * (additive + log_deviation)
        widths[3] = sum(power * part for power, part in zip(_LOCAL, parts))
        np.exp(widths[:4], out=widths[:4])
        widths[4] = widths[3] + self.local
        return widths

    def _log_width(self, runs: Observations) -> Floats:
        total = self.level + self.workload[runs.workload] + self.platform[runs.platform]
        if len(runs.interfered):
            row, workload = runs.neighbour
            from_neighbours = np.bincount(row, self.neighbour[workload], len(runs.interfered))
            total[runs.interfered] += self.beside + from_neighbours
        return total


def fit_spread(
    runs: Observations,
    residual: Floats,
    deviation: Floats,
    correction: Floats,
    features: tuple[Floats, Floats],
) -> Spread:
    """Fit the log absolute residuals by backfitting, and krige what remains.

    Residuals (n,) are measured minus predicted log runtimes; the others are as for `Spread.widths`.
    """
    log = np.log(np.abs(residual) + _LEAST_ERROR)
    n_workloads, n_platforms = runs.shape
    row, workloads = runs.neighbour
    interfered = runs.n_neighbours > 0
    level, beside = float(log.mean()), 0.0
    workload, neighbour = np.zeros(n_workloads), np.zeros(n_workloads)
    platform = np.zeros(n_platforms)
    none = no_fields(runs.shape)

    def remainder() -> Floats:
        spread = Spread(level, beside, workload, neighbour, platform, none, 0.0)
        return log - spread._log_width(runs)

    def shrunk(at: NDArray, rest: Floats, before: Floats) -> Floats:
        """Least squares of one term with the others fixed, shrunk towards zero."""
        count = np.bincount(at, minlength=len(before))
        return (np.bincount(at, rest, len(before)) + count * before) / (count + _PRIOR)

    for _ in range(_MAX_ITER):
        if not interfered.all():
            level += float(remainder()[~interfered].mean())
        if interfered.any():
            beside += float(remainder()[interfered].mean())
        workload = shrunk(runs.workload, remainder(), workload)
        platform = shrunk(runs.platform, remainder(), platform)
        if interfered.any():
            neighbour = shrunk(workloads, remainder()[runs.interfered[row]], neighbour)
    fields = fit_fields(runs, remainder(), features, noise=_NOISE)
    spread = Spread(level, beside, workload, neighbour, platform, fields, 0.0)
    local = spread.widths(runs, deviation, correction)[WIDTHS.index("local")]
    return replace(spread, local=float(np.exp(np.log(local).mean())))
