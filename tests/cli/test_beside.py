"""``msbgen beside``."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr

from msbgen.data.build import make_profiles
from msbgen.data.store import write_profiles

WAYS, BANDWIDTHS, CLOCKS = (1.0, 2.0, 4.0, 8.0), (100.0, 1e6), (1.0, 2.0)


def profiles(task, lines, seconds=0.1, counter="cache_misses", ways=WAYS, clocks=CLOCKS):
    """A program that uses `lines` again and again, and waits for each miss."""
    contexts = [(w, b, f) for w in ways for b in BANDWIDTHS for f in clocks]
    counts, durations = [], []
    for w, b, f in contexts:
        misses = max(lines * (1 - w / 10), 0.1 * lines)
        duration = seconds / f + max(50e-9 * misses, 64e-6 * misses / b)
        share = np.diff(np.minimum(np.arange(41) * 0.01, duration)) / duration
        counts.append([[(1e8 * s, 2 * lines * s, misses * s) if s else (np.nan,) * 3
                        for s in share]])  # fmt: skip
        durations.append([duration])
    return make_profiles(
        counts, durations, contexts, interval=0.01,
        resources={"cache_ways": {"units": "1", "levels": list(ways)},
                   "bandwidth": {"units": "MB s-1", "levels": list(BANDWIDTHS)},
                   "frequency": {"units": "GHz", "levels": list(clocks)}},
        counters={"instructions": {}, "cache_requests": {}, counter: {}}, attrs={"task": task},
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Profiles of four programs, and of some that do not go with them."""
    folder = tmp_path_factory.mktemp("beside")
    for name, lines in (("a", 1e5), ("b", 2e5), ("c", 1e4), ("d", 2e4)):
        write_profiles(profiles(name, lines), folder / f"{name}.nc")
    write_profiles(profiles("slow", 1e5, clocks=(1.0,)), folder / "slow.nc")
    write_profiles(profiles("other", 1e5, ways=(1.0, 4.0)), folder / "other.nc")
    write_profiles(profiles("u", 1e5, counter="branches"), folder / "uncounted.nc")
    write_profiles(profiles("one", 1e5).isel(context=[1]), folder / "one.nc")
    return folder


