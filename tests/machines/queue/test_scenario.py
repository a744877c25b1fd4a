"""Scenarios: read from files, refused with key, line and remedy."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.machines import queue
from msbgen.machines.queue.scenario import scenario_files

TABLE = """arrivals = ["at once", 0.9]
placements = ["aware", "greedy"]
jobs = "jobs.csv"
[machines]
fast = 4
slow = 8
"""
LOGGED = """workload = "log.swf"
relative = "relative.csv"
predicted = "predicted.csv"
[machines]
fast = 4
slow = 8
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "jobs.csv").write_text(
        "submission [s],nodes,runtime fast [s],runtime slow [s]\n0,1,2,3\n1,4,5,6\n"
    )
    (tmp_path / "log.swf").write_text(
        "7 0 -1 60 4 -1 -1 -1 -1 -1 1 -1 -1 3 -1 -1 -1 -1\n"
        "8 9 -1 -1 4 -1 -1 -1 -1 -1 0 -1 -1 3 -1 -1 -1 -1\n"
        "9 9 -1 90 1 -1 -1 -1 -1 -1 1 -1 -1 4 -1 -1 -1 -1\n"
    )
    (tmp_path / "relative.csv").write_text("application,fast,slow\n3,1,2\n*,0.5,3\n")
    (tmp_path / "predicted.csv").write_text("application,fast,slow\n*,1,2\n")
    (tmp_path / "a.toml").write_text(TABLE)
    (tmp_path / "b.toml").write_text(LOGGED)
    return tmp_path


def test_a_table_of_jobs_and_placements(folder):
    found = queue.read_scenario(folder / "a.toml")
    assert found.machines == {"fast": 4, "slow": 8}
    assert (found.arrivals, found.placements) == (("at once", 0.9), ("aware", "greedy"))
    assert found.queues == ("machine",)
    assert found.jobs.runtime.tolist() == [[2, 3], [5, 6]]
    assert scenario_files(folder / "a.toml") == [folder / "jobs.csv"]


def test_a_log_with_times_relative_to_it(folder):
    found = queue.read_scenario(folder / "b.toml")
    assert found.placements == queue.PLACEMENTS
    assert found.arrivals == ("as submitted",)
    assert found.jobs.submission.tolist() == [0, 9]
    np.testing.assert_array_equal(found.jobs.runtime, [[60, 120], [45, 270]])
    np.testing.assert_array_equal(found.jobs.estimate, [[60, 120], [90, 180]])
    assert len(scenario_files(folder / "b.toml")) == 3


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("a", '"greedy"', '"gredy"', "placement is 'gredy'; .*; did you mean 'greedy'"),
        ("a", '"greedy"', '"aware"', "'placements' lists 'aware' twice; once is wanted"),
        ("a", "placements", "queues", "queue is 'aware'; machine, one are possible"),
        ("a", '["aware", "greedy"]', "[]", "'placements' is \\[\\]; a list of one or more"),
        ("a", '["aware", "greedy"]', '"aware"', "'placements' is 'aware'; a list"),
        ("a", '"at once"', '"soon"', "'arrivals' lists 'soon'; 'as submitted', 'at once' or a"),
        ("a", "0.9", "0", "'arrivals' lists 0; a load above 0 is wanted"),
        ("a", "0.9", "[]", r"'arrivals' is \[\]; a number is wanted"),
        ("a", "fast = 4", "fast = 0", "nodes of machine 'fast' are 0; a whole number from 1"),
        ("a", "fast = 4", 'fast = "4"', "'machines.fast' is '4'; a number is wanted"),
        ("a", "[machines]\nfast = 4\nslow = 8\n", "machines = 3", "'machines' is 3; a table"),
        ("a", "[machines]\nfast = 4\nslow = 8\n", "", "'machines' is missing"),
        ("a", 'jobs = "jobs.csv"', "", "either 'jobs' or 'workload' is wanted"),
        ("a", "placements", "placement", "'placement' is no known key"),
        ("a", "jobs =", 'relative = "r"\njobs =', "'relative' and 'predicted' go with 'workload'"),
        ("b", 'relative = "relative.csv"', "", "'relative' is missing; a table of the times"),
        ("b", "predicted =", 'jobs = "jobs.csv"\n#', "either 'jobs' or 'workload' is wanted"),
    ],
)
def test_what_makes_no_scenario_is_refused(folder, file, old, new, sentence):
    path = folder / f"{file}.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ProfileError, match=rf"^{file}\.toml: {sentence}"):
        queue.read_scenario(path)


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("jobs.csv", "1,4,5", "1,9,5", "^jobs.csv: line 3 has 9 nodes, and no machine on which"),
        ("log.swf", "60 4 ", "60 9 ", "^log.swf: job number 7 takes 9 nodes, and no machine on"),
        ("log.swf", "60 4 ", "60 4 x ", "^log.swf: line 1 is '7 0 -1 60 4 x "),
        ("relative.csv", "3,1,2", "3,,", "^relative.csv: line 2 runs on no machine"),
        ("predicted.csv", "*,1", "*,", "^predicted.csv: application 3 has no time on fast"),
        ("log.swf", "60 4 ", "60 1.5 ", "^log.swf: job number 7 has the processors 1.5; a whole"),
        ("log.swf", "60 4 ", "1e13 4 ", r"^log.swf: job number 7 has the runtime 2e\+13; 1e\+12"),
        ("relative.csv", "*", "9", "^relative.csv: has no row for application 4 of 'log.swf'"),
    ],
)
def test_what_makes_no_jobs_is_refused_with_file_and_place(folder, file, old, new, sentence):
    (folder / file).write_text((folder / file).read_text().replace(old, new, 1))
    with pytest.raises(ProfileError, match=sentence):
        queue.read_scenario(folder / ("a.toml" if file == "jobs.csv" else "b.toml"))


def test_files_that_are_not_there_are_named(folder):
    (folder / "jobs.csv").unlink()
    with pytest.raises(ProfileError, match=r"jobs\.csv: no such file"):
        queue.read_scenario(folder / "a.toml")
