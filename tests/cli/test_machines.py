"""``msbgen machines``: from a table to times on every machine."""

import csv
import inspect
import io
import shutil
from contextlib import redirect_stdout

import numpy as np
import pytest

from machines import MACHINES, QUICK, made_runs
from msbgen.cli.main import main
from msbgen.systems.machines import predictor
from msbgen.systems.machines.dataset import counters_of, runtimes_of, words_of
from msbgen.systems.machines.dataset import write as write_relative
from msbgen.systems.runtimes.dataset import make as make_runtimes
from msbgen.systems.runtimes.dataset import write as write_runtimes


def write_table(path, runs, machines):
    """Rows of some machines, in milliseconds."""
    work = counters_of(runs, "old")
    lines = ["program,scale,machine,runtime [ms],instructions [1],loads [1]"]
    for r, times in enumerate(runtimes_of(runs)):
        for m, name in enumerate(MACHINES):
            if name in machines:
                words = (words_of(runs, "program")[r], words_of(runs, "scale")[r], name)
                numbers = (1e3 * times[m], *work[r])
                lines.append(",".join([*words, *(f"{n:.9g}" for n in numbers)]))
    path.write_text("\n".join(lines) + "\n")


NEW = made_runs(4, seed=9)


def grow_few(patch):
    """Have models grow few trees."""
    few = {name: QUICK[name] for name in ("boosting", "trees")}
    start = inspect.unwrap(predictor.RelativePredictor.__init__)
    patch.setattr(start, "__kwdefaults__", start.__kwdefaults__ | few)


