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
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

Singles = NDArray[np.float32]
Indices = NDArray[np.int64]

# Where the rectifier is negative it keeps this slope, so that no type of interference dies.
LEAK = 0.1
# Cells a run above which vectors are gathered instead of making the matrices.
_DENSE = 4


@dataclass(frozen=True, eq=False)
class Observations:
    """Runs, by index.

    Attributes
    ----------
    workload, platform : ndarray of int, (n,)
    beside : ndarray of int, (n, slots)
        Workloads that ran at the same time, −1 where there is none.
    shape : (n_workloads, n_platforms)
    """

    workload: Indices
    platform: Indices
    beside: Indices
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.workload)

    def some(self, rows: NDArray) -> Observations:
        """Some of them."""
        return Observations(self.workload[rows], self.platform[rows], self.beside[rows], self.shape)

    @cached_property
    def cell(self) -> Indices:
        """Place of each in a flattened (workload, platform) matrix."""
        return self.workload * self.shape[1] + self.platform

    @cached_property
    def degree(self) -> Indices:
        """Neighbours of each."""
        return (self.beside >= 0).sum(axis=1)

    @cached_property
    def felt(self) -> Indices:
        """Those that have neighbours, (m,)."""
        return np.flatnonzero(self.degree)

    @cached_property
    def neighbour(self) -> tuple[Indices, Indices]:
        """Of every neighbour: whose it is, as a place in `felt`, and the workload it is."""
        near = self.beside[self.felt]
        row, slot = np.nonzero(near >= 0)
        return row, near[row, slot]

    @cached_property
    def neighbour_cell(self) -> Indices:
        """Place of every neighbour in a flattened (workload, platform) matrix."""
        row, workload = self.neighbour
        return workload * self.shape[1] + self.platform[self.felt[row]]


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
        each = gathered(self.magnitude, runs.neighbour_cell)
        summed = each
        if len(runs.felt) < each.shape[1]:
            place = runs.neighbour[0]
            summed = np.stack([np.bincount(place, one, len(runs.felt)) for one in each])
        return np.maximum(summed, LEAK * summed).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Gathered:
    """Vectors that some runs gather, and how far their neighbours push them.

    Attributes
    ----------
    mine : ndarray, (heads, n, rank)
        w_i
    moved : ndarray, (n, rank)
        q
    pushed : ndarray, (types, m, rank)
        v_j of the m runs that have neighbours.
    pulls : ndarray, (types, neighbours, rank)
        g_j of every neighbour.
    rectified, slope : ndarray, (types, m)
        α of the neighbours' sum, and its derivative.
    """

    mine: Singles
    moved: Singles
    pushed: Singles
    pulls: Singles
    rectified: Singles
    slope: Singles

    def residual(self) -> Singles:
        """Log residual of each run, (heads, n)."""
        return np.einsum("hnr,nr->hn", self.mine, self.moved)


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Where workloads and platforms lie.

    Attributes
    ----------
    workload : ndarray, (heads, n_workloads, rank)
        w_i; magnitudes are those of the first head.
    platform : ndarray, (1 + 2 types, n_platforms, rank)
        p_j, then v_jt, then g_jt.
    """

    workload: Singles
    platform: Singles

    @property
    def types(self) -> int:
        """Of interference."""
        return (len(self.platform) - 1) // 2

    def residual(self, runs: Observations) -> Singles:
        """Log residual of each run, (heads, n)."""
        if _DENSE * len(runs) > runs.shape[0] * runs.shape[1]:
            return self.products().residual(runs)
        return self.gather(runs).residual()

    def products(self) -> Products:
        """The matrices."""
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
        moved, place = self.platform[0, runs.platform], runs.platform[felt]
        pushed = self.platform[1 : 1 + types, place]
        pulls = self.platform[1 + types :, place[row]]
        made = np.einsum("qr,tqr->tq", self.workload[0, near], pulls)
        summed = made if len(row) == len(felt) else onto(row, len(felt), made.T).T
        slope = np.where(summed > 0, np.float32(1.0), np.float32(LEAK))
        rectified = slope * summed
        if len(felt):
            moved[felt] += np.einsum("tm,tmr->mr", rectified, pushed)
        return Gathered(self.workload[:, runs.workload], moved, pushed, pulls, rectified, slope)


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
