"""Which context to measure next: expected improvement, or the regret on left-out programs.

Without limits, the next context is the one with the largest expected improvement.  Where limits
are given to `improvement`, it is multiplied by the probability that the context keeps them
(Gardner et al., Bayesian Optimization with Inequality Constraints, ICML 2014).

With limits, a measurement also narrows the margins of other contexts, which expected improvement
ignores.  So decisions are simulated on the left-out programs, as if each had been measured in the
candidate context, too.  The next context is the one with the least mean regret.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from msbgen.core.choice import Limits, Objective
from msbgen.systems.kernels.choice.costs import Costs
from msbgen.systems.kernels.choice.posterior import ProgramPosterior

Floats = NDArray[np.float64]

# Rounding of logarithms, within which a limit counts as kept.
_ROUNDING = 1e-9
# Exponents of time and energy in each objective.
_EXPONENTS = {"energy": (0.0, 1.0), "edp": (1.0, 1.0), "time": (1.0, 0.0)}


def improvement(
    posterior: ProgramPosterior,
    time: Floats,
    energy: Floats,
    work: Floats,
    *,
    objective: Objective,
    limits: Limits,
) -> Floats:
    """Expected decrease of the log cost from a measurement of each context, (n,).

    Measured times [s] and energies [J] are (n,), NaN in the other contexts. The decrease is
    relative to the least measured cost within the limits. Where no measured context keeps them, it
    is relative to the highest expected cost: the probability to keep the limits decides then.
    """
    n = len(time)
    by_time, by_energy = _EXPONENTS[objective]
    # of log time and log power: energy is their sum
    weights = np.array([by_time + by_energy, by_energy])
    mean = weights @ posterior.mean.reshape(2, n) - np.log(work)
    variance = posterior.covariance.diagonal().reshape(2, n)
    time_power = posterior.covariance[:n, n:].diagonal()
    square = weights**2 @ variance + 2 * weights[0] * weights[1] * time_power
    deviation = np.sqrt(np.maximum(square, 1e-12))
    within = (time <= limits.time) & (energy <= limits.energy) & (energy / time <= limits.power)
    with np.errstate(invalid="ignore"):
        cost = by_time * np.log(time) + by_energy * np.log(energy) - np.log(work)
    best = cost[within].min() if within.any() else mean.max()
    steps = (best - mean) / deviation
    density = np.exp(-0.5 * steps**2) / np.sqrt(2 * np.pi)
    decrease = deviation * (steps * ndtr(steps) + density)
    logs, deviations = posterior.logs, posterior.deviations
    probability = np.ones(n)
    for limit, row in ((limits.time, 0), (limits.energy, 1), (limits.power, 2)):
        if limit < np.inf:
            probability = probability * ndtr((np.log(limit) - logs[row]) / deviations[row])
    # at least the least float, so that unlikely contexts keep their order
    return np.maximum(decrease, 1e-300) * np.maximum(probability, 1e-300)


def mean_regret(
    others: Costs, expected: Floats, upper: Floats, work: Floats, reference: tuple[int, Floats],
    *, objective: Objective, limits: Limits,
) -> float:  # fmt: skip
    """Mean regret of decisions on left-out programs under limits scaled to each of them.

    The logarithms of time, energy and power that are expected, and their upper bounds, are
    (n_programs, 3, n). The reference is a context that was measured of all programs, with the time
    and energy (2,) of the new program there. A program that takes twice as long there gets twice
    the latency.

    Regret is cost / least cost within the limits − 1. A decision that breaks a limit costs as much
    as the program's most expensive context. Programs that no context serves are excluded; the
    result is infinite where none is left.
    """
    at, (seconds, joules) = reference
    truth = np.log(np.stack([others.time, others.energy, others.power], axis=1))
    measured = np.asarray(np.isfinite(truth).all(axis=1))
    with np.errstate(invalid="ignore"):
        scale = truth[:, :, at] - np.log([seconds, joules, joules / seconds])
        scale[:, 2] = 0.0  # a limit of power is the same for all programs
        most = (np.log([limits.time, limits.energy, limits.power]) + scale)[:, :, None]
        weights = np.array([*_EXPONENTS[objective], 0.0])[:, None]
        cost, predicted_cost = ((weights * x).sum(axis=1) - np.log(work) for x in (truth, expected))
        feasible = np.asarray((truth <= most + _ROUNDING).all(axis=1) & measured)
        allowed = np.asarray((upper <= most + _ROUNDING).all(axis=1) & measured)
    served = np.array([row.any() for row in feasible]) & measured[:, at]
    if not served.any():
        return np.inf
    allowed[~allowed.any(axis=1), at] = True  # no context has a bound within: keep the reference
    chosen = np.where(allowed, predicted_cost, np.inf).argmin(axis=1)[:, None]
    paid = np.take_along_axis(cost, chosen, axis=1)[:, 0]
    broken = ~np.take_along_axis(feasible, chosen, axis=1)[:, 0]
    paid[broken] = np.where(measured, cost, -np.inf).max(axis=1)[broken]
    least = np.where(feasible, cost, np.inf).min(axis=1)
    return float(np.expm1(paid - least)[served].mean())