@pytest.fixture
def table(tmp_path, monkeypatch):
    grow_few(monkeypatch)
    write_table(tmp_path / "runs.csv", made_runs(20, noise=0.01), MACHINES)
    write_table(tmp_path / "new.csv", NEW, ["old"])
    write_table(tmp_path / "two.csv", NEW, ["old", "new"])
    return tmp_path


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A folder with runs as a table and as netCDF and a model of them, made by the command."""
    folder, message = tmp_path_factory.mktemp("learned"), io.StringIO()
    write_table(folder / "runs.csv", made_runs(20, noise=0.01), MACHINES)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(message):
        grow_few(patch)
        assert main(["machines", "fit", f"{folder}/runs.csv", "-o", f"{folder}/model.nc"]) == 0
        assert main(["machines", "import", f"{folder}/runs.csv", "-o", f"{folder}/runs.nc"]) == 0
    assert "40 runs on old, new, odd; intervals from 20 programs" in message.getvalue()
    assert "40 of 20 programs, 40 of them on all of 3 machines" in message.getvalue()
    return folder


@pytest.fixture
def fitted(table, learned):
    shutil.copytree(learned, table, dirs_exist_ok=True)
    return table


def test_from_a_table_to_times_on_every_machine(fitted, msbgen):
    done = msbgen("machines", "predict", "model.nc", "--runs", "new.csv", "--source", "old")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [r["machine"] for r in rows] == [*MACHINES] * 8
    truth = runtimes_of(NEW).ravel()
    message = np.array([float(r["runtime [s]"]) for r in rows])
    assert np.abs(np.log(message / truth)).mean() < 0.15
    for r in rows[::3]:
        assert r["relative"] == "1"
    fastest = np.array([int(r["fastest"]) for r in rows]).reshape(8, 3)
    assert (fastest.argmax(axis=1) == message.reshape(8, 3).argmin(axis=1)).all()
    filed = msbgen(
        *("machines", "predict", "model.nc", "--runs", "new.csv", "--source", "old", "-o", "o.csv")
    )
    assert filed.stdout == "o.csv: 8 runs, 0 of them extrapolated, on 3 machines\n"
    assert (fitted / "o.csv").read_text() == done.stdout
    lines = (fitted / "new.csv").read_text().splitlines()
    head, first = (line.split(",") for line in lines[:2])
    first[head.index("instructions [1]")] = "1e-300"
    (fitted / "far.csv").write_text("\n".join([lines[0], ",".join(first), *lines[2:]]) + "\n")
    far = msbgen("machines", "predict", "model.nc", "--runs", "far.csv", "--source", "old")
    marks = [row["extrapolated"] for row in csv.DictReader(far.stdout.splitlines())]
    assert marks == ["1"] * 3 + ["0"] * 21


def test_runs_without_a_time_on_the_source_are_left_out_and_named(fitted, msbgen, refused):
    whole = msbgen("machines", "predict", "model.nc", "--runs", "new.csv", "--source", "old")
    lines = (fitted / "new.csv").read_text().splitlines()
    lines[1] = lines[1].replace(",old,", ",odd,")
    (fitted / "some.csv").write_text("\n".join(lines) + "\n")
    done = msbgen("machines", "predict", "model.nc", "--runs", "some.csv", "--source", "old")
    program = str(words_of(NEW, "program")[0])
    assert done.returncode == 5
    assert "some.csv: 1 of 8 runs have no time on old and are left out, the first" in done.stderr
    assert f"of program '{program}'; run them there" in done.stderr
    wanted = whole.stdout.splitlines()
    assert done.stdout.splitlines() == [wanted[0], *wanted[4:]]
    arguments = ("machines", "predict", "model.nc", "--runs", "new.csv", "--source", "new")
    refused(3, "run 0, of program", *arguments)


def test_two_machines_measured_and_an_interval(fitted, msbgen):
    arguments = ["--runs", "two.csv", "--source", "new,old", "--miscoverage", "0.1"]
    done = msbgen("machines", "predict", "model.nc", *arguments)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    for r in rows:
        low, middle, high = (float(r[name]) for name in ("low [s]", "runtime [s]", "high [s]"))
        assert low <= middle <= high
        assert (low < high) == (r["machine"] == "odd")


def test_files_of_ours_do_as_tables(fitted, msbgen):
    assert "no problem found" in msbgen("check", "runs.nc").stdout
    msbgen("machines", "fit", "runs.nc", "-o", "again.nc")
    write_relative(NEW, fitted / "new.nc")
    answers = [
        msbgen("machines", "predict", model, "--runs", runs, "--source", "odd").stdout
        for model, runs in (("again.nc", "new.nc"), ("model.nc", "new.nc"))
    ]
    assert answers[0] == answers[1] != ""


def test_runtimes_of_platforms_are_imported_by_device(tmp_path, msbgen):
    w, p = np.divmod(np.arange(8), 4)
    runtimes = make_runtimes(
        1.0 + p, w, p, np.full((8, 1), -1), np.arange(8), workloads=["a", "b"],
        platforms=["fast:hc-1", "slow:hc-1", "fast:hc-2", "slow:hc-2"],
    )  # fmt: skip
    write_runtimes(runtimes, tmp_path / "platforms.nc")
    arguments = ["platforms.nc", "--machines", "laptop=hc-1,hc-2", "-o", "runs.nc"]
    done = msbgen("machines", "import", *arguments)
    assert done.returncode == 0, done.stderr
    assert "laptop: 4 runs, from 1 to 2 s" in done.stdout
    assert "hc-2: 4 runs, from 3 to 4 s" in done.stdout


def test_five_rows_are_enough_for_a_prediction(tmp_path, msbgen, refused, monkeypatch):
    """The times of a program that runs three times as long on the board."""
    grow_few(monkeypatch)
    head = "program,machine,runtime [s],instructions [1]\n"
    rows = ["sort,laptop,1.2,3e9", "sort,board,3.6,3e9", "fft,laptop,3,9e9", "fft,board,9,9e9"]
    (tmp_path / "few.csv").write_text("\n".join([head.strip(), *rows, "gzip,board,2.4,2e9", ""]))
    (tmp_path / "new.csv").write_text(head + "gzip,board,2.4,2e9\n")
    done = msbgen("machines", "fit", "few.csv", "-o", "three.nc")
    assert done.returncode == 0, done.stderr
    assert "intervals from 3 programs" in done.stdout
    done = msbgen("machines", "predict", "three.nc", "--runs", "new.csv", "--source", "board")
    (laptop, board) = csv.DictReader(done.stdout.splitlines())
    assert float(laptop["runtime [s]"]) == pytest.approx(0.8, rel=0.05)
    assert (board["runtime [s]"], laptop["fastest"]) == ("2.4", "1")
    (tmp_path / "two.csv").write_text("\n".join([head.strip(), *rows, ""]))
    done = msbgen("machines", "fit", "two.csv", "-o", "two.nc")
    assert done.returncode == 0, done.stderr
    assert "no intervals: there is 1 program beside those held back" in done.stdout
    asked = ("predict", "two.nc", "--runs", "new.csv", "--source", "board", "--miscoverage", ".5")
    refused(3, "two.nc: has no intervals, as the fit had too few", "machines", *asked)


def test_scores_are_a_table_and_leaks_are_told_of(table, msbgen):
    arguments = ["machines", "evaluate", "runs.csv", "--folds", "3"]
    done = msbgen(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [r["source"] for r in rows] == [*MACHINES, "all"] * 3
    error = {r["method"]: float(r["relative error"]) for r in rows if r["source"] == "all"}
    assert error["default"] < error["median per source"] < error["mean"]
    leaky = msbgen(*arguments[:-1], "2", "--split", "rows", "-o", "s.csv")
    assert leaky.returncode == 0
    assert "leaky" in leaky.stderr


PREDICT = ["predict", "model.nc", "--runs", "new.csv", "--source"]
ERRORS = [
    (["import", "nowhere.csv", "-o", "o.nc"], 3, "nowhere.csv: no such file"),
    (["import", "runs.csv", "--machines", "a=b", "-o", "o.nc"], 2, "drop it for tables"),
    (["import", "runs.csv", "--machines", "=", "-o", "o.nc"], 2, "is not a list of machines"),
    (["fit", "runs.csv", "-o", "new.csv"], 2, "new.csv: exists already"),
    (["fit", "zero.csv", "-o", "o.nc"], 3, "line 2 has the runtime '0'"),
    (["fit", "unit.csv", "-o", "o.nc"], 3, "column 'runtime' has no unit"),
    (["fit", "apart.csv", "-o", "o.nc"], 3, "'old' and 'new' share no run"),
    (["fit", "runs.csv", "-o", "o.nc", "--folds", "50"], 3, "20 programs for 50 folds"),
    (["fit", "runs.csv", "-o", "o.nc", "--folds", "1"], 2, "'1' is not a whole number ≥ 2"),
    ([*PREDICT, "oldd"], 2, "source is 'oldd', of which nothing was learned; the nearest"),
    ([*PREDICT, "new"], 3, "new.csv: run 0, of program 'p0', has no time on machine 'new'"),
    ([*PREDICT, "old,,"], 2, "is not a list of names"),
    (
        [*PREDICT, "old", "--miscoverage", "0.01"],
        3,
        "model.nc: miscoverage is 0.01; at least 99 runs",
    ),
    (["predict", "model.nc", "--runs", "bytes.csv", "--source", "old"], 3, "is in 'B', and was"),
    (["predict", "runs.nc", "--runs", "new.csv", "--source", "old"], 3, "'schema' is 'msbgen-re"),
    (["predict", "model.nc", "--runs", "strange.csv", "--source", "old"], 3, "'mew'"),
    (["evaluate", "new.csv", "--folds", "2"], 3, "there is one machine, 'old'"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), ERRORS)
def test_what_cannot_be_done_is_refused_in_a_sentence(fitted, refused, arguments, code, sentence):
    head = "program,machine,runtime [s]\n"
    (fitted / "zero.csv").write_text(head + "p,old,0\n")
    (fitted / "unit.csv").write_text("program,machine,runtime\np,old,1\n")
    (fitted / "apart.csv").write_text(head + "p,old,1\nq,new,1\n")
    text = (fitted / "two.csv").read_text()
    (fitted / "strange.csv").write_text(text.replace(",new,", ",mew,"))
    (fitted / "bytes.csv").write_text(text.replace("loads [1]", "loads [B]"))
    refused(code, sentence, "machines", *arguments)
