"""Tables of jobs and of applications: read as they say, refused with the line."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machines import made_queue
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.machines import queue
from msbgen.systems.machines.queue.scenario import scenario_files
from msbgen.systems.machines.queue.tables import read_factors, read_job_table
from msbgen.systems.machines.queue.workload import FIELDS

MACHINES = {"fast": 4, "slow": 8}
JOBS = """nodes,submission [ms],runtime fast [s],runtime slow [ms],suits
2,500,3,9000,fast
8,1500,,7000,
1,0,1e1,1000,slow | fast
"""


def test_jobs_are_read_in_any_order_of_columns_and_any_unit(tmp_path):
    (tmp_path / "j.csv").write_text(JOBS)
    jobs = read_job_table(tmp_path / "j.csv", MACHINES)
    assert jobs.submission.tolist() == [0.5, 1.5, 0]
    assert jobs.nodes.tolist() == [2, 8, 1]
    np.testing.assert_array_equal(jobs.runtime, [[3, 9], [np.nan, 7], [10, 1]])
    np.testing.assert_array_equal(jobs.estimate, jobs.runtime)
    assert jobs.suits.tolist() == [[True, False], [True, True], [True, True]]


def test_estimates_stand_beside_the_times(tmp_path):
    text = (
        "submission [s],nodes,runtime fast [s],runtime slow [s],estimate slow [s],"
        "estimate fast [ms]\n1,1,2,3,4,5000\n"
    )
    (tmp_path / "j.csv").write_text(text)
    jobs = read_job_table(tmp_path / "j.csv", MACHINES)
    assert jobs.estimate.tolist() == [[5, 4]]
    (tmp_path / "j.csv").write_text(text.replace(",estimate fast [ms]", "").replace(",5000", ""))
    with pytest.raises(ProfileError, match=r"j\.csv: line 1 has no column 'estimate fast \[s\]'"):
        read_job_table(tmp_path / "j.csv", MACHINES)


def test_a_job_without_an_estimate_where_it_runs_is_refused_with_its_line(tmp_path):
    (tmp_path / "j.csv").write_text(
        "submission [s],nodes,runtime fast [s],runtime slow [s],estimate fast [s],"
        "estimate slow [s]\n1,1,2,3,4,5\n1,1,2,,4,\n1,1,2,3,4,\n"
    )
    with pytest.raises(ProfileError, match=r"line 4 has no estimate on slow, where it runs; a pos"):
        read_job_table(tmp_path / "j.csv", MACHINES)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("runtime fast", "runtime quick", r"line 1 has no column 'runtime fast \[s\]'; one is"),
        ("suits", "colour", "line 1 has the column 'colour', which is not known or there twice"),
        ("[ms],runtime", ",runtime", "column 'submission' has no unit that is known; 'submiss"),
        (
            "fast [s]",
            "fast [week]",
            r"column 'runtime fast \[week\]' has no unit that is known; 'run",
        ),
        ("2,500,3", "2,500,-3", "line 2 has the runtime fast '-3'; a positive number is wanted"),
        ("2,500", "0,500", "line 2 has 0 nodes; a whole number from 1 to 10000000 is"),
        ("2,500,3", "2,500,2e12", r"line 2 has a runtime fast of 2e\+12 s; 1e\+12 at most are"),
        (",7000", ",", "line 3 runs on no machine; the time on one or more is wanted"),
        (",fast\n", ",quick\n", "line 2 suits 'quick'; machines, fast, slow, are wanted"),
        ("8,1500,,", "9,1500,,", "line 3 has 9 nodes, and no machine on which it runs has more"),
        (
            "8,1500,,7000,",
            "8,1500,,7000,fast",
            "line 3 suits no machine on which it runs; one or more",
        ),
    ],
)
def test_what_is_no_table_of_jobs_is_refused_with_its_line(tmp_path, old, new, sentence):
    (tmp_path / "j.csv").write_text(JOBS.replace(old, new, 1))
    with pytest.raises(ProfileError, match=rf"^j\.csv: {sentence}"):
        read_job_table(tmp_path / "j.csv", MACHINES)


def test_a_header_alone_is_refused(tmp_path):
    (tmp_path / "j.csv").write_text(JOBS.splitlines()[0])
    with pytest.raises(ProfileError, match="a header and one job or more below it are wanted"):
        read_job_table(tmp_path / "j.csv", MACHINES)


FACTORS = "application,slow,fast\n3,2,1\n*,4,\n"
LOGGED = np.array([3.0, 7.0, np.nan])


def test_factors_are_those_of_the_application_or_of_all_others(tmp_path):
    (tmp_path / "f.csv").write_text(FACTORS)
    found = read_factors(tmp_path / "f.csv", LOGGED, ["fast", "slow"], "log.swf")
    np.testing.assert_array_equal(found, [[1, 2], [np.nan, 4], [np.nan, 4]])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("fast", "quick", "line 1 is 'application,slow,quick'; the columns 'application,fast"),
        (FACTORS, "", "line 1 is ''; the columns"),
        ("3,2,1", "3,2,0", "line 2 has the time on fast '0'; a positive number is wanted"),
        ("*,4", "3,4", "line 3 repeats application '3'; drop one"),
        ("*,4", "7,4", "has no row for application none of 'log.swf'; one is wanted, or a row"),
        ("*,4", "8,4", "has no row for application 7 of 'log.swf'; one is wanted"),
    ],
)  # fmt: skip
def test_what_are_no_factors_is_refused_with_its_line(tmp_path, old, new, sentence):
    (tmp_path / "f.csv").write_text(FACTORS.replace(old, new, 1))
    with pytest.raises(ProfileError, match=rf"^f\.csv: {sentence}"):
        read_factors(tmp_path / "f.csv", LOGGED, ["fast", "slow"], "log.swf")


TABLE = """arrivals = ["at once", 0.9]
placements = ["aware", "greedy"]
jobs = "jobs.csv"
[machines]
fast = 4
slow = 8
"""
OF_A_LOG = """workload = "log.swf"
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
    (tmp_path / "b.toml").write_text(OF_A_LOG)
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
        ("a", '"greedy"', '"gredy"', "'placements' is .'aware', 'gredy'.; .* each one of aware"),
        (
            "a",
            '"greedy"',
            '"aware"',
            "'placements' is .'aware', 'aware'.; a list of one or more distinct",
        ),
        (
            "a",
            "placements",
            "queues",
            "'queues' is .'aware', 'greedy'.; .* each one of machine, one",
        ),
        ("a", '["aware", "greedy"]', "[]", "'placements' is \\[\\]; a list of one or more"),
        (
            "a",
            '"at once"',
            '"soon"',
            "'arrivals' is .'soon', 0.9.; .* one of as submitted, at once or a positive",
        ),
        ("a", "0.9", "0", "'arrivals' is .'at once', 0.; .* at once or a positive number"),
        ("a", "fast = 4", "fast = 0", "'machines' of 'fast' is 0; a whole number from 1"),
        ("a", 'jobs = "jobs.csv"', "", "either 'jobs' or 'workload' is wanted"),
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


