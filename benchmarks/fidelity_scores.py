"""Distance of generated profiles to measured ones, task by task, beside every peer.

Each function measures one thing on one task and returns plain numbers for JSON. Methods see the
known contexts and the table of the test contexts only. The truth of a test context is the mean of
all its runs (:func:`msbgen.evaluate.mean_profiles`); samples are compared with its runs.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from fidelity_peers import PEERS, whole_runs
from numpy.typing import ArrayLike, NDArray
from scipy.stats import ks_2samp
from spinning import spinning
from tables import PROFILES, TASKS
from timing import replaced

import msbgen
from msbgen.answers.evaluate.scores import CLOUD_TIMES, methods
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table, duration_array, sampling_interval
from msbgen.engine.trend.fit import Trend, fit_trend
from msbgen.sources.platform import PlatformConfig, platform_contexts, read_trace, replay_trace

Floats = NDArray[np.float64]
Method = Callable[[xr.Dataset, ArrayLike], xr.Dataset]


METHODS: dict[str, Method] = methods()
OURS: dict[str, Method] = {m: METHODS[m] for m in ("default/mean", "default/max_likelihood")}
BASELINES = ("bracketing", "nearest_context", "multilinear", "kernel_mean")
PAPER: dict[str, Method] = {m: METHODS[m] for m in ("paper/mean", "paper/max_likelihood")}
EVERYONE: dict[str, Method] = {**OURS, **PEERS, **PAPER, **{m: METHODS[m] for m in BASELINES}}

# Number of random halves of the measured runs; one half is compared with the other, and with as
# many generated runs.
SPLITS = 10

# Every fourth test context (300 over the tasks), for the many fits of ablations and the curve.
SOME = slice(0, None, 4)


def made_by(model: msbgen.ProfileModel, kind: Any = "mean", **settings: Any) -> Method:
    """A method that generates profiles by a fitted model."""
    return lambda _, contexts: model.generate(contexts, kind=kind, **settings)


def read_task(task: str) -> tuple[xr.Dataset, xr.Dataset]:
    """Known contexts and test contexts."""
    return (
        msbgen.read_profiles(PROFILES / f"{task}.nc"),
        msbgen.read_profiles(PROFILES / f"{task}-truth.nc"),
    )


def scores(task: str) -> dict:
    """Scores of every method with all known contexts, and on the longest tenth of the tests."""
    train, truth = read_task(task)
    found = msbgen.score_methods(train, truth, EVERYONE, warping=("exact", "fastdtw"))
    duration = truth["duration"].mean("run").values
    longest = np.argsort(-duration, kind="stable")[: len(duration) // 10]
    return {
        "all": msbgen.summarise(found),
        "longest tenth": msbgen.summarise(found.isel(context=np.sort(longest))),
    }


def samples(task: str) -> dict:
    """Distances of samples to measured runs, beside those between halves of the measured runs."""
    train, truth = read_task(task)
    half = int(np.isfinite(duration_array(truth)).sum(axis=1).min()) // 2
    table, model = context_table(truth), msbgen.fit_profiles(train)
    drawn = {
        "default/sample": model.generate(
            table, kind="sample", n_samples=SPLITS * half, rng=np.random.default_rng(0)
        ),
        "whole_runs/sample": whole_runs("sample", SPLITS * half)(train, table),
    }
    return against_floor(drawn, train, truth, half)


def against_floor(
    drawn: Mapping[str, xr.Dataset], train: xr.Dataset, truth: xr.Dataset, half: int
) -> dict:
    """Mean distances to one half of the measured runs, over contexts and halves.

    "floor" is the other half. Clouds are states at fractions of the mean execution time, each
    counter divided by its training maximum, as in :mod:`msbgen.evaluate.scores`.
    """
    rng, interval = np.random.default_rng(1), sampling_interval(truth)
    largest = np.nanmax(Profiles.of(train).counts, axis=(0, 1, 2))
    measured, ended = Profiles.of(truth).counts / largest, duration_array(truth)
    generated = {m: (Profiles.of(d).counts / largest, duration_array(d)) for m, d in drawn.items()}
    names = ("kolmogorov", *(f"energy {share:.0%}" for share in CLOUD_TIMES))
    total = {m: np.zeros(len(names)) for m in ("floor", *drawn)}
    for c in range(len(measured)):
        present = np.flatnonzero(np.isfinite(ended[c]))
        rows = [int(share * ended[c, present].mean() / interval) for share in CLOUD_TIMES]
        for split in range(SPLITS):
            order = rng.permutation(present)
            one, other = order[:half], order[half : 2 * half]
            wanted = _views(measured[c, one], ended[c, one], rows)
            total["floor"] += _distances(_views(measured[c, other], ended[c, other], rows), wanted)
            mine = slice(split * half, (split + 1) * half)
            for method, (counts, duration) in generated.items():
                total[method] += _distances(
                    _views(counts[c, mine], duration[c, mine], rows), wanted
                )
    out = {}
    for method, sums in total.items():
        figures = dict(zip(names, (sums / (SPLITS * len(measured))).tolist()))
        figures["energy"] = float(np.mean(list(figures.values())[1:]))
        out[method] = figures
    return out


def _views(counts: Floats, duration: Floats, rows: list[int]) -> tuple[Floats, list[Floats]]:
    """Durations, and the cloud of states in each of the rows, zero after the end."""
    longest = max(rows) + 1
    padded = np.zeros((len(counts), longest, counts.shape[2]))
    there = min(longest, counts.shape[1])
    padded[:, :there] = np.nan_to_num(counts[:, :there])
    return duration, [padded[:, row] for row in rows]


def _distances(mine: tuple[Floats, list[Floats]], wanted: tuple[Floats, list[Floats]]) -> Floats:
    apart = ks_2samp(mine[0], wanted[0], method="asymp").statistic
    clouds = [msbgen.evaluate.energy_distance(a, b) for a, b in zip(mine[1], wanted[1])]
    return np.array([apart, *clouds])


def little(task: str) -> dict:
    """Scores from 27 contexts (levels 0, 2, 4 of each resource) and 8 corners, three runs each."""
    train, truth = read_task(task)
    out = {}
    for name, kept in (("27 contexts, 3 runs", (0, 2, 4)), ("8 contexts, 3 runs", (0, 4))):
        few = at_levels(train, kept, runs=3)
        out[name] = msbgen.summarise(msbgen.score_methods(few, truth, EVERYONE))
    return out


def at_levels(train: xr.Dataset, kept: Sequence[int], *, runs: int) -> xr.Dataset:
    """The known contexts at some levels of each resource, and their first runs."""
    table = context_table(train)
    inside = np.all([np.isin(column, np.unique(column)[list(kept)]) for column in table.T], axis=0)
    return train.isel(context=np.flatnonzero(inside), run=slice(0, runs))


def _fit_with(**fixed: Any) -> Callable[..., Trend]:
    """The fit of a trend with some settings fixed."""
    return lambda *args, **settings: fit_trend(*args, **{**settings, **fixed})


def _fixed_metric(
    contexts: ArrayLike, states: ArrayLike, *, weights: ArrayLike, **_about_caps: Any
) -> Trend:
    """The trend with one length scale, one unit of each resource's range, and one nugget."""
    # the caps are part of the learned metric
    found = fit_trend(contexts, states, weights=weights, find_caps=False)
    lengths, nugget = np.ones_like(found.lengths), np.full_like(found.nugget, 1e-3)
    return replace(found, lengths=lengths, nugget=nugget).refit(states, weights=weights)


