"""Widths that are learned before intervals are."""

import numpy as np

from machines import made_predictions
from msbgen.machines.widths import fit_widths


def predictions(programs=60, each=5, seed=0):
    """Two machines; runs of the second configuration are predicted ten times worse."""
    rng = np.random.default_rng(seed)
    n = programs * each
    context = np.eye(2)[rng.integers(2, size=n)]
    ratio = rng.normal(size=(n, 2, 2)) * (0.02 * context[:, 0] + 0.2 * context[:, 1])[:, None, None]
    return made_predictions(ratio, context=context), np.repeat(np.arange(programs), each)


def test_runs_that_are_hard_to_predict_are_given_wider_intervals():
    known, program = predictions()
    widths, unbiased = fit_widths(known, program, seed=0)
    hard = known.context[:, 1] == 1
    assert np.exp(unbiased[hard, 0, 1].mean() - unbiased[~hard, 0, 1].mean()) > 3
    assert np.isnan(unbiased[:, [0, 1], [0, 1]]).all()
    new, _ = predictions(seed=1)
    got = widths.log_width(new, [0])[:, 1]
    hard = new.context[:, 1] == 1
    assert got[hard].min() > got[~hard].mean()
    np.testing.assert_allclose(
        widths.log_width(new, [0, 1]), (widths.log_width(new, [0]) + widths.log_width(new, [1])) / 2
    )


def test_unbiased_widths_do_not_depend_on_times_of_the_program():
    """Up to which programs share a leaf with it: its error is in no leaf of its trees."""
    known, program = predictions(programs=20)
    _, unbiased = fit_widths(known, program, seed=0)
    known.seconds[:5, 1] *= np.e**9
    _, moved = fit_widths(known, program, seed=0)
    np.testing.assert_allclose(moved[:5, 0, 1], unbiased[:5, 0, 1])
    assert not np.allclose(moved[5:, 0, 1], unbiased[5:, 0, 1])
