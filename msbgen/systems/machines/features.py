"""Features of a run on one machine: its counters, configuration and time.

As in Table III of the paper: shares of instructions by kind (branches, loads, …), other counters
per instruction, nodes, configuration and machine.  Beyond the paper: logarithms, and the time on
the machine, as such and per instruction.  Trees use all columns alike; kriging uses them by kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.arrays import Stored
from msbgen.core.errors import MeasurementError, quoted
from msbgen.core.parts import Given
from msbgen.systems.machines import dataset

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KrigingFeatures:
    """Features of n runs on one machine, separated by kind, for kriging."""

    # (n, d), shares, counters and nodes
    counters: Annotated[NDArray[np.floating[Any]], Stored(("n", "d"), dtype="f4")]
    # (n,), log work, and log time per unit of work on the source; 0 where it is not used
    work: Annotated[Floats, Stored(("n",))]
    time: Annotated[Floats, Stored(("n",))]
    # (n,), -1 for an unknown configuration
    configuration: Annotated[NDArray[np.int64], Stored(("n",), dtype="i8", below="configuration")]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored features of training runs."""
        if not len(self.work):
            yield "work", "empty", "one run or more"

    def some(self, rows: NDArray[np.int64] | slice) -> KrigingFeatures:
        """Features of some runs."""
        return KrigingFeatures(
            self.counters[rows], self.work[rows], self.time[rows], self.configuration[rows]
        )


# Counters are per so many units of work, so that log1p keeps events as rare as one in a million.
_PER = 1e6


