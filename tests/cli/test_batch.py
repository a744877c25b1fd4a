"""``msbgen batch``: its exit codes and last words; the units are tried elsewhere."""

import pytest

from batching import make_tasks
from msbgen.cli.batch import contexts_of
from msbgen.cli.main import main
from msbgen.core.errors import ProfileError
from msbgen.data.profiles import Profiles
from msbgen.data.store import read_profiles

TASKS = """
[defaults]
kinds = ["mean", "sample"]
samples = 2
preset = "paper"
steps = []
seed = 3
[[task]]
measured = "in/t0.nc"
[[task]]
measured = "in/t1.nc"
name = "second"
"""


@pytest.fixture
def tasks(tmp_path):
    make_tasks(tmp_path / "in")
    path = tmp_path / "tasks.toml"
    path.write_text(TASKS)
    return path


def test_files_are_those_of_generate_to_the_byte(tasks, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["batch", str(tasks), "-o", str(out)]) == 0
    assert (
        capsys.readouterr().out == f"{out}: 2 of 2 tasks are complete; 10 units were carried out\n"
    )
    for name, task in (("t0", "t0"), ("t1", "second")):
        for kind in ("mean", "sample"):
            command = (
                f"generate {tmp_path}/in/{name}.nc -o {tmp_path}/{kind}.nc --contexts all --force"
            )
            samples = "--samples 2" if kind == "sample" else ""
            given = f"{command} --kind {kind} {samples} --seed 3 --preset paper"
            assert main(given.split()) == 0
            assert (out / task / f"{kind}.nc").read_bytes() == (
                tmp_path / f"{kind}.nc"
            ).read_bytes()


def test_what_failed_is_said_last_with_exit_five(tasks, tmp_path, capsys):
    (tmp_path / "in" / "t0.nc").write_bytes(b"x")
    out = tmp_path / "out"
    assert main(["batch", str(tasks), "-o", str(out)]) == 5
    message = capsys.readouterr()
    assert "1 of 2 tasks are complete" in message.out
    assert [line for line in message.err.splitlines() if "t0" in line] == [
        "msbgen: t0, fit: t0.nc: not a netCDF file; netCDF-4 is wanted."
    ]
    assert (out / "index.html").is_file()
    make_tasks(tmp_path / "in")
    assert main(["batch", str(tasks), "-o", str(out), "--resume"]) == 0
    assert main(["batch", str(tasks), "-o", str(out)]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.endswith("exists already; continue with --resume, or name another folder.")
    assert main(["batch", str(tasks), "-o", str(out), "--resume", "--format", "zarr"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert (
        "was started with --format netcdf, not with --format zarr; use the same option" in message
    )


def test_no_reports_without_the_extra(tasks, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["batch", str(tasks), "-o", str(tmp_path / "out")]) == 0
    assert "no reports: jinja2 is not installed; install msbgen[report]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ("--memory 5", 2, "'5' is not a size of memory"),
        ("--memory xGB", 2, "'x' is not a positive number"),
        ("--timeout 0s", 2, "is not a time above 0"),
        ("--retries -1", 2, "'-1' is not a whole number"),
        ("--block 0", 2, "is not a whole number"),
        ("--scheduler local:0", 2, "local:N with N ≥ 1 is wanted"),
    ],
)
def test_usage(tasks, tmp_path, capsys, given, code, message):
    name, value = given.split()
    assert main(["batch", str(tasks), "-o", str(tmp_path / "out"), f"{name}={value}"]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_a_file_cannot_meet_is_said_with_it_and_a_remedy(tasks, tmp_path, capsys):
    tasks.write_text(TASKS.replace("steps = []", 'steps = ["bond"]'))
    assert main(["batch", str(tasks), "-o", str(tmp_path / "out")]) == 3
    assert "tasks.toml, [defaults]: 'steps' holds 'bond'; bound" in capsys.readouterr().err
    task = read_profiles(tmp_path / "in" / "t0.nc")
    del task["cache_ways"].attrs["levels"]
    with pytest.raises(
        ProfileError, match=r"'cache_ways' lists no 'levels', .* in a TOML of tasks"
    ):
        contexts_of("all", Profiles.of(task))


def test_a_file_is_no_folder_of_results(tasks, tmp_path, capsys):
    (tmp_path / "out").write_text("precious")
    assert main(["batch", str(tasks), "-o", str(tmp_path / "out")]) == 2
    assert "is not a folder; name another one" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "precious"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert main(["batch", str(tasks), "-o", str(tmp_path / "loop")]) == 2
    assert "is not a folder; name another one" in capsys.readouterr().err
