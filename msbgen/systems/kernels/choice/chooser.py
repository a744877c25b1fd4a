"""Choose a context for a program from a few of its measurements and from other programs."""

from __future__ import annotations

from copy import deepcopy
from statistics import NormalDist

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.choice import (
    NO_LIMITS,
    Choice,
    Limits,
    Objective,
    Offers,
    check_objective,
    choose,
)
from msbgen.core.conformal import groups_needed, supported_rate
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.records import Count, checks_arguments
from msbgen.data.schema import ENERGY_BOUND, same_level
from msbgen.systems.kernels.choice.costs import Costs
from msbgen.systems.kernels.choice.margins import Margins, leave_out
from msbgen.systems.kernels.choice.posterior import FittedPredictor, Predictor, ProgramPosterior
from msbgen.systems.kernels.choice.probes import improvement, mean_regret

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# A posterior has a matrix over all contexts: about a gigabyte for so many.
_MOST_CONTEXTS = 2_000
# Fits that are kept, times the square of the contexts: about 4 GB, as each fit of a
# `ConfigurationModel` holds some 450 bytes for each pair of contexts.
_MOST_KEPT = 9_000_000
# Logarithms of times and energies that do not overflow.
_MOST_LOG = 600.0


class Chooser:
    """Chooses contexts for new programs, from a few measurements and from other programs.

    `others` are programs like the new one, measured in the contexts to choose from.  Copies of
    `predictor` are fitted to them.  At most a share `miscoverage`, α, of families of programs may
    exceed the bound of a context.  `work` names a resource that says how much a run does, as a
    batch size; energy is counted per unit of it.  It is empty where all runs do the same.
    ArgumentError: a rate outside (0, 1); no such resource, or one that is not positive.

    The margins of left-out programs depend on which contexts were measured.  They are computed
    when a set of contexts comes first, and kept: later decisions take well below a millisecond.
    """

    def __init__(
        self, others: Costs, predictor: Predictor, *, miscoverage: float = 0.05, work: str = ""
    ):
        groups_needed(miscoverage)  # raises for a rate outside (0, 1)
        self.others = others
        self.miscoverage = miscoverage
        self.work = work_per_run(others, work)
        self._predictor = predictor
        self._fits: dict[tuple[str, ...], FittedPredictor] = {}
        self._margins: dict[bytes, Margins] = {}
        self._widths: dict[bytes, Floats] = {}

    def offers(
        self,
        program: Costs,
        *,
        objective: Objective | ArrayLike = "energy",
        supported: bool = False,
    ) -> Offers:
        """Every context with expected time and energy of one program, upper bounds, and a cost.

        The objective is as of :meth:`msbgen.core.choice.Offers.of_runs`.  The program has the
        contexts of the others, and NaN where it was not measured.  Other programs of its family are
        not used.  Bounds are at the miscoverage, or if `supported`, at :meth:`supported_rate`.
        Where measurements have noise, all values are of a new measurement.  In measured contexts
        they are those of its own runs there (:meth:`Costs.bounds_of_runs`).  If these are too few,
        no bound is below the largest of them.

        ArgumentError: several programs, or other contexts.  MeasurementError: it was measured in no
        context, or the others are too few for the miscoverage.
        """
        time, energy, measured = self._single(program)
        own, enough = program.bounds_of_runs(0, self.miscoverage)
        truth = np.stack([time, energy, energy / time])
        if measured.all():
            return self._offers(time, energy, np.maximum(own, truth), objective)
        family = program.families[0]
        posterior = self._fit_without((family,)).posterior(time, energy / time)
        rate = self.supported_rate(program) if supported else self.miscoverage
        key = measured.tobytes() + f"{rate!r} {family}".encode()
        if key not in self._widths:
            margins = self._left_out(family, measured)
            self._widths[key] = _widths(margins.widths(rate, ~measured), rate, measured)
        upper = posterior.logs + self._widths[key] * posterior.deviations
        expected, bound = (
            np.exp(np.clip(logs, -_MOST_LOG, _MOST_LOG)) for logs in (posterior.logs, upper)
        )
        exact = measured & posterior.certain
        expected, bound = (np.where(exact, truth, values) for values in (expected, bound))
        bound = np.fmax(own, np.where(enough, expected, bound))
        return self._offers(expected[0], expected[1], bound, objective)

    def supported_rate(self, program: Costs) -> float:
        """The miscoverage, or the smallest larger one that the families of others support.

        Errors as :meth:`offers`, but for too few others.
        """
        _, _, measured = self._single(program)
        if measured.all():
            return self.miscoverage
        margins = self._left_out(program.families[0], measured)
        fewest = min(margins.families(int(context)) for context in np.flatnonzero(~measured))
        return supported_rate(self.miscoverage, fewest) if fewest else self.miscoverage

    def choose(
        self,
        program: Costs,
        *,
        objective: Objective | ArrayLike = "energy",
        limits: Limits = NO_LIMITS,
    ) -> Choice:
        """Choose a context for one program.

        Without limits the choice needs no bounds: these are at :meth:`supported_rate`.  Parameters
        and errors as :meth:`offers`, :func:`msbgen.core.choice.choose`.
        """
        supported = limits == NO_LIMITS
        return choose(self.offers(program, objective=objective, supported=supported), limits)

    def next_probe(
        self, program: Costs, *, objective: Objective = "energy", limits: Limits = NO_LIMITS
    ) -> int:
        """Number of the context to measure next, one that was not measured yet.

        Errors as :meth:`offers`, or where every context was measured.
        """
        time, energy, measured = self._single(program)
        if measured.all():
            raise MeasurementError(
                f"'{program.programs[0]}' was measured in every context; choose one."
            )
        check_objective(objective)
        if limits == NO_LIMITS:
            posterior = self.posterior(program)
            noisy = measured & ~posterior.certain
            time, energy = (
                np.where(noisy, np.exp(logs), values)
                for logs, values in zip(posterior.logs, (time, energy))
            )
            gain = improvement(
                posterior, time, energy, self.work, objective=objective, limits=limits
            )
            return int(np.where(measured, -np.inf, gain).argmax())
        at = int(np.nanargmin(time))
        reference = (at, np.array([time[at], energy[at]]))
        regret = np.full(len(measured), np.inf)
        for context in np.flatnonzero(~measured):
            trial = measured.copy()
            trial[context] = True
            margins = self._left_out(program.families[0], trial)
            regret[context] = mean_regret(
                margins.others, *self._left_out_logs(margins, trial), self.work, reference,
                objective=objective, limits=limits,
            )  # fmt: skip
        return int(regret.argmin()) if np.isfinite(regret).any() else int(np.argmin(measured))

    @checks_arguments
    def next_probes(
        self,
        program: Costs,
        count: Count,
        *,
        objective: Objective = "energy",
        limits: Limits = NO_LIMITS,
    ) -> list[int]:
        """Numbers of several contexts to measure, the most useful first.

        Each is chosen as if those before it were measured as predicted.  Measuring one at a time
        and calling :meth:`next_probe` again is better.  The list is shorter than `count` where
        fewer contexts are left.  Parameters and errors are those of :meth:`next_probe`.
        """
        chosen: list[int] = []
        while not chosen or (len(chosen) < count and not program.measured.all()):
            chosen.append(self.next_probe(program, objective=objective, limits=limits))
            time, energy = np.exp(self.posterior(program).logs[:2, chosen[-1]])
            program = program.with_measurement(chosen[-1], time, energy)
        return chosen

    def posterior(self, program: Costs) -> ProgramPosterior:
        """Posterior of a program given its measurements; errors as :meth:`offers`."""
        time, energy, _ = self._single(program)
        return self._fit_without((program.families[0],)).posterior(time, energy / time)

    def _offers(
        self, time: Floats, energy: Floats, bound: Floats, objective: Objective | ArrayLike
    ) -> Offers:
        return Offers.of_runs(
            time, energy, objective=objective, work=self.work,
            bound=dict(zip(("time", "energy", "power"), bound)), describe=self.others.describe,
        )  # fmt: skip

    def _left_out_logs(
        self, margins: Margins, measured: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """Logarithms predicted for left-out programs: expected, and upper bounds."""
        width = margins.trial_widths(self.miscoverage, ~measured)
        width = _widths(width, self.miscoverage, measured)
        others = margins.others
        truth = np.log(np.stack([others.time, others.energy, others.power], axis=1))
        logs, deviations, certain = (
            np.stack([getattr(posterior, name) for posterior in margins.posteriors])
            for name in ("logs", "deviations", "certain")
        )
        exact = (measured & certain)[:, None]
        upper = np.where(exact, truth, logs + width * deviations)
        return np.where(exact, truth, logs), upper

    def _left_out(self, family: str, measured: NDArray[np.bool_]) -> Margins:
        key = measured.tobytes() + family.encode()
        if key not in self._margins:
            self._margins[key] = leave_out(
                self.others.without([family]),
                lambda other: self._fit_without((family, other)),
                measured,
            )
        return self._margins[key]

    def _fit_without(self, families: tuple[str, ...]) -> FittedPredictor:
        """A copy of the predictor, fitted to all but some families."""
        if len(self.work) > _MOST_CONTEXTS:
            raise MeasurementError(
                f"there are {len(self.work)} contexts to predict a program in; at most "
                f"{_MOST_CONTEXTS} are wanted: leave levels out, or measure or generate them all."
            )
        key = tuple(sorted(set(families) & set(self.others.families)))
        if key not in self._fits:
            while self._fits and (len(self._fits) + 1) * len(self.work) ** 2 > _MOST_KEPT:
                del self._fits[next(iter(self._fits))]
            # a copy for each fit: `fit` of most predictors returns the predictor itself
            self._fits[key] = deepcopy(self._predictor).fit(self.others.without(key))
        return self._fits[key]

    def _single(self, program: Costs) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Time, energy and whether they were measured, (n,) each, of one valid program."""
        if len(program.programs) != 1:
            raise ArgumentError(f"there are {len(program.programs)} programs; one is wanted.")
        if program.contexts is not self.others.contexts and not np.array_equal(
            program.contexts, self.others.contexts
        ):
            raise ArgumentError(
                f"'{program.programs[0]}' has other contexts than the programs that the chooser "
                f"has; the same, in the same order, are wanted."
            )
        measured = program.measured[0]
        if not measured.any():
            raise MeasurementError(
                f"'{program.programs[0]}' was measured in no context; time and energy in one "
                f"context or more, the fastest first, are wanted."
            )
        time, energy = (np.where(measured, x[0], np.nan) for x in (program.time, program.energy))
        return time, energy, measured


def _widths(widths: Floats, miscoverage: float, measured: NDArray[np.bool_]) -> Floats:
    """Widths (3, n) with Gaussian ones in measured contexts, for the noise of a measurement there.

    Programs that are left out were measured there once, so that no second measurement gives scores.
    """
    return np.where(measured, max(NormalDist().inv_cdf(1.0 - miscoverage), 0.0), widths)


def bounded_offers(
    program: Costs,
    bounds: xr.Dataset,
    work: Floats,
    *,
    objective: Objective | ArrayLike = "energy",
    source: str = "bounds",
) -> Offers:
    """Offers of a program with costs in every context and with bounds on its runs.

    `bounds` are those that ``msbgen bound`` writes: ``duration_bound`` [s] and, of energy,
    ``energy_bound`` [J], over the same contexts in any order. `work` is (n,), and `source` names
    the bounds in messages.
    """
    wanted = ["duration_bound", *program.resources, *({ENERGY_BOUND} & {*bounds.data_vars})]
    if any(n not in bounds or bounds[n].dims != ("context",) for n in wanted):
        raise ProfileError(
            f"{source}: holds {', '.join(map(str, bounds.variables))}; duration_bound and the "
            f"resources {', '.join(program.resources)} over 'context', as 'msbgen bound' writes "
            f"them, are wanted."
        )
    if not program.measured[0].all():
        at = int(np.argmin(program.measured[0]))
        raise MeasurementError(
            f"'{program.programs[0]}' has no time and energy in {program.describe(at)}; bounds "
            f"want every context: generate it with --contexts all, for example."
        )
    table = np.stack([bounds[n].values.astype(float) for n in program.resources], axis=1)
    rows = []
    for i, context in enumerate(program.contexts):
        same = np.flatnonzero(same_level(table, context).all(axis=1))
        if not len(same):
            raise ProfileError(f"{source}: has no bound for {program.describe(i)}; add one.")
        rows.append(int(same[0]))
    stored = {n: bounds[n].values[rows].astype(float) for n in wanted if n.endswith("_bound")}
    for name, values in stored.items():
        bad = ~(np.isfinite(values) & (values > 0))
        if bad.any():
            at = int(np.argmax(bad))
            raise ProfileError(
                f"{source}: '{name}' is {values[at]:g} in {program.describe(at)}; a positive "
                f"number is wanted: write the bounds again."
            )
    time, energy = program.time[0], program.energy[0]
    time_bound = np.maximum(stored["duration_bound"], time)
    energy_bound = np.maximum(stored[ENERGY_BOUND], energy) if ENERGY_BOUND in stored else energy
    bound = {"time": time_bound, "energy": energy_bound, "power": energy_bound / time}
    return Offers.of_runs(
        time, energy, objective=objective, work=work, bound=bound, describe=program.describe
    )


def work_per_run(costs: Costs, resource: str) -> Floats:
    """Work of a run in each context, (n,): the level of a resource, or 1 without one."""
    if not resource:
        return np.ones(len(costs.contexts))
    if resource not in costs.resources:
        raise ArgumentError(
            f"work is {resource!r}; one of the resources {', '.join(costs.resources)} is wanted."
        )
    work = costs.contexts[:, costs.resources.index(resource)]
    if not (work > 0).all():
        raise ArgumentError(f"resource '{resource}' is {work.min():g}; positive work is wanted.")
    return work


def highest_context(costs: Costs, work: ArrayLike, context: int) -> int:
    """Number of the context with the highest levels among those with the same work as one.

    Clocks and limits of power are compared first, so that it has the highest clock.
    """
    amount = np.asarray(work, dtype=float)
    same = np.flatnonzero(amount == amount[context])
    is_clock = [u.endswith("Hz") or u == "W" for u in costs.units]
    columns = [costs.contexts[same, i] for i in np.argsort(is_clock, kind="stable")]
    return int(same[np.lexsort(columns)[-1]])
