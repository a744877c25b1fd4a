"""Which contexts to measure next, how many runs each, and what error to expect.

The labelled shell around :mod:`msbgen.plan.design`: what a fitted model knows of itself (or, before
anything is measured, the levels of a platform alone) becomes priors, noise and costs there; the
design comes back as rows of resources, runs, seconds and expected errors.

From a model.  Each quantity of its trend (time, and events, per bin of progress) is a Gaussian
process with the length scales that the trend has learned.  Its amplitude is set so that the
predicted errors of known contexts, each left out in turn, are in the mean square the observed ones:
expected errors are calibrated on held-out known contexts.  They are those of a typical context: the
median over random contexts was 1.0 and 0.4 times the expected on two programs (gcc, bc), the root
mean square 1.6 to 6 times on three, as contexts at the end of a resource that no known one
resembles (the lowest bandwidth with few ways) depart tenfold.  An error counts by how much it moves
the profile, each counter divided by its largest value, as in the scaled normalised DTW.
Run-to-run noise is that among the runs of a context; what the trend's nugget holds beyond it is
misfit, which repetition does not remove.  Where the trend has found a cap, time has the uncertainty
of the unthrottled time, as far as that reaches it, and a throttled context tells little of it.

From nothing.  Logarithms of the levels, and lengths and noise as the trend has them before it has
seen enough; more of a resource is taken to be faster, so that low levels cost more.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.data.tables import PLAN_COLUMNS, plan_rows, write_table
from msbgen.generate.model import ProfileModel
from msbgen.generate.progress_law import ProgressLaw
from msbgen.plan.design import Design, Quantity, all_points, greedy_design, propose_contexts
from msbgen.trend.covariance import prior_covariance
from msbgen.trend.fit import Trend, fit_trend
from msbgen.trend.smooth import FORMS

Floats = NDArray[np.float64]

# The most contexts of a platform: each step of a plan looks at all, and their square once.
_MOST_CONTEXTS = 20_000
# Proposed contexts among which the expected gain decides.
_WINDOW = 4
# No run takes as long as a hundred years [s].
_LONGEST = 3e9
# Before the trend can choose: its first length, its first nugget.
_LENGTH, _NUGGET = 1.6, 1e-3
# Time rises with this power of a level's distance from the highest one, shared by the resources.
_STEEPNESS = 1.0
# Measuring pays while one per cent more time lowers the deviation of a new run from its prediction
# by this many per cent.
_PAYS = 0.05
# A context whose time is capped to this share at least tells something of the unthrottled time.
_LEAST_SHARE = 0.05
_SAME_LEVEL = 1e-6


@dataclass(frozen=True, eq=False)
class Plan:
    """What to measure, in this order; it may be stopped after any row.

    Attributes
    ----------
    resources : tuple of str
    contexts : ndarray, (rows, n_resources)
    runs : ndarray of int, (rows,)
    seconds : ndarray, (rows,)
        Predicted cost of each row: its runs, and the preparation of the context [s].
    error : ndarray, (1 + rows,)
        Expected error before, and after each row: root mean square over all contexts of the
        platform of scaled counts over their largest, at equal progress.  From nothing: in units
        of what the task varies beyond a power law, which is not known yet.
    noise : float
        What one run differs from the mean of its context, in the same units.
    calibrated : bool
        Whether the errors are calibrated on held-out known contexts (see the module for how well).
    """

    resources: tuple[str, ...]
    contexts: Floats
    runs: NDArray[np.int64]
    seconds: Floats
    error: Floats
    noise: float
    calibrated: bool

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

    def describe(self) -> str:
        """The plan in a few lines for a person."""
        total = float(self.seconds.sum())
        lines = [
            f"{len(self.runs)} contexts, {int(self.runs.sum())} runs, about {total:.4g} s",
        ]
        if self.calibrated:
            lines.append(
                f"expected error of profiles {self.error[0]:.3g} before, {self.error[-1]:.3g} "
                f"after; one run differs by {self.noise:.3g} from the mean of its context"
            )
        else:
            lines.append(
                f"expected error {self.error[-1] / self.error[0]:.1%} of that before; its scale is "
                f"known once {len(self.resources) + 3} contexts are measured"
            )
        if self.pays < len(self.runs):
            spent = float(self.seconds[: self.pays].sum())
            lines.append(f"more than {self.pays} contexts ({spent:.4g} s) hardly pays")
        return "\n".join(lines)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the plan as CSV: resources, runs, seconds, cumulative seconds, expected error.

        Raises
        ------
        FileExistsError
            `path` exists and `overwrite` is False.
        """
        rows = plan_rows(self.resources, self.contexts, self.runs, self.seconds, self.error[1:])
        write_table(rows, path, overwrite=overwrite)


