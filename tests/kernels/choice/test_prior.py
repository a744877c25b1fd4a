"""What other programs say: families alike, and the errors of those that were left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.kernels.choice.prior import FREE, LeftOut, learn


def test_families_count_the_same_however_many_they_are():
    rows = np.log(np.array([[1.0, 2.0, 5.0, 6.0]] * 9 + [[1.0, 4.0, 9.0, 6.0]]))
    family = np.array([0] * 9 + [1])
    likely = learn(rows, family, 2)
    np.testing.assert_allclose(likely.mean[2], (np.log(5) + np.log(9)) / 2)
    np.testing.assert_allclose(likely.mean[1] - likely.mean[0], (np.log(2) + np.log(4)) / 2)


def slow_error(known, rows, family, chosen, width, noise):
    """Each row by itself: its expectation given the configurations chosen, and all counters."""
    errors = []
    for f, likely in enumerate(known):
        covariance = likely.covariance.copy()
        covariance[:width, :width] += FREE
        missed = []
        for row in rows[family == f]:
            counters = range(2 * width, len(row))
            told = [*chosen, *(j + width for j in chosen), *counters]
            told = [j for j in told if np.isfinite(row[j])]
            inner = covariance[np.ix_(told, told)] + noise * np.eye(len(told))
            weight = np.linalg.inv(inner) @ (row - likely.mean)[told]
            off = np.abs(likely.mean + covariance[:, told] @ weight - row)[: 2 * width]
            off[[*chosen, *(j + width for j in chosen)]] = 0.0
            missed.extend(off[np.isfinite(off)])
        errors.append(np.mean(missed))
    return np.mean(errors)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2), st.sampled_from([0.0, 0.3]))
def test_errors_are_those_of_every_row_by_itself(seed, counters, missing):
    rng = np.random.default_rng(seed)
    width, family = 3, rng.permutation([0, 0, 0, 1, 1, 2])
    rows = rng.standard_normal((6, 2 * width + counters))
    known = [learn(rows[family != f], family[family != f], width) for f in range(3)]
    hidden = rng.random(rows.shape) < missing
    hidden[:, 0] = False
    rows = np.where(hidden, np.nan, rows)
    chosen = rng.permutation(width)[:2]
    left_out = LeftOut.of(known, rows, family, width)
    wanted = slow_error(known, rows, family, chosen, width, 0.1)
    assert left_out.error(chosen, width, 0.1) == pytest.approx(wanted, rel=1e-6)


def test_nobody_left_out_is_no_error_at_all():
    nobody = LeftOut.of([], np.empty((0, 4)), np.empty(0, dtype=np.int64), 2)
    assert nobody.error(np.array([1]), 2, 0.1) == np.inf
