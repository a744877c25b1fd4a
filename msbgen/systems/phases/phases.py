"""Phases of a task: segments of progress with nearly constant rates in every context.

Let x(p) be the logarithms of all counters' rates in all contexts at progress p, averaged over the
runs and cut into fine bins.  The phases minimise

    Σ_phases [Σ_{p in phase} |x(p) − mean of x over the phase|² + penalty]

over all segmentations (optimal partitioning, Jackson et al. 2005), |·|² being the mean over
contexts and counters, on its leading components.  All contexts have the same segmentation, so that
a decision reads the same row of every table.  The rate of a phase in a context is its count divided
by its time, so that durations are kept exactly.
"""

import os
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import msbgen.systems.phases._kernels as _kernels
from msbgen.core.errors import ProfileError
from msbgen.core.records import Within, checks_arguments
from msbgen.data.check import checked_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    file_of,
    resource_names,
)
from msbgen.data.variables import POSITIVE, Schema, Variable
from msbgen.systems.phases.grid import Grid, Resource
from msbgen.systems.phases.stretches import cut_runs

Floats = NDArray[np.float64]

PHASES_SCHEMA = "msbgen-phases/1"

# Bins of progress, of which phases are made.
_BINS = 256
# Leading components of the log rates that are used.
_COMPONENTS = 8
# Added to rates, relative to a counter's mean rate: rarer events make no phase.
_FLOOR = 0.1
# Largest resolution; log rates do not differ by more.
_COARSEST = 1000.0
# Penalty against cuts that only fit noise, in σ² log(bins).
_CHANCE = 4.0


@checks_arguments
def phase_table(
    profiles: xr.Dataset, *, resolution: Annotated[float, Within(0, _COARSEST, above=True)] = 0.01
) -> xr.Dataset:
    """Phase table of a task: its rates in each phase and every context.

    Parameters
    ----------
    profiles : xarray.Dataset
        Profiles of every context of a platform: measured, generated or interpolated; with runs,
        samples, or one profile per context.
    resolution : float
        Least change of the log rates that makes a phase, as root mean square over contexts and
        counters: a further phase must have change² × share of progress ≥ resolution².

    Returns
    -------
    xarray.Dataset
        Schema ``msbgen-phases/1``: dims ``phase`` and one for each resource.  ``end``: progress
        at which a phase ends; ``speed``: progress per second [s-1]; one variable per counter, its
        rate [s-1].  Attribute ``work``: what the progress counter counts in the whole task.

    Raises
    ------
    ProfileError
        The dataset breaks the contract, contexts of its grid are missing, or counts of a second are
        beyond single precision.
    MeasurementError
        The progress counter counted nothing in a context.

    Notes
    -----
    A second for 4,560 contexts with ten runs of half a second each.
    """
    return make_table(checked_profiles(profiles, source=file_of(profiles), part=True), resolution)


def make_table(profiles: Profiles, resolution: float = 0.01) -> xr.Dataset:
    """Phase table of valid profiles; result and errors as :func:`phase_table`."""
    profiles.check_timed("a phase table")
    grid, clock = Grid.of(profiles), profiles.clock_name
    amounts, total = cut_runs(profiles, grid, _BINS, ("time", *profiles.counters))
    seconds, *counts = (a.mean(axis=1, dtype=float) for a in amounts)
    del amounts
    ends = _segment(seconds, counts, resolution)
    first = np.concatenate([[0], ends[:-1]])
    lasting = np.add.reduceat(seconds, first, axis=1)  # (contexts, phases)
    if not np.all(lasting > 0):
        place = grid.describe(grid.contexts[int(np.argmin((lasting > 0).all(axis=1)))])
        raise ProfileError(
            f"{profiles.source}: a phase takes no time in {place}; counts that come with time "
            f"are wanted."
        )
    dims = ("phase", *grid.names)

    def rate(amount: Floats, long_name: str, **attrs: str) -> Any:
        per_second = amount / lasting
        odd = ~(np.abs(per_second) <= np.finfo(np.float32).max).all(axis=1)
        if odd.any():
            raise ProfileError(
                f"{profiles.source}: the {long_name} is {per_second[odd].max():g} s-1 in "
                f"{grid.describe(grid.contexts[int(odd.argmax())])}; correct the counts there."
            )
        label = {"units": "s-1", "long_name": long_name, **attrs}
        return dims, per_second.T.reshape(len(ends), *grid.shape).astype(np.float32), label

    progress = np.diff(ends, prepend=0) / _BINS
    variables = {"speed": rate(progress, "progress per second")}
    for (name, own), amount in zip(profiles.counters.items(), counts):
        label = f"rate of {own.get('long_name', name)}"
        variables[name] = rate(np.add.reduceat(amount, first, axis=1), label, role="counter")
    coords: dict[str, Any] = {
        "end": ("phase", ends / _BINS, {"units": "1", "long_name": "progress at the phase's end"})
    }
    for r in grid.resources:
        label = {"units": r.units, "long_name": r.long_name, "role": "resource"}
        coords[r.name] = (r.name, np.array(r.levels), label)
    work = float(total[total > 0].mean()) if clock != "time" else 1.0
    attrs = {**profiles.inherited_attrs, "schema": PHASES_SCHEMA, "progress": clock, "work": work}
    return xr.Dataset(variables, coords=coords, attrs=attrs)


