"""Embeddings of workloads and platforms, and the residuals of runs computed from them.

A workload i has an embedding w_i for every head.  A platform j has p_j and, for every type t of
interference, a susceptibility direction v_jt and a magnitude direction g_jt.  A run of i on j
beside the workloads K has the residual log runtime (Equation 9 of the paper)

    y = w_i·p_j + Σ_t (w_i·v_jt) α(Σ_{k in K} w_k·g_jt),   α(m) = max(m, 0.1 m),

relative to linear scaling.  It is computed in one of two ways.  For many runs the products are
small dense matrices (workload × platform), from which each run takes scalars.  For few runs each
takes vectors, with the effect of neighbours added to the platform's embedding (Equation 8):

    y = w_i·q,   q = p_j + Σ_t α(Σ_{k in K} w_k·g_jt) v_jt.

Another head then takes one more product a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from msbgen.core.arrays import Stored
from msbgen.systems.runtimes.runs import Observations

Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

_RANGE = (-1e6, 1e6)  # of coordinates in files

# Slope of the rectifier for negative numbers, so that the gradient never vanishes.
LEAK = 0.1
# Vectors are used where there are more cells per run than this, matrices otherwise.
_DENSE = 4


@dataclass(frozen=True, eq=False)
class Products:
    """Matrices (…, n_workloads, n_platforms) from whose entries residuals are computed.

    `alone` has a matrix for each head, `magnitude` one for each type, `susceptibility` both; the
    first axis may be that of several pairs of towers.
    """

    alone: Singles
    susceptibility: Singles
    magnitude: Singles

    def residual(self, runs: Observations) -> Singles:
        """Log residual of each run, (…, heads, n)."""
        return self.summed(runs, *self.entries(runs))

    def entries(self, runs: Observations) -> tuple[Singles, Singles]:
        """Susceptibilities (…, heads, types, m) and rectified magnitudes (…, types, m) of the m
        runs that have neighbours."""
        return gather_cells(self.susceptibility, runs.cell[runs.interfered]), self.rectified(runs)

    def summed(self, runs: Observations, susceptibility: Singles, rectified: Singles) -> Singles:
        """Log residual of each run, (…, heads, n), from :meth:`entries`."""
        total = gather_cells(self.alone, runs.cell)
        if susceptibility.size:
            total[..., runs.interfered] += np.einsum(
                "...htn,...tn->...hn", susceptibility, rectified
            )
        return total

    def rectified(self, runs: Observations) -> Singles:
        """Rectified sum of the neighbours' magnitudes, (…, types, m), of runs that have some."""
        summed = gather_cells(self.magnitude, runs.neighbour_cell)
        summed = _sum_neighbours(summed, runs)
        return np.maximum(summed, np.float32(LEAK) * summed)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Vectors of n runs, m of which have neighbours.

    `workload` w_i is (…, heads, n, rank), `platform` q (…, n, rank), `susceptibility` v_j (…,
    types, m, rank), and `magnitude` g_j of every neighbour (…, types, neighbours, rank).
    `rectified`, α of the neighbours' sum, and its derivative `slope` are (…, types, m).
    """

    workload: Singles
    platform: Singles
    susceptibility: Singles
    magnitude: Singles
    rectified: Singles
    slope: Singles

    def residual(self) -> Singles:
        """Log residual of each run, (…, heads, n)."""
        return np.einsum("...hnr,...nr->...hn", self.workload, self.platform)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings from one pair of towers, or from several along the first axis.

    `workload` w_i is (…, heads, n_workloads, rank); magnitudes are those of the first head.
    `platform` is (…, 1 + 2 types, n_platforms, rank): p_j, then v_jt, then g_jt.
    """

    workload: Annotated[Singles, Stored(("member", "head", "workload", "rank"), _RANGE, "f4")]
    platform: Annotated[Singles, Stored(("member", "direction", "platform", "rank"), _RANGE, "f4")]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored embeddings."""
        if 0 in self.workload.shape:
            yield "workload", f"of shape {self.workload.shape}", "one or more of each"
        # a direction of the platform itself, and two for each type of interference
        if self.platform.shape[1] % 2 == 0:
            yield "platform", f"of shape {self.platform.shape}", "1 + 2 types of directions"

    @property
    def types(self) -> int:
        """Number of types of interference."""
        return (self.platform.shape[-3] - 1) // 2

    def each(self) -> list[Embeddings]:
        """Embeddings of every pair of towers."""
        return [Embeddings(w, p) for w, p in zip(self.workload, self.platform)]

    def residual(self, runs: Observations) -> Singles:
        """Log residual of each run, (…, heads, n)."""
        return self.gather(runs).residual()

    def products(self) -> Products:
        """Matrices of every pair of towers."""
        types, transposed = self.types, self.platform.swapaxes(-1, -2)
        return Products(
            self.workload @ transposed[..., :1, :, :],
            self.workload[..., None, :, :] @ transposed[..., None, 1 : 1 + types, :, :],
            self.workload[..., :1, :, :] @ transposed[..., 1 + types :, :, :],
        )

    def gather(self, runs: Observations) -> Gathered:
        """Vectors of some runs."""
        types, interfered, (row, neighbour) = self.types, runs.interfered, runs.neighbour
        workload = self.workload[..., runs.workload, :]
        platform = self.platform[..., 0, runs.platform, :]
        at = runs.platform[interfered]
        susceptibility = self.platform[..., 1 : 1 + types, at, :]
        magnitude = self.platform[..., 1 + types :, at[row], :]
        magnitudes = np.einsum(
            "...qr,...tqr->...tq", self.workload[..., 0, neighbour, :], magnitude
        )
        magnitudes = _sum_neighbours(magnitudes, runs)
        slope = np.where(magnitudes > 0, np.float32(1.0), np.float32(LEAK))
        rectified = slope * magnitudes
        if len(interfered):
            platform[..., interfered, :] += np.einsum(
                "...tm,...tmr->...mr", rectified, susceptibility
            )
        return Gathered(workload, platform, susceptibility, magnitude, rectified, slope)


def use_products(runs: int, shape: tuple[int, int]) -> bool:
    """Whether matrices are faster than vectors for so many runs."""
    return _DENSE * runs > shape[0] * shape[1]


def _sum_neighbours(values: Singles, runs: Observations) -> Singles:
    """Sums (…, m) over the neighbours (…, neighbours) of each of the m runs that have some."""
    row, n = runs.neighbour[0], len(runs.interfered)
    if len(row) == n:
        return values
    flat = sum_by_index(row, n, values.reshape(-1, len(row)).T).T
    return flat.reshape(*values.shape[:-1], n)


def gather_cells(matrices: Singles, cell: Indices) -> Singles:
    """Entries (…, n) of matrices (…, n_workloads, n_platforms)."""
    flat = matrices.reshape(-1, matrices.shape[-2] * matrices.shape[-1])
    return flat.take(cell, axis=1).reshape(*matrices.shape[:-2], len(cell))


def sum_by_cell(values: NDArray, cell: Indices, shape: tuple[int, int]) -> Singles:
    """Sums (…, n_workloads, n_platforms) of values (…, n) by their cell."""
    flat = values.reshape(-1, values.shape[-1])
    sums = [np.bincount(cell, one, shape[0] * shape[1]) for one in flat]
    return np.array(sums, dtype=np.float32).reshape(*values.shape[:-1], *shape)


def sum_by_index(index: Indices, n: int, values: Singles) -> Singles:
    """Sums (n, d) of rows (m, d) by their index (m,)."""
    m = len(index)
    ones = csc_array((np.ones(m, np.float32), index, np.arange(m + 1)), shape=(n, m))
    return ones @ np.ascontiguousarray(values, dtype=np.float32)
