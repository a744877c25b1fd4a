"""From a spec to a file, and a second batch onto a first."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fake_kernel import FakeKernel
from msbgen.core.errors import ProfileError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, resource_names
from msbgen.data.store import read_profiles, write_profiles
from msbgen.sources.measure.actuators.control_group import ControlGroup
from msbgen.sources.measure.actuators.kernel_files import SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.measure import measure
from msbgen.sources.measure.sweep.profiles import IncompleteError
from msbgen.sources.measure.sweep.spec import ResourceSpec, read_spec
from sweeping import machine, needs_perf, spec, tree

pytestmark = needs_perf


def test_a_planned_second_batch_is_joined_to_the_first(tmp_path):
    kernel = machine(tmp_path)
    before = tree(kernel)
    first = tmp_path / "first.nc"
    measure(spec(contexts="grid:2"), first, files=kernel)
    (tmp_path / "plan.csv").write_text("cache_ways,runs,again\n4,3,0\n8,1,1\n")
    planned = spec(contexts=str(tmp_path / "plan.csv"))
    measured = measure(planned, tmp_path / "both.nc", first=first, files=kernel)
    assert tree(kernel) == before
    both = read_profiles(tmp_path / "both.nc")
    assert both["cache_ways"].values.tolist() == [2, 4, 8]
    assert both["duration"].notnull().sum("run").values.tolist() == [2, 3, 1]  # anew in the last
    head, *clocks = measured.describe()
    assert head == f"{tmp_path / 'both.nc'}: 3 contexts, 6 runs"
    assert any("task_clock" in line for line in clocks)
    other = tmp_path / "other.nc"
    write_profiles(both.rename(page_faults="other"), other)
    again = {"resume": True, "overwrite": True, "files": kernel}
    kept = r"is counted .* only; the same events are wanted\. The new runs are kept: --resume"
    with pytest.raises(ProfileError, match=kept):
        measure(planned, tmp_path / "both.nc", first=other, **again)


def test_other_means_are_refused_before_anything_is_measured(tmp_path):
    kernel = machine(tmp_path)
    first = tmp_path / "first.nc"
    measure(spec(runs=1), first, files=kernel)
    other = FakeKernel(tmp_path / "other").with_cgroup(1)
    share = ResourceSpec("cache_ways", "quota", (25.0, 50.0))
    with pytest.raises(ProfileError, match="one for all runs is wanted"):
        measure(spec(resources=(share,)), tmp_path / "b.nc", first=first, files=other)
    assert not (tmp_path / "b.journal").exists()


def lacking():
    if os.geteuid():
        return "needs root"
    settings = KernelSettings(SystemFiles(), lambda record: None)
    place = ControlGroup(settings, "msbgen-test", ["cpu"]).place("cpu")
    return place if isinstance(place, str) else ""


FOUR = """
command = ["{program}", "-S", "-c", "x = bytearray({size}); all(map(hash, range(300_000)))"]
events = ["task-clock", "page-faults"]
runs = 1
warmups = 0
retries = 3
interval = "5ms"
[resources.size]
by = "argument"
levels = [1000, 60000000]
units = "B"
[resources.program]
by = "argument"
levels = ["PYTHON", "python3"]
[resources.work]
by = "environment"
name = "WORK"
levels = [1, 2]
[resources.cores]
by = "cores"
levels = [1, 2]
[resources.memory]
by = "memory"
levels = [24, 200]
"""
CONTEXTS = """size,program,work,cores,memory
1000,python3,1,2,24
60000000,PYTHON,2,1,200
60000000,python3,1,2,24
"""


@pytest.mark.skipif(bool(lacking()) or len(os.sched_getaffinity(0)) < 2, reason="needs root, cores")
def test_arguments_variables_cores_and_memory_are_set_for_real(tmp_path):
    """The third context needs more memory than it has: it is left out after one attempt."""
    for name, text in {"s.toml": FOUR, "wanted.csv": CONTEXTS}.items():
        (tmp_path / name).write_text(text.replace("PYTHON", sys.executable))
    spec = replace(read_spec(tmp_path / "s.toml"), contexts=str(tmp_path / "wanted.csv"))
    groups = set(Path("/sys/fs/cgroup").rglob("msbgen-*"))
    measured = measure(spec, tmp_path / "out.nc")
    assert set(Path("/sys/fs/cgroup").rglob("msbgen-*")) == groups
    (left_out,) = measured.missing
    assert "after 1 attempts: run 0 of context size=60000000, program=python3, work=1" in left_out
    assert "memory=24: needs more memory" in left_out
    data = read_profiles(tmp_path / "out.nc")
    assert data["program"].attrs["labels"] == [sys.executable, "python3"]
    assert context_table(data).tolist() == [[1000, 2, 1, 2, 24], [6e7, 1, 2, 1, 200]]
    for name, column in zip(resource_names(data), context_table(data).T):
        np.testing.assert_array_equal(data[f"{name}_achieved"].values[:, 0], column)
    first = Profiles.of(data).describe_context(0)
    assert first.startswith("context 0 (size=1000 B, program=python3, work=1")
    with pytest.raises(IncompleteError):  # it is not tried again
        measure(spec, tmp_path / "out.nc", resume=True, overwrite=True).raise_if_incomplete()
    lines = (tmp_path / "out.journal").read_text().splitlines()
    assert sum('"out of memory"' in line for line in lines) == 1


@pytest.mark.skipif(bool(lacking()), reason=f"no CPU quota can be set here: {lacking()}")
def test_a_real_quota_holds_a_real_program_back(tmp_path):
    """A fifth of a core's time and no more; how far below depends on who else works here."""
    share = ResourceSpec("cpu_share", "quota", (20.0, 100.0))
    work = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"
    one = spec("/bin/sh", "-c", work, resources=(share,), interval=0.01)
    measure(one, tmp_path / "out.nc")
    data = read_profiles(tmp_path / "out.nc")
    assert (data["duration"][0] > 3 * data["cpu_time"][0]).all()
    achieved = data["cpu_share_achieved"].values
    assert (achieved[0] < 33).all()
    np.testing.assert_allclose(achieved, 100 * data["cpu_time"] / data["duration"])
    assert not [name for name in os.listdir("/sys/fs/cgroup") if name.startswith("msbgen-")]
