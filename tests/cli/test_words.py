"""Levels that are words: from a file with them through the verbs, in tables and in messages."""

import csv

import numpy as np
import pytest

from conftest import MEASURED, synthetic_task
from msbgen.cli.main import main
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.check import validate_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.quality import note_design
from msbgen.data.store import read_profiles, write_profiles
from msbgen.data.tables import read_plan
from msbgen.engine.bounds.model import CalibratedModel
from msbgen.engine.generate.fit import fit_profiles
from partials import GRID

LABELS = {"frequency": ("slow", "fast one")}


def with_words(task, *words):
    """The clock of a task as words for 1, 2, …."""
    attrs = {"levels": [float(i + 1) for i in range(len(words))], "labels": list(words)}
    task["frequency"].attrs.update(attrs, units="1")
    return task


@pytest.fixture
def two():
    return with_words(synthetic_task(MEASURED), "slow", "fast one")


def test_a_table_of_words_becomes_profiles_and_bounds_with_words(two, tmp_path, capsys):
    source, wanted, out = (str(tmp_path / name) for name in ("in.nc", "wanted.csv", "out.nc"))
    write_profiles(two, source)
    (tmp_path / "wanted.csv").write_text("frequency,cache_ways\nfast one,3\nslow,6\n")
    assert main(["generate", source, "-o", out, "--contexts", wanted, "--kind", "mean"]) == 0
    made = read_profiles(out)
    assert made["frequency"].values.tolist() == [2, 1]
    assert made["frequency"].attrs["labels"] == ["slow", "fast one"]
    assert made["duration"][0] < made["duration"][1]
    table = str(tmp_path / "bounds.csv")
    args = ["--contexts", wanted, "--miscoverage", "0.4", "-o", table]
    assert main(["bound", source, *args]) == 0
    rows = (tmp_path / "bounds.csv").read_text().splitlines()
    assert [row.split(",")[1] for row in rows] == ["frequency", "fast one", "slow"]
    assert main(["plan", source, "--budget", "3", "-o", str(tmp_path / "plan.csv")]) == 0
    planned = read_plan(tmp_path / "plan.csv", ["cache_ways", "frequency"], 1, LABELS)
    assert set(planned.contexts[:, 1]) <= {1.0, 2.0}
    assert main(["generate", source, "-o", out, "--contexts", str(tmp_path / "plan.csv")]) == 2
    capsys.readouterr()
    (tmp_path / "wanted.csv").write_text("frequency,cache_ways\nquick,3\n")
    assert main(["generate", source, "-o", out, "--contexts", wanted, "--force"]) == 3
    assert "has 'quick' in 'frequency'; one of slow, fast one is wanted" in capsys.readouterr().err


def test_three_words_go_through_a_saved_model_to_a_choice_and_scores(tmp_path, msbgen):
    """The clocks 1, 1.5 and 2 GHz as words: the fast one costs most."""
    task = synthetic_task(GRID, n_runs=2)
    task = task.assign_coords(frequency=("context", 2 * task["frequency"].values - 1))
    task["frequency"].attrs.update(role="resource")
    task["cache_ways"].attrs["levels"] = [2.0, 4.0, 8.0]
    write_profiles(with_words(task, "slow", "fair", "fast one"), tmp_path / "x.nc")

    def succeed(*arguments):
        done = msbgen(*arguments)
        assert done.returncode == 0, done.stderr
        return done

    succeed("bound", "x.nc", "--contexts", "all", "--miscoverage", ".2", "--model", "m.nc")
    model = CalibratedModel.load(tmp_path / "m.nc")
    every = [[ways, word] for ways in (2, 4, 8) for word in (1, 2, 3)]
    bound = model.duration_bound(every, 0.2, chosen=True)
    cheap, quick = bound[every.index([8, 1])], bound[every.index([8, 3])]
    assert quick < cheap
    arguments = ("choose", "m.nc", "--deadline", f"{(quick * cheap) ** 0.5:.9f}s", "--untested")
    prices = "frequency.fast one=9,frequency.fair=6,cache_ways=1"
    done = succeed(*arguments, "--miscoverage", ".2", "--cost", prices)
    choice, *others = csv.DictReader(done.stdout.splitlines())
    assert choice["frequency"] in ("fair", "fast one")
    assert {row["row"] for row in others} <= {"more cache_ways"}  # words have no order
    done = succeed("evaluate", "x.nc", "--leave-out", 5)
    assert "methods paper/… are not scored: resource 'frequency' has runs with" in done.stderr
    assert "default/mean" in done.stdout
    assert "paper" not in done.stdout


def test_two_words_have_one_correlation_in_either_order(two):
    """Words have no order: a model with the words exchanged generates the same."""
    turned = two.assign_coords(frequency=("context", 3 - two["frequency"].values))
    turned["frequency"].attrs.update(two["frequency"].attrs)
    query = np.array([[3.0, 1.0], [5.0, 2.0]])
    one = fit_profiles(two).generate(query, kind="mean")
    other = fit_profiles(turned).generate(np.c_[query[:, 0], 3 - query[:, 1]], kind="mean")
    np.testing.assert_allclose(one["duration"], other["duration"], rtol=1e-2)


def test_words_that_a_model_cannot_know_are_refused(two):
    model = fit_profiles(with_words(two, "slow", "fast", "fastest"))
    for code, text in ((3.0, "frequency=fastest"), (1.5, "frequency=1.5")):
        with pytest.raises(ArgumentError, match=f"{text}, a word without runs in the meas"):
            model.generate([[3.0, code]])


def test_words_are_shown_and_checked(two):
    assert Profiles.of(two).describe_context(1) == "context 1 (cache_ways=2, frequency=fast one)"
    assert "frequency [1]: slow, fast one, 2 values of 2" in Profiles.of(two).describe()
    (note,) = note_design(Profiles.of(two.isel(context=slice(0, 5))))
    assert (
        "1 of the platform's 4 corners were not measured: (cache_ways=8, frequency=fast one)"
        in note
    )
    validate_profiles(two)
    for words, message in (
        (("a",), "has 1 labels, and levels"),
        (("a", "a"), "a label twice"),
        (("a", "nan"), "the label 'nan'; printable words"),
        (("a\nb", "c"), "the label 'a.*nb'; printable words"),
    ):
        two["frequency"].attrs["labels"] = list(words)
        with pytest.raises(ProfileError, match=message):
            validate_profiles(two)
