"""Margins of predicted times, energies and powers, from families of programs that are left out.

Each program is predicted from the other families, by its measurements in the contexts in which the
new program was measured.  Its score in a context is the excess of the true logarithm over the
posterior mean, in posterior standard deviations.  Families are exchangeable groups, with their
programs nested in them.  If the new family is drawn like the others, its score in a context
exceeds the conformal quantile with probability at most α (:mod:`msbgen.core.conformal`).

Whole families are left out, because programs of one family are alike: configurations of one
program, variants of one network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.core.conformal import check_rate, conformal_quantile, group_weights, groups_needed
from msbgen.core.errors import MeasurementError
from msbgen.systems.kernels.choice.costs import Costs
from msbgen.systems.kernels.choice.posterior import FittedPredictor, ProgramPosterior

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Margins:
    """Scores of left-out programs.

    Each of the p `others` has a posterior. Scores are (3, p, n_contexts), of time, energy and
    power, and NaN where a program was not measured.
    """

    others: Costs
    posteriors: tuple[ProgramPosterior, ...]
    scores: Floats

    def widths(self, miscoverage: float, wanted: NDArray[np.bool_]) -> Floats:
        """Standard deviations to add in each context, (3, n); 0 in contexts not wanted.

        A context in which fewer families were measured than the rate needs raises
        :class:`MeasurementError`.
        """
        groups_needed(miscoverage)  # raises for a rate outside (0, 1)
        for context in np.flatnonzero(wanted):
            programs = int(np.isfinite(self.scores[0, :, context]).sum())
            check_rate(miscoverage, self.families(int(context)), programs, "families of programs")
        return self.trial_widths(miscoverage, wanted)

    def families(self, context: int) -> int:
        """Number of families that were measured in a context."""
        return len(set(self._family[np.isfinite(self.scores[0, :, context])]))

    def trial_widths(self, miscoverage: float, wanted: NDArray[np.bool_]) -> Floats:
        """The same, but with the largest score where families are too few for the rate."""
        widths = np.zeros(self.scores[:, 0].shape)
        for context in np.flatnonzero(wanted):
            measured = np.isfinite(self.scores[0, :, context])
            if not measured.any():
                continue
            families = self._family[measured]
            weights, count = group_weights(families), len(np.unique(families))
            for row in range(len(widths)):
                scores = self.scores[row, measured, context]
                widths[row, context] = conformal_quantile(scores, weights, count, miscoverage)
        return widths

    @cached_property
    def _family(self) -> NDArray[np.int64]:
        return np.unique(self.others.families, return_inverse=True)[1].reshape(-1)


def leave_out(
    others: Costs, fit_without: Callable[[str], FittedPredictor], measured: NDArray[np.bool_]
) -> Margins:
    """Score each program by a fit to the other families.

    `fit_without` returns the predictor fitted to all families but one. `measured` (n,) marks the
    contexts in which the new program was measured; programs that lack one of them are not scored.
    """
    scored = others.take(np.flatnonzero(others.measured[:, measured].all(axis=1)))
    if not scored.programs:
        raise MeasurementError(
            "no other program was measured in all contexts of this one; measure others there."
        )
    posteriors = tuple(
        fit_without(family).posterior(*(np.where(measured, x, np.nan) for x in (time, power)))
        for family, time, power in zip(scored.families, scored.time, scored.power)
    )
    truth = np.log(np.stack([scored.time, scored.energy, scored.power]))
    scores = np.stack(
        [(truth[:, i] - one.logs) / one.deviations for i, one in enumerate(posteriors)], axis=1
    )
    return Margins(scored, posteriors, np.where(np.isfinite(truth).all(axis=0), scores, np.nan))
