import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.systems.graphs.predictor.evidential import (
    Evidence,
    evidential_loss,
    overconfidence,
    ranking_loss,
    widening,
)

numbers = st.floats(-3, 3)
positive = st.floats(-6, 6).map(lambda e: 10.0 ** (e / 2))


def evidence(*values):
    return Evidence(*(np.array([[v]], dtype=float) for v in values))


def student(gamma, nu, alpha, beta):
    scale = np.sqrt(beta * (1 + nu) / (nu * alpha))
    return stats.t(2 * alpha, loc=gamma, scale=scale)


@given(y=numbers, gamma=numbers, nu=positive, alpha=positive, beta=positive)
@settings(deadline=None)
def test_the_likelihood_is_that_of_a_student_t(y, gamma, nu, alpha, beta):
    found = evidence(gamma, nu, alpha, beta).negative_log_likelihood(np.array([[y]]))[0, 0]
    wanted = -student(gamma, nu, alpha, beta).logpdf(y)
    assert found == pytest.approx(wanted, rel=1e-10, abs=1e-10)


def test_intervals_of_the_student_t_cover_what_they_say():
    of = evidence(0.5, 2.0, 1.7, 0.3)
    law = student(0.5, 2.0, 1.7, 0.3)
    half = of.half_width(0.1)[0, 0]
    assert law.cdf(0.5 + half) - law.cdf(0.5 - half) == pytest.approx(0.9, abs=1e-9)


@given(st.integers(1, 60), st.sampled_from([0.05, 0.1, 0.5]), st.integers(0, 99))
@settings(deadline=None, max_examples=30)
def test_widening_is_the_least_that_covers(n, rate, seed):
    rng = np.random.default_rng(seed)
    one = np.ones((n, 2))
    result = Evidence(0 * one, one, 2 * one, rng.random((n, 2)) + 0.1)
    y = rng.normal(size=(n, 2)) * 5
    tau = widening(result, y, rate)
    half = result.half_width(rate)
    inside = (np.abs(y) <= tau * half * (1 + 1e-12)).mean(axis=0)
    assert np.all(inside >= 1 - rate - 1e-12)
    fewer = (np.abs(y) <= tau * half * (1 - 1e-9)).mean(axis=0)
    assert np.all(fewer < 1 - rate)


def test_widening_needs_rows():
    none = np.empty((0, 1))
    with pytest.raises(MeasurementError, match="held back"):
        widening(Evidence(none, none, none, none), none, 0.05)


@pytest.mark.parametrize("name", ["nu", "alpha", "beta"])
def test_what_is_no_evidence_is_refused(name):
    values = {"gamma": 0.0, "nu": 1.0, "alpha": 1.0, "beta": 1.0, name: 0.0}
    with pytest.raises(ArgumentError, match=f"{name} is 0"):
        evidence(*values.values())
    with pytest.raises(MeasurementError, match="of the network is not a number"):
        evidence(0.0, np.nan, 1.0, 1.0)
    with pytest.raises(ArgumentError, match="shape"):
        Evidence(np.ones((2, 1)), np.ones((2, 1)), np.ones((1, 1)), np.ones((2, 1)))
    with pytest.raises(ArgumentError, match="miscoverage is 1"):
        evidence(0.0, 1.0, 1.0, 1.0).half_width(1)


torch_wanted = "torch is missing; pip install msbgen[graph]"


def test_losses_on_tensors_are_those_on_arrays_and_their_gradients_are_finite():
    torch = pytest.importorskip("torch", reason=torch_wanted)
    rng = np.random.default_rng(0)
    y, gamma = rng.normal(size=(2, 50, 2))
    nu, alpha, beta = np.exp(rng.normal(scale=2.5, size=(3, 50, 2)))
    given = [torch.tensor(v, requires_grad=True) for v in (gamma, nu, alpha, beta)]
    loss = evidential_loss(torch.tensor(y), *given)
    wanted = Evidence(gamma, nu, alpha, beta).negative_log_likelihood(y)
    assert np.allclose(loss.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)
    loss.sum().backward()
    assert all(torch.isfinite(v.grad).all() for v in given)


def test_overconfidence_counts_what_lies_beyond_two_deviations():
    torch = pytest.importorskip("torch", reason=torch_wanted)
    of = [torch.tensor(v, dtype=torch.float64) for v in (0.0, 3.0, 2.0, 0.75)]  # σ = 1
    y = torch.tensor([1.9, 2.5, -4.0], dtype=torch.float64)
    assert overconfidence(y, *of).tolist() == pytest.approx([0.0, 1.5, 6.0])


def test_ranking_costs_pairs_out_of_order_by_their_upper_ends():
    torch = pytest.importorskip("torch", reason=torch_wanted)
    y = torch.tensor([1.0, 2.0, 3.0])
    assert ranking_loss(y, torch.tensor([1.0, 2.0, 3.0])).item() == 0.0
    # the first and the second are the wrong way round, by 1
    assert ranking_loss(y, torch.tensor([2.0, 1.0, 9.0])).item() == pytest.approx(1.01 / 3)
    assert ranking_loss(torch.ones(3), torch.arange(3.0)).item() == 0.0
