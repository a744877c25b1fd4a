"""Plans for comparing: the least time by brute force, and the power by simulated comparisons."""

from itertools import product

import numpy as np
import pytest

from msbgen.answers.compare import permuted
from msbgen.answers.compare.planning import RunNoise, design_comparison, plan_comparison
from msbgen.answers.compare.ratio import Differences
from msbgen.core.errors import ArgumentError
from msbgen.data.build import make_profiles
from msbgen.data.tables import read_plan

LEVELS = {"ways": [2, 4, 8, 16], "clock": [1.0, 1.5, 2.0]}


@pytest.mark.parametrize("seed", range(8))
def test_runs_take_the_least_time_of_all(seed):
    """Within one run of a usual context, or 5 %; fewer contexts do not find the change."""
    rng = np.random.default_rng(seed)
    noise, cost = RunNoise.known(np.eye(3), rng.uniform(0.01, 0.03, 3)), rng.uniform(0.5, 2.0, 3)
    change = rng.uniform(0.018, 0.05)
    runs = design_comparison(noise, cost, change, 2)
    assert noise.detectable(runs) <= change
    if len(runs) == 3:
        assert noise.detectable(np.array([2, 2])) > change
        options = map(np.array, product(*(range(max(2, r - 4), r + 5) for r in runs)))
        least = min(runs @ cost - cost.mean(), 0.95 * runs @ cost)
        cheaper = [n for n in options if n @ cost < least]
        assert all(noise.detectable(n) > change for n in cheaper)


@pytest.mark.parametrize(("run_seconds", "is_named"), [(None, True), (2.0, False)])
def test_a_plan_without_the_time_of_a_run_says_so(run_seconds, is_named):
    plan = plan_comparison(LEVELS, 0.05, noise=0.01, run_seconds=run_seconds)
    assert ("if a run at the highest levels takes 1 s" in plan.describe()) is is_named


@pytest.mark.parametrize(("change", "noise"), [(0.01, 0.01), (0.005, 0.01), (0.03, 0.01)])
def test_the_change_is_found_nine_times_in_ten(change, noise, monkeypatch):
    """A fifth of the permuted labels, which show the quantile well enough on average."""
    monkeypatch.setattr(permuted, "_DRAWN", 199)
    plan = plan_comparison(LEVELS, change, noise=noise)
    assert plan.detectable[-1] <= change
    rng, found = np.random.default_rng(0), 0
    shape = len(plan.runs), plan.runs.max()
    missing = np.where(np.arange(shape[1]) < plan.runs[:, None], 1.0, np.nan)
    for _ in range(150):
        old, new = missing * rng.normal(1.0, noise, (2, *shape))
        ratio = Differences.of(plan.contexts, old, (1 + change) * new).mean(None, 0.95)
        found += ratio.low > 1
    # the plan may find smaller changes, as its runs are whole
    spare = np.log1p(change) / np.log1p(plan.detectable[-1])
    assert 0.9 - 0.07 <= found / 150 <= 0.95 + 0.4 * (spare - 1)


GRID = np.array([*product((1.0, 2.0, 4.0), (1.0, 2.0, 3.0))])


def normal(rng, shape):
    return np.exp(0.01 * rng.standard_normal(shape))


def noisy_below_two(rng, shape):
    scale = np.where(GRID[:, 0] < 2, 0.1, 0.01)[:, None]
    return np.exp(scale * rng.standard_normal(shape))


def rarely_slow(rng, shape):
    return normal(rng, shape) * np.where(rng.random(shape) < 0.05, 1.2, 1.0)


@pytest.mark.parametrize("draw", [normal, noisy_below_two, rarely_slow])
def test_comparisons_need_as_many_runs_as_planned(draw):
    """Within a quarter, by the change that comparisons report as detectable."""
    noise = RunNoise.measured(
        GRID, draw(np.random.default_rng(9), (9, 20)), np.full((9, 20), np.nan)
    )
    planned = 8
    change = noise.detectable(np.full(9, planned))

    def found_with(runs):
        sizes = []
        for seed in range(5):
            old, new = draw(np.random.default_rng(seed), (2, 9, runs))
            ratio = Differences.of(GRID, old, new).mean(None, 0.95)
            sizes.append(np.log1p(ratio.detectable(0.95)))
        return np.median(sizes)

    assert found_with(round(1.25 * planned)) <= change <= found_with(round(0.75 * planned))


