"""Runs as indices of workload, platform and neighbours, with checks of a user's arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import numbers_of, real_array
from msbgen.core.errors import ArgumentError, MeasurementError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Observations:
    """Runs as indices of workload and platform, (n,), and of neighbours.

    `beside` (n, slots) has the workloads that ran at the same time, −1 where there is none; `shape`
    is (n_workloads, n_platforms).
    """

    workload: Indices
    platform: Indices
    beside: Indices
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.workload)

    def some(self, rows: NDArray[Any] | slice) -> Observations:
        """Some of them."""
        return Observations(self.workload[rows], self.platform[rows], self.beside[rows], self.shape)

    @cached_property
    def cell(self) -> Indices:
        """Index of each run in a flattened (workload, platform) matrix."""
        return self.workload * self.shape[1] + self.platform

    @cached_property
    def n_neighbours(self) -> Indices:
        """Number of neighbours of each run."""
        return (self.beside >= 0).sum(axis=1)

    @cached_property
    def interfered(self) -> Indices:
        """Indices of the runs that have neighbours, (m,)."""
        return np.flatnonzero(self.n_neighbours)

    @cached_property
    def neighbour(self) -> tuple[Indices, Indices]:
        """Of every neighbour: the index of its run in `interfered`, and its workload."""
        beside = self.beside[self.interfered]
        row, slot = np.nonzero(beside >= 0)
        return row, beside[row, slot]

    @cached_property
    def neighbour_cell(self) -> Indices:
        """Index of every neighbour in a flattened (workload, platform) matrix."""
        row, workload = self.neighbour
        return workload * self.shape[1] + self.platform[self.interfered[row]]


def run_indices(runs: ArrayLike) -> Indices:
    """Rows of workload, platform and neighbours, (n, 2 + slots), checked to be whole numbers."""
    table = real_array(runs, "runs", ("workload", "platform"))
    if table.ndim != 2 or table.shape[1] < 2 or len(table) == 0:
        raise ArgumentError(
            f"runs has shape {table.shape}; rows of workload, platform and neighbours are wanted."
        )
    # larger numbers are no indices and may overflow
    if (
        table.dtype.kind == "f"
        and not ((table == np.floor(table)) & (np.abs(table) < 2.0**53)).all()
    ):
        raise ArgumentError("runs holds a value that is no index; whole numbers are wanted.")
    return table.astype(np.int64, copy=False)


def observations(table: Indices, shape: tuple[int, int]) -> Observations:
    """Observations of so many workloads and platforms, from their table, checked to be in range."""
    limits = [(0, shape[0]), (0, shape[1])] + [(-1, shape[0])] * (table.shape[1] - 2)
    ends = zip(table.min(axis=0).tolist(), table.max(axis=0).tolist(), limits)
    for column, (low, high, (least, stop)) in enumerate(ends):
        if low < least or high >= stop:
            off = (table[:, column] < least) | (table[:, column] >= stop)
            row = int(np.argmax(off))
            raise ArgumentError(
                f"runs has {table[row, column]} in row {row}, column {column}; an index from "
                f"{least} to {stop - 1} is wanted."
            )
    return Observations(table[:, 0], table[:, 1], table[:, 2:], shape)


def log_runtimes(runtime: ArrayLike, n: int) -> Floats:
    """Logarithms of n positive runtimes [s], (n,)."""
    values = numbers_of(runtime, "runtime")
    if values.shape != (n,):
        raise ArgumentError(f"runtime has shape {values.shape}; ({n},) is wanted.")
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise MeasurementError(
            f"runtime is {values[row]} s in row {row}; a positive number is wanted: measure it "
            f"again or drop it."
        )
    return np.log(values)
