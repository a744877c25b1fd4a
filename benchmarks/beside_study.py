"""Durations and misses of programs that share cache and bandwidth, beside every rival.

Eight programs are recorded with every request (``--work DIR`` keeps the recordings).  Truth is
their replay through one cache.  Predicted are the same runs from models of each program alone,
fitted on 125 or 27 contexts with an unregulated level of bandwidth.
"""

import itertools
import time

import beside_data
import numpy as np
from tables import RESULTS, cached, markdown, parser, publish, store, stored

import msbgen
from msbgen.answers.plan.sharing import plan_for_sharing
from msbgen.data.sharing import Sharing, shared_by_all
from msbgen.sources.platform import (
    PlatformConfig,
    read_stream,
    read_trace,
    replay_beside,
    replay_trace,
)
from msbgen.systems.beside import choose_placement, duration_bounds, play, program_table

SEEN = tuple(name for name in beside_data.PROGRAMS if name not in beside_data.UNSEEN)
CLOCKS = (1.2, 1.5, 1.8, 2.0, 2.3)
GRIDS = {
    "125": ((2, 5, 9, 14, 20), (70, 210, 560, 1400, 1e6), CLOCKS),
    "27": ((2, 8, 20), (70, 420, 1e6), (1.2, 2.0, 2.3)),
}
# At the clock at which the programs run: a grid, and half as many contexts of `plan --beside`.
ONE_CLOCK = {"25": GRIDS["125"][:2], "12 planned": 12}
RUNS = 10
INTERVAL, LEVEL = 0.01, 0.95
DRAWS, PLACED, SOCKETS = 20, 8, 4
FOLDS = 6
# Name of a setting: what is shared, how many programs, clocks, and runs of the truth.
SETTINGS = {
    "560 MB/s, 20 ways": ({"ways": 20, "bandwidth": 560.0}, 2, 3),
    "1,400 MB/s": ({"ways": 20, "bandwidth": 1400.0}, 2, 1),
    "queue, 1,400 MB/s": ({"ways": 20, "bandwidth": 1400.0, "channel": "queue"}, 2, 1),
    "12 ways": ({"ways": 12, "bandwidth": 560.0}, 2, 1),
    "8 ways": ({"ways": 8, "bandwidth": 560.0}, 2, 1),
    "2.3 and 1.5 GHz": ({"ways": 20, "bandwidth": 560.0, "frequency": [2.3, 1.5]}, 2, 1),
    "0.1 s later, loop": (
        {"ways": 20, "bandwidth": 560.0, "starts": [0.0, 0.1], "afterwards": "loop"}, 2, 1,
    ),
    "three programs": ({"ways": 20, "bandwidth": 560.0}, 3, 1),
    "four programs": ({"ways": 20, "bandwidth": 560.0}, 4, 1),
}  # fmt: skip
MAIN = next(iter(SETTINGS))
# Settings in which a grid at one clock is compared with a plan.
COMPARED = (MAIN, "12 ways", "8 ways")
# Settings whose durations get bounds.
BOUNDED = (MAIN, "8 ways", "three programs", "four programs")


def groups(setting):
    """Programs of every case of a setting; the main one has those of the unseen programs, too."""
    _, size, _ = SETTINGS[setting]
    if setting == MAIN:
        return list(itertools.combinations_with_replacement(beside_data.PROGRAMS, 2))
    if size == 2:
        return list(itertools.combinations_with_replacement(SEEN, 2))
    every = list(itertools.combinations(SEEN, size))
    return [every[i] for i in np.linspace(0, len(every) - 1, 8).round().astype(int)]


def shared(setting):
    given, size, _ = SETTINGS[setting]
    return shared_by_all(size, **{"frequency": 2.0, **given})


def truth(setting, streams):
    """Durations [s], misses and misses per interval of every case, by its runs."""
    _, _, runs = SETTINGS[setting]
    rows = []
    for names in groups(setting):
        found = replay_beside(
            [streams[n] for n in names], shared(setting), runs, INTERVAL, rng=len(rows)
        )
        series = [p["cache_misses"].values[0, 0] for p in found]
        rows.append(
            {
                "programs": names,
                "durations": [p["duration"].values[0].tolist() for p in found],
                "misses": [float(p["cache_misses"].sum()) / runs for p in found],
                "series": [s[np.isfinite(s)].tolist() for s in series],
            }
        )
    print(setting, len(rows), flush=True)
    return rows


def contexts_of(grid):
    """Contexts that are measured: of a grid, or planned."""
    if grid == "12 planned":
        levels = {**PlatformConfig().levels, "frequency": [2.0]}
        return plan_for_sharing(levels, ONE_CLOCK[grid]).contexts.tolist()
    levels = GRIDS[grid] if grid in GRIDS else (*ONE_CLOCK[grid], (2.0,))
    return list(itertools.product(*([float(x) for x in values] for values in levels)))


