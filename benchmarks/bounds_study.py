"""Coverage and margin of the conformal bounds in contexts that were not measured.

Bounds are calibrated on 125 known contexts, and on three runs of 27 of them, and counted on all
runs of the test contexts. Programs whose profiles do not ship are replayed from their traces. A
Gaussian bound is the peer. Margins are means of bound / measured − 1.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
from fidelity_scores import PROGRAMS, UNSEEN_PROGRAMS, at_levels, draw_contexts, replayed
from scipy.stats import norm
from tables import PROFILES, RESULTS, TASKS, cached, markdown, publish, store, stored
from timing import seconds_of

import msbgen
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, duration_array, sampling_interval
from msbgen.engine.generate.progress import deconvolve, uniform_knots
from msbgen.sources.platform import replay_trace

RATES = (0.1, 0.05, 0.01)
# Few measurements: levels of each resource, runs, and the rate of the bounds.
FEW_LEVELS, FEW_RUNS, FEW_RATE = (0, 2, 4), 3, 0.1


def gaussian_bound(distribution, contexts, miscoverage):
    """Predicted mean + z × deviation of known runs about the trend, weighted by nearness [s]."""
    near = np.exp(
        -0.5 * distribution.centre.trend.distance(contexts) ** 2 / _radius(distribution) ** 2
    )[:, distribution.residuals.run_context]
    near += 1e-9
    near /= near.sum(axis=1, keepdims=True)
    fitted = distribution.centre.trend.predict(distribution.contexts)[..., 0].sum(axis=1)
    ratio = (
        distribution.duration[np.isfinite(distribution.centre.total)]
        / fitted[distribution.residuals.run_context]
    )
    mean = near @ ratio
    deviation = np.sqrt(np.maximum(near @ ratio**2 - mean**2, 0.0))
    predicted = distribution.centre.trend.predict(contexts)[..., 0].sum(axis=1)
    return predicted * (mean + norm.isf(miscoverage) * deviation)


def _radius(distribution):
    apart = distribution.centre.trend.distance(distribution.contexts)
    np.fill_diagonal(apart, np.inf)
    return 1.5 * np.median(apart.min(axis=1))


def measured_segments(distribution, truth):
    """Amounts of all true runs per segment of progress, (context, run, segments, k)."""
    contexts = context_table(truth)
    prior = distribution.centre.amounts(contexts, distribution.centre.log_weights(contexts))[
        :, None
    ]
    knots = uniform_knots(distribution.settings.bins)
    runs = Profiles.of(truth).counts, duration_array(truth), sampling_interval(truth)
    own = deconvolve(*runs, prior, knots=knots, clock=distribution.centre.clock).state
    return own.reshape(*own.shape[:2], distribution.settings.segments, -1, own.shape[-1]).sum(
        axis=3
    )


def answering_time(calibrated, contexts):
    """Median seconds of one context's mean profile and bound, after a first call."""
    seconds = [seconds_of(partial(calibrated.answer, context)) for context in contexts[:101]]
    return float(np.median(seconds[1:]))


def known_contexts(task):
    """Known profiles of a task, and a function that reads its test contexts."""
    if task not in UNSEEN_PROGRAMS:
        train = msbgen.read_profiles(PROFILES / f"{task}.nc")
        return train, lambda: msbgen.read_profiles(PROFILES / f"{task}-truth.nc")
    trace, train, every = replayed(task)
    return train, lambda: replay_trace(trace, draw_contexts(task, every), 10, rng=1)


def of_bound(bound, measured):
    """Share of the runs that a bound [s] covers, and its mean margin over them."""
    there = np.isfinite(measured)
    return {
        "coverage": float((measured <= bound[:, None])[there].mean()),
        "margin": float((bound[:, None] / measured - 1)[there].mean()),
    }


