"""Device sheets: the cores, clocks, caches, memory, power and cooling of a device.

A sheet is a TOML file.  Only the noise (none by default) and `shares` are optional:

    name = "tx2"
    base_power = 4.0            # [W] at all times
    shares = "renewed"          # or "fixed", "partitioned": how running tasks share; see below
    [cache]
    ways = [8, 16]              # allocations of each shared cache
    shared_by = "cluster"       # or "device": one cache for all clusters
    [memory]
    bandwidth = [700, 2100]     # [MB/s] allocations
    miss_energy = 40            # [nJ] of a miss of the last-level cache
    [thermal]
    ambient = 25                # [°C]
    resistance = 2.0            # [K/W]
    time_constant = 20          # [s]
    cap = 50                    # [°C] where clocks are stepped down
    hysteresis = 2              # [K] below it they are stepped up again
    [noise]
    run = 0.02                  # standard deviation of the logarithm of all times of a run
    task = 0.05                 # of each task
    [[cluster]]
    name = "denver"
    cores = 2
    clocks = [0.3456, 2.0352]   # [GHz]
    speed = 1.1                 # core cycles done per cycle, 1: of the profiles' processor
    dispatch = 2e-5             # [s] to start a task at the highest clock
    power = 1.3                 # [W] of a core at the highest clock that never stalls
    on_power = 0.9              # [W] of the cluster at the highest clock while a core is used
    idle_power = 0.1            # [W] of an idle core at the highest clock
    voltage = [0.8, 1.1]        # [V] at the lowest and the highest clock
    [[cluster.cache]]
    level = 1
    size = 128                  # [KiB]
    ways = 4
    line = 64                   # [B]
    cores = 1                   # that share it

A *context* is an allocation to a program: cores and clock of each cluster, ways of the caches,
bandwidth.  A running task has an equal share of its cache and of the bandwidth, among

- "renewed": the tasks that run now.  The share changes whenever a task starts or ends;
- "fixed": the tasks that ran when it started.  It keeps this share until it ends;
- "partitioned": the cores of the context, whether they are busy or idle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import numbers_of
from msbgen.core.errors import ArgumentError
from msbgen.core.records import (
    Count,
    Listed,
    Matching,
    Name,
    Within,
    check_fields,
    checks_arguments,
    record,
)
from msbgen.data.schema import same_level
from msbgen.data.shipped import shipped_folder
from msbgen.data.toml import read_toml

Floats = NDArray[np.float64]

# Ways to share cache and bandwidth; their places are the numbers that the kernels know.
Shares = Literal["renewed", "fixed", "partitioned"]
SHARES: tuple[Shares, ...] = get_args(Shares)
# Most cores of a device.
MOST_CORES = 64
# Temperatures at the start [°C].
_COLDEST, _HOTTEST = -100, 300
Cores = Annotated[int, Within(1, MOST_CORES)]
Watts = Annotated[float, Within(0, 1e6, "W")]
Levels = Annotated[tuple[float, ...], Within(0, above=True), Listed(ascending=True)]
Noise = Annotated[float, Within(0, 2)]


@dataclass(frozen=True)
class Cache:
    """A cache of a cluster: size [KiB], line [B], and the number of cores that share one such
    cache.
    """

    level: Annotated[int, Within(1, 9)]
    size: Annotated[float, Within(1, 1e9, "KiB")]
    ways: Annotated[int, Within(1, 1_000_000)]
    line: Annotated[float, Within(1, 1e6, "B")]
    cores: Cores

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Cluster:
    """Equal cores with one clock."""

    name: Annotated[str, Matching(r"[^\W\d]\w*", "a name of letters, digits and _")]
    cores: Cores
    # Ascending.
    clocks: Annotated[tuple[float, ...], Within(0.01, 20, "GHz"), Listed(ascending=True)]
    # Core cycles done per cycle; 1 is the processor that profiles were made on.
    speed: Annotated[float, Within(0, 1e3, above=True)]
    # Time to start a task at the highest clock.
    dispatch: Annotated[float, Within(0, 0.1, "s")]
    # Of a core at the highest clock that never stalls.
    power: Annotated[float, Within(0, 1e6, "W", above=True)]
    # Of the cluster while a core is used, and of an idle core, at the highest clock.
    on_power: Watts
    idle_power: Watts
    # At the lowest and the highest clock, linear between.
    voltage: Annotated[tuple[float, float], Within(0, 10, "V", above=True, below=True)]
    caches: tuple[Cache, ...] = field(default=(), metadata={"key": "cache"})

    def __post_init__(self) -> None:
        check_fields(self)
        if self.voltage[0] > self.voltage[1]:
            raise ArgumentError(f"voltage is {self.voltage}; two, ascending [V], are wanted.")

    def activity(self, clock: ArrayLike) -> Floats:
        """Dynamic power (V²f) at a clock, relative to that at the highest clock."""
        f = np.asarray(clock, dtype=float) / self.clocks[-1]
        return f * (self.volts(clock) / self.voltage[1]) ** 2

    def volts(self, clock: ArrayLike) -> Floats:
        """Voltage at a clock [V]."""
        span = self.clocks[-1] - self.clocks[0]
        share = (np.asarray(clock, dtype=float) - self.clocks[0]) / (span or 1.0)
        return self.voltage[1] + (self.voltage[1] - self.voltage[0]) * (
            share - (1.0 if span else 0.0)
        )


@dataclass(frozen=True)
class Device:
    """A device: a small computer with clusters of cores.

    Attributes
    ----------
    base_power : float
        [W]
    cache_ways : tuple of float
        Allocations of each shared cache, ascending.
    shared_by : {"cluster", "device"}
        Unit whose cores share a cache.
    bandwidth : tuple of float
        Allocations, ascending [MB/s].
    miss_energy : float
        [nJ]
    ambient, cap : float
        [°C]
    resistance : float
        [K/W]
    time_constant : float
        [s]
    hysteresis : float
        [K]
    run_noise, task_noise : float
        Standard deviations of logarithms of times.
    shares : {"renewed", "fixed", "partitioned"}
        Tasks among which cache and bandwidth are shared: those that run now, those that ran at the
        start of the task, or one for each core of the context.
    """

    name: Name
    clusters: Annotated[tuple[Cluster, ...], Listed()] = field(metadata={"key": "cluster"})
    base_power: Watts
    cache_ways: Levels = field(metadata={"key": "cache.ways"})
    shared_by: Literal["cluster", "device"] = field(metadata={"key": "cache.shared_by"})
    bandwidth: Levels = field(metadata={"key": "memory.bandwidth"})
    miss_energy: Annotated[float, Within(0, 1e9, "nJ")] = field(
        metadata={"key": "memory.miss_energy"}
    )
    ambient: Annotated[float, Within(_COLDEST, _HOTTEST, "°C")] = field(
        metadata={"key": "thermal.ambient"}
    )
    resistance: Annotated[float, Within(0, 1e6, "K/W", above=True)] = field(
        metadata={"key": "thermal.resistance"}
    )
    # with smaller time constants and hystereses, clocks would step millions of times per second
    time_constant: Annotated[float, Within(0.01, unit="s")] = field(
        metadata={"key": "thermal.time_constant"}
    )
    cap: Annotated[float, Within(_COLDEST, _HOTTEST, "°C")] = field(metadata={"key": "thermal.cap"})
    hysteresis: Annotated[float, Within(0.1, unit="K")] = field(
        metadata={"key": "thermal.hysteresis"}
    )
    run_noise: Noise = field(default=0.0, metadata={"key": "noise.run"})
    task_noise: Noise = field(default=0.0, metadata={"key": "noise.task"})
    shares: Shares = "renewed"

    def __post_init__(self) -> None:
        check_fields(self)
        names = [cluster.name for cluster in self.clusters]
        if len(set(names)) < len(names):
            raise ArgumentError(f"two clusters of '{self.name}' have one name; rename one.")
        if self.n_cores > MOST_CORES:
            raise ArgumentError(f"cores are {self.n_cores}; at most {MOST_CORES} are wanted.")
        for cluster in self.clusters:
            for cache in cluster.caches:
                if cache.cores > self.n_cores:
                    raise ArgumentError(
                        f"cluster '{cluster.name}': cores of the cache of level {cache.level} are "
                        f"{cache.cores}; at most the {self.n_cores} of the device are wanted."
                    )
        if not self.ambient < self.cap - self.hysteresis:
            raise ArgumentError(
                f"ambient is {self.ambient:g} °C and the cap {self.cap:g} °C; a cap more than the "
                f"hysteresis above ambient is wanted."
            )

    @property
    def n_cores(self) -> int:
        """Number of cores."""
        return sum(cluster.cores for cluster in self.clusters)

    @property
    def sharing(self) -> int:
        """Place in :data:`SHARES` of how tasks share cache and bandwidth."""
        return SHARES.index(self.shares)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of contexts: cores and clock of each cluster, ways, bandwidth."""
        names = [f"{what}_{c.name}" for c in self.clusters for what in ("cores", "clock")]
        return (*names, "cache_ways", "bandwidth")

    @property
    def levels(self) -> dict[str, tuple[float, ...]]:
        """Possible values of each column of contexts."""
        levels: dict[str, tuple[float, ...]] = {}
        for cluster in self.clusters:
            levels[f"cores_{cluster.name}"] = tuple(map(float, range(cluster.cores + 1)))
            levels[f"clock_{cluster.name}"] = cluster.clocks
        return {**levels, "cache_ways": self.cache_ways, "bandwidth": self.bandwidth}

    @property
    def labels(self) -> dict[str, dict[str, Any]]:
        """Attributes of each column of contexts, as those of resources in profiles."""
        labels: dict[str, dict[str, Any]] = {}
        for column, levels in self.levels.items():
            what, _, cluster = column.partition("_")
            units, text = {
                "cores": ("1", f"cores of {cluster}"),
                "clock": ("GHz", f"clock of {cluster}"),
                "cache": ("1", "ways of the shared caches"),
                "bandwidth": ("MB s-1", "memory bandwidth"),
            }[what]
            labels[column] = {"units": units, "long_name": text, "levels": list(levels)}
        return labels

    @property
    def cluster_table(self) -> Floats:
        """Of each cluster at each clock: speed [GHz], time to start a task [s], and watts.

        The watts are of the cluster, of an idle core and of a running one, (5, n_clusters,
        n_clocks); 1 where a cluster has fewer clocks than another.
        """
        table = np.ones((5, len(self.clusters), max(len(c.clocks) for c in self.clusters)))
        for i, c in enumerate(self.clusters):
            clocks = np.array(c.clocks)
            watts = np.multiply.outer([c.on_power, c.idle_power, c.power], c.activity(clocks))
            of_cluster = c.speed * clocks, c.dispatch * clocks[-1] / clocks, *watts
            table[:, i, : len(clocks)] = of_cluster
        return table

    @property
    def cooling(self) -> Floats:
        """Base power, ambient, resistance, time constant, cap and hysteresis, (6,)."""
        names = ("base_power", "ambient", "resistance", "time_constant", "cap", "hysteresis")
        return np.array([getattr(self, name) for name in names], dtype=float)

    def describe(self, context: ArrayLike) -> str:
        """Text of a context with units: ``cores_a57=4, clock_a57=2.0352 GHz``..."""
        values = np.asarray(context, dtype=float)
        return ", ".join(f"{c}={v:g}{_unit(c)}" for c, v in zip(self.columns, values))

    @property
    def largest(self) -> Floats:
        """Context with all cores at their highest clocks and all of cache and memory."""
        return np.array([levels[-1] for levels in self.levels.values()])


