"""Linear scaling: the runtime is the length of the workload times the slowness of the platform.

Find w (n_workloads,) and p (n_platforms,) that minimise

    Σ (log C_ij − w_i − p_j)²   over the runs observed alone,

Equation 2 of Huang et al., *Interference-aware edge runtime prediction with conformal matrix
completion* (the paper of this wing).  The solution is unique but for a constant moved from w to p
where the observations connect all workloads and platforms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import lsmr

from msbgen.core.arrays import LOG_TIMES, Stored
from msbgen.core.errors import MeasurementError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Fitted lengths of workloads [log s], NaN where never observed, and slowness of platforms.

    The logarithm of the slowness is zero in the mean of the observed platforms.
    """

    workload: Annotated[Floats, Stored(("workload",), LOG_TIMES, missing=True)]
    platform: Annotated[Floats, Stored(("platform",), LOG_TIMES, missing=True)]

    def log_runtime(self, workload: Indices, platform: Indices) -> Floats:
        """Log of the runtime [log s] of each pair, (n,)."""
        return self.workload[workload] + self.platform[platform]


def check_connected(
    workload: Indices,
    platform: Indices,
    shape: tuple[int, int],
    platforms: Sequence[str] | None = None,
) -> None:
    """Refuse runs alone whose platforms share no workload, not even by way of others.

    `platforms` are their names for the message; None for their indices.
    """
    pairs = (np.ones(len(workload)), (workload, shape[0] + platform))
    table = coo_array(pairs, shape=(sum(shape), sum(shape)))
    group = connected_components(table, directed=False)[1][shape[0] :]
    unconnected = platform[group[platform] != group[platform[0]]]
    if len(unconnected):
        one, other = (
            p if platforms is None else f"'{platforms[p]}'" for p in (unconnected[0], platform[0])
        )
        raise MeasurementError(
            f"platform {one} shares no workload with platform {other}, not even by way of others; "
            f"runs of one workload on both, without neighbours, are wanted."
        )


def fit_scaling(
    workload: Indices, platform: Indices, log_runtime: Floats, shape: tuple[int, int]
) -> Scaling:
    """Lengths and speeds by least squares over n runs alone, as logarithms.

    Platforms that share no workload have no relative speed, and raise :class:`MeasurementError`.
    """
    check_connected(workload, platform, shape)
    n, rows = len(log_runtime), np.arange(len(log_runtime))
    observed = np.unique(np.concatenate([workload, shape[0] + platform]))
    design = coo_array(
        (np.ones(2 * n), (np.tile(rows, 2), np.concatenate([workload, shape[0] + platform]))),
        shape=(n, sum(shape)),
    ).tocsr()
    mean = log_runtime.mean()
    found = lsmr(design, log_runtime - mean, atol=1e-13, btol=1e-13, maxiter=20 * sum(shape))[0]
    unobserved = np.ones(sum(shape), dtype=bool)
    unobserved[observed] = False
    found[unobserved] = np.nan
    lengths, speeds = found[: shape[0]], found[shape[0] :]
    level = np.nanmean(speeds)
    return Scaling(lengths + level + mean, speeds - level)
