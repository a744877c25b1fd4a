"""Samples that were lost: totals are kept where the next holds them, rates where it does not."""

import numpy as np
import pytest

from msbgen.data.gaps import fill_gaps, interval_counts

RUN = np.array([[[4.0, 2.0, 6.0, 8.0, 1.0, np.nan]]])
DURATION = np.array([[0.45]])


def filled(gone, *, carried):
    counts = RUN.copy()
    if carried:
        for i in gone:
            counts[0, 0, i + 1] += counts[0, 0, i]
    counts[0, 0, list(gone)] = np.nan
    return fill_gaps(counts, DURATION, 0.1, carried=carried)[0, 0]


@pytest.mark.parametrize("gone", [(0,), (1,), (1, 2), (0, 1, 2, 3)])
def test_totals_are_kept_where_the_next_count_holds_what_was_missed(gone):
    got = filled(gone, carried=True)
    assert np.nansum(got) == pytest.approx(np.nansum(RUN))
    inside = [*gone, gone[-1] + 1]
    # at an even rate: the last interval is half of one
    width = np.array([1, 1, 1, 1, 0.5])[inside]
    assert np.ptp(got[inside] / width) == pytest.approx(0)
    assert np.isnan(got[5])


def test_what_is_lost_is_interpolated_between_the_rates_around_it():
    np.testing.assert_allclose(filled((1, 2), carried=False)[:5], [4, 16 / 3, 20 / 3, 8, 1])
    np.testing.assert_allclose(filled((0,), carried=False)[:5], [2, 2, 6, 8, 1])


@pytest.mark.parametrize("carried", [True, False])
def test_what_is_missing_at_the_end_goes_on_as_before(carried):
    counts = RUN.copy()
    counts[0, 0, 4] = np.nan
    got = fill_gaps(counts, DURATION, 0.1, carried=carried)[0, 0]
    np.testing.assert_allclose(got[:5], [4, 2, 6, 8, 4])  # half an interval is left


def test_runs_without_gaps_and_without_the_counter_are_left_as_they_are():
    counts = np.concatenate([RUN, np.full(RUN.shape, np.nan)])
    duration = np.array([[0.45], [0.45]])
    np.testing.assert_array_equal(fill_gaps(counts, duration, 0.1, carried=True), counts)


def test_intervals_are_counted_to_the_last_that_a_run_begins():
    durations = np.array([0.05, 0.1, 0.1001, np.nan, np.inf])
    assert interval_counts(durations, 0.1).tolist()[:4] == [1, 1, 2, 0]
