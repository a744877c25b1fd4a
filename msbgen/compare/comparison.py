"""The comparison of two versions of a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from msbgen.compare.alignment import BLOCKS, Alignment, Gap, align
from msbgen.compare.band import ratios_everywhere
from msbgen.compare.models import compare_models
from msbgen.compare.pairs import (
    Pair,
    VersionRuns,
    check_comparable,
    check_profiles,
    pair_profiles,
    shared_rows,
)
from msbgen.compare.ratio import Differences, Ratio, shows_noise
from msbgen.compare.stretches import (
    ContextGroup,
    Labelled,
    context_groups,
    find_stretches,
    mean_run,
)
from msbgen.core.arguments import checks_arguments, checks_fields
from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress
from msbgen.data.schema import (
    checked_contexts,
    file_of,
    level_labels,
    resource_attrs,
    resource_names,
)
from msbgen.generate.progress import uniform_knots
from msbgen.generate.words import WordColumns

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Verdict = Literal["slower", "faster", "same", "undecided"]

# Share of a program's amounts per block that is added before logarithms are taken.
_FLOOR = 0.02
# The most groups of contexts whose rates are matched side by side.
_GROUPS = 3
# A stretch whose own quantity changes less is not reported, such as by one page fault of millions.
_LEAST_CHANGE = 5e-4
# Shorter work without a match is not reported: blocks round by as much.
_LEAST_GAP = 0.005
# Share of the work beside inserted and removed work that is not compared.
_GAP_MARGIN = 0.025
# The ratio of the works must differ from 1 by so many standard errors, and by this share.
_WORK_ERRORS, _WORK_SHARE = 4.0, 0.002


@checks_fields
@dataclass(frozen=True)
class CompareSettings:
    """Settings of a comparison."""

    # changes of execution time below this share are no change
    tolerance: float = 0.01
    confidence: float = 0.95
    bins: int = 100  # of progress, in which stretches are located
    permutations: int = 999

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ArgumentError(
                f"tolerance is {self.tolerance}; a share above 0 and below 1 is wanted."
            )
        if not 0.5 <= self.confidence < 1:
            raise ArgumentError(f"confidence is {self.confidence}; 0.5 to below 1 is wanted.")
        if not (self.bins >= 10 and self.permutations >= 99):
            raise ArgumentError(
                f"bins is {self.bins} and permutations {self.permutations}; at least 10 and 99 "
                f"are wanted."
            )


@dataclass(frozen=True)
class Change:
    """A stretch of the work that changed.

    Attributes
    ----------
    old, new : (float, float)
        Begin and end in the work of either version, shares from 0 to 1.
    quantity : str
        Where the change is clearest: ``"time"`` or a counter; ``"inserted"``, ``"removed"`` or
        ``"replaced"`` for work that has no match.
    ratios : dict of str to Ratio
        NEW/OLD of every quantity in the stretch, over the contexts of `group`; empty for inserted
        and removed work.
    group : ContextGroup
        The contexts in which the change is clearest.
    p_value : float
        Adjusted for all stretches, quantities and groups of contexts; NaN for inserted and removed
        work, which is found by alignment.
    begins : (float, float)
        Between which shares of the old work it may begin: for inserted and removed work, where the
        counters look alike in several places.
    """

    old: tuple[float, float]
    new: tuple[float, float]
    quantity: str
    ratios: dict[str, Ratio]
    group: ContextGroup
    p_value: float
    begins: tuple[float, float]


@dataclass(frozen=True, eq=False)
class Course:
    """Mean amounts of both versions by progress, over contexts and runs.

    Attributes
    ----------
    quantities : tuple of str
        ``"time"`` [s] and the counters but that of progress.
    old_edges, new_edges : (bins + 1,)
        Edges of equal bins of either version's work on a common axis from 0 to 1, on which matched
        work has one place, and inserted and removed work a place of its own.
    old, new : (bins, q)
        Amounts in those bins.
    """

    quantities: tuple[str, ...]
    old_edges: Floats
    new_edges: Floats
    old: Floats
    new: Floats


@dataclass(frozen=True, eq=False)
class Comparison:
    """Result of :func:`compare_profiles`.

    Attributes
    ----------
    verdict : {"slower", "faster", "same", "undecided"}
        Of the execution time over all contexts.
    time : Ratio
        NEW/OLD of the execution time, the weighted geometric mean over contexts.
    detectable : float
        Smallest relative change of it that these runs would have found 9 times in 10.
    more_runs : int or None
        Further runs of each version in every context that would decide, if the true change is the
        one found; 0 if decided, None if unknown.
    totals : dict of str to Ratio
        NEW/OLD of the totals of the counters, over all contexts.
    files : (str, str)
        Names of both versions' files.
    task : str
        What was compared.
    resources : tuple of str
        Names of the columns of `contexts`.
    units : tuple of str
        Their units.
    labels : dict of str to tuple of str
        Words of the levels 1, 2, … of resources whose levels are no numbers.
    contexts : (n, m)
        Contexts of `value`: the compared or the wanted ones.
    value, low, high : (n,)
        NEW/OLD of the execution time in each context, and the band that holds all at once.
    changes : tuple of Change
        Stretches of the work that changed, the clearest first.
    same_program : bool
        Whether the counters of most of the work look alike in both versions.
    stretched_runs : (int, int)
        Runs of either version of which a part was slowed down; they are left out.
    stretched_p : float
        Of their numbers being alike (Fisher's exact test).
    runs : (int, int)
        Number of runs of either version that were compared.
    noise : {"runs", "neighbours", "models"}
        Origin of the intervals: runs of one context; neighbouring contexts, where each has one run;
        or left-out errors of fitted models, where the versions share no context.
    notes : tuple of str
        What limits the comparison, a sentence each.
    course : Course or None
        Both versions by progress; None without a shared context.
    """

    verdict: Verdict
    time: Ratio
    detectable: float
    more_runs: int | None
    totals: dict[str, Ratio]
    files: tuple[str, str]
    task: str
    resources: tuple[str, ...]
    units: tuple[str, ...]
    labels: dict[str, tuple[str, ...]]
    contexts: Floats
    value: Floats
    low: Floats
    high: Floats
    changes: tuple[Change, ...]
    same_program: bool
    stretched_runs: tuple[int, int]
    stretched_p: float
    runs: tuple[int, int]
    noise: Literal["runs", "neighbours", "models"]
    notes: tuple[str, ...]
    course: Course | None
    settings: CompareSettings = field(default_factory=CompareSettings)

    def as_dict(self) -> dict[str, Any]:
        """All results as JSON values; ``msbgen/compare/README.md`` lists them."""
        course = self.course
        return {
            "task": self.task,
            "old": self.files[0],
            "new": self.files[1],
            "verdict": self.verdict,
            "confidence": self.settings.confidence,
            "tolerance": self.settings.tolerance,
            "time": self.time.as_dict(),
            "detectable": self.detectable,
            "more_runs": self.more_runs,
            "totals": {name: ratio.as_dict() for name, ratio in self.totals.items()},
            "runs": list(self.runs),
            "noise": self.noise,
            "same_program": self.same_program,
            "stretched_runs": list(self.stretched_runs),
            "stretched_p": self.stretched_p,
            "resources": [
                {"name": name, "units": units, "labels": list(self.labels[name])}
                for name, units in zip(self.resources, self.units)
            ],
            "contexts": self.contexts.tolist(),
            "ratio": self.value.tolist(),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            "changes": [
                {
                    "quantity": change.quantity,
                    "old": list(change.old),
                    "new": list(change.new),
                    "ratios": {name: ratio.as_dict() for name, ratio in change.ratios.items()},
                    "resource": change.group.resource,
                    "level": change.group.level,
                    "below": change.group.below,
                    "p_value": change.p_value,
                    "begins": list(change.begins),
                }
                for change in self.changes
            ],
            "notes": list(self.notes),
            "course": course
            and {
                "quantities": list(course.quantities),
                **{
                    part: getattr(course, part).tolist()
                    for part in ("old_edges", "new_edges", "old", "new")
                },
            },
        }


@checks_arguments
def compare_profiles(
    old: xr.Dataset,
    new: xr.Dataset,
    *,
    weights: ArrayLike | None = None,
    contexts: ArrayLike | None = None,
    settings: CompareSettings = CompareSettings(),
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> Comparison:
    """Whether a program became slower, in which contexts, and in which stretches of its work.

    Parameters
    ----------
    old, new : xarray.Dataset
        Measured profiles of both versions; the contexts that both have are compared.  Without one,
        models of both are fitted, and compared in the contexts of either.
    weights : array_like, (n,)
        Weights of the contexts of `old` in the ratio over all contexts; default: equal, but less
        for contexts whose runs vary much more than those of others.
    contexts : array_like, (q, m)
        Contexts of which the ratio is wanted; default: the compared ones.
    settings : CompareSettings
        Tolerance, confidence, resolution and number of permutations.
    rng : numpy.random.Generator or int
        Permutations and draws, or their seed; equal seeds give equal results.
    progress : callable, optional
        Called with the number of models that are fitted, and their total.

    Returns
    -------
    Comparison

    Raises
    ------
    ProfileError
        The files differ in resources, units or the measure of progress.
    MeasurementError
        Faults leave no context, or the noise cannot be estimated.
    ArgumentError
        Weights or contexts of another shape.
    """
    check_profiles(old, new)
    check_comparable(old, new)
    draws = generator(rng)
    names = resource_names(old)
    if contexts is not None:
        contexts = checked_contexts(contexts, names)
    described: dict[str, Any] = {
        "files": (file_of(old), file_of(new)),
        "task": str(new.attrs.get("task") or file_of(new)),
        "resources": tuple(names),
        "units": tuple(str(old[name].attrs.get("units", "1")) for name in names),
        "labels": level_labels(old),
        "settings": settings,
    }
    if not len(shared_rows(old, new)[0]):
        given = None if weights is None else _weights(weights, old, np.arange(old.sizes["context"]))
        modelled = compare_models(
            (old, new), given, contexts, settings.confidence, draws, progress=progress
        )
        return Comparison(
            verdict=_verdict(modelled.time, settings.tolerance),
            time=modelled.time,
            detectable=modelled.time.detectable(settings.confidence),
            more_runs=None,
            totals={},
            contexts=modelled.contexts,
            value=modelled.value,
            low=modelled.low,
            high=modelled.high,
            changes=(),
            same_program=True,
            stretched_runs=(0, 0),
            stretched_p=1.0,
            runs=modelled.runs,
            noise="models",
            notes=modelled.notes,
            course=None,
            **described,
        )
    pair = pair_profiles(old, new)
    share = None if weights is None else _weights(weights, old, pair.rows)
    words = WordColumns.of(resource_attrs(old), pair.contexts)
    columns = words.encode(pair.contexts)
    differences = Differences.of(
        columns, pair.old.duration, pair.new.duration, are_paired=pair.are_paired
    )
    time = differences.mean(share, settings.confidence)
    totals = {}
    for name, first, second, rows in _totals(pair):
        known = columns[rows], first[rows], second[rows]
        if not shows_noise(*known):
            continue
        own = Differences.of(*known, are_paired=pair.are_paired)
        of_rows = None if share is None else share[rows] / share[rows].sum()
        totals[name] = own.mean(of_rows, settings.confidence)
    aligned = _aligned(pair, totals)
    targets = pair.contexts if contexts is None else contexts
    value, low, high = ratios_everywhere(
        differences, words.encode(targets), settings.confidence, draws
    )
    changes: tuple[Change, ...] = ()
    if aligned.is_same_program:
        changes = (*_gaps(aligned.gaps, pair), *_stretches(pair, aligned, settings, draws))
    n_runs = tuple(int(np.isfinite(v.duration).sum()) for v in (pair.old, pair.new))
    stretched = pair.old.stretched, pair.new.stretched
    table = [[s, n] for s, n in zip(stretched, n_runs)]
    return Comparison(
        verdict=_verdict(time, settings.tolerance),
        time=time,
        detectable=time.detectable(settings.confidence),
        more_runs=_more_runs(time, settings, n_runs, len(pair.contexts)),
        totals=totals,
        contexts=targets,
        value=value,
        low=low,
        high=high,
        changes=changes,
        same_program=aligned.is_same_program,
        stretched_runs=stretched,
        stretched_p=float(np.asarray(stats.fisher_exact(table))[1]),
        runs=(n_runs[0], n_runs[1]),
        noise="neighbours" if differences.from_neighbours else "runs",
        notes=pair.notes,
        course=_course(pair, aligned, settings.bins),
        **described,
    )


def _weights(weights: ArrayLike, old: xr.Dataset, rows: NDArray[np.int64]) -> Floats:
    """Weights of the compared contexts, rows of the old version, which sum to 1."""
    given = np.asarray(weights, dtype=float)
    if given.shape != (old.sizes["context"],) or not np.all((given >= 0) & (given < np.inf)):
        raise ArgumentError(
            f"weights have shape {given.shape}; one finite number ≥ 0 for each of the "
            f"{old.sizes['context']} contexts of the old version is wanted."
        )
    used = given[rows]
    if used.sum() <= 0:
        raise ArgumentError("weights of all compared contexts are 0; a positive one is wanted.")
    return used / used.sum()


def _totals(pair: Pair) -> Iterator[tuple[str, Floats, Floats, Bools]]:
    """Totals of each counter in both versions, and the contexts in which both have them."""
    for k, name in enumerate(pair.counters):
        first, second = pair.old.total[..., k], pair.new.total[..., k]
        rows = _comparable(first, second, pair)
        if rows.any():
            yield name, first, second, rows


def _comparable(first: Floats, second: Floats, pair: Pair) -> Bools:
    """Contexts (n,) whose amounts (n, runs) of both versions have a ratio: no run of them is 0."""
    held = [np.isfinite(part) for part in (first, second)]
    if pair.are_paired:
        held = [held[0] & held[1]] * 2
    above = [(np.where(own, part, 1.0) > 0).all(axis=1) for own, part in zip(held, (first, second))]
    return np.asarray(np.all([own.any(axis=1) for own in held] + above, axis=0))


def _aligned(pair: Pair, totals: dict[str, Ratio]) -> Alignment:
    """Alignment of both versions' work by the rates of their counters."""
    knots = uniform_knots(BLOCKS)
    found = [_rates(version, knots, pair.clock) for version in (pair.old, pair.new)]
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
        reach=float(_reach(pair).mean()),
        noise=(noise[0], noise[1]),
    )


