"""Rates of two versions' work by context, and the alignment that they give.

Rates are those of blocks of equal work: time and events per unit of it.  Contexts are averaged in
groups by the levels of the resource that changes the course of the rates most.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from msbgen.answers.compare.alignment import BLOCKS, Alignment, align
from msbgen.answers.compare.pairs import Pair
from msbgen.answers.compare.ratio import Ratio
from msbgen.answers.compare.versions import amounts_of
from msbgen.data.profiles import Profiles
from msbgen.engine.generate.progress import uniform_knots

Floats = NDArray[np.float64]

# Share of a program's amounts per block that is added before logarithms are taken.
_FLOOR = 0.02
# The most groups of contexts whose rates are matched side by side.
_GROUPS = 3
# The ratio of the works must differ from 1 by so many standard errors, and by this share.
_WORK_ERRORS, _WORK_SHARE = 4.0, 0.002


def align_pair(pair: Pair, totals: Mapping[str, Ratio]) -> Alignment:
    """Alignment of both versions' work, with the ratios of the counters' totals."""
    knots = uniform_knots(BLOCKS)
    found = [_rates(version, knots) for version in (pair.old, pair.new)]
    (old, old_noise), (new, new_noise) = found
    groups = _alike(pair.contexts, old + new)
    grouped = [np.stack([np.nanmean(part[rows], axis=0) for rows in groups]) for part in (old, new)]
    noise = [
        np.stack([np.nansum(part[rows], axis=0) / len(rows) ** 2 for rows in groups])
        for part in (old_noise, new_noise)
    ]
    work = 1.0
    if pair.clock:
        ratio = totals[pair.counters[pair.clock - 1]]
        change = np.log(ratio.value)
        if abs(change) > max(_WORK_ERRORS * ratio.error, _WORK_SHARE):
            work = ratio.value
    return align(
        grouped[0],
        grouped[1],
        work=work,
        reach=float(pair.reach.mean()),
        noise=(noise[0], noise[1]),
    )


def _rates(version: Profiles, knots: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the amounts per unit of work in blocks of progress, and their variances.

    Both are (n, blocks, k).  The variance is that of the mean over the runs of a context; for
    contexts of one run it is the mean one of the others, or 0 where all are of one run.
    """
    amounts, clock = amounts_of(version, knots), version.clock  # (n, runs, blocks, q)
    mean = np.nanmean(amounts, axis=1)
    work = version.totals[..., clock - 1] if clock else version.duration
    above = mean + _FLOOR * mean.mean(axis=1, keepdims=True) + 1e-300
    number = np.isfinite(amounts).sum(axis=1)
    squares = np.nansum(((amounts - mean[:, None]) / above[:, None]) ** 2, axis=1)
    several = number > 1
    variance = np.divide(squares, (number - 1) * number, where=several, out=np.zeros_like(mean))
    if several.any():
        usual = (variance * number).sum(axis=0) / np.maximum(several.sum(axis=0), 1)
        variance = np.where(several, variance, usual / np.maximum(number, 1))
    return np.log(above / np.nanmean(work, axis=1)[:, None, None]), variance


def _alike(contexts: Floats, rates: Floats) -> list[NDArray[np.int64]]:
    """Contexts in at most `_GROUPS` groups of levels of the resource that changes rates most.

    Rates are (n, blocks, k); only how they vary with progress counts.
    """
    course = rates - rates.mean(axis=1, keepdims=True)
    best, out = 0.0, [np.arange(len(contexts))]
    for column in contexts.T:
        levels = np.unique(column)
        parts = np.array_split(levels, min(_GROUPS, len(levels)))
        groups = [np.flatnonzero(np.isin(column, part)) for part in parts]
        means = np.stack([np.nanmean(course[rows], axis=0) for rows in groups])
        between = float(np.nanvar(means, axis=0).mean())
        if between > best:
            best, out = between, groups
    return out
