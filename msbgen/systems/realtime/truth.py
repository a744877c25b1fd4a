"""Execution data of simulated jobs, from profiles: time and power of each stretch of progress.

A job draws one run, and progresses in each context as fast as that run did there.  Profiles of
every context of the platform are needed: measured runs test decisions, generated ones predict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.core.records import checks_arguments
from msbgen.data.check import checked_profiles
from msbgen.data.schema import file_of
from msbgen.systems.phases.grid import STALLED_ACTIVITY, Grid
from msbgen.systems.phases.phases import make_table
from msbgen.systems.phases.stretches import Singles, cut_runs

Floats = NDArray[np.float64]

# Stretches of progress in which a run's speed is constant.  With a power of two their ends are
# exact in binary.
STRETCHES = 256

# Core voltage at the lowest and the highest clock [V].
_VOLTAGE = (0.80, 1.00)


@dataclass(frozen=True, eq=False)
class Truth:
    """Runs of several tasks on the progress axis, in every context of one platform.

    Attributes
    ----------
    profiles : tuple of str
        Names of the tasks.
    grid : Grid
        The platform.
    seconds : ndarray of float32, (profiles, runs, contexts, stretches)
        Time of each stretch of progress [s].  The runs of a task with fewer runs than another are
        repeated in turn.
    power : ndarray of float32, (profiles, contexts, stretches)
        Dynamic power, in units of a core that never stalls at the highest clock.
    """

    profiles: tuple[str, ...]
    grid: Grid
    seconds: Singles
    power: Singles

    @classmethod
    @checks_arguments
    def of(cls, profiles: Mapping[str, xr.Dataset]) -> Truth:
        """Prepare profile datasets, by name of the task, as a truth.

        Dynamic power is V(f)²·f, with half of it while the core stalls.  V falls linearly from
        1.00 V at the highest clock to 0.80 V at the lowest.  The time of a phase is a/clock + b, by
        least squares over the clocks; b is stalled time.  Without a clock, power is 1.

        Raises
        ------
        ProfileError
            A dataset breaks the contract, lacks contexts, or is of another platform than the
            first.
        MeasurementError
            The progress counter counted nothing in a context.
        """
        return cls.join([cls._of_task(name, dataset) for name, dataset in profiles.items()])

    @classmethod
    def join(cls, parts: list[Truth]) -> Truth:
        """Execution data of several sets of tasks as one.

        :class:`ArgumentError` where there are none, :class:`ProfileError` for different platforms.
        """
        if not parts:
            raise ArgumentError("profiles are none; those of one task or more are wanted.")
        grid = parts[0].grid
        for part in parts:
            grid.check_same(part.grid, f"'{parts[0].profiles[0]}'", f"'{part.profiles[0]}'")
        runs = max(part.seconds.shape[1] for part in parts)
        seconds = [np.take(p.seconds, np.arange(runs) % p.seconds.shape[1], axis=1) for p in parts]
        return cls(
            tuple(name for part in parts for name in part.profiles),
            grid,
            np.concatenate(seconds),
            np.concatenate([part.power for part in parts]),
        )

    @classmethod
    def _of_task(cls, name: str, dataset: xr.Dataset) -> Truth:
        profiles = checked_profiles(dataset, source=file_of(dataset), part=True)
        grid = Grid.of(profiles)
        (seconds,), _ = cut_runs(profiles, grid, STRETCHES, ("time",))
        seconds = np.ascontiguousarray(np.moveaxis(seconds, 1, 0))
        power = _power(make_table(profiles), grid)
        return cls((name,), grid, seconds[None], power[None])

    def durations(self, profile: str) -> Floats:
        """Execution times of a task's runs in every context [s], (runs, contexts)."""
        return self.seconds[self.profiles.index(profile)].sum(axis=2, dtype=float)


def _power(table: xr.Dataset, grid: Grid) -> Singles:
    """Dynamic power of a task in every context and stretch, (contexts, stretches)."""
    place = (np.arange(STRETCHES) + 0.5) / STRETCHES
    phase = np.searchsorted(table["end"].values, place)
    if grid.clock is None:
        return np.ones((len(grid.contexts), STRETCHES), dtype=np.float32)
    clocks = np.array(grid.resource(grid.clock).levels)
    highest, lowest = clocks[-1], clocks[0]
    fall = (highest - clocks) / (highest - lowest if highest > lowest else 1.0)
    voltage = _VOLTAGE[1] - (_VOLTAGE[1] - _VOLTAGE[0]) * fall
    active = (voltage / _VOLTAGE[1]) ** 2 * clocks / highest
    axis = 1 + grid.names.index(grid.clock)
    pace = np.moveaxis(1.0 / table["speed"].values.astype(float), axis, -1)
    stalled = np.zeros_like(pace)
    if len(clocks) > 1:
        centred = 1.0 / clocks - (1.0 / clocks).mean()
        scaling = np.maximum((pace * centred).sum(axis=-1) / (centred**2).sum(), 0.0)[..., None]
        fixed = np.maximum(pace.mean(axis=-1, keepdims=True) - scaling * (1 / clocks).mean(), 0.0)
        stalled = fixed / (fixed + scaling / clocks)
    power = np.moveaxis(active * (1.0 - (1.0 - STALLED_ACTIVITY) * stalled), -1, axis)
    return np.ascontiguousarray(power.reshape(len(power), -1)[phase].T, dtype=np.float32)
