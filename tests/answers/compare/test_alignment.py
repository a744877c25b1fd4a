"""Alignment of two versions' work: against exhaustive search, and on work that was edited."""

from functools import cache

import numpy as np
import pytest

from msbgen.answers.compare.alignment import GAP, Alignment, align, best_path


def cheapest(costs, extension):
    """Cost of the cheapest path, by trying all of them."""

    @cache
    def rest(i, j, state):
        if (i, j) == costs.shape:
            return 0.0
        options = []
        if i < costs.shape[0] and j < costs.shape[1]:
            options.append(costs[i, j] + rest(i + 1, j + 1, 0))
        for step, a, b in ((1, i, j + 1), (2, i + 1, j)):
            if a <= costs.shape[0] and b <= costs.shape[1]:
                options.append(extension + GAP * (state != step) + rest(a, b, step))
        return min(options)

    return rest(0, 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_the_path_is_the_cheapest(seed):
    rng = np.random.default_rng(seed)
    costs = rng.choice([5, 40, 200]) * rng.random(rng.integers(1, 9, 2))
    n, m = costs.shape
    steps, cost = best_path(costs, 1.5, np.arange(n + 1), n + m)
    assert cost == pytest.approx(cheapest(costs, 1.5))
    gaps = [k for k in (1, 2) for a, b in zip([0, *steps], steps) if b == k != a]
    i, j = np.cumsum(steps != 1) - 1, np.cumsum(steps != 2) - 1
    paid = costs[i[steps == 0], j[steps == 0]].sum() + GAP * len(gaps) + 1.5 * (steps != 0).sum()
    assert (i[-1], j[-1], paid) == (n - 1, m - 1, pytest.approx(cost))


def rates(seed, n=1000):
    """Logarithms of rates in phases of random lengths."""
    rng = np.random.default_rng(seed)
    phases = np.cumsum(rng.random(n) < 0.05)
    return rng.standard_normal((phases[-1] + 1, 3))[phases]


def sampled(values, n=800):
    return values[((np.arange(n) + 0.5) / n * len(values)).astype(int)][None]


@pytest.mark.parametrize(("place", "length"), [(0.5, 0.02), (0.2, 0.05), (0.85, 0.1)])
def test_inserted_and_removed_work_is_located(place, length):
    old = rates(1)
    at, n = int(place * 1000), int(length * 1000)
    new = np.concatenate([old[:at], rates(2)[:n], old[at:]])
    work = len(new) / len(old)
    (gap,) = align(sampled(old), sampled(new), work=work, reach=0.002).gaps
    assert gap.kind == "inserted"
    assert gap.old == pytest.approx((place, place), abs=0.01)
    assert gap.new == pytest.approx((place / work, (place + length) / work), abs=0.01)
    assert gap.begins == pytest.approx((place, place), abs=0.02)
    (gap,) = align(sampled(new), sampled(old), work=1 / work, reach=0.002).gaps
    assert (gap.kind, gap.new) == ("removed", pytest.approx((place, place), abs=0.01))
    assert gap.length == pytest.approx(length / work, abs=0.002)


@pytest.mark.parametrize("length", [0.03, -0.03])
def test_a_gap_may_be_wherever_the_program_looks_the_same(length):
    old = sampled(rates(4))
    old[:, 240:560] = 5.0  # between .3 and .7 of the work
    work = 1 + length
    new = np.concatenate([old[:, :400], old[:, 400 + max(0, round(-800 * length)) :]], axis=1)
    if length > 0:
        new = np.insert(old, [400] * round(800 * length), old[:, 400:401], axis=1)
    new = new[:, (np.arange(800) * new.shape[1]) // 800]
    (gap,) = align(old, new, work=work, reach=0.002).gaps
    last = 0.7 - max(0.0, -length)
    assert gap.begins == pytest.approx((0.3, last), abs=0.02)
    assert gap.begins[0] - 0.01 <= gap.old[0] <= gap.begins[1] + 0.01


def test_noise_makes_the_place_of_a_gap_uncertain():
    rng, old = np.random.default_rng(7), rates(5)
    new = np.insert(old, [500] * 30, rates(6)[:30], axis=0)
    noise = 0.8 * rng.standard_normal((2, 800, 3))
    known = np.full((1, 800, 3), 0.8**2)
    pair = sampled(old) + noise[0], sampled(new) + noise[1]
    (surer,) = align(sampled(old), sampled(new), work=1.03, reach=0.002).gaps
    (gap,) = align(*pair, work=1.03, reach=0.002, noise=(known, known)).gaps
    assert 3 * (surer.begins[1] - surer.begins[0]) < gap.begins[1] - gap.begins[0] < 0.05
    assert gap.begins[0] - 0.01 <= 0.5 <= gap.begins[1] + 0.01


def test_contexts_whose_rates_move_apart_show_a_place_that_their_mean_hides():
    old = rates(1)
    new = np.delete(old, slice(300, 320), axis=0)
    groups = [np.concatenate([sampled(x), -sampled(x)]) for x in (old, new)]
    (gap,) = align(*groups, work=0.98, reach=0.002).gaps
    assert gap.old == pytest.approx((0.3, 0.32), abs=0.01)


def test_slower_work_is_no_gap_and_another_program_no_version():
    old = sampled(rates(1))
    new = old.copy()
    new[300:400, 0] += 0.3
    same = align(old, new, work=1.0, reach=0.002)
    assert (same.gaps, same.is_same_program) == ((), True)
    assert same.to_new(np.array([0.25])) == pytest.approx([0.25])
    assert not align(old, sampled(rates(3)), work=1.0, reach=0.002).is_same_program
    for work in (1e12, 1e-12):
        assert not align(old, old, work=work, reach=0.002).is_same_program


def test_knots_stay_knots_where_work_is_inserted_at_both_ends():
    old, new = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 0.1, 0.8, 1.0])
    places = Alignment(old, new, (), 0.0).to_new(np.linspace(0, 1, 11))
    np.testing.assert_allclose(places, [0, *np.linspace(0.17, 0.73, 9), 1])
