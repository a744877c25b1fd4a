"""Slow schedulers and allocators to compare with, and small platforms; nothing of the package.

Platforms are plain arrays here: levels of every resource, speeds (phase, level, level, ...).
"""

import itertools

import numpy as np


def exhaustive(values, levels, capacity):
    """Largest sum of values over every choice of levels within the capacities.

    ``values`` holds an array over levels for each core, ``levels`` the levels of each shared
    resource, ``capacity`` how much there is of it.
    """
    places = list(itertools.product(*(range(len(level)) for level in levels)))
    best = -np.inf
    for choice in itertools.product(places, repeat=len(values)):
        used = [sum(levels[d][place[d]] for place in choice) for d in range(len(levels))]
        if all(u <= c * (1 + 1e-12) for u, c in zip(used, capacity)):
            best = max(best, sum(v[place] for v, place in zip(values, choice)))
    return best


def greedy(values, counts):
    """Unit after unit to whom it helps most; ``counts`` spare units; units of each core.

    Values never fall with units, and no two gains are equal but for zeros.
    """
    held = [[0] * len(counts) for _ in values]
    spare = list(counts)
    while True:
        gains = []
        for s, v in enumerate(values):
            for d in range(len(counts)):
                more = [*held[s]]
                more[d] += 1
                if spare[d] and more[d] < v.shape[d]:
                    gains.append((v[tuple(more)] - v[tuple(held[s])], s, d))
        if not gains:
            return held
        gain, s, d = max(gains, key=lambda g: g[0])
        if gain <= 0:
            d = next(d for d in range(len(counts)) if any(g[2] == d for g in gains))
            s = min((g[1] for g in gains if g[2] == d), key=lambda s: held[s][d])
        held[s][d] += 1
        spare[d] -= 1


def global_edf(periods, runs, cores, horizon, timer, contexts_of, phase_of):
    """Completion times of all jobs and the decisions, by small steps from event to event.

    ``runs[i][k]`` gives, for the k-th job of task i, seconds of each stretch in every context,
    (contexts, stretches).  ``contexts_of([(task, progress), ...])`` decides, ``phase_of(task,
    progress)`` tells whether to ask again at a tick.  A job is [task, index, release, stretch,
    share of it].
    """
    n = len(periods)
    released, waiting, done = [0] * n, [[] for _ in range(n)], {}
    running, given, phases = [], {}, {}
    now, tick, decisions = 0.0, 0, []
    while True:
        for i in range(n):
            while released[i] < len(runs[i]) and released[i] * periods[i] <= now:
                waiting[i].append([i, released[i], released[i] * periods[i], 0, 0.0])
                released[i] += 1
        heads = [queue[0] for queue in waiting if queue]
        heads.sort(key=lambda job: ((job[1] + 1) * periods[job[0]], job[0]))
        chosen = heads[:cores]
        n_stretches = runs[0][0].shape[1]

        def progress(job, n_stretches=n_stretches):
            return (job[3] + job[4]) / n_stretches

        switched = {id(j) for j in chosen} != {id(j) for j in running}
        if switched:
            # tasks stay on their cores: equal tasks are told apart by them
            before = [j[0] for j in running]
            running = sorted(
                chosen, key=lambda j: before.index(j[0]) if j[0] in before else len(before)
            )
        at_tick = abs(now - tick * timer) < 1e-9 * timer
        now_in = {id(j): phase_of(j[0], progress(j)) for j in running}
        if running and (switched or (at_tick and now_in != phases)):
            answer = contexts_of([(j[0], progress(j)) for j in running])
            given = {id(j): c for j, c in zip(running, answer)}
            phases = now_in
            decisions.append((now, [(j[0], j[1]) for j in running], list(answer)))
        while tick * timer <= now + 1e-9 * timer:
            tick += 1
        events = [tick * timer] if running else []
        events += [released[i] * periods[i] for i in range(n) if released[i] < len(runs[i])]
        for job in running:
            left = runs[job[0]][job[1]][given[id(job)], job[3]] * (1 - job[4])
            events.append(now + left)
        if not events:
            return done, decisions
        then = min(events)
        for job in list(running):
            seconds = runs[job[0]][job[1]][given[id(job)], job[3]]
            if abs(now + seconds * (1 - job[4]) - then) < 1e-9 * timer:
                job[3], job[4] = job[3] + 1, 0.0
            else:
                job[4] += (then - now) / seconds
            if job[3] == n_stretches:
                waiting[job[0]].remove(job)
                done[job[0], job[1]] = then
        now = then
