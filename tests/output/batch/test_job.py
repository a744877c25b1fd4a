"""Jobs: a block is the same alone, and the files are those that the command writes."""

import numpy as np
import pytest

from batching import SETTINGS, contexts_of, make_tasks
from msbgen.core.errors import ProfileError
from msbgen.output.batch import job as jobs
from msbgen.output.batch.job import Job, identify, starts
from msbgen.output.batch.tasks import BatchTask


@pytest.fixture
def job(tmp_path):
    source = make_tasks(tmp_path / "in", 1)
    return Job(BatchTask("t0", source / "t0.nc", settings=SETTINGS), tmp_path / "out", block=5)


def test_blocks_never_cross_what_a_file_is_written_from_at_a_time():
    assert starts(10, 3, 5) == [0, 3, 5, 8]
    assert starts(4, 10, 100) == [0]
    for n, size, within in ((1, 1, 1), (12, 5, 7), (100, 7, 30), (4560, 2048, 4500)):
        every = starts(n, size, within)
        stops = [*every[1:], n]
        assert every[0] == 0
        for start, stop in zip(every, stops):
            assert 0 < stop - start <= size
            assert start // within == (stop - 1) // within


def test_blocks_of_stores_are_whole_chunks(job):
    pytest.importorskip("zarr")
    job = Job(job.task, job.out, zarr=True, block=5)
    facts = jobs.fit(job, contexts_of)
    assert facts["blocks"] == {"mean": 128, "sample": 128}
    assert job.part("mean", 0).is_dir()


def test_inputs_are_known_by_their_content(job):
    before = identify(job.task)
    assert identify(job.task) == before
    content = job.task.measured.read_bytes()
    job.task.measured.write_bytes(content)
    again = identify(job.task)
    assert again["input"] == before["input"]
    job.task.measured.write_bytes(content[:-1] + b"x")
    assert identify(job.task)["input"] != before["input"]
    job.task.measured.unlink()
    with pytest.raises(ProfileError, match="no such file"):
        identify(job.task)
    assert jobs.state_of(job.task) == []


def test_what_was_read_is_kept_until_the_file_changes(job):
    first = job.measured()
    assert job.measured() is first
    make_tasks(job.task.measured.parent, 2)
    (job.task.measured.parent / "t1.nc").replace(job.task.measured)
    other = job.measured()
    assert other.sizes["run"] != first.sizes["run"]
    jobs.clear_caches()
    np.testing.assert_array_equal(job.measured()["duration"], other["duration"])
