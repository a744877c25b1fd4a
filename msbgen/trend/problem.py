"""The smoothing problem of the trend: known states, in logarithms, beside their noise.

log(amount + offset) of each quantity and bin is a value to smooth over the scaled coordinates of
the contexts; a bin counts by the share of the quantity's amount that it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.trend.folds import Folds
from msbgen.trend.smooth import SMOOTHERS, Smoother

Floats = NDArray[np.float64]

# Noise variance of what was not measured, over that of a measured value.
UNKNOWN = 1e8
# Beyond the known values the log state may move by half their range, and 5 %, not farther.
_ROOM, _ROOM_MIN = 0.5, 0.05
# What is added to the time within the logarithm, over its mean: next to nothing.
_TIME_OFFSET = 1e-9


@dataclass(frozen=True, eq=False)
class Parameters:
    """What is chosen before a fit.

    Attributes
    ----------
    form : str
        One of `msbgen.trend.smooth.FORMS`.
    lengths : ndarray, (k, m)
        Length scales per quantity and resource.
    nugget : ndarray, (k,)
    """

    form: str
    lengths: Floats
    nugget: Floats


@dataclass(frozen=True, eq=False)
class Fit:
    """Every quantity fitted with given parameters, caps left aside.

    Attributes
    ----------
    mean, lowest, highest : ndarray, (k, bins)
        Of the logarithm.
    coefficients : ndarray, (k, n, bins)
    """

    mean: Floats
    lowest: Floats
    highest: Floats
    coefficients: Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be smoothed.

    Attributes
    ----------
    z : ndarray, (n, m)
        Scaled coordinates of the known contexts.
    amounts : ndarray, (n, bins, k)
        NaN where not measured; the first quantity is time.
    worth : ndarray, (n,)
        Of each context, mean 1: noise variances are inverse.
    offset : ndarray, (k,)
        Added within the logarithm.
    folds : Folds
        The held-out predictions that parameters and caps are judged by.
    """

    z: Floats
    amounts: Floats
    worth: Floats
    offset: Floats
    folds: Folds

    def in_segments(self, segments: int, floor: float) -> Problem:
        """The same of sums of neighbouring bins, so many of them; `floor` as `offsets` takes it."""
        first = np.arange(segments) * self.amounts.shape[1] // segments
        sums = np.add.reduceat(self.amounts, first, axis=1)
        return replace(self, amounts=sums, offset=offsets(sums, floor))

    @cached_property
    def logs(self) -> Floats:
        """(n, bins, k)"""
        return np.log(self.amounts + self.offset)

    @cached_property
    def noise(self) -> Floats:
        """Variances over that of a context of mean worth, (n, bins, k)."""
        return np.where(np.isfinite(self.amounts), 1.0 / self.worth[:, None, None], UNKNOWN)

    @cached_property
    def share(self) -> Floats:
        """Of each quantity's amount that a bin holds, (k, bins)."""
        share = np.nanmean(self.amounts, axis=0).T
        return share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)

    @cached_property
    def _centred(self) -> tuple[Floats, Floats]:
        weight = np.where(self.noise < UNKNOWN, 1.0 / self.noise, 0.0)
        values = np.where(weight > 0, self.logs, 0.0)
        mean = (weight * values).sum(axis=0) / weight.sum(axis=0)
        return mean, np.where(weight > 0, values - mean, 0.0)

    @property
    def mean(self) -> Floats:
        """Of the logarithms over the contexts, (bins, k)."""
        return self._centred[0]

    @property
    def centred(self) -> Floats:
        """What the mean leaves, (n, bins, k); 0 where not measured."""
        return self._centred[1]

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """Lowest and highest logarithm that is predicted, (bins, k) each."""
        lowest, highest = np.nanmin(self.logs, axis=0), np.nanmax(self.logs, axis=0)
        room = _ROOM * (highest - lowest) + _ROOM_MIN
        return lowest - room, highest + room

    @cached_property
    def _smoothers(self) -> dict[str, Smoother]:
        return {form: smoother(self.z) for form, smoother in SMOOTHERS.items()}

    def smoother(self, form: str) -> Smoother:
        """The smoother of a form over the known contexts."""
        return self._smoothers[form]

    def fit(self, parameters: Parameters) -> Fit:
        """Every quantity smoothed.

        Raises
        ------
        MeasurementError
            Contexts that are too alike.
        """
        smoother = self.smoother(parameters.form)
        coefficients = [
            smoother.coefficients(
                self.centred[..., k], self.noise[..., k], lengths, float(parameters.nugget[k])
            )
            for k, lengths in enumerate(parameters.lengths)
        ]
        lowest, highest = self.limits
        return Fit(
            np.ascontiguousarray(self.mean.T),
            np.ascontiguousarray(lowest.T),
            np.ascontiguousarray(highest.T),
            np.stack(coefficients),
        )

    def held_out_logs(self, parameters: Parameters) -> Floats:
        """Predicted logarithms of each row of the folds, within the limits, (rows, bins, k)."""
        smoother, index = self.smoother(parameters.form), self.folds.index
        held_out = np.empty((len(index), *self.amounts.shape[1:]))
        for k, lengths in enumerate(parameters.lengths):
            values, noise = self.centred[..., k], self.noise[..., k]
            errors = smoother.left_out(
                values, noise, lengths, float(parameters.nugget[k]), self.folds
            )
            held_out[..., k] = self.mean[:, k] + values[index] - errors
        return np.clip(held_out, *self.limits, out=held_out)

    def held_out(self, parameters: Parameters) -> Floats:
        """Predicted amounts of each row of the folds, caps left aside, (rows, bins, k)."""
        return np.maximum(np.exp(self.held_out_logs(parameters)) - self.offset, 0.0)

    def held_out_errors(self, logs: Floats) -> Floats:
        """Weighted mean square of predicted logarithms (rows, bins, j) of j quantities, (j,)."""
        j = logs.shape[2]
        squares = np.nan_to_num((logs - self.logs[self.folds.index, :, :j]) ** 2)
        return np.einsum("r,rbk,kb->k", self.folds.weight, squares, self.share[:j])


def offsets(amounts: Floats, floor: float) -> Floats:
    """What is added to amounts (n, bins, k) within the logarithm, (k,): `floor` times their mean.

    Next to nothing to the first quantity, time; 1 where a quantity never counted.
    """
    average = np.nanmean(amounts, axis=(0, 1))
    offset = np.where(average > 0, floor * average, 1.0)
    offset[0] = _TIME_OFFSET * average[0]
    return offset
