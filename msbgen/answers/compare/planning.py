"""Plans for comparing two versions of a program: contexts and runs that find a change.

A plan predicts the interval of the ratio as the comparison will compute it.  With R_c runs of each
version in context c, the variance of log NEW/OLD there is 2 σ_c² g(R_c)²/R_c, where σ_c is the
relative deviation of a run.  The mean over contexts weighs noisy ones less (`pooled.py`), and has
the variance s² with ν degrees of freedom.  A change by the share x is found with probability β at
the confidence 1 − α if

    (t_{1−α/2, ν} + t_{β, ν}) · s ≤ log(1 + x).

Runs are trimmed, and weights estimated: g is the width of the intervals of drawn sweeps with R runs
of each version in every context, over the width for known variances.

The time for this depends on the number of runs, and hardly on how many contexts share them.  Many
contexts also find a change that only some of them have.  So contexts are added in the
low-discrepancy order of other plans, which visits expensive ones less often, with the fewest runs
each.  When none is left, runs are added where they lower the variance most per second.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy import special

from msbgen.answers.compare.pooled import Pooled, pool
from msbgen.answers.compare.ratio import detectable_log, differences_of
from msbgen.answers.compare.trimmed import kept_runs, squared_errors, trimmed_mean
from msbgen.answers.compare.usual import PRIOR_FREEDOM, usual_noise
from msbgen.answers.compare.variances import KNOWN, shrink, shrink_alike
from msbgen.answers.plan.design import propose_contexts
from msbgen.answers.plan.plan import platform_axes
from msbgen.answers.plan.prior import UNTIMED, all_points, nearest_index, prior_of_levels
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.records import Count, Seconds, Share, Within, checks_arguments
from msbgen.core.words import number_of
from msbgen.data.profiles import Profiles
from msbgen.data.quality import warn_of_generated
from msbgen.data.schema import DETECTABLE_COLUMN, labels_of, level_text
from msbgen.data.tables import write_table
from msbgen.engine.generate.detection import known_faults, without_faults
from msbgen.engine.generate.word_columns import WordColumns

Floats = NDArray[np.float64]

# Confidence of the comparison that a plan is for.
CONFIDENCE = 0.95
# Relative deviation of a run where nothing is known about it: that of programs on a quiet machine.
DEFAULT_NOISE = 0.02
# Least relative variance of a run.
_LEAST_VARIANCE = 1e-12
# Least share of the variance of runs that is no drift.
_LEAST_SHARE = 0.1
# Sweeps that are drawn for the width of intervals, their contexts, and runs of which more change it
# little.
_SWEEPS, _SOME_CONTEXTS, _MANY_RUNS = 600, 27, 40
# Confidences whose quantiles in drawn sweeps are compared with those of Student's t: about that of
# plans, as one alone varies from draw to draw.
_LEVELS = np.linspace(0.8, 0.98, 10)
# Quantiles of the normal distribution where the distribution of runs is not known.
_QUANTILES = 1000
# Times that weights and runs of contexts are found from each other.
_ROUNDS = 3
# The most runs of a version in a context.
_MOST_RUNS = 1000


@dataclass(frozen=True, eq=False)
class RunNoise:
    """How much the runs of a program vary.

    Attributes
    ----------
    contexts : (n, m)
        Levels of the resources; each word of a level has a column.
    variance : (n,)
        Variance of a run, relative to the mean.
    added_freedom : float
        Degrees of freedom that a common variance adds to those of a context's runs.
    shape : (k,)
        Deviations of runs over the roots of their variances, in order.
    are_paired : bool
        Whether runs of both versions are compared in pairs.
    """

    contexts: Floats
    variance: Floats
    added_freedom: float
    shape: Floats
    are_paired: bool

    @classmethod
    def known(cls, contexts: Floats, deviation: ArrayLike) -> RunNoise:
        """Normally distributed runs of known relative deviations, one or (n,)."""
        shape = special.ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
        variance = np.full(len(contexts), np.square(deviation))
        return cls(contexts, variance, KNOWN, shape / shape.std(), are_paired=False)

    @classmethod
    def measured(cls, contexts: Floats, durations: Floats, started: Floats) -> RunNoise:
        """Noise of measured durations (n, runs) [s]; the missing ones are NaN.

        `started` (n, runs) [s] are the starts of runs that will be compared in pairs, so that a
        drift between runs is no noise; NaN for other runs.
        """
        relative = durations / trimmed_mean(durations)[:, None] - 1
        n_runs = np.isfinite(relative).sum(axis=1)
        square, freedom = squared_errors(relative)
        of_run = square * n_runs
        _, added = shrink_alike(of_run, freedom)
        usual = usual_noise(contexts, of_run, freedom)
        variance = np.maximum(shrink(of_run, freedom, usual, PRIOR_FREEDOM), _LEAST_VARIANCE)
        # shrinkage towards the usual variance keeps the sum of contexts, not their ratios
        share = np.average(of_run / variance, weights=freedom) if freedom.any() else 1.0
        # deviations from a mean of n runs are smaller than those from the true one
        few = n_runs / np.maximum(n_runs - 1, 1)
        scale = np.sqrt(few / (variance * max(share, 1e-300)))
        shape = np.where((n_runs > 1)[:, None], relative * scale[:, None], np.nan)
        in_turn = np.isfinite(shape) & np.isfinite(started)
        are_paired = in_turn.sum() > 1
        if are_paired:
            order = np.argsort(started[in_turn], kind="stable")
            runs_of_one = n_runs[in_turn.any(axis=1)].mean()
            variance = variance * _share_without_drift(shape[in_turn][order], runs_of_one)
        shape = np.sort(shape[np.isfinite(shape)])
        return cls(contexts, variance, float(added), shape, bool(are_paired))

    def in_contexts(self, rows: NDArray[np.int64]) -> RunNoise:
        """The noise of some contexts."""
        return replace(self, contexts=self.contexts[rows], variance=self.variance[rows])

    def pooled(self, runs: NDArray[np.int64]) -> Pooled:
        """The mean log ratio of equal versions over the first contexts, with runs (k,) of each."""
        each, place = np.unique(np.minimum(runs, _MANY_RUNS), return_inverse=True)
        factors = np.array([self._factors(int(number)) for number in each])[place]
        return self._pooled(runs, factors[:, 0], factors[:, 1])

    def _pooled(self, runs: NDArray[np.int64], widening: Floats, share: Floats) -> Pooled:
        """The mean with widths and shares of the degrees of freedom (k,) of the contexts."""
        n = len(runs)
        freedom = share * (kept_runs(runs) - 1) * (1 if self.are_paired else 2)
        return pool(
            self.contexts[:n],
            np.zeros(n),
            2 * self.variance[:n] / runs * widening**2,
            freedom,
            np.array(self.added_freedom),
            None,
        )

    def detectable(self, runs: NDArray[np.int64]) -> float:
        """Smallest |log NEW/OLD| found 9 times in 10, with runs (k,) of the first contexts."""
        pooled = self.pooled(runs)
        return detectable_log(float(pooled.noise), float(pooled.freedom), CONFIDENCE)

    def _factors(self, runs: int) -> tuple[float, float]:
        """Width of intervals of drawn sweeps over that of means with known variances.

        The second factor is their degrees of freedom over those of the runs.
        """
        if runs not in self._known_factors:
            old, new = self._drawn[..., :runs]
            some = self.contexts[: old.shape[1]]
            found = pool(some, *differences_of(old, new, are_paired=self.are_paired), None)
            one = np.ones(len(some))
            plain = self._pooled(np.full(len(some), runs), one, one)
            freedom = float(np.median(found.freedom))
            sizes = np.quantile(np.abs(found.value) / np.maximum(found.error, 1e-300), _LEVELS)
            wider = float(np.mean(sizes / special.stdtrit(freedom, 0.5 + _LEVELS / 2)))
            error = float(np.median(found.error)) / max(float(plain.noise), 1e-300)
            self._known_factors[runs] = wider * error, min(freedom / float(plain.freedom), 1.0)
        return self._known_factors[runs]

    @cached_property
    def _known_factors(self) -> dict[int, tuple[float, float]]:
        return {}

    @cached_property
    def _drawn(self) -> Floats:
        """Relative times of both versions in drawn sweeps, (2, sweeps, contexts, runs)."""
        scale = np.sqrt(self.variance[:_SOME_CONTEXTS])
        shape = (2, _SWEEPS, len(scale), _MANY_RUNS)
        # between the deviations that were seen, so that no two runs are equal
        place = np.random.default_rng(0).uniform(0, len(self.shape) - 1, shape)
        deviations = np.interp(place, np.arange(len(self.shape)), self.shape)
        return np.exp(deviations * scale[:, None])


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


@checks_arguments
def plan_comparison(
    source: xr.Dataset | Mapping[str, ArrayLike],
    change: Share,
    *,
    noise: Share | None = None,
    run_seconds: Seconds | None = None,
    least_runs: Annotated[int, Within(2, _MOST_RUNS)] = 2,
    most_contexts: Count | None = None,
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
    run_seconds : float, optional
        Without measurements: time of a run at the highest levels [s]; default: 1 s.
    least_runs : int
        Fewest runs of each version in a context, 2 or more.
    most_contexts : int, optional
        Largest number of contexts; default: all of them.

    Raises
    ------
    ArgumentError
        A number out of its range, levels of no platform, or a change that so few contexts do not
        show.
    MeasurementError
        No measured run is complete.
    """
    notes: tuple[str, ...] = ()
    if isinstance(source, xr.Dataset):
        profiles = Profiles.of(source)
        warn_of_generated(profiles)
        resources = {name: labels_of(attrs) for name, attrs in profiles.resources.items()}
        contexts, cost, found = _measured(profiles)
        axes = platform_axes(dict(zip(resources, contexts.T)), list(resources))
        place = np.array([nearest_index(axes, row) for row in contexts])
    else:
        resources = dict.fromkeys(source, ())
        axes = platform_axes(source, tuple(source))
        contexts = all_points(axes)
        cost = prior_of_levels(axes, 1.0 if run_seconds is None else run_seconds).cost
        notes += (f"times are those {UNTIMED}",) * (run_seconds is None)
        found, place = None, np.arange(len(contexts))
    if noise is None and found is None:
        noise = DEFAULT_NOISE
        notes += (
            f"the noise is not known, and taken as {noise:.0%} of the execution time: measure two "
            f"runs of a context, or name it (noise; --noise on the command line).",
        )
    if noise is not None:
        found = RunNoise.known(contexts, noise)
    assert found is not None
    sizes = [len(axis) for axis in axes]
    costs, allowed = np.full(int(np.prod(sizes)), np.inf), np.zeros(int(np.prod(sizes)), dtype=bool)
    costs[place], allowed[place] = cost, True
    row_of = {int(index): row for row, index in enumerate(place)}
    order = np.array([row_of[int(i)] for i in propose_contexts(sizes, costs, allowed)])
    order = order[:most_contexts]
    ordered = found.in_contexts(order)
    runs = design_comparison(ordered, cost[order], float(np.log1p(change)), least_runs)
    if runs.max() > _MOST_RUNS:
        raise ArgumentError(
            f"a change of {change:.3g} needs more than {_MOST_RUNS} runs in each of {len(order)} "
            f"contexts; more contexts, or a larger change, are wanted."
        )
    rows = order[: len(runs)]
    smallest = [ordered.detectable(runs[:n]) for n in range(1, len(runs) + 1)]
    return ComparisonPlan(
        resources, contexts[rows], runs, 2 * runs * cost[rows], np.expm1(smallest), notes
    )


