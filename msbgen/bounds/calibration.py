"""Bounds on execution times and bands around profiles, from predictions of left-out contexts.

U(β) such that a new run in a new context β ends by U(β) [s] with probability 1 − α, whatever the
law of the noise and of the prediction's error: the score of a left-out run is how far it exceeds
the prediction in widths (:mod:`msbgen.bounds.widths`), s = (log T − m(β)) / w(β), and
U(β) = exp(m(β) + q·w(β)) with q a conformal quantile (:mod:`msbgen.core.conformal`) of the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.bounds.heldout import HeldOut
from msbgen.bounds.widths import NARROW, Widths
from msbgen.core.conformal import check_rate, conformal_quantile
from msbgen.core.errors import ArgumentError

Floats = NDArray[np.float64]

# What a band holds at once: all segments of a run, or one at a time.
Holds = Literal["run", "segment"]

# Contexts bounded at a time: each is weighed against every known run.
_BLOCK = 512

# Where all runs nearby are equal the width is tiny, and others are very many widths away: what is
# said of them is useless, but must not overflow.
_MOST_LOG = 700.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """The bounds that follow from left-out predictions; answers at once from memory.

    Attributes
    ----------
    held : HeldOut
    quantities : tuple of str
        What bands are for: "duration" [s], then every counter but the clock [events].
    """

    held: HeldOut
    quantities: tuple[str, ...]

    def of_total(self, quantity: str) -> Calibration:
        """Bounds on the total over a run of another quantity: `duration_bound` is in its unit.

        Raises
        ------
        ArgumentError
            No such quantity.
        MeasurementError
            Some run counted nothing of it.
        """
        if quantity not in self.quantities:
            raise ArgumentError(
                f"quantity is {quantity!r}; one of {', '.join(self.quantities)} is wanted."
            )
        return self._once(self._find_total, quantity)

    def _find_total(self, quantity: str) -> Calibration:
        return Calibration(self.held.of_total(self.quantities.index(quantity)), self.quantities)

    def duration_bound(self, contexts: ArrayLike, miscoverage: float) -> Floats:
        """Execution time [s] that a new run exceeds with probability at most `miscoverage`.

        Parameters
        ----------
        contexts : array_like, (q, n_resources)
        miscoverage : float
            α in (0, 1).  Smaller rates never give smaller bounds.

        Returns
        -------
        ndarray, (q,)

        Raises
        ------
        ArgumentError
            Contexts of the wrong form; a rate that is none.
        MeasurementError
            A rate that the known contexts cannot support, with the number of runs that it needs.
        """
        self.check(miscoverage)
        offset = self._once(self._find_duration_offset, miscoverage)
        asked = np.asarray(contexts, dtype=np.float64)
        blocks = [asked[i : i + _BLOCK] for i in range(0, max(len(asked), 1), _BLOCK)]
        return np.concatenate([self._at(block, offset) for block in blocks])

    def _at(self, contexts: Floats, offset: float) -> Floats:
        places = self.held.at(contexts)
        width = self._duration_widths.at(places)[:, 0]
        return np.exp(np.minimum(places.log_time + offset * width, _MOST_LOG))

    def bands(
        self, contexts: ArrayLike, miscoverage: float, *, holds: Holds = "run"
    ) -> tuple[Floats, Floats]:
        """Band around the amounts that a new run spends in each segment of progress.

        Each quantity has a band by itself.  The amounts of a run are those that `clock.sharpen`
        finds with the predicted ones, `Centre.amounts`, as its prior, summed over segments.

        Parameters
        ----------
        contexts, miscoverage
            As :meth:`duration_bound`, and its errors.
        holds : {"run", "segment"}
            The band holds with probability 1 − α all segments of a run at once, or each segment
            by itself.

        Returns
        -------
        lower, upper : ndarray, (q, segments, k)
            Amounts per segment, in the order of `quantities` [s, events].
        """
        if holds not in get_args(Holds):
            wanted = " or ".join(get_args(Holds))
            raise ArgumentError(f"holds is {holds!r}; {wanted} is wanted.")
        self.check(miscoverage)
        places, floor = self.held.at(contexts), self.held.floor
        centre = np.log(places.predicted + floor)
        half = np.full_like(centre, NARROW)  # what is never seen must not fail by rounding
        for k in range(len(self.quantities)):
            offsets = self._once(self._find_band_offsets, miscoverage, k, holds)
            width = self._once(self._find_band_widths, k).at(places)
            half[..., k] = np.maximum(half[..., k], offsets * width)
        lower = np.maximum(np.exp(centre - half) - floor, 0.0)
        return lower, np.exp(np.minimum(centre + half, _MOST_LOG)) - floor

    def beyond(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Where bounds are guesses: no left-out prediction had to reach as far.

        Contexts that are farther from the known ones than any that was left out, and those at
        levels of a resource that are new where no such step was tried (`HeldOut.untried`).
        """
        far = self.held.at(contexts).doubt > self.held.doubt.max()
        return far | self.held.untried(contexts)

    def check(self, miscoverage: float) -> None:
        """Refuse what is no rate, or one that the known contexts cannot support.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`duration_bound`.
        """
        check_rate(miscoverage, self.held.n_contexts, len(self.held.duration))

    # What does not depend on the contexts asked for is found once and kept.

    @cached_property
    def _memory(self) -> dict[tuple[object, ...], Any]:
        return {}

    def _once(self, find: Callable[..., Any], *about: object) -> Any:
        """What `find` says of these arguments, from memory where it was asked before."""
        key = (find.__name__, *about)
        if key not in self._memory:
            self._memory[key] = find(*about)
        return self._memory[key]

    @cached_property
    def _duration_widths(self) -> Widths:
        held = self.held
        error = held.log_time - held.rows.log_time[held.row]
        return Widths(held, error[:, None], np.ones(len(error), dtype=bool), placed=False)

    def _find_duration_offset(self, miscoverage: float) -> float:
        return float(self._quantiles(self._duration_widths.scores, self.held.share, miscoverage)[0])

    def _find_band_widths(self, quantity: int) -> Widths:
        held = self.held
        predicted = (held.predicted + held.floor)[held.row]
        error = np.log((held.state + held.floor) / predicted)[..., quantity]
        # a hole in a counter says nothing
        error = np.where(np.isfinite(error), error, 0.0)
        return Widths(held, error, held.holding(quantity)[0], placed=True)

    def _find_band_offsets(self, miscoverage: float, quantity: int, holds: Holds) -> Floats:
        """How many widths the band is to either side, (segments,), or (1,) for all at once."""
        score = np.abs(self._once(self._find_band_widths, quantity).scores)
        if holds == "run":
            score = score.max(axis=1, keepdims=True)
        own, share = self.held.holding(quantity)
        return self._quantiles(score[own], share, miscoverage)

    def _quantiles(self, scores: Floats, share: Floats, miscoverage: float) -> Floats:
        """Of each column of scores (runs, parts) that count their share, (parts,)."""
        n = self.held.n_contexts
        return np.array([conformal_quantile(score, share, n, miscoverage) for score in scores.T])
