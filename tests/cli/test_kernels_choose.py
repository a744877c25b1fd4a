"""``msbgen kernels choose``."""

import csv
import json

import numpy as np
import pytest
import xarray as xr

from choosing import CLOCKS, programs
from msbgen.data.energy import add_energy, total_energy
from msbgen.data.schema import duration_array
from msbgen.data.store import read_profiles, write_profiles

HEADER = "kind,clock [GHz],runtime [ms],power [W]\n"


@pytest.fixture
def table(folder):
    """Six programs at six clocks, and one that was measured at the highest alone."""
    # a seed whose last program is within the range of the six others: only they tell how its time
    # scales (test_chooser.py), and beyond their range energies are up to a fifth off
    drawn = programs(7, seed=2)
    lines = [
        f"{name},{clock},{1e3 * drawn.time[p, c]},{drawn.power[p, c]}\n"
        for p, name in enumerate(drawn.programs)
        for c, clock in enumerate(CLOCKS)
        if p < 6 or clock == 2.0
    ]
    (folder / "t.csv").write_text(HEADER + "".join(lines))
    return drawn.take([6])


def rows(text):
    return list(csv.DictReader(text.splitlines()))


CHOOSE = ["kernels", "choose", "t.csv", "--resources", "clock"]
CHOOSE += ["--program", "p6", "--miscoverage", "0.2"]


def test_a_table_with_other_headers_is_read_by_a_map(folder, msbgen, refused, table):
    text = (folder / "t.csv").read_text().replace(HEADER, "program,mhz,t [ms],watts [W]\n")
    (folder / "u.csv").write_text(text)
    (folder / "map.toml").write_text(
        'resources = ["clock"]\n[columns]\nkind = "program"\n"clock [GHz]" = "mhz"\n'
        'runtime = "t [ms]"\npower = "watts [W]"\n'
    )
    by_map = ["kernels", "choose", "u.csv", "--columns", "map.toml", *CHOOSE[5:]]
    assert msbgen(*by_map).stdout == msbgen(*CHOOSE).stdout != ""
    refused(2, "drop --resources", *by_map, "--resources", "clock")
    refused(3, "columns 'runtime,clock,kind' are wanted, or their", "kernels", "choose", "u.csv",
            "--resources", "clock")  # fmt: skip


def test_a_program_is_decided_for_by_what_others_did(folder, msbgen, table):
    done = msbgen(*CHOOSE)
    assert done.returncode == 0, done.stderr
    (row,) = rows(done.stdout)
    at = int(np.argmin(np.abs(CLOCKS - float(row["clock [GHz]"]))))
    assert float(row["energy [J]"]) == pytest.approx(table.energy[0, at], rel=0.15)
    assert table.energy[0, at] < 1.1 * table.energy[0].min() < table.energy[0, -1]
    assert float(row["saving"]) > 0.1
    assert float(row["time bound [s]"]) >= float(row["time [s]"])
    assert row["measured"] == "0"
    limit = 1.1 * table.time[0, -1]
    (row,) = rows(msbgen(*CHOOSE, "--latency", f"{1e3 * limit:.6f}ms").stdout)
    assert float(row["time bound [s]"]) <= limit
    (fastest,) = rows(msbgen(*CHOOSE, "--objective", "time").stdout)
    assert (fastest["clock [GHz]"], fastest["measured"], fastest["saving"]) == ("2", "1", "0.0000")
    shortest = float(fastest["time [s]"])
    relative = msbgen(*CHOOSE, "--latency", "1.1x").stdout
    assert relative == msbgen(*CHOOSE, "--latency", f"{1.1 * shortest:.12g}s").stdout
    done = msbgen(*CHOOSE, "--miscoverage", "0.05")
    assert (done.returncode, rows(done.stdout)[0]["clock [GHz]"]) == (0, f"{CLOCKS[at]:g}")
    assert "bounds are for a miscoverage of 0.1429, not of 0.05" in done.stderr
    done = msbgen(*CHOOSE, "-o", "c.csv")
    assert (done.returncode, done.stdout) == (0, "c.csv: 1 row\n")


def test_every_program_gets_a_row_and_a_front_several(folder, msbgen, table):
    done = msbgen("kernels", "choose", "t.csv", "--resources", "clock", "--miscoverage", "0.2")
    assert [row["program"] for row in rows(done.stdout)] == [f"p{i}" for i in range(7)]
    front = rows(msbgen(*CHOOSE, "--objective", "front").stdout)
    times = [float(row["time [s]"]) for row in front]
    energies = [float(row["energy [J]"]) for row in front]
    assert times == sorted(times)
    assert energies == sorted(energies, reverse=True)
    assert len(front) > 1


def test_several_programs_are_named_one_by_one(msbgen, refused, table):
    done = msbgen(*CHOOSE, "--program", "p3", "--program", "p6")
    assert [row["program"] for row in rows(done.stdout)] == ["p6", "p3"]
    assert rows(done.stdout)[0] == rows(msbgen(*CHOOSE).stdout)[0]
    measured = [*CHOOSE[:5], "--program", "p1", "--program", "p3"]
    refused(2, "--probes needs one program", *measured, "--probes", "2")


