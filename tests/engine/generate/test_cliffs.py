"""Gaps between levels that may hide a sudden change of a count."""

import numpy as np
import pytest

from conftest import cliff_task
from msbgen.engine.generate.cliffs import find_cliffs
from msbgen.engine.generate.fit import fit_profiles
from msbgen.engine.generate.progress_distribution import ProgressSettings

WAYS, CLOCKS = (2.0, 6.0, 8.0, 10.0, 12.0), (1.0, 1.4, 2.0)
CONTEXTS = np.array([(ways, clock) for ways in WAYS for clock in CLOCKS])


@pytest.mark.parametrize(
    ("misses", "found"),
    [
        (lambda ways: np.where(ways > 4, 1.0, 10.0), [(2.0, 6.0)]),
        (lambda ways: np.where(ways > 9, 1.0, 10.0), [(8.0, 10.0)]),
        (lambda ways: np.where(ways > 4, 1.0, 1.1), []),  # a small change
        (lambda ways: np.exp(-np.interp(ways, WAYS, (0.0, 1.0, 1.6, 2.0, 2.3))), []),
    ],
)
def test_a_change_far_larger_than_those_beside_is_found(misses, found):
    def totals(contexts):
        ways, clock = contexts.T
        return np.stack([np.where(clock > 1.2, 1.0, 9.0), misses(ways)], axis=1)

    cliffs = find_cliffs(CONTEXTS, totals, (0, 1))
    assert [(cliff.lower, cliff.upper) for cliff in cliffs] == found
    for cliff in cliffs:
        assert (cliff.resource, cliff.quantity) == (0, 1)
        assert cliff.ratio == pytest.approx(10.0)
        between = np.array([[(cliff.lower + cliff.upper) / 2, 1.4]])
        assert cliff.contains(np.vstack([between, CONTEXTS])).tolist() == [True] + [False] * 15


def test_equal_levels_are_one_and_a_resource_may_be_alone():
    clocks = np.array([1.0, 1.0 + 1e-9, 1.4, 1.8, 2.2, 2.2 - 1e-9])[:, None]

    def totals(contexts):
        clock = contexts[:, 0]
        return np.stack([1 / clock, np.exp(-clock)], axis=1)

    assert find_cliffs(clocks, totals, (0,)) == ()
    (cliff,) = find_cliffs(clocks, lambda at: np.hstack([at, np.where(at > 1.6, 9.0, 1.0)]), (0,))
    assert cliff.lower == 1.4
    assert not cliff.contains(np.array([[1.4 + 1e-9], [1.8 - 1e-9]])).any()


def test_two_levels_show_no_cliff():
    few = CONTEXTS[np.isin(CONTEXTS[:, 0], (2.0, 6.0))]
    assert find_cliffs(few, lambda contexts: np.exp(-contexts), (0, 1)) == ()


def test_generated_contexts_between_such_levels_are_marked():
    model = fit_profiles(cliff_task(), ProgressSettings(bins=20, segments=5, deconvolutions=1))
    wanted = [[4.0, 1.4], [9.0, 1.4], [2.0, 1.0]]
    generated = model.generate(wanted, kind="mean")
    assert generated["cliff"].values.tolist() == [1, 0, 0]
    (sentence,) = model.describe_cliffs()
    assert "cache_misses changes by a factor of 1" in sentence
    assert "between cache_ways 2 and 6, and it is not known where" in sentence
    plain = model.generate(wanted[1:], kind="mean")
    assert not plain["cliff"].any()