@dataclass(frozen=True)
class _Constant(Trend):
    """The mean over the known contexts, whichever the context: the bridge does the rest."""

    @classmethod
    def of(cls, trend: Trend) -> "_Constant":
        """The trend with the same fields."""
        return cls(**{field.name: getattr(trend, field.name) for field in fields(trend)})

    def refit(self, states: ArrayLike, *, weights: ArrayLike = 1.0) -> Trend:
        found = self.of(super().refit(states, weights=weights))
        return replace(found, coefficients=np.zeros_like(self.coefficients))


def _constant(
    contexts: ArrayLike, states: ArrayLike, *, weights: ArrayLike, **_about_caps: Any
) -> Trend:
    found = fit_trend(contexts, states, weights=weights, find_caps=False)
    return _Constant.of(found).refit(states, weights=weights)


def _no_context_residual(log_weight: Floats, residual: Floats) -> Floats:
    return np.zeros((len(log_weight), *residual.shape[1:]))


def _own_lag(_distribution: Any, _centre: Floats, _end: Any, amounts: Floats) -> Floats:
    return np.ones_like(amounts)


_IN_LINEAR = _fit_with(coordinates="linear")
_WITHOUT_CAPS = _fit_with(find_caps=False)
_LOCAL = "msbgen.engine.generate.centre._local_mean"
_NO_TIME_MODEL = {"msbgen.engine.generate.deconvolution._is_better": lambda *errors_and_gain: False}


