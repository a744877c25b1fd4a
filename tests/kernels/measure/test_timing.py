"""Timing in rounds, with a clock that moves when it is told."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError
from msbgen.kernels.measure.timing import Effort, groups_of, time_in_turn


@dataclass
class Clock:
    now: float = 0.0
    calls: list = field(default_factory=list)

    def __call__(self):
        return self.now


@dataclass
class Fake:
    """A call that takes known times, the first ones longer; its refresh takes a minute."""

    clock: Clock
    name: str
    times: list

    def refresh(self):
        self.clock.now += 60.0
        self.clock.calls.append(("refresh", self.name))

    def call(self):
        self.clock.now += self.times.pop(0) if len(self.times) > 1 else self.times[0]
        self.clock.calls.append(("call", self.name))


def test_warm_ups_and_refreshes_do_not_count_and_rounds_go_over_all():
    clock = Clock()
    one, two = Fake(clock, "a", [9.0, 8.0, 0.25]), Fake(clock, "b", [0.5])
    effort = Effort(repetitions=4, warmups=2, patience=1e9)
    a, b = time_in_turn([one, two], effort, clock, np.random.default_rng(0))
    np.testing.assert_allclose(a, [0.25] * 4)
    np.testing.assert_allclose(b, [0.5] * 4)
    called = [name for what, name in clock.calls if what == "call"]
    for k in range(6):  # every round has both, in some order
        assert sorted(called[2 * k : 2 * k + 2]) == ["a", "b"]
    assert called != ["a", "b"] * 6
    for before, after in zip(clock.calls[::2], clock.calls[1::2]):
        assert (before, after) == (("refresh", after[1]), ("call", before[1]))


def test_a_slow_call_is_left_alone_after_three_timings():
    clock = Clock()
    slow, fast = Fake(clock, "slow", [2.0]), Fake(clock, "fast", [0.01])
    effort = Effort(repetitions=10, warmups=1, patience=1.0)
    times = time_in_turn([slow, fast], effort, clock, np.random.default_rng(0))
    assert [len(t) for t in times] == [3, 10]


def test_a_burst_repeats_a_call_until_the_time_has_passed():
    clock = Clock()
    waits = [1 / 1024, 1 / 1024, 6 / 1024] * 40  # under a quota: now and then
    stopped = Fake(clock, "a", waits)
    effort = Effort(repetitions=2, warmups=0, patience=10.0, burst=24 / 1024)
    (times,) = time_in_turn([stopped], effort, clock, np.random.default_rng(0))
    np.testing.assert_allclose(times, 8 / 3 / 1024)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.floats(1, 150), st.integers(1, 7))
def test_groups_hold_everything_once_and_no_more_than_they_may(sizes, most, many):
    groups = list(groups_of(sizes, most, many, np.random.default_rng(0)))
    assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
    for group in groups:
        assert 1 <= len(group) <= many
        assert len(group) == 1 or sum(sizes[i] for i in group) <= most


@pytest.mark.parametrize("given", [{"repetitions": 0}, {"warmups": -1}, {"patience": 0.0}])
def test_no_effort_is_refused_by_name(given):
    with pytest.raises(ArgumentError, match=next(iter(given))):
        Effort(**given)
