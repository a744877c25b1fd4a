"""Which contexts to measure next, how many runs each, and what error to expect.

The labelled shell around :mod:`msbgen.plan.design`: what a fitted model knows of itself, or, before
anything is measured, what the levels of a platform alone tell, becomes a prior
(:mod:`msbgen.plan.prior`); the design comes back as rows of resources, runs, seconds and expected
errors.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.durations import has_unit, parse_seconds
from msbgen.core.errors import ArgumentError
from msbgen.data.groups import describe_groups
from msbgen.data.schema import AGAIN_COLUMN, GROUPS_COLUMN, PLAN_COLUMNS, same_level
from msbgen.data.tables import Groups, plan_rows, write_table
from msbgen.faults.findings import Fault, Findings, StretchedRun, WrongCount
from msbgen.generate.model import ProfileModel
from msbgen.plan.design import Design, greedy_design, propose_contexts, with_corners
from msbgen.plan.prior import (
    Prior,
    all_points,
    holds,
    nearest_index,
    prior_of_law,
    prior_of_levels,
)

Floats = NDArray[np.float64]

# The most contexts of a platform: each step of a plan looks at all, and their square once.
_MOST_CONTEXTS = 20_000
# Proposed contexts among which the expected gain decides.
_WINDOW = 4
# Measuring pays while one per cent more time lowers the deviation of a new run from its prediction
# by this many per cent.
_PAYS = 0.05


@dataclass(frozen=True)
class Budget:
    """How much may be measured: for so many seconds, or so many contexts.

    Attributes
    ----------
    seconds, contexts : float
        The most of each; infinite for the one that the budget does not name.
    """

    seconds: float = np.inf
    contexts: float = np.inf

    @property
    def is_time(self) -> bool:
        """Whether it is a time, which repeated runs may use up."""
        return self.seconds < np.inf


@dataclass(frozen=True, eq=False)
class Plan:
    """What to measure, in this order; it may be stopped after any row.

    Attributes
    ----------
    resources : tuple of str
    contexts : ndarray, (rows, n_resources)
    runs : ndarray of int, (rows,)
    seconds : ndarray, (rows,)
        Predicted cost of each row: its runs, and the preparation of the context [s].  From
        nothing, and without the time of a run: in units of that at the highest levels.
    error : ndarray, (1 + rows,)
        Expected error before, and after each row, without dimension: how far the predicted counts
        of an interval are off at equal progress, as a share of each counter's largest, root mean
        square over all contexts of the platform.  From nothing: in units of what the task varies
        beyond a power law, which is not known yet; only its ratios mean something.
    noise : float
        What one run differs from the mean of its context, in the same units.
    calibrated : bool
        Whether the errors are calibrated on held-out known contexts (`msbgen.plan.prior` says how
        well).
    again : int
        So many rows, the first ones, measure again what looks wrong, and leaves nothing to trust.
    groups : tuple of tuple of str
        Counters that are measured together: run r of a context counts group r modulo their number.
        None where every run counts everything.
    """

    resources: tuple[str, ...]
    contexts: Floats
    runs: NDArray[np.int64]
    seconds: Floats
    error: Floats
    noise: float
    calibrated: bool
    again: int = 0
    groups: Groups = ()

    @property
    def pays(self) -> int:
        """Rows after which measuring stops paying; all of them where it never does.

        From there on one per cent more measuring lowers the deviation of a new run from its
        prediction, √(error² + noise²), by less than 0.05 %.
        """
        if len(self.runs) < 2:
            return len(self.runs)
        total = 0.5 * np.log(self.error[1:] ** 2 + self.noise**2)
        time = np.log(np.cumsum(self.seconds))
        # over a doubling of the time at the end of which each row stands: single rows are uneven
        start = np.maximum(np.searchsorted(time, time - np.log(2.0), side="right") - 1, 0)
        span = np.maximum(time - time[start], 1e-12)
        gain = (total[start] - total) / span
        idle = (gain < _PAYS) & (time - time[0] >= np.log(2.0))
        return int(np.argmax(idle)) if idle.any() else len(self.runs)

    @property
    def advice(self) -> str:
        """After which rows measuring stops paying, and by which rule; "" where it never does."""
        if self.pays == len(self.runs):
            return ""
        spent = float(self.seconds[: self.pays].sum())
        first = "the first context" if self.pays == 1 else f"the first {self.pays} contexts"
        return (
            f"after {first} ({spent:.4g} s) measuring 1 % longer lowers what a new run is off by, "
            f"√(error² + noise²), by less than {_PAYS} %, the noise being what one run differs "
            f"from the mean of its context"
        )

    def describe(self) -> str:
        """The plan in a few lines for a person."""
        total = float(self.seconds.sum())
        lines = [
            f"{len(self.runs)} contexts, {int(self.runs.sum())} runs, about {total:.4g} s",
        ]
        if self.again:
            lines.append(
                f"the first {self.again} measure again what looks wrong: --with drops the old runs "
                f"there"
            )
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
        if self.advice:
            lines.append(self.advice)
        return "\n".join([*lines, *describe_groups(self.groups)])

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the plan as CSV, a row a context, in the order to measure them.

        Columns: the resources; ``runs``; ``seconds`` of the row and ``cumulative_seconds`` until
        its end [s]; ``expected_error`` after it, without dimension (see `error`); ``again``, where
        something is, 1 in rows whose runs are to take the place of the old ones; ``counters``
        where they are measured in groups: semicolons between groups, spaces within them.

        Raises
        ------
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        write_table(self.rows(), path, overwrite=overwrite)

    def rows(self) -> Iterator[list[Any]]:
        """Rows of the table that :meth:`write` writes, the header first."""
        return plan_rows(
            self.resources, self.contexts, self.runs, self.seconds, self.error[1:], self.groups,
            self.again,
        )  # fmt: skip


def plan_contexts(
    source: ProfileModel | Mapping[str, ArrayLike],
    budget: str | int,
    *,
    levels: Mapping[str, ArrayLike] | None = None,
    candidates: ArrayLike | None = None,
    overhead: float = 0.0,
    run_seconds: float | None = None,
    least_runs: int = 1,
    most_runs: int = 20,
    most_contexts: int | None = None,
    groups: Sequence[Sequence[str]] = (),
) -> Plan:
    """Which contexts to measure next, and how many runs each.

    Parameters
    ----------
    source : ProfileModel or mapping of name to levels
        What was measured so far, fitted with the default preset; or nothing but the levels of
        each resource of the platform.
    budget : str or int
        Measuring time as "120s", "5min" or "1h", of which dear contexts get less, or a number of
        contexts, whatever each takes: the corners of the platform are among the first of these.
    levels : mapping of name to levels, optional
        The platform's levels, where they are not those that the model's file lists.
    candidates : array_like, (q, n_resources), optional
        The contexts that may be measured; all without.
    overhead : float
        Time to prepare a context, whatever its runs [s].
    run_seconds : float, optional
        From nothing, and needed for a budget of time: how long a run takes at the highest levels,
        about [s].  Without, costs are in units of that.
    least_runs, most_runs : int
        Runs of each planned context.
    most_contexts : int, optional
        New and known ones together: fitting takes their number to the third power.  Time that is
        left then goes to repetitions.
    groups : sequence of sequence of str, optional
        Counters that fit at a time (:func:`msbgen.data.groups.group_counters`).  Each context then
        gets rounds of runs, one a group: of rounds are the least and the most runs and the
        expected errors.

    Returns
    -------
    Plan

    Raises
    ------
    ArgumentError
        A budget that is no time and no number, or too small for a single context; levels that are
        missing, empty or not numbers; candidates that are no contexts of the platform; a model of
        the paper's preset, which has no uncertainty over contexts.

    Notes
    -----
    About a second for 4,560 contexts and a few hundred measured ones or planned steps.

    Examples
    --------
    >>> plan = plan_contexts({"cache_ways": [2, 4, 8, 16], "clock": [1.0, 1.5, 2.0]}, 5)
    >>> len(plan.contexts), bool(plan.error[-1] < plan.error[0])
    (5, True)
    """
    limit = parse_budget(budget)
    for name, value in (("overhead", overhead), ("run_seconds", run_seconds or 0.0)):
        if not 0 <= value < np.inf:
            raise ArgumentError(f"{name} is {value}; seconds ≥ 0 are wanted.")
    if most_contexts is not None and most_contexts < 1:
        raise ArgumentError(f"most_contexts is {most_contexts}; 1 or more is wanted.")
    if not 1 <= least_runs <= most_runs:
        raise ArgumentError(
            f"least_runs is {least_runs}, most_runs {most_runs}; 1 ≤ least ≤ most is wanted."
        )
    if isinstance(source, ProfileModel):
        names = tuple(source.resources)
        listed = {name: source.resources[name].get("levels", ()) for name in names}
        axes = _levels(levels or listed, names)
        prior = prior_of_law(source.law, axes)
    else:
        names = tuple(source)
        axes = _levels(source, names)
        if limit.is_time and not run_seconds:
            raise ArgumentError(
                f"budget is {budget!r} and nothing was measured: say how long a run takes at the "
                f"highest levels (run_seconds), or give a number of contexts."
            )
        prior = prior_of_levels(axes, run_seconds or 1.0)
    turns = max(len(groups), 1)
    prior = replace(prior, cost=turns * prior.cost)  # of a round
    room = np.inf if most_contexts is None else max(most_contexts - prior.n_known, 0)
    allowed = _allowed(axes, candidates, names)
    again = np.array(_again(source, axes, allowed), dtype=np.int64)
    seconds = least_runs * prior.cost[again] + overhead
    fits = (seconds.cumsum() <= limit.seconds) & (np.arange(len(again)) < limit.contexts)
    again, seconds = again[fits], seconds[fits]
    allowed[again] = False
    sizes = [len(axis) for axis in axes]
    # a number of contexts is to be spent well, whatever each of them takes
    cost = prior.cost if limit.is_time else np.full(len(prior.cost), prior.cost.mean())
    proposals = propose_contexts(sizes, cost, allowed)
    design = greedy_design(
        prior.quantities,
        cost,
        prior.before,
        proposals if limit.is_time else with_corners(sizes, proposals),
        window=_WINDOW,
        seconds=limit.seconds - seconds.sum(),
        contexts=min(limit.contexts - len(again), room),
        overhead=overhead,
        least_runs=least_runs,
        most_runs=most_runs,
    )
    if len(design.index) + len(again) == 0:
        if limit.is_time:
            raise ArgumentError(f"budget is {budget!r}; the first context alone would take longer.")
        raise ArgumentError(
            f"budget is {budget!r}, and no context is left: every allowed one is measured, or "
            f"as many as a model may hold; give a time to repeat runs."
        )
    first = replace(
        design,
        index=np.concatenate([again, design.index]),
        runs=np.concatenate([np.full(len(again), least_runs), design.runs]),
        seconds=np.concatenate([seconds, overhead + design.runs * prior.cost[design.index]]),
        # what they lower is not known: the model does not trust what it has there
        error=np.concatenate([np.repeat(design.error[:1], len(again)), design.error]),
    )
    whole = replace(first, runs=turns * first.runs)
    named = tuple(map(tuple, groups))
    return _labelled(whole, names, all_points(axes), prior, len(again), named)


def _again(
    source: ProfileModel | Mapping[str, ArrayLike], axes: list[Floats], allowed: NDArray[np.bool_]
) -> list[int]:
    """Contexts of the platform without a run that was measured well, the surest first."""
    if not isinstance(source, ProfileModel):
        return []
    wrong = tuple(fault for fault in source.findings if not _stands_beside(source, fault))
    rows = [np.array(levels) for levels in Findings(wrong).to_remeasure]
    places = [int(nearest_index(axes, row)) for row in rows if holds(axes, row)]
    return [place for place in places if allowed[place]]


def _stands_beside(model: ProfileModel, fault: Fault) -> bool:
    """Whether the fault is in one run, and the model was fitted to others of that context."""
    if not isinstance(fault, (StretchedRun, WrongCount)):
        return False
    own = same_level(model.law.contexts, fault.levels[0]).all(axis=1)
    there = np.isfinite(model.law.duration[own])
    return bool(np.delete(there, fault.run, axis=1).any())


def parse_budget(budget: str | int) -> Budget:
    """What "120s", "5min", "1h" or 40 allows.

    Raises
    ------
    ArgumentError
        Anything else, or nothing to spend.

    Examples
    --------
    >>> parse_budget("5min").seconds, parse_budget(40).contexts
    (300.0, 40)
    """
    wrong = ArgumentError(
        f"budget is {budget!r}; a time such as '120s', '5min' or '1h', or a number of contexts "
        f"such as 40 is wanted."
    )
    if isinstance(budget, (int, np.integer)) and not isinstance(budget, bool):
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

    Raises
    ------
    ArgumentError
        Anything else.
    """
    levels: dict[str, Floats] = {}
    for part in text.split(","):
        name, _, given = (piece.strip() for piece in part.partition("="))
        wrong = ArgumentError(
            f"levels are {part!r}; e.g. cache_ways=2:20, frequency=1.2:2.3:0.1 or mode=1/2/4 "
            f"is wanted."
        )
        try:
            if ":" in given:
                pieces = given.split(":")
                first, last, step = map(float, [*pieces, "1"] if len(pieces) == 2 else pieces)
                if not 0 < step < np.inf or not 0 <= last - first < 1e6 * step:
                    raise wrong
                count = int(np.floor((last - first) / step * (1 + 1e-9) + 1e-9)) + 1
                values = np.array([round(first + step * i, 9) for i in range(count)])
            else:
                values = np.array([float(level) for level in given.split("/")])
        except ValueError:
            raise wrong from None
        if not name or name in levels:
            raise ArgumentError(f"levels are {text!r}; each resource is wanted once, by its name.")
        levels[name] = values
    return levels