def plan_contexts(
    source: ProfileModel | Mapping[str, ArrayLike],
    budget: str | int,
    *,
    levels: Mapping[str, ArrayLike] | None = None,
    candidates: ArrayLike = (),
    overhead: float = 0.0,
    run_seconds: float = 0.0,
    least_runs: int = 1,
    most_runs: int = 20,
    most_contexts: int = 0,
) -> Plan:
    """Which contexts to measure next, and how many runs each.

    Parameters
    ----------
    source : ProfileModel or mapping of name to levels
        What was measured so far, fitted with the default preset; or nothing but the levels of
        each resource of the platform.
    budget : str or int
        Measuring time as "120s", "5min" or "1h", or a number of contexts.
    levels : mapping of name to levels
        The platform's levels, where they are not those that the model's file lists.
    candidates : array_like, (q, n_resources)
        The contexts that may be measured; all where it is empty.
    overhead : float
        Seconds to prepare a context, whatever its runs.
    run_seconds : float
        From nothing: how long a run takes at the highest levels, about; for a budget of time.
    least_runs, most_runs : int
        Runs of each planned context.
    most_contexts : int
        New and known ones together, 0 for any number: fitting takes their number to the third
        power.  Time that is left then goes to repetitions.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
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
    seconds, count = parse_budget(budget)
    for name, value in (("overhead", overhead), ("run_seconds", run_seconds)):
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} is {value}; seconds ≥ 0 are wanted.")
    if most_contexts < 0:
        raise ValueError(f"most_contexts is {most_contexts}; 0 (any number) or more is wanted.")
    if not 1 <= least_runs <= most_runs:
        raise ValueError(
            f"least_runs is {least_runs}, most_runs {most_runs}; 1 ≤ least ≤ most is wanted."
        )
    if isinstance(source, ProfileModel):
        names = tuple(source.resources)
        axes = _levels(
            levels or {n: source.resources[n].get("levels", ()) for n in names},
            names,
        )
        known, runs, knowledge = _from_model(source, axes)
    else:
        names = tuple(source)
        axes = _levels(source, names)
        if count == 0 and run_seconds == 0:
            raise ValueError(
                f"budget is {budget!r} and nothing was measured: say how long a run takes at the "
                f"highest levels (run_seconds), or give a number of contexts."
            )
        known, runs = np.empty((0, len(names))), np.empty(0)
        with np.errstate(over="ignore"):
            cost = (run_seconds or 1.0) * _guessed_cost(axes)
        if not cost.max() < _LONGEST:
            raise ValueError(
                f"a run at the lowest levels would take {cost.max():.3g} s; check the levels and "
                f"how long a run takes."
            )
        knowledge = _Knowledge([_unknown(axes, known, runs)], cost, _NUGGET**0.5, False)
    platform, cost = all_points(axes), knowledge.cost
    before = np.zeros(len(platform))
    for row, n in zip(known, runs):
        i = _index(axes, row)
        if i >= 0:
            before[i] = n
    allowed = _allowed(axes, candidates, names)
    limit = float(count or np.inf)
    if most_contexts:
        limit = min(limit, max(most_contexts - len(known), 0))
    design = greedy_design(
        knowledge.quantities,
        cost,
        before,
        propose_contexts([len(axis) for axis in axes], cost, allowed),
        window=_WINDOW,
        seconds=seconds,
        contexts=limit,
        overhead=overhead,
        least_runs=least_runs,
        most_runs=most_runs,
    )
    if len(design.index) == 0:
        if seconds == np.inf:
            raise ValueError(
                f"budget is {budget!r}, and no context is left: every allowed one is measured, or "
                f"as many as a model may hold; give a time to repeat runs."
            )
        raise ValueError(f"budget is {budget!r}; the first context alone would take longer.")
    return _labelled(design, names, platform, knowledge)


def parse_budget(budget: str | int) -> tuple[float, int]:
    """Seconds and contexts of "120s", "5min", "1h" or 40; one of them is unbounded (inf, 0).

    Raises
    ------
    ValueError
        Anything else, or nothing to spend.
    """
    wrong = ValueError(
        f"budget is {budget!r}; a time such as '120s', '5min' or '1h', or a number of contexts "
        f"such as 40 is wanted."
    )
    if isinstance(budget, (int, np.integer)) and not isinstance(budget, bool):
        budget = str(budget)
    if not isinstance(budget, str):
        raise wrong
    text = budget.strip()
    if text.isdecimal():
        if int(text) < 1:
            raise wrong
        return np.inf, int(text)
    for unit, factor in (("min", 60.0), ("h", 3600.0), ("s", 1.0)):
        if text.endswith(unit):
            try:
                value = float(text.removesuffix(unit)) * factor
            except ValueError:
                raise wrong from None
            if not 0 < value < np.inf:
                raise wrong
            return value, 0
    raise wrong


def parse_levels(text: str) -> dict[str, Floats]:
    """Levels of ``cache_ways=2:20,frequency=1.2:2.3:0.1,mode=1/2/4``, by name.

    ``first:last`` counts in ones, ``first:last:step`` in steps; ``a/b/c`` lists levels.

    Raises
    ------
    ValueError
        Anything else.
    """
    levels: dict[str, Floats] = {}
    for part in text.split(","):
        name, _, given = (piece.strip() for piece in part.partition("="))
        try:
            if ":" in given:
                pieces = given.split(":")
                first, last, step = map(float, [*pieces, "1"] if len(pieces) == 2 else pieces)
                if not 0 < step < np.inf or not 0 <= last - first < 1e6 * step:
                    raise ValueError
                count = int(np.floor((last - first) / step * (1 + 1e-9) + 1e-9)) + 1
                values = np.array([round(first + step * i, 9) for i in range(count)])
            else:
                values = np.array([float(level) for level in given.split("/")])
        except ValueError:
            raise ValueError(
                f"levels are {part!r}; e.g. cache_ways=2:20, frequency=1.2:2.3:0.1 or mode=1/2/4 "
                f"is wanted."
            ) from None
        if not name or name in levels:
            raise ValueError(f"levels are {text!r}; each resource is wanted once, by its name.")
        levels[name] = values
    return levels


# ------------------------------------------------------------------ the platform


def _levels(given: Mapping[str, ArrayLike], names: Sequence[str]) -> list[Floats]:
    if set(given) != set(names) or not names:
        raise ValueError(
            f"levels are given for {', '.join(given) or 'no resource'}; the resources are "
            f"{', '.join(names) or 'to be named'}."
        )
    taken = [name for name in names if name in PLAN_COLUMNS]
    if taken:
        raise ValueError(f"resource '{taken[0]}' is called as a column of plans is; rename it.")
    axes = []
    for name in names:
        try:
            axis = np.unique(np.asarray(given[name], dtype=float))
        except (TypeError, ValueError):
            axis = np.array([np.nan])
        if axis.size == 0:
            raise ValueError(
                f"resource '{name}' has no levels: say what the platform can set (levels; "
                f"--platform on the command line)."
            )
        if not np.all(np.isfinite(axis)):
            raise ValueError(f"resource '{name}' has levels that are not finite numbers.")
        axes.append(axis)
    size = math.prod(map(len, axes))
    if size > _MOST_CONTEXTS:
        raise ValueError(
            f"the levels make {size} contexts, a plan looks at {_MOST_CONTEXTS} at most: name "
            f"fewer levels, e.g. every other one."
        )
    return axes


def _index(axes: Sequence[Floats], context: Floats, *, nearest: bool = False) -> int:
    """Place of a context in the product; −1 where it is none, unless the nearest will do."""
    place = []
    for axis, level in zip(axes, context):
        i = int(np.argmin(np.abs(axis - level)))
        if not nearest and abs(axis[i] - level) > _SAME_LEVEL * max(abs(level), abs(axis[i])):
            return -1
        place.append(i)
    return int(np.ravel_multi_index(place, [len(axis) for axis in axes]))


def _allowed(
    axes: Sequence[Floats], candidates: ArrayLike, names: Sequence[str]
) -> NDArray[np.bool_]:
    wanted = np.asarray(candidates, dtype=float)
    size = int(np.prod([len(axis) for axis in axes]))
    if wanted.size == 0:
        return np.ones(size, dtype=bool)
    if wanted.ndim != 2 or wanted.shape[1] != len(axes):
        raise ValueError(
            f"candidates have shape {wanted.shape}; rows × {len(axes)} columns "
            f"({', '.join(names)}) are wanted."
        )
    allowed = np.zeros(size, dtype=bool)
    for row in wanted:
        i = _index(axes, row)
        if i < 0:
            raise ValueError(f"candidates hold {row.tolist()}, which the platform cannot set.")
        allowed[i] = True
    return allowed


@dataclass(frozen=True, eq=False)
class _Knowledge:
    """What a plan starts from: priors, cost of a run [s], deviation of a run, calibrated or not."""

    quantities: list[Quantity]
    cost: Floats
    noise: float
    calibrated: bool


# ------------------------------------------------------------------ from nothing


def _log_axes(axes: Sequence[Floats]) -> list[Floats]:
    """Levels in the logarithm where they have one, each resource spanning [−1/2, 1/2]."""
    out = []
    for axis in axes:
        values = np.log(axis) if axis[0] > 0 else axis
        span = float(np.ptp(values))
        out.append((values - values[0]) / span - 0.5 if span > 0 else np.zeros(len(values)))
    return out


def _unknown(axes: Sequence[Floats], known: Floats, runs: Floats) -> Quantity:
    """A task of which the trend could not choose anything yet."""
    z = _log_axes(axes)
    size = int(np.prod([len(axis) for axis in axes]))
    points = np.stack([np.interp(known[:, r], axis, z[r]) for r, axis in enumerate(axes)], axis=1)
    return Quantity(
        axes=tuple(z),
        lengths=np.full(len(axes), _LENGTH),
        importance=1.0,
        weight=np.ones(size),
        misfit=0.0,
        noise=_NUGGET,
        points=points,
        runs=runs,
        sight=np.ones(size),
        point_sight=np.ones(len(known)),
    )


def _guessed_cost(axes: Sequence[Floats]) -> Floats:
    """Time over that at the highest levels, (N,): a power law, unless a level is not positive."""
    cost = np.ones(1)
    for axis in axes:
        slower = (
            (axis[-1] / axis) ** (_STEEPNESS / len(axes)) if axis[0] > 0 else np.ones(len(axis))
        )
        cost = (cost[:, None] * slower).ravel()
    return cost


# ------------------------------------------------------------------ from a model


def _from_model(model: ProfileModel, axes: Sequence[Floats]) -> tuple[Floats, Floats, _Knowledge]:
    """Measured contexts, the runs of each, and what the model knows."""
    law = model.law
    if not isinstance(law, ProgressLaw):
        raise ValueError("the model is of the paper's preset; fit the default one to plan.")
    known, runs = law.contexts, np.isfinite(law.total).sum(axis=1).astype(float)
    if len(known) >= len(axes) + 3:
        platform = all_points(axes)
        quantities, noise = _learned(law, axes, platform, runs)
        return known, runs, _Knowledge(quantities, _durations(law, platform), noise, True)
    # too few to choose parameters from: the guess, brought to what the known ones took
    cost = _guessed_cost(axes)
    took = np.nanmean(law.duration, axis=1)
    near = [_index(axes, row, nearest=True) for row in known]
    cost = cost * np.exp(np.mean(np.log(took / cost[near])))
    return known, runs, _Knowledge([_unknown(axes, known, runs)], cost, _NUGGET**0.5, False)


def _durations(law: ProgressLaw, contexts: Floats) -> Floats:
    """Execution time of each context as the model predicts it [s]."""
    if law.clock == 0:
        return law.total_trend.predict(contexts)[:, 0, 0]
    return law.trend.predict(contexts)[..., 0].sum(axis=1)


def _learned(
    law: ProgressLaw, axes: Sequence[Floats], platform: Floats, runs: Floats
) -> tuple[list[Quantity], float]:
    """Every quantity of the trend as a prior, and the deviation of one run."""
    states = law.trend.predict(law.contexts) * np.exp(law.departure)
    trend = law.trend
    if trend.form != FORMS[0]:
        # the local-linear form has no posterior: a process with the same coordinates stands in
        trend = fit_trend(
            law.contexts, states, weights=runs, form=FORMS[0], coordinates=trend.coordinates,
            find_caps=False,
        )  # fmt: skip
    worth = runs / runs.mean()
    importance = _importance(states, trend.offset, law.clock)
    logs = np.log(states + trend.offset)
    squared = (np.log(trend.held_out + trend.offset) - logs) ** 2
    spread = _spread(law, importance)
    scaled_axes, points, free = _coordinates(trend, axes)
    quantities, noise = [], 0.0
    for k in range(states.shape[2]):
        lengths, nugget = trend.lengths[k].copy(), float(trend.nugget[k])
        share, point_share = np.ones(len(platform)), np.ones(len(points))
        for cap in law.trend.caps if k == 0 else ():
            lengths, nugget = cap.lengths.copy(), cap.nugget
            weight = importance[:, 0] / importance[:, 0].sum()
            # of the unthrottled time's variance what reaches the time, in the mean over the bins
            share, point_share = (
                law.trend.free_share(contexts) ** 2 @ weight
                for contexts in (platform, law.contexts)
            )
        lengths[free] = _LENGTH
        sight, point_sight = (1.0 / np.maximum(s, _LEAST_SHARE) for s in (share, point_share))
        among = prior_covariance(points, points, lengths)
        among += np.diag(nugget * point_sight / worth)
        # variance of a known context given all others, its own noise included
        left_out = 1.0 / np.diag(np.linalg.inv(among))
        predicted = point_share * (left_out - nugget * point_sight / worth) + nugget / worth
        seen = (squared[..., k] @ importance[:, k]).mean()
        amplitude = float(max(seen, 1e-12) / predicted.mean())
        one_run = nugget * runs.mean()
        if np.isfinite(spread[k]):
            one_run = spread[k] / amplitude
        noise += amplitude * one_run
        quantities.append(
            Quantity(
                axes=tuple(scaled_axes),
                lengths=lengths,
                importance=amplitude,
                weight=share,
                misfit=max(nugget - one_run / runs.mean(), 0.0),
                noise=max(one_run, 1e-9),
                points=points,
                runs=runs,
                sight=sight,
                point_sight=point_sight,
            )
        )
    return quantities, float(np.sqrt(noise))


def _coordinates(
    trend: Trend, axes: Sequence[Floats]
) -> tuple[list[Floats], Floats, NDArray[np.bool_]]:
    """Levels and known contexts in the trend's coordinates; resources that it has not seen vary."""
    points = trend.scaled(trend.contexts)
    free = np.ptp(trend.contexts, axis=0) == 0
    scaled = []
    for r, axis in enumerate(axes):
        if free[r]:
            z = _log_axes([axis])[0]
            points[:, r] = np.interp(trend.contexts[:, r], axis, z)
        else:
            contexts = np.tile(trend.contexts[0], (len(axis), 1))
            contexts[:, r] = axis
            z = trend.scaled(contexts)[:, r]
        scaled.append(z)
    return scaled, points, free


