"""Batches on clusters: the same bits, whatever dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import batching
from batching import batch, contexts_of, done, make_tasks, results
from msbgen.core.errors import ArgumentError
from msbgen.output.batch import cluster
from msbgen.output.batch.cluster import DaskPool, check_scheduler
from msbgen.output.batch.execute import ExecutionConfig
from msbgen.output.batch.pool import ClusterError
from needing import needs_distributed, needs_root

pytestmark = needs_distributed


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return make_tasks(tmp_path_factory.mktemp("tasks") / "in")


@pytest.fixture(scope="module")
def undisturbed(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    batch(source, out)
    return out


@pytest.fixture
def forked():
    """Workers that are forked, each a moment later, from a process that has imported everything."""
    import dask
    import distributed

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(
            ["distributed", "hypothesis", "msbgen.output.batch.run", "msbgen.engine.generate.model"]
        )
        yield


@pytest.mark.usefixtures("forked")
def test_workers_that_die_are_replaced_and_the_rest_is_done(source, undisturbed, tmp_path):
    """One unit kills its worker each time: two attempts, then a fresh cluster for the others."""
    out = tmp_path / "out"
    failures = batch(source, out, batching.die, scheduler="local:1", retries=1, block=5).failures
    assert [(r["task"], r["unit"], r["outcome"]) for r in failures] == [("t0", "note", "lost")]
    assert (out / "deaths").read_text() == ".."
    assert "lost in attempt 2 of 2" in failures[0]["error"]
    (out / "go on").touch()
    before = done(out)
    assert batch(source, out, batching.die, resume=True).failures == []
    assert results(out) == results(undisturbed)
    assert done(out)[len(before) :] == ["t0/note"]


def test_units_on_workers_begin_no_client_of_their_own(monkeypatch):
    dask = pytest.importorskip("dask")
    seen = []
    monkeypatch.setattr(
        cluster, "execute", lambda *given: seen.append((*given, dask.config.get("scheduler")))
    )
    cluster.execute_alone("unit", "config")
    assert seen == [("unit", "config", "synchronous")]
    assert dask.config.get("scheduler", None) is None


def test_an_interrupt_is_not_heard_by_workers(monkeypatch):
    """Nor by what they begin: masks are inherited.  This process hears it as before."""

    def masked(*_):
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])

    monkeypatch.setattr("msbgen.output.batch.local_cluster.start_cluster", masked)
    monkeypatch.setattr(DaskPool, "_connect", lambda pool: None)
    pool = DaskPool("local:1", ExecutionConfig(contexts_of, {}))
    assert pool._cluster is True
    assert not masked()


def test_a_mistake_in_a_start_is_told_as_it_is_and_not_made_again(monkeypatch):
    starts = []

    def wrong(*given):
        starts.append(given)
        raise TypeError("no such argument")

    monkeypatch.setattr("msbgen.output.batch.local_cluster.start_cluster", wrong)
    with pytest.raises(TypeError, match="no such argument"):
        DaskPool("local:1", ExecutionConfig(contexts_of, {}))
    assert [workers for workers, _ in starts] == [1]


# A scheduler and its worker in one process, which is quicker to start than two.
SCHEDULER = """
import asyncio, sys
from distributed import Scheduler, Worker

async def main():
    place = {"scheduler_file": sys.argv[1], "host": "127.0.0.1", "dashboard": False}
    async with Scheduler(port=0, **place) as scheduler, Worker(scheduler.address, nthreads=1):
        await scheduler.finished()

asyncio.run(main())
"""


def test_a_scheduler_that_dies_is_told_of_and_gone_on_without(
    source, undisturbed, tmp_path, monkeypatch
):
    monkeypatch.setattr(cluster, "_GONE", 0.5)
    monkeypatch.setattr(cluster, "_ANSWER", 1.0)
    monkeypatch.setattr(cluster, "_END", 1.0)
    file, out = tmp_path / "scheduler.json", tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER, file],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def kill():
        while not (out / "manifest.jsonl").exists() or len(done(out)) < 5:
            time.sleep(0.05)
        process.kill()

    try:
        _wait(file)
        threading.Thread(target=kill, daemon=True).start()
        with pytest.raises(ClusterError, match="does not answer; restart it and continue with"):
            batch(source, out, batching.hang, scheduler=str(file), timeout=100.0)
    finally:
        process.kill()
        process.wait()
    before = done(out)
    assert before
    (out / "go on").touch()
    batch(source, out, resume=True)
    assert results(out) == results(undisturbed)
    assert done(out)[: len(before)] == before
    assert len(set(done(out))) == len(done(out))


def _wait(path):
    until = time.monotonic() + 60
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < until, "no scheduler started"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "text", ["local", "local:", "local:0", "local:x", "head:8786", "none.json"]
)
def test_other_texts_name_no_cluster(text):
    message = "local:N with N ≥ 1" if text.startswith("local") else "existing scheduler file"
    with pytest.raises(ArgumentError, match=f"scheduler is '{text}'.* {message}"):
        DaskPool(text, ExecutionConfig(contexts_of, {}))


@pytest.mark.parametrize("content", ["[]", "{", "{}", '{"address": 1}', "[" * 100_000])
def test_a_file_without_an_address_names_no_cluster(tmp_path, content):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(ArgumentError, match="an existing scheduler file is wanted"):
        DaskPool(str(tmp_path / "s.json"), ExecutionConfig(contexts_of, {}))


def test_what_is_missing_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ArgumentError, match=r"'pip install msbgen\[dist\]' is wanted"):
        DaskPool("local:1", ExecutionConfig(contexts_of, {}))


def test_a_scheduler_that_nobody_started(monkeypatch):
    monkeypatch.setattr(cluster, "_ANSWER", 0.5)
    with pytest.raises(ClusterError, match="does not answer"):
        DaskPool("tcp://127.0.0.1:9", ExecutionConfig(contexts_of, {}))


def test_what_starts_while_the_batch_is_interrupted_is_not_closed_by_its_destructor():
    started = SimpleNamespace(status="running")

    def start():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return started

    with pytest.raises(KeyboardInterrupt):
        cluster._within(30, start, "it does not start.")
    assert started.status == "closed"


def test_a_scheduler_file_that_others_can_write_is_not_trusted(tmp_path):
    path = tmp_path / "scheduler.json"
    path.write_text('{"address": "tls://head:8786"}')
    path.chmod(0o644)
    assert check_scheduler(str(path)) == 0
    path.chmod(0o666)
    with pytest.raises(
        ArgumentError, match=r"a file that other users can write; .* \(chmod go-w\)"
    ):
        check_scheduler(str(path))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ArgumentError, match=r"existing scheduler file is wanted"):
        check_scheduler(str(pipe))


@needs_root
def test_a_scheduler_file_of_another_user_is_not_trusted(tmp_path):
    path = tmp_path / "scheduler.json"
    path.write_text('{"address": "tls://head:8786"}')
    os.chown(path, 65534, 65534)
    with pytest.raises(ArgumentError, match=r"a file that other users can write"):
        check_scheduler(str(path))
