"""Heads: guesses of where and how widely runs scatter around the trend at a context.

A conformal bound is a head's location plus a quantile of scores times its width.  Any head gives
a valid bound, a good one a tight bound; all are learned from the contexts that were not left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.bounds.heldout import HeldOut
from msbgen.contexts import weighted_quantile

Floats = NDArray[np.float64]

# Heads of the execution time, plain ones first.
HEADS = ("mean", "median", "quantile 0.9", "quantile 0.99", "spread", "local", "doubt")
_QUANTILES = {"median": 0.5, "quantile 0.9": 0.9, "quantile 0.99": 0.99}
# Heads of the bands.
BAND_HEADS = ("even", "local")

# A head has to be tighter by this share than a plainer one.
_GAIN = 0.02
# Least width of a head: scores are divided by it.
NARROW = 1e-9
# Share of the mean over segments in the mean square of each segment's errors.
_SHRINKAGE = 0.3


@dataclass(frozen=True, eq=False)
class DurationHeads:
    """Location and width of the log execution time, each (q,) for q contexts.

    "mean" is the trend itself; "median" and the quantiles add a quantile of the runs' distances
    from their contexts' means nearby; the others have widths: "spread" that of the runs nearby,
    "local" the errors of left-out contexts nearby, "doubt" the runs' and the trend's together.
    """

    held: HeldOut

    @property
    def names(self) -> tuple[str, ...]:
        """With one run a context nothing is known of the noise, nor of heads that tell of it."""
        noisy = {*_QUANTILES, "spread"}
        repeated = bool((self.held.n_runs > 1).any())
        return tuple(name for name in HEADS if repeated or name not in noisy)

    def at(self, name: str, near: Floats, centre: Floats, doubt: Floats) -> tuple[Floats, Floats]:
        """Location and width of one head.

        Parameters
        ----------
        name : str
            One of :attr:`names`.
        near : ndarray, (q, n_known)
            Weights of the known contexts around each context.
        centre : ndarray, (q,)
            Log of the predicted execution time.
        doubt : ndarray, (q,)
        """
        one = np.ones(len(centre))
        if name == "mean":
            return centre, one
        if name == "local":
            local = near[:, self.held.context] * self.held.weight
            local = np.sqrt(local @ self._row_square / local.sum(axis=1))
            return centre, np.maximum(local, NARROW)
        runs = self.held.n_runs
        repeated = near * (runs > 1)
        total = repeated.sum(axis=1)
        if name in _QUANTILES:
            away, _ = self._noise
            weight = (repeated / np.maximum(runs, 1))[:, self.held.run_context]
            return centre + weighted_quantile(away, weight, _QUANTILES[name])[:, 0], one
        square = np.divide(
            repeated @ self._noise[1], total, out=np.zeros(len(centre)), where=total > 0
        )
        if name == "spread":
            return centre, np.sqrt(np.maximum(square, NARROW**2))
        return centre, np.sqrt(square + (self._per_doubt * doubt) ** 2 + NARROW**2)

    def left_out(self, name: str) -> tuple[Floats, Floats]:
        """Location and width of one head at the left-out contexts, (rows,)."""
        return self.at(name, self.held.near_left_out, self._left_out_centre, self.held.doubt)

    def scores(self, name: str) -> Floats:
        """How many widths each left-out run lies beyond the location, (pairs,)."""
        location, width = self.left_out(name)
        return (self.held.log_time - location[self.held.row]) / width[self.held.row]

    @cached_property
    def _left_out_centre(self) -> Floats:
        return np.log(self.held.predicted[..., 0].sum(axis=1))

    @cached_property
    def _noise(self) -> tuple[Floats, Floats]:
        """Runs' log distance from their context's mean (runs,), and its variance (n_known,).

        Both corrected for the mean being estimated; 0 for a context of one run.
        """
        held, count = self.held, self.held.n_runs
        n = count[held.run_context]
        total = np.bincount(held.run_context, held.duration, minlength=len(count))
        away = np.log(held.duration * n / total[held.run_context])
        away *= np.sqrt(n / np.maximum(n - 1, 1))
        square = np.bincount(held.run_context, away**2, minlength=len(count))
        return away, square / np.maximum(count, 1)

    @cached_property
    def _row_square(self) -> Floats:
        """Mean squared log error of the left-out prediction over the runs, (rows,)."""
        held = self.held
        error = held.log_time - self._left_out_centre[held.row]
        total = np.bincount(held.row, error**2, minlength=len(held.context))
        return total / held.n_runs[held.context]

    @cached_property
    def _per_doubt(self) -> float:
        """Error of the trend per unit of doubt, from the left-out contexts."""
        held = self.held
        bias = np.maximum(self._row_square - self._noise[1][held.context], 0.0)
        return float(np.sqrt(held.weight @ bias / max(held.weight @ held.doubt**2, NARROW**2)))


@dataclass(frozen=True, eq=False)
class BandHeads:
    """Widths of the bands around the log amounts, (q, segments, k) for q contexts.

    Root mean square of the left-out errors, over all rows ("even") or those nearby ("local").  A
    band that holds for all segments of a run is as wide as its worst segment wants, in units of
    the segment's width: a segment where the known contexts happened to agree would widen all
    others, so each mean square is drawn towards the mean over segments.
    """

    held: HeldOut

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of :data:`BAND_HEADS`."""
        return BAND_HEADS

    def at(self, name: str, near: Floats) -> Floats:
        """Width of one head around contexts with these neighbours, (q, segments, k)."""
        flat = self._square.reshape(len(self.held.context), -1)
        if name == "even":
            square = np.broadcast_to(self.held.weight @ flat, (len(near), flat.shape[1]))
        else:
            local = near[:, self.held.context] * self.held.weight
            square = (local / local.sum(axis=1, keepdims=True)) @ flat
        square = square.reshape(len(near), *self._square.shape[1:])
        return np.sqrt(square + _SHRINKAGE * square.mean(axis=1, keepdims=True)) + NARROW

    def left_out(self, name: str) -> Floats:
        """Width of one head at the left-out contexts, (rows, segments, k)."""
        return self._left_out[name]

    def scores(self, name: str, quantity: int) -> Floats:
        """How many widths each left-out run lies off, (pairs, segments)."""
        width = self.left_out(name)[self.held.row, :, quantity]
        return self._log_ratio[..., quantity] / width

    @cached_property
    def _left_out(self) -> dict[str, Floats]:
        return {name: self.at(name, self.held.near_left_out) for name in self.names}

    @cached_property
    def _log_ratio(self) -> Floats:
        """Absolute log of measured over predicted amounts, (pairs, segments, k)."""
        held = self.held
        predicted = (held.predicted + held.floor)[held.row]
        ratio = np.abs(np.log((held.state + held.floor) / predicted))
        return np.where(np.isfinite(ratio), ratio, 0.0)  # a hole in a counter says nothing

    @cached_property
    def _square(self) -> Floats:
        held = self.held
        first = np.searchsorted(held.row, np.arange(len(held.context)))
        total = np.add.reduceat(self._log_ratio**2, first, axis=0)
        return total / held.n_runs[held.context][:, None, None]


def tightest(names: tuple[str, ...], margins: list[float]) -> str:
    """The plainest of those within _GAIN of the least margin."""
    least = min(margins)
    return next(n for n, margin in zip(names, margins) if margin <= least + _GAIN * abs(least))
