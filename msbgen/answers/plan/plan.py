"""Plans: the contexts to measure next, their runs, their cost and the expected errors.

A fitted model or, before anything is measured, the levels of the platform give the prior
(:mod:`msbgen.answers.plan.prior`).  The design (:mod:`msbgen.answers.plan.design`) becomes one row
per context: resources, runs, seconds, expected error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.answers.plan.design import (
    LEAST_GAIN,
    DesignLimits,
    greedy_design,
    propose_contexts,
    rows_that_pay,
    with_corners,
)
from msbgen.answers.plan.prior import (
    PLAN_FACTOR,
    ROW_FACTOR,
    UNTIMED,
    all_points,
    is_on_axes,
    nearest_index,
    prior_of_distribution,
    prior_of_levels,
)
from msbgen.core.durations import has_unit, parse_seconds
from msbgen.core.errors import ArgumentError, MeasurementError, quoted
from msbgen.core.machine import OnProgress
from msbgen.core.records import Count, NotNegative, Seconds, checks_arguments
from msbgen.core.words import number_of
from msbgen.data.groups import describe_groups
from msbgen.data.schema import (
    AGAIN_COLUMN,
    GROUPS_COLUMN,
    PLAN_COLUMNS,
    checked_contexts,
    labels_of,
    same_level,
)
from msbgen.data.tables import Groups, plan_rows, write_table
from msbgen.engine.faults.findings import Fault, Findings, StretchedRun, WrongCount
from msbgen.engine.generate.model import ProfileModel

Floats = NDArray[np.float64]

# The most contexts of a platform: the time of each step grows with their number, and that of the
# first repetition with its square.
_MOST_CONTEXTS = 20_000
# The most new contexts of a plan by default: its time grows with their third power.
_MOST_NEW = 1_000
# Proposed contexts among which each step takes that of the highest expected gain.
_WINDOW = 4


@dataclass(frozen=True)
class Budget:
    """Limit of a plan: measuring time [s] or a number of contexts; infinite for the other one."""

    seconds: float = np.inf
    contexts: float = np.inf

    @property
    def is_time(self) -> bool:
        """Whether time is limited, which may be spent on repeated runs."""
        return self.seconds < np.inf


@dataclass(frozen=True)
class Rest:
    """Rows that a plan leaves out, as they are not worth their time."""

    contexts: int
    seconds: float  # [s]
    error: float  # expected error after them


@dataclass(frozen=True, eq=False)
class Plan:
    """Contexts to measure, in order; any prefix is a valid plan.

    Attributes
    ----------
    resources : tuple of str
    contexts : ndarray, (rows, n_resources)
    runs : ndarray of int, (rows,)
    seconds : ndarray, (rows,)
        Predicted cost of each row: its runs, and the preparation of the context [s].
    error : ndarray, (1 + rows,)
        Expected error before the first and after each row, dimensionless.  It is the error of the
        predicted counts of an interval at equal progress over each counter's largest count, root
        mean square over all contexts of the platform.  Without measurements its scale is not known:
        only ratios are meaningful.
    noise : float
        Deviation of one run from the mean of its context, in the same units.
    calibrated : bool
        Whether the errors are calibrated on held-out known contexts (see
        `msbgen.answers.plan.prior`).
    again : int
        Number of first rows that repeat contexts whose runs are all faulty.
    cliffs : int
        Number of rows after them between levels where a count may change suddenly
        (`ProfileModel.cliffs`).
    groups : tuple of tuple of str
        Counters that are measured together: run r of a context counts group r modulo their number.
        Empty where every run counts all counters.
    labels : tuple of tuple of str
        Words of the levels 1, 2, … of each resource; empty where all levels are numbers.
    spent : float
        Time of one run of each context measured before [s].
    rest : tuple of Rest
        The rows that follow within the budget and are not worth their time; none or one.
    timed : bool
        Whether the time of a run is known.  Else, without measurements and without `run_seconds`,
        a run at the highest levels is taken to last 1 s.
    """

    resources: tuple[str, ...]
    contexts: Floats
    runs: NDArray[np.int64]
    seconds: Floats
    error: Floats
    noise: float
    calibrated: bool
    again: int = 0
    cliffs: int = 0
    groups: Groups = ()
    labels: tuple[tuple[str, ...], ...] = ()
    spent: float = 0.0
    rest: tuple[Rest, ...] = ()
    timed: bool = True

    @property
    def pays(self) -> int:
        """Number of rows that are worth their time: all, unless `whole_budget` was set.

        After them 1 % more measuring time, the earlier one included, lowers the deviation of a new
        run from its prediction, √(error² + noise²), by less than 0.05 %.
        """
        paying = rows_that_pay(self.seconds, self.error, self.noise, self.spent)
        return len(self.runs) if self.rest else max(paying, self.first)

    @property
    def first(self) -> int:
        """Number of first rows that are worth their time at any expected error."""
        return min(self.again + self.cliffs, len(self.runs))

    @property
    def advice(self) -> str:
        """Sentence that says where to stop, and why; "" where the whole budget is worth it.

        Also "" where the errors are not calibrated, since the noise is not known.
        """
        n, contexts, seconds, error = self.pays, 0, 0.0, 0.0
        for rest in self.rest:
            contexts, seconds, error = rest.contexts, rest.seconds, rest.error
        if n < len(self.runs):
            seconds, contexts = float(self.seconds[n:].sum()), len(self.runs) - n
            error = float(self.error[-1])
        if contexts == 0 or not self.calibrated:
            return ""
        place = {0: "", 1: " after the first context"}.get(n, f" after the first {n} contexts")
        return (
            f"stop{place}: {seconds:.4g} s more in {number_of(contexts, 'context')} "
            f"would lower the expected error from {self.error[n]:.3g} to {error:.3g} of the "
            f"largest counts, where one run differs by {self.noise:.3g} from the mean of its "
            f"context; 1 % more measuring time lowers √(error² + noise²) by less than "
            f"{LEAST_GAIN} %"
        )

    def describe(self) -> str:
        """Summary of the plan in a few lines."""
        total = float(self.seconds.sum())
        contexts = number_of(len(self.runs), "context")
        runs = number_of(int(self.runs.sum()), "run")
        condition = "" if self.timed else f" {UNTIMED}"
        lines = [f"{contexts}, {runs}, about {total:.4g} s{condition}"]
        if not self.calibrated:
            lines.append(
                f"times follow a power law of the levels, and may be wrong by a factor of "
                f"{PLAN_FACTOR}, in single rows of {ROW_FACTOR}; they are fitted once "
                f"{len(self.resources) + 3} contexts are measured"
            )
        if self.advice:
            lines.append(self.advice)
        if self.again:
            lines.append(
                f"the first {self.again} measure again what looks wrong: --with drops the old runs "
                f"there"
            )
        if self.cliffs:
            lines.append(
                f"{'then' if self.again else 'first'} {self.cliffs} between levels where a count "
                f"may change suddenly"
            )
        if not len(self.runs):
            return self.advice
        if self.calibrated:
            lines.append(
                f"expected error of profiles {self.error[0]:.3g} of the largest counts before, "
                f"{self.error[-1]:.3g} after; one run differs by {self.noise:.3g} from the mean of "
                f"its context"
            )
        else:
            lines.append(
                f"expected error {self.error[-1] / self.error[0]:.1%} of that before; its scale is "
                f"known once {len(self.resources) + 3} contexts are measured"
            )
        return "\n".join([*lines, *describe_groups(self.groups)])

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the plan as CSV, a row per context, in the order to measure them.

        Columns: the resources; ``runs``; ``seconds`` of the row and ``cumulative_seconds`` until
        its end [s]; ``expected_error`` after it, dimensionless (see `error`).  Where contexts are
        repeated, ``again`` is 1 in rows whose runs replace the old ones.  Where counters are
        measured in groups, ``counters`` holds them: semicolons between groups, spaces within.

        Raises
        ------
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        write_table(self.rows(), path, overwrite=overwrite)

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values for JSON; `stop` is None where the whole budget pays."""
        stop = [asdict(rest) | {"sentence": self.advice} for rest in self.rest]
        return {
            "resources": list(self.resources),
            "labels": [list(words) for words in self.labels],
            "contexts": self.contexts.tolist(),
            "runs": self.runs.tolist(),
            "seconds": self.seconds.tolist(),
            "timed": self.timed,
            "error": self.error.tolist(),
            "noise": self.noise,
            "calibrated": self.calibrated,
            "again": self.again,
            "cliffs": self.cliffs,
            "counters": [list(group) for group in self.groups],
            "stop": stop[0] if stop else None,
        }

    def rows(self) -> Iterator[list[Any]]:
        """Rows of the table that :meth:`write` writes, the header first."""
        return plan_rows(
            dict(zip(self.resources, self.labels or ((),) * len(self.resources))), self.contexts,
            self.runs, self.seconds, self.error[1:], self.groups, self.again,
        )  # fmt: skip


