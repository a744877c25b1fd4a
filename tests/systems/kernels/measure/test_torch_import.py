"""torch is asked for when it is needed, with a sentence where it is missing."""

import json
import subprocess
import sys

import pytest

from msbgen.core.errors import ArgumentError
from msbgen.sources.measure.sweep.process import ProcessResult
from msbgen.systems.kernels.measure import recorder, torch_import
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.plan import MeasurementPlan, NetworkPass
from msbgen.systems.kernels.measure.recorder import SessionRecorder
from msbgen.systems.kernels.measure.session import CONTEXT, RECORDING, Session, write_session
from msbgen.systems.kernels.measure.trace import Trace


def test_without_torch_the_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ArgumentError, match=r"torch is not installed; 'pip install msbgen\[kernels\]"
    ):
        torch_import.load_torch()


def test_a_version_is_told_without_an_import(monkeypatch):
    def missing(name):
        raise torch_import.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(torch_import.metadata, "version", missing)
    assert torch_import.torch_version() is None


def test_reading_what_to_measure_does_not_import_it():
    code = (
        "import sys, msbgen.systems.kernels.measure.run_campaign;"
        "import msbgen.systems.kernels.measure.session;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


def test_a_dry_run_says_what_a_session_times(records):
    assert list(records.describe([0], False, ())) == [
        "each run is a session: 0 kernels of networks, 0 drawn at random, 1 networks with their "
        "images"
    ]
