"""Plans for programs that will share the cache and the bandwidth."""

import numpy as np
import pytest

from msbgen.answers.plan.sharing import NO_LIMIT, plan_for_sharing, sharing_levels
from msbgen.core.errors import ArgumentError

LEVELS = {"cache_ways": range(1, 21), "bandwidth": [70, 140, 1400], "frequency": [1.2, 2.0]}


def test_few_ways_and_no_limit_are_among_the_levels():
    found = sharing_levels(LEVELS)
    assert found["cache_ways"].tolist() == [1, 2, 3, 4, 7, 12, 20]
    assert found["bandwidth"].tolist() == [70, 140, NO_LIMIT]
    assert found["frequency"].tolist() == [1.2, 2.0]
    few = sharing_levels({"cache_ways": [2, 4], "bandwidth": [NO_LIMIT]})
    assert [few[name].tolist() for name in few] == [[2, 4], [NO_LIMIT]]


@pytest.mark.parametrize("bandwidths", [[70, 140, 1400], [1e6]])
def test_a_plan_measures_no_limit_often_and_every_number_of_ways(bandwidths):
    levels = {**LEVELS, "bandwidth": bandwidths}
    contexts = plan_for_sharing(levels, 20 if len(bandwidths) > 1 else 14).contexts
    assert len(np.unique(contexts, axis=0)) == len(contexts)
    assert np.mean(contexts[:, 1] == NO_LIMIT) >= 0.3
    assert len(np.unique(contexts[:, 0])) >= 6
    for column, name in enumerate(levels):
        assert set(contexts[:, column]) <= set(sharing_levels(levels)[name])


@pytest.mark.parametrize(("budget", "unlimited"), [(12, 5), (14, 7)])
def test_the_documented_budgets_measure_every_number_of_ways(budget, unlimited):
    levels = {"cache_ways": range(2, 21), "bandwidth": range(70, 1401, 70), "frequency": [2.0]}
    contexts = plan_for_sharing(levels, budget).contexts
    assert set(contexts[:, 0]) == set(sharing_levels(levels)["cache_ways"])
    assert np.sum(contexts[:, 1] == NO_LIMIT) >= unlimited


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"cache_ways": [2, 4]}, "levels have no 'bandwidth'; those of 'cache_ways' and"),
        ({"bandwidth": [70]}, "levels have no 'cache_ways'"),
        ({"cache_ways": [4], "bandwidth": [70]}, "'cache_ways' are .4.0.; two or more numbers"),
        ({"cache_ways": [0, 4], "bandwidth": [70]}, "numbers above 0 are wanted"),
        ({"cache_ways": [2, 4], "bandwidth": [0, 70]}, "'bandwidth' are .* above 0 are wanted"),
    ],
)
def test_levels_without_shared_resources_are_refused(levels, message):
    with pytest.raises(ArgumentError, match=message):
        plan_for_sharing(levels, 5)
