"""A sweep: every run of every context, in random order, resumable.

The journal records a setting before it is changed, and a run after its recording is on the disk.
So after any failure all changed settings are known, and at most the current run is lost.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.machine import OnProgress
from msbgen.data.files import check_private_folder, private_folder
from msbgen.sources.measure.actuators.actuator import SettingError
from msbgen.sources.measure.actuators.kernel_files import KernelFiles, SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings, pending_changes
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.executor import RunExecutor, describe_failure, digest_of
from msbgen.sources.measure.sweep.journal import VERSION, Record, SweepJournal, is_kept, is_settled
from msbgen.sources.measure.sweep.order import RunOrder, Slot, run_order
from msbgen.sources.measure.sweep.recorder import PerfRecorder, Recorder
from msbgen.sources.measure.sweep.requirements import check_machine, describe_machine
from msbgen.sources.measure.sweep.restore import boot_id, restore_journal
from msbgen.sources.measure.sweep.spec import Spec

_log = logging.getLogger("msbgen")


@dataclass(frozen=True)
class SweepPaths:
    """Paths of a sweep's profile file, journal and folder of recordings."""

    out: Path
    journal: Path
    recordings: Path

    @classmethod
    def beside(cls, out: Path) -> SweepPaths:
        """Paths for an output; ArgumentError if it has the suffix of journal or recordings."""
        if out.suffix in (".journal", ".recordings"):
            raise ArgumentError(
                f"{out}: has the suffix of the journal or the recordings; OUT.nc is wanted."
            )
        return cls(out, out.with_suffix(".journal"), out.with_suffix(".recordings"))


def sweep(
    spec: Spec,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    files: KernelFiles | None = None,
    recorder: Recorder | None = None,
    within: float = math.inf,
    progress: OnProgress | None = None,
) -> list[Record]:
    """Make the runs of a spec; all settings are restored when this returns or raises.

    Journal and recordings are created beside `out`, the profile file.  `resume` continues an
    interrupted sweep; otherwise there must be none, unless `overwrite` restores and removes it
    first.  Only this user can read or change both.  By default, the files are those of the running
    kernel, and perf records.  No further run is started after the time `within` [s].  The result
    has the journal's records: head, settings and all runs, including failed ones.

    Raises
    ------
    ProfileError
        The contexts cannot be read, the resumed sweep has another spec, another process uses
        the journal, or other users can change the journal or the recordings.
    RequirementError
        The machine does not meet the requirements.
    SettingError
        The kernel refused a setting.
    OSError
        A file cannot be written.
    """
    files = files or SystemFiles()
    recorder = recorder or PerfRecorder(spec)
    until = time.monotonic() + within
    order = run_order(spec)
    paths = SweepPaths.beside(out)
    tag = secrets.token_hex(8)
    journal = _open(paths, order, resume=resume, overwrite=overwrite)
    began = resume
    try:
        if overwrite and not resume:
            _restore(journal, spec, files)
            journal.clear()
            _remove_recordings(paths)
        if journal.records:
            tag = journal.records[0]["tag"]
            _restore(journal, spec, files)
        settings = KernelSettings(files, journal.append)
        actuators = make_actuators(spec, settings, f"msbgen-{tag}")
        missing = _missing_runs(journal.records, order, spec, paths)
        if missing:
            problems = recorder.problems(paths.journal.resolve().parent, len(missing))
            check_machine(spec, order.contexts, actuators, problems)
            _begin(journal, order, tag, spec, recorder)
            with private_folder(paths.recordings, new=not resume) as folder:
                began = True
                with RunExecutor(spec, folder, tag, settings, actuators, recorder) as machine:
                    machine.warm_up(order.contexts)
                    _make_runs(machine, journal, order, missing, until, progress)
        return journal.records
    except BaseException:
        if not resume:
            _remove_if_empty(journal, paths, began=began)
        kept = sum(r["event"] == "run" and is_kept(r) for r in journal.records)
        if kept:
            _log.warning("%s: %d runs are kept; continue with --resume", paths.journal, kept)
        raise
    finally:
        journal.close()


