"""Counters in as few groups as hold them, with the clock in each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.data.groups import clock_among, describe_groups, group_counters


@given(st.integers(1, 12), st.integers(2, 6), st.integers(1, 4))
def test_every_counter_is_in_one_group_and_the_clock_in_all(n, at_once, families):
    counters = [f"f{i % families}_{i}" for i in range(n)]
    groups = group_counters(["clock", *counters], at_once, clock="clock")
    assert all(group[0] == "clock" and len(group) <= at_once for group in groups)
    assert sorted(name for group in groups for name in group[1:]) == sorted(counters)
    assert len(groups) == -(-n // (at_once - 1))


def test_counters_of_one_stem_stay_together():
    counters = ["l1_hits", "l2_hits", "l1_misses", "l2_misses"]
    assert group_counters(counters, 3, clock="instructions") == (
        ("instructions", "l1_hits", "l1_misses"),
        ("instructions", "l2_hits", "l2_misses"),
    )
    assert group_counters(counters, 2) == (("l1_hits", "l1_misses"), ("l2_hits", "l2_misses"))


def test_twelve_counters_four_at_a_time_are_told():
    groups = group_counters([f"c{i}" for i in range(12)], 4, clock="instructions")
    assert len(groups) == 4
    assert describe_groups(groups)[0].startswith("run 0, 4, … of each context: instructions, c")


@pytest.mark.parametrize(
    ("counters", "at_once", "sentence"),
    [
        ([], 4, "distinct ones are wanted"),
        (["a", "a"], 4, "distinct ones are wanted"),
        (["a"], 1, "at_once is 1; 2 or more is wanted, as 'clock' is in every run"),
    ],
)
def test_what_makes_no_groups_is_refused(counters, at_once, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        group_counters(counters, at_once, clock="clock")


@pytest.mark.parametrize(
    ("counters", "wanted", "clock"),
    [
        (["cycles", "task-clock", "instructions:u"], None, "instructions:u"),
        (["page-faults", "task-clock"], None, "task-clock"),
        (["page-faults"], None, None),
        (["instructions", "cycles"], "time", None),
        (["instructions", "task-clock"], "task_clock", "task-clock"),
        (["cycles"], "instructions", "instructions"),
    ],
)
def test_the_clock_is_what_was_wanted_or_the_usual_one(counters, wanted, clock):
    assert clock_among(counters, wanted) == clock