def _trends(fit: Any) -> dict[str, Any]:
    """Another fit of the trends, of states and of totals."""
    return {f"msbgen.engine.generate.{file}.fit_trend": fit for file in ("deconvolution", "centre")}


def _fitted_by(fit: Any) -> dict[str, Any]:
    """Another fit of the trends without time model, which needs the usual fit."""
    return {**_trends(fit), **_NO_TIME_MODEL}


# Settings of the generator without a part, and replacements of its functions.
ABLATIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "nothing": (msbgen.DEFAULT, {}),
    "progress counter (wall time instead)": (
        replace(msbgen.DEFAULT, clock="time"),
        _trends(_WITHOUT_CAPS),
    ),
    "log coordinates (linear instead)": (
        msbgen.DEFAULT,
        _fitted_by(_IN_LINEAR),
    ),
    "learned metric (fixed instead, no caps)": (msbgen.DEFAULT, _fitted_by(_fixed_metric)),
    "caps": (msbgen.DEFAULT, _fitted_by(_WITHOUT_CAPS)),
    "local mean of context residuals": (msbgen.DEFAULT, {_LOCAL: _no_context_residual}),
    "trend (local mean only)": (msbgen.DEFAULT, _fitted_by(_constant)),
    "trend and local mean": (
        msbgen.DEFAULT,
        {**_fitted_by(_constant), _LOCAL: _no_context_residual},
    ),
    "time model": (msbgen.DEFAULT, _NO_TIME_MODEL),
    "deconvolution": (replace(msbgen.DEFAULT, deconvolutions=0), {}),
    # at this ε the coupling is that of independent neighbours
    "coherent paths (independent segments)": (
        replace(msbgen.DEFAULT, epsilon=1e6),
        {"msbgen.engine.generate.progress_distribution.ProgressDistribution._to_lag": _own_lag},
    ),
}


def ablation(task: str) -> dict:
    """Scores of mean, most likely profile and samples with one part removed at a time."""
    train, truth = read_task(task)
    truth = truth.isel(context=SOME)
    half = int(np.isfinite(duration_array(truth)).sum(axis=1).min()) // 2
    table = context_table(truth)
    baseline: dict[str, Method] = {"bracketing": METHODS["bracketing"]}
    out = {}
    for name, (settings, parts) in ABLATIONS.items():
        with replaced(parts):
            model = msbgen.fit_profiles(train, settings)
            kinds = {kind: made_by(model, kind) for kind in ("mean", "max_likelihood")}
            rng = np.random.default_rng(0)
            drawn = model.generate(table, kind="sample", n_samples=SPLITS * half, rng=rng)
            out[name] = {
                **msbgen.summarise(msbgen.score_methods(train, truth, {**kinds, **baseline})),
                "samples": against_floor({"sample": drawn}, train, truth, half),
            }
    return out


