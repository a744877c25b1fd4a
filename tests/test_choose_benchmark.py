"""The study of kept deadlines, on small made-up data."""

import bench_choose
import choose_study
import numpy as np
import pytest
from tables import stored

from choosing_contexts import bounds_on_grid
from conftest import small_trace
from msbgen.sources.platform import platform_contexts


def test_fresh_runs_of_the_choice_are_counted_against_its_deadline():
    every = platform_contexts("grid:3x2x2")
    trace = small_trace()
    seconds = choose_study.replayed_durations(trace, every, 20, seed=3)
    assert seconds.shape == (len(every), 20)
    bounds = bounds_on_grid(np.random.default_rng(0), {"cache_ways": np.arange(len(every)) + 1.0})
    slow = bounds.assign(duration_bound=("context", np.full(len(every), 10.0)))
    middle = float(np.median(seconds[0]))
    found = choose_study.outcome(trace, slow * (middle / 10.0), every, middle, "cache_ways=1")
    assert found["row"] == 0
    assert 0.2 < found["late"] < 0.8
    assert choose_study.outcome(trace, slow, every, middle, "cache_ways=1") is None


def test_a_summary_has_late_runs_costs_and_refusals():
    def row(late, cost, feasible=True):
        chosen = None if late is None else {"late": late, "cost": cost}
        return {"grid": "27 × 3", "rate": 0.1, "oracle": 2.0, "feasible": feasible,
                "bound": chosen, "plain": chosen, "margin": {"late": 0.0, "cost": 2.0}}  # fmt: skip

    rows = [row(0.1, 3.0), row(0.3, 2.0), row(None, 0), row(None, 0), row(0.9, 9.0, False)]
    more = [{**r, "rate": 0.05} for r in rows]
    found = choose_study.summary([*rows, *more])["methods"]
    assert found["27 × 3, 0.1, bound"] == {
        "late": pytest.approx(0.2), "worst": 0.3, "cost": pytest.approx(0.25), "refused": 0.5,
    }  # fmt: skip
    assert found["27 × 3, 0.05, margin"]["refused"] == 0


def test_the_stored_results_are_of_all_programs_and_of_a_thousand_cases():
    assert set(stored("choose")["programs"]) == set(choose_study.PROGRAMS)
    exhaustive = stored("choose-exhaustive")["exhaustive"]
    assert exhaustive["agree"] == exhaustive["cases"] == 1000
    assert 20 < exhaustive["infeasible"] < 600


def test_the_comparison_with_exhaustive_search_finds_a_wrong_allotment(monkeypatch):
    right = bench_choose.compare(6, np.random.default_rng(1))
    assert right["agree"] == 6
    wrong = bench_choose.least_cost
    monkeypatch.setattr(bench_choose, "least_cost", lambda *given: 0.9 * wrong(*given))
    assert bench_choose.compare(6, np.random.default_rng(1))["agree"] == right["infeasible"]
