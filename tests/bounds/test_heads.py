"""Heads against slow loops, each at asked and at left-out contexts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from held import held_out
from msbgen.bounds.heads import BAND_HEADS, HEADS, BandHeads, DurationHeads, tightest


def drawn(seed, *, most_runs=4, segments=1, k=1):
    """Ragged runs of few contexts; some left out alone, some in pairs."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    runs = [np.exp(0.1 * rng.standard_normal(rng.integers(1, most_runs + 1))) for _ in range(n)]
    groups = [[i] for i in range(n)] + [sorted(rng.choice(n, 2, replace=False)) for _ in range(2)]
    rows = [c for group in groups for c in group]
    pairs = sum(len(runs[c]) for c in rows)
    weight = rng.integers(1, 5, len(rows))
    return held_out(
        np.unique(rng.random((3 * n, 2)), axis=0)[:n] + 1.0,
        runs,
        groups=groups,
        doubt=rng.random(len(rows)) + 0.05,
        weight=weight / weight.sum(),
        state=np.exp(0.2 * rng.standard_normal((pairs, segments, k))),
    )


def places(held):
    """Asked contexts and the left-out ones."""
    known = held.trend.contexts
    return held.at(np.vstack([known[:2], known.mean(axis=0), known[0] + 3.0])), held.rows


def runs_of(held):
    return [held.duration[held.run_context == c].tolist() for c in range(len(held.n_runs))]


@given(st.integers(0, 2**32 - 1), st.sampled_from(HEADS))
def test_location_and_width_equal_those_of_slow_loops(seed, name):
    held = drawn(seed)
    heads, runs = DurationHeads(held), runs_of(held)
    if name not in heads.names:
        assert max(map(len, runs)) == 1
        return
    rows = list(zip(held.context, held.weight, held.doubt, held.rows.log_time))
    for some in places(held):
        location, width = heads.at(name, some)
        for i, near in enumerate(some.near):
            if name != "local" and not any(
                near[c] > 0 for c in range(len(runs)) if len(runs[c]) > 1
            ):
                continue  # nothing is known of the noise there
            wanted = oracles.head(name, near, some.log_time[i], some.doubt[i], runs, rows)
            assert (location[i], width[i]) == pytest.approx(wanted, rel=1e-9, abs=2e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from(HEADS))
def test_scores_are_what_a_bound_has_to_reach(seed, name):
    """A bound with the score of a run as its quantile equals that run's time."""
    held = drawn(seed)
    heads = DurationHeads(held)
    if name in heads.names:
        location, width = heads.at(name, held.rows)
        bound = np.exp(location[held.row] + heads.scores(name) * width[held.row])
        wanted = [t for c in held.context for t in held.duration[held.run_context == c]]
        np.testing.assert_allclose(bound, wanted)


@given(st.integers(0, 2**32 - 1), st.sampled_from(HEADS), st.floats(-3, 3))
def test_no_neighbours_make_a_margin_larger_than_the_most(seed, name, offset):
    held = drawn(seed)
    heads = DurationHeads(held)
    if name in heads.names:
        asked, rows = places(held)
        for some in (asked, rows):
            offsets = np.full(len(some.doubt), offset)
            location, width = heads.at(name, some)
            margin = location + offset * width - some.log_time
            known = (some.near @ (held.n_runs > 1)) > 0
            most = heads.most(name, offsets, some.doubt)
            assert np.all((margin <= most + 1e-9) | ~known)


def test_single_runs_tell_nothing_of_the_noise():
    heads = DurationHeads(drawn(0, most_runs=1))
    assert heads.names == ("mean", "local", "doubt")
    assert DurationHeads(drawn(1)).names == HEADS


def test_a_noise_that_differs_is_followed_by_the_spread():
    rng = np.random.default_rng(2)
    noise = np.geomspace(0.001, 0.1, 30)
    runs = [np.exp(s * rng.standard_normal(20)) for s in noise]
    held = held_out(np.linspace(1.0, 2.0, 30)[:, None], runs)
    width = DurationHeads(held).at("spread", held.at(held.trend.contexts))[1]
    assert np.all(width < 2 * noise + 1e-3)
    assert np.all(width > noise / 2)


@pytest.mark.parametrize("name", BAND_HEADS)
@pytest.mark.parametrize("seed", range(4))
def test_widths_of_bands_equal_those_of_slow_loops(name, seed):
    segments, k = 3, 2
    held = drawn(seed, segments=segments, k=k)
    runs, heads = runs_of(held), BandHeads(held)
    rows = list(zip(held.context, held.weight))
    floor = held.trend.offset  # one bin a segment
    for some in places(held):
        width = heads.at(name, some)
        assert width.shape == (len(some.near), segments, k)
        for i, near in enumerate(some.near):
            weights = np.ones(len(near)) if name == "even" else near
            for s in range(segments):
                for q in range(k):
                    errors, start = [], 0
                    for row, c in enumerate(held.context):
                        stop = start + len(runs[c])
                        own = held.state[start:stop, :, q] + floor[q]
                        expected = held.predicted[row, :, q] + floor[q]
                        errors.append(np.log(own / expected).tolist())
                        start = stop
                    wanted = oracles.band_width(weights, runs, rows, errors, s)
                    assert width[i, s, q] == pytest.approx(wanted, rel=1e-9, abs=2e-9)


@pytest.mark.parametrize("name", BAND_HEADS)
def test_a_band_of_its_score_just_holds_the_run(name):
    held = drawn(5, segments=3, k=2)
    heads = BandHeads(held)
    for q in range(2):
        half = heads.scores(name, q) * heads.left_out(name)[held.row, :, q]
        middle = (held.predicted + held.floor)[held.row, :, q]
        own = held.state[..., q] + held.floor[q]
        off = np.minimum(
            abs(own / (middle * np.exp(half)) - 1), abs(own / (middle / np.exp(half)) - 1)
        )
        assert off.max() < 1e-12


def test_a_hole_in_a_counter_says_nothing():
    held = drawn(6, segments=2, k=2)
    held.state[0, 0, 1] = np.nan
    heads = BandHeads(held)
    assert heads.scores("even", 1)[0, 0] == 0
    assert np.all(np.isfinite(heads.at("local", held.rows)))


def test_the_plainest_of_about_equal_heads_is_the_tightest():
    assert tightest(("a", "b", "c"), [1.0, 0.5, 0.495]) == "b"
    assert tightest(("a", "b", "c"), [1.0, 0.5, 0.4]) == "c"
    assert tightest(("a", "b"), [-1.0, -1.01]) == "a"
