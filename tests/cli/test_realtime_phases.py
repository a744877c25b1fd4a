"""``msbgen realtime phases``: a table from a file, or a sentence."""

from msbgen.data.store import read_profiles, write_profiles
from msbgen.systems.phases.phases import read_phases


def test_a_table_of_every_context(msbgen, decisions):
    done = msbgen(
        "realtime", "phases", "truth/synthetic.nc", "-o", "table.nc", "--resolution", "0.05"
    )
    assert done.returncode == 0, done.stderr
    table = read_phases(decisions / "table.nc")
    assert done.stdout == f"table.nc: {table.sizes['phase']} phases in 12 contexts\n"
    assert 2 <= table.sizes["phase"] <= 8


def test_what_cannot_be_cut_is_refused(refused, folder):
    measured = read_profiles(folder / "measured.nc")
    write_profiles(measured.isel(context=slice(0, 5)), folder / "five.nc")
    for code, message, arguments in (
        (3, "five.nc: 1 of 6 contexts are missing", "five.nc -o t"),
        (3, "unknown.nc: no such file", "unknown.nc -o t"),
        (2, "is not a positive number", "measured.nc -o t --resolution 0"),
        (2, "is not a positive number", "measured.nc -o t --resolution no"),
        (2, "resolution is 1e+300", "truth.nc -o t --resolution 1e300"),
        (2, "exists already", "measured.nc -o truth.nc"),
    ):
        refused(code, message, "realtime", "phases", *arguments.split())


def test_a_table_is_no_profile_file_in_one_sentence(refused, decisions):
    done = refused(
        3, "'schema' is 'msbgen-phases/1'", "realtime", "phases", "tables/synthetic.nc", "-o", "t"
    )
    assert done.stderr.count("\n") == 1
