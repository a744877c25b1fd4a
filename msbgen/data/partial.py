"""Partial runs: groups of counters, runs that were cut, gaps.

A core counts a few events at a time, so counters are measured in groups, in different runs.  Slow
contexts are cut by a timeout, and samples get lost.  This module finds which of it is an error or
a warning, and describes it.
"""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import quoted
from msbgen.data.gaps import CARRIED, KINDS
from msbgen.data.profiles import Profiles
from msbgen.data.schema import COMPLETE, CPU_TIMES, counter_names, replicate_dim, span
from msbgen.data.violations import Violations

Bools = NDArray[np.bool_]

# Runs this near the longest [share of it], with this much less work than others, look cut.
_AT_TIMEOUT, _LESS_WORK = 0.005, 0.03
# Number of contexts and counters that a line names.
_NAMED = 3


def counter_groups(profiles: Profiles) -> list[tuple[tuple[str, ...], Bools]]:
    """Sets of counters that were measured together, each with its runs, (n_contexts, n_runs).

    One where every run holds every counter; most runs first.
    """
    held, names = profiles.held, np.array(list(profiles.counters))
    patterns = np.unique(held[held.any(axis=2)], axis=0)
    found = [
        (tuple(map(str, names[pattern])), (held == pattern).all(axis=2)) for pattern in patterns
    ]
    return sorted(found, key=lambda group: -int(group[1].sum()))


def most_at_once(profiles: Profiles) -> int:
    """Largest number of counters in one run."""
    return max(len(names) for names, _ in counter_groups(profiles))


def is_partial(profiles: Profiles) -> bool:
    """Whether some run lacks a counter, or was cut."""
    there = np.isfinite(profiles.duration)
    return not (profiles.held[there].all() and profiles.complete[there].all())


def describe_partial(profiles: Profiles) -> list[str]:
    """Lines about counters in runs, cut runs and lost samples."""
    lines = [*_group_lines(profiles), *_cut_lines(profiles)]
    for name, share, lower in _missing(profiles):
        then = (
            "the next count holds what was missed"
            if profiles.counters[name]["gaps"] == CARRIED
            else f"lost, which lowers its totals by {lower:.2g} %; a model fills them in from what "
            f"all runs say happens there"
        )
        lines.append(f"gaps      {name}: {share:.2g} % of the samples are missing: {then}")
    return lines


def _group_lines(profiles: Profiles) -> Iterator[str]:
    groups = counter_groups(profiles)
    if len(groups) < 2:
        return
    shared = [n for n in profiles.counters if all(n in names for names, _ in groups)]
    if shared:
        yield f"groups    {len(groups)}, with {', '.join(shared)} in every run"
    else:
        yield f"groups    {len(groups)}"
    for number, (names, runs) in enumerate(groups, start=1):
        own = ", ".join(n for n in names if n not in shared) or "nothing more"
        each = runs.sum(axis=1)
        text = f"group {number}   {own}: {span(each[each > 0])} run{'s' if max(each) > 1 else ''}"
        lacking = np.flatnonzero(each == 0)
        where = ""
        if len(lacking):
            first, s = profiles.describe_context(int(lacking[0])), "s" if len(lacking) > 1 else ""
            where = f", in {len(lacking)} context{s} none, as in {first}"
        yield f"{text} a context{where}"


def _cut_lines(profiles: Profiles) -> Iterator[str]:
    there = np.isfinite(profiles.duration)
    cut = there & ~profiles.complete
    if not cut.any():
        return
    yield (
        f"cut       {int(cut.sum())} of {int(there.sum())} runs were ended early, in "
        f"{int(cut.any(axis=1).sum())} contexts: their counts until then are used"
    )
    for sentence in cut_throughout(profiles):
        yield f"cut       {sentence}"


def ended_counters(profiles: Profiles) -> Bools:
    """Which counters a complete run of each context holds, (n_contexts, n_counters)."""
    ended = profiles.held & profiles.complete[..., None]
    return np.asarray(np.any(ended, axis=1))


def cut_throughout(profiles: Profiles, named: int | None = _NAMED) -> list[str]:
    """Contexts in which every run, or every run with a counter, was cut; some of them by name."""
    ended, held = ended_counters(profiles), np.asarray(profiles.held.any(axis=1))
    every = np.asarray(held.any(axis=1) & ~ended.any(axis=1))
    found = {"every run": every}
    for k, name in enumerate(profiles.counters):
        found[f"every run that holds {name}"] = held[:, k] & ~ended[:, k] & ~every
    sentences = []
    for what, contexts in found.items():
        rows = np.flatnonzero(contexts)
        some = ", ".join(profiles.describe_context(int(i)) for i in rows[:named])
        more = f" and {len(rows) - named} more" if named and len(rows) > named else ""
        if len(rows):
            sentences.append(
                f"{what} in {some}{more}: what comes after is taken from other contexts"
            )
    return sentences