def design_comparison(
    noise: RunNoise, cost: Floats, change: float, least_runs: int
) -> NDArray[np.int64]:
    """Runs of each version in the first contexts that find a change, (k,) with k ≤ n.

    `noise` and `cost` (n,) [s] are those of a run of each context, in the order in which contexts
    are added; `change` is |log NEW/OLD|.  Runs beyond the limit of a plan end the search.
    """
    n = len(cost)

    def finds(runs: NDArray[np.int64]) -> bool:
        return noise.detectable(runs) <= change

    if finds(np.full(n, least_runs)):
        few, enough = 0, n
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if finds(np.full(middle, least_runs)) else (middle, enough)
        return np.full(enough, least_runs)
    plans = [np.full(n, least_runs)]
    for _ in range(_ROUNDS):  # a context of more runs has a larger weight
        gain = noise.pooled(plans[-1]).weights ** 2 * noise.variance / cost
        plans.append(_fewest_runs(gain, finds, least_runs))
    runs = min(plans[1:], key=lambda each: each @ cost)
    # the last steps may have made earlier ones superfluous, the most expensive first
    for c in np.argsort(-cost, kind="stable"):
        while runs[c] > least_runs:
            fewer = runs - (np.arange(n) == c)
            if not finds(fewer):
                break
            runs = fewer
    return runs


