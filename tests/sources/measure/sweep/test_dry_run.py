"""A dry run shows everything and changes nothing."""

import re
import time
from types import SimpleNamespace

import pytest

from msbgen.sources.measure.sweep import requirements
from msbgen.sources.measure.sweep.dry_run import describe_dry_run
from msbgen.sources.measure.sweep.requirements import RequirementError
from msbgen.sources.measure.sweep.spec import ResourceSpec
from sweeping import machine, needs_perf, spec, tree

pytestmark = needs_perf


def test_plan_commands_time_changes_and_their_undoing(tmp_path):
    kernel = machine(tmp_path)
    before = tree(kernel)
    message = list(describe_dry_run(spec(seconds=60.0), kernel))
    assert tree(kernel) == before
    text = "\n".join(message)
    assert message[0] == "plan: 3 contexts, 6 runs in random order"
    assert "cache_ways: 2, 4, 8, by resctrl L3" in text
    assert "program, on cores" in text
    assert "perf stat -I 5 -x ';' -e task-clock,page-faults" in text
    # at the timeout of 20 s each, if less cache makes a minute longer
    assert "time: about 2 min 00 s or less" in text
    group = "/sys/fs/resctrl/msbgen-SWEEP"
    do, _, undo = text.partition("commands that restore them:")
    assert f"mkdir {group}" in do
    assert "echo 'L3:0=" in do
    assert f"rmdir {group}" in undo


def test_groups_of_events_are_listed(tmp_path):
    events = ("task-clock", "page-faults", "context-switches")
    message = list(describe_dry_run(spec(events=events, at_once=2), machine(tmp_path)))
    assert message[2] == "  run 0, 2, … of each context: task-clock, page-faults"
    assert message[3] == "  run 1, 3, … of each context: task-clock, context-switches"
    (command,) = [line for line in message if line.startswith("perf, ")]
    assert "page-faults" not in command or "context-switches" not in command


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seconds": 2.0}, "about 0 min 28 s or less, if no run fails"),  # 2·(2 + 4 + 8)
        ({"seconds": 2.0, "warmups": 2, "cooldown": 1.0}, "about 0 min 40 s or less"),
        ({"retries": 0}, "at most 2 min 00 s, and start-up times"),
        ({"retries": 2, "warmups": 1, "cooldown": 1.0}, "6 min 39 s, and"),  # 19 of 21 s
    ],
)
def test_the_time_is_of_all_that_may_be_run(tmp_path, given, message):
    (line,) = [
        s for s in describe_dry_run(spec(**given), machine(tmp_path)) if s.startswith("time: ")
    ]
    assert message in line


def trial_time(tmp_path, *command, timeout):
    """What a dry run says of the time of 6 runs, whose arguments do not shorten them."""
    size = ResourceSpec("n", "argument", (1.0, 2.0))
    one = spec(*command, resources=(size,), timeout=timeout, runs=3, retries=0)
    (line,) = [
        s for s in describe_dry_run(one, machine(tmp_path), trial=True) if s.startswith("time: ")
    ]
    return line


def test_the_program_runs_once_to_estimate_the_time(tmp_path):
    """It sleeps for 0.2 s, and a busy machine adds to that, but no more than the whole took."""
    begun = time.monotonic()
    line = trial_time(tmp_path, "sleep", "0.{n}", timeout=20.0)
    whole = time.monotonic() - begun
    found = re.fullmatch(
        r"time: about 0 min (\d\d) s, if no run fails \(a run without limits took (\S+) s\)", line
    )
    seconds, took = map(float, found.groups())
    assert 0.199 < took < 1.01 * whole
    assert abs(seconds - 6 * took) < 0.55  # both are rounded


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("sh", "-c", "echo {n} >&2; exit 3"), r"unknown, as a run exited with 3 \(2\); at most"),
        (("sleep", "6{n}"), r"unknown, as a run did not end within 0.5 s; at most"),
    ],
)
def test_without_a_whole_run_the_time_is_unknown(tmp_path, command, message):
    timeout = 0.5 if command[0] == "sleep" else 20.0
    assert re.search(message, trial_time(tmp_path, *command, timeout=timeout))


def test_settings_that_outlive_a_group_are_put_back_by_value(tmp_path):
    kernel = machine(tmp_path).with_cpufreq(cores=64)
    clock = ResourceSpec("frequency", "clock", (1200.0, 3000.0))
    message = list(describe_dry_run(spec(resources=(clock,)), kernel))
    undo = message[message.index("commands that restore them:") + 1 :]
    assert any("echo '800000' > " in line and "scaling_min_freq" in line for line in undo)
    assert "time: unknown without 'seconds'" in "\n".join(message)


def test_room_is_wanted_where_the_output_would_be(tmp_path, monkeypatch):
    requested = []

    def usage(folder):
        requested.append(folder)
        return SimpleNamespace(free=0)

    monkeypatch.setattr(requirements.shutil, "disk_usage", usage)
    with pytest.raises(RequirementError, match="make room, or choose an output on another disk"):
        list(describe_dry_run(spec(), machine(tmp_path), folder=tmp_path))
    assert requested == [tmp_path]
