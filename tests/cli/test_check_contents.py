"""Every declared dataset has an identifier of its own, by which ``msbgen check`` finds it."""

import pkgutil
from importlib import import_module

import msbgen
from msbgen.cli.check import CONTENTS
from msbgen.data.shipped import shipped_file
from msbgen.data.variables import Schema
from msbgen.systems.machines.queue.workload import read_workload

TRACE = shipped_file("traces/gzip.nc")


def declared():
    """Every schema of the package, and the modules that name it ``SCHEMA``."""
    found = {}
    for module in pkgutil.walk_packages(msbgen.__path__, "msbgen."):
        if not module.name.endswith("__main__"):
            schema = getattr(import_module(module.name), "SCHEMA", None)
            if isinstance(schema, Schema):
                found.setdefault(schema.name, {})[id(schema)] = schema
    return found


def test_every_dataset_has_an_identifier_of_its_own_that_check_knows():
    found = declared()
    assert {name: len(schemas) for name, schemas in found.items()} == dict.fromkeys(CONTENTS, 1)
    for name, module in CONTENTS.items():
        assert import_module(module).SCHEMA.name == name


def test_check_describes_a_stored_log_of_jobs_and_a_trace(tmp_path, msbgen):
    (tmp_path / "log.swf").write_text(
        "; Version: 2.2\n7 0 -1 60 4 -1 -1 4 -1 -1 1 3 -1 5 -1 1 -1 -1\n"
    )
    read_workload(tmp_path / "log.swf").to_netcdf(tmp_path / "log.nc")
    done = msbgen("check", "log.nc")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == ["a log of jobs: 1 of job", "number [1]"]
    done = msbgen("check", str(TRACE))
    assert "distance_histogram [1]: last-level requests by LRU" in done.stdout
    assert done.stdout.endswith("no problem found\n")
