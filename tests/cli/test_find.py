"""``msbgen find``: a folder with the answer, resumed after a kill."""

import json

import pytest

from msbgen.data.shipped import shipped_file
from msbgen.data.store import read_profiles
from msbgen.engine.bounds.model import CalibratedModel

SHIPPED = str(shipped_file("gzip.nc"))
ASK = ["--deadline", "0.5s", "--cost", "cache_ways=1,bandwidth=0.01/MBps", "--budget", "24"]


def test_a_question_leaves_data_model_bounds_and_answer(msbgen, tmp_path):
    done = msbgen("find", "--on", SHIPPED, *ASK, "-o", "found")
    assert done.returncode == 0, done.stderr
    assert "keeps 0.5 s in 90% of runs" in done.stdout
    assert (tmp_path / "found").stat().st_mode & 0o777 == 0o700
    answer = json.loads((tmp_path / "found" / "answer.json").read_text())
    assert answer["choice"]["bound"] <= 0.5
    assert answer["runs"] <= 24
    data = read_profiles(tmp_path / "found" / "data.nc")
    model = CalibratedModel.load(tmp_path / "found" / "model.nc")
    assert (model.distribution.contexts.shape[0]) == data.sizes["context"]
    again = msbgen("find", "--on", SHIPPED, *ASK, "-o", "found")
    assert again.stdout.splitlines()[0] == done.stdout.splitlines()[0]


def test_another_question_does_not_overwrite_the_folder(msbgen, tmp_path):
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "question.json").write_text("{}")
    done = msbgen("find", "--on", SHIPPED, *ASK, "-o", "found")
    assert done.returncode == 2
    assert "the folder is of another question" in done.stderr


def test_a_folder_that_others_can_change_is_refused(msbgen, tmp_path):
    (tmp_path / "found").mkdir()
    (tmp_path / "found").chmod(0o777)
    done = msbgen("find", "--on", SHIPPED, *ASK, "-o", "found")
    assert done.returncode == 3
    assert "other users may write it" in done.stderr
    assert not any((tmp_path / "found").iterdir())


def test_a_deadline_that_nothing_keeps_is_told_by_the_exit_code(msbgen, tmp_path):
    ask = ["--deadline", "1ms", "--cost", "cache_ways=1", "--budget", "12"]
    done = msbgen("find", "--on", SHIPPED, *ask, "-o", "found")
    assert done.returncode == 6
    assert "lowest bound" in done.stderr
    assert json.loads((tmp_path / "found" / "answer.json").read_text())["choice"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a.toml --on b.nc", "one of SPEC.toml and --on FILE.nc"),
        ("", "one of SPEC.toml and --on FILE.nc"),
    ],
)
def test_one_source_is_wanted(msbgen, arguments, message):
    done = msbgen("find", *arguments.split(), *ASK, "-o", "found")
    assert done.returncode == 2
    assert message in done.stderr
