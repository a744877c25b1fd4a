"""Reports in a browser, and their cost.

    python benchmarks/reproduce.py report pages [--only zstd,"one context"]
    python benchmarks/reproduce.py report cost

``pages`` opens the reports of all programs that ship, and of odd cases, and exits with 1 if there
is a fault. It needs chromium and the requirements of the tests. ``cost`` makes zstd's report of all
contexts, scored by its truth and by contexts left out, on an idle machine. ``picture`` draws the
picture of the project's README.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from tables import RESULTS, ROOT, markdown, publish, store, stored

import browsing
import msbgen
from conftest import synthetic_task
from msbgen.core.contexts import grid_contexts
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.output.batch import held_out
from msbgen.output.batch.report_data import collect_report_data
from msbgen.output.report.page import write_report
from msbgen.sources.platform import PlatformConfig, read_trace, replay_trace

# Longest time until a page is shown [s].
_VISIBLE = 2.0
_GRID, _RUNS, _TRUTH = (4, 4, 3), 4, 20


def programs() -> Iterator[tuple[str, xr.Dataset, xr.Dataset | None]]:
    """Every program that ships, replayed in a few contexts and in others for comparison."""
    levels = PlatformConfig().levels
    measured = grid_contexts(levels, _GRID)
    every = grid_contexts(levels, [len(axis) for axis in levels.values()])
    truth = np.random.default_rng(0).choice(every, _TRUTH, replace=False)
    truth = truth[~(truth[:, None] == measured).all(axis=2).any(axis=1)]
    for path in sorted(msbgen.shipped_file("traces/gzip.nc").parent.glob("*.nc")):
        both = replay_trace(read_trace(path), np.concatenate([measured, truth]), _RUNS)
        n = len(measured)
        yield path.stem, both.isel(context=slice(n)), both.isel(context=slice(n, None))


def odd_cases() -> Iterator[tuple[str, xr.Dataset, xr.Dataset | None]]:
    """Tasks at the edge of what pages can show."""
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
    """A task whose time depends on so many resources."""
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


def pages(only: list[str]) -> int:
    """Number of faults of all reports."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, browsing.browser() as started:
        for cases in (programs(), odd_cases()):
            for name, measured, truth in cases:
                if only and name not in only:
                    continue
                begun = time.perf_counter()
                report_inputs = collect_report_data(measured, source=f"{name}.nc", truth=truth)
                page, _ = write_report(Path(folder, f"{name}.html"), report_inputs)
                row = {
                    "report": name,
                    "seconds": time.perf_counter() - begun,
                    "megabytes": page.stat().st_size / 1e6,
                    "visible": visible(started, page),
                    "faults": [*faults(started, page), *unreached(started, page)],
                }
                if row["visible"] > _VISIBLE:
                    row["faults"].append(f"shown after {row['visible']:.2f} s")
                print(" ".join(f"{key} {value}" for key, value in row.items()), flush=True)
                rows.append(row)
    if not only:
        store(RESULTS / "report-pages.json", {"load": os.getloadavg()[0], "pages": rows})
        publish(tables())
    return sum(len(row["faults"]) for row in rows)


def pages_table(rows: list[dict[str, Any]]) -> str:
    header = ["report", "made and scored [s]", "MB", "shown after [s]", "faults"]
    lines = [
        [row["report"], f"{row['seconds']:.1f}", f"{row['megabytes']:.2f}",
         f"{row['visible']:.2f}", str(len(row["faults"]))]
        for row in rows
    ]  # fmt: skip
    return markdown(header, lines)


def visible(started: Any, path: Path) -> float:
    """Time until a page is painted and its script has run [s]."""
    with browsing.opened(started, path) as (page, _):
        return page.evaluate(
            "Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd,"
            " ...performance.getEntriesByType('paint').map(e => e.startTime)) / 1000"
        )


def faults(started: Any, path: Path) -> Iterator[str]:
    """Faults of a page in all widths and looks."""
    for width in browsing.WIDTHS:
        with browsing.opened(started, path, width=width) as (page, complaints):
            for folded in (True, False):
                for scheme, media in browsing.LOOKS:
                    page.emulate_media(media=media, color_scheme=scheme)
                    found = browsing.faults(page)
                    if not folded:
                        found += browsing.violations(page)
                    yield from (f"{width} px, {scheme}, {media}: {fault}" for fault in found)
                browsing.open_all(page)
            yield from (f"{width} px: {complaint}" for complaint in complaints)


