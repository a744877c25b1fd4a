"""What is thought of a graph of tasks before it runs: time, energy and heat, context by context.

Who chooses contexts for graphs takes a forecaster as an argument: a predictor with intervals, the
simulator itself, a table of measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.graphs.devices import Device

Floats = NDArray[np.float64]

# What may be negative.
_DEGREES = ("temperature", "temperature_bound", "peak_bound")


@dataclass(frozen=True, eq=False)
class Forecast:
    """A run of one graph in n contexts, each array (n,).

    Attributes
    ----------
    time, energy, temperature : ndarray
        Expected: from start to end [s], of the device [J], at the end [°C].
    time_bound, energy_bound, temperature_bound : ndarray
        What a run seldom exceeds; what is expected where nothing is left open.
    peak_bound : ndarray
        What the temperature seldom exceeds on the way [°C]: a parallel part may be hotter than the
        end of what follows.
    """

    time: Floats
    energy: Floats
    temperature: Floats
    time_bound: Floats
    energy_bound: Floats
    temperature_bound: Floats
    peak_bound: Floats

    def __post_init__(self) -> None:
        shape = self.time.shape
        for name, values in vars(self).items():
            if values.shape != shape or values.ndim != 1 or not len(values):
                raise ArgumentError(
                    f"{name} has shape {values.shape}; a number a context, as many as times, is "
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
        """What is known, rather than thought: bounds are the numbers themselves."""
        given = (time, energy, temperature, peak)
        seconds, joules, last, most = (np.asarray(values, dtype=float) for values in given)
        return cls(seconds, joules, last, seconds, joules, last, most)


class Forecaster(Protocol):
    """Something that says what graphs take on one device."""

    def forecast(self, graph: xr.Dataset, contexts: Floats, temperature: ArrayLike) -> Forecast:
        """What is thought of a graph.

        Parameters
        ----------
        graph : xarray.Dataset
            ``msbgen-graph/1``.
        contexts : ndarray, (n, n_columns)
            As the device's columns.
        temperature : array_like, () or (n,)
            At the start [°C].
        """
        ...


def end_temperature(device: Device, start: ArrayLike, time: ArrayLike, energy: ArrayLike) -> Floats:
    """Temperature after a run of constant power [°C]: that of one resistance and one capacity.

    Parameters
    ----------
    device : Device
    start : array_like
        [°C]
    time, energy : array_like
        [s], [J]
    """
    seconds = np.asarray(time, dtype=float)
    goal = device.ambient + device.resistance * np.asarray(energy, dtype=float) / seconds
    kept = np.exp(-seconds / device.time_constant)
    return goal + (np.asarray(start, dtype=float) - goal) * kept