def _missing(profiles: Profiles) -> Iterator[tuple[str, float, float]]:
    """Counters with gaps, and the missing shares of their samples and counts [%]."""
    held = profiles.held
    for k, (name, attrs) in enumerate(profiles.counters.items()):
        wanted, values = int(profiles.n_intervals[held[..., k]].sum()), profiles.samples[k]
        got = np.count_nonzero(~np.isnan(values))
        if "gaps" in attrs and got < wanted:
            counted = float(np.nansum(values, dtype=float))
            filled = float(np.nansum(profiles.counts[..., k]))
            yield name, 100.0 * (wanted - got) / wanted, 100.0 * (1.0 - counted / filled)


def clock_gaps(profiles: Profiles) -> NDArray[np.int64]:
    """Samples of the progress counter that each run lacks, (n_contexts, n_runs)."""
    clock, inside = profiles.clock, profiles.n_intervals
    if not clock or "gaps" not in profiles.counters[profiles.clock_name]:
        return np.zeros(inside.shape, dtype=np.int64)
    known = (~np.isnan(profiles.samples[clock - 1])).sum(axis=2)
    return np.maximum(inside - known, 0)


def doubt_total(profiles: Profiles, context: int, run: int, then: str = "; it is left out") -> str:
    """End of a sentence about a run with an unusual total of the progress counter, and its gaps."""
    gaps, clock = int(clock_gaps(profiles)[context, run]), profiles.clock_name
    if not gaps and clock in CPU_TIMES:
        return f"was disturbed: its CPU time departs from the others'{then}."
    if not gaps:
        return f"lost counts: its total departs from the others'{then}."
    of = int(profiles.n_intervals[context, run])
    remedy = (
        "are they 'lost' rather than 'carried'?"
        if profiles.counters[clock]["gaps"] == CARRIED
        else "drop it, or measure it again."
    )
    return (
        f"lacks {gaps} of {of} samples of '{clock}', and its total departs from the others'{then}: "
        f"{remedy}"
    )


def partial_attrs(profiles: Profiles, *, interpolated: bool = False) -> dict[str, str]:
    """Attributes about partial runs for datasets derived from these profiles.

    Lost samples are `interpolated` from the rates around them; otherwise the model fills them in.
    """
    attrs = {}
    apart = _never_together(profiles)
    if apart:
        groups = counter_groups(profiles)
        shared = [n for n in profiles.counters if all(n in names for names, _ in groups)]
        known = ", ".join(dict.fromkeys([profiles.clock_name, *shared, "time", "context"]))
        attrs["coupled"] = (
            f"never measured in one run: {apart}. How these depend is not measured: they depend "
            f"here through {known} only."
        )
    there = np.isfinite(profiles.duration)
    cut = there & ~profiles.complete
    if cut.any():
        counted = f"{int(cut.sum())} of {int(there.sum())} runs were cut"
        attrs["cut"] = "; ".join([counted, *cut_throughout(profiles, named=None)])
    lost = "interpolated" if interpolated else "filled in by the model"
    gaps = [
        f"{name}: {share:.2g} % of the samples were missing, "
        + ("held by the next" if profiles.counters[name]["gaps"] == CARRIED else lost)
        for name, share, _ in _missing(profiles)
    ]
    return attrs | ({"gaps": "; ".join(gaps)} if gaps else {})


def _never_together(profiles: Profiles) -> str:
    """Counters never measured together, as "a, b with c, d; c with d"; empty where none."""
    names, groups = list(profiles.counters), [set(names) for names, _ in counter_groups(profiles)]
    found: dict[tuple[str, ...], list[str]] = {}
    for i, name in enumerate(names):
        others = [o for o in names[i + 1 :] if not any({name, o} <= group for group in groups)]
        if others:
            found.setdefault(tuple(others), []).append(name)
    return "; ".join(f"{', '.join(own)} with {', '.join(o)}" for o, own in found.items())


# ------------------------------------------------------------------------------------- problems


