"""The closed forms of the hypotheses against densities from their definition."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from msbgen.engine.faults.hypotheses import (
    _BAD_ODDS,
    _NEIGHBOUR_PENALTY,
    _REAL_ODDS,
    _SMALL_SCALE,
    FAULT_SCALE,
    PRIOR_ODDS,
    FaultModel,
    Hypothesis,
    precision_with_deviation,
)
from msbgen.engine.faults.process import Process


@pytest.fixture
def model():
    rng = np.random.default_rng(3)
    n = 5
    processes, tables = [], []
    for _ in range(2):
        root = rng.standard_normal((n, n))
        processes.append(Process(root @ root.T, rng.uniform(0.05, 0.2, n)))
        tables.append(rng.standard_normal((n, n)))
    none = np.zeros((n, n), dtype=bool)
    return FaultModel(tuple(processes), tuple(tables), none, none[0])


def density(process, values):
    return multivariate_normal(cov=process.smooth + np.diag(process.noise)).logpdf(values)


def test_slow_is_the_integral_over_the_slowdown(model):
    explanation = model.no_faults()
    slow = model.log_odds(explanation)[0]
    process, values = model.processes[0], explanation.values[0]
    for i in range(model.n):
        shift = np.eye(model.n)[i]
        whole = quad(
            lambda d, shift=shift: (
                np.exp(density(process, values - d * shift)) * 2 * norm.pdf(d, 0, FAULT_SCALE)
            ),
            0, 6, epsabs=0, epsrel=1e-10,
        )[0]  # fmt: skip
        assert slow[i] - np.log(PRIOR_ODDS) == pytest.approx(
            np.log(whole) - density(process, values)
        )


def density_of_counts(process, values, departing, deviation=FAULT_SCALE):
    """Log density of counts some of which deviate without a fault."""
    free = np.isin(np.arange(len(values)), departing)
    return density(Process(process.smooth, process.noise + deviation**2 * free), values)


def test_bad_is_the_ratio_of_densities_with_a_free_variance(model):
    explanation = model.no_faults()
    bad = model.log_odds(explanation)[1]
    time, counts = model.processes
    for i in range(model.n):
        gain = density_of_counts(time, explanation.values[0], [i]) - density_of_counts(
            time, explanation.values[0], []
        )
        free, none = (density_of_counts(counts, explanation.values[1], own) for own in ([i], []))
        # counts may deviate without a fault
        little = density_of_counts(counts, explanation.values[1], [i], _SMALL_SCALE)
        gain += free - np.logaddexp(none, np.log(_REAL_ODDS) + np.logaddexp(free, little))
        assert bad[i] - np.log(PRIOR_ODDS * _BAD_ODDS) == pytest.approx(gain)


def test_exchanged_is_the_ratio_of_densities_of_exchanged_values(model):
    explanation = model.no_faults()
    exchanged = model.log_odds(explanation)[2]
    for i, j in combinations(range(model.n), 2):
        source = np.arange(model.n)
        source[[i, j]] = j, i
        gain = 0.0
        for sign, own in ((1, source), (-1, np.arange(model.n))):
            time, counts = (table[np.arange(model.n), own] for table in model.tables)
            gain += sign * density(model.processes[0], time)
            gain += sign * logsumexp(
                [
                    density_of_counts(model.processes[1], counts, free)
                    + len(free) * np.log(_REAL_ODDS)
                    for free in ([], [i], [j], [i, j])
                ]
            )
        assert exchanged[i, j] - np.log(PRIOR_ODDS / (model.n - 1)) == pytest.approx(gain)


def test_the_update_of_the_precision_is_the_inverse_with_a_free_variance(model):
    process = model.processes[0]
    free = Process(process.smooth, process.noise + FAULT_SCALE**2 * np.eye(model.n)[2])
    assert precision_with_deviation(process.precision(), 2) == pytest.approx(free.precision())


def test_the_order_of_hypotheses_does_not_matter(model):
    one, two = Hypothesis("slow", (0,)), Hypothesis("exchanged", (1, 3))
    one_way = model.accept(model.accept(model.no_faults(), one, 1.0), two, 2.0)
    other_way = model.accept(model.accept(model.no_faults(), two, 2.0), one, 1.0)
    assert one_way.log_odds == other_way.log_odds
    for a, b in zip(
        (*one_way.values, *one_way.precision), (*other_way.values, *other_way.precision)
    ):
        assert a == pytest.approx(b)
    assert one_way.source.tolist() == [0, 3, 2, 1, 4]


def test_no_context_has_two_faults(model):
    explanation = model.accept(model.no_faults(), Hypothesis("exchanged", (1, 3)), 0.0)
    slow, bad, exchanged = model.log_odds(explanation)
    assert np.isinf(slow[[1, 3]]).all()
    assert np.isinf(bad[[1, 3]]).all()
    assert np.isinf(exchanged[[1, 3]]).all()
    assert np.isinf(exchanged[:, [1, 3]]).all()


def test_the_density_of_times_is_that_of_a_normal_law(model):
    constant = 0.5 * model.n * np.log(2 * np.pi)
    wanted = density(model.processes[0], model.no_faults().values[0])
    assert model.log_density_of_times() - constant == pytest.approx(wanted)


def test_a_neighbour_of_a_faulty_context_is_less_likely_faulty(model):
    neighbours = np.zeros((model.n, model.n), dtype=bool)
    neighbours[0, 1] = neighbours[1, 0] = True
    near = replace(model, neighbours=neighbours)
    explanation = model.accept(model.no_faults(), Hypothesis("slow", (0,)), 1.0)
    for lone, crowded in zip(model.log_odds(explanation)[:2], near.log_odds(explanation)[:2]):
        assert lone[2:] == pytest.approx(crowded[2:])
        assert lone[1] - crowded[1] == pytest.approx(_NEIGHBOUR_PENALTY)
