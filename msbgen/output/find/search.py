"""The cheapest context that keeps a deadline, found by measuring where the choice depends on it.

A first plan covers the platform.  Then fits, bounds and choices alternate with new runs in the
contexts that may replace the choice: those that are cheaper, weighted by the probability that they
keep the deadline, per second.  The search ends when no such context is left that is worth its time,
or when the budget is spent.  Fresh runs of the choice then verify it, and are no part of the fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import binom, norm

from msbgen.answers.choose.context import ContextChoice, PricedContexts
from msbgen.answers.choose.costs import Costs
from msbgen.answers.plan.plan import Budget, plan_contexts
from msbgen.core.choice import InfeasibleError
from msbgen.core.conformal import groups_needed
from msbgen.core.errors import ArgumentError
from msbgen.core.machine import OnProgress
from msbgen.data.profiles import Profiles
from msbgen.data.schema import same_contexts
from msbgen.engine.bounds.model import CalibratedModel, calibrate_model
from msbgen.engine.generate.fit import fit_profiles
from msbgen.output.find.sources import Source

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Share of the budget for the fresh runs that verify the choice.
_VERIFYING = 0.2
# Share of the rest that covers the platform, before runs are made where the choice depends on them.
_COVERING = 0.75
# Contexts that show how long runs take, where the budget is a time: so many, and two a resource.
_FIRST = 6
# Contexts of a later step: few, so that each follows from the last fit.
_STEP = 3
# The search ends where new runs are expected to save less than this share of the range of costs.
_WORTH = 0.002


@dataclass(frozen=True)
class Question:
    """What is to be found.

    Attributes
    ----------
    deadline : float
        [s]
    costs : str, mapping or array_like
        As of :func:`msbgen.choose_context`.
    budget : Budget
        Measuring time [s] or number of runs, verification included.
    miscoverage : float
        Probability that a new run in the chosen context is late, at most.
    """

    deadline: float
    costs: Costs
    budget: Budget
    miscoverage: float = 0.1


@dataclass(frozen=True, eq=False)
class Found:
    """The answer.

    Attributes
    ----------
    choice : tuple of ContextChoice
        The choice; none where no context keeps the deadline.
    context : str
        The chosen context in words; empty where there is none.
    reason : str
        Why the search ended.
    late, fresh : int
        Late runs among the fresh runs of the choice.
    runs : int
        All runs measured.
    seconds : float
        Their time [s].
    measured : xarray.Dataset
        The runs that the model was fitted to.
    model : CalibratedModel
    bounds : xarray.Dataset
        Bounds of all contexts.
    """

    choice: tuple[ContextChoice, ...]
    context: str
    reason: str
    late: int
    fresh: int
    runs: int
    seconds: float
    measured: xr.Dataset
    model: CalibratedModel
    bounds: xr.Dataset

    @property
    def is_kept(self) -> bool:
        """Whether the fresh runs agree with the promised rate, at a level of 5 %."""
        rate = float(self.bounds.attrs["miscoverage"])
        return self.late == 0 or bool(binom.sf(self.late - 1, self.fresh, rate) > 0.05)

    def describe(self) -> str:
        """The answer in a few sentences."""
        lines = []
        for choice in self.choice:
            rate = float(self.bounds.attrs["miscoverage"])
            kept = "keeps" if self.is_kept else "does not keep"
            lines.append(
                f"{self.context} {kept} {choice.deadline:g} s in {1 - rate:.0%} of runs, at a cost "
                f"of {choice.cost:.4g}: bound {choice.bound:.3g} s, {self.late} of {self.fresh} "
                f"fresh runs late"
            )
            lines += [
                f"{more.resource}={more.level:g} would cost {more.cost:.4g}: bound "
                f"{more.bound:.3g} s"
                for more in choice.more
            ]
        return "\n".join([*lines, f"{self.runs} runs, {self.seconds:.4g} s; {self.reason}"])

    def as_dict(self) -> dict[str, Any]:
        """The answer as plain values, for JSON."""
        names = list(self.model.resources)
        choices = [
            {
                "context": dict(zip(names, choice.context.tolist())),
                "cost": choice.cost, "bound": choice.bound, "deadline": choice.deadline,
            }
            for choice in self.choice
        ]  # fmt: skip
        return {
            "choice": choices[0] if choices else None,
            "miscoverage": float(self.bounds.attrs["miscoverage"]),
            "late": self.late, "fresh": self.fresh, "runs": self.runs, "seconds": self.seconds,
            "reason": self.reason,
        }  # fmt: skip


def find_context(
    source: Source,
    question: Question,
    *,
    save: Callable[[xr.Dataset], None] | None = None,
    progress: OnProgress | None = None,
) -> Found:
    """The cheapest context that keeps a deadline.

    Parameters
    ----------
    source : Source
        What is measured: see :mod:`msbgen.output.find.sources`.
    question : Question
    save : callable
        Called with all runs after each step.
    progress : callable
        Called with (done, total) thousandths of the budget.

    Raises
    ------
    ArgumentError
        A budget of too few runs; costs, deadline or rate of the wrong form.
    InfeasibleError
        No context keeps the deadline; the message names the least one that can be kept.
    MeasurementError, ProfileError
        As :func:`msbgen.fit_profiles`.
    """
    search = _Search(source, question, save, progress)
    search.begin()
    while True:
        while search.reason == "":
            search.step()
        found = search.verified()
        if found.is_kept or search.left() <= 0.0:
            return found
        search.go_on()


class _Search:
    """Runs, model and choice so far."""

    def __init__(
        self, source: Source, question: Question, save: Callable[[xr.Dataset], None] | None,
        progress: OnProgress | None,
    ):  # fmt: skip
        self.source, self.question = source, question
        self.save, self.progress = save, progress
        self.runs = np.zeros(len(source.contexts), dtype=np.int64)
        self.started, self.seconds, self.reason = time.monotonic(), 0.0, ""
        groups_needed(question.miscoverage)  # an error for what is no rate

    # the budget

    def left(self) -> float:
        """Share of the budget for learning that is left."""
        budget = self.question.budget
        spent = self.seconds / budget.seconds + self.runs.sum() / budget.contexts
        return 1.0 - float(spent) / (1.0 - _VERIFYING)

    def affordable(self, rows: Indices, seconds: Floats) -> Indices:
        """The first rows that the rest of the budget pays for, one at least."""
        budget = self.question.budget
        share = np.cumsum(seconds / budget.seconds + 1.0 / budget.contexts)
        n = int((share <= self.left() * (1.0 - _VERIFYING)).sum())
        return rows[: max(n, 1)]

    # the steps

    def begin(self) -> None:
        """Cover the platform, and fit."""
        contexts, names = self.source.contexts, self.source.names
        budget, share = self.question.budget, _COVERING * (1.0 - _VERIFYING)
        n = _FIRST + 2 * len(names) if budget.is_time else int(share * budget.contexts)
        if n < 3:
            raise ArgumentError(f"the budget is {budget.contexts:g} runs; 5 or more are wanted.")
        if len(contexts) <= n:
            self._measure(np.arange(len(contexts)))
            return
        levels = {name: np.unique(contexts[:, k]) for k, name in enumerate(names)}
        self._measure(self._rows_of(plan_contexts(levels, n, candidates=contexts).contexts))
        seconds = share * budget.seconds - self.seconds
        if budget.is_time and seconds > 0.0 and (self.runs == 0).any():
            free = contexts[self.runs == 0]
            plan = plan_contexts(
                self.model, f"{seconds:.3f}s", levels=levels, candidates=free, most_runs=1,
                whole_budget=True,
            )  # fmt: skip
            self._measure(self._rows_of(plan.contexts))

    def step(self) -> None:
        """Measure what the choice depends on, or say why the search ends."""
        if self.left() <= 0.0:
            self.reason = "the budget is spent"
            return
        rows = self._contenders()
        if not len(rows):
            self.reason = "no cheaper context is likely to keep the deadline"
            return
        self._measure(rows)

    def go_on(self) -> None:
        """Fit to the fresh runs, too, which disagree with the bound."""
        self.reason = ""
        self._fit(self.verifying)

    def verified(self) -> Found:
        """The answer, with fresh runs of the choice."""
        choice, late, fresh = self._choice(), 0, 0
        if choice:
            row = int(self._rows_of(choice[0].context[None])[0])
            budget = self.question.budget
            room = budget.seconds - self.seconds, budget.contexts - self.runs.sum()
            n = int(min(max(room[0] / max(choice[0].bound, 1e-9), 1), max(room[1], 1), 20))
            self.verifying = self._runs_of(np.array([row]), np.array([n]))
            added = np.array(self._durations_of(self.verifying)[row][len(self.durations[row]) :])
            late, fresh = int((added > self.question.deadline).sum()), len(added)
        words = self.priced.describe(choice[0].row) if choice else ""
        return Found(
            choice, words, self.reason, late, fresh, int(self.runs.sum()), self.seconds,
            self.measured, self.model, self.bounds,
        )  # fmt: skip

    def _measure(self, rows: Indices) -> None:
        self._fit(self._runs_of(rows, np.ones(len(rows), dtype=np.int64)))

    def _fit(self, measured: xr.Dataset) -> None:
        self.measured = measured
        self.durations = self._durations_of(self.measured)
        if self.save is not None:
            self.save(self.measured)
        model = fit_profiles(self.measured)
        self.model = calibrate_model(model, self.measured)
        rate = self.model.supported_rate(self.source.contexts, self.question.miscoverage)
        self.bounds = self.model.bounds(self.source.contexts, rate, chosen=True)
        self.priced = PricedContexts(self.bounds, self.question.costs, untested=True)

    def _runs_of(self, rows: Indices, runs: Indices) -> xr.Dataset:
        begun = time.monotonic()
        measured = self.source.measure(rows, runs, None)
        self.runs[rows] += runs
        taken = float(np.nansum(Profiles.of(measured).duration))
        self.seconds = max(taken, self.seconds + time.monotonic() - begun)
        if self.progress is not None:
            self.progress(round(1000 * min(1.0 - self.left(), 1.0)), 1000)
        return measured

    def _durations_of(self, measured: xr.Dataset) -> list[list[float]]:
        """Durations of the runs in each context of the source, in their order [s]."""
        found: list[list[float]] = [[] for _ in self.source.contexts]
        profiles = Profiles.of(measured)
        for row, runs in zip(self._rows_of(profiles.contexts).tolist(), profiles.duration):
            found[row] = runs[np.isfinite(runs)].tolist()
        return found

    def _rows_of(self, contexts: Floats) -> Indices:
        return same_contexts(contexts, self.source.contexts)

    def _choice(self) -> tuple[ContextChoice, ...]:
        deadline = self.question.deadline
        try:
            row = int(self.priced.within(deadline)[0])
        except InfeasibleError as error:
            if self.reason:
                self.reason = f"{self.reason}; {error}"
            return ()
        return (self.priced.choice(row, deadline),)

    def _contenders(self) -> Indices:
        """Contexts that may replace the choice, the most promising first."""
        deadline, priced = self.question.deadline, self.priced
        choice = self._choice()
        cost = choice[0].cost if choice else float(priced.cost.max())
        spread = np.ptp(priced.cost) or 1.0
        margin = np.log(np.maximum(priced.bound / priced.expected, 1.0 + 1e-6))
        rate = float(self.bounds.attrs["miscoverage"])
        reach = np.log(deadline / priced.expected) / margin * norm.isf(min(rate, 0.4))
        saving = np.maximum(cost - priced.cost, 0.0) / spread
        if not choice:  # anything that keeps the deadline is worth a run
            saving = saving + 1.0
        gain = saving * norm.cdf(reach)
        # a run more where there are enough of them says nothing
        enough = groups_needed(self.question.miscoverage)
        gain[self.runs >= enough] = 0.0
        rows = np.argsort(-gain / priced.expected, kind="stable")
        rows = rows[gain[rows] >= _WORTH][:_STEP]
        return self.affordable(rows, priced.expected[rows]) if len(rows) else rows
