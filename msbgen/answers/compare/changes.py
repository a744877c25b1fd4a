"""Changes of the work: inserted and removed work, and stretches that changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msbgen.answers.compare.alignment import Alignment, Gap
from msbgen.answers.compare.pairs import Pair
from msbgen.answers.compare.ratio import ratio_of_amounts, shows_noise
from msbgen.answers.compare.results import Change, CompareSettings
from msbgen.answers.compare.stretches import (
    ContextGroup,
    Labelled,
    Stretch,
    context_groups,
    find_stretches,
    mean_run,
)
from msbgen.answers.compare.versions import amounts_of
from msbgen.engine.generate.progress import uniform_knots

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# A stretch whose quantity changes less is not reported, such as by one page fault of millions.
_LEAST_CHANGE = 5e-4
# Shorter work without a match is not reported: blocks round by as much.
_LEAST_GAP = 0.005
# Share of the work beside inserted and removed work that is not compared.
_GAP_MARGIN = 0.025


def find_changes(
    pair: Pair, aligned: Alignment, settings: CompareSettings, rng: np.random.Generator
) -> tuple[Change, ...]:
    """Changes of the work, the clearest first; none between different programs."""
    if not aligned.is_same_program:
        return ()
    return (*_gaps(aligned.gaps, pair), *_stretches(pair, aligned, settings, rng))


def _gaps(gaps: tuple[Gap, ...], pair: Pair) -> list[Change]:
    """Inserted and removed work as changes."""
    everywhere = ContextGroup(tuple(range(len(pair.contexts))))
    return [
        Change(gap.old, gap.new, gap.kind, {}, everywhere, np.nan, gap.begins)
        for gap in gaps
        if gap.length >= _LEAST_GAP
    ]


def _stretches(
    pair: Pair, aligned: Alignment, settings: CompareSettings, rng: np.random.Generator
) -> list[Change]:
    """Stretches of matching work that changed."""
    knots = uniform_knots(settings.bins)
    old = amounts_of(pair.old, knots)
    new = amounts_of(pair.new, aligned.to_new(knots))
    runs = Labelled.of(old, new, pair.reach, are_paired=pair.are_paired)
    if aligned.gaps:
        # shifted work meets the sampling intervals in another phase, in all runs of a context
        # alike: contexts are permuted, not runs
        runs = runs.shifted()
    found = find_stretches(
        runs,
        _groups(pair),
        compared=_compared(aligned.gaps, settings.bins),
        level=1 - settings.confidence,
        permutations=settings.permutations,
        rng=rng,
    )
    if not aligned.gaps:  # the total is that of the matching work
        found = _or_whole(pair, settings, found, (old, new))
    changes = [_change(pair, aligned, settings, stretch, (old, new)) for stretch in found]
    return [change for change in changes if _is_large(change)]


def _or_whole(
    pair: Pair,
    settings: CompareSettings,
    found: Sequence[Stretch],
    amounts: tuple[Floats, Floats],
) -> list[Stretch]:
    """Stretches, or the whole work in place of those that do not explain the change of the total.

    The part of the clearest stretch, and of others in its quantity, is the ratio of the total if
    the rest of the work had not changed.  It explains the total if it is within the interval of its
    ratio, or most of its change: ends of stretches are not exact.
    """
    if not found:
        return []
    clearest, rows = found[0], np.array(found[0].group.members)
    inside = np.zeros(settings.bins, dtype=bool)
    for stretch in (one for one in found if one.quantity == clearest.quantity):
        inside[round(stretch.begin * settings.bins) : round(stretch.end * settings.bins)] = True
    old, new = (part[rows, :, :, clearest.quantity] for part in amounts)
    rest = mean_run(old[..., ~inside, None])[..., 0].sum(axis=2)
    total, part = (
        ratio_of_amounts(
            pair.columns[rows], old.sum(axis=2), changed, weights=None,
            confidence=settings.confidence, are_paired=pair.are_paired,
        )
        for changed in (new.sum(axis=2), new[..., inside].sum(axis=2) + rest)
    )  # fmt: skip
    if total is None or part is None:
        return [*found]
    change = np.log(total.value)
    unexplained = np.sign(change) * (change - np.log(part.value))
    if unexplained <= max(np.log(total.high / total.value), abs(change) / 2):
        return [*found]
    whole = replace(clearest, begin=0.0, end=1.0, increased=total.value > 1)
    return [whole, *(one for one in found if one.quantity != clearest.quantity)]


def _compared(gaps: tuple[Gap, ...], bins: int) -> Bools:
    """Bins of the old work that inserted and removed work leaves to be compared, (bins,)."""
    compared = np.ones(bins, dtype=bool)
    for gap in gaps:
        # sampling intervals at its ends hold work of both sides, and its place is not exact
        length = gap.old[1] - gap.old[0]
        ends = gap.begins[0], gap.begins[1] + length
        first, last = (round(place * bins) for place in ends)
        margin = max(round(_GAP_MARGIN * bins), 1)
        compared[max(first - margin, 0) : last + margin] = False
    return compared


def _groups(pair: Pair) -> list[ContextGroup]:
    """Groups of contexts whose runs show how much runs vary."""
    columns, durations = pair.columns, (pair.old.duration, pair.new.duration)
    return [
        group
        for group in context_groups(pair.contexts)
        for rows in [np.array(group.members)]
        if shows_noise(columns[rows], *(part[rows] for part in durations))
    ]


def _change(
    pair: Pair,
    aligned: Alignment,
    settings: CompareSettings,
    stretch: Stretch,
    amounts: tuple[Floats, Floats],
) -> Change:
    """A stretch with the ratios of all quantities in it, from amounts (n, runs, bins, q)."""
    bins = slice(round(stretch.begin * settings.bins), round(stretch.end * settings.bins))
    rows = np.array(stretch.group.members)
    ratios = {}
    for q, name in enumerate(pair.quantities):
        old, new = (part[rows, :, bins, q].sum(axis=2) for part in amounts)
        ratio = ratio_of_amounts(
            pair.columns[rows],
            old,
            new,
            weights=None,
            confidence=settings.confidence,
            are_paired=pair.are_paired,
        )
        if ratio is not None:
            ratios[name] = ratio
    begin, end = aligned.to_new(np.array([stretch.begin, stretch.end])).tolist()
    return Change(
        old=(stretch.begin, stretch.end),
        new=(begin, end),
        quantity=pair.quantities[stretch.quantity],
        ratios=ratios,
        group=stretch.group,
        p_value=stretch.p_value,
        begins=(stretch.begin, stretch.begin),
    )


def _is_large(change: Change) -> bool:
    """Whether a change is reported: its quantity has no ratio, or one far enough from 1."""
    ratio = change.ratios.get(change.quantity)
    return ratio is None or abs(ratio.value - 1) >= _LEAST_CHANGE
