"""Plans for comparing two versions of a program: contexts and runs that find a change.

With R_c runs of each version in context c, the variance of log NEW/OLD there is 2 σ_c²/R_c, where
σ_c is the relative deviation of a run.  Over n contexts of equal weight, the ratio has the variance
Σ 2 σ_c²/(n² R_c), with Satterthwaite's degrees of freedom ν.  A change by the share x is found with
probability β at the confidence 1 − α if

    (t_{1−α/2, ν} + t_{β, ν}) · √(Σ 2 σ_c²/(n² R_c)) ≤ log(1 + x).

The time for this depends on the number of runs, and hardly on how many contexts share them.  Many
contexts also find a change that only some of them have.  So contexts are added in the
low-discrepancy order of other plans, which visits expensive ones less often, with the fewest runs
each.  When none is left, the run that lowers the variance most per second is added.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import special

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.words import number_of
from msbgen.data.schema import (
    DETECTABLE_COLUMN,
    complete_array,
    context_table,
    duration_array,
    file_of,
    labels_of,
    level_text,
    resource_names,
)
from msbgen.data.tables import write_table
from msbgen.generate.faults import known_faults, without_faults
from msbgen.plan.design import propose_contexts
from msbgen.plan.plan import platform_axes
from msbgen.plan.prior import all_points, nearest_index, prior_of_levels

Floats = NDArray[np.float64]

# Power and confidence of the comparison that a plan is for.
POWER, CONFIDENCE = 0.9, 0.95
# Relative deviation of a run where nothing is known about it: that of programs on a quiet machine.
DEFAULT_NOISE = 0.02
# Degrees of freedom of the mean variance in that of a context, as in comparisons.
_PRIOR_FREEDOM = 16.0
# The most runs of a version in a context.
_MOST_RUNS = 1000


@dataclass(frozen=True, eq=False)
class ComparisonPlan:
    """Contexts and runs to compare two versions; any prefix is a valid plan.

    Attributes
    ----------
    resources : dict of str to words
        Names of the columns of `contexts`; words of the levels 1, 2, … if they have any.
    contexts : (rows, m)
    runs : (rows,)
        Runs of each version.
    seconds : (rows,)
        Predicted time of all runs of both versions [s].
    detectable : (rows,)
        Smallest relative change that the rows so far find with probability .9 [1].
    notes : tuple of str
        What the plan assumes, a sentence each.
    """

    resources: dict[str, tuple[str, ...]]
    contexts: Floats
    runs: NDArray[np.int64]
    seconds: Floats
    detectable: Floats
    notes: tuple[str, ...]

    def describe(self) -> str:
        """Summary of the plan in a few lines."""
        contexts = number_of(len(self.runs), "context")
        runs = number_of(int(self.runs.sum()), "run")
        head = (
            f"{contexts}, {runs} of each version, about {self.seconds.sum():.4g} s: they find a "
            f"change of {self.detectable[-1]:.2%} 9 times in 10"
        )
        return "\n".join([head, *self.notes])

    def rows(self) -> Iterator[list[Any]]:
        """Rows of the table that :meth:`write` writes, the header first."""
        yield [*self.resources, "runs", "seconds", "cumulative_seconds", DETECTABLE_COLUMN]
        figures = zip(self.runs, self.seconds, np.cumsum(self.seconds), self.detectable)
        for context, (runs, cost, total, change) in zip(self.contexts, figures):
            levels = map(level_text, context, self.resources.values())
            yield [*levels, runs, f"{cost:.6g}", f"{total:.6g}", f"{change:.4g}"]

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the plan as CSV, a row per context; FileExistsError unless `overwrite`."""
        write_table(self.rows(), path, overwrite=overwrite)