# Two jobs as the archive has them, the second without anything but a submission.
LOG = """; Version: 2.2
;  MaxJobs: 2

1 0 5 60 4 -1 -1 8 120 -1 1 7 2 3 1 1 -1 -1
2 30 -1 -1 -1 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1
"""


def test_a_log_is_read_with_units_and_comments(tmp_path):
    (tmp_path / "a.swf").write_text(LOG)
    with gzip.open(tmp_path / "a.swf.gz", "wt") as stream:
        stream.write(LOG)
    for name in ("a.swf", "a.swf.gz"):
        log = queue.read_workload(tmp_path / name)
        assert log["submission"].values.tolist() == [0, 30]
        assert log["runtime"].values[0] == 60
        assert np.isnan(log["runtime"].values[1])
        assert log["application"].values[0] == 3
        assert log["requested_time"].attrs["units"] == "s"
        assert log.attrs["comments"] == ["Version: 2.2", "MaxJobs: 2"]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=15)
def test_a_log_is_the_same_after_its_file(tmp_path_factory, seed, n):
    rng = np.random.default_rng(seed)
    table = np.where(rng.random((n, 18)) < 0.3, np.nan, rng.lognormal(0, 9, (n, 18)))
    table[rng.random((n, 18)) < 0.3] = rng.integers(10**15)
    folder = tmp_path_factory.mktemp("log")
    (folder / "a.swf").write_text(LOG)
    log = queue.read_workload(folder / "a.swf").isel(job=np.zeros(n, int))
    for column, name in enumerate(FIELDS):
        log[name].values[:] = table[:, column]
    queue.write_workload(log, folder / "b.swf")
    again = queue.read_workload(folder / "b.swf")
    for column, name in enumerate(FIELDS):
        np.testing.assert_array_equal(again[name].values, table[:, column])
    assert again.attrs == log.attrs


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("1 0 5 60", "1 0 5", "line 4 is '1 0 5 4 -1 .*; 18 finite numbers are wanted, -1 for"),
        ("1 0 5 60", "1 0 5 nan", "line 4 is '1 0 5 nan .*; 18 finite numbers are wanted"),
        ("1 0 5 60", "1 0 5 -60", "line 4 has a negative runtime .*; a number from 0 on, or -1"),
        (LOG, "; nothing\n", "there are no jobs; a line of 18 numbers each"),
    ],
)
def test_broken_lines_are_refused_with_their_number(tmp_path, old, new, sentence):
    (tmp_path / "a.swf").write_text(LOG.replace(old, new))
    with pytest.raises(ProfileError, match=rf"^a\.swf: {sentence}"):
        queue.read_workload(tmp_path / "a.swf")


