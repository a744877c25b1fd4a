"""How far a program exceeds what was thought of it: margins from left-out programs.

A program is predicted from those of other families, by what was measured of it in the contexts in
which the new one was measured; its score in a context is by how many deviations the logarithm of
its time, energy or power exceeds what was thought.  Exchangeable are families, with their programs
nested in them: if the new program's family is drawn like the left-out ones, it exceeds the
conformal quantile of their scores in that context with probability at most α
(:mod:`msbgen.core.conformal`, where families are called contexts and programs runs).
Whole programs are left out: configurations of one program say little of another, variants of one
network little of another network, and small kernels little of applications.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.core.conformal import check_rate, groups_needed
from msbgen.core.contexts import weighted_quantile
from msbgen.core.errors import MeasurementError
from msbgen.kernels.choice.costs import Costs
from msbgen.kernels.choice.posterior import Belief, Fitted

Floats = NDArray[np.float64]

QUANTITIES = ("time", "energy", "power")


@dataclass(frozen=True, eq=False)
class Margins:
    """Scores of left-out programs.

    Attributes
    ----------
    others : Costs
        The programs that were scored.
    beliefs : tuple of Belief
        What was thought of each.
    scores : ndarray, (3, n_programs, n_contexts)
        Of time, energy and power; NaN where a program was not measured.
    """

    others: Costs
    beliefs: tuple[Belief, ...]
    scores: Floats

    def widths(self, miscoverage: float, wanted: NDArray[np.bool_]) -> Floats:
        """Deviations to add in each context, (3, n); 0 where none are wanted.

        Raises
        ------
        ArgumentError
            A rate that is none.
        MeasurementError
            Programs of fewer families were measured in a context than the rate needs.
        """
        groups_needed(miscoverage)  # refuses what is no rate
        for context in np.flatnonzero(wanted):
            there = np.isfinite(self.scores[0, :, context])
            families = len(set(self._family[there]))
            check_rate(miscoverage, families, int(there.sum()), "families of programs")
        return self.likely_widths(miscoverage, wanted)

    def likely_widths(self, miscoverage: float, wanted: NDArray[np.bool_]) -> Floats:
        """The same for a trial: the largest score where families are too few for the rate."""
        found = np.zeros(self.scores[:, 0].shape)
        for context in np.flatnonzero(wanted):
            there = np.isfinite(self.scores[0, :, context])
            if not there.any():
                continue
            _, own, size = np.unique(self._family[there], return_inverse=True, return_counts=True)
            # the new family is one of all, at infinity
            level = min((1.0 - miscoverage) * (1.0 + 1.0 / len(size)), 1.0)
            share = 1.0 / size[own.reshape(-1)]
            for row in range(len(found)):
                values = self.scores[row, there, context]
                found[row, context] = weighted_quantile(values, share[None], level)[0, 0]
        return found

    @cached_property
    def _family(self) -> NDArray[np.int64]:
        return np.unique(self.others.families, return_inverse=True)[1].reshape(-1)


def leave_out(others: Costs, fitted: Callable[[str], Fitted], known: NDArray[np.bool_]) -> Margins:
    """Predict each program from the other families by the contexts that are known.

    Parameters
    ----------
    others : Costs
    fitted : callable
        The predictor fitted to all families but one.
    known : ndarray of bool, (n,)
        Contexts in which the new program was measured.  Programs that were not measured in all of
        them are not scored.

    Raises
    ------
    MeasurementError
        No other program was measured in all of them.
    """
    scored = others.take(np.flatnonzero(others.measured[:, known].all(axis=1)))
    if not scored.programs:
        raise MeasurementError(
            "no other program was measured in all the contexts that are known of this one; "
            "programs that were are wanted."
        )
    beliefs = tuple(
        fitted(family).believe(np.where(known, time, np.nan), np.where(known, power, np.nan))
        for family, time, power in zip(scored.families, scored.time, scored.power)
    )
    truth = np.log(np.stack([scored.time, scored.energy, scored.power]))
    scores = np.stack([score(b, truth[:, i]) for i, b in enumerate(beliefs)], axis=1)
    return Margins(scored, beliefs, np.where(np.isfinite(truth).all(axis=0), scores, np.nan))


def score(belief: Belief, truth: Floats) -> Floats:
    """By how many deviations logarithms (3, n) exceed what was thought of them."""
    return (truth - belief.logs) / belief.deviations
