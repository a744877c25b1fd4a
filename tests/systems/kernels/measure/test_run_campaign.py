"""Sessions as processes: measured, interrupted, resumed; stand-ins that write without timing."""

import json
import os
import signal
from dataclasses import asdict, replace

import numpy as np
import pytest

from fake_kernel import FakeKernel
from forks import forked, status_of
from msbgen.core.errors import ProfileError
from msbgen.sources.measure.sweep.journal import SweepJournal, read_journal
from msbgen.sources.measure.sweep.process import tagged_processes
from msbgen.sources.measure.sweep.profiles import IncompleteError
from msbgen.systems.kernels.dataset import read as read_kernels
from msbgen.systems.kernels.measure.campaign import Campaign
from msbgen.systems.kernels.measure.plan import make_plan
from msbgen.systems.kernels.measure.run_campaign import (
    describe_kernels_dry_run,
    measure_kernels,
    workloads_path,
)
from msbgen.systems.kernels.measure.session import RECORDING, Session
from msbgen.systems.kernels.workloads import read_workload
from needing import needs_torch
from sweeping import tree

pytestmark = needs_torch
NETS = """
from torch import nn
def build():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Sigmoid())
"""


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    (tmp_path / "nets_by_hand.py").write_text(NETS)
    own = {"networks": ("nets_by_hand:build",), "images": ((1, 32),), "random": 0.0}
    return Campaign(**own, sessions=3, retries=0, timeout=20.0, folder=str(tmp_path))


@pytest.fixture
def stand_in(campaign, monkeypatch):
    """Sessions become a shell's command; by default one that writes what a session would."""
    made = Campaign.spec
    plan = make_plan(campaign)
    session = Session(plan.digest, [1e-3] * len(plan.points), [[0.5] * 2], "2.13", "2026-11-22")

    def put(command=f'printf %s "$SAID" > "${RECORDING}"'):
        message = {"SAID": json.dumps(asdict(session))}
        monkeypatch.setattr(
            Campaign,
            "spec",
            lambda self: replace(
                made(self),
                command=("/bin/sh", "-c", command, self.to_json()),
                environment={**made(self).environment, **message},
            ),
        )

    return put


def runs(out):
    return [r for r in read_journal(out.with_suffix(".journal")) if r["event"] == "run"]


def test_killed_and_resumed_it_loses_the_session_that_was_going_on(campaign, stand_in, tmp_path):
    stand_in()
    out = tmp_path / "k.nc"

    def die():
        append = SweepJournal.append

        def third(self, record):
            if record["event"] == "run" and record["slot"] == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            append(self, record)

        SweepJournal.append = third
        measure_kernels(campaign, out)

    assert status_of(forked(die)) == -signal.SIGKILL
    assert [r["slot"] for r in runs(out)] == [0, 1]
    assert not out.exists()
    other = replace(campaign, repetitions=4)
    with pytest.raises(ProfileError, match="was started with another spec"):
        measure_kernels(other, out, resume=True)

    seen = []
    result = measure_kernels(campaign, out, resume=True, progress=lambda *n: seen.append(n))
    assert seen == [(3, 3)]
    assert [r["slot"] for r in runs(out)] == [0, 1, 2]
    assert not tagged_processes(read_journal(out.with_suffix(".journal"))[0]["tag"])
    assert result.missing == []
    found = read_kernels(out)
    # two convolutions and a rectifier in three sessions; two passes in each
    assert found.sizes["measurement"] == 3 * 3 + 3 * 2
    assert sorted(np.unique(found["run"].values)) == [0, 1, 2]
    launched = read_workload(workloads_path(out))
    assert sorted(launched["kind"].values) == ["conv2d", "conv2d", "relu", "sigmoid"]
    with pytest.raises(FileExistsError):
        measure_kernels(campaign, out)


def test_a_recording_that_was_changed_is_made_again(campaign, stand_in, tmp_path):
    stand_in()
    out = tmp_path / "k.nc"
    measure_kernels(campaign, out)
    recording = tmp_path / "k.recordings" / runs(out)[1]["recording"]
    whole = recording.read_bytes()
    recording.write_bytes(whole[:-9])
    out.unlink()
    workloads_path(out).unlink()
    measure_kernels(campaign, out, resume=True)
    assert [r["slot"] for r in runs(out)] == [0, 1, 2, 1]
    assert recording.read_bytes() == whole


def test_a_session_that_fails_says_its_last_words_and_nothing_is_written(
    campaign, stand_in, tmp_path
):
    stand_in("echo spoilt >&2; exit 7")
    with pytest.raises(IncompleteError) as caught:
        measure_kernels(campaign, tmp_path / "k.nc")
    assert "exited with 7; its message: spoilt" in str(caught.value)
    assert "no session succeeded" in str(caught.value)
    assert not (tmp_path / "k.nc").exists()


def test_a_dry_run_tells_sessions_and_quotas_and_changes_nothing(campaign, tmp_path):
    kernel = FakeKernel(tmp_path / "kernel").with_cgroup(1)
    before = tree(kernel)
    message = "\n".join(describe_kernels_dry_run(replace(campaign, quotas=(60.0,)), kernel))
    assert "plan: 1 context, 3 runs in random order" in message
    assert "each run is a session: 3 kernels of networks, 0 drawn at random, 1 networks" in message
    assert "echo '1200' > " in message
    assert tree(kernel) == before


def test_sessions_run_under_their_quota_and_it_is_gone_afterwards(campaign, stand_in, tmp_path):
    kernel = FakeKernel(tmp_path / "kernel").with_cgroup(1)
    before = tree(kernel)
    stand_in()
    result = measure_kernels(
        replace(campaign, quotas=(60.0, 100.0), sessions=1), tmp_path / "k.nc", files=kernel
    )
    assert tree(kernel) == before
    assert sorted(np.unique(result.kernels["cpu_quota"].values)) == [60.0, 100.0]
    assert result.kernels["cpu_quota"].attrs["units"] == "percent"