def _levels(given: Mapping[str, ArrayLike], names: Sequence[str]) -> list[Floats]:
    if set(given) != set(names) or not names:
        raise ArgumentError(
            f"levels are given for {', '.join(given) or 'no resource'}; the resources are "
            f"{', '.join(names) or 'to be named'}."
        )
    taken = [name for name in names if name in (*PLAN_COLUMNS, AGAIN_COLUMN, GROUPS_COLUMN)]
    if taken:
        raise ArgumentError(f"resource '{taken[0]}' is called as a column of plans is; rename it.")
    axes = []
    for name in names:
        try:
            axis = np.unique(np.asarray(given[name], dtype=float))
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
    """Which contexts of the platform may be measured, (N,)."""
    size = math.prod(map(len, axes))
    if candidates is None:
        return np.ones(size, dtype=bool)
    wanted = np.asarray(candidates, dtype=float)
    if wanted.ndim != 2 or wanted.shape[1] != len(axes) or len(wanted) == 0:
        raise ArgumentError(
            f"candidates have shape {wanted.shape}; rows × {len(axes)} columns "
            f"({', '.join(names)}) are wanted."
        )
    allowed = np.zeros(size, dtype=bool)
    for row in wanted:
        if not holds(axes, row):
            raise ArgumentError(
                f"candidates hold {row.tolist()}, which the platform cannot set; contexts of its "
                f"levels are wanted."
            )
        allowed[nearest_index(axes, row)] = True
    return allowed


def _labelled(
    design: Design,
    names: tuple[str, ...],
    platform: Floats,
    prior: Prior,
    again: int,
    groups: Groups,
) -> Plan:
    return Plan(
        names,
        platform[design.index],
        design.runs,
        design.seconds,
        design.error,
        prior.noise,
        prior.calibrated,
        again,
        groups,
    )
