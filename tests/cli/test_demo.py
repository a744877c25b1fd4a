"""``msbgen demo``."""

import importlib.util
import json
import shlex

import numpy as np
import pytest

from msbgen.answers.evaluate import scores
from msbgen.answers.evaluate.scores import METHODS, score_methods
from msbgen.cli import demo
from msbgen.data.schema import context_table
from msbgen.data.store import read_profiles
from msbgen.sources.platform import platform_contexts


@pytest.fixture
def small(monkeypatch, panels_without_layout):
    sizes = {"PLANNED": 27, "RUNS": 2, "HELD_BACK": 8, "TRUTH_RUNS": 5}
    for name, value in sizes.items():
        monkeypatch.setattr(demo, name, value)


def test_the_demo_prints_its_table_and_refuses_to_overwrite(small, tmp_path, msbgen, refused):
    done = msbgen("demo", "--task", "gzip", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for method in METHODS:
        (line,) = [line for line in done.stdout.splitlines() if line.startswith(method + " ")]
        assert line.count("%)") == 4  # one improvement per metric
    files = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    assert files.keys() == {
        "measured.nc",
        "generated.nc",
        "scores.json",
        "profiles.png",
        "report.html",
        "report.json",
    }
    numbers = json.loads(files["report.json"])
    assert numbers["held_out"]["scores"] == json.loads(files["scores.json"])["methods"]
    plan, replay = numbers["next"]["commands"]
    assert plan == "msbgen plan out/measured.nc --budget 12 -o next.csv"
    words = shlex.split(replay)
    assert words[1:3] + words[4:] == shlex.split(
        "platform replay --contexts next.csv --with out/measured.nc -o more.nc"
    )
    (tmp_path / "next.csv").write_text("cache_ways,bandwidth,frequency,runs\n11,630,1.7,1\n")
    assert "more.nc: 28 contexts, 55 runs\n" in msbgen(*words[1:]).stdout  # as it stands there
    assert numbers["command"] == "msbgen demo --task gzip -o out"
    assert files["profiles.png"].startswith(b"\x89PNG")
    generated = read_profiles(tmp_path / "out" / "generated.nc")
    np.testing.assert_array_equal(context_table(generated), platform_contexts("all"))
    assert "gzip on the virtual platform: 27 contexts measured, 8 held back" in done.stdout
    assert generated.attrs["kind"] == "mean"
    assert "all 4560 contexts" in done.stdout
    summary = json.loads(files["scores.json"])
    assert summary["methods"].keys() == set(METHODS)
    assert summary["methods"]["default/mean"]["improvement"]["ndtw"] > 0.5
    refused(2, "exists already", "demo", "--task", "gzip", "-o", "out")


def test_without_matplotlib_there_is_no_picture(small, tmp_path, msbgen, monkeypatch):
    found = importlib.util.find_spec

    def without(name, package=None):
        return None if name == "matplotlib" else found(name, package)

    def few(train, truth, methods, **given):
        return score_methods(train, truth, {"bracketing": methods["bracketing"]}, **given)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    monkeypatch.setattr(scores, "score_methods", few)
    monkeypatch.setattr(demo, "PLANNED", 8)
    monkeypatch.setattr(demo, "HELD_BACK", 4)
    done = msbgen("demo", "--task", "gzip", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "no picture: matplotlib is not installed; install msbgen[plot]" in done.stderr
    assert "no report: jinja2 or matplotlib is not installed; install msbgen[report]" in done.stderr
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "measured.nc", "generated.nc", "scores.json"
    }  # fmt: skip
    assert "profiles.png" not in done.stdout


def test_tasks_and_folders_that_are_none_are_refused(folder, refused):
    refused(2, "no program 'doom' ships; choose one of bc, bzip2", "demo", "--task", "doom")
    refused(2, "truth.nc: is no folder", "demo", "-o", "truth.nc", "--force")
    refused(2, "'-' (stdout) is for tables only", "demo", "-o", "-")
