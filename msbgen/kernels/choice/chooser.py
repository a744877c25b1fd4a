"""Choose for a program of which little was measured, by what is known of others."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.choice import (
    NO_LIMITS,
    Choice,
    Limits,
    Objective,
    Outlook,
    check_objective,
    choose,
)
from msbgen.core.conformal import groups_needed
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.data.schema import ENERGY_BOUND, same_level
from msbgen.kernels.choice.costs import Costs
from msbgen.kernels.choice.margins import Margins, leave_out
from msbgen.kernels.choice.posterior import Belief, Fitted, Predictor
from msbgen.kernels.choice.probes import improvement, mean_regret

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# What is thought of a program is a matrix over its contexts, a gigabyte at this many or a few more.
_MOST_CONTEXTS = 2_000
# Fits that are kept, times the square of the contexts: about 4 GB, as each fit of a
# `ConfigurationModel` holds some 450 bytes for each pair of contexts.
_MOST_KEPT = 9_000_000
# Logarithms of times and energies that do not overflow.
_MOST_LOG = 600.0


class Chooser:
    """Contexts for new programs, from a few of their measurements and many of others.

    Parameters
    ----------
    others : Costs
        Programs like the new one, measured in the contexts that there are to choose between.
    predictor : Predictor
        Learns from them, and from whatever else it knows.
    miscoverage : float
        Share of families of programs that may exceed the bound of a context, α.
    work : str
        A resource that says how much a run does, as a batch size: energy counts by it.  Empty
        where all runs do the same.

    Raises
    ------
    ArgumentError
        A rate that is none; no such resource, or one that is not positive.

    Notes
    -----
    What follows from the contexts that were measured, the margins of left-out programs, is worked
    out when they are first met and kept: a decision takes well below a millisecond then.
    """

    def __init__(
        self,
        others: Costs,
        predictor: Predictor,
        *,
        miscoverage: float = 0.05,
        work: str = "",
    ):
        groups_needed(miscoverage)  # refuses what is no rate
        self.others = others
        self.miscoverage = miscoverage
        self.work = work_of(others, work)
        self._predictor = predictor
        self._fits: dict[tuple[str, ...], Fitted] = {}
        self._margins: dict[bytes, Margins] = {}
        self._widths: dict[bytes, Floats] = {}

    def outlook(self, known: Costs) -> Outlook:
        """What is thought of every context for one program, bounds by left-out ones.

        Parameters
        ----------
        known : Costs
            One program, in the contexts of the others, NaN where it was not measured.  Of other
            programs those of its family are left aside.

        Raises
        ------
        ArgumentError
            Several programs; other contexts than those of the others.
        MeasurementError
            Nothing was measured of it, or too few others for the miscoverage.
        """
        time, energy, done = self._one(known)
        if done.all():
            return Outlook.certain(time, energy, self.work)
        family = known.families[0]
        belief = self._fitted((family,)).believe(time, energy / time)
        key = done.tobytes() + family.encode()
        if key not in self._widths:
            margins = self.margins(known)
            self._widths[key] = margins.widths(self.miscoverage, ~done)
        upper = belief.logs + self._widths[key] * belief.deviations
        expected, bound = (
            np.exp(np.clip(logs, -_MOST_LOG, _MOST_LOG)) for logs in (belief.logs, upper)
        )
        truth = np.stack([time, energy, energy / time])
        expected, bound = (np.where(done, truth, values) for values in (expected, bound))
        return Outlook(expected[0], expected[1], bound[0], bound[1], bound[2], self.work)

    def choose(
        self,
        known: Costs,
        *,
        objective: Objective | Callable[[Outlook], Floats] = "energy",
        limits: Limits = NO_LIMITS,
    ) -> Choice:
        """Choose a context for one program; parameters and errors as `outlook` and `decide`."""
        name = self.others.describe
        return choose(self.outlook(known), objective=objective, limits=limits, name=name)

    def next_probe(
        self, known: Costs, *, objective: Objective = "energy", limits: Limits = NO_LIMITS
    ) -> int:
        """The context whose measurement promises the best choice.

        Returns
        -------
        int
            Number of a context that was not measured.

        Raises
        ------
        ArgumentError, MeasurementError
            As :meth:`outlook`; every context was measured.
        """
        time, energy, done = self._one(known)
        if done.all():
            raise MeasurementError(
                f"'{known.programs[0]}' was measured in every context; nothing is left to measure."
            )
        check_objective(objective)
        if limits == NO_LIMITS:
            gain = improvement(
                self.believe(known), time, energy, self.work, objective=objective, limits=limits
            )
            return int(np.where(done, -np.inf, gain).argmax())
        at = int(np.nanargmin(time))
        reference = (at, np.array([time[at], energy[at]]))
        regret = np.full(len(done), np.inf)
        for context in np.flatnonzero(~done):
            trial = done.copy()
            trial[context] = True
            margins = self._left_out(known.families[0], trial)
            regret[context] = mean_regret(
                margins.others, *self._thought(margins, trial), self.work, reference,
                objective=objective, limits=limits,
            )  # fmt: skip
        return int(regret.argmin()) if np.isfinite(regret).any() else int(np.argmin(done))

    def next_probes(
        self,
        known: Costs,
        count: int,
        *,
        objective: Objective = "energy",
        limits: Limits = NO_LIMITS,
    ) -> list[int]:
        """Several contexts to measure before deciding again, the most promising first.

        Each is chosen as if those before it had turned out as expected; to measure one at a time
        and ask again is better.  Fewer where no more are left; parameters and errors as
        :meth:`next_probe`.
        """
        if count < 1 or count != int(count):
            raise ArgumentError(f"count is {count}; a whole number ≥ 1 is wanted.")
        chosen: list[int] = []
        while not chosen or (len(chosen) < count and not known.measured.all()):
            chosen.append(self.next_probe(known, objective=objective, limits=limits))
            time, energy = np.exp(self.believe(known).logs[:2, chosen[-1]])
            known = known.told(chosen[-1], time, energy)
        return chosen

    def _thought(self, margins: Margins, done: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Logarithms that were thought of left-out programs, expected and at most."""
        width = margins.likely_widths(self.miscoverage, ~done)
        own = margins.others
        truth = np.log(np.stack([own.time, own.energy, own.power], axis=1))
        logs = np.stack([belief.logs for belief in margins.beliefs])
        upper = logs + width * np.stack([belief.deviations for belief in margins.beliefs])
        return np.where(done, truth, logs), np.where(done, truth, upper)

    def margins(self, known: Costs) -> Margins:
        """Scores of the other programs, by the contexts in which this one was measured."""
        return self._left_out(known.families[0], self._one(known)[2])

    def _left_out(self, family: str, done: NDArray[np.bool_]) -> Margins:
        key = done.tobytes() + family.encode()
        if key not in self._margins:
            rest = self.others.without([family])
            self._margins[key] = leave_out(rest, lambda own: self._fitted((family, own)), done)
        return self._margins[key]

    def believe(self, known: Costs) -> Belief:
        """What the predictor thinks of a program; errors as :meth:`outlook`."""
        time, energy, _ = self._one(known)
        return self._fitted((known.families[0],)).believe(time, energy / time)

    def _fitted(self, families: tuple[str, ...]) -> Fitted:
        """The predictor, fitted to all but some families."""
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

    def _one(self, known: Costs) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        if len(known.programs) != 1:
            raise ArgumentError(f"known are {len(known.programs)} programs; one is wanted.")
        if known.contexts is not self.others.contexts and not np.array_equal(
            known.contexts, self.others.contexts
        ):
            raise ArgumentError(
                f"'{known.programs[0]}' has other contexts than the programs that were learned "
                f"from; the same, in the same order, are wanted."
            )
        done = known.measured[0]
        if not done.any():
            raise MeasurementError(
                f"nothing was measured of '{known.programs[0]}'; time and energy in one context "
                f"or more, the fastest first, are wanted."
            )
        time, energy = (np.where(done, x[0], np.nan) for x in (known.time, known.energy))
        return time, energy, done


