"""Where `find` gets its runs: a table that is replayed, the virtual platform, or this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.contexts import combinations_of
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.data.profiles import Profiles
from msbgen.data.schema import same_level
from msbgen.data.store import read_profiles
from msbgen.data.tables import write_table
from msbgen.sources.measure.sweep.measure import measure
from msbgen.sources.measure.sweep.spec import Spec
from msbgen.sources.platform.replay import replay_trace

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class Source(Protocol):
    """What can be measured.

    Attributes
    ----------
    contexts : ndarray, (n, m)
        The contexts that may be measured, and chosen.
    names : tuple of str
        Their resources.
    """

    contexts: Floats
    names: tuple[str, ...]

    def measure(self, rows: Indices, runs: Indices, progress: OnProgress | None) -> xr.Dataset:
        """Measure `runs` more runs in some contexts, and return all runs so far."""
        ...


def kept_rows(contexts: Floats, names: Sequence[str], fixed: Mapping[str, float]) -> Indices:
    """Rows of the contexts with the fixed levels; ArgumentError where there are none."""
    unknown = [name for name in fixed if name not in names]
    if unknown:
        raise ArgumentError(
            f"'{unknown[0]}' is fixed, but no resource; one of {', '.join(names)} is wanted."
        )
    kept = np.ones(len(contexts), dtype=bool)
    for name, level in fixed.items():
        kept &= same_level(contexts[:, names.index(name)], level)
    if not kept.any():
        shown = ", ".join(f"{name}={level:g}" for name, level in fixed.items())
        raise ArgumentError(f"no context has {shown}; levels of the resources are wanted.")
    return np.flatnonzero(kept)


class Table:
    """Runs of a profile dataset, taken in their order, as if they were measured now."""

    def __init__(self, dataset: xr.Dataset, fixed: Mapping[str, float]):
        profiles = Profiles.of(dataset)
        self.names = tuple(profiles.resources)
        rows = kept_rows(profiles.contexts, self.names, fixed)
        self.contexts = profiles.contexts[rows]
        self._dataset = dataset.isel(context=rows)
        self._there = np.isfinite(profiles.duration[rows])
        self._taken = np.zeros(len(rows), dtype=np.int64)

    def measure(self, rows: Indices, runs: Indices, progress: OnProgress | None) -> xr.Dataset:
        """As :meth:`Source.measure`; fewer runs where the table has no more."""
        self._taken[rows] += runs
        np.minimum(self._taken, self._there.sum(axis=1), out=self._taken)
        used = np.flatnonzero(self._taken)
        if not len(used):
            raise MeasurementError("the table has no run of these contexts.")
        number = np.where(self._there, self._there.cumsum(axis=1), self._there.shape[1] + 1)
        kept = (number <= self._taken[:, None])[used]
        mask = xr.DataArray(kept, dims=("context", "run"))
        with xr.set_options(keep_attrs=True):
            part = self._dataset.isel(context=used).where(mask)
        return part.isel(run=np.flatnonzero(kept.any(axis=0)))


class Virtual:
    """The virtual platform with a recorded trace."""

    def __init__(
        self, trace: xr.Dataset, contexts: Floats, names: Sequence[str],
        fixed: Mapping[str, float], seed: int,
    ):  # fmt: skip
        self.names = tuple(names)
        self.contexts = contexts[kept_rows(contexts, self.names, fixed)]
        self._trace, self._seed = trace, seed
        self._taken = np.zeros(len(self.contexts), dtype=np.int64)

    def measure(self, rows: Indices, runs: Indices, progress: OnProgress | None) -> xr.Dataset:
        """As :meth:`Source.measure`."""
        self._taken[rows] += runs
        used = np.flatnonzero(self._taken)
        return replay_trace(
            self._trace, self.contexts[used], self._taken[used], rng=self._seed, progress=progress
        )


class Machine:
    """This machine, by a spec: every step is a sweep, which resumes where it was interrupted."""

    def __init__(self, spec: Spec, folder: Path, fixed: Mapping[str, float]):
        self._spec, self._folder = spec, folder
        self.names = tuple(resource.name for resource in spec.resources)
        every = combinations_of([resource.levels for resource in spec.resources])
        self.contexts = every[kept_rows(every, self.names, fixed)]
        self._step = 0

    def measure(self, rows: Indices, runs: Indices, progress: OnProgress | None) -> xr.Dataset:
        """As :meth:`Source.measure`; a step that is there is read, not measured again."""
        self._step += 1
        plan, out = (self._folder / f"step-{self._step}.{kind}" for kind in ("csv", "nc"))
        before = self._folder / f"step-{self._step - 1}.nc" if self._step > 1 else None
        if out.exists():
            return read_profiles(out)
        if not plan.exists():
            levels = [
                [resource.text(level) for resource, level in zip(self._spec.resources, context)]
                for context in self.contexts[rows].tolist()
            ]
            table = [[*each, n] for each, n in zip(levels, runs.tolist())]
            write_table([[*self.names, "runs"], *table], plan, overwrite=False)
        resume = out.with_suffix(".journal").exists()
        found = measure(
            replace(self._spec, contexts=str(plan.resolve())), out, first=before, resume=resume,
            progress=progress,
        )  # fmt: skip
        return next(iter(found.datasets.values()))
