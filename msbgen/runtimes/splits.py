"""Ways to hold observations back: by rows, by runs, by cells.

Rows, as in the paper, put the halves of a run on both sides; runs keep together what was measured
together; cells hold everything of a workload on a platform back, which is what users face.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError

Split = Literal["rows", "runs", "cells"]
SPLITS: tuple[str, ...] = get_args(Split)


def units_of(runs: NDArray[np.int64], run: ArrayLike, split: str) -> NDArray[np.int64]:
    """What is held back as a whole: a number for each observation, (n,).

    Parameters
    ----------
    runs : ndarray of int, (n, 2 + slots)
        Workload, platform and neighbours.
    run : array_like of int, (n,)
        Observations of one run were made together.
    split : {"rows", "runs", "cells"}
    """
    if split not in SPLITS:
        raise ArgumentError(f"split is {split!r}; one of {', '.join(SPLITS)} is wanted.")
    if split == "rows":
        return np.arange(len(runs))
    key = np.asarray(run) if split == "runs" else runs[:, 0] * (runs[:, 1].max() + 1) + runs[:, 1]
    return np.unique(key, return_inverse=True)[1].astype(np.int64)


def hold_back(
    unit: NDArray[np.int64], share: float, rng: np.random.Generator | int = 0
) -> NDArray[np.bool_]:
    """Which observations are known when about a share of the units is, (n,)."""
    if not 0 < share < 1:
        raise ArgumentError(f"share is {share}; a number between 0 and 1 is wanted.")
    rng = np.random.default_rng(rng)
    return (rng.random(int(unit.max()) + 1) < share)[unit]


def set_aside(
    runs: NDArray[np.int64],
    unit: NDArray[np.int64],
    known: NDArray[np.bool_],
    share: float,
    rng: np.random.Generator | int = 0,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Part what is known into what is learned from and what bounds are calibrated with, (n,) each.

    Units stay whole, and every workload and platform that was observed alone stays among what is
    learned from, if need be with more than its share.

    Parameters
    ----------
    runs : ndarray of int, (n, 2 + slots)
        Workload, platform and neighbours, −1 for none.
    unit : ndarray of int, (n,)
        See :func:`units_of`.
    known : ndarray of bool, (n,)
    share : float
        Of the units, for the calibration.
    rng : numpy.random.Generator or int
    """
    held = known & ~hold_back(unit, 1.0 - share, rng)
    kept = known & ~held
    alone = (runs[:, 2:] >= 0).sum(axis=1) == 0
    for column in (0, 1):
        missing = np.setdiff1d(runs[known & alone, column], runs[kept & alone, column])
        back = known & np.isin(runs[:, column], missing)
        kept |= known & np.isin(unit, unit[back])
    return kept, held & ~kept