def test_a_limit_may_be_relative_to_the_highest_clock(folder, msbgen, refused, table):
    lines = [HEADER.strip()]  # the middle clock is the fastest
    lines += [f"p,{clock},{ms},{w}" for clock, ms, w in ((1, 12, 5), (1.5, 10, 8), (2, 11, 12))]
    (folder / "p.csv").write_text("\n".join(lines) + "\n")
    arguments = ("kernels", "choose", "p.csv", "--resources", "clock", "--latency", "1.1x")
    assert rows(msbgen(*arguments).stdout)[0]["clock [GHz]"] == "1.5"  # 11 ms
    done = msbgen(*arguments, "--relative-to", "highest")  # 12.1 ms
    assert rows(done.stdout)[0]["clock [GHz]"] == "1"
    assert "p: the limit is 0.0121 s" in done.stderr
    refused(2, "--relative-to needs a relative limit", *CHOOSE, "--relative-to", "highest")
    highest = (*CHOOSE, "--relative-to", "highest", "--latency", "1x", "--power", "0.01")
    refused(6, "1 times the expected time", *highest)


def test_times_alone_are_enough_to_choose_by_time(folder, msbgen, refused, table):
    lines = (folder / "t.csv").read_text().splitlines()
    (folder / "t.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    done = msbgen(*CHOOSE, "--objective", "time")
    assert done.returncode == 0, done.stderr
    (row,) = rows(done.stdout)
    assert list(row) == ["program", "clock [GHz]", "time [s]", "time bound [s]", "measured"]
    assert (row["clock [GHz]"], float(row["time [s]"])) == (
        "2",
        pytest.approx(table.time[0, -1], rel=1e-5),
    )
    probes = rows(msbgen(*CHOOSE, "--objective", "time", "--probes", "1").stdout)
    assert list(probes[0]) == ["clock", "runs", "seconds"]
    sentence = "no measurement has a power, so that nothing is known of energy"
    refused(3, sentence, *CHOOSE)
    refused(3, sentence, *CHOOSE, "--objective", "time", "--power", "100")


def test_limits_are_kept_at_the_rate_that_few_families_support(folder, msbgen, table, refused):
    limit = 1.1 * table.time[0, -1]
    asked = ("--latency", f"{1e3 * limit:.6f}ms", "--miscoverage")
    done = msbgen(*CHOOSE, *asked, "0.01")
    assert done.returncode == 0, done.stderr
    assert "bounds are for a miscoverage of 0.1429, not of 0.01" in done.stderr
    assert f"the limit is {limit:.4g} s" in done.stderr
    assert done.stdout == msbgen(*CHOOSE, *asked, "0.1429").stdout
    refused(2, "'1.1' has no unit; 1.1s or 1.1x is wanted", *CHOOSE, "--latency", "1.1")


def test_what_to_measure_next_is_a_list_of_contexts(folder, msbgen, table):
    done = msbgen(*CHOOSE, "--probes", "2")
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert list(found[0]) == ["clock", "runs", "seconds"]
    assert len({row["clock"] for row in found} - {"2"}) == 2
    limited = rows(msbgen(*CHOOSE, "--probes", "1", "--latency", "100s").stdout)
    assert len(limited) == 1


ERRORS = [
    (["--program", "p66"], 2, "program is 'p66'; did you mean 'p6'?"),
    (["--latency", "1us"], 6, "the lowest bound (clock=2 GHz)"),
    (["--work", "batch"], 2, "work is 'batch'; one of the resources clock is wanted"),
    (["--resources", "volts"], 3, "a column 'volts' is wanted"),
    (["--probes", "2", "--objective", "front"], 2, "--probes needs the objective"),
    (["--probes", "2", "--bounds", "t.csv"], 2, "--bounds needs all contexts measured"),
]


@pytest.mark.parametrize(("given", "code", "sentence"), ERRORS)
def test_what_cannot_be_chosen_is_told(refused, table, given, code, sentence):
    refused(code, sentence, *CHOOSE, *given)


def test_a_table_without_its_resources_or_power_is_refused(folder, refused, table):
    message = "t.csv: is a table; name its columns of resources with --resources"
    refused(2, message, "kernels", "choose", "t.csv")
    refused(3, "measured.nc: no measurement has a power", "kernels", "choose", "measured.nc")


@pytest.fixture
def metered(folder):
    """The measured profiles with a meter, in m.nc."""
    dataset = read_profiles(folder / "measured.nc")
    watts = (1.0 + dataset["frequency"] ** 3) * np.isfinite(dataset["instructions"])
    watts = watts.where(watts > 0).transpose("context", "run", "time").assign_attrs(units="W")
    write_profiles(add_energy(dataset.assign(power=watts), "power"), folder / "m.nc")


def test_profiles_are_chosen_from_within_bounds_on_their_runs(folder, msbgen, refused, metered):
    (folder / "c.csv").write_text("cache_ways,frequency\n2,1\n4,1\n8,1\n2,2\n4,2\n8,2\n")
    done = msbgen("bound", "m.nc", "--contexts", "c.csv", "--miscoverage", "0.2", "-o", "b.nc")
    assert done.returncode == 0, done.stderr
    with xr.open_dataset(folder / "b.nc") as bounds:
        fastest = 1.01 * float(bounds["duration_bound"].values.min())
        assert (bounds["energy_bound"] > 0).all()
    (row,) = rows(msbgen("kernels", "choose", "m.nc", "--bounds", "b.nc").stdout)
    assert (row["program"], row["frequency [GHz]"], row["cache_ways"]) == ("synthetic", "1", "8")
    limit = ["--latency", f"{fastest}s"]
    (row,) = rows(msbgen("kernels", "choose", "m.nc", "--bounds", "b.nc", *limit).stdout)
    assert row["frequency [GHz]"] == "2"
    assert float(row["time bound [s]"]) > float(row["time [s]"])
    refused(3, "m.nc: holds instructions", "kernels", "choose", "m.nc", "--bounds", "m.nc")


def test_energy_is_generated_and_mended_by_other_programs(folder, msbgen, refused, metered):
    whole = read_profiles(folder / "m.nc")
    for i in range(3):
        scaled = whole.assign(
            energy=(whole["energy"] * (1 + i)).assign_attrs(whole["energy"].attrs)
        )
        write_profiles(scaled.assign_attrs(task=f"other{i}"), folder / f"o{i}.nc")
    arguments = ["generate", "m.nc", "-o", "g.nc", "--contexts", "m.nc", "--kind", "mean"]
    done = msbgen(*arguments, "--power-of", "o0.nc", "o1.nc", "o2.nc")
    assert done.returncode == 0, done.stderr
    made = read_profiles(folder / "g.nc")
    power = total_energy(made)[:, 0] / duration_array(made)[:, 0]
    np.testing.assert_allclose(power, 1.0 + made["frequency"].values ** 3, rtol=0.01)
    refused(3, "o0.nc: there are 1 other programs", *arguments, "--force", "--power-of", "o0.nc")


def test_a_schema_of_several_words_is_refused(folder, msbgen):
    dataset = xr.Dataset(attrs={"schema": [1.0, 2.0]})
    dataset.to_netcdf(folder / "odd.nc")
    done = msbgen("kernels", "choose", "odd.nc")
    assert done.returncode == 3
    assert "odd.nc: attribute 'schema' is" in done.stderr


def test_the_cache_of_a_tuner_is_chosen_from_and_imported(folder, msbgen, refused):
    entries = {
        f"{clock}": {"nvml_gr_clock": clock, "time": 6e3 / clock, "nvml_power": clock / 10}
        | ({"time": "CompilationFailedConfig"} if clock == 300 else {})
        for clock in (300, 600, 1200)
    }
    cache = {"kernel_name": "k", "tune_params_keys": ["nvml_gr_clock"], "cache": entries}
    (folder / "t.json").write_text(json.dumps(cache))
    done = msbgen("kernels", "choose", "t.json", "--latency", "7ms")
    (row,) = rows(done.stdout)
    assert (row["program"], row["nvml_gr_clock [MHz]"], row["time [s]"]) == ("k", "1200", "0.005")
    done = msbgen("kernels", "import", "t.json", "-o", "k.nc")
    assert done.returncode == 0, done.stderr
    assert "nvml_gr_clock [MHz]: 600 to 1200" in done.stdout
    refused(3, "measured.nc: line 1 is not UTF-8", "kernels", "import", "measured.nc", "-o", "o.nc")


def test_a_clock_of_which_runs_were_late_does_not_keep_the_limit(folder, msbgen):
    """Its median keeps 1.2 s, and 5 of its 12 runs do not."""
    slow = 1.0, 1.02, 1.09, 1.1, 1.1, 1.15, 1.19, 1.22, 1.24, 1.25, 1.34, 1.4
    lines = [HEADER.strip(), *(f"a,1,{1e3 * s},20" for s in slow)]
    lines += [f"a,2,{500 * s},60" for s in slow]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    arguments = ("kernels", "choose", "a.csv", "--resources", "clock", "--latency", "1.2s")
    done = msbgen(*arguments)
    (row,) = rows(done.stdout)
    columns = "clock [GHz]", "time bound [s]", "energy bound [J]"
    assert [row[name] for name in columns] == ["2", "0.7", "42"]
    assert "its time bound is 1.4 s; measure more runs there and choose again" in done.stderr
    assert "bounds are the largest of the measured runs, as these are fewer than 19" in done.stderr
    assert "the largest of 12 with a probability of up to 0.077 (a at clock=2 GHz)" in done.stderr
    done = msbgen(*arguments[:-1], "1.45s", "--miscoverage", "0.1")
    assert [row["time bound [s]"] for row in rows(done.stdout)] == ["1.4"]
    assert "warning" not in done.stderr
