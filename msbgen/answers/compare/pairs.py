"""The runs of two versions of a program, matched by context and by counter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.answers.compare.matching import Shared, is_one_sweep
from msbgen.answers.compare.notes import (
    cut_notes,
    difference_notes,
    fault_notes,
    lone_fault_notes,
    varied_work_notes,
)
from msbgen.answers.compare.suspects import cut_contexts, faulty_contexts
from msbgen.answers.compare.versions import VersionRuns, common_interval
from msbgen.core.errors import MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.words import number_of
from msbgen.data.schema import (
    CPU_TIMES,
    clock_name,
    complete_array,
    context_table,
    count_array,
    counter_names,
    describe_context,
    duration_array,
    file_of,
    resource_attrs,
    sampling_interval,
    started_array,
)
from msbgen.engine.faults.findings import Findings, StretchedRun
from msbgen.engine.generate.faults import known_faults, without_faults
from msbgen.engine.generate.word_columns import WordColumns

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two versions of a program in the contexts that both were measured in.

    Attributes
    ----------
    contexts : (n, m)
        Shared contexts that neither version's faults exclude.
    words : WordColumns
        Columns of contexts whose levels are words.
    rows : (n,)
        Rows of `contexts` in the old dataset.
    old, new : VersionRuns
        Their runs.
    counters : tuple of str
        Counters that both versions have.
    clock : int
        The measure of progress: 0 for time, 1 + k for counter k.
    are_paired : bool
        Whether runs of both versions with one number were measured one right after the other.
    left_out : (k, m)
        Shared contexts that one version alone excludes, as it looks wrongly measured there.
    notes : tuple of str
        What limits the comparison, a sentence each.
    """

    contexts: Floats
    words: WordColumns
    rows: Indices
    old: VersionRuns
    new: VersionRuns
    counters: tuple[str, ...]
    clock: int
    are_paired: bool
    left_out: Floats
    notes: tuple[str, ...]

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of the amounts: time, and every counter but the clock."""
        names = ("time", *self.counters)
        return (*names[: self.clock], *names[self.clock + 1 :])

    @property
    def columns(self) -> Floats:
        """The contexts, with a column for each word of a level, (n, columns)."""
        return self.words.encode(self.contexts)

    @property
    def reach(self) -> Floats:
        """The longer sampling interval as a share of the runs' time, (n,)."""
        shares = [v.interval / np.nanmean(v.duration, axis=1) for v in (self.old, self.new)]
        return np.minimum(np.maximum(*shares), 1.0)