def unreached(started: Any, path: Path) -> Iterator[str]:
    """Levels of the sliders that the keyboard does not reach."""
    with browsing.opened(started, path) as (page, complaints):
        ends = page.evaluate("[...document.querySelectorAll('.sliders input')].map(e => +e.max)")
        for _ in range(200):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.type") == "range":
                break
        for number, end in enumerate(ends):
            page.keyboard.press("Home")
            met = {page.text_content(".answer")}
            for _ in range(end):
                page.keyboard.press("ArrowRight")
                met.add(page.text_content(".answer"))
            if len(met) != end + 1:
                yield f"slider {number}: {len(met)} of {end + 1} levels by keyboard"
            page.keyboard.press("Tab")
        yield from complaints


def cost() -> int:
    """Measure the cost of zstd's report beyond its fits; 1 if a limit is missed."""
    measured = msbgen.read_profiles(msbgen.shipped_file("zstd.nc"))
    truth = msbgen.read_profiles(msbgen.shipped_file("zstd-truth.nc"))
    fits, fit = [], held_out.fit_model

    def timed(profiles: Profiles, **options: Any) -> Any:
        begun = time.perf_counter()
        model = fit(profiles, **options)
        fits.append((begun, time.perf_counter()))
        return model

    def spent(some: list[tuple[float, float]]) -> float:
        """Time during which one or more fits ran [s]."""
        return max(end for _, end in some) - min(begun for begun, _ in some) if some else 0.0

    found = {}
    held_out.fit_model = timed
    with tempfile.TemporaryDirectory() as folder:
        # the first report compiles and imports, and does not count
        write_report(
            Path(folder, "first.html"), collect_report_data(measured[{"context": slice(9)}])
        )
        for judged, by in (("by its truth", truth), ("by contexts left out", None)):
            fits.clear()
            model = timed(Profiles.of(measured))
            begun = time.perf_counter()
            report_inputs = collect_report_data(measured, source="zstd.nc", truth=by, model=model)
            page, _ = write_report(Path(folder, "zstd.html"), report_inputs, overwrite=True)
            found[judged] = {
                "contexts": len(report_inputs.everywhere.profiles.contexts),
                "fits": len(fits),
                "fitting": spent(fits[:1]) + spent(fits[1:]),
                "beyond": time.perf_counter() - begun - spent(fits[1:]),
                "megabytes": page.stat().st_size / 1e6,
                "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
            }
            print(judged, found[judged], flush=True)
    held_out.fit_model = fit
    store(RESULTS / "report-cost.json", {"load": os.getloadavg()[0], "judged": found})
    publish(tables())
    return int(any(row["beyond"] > 10 or row["megabytes"] > 4 or row["peak_gb"] > 1
                   for row in found.values()))  # fmt: skip


def tables() -> dict[str, str]:
    """All tables of the page."""
    header = ["zstd's report, scored", "fits", "fitting [s]", "beyond [s] (≤ 10)"]
    lines = [
        [
            judged,
            str(row["fits"]),
            *(f"{row[name]:.1f}" for name in ("fitting", "beyond")),
            *(f"{row[name]:.2f}" for name in ("megabytes", "peak_gb")),
        ]
        for judged, row in stored("report-cost")["judged"].items()
    ]
    return {
        "report pages": pages_table(stored("report-pages")["pages"]),
        "report cost": markdown([*header, "MB (≤ 4)", "peak [GB] (≤ 1)"], lines),
    }


def picture() -> int:
    """Draw the picture of the project's README: the demo's, with 128 colours."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "demo"
        command = [sys.executable, "-m", "msbgen", "demo", "-o", str(folder)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
        with Image.open(folder / "profiles.png") as drawn:
            small = drawn.convert("RGB").resize((1200, 1200 * drawn.height // drawn.width))
    small.quantize(128).save(RESULTS / "demo.png", optimize=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("pages", "cost", "picture"))
    parser.add_argument("--only", default="", help="reports by name")
    options = parser.parse_args()
    if options.part != "pages":
        return cost() if options.part == "cost" else picture()
    return int(pages([name for name in options.only.split(",") if name]) > 0)
