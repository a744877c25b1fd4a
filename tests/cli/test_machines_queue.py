"""``msbgen machines queue``: table, JSON and picture of every placement."""

import csv
import importlib.util
import json

import pytest

from msbgen.systems.machines import queue

ASKED = ["machines", "queue", "sim.toml", "-o", "out"]


@pytest.fixture
def scenario(tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "submission [s],nodes,runtime fast [s],runtime slow [s],estimate fast [s],"
        "estimate slow [s]\n"
        + "".join(f"{k},{1 + k % 3},{2 + k % 5},{9 - k % 4},{3 + k % 4},8\n" for k in range(40))
    )
    (tmp_path / "sim.toml").write_text(
        'arrivals = ["at once", 0.8]\nplacements = ["aware", "random"]\njobs = "jobs.csv"\n'
        "[machines]\nfast = 3\nslow = 4\n"
    )
    return tmp_path


@pytest.fixture
def without_matplotlib(monkeypatch):
    """No picture is drawn: it takes longer than all the rest."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "matplotlib" else find(name)
    )


def test_table_json_and_picture(msbgen, scenario):
    done = msbgen(*ASKED)
    assert done.returncode == 0, done.stderr
    with (scenario / "out" / "queue.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 8
    reported = json.loads((scenario / "out" / "queue.json").read_text())
    assert reported["machines"] == {"fast": 3, "slow": 4}
    assert reported["jobs"] == 40
    read = queue.read_scenario(scenario / "sim.toml")
    wanted = queue.compare_variants(read.jobs, read.machines, arrivals=read.arrivals,
                         placements=read.placements)  # fmt: skip
    for row, own, known in zip(rows, reported["rows"], wanted):
        assert float(row["makespan [s]"]) == own["makespan"] == known["makespan"]
        assert own["load"] == (None if known["arrivals"] == "at once" else known["load"])
    assert (scenario / "out" / "queue.png").read_bytes()[:4] == b"\x89PNG"
    assert f"{wanted[0]['makespan_over_bound']:.3f}" in done.stdout


def test_what_became_of_every_job_as_logs(msbgen, scenario, without_matplotlib):
    done = msbgen(*ASKED, "--swf", "--seed", 3)
    assert done.returncode == 0, done.stderr
    logs = sorted((scenario / "out").glob("*.swf"))
    assert len(logs) == 8
    reported = json.loads((scenario / "out" / "queue.json").read_text())["rows"]
    log = queue.read_workload(scenario / "out" / "load-0.8-random-machine-true.swf")
    end = log["submission"] + log["wait"] + log["runtime"]
    (row,) = (r for r in reported if (r["arrivals"], r["placement"], r["times"])
              == (0.8, "random", "true"))  # fmt: skip
    assert float(end.max()) == pytest.approx(row["makespan"])


def test_seeds_and_existing_files(msbgen, refused, scenario, without_matplotlib):
    assert msbgen(*ASKED).returncode == 0
    before = (scenario / "out" / "queue.csv").read_bytes()
    refused(2, "exists already", *ASKED)
    assert msbgen(*ASKED, "--force").returncode == 0
    assert (scenario / "out" / "queue.csv").read_bytes() == before
    assert msbgen(*ASKED, "--force", "--seed", 1).returncode == 0
    assert (scenario / "out" / "queue.csv").read_bytes() != before


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("sim.toml", '"random"', '"rondom"', "sim.toml: 'placements' is ['aware', 'rondom']"),
        ("sim.toml", "fast = 3", "fast = -3", "sim.toml: 'machines' of 'fast' is -3"),
        ("sim.toml", "slow = 4", "slowly = 4", "jobs.csv: line 1 has no column 'runtime slowly"),
        ("jobs.csv", "\n2,3,", "\n2,5,", "jobs.csv: line 4 has 5 nodes, and no machine"),
        ("jobs.csv", "\n2,3,4,", "\n2,3,-4,", "jobs.csv: line 4 has the runtime fast '-4'"),
        ("sim.toml", "jobs.csv", "other.csv", "other.csv: no such file"),
    ],
)
def test_what_makes_no_sense_is_refused(refused, scenario, file, old, new, message):
    path = scenario / file
    path.write_text(path.read_text().replace(old, new, 1))
    refused(3, message, *ASKED)


def test_jobs_all_at_once_have_no_load(refused, scenario):
    path = scenario / "jobs.csv"
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([header, *("5," + line.partition(",")[2] for line in lines)]) + "\n")
    refused(3, "sim.toml: submissions are all at once; some that differ are wanted", *ASKED)


def test_an_output_that_is_an_input_is_refused(refused, scenario):
    (scenario / "out").mkdir()
    (scenario / "jobs.csv").rename(scenario / "out" / "queue.csv")
    path = scenario / "sim.toml"
    path.write_text(path.read_text().replace("jobs.csv", "out/queue.csv"))
    refused(2, "is the input 'out/queue.csv', too; name another output", *ASKED, "--force")


def test_without_matplotlib_there_is_no_picture(msbgen, scenario, without_matplotlib):
    done = msbgen(*ASKED)
    assert done.returncode == 0
    assert "no picture: matplotlib is not installed" in done.stderr
    assert not (scenario / "out" / "queue.png").exists()
