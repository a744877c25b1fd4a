"""Margins from left-out programs: their coverage, and their order over rates."""

from dataclasses import replace

import numpy as np
import pytest

from choosing import CLOCKS, Gaussian, programs
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.kernels.choice.margins import leave_out

KNOWN = np.isin(CLOCKS, [2.0, 1.1])


def margins_of(others, ridge=1e-4, known=KNOWN):
    def fitted(family):
        return Gaussian(ridge).fit(others.without([family]))

    return leave_out(others, fitted, known)


def test_new_programs_exceed_their_bounds_at_the_rate():
    """Exchangeable programs: at most α of them exceed, at least α − 1/(n + 1), on average."""
    late, alpha = [], 0.25
    for seed in range(8):
        drawn = programs(11 + 40, seed=seed)
        others, new = drawn.take(range(11)), drawn.take(range(11, 51))
        width = margins_of(others).widths(alpha, ~KNOWN)
        fitted = Gaussian().fit(others)
        for time, power in zip(new.time, new.power):
            posterior = fitted.posterior(*(np.where(KNOWN, x, np.nan) for x in (time, power)))
            upper = posterior.logs + width * posterior.deviations
            truth = np.log([time, time * power, power])
            late.append((truth > upper)[:, ~KNOWN])
    assert 0.25 - 1 / 12 - 0.06 < np.mean(late) < 0.25 + 0.04


def test_rates_that_families_do_not_support_are_refused():
    margins = margins_of(programs(9))
    with pytest.raises(MeasurementError, match="at least 19 runs of as many different families"):
        margins.widths(0.05, ~KNOWN)
    with pytest.raises(ArgumentError, match="miscoverage is 1"):
        margins.widths(1.0, ~KNOWN)
    width = margins.widths(0.1, ~KNOWN)
    np.testing.assert_array_equal(margins.trial_widths(0.05, ~KNOWN), width)
    assert (width[:, KNOWN] == 0).all()


def test_the_quantile_counts_the_new_family():
    """85 % of nine families and the new one are nine; 85 % of nine would be eight."""
    margins = margins_of(programs(9))
    ordered = np.sort(margins.scores[:, :, ~KNOWN], axis=1)
    for rate, rank in ((0.15, 9), (0.25, 8), (0.35, 7), (0.55, 5)):
        width = margins.widths(rate, ~KNOWN)[:, ~KNOWN]
        np.testing.assert_array_equal(width, ordered[:, rank - 1])


def test_programs_that_lack_a_measured_context_are_not_scored():
    others = programs(12)
    others.time[3, KNOWN] = np.nan
    others.time[4, 0] = np.nan
    margins = margins_of(others)
    assert "p3" not in margins.others.programs
    count = np.isfinite(margins.scores[0]).sum(axis=0)
    assert count.tolist() == [10, 11, 11, 11, 11, 11]
    with pytest.raises(MeasurementError, match="no other program was measured in all"):
        margins_of(others.only([0, 1]))


def test_a_family_has_the_same_weight_for_any_number_of_variants():
    """Five copies of a program beside seven others: the quantile of eight families."""
    drawn = programs(8)
    at = [*range(8), 7, 7, 7, 7]
    many = replace(
        drawn,
        programs=(*drawn.programs, "a", "b", "c", "d"),
        families=(*drawn.families, *["p7"] * 4),
        time=drawn.time[at],
        energy=drawn.energy[at],
    )
    single, several = margins_of(drawn), margins_of(many)
    # each family predicted by the same fit, so that scores are comparable
    scores = np.hstack([single.scores, *[single.scores[:, 7:]] * 4])
    several = replace(several, scores=scores)
    for rate in (0.5, 0.3, 0.2, 1 / 9):
        np.testing.assert_array_equal(several.widths(rate, ~KNOWN), single.widths(rate, ~KNOWN))
    with pytest.raises(MeasurementError, match="there are 12 runs of 8 families of programs"):
        several.widths(0.1, ~KNOWN)
