"""Posterior of a program's times and powers, and what a predictor must provide.

A predictor learns from other programs.  From a few measured contexts of a new program it computes
a Gaussian over the logarithms of time and power in all contexts.  The logarithm of energy is their
sum, so its distribution follows.  How good the posterior is, :mod:`msbgen.kernels.choice.margins`
measures on programs that were left out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.systems.kernels.choice.costs import Costs

Floats = NDArray[np.float64]

# Least standard deviation of a logarithm, so that scores can be divided by it; and the deviation,
# of rounding, up to which a value is known.
_LEAST_DEVIATION, _ROUNDING = 1e-6, 1e-5


@dataclass(frozen=True, eq=False)
class ProgramPosterior:
    """A Gaussian over the logarithms of time [s] and power [W] of one program in n contexts.

    Attributes
    ----------
    mean : ndarray, (2n,)
        All log times, then all log powers.
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
        """Standard deviations of these logarithms, (3, n)."""
        n = len(self.mean) // 2
        variance = self.covariance.diagonal()
        time_power = self.covariance[:n, n:].diagonal()
        energy = variance[:n] + variance[n:] + 2 * time_power
        stacked = np.stack([variance[:n], energy, variance[n:]])
        return np.sqrt(np.maximum(stacked, _LEAST_DEVIATION**2))

    @cached_property
    def certain(self) -> NDArray[np.bool_]:
        """Whether time and power are known in a context, (n,), as of measurements without noise."""
        return np.asarray((self.deviations <= _ROUNDING).all(axis=0))


class FittedPredictor(Protocol):
    """A predictor that was fitted to other programs."""

    def posterior(self, time: Floats, power: Floats) -> ProgramPosterior:
        """Posterior of one program.

        Parameters
        ----------
        time, power : ndarray, (n,)
            Measured times [s] and powers [W], NaN in contexts that were not measured.
        """
        ...


class Predictor(Protocol):
    """A predictor that learns from other programs in the same contexts."""

    def fit(self, others: Costs) -> FittedPredictor:
        """Fit to programs that were measured in at least some of the contexts."""
        ...