def score_bounds(task):
    train, opens = known_contexts(task)
    model = msbgen.fit_profiles(train)
    start = time.perf_counter()
    calibrated = msbgen.calibrate_model(model, train)
    seconds, calibration = time.perf_counter() - start, calibrated.calibration
    few = at_levels(train, FEW_LEVELS, runs=FEW_RUNS)
    of_few = msbgen.calibrate_model(msbgen.fit_profiles(few), few)
    # the truth is read only now, so that nothing above can depend on it
    truth = opens()
    contexts, measured = context_table(truth), duration_array(truth)
    states = measured_segments(model.distribution, truth)
    typical = states.mean(axis=(0, 1)).sum(axis=0)
    result = {
        "calibration_seconds": seconds,
        "answer_milliseconds": 1e3 * answering_time(calibrated, contexts),
        "beyond": float(calibration.beyond(contexts).mean()),
        "quantities": list(calibration.quantities),
        "few": of_bound(of_few.duration_bound(contexts, FEW_RATE), measured),
        "rates": {},
    }
    for rate in RATES:
        bounds = {
            "conformal": calibration.duration_bound(contexts, rate),
            "gaussian": gaussian_bound(model.distribution, contexts, rate),
        }
        row = {name: of_bound(bound, measured) for name, bound in bounds.items()}
        for holds in ("run", "segment"):
            lower, upper = calibration.bands(contexts, rate, holds=holds)
            inside = (states >= lower[:, None]) & (states <= upper[:, None])
            held = inside.all(axis=2) if holds == "run" else inside.mean(axis=2)
            row[f"bands of a {holds}"] = {
                "coverage": held.mean(axis=(0, 1)).tolist(),
                "half_width": ((upper - lower).mean(axis=0).sum(axis=0) / 2 / typical).tolist(),
            }
        result["rates"][f"{rate:g}"] = row
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "bounds.json")
    parser.add_argument("--tasks", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--work", type=Path, help="folder that keeps the programs, to go on later")
    options = parser.parse_args()
    results = {}
    for task in options.tasks:
        file = options.work and options.work / f"{task}.json"
        results[task] = cached(file, partial(score_bounds, task))
        print(task, results[task]["rates"], flush=True)
    mean, counted = {}, [task for task in TASKS if task in results] or list(results)
    for rate in (f"{r:g}" for r in RATES):
        rows = [results[task]["rates"][rate] for task in counted]
        mean[rate] = {
            f"{name} {what}": float(np.mean([row[name][what] for row in rows]))
            for name in ("conformal", "gaussian")
            for what in ("coverage", "margin")
        }
        for name in ("bands of a run", "bands of a segment"):
            mean[rate][name] = np.mean([row[name]["coverage"] for row in rows], axis=0).tolist()
    content = {"mean_over_tasks": mean, "tasks": results}
    store(options.output, content)
    if options.output == RESULTS / "bounds.json" and tuple(options.tasks) == PROGRAMS:
        publish(tables())


def tables():
    """All tables of the page."""
    content = stored("bounds")
    return {
        "bounds": bounds_table(content["mean_over_tasks"]),
        "bounds-programs": programs_table(content["tasks"]),
    }


def bounds_table(mean):
    """Coverage and margin of both bounds, coverage of the bands of a run, per nominal rate."""
    header = ["nominal", "conformal covers", "margin", "Gaussian covers", "margin"]
    header += [f"band of {name}" for name in ("duration", "requests", "misses")]
    rows = []
    for rate, row in mean.items():
        cells = [f"{100 * (1 - float(rate)):.0f} %"]
        for name in ("conformal", "gaussian"):
            cells.append(f"{100 * row[f'{name} coverage']:.1f} %")
            cells.append(f"{100 * row[f'{name} margin']:.1f} %")
        cells += [f"{100 * value:.1f} %" for value in row["bands of a run"]]
        rows.append(cells)
    return markdown(header, rows)


def programs_table(results):
    """Bounds from few contexts and from all, and bands that hold at once, by program."""
    header = ["program", "27 × 3: 90 % covers", "margin", "125 × 10: 95 % covers", "margin"]
    header += [f"95 % band of {name}" for name in ("duration", "requests", "misses")]
    rows = {}
    for program in (*TASKS, *UNSEEN_PROGRAMS):
        result = results[program]
        of_all = result["rates"]["0.05"]
        bounds = (result["few"], of_all["conformal"])
        pairs = [bound[what] for bound in bounds for what in ("coverage", "margin")]
        rows[program] = [*pairs, *of_all["bands of a run"]["coverage"]]
    for name, programs in (("mean of the tasks", TASKS), ("mean of all", PROGRAMS)):
        rows[name] = np.mean([rows[program] for program in programs], axis=0).tolist()
    cells = [[name, *(f"{100 * value:.1f} %" for value in row)] for name, row in rows.items()]
    return markdown(header, cells)
