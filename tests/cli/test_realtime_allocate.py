"""``msbgen realtime allocate``: contexts as CSV, within the capacity, or a sentence."""

import csv

import pytest

from msbgen.data.store import read_profiles
from msbgen.systems.phases.phases import phase_table, write_phases

TABLE = "tables/synthetic.nc"


def test_contexts_of_running_and_idle_cores(msbgen, decisions):
    done = msbgen(
        "realtime", "allocate", TABLE, TABLE, "--progress", "0.1,0.9",
        "--capacity", "cache_ways=12",
        "--cores", "3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["task"] for row in rows] == ["synthetic", "synthetic", "(idle)"]
    ways = [float(row["cache_ways"]) for row in rows]
    assert sum(ways) <= 12
    # the second phase is the one that misses
    assert ways[1] > ways[0]
    assert ways[2] == 2
    assert [float(row["frequency"]) for row in rows] == [2, 2, 1]


def test_slack_lowers_clocks(msbgen, decisions):
    requested = ["realtime", "allocate", TABLE, "--progress", "0.1", "--capacity", "cache_ways=8"]
    done = msbgen(*requested, "--slack", "0.6", "--allocator", "dna")
    assert done.stdout.splitlines()[1] == "synthetic,8,1"


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (2, "gives 2 values for 1 tables", [TABLE, "--progress", "0.1,0.2"]),
        (2, "not a list of shares from 0 to 1", [TABLE, "--progress", "1.5"]),
        (2, "not a list of shares from 0 to 1", [TABLE, "--progress", "nan"]),
        (2, "cannot run 2 tasks", [TABLE, TABLE, "--progress", "0,0", "--cores", "1"]),
        (2, "not a whole number", [TABLE, "--progress", "0", "--cores", "0"]),
        (2, "not a share from 0", [TABLE, "--progress", "0", "--slack", "1"]),
        (2, "invalid choice", [TABLE, "--progress", "0", "--allocator", "best"]),
        (2, "at least 6", [TABLE, "--progress", "0", "--cores", "3"]),
        (2, "'ways' is no resource", [TABLE, "--progress", "0", "--capacity", "ways=5"]),
        (2, "not a list of amounts", [TABLE, "--progress", "0", "--capacity", "cache_ways=-5"]),
        (
            2,
            "no core has a clock of its own",
            [TABLE, "--progress", "0", "--capacity", "cache_ways=5,frequency=2", "--slack", "0.1"],
        ),
        (2, "cores is 1000000", [TABLE, "--progress", "0", "--cores", "1000000"]),
        (3, "make the table of profiles first", ["truth/synthetic.nc", "--progress", "0"]),
        (3, "no such file", ["unknown.nc", "--progress", "0"]),
    ],
)
def test_what_cannot_be_decided_is_refused(refused, decisions, code, message, arguments):
    refused(code, message, "realtime", "allocate", "--capacity", "cache_ways=5", *arguments)


def test_tables_that_differ_are_named_by_their_files(refused, decisions):
    profiles = read_profiles(decisions / "truth" / "synthetic.nc")
    write_phases(phase_table(profiles.isel(context=slice(0, 9))), decisions / "synthetic.nc")
    message = (
        "table of 'synthetic.nc': 'cache_ways' has 3 levels from 2 to 6, in the table of '" + TABLE
    )
    requested = ["--progress", "0,0", "--capacity", "cache_ways=5"]
    refused(3, message, "realtime", "allocate", TABLE, "synthetic.nc", *requested)
