"""A slow simulator of a small computer, and small tables of rates; nothing of the package."""

import functools
import math

import numpy as np
import xarray as xr
from scipy.interpolate import RegularGridInterpolator

WAYS, FLOWS, CLOCKS = (1.0, 4.0, 8.0, 16.0), (100.0, 300.0, 900.0, 2700.0), (0.3, 0.6, 1.2, 2.4)


def toy_table(phases=((1.0, 1.0, 0.2, 4.0),), **attrs):
    """Phase table of a task: (share, core seconds at 1 GHz, stalled seconds, cliff in ways)."""
    share = np.array([p[0] for p in phases])
    pace, misses = [], []
    for _, core, stalled, cliff in phases:
        w, b, f = np.meshgrid(WAYS, FLOWS, CLOCKS, indexing="ij")
        lost = np.where(w < cliff, 1.5, 1.0) * stalled
        pace.append(core / f + lost * (1 + 100.0 / b))
        misses.append(1e7 * lost)
    pace, misses = np.array(pace), np.array(misses)
    dims = ("phase", "cache_ways", "bandwidth", "frequency")
    units = {"cache_ways": "1", "bandwidth": "MB s-1", "frequency": "GHz"}
    coords = {
        name: (name, np.array(levels), {"units": units[name], "role": "resource"})
        for name, levels in zip(dims[1:], (WAYS, FLOWS, CLOCKS))
    }
    coords["end"] = ("phase", np.cumsum(share) / share.sum())
    return xr.Dataset(
        {
            "speed": (dims, (1 / pace).astype(np.float32), {"units": "s-1"}),
            "cache_misses": (dims, (misses / pace).astype(np.float32), {"units": "s-1"}),
        },
        coords,
        {"schema": "msbgen-phases/1", "work": 1.0, "progress": "time", **attrs},
    )


def flat_table(seconds=1.0, **attrs):
    """Phase table of a task that takes the same with every share, and scales with the clock."""
    table = toy_table(((1.0, 1.0, 0.0, 0.0),), **attrs)
    clock = table["frequency"].values * seconds
    speed = np.broadcast_to(1 / seconds * clock / seconds, table["speed"].shape)
    return table.assign(speed=(table["speed"].dims, speed.astype(np.float32)))


def rates_of(table, device):
    """Function of (phase, cluster, clock, ways share, bandwidth share) to (rate, watts)."""
    order = ("phase", "cache_ways", "bandwidth", "frequency")
    pace = 1 / table["speed"].transpose(*order).values.astype(float)
    missed = table["cache_misses"].transpose(*order).values.astype(float) * pace
    inverse = 1 / table["frequency"].values
    slope = np.apply_along_axis(lambda y: max(np.polyfit(inverse, y, 1)[0], 0.0), -1, pace)
    axes = table["cache_ways"].values, -1 / table["bandwidth"].values, -inverse

    look_ups = {
        (what, phase): RegularGridInterpolator(axes[: values.ndim - 1], values[phase])
        for what, values in {"pace": pace, "missed": missed, "slope": slope}.items()
        for phase in range(len(pace))
    }

    def look(what, phase, point):
        found = look_ups[what, phase]
        return float(np.squeeze(found(point[: len(found.grid)])))

    @functools.cache
    def found(phase, cluster, clock, ways, flow):
        f = clock * cluster.speed
        point = (
            min(max(ways, axes[0][0]), axes[0][-1]),
            -1 / min(flow, table["bandwidth"].values[-1]),
            -1 / f,
        )
        takes, lost = look("pace", phase, point), look("missed", phase, point)
        active = min(look("slope", phase, point) / f / takes, 1.0)
        low, high = cluster.voltage
        span = cluster.clocks[-1] - cluster.clocks[0]
        volts = low + (high - low) * (clock - cluster.clocks[0]) / span if span else high
        full = cluster.power * (volts / high) ** 2 * clock / cluster.clocks[-1]
        watts = full * (0.5 + 0.5 * active) + 1e-9 * device.miss_energy * lost / takes
        return 1 / takes, watts

    return found


