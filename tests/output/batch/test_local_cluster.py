"""Who may connect to the cluster of a batch: the batch."""

import os
import socket
import ssl
import stat

import pytest

from batching import contexts_of
from msbgen.output.batch.execute import ExecutionConfig
from needing import as_another_user, needs_distributed, needs_root

pytestmark = needs_distributed


@pytest.fixture(scope="module")
def pool():
    from msbgen.output.batch.cluster import DaskPool

    pool = DaskPool("local:1", ExecutionConfig(contexts_of, {}))
    yield pool
    pool.close()


def ports():
    """Ports on which this process and those that it started listen."""
    import psutil

    every = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [one for process in every for one in process.net_connections("inet")]
    return sorted({one.laddr for one in sockets if one.status == psutil.CONN_LISTEN})


# Prints what a port answers to a request, plain or encrypted, of a client without the key.
ASK = """
import socket, ssl, sys
def ask(host, port, encrypted):
    with socket.create_connection((host, int(port)), timeout=5) as plain:
        try:
            context = ssl._create_unverified_context()
            stream = context.wrap_socket(plain) if encrypted else plain
            stream.sendall(b"GET /health HTTP/1.0\\r\\n\\r\\n" + bytes(64))
            return stream.recv(100)
        except OSError:  # an error of TLS is one
            return b""
for encrypted in (False, True):
    answer = ask(*sys.argv[1:], encrypted)
    print("answered" if b"HTTP" in answer or (encrypted and answer) else "refused")
"""


def test_every_port_refuses_clients_without_the_key(pool):
    assert len(ports()) >= 3  # of the scheduler, of the nanny, of its worker
    for host, port in ports():
        assert host == "127.0.0.1"
        with socket.create_connection((host, port), timeout=5) as plain:
            stream = ssl._create_unverified_context().wrap_socket(plain)
            with pytest.raises(ssl.SSLError, match="certificate required"):
                stream.recv(1)


def test_a_client_runs_nothing(pool):
    import distributed

    address = pool._cluster.scheduler_address
    assert address.startswith("tls://")
    for place in (address, address.replace("tls", "tcp")):
        with pytest.raises((OSError, TypeError, RuntimeError)):
            distributed.Client(place, timeout=1, set_as_default=False)


@needs_root
def test_another_user_can_neither_connect_nor_read_a_page(pool):
    for host, port in ports():
        assert as_another_user(ASK, host, port).split() == ["refused", "refused"]


def test_workers_keep_their_files_in_a_folder_of_ours(pool):
    folder = pool._scratch.name
    assert os.listdir(folder)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700


def test_schedulers_without_tls_are_named_once(caplog):
    import distributed

    from msbgen.output.batch.cluster import DaskPool

    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address=None
    ) as cluster:
        DaskPool(cluster.scheduler_address, ExecutionConfig(contexts_of, {})).close()
    (record,) = caplog.records
    assert "runs programs of every user who can reach its port" in record.getMessage()
