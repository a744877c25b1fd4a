"""Changes of the work: which of it is compared, and stretches that explain the total."""

import numpy as np
import pytest

from conftest import MEASURED, synthetic_task
from msbgen.answers.compare import changes
from msbgen.answers.compare.alignment import Alignment, Gap
from msbgen.answers.compare.changes import find_changes
from msbgen.answers.compare.comparison import compare_profiles
from msbgen.answers.compare.matching import match_profiles
from msbgen.answers.compare.pairs import pair_profiles
from msbgen.answers.compare.results import CompareSettings
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles


def test_work_beside_a_gap_is_not_compared_wherever_the_gap_may_be(monkeypatch):
    old, new = (Profiles.of(synthetic_task(MEASURED, seed=seed)) for seed in (7, 8))
    pair = pair_profiles(old, new, match_profiles(old, new))
    called = []
    monkeypatch.setattr(
        changes, "find_stretches", lambda *args, **named: called.append((args, named)) or []
    )
    removed = Gap(old=(0.3, 0.34), new=(0.3, 0.3), begins=(0.25, 0.4))
    knots = np.array([0.0, 0.3, 0.34, 1.0]), np.array([0.0, 0.3, 0.3, 1.0])
    aligned = Alignment(*knots, (removed,), mismatch=0.0)
    (change,) = find_changes(pair, aligned, CompareSettings(), np.random.default_rng(0))
    assert (change.quantity, change.old, change.begins) == ("removed", (0.3, 0.34), (0.25, 0.4))
    ((runs, _), named) = called[0]
    # from .25 to .44 of the work, and two of a hundred bins on either side
    left_out = np.flatnonzero(~named["compared"])
    assert (left_out[0], left_out[-1] + 1, len(left_out)) == (23, 46, 23)
    assert runs.is_shifted
    different = Alignment(*knots, (removed,), mismatch=0.9)
    assert find_changes(pair, different, CompareSettings(), np.random.default_rng(0)) == ()


WORK = np.linspace(0, 1, 201)


def program(rng, contexts, runs, noise, slower=1.0, where=(0, 1), interval=0.01):
    """Profiles of a program with phases, slower in a part; noise of a run, and within it."""
    common, within = noise
    rate = np.exp(0.5 * np.repeat(np.random.default_rng(77).standard_normal(10), 20))
    rate = rate * np.where((WORK[1:] > where[0]) & (WORK[1:] <= where[1] + 1e-9), slower, 1.0)
    times = np.linspace(1.9, 3.8, contexts)[:, None, None] * rate / 250
    times = times * np.exp(common * rng.standard_normal((contexts, runs, 1)))
    times = times * np.exp(within * rng.standard_normal((contexts, runs, 200)))
    ends = np.concatenate([np.zeros((contexts, runs, 1)), times.cumsum(axis=2)], axis=2)
    samples = int(np.ceil(ends.max() / interval))
    counts = np.full((contexts, runs, samples, 1), np.nan)
    for i, j in np.ndindex(contexts, runs):
        n = int(np.ceil(ends[i, j, -1] / interval - 1e-9))
        done = np.interp(np.arange(n + 1) * interval, ends[i, j], WORK)
        counts[i, j, :n, 0] = 1e9 * np.diff(done)
    levels = np.arange(1.0, contexts + 1)
    return make_profiles(
        counts, ends[..., -1], levels[:, None], interval=interval,
        resources={"threads": {"units": "threads", "levels": levels.tolist()}},
        counters={"instructions": {}}, attrs={"task": "steady"},
    )  # fmt: skip


def changes_of(seed, *design, interval=0.01, **change):
    rng = np.random.default_rng(seed)
    old, new = (program(rng, *design, interval=interval, **c) for c in ({}, change))
    found = compare_profiles(old, new, settings=CompareSettings(permutations=199), rng=seed)
    return found, [(*one.old, one.ratios["time"].value - 1) for one in found.changes]


@pytest.mark.parametrize("design", [(1, 20), (3, 6), (9, 4)])
@pytest.mark.parametrize("noise", [(1e-3, 1e-4), (1e-2, 1e-3), (2e-2, 2e-2)])
@pytest.mark.parametrize("slower", [1.107, 0.93])
def test_a_change_of_all_work_is_one_of_the_whole(design, noise, slower):
    for seed in (0, 1):
        _, ((begin, end, change),) = changes_of(seed, *design, noise, slower=slower)
        assert (begin, end) == (pytest.approx(0, abs=0.025), pytest.approx(1, abs=0.025))
        assert change == pytest.approx(slower - 1, abs=0.02)


@pytest.mark.parametrize("design", [(1, 20), (3, 6), (9, 4)])
@pytest.mark.parametrize("noise", [(1e-3, 1e-4), (1e-2, 1e-3), (3e-3, 3e-2)])
def test_a_change_of_a_tenth_is_found_there_in_few_contexts(design, noise):
    _, ((begin, end, change), *_) = changes_of(3, *design, noise, slower=1.2, where=(0.4, 0.5))
    assert (begin, end) == (pytest.approx(0.4, abs=0.025), pytest.approx(0.5, abs=0.025))
    assert change == pytest.approx(0.2, abs=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_stretches_explain_most_of_the_total_at_coarse_sampling_intervals(seed):
    """Of 20 intervals a run, steps of the rates that lie in one look like changes there."""
    found, stretches = changes_of(seed, 1, 20, (1e-3, 1e-3), slower=1.02, interval=0.1)
    old = found.course.old[:, 0]
    part = sum(
        old[round(100 * begin) : round(100 * end)].sum() * change
        for begin, end, change in stretches
    )
    assert part / old.sum() > 0.5 * (found.time.value - 1)