# Number of known contexts, and their levels of cache ways, bandwidth and frequency.
DESIGNS = {8: "2x2x2", 27: "3x3x3", 64: "4x4x4", 125: "5x5x5", 273: "7x13x3"}


def curve(task: str, peers: tuple[str, ...] = ()) -> dict:
    """Error against the number of known contexts, ours and the named peers, ten runs each.

    The designs are full grids of evenly spaced levels. Known contexts and truth are replayed from
    the shipped trace with different seeds. Tested are the shipped test contexts that are in no
    design.
    """
    trace = read_trace(PROFILES / "traces" / f"{task}.nc")
    grids = {n: platform_contexts(f"grid:{levels}") for n, levels in DESIGNS.items()}
    tested = without(context_table(read_task(task)[1]), *grids.values())[SOME]
    truth = replay_trace(trace, tested, 10, rng=1)
    methods = {m: EVERYONE[m] for m in ("default/mean", *peers, "bracketing")}
    out = {}
    for n, grid in grids.items():
        train = replay_trace(trace, grid, 10, rng=0)
        out[str(n)] = msbgen.summarise(msbgen.score_methods(train, truth, methods))
    return out


# Programs whose profiles do not ship, and were not used in the design of the generator.
UNSEEN_PROGRAMS = ("bc", "cg", "gcc", "sort", "sqlite")
PROGRAMS = (*UNSEEN_PROGRAMS, *TASKS)

# The corner: one partition of the bandwidth, and at most so many cache ways.
CORNER_WAYS = 4


def replays(program: str) -> dict:
    """Scores of replayed contexts: 125 of ten runs are known, 200 of thirty are tested.

    Also tested are all contexts of the corner, and those of them that are not marked as lying
    between levels where a count may change suddenly.
    """
    trace, train, every = replayed(program)
    drawn = draw_contexts(program, every)
    ways, bandwidth, _ = every.T
    corner = every[(ways <= CORNER_WAYS) & (bandwidth == bandwidth.min())]
    methods = {m: EVERYONE[m] for m in (*OURS, "whole_runs/mean", "bracketing")}
    marked = msbgen.fit_profiles(train).near_cliff(corner)
    out = {}
    for name, tested in (("all", drawn), ("corner", corner)):
        truth = replay_trace(trace, tested, 30, rng=1)
        found = msbgen.score_methods(train, truth, methods)
        out[name] = msbgen.summarise(found)
    out["corner, not marked"] = msbgen.summarise(found.isel(context=~marked))
    return out


def replayed(program: str) -> tuple[xr.Dataset, xr.Dataset, Floats]:
    """A program's trace, 125 known contexts of ten runs, and all other contexts."""
    trace = read_trace(PROFILES / "traces" / f"{program}.nc")
    train = replay_trace(trace, platform_contexts("grid:5x5x5"), 10, rng=0)
    return trace, train, without(platform_contexts("all"), context_table(train))


def draw_contexts(program: str, every: Floats, n: int = 200, seed: int = 2) -> Floats:
    """Some contexts, always the same for a program and a seed."""
    rng = np.random.default_rng([seed, *program.encode()])
    return every[np.sort(rng.choice(len(every), n, replace=False))]


def without(every: Floats, *known: ArrayLike) -> Floats:
    """The contexts that are in none of some tables."""
    barred = {tuple(row) for table in known for row in np.asarray(table)}
    return every[[tuple(row) not in barred for row in every]]


LEVELS = {name: np.array(levels) for name, levels in PlatformConfig().levels.items()}


