"""Manifests: what a line holds, and what is none."""

import json
from contextlib import nullcontext

import pytest

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.output.batch.manifest import DONE, open_manifest, unit_record
from msbgen.output.batch.tasks import BatchTask

OPTIONS = {"zarr": False, "models": False}


@pytest.fixture
def task(tmp_path):
    return BatchTask("a", tmp_path / "a.nc")


def test_a_manifest_is_begun_and_gone_on_with(tmp_path, task):
    out = tmp_path / "out"
    for resume in (True, True):  # what was never begun is begun
        journal = open_manifest(out, [task], OPTIONS, resume=resume)
        journal.append(unit_record(task, "bound", DONE, {"seconds": 2.0, "host": "here"}))
        journal.close()
    records = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    assert [r["event"] for r in records] == ["batch", "unit", "unit"]
    assert records[1] == {
        "event": "unit", "task": "a", "unit": "bound", "outcome": "done", "input": "",
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


FIT = {
    "input": "", "stat": [], "wanted": {"kinds": ["mean"], "steps": []}, "contexts": 10,
    "blocks": {"mean": 5}, "within": {"mean": 10}, "model_bytes": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "facts"),
    [
        ("fit", FIT | {"contexts": 10**17}),
        ("fit", FIT | {"contexts": 10**9, "within": {"mean": 1}}),
        (f"generate/mean/{'9' * 5000}", {"rows": 1, "part_bytes": 1}),
    ],
    ids=["contexts", "within", "start"],
)
def test_more_blocks_than_a_batch_has_are_none(tmp_path, task, unit, facts):
    out = tmp_path / "out"
    open_manifest(out, [task], OPTIONS, resume=False).close()
    head = (out / "manifest.jsonl").read_text()
    good = GOOD | {"facts": FIT, "settings": task.digest}
    for line, message in ((good, None), (good | {"unit": unit, "facts": facts}, "line 2 is no")):
        (out / "manifest.jsonl").write_text(f"{head}{json.dumps(line)}\n")
        expected = pytest.raises(ProfileError, match=message) if message else nullcontext()
        with expected:
            open_manifest(out, [task], OPTIONS, resume=True).close()


def test_one_process_at_a_time_and_a_folder_that_can_be_made(tmp_path, task):
    journal = open_manifest(tmp_path / "out", [task], OPTIONS, resume=False)
    with pytest.raises(ProfileError, match="another process is running a batch with it"):
        open_manifest(tmp_path / "out", [task], OPTIONS, resume=True)
    journal.close()
    with pytest.raises(OSError, match=r"there is no folder '.*none'; make it first"):
        open_manifest(tmp_path / "none" / "out", [task], OPTIONS, resume=False)


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_of_others_is_not_taken_for_that_of_intermediate_files(tmp_path, task, link):
    out, precious = tmp_path / "out", tmp_path / "precious"
    out.mkdir()
    (precious / "a").mkdir(parents=True)
    (precious / "a" / "file").touch()
    (out / ".work").symlink_to(precious) if link else precious.rename(out / ".work")
    with pytest.raises(ArgumentError, match=r"out/\.work: exists already and is not of a batch"):
        open_manifest(out, [task], OPTIONS, resume=False)
    assert (out / ".work" / "a" / "file").exists()


def test_a_link_in_a_batch_is_not_followed(tmp_path, task):
    out, precious = tmp_path / "out", tmp_path / "precious"
    open_manifest(out, [task], OPTIONS, resume=False).close()
    (precious / "a").mkdir(parents=True)
    (out / ".work").rmdir()
    (out / ".work").symlink_to(precious)
    with pytest.raises(ProfileError, match=r"\.work: is no folder; remove it"):
        open_manifest(out, [task], OPTIONS, resume=True)
    assert (precious / "a").exists()
    manifest = out / "manifest.jsonl"
    manifest.rename(tmp_path / "elsewhere")
    manifest.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProfileError, match=r"manifest\.jsonl: is a symbolic link; remove it"):
        open_manifest(out, [task], OPTIONS, resume=True)


def test_a_folder_that_others_can_write_is_refused(tmp_path, task):
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o777)
    with pytest.raises(ProfileError, match=r"out: other users may write it; .* chmod go-w"):
        open_manifest(out, [task], OPTIONS, resume=False)
    assert list(out.iterdir()) == []
