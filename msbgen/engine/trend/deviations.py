"""Standard deviations of the trend's Gaussian process: distances in the learned metric.

They are those of the process of the first quantity, time, without the noise: of a new context given
all known ones, or of a left-out context given those that were kept.  Exact for few contexts, else
of the process of low rank (:mod:`msbgen.engine.trend.low_rank`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import are_many
from msbgen.engine.trend.covariance import prior_covariance, prior_variance
from msbgen.engine.trend.fit import Trend
from msbgen.engine.trend.low_rank import LowRankVariance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Added to the variance of levels, which keeps the matrix of nearly equal levels invertible.
_JITTER = 1e-6


class Variance(Protocol):
    """Posterior variances of the process, without the noise."""

    def at(self, z: Floats) -> Floats:
        """Variance at points (q, m) given all known ones, (q,)."""
        ...

    def left_out(self, groups: Sequence[Indices]) -> Floats:
        """Variance at each known point of each group, given the points outside the group."""
        ...


class ExactVariance:
    """Variances given known points (n, m), by the inverse of their covariance, O(n³)."""

    def __init__(self, known: Floats, lengths: Floats, nugget: float) -> None:
        self._known, self._lengths, self._nugget = known, lengths, nugget
        prior = prior_covariance(known, known, lengths) + nugget * np.eye(len(known))
        self._precision = np.asarray(np.linalg.inv(prior), dtype=np.float64)

    def at(self, z: Floats) -> Floats:
        """See :class:`Variance`."""
        across = prior_covariance(z, self._known, self._lengths)
        explained = np.einsum("qn,qn->q", across @ self._precision, across)
        return np.maximum(prior_variance(z) - explained, 0.0)

    def left_out(self, groups: Sequence[Indices]) -> Floats:
        """See :class:`Variance`."""
        parts = [np.diag(np.linalg.inv(self._precision[np.ix_(g, g)])) for g in groups]
        return np.maximum(np.concatenate(parts) - self._nugget, 0.0)


def trend_variance(trend: Trend) -> Variance:
    """Variances of the process of the first quantity of a trend."""
    kind = LowRankVariance if are_many(trend.contexts) else ExactVariance
    return kind(trend.scaled(trend.contexts), trend.lengths[0], float(trend.nugget[0]))


def level_gaps(new: NDArray[np.bool_], z: Floats, known: Floats, lengths: Floats) -> Floats:
    """Deviation at each new level given the known ones of the same resource, (q, n_resources).

    `new` (q, n_resources) are the levels that are new; the others have no gap.
    """
    gaps = np.zeros(z.shape)
    for r in np.flatnonzero(new.any(axis=0)):
        levels = np.unique(known[:, r])[:, None]
        gap = np.sqrt(ExactVariance(levels, lengths[r : r + 1], _JITTER).at(z[:, r, None]))
        gaps[:, r] = np.where(new[:, r], gap, 0.0)
    return gaps
