"""Warnings about measured profiles that are valid but look wrongly measured.

The checks use the profiles and, where a file has them, these variables over (context, run) that
:mod:`msbgen.measure` writes:

===========================  =====================================================================
``RESOURCE_achieved``        achieved value of a resource, in the resource's unit
``longest_bin``              longest time between two stamps of the recording [s]
``late_share``               share of the run in bins of more than 1.5 intervals [1]
``COUNTER_counted_share``    share of its time for which the event was counted [1]
``load``, ``steal``          other tasks that wanted to run [1]; share of CPU time that other
                             machines took [1]
===========================  =====================================================================
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.conformal import share_interval
from msbgen.core.contexts import combinations_of
from msbgen.core.errors import quoted
from msbgen.core.lazy import lazy_module
from msbgen.data import schema
from msbgen.data.groups import counts_interruptions
from msbgen.data.other_work import OTHER_WORK, find_other_work
from msbgen.data.partial import clock_gaps, doubt_total
from msbgen.data.profiles import Profiles
from msbgen.data.totals import APART, FAR, FEW, NORMAL, by_context
from msbgen.data.units import KNOWN, is_known_unit
from msbgen.data.violations import Violations

_log = logging.getLogger("msbgen")

special = lazy_module("scipy.special")

Floats = NDArray[np.float64]

# Largest accepted deviation from the set value, as a share of the largest value.
_MISSED = 0.02
# Shares of a run in late bins, of time with a counter, of stolen time; tasks beside the measured.
_LATE, _COUNTED, _STOLEN, _LOAD = 0.05, 0.95, 0.01, 0.5
# Largest less smallest of a context's runs, over their mean: of its progress, of its duration.
_PROGRESS_SPREADS, _DURATION_SPREADS = 0.05, 0.25
# Contexts whose late runs are listed.
_MOST_LISTED = 20
# Least spread of runs, as a share, where few runs show less.
_EVEN = 0.005
# Counters wrap at these widths [bits]; a small step back then gives a count just below 2^bits.
_WIDTHS, _JUST_BELOW, _ABOVE_USUAL = (32, 48, 64), 2.0**-8, 100.0
# Level of significance: exceeded by chance once in a hundred times.
_CHANCE = 0.99
# Counts are stored as float32: differences within its rounding are not an error.
_ROUNDING = 1e-3
# A run in whose end nothing is counted for more than this share of its duration is doubted.
_SILENT = 0.5
# Number of corners, or of counters, that a sentence names.
_NAMED = 3


def doubt_measurements(profiles: Profiles, *, source: str = "dataset") -> list[str]:
    """Sentences about valid, measured profiles that look wrong; none is refused.

    They are about unknown units, time as the measure of progress, counters that wrapped or were
    shared, late bins, resources that were not set, load and steal.  Others are about totals and
    durations that spread, outlying runs, contexts with other work, recordings taken twice,
    resources without an effect, and contexts that look as if not set.  Generated profiles are not
    checked, and of profiles without runs only units and counts that are parts of others.
    """
    if profiles.is_generated:
        return []
    if profiles.replicate != "run":
        sentences = [*_unknown_units(profiles), *doubt_counts(profiles)]
        return [f"{source}: {text}" for text in sentences]
    breaches = Violations(profiles)
    totals = profiles.totals
    _wrapped(profiles, breaches)
    _recording(profiles, breaches)
    _empty_ends(profiles, breaches)
    _settings(profiles, breaches)
    _spreads(profiles, totals, breaches)
    _twice(profiles, totals, breaches)
    sentences = [
        *_unknown_units(profiles), *breaches.sentences(), *_without_effect(profiles, totals),
        *_not_set(profiles), *doubt_clock(profiles), *doubt_counts(profiles),
    ]  # fmt: skip
    return [f"{source}: {text}" for text in sentences]


def doubt_clock(profiles: Profiles) -> list[str]:
    """Sentence about time that measures progress by default, where counters of work exist.

    None about generated profiles.
    """
    named = "progress" in profiles.attrs or profiles.clock_name != "time"
    counters = [
        name
        for name, attrs in profiles.counters.items()
        if not counts_interruptions(name) and attrs.get("units") == schema.COUNT_UNITS
    ]
    if named or not counters or profiles.is_generated or profiles.replicate != "run":
        return []
    listed = ", ".join(counters[:_NAMED]) + (", …" if len(counters) > _NAMED else "")
    return [
        f"time measures progress, as no counter was chosen from {listed}: choose one that counts "
        f"the same total in every context ('msbgen check' compares them), or 'time' to keep it "
        f"(import --clock, attribute 'progress')."
    ]


def doubt_counts(profiles: Profiles) -> list[str]:
    """Sentences about counts that a fit takes as they are: parts above the whole, other work.

    None about generated profiles.
    """
    if profiles.is_generated:
        return []
    return [*_parts_above_the_whole(profiles), *_other_work(profiles)]


def _parts_above_the_whole(profiles: Profiles) -> list[str]:
    """Sentences about counters of which one counts a part of the other, and is larger."""
    violations = Violations(profiles)
    samples = dict(zip(profiles.counters, profiles.samples))
    for parts, whole in _subset_pairs(list(samples)):
        more, most = samples[parts], samples[whole]
        violations.of(0)(
            f"counter '{parts}' is above '{whole}' PLACE: check what the two events count.",
            more > most * (1 + _ROUNDING) + 1,
        )
    return list(violations.sentences())


def _subset_pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of counters of which one counts a part of the other: misses and requests."""
    for name in names:
        stem, _, kind = name.rpartition("_")
        if kind == "misses":
            for whole in ("requests", "accesses", "references", "loads"):
                if f"{stem}_{whole}" in names:
                    yield name, f"{stem}_{whole}"


