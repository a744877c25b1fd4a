"""Data of a report, from the measurements of a task.

Fit, calibrate, score held-out contexts, generate all contexts, bound, plan.
"""

from __future__ import annotations

import math
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.answers.evaluate.scores import describe_excluded
from msbgen.answers.plan.plan import parse_budget, plan_contexts
from msbgen.core.contexts import combinations_of
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.data import quality
from msbgen.data.check import checked_profiles, inspect_profiles
from msbgen.data.durations_only import with_interval
from msbgen.data.groups import clock_among, group_counters
from msbgen.data.partial import doubt_total, most_at_once
from msbgen.data.profiles import Profiles
from msbgen.data.schema import CLIFF, labels_of, level_text
from msbgen.data.shipped import shipped_file
from msbgen.data.tables import Groups
from msbgen.engine.bridge.solve import NotConvergedError
from msbgen.engine.generate.detection import without_absurd_counts
from msbgen.engine.generate.fit import fit_model
from msbgen.engine.generate.model import ProfileModel
from msbgen.output.batch import BUDGET, MISCOVERAGE, PARTS
from msbgen.output.batch.held_out import (
    BoundsOf,
    bounds_of,
    check_leave_out,
    score_held_out,
    score_left_out,
    supported_rate,
)
from msbgen.output.report.data import (
    AllContexts,
    Convergence,
    HeldOutScores,
    PlanSummary,
    ReportData,
    SampleSpread,
    Unavailable,
)
from msbgen.output.report.formatting import as_level, shortened, unit_of
from msbgen.output.report.maps import most_contexts
from msbgen.output.report.numbers import groups_of, is_simulated

Floats = NDArray[np.float64]

# Miscoverages used where the contexts do not support the given one.
_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
# Random runs of each context for its spread.
_RUNS = 10
# Error of the marginals over the tolerance above which a bridge is not the one that was solved.
_MOST_ERROR = 100.0
# Command that measures on a real machine.
_MEASURE = "measure SPEC.toml"
# Libraries whose versions the page lists.
_LIBRARIES = ("numpy", "scipy", "numba", "xarray", "matplotlib", "jinja2")


