"""Limits on slowdowns, and the rate of false ones over several tasks."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from conftest import MEASURED, synthetic_task
from msbgen.answers.compare.comparison import compare_profiles
from msbgen.answers.compare.limits import (
    SlowerError,
    UndecidedError,
    check_limit,
    hold_false_discoveries,
)
from msbgen.answers.compare.ratio import Ratio
from msbgen.answers.compare.results import CompareSettings


@pytest.fixture(scope="module")
def one():
    settings = CompareSettings(permutations=99)
    datasets = (synthetic_task(MEASURED, seed=seed) for seed in (1, 2))
    return compare_profiles(*datasets, settings=settings)


def with_ratio(one, value, error=0.01):
    time = Ratio.of(np.log(value), error, 50.0, 0.95)
    return replace(one, time=time, verdict="slower" if time.low > 1 else "undecided")


def test_false_discoveries_are_held_over_tasks(one):
    barely, clearly = with_ratio(one, 1.0215), with_ratio(one, 1.1)
    assert barely.verdict == "slower"
    assert hold_false_discoveries([barely]) == [barely]
    held = hold_false_discoveries([barely, *[with_ratio(one, 1.0)] * 9])
    assert [c.verdict for c in held] == ["undecided"] * 10
    assert held[0].more_runs is None
    assert "slower if it is compared alone" in held[0].notes[-1]
    # with enough true discoveries beside it, it is one
    assert [c.verdict for c in hold_false_discoveries([barely, clearly, clearly])] == ["slower"] * 3


def test_the_rate_is_held_as_by_benjamini_and_hochberg(one):
    rng = np.random.default_rng(0)
    changed = 0
    for n in range(2, 12):
        several = [with_ratio(one, ratio) for ratio in rng.uniform(1.0, 1.04, n)]
        adjusted = false_discovery_control([task.time.p_value for task in several])
        held = [task.verdict for task in hold_false_discoveries(several)]
        wanted = [task.verdict if p <= 0.05 else "undecided" for task, p in zip(several, adjusted)]
        assert held == wanted
        changed += wanted != [task.verdict for task in several]
    assert 2 < changed < 10


@pytest.mark.parametrize("value", [1.0, 1.02, 1.035, 1.0405, 1.0415, 1.1])
def test_one_task_fails_where_its_lower_end_is_above_the_limit(one, value):
    task = with_ratio(one, value)
    if task.time.low > 1.02:
        with pytest.raises(SlowerError, match="slower by more than 2 %: gzip"):
            check_limit({"gzip": task}, 0.02, strict=False)
        return
    check_limit({"gzip": task}, 0.02, strict=False)
    if task.time.high > 1.02:
        with pytest.raises(UndecidedError, match="not decided, measure more runs: gzip"):
            check_limit({"gzip": task}, 0.02, strict=True)
    else:
        check_limit({"gzip": task}, 0.02, strict=True)


def test_without_a_limit_only_the_verdict_may_be_undecided(one):
    check_limit({"a": with_ratio(one, 1.5)}, None, strict=True)
    with pytest.raises(UndecidedError):
        check_limit({"a": with_ratio(one, 1.0)}, None, strict=True)