def _other_work(profiles: Profiles) -> list[str]:
    """Sentence about single contexts whose runs do much more or less work than all others."""
    other, share = find_other_work(profiles)
    if not other.any():
        return []
    worst = float(share[other][np.argmax(np.abs(share[other] - 1.0))])
    breaches = Violations(profiles)
    breaches.of(0)(
        f"the total of '{profiles.clock_name}' is {worst:.3g} times that of the other "
        f"contexts PLACE: {OTHER_WORK}.",
        other,
    )
    return list(breaches.sentences())


def note_generated(profiles: Profiles, *, source: str = "dataset") -> list[str]:
    """Sentence about generated profiles where measured ones are wanted."""
    if not profiles.is_generated:
        return []
    kind = quoted(profiles.attrs["kind"])
    return [
        f"{source}: holds generated profiles (kind {kind}), no measured runs: what is fitted to "
        f"them, or scored on them, describes their model, not the program; give the measured file."
    ]


def warn_of_generated(profiles: Profiles) -> None:
    """Log the sentence of :func:`note_generated`."""
    for sentence in note_generated(profiles, source=profiles.source):
        _log.warning("%s", sentence)


def note_design(profiles: Profiles, *, source: str = "dataset") -> list[str]:
    """Sentence about corners of the platform that were not measured, which are extrapolated.

    The corners are the products of each resource's smallest and largest level, or measured value
    where the levels are not listed.
    """
    names = profiles.resources
    if profiles.is_generated or len(names) > 6:
        return []
    ends = []
    for attrs, values in zip(names.values(), profiles.contexts.T):
        levels = np.atleast_1d(np.asarray(attrs.get("levels", values), dtype=float))
        both = np.append(levels, values)
        ends.append(np.unique([both.min(), both.max()]))
    corners = combinations_of(ends)
    there = profiles.contexts
    missing = [c for c in corners if not schema.same_level(there, c).all(axis=1).any()]
    if not missing:
        return []
    texts = [f"({profiles.describe_levels(corner)})" for corner in missing[:_NAMED]]
    listed = ", ".join(texts) + (", …" if len(missing) > _NAMED else "")
    return [
        f"{source}: {len(missing)} of the platform's {len(corners)} corners were not measured: "
        f"{listed}; contexts towards them are extrapolated."
    ]