def bounded_outlook(
    known: Costs, bounds: xr.Dataset, work: Floats, *, source: str = "bounds"
) -> Outlook:
    """Outlook of a program whose contexts are all known, with bounds on its runs.

    Parameters
    ----------
    known : Costs
        One program, measured or generated in every context.
    bounds : xarray.Dataset
        As ``msbgen bound`` writes them: ``duration_bound`` [s] and, of energy, ``energy_bound``
        [J], over the same contexts in any order.
    work : ndarray, (n,)
    source : str
        What messages call the bounds: the name of their file.

    Raises
    ------
    ProfileError
        No bounds, or none for a context.
    MeasurementError
        A context of which nothing is known.
    """
    if "duration_bound" not in bounds or any(n not in bounds.coords for n in known.resources):
        raise ProfileError(
            f"{source}: holds {', '.join(map(str, bounds.variables))}; duration_bound over the "
            f"resources {', '.join(known.resources)}, as 'msbgen bound' writes them, is wanted."
        )
    if not known.measured[0].all():
        at = int(np.argmin(known.measured[0]))
        raise MeasurementError(
            f"nothing is known of '{known.programs[0]}' in {known.describe(at)}; with bounds every "
            f"context, generated with --contexts all, say, is wanted."
        )
    table = np.stack([bounds[n].values.astype(float) for n in known.resources], axis=1)
    rows = []
    for i, context in enumerate(known.contexts):
        same = np.flatnonzero(same_level(table, context).all(axis=1))
        if not len(same):
            raise ProfileError(f"{source}: has none for {known.describe(i)}; bound it, too.")
        rows.append(int(same[0]))
    time, energy = known.time[0], known.energy[0]
    late = np.maximum(bounds["duration_bound"].values.astype(float)[rows], time)
    dear = energy
    if ENERGY_BOUND in bounds:
        dear = np.maximum(bounds[ENERGY_BOUND].values.astype(float)[rows], energy)
    return Outlook(time, energy, late, dear, dear / time, work)


def work_of(costs: Costs, resource: str) -> Floats:
    """What a run does in each context, (n,): the level of a resource, or 1 where there is none.

    Raises
    ------
    ArgumentError
        There is no such resource, or it is not positive.
    """
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


def highest(costs: Costs, work: ArrayLike, context: int) -> int:
    """The context with the highest levels of all that do the same work as one.

    Clocks and limits of power count first: "the highest clock" where there is one.
    """
    amount = np.asarray(work, dtype=float)
    same = np.flatnonzero(amount == amount[context])
    order = [u.endswith("Hz") or u == "W" for u in costs.units]
    columns = [costs.contexts[same, i] for i in np.argsort(order, kind="stable")]
    return int(same[np.lexsort(columns)[-1]])
