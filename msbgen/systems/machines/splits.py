"""Ways to leave runs on several machines out: by rows, runs, programs or scales.

A *row* is a run as measured on one machine.  Split by rows, as in the paper, the same run's row of
another machine may be in the training data: a table look-up then makes no error, so this split is
marked as leaky.  Split by *runs*, other runs of the program are known; by *programs*, none is; by
*scales*, all runs at one scale are left out at a time.
"""

from typing import Literal, get_args

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.conformal import group_folds
from msbgen.core.errors import MeasurementError
from msbgen.core.records import checks_arguments
from msbgen.systems.machines.dataset import words_of

Split = Literal["rows", "runs", "programs", "scales"]
SPLITS: tuple[str, ...] = get_args(Split)
# Splits in which a row of the same run may be in the training data.
LEAKY = ("rows",)


@checks_arguments
def folds_of(
    runs: xr.Dataset,
    split: Literal["runs", "programs", "scales"],
    folds: int = 10,
    rng: np.random.Generator | int = 0,
) -> list[NDArray[np.bool_]]:
    """Which runs are left out in each fold, (n,) each; for rows see :func:`held_rows`.

    Each scale is a fold (`folds` is not used), and runs without a scale are never left out.

    Raises
    ------
    ArgumentError
        No such split, or fewer than two folds.
    MeasurementError
        Fewer runs or programs than folds, or fewer than two scales.
    """
    if split == "scales":
        scale = words_of(runs, "scale")
        names = [name for name in np.unique(scale) if name]
        if not names or len(np.unique(scale)) < 2:
            raise MeasurementError(
                f"there are runs at {len(np.unique(scale))} scale; at least two scales are wanted."
            )
        return [scale == name for name in names]
    unit = np.arange(runs.sizes["run"]) if split == "runs" else words_of(runs, "program")
    fold = group_folds(unit, folds, rng, unit=split)
    return [fold == k for k in range(folds)]


@checks_arguments
def held_rows(
    runs: xr.Dataset, split: Split, folds: int = 10, rng: np.random.Generator | int = 0
) -> list[NDArray[np.bool_]]:
    """Which rows are left out in each fold, (n, n_machines) each.

    As :func:`folds_of`, with all rows of a run together; or by ``"rows"``, which is leaky.
    """
    n, n_machines = runs["runtime"].transpose("run", "machine").shape
    if split == "rows":
        fold = group_folds(np.arange(n * n_machines), folds, rng, unit="rows")
        return [fold.reshape(n, n_machines) == k for k in range(folds)]
    return [np.repeat(held[:, None], n_machines, 1) for held in folds_of(runs, split, folds, rng)]