def _by_logarithms(counts: tuple[int, ...]) -> Floats:
    """A grid of the levels nearest to equal ratios."""
    own = []
    for axis, n in zip(LEVELS.values(), counts):
        wanted = np.linspace(*np.log(axis[[0, -1]]), n)
        own.append(axis[np.abs(np.log(axis) - wanted[:, None]).argmin(axis=1)])
    return np.stack([axis.ravel() for axis in np.meshgrid(*own, indexing="ij")], axis=1)


def _between(grid: Floats, n: int) -> Floats:
    """Random contexts without a level of the grid."""
    rng = np.random.default_rng(3)
    skipped = [np.setdiff1d(axis, own) for axis, own in zip(LEVELS.values(), grid.T)]
    drawn = np.stack([rng.choice(axis, 2 * n) for axis in skipped], axis=1)
    return np.unique(drawn, axis=0)[rng.permutation(n)]


def _planned(n: int) -> Floats:
    return msbgen.plan_contexts(LEVELS, n).contexts


def designs() -> dict[str, tuple[Floats, ArrayLike]]:
    """Contexts to measure before anything is known, and runs of each."""
    every, grid = platform_contexts("all"), platform_contexts("grid:5x5x5")
    random = every[np.random.default_rng(4).choice(len(every), len(grid), replace=False)]
    single = _between(grid, 26)
    return {
        "grid 5 × 5 × 5, 10 runs": (grid, 10),
        "grid 5 × 5 × 5, 5 runs": (grid, 5),
        "grid spaced by logarithms, 10 runs": (_by_logarithms((5, 5, 5)), 10),
        "grid, 10 runs, 26 single runs between": (
            np.concatenate([grid, single]),
            np.repeat([10, 1], [len(grid), len(single)]),
        ),
        "125 at random, 5 runs": (random, 5),
        "125 planned, 10 runs": (_planned(125), 10),
        "125 planned, 5 runs": (_planned(125), 5),
        "62 planned, 10 runs": (_planned(62), 10),
        "grid 3 × 3 × 3, 3 runs": (platform_contexts("grid:3x3x3"), 3),
        "27 planned, 3 runs": (_planned(27), 3),
        "81 planned, 1 run": (_planned(81), 1),
    }


def compare_designs(program: str) -> dict:
    """Errors of the mean profile for several designs of known contexts.

    Tested are random contexts in no design, thirty runs each. Counters are scaled alike for all
    designs.
    """
    trace, found = read_trace(PROFILES / "traces" / f"{program}.nc"), designs()
    every = without(platform_contexts("all"), *(contexts for contexts, _ in found.values()))
    tested = draw_contexts(program, every, EQUAL_CONTEXTS, seed=5)
    truth, scale = replay_trace(trace, tested, 30, rng=1), None
    out = {}
    for name, (contexts, runs) in found.items():
        train = replay_trace(trace, contexts, runs, rng=0)
        scale = train if scale is None else scale  # that of the first
        errors = _mean_errors(msbgen.fit_profiles(train), scale, truth)
        out[name] = {
            "runs": int(np.isfinite(duration_array(train)).sum()),
            "seconds": float(np.nansum(duration_array(train))),
            "error": errors.mean(axis=0).tolist(),
            "worst tenth": _worst_tenth(errors),
        }
    return out


def _mean_errors(model: msbgen.ProfileModel, scale: xr.Dataset, truth: xr.Dataset) -> Floats:
    """Errors of the mean profile: raw, scaled and of the duration, (contexts, 3)."""
    return _errors(made_by(model), scale, truth)


def _errors(method: Method, scale: xr.Dataset, truth: xr.Dataset) -> Floats:
    found = msbgen.score_methods(scale, truth, {"it": method})["score"].isel(method=0)
    return found.sel(metric=[*ERRORS]).values


