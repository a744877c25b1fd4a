"""Forecasts of a task graph in contexts: time, energy and temperature.

A choice of contexts takes a forecaster as an argument: a fitted predictor, or the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError

Floats = NDArray[np.float64]

# Temperatures may be negative.
_DEGREES = ("temperature", "temperature_bound", "peak_bound")


@dataclass(frozen=True, eq=False)
class Forecast:
    """Forecast of one graph in n contexts, each array (n,)."""

    # Expected: from start to end [s], of the device [J], at the end [°C].
    time: Floats
    energy: Floats
    temperature: Floats
    # Upper bounds; equal to the expected values where those are certain.
    time_bound: Floats
    energy_bound: Floats
    temperature_bound: Floats
    # Upper bound of the highest temperature during the run [°C].  It may exceed that at the end, as
    # after a parallel part with a serial end.
    peak_bound: Floats

    def __post_init__(self) -> None:
        shape = self.time.shape
        for name, values in vars(self).items():
            if values.shape != shape or values.ndim != 1 or not len(values):
                raise ArgumentError(
                    f"{name} has shape {values.shape}; a number per context, as many as times, is "
                    f"wanted."
                )
            good = np.isfinite(values) & ((values > 0) | (name in _DEGREES))
            if not good.all():
                at = int(np.argmin(good))
                raise ArgumentError(
                    f"{name} is {values[at]:g} in context {at}; a positive number is wanted."
                )

    @classmethod
    def certain(
        cls, time: ArrayLike, energy: ArrayLike, temperature: ArrayLike, peak: ArrayLike
    ) -> Forecast:
        """Forecast of certain values: bounds are the values themselves."""
        values = (time, energy, temperature, peak)
        seconds, joules, last, highest = (np.asarray(array, dtype=float) for array in values)
        return cls(seconds, joules, last, seconds, joules, last, highest)


class Forecaster(Protocol):
    """Forecasts graphs on one device."""

    def forecast(self, graph: xr.Dataset, contexts: Floats, temperature: ArrayLike) -> Forecast:
        """Forecast of a graph in contexts, (n, n_columns) as the device's columns.

        The temperature at the start [°C] is one, or one for each context.
        """
        ...
