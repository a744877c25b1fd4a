"""Runs cut into equal stretches of progress: time and counts of each, in every context.

Progress of a run is the share of its own total that a counter has reached: ``instructions``, or
what the file's attribute ``progress`` names, or else wall time.  A run is linear within each of
its sampling intervals, so the amounts of its stretches add up to its duration and totals.
"""

import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

import msbgen.systems.phases._kernels as _kernels
from msbgen.core.errors import MeasurementError
from msbgen.core.machine import available_cores
from msbgen.data.profiles import Profiles
from msbgen.data.schema import CPU_TIMES
from msbgen.systems.phases.grid import Grid

Singles = NDArray[np.float32]

_log = logging.getLogger("msbgen")

# A run lost counts if its total differs from its context's median by this share.
_LOST = 0.1


def cut_runs(
    profiles: Profiles, grid: Grid, bins: int, quantities: tuple[str, ...]
) -> tuple[list[Singles], NDArray[np.float64]]:
    """Amounts of each quantity in each of `bins` equal stretches of progress, and total progress.

    `quantities` are names of counters, or ``"time"`` [s].  `profiles` may be with or without runs.
    Amounts are one array (n_contexts, runs, bins) for each quantity, contexts in the order of the
    grid.  The context's other runs stand in, in turn, for missing runs, for those that were cut or
    lost counts, and for those that do not hold the quantity.  The total (n_contexts, runs) is of
    the progress counter; [s] for wall time.
    MeasurementError: no complete run of a context holds a quantity, or has progress.
    """
    rows = grid.rows(profiles)
    interval, duration = profiles.interval, profiles.duration[rows]
    clock = _counts(profiles, profiles.clock_name, rows)
    held = clock if clock.size else _any_counts(profiles, rows)
    length, total = np.empty(duration.shape, dtype=np.int64), np.empty(duration.shape)
    _kernels.run_totals(held, clock, duration, interval, length, total)
    good = _whole_runs(profiles, grid, total, profiles.complete[rows])
    amounts = []
    for name in quantities:
        of = clock if name == profiles.clock_name else _counts(profiles, name, rows)
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
        usable = good & ~np.isnan(out).any(axis=2)
        if not usable.any(axis=1).all():
            place = grid.describe(grid.contexts[int(np.argmin(usable.any(axis=1)))])
            raise MeasurementError(
                f"{profiles.source}: no complete run holds '{name}' in {place}; measure it "
                f"there, or generate the profiles of all contexts first (msbgen generate)."
            )
        amounts.append(np.take_along_axis(out, _in_turn(usable)[..., None], axis=1))
    return amounts, np.take_along_axis(total, _in_turn(good), axis=1)


def _counts(profiles: Profiles, name: str, rows: NDArray[np.int64]) -> Singles:
    """Counts (n_contexts, runs, times) of some contexts, gaps filled; empty for ``"time"``."""
    if name == "time":
        return np.empty((0, 0, 0), dtype=np.float32)
    values = profiles.counts_of(list(profiles.counters).index(name))
    if not np.array_equal(rows, np.arange(len(values))):
        values = values[rows]
    return np.ascontiguousarray(values, dtype=np.float32)


def _any_counts(profiles: Profiles, rows: NDArray[np.int64]) -> Singles:
    """Counts of some counter in every row of a run: runs may hold different ones."""
    counts = (_counts(profiles, name, rows) for name in profiles.counters)
    return functools.reduce(np.fmax, counts)


def _in_blocks(n_contexts: int, work: Callable[[slice], Any]) -> None:
    """Do the work for blocks of contexts, in threads."""
    step = -(-n_contexts // (4 * available_cores()))
    with ThreadPoolExecutor(available_cores()) as pool:
        for job in [pool.submit(work, slice(i, i + step)) for i in range(0, n_contexts, step)]:
            job.result()


def _whole_runs(
    profiles: Profiles, grid: Grid, total: NDArray[np.float64], complete: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Complete runs that lost no counts, (n_contexts, n_runs); MeasurementError without one."""
    present = complete & (total > 0)
    empty = ~present.any(axis=1)
    if empty.any():
        context = int(np.argmax(empty))
        place = grid.describe(grid.contexts[context])
        if (total[context] > 0).any():
            raise MeasurementError(
                f"{profiles.source}: every run was cut in {place}; measure it with a longer "
                f"timeout, or generate the profiles of all contexts first (msbgen generate)."
            )
        raise MeasurementError(
            f"{profiles.source}: '{profiles.clock_name}' counted nothing in {place}; a counter "
            f"that moves in every context is wanted (attribute 'progress')."
        )
    middle = np.nanmedian(np.where(present, total, np.nan), axis=1, keepdims=True)
    lost = present & (np.abs(total - middle) > _LOST * middle)
    if profiles.is_generated or profiles.clock_name in ("time", *CPU_TIMES):
        lost[:] = False  # generated counts are never lost, and slow runs lost none
    if lost.any():
        _log.warning(
            "%s: runs whose totals depart from their context's lost counts and are left out: %d.",
            profiles.source,
            int(lost.sum()),
        )
    good = present & ~lost
    good[~good.any(axis=1)] = present[~good.any(axis=1)]
    return good


def _in_turn(good: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Runs in the place of each run, (n_contexts, n_runs): the good ones, again from the first."""
    ranked = np.argsort(~good, axis=1, kind="stable")
    turn = np.arange(good.shape[1]) % good.sum(axis=1)[:, None]
    return np.take_along_axis(ranked, turn, axis=1)
