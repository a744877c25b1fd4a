"""Which contexts are found faulty, and which are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faulty import machine, task
from msbgen.engine.faults.hypotheses import Hypothesis
from msbgen.engine.faults.search import _accepted, _limited, _refined, _Search, find_faulty_contexts


def faulty_contexts(contexts, time, counts, variance=None, exempt=()):
    n = len(time)
    exempt = np.isin(np.arange(n), exempt)
    variances = np.zeros((n, 3)) if variance is None else variance
    return find_faulty_contexts(contexts, time, counts, variances, exempt, np.zeros((n, n)))


def found(contexts, time, counts):
    return {(one.kind, one.contexts) for one in faulty_contexts(contexts, time, counts).hypotheses}


@settings(max_examples=5)
@given(st.integers(0, 10_000), st.sampled_from([0.002, 0.01, 0.08]))
def test_no_fault_is_found_in_sound_measurements(seed, noise):
    contexts = machine()
    result = faulty_contexts(contexts, *task(contexts, noise, seed))
    assert result.hypotheses == ()
    assert np.all(result.factor == 1.0)
    assert np.all(result.weight == 1.0)


@settings(max_examples=5)
@given(st.integers(0, 10_000), st.integers(0, 26), st.floats(1.5, 3.0))
def test_a_slow_context_is_found_with_its_factor(seed, slow, factor):
    contexts = machine()
    time, counts = task(contexts, seed=seed)
    time[slow] *= factor
    result = faulty_contexts(contexts, time, counts)
    assert [(one.kind, one.contexts) for one in result.hypotheses] == [("slow", (slow,))]
    assert result.factor[slow] == pytest.approx(factor, rel=0.15)
    assert 0 < result.weight[slow] <= 1
    assert np.all(np.delete(result.weight, slow) == 1)


@settings(max_examples=6)
@given(
    st.dictionaries(st.integers(0, 26), st.floats(0.2, 5.0), max_size=6),
    st.lists(st.integers(0, 26), max_size=4, unique=True),
)
def test_weights_never_exceed_one_and_factors_never_fall_below(factors, exempt):
    contexts = machine()
    time, counts = task(contexts)
    for i, factor in factors.items():
        time[i] *= factor
    result = faulty_contexts(contexts, time, counts, exempt=exempt)
    assert np.all((result.weight > 0) & (result.weight <= 1))
    assert np.all(result.factor >= 1)
    involved = [i for one in result.hypotheses for i in one.contexts]
    assert len(involved) == len(set(involved))
    assert all(log_odds > 0 for log_odds in result.log_odds)


@pytest.mark.parametrize("pair", [(0, 13), (5, 24), (10, 12)])
def test_exchanged_labels_are_found(pair):
    contexts = machine()
    time, counts = task(contexts)
    back = list(pair[::-1])
    time[list(pair)], counts[list(pair)] = time[back], counts[back]
    assert found(contexts, time, counts) == {("exchanged", pair)}


def test_an_exchange_that_only_counts_show_is_found():
    contexts = machine((3, 3, 1))[:, :2]
    contexts = np.column_stack([np.repeat(contexts[:, 0], 3), np.tile(contexts[:, 1], 3)])
    rng = np.random.default_rng(0)
    misses = 4e6 * np.exp(-contexts[:, 0] / 7.0)
    time = (0.5 + 1e-7 * misses) * np.exp(0.005 * rng.standard_normal(27))  # at every bandwidth
    counts = np.column_stack([np.full(27, 5e6), misses])
    counts *= np.exp(0.002 * rng.standard_normal(counts.shape))
    time[[1, 25]], counts[[1, 25]] = time[[25, 1]], counts[[25, 1]]
    (one,) = faulty_contexts(contexts, time, counts).hypotheses
    assert one.kind == "exchanged"


@pytest.mark.parametrize(("n", "outside"), [(8, 1), (39, 1), (40, 2), (60, 3)])
def test_totals_are_limited_to_eight_times_the_largest_outside_of_a_twentieth(n, outside):
    counts = np.column_stack([np.full(n, 2.0), np.linspace(1.0, 2.0, n)])
    counts[:outside, 0] = [15.0, 17.0, 1e9][:outside]
    expected = counts.copy()
    expected[:outside, 0] = np.minimum(counts[:outside, 0], 16.0)
    np.testing.assert_array_equal(_limited(counts), expected)
    counts[outside, 0] = 4.0  # one more context is above the others, and the limit is its own
    assert _limited(counts)[:, 0].max() == max(counts[: outside + 1, 0].clip(max=32.0))


def test_how_far_a_total_is_above_the_limit_changes_nothing():
    contexts = machine()
    time, counts = task(contexts, seed=3)
    time[4] *= 2.0
    found = []
    for times in (8.0, 1e3, 1e9):
        far = counts.copy()
        far[7, -1] = times * np.delete(counts[:, -1], 7).max()
        found.append(faulty_contexts(contexts, time, far))
    assert found[0].hypotheses
    for other in found[1:]:
        assert other.hypotheses == found[0].hypotheses
        np.testing.assert_array_equal(other.factor, found[0].factor)


@pytest.mark.parametrize("place", [7, 13, 20])
def test_misses_in_one_context_alone_are_no_exchange(place):
    contexts = machine()
    time, counts = task(contexts)
    counts[np.arange(len(counts)) != place, 1] = 0.0
    assert found(contexts, time, counts) == set()


@pytest.mark.parametrize("seed", [0, 12])
def test_two_runs_alike_by_chance_do_not_hide_the_noise(seed):
    levels = np.meshgrid([2.0, 6, 11], np.linspace(70.0, 1400, 5), np.linspace(1.2, 2.2, 5))
    contexts = np.stack([axis.ravel() for axis in levels], axis=1)
    rng, n = np.random.default_rng(seed), len(contexts)
    # at two ways a run has as many misses as one of two places in memory brings
    odd = np.where(contexts[:, :1] == 2.0, 0.085, 0.0) * rng.integers(0, 2, (n, 2))
    misses = np.log(1e5) - np.log(contexts[:, :1]) / 20 + odd
    logs = np.stack([np.full((n, 2), np.log(3e5)), misses], axis=2)
    logs += 0.0003 * rng.standard_normal(logs.shape)
    time = np.log(0.7 / contexts[:, 2:]) + 0.008 * rng.standard_normal((n, 2))
    runs = np.concatenate([time[:, :, None], logs], axis=2)
    mean, variance = np.exp(runs.mean(axis=1)), runs.var(axis=1, ddof=1) / 2
    assert faulty_contexts(contexts, mean[:, 0], mean[:, 1:], variance).hypotheses == ()


def test_two_wrong_hypotheses_are_replaced_by_the_exchange():
    contexts = machine()
    time, counts = task(contexts)
    time[[2, 8]], counts[[2, 8]] = time[[8, 2]], counts[[8, 2]]
    none = np.zeros((27, 3)), np.zeros(27, dtype=bool), np.zeros((27, 27))
    search = _Search(contexts, time, counts, *none)
    hypotheses = Hypothesis("slow", (8,)), Hypothesis("bad", (2,))
    model = search._fitted_model(hypotheses, raised=True)
    wrong = _accepted(model, list(hypotheses))
    assert _refined(model, wrong).hypotheses == (Hypothesis("exchanged", (2, 8)),)
    both = _accepted(model, [Hypothesis("slow", (5,)), Hypothesis("exchanged", (2, 7))])
    assert _refined(model, both).hypotheses == (Hypothesis("exchanged", (2, 8)),)


def test_two_slow_neighbours_and_an_exchange_are_distinguished():
    contexts = machine((5, 5, 4))
    time, counts = task(contexts)
    time[[50, 51]] *= 1.7, 2.4
    time[[12, 87]], counts[[12, 87]] = time[[87, 12]], counts[[87, 12]]
    assert found(contexts, time, counts) == {
        ("slow", (50,)), ("slow", (51,)), ("exchanged", (12, 87)),
    }  # fmt: skip


def test_a_cliff_along_a_line_is_no_fault():
    contexts = machine((5, 5, 5))
    time, counts = task(contexts)
    line = (contexts[:, 0] == 2) & (contexts[:, 1] == 70)
    time[line] *= 2.5
    assert not any(line[list(at)].any() for _, at in found(contexts, time, counts))


def test_an_exempt_context_is_not_slow():
    contexts = machine()
    time, counts = task(contexts)
    time[4] *= 2.0
    result = faulty_contexts(contexts, time, counts, exempt=[4])
    assert not any(one.kind == "slow" and 4 in one.contexts for one in result.hypotheses)
