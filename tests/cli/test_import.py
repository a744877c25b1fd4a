"""``msbgen import``."""

import shutil

import numpy as np
import pytest

from measure_fixtures import FIXTURES
from msbgen.cli.main import main
from msbgen.data.store import read_profiles


@pytest.fixture
def sweep(tmp_path):
    """A folder with recordings of two contexts and a manifest of them."""
    for name in ("q020_r0.csv", "q100_r0.csv"):
        shutil.copy(FIXTURES / "sweep-quota" / name, tmp_path)
    (tmp_path / "runs.csv").write_text(
        "file,cpu_quota [%],duration [s]\nq020_r0.csv,20,3.0002066\nq100_r0.csv,100,0.6480501\n"
    )
    return tmp_path


def test_a_manifest_of_recordings_becomes_a_valid_file(sweep, msbgen):
    done = msbgen("import", "--manifest", "runs.csv", "-o", "o.nc", "--task", "sqlite",
                  "--levels", "cpu_quota=20:100:20")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "contexts  2, 1 run each" in done.stdout
    profiles = read_profiles(sweep / "o.nc")
    assert profiles.attrs["progress"] == "task_clock"
    assert profiles["cpu_quota"].attrs["levels"].tolist() == [20, 40, 60, 80, 100]
    np.testing.assert_allclose(profiles["duration"].values[:, 0], [3.0002066, 0.6480501])
    checked = msbgen("check", "o.nc")
    assert checked.returncode == 0
    assert "counter   raw_syscalls_sys_enter: 4391 to 4394 events a run" in checked.stdout
    assert " ns a run" in checked.stdout  # of the CPU time


def test_names_say_contexts_and_durations_are_said_to_be_guessed(sweep, msbgen):
    pattern = "q{cpu_quota [%]}_r{run}.csv"
    done = msbgen("import", "q020_r0.csv", "q100_r0.csv", "--names", pattern, "-o", "o.nc",
                  "--events", "task-clock;page-faults", "--interval", "50ms",
                  "--clock", "page-faults")  # fmt: skip
    assert done.returncode == 0
    assert "msbgen: warning: the durations of 2 runs are those of their last stamps" in done.stderr
    profiles = read_profiles(sweep / "o.nc")
    assert profiles.attrs["interval"] == 0.05
    assert profiles.attrs["progress"] == "page_faults"
    assert "context_switches" not in profiles


def test_repeated_runs_are_compared_as_clocks(sweep, msbgen):
    shutil.copy(sweep / "q100_r0.csv", sweep / "q100_r1.csv")
    done = msbgen("import", *(f"q{q}.csv" for q in ("020_r0", "100_r0", "100_r1")),
                  "--names", "q{cpu_quota [%]}_r{run}.csv", "-o", "o.nc")  # fmt: skip
    assert done.returncode == 0
    assert "clock     task_clock: totals of one context spread by 0.0%, contexts by" in done.stdout
    assert "\nprogress  task_clock" in done.stdout


@pytest.mark.parametrize(
    ("form", "name", "more"),
    [
        ("likwid", "likwid-events.txt", ()),
        ("pqos", "pqos.csv", ("--step", "100ms")),
        ("pcm", "pcm.csv", ("--places", "Core1 (Socket 0)")),
        ("table", "own.csv", ("--columns", "map.toml", "--places", "0")),
    ],
)
def test_other_tools_are_read_and_what_they_measure_is_said(tmp_path, msbgen, form, name, more):
    shutil.copy(FIXTURES / "tables" / name, tmp_path / f"x__ways=4{name[-4:]}")
    (tmp_path / "map.toml").write_text(
        '[columns]\n"time [ms]" = "t [ms]"\nplace = "core"\ninstructions = "INST"\n'
    )
    done = msbgen("import", f"x__ways=4{name[-4:]}", "-o", "o.nc", "--form", form, *more)
    assert done.returncode == 0, done.stderr
    if form != "table":
        assert ", not tasks: other tasks on them are counted" in done.stderr
    assert read_profiles(tmp_path / "o.nc").sizes["context"] == 1


