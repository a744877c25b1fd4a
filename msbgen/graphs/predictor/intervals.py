"""Conformal intervals of graphs: from errors on families left out, in units of a learned width.

Exchangeable are families, with their runs nested in them (:mod:`msbgen.core.conformal`): a hundred
runs of one family say less than one run of a hundred.  A score is the distance between the
logarithms predicted and measured of a run whose family no fit saw, over a width that boosting
learned of other
families' distances; the quantile of the scores, families weighing alike, times the width of a new
run is half its interval.

A new family is one of n + 1, and if its runs all fell outside together, only a level of
(1 − α)(1 + 1/n) would cover it for certain: with 35 families that is .977 for 95 %.  Runs of a
family hardly fall outside together, so that n is instead the number of independent runs that all
of them are worth: N / (1 + (m − 1) ρ), with N runs in all, m a family, and ρ the correlation within
families of falling outside; never fewer than the families.  Intervals hold on average over
families, about as often as asked, not at least as often.

A device that came later has scores of its own, of runs that its factors were not fitted to.  Those
of the others count beside them as much as a few of its own would.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.conformal import check_rate
from msbgen.core.contexts import weighted_quantile
from msbgen.core.errors import MeasurementError
from msbgen.graphs.predictor.residual import leave_families_out
from msbgen.learn.boosting import Boosting, BoostingSettings, fit_boosting

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

SETTINGS = BoostingSettings(rounds=60, depth=3, rate=0.08, least=20.0)
# Distances of logarithms below this are all alike.
_LEAST = 0.01
# As many runs of a new device are what scores of the others are worth; chosen, like the boosting of
# residuals, on devices drawn by other seeds than any that benchmarks score.
_WORTH = 25.0


@dataclass(frozen=True, eq=False)
class GraphCalibration:
    """Scores of runs whose families were left out, and widths for others.

    Attributes
    ----------
    score : ndarray, (n, 2)
        Distances of the logarithms of time and energy, in units of the widths.
    family : ndarray of int, (n,)
        What is exchangeable.
    widths : Boosting
        Of the logarithm of the width, from aggregates.
    """

    score: Floats
    family: Indices
    widths: Boosting

    def half_width(self, features: Floats, miscoverage: float, own: Floats) -> Floats:
        """Half widths of the intervals of the logarithms, (m, 2).

        Parameters
        ----------
        features : ndarray, (m, d)
        miscoverage : float
        own : ndarray, (n_own, 2)
            Scores of runs of the device alone; none where it was fitted with the others.

        Raises
        ------
        ArgumentError, MeasurementError
            A rate that is none, or that needs more families.
        """
        check_families(miscoverage, self.family)
        unit = np.unique(self.family, return_inverse=True)[1].reshape(-1)
        share = (1.0 / np.bincount(unit))[unit]
        weight = np.concatenate([_WORTH * share / share.sum(), np.ones(len(own))])[None]
        quantiles = []
        for score, mine in zip(self.score.T, own.T):
            every = np.concatenate([score, mine])
            n = len(own) + _WORTH
            if not len(own):
                plain = weighted_quantile(every, weight, 1.0 - miscoverage)[0, 0]
                n = independent_runs(score > plain, unit)
            level = min((1.0 - miscoverage) * (1.0 + 1.0 / n), 1.0)
            quantiles.append(weighted_quantile(every, weight, level)[0, 0])
        return np.array(quantiles) * self.width(features)

    def width(self, features: Floats) -> Floats:
        """Widths learned, (m, 2)."""
        return np.exp(self.widths.predict(features))

    def scores(self, features: Floats, error: Floats) -> Floats:
        """Distances of runs, (m, 2), in units of the widths learned.

        Parameters
        ----------
        features : ndarray, (m, d)
        error : ndarray, (m, 2)
            What they were predicted wrong by, by fits that did not see them.
        """
        return np.abs(error) / self.width(features)


def independent_runs(outside: NDArray[np.bool_], family: Indices) -> float:
    """How many independent runs the runs of families are worth, from the families up to all.

    Parameters
    ----------
    outside : ndarray of bool, (n,)
    family : ndarray of int, (n,)
        Counted from 0.
    """
    n, count = len(outside), np.bincount(family).astype(float)
    families = len(count)
    if families == n or families < 2:
        return float(families)
    own = np.bincount(family, weights=outside) / count
    # one-way analysis of variance: mean squares between families and within
    between = (count * (own - outside.mean()) ** 2).sum() / (families - 1)
    within = ((outside - own[family]) ** 2).sum() / (n - families)
    size = (n - (count**2).sum() / n) / (families - 1)
    total = between + (size - 1.0) * within
    correlation = np.clip((between - within) / total, 0.0, 1.0) if total > 0 else 1.0
    return float(np.clip(n / (1.0 + (n / families - 1.0) * correlation), families, n))


def check_families(miscoverage: float, family: Indices) -> None:
    """Refuse a rate that so many families do not support.

    Raises
    ------
    ArgumentError, MeasurementError
        No rate, or one that needs more families: 19 for 5 %.
    """
    check_rate(miscoverage, len(np.unique(family)), len(family), "families")


def calibrate(
    features: Floats, error: Floats, family: Indices, folds: int, seed: int
) -> GraphCalibration:
    """Learn widths, and keep the scores.

    Parameters
    ----------
    features : ndarray, (n, d)
    error : ndarray, (n, 2)
        Of logarithms, by fits that did not see the families.
    family : ndarray of int, (n,)
    folds : int
        Parts in which families are left out of the widths that scores are in units of.
    seed : int

    Raises
    ------
    MeasurementError
        Fewer families than folds, or an error that is none.
    """
    if not np.isfinite(error).all():
        raise MeasurementError("errors are not finite; finite ones are wanted.")
    distance = np.log(np.abs(error) + _LEAST)

    def honest(shown: Indices, left: Indices) -> Floats:
        return fit_boosting(features[shown], distance[shown], SETTINGS, seed).predict(
            features[left]
        )

    log_width, _ = leave_families_out(family, folds, seed, honest)
    widths = fit_boosting(features, distance, SETTINGS, seed)
    return GraphCalibration(np.abs(error) / np.exp(log_width), family, widths)