def _unknown_units(profiles: Profiles) -> Iterator[str]:
    """Sentences about resources in units that are not known."""
    for name, attrs in profiles.resources.items():
        if not schema.labels_of(attrs) and not is_known_unit(str(attrs["units"])):
            yield (
                f"resource '{name}' is in {quoted(attrs['units'])}, an unknown unit: known are "
                f"{KNOWN}; see that its levels are as meant."
            )


def _wrapped(profiles: Profiles, breaches: Violations) -> None:
    for name, counts in zip(profiles.counters, profiles.samples):
        largest = float(np.fmax.reduce(counts, axis=None))
        usual = float(np.nanmedian(counts))
        for bits in _WIDTHS:
            edge = 2.0**bits
            if largest < edge * (1 - _JUST_BELOW) or usual * _ABOVE_USUAL > edge:
                continue
            breaches.of(0)(
                f"counter '{name}' is just below 2^{bits} PLACE, where {usual:.3g} is usual: a "
                f"counter that wrapped; measure that run again or drop it.",
                (counts >= edge * (1 - _JUST_BELOW)) & (counts <= edge),
            )


def _recording(profiles: Profiles, breaches: Violations) -> None:
    """Sentences about the recordings."""
    found = breaches.of(0)
    late = _of_runs(profiles, "late_share")
    longest = _of_runs(profiles, "longest_bin")
    if np.isfinite(longest).any():
        worst = float(np.nanmax(np.where(late > _LATE, longest, 0.0)))
        found(
            f"{_LATE:.0%} of the time or more lies in bins of more than 1.5 intervals, of up to "
            f"{worst:.2g} s, PLACE: nothing shorter is seen there; a quieter machine or a longer "
            f"interval is wanted.",
            late > _LATE,
        )
    for name in profiles.counters:
        found(
            f"counter '{name}' was counted for less than {_COUNTED:.0%} of its time PLACE: its "
            f"counts are estimates; measure fewer events at once.",
            _of_runs(profiles, f"{name}_counted_share") < _COUNTED,
        )
    found(
        f"'load' is above {_LOAD:g} PLACE: other tasks wanted to run; measure on an idle machine.",
        _of_runs(profiles, "load") > _LOAD,
    )
    found(
        f"'steal' is above {_STOLEN:.0%} PLACE: other machines took the CPU; measure again, or on "
        f"a machine of its own.",
        _of_runs(profiles, "steal") > _STOLEN,
    )


def _of_runs(profiles: Profiles, name: str) -> Floats:
    """A variable over (context, run), NaN where there is none or it is no number."""
    return profiles.run_details.get(name, np.full(profiles.duration.shape, np.nan))


def _empty_ends(profiles: Profiles, breaches: Violations) -> None:
    """Sentence about runs in the second half of which nothing was counted."""
    counts, duration = profiles.counts, profiles.duration
    number = np.arange(1, counts.shape[2] + 1)
    last = np.where((counts > 0).any(axis=3), number, 0).max(axis=2)  # interval with a count
    held = np.where((counts == 0).any(axis=3), number, 0).max(axis=2)  # a lost end is no zero
    silent = 1.0 - profiles.interval * last / duration
    bad = (silent > _SILENT) & (last > 0) & (last < held)  # not where the duration is NaN
    if bad.any():
        part = schema.span(100 * silent[bad])
        breaches.of(0)(
            f"no counter counts in the last {part} % of the 'duration' PLACE: "
            f"unless the program waits there, correct the duration, or its unit, or measure again.",
            bad,
        )


def _settings(profiles: Profiles, breaches: Violations) -> None:
    """Sentences about resources that were not achieved as set."""
    for (name, attrs), wanted in zip(profiles.resources.items(), profiles.contexts.T):
        had = _of_runs(profiles, f"{name}_achieved")
        off = np.abs(had - wanted[:, None])
        missed = off > _MISSED * np.abs(wanted).max()
        if missed.any():
            units = str(attrs["units"])
            unit = "" if units == "1" else f" {units}"
            breaches.of(0)(
                f"resource '{name}' was {float(off[missed].max()):.3g}{unit} or less from the "
                f"set level PLACE: see what else limits it, or take what was achieved.",
                missed,
            )


