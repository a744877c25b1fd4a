"""Time and energy of programs in contexts, as arrays, from any dataset.

Tables of kernels, measured profiles and generated profiles all become the same arrays.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.conformal import conformal_quantile, groups_needed
from msbgen.core.errors import ArgumentError
from msbgen.data.schema import resource_names
from msbgen.systems.kernels.dataset import (
    KERNELS_SCHEMA,
    configurations_of,
    family_of,
    has_power,
    kernels_of,
    measured_table,
    parameter_names,
    powers_of,
    runtimes_of,
)
from msbgen.systems.kernels.readers import from_profiles as kernels_from_profiles

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Costs:
    """Time and energy of programs in contexts.

    Attributes
    ----------
    programs : tuple of str
        Different names.
    families : tuple of str
        Programs of one family are left out together: variants of one network, for example.
    resources, units : tuple of str
    contexts : ndarray, (n, m)
        Different rows, in the order of `resources`.
    time, energy : ndarray, (p, n)
        Of one run [s], [J]; NaN where not measured.  A time without an energy counts as not
        measured.
    runs : mapping of (str, int) to ndarray, (2, r)
        Time [s] and energy [J], NaN without a meter, of each run, by program and number of the
        context.  Where there are none, `time` and `energy` are those of a single run.
    """

    programs: tuple[str, ...]
    families: tuple[str, ...]
    resources: tuple[str, ...]
    units: tuple[str, ...]
    contexts: Floats
    time: Floats
    energy: Floats
    runs: Mapping[tuple[str, int], Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        p, (n, m) = len(self.programs), self.contexts.shape
        shapes = (len(self.families), len(self.resources), len(self.units))
        if shapes != (p, m, m) or self.time.shape != (p, n) or self.energy.shape != (p, n):
            raise ArgumentError(
                f"time has shape {self.time.shape}, energy {self.energy.shape}, contexts "
                f"{self.contexts.shape}; a family and a row per program, here {p}, a column per "
                f"context, and a unit per resource are wanted."
            )
        if len(set(self.programs)) < p or len(np.unique(self.contexts, axis=0)) < n:
            raise ArgumentError("a program or a context comes twice; each is wanted once.")
        for name, values in (("time", self.time), ("energy", self.energy)):
            with np.errstate(invalid="ignore"):
                bad = ~np.isnan(values) & ~((values > 0) & (values < np.inf))
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise ArgumentError(
                    f"{name} of '{self.programs[row]}' is {values[row, column]:g} in "
                    f"{self.describe(column)}; a positive number is wanted, or NaN where it "
                    f"was not measured."
                )

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Whether time and energy were measured, (p, n)."""
        return np.isfinite(self.time) & np.isfinite(self.energy)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of resources with their units, as in the header of a table."""
        units = zip(self.resources, self.units)
        return tuple(name if unit == "1" else f"{name} [{unit}]" for name, unit in units)

    @property
    def power(self) -> Floats:
        """Mean power [W], (p, n)."""
        return self.energy / self.time

    def take(self, rows: ArrayLike) -> Costs:
        """Some of the programs, by their rows."""
        at = np.atleast_1d(np.asarray(rows, dtype=np.int64))
        names, families = ([words[i] for i in at] for words in (self.programs, self.families))
        return replace(
            self,
            programs=tuple(names),
            families=tuple(families),
            time=self.time[at],
            energy=self.energy[at],
        )

    def without(self, families: Sequence[str]) -> Costs:
        """The programs of other families."""
        return self.take([i for i, family in enumerate(self.families) if family not in families])

    def only(self, contexts: ArrayLike) -> Costs:
        """The same programs, measured only in some contexts, by their numbers."""
        kept = np.zeros(len(self.contexts), dtype=bool)
        kept[np.asarray(contexts, dtype=np.int64)] = True
        return replace(
            self, time=np.where(kept, self.time, np.nan), energy=np.where(kept, self.energy, np.nan)
        )

    def with_measurement(self, context: int, time: float, energy: float) -> Costs:
        """The same programs with a time [s] and an energy [J] set in one context."""
        times, joules = self.time.copy(), self.energy.copy()
        times[:, context], joules[:, context] = time, energy
        rest = {
            at: runs
            for at, runs in self.runs.items()
            if at[1] != context or at[0] not in self.programs
        }
        return replace(self, time=times, energy=joules, runs=rest)

    def runs_of(self, row: int, context: int) -> Floats:
        """Time [s] and energy [J] of each run of a program in a context, (2, r)."""
        single = np.array([[self.time[row, context]], [self.energy[row, context]]])
        return self.runs.get((self.programs[row], context), single)

    def bounds_of_runs(self, row: int, miscoverage: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Upper bounds of a program from its own runs in each context.

        Returns
        -------
        ndarray, (3, n)
            Time [s], energy [J] and power [W] that a new run exceeds with a probability of at most
            `miscoverage`: the conformal quantile of the runs in the context.  Of too few runs it is
            the largest.  NaN where the program was not measured.
        ndarray of bool, (3, n)
            Whether the runs are enough: n + 1 ≥ 1/miscoverage.
        """
        needed, bounds = groups_needed(miscoverage), np.full((3, len(self.contexts)), np.nan)
        enough = np.zeros(bounds.shape, dtype=bool)
        for context in np.flatnonzero(self.measured[row]).tolist():
            time, energy = self.runs_of(row, context)
            for k, every in enumerate((time, energy, energy / time)):
                runs = every[np.isfinite(every)]
                bound = conformal_quantile(runs, np.ones(len(runs)), len(runs), miscoverage)
                bounds[k, context], enough[k, context] = bound, len(runs) >= needed
        return bounds, enough

    def row(self, program: str) -> int:
        """Row of a program; :class:`ArgumentError` with the nearest name where there is none."""
        if program not in self.programs:
            near = difflib.get_close_matches(program, self.programs, 1)
            some = ", ".join(self.programs[:8]) + (", …" if len(self.programs) > 8 else "")
            hint = f"did you mean '{near[0]}'?" if near else f"one of {some} is wanted."
            raise ArgumentError(f"program is {program!r}; {hint}")
        return self.programs.index(program)

    def describe(self, context: int) -> str:
        """Text of a context: ``power_limit=150 W``."""
        parts = []
        for name, units, level in zip(self.resources, self.units, self.contexts[context]):
            parts.append(f"{name}={level:g}{'' if units in ('', '1') else f' {units}'}")
        return ", ".join(parts)


