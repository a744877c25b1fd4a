"""A file of the runs that were kept."""

import numpy as np
import pytest

from fake_kernel import FakeKernel
from msbgen.data.check import validate_profiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.profiles import (
    IncompleteError,
    describe_missing_runs,
    kept_runs,
    profiles_of_sweep,
    resource_labels,
)  # fmt: skip
from msbgen.sources.measure.sweep.spec import ResourceSpec
from sweeping import spec

SHARE = ResourceSpec("cpu_share", "quota", (25.0, 50.0, 100.0))
ONE = spec(resources=(SHARE,), events=("task-clock", "page-faults"), interval=0.01)
LABELS = {"cpu_share": {"units": "percent", "levels": [25.0, 50.0, 100.0], "mechanism": "m"}}
ABOUT = {"machine": "a machine", "perf": "6.1"}


def record(slot, context, run, outcome="done", attempt=0, achieved=None, **more):
    why = {} if outcome == "done" else {"why": "exited with 7"}
    return {
        "event": "run", "slot": slot, "context": [context], "run": run, "outcome": outcome,
        "attempt": attempt, "recording": f"{slot}-{attempt}.csv", "wall": 0.045, "cpu": 0.02,
        "achieved": {"cpu_share": achieved or context}, "load": 0.5, "steal": 0.0, **why, **more,
    }  # fmt: skip


@pytest.fixture
def recordings(tmp_path):
    for slot in range(6):
        lines = []
        for i in range(1, 6):
            lines.append(f"{0.0101 * i:.9f};1.00;msec;task-clock;{1000 * slot + i};100.00;;")
            lines.append(f"{0.0101 * i:.9f};{slot + 1};;page-faults;{1000 * slot + i};100.00;;")
        (tmp_path / f"{slot}-0.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_contexts_runs_and_notes_are_where_they_belong(recordings):
    records = [record(0, 100.0, 1, began=7.5), record(1, 25.0, 0), record(2, 100.0, 0)]
    dataset, warnings = profiles_of_sweep(ONE, records, recordings, LABELS, ABOUT)
    validate_profiles(dataset)
    assert dataset["started"].values[1].tolist() == pytest.approx([np.nan, 7.5], nan_ok=True)
    assert dataset["cpu_share"].values.tolist() == [25, 100]
    faults = dataset["page_faults"].sum("time").values
    assert faults[0][0] == pytest.approx(10)  # slot 1: five bins of two
    assert faults[1].tolist() == pytest.approx([15, 5])  # slots 2 and 0, in the order of runs
    assert dataset["cpu_share"].attrs["mechanism"] == "m"
    assert dataset["cpu_share_achieved"].values[1].tolist() == [100, 100]
    assert dataset["duration"].values[0][0] == 0.045
    assert dataset.attrs["platform"] == "a machine"
    assert dataset.attrs["progress"] == "task_clock"
    assert "perf 6.1" in dataset.attrs["source"]
    assert warnings == []


def test_the_last_attempt_counts(recordings):
    records = [
        record(0, 25.0, 0, "failed"), record(0, 25.0, 0, "done", attempt=1),
        record(1, 50.0, 0, "hung"), record(1, 50.0, 0, "failed", attempt=1),
    ]  # fmt: skip
    assert [r["slot"] for r in kept_runs(records)] == [0]
    assert describe_missing_runs(ONE, records) == [
        "left out after 2 attempts: run 0 of context cpu_share=50: exited with 7."
    ]


def test_runs_that_were_cut_are_said_to_be(recordings):
    records = [record(0, 25.0, 0, "cut"), record(1, 25.0, 1), record(2, 50.0, 0)]
    del records[0]["why"]
    assert [r["slot"] for r in kept_runs(records)] == [0, 1, 2]
    assert describe_missing_runs(ONE, records) == []
    dataset, _ = profiles_of_sweep(ONE, records, recordings, LABELS, ABOUT)
    validate_profiles(dataset)
    assert dataset["complete"].values.tolist() == [[0, 1], [1, 1]]


def test_nothing_kept_is_nothing_written(recordings):
    with pytest.raises(IncompleteError) as caught:
        profiles_of_sweep(ONE, [record(0, 25.0, 0, "failed")], recordings, LABELS, ABOUT)
    assert caught.value.problems[-1] == "no run succeeded: there is nothing to write."
    assert len(caught.value.problems) == 2


def test_shares_that_were_missed_are_said_context_by_context(recordings):
    records = [
        record(0, 100.0, 0, achieved=90.0), record(1, 100.0, 1, achieved=98.5),
        record(2, 25.0, 0, achieved=26.9),
    ]  # fmt: skip
    (message,) = profiles_of_sweep(ONE, records, recordings, LABELS, ABOUT)[1]
    assert message.startswith("cpu_share = 100 percent: 1 of 2 runs had 90 to 90")


def test_labels_say_units_levels_and_mechanism(tmp_path):
    kernel = FakeKernel(tmp_path).with_cgroup(1)
    actuators = make_actuators(ONE, KernelSettings(kernel, lambda record: None), "msbgen")
    label = resource_labels(ONE, actuators)["cpu_share"]
    assert label["levels"] == [25.0, 50.0, 100.0]
    assert label["units"] == "percent"
    assert label["mechanism"] == "cgroup v1 quota, period 10000 us"