def _fewest_runs(
    gain: Floats, finds: Callable[[NDArray[np.int64]], bool], least_runs: int
) -> NDArray[np.int64]:
    """Fewest runs (n,) that find a change, at an equal gain of a further run in each context.

    In context c it lowers the variance by `gain` / R_c (R_c + 1) per second.
    """

    def runs_at(threshold: float) -> NDArray[np.int64]:
        wanted = np.floor(np.sqrt(0.25 + gain / threshold) + 0.5)
        return np.clip(wanted, least_runs, _MOST_RUNS + 1).astype(np.int64)

    low = float(gain.max()) / (_MOST_RUNS * (_MOST_RUNS + 1.0)) * (1 - 1e-9)
    high = float(gain.max()) / (least_runs * (least_runs - 1))
    if not finds(runs_at(low)):
        return runs_at(low)
    while high / low > 1 + 1e-6:
        middle = (high * low) ** 0.5
        low, high = (middle, high) if finds(runs_at(middle)) else (low, middle)
    return runs_at(low)


def _share_without_drift(deviations: Floats, runs: float) -> float:
    """Share of the variance that runs keep beside their neighbours in time.

    `deviations` (k,), in the order of the starts, are those from the means of contexts with so many
    `runs`, of a unit variance.  Half the mean square of their steps (von Neumann, 1941) is the
    share ρ, and (1 − ρ)/(runs − 1) by the drift of the means.
    """
    if runs <= 2:
        return 1.0
    steps = float((np.diff(deviations) ** 2).mean()) / max(2 * (deviations**2).mean(), 1e-300)
    share = (steps * (runs - 1) - 1) / (runs - 2)
    return float(np.clip(share, _LEAST_SHARE, 1.0))


def _measured(profiles: Profiles) -> tuple[Floats, Floats, RunNoise | None]:
    """Contexts, mean times [s] and the noise of runs; None if none has a sibling."""
    duration = without_faults(profiles, known_faults(profiles)).ended
    used = np.isfinite(duration).any(axis=1)
    if not used.any():
        raise MeasurementError(
            f"no run of {profiles.source} is complete and free of faults; measure it again."
        )
    duration, contexts = duration[used], profiles.contexts[used]
    mean = trimmed_mean(duration)
    if (np.isfinite(duration).sum(axis=1) < 2).all():
        return contexts, mean, None
    columns = WordColumns.of(profiles.resources, contexts).encode(contexts)
    # variants of a sweep run in turn, and are compared in pairs
    started = profiles.started[used]
    if "sweep" not in profiles.attrs:
        started = np.full_like(duration, np.nan)
    return contexts, mean, RunNoise.measured(columns, duration, started)
