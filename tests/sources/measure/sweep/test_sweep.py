"""Sweeps: resumed after any death, with everything put back; real processes, a fake kernel."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fake_kernel import RESCTRL, FakeKernel
from forks import forked, status_of
from msbgen.core.errors import ProfileError
from msbgen.data.schema import counter_names
from msbgen.data.store import read_profiles
from msbgen.sources.measure.actuators.actuator import SettingError
from msbgen.sources.measure.sweep import measure as measure_module
from msbgen.sources.measure.sweep import perf_stat, process, recorder
from msbgen.sources.measure.sweep.executor import FAILED
from msbgen.sources.measure.sweep.journal import DONE, SweepJournal, read_journal
from msbgen.sources.measure.sweep.measure import measure
from msbgen.sources.measure.sweep.order import run_order
from msbgen.sources.measure.sweep.process import tagged_processes
from msbgen.sources.measure.sweep.profiles import IncompleteError
from msbgen.sources.measure.sweep.requirements import RequirementError
from msbgen.sources.measure.sweep.restore import restore_machine
from sweeping import WORK, await_that, machine, needs_perf, processes, spec, tree

pytestmark = needs_perf
# One run of each of three contexts.
ONCE = spec(runs=1)


@pytest.fixture
def kernel(tmp_path):
    return machine(tmp_path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.nc"


def runs(out):
    return [r for r in read_journal(out.with_suffix(".journal")) if r["event"] == "run"]


def shape(path):
    """All that a file says but for measured values: time is as long as the longest run."""
    data = read_profiles(path)
    return {
        "names": {str(n): (v.dims, str(v.dtype), str(v.attrs)) for n, v in data.variables.items()},
        "contexts": data["cache_ways"].values.tolist(),
        "runs": data["duration"].notnull().values.tolist(),
        "attrs": dict(data.attrs),
    }


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    kernel = machine(folder)
    before = tree(kernel)
    measured = measure(ONCE, folder / "out.nc", files=kernel)
    assert tree(kernel) == before
    assert measured.missing == []
    return shape(folder / "out.nc")


def test_every_run_is_made_once_in_its_order(undisturbed, kernel, out):
    seen = []
    measure(ONCE, out, files=kernel, progress=lambda *done: seen.append(done))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    made = runs(out)
    assert [r["slot"] for r in made] == [0, 1, 2]
    assert {r["outcome"] for r in made} == {DONE}
    assert shape(out) == undisturbed
    data = read_profiles(out)
    assert data["cache_ways"].attrs["mechanism"] == "resctrl L3"
    np.testing.assert_array_equal(data["cache_ways_achieved"].values[:, 0], [2, 4, 8])
    assert (data["cpu_time"] <= data["duration"] + 0.02).all()


# --------------------------------------------------------------------------- killed


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_placed(patch):
    """The program is held, placed and pinned."""
    patch.setattr(recorder, "counting", lambda *_, **__: die())


def die_attached(patch):
    """perf counts a program that still waits."""
    patch.setattr(process.PausedProcess, "run", lambda *_: die())


def die_running(patch):
    """The program runs."""
    write = os.write

    def release(handle, data):
        written = write(handle, data)
        if data == b"\n":
            time.sleep(0.002)
            die()
        return written

    patch.setattr(process.os, "write", release)


def die_in_a_line(patch):
    """Half a line of the journal is on the disk."""

    def half(self, record):
        if record["event"] == "run" and record["slot"] == 1:
            os.write(self._handle, json.dumps(record).encode()[:40])
            die()
        return append(self, record)

    append = SweepJournal.append
    patch.setattr(SweepJournal, "append", half)


def die_writing(patch):
    """The profile file is being written."""

    def write(dataset, path, **_):
        from msbgen.data.files import replace_file

        with replace_file(path) as partial:
            partial.write_bytes(b"CDF")
            die()

    patch.setattr(measure_module, "write_profiles", write)


def die_making_the_group(patch):
    """The group is noted, and not made."""
    patch.setattr(FakeKernel, "make", lambda *_: die())


def die_restoring(patch):
    """The runs are made; nothing is put back yet."""
    patch.setattr(FakeKernel, "remove", lambda *_: die())


def die_at_once(patch):
    """The journal is there, and empty."""
    patch.setattr("msbgen.sources.measure.sweep.sweep.check_machine", lambda *_: die())


STAGES = [
    die_at_once,
    die_placed, die_attached, die_running, die_in_a_line, die_writing, die_making_the_group,
    die_restoring,
]  # fmt: skip


# resuming restores first, whatever the stage: two will do
@pytest.mark.parametrize(
    ("stage", "repaired"),
    [*((stage, True) for stage in STAGES), (die_attached, False), (die_restoring, False)],
)
def test_killed_at_any_stage_it_is_mended_and_goes_on(undisturbed, kernel, out, stage, repaired):
    before = tree(kernel)
    patch = pytest.MonkeyPatch()

    def work():
        stage(patch)
        measure(ONCE, out, files=kernel)

    pid = forked(work)
    assert status_of(pid) == -signal.SIGKILL
    journal = out.with_suffix(".journal")
    tag = read_journal(journal)[0]["tag"] if read_journal(journal) else "none"
    made = len(runs(out))
    await_that(lambda: not tagged_processes(tag))  # the program died with us, and perf with it
    if repaired:
        assert not restore_machine(journal, files=kernel).failed
        assert tree(kernel) == before
    measure(ONCE, out, files=kernel, resume=True)
    assert tree(kernel) == before
    assert shape(out) == undisturbed
    assert len(runs(out)) == 3  # those that were made were not made again
    assert made == {"die_in_a_line": 1, "die_writing": 3, "die_restoring": 3}.get(stage.__name__, 0)
    assert not processes(str(out.with_suffix(".recordings")))
    left = sorted(p.name for p in out.parent.iterdir() if p.name != "kernel")
    assert left == ["out.journal", "out.nc", "out.recordings"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_are_survived_put_everything_back(kernel, tmp_path, out, number):
    from msbgen.cli.main import main

    before = tree(kernel)
    (tmp_path / "s.toml").write_text(
        'command = ["sleep", "69.25"]\n[resources.cache_ways]\nby = "ways"\nlevels = [2, 4]\n'
    )

    def work():
        measure_module.SystemFiles = lambda: FakeKernel(kernel.root)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        return main(["measure", str(tmp_path / "s.toml"), "-o", str(out)])

    pid = forked(work)
    recordings = out.with_suffix(".recordings")
    await_that(lambda: any(p.suffix == ".csv" for p in recordings.glob("*")))  # perf is there
    os.kill(pid, number)
    assert status_of(pid) == {signal.SIGINT: 130}.get(number, 143)
    assert tree(kernel) == before
    assert not processes("69.25")
    assert not out.exists()


# --------------------------------------------------------------------------- refused


def test_what_was_begun_is_not_begun_again(kernel, out):
    measure(ONCE, out, files=kernel)
    out.unlink()
    with pytest.raises(FileExistsError, match="continue with --resume"):
        measure(ONCE, out, files=kernel)
    out.with_suffix(".recordings").rename(out.with_suffix(".moved"))
    with pytest.raises(FileExistsError, match=r"out\.journal: exists already"):
        measure(ONCE, out, files=kernel)
    measure(ONCE, out, files=kernel, overwrite=True)
    assert len(runs(out)) == 3


def test_a_changed_spec_is_refused(kernel, out):
    measure(ONCE, out, files=kernel)
    for changed in (
        spec(runs=1, seed=1),
        spec(),
        spec("true", runs=1),
        spec(runs=1, contexts="grid:2"),
    ):
        with pytest.raises(ProfileError, match="started with another spec or other contexts"):
            measure(changed, out, files=kernel, resume=True, overwrite=True)
    measure(ONCE, out, files=kernel, resume=True, overwrite=True)  # nothing is left to do
    with pytest.raises(ProfileError, match="no such file"):
        measure(ONCE, out.with_name("other.nc"), files=kernel, resume=True)


def test_what_fails_before_the_first_run_can_be_begun_again(kernel, out):
    before = tree(kernel)
    with pytest.raises(RequirementError, match="no such program"):
        measure(spec("no-such-program"), out, files=kernel)
    kernel.deny(RESCTRL)
    with pytest.raises(SettingError, match="run as root"):
        measure(ONCE, out, files=kernel)
    kernel.know(denied=[])
    assert tree(kernel) == before
    assert sorted(p.name for p in out.parent.iterdir()) == ["kernel"]
    measure(ONCE, out, files=kernel)


# --------------------------------------------------------------------------- done in part


def test_failed_runs_are_tried_again_and_the_rest_is_written(kernel, out, tmp_path):
    """The program fails under four ways, always, and once before anything else."""
    once = tmp_path / "once"
    group = f"{kernel.at(RESCTRL)}/msbgen-*/schemata"
    script = f"[ -e {once} ] || {{ : > {once}; exit 9; }}; ! grep -q 'L3:0=f;' {group} || exit 7"
    one = spec("/bin/sh", "-c", f"{script}; {WORK[2]}")
    measured = measure(one, out, files=kernel)
    assert len(measured.missing) == 2
    assert all("cache_ways=4: exited with 7" in s for s in measured.missing)
    with pytest.raises(IncompleteError):
        measured.raise_if_incomplete()
    assert read_profiles(out)["cache_ways"].values.tolist() == [2, 8]
    made = runs(out)
    first = run_order(one).slots[0].context == (4.0,)  # whose attempts fail anyhow
    assert [r["outcome"] for r in made].count(FAILED) == (4 if first else 5)
    assert len(made) == (8 if first else 9)
    before = made
    measure(one, out, files=kernel, resume=True, overwrite=True)
    assert runs(out) == before  # as often as the spec allows


def test_what_is_planned_in_groups_is_measured_so_and_what_is_cut_is_kept(
    kernel, out, tmp_path, caplog
):
    """Two ways never end; a sweep that was interrupted goes on as it began."""
    group = f"{kernel.at(RESCTRL)}/msbgen-*/schemata"
    script = f"grep -q 'L3:0=3;' {group} && while :; do :; done; {WORK[2]}"
    plan = tmp_path / "plan.csv"
    counters = "task_clock page_faults; task_clock context_switches"
    plan.write_text(f"cache_ways,runs,counters\n2,2,{counters}\n8,2,{counters}\n")
    one = spec(
        "/bin/sh", "-c", script, contexts=str(plan), timeout=0.5, keep_cut=True,
        events=("task-clock", "page-faults", "context-switches"),
    )  # fmt: skip

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(one, out, files=kernel, progress=stop)
    assert f"{out.with_suffix('.journal')}: 2 runs are kept; continue with --resume" in caplog.text
    measured = measure(one, out, files=kernel, resume=True)
    assert measured.missing == []
    assert [r["slot"] for r in runs(out)] == [0, 1, 2, 3]
    data = read_profiles(out)
    assert data["complete"].values.tolist() == [[0, 0], [1, 1]]
    held = data["page_faults"].notnull().any("time").values
    assert held.tolist() == [[True, False], [True, False]]
    assert data["task_clock"].notnull().any("time").values.all()
    text = "\n".join(measured.describe())
    assert "cut       2 of 4 runs were ended early" in text
    assert "task_clock in every run" in text


def test_a_program_deleted_meanwhile_is_done_in_part(kernel, out, tmp_path):
    program = tmp_path / "program"
    one = tmp_path / "one"
    program.write_text(f"#!/bin/sh\n{WORK[2]}\n[ -e {one} ] && rm $0\n: > {one}\n")
    program.chmod(0o755)
    measured = measure(spec(str(program), runs=1, retries=0), out, files=kernel)
    assert len(measured.missing) == 1
    assert "is not an executable file" in measured.missing[0]
    assert int(read_profiles(out)["duration"].notnull().sum()) == 2


def test_a_recording_that_was_lost_is_made_again(kernel, out, caplog):
    measure(ONCE, out, files=kernel)
    lost = out.with_suffix(".recordings") / "00002-0.csv"
    lost.write_text("damaged\n")
    measure(ONCE, out, files=kernel, resume=True, overwrite=True)
    assert "00002-0.csv was lost or changed" in caplog.text
    assert [r["slot"] for r in runs(out)] == [0, 1, 2, 2]


def test_permission_lost_meanwhile_stops_it_and_it_goes_on_later(undisturbed, kernel, out):
    before = tree(kernel)

    def lose(done, total):
        if done == 2:
            kernel.deny(f"{RESCTRL}/msbgen")

    with pytest.raises(SettingError, match=r"\(?permission denied\)?; run as root"):
        measure(ONCE, out, files=kernel, progress=lose)
    assert tree(kernel) == before
    assert len(runs(out)) == 2
    kernel.know(denied=[])
    measure(ONCE, out, files=kernel, resume=True)
    assert shape(out) == undisturbed


def test_a_full_disk_stops_it_and_it_goes_on_later(undisturbed, kernel, out, monkeypatch):
    """The journal's disk takes no more after two runs: everything is put back all the same."""
    before = tree(kernel)
    write = os.write
    full = False

    def fill(handle, data):
        if full and data.startswith(b'{"event"'):
            return write(handle, data[:20])
        return write(handle, data)

    def after(done, total):
        nonlocal full
        full = done >= 2

    monkeypatch.setattr("msbgen.data.journal.os.write", fill)
    with pytest.raises(OSError, match="No space left") as caught:
        measure(ONCE, out, files=kernel, progress=after)
    assert caught.value.filename == str(out.with_suffix(".journal"))
    full = False
    assert tree(kernel) == before
    assert len(runs(out)) == 2
    measure(ONCE, out, files=kernel, resume=True)
    assert shape(out) == undisturbed


