"""Contexts whose runs do other work than all others."""

import numpy as np
from numpy.typing import NDArray

from msbgen.data.partial import clock_gaps
from msbgen.data.profiles import Profiles
from msbgen.data.schema import CPU_TIMES
from msbgen.data.totals import APART, FAR, FEW, NORMAL, by_context

Floats = NDArray[np.float64]

# What to do about runs with other work.
OTHER_WORK = "if runs were cut short, set 'complete' to 0; else give every run the same input"


def find_other_work(profiles: Profiles) -> tuple[NDArray[np.bool_], Floats]:
    """Single contexts whose runs do much more or less work than all others, (n_contexts,).

    A fit would take them for slower or faster.  None with the attribute ``keep_all``.  The second
    array is the work of each context as a multiple of the median.
    """
    n, clock = len(profiles.contexts), profiles.clock
    nothing = np.zeros(n, dtype=bool), np.ones(n)
    untimely = not clock or profiles.clock_name in CPU_TIMES or profiles.replicate != "run"
    if untimely or profiles.keeps_all:
        return nothing
    own = profiles.totals[..., clock - 1]
    work = by_context(np.median, np.where(clock_gaps(profiles) > 0, np.nan, own))
    if np.isfinite(work).sum() < FEW or not np.nanmedian(work) > 0:
        return nothing
    share = work / np.nanmedian(work)
    apart = np.abs(share - 1.0)
    other = apart > max(FAR, APART * NORMAL * np.nanmedian(apart))
    # a level with other work in all of its contexts is another program, not another run
    table, usual = profiles.contexts, np.isfinite(work) & ~other
    for row in np.flatnonzero(other):
        other[row] = (table[usual] == table[row]).any(axis=0).all()
    return other, share