def test_what_cannot_be_imported_is_refused(sweep, refused):
    for code, message, arguments in (
        (2, "name either recordings or a --manifest", "-o o.nc"),
        (2, "name either recordings or a --manifest", "q020_r0.csv --manifest runs.csv -o o.nc"),
        (2, "--names is for recordings", "--manifest runs.csv --names {a} -o o.nc"),
        (3, "q020_r0.csv: has no context", "q020_r0.csv -o o.nc"),
        (2, "pattern has a field '{}'", "q020_r0.csv --names {} -o o.nc"),
        (2, "levels are of 'ways'; one of cpu", "--manifest runs.csv --levels ways=1:3 -o o.nc"),
        (2, "';;' is not a list of names", "--manifest runs.csv --events ;; -o o.nc"),
        (3, "q020_r0.csv: there is no event 'cycles'; it has task-clock",
         "--manifest runs.csv --events cycles -o o.nc"),
        (3, "counter 'cycles' was not counted", "--manifest runs.csv --clock cycles -o o.nc"),
        (2, "exists already", "--manifest runs.csv -o runs.csv"),
        (2, "is the input 'runs.csv', too", "--manifest runs.csv -o runs.csv --force"),
    ):  # fmt: skip
        refused(code, message, "import", *arguments.split())


def test_a_recording_that_is_gone_or_no_file_is_refused(sweep, refused):
    (sweep / "runs.csv").write_text("file,q\nq020_r0.csv,20\ngone.csv,30\n.,40\n")
    refused(3, "gone.csv: no such file", "import", "--manifest", "runs.csv", "-o", "o.nc")
    (sweep / "runs.csv").write_text("file,q\n.,40\n")
    refused(3, "is a folder; a regular file is wanted", "import", "--manifest", "runs.csv",
            "-o", "o.nc")  # fmt: skip


def test_cycles_at_the_clock_of_the_context_are_the_time(tmp_path, msbgen):
    for clock in (1, 2):
        text = "CYCLES,INST\n" + "10000000,9000000\n" * 20
        (tmp_path / f"t__frequency={clock}GHz__run=0.csv").write_text(text)
    names = sorted(path.name for path in tmp_path.glob("*.csv"))
    arguments = ("import", *names, "--form", "table", "-o", "t.nc", "--clock", "INST")
    done = msbgen(*arguments, "--cycles", "CYCLES", "--at", "frequency")
    assert done.returncode == 0, done.stderr
    profiles = read_profiles(tmp_path / "t.nc")
    np.testing.assert_allclose(profiles["duration"].values[:, 0], [0.2, 0.1])
    lone = msbgen(*arguments, "--cycles", "CYCLES", "--force")
    assert lone.returncode == 2
    assert "--cycles and --at go together" in lone.stderr


def test_one_table_of_all_runs(tmp_path, msbgen):
    rows = "".join(f"{ways},0,{t},{ways}\n" for ways in (2, 4) for t in (0.1, 0.2))
    (tmp_path / "t.csv").write_text(f"ways,run,time [s],items\n{rows}")
    (tmp_path / "map.toml").write_text('resources = ["ways"]\n')
    asked = ("import", "t.csv", "-o", "o.nc", "--form", "table")
    done = msbgen(*asked, "--columns", "map.toml", "--levels", "ways=2:8:2")
    assert done.returncode == 0, done.stderr
    assert "time measures progress, as no counter was chosen from items" in done.stderr
    found = read_profiles(tmp_path / "o.nc")
    assert found["ways"].values.tolist() == [2, 4]
    assert found["ways"].attrs["levels"].tolist() == [2, 4, 6, 8]
    both = msbgen(*asked, "--columns", "map.toml", "--names", "{ways}.csv", "--force")
    assert both.returncode == 2
    assert "drop --manifest or --names" in both.stderr
    alone = msbgen(*asked, "--force")
    assert "'resources' in the --columns of a table of all runs" in alone.stderr