def test_warm_ups_are_not_kept(kernel, out, tmp_path):
    count = tmp_path / "count"
    one = spec("/bin/sh", "-c", f"echo x >> {count}; {WORK[2]}", runs=1, warmups=2)
    measure(one, out, files=kernel)
    assert len(count.read_text().split()) == 5
    assert len(runs(out)) == 3
    assert len(list(out.with_suffix(".recordings").iterdir())) == 3


def test_perf_is_asked_for_what_the_spec_says(kernel, out, monkeypatch):
    requested = []

    def command(*given):
        requested.append(given[:2])
        return perf_command(*given)

    perf_command = perf_stat.perf_command
    monkeypatch.setattr(perf_stat, "perf_command", command)
    measure(spec(runs=1, interval=0.007, events=("cpu-clock",)), out, files=kernel)
    assert requested == [(("cpu-clock",), 0.007)] * 3
    data = read_profiles(out)
    assert data.attrs["interval"] == 0.007
    assert data.attrs["progress"] == "cpu_clock"


def test_a_journal_of_other_runs_is_refused(kernel, out):
    measure(ONCE, out, files=kernel)
    journal = out.with_suffix(".journal")
    journal.write_text(journal.read_text().replace('"context": [2.0]', '"context": [3.0]', 1))
    with pytest.raises(ProfileError, match=r"of context \[3.0\] is not number \d of this sweep"):
        measure(ONCE, out, files=kernel, resume=True, overwrite=True)


@pytest.fixture
def probe():
    """A probe at a function of the C library that nothing else of this machine has."""
    mapped = Path("/proc/self/maps").read_text().split()
    library = next(word for word in mapped if re.search(r"/libc[.-]", word))
    name = f"msbgen_{os.getpid()}"
    made = subprocess.run(
        ["perf", "probe", "-q", "-x", library, "--add", f"{name}=getppid"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(
            f"needs probes: run as root, with tracefs mounted ({made.stderr.strip()[:200]})"
        )
    yield f"probe_libc:{name}"
    subprocess.run(["perf", "probe", "-q", "-d", f"probe_libc:{name}"], check=True)


def test_tracepoints_and_probes_count_to_a_call(kernel, out, probe):
    """700 calls of a function that is a system call each, in every run of every context."""
    code = "import os\nfor _ in range(700): os.getppid()"
    events = ("task-clock", "raw_syscalls:sys_enter", probe)
    measure(spec(sys.executable, "-S", "-c", code, runs=1, events=events), out, files=kernel)
    data = read_profiles(out)
    clock, calls, probed = (data[name].sum("time").values for name in counter_names(data))
    assert clock.min() > 0
    np.testing.assert_allclose(probed, 700, rtol=1e-6)
    assert np.all(calls > 700)