def fitted(work, name, grid):
    """The model of a program, and the spread of its durations [1]."""
    path = work / f"{name}-{grid}.model.nc"
    spread = work / f"{name}-{grid}.spread.json"
    if not path.exists() or not spread.exists():
        config = PlatformConfig(bandwidths=(*PlatformConfig().bandwidths, 1e6))
        trace = read_trace(work / f"{name}.trace.nc")
        measured = replay_trace(trace, contexts_of(grid), RUNS, 0.005, 1, config)
        msbgen.fit_profiles(measured).save(path, overwrite=True)
        logs = np.log(measured["duration"].values)
        store(spread, float(np.sqrt(np.mean(np.var(logs, axis=1, ddof=1)))))
    return msbgen.ProfileModel.load(path), cached(spread, dict)


def tables_of(work, grid, names=tuple(beside_data.PROGRAMS)):
    """Tables at each clock of a setting, by (program, clock), and CPU seconds of one."""
    found, seconds = {}, []
    for name in names:
        model, doubt = fitted(work, name, grid)
        for clock in (1.5, 2.0, 2.3) if grid == "125" else (2.0,):
            began = time.process_time()
            found[name, clock] = program_table(model, clock, doubt=doubt)
            seconds.append(time.process_time() - began)
    return found, float(np.median(seconds))


def predicted(setting, rows, tables, bounds=False):
    """Errors of every program of every case."""
    sharing = shared(setting)
    found = []
    for row in rows:
        mine = [tables[name, clock] for name, clock in zip(row["programs"], sharing.frequency)]
        began = time.process_time()
        course = play(mine, sharing, interval=INTERVAL)
        seconds = time.process_time() - began
        limits = duration_bounds(mine, sharing, LEVEL) if bounds else None
        rivals = rivals_of(mine, sharing)
        for i, name in enumerate(row["programs"]):
            true = np.array(row["durations"][i])
            misses = course.counts[i, :, 2]
            series = np.array(row["series"][i])
            start = round(sharing.starts[i] / INTERVAL)
            mean = float(true.mean())
            found.append(
                {
                    "programs": row["programs"], "role": i, "seconds": seconds,
                    "true": mean, "alone": float(course.alone[i]),
                    "error": float(course.durations[i] / mean - 1),
                    "misses": float(misses.sum() / row["misses"][i] - 1),
                    "ndtw": nearness(misses[start : start + len(series)], series),
                    **{rival: float(value[i] / mean - 1) for rival, value in rivals.items()},
                    **({} if limits is None else {
                        "covered": float(np.mean((limits[i, 0] <= true) & (true <= limits[i, 1])))
                    }),
                    "name": name,
                }
            )  # fmt: skip
    return found


def nearness(made, true):
    """Normalised DTW distance between two series of misses."""
    a, b = (np.asarray(s, dtype=float)[:, None] for s in (made, true))
    return float(msbgen.evaluate.normalised_dtw(a, b))


def rivals_of(tables, sharing):
    """Durations [s] by rivals that need no other pair."""
    n, ways, pool = len(tables), sharing.ways[0], sharing.bandwidth[0]
    alone = np.array([t.duration(ways, pool) for t in tables])
    half = np.array([t.duration(ways / n, pool / n) for t in tables])
    # equilibrium of occupancies: ways in proportion to the rates at which lines are brought in
    share = np.full(n, ways / n)
    for _ in range(200):
        rate = np.array([
            np.interp(w, np.arange(t.most_ways + 1), t.misses.sum(axis=0)) / t.duration(w, 1e6)
            for t, w in zip(tables, share)
        ])  # fmt: skip
        share = 0.8 * share + 0.2 * np.clip(ways * rate / rate.sum(), 0.05, ways)
        share *= ways / share.sum()
    traffic = 64e-6 * rate
    granted = min(1.0, pool / traffic.sum())
    left = pool - granted * (traffic.sum() - traffic)
    steady = np.array([t.duration(w, b) for t, w, b in zip(tables, share, left)])
    return {"no interference": alone, "half of each": half, "equilibrium": steady}


def by_other_pairs(rows):
    """Errors by the mean slowdown of the same program in other pairs."""
    found = []
    for row in rows:
        others = [
            r["true"] / r["alone"] for r in rows
            if r["name"] == row["name"] and set(r["programs"]) != set(row["programs"])
        ]  # fmt: skip
        found.append(row["alone"] * float(np.mean(others)) / row["true"] - 1)
    return found


