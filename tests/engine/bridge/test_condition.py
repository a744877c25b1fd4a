"""Conditioning on a context, against sums over all atoms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import oracles
from msbgen.core.contexts import scott_bandwidth, squared_distances, to_unit_range
from msbgen.engine.bridge.condition import (
    conditional_mean,
    conditional_mode,
    conditional_sample,
    make_segment,
)


def random_segment(seed, *, n=9, m=7, n_known=4, bandwidth=0.7, zero_mass=()):
    """A segment with arbitrary potentials, and a function of its atoms at λ."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    potentials = rng.standard_normal(n), rng.standard_normal(m)
    potentials[0][list(zero_mass)] = -np.inf
    values = rng.standard_normal((n, 2)), rng.standard_normal((m, 2))
    known = rng.random((n_known, 2)) / bandwidth
    labels = tuple(np.sort(rng.integers(0, n_known, size)) for size in (n, m))
    epsilon = 0.8
    segment = make_segment(points, potentials, epsilon, values, labels, known)
    log_gamma = potentials[0][:, None] + potentials[1] - squared_distances(*points)
    contexts = known[labels[0]], known[labels[1]]
    return segment, lambda lam: oracles.atoms(np.exp(log_gamma / epsilon), values, contexts, lam)


@settings(max_examples=25)
@given(
    st.integers(0, 1000),
    st.floats(0, 1),
    st.sampled_from([2.0, 0.3, 0.02, 0.004]),
    st.sampled_from([(), (0, 3, 4)]),
)
def test_mean_and_mode_equal_brute_force_over_all_atoms(seed, lam, bandwidth, zero_mass):
    segment, atoms = random_segment(seed, bandwidth=bandwidth, zero_mass=zero_mass)
    query = np.random.default_rng(seed + 1).random((3, 2)) / bandwidth
    mean, log_density = conditional_mean(segment, lam, query)
    mode = conditional_mode(segment, lam, query)
    mass, value, context = atoms(lam)
    for i, q in enumerate(query):
        with np.errstate(divide="ignore"):
            log_weight = np.log(mass) + oracles.log_kernel(q, context)
        weight = np.exp(log_weight - log_weight.max())
        expected = weight @ value / weight.sum()
        np.testing.assert_allclose(mean[i], expected, rtol=1e-9, atol=1e-9)
        expected = np.log(weight.sum()) + log_weight.max()
        np.testing.assert_allclose(log_density[i], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(mode[i], value[np.argmax(log_weight)], atol=1e-12)


@pytest.mark.parametrize("bandwidth", [0.7, 0.01])
def test_samples_are_drawn_in_proportion_to_the_weights(bandwidth):
    segment, atoms = random_segment(3, n=5, m=3, bandwidth=bandwidth, zero_mass=[1])
    query = np.full((1, 2), 0.5 / bandwidth)
    draws = 20_000
    uniform = np.random.default_rng(0).random((1, draws, 3))
    sample = conditional_sample(segment, 0.4, query, uniform)[0]
    mass, value, context = (part[atoms(0.4)[0] > 0] for part in atoms(0.4))
    log_weight = np.log(mass) + oracles.log_kernel(query[0], context)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    which = squared_distances(sample, value).argmin(axis=1)
    assert np.abs(sample - value[which]).max() < 1e-12
    seen = np.bincount(which, minlength=len(value))
    likely = weight * draws > 5
    assert seen[~likely].sum() < 5 * max(1, weight[~likely].sum() * draws) + 10
    expected = weight[likely] / weight[likely].sum() * seen[likely].sum()
    if likely.sum() > 1:
        assert chisquare(seen[likely], expected).pvalue > 1e-3


def test_labels_must_be_sorted():
    x = np.zeros((2, 1))
    labels = np.array([1, 0])
    with pytest.raises(ValueError, match="labels decrease at the start"):
        make_segment((x, x), (x[:, 0], x[:, 0]), 1.0, (x, x), (labels, labels), x)


def test_unit_range_and_scott_bandwidth():
    grid = np.array([(w, 5.0, f) for w in (2.0, 4.0, 10.0) for f in (1.0, 2.0)])
    unit = to_unit_range(grid, grid)
    np.testing.assert_allclose(unit[:, 0], [0, 0, 0.25, 0.25, 1, 1])
    assert not unit[:, 1].any()
    repeated = np.repeat(unit, 5, axis=0)
    expected = unit[:, 0].std() * 6 ** (-1 / 6)
    np.testing.assert_allclose(scott_bandwidth(repeated), [expected, 1, 0.5 * 6 ** (-1 / 6)])
