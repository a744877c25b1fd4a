"""Residuals of schedules, predicted by boosting, with a weight chosen on held-out families.

Boosting explains errors of the schedule on graphs like those that it was fitted to.  On graphs of
new families it can make predictions worse.  Its weight is therefore chosen on held-out families:
of weights from 0 to 1, the one with the least mean squared error, each family counting as one.  It
is 0 unless the gain exceeds its standard error over the families.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import SHARE, Stored
from msbgen.core.conformal import group_folds
from msbgen.core.parts import Sizes
from msbgen.systems.learn.boosting import Boosting, BoostingSettings

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Chosen on devices and runs of other seeds than those that benchmarks score.
SETTINGS = BoostingSettings(rounds=150, depth=4, rate=0.08, least=8.0)
WEIGHTS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True, eq=False)
class Residual:
    """Boosted trees of the log-residuals of time and energy, and their weights, (2,)."""

    boosting: Annotated[Boosting, Sizes(output=2)]
    weight: Annotated[Floats, Stored((2,), SHARE)]

    def __call__(self, features: Floats) -> Floats:
        """Correction of the logarithms of time and energy, (m, 2)."""
        if not self.weight.any():
            return np.zeros((len(features), len(self.weight)))
        return self.weight * self.boosting.predict(features)


def leave_families_out(
    family: Indices, folds: int, seed: int, evaluate: Callable[[Indices, Indices], Floats]
) -> tuple[Floats, Indices]:
    """Results for all runs by fits that did not see their families, (n, ...), and their folds,
    (n,).

    `evaluate` takes the indices of training and of test runs, and returns results for the test
    runs.  :class:`ArgumentError`: fewer than two folds.  :class:`MeasurementError`: fewer families
    than folds.
    """
    fold = group_folds(family, folds, seed, unit="families")
    results = [evaluate(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    order = np.argsort(np.concatenate([np.flatnonzero(fold == k) for k in range(folds)]))
    return np.concatenate(results)[order], fold


def choose_weight(residual: Floats, predicted: Floats, family: Indices) -> Floats:
    """Weight of the boosted residual of each output, (n_outputs,).

    `residual` are those of the schedule's logarithms, `predicted` the same by boosting that did not
    see the families, (n, n_outputs) each.
    """
    unit = np.unique(family, return_inverse=True)[1].reshape(-1)
    count = np.bincount(unit).astype(float)
    chosen = np.empty(residual.shape[1])
    for k in range(residual.shape[1]):
        off = [residual[:, k] - weight * predicted[:, k] for weight in WEIGHTS]
        errors = np.stack([np.bincount(unit, weights=error**2) / count for error in off])
        best = int(errors.mean(axis=1).argmin())
        gain = errors[0] - errors[best]
        noise = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
        chosen[k] = WEIGHTS[best] if gain.mean() > noise else 0.0
    return chosen
