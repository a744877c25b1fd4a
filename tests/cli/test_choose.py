"""``msbgen choose``."""

import csv
import json
import subprocess
import sys

import pytest

from conftest import MEASURED, synthetic_task
from msbgen.data.store import write_profiles
from msbgen.engine.bounds.model import CalibratedModel, calibrate_model
from msbgen.engine.generate.fit import fit_profiles

COST = "cache_ways=1,frequency=4/GHz"
RATE = ("--miscoverage", 0.2)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A calibrated model in a file, and its bounds."""
    path = tmp_path_factory.mktemp("model") / "m.nc"
    measured = synthetic_task(MEASURED)
    found = calibrate_model(fit_profiles(measured), measured)
    found.for_choices().save(path)  # as msbgen bound --model does
    return path


@pytest.fixture
def saved(folder, model):
    (folder / "m.nc").write_bytes(model.read_bytes())
    return CalibratedModel.load(folder / "m.nc")


def rows(text):
    return list(csv.DictReader(text.splitlines()))


def test_measurements_and_a_saved_model_choose_the_same(folder, saved, msbgen):
    arguments = ("--deadline", "150ms", "--cost", COST, *RATE, "--untested")
    done = msbgen("choose", "measured.nc", *arguments, "--front", "--json", "a.json")
    assert done.returncode == 0, done.stderr
    again = msbgen("choose", "m.nc", *arguments, "--front", "-o", "b.csv")
    assert again.returncode == 0, again.stderr
    assert (folder / "b.csv").read_text() == done.stdout
    choice, *others = rows(done.stdout)
    assert choice["row"] == "choice"
    levels = [[w, f] for w in (2, 4, 6, 8) for f in (1, 1.5, 2)]
    bounds = saved.duration_bound(levels, 0.2, chosen=True)
    cost = [w + 4 * f for w, f in levels]
    best = min(c for c, b in zip(cost, bounds) if b <= 0.15)
    assert float(choice["cost"]) == best
    assert float(choice["duration_bound [s]"]) <= 0.15
    for row in others:
        context = [float(row["cache_ways"]), float(row["frequency"])]
        at = levels.index(context)
        assert float(row["cost"]) == cost[at]
        assert float(row["duration_bound [s]"]) == pytest.approx(bounds[at], rel=1e-5)
    front = [float(row["cost"]) for row in others if row["row"].startswith("front")]
    assert front == sorted(front, reverse=True)
    (task,) = json.loads((folder / "a.json").read_text())["tasks"]
    assert task["context"] == {name: choice[name] for name in ("cache_ways", "frequency")}
    assert task["miscoverage"] == 0.2
    assert len(task["front"]) == len(front)


def test_tasks_of_a_table_share_what_there_is(folder, saved, msbgen):
    (folder / "t.csv").write_text("file,deadline [ms],weight\nm.nc,150,1\nm.nc,140,2\n")
    arguments = ("--deadlines", "t.csv", "--cost", COST, *RATE, "--untested")
    done = msbgen("choose", *arguments, "--total", "cache_ways=12", "--json", "a.json")
    assert done.returncode == 0, done.stderr
    chosen = [row for row in rows(done.stdout) if row["row"] == "choice"]
    assert sum(float(row["cache_ways"]) for row in chosen) <= 12
    found = json.loads((folder / "a.json").read_text())
    assert found["cost"] == sum(w * float(row["cost"]) for w, row in zip((1, 2), chosen))
    assert f"costs {found['cost']:g} and uses cache_ways=" in done.stderr
    assert "; it would cost " in done.stderr
    assert " with cache_ways=14." in done.stderr
    few = msbgen("choose", *arguments, "--total", "cache_ways=3")
    assert few.returncode == 6
    assert "totals are cache_ways=3, " in few.stderr


def test_settings_are_printed_in_the_place_of_the_table(saved, msbgen, folder):
    arguments = ("choose", "m.nc", "--deadline", "1s", "--cost", COST, *RATE, "--apply", "resctrl")
    done = msbgen(*arguments, "--caches", "0,1", "-o", "t.csv", "--measure", "next.csv")
    assert done.returncode == 0, done.stderr
    assert 'echo "L3:0=3;1=3" > /sys/fs/resctrl/synthetic/schemata' in done.stdout
    assert (folder / "t.csv").read_text().startswith("task,row,cache_ways,")
    assert (folder / "next.csv").read_text() == "cache_ways,frequency\n2,1\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("m.nc", "--deadline", "1ms"), 6, "limit of time is 0.001 s, which no context keeps"),
        (("m.nc", "--deadline", "1s", "--total", "ways=3"), 2, "'ways' is of no resource"),
        (("m.nc",), 2, "files need --deadline"),
        (("--deadlines", "bad.csv", "--measure", "o.csv"), 2, "--measure is for one file"),
        (("--deadline", "1s"), 2, "name either files with --deadline, or --deadlines"),
        (("mean.nc", "--deadline", "1s"), 3, "mean.nc: holds one generated profile per"),
        (("--deadlines", "bad.csv"), 3, "bad.csv: line 2 has the deadline '-1'; a positive"),
        (("--deadlines", "odd.csv"), 3, "the deadline has no known unit"),
        (("m.nc", "--deadline", "1s", "--json", "m.nc"), 2, "exists already"),
        (("m.nc", "--deadline", "1s", "--caches", "x"), 2, "'x' is not a list of whole numbers"),
    ],
)
def test_what_cannot_be_chosen_is_refused(folder, saved, refused, arguments, code, sentence):
    mean = synthetic_task(MEASURED).isel(run=0, drop=True).assign_attrs(kind="mean")
    write_profiles(mean, folder / "mean.nc")
    (folder / "bad.csv").write_text("file,deadline [s]\nm.nc,-1\n")
    (folder / "odd.csv").write_text("file,deadline\nm.nc,1\n")
    refused(code, sentence, "choose", *arguments, "--cost", COST, *RATE)


def test_answers_of_a_saved_model_import_only_what_they_need(saved, folder):
    """numba, scipy and dask, if all are imported, take longer than the answer."""
    rest = ["--contexts", "all", *RATE]
    choice = ["choose", "m.nc", "--deadline", "150ms", "--cost", COST, *RATE, "--untested"]
    plan = ["plan", "m.nc", "--budget", 3, "-o", "p.csv"]
    writing = [
        ["bound", "m.nc", *rest, "-o", "b.nc"],
        ["generate", "m.nc", "--contexts", "all", "-o", "g.nc"],
    ]
    (answers, loaded), (written, more), (_, planned) = imported(
        [[["bound", "m.nc", *rest], choice], writing, [plan]], folder
    )
    assert len(answers) > 12
    assert answers[0].startswith("cache_ways,frequency,duration_bound")
    assert "netCDF4" in loaded
    assert loaded & {"numba", "scipy", "dask"} == set()
    assert [line.partition(":")[0] for line in written[:2]] == ["b.nc", "g.nc"]
    assert more & {"dask", "distributed", "scipy.stats"} == set()
    assert planned & {"dask", "distributed"} == set()


def imported(steps, folder):
    """What commands print in one process, in lines, and what it has imported by then, by steps."""
    code = "import sys\nfrom msbgen.cli.main import main\n"
    for commands in steps:
        code += "".join(f"assert not main({[*map(str, each)]})\n" for each in commands)
        code += "print('modules', *sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    lines = iter(done.stdout.splitlines())
    for _ in steps:
        answers = []
        while not (line := next(lines)).startswith("modules "):
            answers.append(line)
        yield answers, set(line.split())


def test_a_cheaper_context_that_only_its_bound_refuses_is_named_to_be_measured(
    saved, msbgen, folder
):
    every = [[w, f] for w in (2, 4, 6, 8) for f in (1, 1.5, 2)]
    bounds = saved.bounds(every, 0.2, chosen=True)
    bound, expected = bounds["duration_bound"].values, bounds["expected_duration"].values
    assert (expected < bound).all()
    cheap = [2, 1]
    at = every.index(cheap)
    limit = (expected[at] * bound[at]) ** 0.5  # the cheapest of all is expected in time
    arguments = ("choose", "m.nc", "--deadline", f"{limit:.9f}s", "--cost", COST, *RATE)
    done = msbgen(*arguments, "--untested", "--measure", "next.csv")
    assert done.returncode == 0, done.stderr
    assert f"would cost 6 and is expected to take {expected[at]:.4g} s, but its" in done.stderr
    chosen = rows(done.stdout)[0]
    assert (folder / "next.csv").read_text().splitlines()[1:] == [
        f"{chosen['cache_ways']},{chosen['frequency']}", "2,1"
    ]  # fmt: skip
    shown = msbgen(*arguments, "--untested", "-o", "t.csv")
    assert "(--measure NEXT.csv writes what to measure)" in shown.stdout
    assert shown.stderr == ""


def test_a_deadline_may_be_relative_to_the_fastest_context(saved, msbgen):
    every = [[w, f] for w in (2, 4, 6, 8) for f in (1, 1.5, 2)]
    fastest = float(saved.bounds(every, 0.2)["expected_duration"].min())
    arguments = ("choose", "m.nc", "--cost", COST, *RATE, "--untested", "--deadline")
    done = msbgen(*arguments, "1.3x")
    assert done.returncode == 0, done.stderr
    seconds = float(rows(done.stdout)[0]["deadline [s]"])
    assert seconds == pytest.approx(1.3 * fastest, rel=1e-5)
    assert msbgen(*arguments, f"{1.3 * fastest:.12g}s").stdout == done.stdout
    assert "'0.5x' is below 1x" in msbgen(*arguments, "0.5x").stderr


def test_a_price_in_another_unit_is_refused(folder, saved, refused):
    arguments = ("choose", "m.nc", "--deadline", "1s", *RATE, "--cost")
    refused(2, "per 'MHz', and its levels are in 'GHz'", *arguments, "frequency=1/MHz")
