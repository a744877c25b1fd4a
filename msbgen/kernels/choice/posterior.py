"""What a predictor thinks of a program of which some contexts were measured.

The choice takes its predictor as an argument: anything that, having seen other programs, turns
what was measured of a new one into a Gaussian over the logarithms of its time and power in all
contexts.  That it is one lets energy, whose logarithm is their sum, and the worth of a further
measurement be read off; whether it is right is for the left-out programs to say
(:mod:`msbgen.kernels.choice.margins`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.kernels.choice.costs import Costs

Floats = NDArray[np.float64]

# Least deviation of a logarithm: nothing is known to a millionth.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class Belief:
    """A Gaussian over the logarithms of time [s] and power [W] of one program in n contexts.

    Attributes
    ----------
    mean : ndarray, (2n,)
        First of all times, then of all powers.
    covariance : ndarray, (2n, 2n)
    """

    mean: Floats
    covariance: Floats

    def __post_init__(self) -> None:
        size = len(self.mean)
        if self.mean.shape != (size,) or size % 2 or self.covariance.shape != (size, size):
            raise ArgumentError(
                f"mean has shape {self.mean.shape}, covariance {self.covariance.shape}; (2n,) and "
                f"(2n, 2n), times before powers, are wanted."
            )

    @cached_property
    def logs(self) -> Floats:
        """Mean logarithms of time, energy and power, (3, n)."""
        time, power = self.mean.reshape(2, -1)
        return np.stack([time, time + power, power])

    @cached_property
    def deviations(self) -> Floats:
        """Their standard deviations, (3, n)."""
        n = len(self.mean) // 2
        variance = self.covariance.diagonal()
        across = self.covariance[:n, n:].diagonal()
        energy = variance[:n] + variance[n:] + 2 * across
        stacked = np.stack([variance[:n], energy, variance[n:]])
        return np.sqrt(np.maximum(stacked, _LEAST**2))


class Fitted(Protocol):
    """A predictor that has seen other programs."""

    def believe(self, time: Floats, power: Floats) -> Belief:
        """What to think of a program.

        Parameters
        ----------
        time, power : ndarray, (n,)
            Measured [s], [W], NaN where they were not.
        """
        ...


class Predictor(Protocol):
    """Something that learns from other programs in the same contexts."""

    def fit(self, others: Costs) -> Fitted:
        """Learn from programs that were measured, each at least in some contexts."""
        ...
