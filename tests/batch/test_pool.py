"""Units in this process."""

from batching import SETTINGS, contexts_of, make_tasks
from msbgen.batch.execute import ExecutionConfig, Unit
from msbgen.batch.job import Job
from msbgen.batch.pool import ClusterError, LocalPool
from msbgen.batch.tasks import BatchTask


def test_units_are_carried_out_as_they_come(tmp_path):
    source = make_tasks(tmp_path / "in", 1)
    job = Job(BatchTask("t0", source / "t0.nc", settings=SETTINGS), tmp_path / "out")
    pool = LocalPool(ExecutionConfig(contexts_of, {}))
    assert pool.room() == 1
    pool.submit(Unit(job, "fit"))
    assert pool.room() == 0
    ((unit, answer),) = pool.collect()
    assert (unit.key, answer["outcome"]) == ("t0/fit", "done")
    assert pool.collect() == []
    assert pool.renew() == []
    pool.close()


def test_an_error_of_a_cluster_has_its_sentences():
    assert ClusterError("a.", "b.").problems == ("a.", "b.")
