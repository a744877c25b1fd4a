"""The comparison of two versions, on the virtual platform."""

import numpy as np
import pytest

from msbgen.compare.comparison import CompareSettings, compare_profiles
from msbgen.data.shipped import shipped_file
from msbgen.platform.replay import replay_trace
from msbgen.platform.trace import read_trace

CONTEXTS = [[w, b, f] for w in (4, 12) for b in (350, 1050) for f in (1.2, 2.3)]
SETTINGS = CompareSettings(permutations=199)


def versions(change=lambda trace: trace, runs=3):
    trace = read_trace(shipped_file("traces/gzip.nc"))
    return tuple(
        replay_trace(t, CONTEXTS, runs, rng=seed) for t, seed in ((trace, 1), (change(trace), 2))
    )


def test_equal_programs_are_the_same():
    result = compare_profiles(*versions(), settings=SETTINGS)
    assert result.verdict in ("same", "undecided")
    assert result.time.low < 1 < result.time.high
    assert result.changes == ()
    assert np.all((result.low < 1) & (result.high > 1))


def test_slower_work_is_found_where_it_is():
    def slower(trace):
        work = np.cumsum(trace["instructions"].values.astype(float))
        inside = (work > 0.4 * work[-1]) & (work <= 0.6 * work[-1])
        factor = np.where(inside, 1.1, 1.0).astype("float32")
        return trace.assign(core_cycles=trace["core_cycles"] * factor)

    result = compare_profiles(*versions(slower), settings=SETTINGS)
    assert result.verdict == "slower"
    assert result.changes[0].quantity == "time"
    assert result.changes[0].old == pytest.approx((0.4, 0.6), abs=0.03)
    assert result.changes[0].ratios["time"].low > 1
