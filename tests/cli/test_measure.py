"""``msbgen measure`` on a fake kernel: what users type and see."""

import json
import os

import pytest

from msbgen.cli import options
from msbgen.cli.main import main
from msbgen.data.store import read_profiles
from msbgen.sources.measure.actuators.kernel_files import SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep import dry_run, measure, restore
from msbgen.sources.measure.sweep.journal import SweepJournal
from sweeping import HEAD, machine, needs_perf, tree

SPEC = """
task = "work"
command = "/bin/sh -c 'i=0; while [ $i -lt 12000 ]; do i=$((i+1)); done'"
runs = 2
warmups = 0
interval = "5ms"
events = ["task-clock", "page-faults"]
[resources.cache_ways]
by = "ways"
levels = [2, 8]
"""


@pytest.fixture
def kernel(tmp_path, tmp_path_factory, monkeypatch):
    kernel = machine(tmp_path_factory.mktemp("machine"))
    for module in (dry_run, measure, restore):
        monkeypatch.setattr(module, "SystemFiles", lambda: kernel)
    (tmp_path / "spec.toml").write_text(SPEC)
    return kernel


@needs_perf
def test_from_a_command_to_a_file_and_nothing_left(msbgen, kernel, tmp_path):
    before = tree(kernel)
    done = msbgen("measure", "spec.toml", "-o", "out.nc")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("out.nc: 2 contexts, 4 runs\n")
    assert "task_clock" in done.stdout
    assert tree(kernel) == before
    assert read_profiles(tmp_path / "out.nc").sizes["context"] == 2
    assert msbgen("check", "out.nc").returncode == 0
    done = msbgen("measure", "--restore", "out.journal")
    assert (done.returncode, done.stdout) == (0, "nothing to restore: the machine is unchanged.\n")
    done = msbgen("measure", "spec.toml", "-o", "out.nc", "--resume")
    assert done.returncode == 2
    assert "out.nc: exists already" in done.stderr


@needs_perf
def test_contexts_of_the_command_line_and_a_second_batch(msbgen, kernel, tmp_path):
    assert msbgen("measure", "spec.toml", "-o", "a.nc", "--contexts", "grid:1").returncode == 0
    (tmp_path / "plan.csv").write_text("cache_ways,runs\n2,1\n")
    second = ["-o", "b.nc", "--contexts", "plan.csv", "--with", "a.nc"]
    done = msbgen("measure", "spec.toml", *second)
    assert done.returncode == 0, done.stderr
    assert read_profiles(tmp_path / "b.nc")["cache_ways"].values.tolist() == [2, 8]


@needs_perf
def test_variants_have_a_file_each(msbgen, refused, kernel, tmp_path):
    variants = "[variants.old]\n[variants.new]\nenvironment = {A = '1'}\n"
    (tmp_path / "spec.toml").write_text(SPEC + variants)
    done = msbgen("measure", "spec.toml", "-o", "out.nc")
    assert done.returncode == 0, done.stderr
    assert "out-old.nc: 2 contexts, 4 runs\n" in done.stdout
    assert "out-new.nc: 2 contexts, 4 runs\n" in done.stdout
    again = ["measure", "spec.toml", "-o", "b.nc", "--contexts", "grid:1"]
    assert msbgen(*again, "--with", "out.nc").returncode == 0
    refused(3, "none-old.nc: no such file", *again[:-2], "--with", "none.nc")
    refused(2, "out-old.nc: exists already", "measure", "spec.toml", "-o", "out.nc")


@needs_perf
def test_runs_that_fail_are_done_in_part(msbgen, kernel, tmp_path):
    text = SPEC.replace(
        "i=0;", f"grep -q L3:0=ff {kernel.at('/sys/fs/resctrl')}/msb*/schemata; i=0;"
    )
    (tmp_path / "spec.toml").write_text(text.replace("; i=0;", " || exit 7; i=0;"))
    done = msbgen("measure", "spec.toml", "-o", "out.nc")
    assert done.returncode == 5
    assert "left out after 2 attempts: run 0 of context cache_ways=2: exited with 7." in done.stderr
    assert read_profiles(tmp_path / "out.nc")["cache_ways"].values.tolist() == [8]
    again = msbgen("measure", "spec.toml", "-o", "out.nc", "--resume", "--force")
    assert again.returncode == 5


@needs_perf
@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_closed_stdout_costs_the_text_only(closed_stdout, kernel, tmp_path, monkeypatch, when):
    cut = kernel.at("/sys/fs/resctrl")
    failing = SPEC.replace("i=0;", f"grep -q L3:0=ff {cut}/msb*/schemata || exit 7; i=0;", 1)
    (tmp_path / "spec.toml").write_text(failing)
    monkeypatch.chdir(tmp_path)
    with closed_stdout(when):
        assert main(["measure", "spec.toml", "-o", "out.nc"]) == 5
    assert read_profiles(tmp_path / "out.nc").sizes["context"] == 1


