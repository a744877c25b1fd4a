"""Embeddings of workloads and platforms, and what they say of runs.

A workload i has an embedding w_i, for every head one; a platform j has p_j and, for every type t of
interference, a susceptibility direction v_jt and a magnitude direction g_jt.  A run of i on j
beside the workloads K has the residual (Equation 9 of the paper)

    y = w_i·p_j + Σ_t (w_i·v_jt) α(Σ_{k in K} w_k·g_jt),   α(m) = max(m, 0.1 m),

of its log runtime over linear scaling.  Two ways lead there: the products are small dense matrices
(workload × platform) from which many runs gather scalars; few runs gather vectors, with what the
neighbours do to the platform put into its embedding (Equation 8),

    y = w_i·q,   q = p_j + Σ_t α(Σ_{k in K} w_k·g_jt) v_jt,

so that another head costs one more product a run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from msbgen.runtimes.runs import Observations

Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

# Where the rectifier is negative it keeps this slope, so that no type of interference dies.
LEAK = 0.1
# Cells a run above which vectors are gathered instead of making the matrices.
_DENSE = 4


@dataclass(frozen=True, eq=False)
class Products:
    """Matrices (workload, platform) that a residual is gathered from.

    Attributes
    ----------
    alone : ndarray, (heads, n_workloads, n_platforms)
    susceptibility : ndarray, (heads, types, n_workloads, n_platforms)
    magnitude : ndarray, (types, n_workloads, n_platforms)
    """

    alone: Singles
    susceptibility: Singles
    magnitude: Singles

    def residual(self, runs: Observations) -> Singles:
        """Log residual of each run, (heads, n)."""
        return self.summed(runs, *self.entries(runs))

    def entries(self, runs: Observations) -> tuple[Singles, Singles]:
        """Susceptibilities (heads, types, m) and rectified magnitudes (types, m) of the m runs
        that have neighbours."""
        return gathered(self.susceptibility, runs.cell[runs.felt]), self.rectified(runs)

    def summed(self, runs: Observations, felt: Singles, rectified: Singles) -> Singles:
        """Log residual of each run, (heads, n), from :meth:`entries`."""
        total = gathered(self.alone, runs.cell)
        if felt.size:
            total[:, runs.felt] += np.einsum("htn,tn->hn", felt, rectified)
        return total

    def rectified(self, runs: Observations) -> Singles:
        """Rectified sum of the neighbours' magnitudes, (types, m), of runs that have some."""
        summed, n = gathered(self.magnitude, runs.neighbour_cell), len(runs.felt)
        if summed.shape[1] > n:
            summed = onto(runs.neighbour[0], n, summed.T).T
        return np.maximum(summed, np.float32(LEAK) * summed)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Vectors that some runs gather, and how far their neighbours push them.

    Attributes
    ----------
    mine : ndarray, (…, heads, n, rank)
        w_i
    moved : ndarray, (…, n, rank)
        q
    pushed : ndarray, (…, types, m, rank)
        v_j of the m runs that have neighbours.
    pulls : ndarray, (…, types, neighbours, rank)
        g_j of every neighbour.
    rectified, slope : ndarray, (…, types, m)
        α of the neighbours' sum, and its derivative.
    """

    mine: Singles
    moved: Singles
    pushed: Singles
    pulls: Singles
    rectified: Singles
    slope: Singles

    def residual(self) -> Singles:
        """Log residual of each run, (…, heads, n)."""
        return np.einsum("...hnr,...nr->...hn", self.mine, self.moved)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Where workloads and platforms lie; of one pair of towers, or of several, the first axis.

    Attributes
    ----------
    workload : ndarray, (…, heads, n_workloads, rank)
        w_i; magnitudes are those of the first head.
    platform : ndarray, (…, 1 + 2 types, n_platforms, rank)
        p_j, then v_jt, then g_jt.
    """

    workload: Singles
    platform: Singles

    @property
    def types(self) -> int:
        """Of interference."""
        return (self.platform.shape[-3] - 1) // 2

    def each(self) -> list[Embeddings]:
        """Those of every pair of towers."""
        return [Embeddings(w, p) for w, p in zip(self.workload, self.platform)]

    def residual(self, runs: Observations) -> Singles:
        """Log residual of each run, (…, heads, n)."""
        return self.gather(runs).residual()

    def products(self) -> Products:
        """The matrices, of one pair of towers."""
        types, shape = self.types, (self.workload.shape[1], self.platform.shape[1])
        alone, *felt = (self.workload @ p.T for p in self.platform[: 1 + types])
        made = [self.workload[0] @ p.T for p in self.platform[1 + types :]]
        return Products(
            alone,
            np.stack(felt, axis=1) if felt else np.empty((len(alone), 0, *shape), np.float32),
            np.stack(made) if made else np.empty((0, *shape), np.float32),
        )

    def gather(self, runs: Observations) -> Gathered:
        """What some runs need of them."""
        types, felt, (row, near) = self.types, runs.felt, runs.neighbour
        mine, moved = self.workload[..., runs.workload, :], self.platform[..., 0, runs.platform, :]
        place = runs.platform[felt]
        pushed = self.platform[..., 1 : 1 + types, place, :]
        pulls = self.platform[..., 1 + types :, place[row], :]
        made = np.einsum("...qr,...tqr->...tq", self.workload[..., 0, near, :], pulls)
        if len(row) > len(felt):
            flat = onto(row, len(felt), made.reshape(-1, len(row)).T).T
            made = flat.reshape(*made.shape[:-1], len(felt))
        slope = np.where(made > 0, np.float32(1.0), np.float32(LEAK))
        rectified = slope * made
        if len(felt):
            moved[..., felt, :] += np.einsum("...tm,...tmr->...mr", rectified, pushed)
        return Gathered(mine, moved, pushed, pulls, rectified, slope)


def many(runs: int, shape: tuple[int, int]) -> bool:
    """Whether so many runs gather scalars faster than vectors."""
    return _DENSE * runs > shape[0] * shape[1]


def gathered(matrices: Singles, cell: Indices) -> Singles:
    """Entries (…, n) of matrices (…, n_workloads, n_platforms)."""
    flat = matrices.reshape(-1, matrices.shape[-2] * matrices.shape[-1])
    return flat.take(cell, axis=1).reshape(*matrices.shape[:-2], len(cell))


def scattered(values: NDArray, cell: Indices, shape: tuple[int, int]) -> Singles:
    """Sums (…, n_workloads, n_platforms) of values (…, n) by their cell."""
    flat = values.reshape(-1, values.shape[-1])
    sums = [np.bincount(cell, one, shape[0] * shape[1]) for one in flat]
    return np.array(sums, dtype=np.float32).reshape(*values.shape[:-1], *shape)


def onto(index: Indices, n: int, values: Singles) -> Singles:
    """Sums (n, d) of rows (m, d) by their index (m,)."""
    m = len(index)
    ones = csc_array((np.ones(m, np.float32), index, np.arange(m + 1)), shape=(n, m))
    return ones @ np.ascontiguousarray(values, dtype=np.float32)
