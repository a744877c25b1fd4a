"""Bounds on execution times and bands around profiles, from predictions of left-out contexts.

U(β) such that a new run in a new context β ends by U(β) [s] with probability 1 − α, whatever the
law of the noise and of the trend's error: the score of a left-out run is how far it exceeds a head
(:mod:`msbgen.bounds.heads`), s = (log T − m(β)) / w(β), and U(β) = exp(m(β) + q·w(β)) with q a
conformal quantile (:mod:`msbgen.conformal`) of the scores in the pool of β, near or far.  The
tightest head is chosen on the same scores that calibrate it (Pitot, Section 3.5, "Optimal Quantile
Choice"); with few heads the optimism is of the order of 1/n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.bounds.heads import NARROW, BandHeads, DurationHeads, tightest
from msbgen.bounds.heldout import HeldOut
from msbgen.conformal import Pools, check_rate, rungs

Floats = NDArray[np.float64]

# What a band holds at once: all segments of a run, or one at a time.
Holds = Literal["run", "segment"]


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
        ValueError
            Contexts of the wrong form; a rate that the known contexts cannot support, with the
            number of runs that it needs.
        """
        steps = self._duration_steps(miscoverage)
        near, doubt = self.held.near(contexts), self.held.doubt_at(contexts)
        centre = np.log(self.held.trend.predict(contexts)[..., 0].sum(axis=1))
        log_bound = np.full(len(centre), -np.inf)
        for rate, head, offsets in steps:
            location, width = self._heads.at(head, near, centre, doubt)
            offset = offsets[self._pools.place(doubt, rate)]
            log_bound = np.maximum(log_bound, location + offset * width)
        return np.exp(log_bound)

    def bands(
        self, contexts: ArrayLike, miscoverage: float, *, holds: Holds = "run"
    ) -> tuple[Floats, Floats]:
        """Band around the amounts that a new run spends in each segment of progress.

        Each quantity has a band by itself.  The amounts of a run are those that `clock.sharpen`
        finds with ``trend.predict`` as its prior, summed over segments.

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
            raise ValueError(f"holds is {holds!r}; one of {', '.join(get_args(Holds))} is wanted.")
        self._check(miscoverage)
        near, doubt = self.held.near(contexts), self.held.doubt_at(contexts)
        centre = np.log(self.held.in_segments(contexts) + self.held.floor)
        widths = {name: self._band_heads.at(name, near) for name in self._band_heads.names}
        half = np.full_like(centre, NARROW)  # what is never seen must not fail by rounding
        for rate, asked in rungs(miscoverage, self.held.n_contexts):
            pool = self._pools.place(doubt, rate)
            for k in range(len(self.quantities)):
                head = self.band_head(rate, k, holds=holds)
                offset = self._band_offsets(head, k, holds, rate, asked)[pool]
                half[..., k] = np.maximum(half[..., k], offset * widths[head][..., k])
        lower = np.maximum(np.exp(centre - half) - self.held.floor, 0.0)
        return lower, np.exp(centre + half) - self.held.floor

    def beyond(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Where contexts are farther away than any left-out one: bounds are guesses there."""
        return self.held.doubt_at(contexts) > self.held.doubt.max()

    def head(self, miscoverage: float) -> str:
        """The head whose calibrated bounds are the tightest over the left-out runs.

        The least mean over-provisioning, mean of bound / measured − 1; out of
        :data:`msbgen.bounds.heads.HEADS`.
        """
        self._check(miscoverage)
        return self._chosen_head(miscoverage)

    def band_head(self, miscoverage: float, quantity: int, *, holds: Holds = "run") -> str:
        """The head of the narrowest bands of a quantity over the left-out runs, mean of logs."""
        self._check(miscoverage)
        key = ("band", miscoverage, quantity, holds)
        if key not in self._memory:
            pool = self._pools.place(self.held.doubt, miscoverage)
            widths = []
            for name in self._band_heads.names:
                offset = self._band_offsets(name, quantity, holds, miscoverage, miscoverage)[pool]
                half = offset * self._band_heads.left_out(name)[..., quantity]
                widths.append(float(self.held.weight @ half.mean(axis=1)))
            self._memory[key] = tightest(self._band_heads.names, widths)
        return self._memory[key]

    # What does not depend on the contexts asked for is found once and kept.

    @cached_property
    def _memory(self) -> dict:
        return {}

    @cached_property
    def _heads(self) -> DurationHeads:
        return DurationHeads(self.held)

    @cached_property
    def _band_heads(self) -> BandHeads:
        return BandHeads(self.held)

    @cached_property
    def _pools(self) -> Pools:
        return Pools(self.held.doubt, self.held.weight, self.held.context)

    def _duration_steps(self, miscoverage: float) -> list[tuple[float, str, Floats]]:
        """For every rung: its rate, its head, and the quantile of every pool."""
        self._check(miscoverage)
        key = ("duration", miscoverage)
        if key not in self._memory:
            steps = []
            for rate, asked in rungs(miscoverage, self.held.n_contexts):
                head = self._chosen_head(rate)
                steps.append((rate, head, self._offsets(head, rate, asked)))
            self._memory[key] = steps
        return self._memory[key]

    def _chosen_head(self, rate: float) -> str:
        key = ("head", rate)
        if key not in self._memory:
            held, margins = self.held, []
            pool = self._pools.place(held.doubt, rate)
            for name in self._heads.names:
                location, width = self._heads.left_out(name)
                bound = location + self._offsets(name, rate, rate)[pool] * width
                margins.append(float(held.share @ np.expm1(bound[held.row] - held.log_time)))
            self._memory[key] = tightest(self._heads.names, margins)
        return self._memory[key]

    def _offsets(self, head: str, rate: float, asked: float) -> Floats:
        """Conformal quantile of a duration head's scores in every pool, (pools,)."""
        held = self.held
        return self._pools.quantiles(self._heads.scores(head), held.row, held.share, rate, asked)

    def _band_offsets(
        self, head: str, quantity: int, holds: Holds, rate: float, asked: float
    ) -> Floats:
        """Conformal quantiles of a band head's scores, (pools, segments or 1)."""
        held, score = self.held, self._band_heads.scores(head, quantity)
        if holds == "run":
            score = score.max(axis=1, keepdims=True)
        columns = [
            self._pools.quantiles(column, held.row, held.share, rate, asked) for column in score.T
        ]
        return np.stack(columns, axis=1)

    def _check(self, miscoverage: float) -> None:
        check_rate(miscoverage, self.held.n_contexts, len(self.held.duration))
