"""The real command line: every verb, every exit code."""

import contextlib
import csv
import io
import json
import logging
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from broken import BROKEN
from msbgen.bounds.heads import HEADS
from msbgen.bounds.model import CalibratedModel
from msbgen.cli.main import main
from msbgen.data.schema import context_table, count_array
from msbgen.data.store import read_profiles, write_profiles
from msbgen.errors import ProfileError
from msbgen.evaluate.scores import METHODS
from msbgen.platform import platform_contexts

ROOT = Path(__file__).resolve().parents[2]
GZIP = ROOT / "profiles" / "traces" / "gzip.nc"


def msbgen(*arguments, cwd):
    """The command in this process: what start-up costs is paid once."""
    out, err = io.StringIO(), io.StringIO()
    warnings = logging.StreamHandler(err)
    logging.getLogger("msbgen").addHandler(warnings)
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with contextlib.chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            try:
                code = main([str(a) for a in arguments])
            except SystemExit as stop:  # how the parser leaves
                code = stop.code
    finally:
        signal.signal(signal.SIGTERM, handler)
        logging.getLogger("msbgen").removeHandler(warnings)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def started(*arguments, cwd):
    """The command as users start it."""
    return subprocess.run(
        [sys.executable, "-m", "msbgen", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(measured, truth, tmp_path):
    write_profiles(measured, tmp_path / "measured.nc")
    write_profiles(truth, tmp_path / "truth.nc")
    return tmp_path


def test_generate_all_contexts(folder):
    done = started("generate", "measured.nc", "-o", "out.nc", "--contexts", "all", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "out.nc: 12 contexts, 0 of them extrapolated" in done.stdout
    assert done.stderr == ""  # progress is for terminals
    assert read_profiles(folder / "out.nc").sizes["context"] == 12


def test_generate_from_a_csv_with_every_option(folder):
    (folder / "c.csv").write_text("frequency,cache_ways\n1.5, 3\n\n2.0,8\n")
    done = msbgen(
        "generate", "measured.nc", "-o", "out.nc", "--contexts", "c.csv", "--kind", "sample",
        "--samples", 3, "--interval", 0.02, "--preset", "paper", "--epsilon", 0.05, "--seed", 4,
        "--model", "model.nc", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    out = read_profiles(folder / "out.nc")
    np.testing.assert_array_equal(context_table(out), [[3.0, 1.5], [8.0, 2.0]])
    assert out.sizes["sample"] == 3
    assert (out.attrs["interval"], out.attrs["epsilon"], out.attrs["seed"]) == (0.02, 0.05, 4)
    from msbgen.generate.model import ProfileModel

    assert ProfileModel.load(folder / "model.nc").law.settings.epsilon == 0.05


def test_bound_says_context_bound_margin_and_extrapolation(folder):
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n8,2\n9,1\n")
    arguments = ["bound", "measured.nc", "--contexts", "c.csv", "--miscoverage", 0.2]
    done = msbgen(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["cache_ways"] for row in rows] == ["3", "8", "9"]
    assert [row["extrapolated"] for row in rows] == ["0", "0", "1"]
    assert {row["margin_shape"] for row in rows} <= set(HEADS)
    done = msbgen(*arguments, "-o", "b.nc", "--model", "model.nc", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "b.nc: 3 contexts, 1 of them extrapolated" in done.stdout
    with xr.open_dataset(folder / "b.nc") as bounds:
        np.testing.assert_array_equal(bounds["frequency"], [1.5, 2.0, 1.0])
        found = bounds["duration_bound"].values
        assert (bounds.attrs["miscoverage"], bounds.attrs["margin_shape"]) == (
            0.2,
            rows[0]["margin_shape"],
        )
    np.testing.assert_allclose(found, [float(row["duration_bound"]) for row in rows], rtol=1e-5)
    model = CalibratedModel.load(folder / "model.nc")
    np.testing.assert_array_equal(model.duration_bound([[3, 1.5], [8, 2], [9, 1]], 0.2), found)
    done = msbgen(*arguments, "-o", "b.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert list(csv.DictReader((folder / "b.csv").open())) == rows


BOUND_ERRORS = [
    (["--miscoverage", "1.5"], 2, "'1.5' is not between 0 and 1"),
    (["-o", "o.txt"], 2, "o.txt: name a file that ends in .nc or .csv"),
    (["-o", "truth.nc"], 2, "exists already"),
    (["--miscoverage", "0.05"], 3, "measured.nc: miscoverage is 0.05; at least 19 runs"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), BOUND_ERRORS)
def test_bounds_that_cannot_be_given_are_refused_before_the_work(folder, arguments, code, sentence):
    before = sorted(folder.iterdir())
    done = msbgen("bound", "measured.nc", "--contexts", "all", *arguments, cwd=folder)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before


def test_equal_seeds_give_equal_files(folder):
    arguments = ["generate", "measured.nc", "--contexts", "truth.nc", "--kind", "sample"]
    arguments += ["--preset", "paper"]
    for name, seed in (("a.nc", 1), ("b.nc", 1), ("c.nc", 2)):
        done = msbgen(*arguments, "-o", name, "--seed", seed, cwd=folder)
        assert done.returncode == 0, done.stderr
    a, b, c = (count_array(read_profiles(folder / n)) for n in ("a.nc", "b.nc", "c.nc"))
    np.testing.assert_array_equal(a, b)
    assert a.shape != c.shape or not np.array_equal(a, c, equal_nan=True)


def test_check_says_what_a_file_holds(folder):
    done = msbgen("check", "measured.nc", cwd=folder)
    assert done.returncode == 0
    for part in ("contexts  6, 3 runs each", "cache_ways [1]: 2 to 8", "no problem found"):
        assert part in done.stdout


def test_check_lists_every_problem_of_a_bad_file(measured, tmp_path):
    measured["duration"].attrs["units"] = "ms"
    measured["frequency"].attrs.pop("units")
    measured.to_netcdf(tmp_path / "bad.nc")
    done = started("check", "bad.nc", cwd=tmp_path)
    assert done.returncode == 3
    assert "bad.nc: variable 'duration' has units 'ms'" in done.stderr
    assert "bad.nc: resource 'frequency' has no units" in done.stderr


def test_evaluate_against_a_truth_and_by_leaving_out(folder):
    done = msbgen(
        "evaluate", "measured.nc", "--truth", "truth.nc", "-o", "scores",
        "--methods", "bracketing,paper/mean", "--fastdtw", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "paper/mean" in done.stdout
    scores = json.loads((folder / "scores" / "scores.json").read_text())
    assert scores["n_contexts"] == 2
    assert scores["methods"]["paper/mean"]["fastdtw"] > 0
    done = msbgen(
        "evaluate", "measured.nc", "--leave-out", 2, "--methods", "nearest_context", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "means over 6 contexts" in done.stdout


def test_platform_replays_a_trace(tmp_path):
    for name in ("a.nc", "b.nc"):
        done = msbgen(
            "platform", "replay", GZIP, "-o", name, "--contexts", "grid:2x1x2", "--runs", 2,
            "--seed", 3, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f"{name}: 4 contexts, 2 runs each" in done.stdout
    a, b = (count_array(read_profiles(tmp_path / name)) for name in ("a.nc", "b.nc"))
    np.testing.assert_array_equal(a, b)


PLATFORM_ERRORS = [
    (["replay", "no.nc", "-o", "o.nc", "--contexts", "all"], 3, "no.nc: no such file"),
    (["replay", "measured.nc", "-o", "o.nc", "--contexts", "all"], 3, "measured.nc: "),
    (["replay", GZIP, "-o", "o.nc", "--contexts", "grid:3x3"], 2, "grid is 3x3"),
    (["replay", GZIP, "-o", "truth.nc", "--contexts", "all"], 2, "exists already"),
    (["record", "-o", "o.nc"], 2, "no command to record"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), PLATFORM_ERRORS)
def test_platform_errors(folder, arguments, code, sentence):
    done = msbgen("platform", *arguments, cwd=folder)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "o.nc").exists()


BAD_DATA = [
    (["generate", "missing.nc", "-o", "o.nc", "--contexts", "all"], "missing.nc: no such file"),
    (["generate", "empty.nc", "-o", "o.nc", "--contexts", "all"], "empty.nc: the file is empty"),
    (["generate", "text.nc", "-o", "o.nc", "--contexts", "all"], "text.nc: not a netCDF file"),
    (["check", "text.nc"], "text.nc: not a netCDF file"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "no.csv"], "no.csv: no such file"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "head.csv"], "line 1 is 'ways,clock'"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "row.csv"], "line 3 is '4,fast'"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "short.csv"], "line 2 is '4'"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "none.csv"], "no contexts below"),
    (["evaluate", "measured.nc", "--truth", "empty.nc"], "empty.nc: the file is empty"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD_DATA, ids=lambda v: str(v)[-20:])
def test_bad_data_exits_with_3_and_writes_nothing(folder, arguments, sentence):
    (folder / "empty.nc").touch()
    (folder / "text.nc").write_text("time,instructions\n")
    (folder / "head.csv").write_text("ways,clock\n1,2\n")
    (folder / "row.csv").write_text("cache_ways,frequency\n2,1\n4,fast\n")
    (folder / "short.csv").write_text("cache_ways,frequency\n4\n")
    (folder / "none.csv").write_text("cache_ways,frequency\n")
    before = sorted(folder.iterdir())
    done = msbgen(*arguments, cwd=folder)
    assert done.returncode == 3, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(folder.iterdir()) == before


USAGE = [
    ([], "VERB"),
    (["fly"], "invalid choice"),
    (["generate", "measured.nc", "--contexts", "all"], "-o"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--epsilon", "-1"], "'-1'"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--samples", "0"], "'0'"),
    (["generate", "measured.nc", "-o", "truth.nc", "--contexts", "all"], "exists already"),
    (["generate", "measured.nc", "-o", "no/o.nc", "--contexts", "all"], "make it first"),
    (["evaluate", "measured.nc"], "--truth"),
    (["evaluate", "measured.nc", "--truth", "truth.nc", "--methods", "best"], "no method 'best'"),
    (["evaluate", "measured.nc", "--leave-out", "6"], "leaves none of the 6 contexts"),
    (["demo", "--task", "doom"], "no task 'doom' ships; there are: bc, bzip2"),
]


@pytest.mark.parametrize(("arguments", "sentence"), USAGE, ids=lambda v: str(v)[-20:])
def test_usage_errors_exit_with_2_and_touch_nothing(folder, arguments, sentence):
    before = (folder / "truth.nc").read_bytes()
    done = msbgen(*arguments, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "truth.nc").read_bytes() == before


def test_force_overwrites(folder):
    done = msbgen(
        "generate", "measured.nc", "-o", "truth.nc", "--contexts", "all", "--force", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert read_profiles(folder / "truth.nc").sizes["context"] == 12


def test_no_convergence_exits_with_4(folder):
    # so small that rounding stops the marginal error above the tolerance
    done = started(
        "generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--epsilon", "1e-18",
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "not converged" in done.stderr
    assert not (folder / "o.nc").exists()


def test_an_internal_error_exits_with_1(folder):
    code = (
        "import sys, msbgen.data.store\n"
        "def broken(path): raise AssertionError('a bug')\n"
        "msbgen.data.store.load_netcdf = broken\n"
        "from msbgen.cli.main import main\n"
        "sys.exit(main(['check', 'measured.nc']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert "a bug" in done.stderr
    assert "internal error" in done.stderr


def wait_until(happened, process, seconds=60):
    """Poll for what `happened` returns while the process lives; fail when it ends before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := happened():
            return found
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    raise AssertionError(f"nothing happened within {seconds} s")


def obey_interrupts():
    """In the child: a test run in the background ignores SIGINT, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_exits_with_130_and_leaves_no_output(folder):
    script = (  # work that goes on and on
        "import sys, time\n"
        "from msbgen.cli.main import main\n"
        "from msbgen.data import store\n"
        "store.read_profiles = lambda path: print('reading', flush=True) or time.sleep(60)\n"
        "sys.exit(main(['generate', 'measured.nc', '-o', 'o.nc', '--contexts', 'all']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, preexec_fn=obey_interrupts,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "reading\n"
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, messages
    assert "interrupted" in messages
    assert "Traceback" not in messages
    assert not (folder / "o.nc").exists()


STUBBORN = [
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--seed", "-1"], "'-1'"),
    (["generate", "measured.nc", "-o", "/proc/o.nc", "--contexts", "all"], "/proc"),
    (["generate", "measured.nc", "-o", ".", "--contexts", "all", "--force"], "no regular file"),
    (["generate", "measured.nc", "-o", "measured.nc", "--contexts", "all", "--force"], "another"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--model", "o.nc"], "another"),
    (["generate", "measured.nc", "-o", "o.nc", "--contexts", "all", "--interval", "1e-12"], "GB"),
    (["generate", "measured.nc", "-o", "dangling.nc", "--contexts", "all"], "exists already"),
    (["evaluate", "measured.nc", "--leave-out", "2", "-o", "measured.nc"], "measured.nc"),
]


@pytest.mark.parametrize(("arguments", "sentence"), STUBBORN, ids=lambda v: str(v)[-24:])
def test_outputs_that_cannot_be_written_are_refused_before_the_work(folder, arguments, sentence):
    (folder / "dangling.nc").symlink_to("nowhere.nc")
    before = (folder / "measured.nc").read_bytes()
    done = msbgen(*arguments, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert (folder / "measured.nc").read_bytes() == before
    assert not (folder / "o.nc").exists()


def test_force_writes_through_a_link(folder):
    (folder / "link.nc").symlink_to("truth.nc")
    done = msbgen(
        "generate", "measured.nc", "-o", "link.nc", "--contexts", "all", "--force", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "link.nc").is_symlink()
    assert read_profiles(folder / "truth.nc").sizes["context"] == 12


def test_repeated_contexts_are_found_in_the_csv(folder):
    (folder / "twice.csv").write_text("cache_ways,frequency\n3,1.5\n4,1\n3,1.5\n")
    done = msbgen("generate", "measured.nc", "-o", "o.nc", "--contexts", "twice.csv", cwd=folder)
    assert done.returncode == 3
    assert "twice.csv: line 4 repeats the context of line 2" in done.stderr


@pytest.mark.parametrize(
    "verb",
    [["generate", "measured.nc"], ["bound", "measured.nc", "--miscoverage", 0.4]],
    ids=lambda verb: verb[0],
)
def test_a_list_of_contexts_is_not_overwritten(folder, verb):
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n")
    done = msbgen(*verb, "--contexts", "c.csv", "-o", "c.csv", "--force", cwd=folder)
    assert done.returncode == 2
    assert "c.csv: is 'c.csv' too; name another output" in done.stderr
    assert (folder / "c.csv").read_text() == "cache_ways,frequency\n3,1.5\n"


def test_a_replay_does_not_overwrite_its_contexts(tmp_path):
    trace = Path(__file__).parents[2] / "profiles" / "traces" / "openssl.nc"
    (tmp_path / "c.csv").write_text("cache_ways,bandwidth,frequency\n20,1400,2.3\n")
    arguments = ["platform", "replay", trace, "--contexts", "c.csv", "-o", "c.csv", "--force"]
    done = msbgen(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "name another output" in done.stderr


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--interval", "1e-12", "steps to play"),
        ("--runs", "1000000000", "this machine has"),
        ("--interval", "1e9", "at most 3600 s"),
    ],
)
def test_replays_that_no_memory_holds_are_refused(tmp_path, option, value, sentence):
    trace = Path(__file__).parents[2] / "profiles" / "traces" / "openssl.nc"
    arguments = ["platform", "replay", trace, "--contexts", "grid:1x1x1", "-o", "o.nc"]
    done = msbgen(*arguments, option, value, cwd=tmp_path)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_too_many_measured_contexts_are_refused(folder, monkeypatch):
    monkeypatch.setattr("msbgen.generate.model._MOST_KNOWN", 3)
    done = msbgen("generate", "measured.nc", "-o", "o.nc", "--contexts", "all", cwd=folder)
    assert done.returncode == 3
    assert "measured.nc: 6 contexts; fitting takes" in done.stderr
    assert "slice(None, None, 2)" in done.stderr


def test_a_csv_of_one_endless_field_is_refused(folder):
    (folder / "c.csv").write_text("cache_ways,frequency\n" + "1" * 200_000 + ",2\n")
    done = msbgen("generate", "measured.nc", "-o", "o.nc", "--contexts", "c.csv", cwd=folder)
    assert done.returncode == 3
    assert "c.csv: cannot be read as a table" in done.stderr


def test_bounds_of_odd_resource_names_are_quoted(measured, tmp_path):
    write_profiles(measured.rename(cache_ways="cache,ways"), tmp_path / "odd.nc")
    done = msbgen(
        "bound", "odd.nc", "--contexts", "all", "--miscoverage", 0.4, "-o", "b.csv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "b.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0][0] == "cache,ways"
    assert {len(row) for row in rows} == {6}


def test_a_folder_of_results_is_neither_a_file_nor_left_empty(folder):
    done = msbgen("evaluate", "measured.nc", "--leave-out", 6, "-o", "new/s", cwd=folder)
    assert done.returncode == 2
    assert not (folder / "new").exists()
    done = msbgen("demo", "-o", "truth.nc", "--force", cwd=folder)
    assert done.returncode == 2
    assert "truth.nc: is no folder" in done.stderr
    (folder / ".hidden").mkdir()
    done = msbgen("evaluate", "measured.nc", "--leave-out", 6, "-o", "hidden", cwd=folder)
    assert "hidden" not in done.stderr  # a folder whose name begins with a dot is another one
    assert "leave" in done.stderr
    arguments = ["evaluate", "measured.nc", "--leave-out", 2, "--generated", "truth.nc"]
    assert "--generated is scored against --truth" in msbgen(*arguments, cwd=folder).stderr


@pytest.mark.parametrize(
    "verb",
    [["generate", "measured.nc"], ["bound", "measured.nc", "--miscoverage", 0.4]],
    ids=lambda verb: verb[0],
)
def test_contexts_in_the_wrong_unit_are_found(folder, verb):
    (folder / "far.csv").write_text("cache_ways,frequency\n3,1.5e9\n")
    done = msbgen(*verb, "-o", "o.nc", "--contexts", "far.csv", cwd=folder)
    assert done.returncode == 3
    assert (
        "far.csv: resource 'frequency' is 1.5e+09 in context 0, about 1e+09 times its levels"
        in done.stderr
    )


def test_a_generated_file_is_scored_beside_the_methods(folder):
    done = msbgen("generate", "measured.nc", "-o", "g.nc", "--contexts", "truth.nc", cwd=folder)
    assert done.returncode == 0, done.stderr
    arguments = ["--truth", "truth.nc", "--methods", "bracketing,default/max_likelihood"]
    done = msbgen(
        "evaluate", "measured.nc", *arguments, "--generated", "g.nc", "-o", "s", cwd=folder
    )
    assert done.returncode == 0, done.stderr
    scores = json.loads((folder / "s" / "scores.json").read_text())["methods"]
    assert scores["g.nc"]["ndtw"] == pytest.approx(scores["default/max_likelihood"]["ndtw"])
    few = msbgen("generate", "measured.nc", "-o", "f.nc", "--contexts", "measured.nc", cwd=folder)
    assert few.returncode == 0
    done = msbgen("evaluate", "measured.nc", *arguments, "--generated", "f.nc", cwd=folder)
    assert done.returncode == 3
    assert "f.nc: lacks 2 contexts of the truth" in done.stderr


def test_a_rare_counter_can_be_generated(folder, measured):
    measured["cache_misses"] = measured["cache_misses"] * 0
    measured["cache_misses"].attrs = {"units": "1", "role": "counter"}
    measured["cache_misses"][0, 0, 3] = 7.0
    write_profiles(measured, folder / "rare.nc")
    for preset in ("default", "paper"):
        done = msbgen(
            "generate", "rare.nc", "-o", f"{preset}.nc", "--contexts", "all", "--preset", preset,
            cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    done = msbgen("evaluate", "rare.nc", "--leave-out", 2, "--methods", "multilinear", cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tail", ["| true", "| head -n 1"])
def test_a_reader_that_has_enough_is_no_error(folder, tail):
    command = f"{sys.executable} -m msbgen check measured.nc {tail}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_full_disk_and_closed_streams_are_survived(folder):
    run = f"{sys.executable} -m msbgen"
    full = subprocess.run(
        f"{run} check measured.nc > /dev/full", shell=True, cwd=folder, capture_output=True,
        text=True,
    )  # fmt: skip
    assert full.returncode == 2
    assert "No space left" in full.stderr
    closed = f"{run} generate measured.nc -o o.nc --contexts all 2>&-"
    assert subprocess.run(closed, shell=True, cwd=folder, capture_output=True).returncode == 0
    assert (folder / "o.nc").exists()


def test_version(tmp_path):
    done = started("--version", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("msbgen 0.")


@pytest.mark.parametrize("before", [None, b"old and whole"])
def test_a_kill_in_the_middle_of_writing_leaves_no_broken_output(folder, before):
    if before:
        (folder / "o.nc").write_bytes(before)
    process = subprocess.Popen(
        [sys.executable, "-m", "msbgen", "generate", "measured.nc", "-o", "o.nc",
         "--contexts", "all", "--kind", "sample", "--samples", "1000", "--preset", "paper",
         *(["--force"] if before else [])],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip

    def half_written():
        return [p for p in folder.glob(".o.nc.*.partial/*") if p.stat().st_size > 0]

    try:
        (partial,) = wait_until(half_written, process)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(ProfileError):  # it was in the middle indeed
        read_profiles(partial)
    if before:
        assert (folder / "o.nc").read_bytes() == before
    else:
        assert not (folder / "o.nc").exists()
    assert partial not in set(folder.glob("*.nc"))


def test_an_interrupt_between_blocks_exits_with_130_and_leaves_nothing(folder):
    before = sorted(folder.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-m", "msbgen", "generate", "measured.nc", "-o", "o.nc",
         "--contexts", "all", "--kind", "sample", "--samples", "30000", "--preset", "paper"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=obey_interrupts,
    )  # fmt: skip
    try:
        wait_until(lambda: any(p.stat().st_size for p in folder.glob(".o.nc.*")), process)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, messages
    assert "interrupted" in messages
    assert sorted(folder.iterdir()) == before


def test_a_file_written_in_blocks_is_the_same(folder, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = ["generate", "measured.nc", "--contexts", "all", "--kind", "sample", "--seed", "2"]
    assert main([*arguments, "-o", "one.nc"]) == 0
    monkeypatch.setattr("msbgen.generate.model._BLOCK_BYTES", 40_000)
    assert main([*arguments, "-o", "many.nc"]) == 0
    one, many = read_profiles(folder / "one.nc"), read_profiles(folder / "many.nc")
    xr.testing.assert_allclose(many, one, rtol=1e-6)
    assert one.attrs == many.attrs
    assert (one.attrs["preset"], one.attrs["seed"]) == ("default", 2)


def test_what_no_disk_and_no_memory_could_hold_is_refused(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1e2))
    assert main(["generate", "measured.nc", "-o", "o.nc", "--contexts", "all"]) == 2
    assert "or more, there are 1e-07 GB free beside o.nc" in capsys.readouterr().err
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1e30))
    arguments = ["--contexts", "c.csv", "--kind", "sample", "--samples", "1000000000"]
    assert main(["generate", "measured.nc", "-o", "o.nc", *arguments]) == 2
    assert "one context would take" in capsys.readouterr().err


@pytest.mark.parametrize("case", BROKEN)
def test_check_says_the_sentence_of_every_broken_file(measured, tmp_path, capsys, case):
    change, sentence = BROKEN[case]
    change(measured).to_netcdf(tmp_path / "task.nc")
    assert main(["check", str(tmp_path / "task.nc")]) == 3
    said = capsys.readouterr()
    matching = [line for line in said.err.splitlines() if sentence in line]
    assert matching, said.err
    assert matching[0].startswith("msbgen: task.nc: ")
    assert matching[0].endswith(".")
    assert "no problem found" not in said.out


@pytest.mark.parametrize("case", ["duplicate context", "nan inside", "zero counter"])
@pytest.mark.parametrize("verb", ["generate", "evaluate"])
def test_every_verb_refuses_a_broken_file(measured, truth, tmp_path, capsys, case, verb):
    change, sentence = BROKEN[case]
    change(measured).to_netcdf(tmp_path / "task.nc")
    write_profiles(truth, tmp_path / "truth.nc")
    task, out = str(tmp_path / "task.nc"), str(tmp_path / "o.nc")
    arguments = {
        "generate": ["generate", task, "-o", out, "--contexts", "all"],
        "evaluate": ["evaluate", task, "--truth", str(tmp_path / "truth.nc")],
    }[verb]
    assert main(arguments) == 3
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "o.nc").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lambda whole: whole[: len(whole) // 2], "bad.nc: cannot be read whole"),
        (lambda whole: b"", "bad.nc: the file is empty"),
        (lambda whole: b"\0" * len(whole), "bad.nc: not a netCDF file"),
    ],
    ids=["truncated", "empty", "zeros"],
)
def test_files_that_are_no_netcdf_exit_with_3(folder, content, sentence):
    (folder / "bad.nc").write_bytes(content((folder / "measured.nc").read_bytes()))
    done = msbgen("check", "bad.nc", cwd=folder)
    assert done.returncode == 3
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_check_warns_and_exits_with_0(measured, tmp_path, capsys):
    measured["cache_misses"][0, 0, 3] = 2 * measured["cache_requests"][0, 0, 3] + 10
    write_profiles(measured, tmp_path / "task.nc")
    assert main(["check", str(tmp_path / "task.nc")]) == 0
    said = capsys.readouterr().out
    assert "warning: task.nc: counter 'cache_misses' is above 'cache_requests'" in said
    assert "usable, with warnings" in said


def test_the_demo_prints_its_table_and_refuses_to_overwrite(tmp_path, monkeypatch):
    monkeypatch.setattr("msbgen.cli.main._DEMO", ("grid:4x4x4", 2, 20, 5))
    done = msbgen("demo", "--task", "gzip", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for method in METHODS:
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(method + " ")]
        assert line.count("%)") == 4  # one improvement per metric
    files = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    assert files.keys() == {"generated.nc", "scores.json", "profiles.png"}
    assert files["profiles.png"].startswith(b"\x89PNG")
    generated = read_profiles(tmp_path / "out" / "generated.nc")
    np.testing.assert_array_equal(context_table(generated), platform_contexts("all"))
    assert "gzip on the virtual platform: 64 contexts measured, 20 held back" in done.stdout
    assert generated.attrs["kind"] == "mean"
    assert "all 4560 contexts" in done.stdout
    scores = json.loads(files["scores.json"])
    assert scores["methods"].keys() == set(METHODS)
    assert scores["methods"]["default/mean"]["improvement"]["ndtw"] > 0.5
    again = started("demo", "--task", "gzip", "-o", "out", cwd=tmp_path)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == files
