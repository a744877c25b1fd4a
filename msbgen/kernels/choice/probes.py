"""What to measure next, in two ways.

Without limits: where a lower cost is most to be hoped for.  Expected improvement under constraints
(Gardner et al., Bayesian Optimization with Inequality Constraints, ICML 2014): how far the cost of
a context may fall below the least that was measured within the limits, in the mean over what is
thought of it, times the probability that it keeps them.

With limits a measurement is worth as much for what it tells of other contexts, which are out of
reach while their margins are wide.  So decisions are played on the left-out programs, as if each
had been measured there too, and the context is taken that costs them least.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from msbgen.core.choice import Limits, Objective
from msbgen.kernels.choice.costs import Costs
from msbgen.kernels.choice.posterior import Belief

Floats = NDArray[np.float64]

# Limits are kept where they are kept up to rounding.
_ROUNDING = 1e-9
# Of the logarithms of time and energy: what an objective is the exponential of.
_SHARES = {"energy": (0.0, 1.0), "edp": (1.0, 1.0), "time": (1.0, 0.0)}


def improvement(
    belief: Belief,
    time: Floats,
    energy: Floats,
    work: Floats,
    *,
    objective: Objective,
    limits: Limits,
) -> Floats:
    """Expected fall of the log cost that a measurement of each context brings, (n,).

    Parameters
    ----------
    belief : Belief
    time, energy : ndarray, (n,)
        What was measured [s], [J], NaN elsewhere.
    work : ndarray, (n,)
    objective, limits
        As :func:`msbgen.core.choice.choose`.

    Notes
    -----
    Where nothing that was measured keeps the limits, the dearest that is expected takes its place:
    then the probability to keep them decides.
    """
    n = len(time)
    by_time, by_energy = _SHARES[objective]
    # of log time and log power: energy is their sum
    weights = np.array([by_time + by_energy, by_energy])
    mean = weights @ belief.mean.reshape(2, n) - np.log(work)
    variance = belief.covariance.diagonal().reshape(2, n)
    across = belief.covariance[:n, n:].diagonal()
    square = weights**2 @ variance + 2 * weights[0] * weights[1] * across
    deviation = np.sqrt(np.maximum(square, 1e-12))
    within = (time <= limits.latency) & (energy <= limits.energy) & (energy / time <= limits.power)
    with np.errstate(invalid="ignore"):
        cost = by_time * np.log(time) + by_energy * np.log(energy) - np.log(work)
    best = cost[within].min() if within.any() else mean.max()
    steps = (best - mean) / deviation
    density = np.exp(-0.5 * steps**2) / np.sqrt(2 * np.pi)
    fall = deviation * (steps * ndtr(steps) + density)
    logs, deviations = belief.logs, belief.deviations
    chance = np.ones(n)
    for limit, row in ((limits.latency, 0), (limits.energy, 1), (limits.power, 2)):
        if limit < np.inf:
            chance = chance * ndtr((np.log(limit) - logs[row]) / deviations[row])
    # not below the least float: of hopeless contexts the least hopeless comes first
    return np.maximum(fall, 1e-300) * np.maximum(chance, 1e-300)


def mean_regret(
    others: Costs, expected: Floats, upper: Floats, work: Floats, reference: tuple[int, Floats],
    *, objective: Objective, limits: Limits,
) -> float:  # fmt: skip
    """What decisions on left-out programs cost above the best, were the limits theirs.

    Parameters
    ----------
    others : Costs
        The left-out programs.
    expected, upper : ndarray, (n_programs, 3, n)
        Logarithms of time, energy and power that are thought of them: expected, and at most.
    work : ndarray, (n,)
    reference : (int, ndarray (2,))
        A context that was measured of all, and the time and energy of the new program there: a
        program that takes twice as long is given twice the latency.
    objective, limits
        As :func:`msbgen.core.choice.choose`.

    Returns
    -------
    float
        Mean over programs of cost / least cost within the limits − 1.  A decision that breaks a
        limit counts as the program's dearest context; programs that no context serves are left
        aside, and of none it is infinite.
    """
    at, (seconds, joules) = reference
    truth = np.log(np.stack([others.time, others.energy, others.power], axis=1))
    there = np.asarray(np.isfinite(truth).all(axis=1))
    with np.errstate(invalid="ignore"):
        scale = truth[:, :, at] - np.log([seconds, joules, joules / seconds])
        scale[:, 2] = 0.0  # watts are watts
        most = (np.log([limits.latency, limits.energy, limits.power]) + scale)[:, :, None]
        weights = np.array([*_SHARES[objective], 0.0])[:, None]
        cost, thought = ((weights * x).sum(axis=1) - np.log(work) for x in (truth, expected))
        kept = np.asarray((truth <= most + _ROUNDING).all(axis=1) & there)
        held = np.asarray((upper <= most + _ROUNDING).all(axis=1) & there)
    served = np.array([row.any() for row in kept]) & there[:, at]
    if not served.any():
        return np.inf
    held[~held.any(axis=1), at] = True  # nothing is sure: stay where the measurement was
    chosen = np.where(held, thought, np.inf).argmin(axis=1)[:, None]
    paid = np.take_along_axis(cost, chosen, axis=1)[:, 0]
    broken = ~np.take_along_axis(kept, chosen, axis=1)[:, 0]
    paid[broken] = np.where(there, cost, -np.inf).max(axis=1)[broken]
    least = np.where(kept, cost, np.inf).min(axis=1)
    return float(np.expm1(paid - least)[served].mean())
