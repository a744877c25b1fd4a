"""Stretches that changed: against all permutations, under transformations, and by their errors."""

from itertools import permutations, product

import numpy as np
import pytest

from msbgen.answers.compare.stretches import ContextGroup, Labelled, context_groups, find_stretches

LENGTHS = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100)


def runs(seed, contexts=4, each=3, bins=20, noise=0.02, heavy=False):
    rng = np.random.default_rng(seed)
    usual = np.exp(0.3 * rng.standard_normal((contexts, 1, bins, 1)))
    shape = (contexts, 2 * each, bins, 1)
    drawn = rng.standard_t(2.5, shape) if heavy else rng.standard_normal(shape)
    values = usual * np.exp(noise * drawn)
    return values[:, :each], values[:, each:]


def found(old, new, level=0.05, number=199, groups=None, compared=None, seed=0, are_paired=False):
    everywhere = [ContextGroup(tuple(range(len(old))))]
    return find_stretches(
        Labelled.of(old, new, np.zeros(len(old)), are_paired=are_paired),
        groups or everywhere,
        compared=np.ones(old.shape[2], bool) if compared is None else compared,
        level=level,
        permutations=number,
        rng=np.random.default_rng(seed),
    )


def largest(values, labels):
    """Largest |T| over all windows, slowly; values (n, runs, bins), labels (n, runs) of bool."""
    _, n_runs, bins = values.shape
    best = 0.0
    for length in LENGTHS:
        step = max(length // 4, 1)
        for start in {*range(0, bins - length, step), bins - length} if length <= bins else ():
            sums = values[:, :, start : start + length].sum(axis=2)
            x = sums / sums.mean(axis=1, keepdims=True)
            own = x.var(axis=1, ddof=1)
            usual = np.exp(np.log(own).mean())
            each = labels.sum(axis=1)
            v = ((n_runs - 1) * own + 6 * usual) / (n_runs - 1 + 6)
            w = 1 / (v * (1 / each + 1 / (n_runs - each)))
            d = [row[new].mean() - row[~new].mean() for row, new in zip(x, labels)]
            best = max(best, abs((w * d).sum()) / np.sqrt(w.sum()))
    return best


def test_rounding_errors_of_constant_totals_are_no_noise():
    rng = np.random.default_rng(7)
    shares = rng.random((2, 8, 3, 100, 1))
    old, new = (shares / shares.sum(axis=3, keepdims=True)).astype("float32").astype(float)
    assert found(old, new, level=0.999)[0].p_value > 0.01
    new[:, :, 99] += 1e-3
    assert found(old, new)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_p_values_are_those_of_all_permutations(seed):
    old, new = runs(seed, contexts=2, each=2, bins=6)
    new[:, :, 2:4] *= 1.02
    values = np.concatenate([old, new], axis=1)[..., 0]
    ways = sorted(set(permutations([False, False, True, True])))
    labels = np.array([[False, False, True, True]] * 2)
    sizes = [largest(values, np.array(pair)) for pair in product(ways, ways)]
    exact = np.mean(np.array(sizes) >= largest(values, labels) * (1 - 1e-9))
    (first, *_) = found(old, new, level=1.0, number=1999)
    assert first.p_value == pytest.approx(exact, abs=4 * np.sqrt(exact / 2000) + 1e-3)


def test_units_of_contexts_and_quantities_do_not_matter():
    old, new = runs(3)
    new[:, :, 8:12] *= 1.1
    scale = np.exp(np.random.default_rng(0).standard_normal((4, 1, 1, 1)))
    assert found(old, new) == found(scale * old, scale * new)


def test_missing_runs_and_quantities_are_left_out():
    old, new = runs(4)
    new[:, :, 8:12] *= 1.1
    whole = found(old, new)
    nothing = np.full_like(old[:, :1], np.nan)
    assert [(s.begin, s.end) for s in found(np.concatenate([old, nothing], axis=1), new)] == [
        (s.begin, s.end) for s in whole
    ]


def test_a_stretch_is_found_in_its_quantity_place_and_contexts():
    contexts = np.array([[w, f] for w in (4, 8, 12) for f in (1.2, 1.8, 2.3)])
    parts = [runs(seed, contexts=9, bins=50, noise=0.01) for seed in (1, 2)]
    old, new = (np.concatenate(side, axis=3) for side in zip(*parts))
    slow = contexts[:, 0] < 8
    new[slow, :, 20:26, 1] *= 1.1
    (stretch,) = found(old, new, groups=context_groups(contexts))
    assert (stretch.begin, stretch.end, stretch.quantity) == (0.4, 0.52, 1)
    assert stretch.increased
    assert (stretch.group.resource, stretch.group.level, stretch.group.below) == (0, 8, True)
    compared = np.ones(50, bool)
    compared[19:27] = False
    assert found(old, new, groups=context_groups(contexts), compared=compared) == []


def test_a_drift_hides_a_stretch_of_runs_that_are_not_compared_in_pairs():
    old, new = runs(6, noise=0.002)
    drift = np.exp(0.2 * np.random.default_rng(0).standard_normal((4, 3, 1, 1)))
    new[:, :, 8:12] *= 1.03
    (stretch,) = found(drift * old, drift * new, 0.01, are_paired=True)
    assert (stretch.begin, stretch.end) == (0.4, 0.6)
    assert found(drift * old, drift * new) == []


@pytest.mark.parametrize(("heavy", "are_paired"), [(False, False), (True, False), (True, True)])
def test_false_alarms_are_as_rare_as_the_level(heavy, are_paired):
    alarms = sum(
        bool(found(*runs(s, heavy=heavy), 0.1, 99, seed=s, are_paired=are_paired))
        for s in range(150)
    )
    assert 5 <= alarms <= 27


@pytest.mark.parametrize(("reach", "is_change"), [(0.04, False), (0.0, True)])
def test_a_step_that_the_phase_of_sampling_moves_is_no_change(reach, is_change):
    rng = np.random.default_rng(5)
    rates = np.where(np.arange(100) < 50, 1.0, 5.0)
    old, new = rates * (1 + 1e-3 * rng.standard_normal((2, 8, 3, 100)))
    # a quarter of the step's events in an interval of four bins
    new[..., 49] += 4.0
    new[..., 50] -= 4.0
    contexts = np.arange(8.0)[:, None]
    stretches = find_stretches(
        Labelled.of(old[..., None], new[..., None], np.full(8, reach)),
        context_groups(contexts)[:1],
        compared=np.ones(100, dtype=bool),
        level=0.05,
        permutations=199,
        rng=np.random.default_rng(1),
    )
    assert bool(stretches) == is_change


@pytest.mark.parametrize(("reach", "is_change"), [(0.04, False), (0.0, True)])
def test_the_phase_of_sampling_is_the_same_error_in_all_contexts_of_shifted_work(reach, is_change):
    rng = np.random.default_rng(5)
    rates = np.where(np.arange(100) < 50, 1.0, 5.0)
    old, new = rates * (1 + 1e-3 * rng.standard_normal((2, 64, 3, 100)))
    new[..., 49] += 4.0
    new[..., 50] -= 4.0
    runs = Labelled.of(old[..., None], new[..., None], np.full(64, reach)).shifted()
    stretches = find_stretches(
        runs,
        context_groups(np.arange(64.0)[:, None])[:1],
        compared=np.ones(100, dtype=bool),
        level=0.05,
        permutations=99,
        rng=np.random.default_rng(1),
    )
    assert bool(stretches) == is_change
