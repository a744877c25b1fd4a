"""Heads: guesses of where and how widely runs scatter around the trend at a context.

A conformal bound is a head's location plus a quantile of scores times its width.  Any head gives
a valid bound, a good one a tight bound; all are learned from the contexts that were not left out.
Users meet them as the shape of the margin between prediction and bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.bounds.heldout import HeldOut, Places
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

    def at(self, name: str, places: Places) -> tuple[Floats, Floats]:
        """Location and width of one head, one of :attr:`names`."""
        location = places.log_time
        one = np.ones(len(location))
        if name == "mean":
            return location, one
        if name == "local":
            error, weight = self._error
            local = np.sqrt((places.near @ error) / (places.near @ weight))
            return location, np.maximum(local, NARROW)
        if name in _QUANTILES:
            away, context, weight = self._away
            near = places.near[:, context] * weight
            return location + weighted_quantile(away, near, _QUANTILES[name])[:, 0], one
        variance, repeated = self._noise
        total = places.near @ repeated
        square = np.divide(
            places.near @ variance, total, out=np.zeros(len(location)), where=total > 0
        )
        if name == "spread":
            return location, np.sqrt(np.maximum(square, NARROW**2))
        return location, np.sqrt(square + (self._per_doubt * places.doubt) ** 2 + NARROW**2)

    def most(self, name: str, offset: Floats, doubt: Floats) -> Floats:
        """What location plus offsets (q,) of widths exceed the trend by at most, (q,).

        Whatever the neighbours: no mixture of contexts has a larger quantile or variance than the
        context that has the largest.
        """
        if name == "mean":
            return offset
        quantile, variance, error = self._largest
        if name in _QUANTILES:
            return offset + quantile[name]
        if name == "local":
            width = max(np.sqrt(error), NARROW)
        elif name == "spread":
            width = max(np.sqrt(variance), NARROW)
        else:
            width = np.sqrt(variance + (self._per_doubt * doubt) ** 2 + NARROW**2)
        return np.maximum(offset, 0.0) * width

    def scores(self, name: str) -> Floats:
        """How many widths each left-out run lies beyond the location, (pairs,)."""
        location, width = self.at(name, self.held.rows)
        return (self.held.log_time - location[self.held.row]) / width[self.held.row]

    @cached_property
    def _away(self) -> tuple[Floats, NDArray[np.int64], Floats]:
        """Runs' log distance from their context's mean, growing; their context; what each counts.

        Corrected for the mean being estimated; a context's runs count as much as one run of
        another, and a context of one run nothing.
        """
        held, context = self.held, self.held.run_context
        n = held.n_runs[context]
        mean = _sums(context, held.duration, len(held.n_runs))[context] / n
        away = np.log(held.duration / mean) * np.sqrt(n / np.maximum(n - 1, 1))
        order = np.argsort(away, kind="stable")
        return away[order], context[order], ((n > 1) / n)[order]

    @cached_property
    def _noise(self) -> tuple[Floats, Floats]:
        """Variance of the runs of each context, and 1 where it has several; 0 elsewhere."""
        away, context, weight = self._away
        n_known = len(self.held.n_runs)
        variance = _sums(context, weight * away**2, n_known)
        return variance, (self.held.n_runs > 1).astype(float)

    @cached_property
    def _largest(self) -> tuple[dict[str, float], float, float]:
        """Of the contexts' own: quantiles by head, variance of runs, mean squared error."""
        away, context, _ = self._away
        levels = np.array(list(_QUANTILES.values()))
        own = [away[context == c] for c in np.flatnonzero(self.held.n_runs > 1)]
        each = [weighted_quantile(runs, np.ones((1, len(runs))), levels)[0] for runs in own]
        quantiles = dict(zip(_QUANTILES, np.max(each, axis=0).tolist())) if each else {}
        error, rows = self._error
        mean = np.divide(error, rows, out=np.zeros(len(rows)), where=rows > 0)
        return quantiles, float(self._noise[0].max()), float(mean.max())

    @cached_property
    def _row_square(self) -> Floats:
        """Mean squared log error of the left-out prediction over the runs, (rows,)."""
        held = self.held
        error = held.log_time - held.rows.log_time[held.row]
        total = _sums(held.row, error**2, len(held.context))
        return total / held.n_runs[held.context]

    @cached_property
    def _error(self) -> tuple[Floats, Floats]:
        """Weighted sums over the rows of each known context: squared errors, ones; (n_known,)."""
        held, n_known = self.held, len(self.held.n_runs)
        error = _sums(held.context, held.weight * self._row_square, n_known)
        return error, _sums(held.context, held.weight, n_known)

    @cached_property
    def _per_doubt(self) -> float:
        """Error of the trend per unit of doubt, from the left-out contexts."""
        held = self.held
        bias = np.maximum(self._row_square - self._noise[0][held.context], 0.0)
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

    def at(self, name: str, places: Places) -> Floats:
        """Width of one head, (q, segments, k)."""
        error, weight = self._error
        near = np.ones((len(places.near), len(weight))) if name == "even" else places.near
        square = (near @ error.reshape(len(error), -1)) / (near @ weight)[:, None]
        square = square.reshape(len(near), *error.shape[1:])
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
        return {name: self.at(name, self.held.rows) for name in self.names}

    @cached_property
    def _log_ratio(self) -> Floats:
        """Absolute log of measured over predicted amounts, (pairs, segments, k)."""
        held = self.held
        predicted = (held.predicted + held.floor)[held.row]
        ratio = np.abs(np.log((held.state + held.floor) / predicted))
        return np.where(np.isfinite(ratio), ratio, 0.0)  # a hole in a counter says nothing

    @cached_property
    def _error(self) -> tuple[Floats, Floats]:
        """Weighted sums over the left-out runs of each known context: squared errors, ones.

        (n_known, segments, k) and (n_known,).
        """
        held, n_known = self.held, len(self.held.n_runs)
        error = np.zeros((n_known, *self._log_ratio.shape[1:]))
        square = held.share[:, None, None] * self._log_ratio**2
        np.add.at(error, held.context[held.row], square)
        return error, _sums(held.context, held.weight, n_known)


def tightest(names: tuple[str, ...], margins: list[float]) -> str:
    """The plainest of those within _GAIN of the least margin."""
    least = min(margins)
    return next(n for n, margin in zip(names, margins) if margin <= least + _GAIN * abs(least))


def _sums(place: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Sums of the values in each place from 0 to count − 1."""
    return np.bincount(place, values, minlength=count).astype(np.float64)