def _spreads(profiles: Profiles, totals: Floats, breaches: Violations) -> None:
    """Sentences about contexts whose runs spread, and about outlying runs."""
    found, duration = breaches.of(0), profiles.ended
    clock = str(profiles.attrs.get("progress", "instructions"))
    if clock in profiles.counters:
        own = totals[..., list(profiles.counters).index(clock)]
        own = np.where(_blamed_on_gaps(profiles, own, found), np.nan, own)
        remedy = (
            "other tasks slowed the program down, or its input differed; measure on an idle machine"
            if clock in schema.CPU_TIMES
            else "they are no clock of one piece of work; give every run the same input, or "
            "another clock"
        )
        found(
            f"totals of '{clock}' spread by more than {_PROGRESS_SPREADS:.0%} between runs PLACE: "
            f"{remedy}.",
            _spread(own) > _PROGRESS_SPREADS,
        )
    found(
        f"durations spread by more than {_DURATION_SPREADS:.0%} between runs PLACE: measure on an "
        f"idle machine, or more runs.",
        _spread(duration) > _DURATION_SPREADS,
    )
    middle = by_context(np.nanmedian, duration)[:, None]
    apart = np.abs(duration - middle)
    usual = NORMAL * by_context(np.nanmedian, apart)[:, None]
    several = (np.isfinite(duration).sum(axis=1) >= FEW)[:, None]
    with np.errstate(invalid="ignore"):
        found(
            "'duration' is far from that of the other runs PLACE: see what happened meanwhile, or "
            "drop the run.",
            several & (apart > APART * usual) & (apart > FAR * middle),
        )


def _blamed_on_gaps(profiles: Profiles, own: Floats, found: Callable[[str, Any], None]) -> Any:
    """Runs with gaps whose totals depart from those of other runs, (context, run)."""
    gaps = clock_gaps(profiles) > 0
    whole = np.where(gaps, np.nan, own)
    unlike = _spread(whole) > _PROGRESS_SPREADS  # the gaps are not the cause
    known = np.isfinite(whole).any(axis=1, keepdims=True)
    usual = by_context(np.median, np.where(known, whole, own))[:, None]
    blamed = gaps & ~unlike[:, None] & (np.abs(own - usual) > 0.5 * _PROGRESS_SPREADS * usual)
    if blamed.any():
        first = np.argwhere(blamed)[0]
        found(f"a run PLACE {doubt_total(profiles, *map(int, first), then='')}", blamed)
    return blamed


def _spread(values: Floats) -> Floats:
    """Largest less smallest of each context's runs, over their mean."""
    mean = by_context(np.mean, values)
    return by_context(np.ptp, values) / np.where(mean > 0, mean, 1.0)


def _twice(profiles: Profiles, totals: Floats, breaches: Violations) -> None:
    """Sentences about runs that are one recording twice."""
    duration = profiles.ended
    seen: set[tuple[float | None, ...]] = set()
    again = np.zeros(duration.shape, dtype=bool)
    for c, r in np.argwhere(np.isfinite(duration)):
        known = (None if np.isnan(total) else float(total) for total in totals[c, r])
        key = (float(duration[c, r]), *known)
        again[c, r] = key in seen
        seen.add(key)
    breaches.of(0)(
        "duration and totals are those of another run PLACE: one recording was taken twice; drop "
        "one.",
        again,
    )


def _without_effect(profiles: Profiles, totals: Floats) -> Iterator[str]:
    """Sentences about resources whose levels change neither durations nor totals significantly."""
    figures = np.concatenate([profiles.ended[..., None], totals], axis=-1)
    table = profiles.contexts
    for column, name in enumerate(profiles.resources):
        groups = _others_equal(table, column)
        if groups and not any(_differs(f, groups) for f in np.moveaxis(figures, -1, 0)):
            yield (
                f"resource '{name}' had no effect: at its levels neither durations nor totals "
                f"differ more than between runs; see that it was set, or measure more runs."
            )