BENCH = FIXTURES.parents[1] / "timings/fixtures"


def test_results_of_a_benchmark_tool_need_no_map_and_a_dry_run_writes_nothing(tmp_path, capsys):
    assert main(["import", str(BENCH / "google.json"), "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "google.json: read as Google Benchmark" in said.err
    assert "nothing is written" in said.out
    assert "resource  size [1]: 8 to 32, 3 values of 3 levels" in said.out
    assert main(["import", str(BENCH / "google.json"), "-o", str(tmp_path / "g.nc")]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g-BM_scan.nc", "g-BM_sort.nc"]
    one = str(tmp_path / "one.nc")
    assert main(["import", str(BENCH / "google.json"), "--task", "BM_scan", "-o", one]) == 0
    assert read_profiles(one).attrs["task"] == "BM_scan"
    assert main(["import", str(BENCH / "google.json"), "--task", "x", "-o", one, "--force"]) == 2
    assert "one of the benchmarks BM_sort, BM_scan is wanted" in capsys.readouterr().err


def test_a_table_of_times_needs_no_map(tmp_path, capsys):
    rows = "".join(f"{c},{s},{c * s},{s / c:.4f}\n" for c in (1, 2, 4, 8) for s in (3, 5))
    (tmp_path / "t.csv").write_text("cores,size,load,seconds\n" + rows)
    line = ["import", str(tmp_path / "t.csv"), "-o", str(tmp_path / "t.nc"), "--ignore", "load"]
    assert main([*line, "--levels", "cores=1:8:1"]) == 0
    assert "msbgen: settings: cores [1], size [1]" in capsys.readouterr().err
    cores = read_profiles(tmp_path / "t.nc")["cores"]
    assert cores.attrs["levels"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert main(["choose", str(tmp_path / "t.nc"), "--deadline", "1s", "--cost", "cores=1",
                 "--miscoverage", "0.5"]) == 0  # fmt: skip


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("import google.json", "one of -o and --dry-run is wanted"),
        ("import google.json -o a.nc --dry-run", "one of -o and --dry-run is wanted"),
        ("import google.json --form times --clock x -o a.nc", "--clock is for recordings"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, line, sentence):
    words = [str(BENCH / w) if w.endswith(".json") else w for w in line.split()]
    assert main(words) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "counter"),
    [
        ("perf-6.1.192/hardware.jsonl", "instructions"),
        ("perf-6.1.192/hardware.csv", "instructions"),
        ("tables/sadf.csv", "user"),
        ("tables/nvidia-smi.csv", "energy"),
        ("tables/likwid-events.txt", "instr_retired_any"),
    ],
)
def test_recordings_are_recognized_by_their_content(tmp_path, monkeypatch, source, counter):
    monkeypatch.chdir(tmp_path)
    name = f"x__ways=4__run=0{(FIXTURES / source).suffix}"
    shutil.copy(FIXTURES / source, tmp_path / name)
    assert main(["import", name, "-o", "x.nc"]) == 0
    assert counter in read_profiles("x.nc")


def test_a_map_of_durations_alone_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("n,k,ms\n1,0,500\n1,1,510\n2,0,280\n")
    (tmp_path / "map.toml").write_text(
        'resources = ["n"]\n[columns]\nn = "n"\nrun = "k"\n"duration [ms]" = "ms"\n'
    )
    assert main(["import", "t.csv", "--form", "table", "--columns", "map.toml", "-o", "t.nc"]) == 0
    found = read_profiles("t.nc")
    assert "time" not in found.dims
    np.testing.assert_allclose(found["duration"], [[0.5, 0.51], [0.28, np.nan]])
