"""Conformal quantiles against exact fractions, and by the coverage that they promise."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import oracles
from msbgen.core.conformal import (
    check_rate,
    conformal_quantile,
    group_folds,
    group_quantile,
    group_weights,
    groups_needed,
    least_rate,
    rate_steps,
    supported_rate,
    weighted_quantile,
)
from msbgen.core.errors import ArgumentError, MeasurementError

levels = st.fractions(0, 1, max_denominator=12)
counted = st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 9)), min_size=1, max_size=9)


@given(counted, st.lists(levels, min_size=1, max_size=3), st.sampled_from([1.0, 0.1, 1 / 3, 1e-9]))
@example([(0, 10**9 - 1), (1, 10**9 + 1)], [Fraction(1, 2)], 1.0)  # short of half by a billionth
def test_a_weighted_quantile_is_the_smallest_value_whose_share_reaches_the_level(
    pairs, wanted, unit
):
    values, weights = zip(*pairs)
    got = weighted_quantile(
        np.array(values, dtype=float),
        unit * np.array([weights, [1] * len(weights)]),
        np.array(wanted, dtype=float),
    )
    for row, shares in zip(got, (weights, [1] * len(weights))):
        assert row.tolist() == [
            oracles.weighted_quantile(values, shares, level) for level in wanted
        ]


def test_a_value_without_weight_is_passed_over():
    values, weights = np.array([0.0, 1.0, 2.0]), np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
    got = weighted_quantile(values, weights, np.array([[0.1, 0.6], [0.5, 0.6]]))
    assert got.tolist() == [[1.0, 2.0], [0.0, 2.0]]


def nested(runs_of):
    """Scores and groups of runs."""
    groups = np.repeat(np.arange(len(runs_of)), [len(runs) for runs in runs_of])
    return np.concatenate(runs_of).astype(float), groups


@given(
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=4), min_size=4, max_size=12),
    st.sampled_from([0.2, 0.25, 0.31, 0.5, 0.9]),
    st.randoms(),
)
def test_the_quantile_is_the_hierarchical_one_of_the_literature(runs_of, rate, random):
    scores, groups = nested(runs_of)
    order = random.sample(range(len(scores)), len(scores))
    scores, groups = scores[order], groups[order]
    truth = oracles.hierarchical_quantile(runs_of, rate)
    assert group_quantile(scores, groups, rate) == truth
    shares = 0.1 * group_weights(groups)
    assert conformal_quantile(scores, shares, len(runs_of), rate) == truth


@given(st.integers(1, 40), st.fractions(Fraction(1, 50), Fraction(9, 10), max_denominator=50))
def test_a_rate_is_refused_where_the_definition_has_no_finite_quantile(n, rate):
    try:
        oracles.hierarchical_quantile([[0.0]] * n, rate)
        supported = True
    except ValueError:
        supported = False
    assert (n >= groups_needed(float(rate))) == supported
    if not supported:
        with pytest.raises(MeasurementError, match=rf"at least {groups_needed(float(rate))} runs"):
            check_rate(float(rate), n, 3 * n)
    else:
        check_rate(float(rate), n, 3 * n)


def test_the_message_names_the_runs_there_are_and_the_rate_that_they_support():
    with pytest.raises(MeasurementError, match=r"99 runs .* 100 runs of 25 contexts") as e:
        check_rate(0.01, 25, 100)
    supported = float(str(e.value).split()[-1].rstrip("."))
    check_rate(supported, 25, 100)


@pytest.mark.parametrize("rate", [0.0, 1.0, 1.5, -0.1, np.nan, np.inf])
def test_a_rate_outside_0_to_1_is_refused(rate):
    with pytest.raises(ArgumentError, match=f"miscoverage is {rate}"):
        check_rate(rate, 1000, 1000)


@given(st.integers(1, 3000), st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_a_finer_rate_has_all_pairs_of_a_coarser_one(n, u):
    """So bounds do not fall as the rate falls."""
    least = 1 / (n + 1)
    fine, coarse = least + u / 2 * (1 - least), least + u * (1 - least)
    of_fine, of_coarse = list(rate_steps(fine, n)), list(rate_steps(coarse, n))
    assert of_fine[-1][1] == fine
    assert all(a[0] > b[0] and a[1] >= b[1] for a, b in pairwise(of_fine))
    assert all(least <= rate <= quantile_rate for rate, quantile_rate in of_fine)
    assert of_fine[: len(of_coarse) - 1] == of_coarse[:-1]
    rate, quantile_rate = of_fine[len(of_coarse) - 1]
    assert rate == of_coarse[-1][0]
    assert quantile_rate <= of_coarse[-1][1]


def test_the_least_rate_is_supported_and_a_smaller_one_is_not():
    for n in (1, 6, 19, 35, 400):
        check_rate(least_rate(n), n, n)
        with pytest.raises(MeasurementError):
            check_rate(0.99 / (n + 1), n, n)


@given(st.lists(st.sampled_from("abcdef"), min_size=8), st.integers(0, 99))
def test_folds_keep_groups_whole_and_have_equally_many(groups, seed):
    names = sorted(set(groups))
    with pytest.raises(ArgumentError, match="folds is 1"):
        group_folds(groups, 1)
    if len(names) < 2:
        with pytest.raises(MeasurementError, match="there are 1 programs for 2 folds"):
            group_folds(groups, 2, seed, unit="programs")
        return
    folds = group_folds(groups, 2, seed)
    fold_of = dict(zip(groups, folds.tolist()))
    assert [fold_of[group] for group in groups] == folds.tolist()
    sizes = np.bincount(list(fold_of.values()), minlength=2)
    assert sizes.max() - sizes.min() <= 1
    assert folds.tolist() == group_folds(groups, 2, np.random.default_rng(seed)).tolist()


@pytest.mark.parametrize(("n", "wanted"), [(5, 0.1667), (19, 0.05), (300, 0.05)])
def test_an_unsupported_rate_falls_back_to_the_least_supported_one(n, wanted):
    rate = supported_rate(0.05, n)
    assert rate == wanted
    check_rate(rate, n, n)
