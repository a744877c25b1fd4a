"""Every lack is named with its remedy, before anything is changed."""

import pytest

from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep import requirements
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.order import run_order
from msbgen.sources.measure.sweep.recorder import PerfRecorder
from msbgen.sources.measure.sweep.requirements import (
    RequirementError,
    check_machine,
    describe_machine,
)
from msbgen.sources.measure.sweep.spec import ResourceSpec
from sweeping import machine, needs_perf, spec, tree


@pytest.fixture
def problems(tmp_path):
    kernel = machine(tmp_path)

    def problems(one, runs=6):
        settings = KernelSettings(kernel, lambda record: None)
        actuators = make_actuators(one, settings, "msbgen-t")
        before = tree(kernel)
        try:
            check_machine(
                one, run_order(one).contexts, actuators, PerfRecorder(one).problems(tmp_path, runs)
            )
        except RequirementError as error:
            return list(error.problems)
        finally:
            assert tree(kernel) == before
        return []

    return problems


@needs_perf
def test_events_are_tried_one_by_one(problems):
    message = problems(spec(events=("task-clock", "nonsense", "user_time", "page-faults")))
    assert len(message) == 2
    assert "event 'nonsense' cannot be counted" in message[0]
    assert "perf list" in message[0]
    assert "event 'user_time' never counts in intervals" in message[1]


@pytest.mark.parametrize(
    ("event", "words", "remedy"),
    [
        ("cycles", "Access to performance monitoring is limited", "perf_event_paranoid=1"),
        ("cycles", "not supported on this machine", "leave it out"),
        ("raw_syscalls:sys_enter", "unknown tracepoint", "mount -t tracefs"),
        ("probe_libc:no_such", "unknown tracepoint", "perf probe -l"),
    ],
)
def test_refusals_of_events_have_remedies(event, words, remedy):
    assert remedy in requirements._event_problem(event, words)


def test_every_other_lack_is_named_at_once(problems):
    odd = ResourceSpec("share", "quota", (50.0,))
    one = spec("/nowhere/program", cores=(4097,), resources=(odd,))
    message = "\n".join(problems(one))
    assert "'/nowhere/program' is not an executable file; build or install it." in message
    assert "cores [4097] are not available" in message
    assert "mount -t cgroup2" in message


def test_levels_that_cannot_be_set_are_each_a_lack(problems):
    message = problems(spec(resources=(ResourceSpec("w", "ways", (0.5, 2.0, 25.0)),)))
    assert [s.split(";")[0] for s in message] == ["w is 0.5 1", "w is 25 1"]


def test_programs_are_looked_for_where_the_run_will(problems, tmp_path):
    (message,) = [s for s in problems(spec("no-such-program")) if "program" in s]
    assert message == "'no-such-program': no such program; install it, or give its path."
    script = tmp_path / "here"
    script.write_text("#!/bin/sh\n")
    below = spec(folder=str(tmp_path))
    assert requirements.missing_program(below, "./here") is not None  # may not run
    script.chmod(0o755)
    assert requirements.missing_program(below, "./here") is None
    own = spec(environment={"PATH": str(tmp_path)})
    assert requirements.missing_program(own, "here") is None


def test_without_perf_the_sentence_says_how_to_get_it(problems, monkeypatch):
    monkeypatch.setattr(requirements.shutil, "which", lambda *_, **__: None)
    assert any("apt-get install linux-perf" in s for s in problems(spec()))


@pytest.mark.parametrize(("version", "word"), [("4.19.3", "5.10 or newer"), ("WARNING", "start")])
def test_an_old_perf_and_one_that_does_not_start(problems, monkeypatch, version, word):
    monkeypatch.setattr(requirements, "perf_version", lambda: version)
    assert any(word in s for s in problems(spec()))


def test_the_machine_is_described_in_a_line():
    message = describe_machine()
    assert "Linux" in message
    assert "\n" not in message
