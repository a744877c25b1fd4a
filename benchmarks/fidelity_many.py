"""Fits to a thousand contexts: approximated as they are, and exact.

Beyond `msbgen.core.contexts.MOST_EXACT` contexts a fit chooses its parameters on some of them, and
takes processes of low rank.  Here it is compared with the fit that treats all contexts exactly.
"""

import time

import numpy as np
import xarray as xr
from fidelity_scores import draw_contexts, without
from numpy.typing import NDArray
from tables import PROFILES
from timing import replaced

import msbgen
from msbgen.answers.evaluate.metrics import normalised_dtw
from msbgen.core.contexts import MOST_EXACT
from msbgen.data.profiles import Profiles
from msbgen.data.schema import duration_array
from msbgen.sources.platform import platform_contexts, read_trace, replay_trace

Floats = NDArray[np.float64]

TRACES = ("gzip",)
KNOWN, RUNS, TESTED = 1000, 1, 200
COUNTERS = ("instructions", "requests", "misses")
METHODS = {"approximated": MOST_EXACT, "exact": KNOWN}
TITLES = {
    "instructions": "nDTW of instructions",
    "requests": "nDTW of cache requests",
    "misses": "nDTW of cache misses",
    "duration": "duration error",
    "coverage": "runs below bounds of 95 %",
    "seconds": "fit and calibration",
}


def many(trace: str) -> dict[str, dict[str, float]]:
    """Seconds, errors of mean profiles and coverage of 95 % bounds, by method."""
    recorded, every = read_trace(PROFILES / "traces" / f"{trace}.nc"), platform_contexts("all")
    tested = draw_contexts(trace, every, TESTED)
    known = np.random.default_rng(5).permutation(without(every, tested))[:KNOWN]
    measured = replay_trace(recorded, known, RUNS, rng=6)
    truth = replay_trace(recorded, tested, 30, rng=7)
    found = {}
    for method, most in METHODS.items():
        with replaced({"msbgen.core.contexts.MOST_EXACT": most}):
            found[method] = _scores(measured, tested, truth)
    return found


def _scores(measured: xr.Dataset, tested: Floats, truth: xr.Dataset) -> dict[str, float]:
    start = time.perf_counter()
    model = msbgen.fit_profiles(measured)
    calibrated = msbgen.calibrate_model(model, measured)
    seconds = time.perf_counter() - start
    generated = model.generate(tested, kind="mean")
    wanted, durations = msbgen.evaluate.mean_profiles(truth), duration_array(truth)
    ratio = duration_array(generated)[:, 0] / durations.mean(axis=1)
    bound = calibrated.calibration.duration_bound(tested, 0.05)
    return {
        "seconds": seconds,
        **dict(
            zip(
                COUNTERS,
                _errors(Profiles.of(generated).counts[:, 0], Profiles.of(wanted).counts[:, 0]),
            )
        ),
        "duration": float(np.abs(ratio - 1.0).mean()),
        "coverage": float((durations <= bound[:, None]).mean()),
    }


def _errors(profiles: Floats, wanted: Floats) -> list[float]:
    """Mean exact nDTW of each counter alone, over its largest count."""
    scale = np.nanmax(wanted, axis=(0, 1))
    found = []
    for k in range(wanted.shape[2]):
        ended = (
            [p[np.isfinite(p[:, k]), k : k + 1] for p in both] for both in zip(profiles, wanted)
        )
        errors = [normalised_dtw(*both, scale=scale[k : k + 1], method="exact") for both in ended]
        found.append(float(np.mean(errors)))
    return found
