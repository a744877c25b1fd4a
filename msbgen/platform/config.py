"""The virtual platform's constants, and the contexts that it has."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.contexts import grid_contexts, grid_counts
from msbgen.core.errors import ArgumentError, check_positive
from msbgen.data.schema import checked_contexts, same_level
from msbgen.data.tables import read_contexts

RESOURCES = ("cache_ways", "bandwidth", "frequency")

_MOST_NOISE = 0.1  # [1]
_MOST_TAKEN = 0.5  # share of the time


@dataclass(frozen=True)
class PlatformConfig:
    """Constants of the virtual platform; the cache geometry is fixed by the trace.

    Attributes
    ----------
    cache_ways : tuple of float
        Ways that can be given [1].
    bandwidths : tuple of float
        Bandwidth budgets that can be given [MB/s].
    frequencies : tuple of float
        Core clocks that can be set [GHz].
    hit_time : tuple of float, (2,)
        Cost of a last-level hit, demand and prefetched [ns].
    miss_time : tuple of float, (2,)
        Cost of a last-level miss, demand and prefetched [ns].
    line_size : float
        Bytes that a miss moves [B].
    regulator_period : float
        Period of the bandwidth regulator [s].
    speed_noise : float
        Standard deviation of a run's core speed [1].
    memory_noise : float
        Standard deviation of a run's cost of a miss [1].
    phase_noise : float
        Standard deviation of the fluctuation inside a run [1].
    phase_correlation : float
        Its correlation from one step to the next [1].
    phase_step : float
        Length of its steps [instructions].
    tick_rate : float
        Timer interrupts [1/s]; 0 for none.
    tick_time : float
        Cost of a timer interrupt [s].
    preemption_rate : float
        Preemptions [1/s]; 0 for none.
    preemption_time : float
        Mean length of a preemption [s].
    start_offset : float
        Largest time between the sampler's start and the program's [s].
    reading_jitter : float
        Standard deviation of the instants at which counters are read [s].
    random_phases : bool
        Whether regulator and timer start at a random point of their periods, or at the first.
    """

    cache_ways: tuple[float, ...] = tuple(float(w) for w in range(2, 21))
    bandwidths: tuple[float, ...] = tuple(70.0 * p for p in range(1, 21))
    frequencies: tuple[float, ...] = tuple(round(1.2 + 0.1 * i, 1) for i in range(12))
    hit_time: tuple[float, float] = (14.0, 3.5)
    miss_time: tuple[float, float] = (55.0, 9.0)
    line_size: float = 64.0
    regulator_period: float = 1e-3
    speed_noise: float = 0.008
    memory_noise: float = 0.02
    phase_noise: float = 0.015
    phase_correlation: float = 0.9
    phase_step: float = 200_000.0
    tick_rate: float = 250.0
    tick_time: float = 3e-6
    preemption_rate: float = 0.5
    preemption_time: float = 0.4e-3
    start_offset: float = 0.8e-3
    reading_jitter: float = 30e-6
    random_phases: bool = True

    def __post_init__(self) -> None:
        for name, given in self.levels.items():
            levels = np.asarray(given, dtype=float)
            if levels.ndim != 1 or levels.size == 0 or not np.all(np.isfinite(levels)):
                raise ArgumentError(f"levels of {name} are {given}; a list of numbers is wanted.")
            if levels.min() <= 0:
                raise ArgumentError(f"levels of {name} are {given}; levels above 0 are wanted.")
        if any(w != int(w) for w in self.cache_ways):
            raise ArgumentError(f"cache_ways is {self.cache_ways}; whole ways are wanted.")
        for name in ("hit_time", "miss_time"):
            costs = getattr(self, name)
            if len(costs) != 2 or not all(0 <= cost < math.inf for cost in costs):
                raise ArgumentError(f"{name} is {costs}; two times ≥ 0 ns are wanted.")
        check_positive(self, "line_size", "regulator_period", "phase_step")
        if self.phase_step < 1:
            raise ArgumentError(f"phase_step is {self.phase_step}; 1 or more is wanted.")
        for name in (
            *("speed_noise", "memory_noise", "phase_noise", "tick_rate", "tick_time"),
            *("preemption_rate", "preemption_time", "start_offset", "reading_jitter"),
        ):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ArgumentError(f"{name} is {value}; a number ≥ 0 is wanted.")
        for name in ("speed_noise", "memory_noise", "phase_noise"):
            value = getattr(self, name)
            if value > _MOST_NOISE:  # else an interval of negative length might be drawn
                raise ArgumentError(f"{name} is {value}; at most {_MOST_NOISE} is wanted.")
        if not 0 <= self.phase_correlation < 1:
            raise ArgumentError(
                f"phase_correlation is {self.phase_correlation}; 0 or more and below 1 is wanted."
            )
        taken = self.tick_rate * self.tick_time + self.preemption_rate * self.preemption_time
        if taken > _MOST_TAKEN:  # near 1, a program would never end
            raise ArgumentError(
                f"the time that interrupts and preemptions take is {taken:.3g} of all; at most "
                f"{_MOST_TAKEN} is wanted (rates times lengths)."
            )

    @property
    def levels(self) -> dict[str, tuple[float, ...]]:
        """Levels of each resource by name."""
        return dict(zip(RESOURCES, (self.cache_ways, self.bandwidths, self.frequencies)))

    def without_noise(self) -> PlatformConfig:
        """Return the platform on which only the page colouring differs from run to run.

        What is left is the model alone: with it, replay shows what a change of context does,
        and what of the spread between runs the noise makes.
        """
        return replace(
            self,
            speed_noise=0.0,
            memory_noise=0.0,
            phase_noise=0.0,
            tick_rate=0.0,
            preemption_rate=0.0,
            start_offset=0.0,
            reading_jitter=0.0,
            random_phases=False,
        )


def platform_contexts(
    selection: str,
    config: PlatformConfig = PlatformConfig(),
) -> NDArray[np.float64]:
    """Contexts of the platform by description.

    Parameters
    ----------
    selection : str
        ``"all"``: the product of all levels.  ``"grid:5x5x5"``: as many levels of ways, bandwidth
        and clock, evenly spread from the lowest to the highest.  Otherwise the path of a CSV file
        with columns ``cache_ways``, ``bandwidth`` [MB/s] and ``frequency`` [GHz].
    config : PlatformConfig

    Returns
    -------
    ndarray, (n_contexts, 3)

    Raises
    ------
    ArgumentError
        The description is not understood, or names a level that the platform does not have.
    ProfileError
        The CSV file cannot be read as contexts.

    Examples
    --------
    >>> platform_contexts("grid:2x1x2")
    array([[2.0e+00, 1.4e+03, 1.2e+00],
           [2.0e+00, 1.4e+03, 2.3e+00],
           [2.0e+01, 1.4e+03, 1.2e+00],
           [2.0e+01, 1.4e+03, 2.3e+00]])
    """
    if selection == "all":
        return grid_contexts(config.levels, [len(set(v)) for v in config.levels.values()])
    if selection.startswith("grid:"):
        return grid_contexts(config.levels, grid_counts(selection.removeprefix("grid:")))
    path = Path(selection)
    if not path.is_file():
        raise ArgumentError(
            f"contexts is '{selection}'; 'all', a grid as 'grid:5x5x5' or the path of a CSV file "
            f"is wanted."
        )
    return exact_contexts(read_contexts(path, RESOURCES), config)


def exact_contexts(contexts: ArrayLike, config: PlatformConfig) -> NDArray[np.float64]:
    """Contexts with each value moved to the level it means, (n_contexts, 3).

    1.7000000000000002 and 1.7 are one clock, and one run.

    Raises
    ------
    ArgumentError
        No table of contexts, a value that is no level, or a context that is listed twice.
    """
    table = checked_contexts(contexts, RESOURCES).copy()
    for column, (name, levels) in zip(table.T, config.levels.items()):
        nearest = np.abs(column[:, None] - np.array(levels)).argmin(axis=1)
        exact = np.array(levels)[nearest]
        off = ~same_level(column, exact)
        if off.any():
            raise ArgumentError(
                f"{name} is {column[off][0]:g} in context {int(off.argmax())}; one of "
                f"{', '.join(f'{v:g}' for v in levels)} is wanted."
            )
        column[:] = exact
    rows, counts = np.unique(table, axis=0, return_counts=True)
    if counts.max() > 1:
        ways, bandwidth, frequency = rows[counts.argmax()]
        raise ArgumentError(
            f"context {ways:g} ways, {bandwidth:g} MB/s, {frequency:g} GHz is listed "
            f"{counts.max()} times; each context once is wanted."
        )
    return table
