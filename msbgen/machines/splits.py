"""Ways to hold runs on several machines back: by rows, runs, programs or scales.

A *row* is a run as seen from one machine.  Split by rows, as in the paper, the same run's row of
another machine is learned from: whoever looks it up makes no error, which is marked as leaky.
Split by *runs*, the program in another configuration or at another scale is known; by *programs*
nothing of it is; by *scales* all runs of a scale are held back, each scale in its turn.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.machines.dataset import words_of

Split = Literal["rows", "runs", "programs", "scales"]
SPLITS: tuple[str, ...] = get_args(Split)
# A row of the same run is on the other side.
LEAKY = ("rows",)


def folds_of(
    runs: xr.Dataset, split: str, folds: int = 10, rng: np.random.Generator | int = 0
) -> list[NDArray[np.bool_]]:
    """Which runs are held back in each fold, (n,) each.

    Parameters
    ----------
    runs : xarray.Dataset
        ``msbgen-relative/1``.
    split : {"runs", "programs", "scales"}
        Rows are no runs: see :func:`held_rows`.
    folds : int
        Parts; for scales there are as many as scales, and runs without one are never held back.
    rng : Generator or int

    Raises
    ------
    ArgumentError
        No such split, or fewer than two folds.
    MeasurementError
        Fewer runs, programs or scales than folds, or than two.
    """
    if split == "scales":
        scale = words_of(runs, "scale")
        names = [name for name in np.unique(scale) if name]
        if not names or len(np.unique(scale)) < 2:
            raise MeasurementError(
                f"there are runs at {len(np.unique(scale))} scale; at least two scales are wanted."
            )
        return [scale == name for name in names]
    if split not in ("runs", "programs"):
        raise ArgumentError(f"split is {split!r}; one of runs, programs, scales is wanted.")
    unit = np.arange(runs.sizes["run"])
    if split == "programs":
        unit = np.unique(words_of(runs, "program"), return_inverse=True)[1].reshape(-1)
    fold = _shuffled(int(unit.max()) + 1, folds, rng, split)
    return [fold[unit] == k for k in range(folds)]


def held_rows(
    runs: xr.Dataset, split: str, folds: int = 10, rng: np.random.Generator | int = 0
) -> list[NDArray[np.bool_]]:
    """Which rows, a run as seen from a machine, are held back in each fold, (n, n_machines) each.

    As :func:`folds_of`, with all rows of a run together, or by ``"rows"``, which is leaky.
    """
    n, n_machines = runs["runtime"].transpose("run", "machine").shape
    if split == "rows":
        fold = _shuffled(n * n_machines, folds, rng, "rows").reshape(n, n_machines)
        return [fold == k for k in range(folds)]
    if split not in SPLITS:
        raise ArgumentError(f"split is {split!r}; one of {', '.join(SPLITS)} is wanted.")
    return [np.repeat(held[:, None], n_machines, 1) for held in folds_of(runs, split, folds, rng)]


def _shuffled(n: int, folds: int, rng: np.random.Generator | int, what: str) -> NDArray[np.int64]:
    """A fold for each of n units, as equal in number as they can be."""
    if folds < 2:
        raise ArgumentError(f"folds is {folds}; at least two are wanted.")
    if n < folds:
        raise MeasurementError(
            f"there are {n} {what} for {folds} folds; as many are wanted: ask for fewer folds."
        )
    return np.random.default_rng(rng).permutation(n) % folds
