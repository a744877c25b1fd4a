"""What other programs say of one before it is measured, and how well, families left out.

Over the configurations, log times and log powers of programs, then their counters, are taken for
jointly Gaussian; the scale of the time is taken out, on which nothing is known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from msbgen.learn.gaussian import residual_covariance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Variance of the scale of a time, of which nothing is known.
FREE = 1e4
# Rounds in which levels and means of an incomplete table are found.
_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class Likely:
    """Mean and covariance over the configurations of the others; times, powers, then counters.

    Attributes
    ----------
    mean : ndarray, (2n + c,)
    covariance : ndarray, (2n + c, 2n + c)
        The scale of the time taken out.
    """

    mean: Floats
    covariance: Floats

    def departing(self, added: Floats) -> Likely:
        """The same with a covariance added to that of log times and log powers, (2n, 2n)."""
        covariance = self.covariance.copy()
        covariance[: len(added), : len(added)] += added
        return replace(self, covariance=covariance)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Families that were left out one by one, and what the others say of each.

    Attributes
    ----------
    mean : ndarray, (f, 2n + c)
    covariance : ndarray, (f, 2n + c, 2n + c)
        The scale of the time free.
    rows : ndarray, (p, 2n + c)
        Of all these families, NaN where missing.
    family : ndarray of int, (p,)
        Which one a row is of, 0, …, f - 1.
    """

    mean: Floats
    covariance: Floats
    rows: Floats
    family: Indices

    @classmethod
    def of(cls, known: Sequence[Likely], rows: Floats, family: Indices, width: int) -> Self:
        """Rows of families, and what was learned without each; `width` configurations."""
        d = rows.shape[1]
        mean = np.array([likely.mean for likely in known]).reshape(-1, d)
        covariance = np.array([likely.covariance for likely in known]).reshape(-1, d, d)
        covariance[:, :width, :width] += FREE
        return cls(mean, covariance, rows, family)

    def departing(self, added: Floats) -> LeftOut:
        """The same with a covariance added to that of log times and log powers, (2n, 2n)."""
        covariance = self.covariance.copy()
        covariance[:, : len(added), : len(added)] += added
        return replace(self, covariance=covariance)

    def error(self, given: Indices, width: int, noise: float) -> float:
        """Mean error of log time and power, from some configurations and all counters."""
        if not len(self.mean):
            return np.inf
        at = np.concatenate([given, given + width, np.arange(2 * width, self.rows.shape[1])])
        known = np.isfinite(self.rows[:, at])
        said = np.empty_like(self.rows)
        alike = bool((known == known[0]).all())  # as it is for all but incomplete tables
        for pattern in known[:1] if alike else np.unique(known, axis=0):
            own = np.flatnonzero((known == pattern).all(axis=1))
            use, of = at[pattern], self.family[own]
            families, place = np.unique(of, return_inverse=True)
            beside = self.covariance[families][:, use]
            gain = np.linalg.solve(beside[:, :, use] + noise * np.eye(len(use)), beside)
            off = self.rows[np.ix_(own, use)] - self.mean[np.ix_(of, use)]
            said[own] = self.mean[of] + np.einsum("pk,pkd->pd", off, gain[place.reshape(-1)])
        missed = np.abs(said - self.rows)[:, : 2 * width]
        missed[:, np.concatenate([given, given + width])] = 0.0
        there = ~np.isnan(missed)
        total = np.bincount(self.family, np.where(there, missed, 0.0).sum(axis=1))
        return float(np.mean(total / np.bincount(self.family, there.sum(axis=1))))


def learn(rows: Floats, family: Indices, width: int) -> Likely:
    """Mean and covariance of rows of log times, log powers and counters, families alike.

    Parameters
    ----------
    rows : ndarray, (p, 2·width + c)
        NaN where missing; each column has a number.
    family : ndarray of int, (p,)
    width : int
    """
    known = np.isfinite(rows)
    codes = np.unique(family, return_inverse=True)[1].reshape(-1)
    weight = 1.0 / np.bincount(codes)[codes]
    filled = np.where(known, rows, 0.0)
    shares = weight[:, None] * known
    level, mean = np.zeros(len(rows)), np.zeros(rows.shape[1])
    seen = known[:, :width].sum(axis=1)
    for _ in range(_ROUNDS):
        flat = filled.copy()
        flat[:, :width] -= level[:, None] * known[:, :width]
        mean = (shares * flat).sum(axis=0) / shares.sum(axis=0)
        off = ((filled - mean) * known)[:, :width].sum(axis=1)
        before, level = level, np.where(seen > 0, off / np.maximum(seen, 1), 0.0)
        if np.abs(level - before).max() < 1e-12:
            break
    flat = rows - mean
    flat[:, :width] -= level[:, None]
    return Likely(mean, residual_covariance(flat, weight))
