"""Predictions of known contexts from the others, beside what was measured there.

What conformal bounds learn from: each row is one known context, predicted from the contexts
outside the group that it was left out with.  How far it was from those is its *doubt*: the
deviation of the trend's Gaussian process there, a distance in the learned metric that knows the
geometry of the neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.trend.covariance import prior_covariance, prior_variance
from msbgen.trend.fit import Trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Radius of neighbourhoods, in median distances of a known context to its nearest.
_RADIUS = 1.5
# Weight of far contexts in a neighbourhood: where no context is near, all are alike.
_FAR = 1e-6

_ARRAYS = (
    "context", "left_out", "weight", "doubt", "predicted", "run_context", "duration", "state",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Left-out predictions beside the measured runs.

    Attributes
    ----------
    trend : Trend
        Fitted to all known contexts; it predicts the mean at new ones.
    context : ndarray of int, (rows,)
        Known context that each left-out prediction is for.
    left_out : ndarray of bool, (rows, n_known)
        The contexts that were left out with it.
    weight : ndarray, (rows,)
        Sums to 1.
    doubt : ndarray, (rows,)
        Deviation of the trend's Gaussian process at the left-out context, given the rest.
    predicted : ndarray, (rows, segments, k)
        Left-out prediction of the amounts per segment of progress.
    run_context : ndarray of int, (runs,)
    duration : ndarray, (runs,)
        Measured execution times [s].
    state : ndarray, (pairs, segments, k)
        Measured amounts per segment of progress of every run of every left-out prediction,
        placed within the sampling intervals by that prediction (`clock.sharpen`).
    """

    trend: Trend
    context: Indices
    left_out: NDArray[np.bool_]
    weight: Floats
    doubt: Floats
    predicted: Floats
    run_context: Indices
    duration: Floats
    state: Floats

    @property
    def segments(self) -> int:
        """Segments of progress."""
        return self.predicted.shape[1]

    @cached_property
    def n_contexts(self) -> int:
        """Different contexts among the rows."""
        return len(np.unique(self.context))

    # Pairs are left-out predictions × runs of their contexts.

    @cached_property
    def _pairs(self) -> tuple[Indices, Indices]:
        row, run = np.nonzero(self.context[:, None] == self.run_context)
        return row, run

    @property
    def row(self) -> Indices:
        """Left-out prediction of each pair, (pairs,)."""
        return self._pairs[0]

    @cached_property
    def share(self) -> Floats:
        """What each pair counts, (pairs,): a row's weight in equal parts for its runs."""
        return (self.weight / self.n_runs[self.context])[self.row]

    @cached_property
    def n_runs(self) -> Indices:
        """Runs of each known context, (n_known,)."""
        return np.bincount(self.run_context, minlength=len(self.trend.contexts))

    @cached_property
    def log_time(self) -> Floats:
        """Log of the measured execution time, (pairs,)."""
        return np.log(self.duration)[self._pairs[1]]

    @cached_property
    def floor(self) -> Floats:
        """Amounts per segment (k,) below which the trend is additive."""
        return self.trend.offset * (self.trend.mean.shape[1] // self.segments)

    def in_segments(self, contexts: ArrayLike) -> Floats:
        """Predicted amounts at (q, n_resources) contexts, (q, segments, k)."""
        return in_segments(self.trend.predict(contexts), self.segments)

    # Neighbourhoods: weights of the known contexts around others.

    @cached_property
    def _radius(self) -> float:
        apart = self.trend.distance(self.trend.contexts)
        np.fill_diagonal(apart, np.inf)
        return _RADIUS * max(float(np.median(apart.min(axis=1))), 1e-12)

    def near(self, contexts: ArrayLike) -> Floats:
        """Weights of the known contexts around others, (q, n_known)."""
        return np.exp(-0.5 * (self.trend.distance(contexts) / self._radius) ** 2) + _FAR

    @cached_property
    def near_left_out(self) -> Floats:
        """The same around left-out contexts, 0 for those left out together, (rows, n_known)."""
        return np.where(self.left_out, 0.0, self.near(self.trend.contexts)[self.context])

    # Doubt.

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(_prior(self.trend)), dtype=np.float64)

    def doubt_at(self, contexts: ArrayLike) -> Floats:
        """How far (q, n_resources) contexts are from the known ones, (q,).

        The deviation of the trend's Gaussian process, relative to that of its smooth part: a
        distance in the learned metric to all known contexts together.
        """
        z, known = self.trend.scaled(contexts), self.trend.scaled(self.trend.contexts)
        across = prior_covariance(z, known, self.trend.lengths[0])
        return np.sqrt(
            np.maximum(prior_variance(z) - ((across @ self._inverse) * across).sum(axis=1), 0.0)
        )

    def to_arrays(self) -> dict[str, NDArray]:
        """Everything but the trend as plain arrays, for :meth:`from_arrays`."""
        return {name: np.asarray(getattr(self, name)) for name in _ARRAYS}

    @classmethod
    def from_arrays(cls, trend: Trend, arrays: Mapping[str, NDArray]) -> HeldOut:
        """What :meth:`to_arrays` described; whole numbers may stand for truth values."""
        own = {name: np.asarray(arrays[name]) for name in _ARRAYS}
        return cls(trend, **{**own, "left_out": own["left_out"].astype(bool)})


def doubt_of(trend: Trend, groups: Sequence[Indices]) -> Floats:
    """`HeldOut.doubt_at` of every context in every group, given the contexts outside it."""
    inverse, nugget = np.linalg.inv(_prior(trend)), trend.nugget[0]
    variance = [np.diag(np.linalg.inv(inverse[np.ix_(g, g)])) - nugget for g in groups]
    return np.sqrt(np.maximum(np.concatenate(variance), 0.0))


def in_segments(state: Floats, segments: int) -> Floats:
    """Amounts per bin (n, bins, k) as amounts per segment, (n, segments, k)."""
    return state.reshape(len(state), segments, -1, state.shape[2]).sum(axis=2)


def _prior(trend: Trend) -> Floats:
    known = trend.scaled(trend.contexts)
    return prior_covariance(known, known, trend.lengths[0]) + trend.nugget[0] * np.eye(len(known))