def _reach(pair: Pair) -> Floats:
    """The longer sampling interval as a share of the runs' time, (n,)."""
    shares = [v.interval / np.nanmean(v.duration, axis=1) for v in (pair.old, pair.new)]
    return np.minimum(np.maximum(*shares), 1.0)


def _rates(version: VersionRuns, knots: Floats, clock: int) -> tuple[Floats, Floats]:
    """Logarithms of the amounts per unit of work in blocks of progress, and their variances.

    Both are (n, blocks, k).  The variance is that of the mean over the runs of a context; for
    contexts of one run it is the mean one of the others, or 0 where all are of one run.
    """
    amounts = version.amounts(knots, clock)  # (n, runs, blocks, q)
    mean = np.nanmean(amounts, axis=1)
    work = version.total[..., clock - 1] if clock else version.duration
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


def _course(pair: Pair, aligned: Alignment, bins: int) -> Course:
    """Both versions by their own progress, and its places on a common axis."""
    knots = uniform_knots(bins)
    lengths = np.maximum(np.diff(aligned.old), np.diff(aligned.new))
    common = np.append(0.0, np.cumsum(lengths)) / lengths.sum()
    edges = [np.interp(knots, places, common) for places in (aligned.old, aligned.new)]
    versions = (
        mean_run(version.amounts(knots, pair.clock))[:, 0] for version in (pair.old, pair.new)
    )
    old, new = (np.nan_to_num(np.nanmean(version, axis=0)) for version in versions)
    return Course(pair.quantities, edges[0], edges[1], old, new)


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
    old = pair.old.amounts(knots, pair.clock)
    new = pair.new.amounts(aligned.to_new(knots), pair.clock)
    compared = np.ones(settings.bins, dtype=bool)
    for gap in aligned.gaps:
        # sampling intervals at its ends hold work of both sides, and its place is not exact
        length = gap.old[1] - gap.old[0]
        ends = gap.begins[0], gap.begins[1] + length
        first, last = (round(place * settings.bins) for place in ends)
        margin = max(round(_GAP_MARGIN * settings.bins), 1)
        compared[max(first - margin, 0) : last + margin] = False
    runs = Labelled.of(old, new, _reach(pair), are_paired=pair.are_paired)
    if aligned.gaps:
        # shifted work meets the sampling intervals in another phase, in all runs of a context
        # alike: contexts are permuted, not runs
        runs = runs.shifted()
    durations = pair.old.duration, pair.new.duration
    groups = [
        group
        for group in context_groups(pair.contexts)
        for members in [np.array(group.members)]
        if shows_noise(pair.contexts[members], *(part[members] for part in durations))
    ]
    found = find_stretches(
        runs,
        groups,
        compared=compared,
        level=1 - settings.confidence,
        permutations=settings.permutations,
        rng=rng,
    )
    changes = []
    for stretch in found:
        bins = slice(round(stretch.begin * settings.bins), round(stretch.end * settings.bins))
        rows = np.array(stretch.group.members)
        ratios = {}
        for q, name in enumerate(pair.quantities):
            sums = old[rows, :, bins, q].sum(axis=2), new[rows, :, bins, q].sum(axis=2)
            both = _comparable(*sums, pair)
            known = pair.contexts[rows[both]], *(part[both] for part in sums)
            if both.any() and shows_noise(*known):
                differences = Differences.of(*known, are_paired=pair.are_paired)
                ratios[name] = differences.mean(None, settings.confidence)
        own = ratios.get(pair.quantities[stretch.quantity])
        if own is not None and abs(own.value - 1) < _LEAST_CHANGE:
            continue
        place = aligned.to_new(np.array([stretch.begin, stretch.end])).tolist()
        changes.append(
            Change(
                (stretch.begin, stretch.end),
                (place[0], place[1]),
                pair.quantities[stretch.quantity],
                ratios,
                stretch.group,
                stretch.p_value,
                (stretch.begin, stretch.begin),
            )
        )
    return changes


def _verdict(time: Ratio, tolerance: float) -> Verdict:
    if time.low > 1:
        return "slower"
    if time.high < 1:
        return "faster"
    if time.low > 1 - tolerance and time.high < 1 + tolerance:
        return "same"
    return "undecided"


def _more_runs(time: Ratio, settings: CompareSettings, runs: tuple[int, ...], contexts: int) -> int:
    """Further runs of each version in every context after which the interval would decide.

    They are those of a true change as large as the one found.
    """
    if _verdict(time, settings.tolerance) != "undecided":
        return 0
    half = np.log(time.high / time.value)
    change = abs(np.log(time.value))
    # the interval must exclude 1, or lie within the tolerance
    needed = max(change, np.log1p(settings.tolerance) - change)
    each = min(runs) / contexts
    return max(int(np.ceil(each * ((half / needed) ** 2 - 1))), 1)
