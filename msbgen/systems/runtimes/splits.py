"""Splits of observations by cells: all observations of a workload on a platform stay together.

Predictions are for cells that were never measured.  Repeats of a cell, and its runs beside others,
share the error of the cell, so that a cell is held out as a whole.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

Indices = NDArray[np.int64]
Bools = NDArray[np.bool_]


def cells_of(runs: Indices) -> Indices:
    """Number of the cell of each observation, (n,), from runs (n, 2 + slots)."""
    return runs[:, 0] * (runs[:, 1].max() + 1) + runs[:, 1]


def removable(runs: Indices, held: Bools) -> Bools:
    """Observations to hold out without those that the others need, (n,).

    Runs are (n, 2 + slots), and `held` (n,) marks whole cells.  The cells observed alone connect
    workloads and platforms.  A spanning forest of them stays, with as few held-out cells as
    possible, so that all that were connected still are.
    """
    cell, (n_workloads, n_platforms) = cells_of(runs), runs[:, :2].max(axis=0) + 1
    alone = (runs[:, 2:] >= 0).sum(axis=1) == 0
    cells, first = np.unique(cell[alone], return_index=True)
    workload, platform = np.divmod(cells, n_platforms)
    edges = 1.0 + held[alone][first], (workload, n_workloads + platform)
    n_nodes = n_workloads + n_platforms
    forest = minimum_spanning_tree(coo_array(edges, shape=(n_nodes, n_nodes)).tocsr())
    one, other = forest.nonzero()
    workload, platform = np.minimum(one, other), np.maximum(one, other) - n_workloads
    return held & ~np.isin(cell, workload * n_platforms + platform)