@pytest.fixture
def files(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


SHARED = ("--clock", "2", "--bandwidth", "150")


def test_a_pair_is_predicted_and_written(files, msbgen):
    done = msbgen("beside", "predict", "a.nc", "b.nc", *SHARED, "--starts", "0s,10ms",
                  "--json", "o.json", "-o", "o.nc", "--picture", "o.png")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [line.partition(",")[0] for line in done.stdout.splitlines()] == ["task", "a", "b"]
    found = json.loads((files / "o.json").read_text())
    for program in found["programs"]:
        assert 1.05 < program["slowdown"] < 4
        assert program["bounds"][0] < program["duration"] < program["bounds"][1]
    course = xr.load_dataset(files / "o.nc")
    assert float(course["held_ways"].sum("program").max()) <= 8 + 1e-6
    np.testing.assert_allclose(course["duration"], [p["duration"] for p in found["programs"]])
    assert (files / "o.png").read_bytes().startswith(b"\x89PNG")
    again = msbgen("beside", "predict", "a.nc", "b.nc", *SHARED, "-o", "o.nc")
    assert again.returncode == 2


def test_the_best_partition_is_shown(files, msbgen):
    done = msbgen("beside", "repair", "a.nc", "d.nc", *SHARED, "--starts", "0s,10ms",
                  "--json", "o.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((files / "o.json").read_text())
    rows = [line.split(",") for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["task", "a", "d"]
    assert found["compared"] == 8  # the shared cache, and seven partitions of eight ways
    assert found["value"] < found["worst"]
    assert [float(row[2]) for row in rows[1:]] == pytest.approx(found["durations"], rel=1e-3)
    assert sum(float(row[1]) for row in rows[1:]) == (8 if len(found["ways"]) == 2 else 16)


def test_partitions_keep_programs_apart(files, msbgen):
    done = msbgen("beside", "predict", "a.nc", "b.nc", "--clock", "1,2", "--ways", "5,3",
                  "--cache", "0,1", "--json", "o.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((files / "o.json").read_text())
    assert [round(p["slowdown"], 6) for p in found["programs"]] == [1.0, 1.0]


def test_the_best_pairing_is_shown(files, msbgen):
    done = msbgen("beside", "choose", "a.nc", "b.nc", "c.nc", "d.nc", *SHARED, "--json", "o.json",
                  "--deadlines", "1s,1s,1s,1ms")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((files / "o.json").read_text())
    assert ["a", "b"] not in found["groups"]
    assert found["missed"] == ["d"]
    assert "missed" in done.stdout
    assert f"the worst of {found['compared']} placements" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("a.nc",), 2, "1 file is named; two or more"),
        (("a.nc", "b.nc"), 2, "msbgen: a.nc has the clocks 1, 2; name one of them (--clock)"),
        (
            ("a.nc", "slow.nc", "--clock", "2"),
            2,
            "frequency is 2.0; a clock of slow.nc, one of 1, is wanted (--clock)",
        ),
        (("a.nc", "other.nc", "--clock", "2"), 3, "other.nc: was measured with up to 4 ways"),
        (("a.nc", "uncounted.nc", "--clock", "2"), 3, "has no counter 'cache_misses'; measure it"),
        (("a.nc", "one.nc", "--clock", "2"), 3, "has 1 context at this clock"),
        (("a.nc", "b.nc", "--clock", "2", "--ways", "9"), 2, "ways are 9; at most the 8"),
        (("a.nc", "b.nc", "--clock", "1,2,2"), 2, "--clock has 3 values"),
        (
            ("a.nc", "b.nc", *SHARED, "--misses", "instructions"),
            2,
            "--misses: 'instructions' is no counter of misses",
        ),
    ],
)
def test_what_cannot_be_predicted_is_one_sentence(files, msbgen, arguments, code, message):
    done = msbgen("beside", "predict", *arguments)
    assert done.returncode == code
    (line,) = (text for text in done.stderr.splitlines() if message in text)
    assert line == done.stderr.splitlines()[-1]
    assert not done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("choose", "the following arguments are required: FILE.nc"),
        ("choose a.nc", "1 file is named; two or more"),
        ("choose a.nc b.nc --starts 0s,1s", "unrecognized arguments: --starts 0s,1s"),
        ("choose a.nc b.nc --ways 5,3", "--ways: '5,3' is not a positive number"),
        ("choose a.nc b.nc --objective deadlines", "--objective deadlines wants --deadlines"),
        ("repair a.nc b.nc c.nc --deadlines 1s,2s", "--deadlines has 2 values"),
        (
            "repair a.nc b.nc --deadlines 1s,0s",
            "'1s,0s' is not a list of times above 0",
        ),
        ("repair a.nc b.nc --ways 7.5", "--ways: '7.5' is not a whole number"),
    ],
)
def test_options_of_comparisons_are_refused(files, refused, arguments, message):
    refused(2, message, "beside", *arguments.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("a.nc b.nc --bandwidth 5,6", "--bandwidth has 2 values, and --memory the numbers 0;"),
        ("a.nc b.nc --ways 2,3,3 --cache 0,1", "--ways has 3 values, and --cache the numbers 0, 1"),
        ("a.nc b.nc --cache 0,1", "--ways has no values, and --cache"),
        ("a.nc b.nc --ways 2,3 --cache 0,1,1", "--cache has 3 values; one for each of 2"),
        ("a.nc b.nc --ways 2,3 --cache 0.7,1.9", "--cache: '0.7,1.9' is not a list of whole"),
        ("a.nc b.nc --starts -1s,0s", "--starts: '-1s,0s' is not a list of times from 0 on"),
        ("a.nc b.nc --clock 0", "--clock: '0' is not a list of numbers > 0"),
        ("a.nc b.nc --way-size 1e308", "--way-size is 1e+308 MiB; a number up to 1000000 is"),
        ("a.nc b.nc --picture p.txt", "--picture: 'p.txt' is no PNG; end the name with .png"),
    ],
)
def test_options_of_predictions_are_refused(files, refused, arguments, message):
    refused(2, message, "beside", "predict", *arguments.split())


def test_a_file_without_a_clock_is_taken_at_the_clock_that_is_named(files, msbgen):
    alone = profiles("alone", 1e5, clocks=(2.0,)).drop_vars("frequency")
    write_profiles(alone, files / "alone.nc")
    text = "alone.nc: has no resource 'frequency'; its times are taken as those at the clock 2."
    done = msbgen("beside", "predict", "alone.nc", "alone.nc")
    assert (done.returncode, text in done.stderr) == (0, False)
    done = msbgen("beside", "predict", "alone.nc", "a.nc", *SHARED)
    assert (done.returncode, done.stderr.count(text)) == (0, 1)


def test_a_choice_beyond_the_measured_bandwidths_is_warned_of(files, msbgen):
    low = profiles("low", 1e5)
    write_profiles(low.isel(context=(low["bandwidth"] < 1e6).values), files / "low.nc")
    done = msbgen("beside", "choose", "low.nc", "b.nc", "--clock", "2", "--sockets", "1")
    assert done.returncode == 0, done.stderr
    text = "low: was measured with up to 100 MB/s, and no limit is wanted: its times"
    assert done.stderr.count(text) == 1


def test_a_picture_is_replaced_only_if_told(files, msbgen, refused):
    (files / "p.png").write_bytes(b"before")
    given = ("beside", "predict", "c.nc", "d.nc", *SHARED, "--picture", "p.png")
    refused(2, "p.png: exists already", *given)
    assert (files / "p.png").read_bytes() == b"before"
    assert msbgen(*given, "--force").returncode == 0
    assert (files / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_repair_without_partitions_says_so(files, msbgen):
    done = msbgen("beside", "repair", "c.nc", "d.nc", *SHARED, "--ways", "1")
    assert done.returncode == 0, done.stderr
    assert "nothing to compare; a cache of 1 way has no partition for 2 programs." in done.stderr
