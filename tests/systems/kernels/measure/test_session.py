"""A session times everything of its plan, and its recording is of that plan or refused."""

import json

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.plan import make_plan
from msbgen.systems.kernels.measure.session import read_session, run_session, write_session
from needing import needs_torch

pytestmark = needs_torch
SMALL = Campaign(
    networks=("squeezenet",), images=((1, 32),), random=0.0, repetitions=3, warmups=1, passes=2
)


class Clock:
    """Moves by a millisecond whenever it is read."""

    now = 0.0

    def __call__(self):
        self.now += 1 / 1024
        return self.now


@pytest.fixture(scope="module")
def plan():
    return make_plan(SMALL)


@pytest.fixture(scope="module")
def session(plan):
    return run_session(SMALL, plan, {"threads": 1}, Clock(), 5)


def test_every_kernel_and_network_is_timed_as_often_as_asked_for(session, plan):
    np.testing.assert_allclose(session.kernels, [1 / 1024] * len(plan.points))
    assert session.passes == [[1 / 1024, 1 / 1024]]
    assert session.plan == plan.digest
    assert session.date.count("-") == 2


def test_under_a_quota_a_timing_is_the_mean_of_calls_over_periods(plan):
    session = run_session(SMALL, plan, {"threads": 1, "cpu_quota": 50.0}, Clock(), 5)
    np.testing.assert_allclose(session.kernels, [1 / 1024] * len(plan.points))
    assert session.passes == [[1 / 1024, 1 / 1024]]


def test_a_recording_is_read_as_it_was_written(session, plan, tmp_path):
    write_session(session, tmp_path / "s.csv")
    assert read_session(tmp_path / "s.csv", plan) == session


@pytest.mark.parametrize(
    "spoil",
    [
        lambda s: s | {"plan": "another"},
        lambda s: s | {"kernels": s["kernels"][1:]},
        lambda s: s | {"kernels": [0.0, *s["kernels"][1:]]},
        lambda s: s | {"kernels": [None, *s["kernels"][1:]]},
        lambda s: s | {"passes": [[]]},
        lambda s: s | {"more": 1},
        lambda s: [s],
    ],
)
def test_a_recording_of_another_plan_or_without_times_is_refused(session, plan, tmp_path, spoil):
    path = tmp_path / "s.csv"
    with pytest.raises(ProfileError, match=r"s\.csv: is no recording of this plan"):
        read_session(path, plan)
    for text in (json.dumps(spoil(vars(session))), json.dumps(vars(session))[:50]):
        path.write_text(text)
        with pytest.raises(ProfileError, match=r"s\.csv: is no recording of this plan"):
            read_session(path, plan)