def _segment(seconds: Floats, counts: list[Floats], resolution: float) -> NDArray[np.int64]:
    """Ends of the phases, in bins; from (contexts, bins) of time and of each counter."""
    small = 1e-9 * seconds.mean()
    pace = np.log(seconds + small)
    logs = [
        np.log(amount + _FLOOR * amount.mean() + np.finfo(float).tiny) - pace for amount in counts
    ]
    x = np.concatenate(logs or [-pace]).T  # (bins, features)
    x = (x - x.mean(axis=0)) / np.sqrt(x.shape[1])
    # leading components: with x = U S V', the scores U S, from the products of bins alone
    variance, vectors = np.linalg.eigh(x @ x.T)
    leading = slice(-_COMPONENTS, None)
    scores = vectors[:, leading] * np.sqrt(np.maximum(variance[leading], 0.0))
    jumps = np.diff(scores, axis=0) ** 2
    # a robust variance: half the median squared difference is 0.227 σ² of Gaussian noise
    noise = np.median(jumps, axis=0).sum() / (2 * 0.455)
    bins = len(scores)
    penalty = bins * resolution**2 + _CHANCE * noise * np.log(bins)
    cost, start = np.empty(bins + 1), np.zeros(bins + 1, dtype=np.int64)
    _kernels.change_points(np.ascontiguousarray(scores), penalty, cost, start)
    ends = [bins]
    while start[ends[-1]] > 0:
        ends.append(int(start[ends[-1]]))
    return np.array(ends[::-1], dtype=np.int64)


def validate_phases(table: xr.Dataset, *, source: str = "table") -> xr.Dataset:
    """Return the dataset if it is a phase table; :class:`ProfileError` names every problem."""
    return SCHEMA.validate(table, source)


def _problems(table: xr.Dataset) -> Iterator[str]:
    """Sentences about resources, dimensions and the progress at the end of the phases."""
    names = resource_names(table)
    speed, end = table["speed"], np.asarray(table["end"].values, dtype=float)
    if not names or set(speed.dims) != {"phase", *names} or speed.size == 0:
        yield f"'speed' has dimensions {list(speed.dims)}; phase and each resource are wanted."
    for name in names:
        if table[name].dims != (name,) or table[name].dtype.kind not in "iuf":
            yield f"resource '{name}' has no levels that are numbers; make the table again."
        elif not np.all(np.diff(table[name].values.astype(float)) > 0):
            yield f"levels of '{name}' do not ascend; make the table again."
    if not np.all(np.diff(end, prepend=0.0) > 0) or abs(end[-1] - 1.0) > 1e-9:
        yield "'end' does not ascend to 1; make the table again."
    work = table.attrs.get("work")
    if not isinstance(work, (int, float, np.number)) or not 0 < work < np.inf:
        yield f"attribute 'work' is {work!r}; a positive number is wanted."


_AGAIN = "make the table again (msbgen realtime phases)"
SCHEMA = Schema(
    PHASES_SCHEMA,
    "a phase table: make the table of profiles first (msbgen realtime phases)",
    ("phase",),
    (
        Variable("end", ("phase",), coordinate=True, least=POSITIVE, remedy=_AGAIN),
        Variable("speed", ("phase", "..."), least=POSITIVE, any_order=True, remedy=_AGAIN),
        Variable("", ("...",), coordinate=True, role="resource"),
    ),
    check=_problems,
    remedy=_AGAIN,
    compression=4,
)


def table_grid(table: xr.Dataset) -> Grid:
    """Grid of a phase table."""
    names = [str(d) for d in table["speed"].dims if d != "phase"]
    return Grid(tuple(Resource.of(n, table[n].values, table[n].attrs) for n in names))


def read_phases(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a phase table, whole; errors as :meth:`Schema.read`."""
    return SCHEMA.read(path)


def write_phases(
    table: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write a phase table, whole or not at all; errors as :meth:`Schema.write`."""
    SCHEMA.write(table, path, overwrite=overwrite)