def _importance(states: Floats, offset: Floats, clock: int) -> Floats:
    """Squared error of the scaled profile for that of each quantity's logarithm, (bins, k).

    A counter's rate is its amount over the time: an error of time is one of every counter.  The
    clock's own rate is 1 / time.
    """
    time = np.maximum(states[..., 0], 1e-300)
    amounts = [(states[..., k] + offset[k], states[..., k]) for k in range(1, states.shape[2])]
    if clock != 0:
        amounts.append((np.ones_like(time), np.ones_like(time)))
    rates, size = [], np.zeros_like(time)
    for counted, seen in amounts:
        # the largest rate but for single bins, which a sampling interval is longer than
        largest = max(float(np.quantile(seen / time, 0.995)), 1e-300)
        rates.append((counted / time / largest) ** 2)
        size += (seen / time / largest) ** 2
    share = time / time.sum(axis=1, keepdims=True)
    norm = np.quantile(size, 0.995, axis=1)[:, None]
    per_rate = [(share * rate / norm).mean(axis=0) for rate in rates]
    out = np.zeros((states.shape[1], states.shape[2]))
    out[:, 0] = np.sum(per_rate, axis=0) if per_rate else share.mean(axis=0)
    for k in range(1, states.shape[2]):
        out[:, k] = per_rate[k - 1]
    return out


def _spread(law: ProgressLaw, importance: Floats) -> Floats:
    """Squared error that one run has within its context, (k,); NaN where too few are repeated."""
    repeated = np.bincount(law.run_context)[law.run_context] > 1
    if repeated.sum() < 6:
        return np.full(law.residual.shape[2], np.nan)
    return np.einsum("nbk,bk->k", law.residual[repeated] ** 2, importance) / repeated.sum()


def _labelled(
    design: Design, names: tuple[str, ...], platform: Floats, knowledge: _Knowledge
) -> Plan:
    return Plan(
        names,
        platform[design.index],
        design.runs,
        design.seconds,
        design.error,
        knowledge.noise,
        knowledge.calibrated,
    )
