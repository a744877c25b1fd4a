"""Conformal quantiles against exact fractions, and by the coverage that they promise."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from msbgen.core.conformal import (
    check_rate,
    contexts_needed,
    group_quantile,
    least_rate,
    rungs,
)
from msbgen.core.errors import ArgumentError, MeasurementError

# ------------------------------------------------------------------ quantiles


def nested(runs_of):
    """Scores of the runs of groups, and what each counts."""
    n = len(runs_of)
    share = np.concatenate([np.full(len(runs), 1 / (n * len(runs))) for runs in runs_of])
    return np.concatenate(runs_of).astype(float), share


@given(
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=4), min_size=4, max_size=12),
    st.sampled_from([0.2, 0.25, 0.31, 0.5, 0.9]),
)
def test_the_quantile_is_the_hierarchical_one_of_the_literature(runs_of, rate):
    score, share = nested(runs_of)
    assert group_quantile(score, share, len(runs_of), rate) == oracles.hierarchical_quantile(
        runs_of, rate
    )


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_runs_is_nothing_and_finer_rates_have_larger_quantiles(seed):
    rng = np.random.default_rng(seed)
    score, share = nested([rng.standard_normal(rng.integers(1, 4)) for _ in range(20)])
    order, rates = rng.permutation(len(score)), np.sort(rng.uniform(0.05, 1.0, 6))[::-1]
    found = [group_quantile(score, share, 20, rate) for rate in rates]
    assert found == sorted(found)
    assert found == [group_quantile(score[order], share[order], 20, rate) for rate in rates]


@pytest.mark.parametrize("error", [0.0, 3.0], ids=["runs apart", "runs of a context together"])
@pytest.mark.parametrize("rate", [0.2, 0.05])
def test_a_new_run_of_an_exchangeable_context_is_covered(rate, error):
    rng = np.random.default_rng(3)
    n, runs, trials = 39, 4, 2000
    covered = 0
    for _ in range(trials):
        log = error * rng.standard_normal((n, 1)) + rng.standard_normal((n, runs))
        new = error * rng.standard_normal() + rng.standard_normal()
        covered += new <= group_quantile(*nested(log), n, rate)
    slack = 4 * np.sqrt(rate * (1 - rate) / trials)
    assert 1 - rate - slack <= covered / trials <= 1 - rate + 1 / (n + 1) + slack


# ------------------------------------------------------------------ rates


@given(st.integers(1, 40), st.fractions(Fraction(1, 50), Fraction(9, 10), max_denominator=50))
def test_a_rate_is_refused_where_the_definition_has_no_finite_quantile(n, rate):
    try:
        oracles.hierarchical_quantile([[0.0]] * n, rate)
        supported = True
    except ValueError:
        supported = False
    assert (n >= contexts_needed(float(rate))) == supported
    if not supported:
        with pytest.raises(
            MeasurementError, match=rf"at least {contexts_needed(float(rate))} runs"
        ):
            check_rate(float(rate), n, 3 * n)
    else:
        check_rate(float(rate), n, 3 * n)


def test_the_message_names_what_there_is_and_the_rate_that_it_supports():
    with pytest.raises(MeasurementError, match=r"99 runs .* 100 runs of 25 contexts") as e:
        check_rate(0.01, 25, 100)
    supported = float(str(e.value).split()[-1].rstrip("."))
    check_rate(supported, 25, 100)


@pytest.mark.parametrize("rate", [0.0, 1.0, 1.5, -0.1, np.nan, np.inf])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(ArgumentError, match=f"miscoverage is {rate}"):
        check_rate(rate, 1000, 1000)


@given(st.integers(1, 3000), st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_finer_rates_climb_on_all_rungs_of_coarser_ones(n, u):
    """What makes bounds rise as the rate falls: a finer rate's rungs hold the coarser one's."""
    least = 1 / (n + 1)
    fine, coarse = least + u / 2 * (1 - least), least + u * (1 - least)
    of_fine, of_coarse = list(rungs(fine, n)), list(rungs(coarse, n))
    assert of_fine[-1][1] == fine
    assert all(a[0] > b[0] and a[1] >= b[1] for a, b in pairwise(of_fine))
    assert all(least <= rate <= asked for rate, asked in of_fine)
    assert of_fine[: len(of_coarse) - 1] == of_coarse[:-1]
    rate, asked = of_fine[len(of_coarse) - 1]
    assert rate == of_coarse[-1][0]
    assert asked <= of_coarse[-1][1]


def test_the_least_rate_is_supported_and_a_smaller_one_is_not():
    for n in (1, 6, 19, 35, 400):
        check_rate(least_rate(n), n, n)
        with pytest.raises(MeasurementError):
            check_rate(0.99 / (n + 1), n, n)
