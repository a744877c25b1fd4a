"""Sweeps in a folder that other users can write: nothing of theirs is followed or kept."""

import os
import shutil
import stat

import pytest

from forks import forked, status_of
from msbgen.core.errors import ProfileError
from msbgen.data import journal as journals
from msbgen.sources.measure.sweep import sweep as sweeps
from msbgen.sources.measure.sweep.journal import SweepJournal, read_journal
from msbgen.sources.measure.sweep.measure import measure
from msbgen.sources.measure.sweep.restore import restore_machine
from msbgen.sources.measure.sweep.sweep import SweepPaths
from needing import meddle, needs_root
from sweeping import HEAD, machine, needs_perf, spec

ONCE = spec(runs=1)


@pytest.fixture
def kernel(tmp_path):
    return machine(tmp_path)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.nc"


@pytest.fixture
def victim(tmp_path):
    """A folder of the user, whose files another user would like to change."""
    folder = tmp_path / "victim"
    folder.mkdir()
    for slot in range(3):
        for suffix in ("csv", "err", "perf"):
            (folder / f"{slot:05d}-0.{suffix}").write_text("precious")
    yield folder
    assert sorted(path.read_text() for path in folder.iterdir()) == ["precious"] * 9


@needs_perf
@pytest.mark.parametrize("link", [True, False])
def test_recordings_that_appear_meanwhile_are_not_used(kernel, out, victim, monkeypatch, link):
    paths, begin = SweepPaths.beside(out), sweeps._begin

    def meanwhile(*given):
        begin(*given)
        paths.recordings.symlink_to(victim) if link else shutil.copytree(victim, paths.recordings)

    monkeypatch.setattr(sweeps, "_begin", meanwhile)
    with pytest.raises(FileExistsError, match=r"out\.recordings"):
        measure(ONCE, out, files=kernel)
    assert len(os.listdir(paths.recordings)) == 9  # not removed either
    assert not paths.journal.exists()


@needs_perf
def test_recordings_that_are_exchanged_meanwhile_stay_where_they_are(kernel, out, victim):
    paths = SweepPaths.beside(out)
    moved = out.with_name("moved")

    def meanwhile(made, total):
        if made == 1:
            paths.recordings.rename(moved)
            paths.recordings.symlink_to(victim)

    sweeps.sweep(ONCE, out, files=kernel, progress=meanwhile)
    assert len(os.listdir(moved)) == 3


@needs_perf
def test_recordings_that_are_exchanged_after_the_last_run_are_not_read(kernel, out):
    paths = SweepPaths.beside(out)
    forged = out.with_name("forged")

    def meanwhile(made, total):
        if made == total:
            paths.recordings.rename(forged)
            paths.recordings.symlink_to(forged)

    with pytest.raises(ProfileError, match=r"out\.recordings: is no folder"):
        measure(ONCE, out, files=kernel, progress=meanwhile)
    assert not out.exists()


@needs_perf
def test_recordings_that_others_can_write_are_refused(kernel, out, victim):
    paths = SweepPaths.beside(out)
    measure(ONCE, out, files=kernel)
    (paths.recordings / "00000-0.csv").unlink()
    out.unlink()
    paths.recordings.chmod(0o777)
    with pytest.raises(ProfileError, match=r"out\.recordings: other users may write it; .* go-w"):
        measure(ONCE, out, files=kernel, resume=True)
    shutil.rmtree(paths.recordings)
    paths.recordings.symlink_to(victim)
    for again in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(ProfileError, match=r"out\.recordings: is no folder; remove it"):
            measure(ONCE, out, files=kernel, **again)


@pytest.mark.parametrize("again", [{}, {"resume": True}, {"overwrite": True}])
def test_a_journal_that_is_a_link_is_not_followed(kernel, out, tmp_path, again):
    target = tmp_path / "target"
    target.write_bytes(b"")
    SweepPaths.beside(out).journal.symlink_to(target)
    with pytest.raises(ProfileError, match=r"out\.journal: is a symbolic link; remove it"):
        measure(ONCE, out, files=kernel, **again)
    SweepPaths.beside(out).journal.unlink()
    os.link(target, SweepPaths.beside(out).journal)
    with pytest.raises(ProfileError, match=r"out\.journal: has a second name"):
        measure(ONCE, out, files=kernel, **again)
    assert target.read_bytes() == b""


@needs_root
@pytest.mark.parametrize("act", ["resume", "overwrite", "restore"])
def test_a_journal_of_another_user_is_refused(kernel, out, act):
    path = SweepPaths.beside(out).journal
    journal = SweepJournal(path, new=True)
    journal.append(HEAD)
    journal.close()
    os.chown(path, 65534, 65534)

    def attempt():
        if act == "restore":
            restore_machine(path, files=kernel)
        else:
            measure(ONCE, out, files=kernel, **{act: True})

    with pytest.raises(ProfileError, match=r"out\.journal: belongs to another user"):
        attempt()
    assert read_journal(path) == [HEAD]


def test_of_two_that_begin_again_at_once_one_loses(out, monkeypatch):
    """The other one has removed the journal, and begun its own, before the lock."""
    path = SweepPaths.beside(out).journal
    SweepJournal(path, new=True).close()
    opened = journals.open_private

    def late(*given):
        handle = opened(*given)
        path.unlink()
        path.write_text("that of the other one")
        return handle

    monkeypatch.setattr(journals, "open_private", late)
    with pytest.raises(ProfileError, match="another process is measuring with it"):
        measure(ONCE, out, overwrite=True)
    assert path.read_text() == "that of the other one"


@needs_perf
def test_a_second_sweep_leaves_the_running_one_alone(kernel, out):
    def second():
        try:
            measure(ONCE, out, files=kernel, overwrite=True)
        except ProfileError as error:
            return 7 if "another process is measuring" in str(error) else 8

    codes = []
    measure(
        ONCE, out, files=kernel, overwrite=True,
        progress=lambda made, total: codes.append(status_of(forked(second))) if made == 1 else 0,
    )  # fmt: skip
    assert codes == [7]
    assert len(os.listdir(SweepPaths.beside(out).recordings)) == 3


@needs_root
@needs_perf
def test_another_user_can_neither_read_nor_change_a_sweep(kernel, open_folder):
    out = open_folder / "out.nc"
    seen = []
    measure(
        ONCE, out, files=kernel,
        progress=lambda *_: seen.append(meddle(open_folder)),
    )  # fmt: skip
    assert seen == [[], [], []]
    assert meddle(open_folder) == ["read out.nc"]  # by the umask
    assert stat.S_IMODE(SweepPaths.beside(out).recordings.stat().st_mode) == 0o700