def plan_comparison(
    source: xr.Dataset | Mapping[str, ArrayLike],
    change: float,
    *,
    noise: float | None = None,
    run_seconds: float = 1.0,
    least_runs: int = 2,
    most_contexts: int | None = None,
) -> ComparisonPlan:
    """Contexts and runs that find a change of the execution time 9 times in 10.

    Parameters
    ----------
    source : xarray.Dataset or mapping of name to levels
        Measured profiles, whose contexts, durations and noise are used; or the levels of each
        resource.
    change : float
        Relative change of the execution time, such as 0.01.
    noise : float, optional
        Relative deviation of a run; default: that of the measured runs, else 2 %.
    run_seconds : float
        Without measurements: time of a run at the highest levels [s].
    least_runs : int
        Fewest runs of each version in a context, 2 or more.
    most_contexts : int, optional

    Raises
    ------
    ArgumentError
        A number out of its range, levels of no platform, or a change that so few contexts do not
        show.
    MeasurementError
        No measured run is complete.
    """
    for name, value in (("change", change), *([("noise", noise)] if noise is not None else [])):
        if not 0 < value < 1:
            raise ArgumentError(f"{name} is {value}; a share above 0 and below 1 is wanted.")
    if not 2 <= least_runs <= _MOST_RUNS:
        raise ArgumentError(f"least_runs is {least_runs}; 2 to {_MOST_RUNS} are wanted.")
    if most_contexts is not None and most_contexts < 1:
        raise ArgumentError(f"most_contexts is {most_contexts}; 1 or more is wanted.")
    notes: tuple[str, ...] = ()
    if isinstance(source, xr.Dataset):
        names = resource_names(source)
        resources = {name: labels_of(source[name].attrs) for name in names}
        contexts, cost, spread = _measured(source)
        axes = platform_axes(dict(zip(names, contexts.T)), names)
        place = np.array([nearest_index(axes, row) for row in contexts])
    else:
        resources = dict.fromkeys(source, ())
        axes = platform_axes(source, tuple(source))
        contexts = all_points(axes)
        cost = prior_of_levels(axes, run_seconds).cost
        spread, place = np.full(len(contexts), np.nan), np.arange(len(contexts))
    if noise is None and np.isnan(spread).all():
        noise = DEFAULT_NOISE
        notes = (
            f"the noise is not known, and taken as {noise:.0%} of the execution time: measure two "
            f"runs of a context, or name it (noise; --noise on the command line).",
        )
    if noise is not None:
        spread = np.full(len(contexts), noise)
    sizes = [len(axis) for axis in axes]
    costs, allowed = np.full(int(np.prod(sizes)), np.inf), np.zeros(int(np.prod(sizes)), dtype=bool)
    costs[place], allowed[place] = cost, True
    row_of = {int(index): row for row, index in enumerate(place)}
    order = np.array([row_of[int(i)] for i in propose_contexts(sizes, costs, allowed)])
    order = order[:most_contexts]
    runs = design_comparison(spread[order], cost[order], np.log1p(change), least_runs)
    if runs.max() > _MOST_RUNS:
        raise ArgumentError(
            f"a change of {change:.3g} needs more than {_MOST_RUNS} runs in each of {len(order)} "
            f"contexts; more contexts, or a larger change, are wanted."
        )
    rows = order[: len(runs)]
    found = [detectable(spread[rows[:n]], runs[:n]) for n in range(1, len(runs) + 1)]
    return ComparisonPlan(
        resources, contexts[rows], runs, 2 * runs * cost[rows], np.expm1(found), notes
    )


def detectable(noise: Floats, runs: NDArray[np.int64]) -> float:
    """Smallest |log NEW/OLD| that is found 9 times in 10, by relative deviations and runs (n,)."""
    parts = 2 * noise**2 / runs / len(runs) ** 2
    total = parts.sum()
    freedom = total**2 / (parts**2 / (2 * (runs - 1))).sum()
    quantiles = special.stdtrit(freedom, [0.5 + CONFIDENCE / 2, POWER])  # of Student's t
    return float(quantiles.sum() * np.sqrt(total))


def design_comparison(
    noise: Floats, cost: Floats, change: float, least_runs: int
) -> NDArray[np.int64]:
    """Runs of each version in the first contexts that find a change, (k,) with k ≤ n.

    `noise` and `cost` [s] (n,) are those of a run of each context, in the order in which contexts
    are added; `change` is |log NEW/OLD|.  Runs beyond the limit of a plan end the search.
    """
    for k in range(1, len(noise)):
        if detectable(noise[:k], np.full(k, least_runs)) <= change:
            return np.full(k, least_runs)
    runs = np.full(len(noise), least_runs)
    weights = noise**2 / cost
    while detectable(noise, runs) > change and runs.max() <= _MOST_RUNS:
        runs[np.argmax(weights / (runs * (runs + 1)))] += 1
    # the last steps may have made earlier ones superfluous, the most expensive first
    for c in np.argsort(-cost, kind="stable"):
        while runs[c] > least_runs:
            fewer = runs - (np.arange(len(runs)) == c)
            if detectable(noise, fewer) > change:
                break
            runs = fewer
    return runs


def _measured(dataset: xr.Dataset) -> tuple[Floats, Floats, Floats]:
    """Contexts, mean times [s] and relative deviations of runs; NaN if none has a sibling."""
    clean = without_faults(dataset, known_faults(dataset))
    duration = np.where(complete_array(dataset), duration_array(clean), np.nan)
    count = np.isfinite(duration).sum(axis=1)
    used = count > 0
    if not used.any():
        raise MeasurementError(
            f"no run of {file_of(dataset)} is complete and free of faults; measure it again."
        )
    duration, count = duration[used], count[used]
    mean = np.nansum(duration, axis=1) / count
    square, freedom = np.nansum((duration / mean[:, None] - 1) ** 2, axis=1), count - 1.0
    pooled = square.sum() / freedom.sum() if freedom.any() else np.nan
    variance = (square + _PRIOR_FREEDOM * pooled) / (freedom + _PRIOR_FREEDOM)
    return context_table(dataset)[used], mean, np.sqrt(np.maximum(variance, 1e-12))