def _worst_tenth(errors: Floats) -> list[float]:
    return np.sort(errors, axis=0)[-(len(errors) // 10) :].mean(axis=0).tolist()


# Numbers of runs that are compared, runs of the truth, and test contexts.
EQUAL_RUNS, RUNS_OF_TRUTH, EQUAL_CONTEXTS = (1, 2, 4, 8, 16, 32, 64), 100, 60
ERRORS = ("ndtw", "ndtw_scaled", "duration_error")


def equal(program: str) -> dict:
    """Number of measured runs whose mean is as accurate as a generated mean profile.

    125 contexts of ten runs are known. Errors are nDTW (exact) to the mean of a hundred runs in
    random contexts: of generated means with and without time model, from planned contexts, from
    single runs that plans add to the 125 contexts, and of means of n other runs.
    """
    trace, train, every = replayed(program)
    tested = draw_contexts(program, every, EQUAL_CONTEXTS, seed=7)
    truth, others = (replay_trace(trace, tested, RUNS_OF_TRUTH, rng=seed) for seed in (11, 12))

    def mean_of(runs: slice) -> Method:
        return lambda _train, _contexts: msbgen.evaluate.mean_profiles(others.isel(run=runs))

    def mean_errors(n: int) -> Floats:
        parts = [slice(i, i + n) for i in range(0, min(5 * n, RUNS_OF_TRUTH - n + 1), n)]
        return np.mean([_errors(mean_of(part), train, truth) for part in parts], axis=(0, 1))

    measured = np.array([mean_errors(n) for n in EQUAL_RUNS])
    out: dict[str, Any] = {"measured": dict(zip(map(str, EQUAL_RUNS), measured.tolist()))}
    allowed = without(platform_contexts("all"), tested)
    planned = msbgen.plan_contexts(LEVELS, train.sizes["context"], candidates=allowed)
    scattered = replay_trace(trace, planned.contexts, 10, rng=0)
    for name, known, parts in (
        ("default/mean", train, {}),
        ("without time model", train, _NO_TIME_MODEL),
        ("default/mean, contexts planned", scattered, {}),
        ("default/mean, single runs added", with_single_runs(trace, train, allowed), {}),
    ):
        with replaced(parts):
            model = msbgen.fit_profiles(known)
        own = _mean_errors(model, train, truth)
        out[name] = {
            "error": own.mean(axis=0).tolist(),
            "worst tenth": _worst_tenth(own),
            "equal": [_equal_runs(own[:, i].mean(), measured[:, i]) for i in range(2)],
        }
    return out


# Most single runs between levels that may hide a sudden change.
MOST_ADDED = 4


def with_single_runs(trace: Any, train: xr.Dataset, allowed: Floats) -> xr.Dataset:
    """The known contexts, and single runs between levels that may hide a sudden change of a count.

    Each is the first of a plan from all runs before.
    """
    known, runs = context_table(train), [train.sizes["run"]] * train.sizes["context"]
    for _ in range(MOST_ADDED):
        plan = msbgen.plan_contexts(
            msbgen.fit_profiles(train), 1, levels=LEVELS, candidates=allowed
        )
        if not plan.cliffs:
            break
        known, runs = np.concatenate([known, plan.contexts]), [*runs, 1]
        train = replay_trace(trace, known, np.array(runs), rng=0)
    return train


def _equal_runs(error: float, measured: Floats) -> float:
    """Number of runs whose mean has this error, by lines between logarithms."""
    y, x = np.log(measured), np.log(EQUAL_RUNS)
    i = int(np.clip(np.searchsorted(-y, -np.log(error)) - 1, 0, len(x) - 2))
    return float(np.exp(x[i] + (np.log(error) - y[i]) / (y[i + 1] - y[i]) * (x[i + 1] - x[i])))


# Rivals of few contexts, and the most test contexts of a set.
INTERPOLATIONS = ("multilinear", "log_log", "reciprocal")
FEW_TESTED = 14
# What is added to the name of a set whose program waits for other threads in a loop.
SPINNING = ", spinning"


def few_sets() -> dict[str, tuple[Floats, Floats]]:
    """Three to nine contexts over one resource or two, and others over the same, by name.

    Other resources stay at their middle level.
    """
    middle = np.array([axis[len(axis) // 2] for axis in LEVELS.values()])
    found = {}
    for name, counts in {
        "3 clocks": {"frequency": 3},
        "6 clocks": {"frequency": 6},
        "3 ways × 3 clocks": {"cache_ways": 3, "frequency": 3},
        "3 bandwidths × 3 clocks": {"bandwidth": 3, "frequency": 3},
    }.items():
        tables = []
        for sizes in (counts, {resource: len(LEVELS[resource]) for resource in counts}):
            axes = [middle[r : r + 1] for r in range(len(middle))]
            for resource, n in sizes.items():
                levels = LEVELS[resource]
                chosen = np.linspace(0, len(levels) - 1, n).round().astype(int)
                axes[[*LEVELS].index(resource)] = levels[chosen]
            tables.append(np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1))
        rest = without(tables[1], tables[0])
        rng = np.random.default_rng(len(found))
        drawn = rng.choice(len(rest), min(FEW_TESTED, len(rest)), replace=False)
        found[name] = tables[0], rest[np.sort(drawn)]
    return found


def few(program: str) -> dict:
    """Scores in a few sets of contexts, known by single runs, beside interpolations.

    Of the program as it was recorded, and as one of several threads that wait for each other.  The
    truth is the mean of thirty runs.  "single" is the mean duration error of one run.
    """
    trace = read_trace(PROFILES / "traces" / f"{program}.nc")
    out = {}
    for kind, replay in (("", partial(replay_trace, trace)), (SPINNING, spinning(trace, 0).replay)):
        for name, (known, tested) in few_sets().items():
            train, truth = replay(known, 1, rng=3), replay(tested, 30, rng=53)
            duration = duration_array(truth)
            single = np.abs(duration / duration.mean(axis=1, keepdims=True) - 1.0).mean()
            out[name + kind] = {"single": float(single), **_beside_interpolations(train, truth)}
    return out


def _beside_interpolations(train: xr.Dataset, truth: xr.Dataset) -> dict[str, dict[str, float]]:
    """Errors of the default and of interpolations, by method."""
    methods = {m: METHODS[m] for m in ("default/mean", *INTERPOLATIONS)}
    scores = msbgen.summarise(msbgen.score_methods(train, truth, methods))["methods"]
    return {m: {metric: scores[m][metric] for metric in ERRORS} for m in methods}


def left_out_clocks(path: Path) -> dict:
    """Errors at each level of the only resource, from single runs at the two others.

    Means over the runs, each known in turn.
    """
    measured, out = msbgen.read_profiles(path), {}
    order = np.argsort(context_table(measured)[:, 0])
    for place, level in zip(("lowest", "middle", "highest"), order):
        others, truth = np.setdiff1d(order, [level]), measured.isel(context=[level])
        found = [
            _beside_interpolations(measured.isel(context=others, run=[run]), truth)
            for run in range(measured.sizes["run"])
        ]
        out[place] = {
            m: {metric: float(np.mean([f[m][metric] for f in found])) for metric in ERRORS}
            for m in found[0]
        }
    return out


def middle_clock(path: Path) -> dict:
    """Scores of the middle level of the only resource, from the two others."""
    measured = msbgen.read_profiles(path)
    order = np.argsort(context_table(measured)[:, 0])
    middle = order[len(order) // 2]
    train = measured.isel(context=np.setdiff1d(order, [middle]))
    warned = _Warnings()
    logging.getLogger("msbgen").addHandler(warned)
    try:
        truth = measured.isel(context=[middle])
        found = msbgen.summarise(msbgen.score_methods(train, truth, EVERYONE))
    finally:
        logging.getLogger("msbgen").removeHandler(warned)
    return {**found, "warnings": sorted(set(warned.lines))}


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