@checks_arguments
def plan_contexts(
    source: ProfileModel | Mapping[str, ArrayLike],
    budget: str | int,
    *,
    levels: Mapping[str, ArrayLike] | None = None,
    candidates: ArrayLike | None = None,
    overhead: NotNegative = 0.0,
    run_seconds: Seconds | None = None,
    least_runs: Count = 1,
    most_runs: Count = 20,
    most_contexts: Count | None = None,
    groups: Sequence[Sequence[str]] = (),
    whole_budget: bool = False,
    progress: OnProgress | None = None,
) -> Plan:
    """Plan of the contexts to measure next, and the runs of each.

    Parameters
    ----------
    source : ProfileModel or mapping of name to levels
        A model of the measurements so far, of the default preset; or, without measurements, the
        levels of each resource of the platform.
    budget : str or int
        Measuring time such as "120s", "5min" or "1h", of which expensive contexts get less; or a
        number of contexts of any cost, with the corners of the platform among the first.
    levels : mapping of name to levels, optional
        The platform's levels, if they differ from those in the model's file.
    candidates : array_like, (q, n_resources), optional
        The contexts that may be measured; by default all.
    overhead : float
        Time to prepare a context, for any number of runs [s].
    run_seconds : float, optional
        Without measurements: approximate time of a run at the highest levels [s], required for a
        budget of time.  By default costs are in units of it.
    least_runs, most_runs : int
        Runs of each planned context.
    most_contexts : int, optional
        Largest number of new and known contexts together; by default there are at most 1,000 new
        ones.  The time that is left then goes to repetitions.
    groups : sequence of sequence of str, optional
        Groups of counters that are measured together
        (:func:`msbgen.data.groups.group_counters`).  Each context then gets rounds of runs, one a
        group; `least_runs`, `most_runs` and the expected errors refer to rounds.
    progress : callable
        Called with (done, total) thousandths of the budget.

    Returns
    -------
    Plan

    Raises
    ------
    ArgumentError
        A budget that is no time and no number, or too small for one context; levels that are
        missing, empty or no numbers; candidates that are no contexts of the platform; a model of
        the paper's preset, which has no trend.

    Notes
    -----
    About a second for 4,560 contexts and a few hundred planned ones, four for a thousand.

    Examples
    --------
    >>> plan = plan_contexts({"cache_ways": [2, 4, 8, 16], "clock": [1.0, 1.5, 2.0]}, 5)
    >>> len(plan.contexts), bool(plan.error[-1] < plan.error[0])
    (5, True)
    """
    limit = parse_budget(budget)
    if not 1 <= least_runs <= most_runs:
        raise ArgumentError(
            f"least_runs is {least_runs}, most_runs {most_runs}; 1 ≤ least ≤ most is wanted."
        )
    if isinstance(source, ProfileModel):
        names = tuple(source.resources)
        listed = {name: source.resources[name].get("levels", ()) for name in names}
        unlisted = [name for name in names if not levels and np.size(listed[name]) == 0]
        if unlisted:
            raise MeasurementError(
                f"resource '{unlisted[0]}' has no attribute 'levels'; those that the platform can "
                f"set are wanted (levels; --levels on the command line)."
            )
        axes = platform_axes(levels or listed, names)
        axes = [  # of words, those with runs: nothing is known of the others
            np.intersect1d(axis, codes) if codes else axis
            for axis, codes in zip(axes, source.words.codes or ((),) * len(axes))
        ]
        try:
            prior = prior_of_distribution(source.distribution, axes, source.words)
        except ArgumentError as error:
            if levels or source.distribution.name != "progress":
                raise
            raise MeasurementError(f"attribute 'levels' of the resources: {error}") from None
    else:
        if not isinstance(source, Mapping):
            raise ArgumentError(f"source is {quoted(source)}; a model or levels are wanted.")
        names = tuple(source)
        axes = platform_axes(source, names)
        if limit.is_time and not run_seconds:
            raise ArgumentError(
                f"budget is {quoted(budget)} and nothing was measured: say how long a run takes at "
                f"the highest levels (--run-seconds, run_seconds), or give a number of contexts."
            )
        prior = prior_of_levels(axes, run_seconds or 1.0)
    round_runs = max(len(groups), 1)
    prior = replace(prior, cost=round_runs * prior.cost)
    room = _MOST_NEW if most_contexts is None else max(most_contexts - prior.n_known, 0)
    spent = 0.0
    if isinstance(source, ProfileModel):
        durations = source.distribution.duration
        runs = np.isfinite(durations).sum(axis=1)  # 0 where all of them are faulty
        means = np.nansum(durations, axis=1) / np.maximum(runs, 1)
        spent = float(means.sum()) + overhead * len(durations)
    allowed = _allowed(axes, candidates, names)
    again = np.array(_again(source, axes, allowed), dtype=np.int64)
    seconds = least_runs * prior.cost[again] + overhead
    fits = (seconds.cumsum() <= limit.seconds) & (np.arange(len(again)) < limit.contexts)
    again, seconds = again[fits], seconds[fits]
    allowed[again] = False
    sizes = [len(axis) for axis in axes]
    # a number of contexts is planned as if all had equal costs
    cost = prior.cost if limit.is_time else np.full(len(prior.cost), prior.cost.mean())
    proposals = propose_contexts(sizes, cost, allowed)
    proposals = proposals if limit.is_time else with_corners(sizes, proposals)
    sudden = _in_cliffs(source, axes, cost, proposals)
    proposals = np.concatenate([sudden, proposals[~np.isin(proposals, sudden)]])
    limits = DesignLimits(
        window=_WINDOW,
        first=len(sudden),
        seconds=limit.seconds - seconds.sum(),
        contexts=min(limit.contexts - len(again), room),
        overhead=overhead,
        least_runs=least_runs,
        most_runs=most_runs,
        ends=prior.calibrated and not whole_budget,
        spent=spent + seconds.sum(),
        noise=prior.noise,
    )
    problem = prior.quantities, cost, prior.before, proposals
    design = greedy_design(*problem, limits, progress)
    if limits.ends and len(design.index) + len(again) == 0:  # the advice needs what does not pay
        design = greedy_design(*problem, replace(limits, ends=False), progress)
    if len(design.index) + len(again) == 0:
        if limit.is_time:
            raise ArgumentError(
                f"budget is {quoted(budget)}; the first context alone would take longer."
            )
        raise ArgumentError(
            f"budget is {quoted(budget)}, and no context is left: every allowed one is measured, "
            f"or as many as a model may hold; give a time to repeat runs."
        )
    plan = Plan(
        names,
        all_points(axes)[np.concatenate([again, design.index])],
        round_runs * np.concatenate([np.full(len(again), least_runs), design.runs]),
        np.concatenate([seconds, overhead + design.runs * prior.cost[design.index]]),
        # the gain of repeated contexts is not known: the model has no reliable runs there
        np.concatenate([np.repeat(design.error[:1], len(again)), design.error]),
        prior.noise,
        prior.calibrated,
        len(again),
        min(len(sudden), len(design.index)),
        tuple(map(tuple, groups)),
        tuple(map(labels_of, source.resources.values()))
        if isinstance(source, ProfileModel)
        else (),
        spent,
        timed=isinstance(source, ProfileModel) or run_seconds is not None,
    )
    return _ended(plan) if prior.calibrated and not whole_budget else plan


