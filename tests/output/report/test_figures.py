"""Panels: text as text, colours of the style sheet, equal bytes, odd numbers."""

import re

import numpy as np
import pytest

from msbgen.output.report import figures

NAN = np.nan
RUNS = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, NAN], [0.0, 0.0, 0.0]])
PANELS = {
    "profile": lambda: figures.profile_panel("p", RUNS, RUNS[0], RUNS, 0.01),
    "constant": lambda: figures.profile_panel("p", RUNS * 0, RUNS[2], None, 0.01),
    "span": lambda: figures.span_panel("s", np.ones(3), 2 * np.ones(3), 3 * np.ones(3)),
    "bound": lambda: figures.bound_panel("b", np.array([[1.0, NAN, 3.0]]), np.array([2.0])),
    "error": lambda: figures.error_panel(
        "e", np.array([0.1, 0.2]), np.array([0.01, NAN]), np.array([True, False])
    ),
    "place": lambda: figures.place_panel(
        "q",
        np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 6.0]]),
        np.array([[1.0, 5.0], [3.0, 7.0]]),
        np.array([0.01, 0.02, NAN]),
        np.array([True, False, False]),
    ),
    "residual": lambda: figures.residual_panel("r", np.array([0.0, 1e-7]), 1e-6),
    "plan": lambda: figures.plan_panel("n", np.array([1.0]), np.array([0.2, 0.1])),
}


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_is_a_part_of_a_page(panel):
    svg = PANELS[panel]()
    assert svg.startswith('<svg class="panel" width="340" height="220"')
    assert "<text" in svg
    assert "#0" not in re.sub(r'href="#[^"]*"|url\(#[^)]*\)', "", svg)  # every colour is a variable
    assert "var(--" in svg
    assert not re.search(r"<style|<metadata|<script|font-family", svg)
    assert all(float(size) >= 11 for size in re.findall(r"font-size: ([\d.]+)px", svg))
    ids = re.findall(r' id="([^"]+)"', svg)
    assert len(ids) == len(set(ids))
    assert all(re.match(r"[a-z]-", one) for one in ids)
    assert svg == PANELS[panel]()
    assert len(svg) < 40_000


def test_runs_that_exceed_their_bound_are_crosses():
    inside = figures.bound_panel("b", np.full((4, 2), 1.0), np.full(4, 2.0))
    above = figures.bound_panel("b", np.full((4, 2), 3.0), np.full(4, 2.0))
    assert inside.count("<use") + 8 == above.count("<use")


def test_a_single_run_is_a_dot():
    apart = figures.bound_panel("b", np.array([[1.0, 1.5]] * 4), np.full(4, 2.0))
    alone = figures.bound_panel("b", np.array([[1.0, NAN]] * 4), np.full(4, 2.0))
    assert apart.count("<use") + 4 == alone.count("<use")


def test_the_area_on_a_map_is_the_error():
    places, inside = np.array([[1.0, 5.0], [2.0, 6.0]]), np.array([False, False])
    svg = figures.place_panel("q", places, places, np.array([0.01, 0.04]), inside)
    wide = [
        np.ptp([float(x) for x in re.findall(r"[MLC]? ?(-?[\d.]+) -?[\d.]+", path)])
        for path in re.findall(r'<path d="([^"]+z)"[^>]*stroke-width: 1.2', svg)
    ]
    assert wide[1] == pytest.approx(2 * wide[0], rel=0.05)


def test_the_band_holds_nine_tenths_of_the_samples():
    samples = np.arange(101.0)[:, None] * np.ones(4)
    samples[:98, 3] = NAN  # three of a hundred still run
    low, high = figures.band_of(samples)
    np.testing.assert_allclose(low, [5, 5, 5])
    np.testing.assert_allclose(high, [95, 95, 95])


def test_what_is_short_among_long_profiles_is_drawn_as_it_is():
    short = np.full((2, 1_000), NAN)
    short[:, :5] = 1.0
    alone = figures.profile_panel("p", short[:, :5], short[0, :5], None, 0.01)
    assert figures.profile_panel("p", short, short[0], None, 0.01) == alone


def test_long_profiles_are_drawn_in_coarser_intervals():
    long = np.ones((3, 100_000))
    long[:, 50_000:] = NAN
    assert len(figures.profile_panel("p", long, long[0], long, 0.001)) < 60_000
