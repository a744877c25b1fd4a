"""Manifests: what a line holds, and what is none."""

import json

import pytest

from msbgen.batch.manifest import DONE, open_manifest, unit_record
from msbgen.batch.tasks import BatchTask
from msbgen.core.errors import ProfileError

OPTIONS = {"zarr": False, "models": False}


@pytest.fixture
def task(tmp_path):
    return BatchTask("a", tmp_path / "a.nc")


def test_a_manifest_is_begun_and_gone_on_with(tmp_path, task):
    out = tmp_path / "out"
    for resume in (True, True):  # what was never begun is begun
        journal = open_manifest(out, [task], OPTIONS, resume=resume)
        journal.append(unit_record(task, "fit", DONE, {"seconds": 2.0, "host": "here"}))
        journal.close()
    records = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert [r["event"] for r in records] == ["batch", "unit", "unit"]
    assert records[1] == {
        "event": "unit", "task": "a", "unit": "fit", "outcome": "done", "input": "",
        "settings": task.digest,
        "version": records[0]["msbgen"], "attempt": 1, "seconds": 2.0, "host": "here", "bytes": 0,
        "files": {}, "facts": {}, "error": "",
    }  # fmt: skip


GOOD = {"event": "unit", "task": "a", "unit": "fit", "outcome": "done"}
GOOD |= {"settings": "", "version": ""}
GOOD |= {"attempt": 1, "seconds": 2, "host": "", "bytes": 0, "files": {}, "facts": {}, "error": ""}


@pytest.mark.parametrize("key", GOOD)
def test_a_line_that_lacks_what_is_relied_upon_is_none(tmp_path, task, key):
    out = tmp_path / "out"
    open_manifest(out, [task], OPTIONS, resume=False).close()
    with (out / "manifest.jsonl").open("a") as stream:
        stream.write(json.dumps({k: v for k, v in GOOD.items() if k != key}) + "\n")
    with pytest.raises(ProfileError, match="line 2 is no record of a batch; restore a copy"):
        open_manifest(out, [task], OPTIONS, resume=True)


def test_one_process_at_a_time_and_a_folder_that_can_be_made(tmp_path, task):
    journal = open_manifest(tmp_path / "out", [task], OPTIONS, resume=False)
    with pytest.raises(ProfileError, match="another process is running a batch with it"):
        open_manifest(tmp_path / "out", [task], OPTIONS, resume=True)
    journal.close()
    with pytest.raises(OSError, match=r"there is no folder '.*none'; make it first"):
        open_manifest(tmp_path / "none" / "out", [task], OPTIONS, resume=False)