@pytest.mark.parametrize("name", ["a.swf", "a.swf.gz"])
def test_what_is_no_text_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x1f\x8b\xff\x00" * 9)
    with pytest.raises(ProfileError, match=r"is no UTF-8 text; one is|cannot be decompressed"):
        queue.read_workload(tmp_path / name)
    with pytest.raises(ProfileError, match="no such file"):
        queue.read_workload(tmp_path / "other.swf")


def test_jobs_of_a_log_take_so_many_times_as_long_elsewhere(tmp_path):
    (tmp_path / "a.swf").write_text(LOG)
    log = queue.read_workload(tmp_path / "a.swf")
    jobs, rows = queue.jobs_of(log, np.array([[1.0, 0.5], [1.0, 1.0]]))
    assert rows.tolist() == [0]  # the other has no runtime
    assert jobs.runtime.tolist() == [[60, 30]]
    assert jobs.estimate.tolist() == [[120, 60]]  # by the requested time
    assert jobs.nodes.tolist() == [4]
    jobs, _ = queue.jobs_of(log, np.array([[1.0, np.nan], [1, 1]]), np.array([[2.0, 3], [1, 1]]))
    assert jobs.estimate.tolist() == [[120, 180]]
    with pytest.raises(ArgumentError, match="jobs with a runtime and processors are none"):
        queue.jobs_of(log.isel(job=[1]), np.ones((1, 2)))


def test_requested_processors_count_where_none_were_allocated(tmp_path):
    (tmp_path / "a.swf").write_text(LOG.replace("60 4 ", "60 -1 "))
    jobs, _ = queue.jobs_of(queue.read_workload(tmp_path / "a.swf"), np.ones((2, 1)))
    assert jobs.nodes.tolist() == [8]


@given(st.integers(0, 2**32 - 1))
def test_the_log_of_a_schedule_has_starts_machines_and_runtimes(seed):
    jobs, machines = made_queue(seed)
    found = queue.simulate_queue(jobs, machines)
    log = queue.workload_of(jobs, found, machines)
    assert (np.diff(log["submission"].values) >= 0).all()
    order = log["number"].values.astype(int) - 1
    start = jobs.submission.min() + log["submission"].values + log["wait"].values
    np.testing.assert_allclose(start, found.start[order])
    np.testing.assert_array_equal(log["partition"].values - 1, found.machine[order])
    np.testing.assert_array_equal(log["processors"].values, jobs.nodes[order])
    np.testing.assert_allclose(start + log["runtime"].values, found.end[order])
    assert f"Partition: {len(machines)} m{len(machines) - 1}" in log.attrs["comments"]


def test_jobs_with_requested_times_wait_behind_the_reservation(tmp_path):
    lines = ["1 0 -1 300 6 -1 -1 6 300", "2 10 -1 100 8 -1 -1 8 100", "3 20 -1 50 4 -1 -1 4 {}"]
    started = {}
    for asked in (60, 500, -1):
        text = "\n".join(f"{line} -1 1 1 1 -1 -1 -1 -1 -1" for line in lines).format(asked)
        (tmp_path / "a.swf").write_text(text)
        jobs, _ = queue.jobs_of(queue.read_workload(tmp_path / "a.swf"), np.ones((3, 1)))
        schedule = queue.simulate_queue(jobs, {"all": 10})
        started[asked] = schedule.start.tolist()
        log = queue.workload_of(jobs, schedule, {"all": 10})
        assert log["requested_time"].values[2] == (asked if asked > 0 else 50)
    assert started == {60: [0, 300, 20], 500: [0, 300, 400], -1: [0, 300, 20]}