def play(graph, device, tables, context, *, keys=None, factors=None, start=None):
    """Makespan, energy, peak, end temperature and (start, end, core) of each task.

    ``graph`` has ``kind``, ``work``, ``source``, ``target``; ``keys`` (None: as they get ready, of
    those together the order of ``first``); ``factors`` of works.  Everything is worked out anew at
    every event.
    """
    kinds = [str(k) for k in graph["kind"].values]
    work = graph["work"].values * (1.0 if factors is None else factors)
    edges = list(zip(graph["source"].values.tolist(), graph["target"].values.tolist()))
    n, clusters = len(kinds), device.clusters
    cores = [int(context[2 * c]) for c in range(len(clusters))]
    clocks = [context[2 * c + 1] for c in range(len(clusters))]
    ways, flow = context[-2:]
    found = {kind: rates_of(table, device) for kind, table in tables.items()}
    share = {k: np.diff(t["end"].values, prepend=0.0) for k, t in tables.items()}
    first = np.cumsum([0, *(c.cores for c in clusters)])
    places = [(c, first[c] + i) for c in range(len(clusters)) for i in range(cores[c])]
    free = list(places)
    temperature = device.ambient if start is None else start
    now, energy, down, wave = 0.0, 0.0, 0, 0
    peak = temperature
    waiting = {i: {s for s, t in edges if t == i} for i in range(n)}
    queue = [(0 if keys is None else keys[i], i) for i in range(n) if not waiting[i]]
    running, times, done, among = {}, {}, set(), {}

    def clock_of(c):
        levels = list(clusters[c].clocks)
        return levels[max(levels.index(clocks[c]) - down, 0)]

    def v2f(c):
        cluster, clock = clusters[c], clock_of(c)
        low, high = cluster.voltage
        span = cluster.clocks[-1] - cluster.clocks[0]
        volts = low + (high - low) * (clock - cluster.clocks[0]) / span if span else high
        return (volts / high) ** 2 * clock / cluster.clocks[-1]

    while len(done) < n:
        queue.sort()
        while queue and free:
            place = max(free, key=lambda p: (clusters[p[0]].speed * clock_of(p[0]), -p[1]))
            free.remove(place)
            _, task = queue.pop(0)
            # what is left of it: dispatch, then its phases
            running[task] = [place, [1.0, *(share[kinds[task]] * work[task])], now]
        busy = [sum(r[0][0] == c for r in running.values()) for c in range(len(clusters))]
        for task, (place, _, _) in running.items():
            if device.shares == "partitioned":
                among[task] = sum(cores), cores[place[0]]
            elif device.shares == "renewed" or task not in among:
                among[task] = sum(busy), busy[place[0]]
        speeds, watts = {}, device.base_power
        for task, (place, parts, _) in running.items():
            c = place[0]
            cluster = clusters[c]
            if len(parts) == len(share[kinds[task]]) + 1:
                cost = cluster.dispatch * cluster.clocks[-1] / clock_of(c)
                speeds[task] = 1 / cost if cost else math.inf
                watts += cluster.power * v2f(c)
            else:
                everywhere, here = among[task]
                sharers = everywhere if device.shared_by == "device" else here
                phase = len(share[kinds[task]]) - len(parts)
                speeds[task], drawn = found[kinds[task]](
                    phase, cluster, clock_of(c), ways / sharers, flow / everywhere
                )
                watts += drawn
        for c, cluster in enumerate(clusters):
            if cores[c]:
                watts += v2f(c) * (cluster.on_power + (cores[c] - busy[c]) * cluster.idle_power)
        step = min(r[1][0] / speeds[t] for t, r in running.items())
        goal = device.ambient + device.resistance * watts

        def after(seconds, goal=goal, temperature=temperature):
            return goal + (temperature - goal) * math.exp(-seconds / device.time_constant)

        lowest = all(clock_of(c) == clusters[c].clocks[0] for c in range(len(clusters)) if cores[c])
        low, turn = device.cap - device.hysteresis, 0
        if goal > device.cap and not lowest and after(step) >= device.cap:
            turn, level = 1, device.cap
        elif down and goal < low and after(step) <= low:
            turn, level = -1, low
        if turn:
            a, b = 0.0, step
            for _ in range(200):
                middle = (a + b) / 2
                beyond = after(middle) >= level if turn > 0 else after(middle) <= level
                a, b = (a, middle) if beyond else (middle, b)
            step = b
        energy += watts * step
        temperature = after(step)
        peak = max(peak, temperature)
        now += step
        if turn:
            down += turn
        ended = []
        for task, run in running.items():
            run[1][0] -= step * speeds[task] if math.isfinite(speeds[task]) else run[1][0]
            if not turn and run[1][0] <= 1e-9 * max(work[task], 1e-3):
                run[1].pop(0)
                if not run[1]:
                    ended.append(task)
        wave += 1
        for task in ended:
            place, _, began = running.pop(task)
            free.append(place)
            times[task] = began, now, place[1]
            done.add(task)
        for i in range(n):
            if i not in done and i not in running and waiting[i] and waiting[i] <= done:
                waiting[i] = set()
                queue.append((wave if keys is None else keys[i], i))
    return now, energy, peak, temperature, times
