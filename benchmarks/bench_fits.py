"""Speed and memory of fits by the number of contexts and of counters.

    python benchmarks/bench_generate.py --parts fits [--quick]

Each size is measured in a process of its own, on replays of a shipped trace.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from tables import PROFILES
from timing import CORES, run_python, seconds_of, slope

HERE = Path(__file__).resolve()
# Contexts and runs of each; 125 × 10 is the design whose time must not grow.
SIZES = ((125, 10), (250, 3), (500, 3), (1000, 3), (2000, 3), (4560, 3), (20_000, 1))
COUNTERS = (3, 5, 10, 20)
# Growth at three runs a context is measured from here on.
MANY = 500
# Plans are made for so many measured contexts at most.
MOST_PLANNED = 4560
# Bandwidths of a platform with more contexts than the shipped one has [MB/s].
FINE_BANDWIDTHS = tuple(70.0 + 14.0 * p for p in range(96))


def one_fit(trace: str, contexts: int, runs: int, counters: int) -> dict[str, Any]:
    """Seconds of the fit, of its calibration and of a plan; for some contexts of the platform."""
    from msbgen import calibrate_model, fit_profiles, plan_contexts
    from msbgen.sources.platform import PlatformConfig, platform_contexts, read_trace, replay_trace

    config = PlatformConfig()
    if contexts > len(platform_contexts("all", config)):
        config = PlatformConfig(bandwidths=FINE_BANDWIDTHS)
    some = np.random.default_rng(0).permutation(platform_contexts("all", config))[:contexts]
    measured = replay_trace(
        read_trace(PROFILES / "traces" / f"{trace}.nc"), some, runs, 0.01, 1, config
    )
    measured = with_copies(measured, counters)
    small = measured.isel(context=slice(8), run=slice(1))
    calibrate_model(fit_profiles(small.assign_attrs(keep_all=1)), small)  # compiles
    found: dict[str, Any] = {}

    def fit() -> None:
        found["model"] = fit_profiles(measured)

    seconds = {"fit_seconds": seconds_of(fit)}
    model = found["model"]
    seconds["calibrate_seconds"] = seconds_of(lambda: calibrate_model(model, measured))
    if counters == COUNTERS[0] and contexts <= MOST_PLANNED:
        fine = PlatformConfig(bandwidths=FINE_BANDWIDTHS[::2]).levels
        seconds["plan_seconds"] = seconds_of(
            lambda: plan_contexts(model, 20, levels=fine, whole_budget=True)
        )
    return {"contexts": contexts, "runs": runs, "counters": counters, **seconds}


def with_copies(measured: Any, counters: int) -> Any:
    """The measurements with noisy multiples of their counters beside them."""
    rng, names = np.random.default_rng(3), ("instructions", "cache_requests", "cache_misses")
    for k in range(len(names), counters):
        source = measured[names[k % len(names)]]
        noise = 1 + 0.02 * rng.standard_normal(source.shape)
        copy = (source * (0.1 + k) * noise).assign_attrs(
            {**source.attrs, "long_name": f"event {k}"}
        )
        measured = measured.assign({f"event_{k}": copy.astype(source.dtype)})
    return measured


def bench_fits(*, quick: bool = False, trace: str = "gzip") -> dict[str, Any]:
    """Seconds and peak memory by contexts and by counters, with the exponents of their growth."""
    sizes, counters = ((27, 3), (50, 3)) if quick else SIZES, COUNTERS[: 2 if quick else None]
    rows = [_measured(trace, *size, COUNTERS[0]) for size in sizes]
    wide = [_measured(trace, *sizes[0], k) for k in counters]
    many = [row for row in rows if row["runs"] == 3 and (quick or row["contexts"] >= MANY)]
    slopes = {
        part: slope([row["contexts"] for row in many], [row[f"{part}_seconds"] for row in many])
        for part in ("fit", "calibrate")
    }
    slopes["counters"] = slope(counters, [row["fit_seconds"] for row in wide])
    return {"trace": trace, "cores": len(CORES), "sizes": rows, "counters": wide, "slopes": slopes}


def _measured(trace: str, *size: int) -> dict[str, Any]:
    run = run_python([HERE, trace, *map(str, size)])
    return {**json.loads(run.output.splitlines()[-1]), "peak_bytes": run.peak_bytes}


if __name__ == "__main__":
    print(json.dumps(one_fit(sys.argv[1], *map(int, sys.argv[2:]))))
