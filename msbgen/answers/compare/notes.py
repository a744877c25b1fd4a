"""What limits the comparison of two files: their faults and differences, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from msbgen.answers.compare.matching import Shared, is_one_sweep
from msbgen.answers.compare.suspects import FAULTS_OF_CONTEXTS
from msbgen.answers.compare.versions import common_interval
from msbgen.core.errors import quoted
from msbgen.core.words import number_of
from msbgen.data.other_work import OTHER_WORK
from msbgen.data.profiles import Profiles
from msbgen.engine.faults.findings import (
    Fault,
    Findings,
    MachineDrift,
    StretchedRun,
    WrongCount,
)

Floats = NDArray[np.float64]

# Range of the changes of the work by context, as shares, from which it is noted.
_VARIED = 0.2


def fault_notes(version: Profiles, found: Findings) -> list[str]:
    """What is done about the faults of a version, a sentence for each kind of them."""
    name, out = version.source, []

    def places(kinds: tuple[type[Fault], ...]) -> list[int]:
        return sorted({i for f in found if isinstance(f, kinds) for i in f.contexts})

    if whole := places(FAULTS_OF_CONTEXTS):
        listed = ", ".join(version.describe_context(i) for i in whole)
        out.append(
            f"{name}: the times of {listed} do not fit those of the others, and are left out of "
            f"both: measure them again."
        )
    if slowed := [f for f in found if isinstance(f, StretchedRun)]:
        where = number_of(len(places((StretchedRun,))), "context")
        out.append(
            f"{name}: slowed down in a part of the work, and left out: "
            f"{number_of(len(slowed), 'run')} of {where}."
        )
    if wrong := [f for f in found if isinstance(f, WrongCount)]:
        where = number_of(len(places((WrongCount,))), "context")
        out.append(
            f"{name}: read wrongly, and replaced by the mean of the neighbours: "
            f"{number_of(len(wrong), 'count')} of {where}."
        )
    return out


def lone_fault_notes(version: Profiles, contexts: NDArray[np.int64]) -> list[str]:
    """What it means that contexts do not fit the others in one version alone."""
    if not len(contexts):
        return []
    listed = ", ".join(version.describe_context(int(i)) for i in contexts)
    return [
        f"{version.source}: only this version has times that do not fit the others in {listed}, "
        f"which the change itself may cause: --keep-all if the version does that; else measure "
        f"them again in both versions."
    ]


def cut_notes(version: Profiles, contexts: NDArray[np.int64]) -> list[str]:
    """What is done about contexts in which one version alone looks cut short."""
    if not len(contexts):
        return []
    listed = ", ".join(version.describe_context(int(i)) for i in contexts)
    return [
        f"{version.source}: less of '{version.clock_name}' and less time than in the other "
        f"version, and left out of both: {listed}. The change itself may cause this: --keep-all if "
        f"the version does that; {OTHER_WORK}, and compare again."
    ]


def varied_work_notes(clock: str, old: Floats, new: Floats) -> list[str]:
    """What it means that the work of runs (n, runs) changed much more in some contexts."""
    ratio = np.nanmedian(new, axis=1) / np.nanmedian(old, axis=1)
    low, high = ratio.min() - 1, ratio.max() - 1
    if not high - low > _VARIED:
        return []
    return [
        f"the total of '{clock}' changed by {100 * low:+.3g} % in one context and by "
        f"{100 * high:+.3g} % in another: unless the new version does that, runs were cut short or "
        f"had other inputs, and the verdict does not hold."
    ]


def difference_notes(
    old: Profiles,
    new: Profiles,
    shared: Shared,
    findings: tuple[Findings, Findings],
) -> Iterator[str]:
    """What else differs between the files, and what that means for the answer."""
    first, second = old.source, new.source
    if old.task != new.task:
        yield f"the files name different tasks, {quoted(old.task)} and {quoted(new.task)}."
    platforms = [str(version.attrs.get("platform", "")) for version in (old, new)]
    if platforms[0] != platforms[1]:
        yield (
            f"the files name different platforms, {quoted(platforms[0])} and "
            f"{quoted(platforms[1])}: the machine may make the difference."
        )
    for name in old.resources:
        means = [str(version.resources[name].get("mechanism", "")) for version in (old, new)]
        if all(means) and means[0] != means[1]:
            yield (
                f"'{name}' is set by {quoted(means[0])} in {first} and by {quoted(means[1])} in "
                f"{second}: its levels may differ in what they give."
            )
    if _are_equal(old, new):
        yield "both files hold the same runs, to the last digit: one may be a copy of the other."
    for version, other, rows in ((old, new, shared.old_rows), (new, old, shared.new_rows)):
        n_cut = int((~version.complete[rows] & np.isfinite(version.duration[rows])).sum())
        if n_cut:
            yield f"{version.source}: cut, and not compared: {number_of(n_cut, 'run')}."
        alone = [name for name in version.counters if name not in shared.counters]
        if alone:
            yield f"{', '.join(alone)}: only in {version.source}, and not compared."
        missing = len(version.contexts) - len(rows)
        if missing:
            yield (
                f"{version.source}: not in {other.source}, and not compared: "
                f"{number_of(missing, 'context')}."
            )
    intervals = old.interval, new.interval
    if not np.isclose(*intervals):
        yield (
            f"the sampling intervals are {intervals[0]:g} s and {intervals[1]:g} s; the work is "
            f"compared in intervals of {common_interval(*intervals):g} s."
        )
    if is_one_sweep(old, new):
        return  # a drift affects partners alike
    for version, found in zip((old, new), findings):
        if any(isinstance(f, MachineDrift) for f in found):
            yield (
                f"{version.source}: the machine drifted while it was measured, and times are "
                f"compared as measured: measure both versions as variants of one sweep."
            )
    started = old.started[shared.old_rows], new.started[shared.new_rows]
    if any(np.isnan(times).all() for times in started):
        yield (
            "the files do not say when each run started, so that a drift of the machine cannot be "
            "separated from the change: measure both versions as variants of one sweep."
        )
    elif np.nanmax(started[0]) < np.nanmin(started[1]) or np.nanmax(started[1]) < np.nanmin(
        started[0]
    ):
        yield (
            f"{first} and {second} were measured one after the other, so that a drift of the "
            f"machine cannot be separated from the change: measure them as variants of one sweep."
        )


def _are_equal(old: Profiles, new: Profiles) -> bool:
    """Whether the measured times and counts of both are the same."""
    pairs = [(old.duration, new.duration), (old.counts, new.counts)]
    return all(np.array_equal(first, second, equal_nan=True) for first, second in pairs)
