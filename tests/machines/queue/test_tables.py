"""Tables of jobs and of applications: read as they say, refused with the line."""

import numpy as np
import pytest

from msbgen.core.errors import ProfileError
from msbgen.machines.queue.tables import read_factors, read_job_table

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
        ("nodes,", "width,", "line 1 has no column 'nodes'; one is wanted"),
        ("runtime fast", "runtime quick", r"line 1 has no column 'runtime fast \[s\]'; one is"),
        ("suits", "colour", "line 1 has the column 'colour', which is not known or there twice"),
        ("[ms],runtime", ",runtime", "column 'submission' has no unit that is known; 'submiss"),
        ("fast [s]", "fast [h]", r"column 'runtime fast \[h\]' has no unit that is known; 'run"),
        ("2,500,3,9000,fast", "2,500,3,9000", "line 2 has 4 cells; 5 are wanted"),
        ("2,500,3", "2,500,-3", "line 2 has the runtime fast '-3'; a positive number is wanted"),
        ("2,500,3", "2,500,x", "line 2 has the runtime fast 'x'; a number is wanted"),
        ("2,500,", "2,,", "line 2 has the submission ''; a number is wanted"),
        ("2,500", "0,500", "line 2 has 0 nodes; a whole number from 1 to 10000000 is"),
        ("2,500", "1e300,500", r"line 2 has 1e\+300 nodes; a whole number from 1 to 10000000 is"),
        ("2,500,3", "2,500,2e12", r"line 2 has a runtime fast of 2e\+12 s; 1e\+12 at most are"),
        ("2,500,3", "2,1e300,3", r"line 2 has a submission of 1e\+297 s; 1e\+12 at most are"),
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
        ("3,2,1", "3,2", "line 2 has 2 cells; 3 are wanted"),
        ("3,2,1", "x,2,1", "line 2 has the application 'x'; a number is wanted"),
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
