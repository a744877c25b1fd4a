"""``msbgen check``."""

import numpy as np
import pytest

from broken import BROKEN
from conftest import MEASURED, synthetic_task
from faulty import EVERY_FAULT, spoilt
from msbgen.data.energy import add_energy
from msbgen.data.store import read_profiles, write_profiles
from msbgen.data.tables import read_contexts


def test_check_says_what_a_file_holds(folder, msbgen):
    done = msbgen("check", "measured.nc")
    assert done.returncode == 0
    for part in ("contexts  6, 3 runs each", "cache_ways [1]: 2 to 8", "no problem found"):
        assert part in done.stdout


def test_check_counts_late_runs(folder, measured, msbgen):
    duration = measured["duration"].values
    slowest = int(duration.mean(axis=1).argmax())
    deadline = float(np.median(duration[slowest])) - 1e-9  # two of its three runs are late
    over = int((duration > deadline).sum())
    levels = [f"{measured[name].values[slowest]:g}" for name in ("cache_ways", "frequency")]
    done = msbgen("check", "measured.nc", "--deadline", f"{deadline:.12f}s")
    found = [line for line in done.stdout.splitlines() if line.startswith("late")]
    assert len(found) == 7
    assert f"all contexts: {over} of 18 runs above {deadline:g} s, {over / 18:.1%} (95" in found[0]
    assert found[1] == (
        f"late      cache_ways={levels[0]}, frequency={levels[1]} GHz: 2 of 3 runs above "
        f"{deadline:g} s, 66.7% (95 % interval 9.4% to 99.2%)"
    )
    assert found[-1].endswith(
        f"0 of 3 runs above {deadline:g} s, 0.0% (95 % interval 0.0% to 70.8%)"
    )
    assert "late" not in msbgen("check", "measured.nc").stdout


def test_check_lists_every_problem_of_a_bad_file(measured, tmp_path, msbgen):
    measured["duration"].attrs["units"] = "ms"
    measured["frequency"].attrs.pop("units")
    measured.to_netcdf(tmp_path / "bad.nc")
    done = msbgen("check", "bad.nc")
    assert done.returncode == 3
    assert "bad.nc: variable 'duration' has units 'ms'" in done.stderr
    assert "bad.nc: resource 'frequency' has no units" in done.stderr


@pytest.mark.parametrize("case", list(BROKEN)[::7])  # the library's tests go through all
def test_check_says_the_sentence_of_a_broken_file(measured, tmp_path, msbgen, case):
    change, sentence = BROKEN[case]
    change(measured).to_netcdf(tmp_path / "task.nc")
    done = msbgen("check", "task.nc")
    assert (done.returncode, "no problem found" in done.stdout) == (3, False)
    message = [line for line in done.stderr.splitlines() if sentence in line]
    assert message, done.stderr
    assert message[0].startswith("msbgen: task.nc: ")
    assert message[0].endswith(".")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (lambda whole: whole[: len(whole) // 2], "bad.nc: cannot be read whole"),
        (lambda whole: b"", "bad.nc: the file is empty"),
        (lambda whole: b"\0" * len(whole), "bad.nc: not a netCDF file"),
        (lambda whole: b"time,instructions\n", "bad.nc: not a netCDF file"),
    ],
    ids=["truncated", "empty", "zeros", "text"],
)
def test_files_that_are_no_netcdf_are_bad_data(folder, refused, content, sentence):
    (folder / "bad.nc").write_bytes(content((folder / "measured.nc").read_bytes()))
    done = refused(3, sentence, "check", "bad.nc")
    assert done.stdout == ""


def test_check_warns_and_exits_with_0(measured, tmp_path, msbgen):
    measured["cache_misses"][0, 0, 3] = 2 * measured["cache_requests"][0, 0, 3] + 10
    write_profiles(measured, tmp_path / "task.nc")
    done = msbgen("check", "task.nc")
    assert done.returncode == 0
    message = done.stdout
    assert "warning: task.nc: counter 'cache_misses' is above 'cache_requests'" in message
    assert "usable, with warnings" in message


def test_check_doubts_how_a_file_was_measured(measured, tmp_path, msbgen):
    steal = ("context", "run"), [[0.0, 0.2, 0.0]] * 6, {"units": "1"}
    write_profiles(measured.assign(steal=steal).isel(context=slice(1, 6)), tmp_path / "task.nc")
    done = msbgen("check", "task.nc")
    assert done.returncode == 0
    assert "warning: task.nc: 'steal' is above 1% in context 0 (" in done.stdout
    assert "note: task.nc: 1 of the platform's 4 corners were not measured: (" in done.stdout
    assert "clock     instructions: totals of one context spread by 0.0%" in done.stdout
    assert "\nprogress  instructions\n" in done.stdout
    assert done.stdout.endswith("usable, with warnings\n")


def test_a_corner_that_was_not_measured_is_no_problem(measured, tmp_path, msbgen):
    write_profiles(measured.isel(context=slice(1, 6)), tmp_path / "task.nc")
    done = msbgen("check", "task.nc")
    assert "note: task.nc: 1 of" in done.stdout
    assert done.stdout.endswith("no problem found\n")


