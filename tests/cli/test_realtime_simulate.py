"""``msbgen realtime simulate``: every job, or a sentence with its remedy."""

import shutil

import pytest

from msbgen.data.store import load_netcdf, read_profiles, write_profiles
from msbgen.systems.phases.phases import phase_table, write_phases

ASKED = ["realtime", "simulate", "set.toml", "--tables", "tables", "--truth", "truth",
         "-o", "result.nc",
         "--horizon", "2s"]  # fmt: skip


def test_jobs_misses_and_energy(msbgen, decisions):
    message = {}
    for name, arguments in {
        "highest": [],
        "dna": ["--allocator", "dna", "--objective", "progress"],
        "reference": ["--slack", "reference"],
        "simulated": ["--slack", "simulated", "--profiles", "truth"],
        "given": ["--slack", "0.3"],
    }.items():
        done = msbgen(*ASKED, *arguments, "--force")
        assert done.returncode == 0, done.stderr
        result = load_netcdf(decisions / "result.nc")
        assert f"{result.sizes['job']} jobs, {int(result['late'].sum())} late" in done.stdout
        message[name] = float(result["energy"].sum())
    assert message["given"] < message["highest"]
    assert message["reference"] < message["highest"]
    assert message["simulated"] < message["highest"]


def test_a_set_that_needs_more_than_the_cores_have_is_said_to_be_overloaded(msbgen, decisions):
    done = msbgen(*ASKED)
    assert (done.returncode, done.stderr) == (0, "")
    path = decisions / "set.toml"
    path.write_text(path.read_text().replace("period = 0.", "period = 0.0"))
    done = msbgen(*ASKED, "--force")
    result = load_netcdf(decisions / "result.nc")
    assert (done.returncode, result["late"].values.all()) == (0, True)
    assert result.attrs["load"] > 1
    assert f"the cores are overloaded: the last job ends after {result.attrs['load']:.2f}" in (
        done.stderr
    )


@pytest.mark.parametrize(
    ("code", "message", "old", "new"),
    [
        (3, "set.toml: capacity of 'cache_ways' is 3; at least 4", "ways = 10", "ways = 3"),
        (3, "set.toml: 'cache' is no resource of the tables", "cache_ways = 10", "cache = 10"),
        (3, "set.toml: 'cores' is 0", "cores = 2", "cores = 0"),
        (3, "set.toml: 'speed' is no known key", "cores = 2", "cores = 2\nspeed = 3"),
        (3, "set.toml, task 'synthetic-1': 'period' is -1", "= 0.35", "= -1"),
        (3, "set.toml, task 'synthetic-1': 'period' is 0", "= 0.35", "= 0"),
        (3, "set.toml, task 'synthetic-1': 'period' is nan", "= 0.35", "= nan"),
        (3, "but there is no file", '"synthetic"', f'"{"long" * 100}"'),
        (3, "set.toml: runs 'other', but there is no file 'tables", '"synthetic"', '"other"'),
    ],
)
def test_sets_that_make_no_sense_are_refused(refused, decisions, code, message, old, new):
    path = decisions / "set.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    refused(code, message, *ASKED)


def test_a_missing_reference_and_halves_of_a_rule_are_refused(refused, decisions):
    refused(2, "--slack simulated and --profiles DIR go together", *ASKED, "--slack", "simulated")
    refused(2, "go together", *ASKED, "--profiles", "truth")
    refused(2, "not a share from 0% to below 100%", *ASKED, "--slack", "2")
    refused(2, "not a time above 0", *ASKED, "--horizon", "0s")
    path = decisions / "set.toml"
    path.write_text(path.read_text().replace("wcet = 0.109", "", 1))
    refused(3, "set.toml: wcet of task 'synthetic-0' is not given", *ASKED, "--slack", "reference")


def test_platforms_that_differ_and_contexts_missing_are_refused(refused, decisions):
    profiles = read_profiles(decisions / "truth" / "synthetic.nc")
    fewer = profiles.isel(context=slice(0, 9))
    write_phases(phase_table(fewer), decisions / "tables" / "synthetic.nc", overwrite=True)
    refused(3, "'cache_ways' has 4 levels from 2 to 8", *ASKED)
    missing = profiles.isel(context=slice(0, 11))
    write_profiles(missing, decisions / "truth" / "synthetic.nc", overwrite=True)
    refused(3, "truth: synthetic.nc: 1 of 12 contexts are missing", *ASKED)
    (decisions / "tables" / "synthetic.nc").write_bytes(b"")
    refused(3, "tables: synthetic.nc: the file is empty", *ASKED)


def test_units_that_differ_are_refused(refused, decisions):
    profiles = read_profiles(decisions / "truth" / "synthetic.nc")
    table = phase_table(profiles)
    table["frequency"].attrs["units"] = "MHz"
    write_phases(table, decisions / "tables" / "synthetic.nc", overwrite=True)
    refused(3, "'frequency' is in 'GHz', in the tables in 'MHz'", *ASKED)


@pytest.mark.parametrize("folder", ["truth", "tables", "other"])
def test_what_is_read_is_never_replaced(refused, decisions, folder):
    shutil.copytree(decisions / "truth", decisions / "other")
    path = f"{folder}/synthetic.nc"
    requested = [path if given == "result.nc" else given for given in ASKED]
    slack = ["--slack", "simulated", "--profiles", "other"]
    refused(2, f"{path}: is the input '{path}', too", *requested, *slack, "--force")