def costs_of(
    dataset: xr.Dataset | Sequence[xr.Dataset], *, assumed_power: float | None = None
) -> Costs:
    """Time and energy of the programs of a dataset.

    Parameters
    ----------
    dataset : xarray.Dataset, or a sequence of them
        Measurements of kernels with a power (:mod:`msbgen.kernels.dataset`): each kernel is a
        program, named by its kind, with its parameters where kinds have several.  Or profiles of
        tasks over the same resources, measured or generated, with a counter in joules: each task
        is a program.  `time` and `energy` are medians over runs, sessions and nodes.
    assumed_power : float, optional
        Power [W] of all measurements if none has a power: then the times alone tell programs
        apart, which is enough for choices by time.

    Raises
    ------
    ArgumentError
        No measurement has a power and none is assumed; profiles without a task, or of other
        resources.
    """
    if not isinstance(dataset, xr.Dataset):
        return costs_of(kernels_from_profiles(list(dataset)), assumed_power=assumed_power)
    if str(dataset.attrs.get("schema")) != KERNELS_SCHEMA:
        return costs_of([dataset], assumed_power=assumed_power)
    kernels = kernels_of(dataset)
    contexts, at = configurations_of(dataset)
    seconds = runtimes_of(dataset)
    if assumed_power is None or has_power(dataset):
        watts = powers_of(dataset)
    else:
        watts = np.full(len(seconds), float(assumed_power))
    time, power = (measured_table(dataset, values) for values in (seconds, watts))
    resources = tuple(resource_names(dataset))
    programs = _names(kernels.kind, kernels.parameters, parameter_names(dataset))
    return Costs(
        programs=programs,
        families=tuple(family_of(str(kind)) for kind in kernels.kind),
        resources=resources,
        units=tuple(str(dataset[name].attrs["units"]) for name in resources),
        contexts=contexts,
        time=time,
        energy=time * power,
        runs=_runs(programs, kernels.of, at, np.stack([seconds, seconds * watts])),
    )


def _runs(
    programs: Sequence[str], program: Indices, context: Indices, costs: Floats
) -> dict[tuple[str, int], Floats]:
    """Times and energies (2, n) by program and context that have several."""
    cells = np.stack([program, context], axis=1)
    pairs, of, count = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    parts = np.split(np.argsort(of.reshape(-1), kind="stable"), np.cumsum(count)[:-1])
    several = ((pair, rows) for pair, rows in zip(pairs, parts) if len(rows) > 1)
    return {(programs[int(i)], int(j)): costs[:, rows] for (i, j), rows in several}


def _names(kind: NDArray[np.str_], parameters: Floats, columns: Sequence[str]) -> tuple[str, ...]:
    """Names of kernels: their kinds, with the parameters that differ within a kind."""
    words = [str(word) for word in kind]
    names = []
    for word, row in zip(words, parameters):
        differing = [
            f"{name}={value:g}"
            for name, value, column in zip(columns, row, parameters.T)
            if np.isfinite(value) and len(np.unique(column[kind == word])) > 1
        ]
        names.append(f"{word} {','.join(differing)}" if differing else word)
    return tuple(names)
