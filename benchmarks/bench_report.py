"""Open the reports of all programs that ship, and of odd cases, in a browser: what is wrong?

``python benchmarks/bench_report.py``: each report at 400 and 1,600 px, light, dark and in print,
folded and unfolded.  Prints a row a report, and every fault; exits with 1 where there is one.
Needs chromium, and what the tests need.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

import browsing
import msbgen
from conftest import synthetic_task
from msbgen.batch.material import gather_material
from msbgen.contexts import grid_contexts
from msbgen.data.schema import make_profiles
from msbgen.platform import PlatformConfig, read_trace, replay
from msbgen.report.page import write_report

LOOKS = [("light", "screen"), ("dark", "screen"), ("light", "print")]
_GRID, _RUNS, _TRUTH = (4, 4, 3), 4, 20


def programs() -> Iterator[tuple[str, xr.Dataset, xr.Dataset | None]]:
    """Every program that ships, replayed in a few contexts and in others to compare with."""
    levels = PlatformConfig().levels
    measured = grid_contexts(levels, _GRID)
    every = grid_contexts(levels, [len(axis) for axis in levels.values()])
    truth = np.random.default_rng(0).choice(every, _TRUTH, replace=False)
    truth = truth[~(truth[:, None] == measured).all(axis=2).any(axis=1)]
    for path in sorted(msbgen.shipped_file("traces/gzip.nc").parent.glob("*.nc")):
        both = replay(read_trace(path), np.concatenate([measured, truth]), _RUNS)
        n = len(measured)
        yield path.stem, both.isel(context=slice(n)), both.isel(context=slice(n, None))


def odd_cases() -> Iterator[tuple[str, xr.Dataset, xr.Dataset | None]]:
    """Tasks that pages are not made for."""
    ways, clocks = (2.0, 3.0, 4.0, 6.0, 8.0), (1.0, 1.2, 1.5, 1.8, 2.0)
    grid = np.array([(w, f) for w in ways for f in clocks])
    plain = synthetic_task(grid)
    yield "no levels", without_levels(plain), None
    yield "one context", plain.isel(context=[0]), None
    yield "single runs", plain.isel(run=[0]), None
    yield "scattered", synthetic_task(np.random.default_rng(0).uniform(1, 8, (40, 2))), None
    missing = plain.copy(deep=True)
    for name in ("instructions", "cache_requests", "cache_misses", "duration"):
        missing[name][{"context": slice(0, 25, 2), "run": 1}] = np.nan
    yield "missing runs", missing, None
    for m in (1, 3, 4, 5):
        yield f"{m} resources", of_resources(m), None
    for k in (1, 12):
        yield f"{k} counters", of_counters(plain, k), None
    yield "long names", of_counters(plain, 3, "c" * 250), None


def without_levels(dataset: xr.Dataset) -> xr.Dataset:
    bare = dataset.copy()
    for name in ("cache_ways", "frequency"):
        bare[name].attrs.pop("levels")
    return bare


def of_resources(m: int) -> xr.Dataset:
    """The task again, whose time depends on so many resources."""
    levels = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] if m == 1 else [1.0, 2.0, 4.0]
    table = np.stack(np.meshgrid(*[levels] * m, indexing="ij"), axis=-1).reshape(-1, m)
    table = table[np.random.default_rng(0).permutation(len(table))[:60]]
    rng, n = np.random.default_rng(1), 30
    time = (0.05 + 0.1 / table).sum(axis=1)[:, None] * rng.normal(1, 0.01, (len(table), 3))
    time *= 0.25 / time.max()
    counts = np.full((*time.shape, n, 2), np.nan)
    for place in np.ndindex(*time.shape):
        rows = int(np.ceil(time[place] / 0.01))
        share = np.diff(np.minimum(np.arange(rows + 1) * 0.01, time[place])) / time[place]
        counts[(*place, slice(rows))] = share[:, None] * [1e9, 1e6]
    return make_profiles(
        counts, time, table, interval=0.01,
        resources={f"r{i}": {"units": "1", "levels": levels} for i in range(m)},
        counters={"instructions": {}, "misses": {}}, attrs={"task": f"{m} resources"},
    )  # fmt: skip


def of_counters(dataset: xr.Dataset, k: int, name: str = "counter") -> xr.Dataset:
    """The task with so many counters, the second of them constant."""
    first = dataset["instructions"].values
    many = [np.where(np.isfinite(first), 5.0, np.nan) if i == 1 else first for i in range(k)]
    table = np.stack([dataset[r].values for r in ("cache_ways", "frequency")], axis=1)
    return make_profiles(
        np.stack(many, axis=-1), dataset["duration"].values, table, interval=0.01,
        resources={r: dict(dataset[r].attrs) for r in ("cache_ways", "frequency")},
        counters={f"{name}{i}" if i else "instructions": {} for i in range(k)},
        attrs={"task": f"{k} counters"},
    )  # fmt: skip


def main() -> int:
    wrong = 0
    print("report               seconds      MB  faults")
    with tempfile.TemporaryDirectory() as folder, browsing.browser() as started:
        for cases in (odd_cases(), programs()):
            for name, measured, truth in cases:
                begun = time.perf_counter()
                material = gather_material(measured, source=f"{name}.nc", truth=truth)
                page, _ = write_report(Path(folder, f"{name}.html"), material)
                took, found = time.perf_counter() - begun, list(faults(started, page))
                print(f"{name:<18} {took:>9.1f} {page.stat().st_size / 1e6:>7.2f}  {len(found)}")
                for fault in found:
                    print(f"    {fault}")
                sys.stdout.flush()
                wrong += len(found)
    return int(wrong > 0)


def faults(started: object, path: Path) -> Iterator[str]:
    """What is wrong with a page however it is looked at, and whether it is shown in time."""
    for width in browsing.WIDTHS:
        for scheme, media in LOOKS:
            look = {"width": width, "scheme": scheme, "media": media}
            with browsing.opened(started, path, **look) as (page, complaints):
                found = browsing.faults(page)
                browsing.open_all(page)
                found += browsing.faults(page) + browsing.violations(page) + complaints
            yield from (f"{width} px, {scheme}, {media}: {fault}" for fault in found)


if __name__ == "__main__":
    sys.exit(main())
