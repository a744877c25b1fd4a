"""``msbgen bound``."""

import csv

import numpy as np
import pytest
import xarray as xr

import partials
from msbgen.data.store import write_profiles
from msbgen.engine.bounds.model import CalibratedModel


def test_bound_says_context_bound_margin_and_extrapolation(folder, msbgen, monkeypatch):
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n8,2\n9,1\n")
    arguments = ["bound", "measured.nc", "--contexts", "c.csv", "--miscoverage", 0.2]
    done = msbgen(*arguments, "-o", "-")  # a dash is stdout, as without -o
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["cache_ways"] for row in rows] == ["3", "8", "9"]
    assert [row["extrapolated"] for row in rows] == ["0", "0", "1"]
    done = msbgen(*arguments, "-o", "b.nc", "--model", "model.nc")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "b.nc: 3 contexts, 1 of them extrapolated; elsewhere a new run exceeds its bound with "
        "probability 0.2\n"
    )
    with xr.open_dataset(folder / "b.nc") as bounds:
        np.testing.assert_array_equal(bounds["frequency"], [1.5, 2.0, 1.0])
        found = bounds["duration_bound"].values
        assert bounds.attrs["miscoverage"] == 0.2
    np.testing.assert_allclose(found, [float(row["duration_bound"]) for row in rows], rtol=1e-5)
    model = CalibratedModel.load(folder / "model.nc")
    np.testing.assert_array_equal(model.duration_bound([[3, 1.5], [8, 2], [9, 1]], 0.2), found)
    done = msbgen("bound", "model.nc", *arguments[2:], "-o", "b.csv")
    assert done.returncode == 0, done.stderr
    assert list(csv.DictReader((folder / "b.csv").open())) == rows
    assert not (folder / "-").exists()
    monkeypatch.setattr("msbgen.cli.bound._AT_ONCE", 2)
    done = msbgen("bound", "model.nc", *arguments[2:], "-o", "parts.nc")
    assert done.returncode == 0, done.stderr
    with xr.open_dataset(folder / "b.nc") as whole, xr.open_dataset(folder / "parts.nc") as parts:
        xr.testing.assert_identical(parts, whole)


BOUND_ERRORS = [
    (
        ["--miscoverage", "1.5"],
        2,
        "'1.5' is not a share above 0% and below 100%, such as 2% or 0.02",
    ),
    (["-o", "o.txt"], 2, "o.txt: name a file that ends in .nc or .csv"),
    (["-o", "truth.nc"], 2, "exists already"),
]


@pytest.mark.parametrize(("given", "code", "sentence"), BOUND_ERRORS)
def test_bounds_that_cannot_be_given_are_refused_before_the_work(
    folder, refused, given, code, sentence
):
    refused(code, sentence, "bound", "measured.nc", "--contexts", "all", *given)


def test_few_contexts_are_bounded_at_the_rate_that_they_support(tmp_path, msbgen):
    cut = partials.cut(partials.whole(), [(c, r) for c in (4, 5) for r in range(4)])
    write_profiles(cut, tmp_path / "cut.nc")
    arguments = ("bound", "cut.nc", "--contexts", "grid:2x2", "--miscoverage")
    least, less = msbgen(*arguments, 0.125), msbgen(*arguments, 0.01)
    assert least.returncode == less.returncode == 0, less.stderr
    assert less.stdout == least.stdout
    assert "miscoverage" not in least.stderr
    few = "bounds are for a miscoverage of 0.125, not of 0.01, which takes 99 contexts with a"
    assert few in less.stderr


def test_contexts_that_the_platform_cannot_set_are_named(folder, msbgen):
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n8.0000001,2\n40,1\n9,0.5\n")
    done = msbgen("bound", "measured.nc", "--contexts", "c.csv", "--miscoverage", "20%")
    assert done.returncode == 0, done.stderr
    remedy = "by the levels of the file: drop what it cannot, or correct these levels."
    assert done.stderr.splitlines() == [
        "msbgen: warning: c.csv: resource 'cache_ways' is 40 in context 2 and beyond its levels in "
        f"1 more; the platform can set 2 to 8, {remedy}",
        "msbgen: warning: c.csv: resource 'frequency' is 0.5 in context 3; the platform can set 1 "
        f"to 2, {remedy}",
    ]
    assert [row["extrapolated"] for row in csv.DictReader(done.stdout.splitlines())] == [*"0111"]


def test_a_list_of_contexts_is_not_overwritten(folder, refused):
    (folder / "c.csv").write_text("cache_ways,frequency\n3,1.5\n")
    arguments = ("bound", "measured.nc", "--contexts", "c.csv", "-o", "c.csv", "--force")
    refused(2, "c.csv: is the input 'c.csv', too; name another output", *arguments)


def test_bounds_of_odd_resource_names_are_quoted(measured, tmp_path, msbgen):
    write_profiles(measured.rename(cache_ways="cache,ways"), tmp_path / "odd.nc")
    done = msbgen("bound", "odd.nc", "--contexts", "grid:2x2", "--miscoverage", 0.4, "-o", "b.csv")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "b.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0][0] == "cache,ways"
    assert len(rows) == 5
    assert {len(row) for row in rows} == {5}


def test_a_saved_model_answers_as_the_measurements_do_without_a_fit(folder, msbgen, monkeypatch):
    verbs = {
        "b.csv": ("bound", "--contexts", "all", "--miscoverage", 0.2),
        "g.nc": ("generate", "--contexts", "all", "--kind", "sample", "--samples", 2),
        "p.csv": ("plan", "--budget", "1s"),
    }
    found = {}
    for source in ("measured.nc", "m.nc"):
        for out, (verb, *options) in verbs.items():
            save = ["--model", "m.nc"] if (source, verb) == ("measured.nc", "bound") else []
            done = msbgen(verb, source, *options, *save, "-o", f"{source}-{out}")
            assert done.returncode == 0, done.stderr
            answer = (folder / f"{source}-{out}").read_bytes()
            assert found.setdefault(out, answer) == answer, out
        monkeypatch.setattr("msbgen.engine.generate.fit.fit_model", None)


def test_a_model_is_refused_where_it_cannot_answer(folder, msbgen, refused):
    done = msbgen("generate", "measured.nc", "-o", "g.nc", "--contexts", "all", "--kind", "mean",
                  "--model", "m.nc")  # fmt: skip
    assert done.returncode == 0, done.stderr
    sentence = "m.nc: the model was not calibrated; save it with msbgen bound --model"
    refused(3, sentence, "bound", "m.nc", "--contexts", "all")
    again = ("generate", "m.nc", "-o", "h.nc", "--contexts", "all", "--preset", "paper")
    refused(2, "m.nc is a fitted model; --preset, --epsilon", *again)
