"""Conformal quantiles where runs come nested in contexts.

From the scores of left-out runs, the score that a new run of a new context exceeds with
probability at most α, whatever their law.  Exchangeable are the contexts, with their runs nested
in them: the runs of one context share the trend's error there, so ten runs of one context say less
than one run of ten.  If a new context is drawn like the known ones, its scores are exchangeable
with each left-out context's as a whole, and

    q = inf {s : Σ_c 1/(n+1) · mean_r 1[s_cr ≤ s] ≥ 1 − α}

covers a new run with probability at least 1 − α and at most about 1 − α + 1/(n+1) (hierarchical
conformal prediction, Lee, Barber and Willett 2023, Section 3): the new context itself is the
missing 1/(n+1), at infinity.  A rate below 1/(n+1) has no finite bound and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import weighted_quantile
from msbgen.core.errors import ArgumentError, MeasurementError

Floats = NDArray[np.float64]

# Heads are chosen at these rates; a rate between two uses the choice of the smaller one.
_RATES = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def contexts_needed(miscoverage: float) -> int:
    """Fewest contexts, of one run or more each, whose runs can support a rate: 1/α − 1."""
    if not 1e-15 <= miscoverage < 1:
        raise ArgumentError(
            f"miscoverage is {miscoverage}; a rate from 1e-15 to below 1 is wanted."
        )
    return max(1, int(np.ceil(1.0 / miscoverage - 1.0 - 1e-9)))


def check_rate(miscoverage: float, n_contexts: int, n_runs: int, unit: str = "contexts") -> None:
    """Refuse a rate that `n_contexts` contexts cannot support; the message says what it needs.

    `unit` names, for the message, what is exchangeable in their place.

    Raises
    ------
    ArgumentError
        The rate is not in (0, 1).
    MeasurementError
        The rate is too small.
    """
    needed = contexts_needed(miscoverage)
    if n_contexts < needed:
        raise MeasurementError(
            f"miscoverage is {miscoverage:g}; at least {needed:.6g} runs of as many different "
            f"{unit} are wanted, and there are {n_runs} runs of {n_contexts} {unit}, which "
            f"support {least_rate(n_contexts):g}."
        )


def least_rate(n_contexts: int) -> float:
    """Smallest rate that so many contexts support, rounded up to four digits."""
    return float(np.ceil(1e4 / (n_contexts + 1)) / 1e4)


def rungs(miscoverage: float, n_contexts: int) -> Iterator[tuple[float, float]]:
    """Pairs (rate at which heads and pools are chosen, rate asked of them).

    The largest bound of all of them does not fall as the rate falls: within a rung the choices
    are fixed, and a finer rung starts from the end of the coarser ones.
    """
    least = 1.0 / (n_contexts + 1)
    for rate in _RATES:
        if rate <= miscoverage or rate <= least:
            yield max(rate, least), miscoverage
            return
        yield rate, rate
    yield least, miscoverage


def group_quantile(score: Floats, share: Floats, n_groups: int, miscoverage: float) -> float:
    """Score that a new run of a new group exceeds with probability at most `miscoverage`.

    Parameters
    ----------
    score : ndarray, (n,)
    share : ndarray, (n,)
        What each counts: a group's share in equal parts for its runs.
    n_groups : int
        Exchangeable ones, the contexts, say.
    miscoverage : float
        One that so many groups support; :func:`check_rate` refuses others.
    """
    # the new group is one of n + 1, at infinity, for which the largest score stands
    level = min((1.0 - miscoverage) * (1.0 + 1.0 / n_groups), 1.0)
    return float(weighted_quantile(score, share[None], level)[0, 0])
