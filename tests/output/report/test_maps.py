"""Maps of contexts, and what a chosen one shows."""

import base64
import re

import numpy as np
import pytest

from msbgen.data.schema import all_contexts
from msbgen.output.report import maps
from msbgen.output.report.numbers import numbers_of


def product(*axes):
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)).astype(float)


def test_maps_span_the_two_resources_that_matter_most():
    table = product([1, 2], [1, 2, 3], [1, 2, 4, 8])
    duration = 10.0 / table[:, 2] + table[:, 0] + 0.001 * table[:, 1]
    grid = maps.MapGrid.of_durations(table, duration)
    assert grid.axes == (2, 0)
    assert grid.others == [1]
    assert not grid.sparse


@pytest.mark.parametrize("axes", [[[1, 2, 3]], [[5]], [[1, 2], [1], [7, 8, 9]], [[1, 2]] * 5])
def test_every_context_is_a_cell_of_one_map(axes):
    table = product(*axes)
    grid = maps.MapGrid.of_durations(table, 1.0 + np.arange(len(table)))
    shade, _ = maps.shades_of(1.0 + np.arange(len(table)))
    found = maps.maps_of(grid, shade, np.ones(len(table)), np.zeros(len(table)))
    rows = [row for m in found for line in m.rows for row in line]
    assert sorted(rows) == list(range(len(table)))
    for m in found:
        cells = sum(int(n) for _, path in m.shades for n in re.findall(r"h(\d+)v", path))
        assert cells == m.width * m.height == m.hatched.count("M")
        assert m.dotted == ""
        for y, line in enumerate(m.rows):
            for x, row in enumerate(line):
                assert table[row, grid.axes[0]] == grid.levels[grid.axes[0]][x]
                if len(grid.axes) > 1:
                    up = grid.levels[grid.axes[1]]
                    assert table[row, grid.axes[1]] == up[len(up) - 1 - y]
        assert [table[m.rows[0][0], i] for i in grid.others] == [level for _, level in m.fixed]


def test_shades_ascend_with_their_values():
    values = np.random.default_rng(0).lognormal(size=300)
    shade, edges = maps.shades_of(values)
    assert edges[0] == values.min()
    assert edges[-1] == values.max()
    assert np.all(np.diff(edges) > 0)
    assert np.all((edges[shade] <= values) & (values <= edges[shade + 1]))
    assert set(shade) == set(range(maps.SHADES))
    assert maps.shades_of(np.ones(3))[0].tolist() == [0, 0, 0]


def test_scattered_contexts_make_no_map():
    table = np.random.default_rng(0).random((30, 3))
    grid = maps.MapGrid.of_durations(table, np.ones(30))
    assert grid.sparse
    assert maps.maps_of(grid, np.zeros(30, dtype=int), np.ones(30), np.ones(30)) == []


def test_resampled_counts_add_up_to_the_profile():
    rng = np.random.default_rng(0)
    duration, counts = np.array([0.073, 0.05, 0.011]), np.full((3, 8, 2), np.nan)
    for i, n in enumerate((8, 5, 2)):
        counts[i, :n] = rng.random((n, 2))
    for points in (1, 5, 30):
        drawn = maps.resampled(counts, duration, 0.01, points)
        total = drawn.sum(axis=1) * (duration / 0.01 / points)[:, None]
        np.testing.assert_allclose(total, np.nansum(counts, axis=1), rtol=1e-9)
    even = maps.resampled(np.ones((1, 5, 1)), np.array([0.05]), 0.01, 20)
    np.testing.assert_allclose(even, 1.0)


def test_embedded_profiles_are_the_generated_ones_to_a_byte(report_inputs, task):
    reported, profiles = numbers_of(report_inputs)["everywhere"], report_inputs.everywhere.profiles
    grid = maps.MapGrid.of_durations(np.array(reported["context"]), np.array(reported["duration"]))
    spread = report_inputs.everywhere.spread
    data = maps.embedded(profiles, spread, grid, reported, reported["measured"])
    assert data["place"] == []  # all products of the levels, in order
    np.testing.assert_array_equal(reported["context"], all_contexts(task))
    n, k, points = len(reported["context"]), 3, data["points"]
    counts = profiles.counts[:, 0]
    peak = np.array(data["peak"])[:, None]
    low, high = data["band"]
    for text, drawn in (
        (data["profiles"], counts), (low, spread.lowest), (high, spread.highest)
    ):  # fmt: skip
        packed = np.frombuffer(base64.b64decode(text), np.uint8).reshape(n, k, points)
        own = maps.resampled(drawn, profiles.mean_duration, 0.01, points)
        assert np.all(np.abs(packed.transpose(0, 2, 1) / 255 * peak - own) <= 0.003 * peak)