def _others_equal(table: Floats, column: int) -> list[NDArray[np.int64]]:
    """Groups of contexts, two or more, that differ in one resource only."""
    _, group = np.unique(np.delete(table, column, axis=1), axis=0, return_inverse=True)
    groups = [np.flatnonzero(group.ravel() == g) for g in range(group.max() + 1)]
    return [rows for rows in groups if len(rows) > 1]


def _differs(values: Floats, groups: list[NDArray[np.int64]]) -> bool:
    """Whether a figure of runs differs between the contexts of groups.

    The difference is large, or significant at 1 %: without an effect, the variance between contexts
    over that between runs follows Snedecor's F.
    """
    between = within = 0.0
    free_between = free_within = 0
    for rows in groups:
        runs = [own for row in rows if len(own := values[row][np.isfinite(values[row])])]
        if len(runs) < 2:
            continue
        means, every = np.array([run.mean() for run in runs]), np.concatenate(runs)
        if np.ptp(means) > FAR * np.abs(means).max():
            return True
        between += sum(len(run) * (run.mean() - every.mean()) ** 2 for run in runs)
        within += sum(float(((run - run.mean()) ** 2).sum()) for run in runs)
        free_between += len(runs) - 1
        free_within += len(every) - len(runs)
    if free_within == 0:
        return True  # the spread of runs is unknown
    if within == 0:
        return between > 0
    limit = float(special.fdtri(free_between, free_within, _CHANCE))
    return between / free_between > limit * within / free_within


def _not_set(profiles: Profiles) -> Iterator[str]:
    """Sentences about contexts that look as if a resource had its largest level."""
    duration, table = profiles.ended, profiles.contexts
    mean = by_context(np.mean, duration)
    error = by_context(np.std, duration)
    for column, (name, attrs) in enumerate(profiles.resources.items()):
        for rows in _others_equal(table, column):
            rows = rows[np.isfinite(mean[rows])]
            if len(rows) < 3 or schema.labels_of(attrs):
                continue
            rows = rows[np.argsort(table[rows, column])]
            most = rows[-1]
            for i, low in enumerate(rows[:-2]):
                noise = max(error[low], error[most], _EVEN * mean[most])
                between = mean[rows[i + 1 : -1]] - max(mean[low], mean[most])
                slower = between > max(APART * noise, FAR * mean[most])
                if abs(mean[low] - mean[most]) <= 2 * noise and slower.all():
                    yield (
                        f"{profiles.describe_context(int(low))} runs as with {name}="
                        f"{table[most, column]:g}, while what lies between is slower: see that it "
                        f"was set, and measure it again."
                    )


def describe_late(profiles: Profiles, deadline: float) -> Iterator[str]:
    """Lines that count the runs longer than a deadline [s]: all, and those of each context.

    The contexts with most late runs come first, and only the first 20.  Runs that were cut before
    the deadline are not counted.
    """
    duration = profiles.duration
    late = duration > deadline
    runs = (late | (np.isfinite(duration) & profiles.complete)).sum(axis=1)
    over, contexts = late.sum(axis=1), profiles.contexts
    rows = [row for row in np.argsort(-over / np.maximum(runs, 1), kind="stable") if runs[row]]
    counts = [("all contexts", int(over.sum()), int(runs.sum()))] if len(rows) > 1 else []
    counts += [
        (
            profiles.describe_levels(contexts[row]),
            int(over[row]),
            int(runs[row]),
        )
        for row in rows[:_MOST_LISTED]
    ]
    for where, k, n in counts:
        low, high = share_interval(k, n)
        yield (
            f"late      {where}: {k} of {n} runs above {deadline:g} s, {k / n:.1%} (95 % interval "
            f"{low:.1%} to {high:.1%})"
        )
    if len(rows) > _MOST_LISTED:
        yield f"late      {len(rows) - _MOST_LISTED} more contexts"