@dataclass(frozen=True)
class FeatureMap:
    """Map from runs to features: counters, groups, configurations and values for gaps."""

    machines: Annotated[tuple[str, ...], Given("machines_")]  # names of all machines
    # names of counters, their units, and names of the groups whose counters are summed
    counters: tuple[str, ...]
    units: tuple[str, ...]
    groups: tuple[str, ...]
    group_of: tuple[str, ...]  # group of each counter
    work: str  # the counter that measures the work of a run; empty where there is none
    configurations: tuple[str, ...]
    per_machine: bool  # whether counters differ between machines
    # (n_machines, n_counters + n_groups), medians, which replace missing counters
    fill: Annotated[Floats, Stored(("fill", "column"))]
    # columns of :meth:`program` that vary
    kept: Annotated[NDArray[np.bool_], Stored(("kept",), dtype="bool")]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored features."""
        for of in ("counters", "groups", "configurations"):
            if len(set(getattr(self, of))) < len(getattr(self, of)):
                yield of, "with a name twice", "one of distinct names"
        for of in ("units", "group_of"):
            if len(getattr(self, of)) != len(self.counters):
                yield of, f"of {len(getattr(self, of))}", f"one for each of {len(self.counters)}"
        if self.work and self.work not in self.counters:
            yield "work", quoted(self.work), "one of the counters"
        shape = (len(self.machines) if self.per_machine else 1, self._n_columns)
        if self.fill.shape != shape:
            yield "fill", f"of shape {self.fill.shape}", str(shape)
        if len(self.kept) != (columns := self._n_columns + len(self.configurations) + 1):
            yield "kept", f"of {len(self.kept)}", str(columns)

    @property
    def _n_columns(self) -> int:
        """Number of counters and groups."""
        return len(self.counters) + len(self.groups)

    @property
    def n_by_kind(self) -> int:
        """Columns of the counters of :meth:`by_kind`."""
        return int(self.kept[: self._n_columns].sum() + self.kept[-1])

    def check_units(self, runs: xr.Dataset) -> None:
        """Raise :class:`MeasurementError` for counters in other units than those of the fit."""
        given = dataset.counter_units_of(runs)
        for name, unit in zip(self.counters, self.units):
            if given.get(name, unit) != unit:
                raise MeasurementError(
                    f"counter '{name}' is in '{given[name]}', and was learned in '{unit}'; give it "
                    f"in that."
                )

    def program(self, runs: xr.Dataset, source: str) -> Floats:
        """Features without the time, (n, d), counted on `source`."""
        return self._all(runs, source)[:, self.kept]

    @property
    def names(self) -> list[str]:
        """Names of the columns of :meth:`program`."""
        names = [f"share of {group}" for group in self.groups] + [*self.counters]
        names += [f"configuration {name}" for name in self.configurations] + ["nodes"]
        return [name for name, kept in zip(names, self.kept) if kept]

    @property
    def timed_names(self) -> list[str]:
        """Names of the columns of :meth:`timed`."""
        per_work = [f"time per {self.work}"] if self.work else []
        return [*self.names, "time", *per_work]

    def timed(self, runs: xr.Dataset, source: str, log: Floats) -> Floats:
        """Features with the log time on `source`, as such and per unit of work, (n, d')."""
        time = log[:, None]
        per_work = [time - self.log_work(runs, source)[:, None]] if self.work else []
        return np.hstack([self.program(runs, source), time, *per_work])

    def by_kind(self, runs: xr.Dataset, source: str, log: Floats | None) -> KrigingFeatures:
        """Features separated by kind, with the log time on `source` where it is given."""
        first = len(self.groups) + len(self.counters)
        word = np.zeros(len(self.kept), dtype=bool)
        word[first : first + len(self.configurations)] = True
        words, work = self.words(runs), self.log_work(runs, source)
        return KrigingFeatures(
            counters=self.program(runs, source)[:, ~word[self.kept]],
            work=work,
            time=np.zeros(len(work)) if log is None else log - work,
            configuration=np.where(words.any(axis=1), words.argmax(axis=1), -1),
        )

    def words(self, runs: xr.Dataset) -> Floats:
        """Indicators of configurations, (n, n_configurations)."""
        words = dataset.words_of(runs, "configuration")
        return (words[:, None] == np.array(self.configurations, dtype=str)[None]).astype(float)

    def where(self, source: str, runs: xr.Dataset) -> Floats:
        """Indicators of the source machine, (n, n_machines)."""
        return np.tile(np.array(self.machines) == source, (runs.sizes["run"], 1)).astype(float)

    def log_work(self, runs: xr.Dataset, source: str) -> Floats:
        """Logarithm of the work of every run, 0 without a counter of work, (n,)."""
        if not self.work:
            return np.zeros(runs.sizes["run"])
        work = self._counters(runs, source)[:, self.counters.index(self.work)]
        bad = ~(work > 0)
        if bad.any():
            row = int(np.argmax(bad))
            raise MeasurementError(
                f"run {row}, of program '{dataset.words_of(runs, 'program')[row]}', has "
                f"{work[row]:g} {self.work} on machine '{source}'; a positive number is wanted: "
                f"count it again or drop the run."
            )
        return np.log(work)

    def _counters(self, runs: xr.Dataset, source: str) -> Floats:
        """Counters in the order of the fit, NaN where the runs lack one, (n, n_counters)."""
        there, table = dataset.counter_names_of(runs), dataset.counters_of(runs, source)
        missing = np.full(runs.sizes["run"], np.nan)
        columns = [table[:, there.index(c)] if c in there else missing for c in self.counters]
        return np.stack(columns, axis=1) if columns else np.empty((runs.sizes["run"], 0))

    def _rates(self, runs: xr.Dataset, source: str) -> Floats:
        """Shares of the groups, and logarithms of the counters per unit of work."""
        counts = self._counters(runs, source)
        work = np.exp(self.log_work(runs, source))[:, None]
        with np.errstate(over="ignore"):  # infinite rates are filled in like missing ones
            per = np.log1p((_PER if self.work else 1.0) * counts / work)
        if self.work:
            per[:, self.counters.index(self.work)] = np.log(work[:, 0])
        shares = np.empty((len(counts), len(self.groups)))
        for k, group in enumerate(self.groups):
            members = counts[:, np.array(self.group_of) == group]
            with np.errstate(over="ignore"):
                shares[:, k] = np.nansum(members, axis=1) / work[:, 0]
            shares[np.isnan(members).all(axis=1), k] = np.nan
        return np.hstack([shares, per])

    def _all(self, runs: xr.Dataset, source: str) -> Floats:
        rates = self._rates(runs, source)
        if self.fill.size:
            median = self.fill[self.machines.index(source) if self.per_machine else 0]
            rates = np.where(np.isfinite(rates), rates, median)
        nodes = np.log(runs["nodes"].values.astype(float))[:, None]
        return np.hstack([rates, self.words(runs), nodes])


def learn_features(runs: xr.Dataset) -> FeatureMap:
    """Feature map of training runs (``msbgen-relative/1``)."""
    names, machines = dataset.counter_names_of(runs), dataset.machines_of(runs)
    group_of = [str(g) for g in runs["group"].values] if names else []
    work = str(runs.attrs.get("work", ""))
    # shares need work, and a group of one counter equals the counter
    many = {group for group in group_of if group_of.count(group) > 1} if work else set()
    per_machine = bool(names) and "machine" in runs["counters"].dims
    shape = {
        "machines": tuple(machines),
        "counters": tuple(names),
        "units": tuple(dataset.counter_units_of(runs).values()),
        "groups": tuple(sorted(many)),
        "group_of": tuple(group_of),
        "work": work,
        "configurations": tuple(np.unique(dataset.words_of(runs, "configuration")).tolist()),
        "per_machine": per_machine,
    }
    columns = len(many) + len(names)
    plain = FeatureMap(**shape, fill=np.empty((0, 0)), kept=np.empty(0, dtype=bool))
    fills, tables = [], []
    for source in machines if per_machine else machines[:1]:
        ran = np.isfinite(dataset.runtimes_of(runs)[:, machines.index(source)]) | (not per_machine)
        rates = plain._rates(runs.isel(run=np.flatnonzero(ran)), source)
        known = np.isfinite(rates)
        middle = np.array([np.median(c[k]) if k.any() else 0.0 for c, k in zip(rates.T, known.T)])
        fills.append(middle)
        tables.append(np.where(known, rates, middle))
    fill = np.array(fills).reshape(len(fills), columns)
    words = len(shape["configurations"])
    varies = [*(np.ptp(np.vstack(tables), axis=0) > 0), *[words > 1] * words]
    varies = np.array([*varies, np.ptp(runs["nodes"].values) > 0])
    varies[-1] |= not varies.any()  # one column at least
    return FeatureMap(**shape, fill=fill, kept=varies)
