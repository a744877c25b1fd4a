"""Charts of the duration: their points are the numbers of the page."""

import re

import numpy as np
import pytest

from msbgen.output.report import charts, maps

MOVES = re.compile(r"[ML](-?[\d.]+) (-?[\d.]+)")


def product(*axes):
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes)).astype(float)


def drawn(table, duration, *, bound=None, outside=None, labels=None, measured=None, runs=None):
    """Charts of contexts (n, m), by default with a bound 10 % above and without measured runs."""
    everywhere = {
        "duration": list(duration),
        "bound": [] if bound is False else list(1.1 * duration if bound is None else bound),
        "extrapolated": [0] * len(table) if outside is None else list(outside),
    }
    known = {
        "resources": [{"labels": (labels or {}).get(i, [])} for i in range(table.shape[1])],
        "context": [] if measured is None else np.asarray(measured).tolist(),
        "run_durations": runs or [],
    }
    return charts.charts_of(maps.MapGrid.of_durations(table, duration), everywhere, known)


def points(svg, name, plots):
    """Points of a path as (position across, seconds), by the labels of the vertical axis."""
    path = re.search(rf'class="{name}" d="([^"]*)"', svg)
    up = re.findall(r'class="up" x="-6" y="([\d.]+)%" dy=".35em">([\d.,]+)<', svg)
    (y0, t0), (y1, t1) = ((10 * float(y), float(t.replace(",", ""))) for y, t in (up[0], up[-1]))
    slope = (t1 - t0) / (y1 - y0)
    found = [(float(x), t0 + slope * (float(y) - y0)) for x, y in MOVES.findall(path[1])]
    return np.array(found[:plots] if plots else found)


def test_lines_and_dots_are_the_durations_bounds_and_runs():
    table = product([1, 2, 3, 4, 5, 6, 7], [1, 2, 4])
    duration = 3.0 / table[:, 0] + 0.2 * table[:, 1]
    known = [[1, 2], [5, 2], [5, 4], [2.5, 4]]
    runs = [[3.1, 3.5], [1.0], [1.4, 1.5, 1.6], [9.0]]
    found = drawn(table, duration, measured=known, runs=runs)
    assert (found.across, found.panels, found.levels) == (0, 1, (0, 1, 2))
    (group,) = found.groups
    assert group.runs == 6  # the last one lies on no level
    seen = 0
    for chart in group.charts:
        level = [1, 2, 4][chart.level]
        here = duration[table[:, 1] == level]
        assert (chart.low, chart.high) == (here.min(), here.max())
        span = 0.005 * 4.5
        for name, values in (("mean", here), ("limit", 1.1 * here)):
            at = points(chart.svg, name, 7)
            np.testing.assert_allclose(at[:, 0], found.positions, atol=0.06)
            np.testing.assert_allclose(at[:, 1], values, atol=span)
        measured = [(x, y) for (x, other), ys in zip(known[:3], runs) if other == level for y in ys]
        if measured:
            at = points(chart.svg, "run", 0)
            np.testing.assert_allclose(at[:, 1], [y for _, y in measured], atol=span)
            xs = [found.positions[int(x) - 1] for x, _ in measured]
            np.testing.assert_allclose(at[:, 0], xs, atol=0.06)
            seen += len(at)
    assert seen == group.runs


def test_one_resource_has_one_panel_and_extrapolated_stretches_are_apart():
    table = product([1, 2, 4, 8])
    found = drawn(table, 10.0 / table[:, 0], outside=[0, 0, 0, 1])
    (group,) = found.groups
    (chart,) = group.charts
    assert found.panels is None
    assert len(points(chart.svg, "mean", 0)) == 3
    far = points(chart.svg, "mean far", 0)
    np.testing.assert_allclose(far[:, 1], [2.5, 1.25], atol=0.06)


def test_there_are_no_lines_between_words_and_their_ticks_are_text():
    table = product([1, 2, 3])
    words = ["<script>", "b\u202e", "gcc"]
    (group,) = drawn(table, np.array([1.0, 2.0, 3.0]), labels={0: words}).groups
    (chart,) = group.charts
    assert not re.search(r'class="(mean|limit|room)[^"]*" d="[^"]*L', chart.svg)
    assert chart.svg.count("M") >= 6
    ticks = re.findall(r'class="across"[^>]*>([^<]*)<', chart.svg)
    assert ticks == ["&lt;script&gt;", "b", "gcc"]


def test_words_are_panels_beside_numbers():
    table = product([1, 2], [1, 2, 3])
    found = drawn(table, 10.0 * table[:, 0] + table[:, 1], labels={0: ["a", "b"]})
    assert (found.across, found.panels) == (1, 0)


def test_levels_of_powers_are_to_their_logarithms():
    even = [*np.linspace(0, 1000, 5)]
    for levels, logs in (
        ([1, 4, 16, 64, 256], True),
        ([1, 3, 5, 7, 9], False),
        ([0, 1, 2, 3, 4], False),
    ):
        table = product(levels)
        found = drawn(table, 1.0 + table[:, 0])
        expected = even if logs else 1000 * (table[:, 0] - levels[0]) / (levels[-1] - levels[0])
        np.testing.assert_allclose(found.positions, expected, atol=0.06)


def test_of_many_levels_a_few_measured_ones_have_panels():
    table = product(np.arange(20), np.arange(30))
    duration = 5.0 + table[:, 0] + 10 * table[:, 1]
    measured = product([0, 7, 8, 19], [3, 29])
    found = drawn(table, duration, measured=measured, runs=[[5.0]] * len(measured))
    assert (found.across, found.panels, found.levels) == (1, 0, (0, 7, 8, 19))
    assert len(drawn(table, duration).levels) == 6


def test_the_first_combination_has_the_most_measured_runs_and_high_bounds_are_cut():
    table = product([1, 2, 3], [1, 2, 3], [1, 2, 3, 4])
    duration = 9.0 / table[:, 0] + 1.0 / table[:, 1] + 1e-3 * table[:, 2]
    bound = np.where(table[:, 2] == 4, 100 * duration, 1.1 * duration)
    found = drawn(table, duration, bound=bound, measured=[[1, 1, 2], [2, 2, 2]], runs=[[9.9], [5]])
    assert [group.key for group in found.groups] == ["0", "1", "2", "3"]
    assert (found.first, [group.runs for group in found.groups]) == ("1", [0, 2, 0, 0])
    assert [group.cut for group in found.groups] == [False, False, False, True]
    assert found.groups[0].fixed == [(2, 1.0)]
    assert "nan" not in "".join(c.svg for g in found.groups for c in g.charts)


@pytest.mark.parametrize("bound", [None, False])
def test_single_levels_and_missing_bounds_are_drawn(bound):
    (group,) = drawn(np.array([[5.0]]), np.array([2.0]), bound=bound).groups
    (chart,) = group.charts
    assert 'class="mean"' in chart.svg
    assert ('class="limit"' in chart.svg) == (bound is None)


def test_scattered_contexts_have_no_charts():
    rng = np.random.default_rng(0)
    assert drawn(rng.uniform(1, 2, (40, 2)), rng.uniform(1, 2, 40)) is None
