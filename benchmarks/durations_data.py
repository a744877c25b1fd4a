"""Public tables of durations by setting, their splits into known and asked settings.

The tables do not ship.  Each set is a folder in the folder of ``--data``, with the files of its
repository.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import msbgen

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Runs by setting: levels of the resources, and durations.
Runs = dict[tuple[float, ...], list[float]]

# A table with fewer settings is left out.
LEAST_SETTINGS = 8
# Known settings of a table of one resource.
KNOWN = 6
# Known settings of a grid besides its corners, at least.
LEAST_INNER = 4
GPUS = ("a40", "v100", "p100", "rtx6000")
# Repository and licence of each set, by its folder.
SETS = {
    "openmp-time-energy": "github.com/dloghin/multicores-time-energy, CC BY 4.0",
    "pbbcache": "github.com/pbbcache/cachesim, GPL-3.0",
    "jetson": "github.com/emwjacobson/JetsonEfficiencyTesting, no licence stated",
    "zeus": "github.com/ml-energy/zeus, Apache-2.0",
}


@dataclass(frozen=True, eq=False)
class Table:
    """Durations of one program on one machine."""

    group: str
    resources: tuple[str, ...]
    levels: Floats  # (n, m)
    runs: tuple[Floats, ...]  # n times (runs,): durations [s]

    @property
    def mean(self) -> Floats:
        """Mean durations (n,) [s]."""
        return np.array([runs.mean() for runs in self.runs])

    def split(self, seed: int) -> tuple[Indices, Indices]:
        """Known and asked settings, which lie between the known levels; seed 0 is the first split.

        Of one resource, both ends are known and four others: evenly spread in the first split, else
        drawn.  Of a grid, its corners are known and others drawn, half of all.
        """
        n, m = self.levels.shape
        rng = np.random.default_rng(seed)
        low, high = self.levels.min(axis=0), self.levels.max(axis=0)
        if m > 1:
            is_corner = np.all((self.levels == low) | (self.levels == high), axis=1)
            order = rng.permutation(n)
            drawn = order[~is_corner[order]][: max(n // 2 - is_corner.sum(), LEAST_INNER)]
            known = np.concatenate([np.flatnonzero(is_corner), drawn])
        elif seed == 0:
            known = np.round(np.linspace(0, n - 1, KNOWN)).astype(np.int64)
        else:
            drawn = rng.permutation(np.arange(1, n - 1))[: KNOWN - 2]
            known = np.concatenate([[0, n - 1], drawn])
        known = np.unique(known)
        asked = np.setdiff1d(np.arange(n), known)
        low, high = self.levels[known].min(axis=0), self.levels[known].max(axis=0)
        inside = np.all((self.levels[asked] >= low) & (self.levels[asked] <= high), axis=1)
        return known, asked[inside]

    def dataset(self, known: Indices, runs: Sequence[Floats] | None = None) -> xr.Dataset:
        """Profiles of the known settings: one sample a run of one counter, the same in all runs.

        With other `runs` of these settings, if given.
        """
        runs = [self.runs[i] for i in known] if runs is None else runs
        duration = np.full((len(runs), max(map(len, runs))), np.nan)
        for row, values in zip(duration, runs):
            row[: len(values)] = values
        counts = np.where(np.isfinite(duration), 1e6, np.nan)[:, :, None, None]
        return msbgen.make_profiles(
            counts,
            duration,
            self.levels[known],
            interval=1.001 * float(np.nanmax(duration)),
            resources={name: {"units": "1"} for name in self.resources},
            counters={"work": {}},
            attrs={"task": "table", "platform": "any", "source": "measured", "progress": "work"},
        )


def missing_sets(folder: Path) -> list[str]:
    """Sets that are not in the folder, with their sources."""
    return [f"{name} ({source})" for name, source in SETS.items() if not (folder / name).is_dir()]


def read_tables(folder: Path) -> list[Table]:
    """Tables of all sets with enough settings, over the resources of more than one level."""
    readers: tuple[Callable[[Path], Iterator[Table | None]], ...] = (
        _programs, _cache_ways, _products, _networks, _mobilenet,
    )  # fmt: skip
    return [table for reader in readers for table in reader(folder) if table is not None]


def _programs(folder: Path) -> Iterator[Table | None]:
    root = folder / "openmp-time-energy"
    for path in sorted([*root.glob("*/data-*.csv"), *root.glob("*/*/*/data-*.csv")]):
        found: Runs = {}
        with path.open(encoding="utf-8") as file:
            for row in csv.reader(file, delimiter=";"):
                if row and not row[0].startswith("#") and row[3]:
                    setting = float(row[1]), float(row[2].removesuffix("GHz"))
                    found.setdefault(setting, []).append(float(row[3]))
        yield _table("programs, cores", ("cores", "clock"), found)


def _cache_ways(folder: Path) -> Iterator[Table | None]:
    """Cycles an instruction, in place of seconds."""
    found: dict[str, Runs] = {}
    for row in _rows(folder / "pbbcache" / "metrics.csv"):
        found.setdefault(row["BENCH"], {})[(float(row["NR_WAYS"]),)] = [1.0 / float(row["ipc"])]
    for name in sorted(found):
        yield _table("programs, cache ways", ("ways",), found[name])


def _products(folder: Path) -> Iterator[Table | None]:
    found: dict[tuple[str, str], Runs] = {}
    for row in _rows(folder / "jetson" / "gemm.csv"):
        if row["rows"] == row["columns"]:
            runs = found.setdefault((row["device"], row["rows"]), {})
            runs.setdefault((float(row["gpu_clock_mhz"]),), []).append(float(row["runtime_s"]))
    for name in sorted(found):
        yield _table("matrix products, clocks", ("clock",), found[name])


def _networks(folder: Path) -> Iterator[Table | None]:
    for gpu in GPUS:
        found: dict[tuple[str, ...], Runs] = {}
        for row in _rows(folder / "zeus" / f"summary_power_{gpu}.csv"):
            if not row["time_per_epoch"]:
                continue
            runs = found.setdefault((row["dataset"], row["network"], row["optimizer"]), {})
            setting = float(row["power_limit"]), float(row["batch_size"])
            runs.setdefault(setting, []).append(float(row["time_per_epoch"]))
        for name in sorted(found):
            yield _table("networks, power × batch", ("power", "batch"), found[name])


def _mobilenet(folder: Path) -> Iterator[Table | None]:
    found: dict[str, Runs] = {}
    for row in _rows(folder / "jetson" / "mobilenet.csv"):
        setting = float(row["batch"]), float(row["gpu_clock_mhz"])
        found.setdefault(row["device"], {})[setting] = [1e-3 * float(row["latency_p50_ms"])]
    for name in sorted(found):
        yield _table("MobileNet, batch × clock", ("batch", "clock"), found[name])


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _table(group: str, resources: tuple[str, ...], found: Runs) -> Table | None:
    if len(found) < LEAST_SETTINGS:
        return None
    levels = np.array(sorted(found))
    used = np.ptp(levels, axis=0) > 0
    if not used.any():
        return None
    runs = tuple(np.array(found[tuple(row)]) for row in levels.tolist())
    names = tuple(name for name, is_used in zip(resources, used) if is_used)
    return Table(group, names, levels[:, used], runs)
