"""Ways to hold observations back: by rows, by runs, by cells.

Rows, as in the paper, put the halves of a run on both sides; runs keep together what was measured
together; cells hold everything of a workload on a platform back, which is what users face.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.errors import ArgumentError

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
