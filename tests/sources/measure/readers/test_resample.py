"""Counts onto equal intervals: nothing is lost, nothing is made, rates stay where they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.sources.measure.readers.recording import Recording
from msbgen.sources.measure.readers.resample import interval_count, resample


def recording(times, counts):
    counts = np.asarray(counts, dtype=float)
    return Recording(
        "f", ("a",), ("",), np.asarray(times, dtype=float), counts[:, None],
        np.ones((len(counts), 1)), np.ones((len(counts), 1)), (),
    )  # fmt: skip


steps = st.lists(
    st.tuples(st.floats(1e-3, 0.2), st.integers(0, 10**9)), min_size=1, max_size=40
).filter(lambda pairs: any(count for _, count in pairs))


@given(steps, st.floats(2e-3, 0.5), st.one_of(st.none(), st.floats(0.01, 12)))
def test_every_event_is_kept_wherever_the_run_ended(pairs, interval, duration):
    lengths, counts = zip(*pairs)
    found = resample(recording(np.cumsum(lengths), counts), interval, duration)
    assert (found >= -1e-6).all()
    assert found.sum() == pytest.approx(sum(counts))
    if duration is not None:
        assert len(found) == interval_count(duration, interval)


@given(steps, st.floats(2e-3, 0.5))
def test_intervals_hold_what_a_slow_sum_over_overlaps_says(pairs, interval):
    lengths, counts = map(list, zip(*pairs))
    while not counts[-1]:
        lengths.pop(), counts.pop()
    ends = np.cumsum(lengths)
    found = resample(recording(ends, counts), interval)[:, 0]
    wanted = np.zeros(len(found))
    for end, length, count in zip(ends, lengths, counts):
        for i in range(len(wanted)):
            stop = ends[-1] if i == len(wanted) - 1 else (i + 1) * interval
            overlap = min(end, stop) - max(end - length, i * interval)
            wanted[i] += count * max(overlap, 0) / length
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * max(counts))


def test_what_is_printed_behind_the_end_was_counted_before_it():
    found = resample(recording([0.01, 0.02, 0.03, 0.096], [10, 10, 6, 1]), 0.01, 0.025)
    np.testing.assert_allclose(found[:, 0], [10, 10, 7])


def test_a_run_that_outlasts_its_recording_counts_nothing_more():
    found = resample(recording([0.01, 0.02], [10, 10]), 0.01, 0.045)
    np.testing.assert_allclose(found[:, 0], [10, 10, 0, 0, 0])


@pytest.mark.parametrize(
    "given", [(0.0, 1.0), (-1, None), (0.01, 0.0), (np.nan, 1.0), (0.01, np.inf)]
)
def test_an_interval_or_duration_that_is_none(given):
    with pytest.raises(ArgumentError, match="positive numbers are wanted"):
        resample(recording([0.01], [3]), *given)


def test_a_run_that_ends_with_an_interval_has_no_partial_one():
    assert interval_count(0.03, 0.01) == 3
    assert interval_count(0.0301, 0.01) == 4
    assert interval_count(1e-5, 0.01) == 1


def test_intervals_with_a_missing_count_are_gaps():
    found = resample(recording([0.11, 0.2, 0.3, 0.4], [11, np.nan, 20, 30]), 0.1)[:, 0]
    np.testing.assert_allclose(found, [10, np.nan, 20, 30])
    late = resample(recording([0.105, 0.205, 0.3, 0.4], [10, np.nan, 19, 30]), 0.1)[:, 0]
    np.testing.assert_allclose(late, [10 / 1.05, np.nan, 20, 30])
