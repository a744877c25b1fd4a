"""What schedules leave, boosted from aggregates, and weighted by what it is worth on new families.

Boosting explains what a schedule of profiles is off by on graphs like those it has seen, and does
harm on graphs of no family that it has seen.  Its weight is therefore chosen on families left
out: of some weights from none to all, that with the least mean squared error, a family counting as
one, unless it is no better than none by a standard error over the families.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.learn.boosting import Boosting, BoostingSettings, fit_boosting

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Chosen on devices and runs drawn by another seed than any that benchmarks score.
SETTINGS = BoostingSettings(rounds=150, depth=4, rate=0.08, least=8.0)
WEIGHTS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True, eq=False)
class Residual:
    """Boosters of the log-residuals, and what they count.

    Attributes
    ----------
    boosting : Boosting
        Of two outputs: time and energy.
    weight : ndarray, (2,)
    """

    boosting: Boosting
    weight: Floats

    def __call__(self, features: Floats) -> Floats:
        """What to add to the logarithms of time and energy, (m, 2)."""
        if not self.weight.any():
            return np.zeros((len(features), len(self.weight)))
        return self.weight * self.boosting.predict(features)


def fit_residual(features: Floats, left: Floats, settings: BoostingSettings, seed: int) -> Boosting:
    """Boosters of what schedules leave, (n, 2), from aggregates (n, d)."""
    return fit_boosting(features, left, settings, seed)


def leave_families_out(
    family: Indices,
    folds: int,
    seed: int,
    answer: Callable[[Indices, Indices], Floats],
) -> tuple[Floats, Indices]:
    """Answers about runs by fits that did not see their families.

    Parameters
    ----------
    family : ndarray of int, (n,)
        Of each run.
    folds : int
    seed : int
    answer : callable
        From indices of the runs to learn from and of those left out, what is said of the latter.

    Returns
    -------
    answers : ndarray, (n, ...)
    fold : ndarray of int, (n,)

    Raises
    ------
    ArgumentError
        Fewer than two folds.
    MeasurementError
        Fewer families than folds.
    """
    names = np.unique(family)
    if folds < 2:
        raise ArgumentError(f"folds is {folds}; at least two are wanted.")
    if len(names) < folds:
        raise MeasurementError(
            f"there are {len(names)} families for {folds} folds; as many are wanted: run graphs of "
            f"more families, or ask for fewer folds."
        )
    part = np.random.default_rng(seed).permutation(len(names)) % folds
    fold = part[np.searchsorted(names, family)]
    found = [answer(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    order = np.argsort(np.concatenate([np.flatnonzero(fold == k) for k in range(folds)]))
    return np.concatenate(found)[order], fold


def choose_weight(left: Floats, said: Floats, family: Indices) -> Floats:
    """What boosters count, of each output, (n_outputs,).

    Parameters
    ----------
    left : ndarray, (n, n_outputs)
        What schedules left of runs.
    said : ndarray, (n, n_outputs)
        What boosters that did not see their families said of it.
    family : ndarray of int, (n,)
    """
    unit = np.unique(family, return_inverse=True)[1].reshape(-1)
    count = np.bincount(unit).astype(float)
    chosen = np.empty(left.shape[1])
    for k in range(left.shape[1]):
        errors = np.stack(
            [np.bincount(unit, weights=(left[:, k] - w * said[:, k]) ** 2) / count for w in WEIGHTS]
        )
        best = int(errors.mean(axis=1).argmin())
        gain = errors[0] - errors[best]
        certain = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
        chosen[k] = WEIGHTS[best] if gain.mean() > certain else 0.0
    return chosen