def collect_report_data(
    measured: xr.Dataset,
    *,
    source: str = "measured.nc",
    path: str = "",
    trace: str = "",
    truth: xr.Dataset | None = None,
    generated: Mapping[str, xr.Dataset] | None = None,
    leave_out: int | None = None,
    contexts: ArrayLike | None = None,
    model: ProfileModel | None = None,
    has_runs: bool = True,
    scores: xr.Dataset | None = None,
    miscoverage: float = MISCOVERAGE,
    budget: str | int = BUDGET,
    seed: int = 0,
    command: str = "",
    progress: OnProgress | None = None,
) -> ReportData:
    """Compute the data of a report.

    Parameters
    ----------
    measured : xarray.Dataset
        Valid profiles of the task.
    source, path : str
        Name of their file in the report, and its path in commands (that name).
    trace : str
        Path of the replayed trace, for profiles of the virtual platform; default: the shipped
        trace of the program that the task is named after.
    truth : xarray.Dataset, optional
        Measured runs of other contexts to score against; without it, contexts are left out.
    generated : mapping of name to profile dataset, optional
        Profiles of the contexts of `truth` from other sources; the first replaces the model's
        mean profiles in the report.
    leave_out : int, optional
        Measured contexts left out at a time, in random groups; default: a quarter.
    contexts : array_like, (n, n_resources), optional
        Contexts to generate; default: all of the platform, or as many as fit a page; without
        listed levels, all combinations of the measured ones.
    model : ProfileModel or CalibratedModel, optional
        A model fitted to `measured`; default: it is fitted here.
    has_runs : bool
        Whether `measured` holds the measured runs; else they are the known contexts of the model
        (`ProfileModel.known`), of which the report shows the durations.
    scores : xarray.Dataset, optional
        Scores of `truth` by :func:`msbgen.evaluate.scores.score_methods`, with ``default/mean``.
    miscoverage : float
        Probability that a new run exceeds its bound.  If the contexts do not support it, the next
        larger of a few rates is used, with a warning.
    budget : str or int
        Budget of the plan, see :func:`msbgen.answers.plan.plan.plan_contexts`.
    seed : int
        Seed of the left-out groups and of the random profiles.
    command : str
        Command line of the report.

    Raises
    ------
    ProfileError, MeasurementError
        As :func:`msbgen.engine.generate.fit.fit_profiles`; also for a truth or generated profiles
        that do not match `measured`.
    ArgumentError
        Contexts of the wrong shape; an invalid `leave_out`, `miscoverage` or `budget`.
    """
    stages = iter(range(1, 7))

    def step() -> None:
        if progress:
            progress(next(stages), 6)

    if truth is None and has_runs:
        check_leave_out(leave_out, measured.sizes["context"])
    measured = with_interval(measured)
    profiles = checked_profiles(measured, part=True) if has_runs else Profiles.of(measured)
    parse_budget(budget)
    rates = (miscoverage, *(rate for rate in _RATES if rate > miscoverage))
    model = model or fit_model(profiles)
    if not has_runs:
        means = model.generate(model.contexts, kind="mean")
        profiles = Profiles.of(means, model.distribution.interval)
    wanted = None if contexts is None else model.checked(contexts)
    step()
    supported = supported_rate(rates, len(model.distribution.contexts))
    calibrated = bounds_of(model, profiles if has_runs else None, supported)
    step()
    convergence = _convergence(model)
    step()
    if truth is not None:
        held_out: HeldOutScores | Unavailable = score_held_out(
            measured, truth, model, calibrated, generated or {}, scores, seed
        )
    elif not has_runs:
        held_out = Unavailable(
            f"{source} is a fitted model, which holds no measured runs: report the measured "
            f"profiles for its errors in left-out contexts."
        )
    else:
        held_out = score_left_out(measured, leave_out, PARTS, rates, seed, model.findings)
    step()
    everywhere = _everywhere(profiles, model, wanted, calibrated, seed)
    step()
    command_and_note = _command_to_measure(profiles, trace)
    planned = _planned(model, budget, path or source, *command_and_note, _groups(profiles))
    step()
    warnings = [
        *map(str, np.atleast_1d(model.attrs.get("faults", []))),
        *(_doubts(measured, profiles, source, model) if has_runs else ()),
        *_warnings(profiles, source, everywhere, held_out, convergence),
        *_cliffs(everywhere, model),
        *(describe_excluded(profiles, model.findings) if truth is None and has_runs else ()),
        *_other_rates(miscoverage, everywhere, held_out),
    ]
    runs = profiles if has_runs else Profiles.of(model.known).of_counters([])
    return ReportData(
        source=source, measured=runs, warnings=tuple(warnings), held_out=held_out,
        everywhere=everywhere, convergence=convergence, next=planned, seed=seed, command=command,
        settings=asdict(model.distribution.settings), versions=_versions(),
    )  # fmt: skip


def _convergence(model: ProfileModel) -> Convergence | Unavailable:
    try:
        model.prepare("sample")
    except NotConvergedError as error:
        bridge = error.bridge
        tol = float(getattr(model.distribution.settings, "tol", np.nan))
        return Convergence(error.reached, bridge.epsilon, tol, bridge.marginal_error)
    chain = getattr(model.distribution, "chain", None)
    if chain is None:
        return Unavailable(
            "The paper's distribution solves its bridge during the fit, and keeps no residuals."
        )
    errors, tol = chain.marginal_errors(), model.distribution.settings.tol
    if not (errors <= _MOST_ERROR * tol).all():
        raise MeasurementError(
            f"the bridge of the model misses its marginals by {errors.max():.2g}, not by {tol:g} "
            f"as when it was solved; fit the model again."
        )
    return Convergence(chain.status, chain.epsilon, tol, errors)


# --------------------------------------------------------------------------- all contexts


