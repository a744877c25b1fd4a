"""Contexts that look wrongly measured in one version: with faults, or cut short."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msbgen.data.other_work import find_other_work
from msbgen.data.profiles import Profiles
from msbgen.data.totals import FAR, by_context
from msbgen.engine.faults.findings import BadContext, ExchangedContexts, Findings, SlowContext
from msbgen.engine.generate.detection import without_absurd_counts, without_faults

Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Faults of all runs of a context.
FAULTS_OF_CONTEXTS = (SlowContext, BadContext, ExchangedContexts)


def faulty_contexts(found: Findings, rows: Indices) -> Bools:
    """Which rows of a version are contexts whose times do not fit those of the others."""
    faulty = [i for f in found.corrected if isinstance(f, FAULTS_OF_CONTEXTS) for i in f.contexts]
    return np.isin(rows, faulty)


def cut_contexts(
    versions: Sequence[Profiles], findings: Sequence[Findings], rows: Sequence[Indices]
) -> tuple[Bools, Bools]:
    """Contexts (n,) in which the old, and the new version alone look cut short.

    Such runs do less work than those of other contexts, and than those of the other version, and
    end earlier.  What takes longer, or does more work, was not cut: that may be the change.
    """
    less, share, time = [], [], []
    for version, found, part in zip(versions, findings, rows):
        other, work = find_other_work(without_absurd_counts(version, found))
        less.append((other & (work < 1.0))[part])
        share.append(work[part])
        duration = without_faults(version, found).ended
        time.append(by_context(np.median, duration)[part])
    ratio = time[1] / time[0]
    if not np.isfinite(ratio).any():
        return np.zeros(len(ratio), dtype=bool), np.zeros(len(ratio), dtype=bool)
    ratio /= np.nanmedian(ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        old, new = (
            less[side]
            & ~less[1 - side]
            & (work < 1.0 - FAR)
            & (length < 0.5 * (1.0 + work))  # at least half as much shorter as the work is less
            for side, work, length in (
                (0, share[0] / share[1], 1.0 / ratio),
                (1, share[1] / share[0], ratio),
            )
        )
    return old, new
