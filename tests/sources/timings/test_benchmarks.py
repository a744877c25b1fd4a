"""Results of benchmark tools, known by their content."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.data.check import inspect_profiles
from msbgen.sources.timings.benchmarks import is_benchmark, read_benchmarks
from msbgen.sources.timings.timings import profiles_of

FIXTURES = Path(__file__).parent / "fixtures"
CRITERION = sorted(FIXTURES.glob("criterion/**/sample.json"))
# File: tasks, and settings and runs of the first.
KNOWN = {
    "hyperfine.json": (["gzip -{level} -k -c part{size}"], {"level": 3, "size": 3}, 5),
    "hyperfine-scan.json": (["gzip -{level} -k -c part800"], {"level": 3}, 4),
    "pyperf.json": (["compress", "crc32"], {"level": 3, "size": 3}, 12),
    "google.json": (["BM_sort", "BM_scan"], {"size": 3, "values": 2}, 2),
    "pytest-benchmark.json": (["test_compress", "test_checksum"], {"level": 3, "size": 3}, 4),
    "asv/machine/00000000-existing-py.json": (
        ["b.Compress.time_compress"], {"level": 3, "size": 3}, 10,
    ),
    "jmh.json": (["Sorting.sort", "Sorting.scan"], {"size": 2, "order": 2}, 3),
    "tuner.json": (["vector_add"], {"block_size_x": 2, "nvml_gr_clock": 2}, 2),
    "extrap.txt": (["solve", "read"], {"p": 2, "n": 2}, 2),
    "extrap.jsonl": (["solve"], {"p": 2, "n": 2}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_parameters_are_settings_and_repeats_are_runs(name):
    tasks, settings, runs = KNOWN[name]
    assert is_benchmark(FIXTURES / name)
    found = read_benchmarks([FIXTURES / name])
    assert [one.task for one in found] == tasks
    assert {n: len(np.unique(c.values)) for n, c in found[0].settings.items()} == settings
    for one in found:
        dataset, _ = profiles_of(one)
        assert not inspect_profiles(dataset).errors
    assert profiles_of(found[0])[0].sizes["run"] == runs


def mean(timings, **levels):
    rows = np.ones(len(timings.seconds), dtype=bool)
    for name, level in levels.items():
        column = timings.settings[name]
        rows &= column.values == (column.labels.index(level) + 1 if column.labels else level)
    return timings.seconds[rows].mean()


def test_times_are_seconds_of_one_call():
    sort, scan = read_benchmarks([FIXTURES / "jmh.json"])
    assert mean(sort, size=4000, order="random") == pytest.approx(4000 * 0.08e-6)
    assert scan.seconds.tolist() == [1 / 50e3, 1 / 40e3]  # of a rate [ops/ms]
    stable, unstable = read_benchmarks(CRITERION)
    assert (stable.task, unstable.task) == ("sort/stable", "sort/unstable")
    assert mean(stable, input=1000) == pytest.approx(1e-9 * (10000 + 10250 + 9800) / 3)
    (tuned,) = read_benchmarks([FIXTURES / "tuner.json"])
    assert mean(tuned, block_size_x=64, nvml_gr_clock=600) == pytest.approx(
        1.01e-3 * (1e3 / 600 + 1)
    )
    assert "1 configuration that failed: left out" in tuned.taken[1]
    google = json.loads((FIXTURES / "google.json").read_text())["benchmarks"]
    own = [b["real_time"] for b in google if b["name"] == "BM_sort/size:8/values:10"]
    (sort, _) = read_benchmarks([FIXTURES / "google.json"])
    assert mean(sort, size=8, values=10) == pytest.approx(1e-9 * np.mean(own))


def hyperfine(*results):
    return {"results": [{"command": c, "times": t, "exit_codes": e, "parameters": p, "mean": 1.0}
                        for c, t, e, p in results]}  # fmt: skip


def written(folder, content, name="b.json"):
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_failed_runs_are_left_out_and_commands_without_parameters_are_tasks(tmp_path):
    path = written(tmp_path, hyperfine(("./a", [1, 2, 3], [0, 1, 0], {}), ("./b", [4], [0], {})))
    found = read_benchmarks([path])
    assert {one.task: one.seconds.tolist() for one in found} == {"./a": [1, 3], "./b": [4]}
    assert "1 run with an exit code other than 0: left out" in found[0].taken[1]
    dataset, sentences = profiles_of(found[0])
    assert dataset["setting"].values.tolist() == [1]
    assert "all runs are of one setting" in sentences[0]


def test_settings_may_stand_in_the_names_of_files_that_are_put_together(tmp_path):
    files = [
        written(tmp_path, hyperfine(("./a", [cores], [0], {})), f"a__cores={cores}.json")
        for cores in (1, 2)
    ]
    extra = {f"a__cores={cores}.json": {"cores": str(cores)} for cores in (1, 2)}
    (found,) = read_benchmarks(files, extra)
    assert found.settings["cores"].values.tolist() == found.seconds.tolist() == [1, 2]


def test_compressed_files_byte_order_marks_and_utf_16_are_read(tmp_path):
    text = (FIXTURES / "tuner.json").read_text()
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "bom.json").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    (tmp_path / "wide.json").write_text(text, encoding="utf-16")
    for name in ("t.json.gz", "bom.json", "wide.json"):
        assert read_benchmarks([tmp_path / name])[0].task == "vector_add"


def test_words_are_levels_and_numbers_among_words_are_words(tmp_path):
    rows = [("x", [1.0], [0], {"threads": value}) for value in ("1", "2", "all")]
    (found,) = read_benchmarks([written(tmp_path, hyperfine(*rows))])
    assert profiles_of(found)[0]["threads"].attrs["labels"] == ["1", "2", "all"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"results": [{"command": "x", "ti', "cannot be read as JSON"),
        ({"a": 1}, "is no result of a benchmark tool that is known"),
        (hyperfine(("./a", [1], [1], {})), "holds no run of hyperfine with a time"),
        (hyperfine(("x 1", [1], [0], {"a": 1}), ("x 1", [1], [0], {"a": 1, "b": 2})), "x "),
        ({"results": [{"command": 3, "times": "x"}]}, "has another form"),
        ({"benchmarks": [{"stats": {}, "name": "x"}]}, "has another form"),
        ("PARAMETER p\nPOINTS 1 2\nDATA 1\nDATA 2\nDATA 3\n", "line 5: DATA 3 of b has no point"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_file(tmp_path, content, sentence):
    with pytest.raises(ProfileError, match=r"^b\.json: ") as caught:
        read_benchmarks([written(tmp_path, content)])
    assert sentence in str(caught.value)


def test_times_of_zero_are_refused(tmp_path):
    (found,) = read_benchmarks([written(tmp_path, hyperfine(("x", [0.1, 0.0], [0, 0], {})))])
    with pytest.raises(ProfileError, match=r"b\.json: x: run 1 took 0 s; a time above 0"):
        profiles_of(found)


def test_results_of_asv_of_two_commits_are_told_apart(tmp_path):
    content = json.loads((FIXTURES / "asv/machine/00000000-existing-py.json").read_text())
    files = [
        written(tmp_path, {**content, "commit_hash": sign * 40}, f"{sign}.json") for sign in "12"
    ]
    (found,) = read_benchmarks(files)
    assert found.settings["commit"].labels == ("@11111111", "@22222222")
    assert len(found.seconds) == 2 * 90
