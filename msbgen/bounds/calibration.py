"""Bounds on execution times and bands around profiles, from predictions of left-out contexts.

U(β) such that a new run in a new context β ends by U(β) [s] with probability 1 − α, whatever the
law of the noise and of the trend's error: the score of a left-out run is how far it exceeds a head
(:mod:`msbgen.bounds.heads`), s = (log T − m(β)) / w(β), and U(β) = exp(m(β) + q·w(β)) with q a
conformal quantile (:mod:`msbgen.conformal`) of the scores in the pool of β, near or far.  The
tightest head is chosen on the same scores that calibrate it (Pitot, Section 3.5, "Optimal Quantile
Choice"); with few heads the optimism is of the order of 1/n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.bounds.heads import NARROW, BandHeads, DurationHeads, tightest
from msbgen.bounds.heldout import HeldOut
from msbgen.conformal import Pools, check_rate, rungs
from msbgen.errors import ArgumentError

Floats = NDArray[np.float64]

# What a band holds at once: all segments of a run, or one at a time.
Holds = Literal["run", "segment"]

# Contexts bounded at a time: each is weighed against every known run.
_BLOCK = 512

# Where all runs nearby are equal a head is very narrow, and others are very many widths away:
# what it says of them is useless, but must not overflow.
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
        steps = self._duration_steps(miscoverage)
        asked = np.asarray(contexts, dtype=np.float64)
        if len(asked) <= _BLOCK:
            return self._largest_bound(steps, asked)
        blocks = [asked[i : i + _BLOCK] for i in range(0, len(asked), _BLOCK)]
        return np.concatenate([self._largest_bound(steps, block) for block in blocks])

    def _largest_bound(self, steps: dict[str, Floats], contexts: Floats) -> Floats:
        places = self.held.at(contexts)
        far = self._pools.far(places.doubt)
        margin = np.full(len(far), -np.inf)
        for head, offsets in reversed(steps.items()):  # coarser rates seldom matter
            offset = offsets[far]
            if np.all(self._heads.most(head, offset, places.doubt) + 1e-9 <= margin):
                continue
            location, width = self._heads.at(head, places)
            margin = np.maximum(margin, location - places.log_time + offset * width)
        return np.exp(np.minimum(places.log_time + margin, _MOST_LOG))

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
            wanted = " or ".join(get_args(Holds))
            raise ArgumentError(f"holds is {holds!r}; {wanted} is wanted.")
        places, floor = self.held.at(contexts), self.held.floor
        far, centre = self._pools.far(places.doubt), np.log(places.predicted + floor)
        half = np.full_like(centre, NARROW)  # what is never seen must not fail by rounding
        for k in range(len(self.quantities)):
            for head, offsets in self._band_steps(miscoverage, k, holds).items():
                width = self._band_heads.at(head, places)[..., k]
                half[..., k] = np.maximum(half[..., k], offsets[far] * width)
        lower = np.maximum(np.exp(centre - half) - floor, 0.0)
        return lower, np.exp(np.minimum(centre + half, _MOST_LOG)) - floor

    def beyond(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Where bounds are guesses: no left-out prediction had to reach as far.

        Contexts that are farther from the known ones than any that was left out, and those at
        levels of a resource that are new where no such step was tried (`HeldOut.untried`).
        """
        far = self.held.at(contexts).doubt > self.held.doubt.max()
        return far | self.held.untried(contexts)

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
        return self._chosen_band_head(miscoverage, quantity, holds)

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
    def _heads(self) -> DurationHeads:
        return DurationHeads(self.held)

    @cached_property
    def _band_heads(self) -> BandHeads:
        return BandHeads(self.held)

    @cached_property
    def _pools(self) -> Pools:
        return Pools(self.held.doubt, self.held.weight, self.held.context)

    def _check(self, miscoverage: float) -> None:
        check_rate(miscoverage, self.held.n_contexts, len(self.held.duration))

    def _duration_steps(self, miscoverage: float) -> dict[str, Floats]:
        """The heads of all rungs, each with its largest quantiles, near and far."""
        return self._once(self._find_duration_steps, miscoverage)

    def _find_duration_steps(self, miscoverage: float) -> dict[str, Floats]:
        self._check(miscoverage)
        steps: dict[str, Floats] = {}
        for rate, asked in rungs(miscoverage, self.held.n_contexts):
            head = self._chosen_head(rate)
            offsets = self._offsets(head, rate, asked)
            steps[head] = np.maximum(steps.get(head, -np.inf), offsets)
        return steps

    def _chosen_head(self, rate: float) -> str:
        return self._once(self._find_head, rate)

    def _find_head(self, rate: float) -> str:
        held, margins = self.held, []
        far = self._pools.far(held.doubt)
        for name in self._heads.names:
            location, width = self._heads.at(name, held.rows)
            bound = location + self._offsets(name, rate, rate)[far] * width
            over = np.minimum(bound[held.row] - held.log_time, _MOST_LOG)
            margins.append(float(held.share @ np.expm1(over)))
        return tightest(self._heads.names, margins)

    def _offsets(self, head: str, rate: float, asked: float) -> Floats:
        """Conformal quantiles of a duration head's scores, near and far, (2,)."""
        held = self.held
        return self._pools.quantiles(self._heads.scores(head), held.row, held.share, rate, asked)

    def _band_steps(self, miscoverage: float, quantity: int, holds: Holds) -> dict[str, Floats]:
        """The band heads of all rungs, each with its largest quantiles, (2, segments or 1)."""
        return self._once(self._find_band_steps, miscoverage, quantity, holds)

    def _find_band_steps(
        self, miscoverage: float, quantity: int, holds: Holds
    ) -> dict[str, Floats]:
        self._check(miscoverage)
        steps: dict[str, Floats] = {}
        for rate, asked in rungs(miscoverage, self.held.n_contexts):
            head = self._chosen_band_head(rate, quantity, holds)
            offsets = self._band_offsets(head, quantity, holds, rate, asked)
            steps[head] = np.maximum(steps.get(head, -np.inf), offsets)
        return steps

    def _chosen_band_head(self, rate: float, quantity: int, holds: Holds) -> str:
        return self._once(self._find_band_head, rate, quantity, holds)

    def _find_band_head(self, rate: float, quantity: int, holds: Holds) -> str:
        far, widths = self._pools.far(self.held.doubt), []
        for name in self._band_heads.names:
            offset = self._band_offsets(name, quantity, holds, rate, rate)[far]
            half = offset * self._band_heads.left_out(name)[..., quantity]
            widths.append(float(self.held.weight @ half.mean(axis=1)))
        return tightest(self._band_heads.names, widths)

    def _band_offsets(
        self, head: str, quantity: int, holds: Holds, rate: float, asked: float
    ) -> Floats:
        """Conformal quantiles of a band head's scores, near and far, (2, segments or 1)."""
        held, score = self.held, self._band_heads.scores(head, quantity)
        if holds == "run":
            score = score.max(axis=1, keepdims=True)
        own, share = held.holding(quantity)
        columns = [
            self._pools.quantiles(column, held.row[own], share, rate, asked)
            for column in score[own].T
        ]
        return np.stack(columns, axis=1)