def _unit(column: str) -> str:
    """Unit of a column of contexts, to be written after a number."""
    return {"clock": " GHz", "bandwidth": " MB/s"}.get(column.partition("_")[0], "")


# --------------------------------------------------------------------------- contexts


@checks_arguments
def device_contexts(
    device: Device,
    *,
    cores: Mapping[str, ArrayLike] | None = None,
    clocks: Count | None = None,
    paired: bool = True,
    cache_ways: ArrayLike | None = None,
    bandwidth: ArrayLike | None = None,
) -> Floats:
    """Contexts of a device: every combination of its levels with at least one core.

    Parameters
    ----------
    cores : mapping of str to array_like
        Numbers of cores of a cluster; for clusters that are not named, all from 0 on.
    clocks : int
        Number of clocks, evenly spread over the levels; all where not given.
    paired : bool
        Whether the clocks of all clusters rise together; otherwise every combination.
    cache_ways, bandwidth : array_like
        Allocations; all of the sheet's where not given.

    Returns
    -------
    ndarray, (n_contexts, n_columns)
        Columns as ``device.columns``; the last changes fastest.

    Raises
    ------
    ArgumentError
        A cluster or level that the device does not have.
    """
    names = {cluster.name for cluster in device.clusters}
    for cluster in cores or {}:
        if cluster not in names:
            raise ArgumentError(f"'{cluster}' is no cluster of {device.name}; {sorted(names)} are.")
    numbers = [
        np.atleast_1d(np.asarray((cores or {}).get(c.name, np.arange(c.cores + 1)), dtype=float))
        for c in device.clusters
    ]
    steps = []
    for c in device.clusters:
        n = len(c.clocks) if clocks is None else min(clocks, len(c.clocks))
        steps.append(
            [c.clocks[i] for i in np.linspace(len(c.clocks) - 1, 0, n).round().astype(int)[::-1]]
        )
    if paired:
        longest = max(map(len, steps))
        places = [np.linspace(len(s) - 1, 0, longest).round().astype(int)[::-1] for s in steps]
        together = [tuple(s[i] for s, i in zip(steps, at)) for at in zip(*places)]
    else:
        together = list(product(*steps))
    ways = device.cache_ways if cache_ways is None else np.atleast_1d(cache_ways)
    flow = device.bandwidth if bandwidth is None else np.atleast_1d(bandwidth)
    rows = [
        [x for pair in zip(counts, clock) for x in pair] + [float(w), float(b)]
        for counts in product(*(n.tolist() for n in numbers))
        if sum(counts) > 0
        for clock in together
        for w in ways
        for b in flow
    ]
    return check_contexts(device, rows)