def _open(paths: SweepPaths, order: RunOrder, *, resume: bool, overwrite: bool) -> SweepJournal:
    """The journal; it is locked before anything of an earlier sweep is removed."""
    if resume:
        journal = SweepJournal(paths.journal, new=False)
        if journal.records and journal.records[0]["digest"] != order.digest:
            journal.close()
            raise ProfileError(
                f"{paths.journal}: was started with another spec or other contexts; use those, "
                f"or another output."
            )
        return journal
    if overwrite and os.path.lexists(paths.journal):
        return SweepJournal(paths.journal, new=False)
    if not overwrite and os.path.lexists(paths.recordings):
        raise FileExistsError(
            f"{paths.recordings}: exists already; continue with --resume, or remove it."
        )
    try:
        return SweepJournal(paths.journal, new=True)
    except FileExistsError:
        raise FileExistsError(
            f"{paths.journal}: exists already; continue with --resume, or remove it after "
            f"'msbgen measure --restore {paths.journal}'."
        ) from None


def _remove_recordings(paths: SweepPaths) -> None:
    """Remove the recordings of an earlier sweep of this user."""
    if os.path.lexists(paths.recordings):
        check_private_folder(paths.recordings)
        shutil.rmtree(paths.recordings)


def _begin(
    journal: SweepJournal, order: RunOrder, tag: str, spec: Spec, recorder: Recorder
) -> None:
    """Write the first record, or one for a resumed sweep, with boot, recorder and machine."""
    now = {"boot": boot_id(), recorder.name: recorder.version(), "machine": describe_machine()}
    if not journal.records:
        head = {"version": VERSION, "tag": tag, "digest": order.digest, "task": spec.task}
        journal.append({"event": "sweep", **head, **now})
        return
    first = journal.records[0]
    for key in (recorder.name, "machine"):
        if first[key] != now[key]:
            _log.warning(
                "%s was '%s' when the sweep started and is '%s' now", key, first[key], now[key]
            )
    journal.append({"event": "resumed", **now})


def _restore(journal: SweepJournal, spec: Spec, files: KernelFiles) -> None:
    """Restore the machine after the sweep was killed."""
    report = restore_journal(journal, spec.hooks(), files)
    for sentence in report.changed_by_others:
        _log.warning("%s", sentence)
    if report.failed:
        raise SettingError(*report.failed)


def _remove_if_empty(journal: SweepJournal, paths: SweepPaths, *, began: bool) -> None:
    """Remove a journal without runs, so that a sweep that failed at once can be started again.

    The recordings are removed if the sweep made their folder.
    """
    records = journal.records
    if not pending_changes(records) and not any(record["event"] == "run" for record in records):
        paths.journal.unlink(missing_ok=True)
        if began:
            _remove_recordings(paths)


def _missing_runs(
    records: Sequence[Record], order: RunOrder, spec: Spec, paths: SweepPaths
) -> list[tuple[Slot, int]]:
    """Slots without a kept run, each with the number of attempts so far."""
    slots = {slot.number: slot for slot in order.slots}
    done: dict[int, bool] = {}
    tried: dict[int, int] = {}
    for record in records:
        if record["event"] == "run":
            number = record["slot"]
            slot = slots.get(number)
            planned = slot and [list(slot.context), slot.run, slot.variant]
            if planned != [record["context"], record["run"], record.get("variant", "")]:
                raise ProfileError(
                    f"{paths.journal}: run {record['run']} of context {record['context']} is not "
                    f"number {number} of this sweep; restore a copy of the journal."
                )
            tried[number] = tried.get(number, 0) + 1
            lost = is_kept(record) and not _intact(record, paths)
            done[number] = not lost and is_settled(record)
            if lost:
                _log.warning("%s was lost or changed; its run is repeated", record["recording"])
                tried[number] = 0
    return [
        (slot, tried.get(slot.number, 0))
        for slot in order.slots
        if not done.get(slot.number) and tried.get(slot.number, 0) <= spec.retries
    ]


def _intact(record: Record, paths: SweepPaths) -> bool:
    path = paths.recordings / record["recording"]
    return path.is_file() and digest_of(path) == record["digest"]


def _make_runs(
    machine: RunExecutor,
    journal: SweepJournal,
    order: RunOrder,
    missing: Sequence[tuple[Slot, int]],
    until: float,
    progress: OnProgress | None,
) -> None:
    made = len(order.slots) - len(missing)
    for slot, attempts in missing:
        if time.monotonic() >= until:
            _log.warning(
                "the time limit is reached: %d of %d runs are made", made, len(order.slots)
            )
            return
        for attempt in range(attempts, machine.spec.retries + 1):
            record = machine.run(slot, attempt)
            journal.append(record)
            if not is_kept(record):
                _log.warning("%s", describe_failure(machine.spec, record))
            if is_settled(record):
                break
        made += 1
        if progress is not None:
            progress(made, len(order.slots))
