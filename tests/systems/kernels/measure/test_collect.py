"""Rows of sessions: a kernel has one each, a network one for every pass."""

import numpy as np
import pytest

from msbgen.sources.measure.actuators.actuator import Capability
from msbgen.sources.measure.actuators.program import ProgramInput
from msbgen.sources.measure.sweep.profiles import IncompleteError
from msbgen.systems.kernels.dataset import kernels_of
from msbgen.systems.kernels.dataset import validate as validate_kernels
from msbgen.systems.kernels.kinds import Point
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.collect import collect, workloads_of
from msbgen.systems.kernels.measure.plan import MeasurementPlan, NetworkPass
from msbgen.systems.kernels.measure.session import Session, write_session
from msbgen.systems.kernels.measure.trace import Trace
from msbgen.systems.kernels.workloads import validate_workload

A = Point.of("matmul", m=1, k=2, n=3, bias=1)
B = Point.of("relu", batch=1, channels=2, height=3, width=3, inplace=1)
CAMPAIGN = Campaign(networks=("squeezenet",), images=((1, 64),), threads=(1, 2), node="n7")
PLAN = MeasurementPlan(
    (NetworkPass("squeezenet", 1, 64),), (Trace({A: 3, B: 1}, {"sigmoid": 2}),), (A, B), 0
)
ABOUT = {"machine": "a machine, 2 cores"}


def record(slot, threads, run, outcome="done"):
    name = f"{slot:05d}-0.csv"
    common = {"event": "run", "slot": slot, "attempt": 0, "context": [threads], "run": run}
    return {**common, "recording": name, "outcome": outcome, "why": "exited with 1"}


@pytest.fixture
def gathered(tmp_path):
    records = [record(0, 2.0, 0), record(1, 1.0, 0), record(2, 1.0, 1), record(3, 2.0, 1, "failed")]
    for k, one in enumerate(records[:3]):
        session = Session(PLAN.digest, [1.0 + k, 4.0 + k], [[7.0 + k] * 2], "2.13", "2026-11-22")
        write_session(session, tmp_path / one["recording"])
    actuators = [ProgramInput("threads", Capability("number of threads", 1.0, 2.0, 1.0, ()))]
    return collect(CAMPAIGN, PLAN, CAMPAIGN.spec(), records, tmp_path, actuators, ABOUT)


def test_rows_have_their_kernel_configuration_and_session(gathered):
    validate_kernels(gathered)
    columns = [gathered[name].values.tolist() for name in ("kind", "threads", "run", "runtime")]
    assert list(zip(*columns)) == [
        ("matmul", 1, 0, 2),
        ("matmul", 1, 1, 3),
        ("matmul", 2, 0, 1),
        ("relu", 1, 0, 5),
        ("relu", 1, 1, 6),
        ("relu", 2, 0, 4),
        *[("network/squeezenet-1x64", 1, 0, 8)] * 2,
        *[("network/squeezenet-1x64", 1, 1, 9)] * 2,
        *[("network/squeezenet-1x64", 2, 0, 7)] * 2,
    ]
    assert set(gathered["node"].values) == {"n7"}
    assert gathered["threads"].attrs["levels"] == [1.0, 2.0]
    assert gathered["n"].values[:3].tolist() == [3, 3, 3]
    assert np.isnan(gathered["n"].values[3:]).all()
    assert len(kernels_of(gathered).kind) == 3


def test_provenance_is_told_without_names_of_machines_or_folders(gathered, tmp_path):
    message = {str(k): str(v) for k, v in gathered.attrs.items()}
    assert (message["torch"], message["date"]) == ("2.13", "2026-11-22")
    assert message["platform"] == "a machine, 2 cores"
    assert "governor" in message
    assert not any("/" in v for k, v in message.items() if k not in ("schema",))


def test_workloads_have_every_launch_and_what_is_none_of_ours_by_name():
    workloads = workloads_of(PLAN)
    validate_workload(workloads)
    assert workloads["kind"].values.tolist() == ["matmul", "relu", "sigmoid"]
    assert workloads["count"].values.tolist() == [3, 1, 2]
    assert set(workloads["workload"].values) == {"squeezenet-1x64"}
    assert np.isnan(workloads["m"].values).tolist() == [False, True, True]


def test_without_one_session_there_is_nothing_to_write(tmp_path):
    records = [record(0, 1.0, 0, "failed")]
    with pytest.raises(IncompleteError, match="no session succeeded"):
        collect(CAMPAIGN, PLAN, CAMPAIGN.spec(), records, tmp_path, [], ABOUT)
