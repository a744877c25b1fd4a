"""The runs of two versions of a program, matched by context and by counter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
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
from msbgen.answers.compare.versions import common_interval, in_columns, sampled_every
from msbgen.core.errors import MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.words import number_of
from msbgen.data.profiles import Profiles
from msbgen.data.schema import CPU_TIMES
from msbgen.engine.faults.findings import Findings, StretchedRun
from msbgen.engine.generate.detection import known_faults, without_faults
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
        Rows of `contexts` in the old version.
    old, new : Profiles
        Their runs there, with the shared counters and one sampling interval; faulty and cut ones
        are missing.
    stretched : (int, int)
        Runs of either that were left out because a part of them was slowed down.
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
    old: Profiles
    new: Profiles
    stretched: tuple[int, int]
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
    old: Profiles, new: Profiles, shared: Shared, progress: OnProgress | None = None
) -> Pair:
    """The runs of two versions in the contexts and counters that they share.

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
    common, whole = common_interval(old.interval, new.interval), ~(cut[0] | cut[1])
    versions = [
        sampled_every(_comparable(version, found, part, whole, shared.counters), common)
        for version, found, part in zip((old, new), findings, rows)
    ]
    unlike = faulty[0] != faulty[1]
    notes = []
    for version, found, part, bad, short in zip((old, new), findings, rows, faulty, cut):
        notes += fault_notes(version, found)
        notes += lone_fault_notes(version, part[bad & unlike])
        notes += cut_notes(version, part[short])
    notes += difference_notes(old, new, shared, findings)
    are_paired = is_one_sweep(old, new)
    if are_paired:
        n_before = [int(np.isfinite(v.duration).sum()) for v in versions]
        partners = _partners(versions)
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
            f"no context of {old.source} and {new.source} has complete runs without faults in "
            f"both: measure them again."
        )
    unnamed = ~np.any([kept, *cut, *faulty], axis=0)
    if unnamed.any():
        listed = ", ".join(old.describe_context(int(i)) for i in rows[0][unnamed])
        notes.append(
            f"shared contexts without usable runs in both versions are left out: {listed}."
        )
    clock, contexts = versions[0].clock, old.contexts[rows[0]]
    if clock and old.clock_name not in CPU_TIMES:
        works = (v.totals[..., clock - 1][kept] for v in versions)
        notes += varied_work_notes(old.clock_name, *works)
    alone = cut[0] | cut[1] | unlike
    return Pair(
        contexts[kept],
        WordColumns.of(old.resources, contexts[kept]),
        rows[0][kept],
        versions[0].of_contexts(kept),
        versions[1].of_contexts(kept),
        (_stretched(findings[0], rows[0]), _stretched(findings[1], rows[1])),
        shared.counters,
        clock,
        are_paired,
        contexts[alone],
        tuple(notes),
    )


def _comparable(
    version: Profiles, found: Findings, rows: Indices, whole: Bools, counters: Sequence[str]
) -> Profiles:
    """Runs of some contexts that are complete and without faults, of the `whole` contexts alone."""
    clean = without_faults(version, found).of_contexts(rows).of_counters(counters).filled()
    return clean.of_runs(np.isfinite(clean.ended) & whole[:, None])


def _stretched(found: Findings, rows: Indices) -> int:
    """Number of runs of some contexts that were slowed down in a part."""
    return sum(isinstance(f, StretchedRun) and f.contexts[0] in rows for f in found)


def _partners(versions: Sequence[Profiles]) -> list[Profiles]:
    """Runs of both versions in columns of partners: neighbours in time, of one context.

    Runs without a partner are missing.
    """
    started = [version.started for version in versions]
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
    return [in_columns(version, runs) for version, runs in zip(versions, index)]
