"""How far a program exceeds what was thought of it: margins from left-out programs.

A program is predicted from those of other families, by what was measured of it in the contexts in
which the new one was measured; its score in a context is by how many deviations the logarithm of
its time, energy or power exceeds what was thought.  If the new program is drawn like the left-out
ones their scores in that context are exchangeable, and the conformal quantile of n of them is
exceeded with probability at most α (Vovk et al.; finite samples: :mod:`msbgen.conformal`).
Whole programs are left out: configurations of one program say little of another, and small
kernels little of applications, whose scores are other ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.conformal import check_rate
from msbgen.data.belief import Belief, Fitted
from msbgen.data.costs import Costs
from msbgen.errors import MeasurementError

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
            Fewer programs were measured in a context than the rate needs.
        """
        found, count = self._quantiles(miscoverage)
        least = int(count[wanted].min(initial=len(self.others.programs)))
        if wanted.any():
            check_rate(miscoverage, least, least, "programs")
        return np.where(wanted, found, 0.0)

    def likely_widths(self, miscoverage: float, wanted: NDArray[np.bool_]) -> Floats:
        """The same for a trial: the largest score where programs are too few for the rate."""
        found, count = self._quantiles(miscoverage)
        return np.where(wanted & (count > 0), found, 0.0)

    def _quantiles(self, miscoverage: float) -> tuple[Floats, NDArray[np.int64]]:
        """Conformal quantiles in each context, (3, n), and how many programs they are from."""
        ranked = np.sort(self.scores, axis=1)  # NaN last
        count = np.isfinite(self.scores[0]).sum(axis=0)
        place = np.ceil((1.0 - miscoverage) * (count + 1) - 1e-9).astype(np.int64) - 1
        place = np.clip(place, 0, np.maximum(count - 1, 0))
        return np.take_along_axis(ranked, place[None, None, :], axis=1)[:, 0], count


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
