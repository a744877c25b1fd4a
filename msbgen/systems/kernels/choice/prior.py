"""Prior of a program before it is measured, from other programs; and its error on left-out ones.

Log times and log powers over the configurations, then counters, are modelled as jointly Gaussian.
The level of the log times has a variance so large that any duration of a program is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from msbgen.systems.learn.gaussian import residual_covariance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Variance of the level of log times: far larger than that of any set of programs.
LEVEL_VARIANCE = 1e4
# Iterations over levels and means of an incomplete table; complete tables need two.
_MAX_ITER = 30


@dataclass(frozen=True, eq=False)
class ProgramPrior:
    """Mean (2n + c,) and covariance over log times, log powers, then counters.

    The covariance is without the variance of the level of log times.
    """

    mean: Floats
    covariance: Floats

    def with_departures(self, added: Floats) -> ProgramPrior:
        """The prior with a covariance (2n, 2n) added to that of log times and log powers."""
        covariance = self.covariance.copy()
        covariance[: len(added), : len(added)] += added
        return replace(self, covariance=covariance)


@dataclass(frozen=True, eq=False)
class LeftOutFamilies:
    """Families that are left out one by one, and the prior from the others for each.

    The priors have means (f, 2n + c) and covariances (f, 2n + c, 2n + c), with the variance of the
    level of log times. The `rows` (p, 2n + c) are programs of these families, NaN where missing;
    the `observed` ones have the noise of measurements, with the variances `measurement` (2n + c,).
    `family` (p,) has numbers from 0 to f − 1.
    """

    mean: Floats
    covariance: Floats
    rows: Floats
    observed: Floats
    measurement: Floats
    family: Indices

    @classmethod
    def from_priors(
        cls,
        priors: Sequence[ProgramPrior],
        rows: Floats,
        family: Indices,
        width: int,
        *,
        observed: Floats,
        measurement: Floats,
    ) -> Self:
        """Combine rows with one prior a family; `width` is the number of configurations."""
        d = rows.shape[1]
        mean = np.array([prior.mean for prior in priors]).reshape(-1, d)
        covariance = np.array([prior.covariance for prior in priors]).reshape(-1, d, d)
        covariance[:, :width, :width] += LEVEL_VARIANCE
        return cls(mean, covariance, rows, observed, measurement, family)

    def with_departures(self, added: Floats) -> LeftOutFamilies:
        """The same with a covariance (2n, 2n) added to that of log times and log powers."""
        covariance = self.covariance.copy()
        covariance[:, : len(added), : len(added)] += added
        return replace(self, covariance=covariance)

    def errors(self, measured: Indices, width: int, noises: Sequence[float]) -> Floats:
        """Mean absolute errors of log time and power, given some configurations and all counters.

        There is one for each of `noises`, variances of what the prior lacks, besides the noise of
        measurements.
        """
        if not len(self.mean):
            return np.full(len(noises), np.inf)
        counters = np.arange(2 * width, self.rows.shape[1])
        at = np.concatenate([measured, measured + width, counters])
        known = np.isfinite(self.rows[:, at])
        predicted = np.empty((len(noises), *self.rows.shape))
        complete = bool((known == known[0]).all())  # the same columns in every row
        for pattern in known[:1] if complete else np.unique(known, axis=0):
            rows = np.flatnonzero((known == pattern).all(axis=1))
            columns, family = at[pattern], self.family[rows]
            families, place = np.unique(family, return_inverse=True)
            cross = self.covariance[families][:, columns]
            variances = np.asarray(noises)[:, None] + self.measurement[columns]
            ridge = (variances[:, :, None] * np.eye(len(columns)))[:, None]
            gain = np.linalg.solve(cross[:, :, columns] + ridge, cross[None])
            off = self.observed[np.ix_(rows, columns)] - self.mean[np.ix_(family, columns)]
            moved = np.einsum("pk,npkd->npd", off, gain[:, place.reshape(-1)])
            predicted[:, rows] = self.mean[family] + moved
        error = np.abs(predicted - self.rows)[:, :, : 2 * width]
        error[:, :, np.concatenate([measured, measured + width])] = 0.0
        present = ~np.isnan(error[0])
        total = np.where(present, error, 0.0).sum(axis=2)
        shares = np.bincount(self.family, present.sum(axis=1))
        means = [np.mean(np.bincount(self.family, each) / shares) for each in total]
        return np.array(means, dtype=np.float64)


def fit_prior(rows: Floats, family: Indices, width: int) -> ProgramPrior:
    """Mean and covariance of rows; every family has the same weight.

    The rows (p, 2·width + c) are log times, log powers and counters, NaN where missing; each column
    has a number. `family` is (p,), `width` the number of configurations.
    """
    codes = np.unique(family, return_inverse=True)[1].reshape(-1)
    weight = 1.0 / np.bincount(codes)[codes]
    level, times = centred(rows[:, :width], weight)
    rest = rows[:, width:]
    shares = weight[:, None] * np.isfinite(rest)
    others = (shares * np.where(np.isfinite(rest), rest, 0.0)).sum(axis=0) / shares.sum(axis=0)
    mean = np.concatenate([times, others])
    flat = rows - mean
    flat[:, :width] -= level[:, None]
    return ProgramPrior(mean, residual_covariance(flat, weight))


def centred(rows: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Levels (p,) and weighted mean curve (n,) of rows (p, n) with missing values, NaN."""
    known = np.isfinite(rows)
    filled = np.where(known, rows, 0.0)
    shares = weight[:, None] * known
    level, mean = np.zeros(len(rows)), np.zeros(rows.shape[1])
    for _ in range(_MAX_ITER):
        flat = filled - level[:, None] * known
        mean = (shares * flat).sum(axis=0) / shares.sum(axis=0)
        off = ((filled - mean) * known).sum(axis=1)
        before, level = level, off / np.maximum(known.sum(axis=1), 1)
        if np.abs(level - before).max() < 1e-12:
            break
    return level, mean
