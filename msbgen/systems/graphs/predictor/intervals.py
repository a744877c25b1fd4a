"""Conformal intervals of graphs, from errors on held-out families in units of a learned width.

The exchangeable unit is the family, with its runs nested in it (:mod:`msbgen.core.conformal`): a
hundred runs of one family contain less information than one run of each of a hundred.  The score of
a run is the absolute error of its logarithm by a fit that did not see its family, over a width.
Boosting learns the width from the errors of other families.  Half of an interval is the width of
the new run times a quantile of the scores, in which all families have equal weight.

The quantile's level is (1 − α)(1 + 1/n).  With n the number of families, intervals would cover even
families whose runs all miss together: with 35 families the level is .977 for 95 %.  Runs of a
family seldom miss together.  Therefore n is the effective number of independent runs,
N / (1 + (m − 1) ρ): N runs, m a family, ρ the correlation within families of missing; n is at least
the number of families.  Coverage is about the nominal one on average over families, not at least.

A device that was added later has scores of its own, of runs that its factors were not fitted to.
The scores of other devices are added with the weight of a few runs.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, Stored
from msbgen.core.conformal import check_rate, conformal_quantile, group_weights, weighted_quantile
from msbgen.core.errors import MeasurementError
from msbgen.core.parts import Sizes
from msbgen.systems.graphs.predictor.residual import leave_families_out
from msbgen.systems.learn.boosting import Boosting, BoostingSettings, fit_boosting

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

SETTINGS = BoostingSettings(rounds=60, depth=3, rate=0.08, least=20.0)
# Added to errors before their logarithm: errors below it get about the same width.
_LEAST_ERROR = 0.01
# Weight of the scores of other devices, in runs of a new device.  Chosen, like the boosting of
# residuals, on devices of other seeds than those that benchmarks score.
_OTHERS_WEIGHT = 25.0


@dataclass(frozen=True, eq=False)
class GraphCalibration:
    """Conformal scores of runs of held-out families, and a model of the width.

    `score`, (n, 2), are absolute errors of the logarithms of time and energy, in units of the
    widths; `family`, (n,), numbers the families.  `widths` predicts the logarithms of the widths.
    """

    score: Annotated[Floats, Stored(("run", 2), NOT_NEGATIVE)]
    family: Annotated[Indices, Stored(("run",), dtype="i8")]
    widths: Annotated[Boosting, Sizes(output=2)]

    def half_width(self, features: Floats, miscoverage: float, device_scores: Floats) -> Floats:
        """Half widths of the intervals of the logarithms, (m, 2), for features (m, d).

        `device_scores`, (n_own, 2), are those of runs of this device; none where it was fitted
        together with the others.  Errors as of :func:`check_families`.
        """
        check_families(miscoverage, self.family)
        unit = np.unique(self.family, return_inverse=True)[1].reshape(-1)
        share = group_weights(self.family)
        n_own = len(device_scores)
        weight = np.concatenate([_OTHERS_WEIGHT * share / share.sum(), np.ones(n_own)])
        quantiles = []
        for of_others, of_device in zip(self.score.T, device_scores.T):
            score = np.concatenate([of_others, of_device])
            n = n_own + _OTHERS_WEIGHT
            if not n_own:
                plain = weighted_quantile(score, weight[None], 1.0 - miscoverage)[0, 0]
                n = independent_runs(of_others > plain, unit)
            quantiles.append(conformal_quantile(score, weight, n, miscoverage))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(quantiles) * self.width(features)

    def width(self, features: Floats) -> Floats:
        """Learned widths, (m, 2)."""
        with np.errstate(over="ignore"):  # of an edited model: its intervals are refused
            return np.exp(self.widths.predict(features))

    def scores(self, features: Floats, error: Floats) -> Floats:
        """Scores of runs, (m, 2): absolute errors in units of the learned widths.

        The errors (m, 2) are of logarithms, by fits that did not see the runs.
        """
        return np.abs(error) / self.width(features)


def independent_runs(outside: NDArray[np.bool_], family: Indices) -> float:
    """Effective number of independent runs, between the number of families and of runs.

    `outside`, (n,), marks runs outside their intervals; families, (n,), are numbered from 0.
    """
    n, count = len(outside), np.bincount(family).astype(float)
    families = len(count)
    if families == n or families < 2:
        return float(families)
    mean = np.bincount(family, weights=outside) / count
    # one-way analysis of variance: mean squares between families and within
    between = (count * (mean - outside.mean()) ** 2).sum() / (families - 1)
    within = ((outside - mean[family]) ** 2).sum() / (n - families)
    size = (n - (count**2).sum() / n) / (families - 1)
    total = between + (size - 1.0) * within
    correlation = np.clip((between - within) / total, 0.0, 1.0) if total > 0 else 1.0
    return float(np.clip(n / (1.0 + (n / families - 1.0) * correlation), families, n))


def check_families(miscoverage: float, family: Indices) -> None:
    """Check that there are enough families for a rate: 19 for 5 %."""
    check_rate(miscoverage, len(np.unique(family)), len(family), "families")


def calibrate(
    features: Floats, error: Floats, family: Indices, folds: int, seed: int
) -> GraphCalibration:
    """Fit the model of the width to features (n, d), and compute the scores.

    The errors (n, 2) are of logarithms, by fits that did not see the families.  Families (n,) are
    held out in folds when the widths of their scores are fitted.  An error that is not finite, or
    fewer families than folds, raise :class:`MeasurementError`.
    """
    if not np.isfinite(error).all():
        raise MeasurementError("errors are not finite; finite ones are wanted.")
    log_error = np.log(np.abs(error) + _LEAST_ERROR)

    def evaluate(train: Indices, test: Indices) -> Floats:
        fitted = fit_boosting(features[train], log_error[train], SETTINGS, seed)
        return fitted.predict(features[test])

    log_width, _ = leave_families_out(family, folds, seed, evaluate)
    widths = fit_boosting(features, log_error, SETTINGS, seed)
    return GraphCalibration(np.abs(error) / np.exp(log_width), family, widths)
