"""Conformal quantiles against exact fractions, and by the coverage that they promise."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from msbgen.conformal import Pools, check_rate, contexts_needed, rungs
from msbgen.errors import ArgumentError, MeasurementError

# ------------------------------------------------------------------ pools

row = st.tuples(
    st.integers(0, 5),  # doubt
    st.integers(1, 4),  # weight
    st.integers(0, 8),  # context
    st.lists(st.integers(-5, 5), min_size=1, max_size=3),
)
rates = st.sampled_from([Fraction(1, 2), Fraction(1, 3), Fraction(1, 5), Fraction(9, 10)])


def pools(rows):
    """Pools of rows (doubt, weight, context, scores), and their scores' rows and shares."""
    doubt, weight, context, scores = zip(*rows)
    weight = np.array(weight) / sum(weight)
    which = np.repeat(np.arange(len(rows)), [len(s) for s in scores])
    share = np.concatenate([np.full(len(s), w / len(s)) for w, s in zip(weight, scores)])
    found = Pools(np.array(doubt, dtype=float), weight, np.array(context))
    return found, np.concatenate(scores).astype(float), which, share


@given(st.lists(row, min_size=4, max_size=14), rates, rates)
def test_pooled_quantiles_equal_those_of_exact_fractions(rows, rate, asked):
    found, score, which, share = pools(rows)
    n = len({context for _, _, context, _ in rows})
    if n < 1 / asked - 1:
        with pytest.raises(MeasurementError, match="miscoverage"):
            found.quantiles(score, which, share, float(rate), float(asked))
        return
    offsets = found.quantiles(score, which, share, float(rate), float(asked))
    got = offsets[found.far(found.doubt)]
    assert got.tolist() == oracles.pooled_quantiles(rows, rate, asked)


@given(
    st.lists(st.lists(st.integers(-5, 5), min_size=1, max_size=4), min_size=4, max_size=12),
    st.sampled_from([0.2, 0.25, 0.31, 0.5, 0.9]),
)
def test_one_pool_gives_the_hierarchical_quantile_of_the_literature(runs_of, rate):
    found, score, which, share = pools([(1, 1, c, runs) for c, runs in enumerate(runs_of)])
    near, far = found.quantiles(score, which, share, rate, rate)
    assert near == far == oracles.hierarchical_quantile(runs_of, rate)


def test_near_and_far_are_parted_where_both_sides_support_the_rate():
    doubt = np.repeat([0.1, 2.0], 20)
    found = Pools(doubt, np.full(40, 1 / 40), np.arange(40))
    assert found.cut == 0.1
    assert found.far(np.array([0.0, 0.1, 0.2, 9.0])).tolist() == [0, 0, 1, 1]
    score, share = doubt.copy(), np.full(40, 1 / 40)
    assert found.quantiles(score, np.arange(40), share, 0.05, 0.05).tolist() == [0.1, 2.0]
    # a rate that needs 33 contexts a side
    assert found.quantiles(score, np.arange(40), share, 0.03, 0.05).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("error", [0.0, 3.0], ids=["runs apart", "runs of a context together"])
@pytest.mark.parametrize("rate", [0.2, 0.05])
@pytest.mark.parametrize("parted", [False, True], ids=["one pool", "two pools"])
def test_a_new_run_of_an_exchangeable_context_is_covered(rate, error, parted):
    rng = np.random.default_rng(3)
    n, runs, trials = 39, 4, 2000
    context = np.repeat(np.arange(n), runs)
    share = np.full(n * runs, 1 / (n * runs))
    covered = 0
    for _ in range(trials):
        doubt = rng.random(n + 1) if parted else np.ones(n + 1)
        loud = 1 + 4 * doubt  # far contexts scatter more
        score = loud[:n].repeat(runs) * (
            error * rng.standard_normal(n).repeat(runs) + rng.standard_normal(n * runs)
        )
        new = loud[n] * (error * rng.standard_normal() + rng.standard_normal())
        found = Pools(doubt[:n], np.full(n, 1 / n), np.arange(n))
        offsets = found.quantiles(score, context, share, rate, rate)
        covered += new <= offsets[found.far(doubt[n:])].item()
    slack = 4 * np.sqrt(rate * (1 - rate) / trials)
    # every pool rounds up to its next run's share
    excess = (2 if parted else 1) / (n + 1)
    assert 1 - rate - slack <= covered / trials <= 1 - rate + excess + slack


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
