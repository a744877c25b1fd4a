"""Conformal quantiles for runs that are nested in groups, and folds that keep groups whole.

Groups, such as contexts, programs or families of graphs, are exchangeable.  The runs of one group
have a common error, so ten runs of one group carry less information than one run of ten groups.  If
a new group is drawn like the known ones, then

    q = inf {s : Σ_g 1/(n+1) · mean_r 1[s_gr ≤ s] ≥ 1 − α}

covers a new run with probability at least 1 − α and at most about 1 − α + 1/(n+1) (hierarchical
conformal prediction, Lee, Barber and Willett 2023, Section 3).  The new group has
the remaining weight 1/(n+1), with a score at infinity.  A rate α, the miscoverage, below 1/(n+1)
has no finite quantile and is refused.

======================================  ==========================================================
question                                function
======================================  ==========================================================
how many groups does a rate need?       :func:`groups_needed`, :func:`check_rate`
which rate do so many groups support?   :func:`least_rate`, :func:`supported_rate`
the quantile of scores in groups        :func:`group_quantile`
the same with weights, or a number of   :func:`conformal_quantile`, with :func:`group_weights`
groups that is not a count
the quantile of weighted values         :func:`weighted_quantile`
which shares do so many hits support?   :func:`share_interval`
folds that keep groups whole            :func:`group_folds`
======================================  ==========================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import generator
from msbgen.core.errors import MeasurementError
from msbgen.core.lazy import lazy_module
from msbgen.core.records import Within, checks_arguments

special = lazy_module("scipy.special")

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

Miscoverage = Annotated[float, Within(1e-15, 1, below=True)]

# Widths and locations are chosen at these rates; a rate between two uses those of the smaller one.
_RATES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


@checks_arguments
def groups_needed(miscoverage: Miscoverage) -> int:
    """Fewest groups, of one run or more each, that support a rate in (0, 1): 1/α − 1."""
    return max(1, int(np.ceil(1.0 / miscoverage - 1.0 - 1e-9)))


def check_rate(miscoverage: float, n_groups: int, n_runs: int, unit: str = "contexts") -> None:
    """Raise MeasurementError for a rate that `n_groups` groups cannot support.

    The message has the number of groups that are needed; `unit` names them.
    """
    needed = groups_needed(miscoverage)
    if n_groups < needed:
        raise MeasurementError(
            f"miscoverage is {miscoverage:g}; at least {needed:.6g} runs of as many different "
            f"{unit} are wanted, and there are {n_runs} runs of {n_groups} {unit}, which "
            f"support {least_rate(n_groups):g}."
        )


def least_rate(n_groups: int) -> float:
    """Smallest rate that so many groups support, rounded up to four digits."""
    return float(np.ceil(1e4 / (n_groups + 1)) / 1e4)


def supported_rate(miscoverage: float, n_groups: int) -> float:
    """The rate itself where so many groups support it, else the smallest that they support."""
    return miscoverage if groups_needed(miscoverage) <= n_groups else least_rate(n_groups)


def rate_steps(miscoverage: float, n_groups: int) -> Iterator[tuple[float, float]]:
    """Pairs of rates: one to choose a width and location at, one to take their quantile at.

    A bound is the largest over all pairs, so it never falls as the rate falls: a finer rate has
    all the pairs of a coarser one and more.
    """
    least = 1.0 / (n_groups + 1)
    for rate in _RATES:
        if rate <= miscoverage or rate <= least:
            yield max(rate, least), miscoverage
            return
        yield rate, rate
    yield least, miscoverage


def group_weights(groups: ArrayLike) -> Floats:
    """Weight of each run, (n,): the runs of a group share a weight of 1 equally."""
    _, number, size = np.unique(groups, return_inverse=True, return_counts=True)
    return 1.0 / size[number.reshape(-1)]


def group_quantile(scores: Floats, groups: ArrayLike, miscoverage: float) -> float:
    """Score (n,) that a new run of a new group exceeds with probability at most `miscoverage`.

    With a rate that so many groups do not support (:func:`check_rate`) the result is the largest
    score, which covers less often.
    """
    return conformal_quantile(scores, group_weights(groups), len(np.unique(groups)), miscoverage)


def conformal_quantile(
    scores: Floats, weights: Floats, n_groups: float, miscoverage: float
) -> float:
    """Weighted quantile of scores (n,) at the level (1 − α)(1 + 1/n), at most 1.

    Only ratios of weights matter.  `n_groups` is the number of exchangeable groups, or of
    independent runs that the scores are equivalent to.
    """
    # the new group is one of n + 1, at infinity, for which the largest score stands
    level = min((1.0 - miscoverage) * (1.0 + 1.0 / n_groups), 1.0)
    return float(weighted_quantile(scores, weights[None], level)[0, 0])


def weighted_quantile(values: Floats, weights: Floats, levels: ArrayLike) -> Floats:
    """Smallest value whose share of the weights, with that of all smaller ones, reaches a level.

    Values (n,), weights (q, n) of q queries and levels (q, n_levels), from 0 to 1, give (q,
    n_levels).  A share that misses the level by rounding, 1e-12, has reached it; a value without
    weight is never the answer.

    Examples
    --------
    >>> weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([[1.0, 1.0, 2.0]]), [0.25, 0.5, 1.0])
    array([[1., 2., 3.]])
    """
    order = np.argsort(values, kind="stable")
    reached = weights[:, order].cumsum(axis=1)
    wanted = (np.atleast_2d(np.asarray(levels, dtype=float)) - 1e-12) * reached[:, -1:]
    np.maximum(wanted, np.nextafter(0.0, 1.0), out=wanted)  # at least the first value with a weight
    place = np.array([row.searchsorted(level) for row, level in zip(reached, wanted)])
    return values[order[np.minimum(place, len(values) - 1)]]


@checks_arguments
def group_folds(
    groups: ArrayLike,
    n_folds: Annotated[int, Within(2)],
    rng: np.random.Generator | int = 0,
    *,
    unit: str = "groups",
) -> Indices:
    """Fold of each run, (n,), 0 to n_folds − 1: groups stay whole, folds have equally many.

    `rng` draws the order in which the sorted groups are dealt to the folds; `unit` names the groups
    in messages.  ArgumentError: fewer than two folds.  MeasurementError: fewer groups than folds.
    """
    names, number = np.unique(groups, return_inverse=True)
    if len(names) < n_folds:
        raise MeasurementError(
            f"there are {len(names)} {unit} for {n_folds} folds; at least {n_folds} are wanted: "
            f"measure more or use fewer folds."
        )
    return generator(rng).permutation(len(names))[number.reshape(-1)] % n_folds


def share_interval(hits: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval of a share (Clopper and Pearson), from `hits` of so many trials.

    Examples
    --------
    >>> [round(end, 3) for end in share_interval(1, 40)]
    [0.001, 0.132]
    """
    tail = (1 - confidence) / 2
    low = special.betaincinv(hits, trials - hits + 1, tail) if hits > 0 else 0.0
    high = special.betaincinv(hits + 1, trials - hits, 1 - tail) if hits < trials else 1.0
    return float(low), float(high)
