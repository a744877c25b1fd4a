"""Splits of observations into training and test data: by rows, by runs, by cells.

Rows, as in the paper, may separate observations of one run.  Runs keep them together.  Cells hold
out all observations of a workload on a platform, as for a pair that was never measured.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError

Split = Literal["rows", "runs", "cells"]
SPLITS: tuple[str, ...] = get_args(Split)


def units_of(runs: NDArray[np.int64], run: ArrayLike, split: str) -> NDArray[np.int64]:
    """Number of the unit of each observation, (n,); units are held out as a whole.

    The runs are (n, 2 + slots); observations with one number `run` (n,) were made together.
    """
    if split not in SPLITS:
        raise ArgumentError(f"split is {split!r}; one of {', '.join(SPLITS)} is wanted.")
    if split == "rows":
        return np.arange(len(runs))
    key = np.asarray(run) if split == "runs" else runs[:, 0] * (runs[:, 1].max() + 1) + runs[:, 1]
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def hold_out(
    unit: NDArray[np.int64], share: float, rng: np.random.Generator | int = 0
) -> NDArray[np.bool_]:
    """Whether each observation is for training, (n,), when a share of the units is."""
    if not 0 < share < 1:
        raise ArgumentError(f"share is {share}; a number between 0 and 1 is wanted.")
    rng = generator(rng)
    return (rng.random(int(unit.max()) + 1) < share)[unit]


def split_calibration(
    runs: NDArray[np.int64],
    unit: NDArray[np.int64],
    training: NDArray[np.bool_],
    share: float,
    rng: np.random.Generator | int = 0,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Split training data into observations to fit and observations to calibrate with, (n,) each.

    A share of the units (:func:`units_of`) is to calibrate with; units stay whole. Every workload
    and platform that was observed alone stays in the data to fit, if necessary with more than its
    share.
    """
    calibration = training & ~hold_out(unit, 1.0 - share, rng)
    fitted = training & ~calibration
    alone = (runs[:, 2:] >= 0).sum(axis=1) == 0
    for column in (0, 1):
        missing = np.setdiff1d(runs[training & alone, column], runs[fitted & alone, column])
        back = training & np.isin(runs[:, column], missing)
        fitted |= training & np.isin(unit, unit[back])
    return fitted, calibration & ~fitted
