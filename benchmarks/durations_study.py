"""Durations by setting in public tables, from a few known settings, beside other predictors.

``python benchmarks/reproduce.py durations --data FOLDER [--only errors noise …]``.  FOLDER holds
the public sets of ``durations_data.SETS``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from durations_data import Floats, Indices, Table, missing_sets, read_tables
from durations_peers import PEERS
from tables import RESULTS, errors_only, find, markdown, parser, publish, renew, stored
from targets import Figure

import msbgen
from msbgen.data.profiles import Profiles
from msbgen.data.schema import STARTED
from msbgen.engine.generate.detection import known_faults

PARTS = ("errors", "noise", "faults", "bounds")
# Splits into known and asked settings, the first and three at random.
SPLITS = (0, 1, 2, 3)
# Log-normal noise that is put on each known run, and draws of it.
NOISE, DRAWS = 0.1, 5
NOISY_PEERS = ("log-log", "Gaussian process")
# Noise of three repeats, the factor of a slow one, and the ratio of exchanged durations, at least.
REPEATS, AGREEING, SLOW, APART = 3, 0.002, 2.0, 1.2
MISCOVERAGE = 0.2
# Noise of repeats at measured settings, and new runs of each.
REPEAT_NOISE, NEW_RUNS = 0.02, 100
# A group is compared with its goals from so many tables.
LEAST_TABLES = 20


def predicted(table: Table, known: Indices, runs: Sequence[Floats], asked: Indices) -> Floats:
    """Mean durations (q,) [s] of asked settings, as users get them."""
    model = msbgen.fit_profiles(table.dataset(known, runs))
    return model.generate(table.levels[asked], kind="mean")["duration"].values


def relative_errors(predictions: Floats, truth: Floats) -> Floats:
    return np.abs(predictions / truth - 1.0)


def installed_peers() -> list[str]:
    return [name for name in PEERS if name != "Extra-P" or find_spec("extrap")]


def errors(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Errors at asked and at known settings, for each group and split."""
    return [
        {"group": group, "split": split, **mean_errors(some, split)}
        for group, some in by_group(tables).items()
        for split in SPLITS
    ]


def by_group(tables: Sequence[Table]) -> dict[str, list[Table]]:
    out: dict[str, list[Table]] = {}
    for table in tables:
        out.setdefault(table.group, []).append(table)
    return out


def mean_errors(tables: Sequence[Table], split: int) -> dict[str, Any]:
    """Means over tables of the mean relative errors of each; `worst` is of one known setting."""
    rows, at_known = [], []
    for table in tables:
        known, asked = table.split(split)
        mean, runs = table.mean, [table.runs[i] for i in known]
        row = {
            name: PEERS[name](table.levels[known], mean[known], table.levels[asked])
            for name in installed_peers()
        }
        both = predicted(table, known, runs, np.concatenate([asked, known]))
        row["ours"] = both[: len(asked)]
        rows.append({k: relative_errors(p, mean[asked]).mean() for k, p in row.items()})
        at_known.append(relative_errors(both[len(asked) :], mean[known]))
    return {
        "tables": len(rows),
        "error": {name: float(np.mean([row[name] for row in rows])) for name in rows[0]},
        "known": float(np.mean([e.mean() for e in at_known])),
        "worst": float(max(e.max() for e in at_known)),
    }