def start_temperatures(device: Device, temperature: ArrayLike | None, n: int) -> Floats:
    """Temperatures at the start in n contexts [°C], (n,), from one or n; None: ambient.

    :class:`ArgumentError`: others than one or n numbers from -100 to 300.
    """
    if temperature is None:
        return np.full(n, device.ambient)
    starts = numbers_of(temperature, "temperature")
    if starts.shape not in ((), (n,)):
        raise ArgumentError(
            f"temperature has shape {starts.shape}; one number, or one for each of {n} contexts, "
            f"is wanted."
        )
    good = (starts >= _COLDEST) & (starts <= _HOTTEST)
    if not good.all():
        raise ArgumentError(
            f"temperature is {starts[~good][0]:g} °C; a number from {_COLDEST} to {_HOTTEST} is "
            f"wanted."
        )
    return np.full(n, starts, dtype=float)


def check_contexts(device: Device, contexts: ArrayLike) -> Floats:
    """Contexts with each value replaced by the nearest equal level, (n_contexts, n_columns).

    :class:`ArgumentError`: another number of columns, a value that is no level, a context without a
    core.
    """
    table = np.array(numbers_of(contexts, "contexts", device.columns), ndmin=2)
    if table.ndim != 2 or table.shape[1] != len(device.columns) or len(table) == 0:
        raise ArgumentError(
            f"contexts have shape {np.shape(contexts)}; a row each of {', '.join(device.columns)} "
            f"is wanted."
        )
    for column, (what, levels) in zip(table.T, device.levels.items()):
        table_levels = np.array(levels)
        nearest = table_levels[np.abs(column[:, None] - table_levels).argmin(axis=1)]
        off = ~(same_level(column, nearest) | (column == nearest))
        if off.any():
            raise ArgumentError(
                f"{what} is {column[off][0]:g} in context {int(off.argmax())}, no level of "
                f"{device.name}; one of {', '.join(f'{v:g}' for v in levels)}{_unit(what)} is "
                f"wanted."
            )
        column[:] = nearest
    n_cores = table[:, : 2 * len(device.clusters) : 2].sum(axis=1)
    if not np.all(n_cores > 0):
        raise ArgumentError(
            f"context {int(np.argmin(n_cores))} has no core; at least one of a cluster is wanted."
        )
    return table


# --------------------------------------------------------------------------- files


def read_device(path: str | os.PathLike[str]) -> Device:
    """Read a device sheet.

    Raises
    ------
    ProfileError
        No such file, no TOML, a missing or unknown key, a value out of range.
    """
    path, content = read_toml(path)
    return record(Device, content, path.name)


def shipped_device(sheet: str) -> Device:
    """Device of a sheet that ships: ``tx2``, ``orin-nx``, ``rubik-pi``.

    Raises
    ------
    ArgumentError
        No such sheet; the message names those that ship.

    Examples
    --------
    >>> [(cluster.name, cluster.cores) for cluster in shipped_device("tx2").clusters]
    [('denver', 2), ('a57', 4)]
    """
    names = sorted(path.stem for path in (shipped_folder() / "devices").glob("*.toml"))
    if sheet not in names:
        raise ArgumentError(
            f"device is '{sheet}'; one of {', '.join(names)}, or a sheet of your own, is wanted."
        )
    return read_device(shipped_folder() / "devices" / f"{sheet}.toml")