def complete_errors(ds: xr.Dataset) -> Iterator[str]:
    """Sentences about an invalid variable ``complete`` or attribute ``gaps``."""
    for name in counter_names(ds):
        kind = ds.variables[name].attrs.get("gaps", KINDS[0])
        if not (isinstance(kind, str) and kind in KINDS):
            yield (
                f"counter '{name}' has gaps {quoted(str(kind))}; 'carried' (the next count holds "
                f"what was missed) or 'lost' is wanted."
            )
    if COMPLETE not in ds:
        return
    wanted = {"context", replicate_dim(ds) or "run"}
    if set(ds[COMPLETE].dims) != wanted:
        yield (
            f"variable '{COMPLETE}' has dimensions {sorted(map(str, ds[COMPLETE].dims))}; "
            f"{sorted(wanted)} are wanted."
        )
        return
    dims = ("context", replicate_dim(ds) or "run")
    values = ds[COMPLETE].transpose(*dims).values
    wrong = ~np.isin(values, (0, 1))
    if values.dtype.kind == "f" and "duration" in ds and set(ds["duration"].dims) == wanted:
        missing = ds["duration"].transpose(*dims).isnull().values
        wrong &= ~(np.isnan(values) & missing)
    if values.dtype.kind not in "biuf":
        yield f"variable '{COMPLETE}' holds text ({values.dtype}); 1 or 0 for each run is wanted."
    elif wrong.any():
        context, run = np.argwhere(wrong)[0]
        more = f" and in {int(wrong.sum()) - 1} more runs" if wrong.sum() > 1 else ""
        yield (
            f"variable '{COMPLETE}' is {str(values[context, run])[:20]} in context {context}, run "
            f"{run}{more}; 1, for a run that went on to its end, or 0, for one that was cut, is "
            f"wanted."
        )


def gap_warnings(profiles: Profiles) -> Iterator[str]:
    """Sentences about carried gaps at the end of a run, after which no count follows."""
    violations = Violations(profiles)
    final = np.clip(profiles.n_intervals, 1, profiles.n_times) - 1
    for k, (name, attrs) in enumerate(profiles.counters.items()):
        if attrs.get("gaps") != CARRIED:
            continue
        last = np.take_along_axis(profiles.samples[k], final[..., None], axis=2)[..., 0]
        violations.of(0)(
            f"counter '{name}' is NaN in the last interval PLACE: its gaps are 'carried', but no "
            f"count comes after that holds what was missed; it is taken to go on as before: cut "
            f"the run there (its 'duration', and 0 in 'complete'), or measure it again.",
            np.isnan(last) & profiles.held[..., k],
        )
    yield from violations.sentences()


def clock_errors(profiles: Profiles) -> Iterator[str]:
    """Sentences about runs in which the clock was not measured, whose progress is unknown."""
    clock, held, violations = profiles.clock, profiles.held, Violations(profiles)
    if clock:
        violations.of(0)(
            f"counter '{profiles.clock_name}', the progress counter, was not measured PLACE: "
            f"measure it in every run, or name another counter in attribute 'progress'.",
            held.any(axis=2) & ~held[..., clock - 1],
        )
    yield from violations.sentences()


def measured_errors(profiles: Profiles) -> Iterator[str]:
    """Sentences about counters that were never measured, and about no complete run at all."""
    held = profiles.held
    missing = [name for k, name in enumerate(profiles.counters) if not held[..., k].any()]
    for name in missing:
        yield f"counter '{name}' is NaN in every run: none holds it; drop it, or measure it."
    if not missing:
        yield from unended_counters(profiles)


def unended_counters(profiles: Profiles) -> Iterator[str]:
    """Counters without a complete run; all of them in one sentence where no run is complete."""
    held, ended = profiles.held, ended_counters(profiles)
    if held.any() and not ended.any():
        yield (
            "no run went on to its end, 'complete' is 0 throughout: how long the task takes is "
            "not known; measure one run without a timeout."
        )
        return
    for k, name in enumerate(profiles.counters):
        if held[..., k].any() and not ended[:, k].any():
            yield (
                f"counter '{name}' is in no run that went on to its end: measure it in one "
                f"without a timeout, or drop it."
            )


def cut_warnings(profiles: Profiles) -> Iterator[str]:
    """Sentences about runs that look cut by a timeout: as long as the longest, with less work."""
    clock, duration = profiles.clock, profiles.duration
    if not clock or profiles.replicate != "run":
        return
    counts = profiles.samples[clock - 1]
    total = np.array([np.nansum(runs, axis=1, dtype=float) for runs in counts])  # little memory
    longest = np.fmax.reduce(duration, axis=None)
    at_end = duration >= (1.0 - _AT_TIMEOUT) * longest
    others = total[np.isfinite(duration) & ~at_end]
    if len(others) == 0:
        return
    cut = at_end & (total < (1.0 - _LESS_WORK) * np.median(others))
    if cut.sum() < 2:  # a single run is always the longest
        return
    violations = Violations(profiles)
    violations.of(0)(
        f"a run PLACE ends with the longest at {longest:.4g} s, having counted less of "
        f"'{profiles.clock_name}' than shorter ones: a timeout? Say so in 'complete' (context, "
        f"run), 0 for runs that were cut.",
        cut,
    )
    yield from violations.sentences()
