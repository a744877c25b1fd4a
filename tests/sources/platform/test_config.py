"""The virtual platform's constants and contexts."""

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError
from msbgen.sources.platform.config import PlatformConfig, exact_contexts, platform_contexts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cache_ways": (2.5,)}, r"cache_ways is \(2.5,\); whole ways"),
        ({"cache_ways": (np.inf,)}, "cache_ways is .*; a list of one or more numbers ≥ 1"),
        ({"frequencies": ()}, r"frequencies is \(\); a list of one or more positive"),
        ({"bandwidths": (0.0,)}, r"bandwidths is \(0.0,\); .* positive numbers"),
        ({"hit_time": (1.0, -1.0)}, r"hit_time is .*; a list of 2 numbers ≥ 0 \[ns\]"),
        ({"miss_time": (1.0,)}, r"miss_time is .*; a list of 2 numbers"),
        ({"regulator_period": 0.0}, "regulator_period is 0.0; a positive number"),
        ({"phase_step": 0.5}, "phase_step is 0.5; a number ≥ 1"),
        ({"tick_rate": -1.0}, "tick_rate is -1.0; a number ≥ 0"),
        ({"start_offset": np.nan}, "start_offset is nan; a number ≥ 0"),
        ({"phase_correlation": 1.0}, "phase_correlation is 1.0; a number from 0 to below 1"),
        ({"speed_noise": 0.5}, "speed_noise is 0.5; a number from 0 to 0.1"),
        # a program would never end
        ({"tick_rate": 1e6, "tick_time": 1e-6}, "interrupts and preemptions take is 1 of all"),
        ({"preemption_rate": 10.0, "preemption_time": 0.1}, "interrupts and preemptions take"),
    ],
)
def test_configuration_refuses(change, message):
    with pytest.raises(ArgumentError, match=message):
        PlatformConfig(**change)


def test_contexts_by_description(tmp_path):
    everything = platform_contexts("all")
    assert everything.shape == (4560, 3)
    assert len(np.unique(everything, axis=0)) == 4560
    grid = platform_contexts("grid:5x4x1")
    assert grid.shape == (20, 3)
    assert set(grid[:, 0]) == {2.0, 6.0, 11.0, 16.0, 20.0}
    assert set(grid[:, 1]) == {70.0, 490.0, 980.0, 1400.0}
    assert np.all(grid[:, 2] == 2.3)
    path = tmp_path / "some.csv"
    path.write_text("frequency,cache_ways,bandwidth\n1.7000000000000002,3,140\n")
    np.testing.assert_array_equal(platform_contexts(str(path)), [[3.0, 140.0, 1.7]])
    path.write_text("cache_ways,bandwidth,frequency\n1,70,1.2\n")
    with pytest.raises(ArgumentError, match="cache_ways is 1 in context 0; one of 2, 3"):
        platform_contexts(str(path))


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("grid:5x5", "grid is 5x5; a number of levels for each of cache_ways, bandwidth"),
        ("no", "contexts is 'no'; 'all', a grid as"),
        ("", "contexts is ''; 'all', a grid as"),
    ],
)
def test_unknown_descriptions_are_refused(selection, message):
    with pytest.raises(ArgumentError, match=message):
        platform_contexts(selection)


def test_values_mean_the_nearest_level_and_keep_their_order():
    given = [[3.0000001, 140.0, 1.7000000000000002], [2.0, 1400.0, 1.2]]
    config = PlatformConfig()
    exact = exact_contexts(given, config)
    np.testing.assert_array_equal(exact, [[3.0, 140.0, 1.7], [2.0, 1400.0, 1.2]])
    assert given[0][0] != exact[0, 0]
    np.testing.assert_array_equal(exact_contexts(exact, config), exact)


def test_a_bandwidth_without_a_limit_is_allowed():
    given = [[2.0, 1e6, 1.2], [2.0, 2e5, 1.2]]
    np.testing.assert_array_equal(exact_contexts(given, PlatformConfig()), given)
    with pytest.raises(ArgumentError, match="bandwidth is 90000 in context 0"):
        exact_contexts([[2.0, 9e4, 1.2]], PlatformConfig())


def test_a_quiet_platform_differs_in_its_noise_only():
    loud, quiet = PlatformConfig(), PlatformConfig().without_noise()
    assert quiet.levels == loud.levels
    assert (quiet.hit_time, quiet.miss_time) == (loud.hit_time, loud.miss_time)
    assert quiet.regulator_period == loud.regulator_period
    assert quiet.speed_noise == quiet.tick_rate == quiet.reading_jitter == 0
