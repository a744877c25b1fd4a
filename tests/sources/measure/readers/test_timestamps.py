"""Times of day as seconds since the start."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.sources.measure.readers.timestamps import times_from_timestamps


def times(stamps, step=None):
    return times_from_timestamps("f", list(range(2, 2 + len(stamps))), stamps, step)


def test_stamps_with_fractions_tell_their_times():
    found = times(["12:00:00.100", "12:00:00.200", "12:00:00.400", "12:00:00.500"])
    np.testing.assert_allclose(found, [0.1, 0.2, 0.4, 0.5])


def test_whole_seconds_over_midnight():
    stamps = ["2026-11-22 23:59:58", "2026-11-22 23:59:59", "2026-11-23 00:00:00"]
    np.testing.assert_allclose(times(stamps), [1, 2, 3])


def test_one_stamp_on_several_rows_needs_the_step():
    stamps = [f"12:00:0{i // 10}" for i in range(25)]
    np.testing.assert_allclose(times(stamps, 0.1), 0.1 * np.arange(1, 26))
    with pytest.raises(ProfileError, match="several rows have one time; the polling interval"):
        times(stamps)
    with pytest.raises(
        ProfileError, match="25 rows span 2 s; with steps of 1 s they would span 24"
    ):
        times(stamps, 1.0)


@pytest.mark.parametrize("stamp", ["", "noon", "12:00", "1:2:3", "12:00:00x", "112:00:00"])
def test_what_is_no_time_of_day_is_refused(stamp):
    with pytest.raises(ProfileError, match=r"f: line 3: time is .*; a time of day as 12:34:56"):
        times(["12:00:00", stamp])


def test_one_row_tells_no_time():
    with pytest.raises(ProfileError, match="the polling interval is wanted"):
        times(["12:00:00"])
    assert times(["12:00:00"], 0.5).tolist() == [0.5]
