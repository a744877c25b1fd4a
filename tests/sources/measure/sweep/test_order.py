"""Which runs, in which order."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ProfileError
from msbgen.sources.measure.sweep.order import run_order
from msbgen.sources.measure.sweep.spec import ResourceSpec
from sweeping import spec

TWO = (ResourceSpec("a", "quota", (10.0, 50.0, 100.0)), ResourceSpec("b", "ways", (1.0, 2.0)))


@given(st.integers(0, 2**31), st.integers(1, 5))
def test_every_run_of_every_context_once_in_an_order_of_the_seed(seed, runs):
    order = run_order(spec(resources=TWO, seed=seed, runs=runs))
    every = {(slot.context, slot.run) for slot in order.slots}
    assert len(order.slots) == len(every) == 6 * runs
    assert [slot.number for slot in order.slots] == list(range(6 * runs))
    assert order.slots == run_order(spec(resources=TWO, seed=seed, runs=runs)).slots


def test_orders_of_other_seeds_differ_and_so_do_their_digests():
    orders = [run_order(spec(resources=TWO, seed=seed)) for seed in range(8)]
    assert len({order.slots for order in orders}) == 8
    assert len({order.digest for order in orders}) == 8


def test_contexts_are_not_measured_one_after_another():
    """Drift of the machine is no effect of a context: neighbours in time are of all contexts."""
    slots = run_order(spec(resources=TWO, runs=50)).slots
    same = np.mean([a.context == b.context for a, b in pairwise(slots)])
    assert same < 0.3  # a sixth, by chance


def test_a_plan_says_contexts_and_runs(tmp_path):
    path = tmp_path / "plan.csv"
    path.write_text("b,runs,a,seconds\n2,3,50,1\n1,1,100,1\n")
    order = run_order(spec(resources=TWO, contexts=str(path)))
    assert order.contexts.tolist() == [[50, 2], [100, 1]]
    assert order.runs.tolist() == [3, 1]
    assert sorted((s.context, s.run) for s in order.slots) == [
        ((50, 2), 0), ((50, 2), 1), ((50, 2), 2), ((100, 1), 0),
    ]  # fmt: skip


def test_grids_and_what_they_are_not():
    assert run_order(spec(resources=TWO, contexts="grid:2x1")).contexts.tolist() == [
        [10, 2], [100, 2],
    ]  # fmt: skip
    for bad in ("grid:2", "grid:9x1", "grid:x"):
        with pytest.raises(ProfileError, match="contexts: "):
            run_order(spec(resources=TWO, contexts=bad))


def test_levels_that_the_spec_does_not_list_are_refused(tmp_path):
    path = tmp_path / "plan.csv"
    path.write_text("a,b\n50,1\n60,1\n")
    with pytest.raises(ProfileError, match=r"a is 60, which is none of its levels \(10, 50, 100\)"):
        run_order(spec(resources=TWO, contexts=str(path)))


FIVE = ("instructions", "cycles", "l2-hits", "l2-misses", "branches")


def test_runs_of_a_context_take_turns_in_groups():
    order = run_order(spec(resources=TWO, runs=4, events=FIVE, at_once=3))
    groups = ("instructions", "cycles", "branches"), ("instructions", "l2-hits", "l2-misses")
    assert order.groups == (groups,) * 6
    assert all(slot.events == groups[slot.run % 2] for slot in order.slots)
    with pytest.raises(ProfileError, match="at_once is 1; 2 or more is wanted"):
        run_order(spec(resources=TWO, events=FIVE, at_once=1))


def test_a_plan_brings_its_own_groups_by_either_name(tmp_path):
    path = tmp_path / "plan.csv"
    path.write_text(
        "a,b,runs,counters\n50,2,3,instructions l2_hits;l2-misses instructions\n10,1,2,\n"
    )
    planned = spec(resources=TWO, contexts=str(path), events=FIVE)
    first = ("instructions", "l2-hits"), ("l2-misses", "instructions")
    assert run_order(planned).groups == (first, ())
    events = {(slot.context, slot.run): slot.events for slot in run_order(planned).slots}
    assert [events[(50.0, 2.0), run] for run in range(3)] == [*first, first[0]]
    assert events[(10.0, 1.0), 1] == ()
    both = run_order(replace(planned, at_once=3))
    assert both.groups[0] == first
    assert len(both.groups[1]) == 2
    assert len({run_order(planned).digest, both.digest}) == 2


@pytest.mark.parametrize(
    ("counters", "sentence"),
    [
        ("instructions l3", "line 2 counts 'l3', which is no event of the spec; one of instr"),
        ("cycles;instructions l2-hits", "line 2 counts cycles without the progress counter"),
    ],
)
def test_groups_that_cannot_be_measured_are_refused(tmp_path, counters, sentence):
    path = tmp_path / "plan.csv"
    path.write_text(f"a,b,counters\n50,2,{counters}\n")
    with pytest.raises(ProfileError, match=re.escape(sentence)):
        run_order(spec(resources=TWO, contexts=str(path), events=FIVE))


def test_time_is_in_every_group(tmp_path):
    path = tmp_path / "plan.csv"
    path.write_text("a,b,counters\n50,2,cycles;l2-hits\n")
    one = spec(resources=TWO, contexts=str(path), events=FIVE, progress="time")
    assert run_order(one).groups == ((("cycles",), ("l2-hits",)),)