def _everywhere(
    measured: Profiles,
    model: ProfileModel,
    wanted: Floats | None,
    calibrated: BoundsOf,
    seed: int,
) -> AllContexts:
    most = most_contexts(len(measured.counters))
    notes = []
    if wanted is not None:
        table = wanted
        if len(table) > most:
            table = table[np.linspace(0, len(table) - 1, most).round().astype(int)]
            notes.append(f"{most} of the {len(wanted)} given contexts are shown.")
    else:
        levels = [
            np.unique(np.asarray(attrs.get("levels", column), dtype=float))
            for attrs, column in zip(measured.resources.values(), measured.contexts.T)
        ]
        unlisted = [name for name, attrs in measured.resources.items() if "levels" not in attrs]
        if unlisted:
            notes.append(
                f"The file does not list the levels of {', '.join(unlisted)}: the measured ones "
                f"are used."
            )
        kept = thinned(levels, list(measured.contexts.T), most)
        size, shown = (math.prod(map(len, axes)) for axes in (levels, kept))
        if shown < size:
            notes.append(
                f"The platform has {size:,} contexts; {shown:,} are shown. "
                f"msbgen generate --contexts writes the others."
            )
        table = combinations_of(kept)
    generated = model.generate(table, kind="mean")
    profiles = Profiles.of(generated, model.distribution.interval)
    outside, cliff = (generated[name].values != 0 for name in ("extrapolated", CLIFF))
    spread = _spread(model, table, profiles.n_times, seed)
    return AllContexts(profiles, outside, cliff, calibrated(table), spread, tuple(notes))


def _spread(
    model: ProfileModel, table: Floats, times: int, seed: int
) -> SampleSpread | Unavailable:
    """Range of a few random runs of each context, at the times of the mean profiles."""
    try:
        blocks = model.stream(table, kind="sample", n_samples=_RUNS, rng=seed)
        step = model.distribution.interval
        drawn = (Profiles.of(block, step).counts for block in blocks)
        ends = np.concatenate([_ends(counts, times) for counts in drawn], axis=1)
    except NotConvergedError as error:
        return Unavailable(f"No random runs: {error.reached}.")
    return SampleSpread(_RUNS, *ends)


def _ends(counts: Floats, times: int) -> NDArray[np.float32]:
    """Smallest and largest counts of random runs (n, samples, t, k), (2, n, times, k)."""
    drawn = np.nan_to_num(counts[:, :, :times])
    ends = np.zeros((2, len(drawn), times, drawn.shape[3]), dtype=np.float32)
    ends[0, :, : drawn.shape[2]] = drawn.min(axis=1)
    ends[1, :, : drawn.shape[2]] = drawn.max(axis=1)
    return ends


def thinned(levels: Sequence[Floats], measured: Sequence[ArrayLike], most: int) -> list[Floats]:
    """Select levels of each resource so that there are at most `most` contexts.

    Levels are removed from the resource that has most.  The lowest and the highest stay; measured
    levels are preferred.

    Examples
    --------
    >>> kept = thinned([np.arange(1.0, 10.0), np.array([1.0, 2.0])], [[1, 4, 9], [1, 2]], 8)
    >>> [axis.tolist() for axis in kept]
    [[1.0, 4.0, 6.0, 9.0], [1.0, 2.0]]
    """
    counts = [len(axis) for axis in levels]
    while math.prod(counts) > most and max(counts) > 1:
        counts[int(np.argmax(counts))] -= 1
    kept = []
    for axis, known, count in zip(levels, measured, counts):
        there = np.intersect1d(axis, np.asarray(known, dtype=float))
        spread = axis[_evenly(len(axis), count)]
        if 2 <= len(there) <= count:
            first = np.union1d(there, axis[[0, -1]])
            others = np.setdiff1d(axis, first)
            more = others[_evenly(len(others), max(count - len(first), 0))]
            spread = np.union1d(first, more) if len(first) <= count else spread
        kept.append(spread)
    return kept


