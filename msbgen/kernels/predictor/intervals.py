"""Conformal intervals of runtimes: kind by kind, whole kernels left out.

Exchangeable are kernels of one kind, with their measurements nested in them
(:mod:`msbgen.core.conformal`).  A score is how far the logarithm of a runtime falls from what a
fit that never saw its kernel says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.conformal import check_rate
from msbgen.core.contexts import weighted_quantile
from msbgen.kernels.dataset import has_power, kernels_of, powers_of, runtimes_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scores:
    """How far left-out kernels fell from what was said of them.

    Attributes
    ----------
    kind : ndarray of str, (n,)
    kernel : ndarray of int, (n,)
    runtime, power : ndarray, (n,)
        |log said − log true|; NaN where no meter was read.
    """

    kind: NDArray[np.str_]
    kernel: Indices
    runtime: Floats
    power: Floats

    @classmethod
    def none(cls) -> Scores:
        """Of no kernels."""
        empty = np.empty(0)
        return cls(np.empty(0, dtype=str), np.empty(0, dtype=np.int64), empty, empty)

    @classmethod
    def of(cls, runs: xr.Dataset, seconds: Floats, watts: Floats) -> Scores:
        """Scores of measurements, given what was said of them, (n,) each; NaN where nothing was."""
        told = np.isfinite(seconds)
        off = np.abs(np.log(seconds) - np.log(runtimes_of(runs)))
        power = np.full(len(off), np.nan)
        if has_power(runs):
            power = np.abs(np.log(watts) - np.log(powers_of(runs)))
        words, kernel = runs["kind"].values.astype(str), kernels_of(runs).of
        return cls(words[told], kernel[told], off[told], power[told])


def half_width(scores: Scores, kind: str, miscoverage: float) -> float:
    """Half width of the interval of a log runtime of a kind.

    Raises
    ------
    ArgumentError, MeasurementError
        A rate that is none, or that the kernels of the kind do not support.
    """
    rows = np.flatnonzero(scores.kind == kind)
    unit = np.unique(scores.kernel[rows], return_inverse=True)[1].reshape(-1)
    n = int(unit.max()) + 1 if len(rows) else 0
    check_rate(miscoverage, n, len(rows), f"kernels of kind '{kind}'")
    share = (1.0 / np.bincount(unit))[unit][None]
    level = min((1.0 - miscoverage) * (1.0 + 1.0 / n), 1.0)
    return float(weighted_quantile(scores.runtime[rows], share, level)[0, 0])