def _ended(plan: Plan) -> Plan:
    """The rows of a plan that are worth their time."""
    n = plan.pays
    if n == len(plan.runs):
        return plan
    rest = Rest(len(plan.runs) - n, float(plan.seconds[n:].sum()), float(plan.error[-1]))
    return replace(
        plan, contexts=plan.contexts[:n], runs=plan.runs[:n], seconds=plan.seconds[:n],
        error=plan.error[: n + 1], rest=(rest,),
    )  # fmt: skip


def _again(
    source: ProfileModel | Mapping[str, ArrayLike], axes: list[Floats], allowed: NDArray[np.bool_]
) -> list[int]:
    """Contexts of the platform without a run that is free of faults, the most certain first."""
    if not isinstance(source, ProfileModel):
        return []
    faults = tuple(fault for fault in source.findings if not _has_other_runs(source, fault))
    rows = [np.array(levels) for levels in Findings(faults).to_remeasure]
    indices = [int(nearest_index(axes, row)) for row in rows if is_on_axes(axes, row)]
    return [index for index in indices if allowed[index]]


def _in_cliffs(
    source: ProfileModel | Mapping[str, ArrayLike],
    axes: list[Floats],
    cost: Floats,
    proposals: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The cheapest proposal at the middle level of each gap that may hide a sudden change.

    The largest changes come first.
    """
    if not isinstance(source, ProfileModel):
        return np.empty(0, dtype=np.int64)
    points, found = all_points(axes)[proposals], []
    for cliff in sorted(source.cliffs, key=lambda cliff: -cliff.ratio):
        levels = points[:, cliff.resource]
        inside = np.unique(levels[cliff.contains(points)])
        if len(inside):
            middle = proposals[levels == inside[len(inside) // 2]]
            found.append(int(middle[np.argmin(cost[middle])]))
    return np.array(list(dict.fromkeys(found)), dtype=np.int64)


def _has_other_runs(model: ProfileModel, fault: Fault) -> bool:
    """Whether the fault is in one run, and the model was fitted to others of that context."""
    if not isinstance(fault, (StretchedRun, WrongCount)):
        return False
    rows = same_level(model.contexts, fault.levels[0]).all(axis=1)
    measured = np.isfinite(model.distribution.duration[rows])
    return bool(np.delete(measured, fault.run, axis=1).any())


def parse_budget(budget: str | int) -> Budget:
    """Budget of a text such as "120s", "5min" or "1h", or of a number of contexts.

    Examples
    --------
    >>> parse_budget("5min").seconds, parse_budget(40).contexts
    (300.0, 40)
    """
    wrong = ArgumentError(
        f"budget is {quoted(budget)}; a time such as '120s', '5min' or '1h', or a number of "
        f"contexts such as 40 is wanted."
    )
    if isinstance(budget, (int, np.integer)) and not isinstance(budget, bool):
        if not 0 < budget < 2**63:
            raise wrong
        budget = str(budget)
    if not isinstance(budget, str):
        raise wrong
    try:
        amount = parse_seconds(budget)
    except ArgumentError:
        raise wrong from None
    if has_unit(budget):
        limit = Budget(seconds=amount)
    elif budget.strip().isdecimal():
        limit = Budget(contexts=int(budget))
    else:
        raise wrong
    if amount <= 0:
        raise wrong
    return limit


def parse_levels(text: str) -> dict[str, Floats]:
    """Levels of ``cache_ways=2:20,frequency=1.2:2.3:0.1,mode=1/2/4``, by name.

    ``first:last`` counts in ones, ``first:last:step`` in steps; ``a/b/c`` lists levels.
    """
    levels: dict[str, Floats] = {}
    for part in text.split(","):
        name, _, values_text = (piece.strip() for piece in part.partition("="))
        wrong = ArgumentError(
            f"levels are {quoted(part)}; e.g. cache_ways=2:20, frequency=1.2:2.3:0.1 or mode=1/2/4 "
            f"is wanted."
        )
        try:
            if ":" in values_text:
                pieces = values_text.split(":")
                first, last, step = map(float, [*pieces, "1"] if len(pieces) == 2 else pieces)
                if not 0 < step < np.inf or not 0 <= last - first < 1e6 * step:
                    raise wrong
                count = int(np.floor((last - first) / step * (1 + 1e-9) + 1e-9)) + 1
                values = np.array([round(first + step * i, 9) for i in range(count)])
            else:
                values = np.array([float(level) for level in values_text.split("/")])
        except ValueError:
            raise wrong from None
        if not name or name in levels:
            raise ArgumentError(
                f"levels are {quoted(text)}; each resource is wanted once, by its name."
            )
        levels[name] = values
    return levels


def platform_axes(levels: Mapping[str, ArrayLike], names: Sequence[str]) -> list[Floats]:
    """Sorted levels of each resource; ArgumentError for others, none, no numbers, or too many."""
    if set(levels) != set(names) or not names:
        raise ArgumentError(
            f"levels are given for {', '.join(levels) or 'no resource'}; the resources are "
            f"{', '.join(names) or 'to be named'}."
        )
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"a resource is called {quoted(name)}; a text is wanted.")
    reserved = [name for name in names if name in (*PLAN_COLUMNS, AGAIN_COLUMN, GROUPS_COLUMN)]
    if reserved:
        raise ArgumentError(
            f"resource '{reserved[0]}' is called as a column of plans is; rename it."
        )
    axes = []
    for name in names:
        try:
            axis = np.unique(np.asarray(levels[name], dtype=float))
        except (TypeError, ValueError):
            axis = np.array([np.nan])
        if axis.size == 0:
            raise ArgumentError(
                f"resource '{name}' has no levels; those that the platform can set are wanted "
                f"(levels; --levels on the command line)."
            )
        if not np.all(np.isfinite(axis)):
            raise ArgumentError(
                f"resource '{name}' has levels that are not finite numbers; others are wanted."
            )
        axes.append(axis)
    size = math.prod(map(len, axes))
    if size > _MOST_CONTEXTS:
        raise ArgumentError(
            f"the levels make {size} contexts, a plan looks at {_MOST_CONTEXTS} at most: name "
            f"fewer levels, e.g. every other one."
        )
    return axes


def _allowed(
    axes: Sequence[Floats], candidates: ArrayLike | None, names: Sequence[str]
) -> NDArray[np.bool_]:
    """Whether each context of the platform may be measured, (N,)."""
    size = math.prod(map(len, axes))
    if candidates is None:
        return np.ones(size, dtype=bool)
    allowed = np.zeros(size, dtype=bool)
    for row in checked_contexts(candidates, names, "candidates"):
        if not is_on_axes(axes, row):
            raise ArgumentError(
                f"candidates hold {row.tolist()}, which the platform cannot set; contexts of its "
                f"levels are wanted."
            )
        allowed[nearest_index(axes, row)] = True
    return allowed
