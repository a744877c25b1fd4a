"""Calibration of bounds: conformal quantiles of the scores of cells that were left out of a fit.

A bound is a predicted log runtime plus an offset times a width.  The offset is the conformal
quantile of (log runtime − prediction) / width over runs of left-out cells
(:mod:`msbgen.core.conformal`).  Prediction and width are chosen for the tightest bounds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOG_TIMES, POSITIVE, Stored
from msbgen.core.conformal import (
    check_rate,
    conformal_quantile,
    group_weights,
    least_rate,
    rate_steps,
)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Share by which another choice must be tighter than one before it.
_GAIN = 0.01


@dataclass(frozen=True, eq=False)
class CalibrationPool:
    """Left-out runs with one number of neighbours.

    Log runtimes are (n,), predictions of them (1 + quantiles, n), widths (widths, n): those of
    :data:`msbgen.runtimes.spread.WIDTHS`, or the first for the preset of the paper. `unit` (n,)
    numbers the exchangeable units from 0.
    """

    log_runtime: Annotated[Floats, Stored(("run",), LOG_TIMES)]
    prediction: Annotated[Floats, Stored(("head", "run"), LOG_TIMES)]
    width: Annotated[Floats, Stored(("width", "run"), POSITIVE)]
    unit: Annotated[Indices, Stored(("run",), dtype="i8", below="run")]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored pool."""
        if not len(self.unit) or self.n_units != len(np.unique(self.unit)):
            yield "unit", self.unit, "an array that counts from 0"

    @property
    def n_units(self) -> int:
        """Number of exchangeable units."""
        return int(self.unit.max()) + 1

    @property
    def least_rate(self) -> float:
        """Smallest miscoverage that the units support, rounded up to four digits."""
        return least_rate(self.n_units)

    def offsets(self, miscoverage: float) -> list[tuple[float, int, int]]:
        """Offset, number of the prediction and number of the width, for every step of a rate."""
        if miscoverage not in self._cache:
            n_runs, cells = len(self.log_runtime), "cells with as many neighbours"
            check_rate(miscoverage, self.n_units, n_runs, cells)
            steps = rate_steps(miscoverage, self.n_units)
            self._cache[miscoverage] = [self._tightest(*rates) for rates in steps]
        return self._cache[miscoverage]

    @cached_property
    def _cache(self) -> dict[float, list[tuple[float, int, int]]]:
        return {}

    @cached_property
    def _weights(self) -> Floats:
        return group_weights(self.unit)

    def _tightest(self, rate: float, final_rate: float) -> tuple[float, int, int]:
        """Offset at the final rate, with the choice that has the least mean margin at a rate."""
        best, chosen = np.inf, (0, 0)
        for location in range(len(self.prediction)):
            for width in range(len(self.width)):
                offset = self._offset(location, width, rate)
                bound = self.prediction[location] + offset * self.width[width]
                with np.errstate(over="ignore"):  # of an edited model
                    margin = float(np.maximum(np.expm1(bound - self.log_runtime), 0.0).mean())
                if margin < (1.0 - _GAIN) * best:
                    best, chosen = margin, (location, width)
        return self._offset(*chosen, final_rate), *chosen

    def _offset(self, location: int, width: int, rate: float) -> float:
        score = (self.log_runtime - self.prediction[location]) / self.width[width]
        return conformal_quantile(score, self._weights, self.n_units, rate)


def join_pools(parts: Sequence[dict[int, CalibrationPool]]) -> dict[int, CalibrationPool]:
    """Pools by number of neighbours, from those of several fits that left other units out."""
    joined = {}
    for degree in sorted({degree for part in parts for degree in part}):
        pools = [part[degree] for part in parts if degree in part]
        before = np.cumsum([0, *(pool.n_units for pool in pools)])
        joined[degree] = CalibrationPool(
            np.concatenate([pool.log_runtime for pool in pools]),
            np.concatenate([pool.prediction for pool in pools], axis=1),
            np.concatenate([pool.width for pool in pools], axis=1),
            np.concatenate([pool.unit + n for pool, n in zip(pools, before)]),
        )
    return joined
