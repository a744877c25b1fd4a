"""``msbgen report``."""

import json
import sys

import pytest

from batches import BETWEEN, GRID, small_task
from msbgen.data.store import write_profiles


@pytest.fixture
def files(tmp_path):
    task, truth = small_task(GRID[::2], 2), small_task(BETWEEN[::3], 3)
    for dataset in (task, truth):  # 3 ways and two clocks were no levels
        dataset["cache_ways"].attrs["levels"] = [2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
        dataset["frequency"].attrs["levels"] = [1.0, 1.1, 1.2, 1.35, 1.5, 1.6, 1.8, 1.9, 2.0]
    write_profiles(task, tmp_path / "task.nc")
    write_profiles(truth, tmp_path / "truth.nc")


def test_a_report_and_its_numbers_are_written(files, msbgen, tmp_path):
    (tmp_path / "wanted.csv").write_text("frequency,cache_ways\n1.6,5\n1.9,2.5\n")
    with_truth = ("report", "task.nc", "--truth", "truth.nc", "--contexts", "wanted.csv")
    done = msbgen(*with_truth, "-o", "r.html")
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert done.stdout.splitlines() == [*numbers["verdict"], "written: r.html, r.json"]
    assert numbers["everywhere"]["context"] == [[5.0, 1.6], [2.5, 1.9]]
    assert numbers["command"] == (
        "msbgen report task.nc --truth truth.nc --contexts wanted.csv --seed 0 -o r.html"
    )
    assert msbgen(*with_truth, "-o", "r.html").returncode == 2  # exists


def test_generated_files_are_judged(files, msbgen, panels_without_layout, tmp_path):
    done = msbgen("generate", "task.nc", "--contexts", "truth.nc", "-o", "all.nc")
    assert done.returncode == 0, done.stderr
    done = msbgen(
        "report", "task.nc", "--truth", "truth.nc", "--generated", "all.nc",
        "--contexts", "grid:2x2", "--miscoverage", 0.2, "--budget", "2s", "-o", "r.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    numbers = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert numbers["held_out"]["bounds"]["miscoverage"] == 0.2
    assert numbers["next"]["commands"][0] == "msbgen plan task.nc --budget 2s -o next.csv"
    assert " --miscoverage 0.2 --budget 2s --seed 0 " in numbers["command"]
    assert numbers["held_out"]["method"] == "all.nc"


def test_a_saved_model_is_reported_without_a_fit(
    files, msbgen, refused, panels_without_layout, tmp_path, monkeypatch
):
    bounding = ("bound", "task.nc", "--contexts", "grid:2x2", "--miscoverage", 0.2)
    assert msbgen(*bounding, "--model", "m.nc").returncode == 0
    fitting = ("generate", "task.nc", "--contexts", "grid:2x2", "--kind", "mean", "-o", "g.nc")
    assert msbgen(*fitting, "--model", "f.nc").returncode == 0
    monkeypatch.setattr("msbgen.output.batch.report_data.fit_model", None)
    monkeypatch.setattr("msbgen.output.batch.held_out.calibrate", None)
    numbers = {}
    for name in ("m", "f"):
        done = msbgen("report", f"{name}.nc", "--contexts", "grid:2x2", "--miscoverage", 0.2,
                      "--budget", "2s", "-o", f"{name}.html")  # fmt: skip
        assert done.returncode == 0, done.stderr
        numbers[name] = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert "holds no measured runs" in numbers[name]["held_out"]["missing"]
        assert numbers[name]["next"]["commands"][0].startswith(f"msbgen plan {name}.nc ")
    done = msbgen("bound", "m.nc", "--contexts", "grid:2x2", "--miscoverage", 0.2)
    assert done.returncode == 0, done.stderr
    bounds = [float(row.split(",")[2]) for row in done.stdout.splitlines()[1:]]
    assert numbers["m"]["everywhere"]["bound"] == pytest.approx(bounds, rel=1e-4)
    assert "the model was not calibrated" in numbers["f"]["everywhere"]["bounds"]["missing"]
    refused(
        2, "need the measured profiles", "report", "m.nc", "--truth", "truth.nc", "-o", "a.html"
    )


def test_what_makes_no_report_is_refused(files, refused, monkeypatch):
    out = ("-o", "r.html")
    refused(2, "--generated needs --truth", "report", "task.nc", "--generated", "a", *out)
    refused(2, "a file that ends in .html", "report", "task.nc", "-o", "r.pdf")
    refused(2, "--leave-out 13 leaves none", "report", "task.nc", "--leave-out", "13", *out)
    refused(3, "none.nc: no such file", "report", "none.nc", *out)
    refused(3, "lacks", "report", "task.nc", "--truth", "truth.nc", "--generated", "task.nc", *out)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    refused(2, "'pip install msbgen[report]' is wanted for reports", "report", "task.nc", *out)
