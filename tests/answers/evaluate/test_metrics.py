import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import energy_distance as scipy_energy_distance
from scipy.stats import wasserstein_distance as scipy_wasserstein_distance

import oracles
from msbgen.answers.evaluate.metrics import (
    dtw_distance,
    energy_distance,
    normalised_dtw,
    relative_error,
    wasserstein_distance,
)
from msbgen.core.errors import ArgumentError
from strategies import clouds


@given(clouds(max_rows=7), st.data())
def test_exact_dtw_equals_the_recursive_oracle(a, data):
    b = data.draw(clouds(max_rows=7, columns=a.shape[1]))
    cost = dtw_distance(a, b)
    assert cost == pytest.approx(oracles.dtw(a, b), rel=1e-12, abs=1e-9)
    assert cost == dtw_distance(b, a)


@given(clouds(max_rows=10), st.data())
def test_fastdtw_is_never_below_exact_and_equal_at_full_radius(a, data):
    b = data.draw(clouds(max_rows=10, columns=a.shape[1]))
    exact = dtw_distance(a, b)
    assert dtw_distance(a, b, method="fastdtw") >= exact - 1e-9 * (1 + exact)
    full = dtw_distance(a, b, method="fastdtw", radius=12)
    assert full == pytest.approx(exact, rel=1e-9, abs=1e-9)


def test_normalised_dtw_is_per_row_and_relative_to_the_largest_row():
    reference = np.array([[3.0, 4.0], [3.0, 4.0]])
    assert normalised_dtw(reference + [0.0, 1.0], reference) == pytest.approx(1 / 5)
    # the second counter counts four times as much once it is divided by a quarter
    scaled = normalised_dtw(reference + [0.0, 1.0], reference, scale=[3.0, 4.0])
    assert scaled == pytest.approx(0.25 / np.sqrt(2))


@settings(max_examples=20)
@given(clouds(min_rows=2, max_rows=9, columns=1), st.data())
def test_distances_equal_scipy_in_one_dimension(x, data):
    y = data.draw(clouds(min_rows=2, max_rows=9, columns=1))
    weights = data.draw(st.lists(st.floats(0.01, 10), min_size=len(x), max_size=len(x)))
    expected = scipy_energy_distance(x[:, 0], y[:, 0], weights) ** 2
    tolerance = 1e-9 * (1 + np.abs(x).max() + np.abs(y).max())
    assert energy_distance(x, y, weights) == pytest.approx(expected, abs=tolerance)
    expected = scipy_wasserstein_distance(x[:, 0], y[:, 0], weights)
    assert wasserstein_distance(x, y, weights) == pytest.approx(expected, abs=tolerance)


@given(clouds(max_rows=6), st.data())
def test_energy_distance_is_that_of_all_pairs(x, data):
    y = data.draw(clouds(max_rows=6, columns=x.shape[1]))
    to, own, other = (
        np.sqrt(oracles.squared_distances(*p)).mean() for p in ((x, y), (x, x), (y, y))
    )
    assert energy_distance(x, y) == pytest.approx(2 * to - own - other, rel=1e-9, abs=1e-9)


@settings(max_examples=20)
@given(clouds(min_rows=2, max_rows=9, columns=2), st.data())
def test_matching_clouds_point_by_point_is_optimal(x, data):
    """By POT's network simplex, which equal weights that are said ask for."""
    y = data.draw(clouds(min_rows=2, max_rows=9, columns=2))
    matched = wasserstein_distance(x, y)
    solved = wasserstein_distance(x, y, np.full(len(x), 2.0), np.full(len(y), 0.5))
    assert matched == pytest.approx(solved, rel=1e-9, abs=1e-9 * (1 + np.abs(x).max()))
    assert wasserstein_distance(y, x) == pytest.approx(matched, rel=1e-12, abs=1e-12)


def test_clouds_of_sizes_without_common_divisor_are_moved_by_weight():
    drawn = np.random.default_rng(0)
    x, y = drawn.random((31, 1)), drawn.random((29, 1))  # 899 pairs of shares
    wanted = scipy_wasserstein_distance(x[:, 0], y[:, 0])
    assert wasserstein_distance(x, y) == pytest.approx(wanted, rel=1e-9)


def test_relative_error():
    assert relative_error([1.1, 0.9], [1.0, 1.0]) == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        (np.zeros((0, 2)), np.zeros((3, 2)), r"profile has shape \(0, 2\)"),
        (np.zeros(3), np.zeros((3, 1)), "profile has shape"),
        (np.zeros((3, 2)), np.zeros((3, 1)), "profile has 2 columns, reference 1"),
        (np.zeros((2, 1)), np.array([[0.0], [np.nan]]), "reference is not finite at row 1"),
    ],
)
def test_bad_profiles_are_refused(a, b, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        dtw_distance(a, b)


def test_bad_settings_are_refused():
    a = np.ones((2, 1))
    with pytest.raises(ArgumentError, match="method is 'other'"):
        dtw_distance(a, a, method="other")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="scale is"):
        normalised_dtw(a, a, scale=0.0)
    with pytest.raises(ArgumentError, match="zero throughout"):
        normalised_dtw(a, 0 * a)
    with pytest.raises(ArgumentError, match=r"x_weights is \[1\.0\]; 2 numbers ≥ 0"):
        energy_distance(a, a, x_weights=[1.0])
    with pytest.raises(ArgumentError, match="x has 1 columns"):
        wasserstein_distance(a, np.ones((2, 2)))
