"""Choice of the context of least cost whose upper bounds keep the limits.

*Offers* are contexts with a cost, and with expected values and upper bounds of a run in each.
Profiles, kernels and graphs make offers of what they predict; the choice is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, is_number, quoted

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Bools = NDArray[np.bool_]

Objective = Literal["energy", "edp", "time"]
# Bounds may be above a limit by this share, for rounding.
ROUNDING = 1e-12


class InfeasibleError(MeasurementError):
    """No context, or no allotment, keeps the limits."""


@dataclass(frozen=True)
class Limits:
    """Limits of a run; infinite where there is none."""

    temperature: float = np.inf  # highest temperature [°C]
    power: float = np.inf  # highest mean power [W]
    energy: float = np.inf  # most energy of a run [J]
    time: float = np.inf  # longest time of a run [s]

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = -np.inf if name == "temperature" else 0.0
            if not is_number(value) or not value > least:
                raise ArgumentError(
                    f"limit of {name} is {quoted(value)}; a positive number is wanted."
                )

    def kept_by(self, offers: Offers) -> Bools:
        """Which contexts are within all limits, (n,)."""
        kept = offers.allowed
        for name in self._set:
            kept = kept & self._keeps(name, offers.bound[name])
        return kept

    def refusal(self, offers: Offers) -> str:
        """One sentence on the first limit that no context keeps within the limits before it."""
        left, before = np.flatnonzero(offers.allowed), ""
        for name in self._set:
            bound = offers.bound[name][left]
            kept = self._keeps(name, bound)
            if not kept.any():
                least, at = bound.min(), int(left[bound.argmin()])
                return (
                    f"limit of {name} is {self._words(name)}, which no context{before} keeps; "
                    f"{_rounded_up(least)} {_UNITS[name]} or more is wanted, the lowest bound "
                    f"({offers.describe(at)})."
                )
            left = left[kept]
            before += f"{' and' if before else ' within'} {self._words(name)}"
        raise AssertionError("a context keeps all limits")

    @property
    def _set(self) -> list[str]:
        return [name for name, value in vars(self).items() if value < np.inf]

    def _keeps(self, name: str, bound: Floats) -> Bools:
        return bound <= getattr(self, name) * (1.0 + ROUNDING)

    def _words(self, name: str) -> str:
        return f"{getattr(self, name):g} {_UNITS[name]}"


_UNITS = {"temperature": "°C", "power": "W", "energy": "J", "time": "s"}
NO_LIMITS = Limits()


@dataclass(frozen=True, eq=False)
class Offers:
    """n contexts to choose from.

    Attributes
    ----------
    cost : ndarray, (n,)
        What is minimised.
    expected, bound : mapping of str to ndarray, (n,)
        Expected values and upper bounds of a run: its ``time`` [s], ``energy`` [J], mean ``power``
        [W] and ``temperature`` [°C]; the time always, the others if known.
    allowed : ndarray of bool, (n,)
        Which contexts may be chosen.
    describe : callable
        A context in words, for messages.
    """

    cost: Floats
    expected: Mapping[str, Floats]
    bound: Mapping[str, Floats]
    allowed: Bools
    describe: Callable[[int], str] = "context {}".format

    def __post_init__(self) -> None:
        if np.ndim(self.cost) != 1 or not len(self.cost) or np.isnan(self.cost).any():
            raise ArgumentError(
                f"costs have shape {np.shape(self.cost)} or are missing; a number for each of one "
                f"context or more is wanted."
            )
        for kind, values in (("expected", self.expected), ("bound of", self.bound)):
            for name, each in values.items():
                if np.shape(each) != self.cost.shape:
                    raise ArgumentError(
                        f"{kind} {name} has shape {np.shape(each)}; a number for each of "
                        f"{len(self.cost)} contexts is wanted."
                    )
                good = np.isfinite(each) & ((each > 0) | (name == "temperature"))
                if not good.all():
                    at = int(np.argmin(good))
                    raise ArgumentError(
                        f"{kind} {name} is {each[at]:g} in {self.describe(at)}; a positive number "
                        f"is wanted."
                    )

    @classmethod
    def of_runs(
        cls,
        time: ArrayLike,
        energy: ArrayLike,
        *,
        objective: Objective | ArrayLike = "energy",
        work: ArrayLike = 1.0,
        bound: Mapping[str, Floats] | None = None,
        describe: Callable[[int], str] = "context {}".format,
    ) -> Offers:
        """Offers of runs with an expected time [s] and energy [J], (n,) each.

        `objective` is "energy" by work; "edp", energy by work times time; "time" by work; or a cost
        for each context, (n,).  Work is per run, such as the images of a batch.  Bounds that are
        not given are the expected values.
        """
        seconds, joules = np.asarray(time, dtype=float), np.asarray(energy, dtype=float)
        if seconds.shape != joules.shape:
            raise ArgumentError(
                f"time has shape {seconds.shape}, energy {joules.shape}; one number each for every "
                f"context is wanted."
            )
        with np.errstate(divide="ignore", invalid="ignore"):  # refused by name
            expected = {"time": seconds, "energy": joules, "power": joules / seconds}
            cost = cost_by(objective, seconds, joules, work)
        allowed = np.ones(len(cost), dtype=bool)
        return cls(cost, expected, {**expected, **(bound or {})}, allowed, describe)

    def as_expected(self) -> Offers:
        """The same contexts, whose bounds are the expected values."""
        return replace(self, bound=self.expected)

    def within(self, limits: Limits) -> Indices:
        """Contexts whose bounds keep the limits, the cheapest first; of equal costs by time.

        Raises
        ------
        InfeasibleError
            No context keeps the limits.  The message names the first one that cannot be kept, and
            the least that can.
        """
        rows = np.flatnonzero(limits.kept_by(self))
        if not len(rows):
            raise InfeasibleError(limits.refusal(self))
        return rows[np.lexsort((self.bound["time"][rows], self.cost[rows]))]

    def cheapest_expected(self, limits: Limits, below: float = np.inf) -> int | None:
        """The cheapest context whose expected values keep the limits; None if not `below` a cost.

        It is the one to measure, as only its bounds may refuse it.
        """
        expected = self.as_expected()
        expected = replace(expected, allowed=self.allowed & (self.cost < below))
        return int(expected.within(limits)[0]) if limits.kept_by(expected).any() else None

    def choice(self, context: int) -> Choice:
        """One context with its values."""
        expected, bound = (
            {name: float(values[context]) for name, values in each.items()}
            for each in (self.expected, self.bound)
        )
        return Choice(context, float(self.cost[context]), expected, bound)


@dataclass(frozen=True)
class Choice:
    """The chosen context: its cost, and expected values and upper bounds by quantity."""

    context: int
    cost: float
    expected: dict[str, float]
    bound: dict[str, float]


def choose(offers: Offers, limits: Limits = NO_LIMITS) -> Choice:
    """The context of least cost within the limits; of equal costs the one with the lowest time.

    Raises
    ------
    InfeasibleError
        As :meth:`Offers.within`.

    Examples
    --------
    >>> offers = Offers.of_runs([1.0, 2.0, 3.0], [9.0, 5.0, 4.0])
    >>> choose(offers, Limits(time=2.5)).context
    1
    """
    return offers.choice(int(offers.within(limits)[0]))


def cost_by(
    objective: Objective | ArrayLike, time: Floats, energy: Floats, work: ArrayLike = 1.0
) -> Floats:
    """Cost of each context, (n,); see :meth:`Offers.of_runs`."""
    if not isinstance(objective, str):
        return np.asarray(objective, dtype=float)
    check_objective(objective)
    each = np.asarray(work, dtype=float)
    if objective == "time":
        return time / each
    return energy / each * (time if objective == "edp" else 1.0)


def check_objective(objective: str) -> None:
    """Raise :class:`ArgumentError` for an unknown objective."""
    if objective not in get_args(Objective):
        raise ArgumentError(
            f"objective is {objective!r}; {', '.join(get_args(Objective))} is wanted."
        )


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


def _rounded_up(value: float) -> str:
    """A number with four digits, rounded up, so that it is a limit that can be kept."""
    digits = 3 - int(np.floor(np.log10(abs(value)))) if value else 0
    return f"{np.ceil(value * 10.0**digits * (1 - 1e-9)) / 10.0**digits:.4g}"
