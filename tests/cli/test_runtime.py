"""``msbgen runtime``: from a table to answers."""

import contextlib
import csv
import shutil

import numpy as np
import pytest

from msbgen.cli.main import main
from msbgen.systems.runtimes import predictor as completion
from msbgen.systems.runtimes.towers import TowerSettings


def write_table(folder):
    """Runtimes of eight workloads on six platforms, alone and beside others, as CSV."""
    rng = np.random.default_rng(0)
    rows = ["workload,platform,beside,runtime [ms]"]
    for i in range(8):
        for j in range(6):
            for k in (-1, -1, *range(8)):
                time = 10 * 1.5**i * 2.0**j * (1.0 if k < 0 else 1.2) * np.exp(rng.normal() / 50)
                rows.append(f"w{i},p{j},{'' if k < 0 else f'w{k}'},{time:.4f}")
    (folder / "runs.csv").write_text("\n".join(rows) + "\n")
    (folder / "wanted.csv").write_text("workload,platform,beside\nw3,p2,\nw7,p5,w0\n")
    return folder


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def quick():
    settings = TowerSettings(rank=4, hidden=8, steps=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completion.RuntimePredictor, "_settings", lambda self: settings)
        yield


def test_from_a_table_to_predictions_and_bounds(table, msbgen):
    for arguments in (
        ["import", "runs.csv", "-o", "runs.nc"],
        ["fit", "runs.nc", "-o", "model.nc"],
    ):
        done = msbgen("runtime", *arguments)
        assert (done.returncode, done.stderr) == (0, "")
    assert "runtimes   480, from" in msbgen("check", "runs.nc").stdout
    answers = {}
    for verb, column in (("predict", "runtime [s]"), ("bound", "runtime_bound [s]")):
        arguments = ["runtime", verb, "model.nc", "--wanted", "wanted.csv"]
        arguments += ["--miscoverage", "0.2"] if verb == "bound" else []
        done = msbgen(*arguments)
        assert done.returncode == 0, done.stderr
        rows = list(csv.DictReader(done.stdout.splitlines()))
        assert [(r["workload"], r["platform"], r["beside"]) for r in rows] == [
            ("w3", "p2", ""),
            ("w7", "p5", "w0"),
        ]
        assert {r["extrapolated"] for r in rows} == {"0"}
        answers[verb] = [float(r[column]) for r in rows]
        filed = msbgen(*arguments, "-o", f"{verb}.csv")
        assert filed.returncode == 0, filed.stderr
        assert (table / f"{verb}.csv").read_text() == done.stdout
    wanted = [0.01 * 1.5**3 * 2.0**2, 0.01 * 1.5**7 * 2.0**5 * 1.2]
    np.testing.assert_allclose(answers["predict"], wanted, rtol=0.1)
    np.testing.assert_allclose(answers["bound"], wanted, rtol=0.2)


def test_scores_are_a_table(prepared, msbgen):
    arguments = ["runtime", "evaluate", "runs.nc", "--replicates", "2", "--train", "0.7"]
    done = msbgen(*arguments)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [(r["replicate"], r["neighbours"]) for r in rows] == [
        ("0", "0"), ("0", "1"), ("1", "0"), ("1", "1"),
    ]  # fmt: skip
    assert all(float(r["relative error"]) < 0.2 for r in rows)
    assert msbgen(*arguments).stdout == done.stdout


ERRORS = [
    (["import", "nowhere.csv", "-o", "o.nc"], 3, "nowhere.csv: no such file"),
    (["import", "runs.csv", "-o", "wanted.csv"], 2, "wanted.csv: exists already"),
    (["fit", "runs.csv", "-o", "o.nc"], 3, "runs.csv: not a netCDF file"),
    (["predict", "runs.nc", "--wanted", "wanted.csv"], 3, "'schema' is 'msbgen-runtimes/1'"),
    (["predict", "model.nc", "--wanted", "bad.csv"], 3, "nearest name is 'w3'"),
    (
        ["bound", "model.nc", "--wanted", "wanted.csv", "--miscoverage", "2"],
        2,
        "not a share above 0",
    ),
    (["evaluate", "runs.nc", "--train", "1"], 2, "'1' is not a share above 0% and below 100%"),
]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, quick):
    """The folder of a table, its runs as netCDF, and a model, made by the command once."""
    folder = write_table(tmp_path_factory.mktemp("runtime"))
    with contextlib.chdir(folder):
        assert main(["runtime", "import", "runs.csv", "-o", "runs.nc"]) == 0
        assert main(["runtime", "fit", "runs.nc", "-o", "model.nc"]) == 0
    (folder / "bad.csv").write_text("workload,platform\nw33,p2\n")
    (folder / "crowd.csv").write_text("workload,platform,beside\nw3,p2,w1|w2\n")
    return folder


