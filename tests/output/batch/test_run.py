"""Batches in this process: what goes wrong, and that resuming makes up for it, to the bit."""

import copy
import json
import os
import shutil
from contextlib import suppress
from dataclasses import replace

import pytest

import batching
from batching import SETTINGS, batch, done, lines, make_tasks, results
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.store import read_profiles, write_profiles
from msbgen.output.batch.execute import BatchStep, ExecutionConfig, StepResult
from msbgen.output.batch.job import identify
from msbgen.output.batch.run import BatchIncompleteError, run_batch
from msbgen.output.batch.tasks import BatchTask, TaskSettings, read_tasks
from needing import meddle, needs_root


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return make_tasks(tmp_path_factory.mktemp("tasks") / "in")


@pytest.fixture(scope="module")
def undisturbed(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert batch(source, out).failures == []
    return out


def resumed(source, out, undisturbed, step=batching.note, **options):
    """Resume a batch, and see that it is as one that nothing disturbed, and did nothing twice."""
    (out / "go on").touch()
    before = done(out)
    assert batch(source, out, step, resume=True, **options).failures == []
    assert results(out) == results(undisturbed)
    assert len(set(done(out))) == len(done(out)), "something finished was done again"
    assert done(out)[: len(before)] == before
    assert not (out / ".work").exists()


def test_all_is_done_and_noted(source, undisturbed):
    names = {"mean.nc", "sample.nc", "note.txt"}
    assert set(results(undisturbed)) == {f"t{i}/{name}" for i in range(2) for name in names}
    assert sorted(done(undisturbed)) == sorted(
        f"t{i}/{unit}"
        for i in range(2)
        for unit in (
            "fit", "generate/mean/0", "generate/sample/0", "join/mean", "join/sample", "note"
        )
    )  # fmt: skip
    for record in lines(undisturbed)[1:]:
        assert record["attempt"] == 1
        assert record["seconds"] > 0
        assert record["host"]
        assert record["input"] == identify(BatchTask("t", source / f"{record['task']}.nc"))["input"]
        assert record["bytes"] == sum(record["files"].values())
    assert lines(undisturbed)[-1]["facts"]["figures"] == {"error": 2.0}
    assert "t0" in (undisturbed / "index.html").read_text()


def test_chunks_change_nothing(source, undisturbed, tmp_path):
    batch(source, tmp_path / "5", block=5)
    assert results(tmp_path / "5") == results(undisturbed)
    batch(source, tmp_path / "1", tasks=read_tasks(source, SETTINGS)[:1], block=1)
    assert results(tmp_path / "1").items() < results(undisturbed).items()


@pytest.mark.parametrize(
    ("step", "limits", "message"),
    [
        (batching.fail, {}, "internal error, ZeroDivisionError: <script>"),
        (batching.hang, {"timeout": 3.0}, "took longer than 3 s (--timeout)."),
        (batching.eat, {"memory": 3e8}, "took more than 0.3 GB of memory (--memory)."),
    ],
)
def test_a_unit_that_goes_wrong_stops_no_other(
    source, undisturbed, tmp_path, step, limits, message
):
    out = tmp_path / "out"
    done_so_far = batch(source, out, step, **limits)
    assert [(r["task"], r["unit"], r["error"]) for r in done_so_far.failures] == [
        ("t0", "note", message)
    ]
    with pytest.raises(BatchIncompleteError, match="t0, note: "):
        done_so_far.complete()
    assert len(done(out)) == 11
    assert "<script>" not in (out / "index.html").read_text()
    resumed(source, out, undisturbed, batching.note if step is batching.fail else step, **limits)


def test_a_damaged_input_among_good_ones(source, undisturbed, tmp_path):
    make_tasks(tmp_path / "in")
    broken = tmp_path / "in" / "t0.nc"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    out = tmp_path / "out"
    assert [(r["task"], r["unit"]) for r in batch(tmp_path / "in", out).failures] == [("t0", "fit")]
    assert len(done(out)) == 6
    broken.write_bytes(whole)
    resumed(tmp_path / "in", out, undisturbed)


def test_half_a_line_of_the_manifest_is_done_again(
    source, undisturbed, tmp_path, monkeypatch, caplog
):
    """The process ends while it writes a line: what that told of is done again, nothing else."""
    write = os.write
    for nth in (0, 7):
        out, left = tmp_path / f"{nth}", iter(range(nth, -1, -1))

        def half(handle, data, left=left):
            if next(left):
                return write(handle, data)
            write(handle, data[: len(data) // 2])
            raise KeyboardInterrupt

        caplog.clear()
        with monkeypatch.context() as patch:
            patch.setattr("msbgen.data.journal.os.write", half)
            with pytest.raises(KeyboardInterrupt):
                batch(source, out)
        # interrupted within the first line, nothing is begun yet
        assert ("continue with --resume" in caplog.text) == (nth > 0)
        assert not (out / "manifest.jsonl").read_bytes().endswith(b"\n")
        assert len(done(out)) == max(nth - 1, 0)
        resumed(source, out, undisturbed)


@pytest.mark.parametrize("unit", ["fit", "generate/mean/0", "join/sample", "note"])
def test_a_damaged_line_is_removed_as_its_message_says(source, undisturbed, tmp_path, unit):
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    manifest = out / "manifest.jsonl"
    whole = manifest.read_text().splitlines(keepends=True)
    (number,) = (
        i for i, r in enumerate(lines(out)) if (r.get("task"), r.get("unit")) == ("t0", unit)
    )
    manifest.write_text("".join([*whole[:number], "garbled\n", *whole[number + 1 :]]))
    message = f"line {number + 1} is no record of a batch; restore a copy, or remove that line; "
    with pytest.raises(ProfileError, match=message):
        batch(source, out, resume=True)
    manifest.write_text("".join([*whole[:number], *whole[number + 1 :]]))
    assert batch(source, out, resume=True).failures == []
    assert results(out) == results(undisturbed)
    again = done(out)[len(whole) - 2 :]
    assert (f"t0/{unit}" in again) != unit.startswith("generate")  # blocks are joined already
    assert all(one.startswith("t0/") for one in again)


def test_what_is_missing_or_was_changed_is_made_again(source, undisturbed, tmp_path):
    out = shutil.copytree(undisturbed, tmp_path / "out")
    (out / "t0" / "mean.nc").unlink()
    (out / "t1" / "note.txt").write_text("longer than it was")
    again = batch(source, out, resume=True)
    assert results(out) == results(undisturbed)
    assert [name for name in done(out)[12:] if name.startswith("t1")] == ["t1/fit", "t1/note"]
    assert again.executed == 5  # the fit, the means, their file; the fit, the note
    assert batch(source, out, resume=True).executed == 0


def test_another_input_makes_its_task_anew(source, undisturbed, tmp_path):
    source = shutil.copytree(source, tmp_path / "in")
    out = shutil.copytree(undisturbed, tmp_path / "out")
    before = results(out)
    os.utime(source / "t0.nc")  # touched, and as it was
    assert batch(source, out, resume=True).executed == 0
    task = read_profiles(source / "t0.nc")
    task["instructions"].values *= 1.01
    write_profiles(task, source / "t0.nc", overwrite=True)
    assert batch(source, out, resume=True).executed == 6
    changed = {name for name, content in results(out).items() if before[name] != content}
    assert changed == {"t0/mean.nc", "t0/sample.nc"}


def test_other_settings_need_another_folder(source, undisturbed, tmp_path):
    out = shutil.copytree(undisturbed, tmp_path / "out")
    with pytest.raises(ArgumentError, match="exists already; continue with --resume"):
        batch(source, out)
    with pytest.raises(
        ArgumentError,
        match=r"task 't0' was started with kinds .* and samples 2, not 10; restore that",
    ):
        batch(source, out, resume=True, settings=TaskSettings(kinds=("mean",), preset="paper"))
    with pytest.raises(ArgumentError, match="was started without --models, not with --models"):
        batch(source, out, resume=True, models=True)
    manifest = out / "manifest.jsonl"
    manifest.write_text(manifest.read_text().replace('"msbgen": "', '"msbgen": "9.', 1))
    with pytest.raises(ArgumentError, match=r"was written by msbgen 9\."):
        batch(source, out, resume=True)


def test_settings_with_which_nothing_was_done_are_mended_in_the_same_folder(source, tmp_path):
    out, (first, second) = tmp_path / "out", read_tasks(source, SETTINGS)

    def wanted(**changes):
        return [replace(first, settings=replace(first.settings, **changes)), second]

    def contexts_of(source, measured):
        if source != "all":
            raise ArgumentError(f"grid is '{source}'; another one is wanted.")
        return batching.contexts_of(source, measured)

    def executed(tasks, **options):
        config = ExecutionConfig(contexts_of, {"note": BatchStep(batching.note)})
        return run_batch(tasks, out, config, **options)

    (failed,) = executed(wanted(contexts="grid:9")).failures
    assert (failed["task"], failed["unit"]) == ("t0", "fit")
    assert failed["error"] == "t0.nc: grid is 'grid:9'; another one is wanted."
    (failed,) = executed(wanted(leave_out=1000), resume=True).failures
    assert failed["unit"] == "fit"
    assert failed["error"].startswith(
        "t0.nc: leave_out is 1000; a number from 1 to 5 of the 6 contexts"
    )
    assert not executed(wanted(), resume=True).failures
    assert len(set(done(out))) == len(done(out)), "something finished was done again"
    with pytest.raises(
        ArgumentError, match="task 't0' was started with samples 2, not 3; restore that"
    ):
        executed(wanted(samples=3), resume=True)


def test_files_of_others_are_not_written_over(source, tmp_path):
    for name in ("index.html", "t1/mean.nc"):
        theirs = tmp_path / name.partition(".")[0].replace("/", "-") / name
        theirs.parent.mkdir(parents=True)
        theirs.write_text("precious")
        out = tmp_path / theirs.relative_to(tmp_path).parts[0]
        for resume in (False, True):
            with pytest.raises(ArgumentError, match="is not of a batch; name"):
                batch(source, out, resume=resume)
        assert theirs.read_text() == "precious"
        assert not (out / "manifest.jsonl").exists()
    (tmp_path / "empty" / "t0").mkdir(parents=True)
    (tmp_path / "empty" / "notes.txt").write_text("precious")
    assert not batch(source, tmp_path / "empty").failures
    assert (tmp_path / "empty" / "notes.txt").read_text() == "precious"


def test_tasks_may_be_added_and_left_out(source, undisturbed, tmp_path):
    tasks, out = read_tasks(source, SETTINGS), tmp_path / "out"
    batch(source, out, tasks=tasks[:1])
    batch(source, out, tasks=tasks[1:], resume=True)
    assert results(out) == results(undisturbed)
    listed = (out / "index.html").read_text()
    assert "2 tasks: 2 complete, 0 with failures" in listed
    assert 'href="t0/"' in listed
    shutil.rmtree(out / "t0")
    batch(source, out, tasks=tasks[1:], resume=True)
    listed = (out / "index.html").read_text()
    assert "2 tasks: 1 complete, 0 with failures" in listed
    assert 'href="t0/"' not in listed


def test_a_full_disk_fails_a_unit_or_ends_the_batch(source, undisturbed, tmp_path, monkeypatch):
    out = tmp_path / "out"

    def full(*_, **__):
        raise OSError(28, "No space left on device", "mean.nc")

    with monkeypatch.context() as patch:
        patch.setattr("msbgen.output.batch.job.write_blocks", full)
        failures = batch(source, out).failures
    assert {(r["unit"], r["error"]) for r in failures} == {
        ("join/mean", "mean.nc: no space left on device."),
        ("join/sample", "mean.nc: no space left on device."),
    }
    resumed(source, out, undisturbed)

    out = tmp_path / "index"
    with monkeypatch.context() as patch:
        patch.setattr("msbgen.output.batch.run.write_index", full)
        with pytest.raises(
            BatchIncompleteError, match=r"^index: mean.nc: no space left on device\."
        ):
            batch(source, out).complete()

    out = tmp_path / "other"
    write, written = os.write, []

    def fuller(handle, data):
        written.append(1)
        return write(handle, data) if len(written) < 5 else 0

    with monkeypatch.context() as patch:
        patch.setattr("msbgen.data.journal.os.write", fuller)
        with pytest.raises(OSError, match="No space left"):
            batch(source, out)
    assert len(done(out)) == 3
    (out / "go on").touch()
    batch(source, out, resume=True)
    assert results(out) == results(undisturbed)


def test_models_are_kept_where_they_are_asked_for(source, undisturbed, tmp_path):
    out = tmp_path / "out"
    batch(source, out, models=True)
    assert {"t0/model.nc", "t1/model.nc"} == set(results(out)) - set(results(undisturbed))
    before = results(out)
    (out / "t0" / "model.nc").unlink()
    assert batch(source, out, models=True, resume=True).executed == 1
    assert results(out) == before


def test_stores_are_written_region_by_region(source, undisturbed, tmp_path):
    pytest.importorskip("zarr")
    import xarray as xr

    out = tmp_path / "out"
    batch(source, out, zarr=True)
    for kind in ("mean", "sample"):
        store = xr.open_zarr(out / "t0" / f"{kind}.zarr", consolidated=False, decode_times=False)
        file = read_profiles(undisturbed / "t0" / f"{kind}.nc")
        xr.testing.assert_identical(store.load(), file)
    # moved to its place, and killed before that was noted
    manifest = out / "manifest.jsonl"
    kept = [line for line in manifest.read_text().splitlines() if '"join/mean"' not in line]
    manifest.write_text("\n".join(kept) + "\n")
    before = results(out)
    batch(source, out, zarr=True, resume=True)
    assert results(out) == before


def test_a_step_that_there_is_not(source, tmp_path):
    tasks = [BatchTask("a", source / "t0.nc", settings=TaskSettings(steps=("dance",)))]
    with pytest.raises(ArgumentError, match="has the step 'dance'; use note, or all"):
        batch(source, tmp_path / "out", tasks=tasks)
    none = [
        BatchTask("a", source / "t0.nc", settings=TaskSettings(kinds=(), steps=(), preset="paper"))
    ]
    config = ExecutionConfig(batching.contexts_of, {})
    run_batch(none, tmp_path / "none", config)
    assert not (tmp_path / "none" / "a").exists()


@needs_root
def test_another_user_can_neither_read_nor_change_a_batch(tmp_path, open_folder):
    source = make_tasks(tmp_path / "in", n=1)
    out = open_folder / "out"
    names = ["manifest.jsonl", ".work", ".work/t0", "t0", "t0/mean.nc", "index.html"]

    def note_and_look(job):
        assert (job.scratch / "model.nc").exists()
        assert meddle(open_folder) == meddle(out, *names) == []
        return batching.note(job)

    assert batch(source, out, note_and_look).failures == []
    assert meddle(open_folder) == meddle(out, *names) == []


WRONG = [None, "x", -1, 0, [], {}, {"x": "y"}, ["x"], float("nan"), 10**30]


def leaves(record, *keys):
    """The keys of every value of a record, also of those that hold others."""
    for key, value in record.items():
        yield (*keys, key)
        if isinstance(value, dict):
            yield from leaves(value, *keys, key)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_forged_manifest_is_refused_or_its_units_are_repeated(source, tmp_path, wrong):
    out, step = tmp_path / "out", lambda job: StepResult([], {"error": 1.0, "grade": 1.0})
    tasks = read_tasks(source, replace(SETTINGS, kinds=("mean",)))[:1]
    batch(source, out, step, tasks=tasks)
    head, *records = lines(out)
    for i, record in enumerate(records):
        for *above, last in leaves(record):
            forged = copy.deepcopy([head, *records])
            place = forged[1 + i]
            for key in above:
                place = place[key]
            place[last] = wrong
            text = "".join(f"{json.dumps(line)}\n" for line in forged)
            (out / "manifest.jsonl").write_text(text)
            with suppress(ArgumentError, ProfileError):
                failures = batch(source, out, step, tasks=tasks, resume=True).failures
                assert [r["error"] for r in failures if "internal" in r["error"]] == []


@needs_root
def test_a_folder_behind_a_link_of_another_user_is_not_taken(tmp_path):
    (tmp_path / "mine").mkdir(0o700)
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "mine")
    os.lchown(link, 12345, 12345)
    with pytest.raises(OSError, match="out: is a link of another user; remove it, or name"):
        run_batch([BatchTask("a", tmp_path / "a.nc")], link, ExecutionConfig(identify, {}))
    assert not os.listdir(tmp_path / "mine")