def test_check_names_what_does_not_belong(tmp_path, msbgen):
    contexts = [(ways, clock) for ways in (2, 3, 4, 6, 8) for clock in (1.0, 1.25, 1.5, 2.0)]
    task = synthetic_task(np.array(contexts, dtype=float), n_runs=2)
    swapped = task.copy(deep=True)
    for name in (*("instructions", "cache_requests", "cache_misses"), "duration"):
        swapped[name][[4, 15]] = task[name][[15, 4]].values
    write_profiles(swapped, tmp_path / "task.nc")
    done = msbgen("check", "task.nc")
    assert done.returncode == 0
    assert "context 4 " in done.stdout
    assert "context 15 " in done.stdout
    assert "look exchanged" in done.stdout
    assert "usable, with warnings" in done.stdout


def test_a_file_with_every_fault_goes_through_every_verb(tmp_path, msbgen):
    grid = np.array([(w, f) for w in (2.0, 3.0, 4.0, 6.0, 8.0) for f in (1.0, 1.25, 1.5, 2.0)])
    write_profiles(spoilt(synthetic_task(grid), **EVERY_FAULT), tmp_path / "faulty.nc")
    sentences = [
        "context 9 (cache_ways=4, frequency=1.25 GHz) took 2.",
        "context 2 (cache_ways=2, frequency=1.5 GHz) and context 16 (cache_ways=8, frequency=1 GHz)"
        " look exchanged",
        "run 1 of context 5 (cache_ways=3, frequency=1.25 GHz) took ",
        "times the most that other runs have, in context 12 (cache_ways=6, frequency=1 GHz), run 0",
    ]
    again = "faulty.nc", "--contexts", "grid:4x3"
    done = msbgen("check", "faulty.nc")
    assert done.returncode == 0, done.stderr
    for sentence in sentences:
        (line,) = [own for own in (done.stdout + done.stderr).splitlines() if sentence in own]
        assert "measure" in line
    verbs = [
        ("generate", *again, "-o", "made.nc"),
        ("bound", *again, "--miscoverage", "0.2", "-o", "bounds.csv"),
        ("plan", "faulty.nc", "--budget", "3", "-o", "plan.csv"),
    ]
    for verb in verbs:
        done = msbgen(*verb)
        assert done.returncode == 0, done.stderr
        told = [own for own in done.stderr.splitlines() if "faulty.nc: 4 faults" in own]
        assert len(told) == 1, verb
        assert "msbgen check names each" in told[0]
        # what comes of an absurd count is not told as something else, with another remedy
        assert not any(message in done.stdout for message in ("wrapped", "spread by more than 5%"))
    assert sum(map(len, read_profiles(tmp_path / "made.nc").attrs["faults"])) > 0
    planned = read_contexts(tmp_path / "plan.csv", ["cache_ways", "frequency"])
    assert {tuple(row) for row in planned} <= {tuple(row) for row in grid[[2, 5, 9, 12, 16]]}


def test_one_huge_count_is_named_once(folder, msbgen):
    profiles = synthetic_task(MEASURED)
    profiles["cache_misses"].values[1, 2, 3] = 1e12
    write_profiles(profiles, folder / "huge.nc")
    for line in (
        "check huge.nc",
        "bound huge.nc --contexts grid:2x2 --miscoverage 0.2",
        "compare measured.nc huge.nc",
    ):
        done = msbgen(*line.split())
        assert done.returncode == 0, done.stderr
        said = [s for s in (done.stdout + done.stderr).splitlines() if "read wrongly" in s]
        assert len(said) == 1, line
        assert "is above 'cache_requests'" not in done.stdout + done.stderr


def test_a_file_writes_no_lines_of_its_own(measured, tmp_path, msbgen):
    forged = measured.assign_attrs(task="work\nno problem found")
    forged["frequency"].attrs["units"] = "GHz\nno problem found"
    forged["frequency"].attrs["levels"] = [5.0]  # a warning
    forged.to_netcdf(tmp_path / "forged.nc")
    lines = msbgen("check", "forged.nc").stdout.splitlines()
    assert "task      work\\nno problem found" in lines
    assert lines[-1] == "usable, with warnings"
    assert "no problem found" not in lines


def test_a_run_without_energy_is_named(tmp_path, msbgen):
    made = synthetic_task(MEASURED)
    power = (0.5 + made["frequency"] + 0 * made["instructions"]).assign_attrs(units="W")
    made = add_energy(made.assign(power=power), "power")
    made["energy"][1, 2] = made["energy"][1, 2] * 0
    write_profiles(made, tmp_path / "e.nc")
    for verb in (["check", "e.nc"], ["bound", "e.nc", "--contexts", "all", "--miscoverage", 0.4]):
        done = msbgen(*verb)
        assert "'energy' is 0 J in context 1 (cache_ways=" in done.stdout + done.stderr
        assert ", run 2: every run needs energy" in done.stdout + done.stderr