def _evenly(n: int, count: int) -> NDArray[np.int64]:
    """Indices of `count` of n places, evenly spaced; the middle one for a single place."""
    if count == 1 or n == 0:
        return np.array([n // 2] if n and count else [], dtype=np.int64)
    return np.linspace(0, n - 1, min(count, n)).round().astype(np.int64)


# --------------------------------------------------------------------------- plan


def _command_to_measure(measured: Profiles, trace: str) -> tuple[str, str]:
    """Command that measures more, and a note on its placeholders."""
    if not is_simulated(measured):
        return _MEASURE, "SPEC.toml is the specification of these measurements."
    if trace:
        return f"platform replay {shlex.quote(trace)}", ""
    program = next(iter(measured.task.split()), "")
    try:
        shipped = shipped_file(f"traces/{program}.nc")
    except ArgumentError:
        return (
            "platform replay TRACE.nc",
            "TRACE.nc is the recorded trace of these replays (msbgen platform record writes one).",
        )
    note = f"The trace of {program} ships with msbgen."
    return f"platform replay {shlex.quote(str(shipped))}", note


def _groups(measured: Profiles) -> Groups:
    """Groups of counters of the planned runs; empty where all counters fit into one run."""
    most, names = most_at_once(measured), list(measured.counters)
    if most == len(names):
        return ()
    return group_counters(names, most, clock=clock_among(names, measured.clock_name))


def _planned(
    model: ProfileModel,
    budget: str | int,
    path: str,
    measure: str,
    note: str = "",
    groups: Groups = (),
) -> PlanSummary | Unavailable:
    levels = {
        name: attrs.get("levels", np.unique(model.contexts[:, i]))
        for i, (name, attrs) in enumerate(model.resources.items())
    }
    file = shlex.quote(path)
    unlisted = [name for name, attrs in model.resources.items() if "levels" not in attrs]
    try:
        plan = plan_contexts(model, budget, levels=levels, groups=groups)
    except ArgumentError as error:
        if not unlisted:
            return Unavailable(str(error))
        return Unavailable(
            f"{error} The file does not list the levels of {', '.join(unlisted)}: name those that "
            f"the platform can set: msbgen plan {file} --budget {shlex.quote(str(budget))} "
            f"--levels {','.join(f'{name}=FIRST:LAST:STEP' for name in unlisted)} -o next.csv"
        )
    options = ""
    if unlisted:  # the command needs the levels
        texts = [f"{n}={'/'.join(f'{x:.10g}' for x in np.ravel(v))}" for n, v in levels.items()]
        options = f" --levels {shlex.quote(','.join(texts))}"
    if groups:
        options += f" --at-once {max(map(len, groups))}"
    commands = (
        f"msbgen plan {file} --budget {shlex.quote(str(budget))}{options} -o next.csv",
        f"msbgen {measure} --contexts next.csv --with {file} -o more.nc",
    )
    planned = {f.name: getattr(plan, f.name) for f in fields(PlanSummary) if hasattr(plan, f.name)}
    return PlanSummary(**planned, commands=commands, note=note)


# --------------------------------------------------------------------------- warnings


def _doubts(
    dataset: xr.Dataset, measured: Profiles, source: str, model: ProfileModel
) -> Iterator[str]:
    """Warnings on the measured runs, one sentence each."""
    yield from _lost(measured, model)
    yield from inspect_profiles(dataset, source=source).warnings
    sound = without_absurd_counts(measured, model.findings)
    yield from quality.note_generated(measured, source=source)
    yield from quality.doubt_measurements(sound, source=source)
    runs = np.isfinite(measured.duration).sum(axis=1)
    if runs.max() == 1:
        yield "Every context has one run, so that the noise is unknown; measure some again."


def _cliffs(everywhere: AllContexts, model: ProfileModel) -> Iterator[str]:
    """Warnings on contexts between levels where a count may change suddenly."""
    marked = everywhere.near_cliff
    for sentence in model.describe_cliffs() if marked.any() else ():
        yield f"{sentence}. {int(marked.sum()):,} of the {len(marked):,} contexts lie in such gaps."


def _warnings(
    measured: Profiles,
    source: str,
    everywhere: AllContexts,
    held_out: HeldOutScores | Unavailable,
    convergence: Convergence | Unavailable,
) -> Iterator[str]:
    """Warnings on the accuracy, one sentence each."""
    yield from quality.note_design(measured, source=source)
    profiles = everywhere.profiles
    outside = int(everywhere.extrapolated.sum())
    if outside:
        yield (
            f"{outside:,} of the {len(profiles.contexts):,} contexts shown are extrapolated: "
            f"they lie outside of the measured ones."
        )
    if not isinstance(everywhere.bounds, Unavailable) and everywhere.bounds.beyond.any():
        guesses = everywhere.bounds.beyond
        yield (
            f"{int(guesses.sum()):,} of {len(guesses):,} bounds are guesses: no context of their "
            f"calibration was as far from the others{_most_of(profiles, guesses)}."
        )
    if isinstance(held_out, HeldOutScores) and held_out.extrapolated.any():
        yield (
            f"{int(held_out.extrapolated.sum()):,} of the {len(held_out.extrapolated):,} contexts "
            f"held out lie outside of those of the fit."
        )
    if isinstance(convergence, Convergence) and not convergence.status.startswith("converged"):
        yield f"The bridge did not converge: {convergence.status}; raise epsilon."


def _other_rates(
    miscoverage: float, everywhere: AllContexts, held_out: HeldOutScores | Unavailable
) -> Iterator[str]:
    """Warn that bounds are for another miscoverage than the given one."""
    used = miscoverage
    if not isinstance(everywhere.bounds, Unavailable) and everywhere.bounds.miscoverage > used:
        used = everywhere.bounds.miscoverage
        yield (
            f"Bounds are for a miscoverage of {_percent(used)}, not of {_percent(miscoverage)}: "
            f"too few contexts were measured for that."
        )
    if not isinstance(held_out, HeldOutScores) or isinstance(held_out.bounds, Unavailable):
        return
    if held_out.bounds.miscoverage > used:
        yield (
            f"Bounds are scored at a miscoverage of {_percent(held_out.bounds.miscoverage)}, not "
            f"of {_percent(used)}: too few contexts are left for that where some are held out."
        )


def _percent(rate: float) -> str:
    return f"{as_level(100 * rate)}\u00a0%"


def _most_of(profiles: Profiles, marked: NDArray[np.bool_]) -> str:
    """Levels of a resource where marked contexts (n,) are most frequent, in words."""
    found = []
    for (name, attrs), values in zip(profiles.resources.items(), profiles.contexts.T):
        groups = groups_of(np.unique(values), labels_of(attrs))
        for group in groups if len(groups) > 1 else ():
            inside = np.isin(values, group)
            found.append((float(marked[inside].mean()), name, group, inside))
    share, name, group, inside = max(found, key=lambda one: one[0], default=(0.0, "", [], []))
    if share <= marked.mean():
        return ""
    units = unit_of(str(profiles.resources[name].get("units", "1")))
    labels = labels_of(profiles.resources[name])
    ends = np.unique([group[0], group[-1]])
    span = " to ".join(shortened(level_text(level, labels)) for level in ends)
    return (
        f"; most at {shortened(name)} {span}{units}, {int(marked[inside].sum()):,} of "
        f"{int(np.sum(inside)):,} there"
    )


def _lost(measured: Profiles, model: ProfileModel) -> Iterator[str]:
    """Runs that the fit left out since they lost counts."""
    distribution = model.distribution
    lost = np.argwhere(np.isfinite(distribution.duration) & ~np.isfinite(distribution.centre.total))
    if len(lost):
        context, run = (int(i) for i in lost[0])
        row = int(np.abs(measured.contexts - model.contexts[context]).sum(axis=1).argmin())
        place, doubt = measured.describe_context(row), doubt_total(measured, row, run)
        example = f"run {run} of {place} {doubt}"
        yield example if len(lost) == 1 else f"{len(lost)} runs are left out, such as {example}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("msbgen", *_LIBRARIES):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
