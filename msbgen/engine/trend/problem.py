"""The smoothing problem of the trend: logarithms of known states, and their noise.

The values log(amount + offset) of each quantity and bin are smoothed over the scaled coordinates of
the contexts.  In errors a bin is weighted by its share of the quantity's amount.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.smooth import SMOOTHERS, Smoother

Floats = NDArray[np.float64]

# Noise variance of a missing value over that of a measured one.
UNKNOWN = 1e8
# Predicted logarithms may exceed the known ones by half their range and 0.05.
_MARGIN, _LEAST_MARGIN = 0.5, 0.05
# Offset of the time within the logarithm, over its mean: negligible.
_TIME_OFFSET = 1e-9


@dataclass(frozen=True, eq=False)
class SmoothingParameters:
    """The parameters of a fit."""

    form: str  # one of `msbgen.engine.trend.smooth.FORMS`
    lengths: Floats  # (k, m): length scales per quantity and resource
    nugget: Floats  # (k,)


@dataclass(frozen=True, eq=False)
class Fit:
    """Every quantity fitted with given parameters, without caps."""

    mean: Floats  # (k, bins) of the logarithm
    lowest: Floats  # (k, bins)
    highest: Floats  # (k, bins)
    coefficients: Floats  # (k, n, bins)


@dataclass(frozen=True, eq=False)
class Problem:
    """The values to smooth, their noise, and the held-out predictions to make."""

    z: Floats  # (n, m): scaled coordinates of the known contexts
    amounts: Floats  # (n, bins, k), time first; NaN where not measured
    weights: Floats  # (n,) of the contexts, mean 1; noise variances are inverse
    offset: Floats  # (k,): added within the logarithm
    folds: Folds  # the held-out predictions
    # smoothers over z by form, each made at its first use
    smoothers: dict[str, Smoother] = field(default_factory=dict)

    def in_segments(self, segments: int, floor: float) -> Problem:
        """The problem of so many sums of neighbouring bins; `floor` as of `offsets`."""
        first = np.arange(segments) * self.amounts.shape[1] // segments
        sums = np.add.reduceat(self.amounts, first, axis=1)
        return replace(self, amounts=sums, offset=offsets(sums, floor))

    @cached_property
    def logs(self) -> Floats:
        """Logarithms of amounts and offset, (n, bins, k)."""
        return np.log(self.amounts + self.offset)

    @cached_property
    def noise(self) -> Floats:
        """Noise variances over that of a context of mean weight, (n, bins, k)."""
        return np.where(np.isfinite(self.amounts), 1.0 / self.weights[:, None, None], UNKNOWN)

    @cached_property
    def share(self) -> Floats:
        """Share of each bin in the amount of each quantity, (k, bins)."""
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
        """Mean of the logarithms over the contexts, (bins, k)."""
        return self._centred[0]

    @property
    def centred(self) -> Floats:
        """Logarithms less their mean, (n, bins, k); 0 where not measured."""
        return self._centred[1]

    @cached_property
    def limits(self) -> tuple[Floats, Floats]:
        """Lowest and highest predicted logarithm, (bins, k) each."""
        lowest, highest = np.nanmin(self.logs, axis=0), np.nanmax(self.logs, axis=0)
        margin = _MARGIN * (highest - lowest) + _LEAST_MARGIN
        return lowest - margin, highest + margin

    def smoother(self, form: str) -> Smoother:
        """The smoother of a form over the known contexts."""
        if form not in self.smoothers:
            self.smoothers[form] = SMOOTHERS[form](self.z)
        return self.smoothers[form]

    def fit(self, parameters: SmoothingParameters) -> Fit:
        """The fit of every quantity; MeasurementError for contexts too close together."""
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

    def left_out_logs(self, parameters: SmoothingParameters) -> Floats:
        """Predicted logarithms of each row of the folds, within the limits, (rows, bins, k)."""
        smoother, index = self.smoother(parameters.form), self.folds.index
        left_out = np.empty((len(index), *self.amounts.shape[1:]))
        for k, lengths in enumerate(parameters.lengths):
            values, noise = self.centred[..., k], self.noise[..., k]
            errors = smoother.left_out(
                values, noise, lengths, float(parameters.nugget[k]), self.folds
            )
            left_out[..., k] = self.mean[:, k] + values[index] - errors
        return np.clip(left_out, *self.limits, out=left_out)

    def left_out(self, parameters: SmoothingParameters) -> Floats:
        """Predicted amounts of each row of the folds, without caps, (rows, bins, k)."""
        return np.maximum(np.exp(self.left_out_logs(parameters)) - self.offset, 0.0)

    def left_out_errors(self, logs: Floats) -> Floats:
        """Weighted mean square of predicted logarithms (rows, bins, j) of j quantities, (j,)."""
        j = logs.shape[2]
        squares = np.nan_to_num((logs - self.logs[self.folds.index, :, :j]) ** 2)
        return np.einsum("r,rbk,kb->k", self.folds.weight, squares, self.share[:j])


def offsets(amounts: Floats, floor: float) -> Floats:
    """Offsets of amounts (n, bins, k) within the logarithm, (k,): `floor` times their mean.

    That of the first quantity, time, is negligible; that of a quantity that is always 0 is 1.
    """
    average = np.nanmean(amounts, axis=(0, 1))
    offset = np.where(average > 0, floor * average, 1.0)
    offset[0] = _TIME_OFFSET * average[0]
    return offset
