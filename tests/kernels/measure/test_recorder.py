"""Environment, recordings and requirements of sessions."""

import json

import pytest

from counted_networks import needs_torch
from msbgen.kernels.measure import recorder
from msbgen.kernels.measure.campaign import Campaign
from msbgen.kernels.measure.plan import MeasurementPlan, NetworkPass
from msbgen.kernels.measure.recorder import SessionRecorder
from msbgen.kernels.measure.session import CONTEXT, RECORDING, Session, write_session
from msbgen.kernels.measure.trace import Trace
from msbgen.measure.sweep.process import ProcessResult

PLAN = MeasurementPlan((NetworkPass("squeezenet", 1, 64),), (Trace({}, {}),), (), 0)


@pytest.fixture
def records():
    return SessionRecorder(Campaign(threads=(1,), quotas=(50.0,)).spec(), PLAN)


def test_the_environment_has_the_context_and_the_path(records, tmp_path):
    environment = records.environment(tmp_path / "r.csv", (1.0, 50.0))
    assert environment[RECORDING] == str(tmp_path / "r.csv")
    assert json.loads(environment[CONTEXT]) == {"threads": 1.0, "cpu_quota": 50.0}


def test_only_a_recording_of_the_plan_is_kept(records, tmp_path):
    ended = ProcessResult(0, 1.0, 1.0, True)
    assert "run the session again" in records.rejection_reason(tmp_path / "r.csv", ended)
    write_session(Session(PLAN.digest, [], [[0.25]], "2", "2026-01-01"), tmp_path / "r.csv")
    assert records.rejection_reason(tmp_path / "r.csv", ended) is None


def test_missing_torch_is_a_problem(records, tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "torch_version", lambda: None)
    (lack,) = records.problems(tmp_path, 3)
    assert lack.startswith("torch is not installed; 'pip install msbgen[kernels]'")


@needs_torch
def test_with_torch_there_is_no_problem(records, tmp_path):
    assert list(records.problems(tmp_path, 3)) == []
    assert records.version()


def test_a_dry_run_says_what_a_session_times(records):
    assert list(records.describe([0], False, ())) == [
        "each run is a session: 0 kernels of networks, 0 drawn at random, 1 networks with their "
        "images"
    ]
