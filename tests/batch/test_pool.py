"""Units in this process."""

from batching import SETTINGS, contexts_of, make_tasks
from msbgen.batch.execute import Orders, Unit
from msbgen.batch.job import Job
from msbgen.batch.pool import ClusterError, HerePool
from msbgen.batch.tasks import Task


def test_units_are_carried_out_as_they_come(tmp_path):
    source = make_tasks(tmp_path / "in", 1)
    job = Job(Task("t0", source / "t0.nc", settings=SETTINGS), tmp_path / "out")
    pool = HerePool(Orders(contexts_of, {}))
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
