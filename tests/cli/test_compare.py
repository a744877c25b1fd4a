"""``msbgen compare``."""

import csv
import json
import re
import shlex
import shutil
from functools import partial

import numpy as np
import pytest

import msbgen.answers.compare.comparison  # noqa: F401 - what is first imported later would keep the patch
from conftest import MEASURED, synthetic_task
from msbgen.answers.compare.results import CompareSettings
from msbgen.cli.main import command_line, main
from msbgen.data.store import write_profiles
from pages import ROOT, blocks
from worked import worked

PAGE = ROOT / "msbgen" / "answers" / "compare" / "README.md"


def slower(dataset, factor):
    out = dataset.assign_coords(time=dataset["time"] * factor)
    out["duration"] = dataset["duration"] * factor
    return out.assign_attrs(interval=dataset.attrs["interval"] * factor)


@pytest.fixture(autouse=True)
def _few_permutations(monkeypatch):
    """No test here is of the stretches of the work that changed, which take most of the time."""
    few = partial(CompareSettings, permutations=99)
    monkeypatch.setattr("msbgen.answers.compare.results.CompareSettings", few)


@pytest.fixture(scope="session")
def versions(tmp_path_factory):
    """Measured files of an old version, of the same once more, and of a slower one."""
    folder = tmp_path_factory.mktemp("versions")
    new = synthetic_task(MEASURED, seed=8)
    for name, dataset in {
        "old.nc": synthetic_task(MEASURED), "same.nc": new, "slower.nc": slower(new, 1.2)
    }.items():  # fmt: skip
        write_profiles(dataset, folder / name)
    return folder


