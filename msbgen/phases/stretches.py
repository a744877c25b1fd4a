"""Runs cut into equal stretches of progress: time and counts of each, in every context.

Progress of a run is the share of its own total that a counter has reached: ``instructions``, or
what the file's attribute ``progress`` names, or else wall time.  A run is linear within each of
its sampling intervals, so the amounts of its stretches add up to its duration and totals.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import msbgen.phases._kernels as _kernels
from msbgen.core.errors import MeasurementError
from msbgen.core.machine import available_cores
from msbgen.data.schema import (
    CPU_TIMES,
    clock_name,
    counter_names,
    duration_array,
    file_of,
    replicate_dim,
    sampling_interval,
)
from msbgen.phases.grid import Grid

Singles = NDArray[np.float32]

_log = logging.getLogger("msbgen")

# A run lost counts if its total differs from its context's median by this share.
_LOST = 0.1


def cut_runs(
    profiles: xr.Dataset, grid: Grid, bins: int, quantities: tuple[str, ...]
) -> tuple[list[Singles], NDArray[np.float64]]:
    """Amounts of each quantity in each of `bins` equal stretches of progress, and total progress.

    `quantities` are names of counters, or ``"time"`` [s].  `profiles` may be with or without runs.
    Amounts are one array (n_contexts, runs, bins) for each quantity, contexts in the order of the
    grid.  Missing runs, and runs that lost counts, are replaced by the context's other runs in
    turn.  The total (n_contexts, runs) is of the progress counter; [s] for wall time.
    MeasurementError: a context has no run whose progress counter counted.
    """
    dim = replicate_dim(profiles)
    rows = grid.rows(profiles)
    interval = sampling_interval(profiles)
    duration = duration_array(profiles)[rows]
    n_times = profiles.sizes["time"]

    def counts(name: str) -> Singles:
        if name == "time":
            return np.empty((0, 0, 0), dtype=np.float32)
        values = profiles[name].transpose("context", *([dim] if dim else []), "time").values
        values = values.reshape(len(rows), -1, n_times)
        if not np.array_equal(rows, np.arange(len(rows))):
            values = values[rows]
        return np.ascontiguousarray(values, dtype=np.float32)

    clock = counts(clock_name(profiles))
    first = clock if clock.size else counts(counter_names(profiles)[0])
    length, total = np.empty(duration.shape, dtype=np.int64), np.empty(duration.shape)
    _kernels.run_totals(first, clock, duration, interval, length, total)
    order = _whole_runs(profiles, grid, total)
    amounts = []
    for name in quantities:
        of = clock if name == clock_name(profiles) else counts(name)
        out = np.empty((*duration.shape, bins), dtype=np.float32)
        _in_blocks(
            len(rows),
            lambda some, of=of, out=out: _kernels.cut_runs(
                clock[some] if clock.size else clock,
                of[some] if of.size else of,
                (duration[some], length[some], total[some]),
                interval,
                out[some],
            ),
        )
        amounts.append(out if order is None else np.take_along_axis(out, order[..., None], axis=1))
    return amounts, total if order is None else np.take_along_axis(total, order, axis=1)


def _in_blocks(n_contexts: int, work: Callable[[slice], Any]) -> None:
    """Do the work for blocks of contexts, in threads."""
    step = -(-n_contexts // (4 * available_cores()))
    with ThreadPoolExecutor(available_cores()) as pool:
        for job in [pool.submit(work, slice(i, i + step)) for i in range(0, n_contexts, step)]:
            job.result()


def _whole_runs(
    profiles: xr.Dataset, grid: Grid, total: NDArray[np.float64]
) -> NDArray[np.int64] | None:
    """Runs that are used for each context, (n_contexts, runs); None if all are whole."""
    present = total > 0
    empty = ~present.any(axis=1)
    if empty.any():
        raise MeasurementError(
            f"{file_of(profiles)}: '{clock_name(profiles)}' counted nothing in "
            f"{grid.describe(grid.contexts[int(np.argmax(empty))])}; a counter that moves in every "
            f"context is wanted (attribute 'progress')."
        )
    middle = np.nanmedian(np.where(present, total, np.nan), axis=1, keepdims=True)
    lost = present & (np.abs(total - middle) > _LOST * middle)
    if "kind" in profiles.attrs or clock_name(profiles) in ("time", *CPU_TIMES):
        lost[:] = False  # generated counts are never lost, and slow runs lost none
    if lost.any():
        _log.warning(
            "%s: runs whose totals depart from their context's lost counts and are left out: %d.",
            file_of(profiles),
            int(lost.sum()),
        )
    good = present & ~lost
    good[~good.any(axis=1)] = present[~good.any(axis=1)]
    if good.all():
        return None
    # the good runs first, in order, and then once more from their start
    ranked = np.argsort(~good, axis=1, kind="stable")
    turn = np.arange(total.shape[1]) % good.sum(axis=1)[:, None]
    return np.take_along_axis(ranked, turn, axis=1)
