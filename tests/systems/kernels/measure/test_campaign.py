"""Specs: every key has a default, and what makes no sense is a sentence."""

import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.kernels.measure.architectures import ARCHITECTURES
from msbgen.systems.kernels.measure.campaign import Campaign, read_campaign
from msbgen.systems.kernels.measure.timing import Effort, groups_of, time_in_turn


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "spec.toml"
        path.write_text(text)
        return read_campaign(path)

    return read


def test_an_empty_file_is_every_default(read, tmp_path):
    given = read("")
    assert given.networks == tuple(ARCHITECTURES)
    assert given == Campaign(folder=str(tmp_path))


def test_what_is_given_is_taken(read):
    given = read(
        'networks = ["resnet18", "mine:build"]\nimages = [[2, 64]]\nrandom = 0\nthreads = [2, 1]\n'
        'quotas = [50, 100.0]\nsessions = 3\npatience = "500ms"\nseed = 4\ncores = [0, 1]\n'
    )
    assert given.networks == ("resnet18", "mine:build")
    assert (given.images, given.random, given.threads) == (((2, 64),), 0.0, (1, 2))
    assert (given.quotas, given.sessions, given.patience, given.seed) == ((50, 100), 3, 0.5, 4)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('networks = ["resnet81"]', "'resnet81' is not known, nor 'module:function'; did you mean"),
        (
            "images = [[1, 16]]",
            "each a list of a whole number from 1 to 4096 and",
        ),
        (
            "images = [[1, 64], [1, 64]]",
            "'images' is [[1, 64], [1, 64]]; a list of one or more",
        ),
        ("threads = [0]", "'threads' is [0]; a list of one or more distinct whole"),
        ("quotas = [50, 50]", "'quotas' is [50, 50]; a list of distinct numbers"),
        ("patience = 0", "'patience' is 0; a time of 0.001 s or more"),
        ("netwroks = []", "'netwroks' is no known key; did you mean 'networks'?"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(read, line, sentence):
    with pytest.raises(ProfileError) as caught:
        read(line)
    assert str(caught.value).startswith("spec.toml: ")
    assert sentence in str(caught.value)


def test_a_session_gets_exactly_what_was_read(read):
    given = read('networks = ["vgg11"]\nquotas = [50]\nthreads = [1, 2]\n')
    spec = given.spec()
    assert spec.command[:3] == (sys.executable, "-m", "msbgen.systems.kernels.measure.session")
    assert Campaign.from_json(spec.command[3]) == given
    assert [(r.name, r.by, r.levels) for r in spec.resources] == [
        ("threads", "threads", (1.0, 2.0)),
        ("cpu_quota", "quota", (50.0,)),
    ]


def test_another_campaign_is_another_sweep(read):
    one, other = read("").spec(), read("repetitions = 16").spec()
    assert one.digest([[1.0]], [1]) != other.digest([[1.0]], [1])
    assert one.digest([[1.0]], [1]) == read("").spec().digest([[1.0]], [1])


def test_bursts_are_for_quotas_that_stop_something():
    campaign = Campaign()
    assert campaign.burst(1, None) == campaign.burst(2, 200) == campaign.burst(1, 150) == 0.0
    assert campaign.burst(2, 100) == campaign.burst(1, 50) > 0


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
