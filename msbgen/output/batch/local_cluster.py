"""A Dask cluster of processes of this machine, which only the process that starts it can use.

A scheduler runs any function that a client sends.  So all connections are encrypted with a key
that exists in the memory of these processes only, and no page is served, as a page has no key.
"""

import logging
from typing import Any

from distributed import Nanny, Scheduler, Security, SpecCluster, Worker

from msbgen.core.machine import physical_memory


class _NoPages:
    """Part of a scheduler or worker that opens no port for pages."""

    def start_http_server(self, *_: object, **__: object) -> None:
        """Start no server."""


class _Scheduler(_NoPages, Scheduler):
    """A scheduler without pages."""


class _Worker(_NoPages, Worker):
    """A worker without pages."""


def start_cluster(workers: int, scratch: str) -> Any:
    """A cluster of `workers` processes of one thread, which keep their files in `scratch`."""
    security = Security.temporary()
    common = {"host": "127.0.0.1", "protocol": "tls://", "security": security, "dashboard": False}
    worker = {
        "cls": Nanny,
        "options": {
            **common,
            "worker_class": _Worker,
            "nthreads": 1,
            "memory_limit": physical_memory() // workers,
            "local_directory": scratch,
            "silence_logs": logging.CRITICAL,
        },
    }
    return SpecCluster(
        scheduler={"cls": _Scheduler, "options": {**common, "port": 0}},
        workers=dict.fromkeys(range(workers), worker),
        worker=worker,
        security=security,
    )