def pair_profiles(
    old: xr.Dataset, new: xr.Dataset, shared: Shared, progress: OnProgress | None = None
) -> Pair:
    """The runs of two datasets in the contexts and counters that they share.

    Faults in a version are left out of both; `progress` is that of their detection in each.

    Raises
    ------
    MeasurementError
        Faults leave no shared context.
    """
    rows = shared.old_rows, shared.new_rows
    findings = known_faults(old, progress), known_faults(new, progress)
    cut = cut_contexts((old, new), findings, rows)
    faulty = [faulty_contexts(found, part) for found, part in zip(findings, rows)]
    versions = [
        _version(dataset, found, part, shared.counters).without(cut[0] | cut[1])
        for dataset, found, part in zip((old, new), findings, rows)
    ]
    common = common_interval(*(version.interval for version in versions))
    versions = [version.sampled_every(common) for version in versions]
    unlike = faulty[0] != faulty[1]
    notes = []
    for dataset, found, part, bad, short in zip((old, new), findings, rows, faulty, cut):
        notes += fault_notes(dataset, found)
        notes += lone_fault_notes(dataset, part[bad & unlike])
        notes += cut_notes(dataset, part[short])
    notes += difference_notes(old, new, shared, findings)
    are_paired = is_one_sweep(old, new)
    if are_paired:
        n_before = [int(np.isfinite(v.duration).sum()) for v in versions]
        started = [started_array(dataset)[part] for dataset, part in zip((old, new), rows)]
        partners = _partners(versions, started)
        single = sum(n_before) - sum(int(np.isfinite(v.duration).sum()) for v in partners)
        are_paired = single <= sum(n_before) / 2
        versions = partners if are_paired else versions
        if not are_paired:
            notes.append(
                "the runs of both files are of one sweep, but did not start in turn: they are "
                "compared without pairs, and a drift of the machine looks like the change."
            )
        elif single:
            notes.append(
                f"left out, without a usable run of the other version and their context right "
                f"before or after them: {number_of(single, 'run')}."
            )
    kept = np.all([np.isfinite(v.duration).any(axis=1) for v in versions], axis=0)
    if not kept.any():
        raise MeasurementError(
            f"no context of {file_of(old)} and {file_of(new)} has complete runs without faults in "
            f"both: measure them again."
        )
    unnamed = ~np.any([kept, *cut, *faulty], axis=0)
    if unnamed.any():
        listed = ", ".join(describe_context(old, int(i)) for i in rows[0][unnamed])
        notes.append(
            f"shared contexts without usable runs in both versions are left out: {listed}."
        )
    clock = clock_name(old)
    if clock in shared.counters and clock not in CPU_TIMES:
        k = shared.counters.index(clock)
        works = (np.where(np.isfinite(v.duration), v.total[..., k], np.nan)[kept] for v in versions)
        notes += varied_work_notes(clock, *works)
    contexts = context_table(old)[rows[0]]
    alone = cut[0] | cut[1] | unlike
    return Pair(
        contexts[kept],
        WordColumns.of(resource_attrs(old), contexts[kept]),
        rows[0][kept],
        versions[0].in_contexts(kept),
        versions[1].in_contexts(kept),
        shared.counters,
        0 if clock == "time" else 1 + shared.counters.index(clock),
        are_paired,
        contexts[alone],
        tuple(notes),
    )


def _version(
    dataset: xr.Dataset, found: Findings, rows: Indices, counters: tuple[str, ...]
) -> VersionRuns:
    clean = without_faults(dataset, found)
    names = counter_names(clean)
    counts = count_array(clean)[rows][..., [names.index(name) for name in counters]]
    ended = complete_array(dataset)[rows]
    duration = np.where(ended, duration_array(clean)[rows], np.nan)
    held = np.isfinite(counts).any(axis=2)
    total = np.where(held & np.isfinite(duration)[..., None], np.nansum(counts, axis=2), np.nan)
    stretched = sum(isinstance(f, StretchedRun) and f.contexts[0] in rows for f in found)
    return VersionRuns(counts, duration, sampling_interval(dataset), total, stretched)


def _partners(versions: list[VersionRuns], started: list[Floats]) -> list[VersionRuns]:
    """Runs of both versions in columns of partners: neighbours in time, of one context.

    `started` is the start of each run (n, runs) [s].  Runs without a partner are missing.
    """
    held = [np.isfinite(v.duration) & np.isfinite(s) for v, s in zip(versions, started)]
    sides, rows, runs, times = [], [], [], []
    for side, (mask, begin) in enumerate(zip(held, started)):
        row, run = np.nonzero(mask)
        sides.append(np.full(len(row), side))
        rows.append(row)
        runs.append(run)
        times.append(begin[mask])
    order = np.argsort(np.concatenate(times), kind="stable")
    side, row, run = (np.concatenate(part)[order] for part in (sides, rows, runs))
    columns: list[list[tuple[int, int]]] = [[] for _ in held[0]]
    k = 0
    while k + 1 < len(order):
        if row[k] == row[k + 1] and side[k] != side[k + 1]:
            first, second = (k, k + 1) if side[k] == 0 else (k + 1, k)
            columns[row[k]].append((int(run[first]), int(run[second])))
            k += 1
        k += 1
    n_columns = max(map(len, columns), default=0)
    index = np.full((2, len(columns), n_columns), -1)
    for c, found in enumerate(columns):
        index[:, c, : len(found)] = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return [version.in_columns(runs) for version, runs in zip(versions, index)]
