"""Choice of the context with the least cost within limits, from given predictions.

Each context has an expected time and energy of a run, and bounds on them.  Contexts are ranked by
the expected cost; their bounds must keep the limits.  The predictions may come from a table or from
any model.  (:class:`msbgen.kernels.choice.Chooser` predicts and chooses.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, MeasurementError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

Objective = Literal["energy", "edp", "time"]
# Bounds may be above a limit by this share, for rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class ContextPredictions:
    """Predictions for n contexts, each array (n,).

    Time [s] and energy [J] of a run are expected values; bounds are upper bounds, equal to the
    expected values where these are certain.  Energy is per unit of work, such as an image of a
    batch.
    """

    time: Floats
    energy: Floats
    time_bound: Floats
    energy_bound: Floats
    power_bound: Floats
    work: Floats

    def __post_init__(self) -> None:
        shape = self.time.shape
        for name, values in vars(self).items():
            if values.shape != shape or values.ndim != 1 or not len(values):
                raise ArgumentError(
                    f"{name} has shape {values.shape}; one number per context, as many as times, "
                    f"is wanted."
                )
            if not (np.isfinite(values) & (values > 0)).all():
                at = int(np.argmin(np.isfinite(values) & (values > 0)))
                raise ArgumentError(
                    f"{name} is {values[at]:g} in context {at}; a positive number is wanted."
                )

    @classmethod
    def exact(
        cls, time: ArrayLike, energy: ArrayLike, work: ArrayLike | float = 1.0
    ) -> ContextPredictions:
        """Predictions without uncertainty: the bounds are the values themselves."""
        times, joules = np.asarray(time, dtype=float), np.asarray(energy, dtype=float)
        each = np.broadcast_to(np.asarray(work, dtype=float), times.shape)
        with np.errstate(divide="ignore", invalid="ignore"):  # refused above, by name
            return cls(times, joules, times, joules, joules / times, each)


@dataclass(frozen=True)
class Limits:
    """Limits of a run; infinite where there is none."""

    latency: float = np.inf  # longest time of a run [s]
    power: float = np.inf  # highest mean power [W]
    energy: float = np.inf  # most energy of a run [J]

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ArgumentError(f"{name} is {value}; a positive number is wanted.")

    def satisfied_by(self, predictions: ContextPredictions) -> NDArray[np.bool_]:
        """Which contexts are within all limits, (n,)."""
        more = 1.0 + _ROUNDING
        return (
            (predictions.time_bound <= self.latency * more)
            & (predictions.power_bound <= self.power * more)
            & (predictions.energy_bound <= self.energy * more)
        )


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Choice:
    """The chosen context with its predictions: time [s] and energy [J] of a run."""

    context: int
    time: float
    time_bound: float
    energy: float
    energy_bound: float


def choose(
    predictions: ContextPredictions,
    *,
    objective: Objective | Callable[[ContextPredictions], Floats] = "energy",
    limits: Limits = NO_LIMITS,
    name: Callable[[int], str] = "context {}".format,
) -> Choice:
    """The context with the least cost within the limits; of equal costs the faster.

    `objective` is "energy" by work; "edp", energy by work times time; "time" by work; or a function
    that returns a cost for each context, (n,).  Upper bounds must keep the limits.  `name` returns
    what messages call a context.

    Raises
    ------
    ArgumentError
        Another objective.
    MeasurementError
        No context keeps the limits.  The message names the first limit that cannot be kept, and the
        context that comes closest to it.
    """
    cost = costs_by(objective, predictions)
    allowed = limits.satisfied_by(predictions)
    if not allowed.any():
        raise MeasurementError(_unreachable(predictions, limits, name))
    rows = np.flatnonzero(allowed)
    at = int(rows[np.lexsort((predictions.time[rows], cost[rows]))[0]])
    return Choice(
        context=at,
        time=float(predictions.time[at]),
        time_bound=float(predictions.time_bound[at]),
        energy=float(predictions.energy[at]),
        energy_bound=float(predictions.energy_bound[at]),
    )


def check_objective(objective: str) -> None:
    """Raise :class:`ArgumentError` for an unknown objective."""
    if objective not in get_args(Objective):
        raise ArgumentError(
            f"objective is {objective!r}; {', '.join(get_args(Objective))} is wanted."
        )


def costs_by(
    objective: Objective | Callable[[ContextPredictions], Floats], predictions: ContextPredictions
) -> Floats:
    """Cost of each context by an objective, (n,); errors as :func:`choose`."""
    if callable(objective):
        costs = np.asarray(objective(predictions), dtype=float)
        if costs.shape != predictions.time.shape or np.isnan(costs).any():
            state = (
                f"of shape {costs.shape}" if costs.shape != predictions.time.shape else "missing"
            )
            raise ArgumentError(
                f"costs that the objective gives are {state}; a number for each of "
                f"{len(predictions.time)} contexts is wanted."
            )
        return costs
    check_objective(objective)
    if objective == "time":
        return predictions.time / predictions.work
    delay = predictions.time if objective == "edp" else 1.0
    return predictions.energy / predictions.work * delay


def pareto_front(time: ArrayLike, energy: ArrayLike) -> Indices:
    """Contexts on the Pareto front of time and energy, (n,), from the fastest to the cheapest.

    No other context is at least as good in both and better in one; of equal ones the first is
    taken.

    Examples
    --------
    >>> pareto_front([1.0, 2.0, 3.0, 4.0], [9.0, 5.0, 6.0, 4.0])
    array([0, 1, 3])
    """
    times, joules = np.asarray(time, dtype=float), np.asarray(energy, dtype=float)
    if times.shape != joules.shape or times.ndim != 1:
        raise ArgumentError(
            f"time has shape {times.shape}, energy {joules.shape}; one number each for every "
            f"context is wanted."
        )
    order = np.lexsort((joules, times))
    least = np.minimum.accumulate(joules[order])
    better = np.append(True, joules[order][1:] < least[:-1])[: len(order)]
    return order[better].astype(np.int64)


def _unreachable(
    predictions: ContextPredictions, limits: Limits, name: Callable[[int], str]
) -> str:
    """One sentence about limits that no context keeps."""
    wanted = {
        "latency": (limits.latency, predictions.time_bound, "s", "fastest"),
        "power": (limits.power, predictions.power_bound, "W", "coolest"),
        "energy": (limits.energy, predictions.energy_bound, "J", "cheapest"),
    }
    for word, (limit, bound, unit, most) in wanted.items():
        if not (bound <= limit * (1.0 + _ROUNDING)).any():
            at = int(bound.argmin())
            return (
                f"{word} is {limit:g} {unit}, which no context keeps; {bound[at]:.4g} {unit} or "
                f"more is wanted, what the {most} ({name(at)}) takes at most."
            )
    at = int(predictions.time_bound.argmin())
    return (
        f"limits are {_words(limits)}, which no context keeps together; less of one of them is "
        f"wanted: the fastest ({name(at)}) takes up to {predictions.time_bound[at]:.4g} s, "
        f"{predictions.power_bound[at]:.4g} W and {predictions.energy_bound[at]:.4g} J."
    )


def _words(limits: Limits) -> str:
    units = {"latency": "s", "power": "W", "energy": "J"}
    return ", ".join(
        f"{name} {value:g} {units[name]}" for name, value in vars(limits).items() if value < np.inf
    )
