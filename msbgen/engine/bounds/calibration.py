"""Bounds on execution times and bands around profiles, from predictions of left-out contexts.

A new run in a new context β ends by the bound U(β) [s] with probability 1 − α, for any
distribution of the noise and of the prediction's error.  The score of a left-out run is its excess
over the prediction in widths (:mod:`msbgen.engine.bounds.widths`), s = (log T − m(β)) / w(β).  The
bound is U(β) = exp(m(β) + q·w(β)) with q a conformal quantile (:mod:`msbgen.core.conformal`) of the
scores.

In a measured context its n runs are better evidence than all others.  Where they are enough for the
rate, n + 1 ≥ 1/α, the bound is their own conformal quantile.  With fewer it is at least their
largest.  If enough contexts have repeated runs, the bound is the mean of the context's runs plus a
conformal quantile of the deviations of runs from the mean of the others of their context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.conformal import (
    check_rate,
    conformal_quantile,
    group_quantile,
    groups_needed,
    least_rate,
)
from msbgen.core.draws import numbers_of
from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.records import checks_arguments
from msbgen.engine.bounds.choices import careful_log_time
from msbgen.engine.bounds.growth import level_growth
from msbgen.engine.bounds.left_out import LeftOut
from msbgen.engine.bounds.widths import LEAST_WIDTH, BandWidths, DurationWidths, Widths
from msbgen.engine.generate.cliffs import STEEPER, Cliff, find_cliffs

Floats = NDArray[np.float64]

# Parts that a band covers at once: all segments of a run, or one segment.
Holds = Literal["run", "segment"]

# Contexts bounded at a time: each has a weight of every known run.
_BLOCK = 512

# If all runs nearby are equal, the width is tiny, and scores are very large.  Such bounds are
# useless, but must not overflow.
_MOST_LOG = 700.0

# Share of the change across a gap between levels by which a prediction in it may be wrong: half
# way, a sudden change has happened or has not.
_CLIFF_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Calibration:
    """Bounds and bands from left-out predictions; quantiles are computed once.

    Attributes
    ----------
    left_out : LeftOut
    quantities : tuple of str
        Quantities of bands: "duration" [s], then every counter but the progress counter [events].
    chosen : bool
        Whether bounds are for contexts that are chosen by them
        (:mod:`msbgen.engine.bounds.choices`): errors downwards count as those upwards, and no time
        falls suddenly between levels.
    """

    left_out: LeftOut
    quantities: tuple[str, ...]
    chosen: bool = False

    def of_total(self, quantity: str) -> Calibration:
        """Calibration whose `duration_bound` bounds the total over a run of another quantity.

        ArgumentError where there is no such quantity, MeasurementError where some run counted none.
        """
        if quantity not in self.quantities:
            raise ArgumentError(
                f"quantity is {quoted(quantity)}; one of {', '.join(self.quantities)} is wanted."
            )
        return self._once(self._find_total, quantity)

    def _find_total(self, quantity: str) -> Calibration:
        return Calibration(self.left_out.of_total(self.quantities.index(quantity)), self.quantities)

    def duration_bound(self, contexts: ArrayLike, miscoverage: float) -> Floats:
        """Execution time [s] that a new run exceeds with probability at most `miscoverage`, (q,).

        At contexts (q, n_resources), for a rate α in (0, 1).  Smaller rates never give smaller
        bounds.  ArgumentError for contexts of the wrong form, or another rate; MeasurementError
        where more contexts are needed for this rate, with their number.
        """
        return self.durations(contexts, miscoverage)[1]

    def durations(self, contexts: ArrayLike, miscoverage: float) -> tuple[Floats, Floats]:
        """Expected execution times [s], and their bounds, (q,) each; as :meth:`duration_bound`."""
        groups_needed(miscoverage)  # an error for what is no rate
        left_out, query = self.left_out, numbers_of(contexts, "contexts")
        measured = left_out.measured(query)
        of_runs = self._once(self._find_bounds_of_runs, miscoverage)[0][measured]
        suffices = self.by_runs(query, miscoverage)
        if suffices.all():
            log_times = [left_out.query(block).log_time for block in _blocks(query)]
            return np.exp(np.concatenate(log_times)), of_runs
        self.check(miscoverage)
        if not left_out.n_contexts:
            raise MeasurementError(
                "one context was measured; bounds in others take 2 or more: measure more."
            )
        offset = self._once(self._find_duration_offset, miscoverage)
        parts = [self._expected(block) for block in _blocks(query)]
        log_time, width = map(np.concatenate, zip(*parts))
        centre = log_time
        if self.chosen:
            centre = careful_log_time(left_out, query, log_time)
        bound = np.exp(np.minimum(centre + offset * width, _MOST_LOG))
        bound = np.where(measured >= 0, np.maximum(bound, of_runs), bound)
        return np.exp(log_time), np.where(suffices, of_runs, bound)

    def by_runs(self, contexts: ArrayLike, miscoverage: float) -> NDArray[np.bool_]:
        """Contexts whose own runs, or repeated runs elsewhere, suffice for their bound, (q,)."""
        measured = self.left_out.measured(numbers_of(contexts, "contexts"))
        suffices = self._once(self._find_bounds_of_runs, miscoverage)[1]
        return suffices[measured] & (measured >= 0)

    def _find_bounds_of_runs(self, miscoverage: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Bounds by the runs of each known context [s], and whether they suffice, (n_known,) each.

        They suffice if the context has enough runs, or enough contexts have repeated runs.  Else
        the bound is the largest run; 0 without a complete one.
        """
        left_out, needed = self.left_out, groups_needed(miscoverage)
        log, context, n_runs = np.log(left_out.duration), left_out.run_context, left_out.n_runs
        bounds = np.zeros(len(n_runs))
        np.maximum.at(bounds, context, left_out.duration)
        repeated = n_runs > 1
        if repeated.sum() >= needed:
            mean = np.bincount(context, log, len(n_runs)) / np.maximum(n_runs, 1)
            some = repeated[context]
            n = n_runs[context[some]]
            deviation = (log - mean[context])[some] * n / (n - 1)
            quantile = group_quantile(deviation, context[some], miscoverage)
            bounds = np.where(repeated, np.maximum(bounds, np.exp(mean + quantile)), bounds)
        for i in np.flatnonzero(n_runs >= needed):
            runs = left_out.duration[context == i]
            bounds[i] = conformal_quantile(runs, np.ones(len(runs)), len(runs), miscoverage)
        suffices = n_runs >= needed
        return bounds, suffices | (repeated & (repeated.sum() >= needed))

    def _expected(self, contexts: Floats) -> tuple[Floats, Floats]:
        """Log of the expected time, and the width of its error, (q,) each."""
        query = self.left_out.query(contexts)
        return query.log_time, self._duration_widths.at(query)[:, 0]

    @checks_arguments
    def bands(
        self, contexts: ArrayLike, miscoverage: float, *, holds: Holds = "run"
    ) -> tuple[Floats, Floats]:
        """Band around the amounts of a new run in each segment of progress.

        Each quantity has a separate band.  The amounts of a run are those that
        `progress.deconvolve` computes with the predicted ones, `Centre.amounts`, as its prior,
        summed over segments.  With probability 1 − α the band covers all segments of a run at once,
        or each segment separately, as `holds` selects.  Bands of counts are wider between levels
        that may hide a cliff (:mod:`msbgen.engine.generate.cliffs`).  The lower and upper limits
        are (q, segments, k), in the order of `quantities` [s, events].  Contexts, rate and errors
        as :meth:`duration_bound`.
        """
        self.check(miscoverage)
        if not self.left_out.n_contexts:
            raise MeasurementError("one context was measured; bands take 2 or more: measure more.")
        query, floor = self.left_out.query(contexts), self.left_out.floor
        centre = np.log(query.predicted + floor)
        half = np.full_like(centre, LEAST_WIDTH)  # counts of zero must not fail by rounding
        for k in range(len(self.quantities)):
            offsets = self._once(self._find_band_offsets, miscoverage, k, holds)
            width = self._once(self._find_band_widths, k).at(query)
            half[..., k] = np.maximum(half[..., k], offsets * width)
        # counts may change at an unknown place between two levels
        half[..., 1:] = np.maximum(half, _cliff_errors(self.left_out, query.contexts))[..., 1:]
        lower = np.maximum(np.exp(centre - half) - floor, 0.0)
        return lower, np.exp(np.minimum(centre + half, _MOST_LOG)) - floor

    def beyond(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Contexts whose bounds are guesses: no left-out prediction reached as far, (q,).

        These are contexts farther from the known ones than any that was left out, and contexts at
        new levels of a resource where no such step was tested (`LeftOut.untested`).
        """
        left_out = self.left_out
        if not left_out.n_contexts:
            return left_out.measured(numbers_of(contexts, "contexts")) < 0
        return (left_out.query(contexts).deviation > left_out.deviation.max()) | left_out.untested(
            contexts
        )

    def check(self, miscoverage: float) -> None:
        """Raise the errors of :meth:`duration_bound` for a rate that it does not take."""
        n_runs = len(self.left_out.duration)
        if self.left_out.n_contexts:
            check_rate(miscoverage, self.left_out.n_contexts, n_runs)
        elif n_runs < (needed := groups_needed(miscoverage)):
            raise MeasurementError(
                f"miscoverage is {miscoverage:g}; at least {needed} runs of the context are "
                f"wanted, and there are {n_runs}, which support {least_rate(n_runs):g}."
            )

    # Values that do not depend on the query are computed once and kept.

    @cached_property
    def _memory(self) -> dict[tuple[object, ...], Any]:
        return {}

    def _once(self, compute: Callable[..., Any], *args: object) -> Any:
        """Result of `compute` with these arguments, computed at the first call."""
        key = (compute.__name__, *args)
        if key not in self._memory:
            self._memory[key] = compute(*args)
        return self._memory[key]

    @cached_property
    def _duration_widths(self) -> Widths | DurationWidths:
        left_out, durations = self.left_out, self.left_out.centre.durations
        error = left_out.log_time - left_out.left_out_rows.log_time[left_out.row]
        if durations and durations.has_line and left_out.bounded == 0:
            return DurationWidths(left_out, durations, error[:, None])
        return Widths(left_out, error[:, None], np.ones(len(error), dtype=bool))

    def _find_duration_offset(self, miscoverage: float) -> float:
        scores = self._duration_widths.scores
        scores = np.abs(scores) if self.chosen else scores
        return float(self._quantiles(scores, self.left_out.share, miscoverage)[0])

    def _find_band_widths(self, quantity: int) -> BandWidths:
        left_out = self.left_out
        floor, predicted = left_out.floor[quantity], left_out.predicted[..., quantity][left_out.row]
        state = np.nan_to_num(left_out.state[..., quantity], nan=0.0)
        missing = np.isnan(left_out.state[..., quantity])
        error = np.log((state + floor) / (predicted + floor))
        smooth = np.log(_with_neighbours(state + floor) / _with_neighbours(predicted + floor))
        # a missing count has no error
        error, smooth = (np.where(missing, 0.0, values) for values in (error, smooth))
        cliffs = self._once(self._find_cliffs)
        own = frozenset(cliff.resource for cliff in cliffs if cliff.quantity == quantity)
        growth = self._once(level_growth, left_out)[quantity]
        return BandWidths(left_out, error, left_out.measuring(quantity)[0], smooth, growth, own)

    def _find_cliffs(self) -> tuple[Cliff, ...]:
        """Gaps between known levels in which a count may change suddenly."""
        left_out = self.left_out
        contexts = left_out.trend.contexts

        def totals(at: Floats) -> Floats:
            return (left_out.query(at).predicted + left_out.floor).sum(axis=1)

        return find_cliffs(contexts, totals, range(contexts.shape[1]))

    def _find_band_offsets(self, miscoverage: float, quantity: int, holds: Holds) -> Floats:
        """Half-width of the band in widths, (segments,), or (1,) for all segments at once."""
        score = np.abs(self._once(self._find_band_widths, quantity).scores)
        if holds == "run":
            score = score.max(axis=1, keepdims=True)
        rows, share = self.left_out.like_new(quantity)
        return self._quantiles(score[rows], share, miscoverage)

    def _quantiles(self, scores: Floats, share: Floats, miscoverage: float) -> Floats:
        """Conformal quantile of each column of scores (runs, parts) with weights, (parts,)."""
        n = self.left_out.n_contexts
        return np.array([conformal_quantile(score, share, n, miscoverage) for score in scores.T])


def _with_neighbours(values: Floats) -> Floats:
    """Sums over each column of values (n, parts) and those beside it, three in all."""
    parts = values.shape[1]
    first = np.clip(np.arange(parts) - 1, 0, max(parts - 3, 0))
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    return sums[:, np.minimum(first + 3, parts)] - sums[:, first]


def _blocks(query: Floats) -> list[Floats]:
    return [query[i : i + _BLOCK] for i in range(0, max(len(query), 1), _BLOCK)]


def _cliff_errors(left_out: LeftOut, contexts: Floats) -> Floats:
    """Errors that sudden changes between levels may cause, (q, segments, k), in logarithms.

    Half of the predicted change of amounts across the gap of a resource's level, where that is more
    than twice the changes across the gaps beside it; the largest of the resources.  0 at measured
    levels, and outside of them.
    """
    known, floor = left_out.trend.contexts, left_out.floor
    errors = np.zeros((len(contexts), left_out.segments, left_out.predicted.shape[2]))
    for r, new in enumerate(left_out.query(contexts).new.T):
        levels = np.unique(known[:, r])
        rows = np.flatnonzero(new & (contexts[:, r] > levels[0]) & (contexts[:, r] < levels[-1]))
        if len(levels) < 3 or not len(rows):
            continue
        below = np.searchsorted(levels, contexts[rows, r]) - 1
        logs = []
        for step in (-1, 0, 1, 2):  # beyond the ends nothing changes
            at = contexts[rows].copy()
            at[:, r] = levels[np.clip(below + step, 0, len(levels) - 1)]
            logs.append(np.log(left_out.query(at).predicted + floor))
        before, change, after = np.abs(np.diff(np.stack(logs), axis=0))
        cliff = change > STEEPER * np.maximum(before, after)
        errors[rows] = np.maximum(errors[rows], np.where(cliff, _CLIFF_SHARE * change, 0.0))
    return errors
