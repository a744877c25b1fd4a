"""Several tasks: the cheapest allotment equals exhaustive search."""

import itertools

import numpy as np
import pytest

from choosing_contexts import bounds_on_grid
from msbgen.answers.choose.allotment import cheapest_rows, non_dominated, share_resources
from msbgen.answers.choose.context import choose_context
from msbgen.answers.choose.costs import context_costs
from msbgen.core.choice import InfeasibleError
from msbgen.core.errors import ArgumentError

COSTS = "cache_ways=1,bandwidth=0.01/MBps,frequency=3"


def small_case(rng):
    """Two or three tasks on small grids, with deadlines and totals that some can keep."""
    tasks, deadlines = [], []
    for number in range(int(rng.integers(2, 4))):
        levels = {
            "cache_ways": np.sort(rng.choice(np.arange(2, 9), 3, replace=False)),
            "bandwidth": 70.0 * np.sort(rng.choice(np.arange(1, 6), 2, replace=False)),
            "frequency": [1.2, 1.9],
        }
        tasks.append(bounds_on_grid(rng, levels, f"task {number}"))
        deadlines.append(float(np.quantile(tasks[-1]["duration_bound"], rng.uniform(0.2, 1))))
    total = {"cache_ways": float(rng.integers(4, 18)), "bandwidth": 70.0 * rng.integers(2, 12)}
    return tasks, deadlines, total, rng.uniform(0.5, 2, len(tasks)).tolist()


def exhaustive(tasks, deadlines, total, weights):
    """Least cost of all joint choices within the totals; infinite if there is none."""
    least = np.inf
    kept = [np.flatnonzero(t["duration_bound"].values <= d) for t, d in zip(tasks, deadlines)]
    costs = [w * context_costs(t, COSTS) for t, w in zip(tasks, weights)]
    for rows in itertools.product(*kept):
        if all(
            sum(float(t[name].values[row]) for t, row in zip(tasks, rows)) <= most + 1e-6
            for name, most in total.items()
        ):
            least = min(least, sum(cost[row] for cost, row in zip(costs, rows)))
    return least


@pytest.mark.parametrize("seed", range(12))
def test_the_allotment_is_the_cheapest_of_all(seed):
    tasks, deadlines, total, weights = small_case(np.random.default_rng(seed))
    wanted = exhaustive(tasks, deadlines, total, weights)
    if wanted == np.inf:
        with pytest.raises(InfeasibleError, match="are wanted"):
            share_resources(tasks, deadlines, COSTS, total, weights=weights)
        return
    found = share_resources(tasks, deadlines, COSTS, total, weights=weights)
    assert found.cost == pytest.approx(wanted, rel=1e-12)
    for name, most in total.items():
        assert found.used[name] <= most
        at = list(tasks[0].coords).index(name)
        assert found.used[name] == sum(choice.context[at] for choice in found.choices)
    assert all(choice.bound <= end for choice, end in zip(found.choices, deadlines))
    for more in found.more:
        larger = {**total, more.resource: more.total}
        assert more.cost == pytest.approx(exhaustive(tasks, deadlines, larger, weights), rel=1e-12)


def test_the_factor_of_deadlines_that_cannot_be_kept_is_the_least_that_can():
    refused = 0
    for seed in range(40):
        tasks, deadlines, total, _ = small_case(np.random.default_rng(seed))
        total["cache_ways"] = max(total["cache_ways"], 8.0)
        try:
            share_resources(tasks, deadlines, COSTS, total)
        except InfeasibleError as error:
            if "times as long" not in str(error):
                continue
            refused += 1
            factor = float(str(error).partition(" times")[0].rpartition(" ")[2])
            longer = [factor * (1 + 1e-9) * end for end in deadlines]
            share_resources(tasks, longer, COSTS, total)
            shorter = [factor * (1 - 2e-4) * end for end in deadlines]
            with pytest.raises(InfeasibleError):
                share_resources(tasks, shorter, COSTS, total)
    assert refused >= 3


def test_with_enough_of_everything_each_task_gets_its_own_choice():
    tasks, deadlines, _, _ = small_case(np.random.default_rng(1))
    found = share_resources(tasks, deadlines, COSTS, {"cache_ways": 99, "bandwidth": 9999})
    alone = [choose_context(t, d, COSTS) for t, d in zip(tasks, deadlines)]
    assert [c.row for c in found.choices] == [c.row for c in alone]
    assert found.cost == pytest.approx(sum(c.cost for c in alone))


def test_a_partial_choice_is_kept_unless_another_is_as_good_in_all():
    rng = np.random.default_rng(5)
    cost, used = rng.integers(0, 9, 700).astype(float), rng.integers(0, 9, (700, 3)) / 9.0
    found = non_dominated(cost, used)
    points = np.c_[cost, used]
    kept = {tuple(points[row]) for row in found}
    assert len(kept) == len(found)
    for point in {tuple(p) for p in points}:
        beaten = any(all(a <= b for a, b in zip(o, point)) for o in kept if o != point)
        assert beaten != (point in kept)


def test_sums_of_decimal_fractions_reach_their_total():
    cost, use = np.array([1.0]), np.array([[0.1]])
    assert cheapest_rows([cost] * 3, [use] * 3, np.array([0.3])) == [0, 0, 0]
    assert cheapest_rows([cost] * 3, [use] * 3, np.array([0.299])) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"deadlines": [1.0]}, "2 tasks, 1 deadlines"),
        ({"total": {}}, "totals are empty"),
        ({"total": {"ways": 3}}, "total of 'ways' is of no resource of task 0; one of cache_ways"),
        ({"total": {"cache_ways": 0}}, "totals hold 0; positive"),
        ({"weights": [1, -1]}, "weights hold -1"),
    ],
)
def test_arguments_of_another_form_are_refused(change, message):
    rng = np.random.default_rng(0)
    levels = {"cache_ways": [2, 4], "bandwidth": [70], "frequency": [1, 2]}
    tasks = [bounds_on_grid(rng, levels, f"task {i}") for i in range(2)]
    given = {"deadlines": [9.0, 9.0], "total": {"cache_ways": 8}, "weights": None, **change}
    with pytest.raises(ArgumentError, match=message):
        share_resources(tasks, given["deadlines"], COSTS, given["total"], weights=given["weights"])