def learned(truths, results):
    """Errors of durations in the main setting by the predictor of runtimes (Pitot, MLSys 2025).

    It learns from aggregate times: of each program alone, and of all pairs but those of a fold, in
    all settings of two programs from one start; a setting is a platform.
    """
    names = list(beside_data.PROGRAMS)
    settings = [s for s, (given, size, _) in SETTINGS.items()
                if size == 2 and not {"frequency", "starts"} & set(given)]  # fmt: skip
    runs, seconds, pairs = [], [], []
    for p, setting in enumerate(settings):
        for row, case in itertools.product(truths[setting], (0, 1)):
            one, other = names.index(row["programs"][case]), names.index(row["programs"][1 - case])
            runs.append((one, p, other))
            seconds.append(float(np.mean(row["durations"][case])))
            pairs.append(tuple(sorted(row["programs"])))
        alone = {r["name"]: r["alone"] for r in results[setting]}
        for name, own in alone.items():
            runs += [(names.index(name), p, -1)] * 3
            seconds += [own] * 3
            pairs += [()] * 3
    table = np.array(runs)
    data = msbgen.runtimes.make(
        seconds, table[:, 0], table[:, 1], table[:, 2:], np.arange(len(runs)),
        workloads=names, platforms=settings,
    )  # fmt: skip
    every = sorted({pair for pair, run in zip(pairs, runs) if pair and run[1] == 0})
    fold_of = _folds(every)
    errors = []
    for fold in range(FOLDS):
        held = np.array([bool(pair) and fold_of[pair] == fold for pair in pairs])
        model = msbgen.runtimes.fit(data, subset=~held, rng=fold)
        asked = held & (table[:, 1] == 0)
        errors += (model.predict(table[asked]) / np.array(seconds)[asked] - 1).tolist()
    return errors


def _folds(pairs):
    """Fold of each pair, drawn at random."""
    order = np.random.default_rng(3).permutation(len(pairs))
    return {pairs[i]: n % FOLDS for n, i in enumerate(order)}


def placements(rows, tables):
    """Makespans by truth of pairings chosen by prediction, at random and by bandwidth."""
    true = {}
    for row in rows:
        one, two = row["programs"]
        seconds = [float(np.mean(d)) for d in row["durations"]]
        true[one, two], true[two, one] = seconds, seconds[::-1]
    pairings = list(all_pairings(tuple(range(PLACED))))
    rng = np.random.default_rng(7)
    names = list(beside_data.PROGRAMS)
    found = []
    socket = Sharing((20,), (0,), (560.0,), (0,), (2.0,), (0.0,))
    for _ in range(DRAWS):
        drawn = [names[i] for i in rng.integers(len(names), size=PLACED)]

        def makespan(pairs, drawn=drawn):
            return max(max(true[drawn[a], drawn[b]]) for a, b in pairs)

        mine = [tables[name, 2.0] for name in drawn]
        began = time.process_time()
        chosen = choose_placement(mine, SOCKETS, socket)
        seconds = time.process_time() - began
        traffic = np.argsort([t.misses[:, -1].sum() / t.duration(20, 560.0) for t in mine])
        by_traffic = [(traffic[i], traffic[-1 - i]) for i in range(SOCKETS)]
        spans = [makespan(pairs) for pairs in pairings]
        best = min(spans)
        found.append(
            {
                "programs": drawn, "best": best, "seconds": seconds,
                "chosen": makespan(chosen.groups) / best - 1,
                "random": float(np.mean(spans)) / best - 1,
                "by traffic": makespan(by_traffic) / best - 1,
            }
        )  # fmt: skip
    return found


def all_pairings(left):
    """Every way to form pairs."""
    if not left:
        yield ()
        return
    for partner in left[1:]:
        rest = tuple(p for p in left[1:] if p != partner)
        for more in all_pairings(rest):
            yield ((left[0], partner), *more)


def main():
    options = parser(
        __doc__, required=("work",), work="recordings, models and truths are kept here"
    )
    work = options.parse_args().work
    beside_data.record(work)
    streams = {}

    def read(setting):
        if not streams:
            streams.update({n: read_stream(work / f"{n}.stream.nc") for n in beside_data.PROGRAMS})
        return truth(setting, streams)

    truths = {
        setting: cached(work / f"truth-{i}.json", lambda setting=setting: read(setting))
        for i, setting in enumerate(SETTINGS)
    }
    results, table_seconds = {}, {}
    for grid in (*GRIDS, *ONE_CLOCK):
        made, table_seconds[grid] = tables_of(work, grid)
        results[grid] = {
            setting: predicted(setting, rows, made, bounds=grid == "125" and setting in BOUNDED)
            for setting, rows in truths.items()
            if grid == "125" or setting in (COMPARED if grid in ONE_CLOCK else (MAIN,))
        }
        if grid == "125":
            results["placements"] = placements(truths[MAIN], made)
            results["learned"] = learned(truths, results[grid])
    found = summary(results)
    found["table_seconds"] = table_seconds["125"]
    store(RESULTS / "beside.json", found)
    publish(tables())


