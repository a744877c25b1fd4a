"""The standard workload format: the same after its file, refused with the line."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machines import made_queue
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.machines import queue
from msbgen.machines.queue.workload import FIELDS

# Two jobs as the archive has them, the second without anything but a submission.
LOG = """; Version: 2.2
;  MaxJobs: 2

1 0 5 60 4 -1 -1 8 120 -1 1 7 2 3 1 1 -1 -1
2 30 -1 -1 -1 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1
"""


def test_a_log_is_read_with_units_and_comments(tmp_path):
    (tmp_path / "a.swf").write_text(LOG)
    with gzip.open(tmp_path / "a.swf.gz", "wt") as stream:
        stream.write(LOG)
    for name in ("a.swf", "a.swf.gz"):
        log = queue.read_workload(tmp_path / name)
        assert log["submission"].values.tolist() == [0, 30]
        assert log["runtime"].values[0] == 60
        assert np.isnan(log["runtime"].values[1])
        assert log["application"].values[0] == 3
        assert log["requested_time"].attrs["units"] == "s"
        assert log.attrs["comments"] == ["Version: 2.2", "MaxJobs: 2"]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=15)
def test_a_log_is_the_same_after_its_file(tmp_path_factory, seed, n):
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((n, 18)) < 0.3, np.nan, rng.lognormal(0, 9, (n, 18)))
    table[rng.random((n, 18)) < 0.3] = rng.integers(10**15)
    folder = tmp_path_factory.mktemp("log")
    (folder / "a.swf").write_text(LOG)
    log = queue.read_workload(folder / "a.swf").isel(job=np.zeros(n, int))
    for column, name in enumerate(FIELDS):
        log[name].values[:] = table[:, column]
    queue.write_workload(log, folder / "b.swf")
    again = queue.read_workload(folder / "b.swf")
    for column, name in enumerate(FIELDS):
        np.testing.assert_array_equal(again[name].values, table[:, column])
    assert again.attrs == log.attrs


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("1 0 5 60", "1 0 5", "line 4 is '1 0 5 4 -1 .*; 18 finite numbers are wanted, -1 for"),
        ("1 0 5 60", "1 0 5 x", "line 4 is '1 0 5 x 4 .*; 18 finite numbers are wanted"),
        ("1 0 5 60", "1 0 5 nan", "line 4 is '1 0 5 nan .*; 18 finite numbers are wanted"),
        ("1 0 5 60", "1 0 5 -60", "line 4 has a negative runtime .*; a number from 0 on, or -1"),
        ("60 4 ", "60 -4 ", "line 4 has a negative processors "),
        ("2 30 ", "2 -30 ", "line 5 has a negative submission "),
        (LOG, "; nothing\n", "there are no jobs; a line of 18 numbers each"),
    ],
)
def test_broken_lines_are_refused_with_their_number(tmp_path, old, new, sentence):
    (tmp_path / "a.swf").write_text(LOG.replace(old, new))
    with pytest.raises(ProfileError, match=rf"^a\.swf: {sentence}"):
        queue.read_workload(tmp_path / "a.swf")


@pytest.mark.parametrize("name", ["a.swf", "a.swf.gz"])
def test_what_is_no_text_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x1f\x8b\xff\x00" * 9)
    with pytest.raises(ProfileError, match="cannot be read as a workload"):
        queue.read_workload(tmp_path / name)
    with pytest.raises(ProfileError, match="no such file"):
        queue.read_workload(tmp_path / "other.swf")


def test_jobs_of_a_log_take_so_many_times_as_long_elsewhere(tmp_path):
    (tmp_path / "a.swf").write_text(LOG)
    log = queue.read_workload(tmp_path / "a.swf")
    jobs, rows = queue.jobs_of(log, np.array([[1.0, 0.5], [1.0, 1.0]]))
    assert rows.tolist() == [0]  # the other has no runtime
    assert jobs.runtime.tolist() == jobs.estimate.tolist() == [[60, 30]]
    assert jobs.nodes.tolist() == [4]
    jobs, _ = queue.jobs_of(log, np.array([[1.0, np.nan], [1, 1]]), np.array([[2.0, 3], [1, 1]]))
    assert jobs.estimate.tolist() == [[120, 180]]
    with pytest.raises(ArgumentError, match="jobs with a runtime and processors are none"):
        queue.jobs_of(log.isel(job=[1]), np.ones((1, 2)))


def test_requested_processors_count_where_none_were_allocated(tmp_path):
    (tmp_path / "a.swf").write_text(LOG.replace("60 4 ", "60 -1 "))
    jobs, _ = queue.jobs_of(queue.read_workload(tmp_path / "a.swf"), np.ones((2, 1)))
    assert jobs.nodes.tolist() == [8]


@given(st.integers(0, 2**32 - 1))
def test_the_log_of_a_schedule_has_starts_machines_and_runtimes(seed):
    jobs, machines = made_queue(seed)
    found = queue.simulate_queue(jobs, machines)
    log = queue.workload_of(jobs, found, machines)
    assert (np.diff(log["submission"].values) >= 0).all()
    order = log["number"].values.astype(int) - 1
    start = jobs.submission.min() + log["submission"].values + log["wait"].values
    np.testing.assert_allclose(start, found.start[order])
    np.testing.assert_array_equal(log["partition"].values - 1, found.machine[order])
    np.testing.assert_array_equal(log["processors"].values, jobs.nodes[order])
    np.testing.assert_allclose(start + log["runtime"].values, found.end[order])
    assert f"Partition: {len(machines)} m{len(machines) - 1}" in log.attrs["comments"]
