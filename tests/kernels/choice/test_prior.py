"""The prior from other programs: weights of families, and errors of left-out ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.kernels.choice.prior import LEVEL_VARIANCE, LeftOutFamilies, fit_prior


def test_families_have_the_same_weight_for_any_number_of_programs():
    rows = np.log(np.array([[1.0, 2.0, 5.0, 6.0]] * 9 + [[1.0, 4.0, 9.0, 6.0]]))
    family = np.array([0] * 9 + [1])
    prior = fit_prior(rows, family, 2)
    np.testing.assert_allclose(prior.mean[2], (np.log(5) + np.log(9)) / 2)
    np.testing.assert_allclose(prior.mean[1] - prior.mean[0], (np.log(2) + np.log(4)) / 2)


def slow_error(priors, rows, family, chosen, width, noise):
    """Row by row: its expectation given some configurations, and all counters."""
    errors = []
    for f, prior in enumerate(priors):
        covariance = prior.covariance.copy()
        covariance[:width, :width] += LEVEL_VARIANCE
        missed = []
        for row in rows[family == f]:
            counters = range(2 * width, len(row))
            seen = [*chosen, *(j + width for j in chosen), *counters]
            seen = [j for j in seen if np.isfinite(row[j])]
            inner = covariance[np.ix_(seen, seen)] + noise * np.eye(len(seen))
            weight = np.linalg.inv(inner) @ (row - prior.mean)[seen]
            off = np.abs(prior.mean + covariance[:, seen] @ weight - row)[: 2 * width]
            off[[*chosen, *(j + width for j in chosen)]] = 0.0
            missed.extend(off[np.isfinite(off)])
        errors.append(np.mean(missed))
    return np.mean(errors)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2), st.sampled_from([0.0, 0.3]))
def test_errors_agree_with_a_row_by_row_computation(seed, counters, missing):
    rng = np.random.default_rng(seed)
    width, family = 3, rng.permutation([0, 0, 0, 1, 1, 2])
    rows = rng.standard_normal((6, 2 * width + counters))
    priors = [fit_prior(rows[family != f], family[family != f], width) for f in range(3)]
    hidden = rng.random(rows.shape) < missing
    hidden[:, 0] = False
    rows = np.where(hidden, np.nan, rows)
    chosen = rng.permutation(width)[:2]
    left_out = LeftOutFamilies.from_priors(priors, rows, family, width)
    wanted = slow_error(priors, rows, family, chosen, width, 0.1)
    assert left_out.error(chosen, width, 0.1) == pytest.approx(wanted, rel=1e-6)


def test_without_left_out_families_the_error_is_infinite():
    empty = LeftOutFamilies.from_priors([], np.empty((0, 4)), np.empty(0, dtype=np.int64), 2)
    assert empty.error(np.array([1]), 2, 0.1) == np.inf
