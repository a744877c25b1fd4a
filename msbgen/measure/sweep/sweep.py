"""A sweep: every run of every context, in random order, resumable; then the profile file.

The journal is ahead of the machine and behind the runs: a setting is noted before it is changed, a
run after its recording is on the disk.  So whatever happens, what was changed is known, and at most
the run that was going on is lost.
"""

from __future__ import annotations

import logging
import math
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.machine import OnProgress
from msbgen.measure.actuators.actuator import SettingError
from msbgen.measure.actuators.kernel_files import KernelFiles, SystemFiles
from msbgen.measure.actuators.kernel_settings import KernelSettings, pending_changes
from msbgen.measure.sweep.actuators import make_actuators
from msbgen.measure.sweep.executor import RunExecutor, describe_failure, digest_of
from msbgen.measure.sweep.journal import VERSION, Record, SweepJournal, is_kept
from msbgen.measure.sweep.order import RunOrder, Slot, run_order
from msbgen.measure.sweep.recorder import PerfRecorder, Recorder
from msbgen.measure.sweep.requirements import check_machine, describe_machine
from msbgen.measure.sweep.restore import boot_id, restore_journal
from msbgen.measure.sweep.spec import Spec

_log = logging.getLogger("msbgen")


@dataclass(frozen=True)
class SweepPaths:
    """Files of a sweep beside its output.

    Attributes
    ----------
    out : Path
        The profile file.
    journal : Path
    recordings : Path
        Folder of perf's recordings.
    """

    out: Path
    journal: Path
    recordings: Path

    @classmethod
    def beside(cls, out: Path) -> SweepPaths:
        """The files of this output.

        Raises
        ------
        ArgumentError
            The output is one of the others itself.
        """
        if out.suffix in (".journal", ".recordings"):
            raise ArgumentError(
                f"{out}: is named as the journal or the recordings beside it; OUT.nc is wanted."
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
    """Make the runs of a spec; the machine is as it was when this returns or raises.

    Parameters
    ----------
    spec : Spec
    out : Path
        The profile file to be: journal and recordings are made beside it.
    resume : bool
        Go on with what was begun; otherwise nothing may be there.
    overwrite : bool
        What was begun is restored and removed first, unless it is resumed.
    files : KernelFiles, optional
        Of the kernel that runs, where none are given.
    recorder : Recorder, optional
        perf, where none is given.
    within : float
        After this time no further run is begun [s].
    progress : callback

    Returns
    -------
    list of dict
        The journal: its head, settings, and every run, the failed ones too.

    Raises
    ------
    ProfileError
        Contexts that cannot be read; to be resumed with another spec, or by two processes.
    RequirementError
        What the machine problems.
    SettingError
        A setting that the kernel refused.
    OSError
        Something cannot be written.
    """
    files = files or SystemFiles()
    recorder = recorder or PerfRecorder(spec)
    until = time.monotonic() + within
    order = run_order(spec)
    places = SweepPaths.beside(out)
    tag = secrets.token_hex(8)
    if overwrite and not resume:
        _remove(places, files)
    journal = _open(places, order, resume=resume)
    try:
        if journal.records:
            tag = journal.records[0]["tag"]
            _mend(journal, files)
        settings = KernelSettings(files, journal.append)
        actuators = make_actuators(spec, settings, f"msbgen-{tag}")
        waiting = _waiting(journal.records, order, spec, places)
        if waiting:
            problems = recorder.problems(places.journal.resolve().parent, len(waiting))
            check_machine(spec, order.contexts, actuators, problems)
            _begin(journal, order, tag, spec, recorder)
            places.recordings.mkdir(exist_ok=True)
            with RunExecutor(
                spec, places.recordings, tag, settings, actuators, recorder
            ) as machine:
                machine.warm_up(order.contexts)
                _make_runs(machine, journal, order, waiting, until, progress)
        return journal.records
    except BaseException:
        if not resume:
            _forget_nothing(journal, places)
        kept = sum(r["event"] == "run" and is_kept(r) for r in journal.records)
        if kept:
            _log.warning("%s: %d runs are kept; go on with --resume", places.journal, kept)
        raise
    finally:
        journal.close()


def _open(places: SweepPaths, order: RunOrder, *, resume: bool) -> SweepJournal:
    if resume:
        journal = SweepJournal(places.journal, new=False)
        if journal.records and journal.records[0]["digest"] != order.digest:
            journal.close()
            raise ProfileError(
                f"{places.journal}: was begun with another spec, or other contexts; put them back, "
                f"or measure into another output."
            )
        return journal
    if places.recordings.exists():
        raise FileExistsError(
            f"{places.recordings}: exists already; go on with --resume, or remove it."
        )
    try:
        return SweepJournal(places.journal, new=True)
    except FileExistsError:
        raise FileExistsError(
            f"{places.journal}: exists already; go on with --resume, or remove it after "
            f"'msbgen measure --restore {places.journal}'."
        ) from None


def _remove(places: SweepPaths, files: KernelFiles) -> None:
    """Remove what an earlier sweep left here, with the machine as it was before it."""
    if places.journal.exists():
        journal = SweepJournal(places.journal, new=False)
        try:
            _mend(journal, files)
            places.journal.unlink()
        finally:
            journal.close()
    shutil.rmtree(places.recordings, ignore_errors=True)


def _begin(
    journal: SweepJournal, order: RunOrder, tag: str, spec: Spec, recorder: Recorder
) -> None:
    """Say in the first line what the journal is of, and where."""
    now = {"boot": boot_id(), recorder.name: recorder.version(), "machine": describe_machine()}
    if not journal.records:
        head = {"version": VERSION, "tag": tag, "digest": order.digest, "task": spec.task}
        journal.append({"event": "sweep", **head, **now})
        return
    first = journal.records[0]
    for key in (recorder.name, "machine"):
        if first[key] != now[key]:
            _log.warning(
                "%s was '%s' when the sweep began and is '%s' now", key, first[key], now[key]
            )
    journal.append({"event": "resumed", **now})


def _mend(journal: SweepJournal, files: KernelFiles) -> None:
    """Restore what the sweep left when it was killed."""
    outcome = restore_journal(journal, files)
    for sentence in outcome.changed_by_others:
        _log.warning("%s", sentence)
    if outcome.failed:
        raise SettingError(*outcome.failed)


def _forget_nothing(journal: SweepJournal, places: SweepPaths) -> None:
    """A journal without runs is none: what failed before the first one can be begun again."""
    records = journal.records
    if not pending_changes(records) and not any(record["event"] == "run" for record in records):
        places.journal.unlink(missing_ok=True)
        shutil.rmtree(places.recordings, ignore_errors=True)


def _waiting(
    records: Sequence[Record], order: RunOrder, spec: Spec, places: SweepPaths
) -> list[tuple[Slot, int]]:
    """Slots without a run that can be kept, each with its next attempt."""
    slots = {slot.number: slot for slot in order.slots}
    done: dict[int, bool] = {}
    tried: dict[int, int] = {}
    for record in records:
        if record["event"] == "run":
            number = record["slot"]
            slot = slots.get(number)
            if slot is None or (list(slot.context), slot.run) != (record["context"], record["run"]):
                raise ProfileError(
                    f"{places.journal}: run {record['run']} of context {record['context']} is not "
                    f"number {number} of this sweep; restore a copy."
                )
            tried[number] = tried.get(number, 0) + 1
            done[number] = is_kept(record) and _intact(record, places)
            if is_kept(record) and not done[number]:
                _log.warning("%s was lost or changed; its run is made again", record["recording"])
                tried[number] = 0
    return [
        (slot, tried.get(slot.number, 0))
        for slot in order.slots
        if not done.get(slot.number) and tried.get(slot.number, 0) <= spec.retries
    ]


def _intact(record: Record, places: SweepPaths) -> bool:
    path = places.recordings / record["recording"]
    return path.is_file() and digest_of(path) == record["digest"]


def _make_runs(
    machine: RunExecutor,
    journal: SweepJournal,
    order: RunOrder,
    waiting: Sequence[tuple[Slot, int]],
    until: float,
    progress: OnProgress | None,
) -> None:
    made = len(order.slots) - len(waiting)
    for slot, attempts in waiting:
        if time.monotonic() >= until:
            _log.warning("time is up: %d of %d runs are made", made, len(order.slots))
            return
        for attempt in range(attempts, machine.spec.retries + 1):
            record = machine.run(slot, attempt)
            journal.append(record)
            if is_kept(record):
                break
            _log.warning("%s", describe_failure(machine.spec, record))
        made += 1
        if progress is not None:
            progress(made, len(order.slots))
