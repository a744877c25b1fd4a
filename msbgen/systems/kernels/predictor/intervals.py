"""Conformal intervals of runtimes, kind by kind, from kernels that are left out.

Kernels of one kind are exchangeable groups of measurements (:mod:`msbgen.core.conformal`).  A
score is the absolute error of a log runtime, predicted by a fit without the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, Stored
from msbgen.core.conformal import check_rate, group_quantile
from msbgen.systems.kernels.dataset import has_power, kernels_of, powers_of, runtimes_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of predictions of left-out kernels, (n,) each.

    Those of runtime and power are |log predicted − log measured|, NaN where power was not measured.
    """

    kind: tuple[str, ...]
    kernel: Annotated[Indices, Stored(("n",), dtype="i8")]
    runtime: Annotated[Floats, Stored(("n",), NOT_NEGATIVE)]
    power: Annotated[Floats, Stored(("n",), NOT_NEGATIVE, missing=True)]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored scores."""
        if len(self.kind) != len(self.kernel):
            yield "kind", f"of {len(self.kind)}", str(len(self.kernel))

    @classmethod
    def none(cls) -> Scores:
        """Scores of a predictor that is not calibrated."""
        empty = np.empty(0)
        return cls((), np.empty(0, dtype=np.int64), empty, empty)

    @classmethod
    def of(cls, runs: xr.Dataset, seconds: Floats, watts: Floats) -> Scores:
        """Scores of measurements, given predictions (n,) that are NaN where there is none."""
        predicted = np.isfinite(seconds)
        off = np.abs(np.log(seconds) - np.log(runtimes_of(runs)))
        power = np.full(len(off), np.nan)
        if has_power(runs):
            power = np.abs(np.log(watts) - np.log(powers_of(runs)))
        words, kernel = runs["kind"].values.astype(str), kernels_of(runs).of
        return cls(
            tuple(words[predicted].tolist()), kernel[predicted], off[predicted], power[predicted]
        )


def half_width(scores: Scores, kind: str, miscoverage: float) -> float:
    """Half width of the interval of a log runtime of a kind.

    A rate that the kernels of the kind do not support raises :class:`MeasurementError`.
    """
    rows = np.array(scores.kind) == kind
    kernels = scores.kernel[rows]
    n_kernels = len(np.unique(kernels))
    check_rate(miscoverage, n_kernels, len(kernels), f"kernels of kind '{kind}'")
    return group_quantile(scores.runtime[rows], kernels, miscoverage)
