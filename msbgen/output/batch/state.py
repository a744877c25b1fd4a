"""State of a task, rebuilt from the manifest on resume: finished units, next units, failures.

::

    fit ─┬─ generate/KIND/START … ── join/KIND ─┐
         ├─ bound, evaluate, plan … ────────────┴─ report
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msbgen.core.errors import ProfileError
from msbgen.data.journal import Record
from msbgen.output.batch.execute import BatchStep, Unit
from msbgen.output.batch.job import Job, block_starts, identify, state_of
from msbgen.output.batch.manifest import DONE


class TaskRecord:
    """Finished units of a task: those that join its kinds of profiles, and its steps."""

    def __init__(self, name: str, joins: Sequence[str], steps: Collection[str]):
        self.name, self.joins, self.steps = name, joins, steps
        self.ended: dict[str, Record] = {}
        self.seconds = 0.0

    def _is_done(self, name: str) -> bool:
        return name in self.ended and self.ended[name]["outcome"] == DONE

    @property
    def failures(self) -> list[Record]:
        """Failed units, without those that only depended on one."""
        ended = self.ended.values()
        return [r for r in ended if r["outcome"] != DONE and "blocked" not in r]

    @property
    def is_complete(self) -> bool:
        """Whether all units are done."""
        return all(self._is_done(name) for name in (*self.joins, *self.steps))

    def figures(self) -> dict[str, float]:
        """Figures of the steps by name."""
        found: dict[str, float] = {}
        for name in self.steps:
            if self._is_done(name):
                found |= self.ended[name]["facts"].get("figures", {})
        return found

    def files(self) -> list[str]:
        """Names of the result files in the task's folder."""
        return [
            file for n, r in self.ended.items() if self._is_done(n) for file in r["files"]
        ]  # fmt: skip

    @property
    def size(self) -> int:
        """Size of the result files [bytes]."""
        return sum(r["bytes"] for n, r in self.ended.items() if self._is_done(n))


class EarlierTask(TaskRecord):
    """A task of the manifest that is not part of the batch any more, by its lines in order."""

    def __init__(self, name: str, folder: Path, records: Sequence[Record], steps: Sequence[str]):
        fits = [r["facts"]["wanted"] for r in records if "wanted" in r["facts"]]
        wanted = fits[-1] if fits else {"kinds": [], "steps": []}
        chosen = [step for step in steps if {"all", step} & set(wanted["steps"])]
        super().__init__(name, [f"join/{kind}" for kind in wanted["kinds"]], chosen)
        for record in records:
            self.ended[record["unit"]] = record
            self.seconds += record["seconds"]
        self.ended = {
            unit: record
            for unit, record in self.ended.items()
            if record["outcome"] != DONE or _is_there(folder, record)
        }

    @property
    def is_complete(self) -> bool:
        """Whether all units are done; false without a fit."""
        return self._is_done("fit") and super().is_complete


class TaskState(TaskRecord):
    """State of a task of the batch, by its steps and its lines in the manifest in order."""

    def __init__(self, job: Job, steps: Mapping[str, BatchStep], records: Sequence[Record] = ()):
        joins = [f"join/{kind}" for kind in job.task.settings.kinds]
        super().__init__(job.task.name, joins, steps)
        self.job, self.steps = job, steps
        self.running: set[str] = set()
        last: dict[str, Record] = {}
        for record in records:
            last[record["unit"]] = record
            self.seconds += record["seconds"]
        if not self._is_of_these_inputs(last.get("fit")):
            last.clear()
        done = {name: r for name, r in last.items() if r["outcome"] == DONE}
        finals = (*self.joins, *steps)
        self.ended = {n: done[n] for n in finals if n in done and _is_there(job.folder, done[n])}
        if "fit" in done and self._serves(done["fit"]):
            for name, record in done.items():
                if name == "fit" or (name.startswith("generate/") and self._part_is_there(record)):
                    self.ended[name] = record
        elif "fit" in done and not self._wanted() and _is_there(job.folder, done["fit"]):
            self.ended["fit"] = done["fit"]  # its intermediate files are not needed any more

    def _is_of_these_inputs(self, fit: Record | None) -> bool:
        """Whether the inputs equal those of a recorded fit, by size and time or by hash."""
        if fit is None or fit["outcome"] != DONE or fit["facts"]["wanted"] != self.job.task.wanted:
            return False
        if state_of(self.job.task) == fit["facts"]["stat"]:
            return True
        try:
            return identify(self.job.task)["input"] == fit["facts"]["input"]
        except ProfileError:  # the fit will raise it
            return False

    def _serves(self, fit: Record) -> bool:
        """Whether the intermediate files of the fit exist."""
        there = _has_size(self.job.model_file, fit["facts"]["model_bytes"])
        if not there or not self.job.contexts_file.exists():
            return False
        return not self.job.zarr or all(
            self.job.part(kind, 0).exists() or self.job.product(kind).exists()
            for kind in self.job.task.settings.kinds
        )

    def _part_is_there(self, record: Record) -> bool:
        _, kind, start = record["unit"].split("/")
        part = self.job.part(kind, int(start))
        if self.job.zarr:
            return part.exists() or self.job.product(kind).exists()
        return _has_size(part, record["facts"]["part_bytes"])

    def _wanted(self) -> list[str]:
        return [name for name in (*self.joins, *self.steps) if name not in self.ended]

    def next_units(self) -> Iterator[Unit]:
        """Units that can start now."""
        if not self._wanted() and "fit" in self.ended:
            return
        if "fit" not in self.ended:
            if "fit" not in self.running:
                yield Unit(self.job, "fit")
            return
        if self.ended["fit"]["outcome"] != DONE:
            return
        facts = self.ended["fit"]["facts"]
        for name in self._wanted():
            for unit in self._units_for(name, facts):
                if unit.name not in self.ended and unit.name not in self.running:
                    yield unit

    def _units_for(self, name: str, facts: dict[str, Any]) -> Iterator[Unit]:
        """Units of a result that can start now: its own unit, or those it depends on."""
        if name in self.steps:
            needs = self.joins if self.steps[name].last else []
            others = [s for s in self.steps if self.steps[name].last and s != name]
            if all(n in self.ended for n in (*needs, *others)):
                yield Unit(self.job, name, facts=facts)
            return
        kind = name.removeprefix("join/")
        every = block_starts(self.job, kind, facts)
        blocks = {f"generate/{kind}/{start}": start for start in every}
        stops = dict(zip(every, [*every[1:], facts["contexts"]]))
        done = [self.ended[b] for b in blocks if self._is_done(b)]
        if len(done) == len(blocks):
            rows = max(record["facts"]["rows"] for record in done)
            yield Unit(self.job, name, facts=facts, rows=rows)
        for block, start in blocks.items():
            yield Unit(self.job, block, stops[start], facts)

    def end(self, record: Record) -> None:
        """Record the end of a unit."""
        self.running.discard(record["unit"])
        self.ended[record["unit"]] = record
        self.seconds += record["seconds"]
        # a failed block blocks the join of its kind
        if record["outcome"] != DONE and record["unit"].startswith("generate/"):
            kind = record["unit"].split("/")[1]
            self.ended[f"join/{kind}"] = {**record, "blocked": True}

    @property
    def is_over(self) -> bool:
        """Whether no unit is running or left."""
        return not self.running and next(self.next_units(), None) is None


def _is_there(folder: Path, record: Record) -> bool:
    """Whether the files of a record exist with their recorded sizes."""
    return all(_has_size(folder / name, n) for name, n in record["files"].items())


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