@pytest.fixture
def files(versions, tmp_path):
    shutil.copytree(versions, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_comparison_is_printed_and_written(files, msbgen):
    (files / "w.csv").write_text(
        "weight,cache_ways,frequency\n" + "".join(f"1,{w:g},{f:g}\n" for w, f in MEASURED)
    )
    arguments = ("compare", "old.nc", "slower.nc", "--weights", "w.csv", "--contexts", "grid:2x2")
    done = msbgen(*arguments, "--json", "o.json", "-o", "o.csv", "--report", "r.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("synthetic: slower by 20")
    content = json.loads((files / "o.json").read_text(encoding="utf-8"))
    assert content["schema_version"] == 1
    (one,) = content["comparisons"]
    assert one["time"]["low"] < 1.2 < one["time"]["high"]
    first_cells = re.findall(r"^\| (.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    keys = set(re.findall(r"`(\w+)`", " ".join(first_cells)))
    assert set(one) <= keys  # the page lists all
    rows = list(csv.reader((files / "o.csv").open()))
    assert rows[0] == ["task", "cache_ways", "frequency", "ratio", "low", "high"]
    assert [float(row[3]) for row in rows[1:]] == pytest.approx(one["ratio"], rel=1e-5)
    assert len(rows) == 5
    assert "Slower" in (files / "r.html").read_text(encoding="utf-8")


def test_weights_of_contexts_that_were_not_measured_are_told(files, msbgen):
    contexts = [*MEASURED, (2.0, 9.0), (2.0, 7.0)]
    weights = [1.0] * len(MEASURED) + [1.0, 0.0]
    rows = (f"{weight:g},{w:g},{f:g}\n" for weight, (w, f) in zip(weights, contexts))
    (files / "w.csv").write_text("weight,cache_ways,frequency\n" + "".join(rows))
    done = msbgen("compare", "old.nc", "same.nc", "--weights", "w.csv")
    assert done.stderr == (
        "msbgen: w.csv: weights of contexts that old.nc does not hold, which do not count: 1.\n"
    )


LIMITS = [
    ("slower.nc", ["--fail-above", "2%"], 6, "slower by more than 2 %: slower.nc"),
    ("same.nc", ["--fail-above", "2%"], 0, ""),
    ("slower.nc", ["--fail-above", "0.3", "--strict"], 0, ""),
    ("same.nc", ["--fail-above", "0.01%", "--strict"], 7, "not decided, measure more runs"),
]


@pytest.mark.parametrize(("new", "given", "code", "sentence"), LIMITS)
def test_exit_codes_say_whether_a_limit_is_exceeded(files, msbgen, new, given, code, sentence):
    done = msbgen("compare", "old.nc", new, "--markdown", *given)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert done.stdout.startswith("| task | time | verdict |")


ONE_SIDED = [
    ({0: 1.3, 1: 1.3}, ["--fail-above", "2%"], 6, "slower by 3", "slower by more than 2 %"),
    ({4: 0.7, 5: 0.7}, ["--fail-above", "2%"], 0, "", ""),
    (
        {4: 0.7, 5: 0.7},
        ["--fail-above", "2%", "--strict"],
        7,
        "",
        "one version alone looks wrongly",
    ),
    ({4: 0.7, 5: 0.7}, ["--strict", "--keep-all"], 0, "faster by 4", ""),
]


@pytest.mark.parametrize(("factors", "given", "code", "verdict", "sentence"), ONE_SIDED)
def test_other_work_of_one_version(folder, msbgen, factors, given, code, verdict, sentence):
    """More of it counts; less of it, as of runs that were cut, is left out, and not decided."""
    write_profiles(worked({}, 1), folder / "old.nc")
    write_profiles(worked(factors, 2), folder / "new.nc")
    done = msbgen("compare", "old.nc", "new.nc", *given)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert f"worked: {verdict}" in done.stdout
    is_left_out = "--keep-all if the version does that" in done.stdout
    assert is_left_out == (min(factors.values()) < 1 and "--keep-all" not in given)
    assert ("faster by" in done.stdout) == ("--keep-all" in given)


def test_several_tasks_are_matched_by_name_or_by_task(files, msbgen, refused):
    for folder in ("old", "new"):
        (files / folder).mkdir()
    for name in ("a", "b"):
        write_profiles(
            synthetic_task(MEASURED).assign_attrs(task=name), files / "old" / f"{name}.nc"
        )
    shutil.copy(files / "slower.nc", files / "new" / "a.nc")
    new_b = synthetic_task(MEASURED, seed=8).assign_attrs(task="b")
    write_profiles(new_b, files / "new" / "other-name.nc")
    done = msbgen("compare", "old/a.nc", "old/b.nc", "--with", "new", "--fail-above", "2%")
    assert done.returncode == 6
    assert "more than 2 %: new/a.nc." in done.stderr
    head, _, first, second = done.stdout.splitlines()[:4]
    assert head.split() == ["task", "time", "verdict"]
    assert "slower by 20" in first
    assert "slower" not in second
    shutil.copy(files / "old" / "a.nc", files / "old" / "c.nc")
    shutil.copy(files / "same.nc", files / "new" / "c.nc")
    done = msbgen("compare", "old/a.nc", "old/c.nc", "--with", "new")
    assert [line.split("  ")[0] for line in done.stdout.splitlines()[2:4]] == [
        "synthetic (a)",
        "synthetic (c)",
    ]
    (files / "new" / "other-name.nc").unlink()
    refused(2, "and none of its task, 'b'", "compare", "old/b.nc", "--with", "new")
    shutil.copy(files / "old" / "b.nc", files / "new" / "x.nc")
    shutil.copy(files / "old" / "b.nc", files / "new" / "y.nc")
    refused(2, "and 2 (x.nc, y.nc) of its task", "compare", "old/b.nc", "--with", "new")
    renamed = synthetic_task(MEASURED).rename(cache_ways="ways").assign_attrs(task="b")
    write_profiles(renamed, files / "new" / "b.nc", overwrite=True)
    write_profiles(renamed, files / "old" / "b.nc", overwrite=True)
    shutil.copy(files / "slower.nc", files / "new" / "a.nc")
    many = ("old/a.nc", "old/b.nc", "--with", "new", "-o", "o.csv", "--json", "o.json")
    refused(2, "-o is for tasks of the same resources", "compare", *many)
    assert not (files / "o.json").exists()


def test_both_versions_may_lie_in_one_folder(files, msbgen):
    """As `measure` writes the variants of a sweep."""
    (files / "old.nc").rename(files / "bench-old.nc")
    (files / "slower.nc").rename(files / "bench-new.nc")
    (files / "same.nc").unlink()
    done = msbgen("compare", "bench-old.nc", "--with", ".")
    assert done.stdout.startswith("synthetic: slower by 20")


def test_a_new_file_is_the_version_of_one_old_file(files, refused):
    (files / "new").mkdir()
    shutil.copy(files / "slower.nc", files / "new" / "old.nc")
    refused(2, "and none of its task", "compare", "old.nc", "same.nc", "--with", "new")


def test_a_folder_that_is_none_is_refused(refused):
    refused(2, "none: is no folder", "compare", "old/b.nc", "--with", "none")


REFUSED = [
    (["old.nc"], 2, "1 files without --with; OLD.nc NEW.nc or --with is wanted"),
    (["old.nc", "old.nc"], 2, "old.nc: is both versions"),
    (["old.nc", "none.nc"], 3, "none.nc: no such file"),
    (["old.nc", "garbage.nc"], 3, "garbage.nc"),
    (["old.nc", "made.nc"], 3, "made.nc: has no measured runs"),
    (["old.nc", "same.nc", "--report", "r.pdf"], 2, "a file that ends in .html"),
    (["old.nc", "same.nc", "--fail-above", "2"], 2, "'2' is not a share above 0% and below 100%"),
    (["old.nc", "same.nc", "--weights", "few.csv"], 3, "few.csv: has 0 rows for context 1"),
    (["old.nc", "same.nc", "--weights", "minus.csv"], 3, "a number from 0 on is wanted"),
    (["old.nc", "same.nc", "-o", "old.nc"], 2, "names a netCDF file"),
    (["old.nc", "same.nc", "-o", "-"], 2, "'-' (stdout) has the answer; name a file"),
]


@pytest.mark.parametrize(("given", "code", "sentence"), REFUSED)
def test_what_cannot_be_compared_is_refused(files, refused, given, code, sentence):
    (files / "garbage.nc").write_bytes(b"CDF\x01 garbage")
    (files / "few.csv").write_text("cache_ways,frequency,weight\n2,1,1\n")
    (files / "minus.csv").write_text("cache_ways,frequency,weight\n2,1,-1\n")
    write_profiles(synthetic_task(MEASURED).isel(run=0, drop=True), files / "made.nc")
    refused(code, sentence, "compare", *given)


def test_the_job_on_the_page_runs(files, msbgen):
    """Its commands parse; those of the comparison run on files as the job has them."""
    shutil.copy(files / "old.nc", files / "bench-old.nc")
    shutil.copy(files / "slower.nc", files / "bench-new.nc")
    (job,) = blocks("yaml", PAGE)
    commands = [shlex.split(c) for c in re.findall(r"- run: msbgen (.*)", job)]
    assert [words[0] for words in commands] == ["measure", "compare"]
    command_line().parse_args(commands[0])
    done = msbgen(*commands[1][: commands[1].index(">>")])
    assert done.returncode == 6, done.stderr
    assert (files / "change.json").exists()
    assert done.stdout.startswith("| task | time |")


def test_a_warning_of_a_file_is_printed_once(folder, msbgen):
    slot = ("context", np.arange(6.0))
    write_profiles(synthetic_task(MEASURED).assign_coords(slot=slot), folder / "odd.nc")
    done = msbgen("compare", "measured.nc", "odd.nc")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("coordinate 'slot' has no role") == 1


def test_messages_name_the_folders_of_files_of_one_name(files, msbgen, refused):
    for name in ("a", "b"):
        (files / name).mkdir()
        shutil.copy(files / "old.nc", files / name / "z.nc")
    (files / "b" / "z.nc").write_bytes(b"x")
    refused(3, "b: z.nc: not a netCDF file", "compare", "a/z.nc", "b/z.nc")
    write_profiles(
        synthetic_task(MEASURED).drop_vars("cache_misses"), files / "b" / "z.nc", overwrite=True
    )
    done = msbgen("compare", "a/z.nc", "b/z.nc")
    assert "cache_misses: only in a/z.nc, and not compared" in done.stdout
    message = "'a/z.nc' and 'b/z.nc' have one name; compare them one by one"
    shutil.copy(files / "a" / "z.nc", files / "z.nc")
    refused(2, message, "compare", "a/z.nc", "b/z.nc", "--with", ".")


def hyperfine(path, times):
    results = [{"command": f"./{n}", "times": list(own)} for n, own in times.items()]
    path.write_text(json.dumps({"results": results}))
    return str(path)


def test_results_of_a_benchmark_tool_are_compared_benchmark_by_benchmark(tmp_path, capsys):
    rng = np.random.default_rng(1)
    times = {name: np.exp(0.004 * rng.standard_normal((2, 12))) for name in ("sort", "scan", "x")}
    old = hyperfine(tmp_path / "old.json", {n: 2 * one[0] for n, one in times.items()})
    times["sort"][1] *= 1.05
    new = hyperfine(tmp_path / "new.json", {n: 2 * times[n][1] for n in ("sort", "scan")})
    assert main(["compare", old, new]) == 0
    said = capsys.readouterr()
    assert "old.json: ./x: not in both, not compared." in said.err
    assert "./sort: slower by " in said.out
    assert "./scan: " in said.out
    assert "whole_run" not in said.out
    other = hyperfine(tmp_path / "other.json", {"y": [1.0, 1.1]})
    assert main(["compare", old, other]) == 3
    assert "a benchmark of one name is wanted in both" in capsys.readouterr().err