@pytest.fixture
def prepared(fitted, tmp_path):
    return shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)


@pytest.mark.parametrize(("arguments", "code", "sentence"), ERRORS)
def test_what_cannot_be_done_is_refused_in_a_sentence(prepared, refused, arguments, code, sentence):
    refused(code, sentence, "runtime", *arguments)


def test_fits_say_which_bounds_they_support_and_these_are_given(prepared, msbgen):
    done = msbgen("runtime", "fit", "runs.nc", "-o", "model.nc", "--force")
    assert done.returncode == 0, done.stderr
    message = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [words[:-7] for words in message] == [["bounds", "alone:"], ["bounds", "beside", "1:"]]
    least = max(float(words[-3]) for words in message)
    wanted = ["runtime", "bound", "model.nc", "--wanted", "wanted.csv", "--miscoverage"]
    assert least == 0.0205  # of 48 cells
    done = msbgen(*wanted, str(least))
    assert (done.returncode, done.stderr) == (0, "")
    fewer = msbgen(*wanted, "0.001")
    assert (fewer.returncode, fewer.stdout) == (0, done.stdout)
    assert "warning: bounds are for a miscoverage of 0.0205, not of 0.001" in fewer.stderr


def test_what_was_only_seen_beside_others_is_named(table, msbgen, refused):
    with (table / "runs.csv").open("a") as runs:
        runs.write("w0,p0,ghost,12\n")
    (table / "wanted.csv").write_text("workload,platform\nw3,p2\nghost,p1\n")
    done = msbgen("runtime", "import", "runs.csv", "-o", "runs.nc")
    assert " names 'ghost' beside, which has no row of its own; add one" in done.stderr
    msbgen("runtime", "fit", "runs.nc", "-o", "model.nc")
    sentence = "wanted.csv: workload 'ghost' on platform 'p1' cannot be predicted"
    refused(3, sentence, "runtime", "predict", "model.nc", "--wanted", "wanted.csv")


def test_more_neighbours_than_were_calibrated_can_be_predicted_but_not_bounded(
    prepared, msbgen, refused
):
    done = msbgen("runtime", "predict", "model.nc", "--wanted", "crowd.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].endswith(",1")  # extrapolated
    sentence = "crowd.csv: line 2 has 2 neighbours; bounds are calibrated for 0, 1"
    refused(3, sentence, "runtime", "bound", "model.nc", "--wanted", "crowd.csv")


def test_a_table_that_supports_no_bound_has_a_model(tmp_path, monkeypatch, msbgen, refused):
    monkeypatch.chdir(tmp_path)
    rows = "workload,platform,runtime [s]\na,p,1\na,p,1.1\na,q,2\nb,p,3\n"
    (tmp_path / "few.csv").write_text(rows)
    (tmp_path / "asked.csv").write_text("workload,platform\nb,q\n")
    assert msbgen("runtime", "import", "few.csv", "-o", "few.nc").returncode == 0
    done = msbgen("runtime", "fit", "few.nc", "-o", "few-model.nc")
    assert done.stdout.endswith(
        "bounds: none, as every cell is needed to connect workloads and platforms\n"
    )
    done = msbgen("runtime", "predict", "few-model.nc", "--wanted", "asked.csv")
    assert done.returncode == 0, done.stderr
    sentence = "asked.csv: line 2 has 0 neighbours; bounds are calibrated for none"
    refused(3, sentence, "runtime", "bound", "few-model.nc", "--wanted", "asked.csv")
