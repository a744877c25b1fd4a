"""One task: the cheapest context within a deadline, beside all contexts looked at one by one."""

import numpy as np
import pytest

from choosing_contexts import bounds_on_grid
from msbgen.answers.choose.context import choose_context
from msbgen.answers.choose.costs import context_costs, parse_prices
from msbgen.core.choice import InfeasibleError
from msbgen.core.errors import ArgumentError

LEVELS = {"cache_ways": [2, 4, 6, 8], "bandwidth": [70, 140, 350], "frequency": [1.0, 1.5, 2.0]}
COSTS = "cache_ways=1,bandwidth=0.01/MBps,frequency=2/GHz"


@pytest.fixture
def bounds():
    return bounds_on_grid(np.random.default_rng(3), LEVELS, untested=0.1)


@pytest.mark.parametrize("quantile", [0.05, 0.3, 0.7, 1.0])
def test_the_choice_is_the_cheapest_of_those_that_keep_the_deadline(bounds, quantile):
    deadline = float(np.quantile(bounds["duration_bound"], quantile))
    found = choose_context(bounds, deadline, COSTS)
    best = np.inf
    for row in range(bounds.sizes["context"]):
        one = bounds.isel(context=row)
        cost = float(one["cache_ways"] + 0.01 * one["bandwidth"] + 2 * one["frequency"])
        if one["duration_bound"] <= deadline and not one["beyond"]:
            best = min(best, cost)
    assert found.cost == pytest.approx(best, rel=1e-12)
    assert found.bound <= deadline
    assert not bounds["beyond"].values[found.row]
    chosen = [float(bounds[name].values[found.row]) for name in LEVELS]
    assert found.context.tolist() == chosen


def test_the_front_holds_every_context_that_no_other_beats_in_cost_and_bound(bounds):
    found = choose_context(bounds, 10.0, COSTS)
    cost, bound = context_costs(bounds, COSTS), bounds["duration_bound"].values
    tested = np.flatnonzero(bounds["beyond"].values == 0)
    points = [(cost[row], bound[row]) for row in tested]
    wanted = [
        row
        for row, one in zip(tested, points)
        if not any(o[0] <= one[0] and o[1] <= one[1] and o != one for o in points)
    ]
    assert sorted(found.front.tolist()) == wanted
    assert (np.diff(bound[found.front]) > 0).all()


def test_one_level_more_changes_one_resource_to_its_next_level(bounds):
    found = choose_context(bounds, 2.0, COSTS, untested=True)
    for r, (name, levels) in enumerate(LEVELS.items()):
        higher = [level for level in levels if level > found.context[r]]
        (more,) = [each for each in found.more if each.resource == name] or [None]
        assert (more.level if more else None) == (min(higher) if higher else None)
        if more:
            context = found.context.copy()
            context[r] = more.level
            same = [np.isclose(bounds[n], x).astype(int) for n, x in zip(LEVELS, context)]
            assert more.bound == bounds["duration_bound"].values[np.prod(same, axis=0) == 1]


def test_a_deadline_that_cannot_be_kept_names_the_least_that_can(bounds):
    with pytest.raises(InfeasibleError, match=r"limit of time is 0\.001 s, which no context") as e:
        choose_context(bounds, 0.001, COSTS)
    least = float(str(e.value).partition("; ")[2].split(" ")[0])
    assert choose_context(bounds, least, COSTS).bound <= least
    with pytest.raises(InfeasibleError):
        choose_context(bounds, least * 0.998, COSTS)


def test_contexts_without_a_tested_bound_are_chosen_only_if_allowed(bounds):
    none = bounds.assign(beyond=1 + 0 * bounds["beyond"])
    with pytest.raises(InfeasibleError, match="no bound of 36 contexts was tested"):
        choose_context(none, 10.0, COSTS)
    assert choose_context(none, 10.0, COSTS, untested=True).cost == pytest.approx(4.7)


def test_words_have_prices_of_their_own(bounds):
    words = bounds.assign_coords(frequency=bounds["frequency"] * 2 - 1)
    words["frequency"].attrs = {**bounds["frequency"].attrs, "labels": ["slow", "mid", "fast"]}
    costs = context_costs(words, {"frequency.fast": 3, "frequency.mid": 1})
    assert costs.tolist() == [{1: 0, 2: 1, 3: 3}[x] for x in words["frequency"].values]
    with pytest.raises(ArgumentError, match=r"words; a price of each, as 'frequency\.slow=1,"):
        context_costs(words, "frequency=1")


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ("cache_ways=1,bandwidth=0.01/GBps", "per 'GBps', and its levels are in 'MB s-1'"),
        ("ways=1", "'ways' is of no resource; one of cache_ways, bandwidth, frequency is"),
        ("cache_ways", "each resource once with a price"),
        ("cache_ways=1,cache_ways=2", "each resource once"),
        ("cache_ways=-1", "each resource once with a price ≥ 0"),
        ({"cache_ways": -1.0}, "cost of 'cache_ways' is -1.0; a number ≥ 0"),
        ("cache_ways=0", "costs are all 0"),
        ("cache_ways=1e308", "price of 'cache_ways' is 1e[+]308; a number from 0 to 1e[+]100"),
        (np.ones(7), r"shape \(7,\); one for each of 36"),
    ],
)
def test_costs_of_another_form_are_refused(bounds, costs, message):
    with pytest.raises(ArgumentError, match=message):
        choose_context(bounds, 1.0, costs)


def test_units_have_several_spellings():
    assert parse_prices("a = 2e-3 / MB s-1") == {"a": (0.002, "MB s-1")}


def test_what_is_no_bounds_is_refused(bounds):
    with pytest.raises(ArgumentError, match="bounds are 'str' without duration_bound"):
        choose_context("bounds.nc", 1.0, COSTS)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="limit of time is nan; a positive number"):
        choose_context(bounds, float("nan"), COSTS)