def summary(results):
    """Figures of each setting, of the rivals, of unseen programs and of pairings."""
    found = {"settings": {}, "rivals": {}, "placements": results["placements"]}
    main = results["125"][MAIN]
    unseen = [any(n in beside_data.UNSEEN for n in row["programs"]) for row in main]
    parts = {
        f"{MAIN}, seen": [r for r, u in zip(main, unseen) if not u],
        f"{MAIN}, with an unseen program": [r for r, u in zip(main, unseen) if u],
        **{s: rows for s, rows in results["125"].items() if s != MAIN},
    }
    for name, rows in parts.items():
        found["settings"][name] = figures(rows)
    rows = results["27"][MAIN]
    for part, wanted in (("seen", False), ("with an unseen program", True)):
        chosen = [r for r, u in zip(rows, unseen) if u == wanted]
        found["settings"][f"{MAIN}, {part}, 27 contexts"] = figures(chosen)
    found["plans"] = {
        setting: {grid: figures(results[grid][setting]) for grid in ONE_CLOCK}
        for setting in COMPARED
    }
    for rival in ("no interference", "half of each", "equilibrium"):
        found["rivals"][rival] = error([r[rival] for r in main])
    found["rivals"]["mean slowdown of other pairs"] = error(by_other_pairs(main))
    found["rivals"]["Pitot, aggregate times of other pairs"] = error(results["learned"])
    found["rivals"]["msbgen, 125 contexts"] = error([r["error"] for r in main])
    found["covered"] = {
        name: float(np.mean([r["covered"] for r in rows])) for name, rows in parts.items()
        if "covered" in rows[0]
    }  # fmt: skip
    found["seconds"] = float(np.median([r["seconds"] for r in main]))
    return found


def error(values):
    return {"mean": float(np.mean(np.abs(values))), "worst": float(np.max(np.abs(values)))}


def figures(rows):
    misses = error([r["misses"] for r in rows])
    return {
        "cases": len(rows), **error([r["error"] for r in rows]), "misses": misses["mean"],
        "ndtw": float(np.mean([r["ndtw"] for r in rows])),
        "slowdown": float(np.max([r["true"] / r["alone"] for r in rows])),
    }  # fmt: skip


def tables():
    """All tables of the page."""
    found = stored("beside")
    if not found:
        return {}
    header = ["setting", "durations", "mean error", "worst", "misses, total", "nDTW of misses"]
    header.append("largest true slowdown")
    rows = [
        [
            name, str(f["cases"]),
            *(f"{100 * f[k]:.1f} %" for k in ("mean", "worst", "misses", "ndtw")),
            f"{f['slowdown']:.2f}",
        ]
        for name, f in found["settings"].items()
    ]  # fmt: skip
    ranked = sorted(found["rivals"].items(), key=lambda item: item[1]["mean"])
    rivals = [[n, f"{100 * f['mean']:.1f} %", f"{100 * f['worst']:.1f} %"] for n, f in ranked]
    chosen = found["placements"]
    placed = [
        [
            name, f"{sum(row[key] <= 0.01 for row in chosen)} of {len(chosen)}",
            f"{100 * np.mean([row[key] for row in chosen]):.1f} %",
            f"{100 * max(row[key] for row in chosen):.1f} %",
        ]
        for name, key in (("msbgen", "chosen"), ("by traffic", "by traffic"), ("random", "random"))
    ]  # fmt: skip
    plans = [
        [
            setting,
            *(f"{100 * own[grid][k]:.1f} %" for k in ("mean", "worst", "misses") for grid in own),
        ]
        for setting, own in found["plans"].items()
    ]
    planned = ["setting"] + [
        f"{k}, {grid}" for k in ("mean error", "worst", "misses") for grid in ONE_CLOCK
    ]
    covered = [[name, f"{100 * share:.1f} %"] for name, share in found["covered"].items()]
    seconds = [
        ["table of a program, from a model of 125 contexts", f"{found['table_seconds']:.2f} s"],
        ["course of a pair, and of both alone", f"{1e3 * found['seconds']:.1f} ms"],
        [
            "best of 105 pairings of eight programs",
            f"{np.median([row['seconds'] for row in chosen]):.2f} s",
        ],
    ]
    return {
        "beside": markdown(header, rows),
        "beside-rivals": markdown(["predictor", "mean error", "worst"], rivals),
        "beside-bounds": markdown(["setting", "runs within bounds for 95 %"], covered),
        "beside-plans": markdown(planned, plans),
        "beside-seconds": markdown(["step", "CPU time"], seconds),
        "beside-pairings": markdown(
            ["pairing", "within 1 % of the best", "mean loss", "worst loss"], placed
        ),
    }


if __name__ == "__main__":
    main()
