"""``msbgen realtime taskset``: a set as asked for, or a sentence."""

import pytest

from msbgen.data.store import read_profiles
from msbgen.systems.realtime.tasksets import read_task_set

ASKED = ["realtime", "taskset", "truth/synthetic.nc", "-o", "new.toml"]
ASKED += ["--capacity", "cache_ways=20"]


def test_a_set_of_the_utilisation_asked_for(msbgen, decisions):
    done = msbgen(*ASKED, "--utilisation", "2.5", "--seed", "3")
    assert done.returncode == 0, done.stderr
    drawn = read_task_set(decisions / "new.toml")
    assert drawn.utilisation == pytest.approx(2.5)
    assert drawn.cores == 4
    assert drawn.capacity == {"cache_ways": 20.0}
    assert {task.profile for task in drawn.tasks} == {"synthetic"}
    assert "utilisation 2.5" in done.stdout
    assert msbgen(*ASKED, "--utilisation", "2.5", "--seed", "3", "--force").returncode == 0
    assert read_task_set(decisions / "new.toml") == drawn


def test_without_a_capacity_the_highest_levels_are_shared(msbgen, decisions):
    done = msbgen(*ASKED[:-2], "--utilisation", "2.5")
    assert done.returncode == 0, done.stderr
    assert read_task_set(decisions / "new.toml").capacity == {"cache_ways": 8.0}


def test_a_table_of_tasks_becomes_a_set(msbgen, decisions, refused):
    head = "profile,name,period [ms]\n"
    (decisions / "t.csv").write_text(head + "synthetic,video,300\nsynthetic,audio,500\n")
    done = msbgen(*ASKED, "--tasks", "t.csv", "--cores", "2")
    assert done.returncode == 0, done.stderr
    made = read_task_set(decisions / "new.toml")
    assert [(t.name, t.profile, t.period) for t in made.tasks] == [
        ("video", "synthetic", 0.3), ("audio", "synthetic", 0.5)
    ]  # fmt: skip
    longest = read_profiles(decisions / "truth" / "synthetic.nc")["duration"][-1].max()
    assert {t.wcet for t in made.tasks} == {float(longest)}
    for rows, sentence in (
        ("other,a,1\n", "line 2 has the profile 'other'; one of synthetic is wanted"),
        ("synthetic,a,1\nsynthetic,a,2\n", "line 3 has the name 'a'; one name for each task"),
        ("synthetic,,1\n", "line 2 has the name ''; one name for each task"),
        ("synthetic,a,0\n", "line 2 has the period '0'; a positive number"),
    ):
        (decisions / "t.csv").write_text(head + rows)
        refused(3, sentence, *ASKED, "--tasks", "t.csv", "--force")


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("utilisation is 4.5; a number above 0, up to the 4 cores", ["--utilisation", "4.5"]),
        ("not a positive number", ["--utilisation", "0"]),
        ("not a positive number", ["--utilisation", "nan"]),
        ("not a whole number", ["--utilisation", "1", "--cores", "0"]),
        (
            "cores is 99999",
            ["--utilisation", "1", "--cores", "99999", "--capacity", "cache_ways=1e9"],
        ),
        (
            "cache_ways=7 is too little; at least 8, the lowest level 2 in truth/synthetic.nc",
            ["--utilisation", "1", "--capacity", "cache_ways=7"],
        ),
        (
            "'ways', which is not a resource of truth/synthetic.nc; its resources are cache_ways",
            ["--utilisation", "1", "--capacity", "ways=20"],
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(refused, decisions, message, arguments):
    refused(2, message, *ASKED, *arguments)


def test_two_profiles_of_one_name_are_refused(refused, decisions):
    twice = ["truth/synthetic.nc", *ASKED[2:], "--utilisation", "1"]
    message = f"'{twice[0]}' and '{twice[1]}' have the same name"
    refused(2, message, "realtime", "taskset", *twice)


def test_profiles_without_a_largest_context_are_refused(refused, folder):
    refused(3, "truth.nc: no context has the highest level", "realtime", "taskset", "truth.nc",
            "-o", "new.toml", "--capacity", "cache_ways=8", "--utilisation", "1")  # fmt: skip
