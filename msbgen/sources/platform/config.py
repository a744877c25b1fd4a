"""Constants and contexts of the virtual platform."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.contexts import grid_contexts, grid_counts
from msbgen.core.errors import ArgumentError
from msbgen.core.records import (
    Listed,
    NotNegative,
    Positive,
    Seconds,
    ShareOrNone,
    Within,
    check_fields,
)
from msbgen.data.schema import checked_contexts, same_level
from msbgen.data.sharing import UNREGULATED
from msbgen.data.tables import read_contexts

RESOURCES = ("cache_ways", "bandwidth", "frequency")

# Standard deviation [1]; with more, an interval of negative length might be drawn.
Noise = Annotated[float, Within(0, 0.1)]
_LARGEST_STOPPED = 0.5  # share of the time in interrupts and preemptions [1]


@dataclass(frozen=True)
class PlatformConfig:
    """Constants of the virtual platform; the trace determines the cache geometry.

    Attributes
    ----------
    cache_ways : tuple of float
        Levels of cache ways [1].
    bandwidths : tuple of float
        Levels of the bandwidth budget [MB/s].
    frequencies : tuple of float
        Levels of the core clock [GHz].
    hit_time : tuple of float, (2,)
        Cost of a last-level hit, demand and prefetched [ns].
    miss_time : tuple of float, (2,)
        Cost of a last-level miss, demand and prefetched [ns].
    line_size : float
        Bytes that a miss transfers [B].
    regulator_period : float
        Period of the bandwidth regulator [s].
    speed_noise : float
        Standard deviation of a run's core speed [1].
    memory_noise : float
        Standard deviation of a run's cost of a miss [1].
    phase_noise : float
        Standard deviation of the fluctuation inside a run [1].
    phase_correlation : float
        Correlation of the fluctuation between consecutive steps [1].
    phase_step : float
        Length of the fluctuation's steps [instructions].
    tick_rate : float
        Timer interrupts [1/s]; 0 for none.
    tick_time : float
        Cost of a timer interrupt [s].
    preemption_rate : float
        Preemptions [1/s]; 0 for none.
    preemption_time : float
        Mean length of a preemption [s].
    start_offset : float
        Largest time from the sampler's start to the program's start [s].
    reading_jitter : float
        Standard deviation of the instants at which counters are read [s].
    random_phases : bool
        Whether regulator and timer start at a random point of their periods, or at the beginning.
    """

    cache_ways: Annotated[tuple[float, ...], Within(1), Listed()] = tuple(
        float(w) for w in range(2, 21)
    )
    bandwidths: Annotated[tuple[float, ...], Within(0, unit="MB/s", above=True), Listed()] = tuple(
        70.0 * p for p in range(1, 21)
    )
    frequencies: Annotated[tuple[float, ...], Within(0, unit="GHz", above=True), Listed()] = tuple(
        round(1.2 + 0.1 * i, 1) for i in range(12)
    )
    hit_time: Annotated[tuple[float, float], Within(0, unit="ns")] = (14.0, 3.5)
    miss_time: Annotated[tuple[float, float], Within(0, unit="ns")] = (55.0, 9.0)
    line_size: Positive = 64.0
    regulator_period: Seconds = 1e-3
    speed_noise: Noise = 0.008
    memory_noise: Noise = 0.02
    phase_noise: Noise = 0.015
    phase_correlation: ShareOrNone = 0.9
    phase_step: Annotated[float, Within(1)] = 200_000.0
    tick_rate: NotNegative = 250.0
    tick_time: NotNegative = 3e-6
    preemption_rate: NotNegative = 0.5
    preemption_time: NotNegative = 0.4e-3
    start_offset: NotNegative = 0.8e-3
    reading_jitter: NotNegative = 30e-6
    random_phases: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        if any(w != int(w) for w in self.cache_ways):
            raise ArgumentError(f"cache_ways is {self.cache_ways}; whole ways are wanted.")
        stopped = self.tick_rate * self.tick_time + self.preemption_rate * self.preemption_time
        if stopped > _LARGEST_STOPPED:  # near 1, a program would never end
            raise ArgumentError(
                f"the time that interrupts and preemptions take is {stopped:.3g} of all; at most "
                f"{_LARGEST_STOPPED} is wanted (rates times lengths)."
            )

    @property
    def levels(self) -> dict[str, tuple[float, ...]]:
        """Levels of each resource by name."""
        return dict(zip(RESOURCES, (self.cache_ways, self.bandwidths, self.frequencies)))

    def without_noise(self) -> PlatformConfig:
        """The platform without noise: only the page colouring differs between runs.

        A replay then shows the effect of the context alone, and, in comparison with noise, the
        share of the noise in the spread between runs.
        """
        return replace(
            self, speed_noise=0.0, memory_noise=0.0, phase_noise=0.0, tick_rate=0.0,
            preemption_rate=0.0, start_offset=0.0, reading_jitter=0.0, random_phases=False,
        )  # fmt: skip


def platform_contexts(
    selection: str, config: PlatformConfig = PlatformConfig()
) -> NDArray[np.float64]:
    """Contexts of the platform from a description.

    Parameters
    ----------
    selection : str
        ``"all"``: the product of all levels.  ``"grid:5x5x5"``: this number of levels of ways,
        bandwidth and clock, evenly spread.  Otherwise the path of a CSV file with columns
        ``cache_ways``, ``bandwidth`` [MB/s] and ``frequency`` [GHz].
    config : PlatformConfig

    Returns
    -------
    ndarray, (n_contexts, 3)

    Raises
    ------
    ArgumentError
        The description is invalid, or has a level that the platform does not have.
    ProfileError
        The CSV file cannot be read.

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
    """Contexts with each value replaced by the nearest level, (n_contexts, 3).

    So 1.7000000000000002 and 1.7 are one clock, and give the same runs.  Bandwidths of 100,000
    MB/s or more, which no program reaches, stay as they are.  ArgumentError: another value is not
    equal to a level up to rounding, or a context is listed twice.
    """
    table = checked_contexts(contexts, RESOURCES).copy()
    for column, (name, levels) in zip(table.T, config.levels.items()):
        nearest = np.abs(column[:, None] - np.array(levels)).argmin(axis=1)
        exact = np.array(levels)[nearest]
        if name == "bandwidth":
            exact = np.where(column >= UNREGULATED, column, exact)
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