def test_what_a_killed_sweep_left_is_put_back_by_name(msbgen, kernel, tmp_path):
    before = tree(kernel)
    journal = SweepJournal(tmp_path / "x.journal", new=True)
    journal.append({**HEAD, "tag": f"{os.getpid():016x}", "boot": restore.boot_id()})
    KernelSettings(kernel, journal.append).make("/sys/fs/resctrl/msbgen-x")
    journal.close()
    done = msbgen("measure", "--restore", "x.journal")
    assert (done.returncode, done.stdout) == (0, "group /sys/fs/resctrl/msbgen-x is removed.\n")
    assert tree(kernel) == before


HOOK = """#!/bin/sh
echo "$@" >> {folder}/calls
case "$1" in levels) echo 900 1200 ;; read) echo 900 ;; esac
"""


@pytest.fixture
def hook(tmp_path, kernel):
    """A hook, and a spec that names it."""
    path = tmp_path / "hook"
    path.write_text(HOOK.format(folder=tmp_path))
    path.chmod(0o755)
    resource = '[resources.clock]\nby = "hook"\ncommand = "hook"\nlevels = [900, 1200]\n'
    (tmp_path / "hooked.toml").write_text(SPEC + resource)
    return path


def left_by(hook, path):
    """The journal of a killed sweep, which has set a hook."""
    journal = SweepJournal(path, new=True)
    journal.append({**HEAD, "tag": f"{os.getpid():016x}", "boot": restore.boot_id()})
    change = {"path": f"hook:{hook}", "reading": "plain", "before": "1200", "wrote": "900"}
    journal.append({"event": "set", **change})
    journal.close()


def test_a_journal_runs_no_hook_that_no_spec_names(msbgen, refused, hook, tmp_path, monkeypatch):
    left_by(hook, tmp_path / "x.journal")
    message = f"x.journal: restoring would run '{hook}', which the spec does not name"
    refused(3, message, "measure", "--restore", "x.journal")
    refused(3, message, "measure", "spec.toml", "--restore", "x.journal")
    refused(3, message, "measure", "spec.toml", "-o", "x.nc", "--force")
    assert not (tmp_path / "calls").exists()
    monkeypatch.setattr(restore, "SystemFiles", SystemFiles)
    done = msbgen("measure", "hooked.toml", "--restore", "x.journal")
    assert "could not be restored to '1200'" in done.stderr  # as this hook sets nothing
    assert "set 1200" in (tmp_path / "calls").read_text()


@pytest.mark.parametrize("tag", ["", "t", "0123456789abcdeg"])
def test_a_journal_ends_no_processes_by_another_tag(refused, tmp_path, tag):
    line = json.dumps({**HEAD, "tag": tag, "boot": restore.boot_id()})
    (tmp_path / "x.journal").write_text(f"{line}\n")
    refused(3, "line 1 is no record of a sweep", "measure", "--restore", "x.journal")


@needs_perf
def test_a_dry_run_names_what_it_runs_before_it_runs_it(msbgen, hook, monkeypatch):
    seen = []
    monkeypatch.setattr(dry_run, "describe_dry_run", lambda *_, **__: seen.append(True) or ())
    monkeypatch.setattr(options, "print_message", lambda text: seen.append(text))
    assert msbgen("measure", "hooked.toml", "--dry-run").returncode == 0
    assert seen[0] == f"runs {hook} levels, and read"
    assert seen[1].startswith("runs once, without limits: /bin/sh -c 'i=0;")
    assert seen[2:] == [True]


@needs_perf
def test_the_template_is_a_spec_that_can_be_run(msbgen, tmp_path):
    done = msbgen("measure", "--template")
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "made.toml").write_text(done.stdout)
    done = msbgen("measure", "made.toml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "(a run without limits took 0." in done.stdout


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (2, "SPEC.toml and -o OUT.nc are wanted", ["measure"]),
        (2, "SPEC.toml and -o OUT.nc are wanted", ["measure", "spec.toml"]),
        (2, "--restore takes no -o", ["measure", "-o", "o.nc", "--restore", "spec.toml"]),
        (
            2,
            "--dry-run has no effect with --probe",
            ["measure", "spec.toml", "--probe", "-o", "p.csv", "--dry-run"],
        ),
        (2, "--template takes no SPEC.toml", ["measure", "spec.toml", "--template"]),
        (3, "is no record of a sweep", ["measure", "--restore", "spec.toml"]),
        (3, "out.journal: no such file", ["measure", "spec.toml", "-o", "out.nc", "--resume"]),
        (3, "contexts: ", ["measure", "spec.toml", "-o", "out.nc", "--contexts", "grid:9"]),
        (2, "has the suffix of the journal or", ["measure", "spec.toml", "-o", "out.journal"]),
        (2, "has the suffix of the journal or", ["measure", "spec.toml", "-o", "o.recordings"]),
        (2, "there is no folder", ["measure", "spec.toml", "-o", "none/out.nc"]),
    ],
)
def test_what_cannot_be_done_is_refused(refused, kernel, code, message, arguments):
    refused(code, message, *arguments)


def test_what_the_machine_lacks_is_said_line_by_line(refused, kernel, tmp_path):
    text = SPEC.replace("/bin/sh -c", "no-such-program").replace("[2, 8]", "[2, 80]")
    (tmp_path / "spec.toml").write_text(text)
    refused(2, "'no-such-program': no such program", "measure", "spec.toml", "-o", "out.nc")
    refused(2, "cache_ways is 80 1", "measure", "spec.toml", "--dry-run")