def noise(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Errors at asked settings with noise on each known run, in the first split."""
    out = []
    for group, some in by_group(tables).items():
        rows = []
        for draw in range(DRAWS):
            for i, table in enumerate(some):
                known, asked = table.split(SPLITS[0])
                rng = np.random.default_rng([draw, i])
                runs = noisy([table.runs[j] for j in known], NOISE, rng)
                seconds = np.array([each.mean() for each in runs])
                levels = table.levels[known]
                row = {
                    name: PEERS[name](levels, seconds, table.levels[asked]) for name in NOISY_PEERS
                }
                row["ours"] = predicted(table, known, runs, asked)
                truth = table.mean[asked]
                rows.append({k: relative_errors(p, truth).mean() for k, p in row.items()})
        error = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        out.append({"group": group, "tables": len(some), "error": error})
    return out


def noisy(runs: Sequence[Floats], deviation: float, rng: np.random.Generator) -> list[Floats]:
    """Runs with log-normal noise."""
    return [each * np.exp(deviation * rng.standard_normal(len(each))) for each in runs]


def repeated(seconds: Floats, deviation: float, rng: np.random.Generator) -> list[Floats]:
    """Repeats of each duration with log-normal noise."""
    return noisy([np.full(REPEATS, value) for value in seconds], deviation, rng)


def faults(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Faults named in clean and in spoilt tables, in the first split.

    Each figure is (named, tables): without faults any fault counts, else the one that was put in.
    """
    out = []
    for group, some in by_group(tables).items():
        found = [named_faults(table, np.random.default_rng(i)) for i, table in enumerate(some)]
        names = dict.fromkeys(name for row in found for name in row)
        counts = {name: [bool(row[name]) for row in found if name in row] for name in names}
        named = {name: [sum(values), len(values)] for name, values in counts.items()}
        out.append({"group": group, "named": named})
    return out


def named_faults(table: Table, rng: np.random.Generator) -> dict[str, bool]:
    """Whether faults are named in one table; without the exchanges if no two durations differ."""
    known, _ = table.split(SPLITS[0])
    seconds, repeats = table.mean[known], repeated(table.mean[known], AGREEING, rng)
    out = {
        "clean, single": bool(named(table.dataset(known))),
        "clean, repeats": bool(named(table.dataset(known, repeats))),
    }
    row, run = rng.integers(len(known)), rng.integers(REPEATS)
    spoilt = [values.copy() for values in repeats]
    spoilt[row][run] *= SLOW
    contexts = named(table.dataset(known, spoilt))
    out["doubled"] = row in contexts
    out["doubled, others"] = bool(contexts - {row})
    pairs = [
        pair
        for pair in combinations(range(len(known)), 2)
        if abs(np.log(seconds[pair[0]] / seconds[pair[1]])) >= np.log(APART)
    ]
    single = [np.array([value]) for value in seconds]
    for order in ("ascending", "random"):
        pair = pairs[rng.integers(len(pairs))] if pairs else None
        for kind, runs in (("single", single), ("repeats", repeats)):
            visits = np.arange(len(known) * len(runs[0]))
            if order == "random":
                visits = rng.permutation(visits)
            dataset = with_start_times(table.dataset(known, runs), visits)
            out[f"clean, {order}, {kind}"] = bool(named(dataset))
            if pair:
                contexts = named(exchanged(dataset, pair))
                out[f"exchanged, {order}, {kind}"] = set(pair) <= contexts
    return out


def named(dataset: xr.Dataset) -> set[int]:
    """Contexts of all faults that a fit reports."""
    return {context for fault in known_faults(Profiles.of(dataset)) for context in fault.contexts}


def with_start_times(dataset: xr.Dataset, visits: Indices) -> xr.Dataset:
    """Profiles with start times of runs that follow one another in the order of `visits`.

    Run r of context i, of R runs, is i R + r.
    """
    duration = dataset["duration"]
    started = np.zeros(duration.size)
    started[visits[1:]] = duration.values.ravel()[visits].cumsum()[:-1]
    return dataset.assign(
        {STARTED: (duration.dims, started.reshape(duration.shape), {"units": "s"})}
    )


def exchanged(dataset: xr.Dataset, pair: tuple[int, int]) -> xr.Dataset:
    """Profiles in which two contexts carry each other's label."""
    rows = np.arange(dataset.sizes["context"])
    rows[list(pair)] = pair[::-1]
    moved = {
        name: values.copy(data=values.isel(context=rows).values)
        for name, values in dataset.data_vars.items()
        if "context" in values.dims
    }
    return dataset.assign(moved)


def bounds(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Bounds at a coverage of 80 %, for each group and split; with repeats in the first split."""
    out = []
    for group, some in by_group(tables).items():
        for split in SPLITS:
            rows = [bounds_of(table, split) for table in some]
            margins = np.concatenate([margin for margin, _ in rows])
            out.append(
                {
                    "group": group, "split": split, "settings": len(margins),
                    "within": float(np.mean(margins >= 0)), "margin": float(np.median(margins)),
                    "below": sum(below for _, below in rows),
                }
            )  # fmt: skip
            if split == SPLITS[0]:
                new = [
                    new_runs_within(table, np.random.default_rng(i)) for i, table in enumerate(some)
                ]
                out[-1]["new_runs_within"] = float(np.mean(np.concatenate(new)))
    return out


def bounds_of(table: Table, split: int) -> tuple[Floats, bool]:
    """Bound over mean duration, less one, of asked settings; whether one is below its own runs."""
    known, asked = table.split(split)
    bound = duration_bound(table.dataset(known), table.levels)
    own = np.array([supported(table.runs[i]) for i in known])
    is_below = bound[known] < own * (1.0 - 1e-9)
    return bound[asked] / table.mean[asked] - 1.0, bool(is_below.any())


def duration_bound(dataset: xr.Dataset, levels: Floats) -> Floats:
    model = msbgen.calibrate_model(msbgen.fit_profiles(dataset), dataset)
    return model.duration_bound(levels, model.supported_rate(levels, MISCOVERAGE))


def supported(runs: Floats) -> float:
    """The conformal quantile of the runs of one setting, the largest where they are too few."""
    rank = int(np.ceil((1.0 - MISCOVERAGE) * (len(runs) + 1)))
    return float(np.sort(runs)[min(rank, len(runs)) - 1])


def new_runs_within(table: Table, rng: np.random.Generator) -> Floats:
    """Share of new runs within the bound of each known setting, (n,), of noisy repeats."""
    known, _ = table.split(SPLITS[0])
    seconds = table.mean[known]
    runs = repeated(seconds, REPEAT_NOISE, rng)
    bound = duration_bound(table.dataset(known, runs), table.levels[known])
    new = np.exp(REPEAT_NOISE * rng.standard_normal((len(known), NEW_RUNS)))
    return (seconds[:, None] * new <= bound[:, None]).mean(axis=1)


def goals(found: dict[str, Any]) -> list[Figure]:
    """The figures that have goals, of groups of at least 20 tables."""
    large = dict.fromkeys(r["group"] for r in found["errors"] if r["tables"] >= LEAST_TABLES)
    out = [
        figure
        for split, rows in splits(found["errors"])
        for group in large
        for figure in error_goals(f"{group}, {split}", find(rows, group=group))
    ]
    for row in found["noise"]:
        if row["group"] in large:
            ratio = row["error"]["ours"] / row["error"]["Gaussian process"]
            what = f"{row['group']}, noise: error over that of the Gaussian process"
            out.append(Figure(what, ratio, 1.0, False, "×"))
    named = pooled_faults(found["faults"])
    plain = "clean, single", "clean, repeats"
    timed = [name for name in named if name.startswith("clean") and name not in plain]
    for what, names in (("without", plain), ("with", timed)):
        count, of = np.sum([named[name] for name in names], axis=0).tolist()
        what = f"clean tables {what} start times, of {of}: fault named"
        out.append(Figure(what, count, 0.0, False, ""))
    for name, (count, of) in named.items():
        if name == "doubled" or name.startswith("exchanged"):
            out.append(Figure(f"{name}: named", 100 * count / of, 80.0, True, "%"))
    for split, rows in splits(found["bounds"]):
        for group in large:
            what = f"{group}, {split}: settings within their bound"
            out.append(Figure(what, 100 * within(find(rows, group=group)), 78.0, True, "%"))
    below = sum(row["below"] for row in found["bounds"])
    out.append(Figure("tables with a bound below its own runs", below, 0.0, False, ""))
    return out


def error_goals(what: str, rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Goals of the errors of one group, in one split or in several."""
    mean = {name: mean_over(rows, name) for name in rows[0]["error"]}
    best = min(value for name, value in mean.items() if name != "ours")
    out = [
        Figure(f"{what}: error over that of the best peer", mean["ours"] / best, 1.05, False, "×")
    ]
    if rows[0]["group"].endswith(", cores"):
        if not rows[0]["split"]:
            out.append(Figure(f"{what}: error", 100 * mean["ours"], 2.0, False, "%"))
        known = 100 * float(np.mean([row["known"] for row in rows]))
        worst = 100 * max(row["worst"] for row in rows)
        out.append(Figure(f"{what}: error at known settings", known, 0.5, False, "%"))
        out.append(Figure(f"{what}: worst of them", worst, 3.0, False, "%"))
    return out


def within(rows: Sequence[dict[str, Any]]) -> float:
    """Share of settings within their bound, of all rows."""
    return float(np.average([r["within"] for r in rows], weights=[r["settings"] for r in rows]))


def pooled_faults(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Named faults and tables, over all groups."""
    names = dict.fromkeys(name for row in rows for name in row["named"])
    return {
        name: tuple(
            np.sum([row["named"][name] for row in rows if name in row["named"]], 0).tolist()
        )
        for name in names
    }


def tables() -> dict[str, str]:
    """The tables of the page, from the stored JSON."""
    found = stored("durations")
    makers: dict[str, Callable[[Any], str]] = {
        "errors": errors_table, "noise": noise_table, "faults": faults_table,
        "bounds": bounds_table,
    }  # fmt: skip
    out = {f"durations-{part}": makers[part](found[part]) for part in PARTS if part in found}
    if len(out) == len(PARTS):
        rows = [figure.cells() for figure in goals(found)]
        out["durations-goals"] = markdown(["figure", "measured", "goal", ""], rows)
    return out


def errors_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for split, some in splits(rows):
        for group in dict.fromkeys(row["group"] for row in some):
            own = find(some, group=group)
            cells = [percent(mean_over(own, name)) for name in (*PEERS, "ours")]
            known = np.mean([row["known"] for row in own]), max(row["worst"] for row in own)
            tables_ = f"{own[0]['tables']} {group}"
            lines.append([tables_, split, *cells, *map(percent, known)])
    header = ["tables", "known settings", *PEERS, "ours", "ours, known: mean", "worst"]
    return markdown(header, lines)


def splits(rows: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Rows of the first split, and of the random ones."""
    first = [row for row in rows if not row["split"]]
    return [("first split", first), ("random splits", [row for row in rows if row["split"]])]


def mean_over(rows: Sequence[dict[str, Any]], name: str) -> float:
    """Mean error of a method; NaN where it was not installed."""
    return float(np.mean([row["error"].get(name, np.nan) for row in rows]))


def noise_table(rows: Sequence[dict[str, Any]]) -> str:
    names = (*NOISY_PEERS, "ours")
    lines = [
        [f"{row['tables']} {row['group']}", *(percent(row["error"][name]) for name in names)]
        for row in rows
    ]
    return markdown(["tables", *names], lines)


def faults_table(rows: Sequence[dict[str, Any]]) -> str:
    pooled = pooled_faults(rows)
    every = [*rows, {"group": "all", "named": pooled}]
    lines = [
        [name, *(share(row["named"].get(name, (0, 0))) for row in every)]
        for name in sorted(pooled, key=lambda name: not name.startswith("clean"))
    ]
    return markdown(["", *(row["group"] for row in every)], lines)


def share(counts: Sequence[int]) -> str:
    return f"{counts[0]} of {counts[1]}" if counts[1] else "—"


def bounds_table(rows: Sequence[dict[str, Any]]) -> str:
    lines = []
    for split, some in splits(rows):
        for group in dict.fromkeys(row["group"] for row in some):
            own = find(some, group=group)
            margin = float(np.mean([row["margin"] for row in own]))
            new = own[0].get("new_runs_within", np.nan)
            settings = sum(row["settings"] for row in own)
            cells = [str(settings), percent(within(own)), percent(margin)]
            lines.append([group, split, *cells, str(sum(r["below"] for r in own)), percent(new)])
    header = ["group", "known settings", "settings", "within", "median margin"]
    return markdown([*header, "tables with a bound below its own runs", "new runs within"], lines)


def percent(value: float) -> str:
    return "—" if np.isnan(value) else f"{100 * value:.2f} %"


def main() -> None:
    reader = parser(__doc__, PARTS, data="folder of the public sets", required=("data",))
    options = reader.parse_args()
    if missing := missing_sets(options.data):
        reader.error(f"{options.data} lacks {'; '.join(missing)}: put each into a folder there")
    every = read_tables(options.data)
    parts = {"errors": errors, "noise": noise, "faults": faults, "bounds": bounds}
    chosen = {name: partial(parts[name], every) for name in options.only}
    with errors_only():  # faults are counted here
        renew(RESULTS / "durations.json", chosen)
    publish(tables())
