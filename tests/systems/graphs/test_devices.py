"""Device sheets: read, checked key by key; contexts are levels with at least one core."""

from dataclasses import replace

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.shipped import shipped_file
from msbgen.systems.graphs.devices import (
    check_contexts,
    device_contexts,
    read_device,
    shipped_device,
)

TX2 = shipped_device("tx2")


def test_the_sheets_that_ship_have_the_cores_and_clocks_of_their_boards():
    assert [(c.cores, len(c.clocks)) for c in TX2.clusters] == [(2, 12), (4, 12)]
    assert shipped_device("orin-nx").n_cores == shipped_device("rubik-pi").n_cores == 8
    assert TX2.clusters[0].clocks[-1] == 2.0352
    with pytest.raises(ArgumentError, match="one of orin-nx, rubik-pi, tx2, or"):
        shipped_device("tx3")


def test_contexts_are_every_combination_with_a_core():
    every = device_contexts(TX2, paired=False)
    counts = {len(np.unique(every[:, i])) for i in range(4)}
    assert len(every) == (3 * 5 - 1) * 12 * 12 * 3 * 3
    assert counts == {3, 5, 12}
    assert len(np.unique(every, axis=0)) == len(every)
    few = device_contexts(TX2, cores={"denver": [0, 1, 2], "a57": [1, 2, 4]}, cache_ways=16)
    assert len(few) == 9 * 12 * 3
    assert np.all(few[:, 1] == few[:, 3])  # both clusters have the same levels
    two = device_contexts(TX2, clocks=2, cache_ways=16, bandwidth=4200)
    assert set(two[:, 1]) == {0.3456, 2.0352}
    np.testing.assert_array_equal(every.max(axis=0), TX2.largest)
    with pytest.raises(ArgumentError, match="'a53' is no cluster of tx2"):
        device_contexts(TX2, cores={"a53": 1})


def test_unequal_clusters_are_paired_end_to_end():
    fast, slow = TX2.clusters
    device = replace(TX2, clusters=(fast, replace(slow, clocks=(0.5, 1.0, 1.5))))
    pairs = np.unique(device_contexts(device)[:, [1, 3]], axis=0)
    assert len(pairs) == 12
    assert tuple(pairs[0]) == (0.3456, 0.5)
    assert tuple(pairs[-1]) == (2.0352, 1.5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0, 2.0352, 0, 2.0352, 16, 4200], "context 1 has no core"),
        ([2, 2.0, 4, 2.0352, 16, 4200], "clock_denver is 2 in context 1, no level of tx2"),
        ([2, 2.0352, 4, 2.0352, 16, 4.2], "one of 1050, 2100, 4200 MB/s is wanted"),
        ([3, 2.0352, 4, 2.0352, 16, 4200], "cores_denver is 3"),
        ([2, 2.0352, 4, 2.0352, 16, np.nan], "bandwidth is nan"),
        ([2, 2.0352, 4, 2.0352, 16], "a row each of cores_denver, clock_denver"),
    ],
)
def test_contexts_that_the_device_does_not_have_are_refused(row, message):
    rows = [TX2.largest[: len(row)], row]
    with pytest.raises(ArgumentError) as caught:
        check_contexts(TX2, rows)
    assert message in str(caught.value)


def test_levels_are_found_after_a_detour_through_text():
    row = TX2.largest.copy()
    row[1] *= 1 + 1e-9
    np.testing.assert_array_equal(check_contexts(TX2, [row]), [TX2.largest])


def test_power_rises_with_the_clock_faster_than_it():
    cluster = TX2.clusters[0]
    share = np.array(cluster.clocks) / cluster.clocks[-1]
    activity = cluster.activity(cluster.clocks)
    assert activity[-1] == pytest.approx(1.0)
    assert np.all(activity[:-1] < share[:-1])
    np.testing.assert_allclose(cluster.volts([cluster.clocks[0], cluster.clocks[-1]]), [0.75, 1.15])
    assert replace(cluster, clocks=(1.0,)).activity(1.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("cores = 2", "cores = 0", "'denver': 'cores' is 0; a whole number from 1 to 64 is"),
        ("cores = 2", "cores = 1.5", "'cores' is 1.5; a whole number"),
        (
            "clocks = [0.3456, 0.4992",
            "clocks = [0.4992, 0.3456",
            "'clocks' is [0.4992, 0.3456,",
        ),
        (
            "voltage = [0.75, 1.15]",
            "voltage = [0.75]",
            "'voltage' is [0.75]; a list",
        ),
        ("voltage = [0.75, 1.15]", "voltage = [1.15, 0.75]", "two, ascending [V]"),
        ("base_power = 5.6", "", "'base_power' is missing"),
        ("resistance", "resistence", "'thermal.resistance'?"),
        ("cap = 50", "cap = 29", "a cap more than the hysteresis above ambient"),
        (
            'shared_by = "cluster"',
            'shared_by = "core"',
            "'cache.shared_by' is 'core'; one of cluster,",
        ),
        (
            "base_power = 5.6",
            'base_power = 5.6\nshares = "fix"',
            "'shares' is 'fix'; one of renewed, fixed, partitioned is",
        ),
        (
            "dispatch = 1.5e-5",
            "dispatch = 15",
            "'dispatch' is 15; a number from 0 to 0.1 [s] is wanted.",
        ),
        ('name = "a57"', 'name = "denver"', "two clusters of 'tx2' have one name"),
        ('name = "a57"', 'name = "a 57"', "letters, digits and _"),
        ("ways = [8, 12, 16]", "ways = []", "'cache.ways' is []; a list of one"),
        (
            "clocks = [0.3456, 0.4992,",
            "clocks = [0.3456, nan,",
            "'clocks' is [0.3456, nan, 0.6528, 0.8064, 0.96, 1.1136,",
        ),
        (
            "ways = [8, 12, 16]",
            "ways = [8, nan, 16]",
            "'cache.ways' is [8, nan, 16]; a list of one or",
        ),
        (
            "hysteresis = 2",
            "hysteresis = 1e-9",
            "'thermal.hysteresis' is 1e-09; a number ≥ 0.1 [K] is",
        ),
        (
            "time_constant = 18",
            "time_constant = 0",
            "'thermal.time_constant' is 0; a number ≥ 0.01 [s] is",
        ),
        ("level = 1, size = 32", "levels = 1, size = 32", "did you mean 'level'?"),
        (
            "ways = 16, line",
            "ways = -16, line",
            "'denver', cache 2: 'ways' is -16; a whole number from 1",
        ),
        ("size = 2048", "size = 1e308", "'size' is 1e+308; a number from 1 to 1000000000 [KiB] is"),
        ("line = 64, cores = 2", "line = 64, cores = 9", "of level 2 are 9; at most the 6 of the"),
        (
            "speed = 1.0",
            "speed = 1e308",
            "'speed' is 1e+308; a number",
        ),
        ("run = 0.0", "run = 1e308 #", "'noise.run' is 1e+308; a number from 0 to 2 is"),
    ],
)
def test_errors_of_a_sheet_name_the_place(before, after, message, tmp_path):
    text = shipped_file("devices/tx2.toml").read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "mine.toml").write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(ProfileError) as caught:
        read_device(tmp_path / "mine.toml")
    assert message in str(caught.value)
    assert "mine.toml" in str(caught.value)