def test_runs_that_take_turns_on_a_drifting_machine_are_planned_in_pairs():
    rng = np.random.default_rng(2)
    started = rng.permutation(9 * 20).reshape(9, 20).astype(float)
    duration = normal(rng, (9, 20)) * np.exp(0.03 * np.sin(started / 6))
    runs, alone = np.full(9, 8), RunNoise.measured(GRID, duration, np.full((9, 20), np.nan))
    paired = RunNoise.measured(GRID, duration, started)
    assert (alone.are_paired, paired.are_paired) == (False, True)
    assert alone.detectable(runs) > 1.4 * paired.detectable(runs)
    steady = RunNoise.known(GRID, 0.01).detectable(runs)
    assert paired.detectable(runs) == pytest.approx(steady, rel=0.25)


def test_few_runs_of_a_context_show_the_noise_beside_a_drift():
    """The means of four runs drift themselves, and are no noise of the steps between runs."""
    variances = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        started = rng.permutation(9 * 4).reshape(9, 4).astype(float)
        duration = normal(rng, (9, 4)) * np.exp(0.02 * np.sin(started / 6))
        variances.append(RunNoise.measured(GRID, duration, started).variance.mean())
    assert np.mean(variances) == pytest.approx(0.01**2, rel=0.35)


def test_a_smaller_change_takes_more_time_and_prefixes_find_larger_ones(tmp_path):
    plans = [plan_comparison(LEVELS, change, noise=0.02) for change in (0.05, 0.02, 0.01, 0.002)]
    assert (np.diff([plan.seconds.sum() for plan in plans]) > 0).all()
    assert plans[-1].runs.min() > 2
    assert (np.diff(plans[1].detectable) < 0).all()
    plans[0].write(tmp_path / "p.csv")
    read = read_plan(tmp_path / "p.csv", list(LEVELS))
    np.testing.assert_array_equal(read.contexts, plans[0].contexts)
    np.testing.assert_array_equal(read.runs, plans[0].runs)


def measured(noise, runs=4):
    """Nine contexts whose times are 1 to 9 s."""
    rng = np.random.default_rng(0)
    contexts = np.array([*product((1.0, 2.0, 4.0), (1.0, 2.0, 3.0))])
    duration = np.arange(1.0, 10)[:, None] * rng.normal(1.0, noise, (9, runs))
    counts = np.where(np.arange(12)[:, None] < np.ceil(duration)[..., None, None], 1.0, np.nan)
    resources = {name: {"units": "1"} for name in ("ways", "clock")}
    return make_profiles(
        counts, duration, contexts, interval=1.0, resources=resources, counters={"work": {}}
    )


def test_noise_and_times_are_those_of_the_measured_runs():
    plans = [plan_comparison(measured(noise), 0.01) for noise in (0.01, 0.02)]
    assert [plan.notes for plan in plans] == [(), ()]
    assert 2.5 < plans[1].seconds.sum() / plans[0].seconds.sum() < 6  # four times as many runs
    ordered = plans[1].contexts @ [3.0, 1.0]  # rises with the times, up to the gap in the ways
    seconds = plans[1].seconds / (2 * plans[1].runs)
    np.testing.assert_allclose(seconds[np.argsort(ordered)], np.arange(1.0, 10), rtol=0.1)
    alone = plan_comparison(measured(0.01, runs=1), 0.01)
    assert alone.notes[0].startswith("the noise is not known, and taken as 2% of the execution")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"change": 0.0}, "change is 0.0; a number above 0"),
        ({"noise": 1.5}, "noise is 1.5; a number"),
        ({"least_runs": 1}, "least_runs is 1; a whole number from 2 to"),
        ({"most_contexts": 0}, "most_contexts is 0"),
        ({"change": 1e-4, "noise": 0.1}, "needs more than 1000 runs in each of 12 contexts"),
    ],
)
def test_what_cannot_be_planned_is_a_sentence(given, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        plan_comparison(LEVELS, **{"change": 0.01, **given})
