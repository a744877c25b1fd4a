"""Slow, readable references that import nothing of the package."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np


def dtw(a, b):
    """Dynamic time warping by its recursion, all paths at once."""

    @cache
    def cheapest(i, j):
        here = float(np.linalg.norm(a[i] - b[j]))
        if i == 0 and j == 0:
            return here
        before = [(i - 1, j), (i, j - 1), (i - 1, j - 1)]
        return here + min(cheapest(*p) for p in before if min(p) >= 0)

    return cheapest(len(a) - 1, len(b) - 1)


def atoms(coupling, values, contexts, lam):
    """Every displacement atom between two snapshots: (mass, value, context), rows r then s."""
    mass, value, context = [], [], []
    for r in range(len(values[0])):
        for s in range(len(values[1])):
            mass.append(coupling[r, s])
            value.append(lam * values[0][r] + (1 - lam) * values[1][s])
            context.append(lam * contexts[0][r] + (1 - lam) * contexts[1][s])
    return np.array(mass), np.array(value), np.array(context)


def log_kernel(query, contexts):
    """Log of the unit Gaussian kernel, unnormalised."""
    return np.array([-0.5 * np.sum((query - c) ** 2) for c in contexts])


def squared_distances(x, y):
    """Squared Euclidean distance of every point of x (n, d) to every point of y (m, d)."""
    return np.array([[sum((p - q) ** 2) for q in y] for p in x])


def bridge_tensor(costs, marginals, epsilon, sweeps=100_000):
    """Multi-marginal Schrödinger bridge as a dense tensor (n_1, ..., n_s), in the log domain.

    Sinkhorn on the whole tensor: scale each axis in turn until nothing moves. An entry None in
    ``marginals`` leaves that axis free. Weights must be positive.
    """
    count = len(costs) + 1
    sizes = [costs[0].shape[0]] + [cost.shape[1] for cost in costs]
    log_tensor = np.zeros(sizes)
    for index in itertools.product(*map(range, sizes)):
        log_tensor[index] = -sum(costs[j][index[j], index[j + 1]] for j in range(count - 1))
    log_tensor /= epsilon
    for _ in range(sweeps):
        moved = 0.0
        for axis, wanted in enumerate(marginals):
            if wanted is None:
                continue
            others = tuple(k for k in range(count) if k != axis)
            top = log_tensor.max(axis=others, keepdims=True)
            held = top + np.log(np.exp(log_tensor - top).sum(axis=others, keepdims=True))
            shape = [1] * count
            shape[axis] = -1
            step = np.log(wanted).reshape(shape) - held
            log_tensor += step
            moved = max(moved, np.ptp(step))
        if moved < 1e-14:
            break
    return np.exp(log_tensor)


def bimarginal(tensor, pair):
    """Sum of a path tensor over all axes but ``pair`` and ``pair + 1``."""
    return tensor.sum(axis=tuple(k for k in range(tensor.ndim) if k not in (pair, pair + 1)))


def progress_amounts(counts, duration, interval, knots):
    """Amounts of (time, counter_2, ...) per bin of counter 1, by interpolating cumulative sums.

    For clocks that never stand still.
    """
    n = len(counts)
    times = np.append(interval * np.arange(n), duration)
    cumulative = np.vstack([np.zeros(counts.shape[1]), np.cumsum(counts, axis=0)])
    progress = cumulative[:, 0] / cumulative[-1, 0]
    others = [times, *cumulative[:, 1:].T]
    return np.stack([np.diff(np.interp(knots, progress, q)) for q in others], axis=1)


def replay(instructions, hits, misses, lengths, grant, period, interval):
    """Play a run without noise: count how long the core runs in each regulator period.

    The counters are piecewise linear in the time that the core has run; a period lets it run
    until the grant is spent, at the first instant at which so many misses have been made.
    """
    run = np.concatenate([[0.0], np.cumsum(lengths)])
    made = np.concatenate([[0.0], np.cumsum(misses)])
    begins = [0.0]  # how long the core has run when period p begins
    while begins[-1] < run[-1]:
        target = np.interp(begins[-1], run, made) + grant
        j = int(np.searchsorted(made, target))
        spent = np.inf
        if j < len(made):
            spent = run[j - 1] + (target - made[j - 1]) / (made[j] - made[j - 1]) * lengths[j - 1]
        begins.append(min(begins[-1] + period, spent, run[-1]))
    duration = (len(begins) - 2) * period + begins[-1] - begins[-2]

    def has_run(t):
        p = min(int(t / period), len(begins) - 2)
        return min(begins[p] + t - p * period, begins[p + 1])

    ends = [k * interval for k in range(1, int(np.ceil(duration / interval)))]
    at = [has_run(t) for t in ends] + [run[-1]]
    cumulated = [
        [np.floor(np.interp(u, run, np.concatenate([[0.0], np.cumsum(c)])) + 1e-7) for u in at]
        for c in (instructions, hits, misses)
    ]
    steps = np.diff(cumulated, axis=1, prepend=0)
    return duration, np.stack([steps[0], steps[1] + steps[2], steps[2]], axis=1)


def replay_by_ticks(lengths, misses, grant, period, interrupts, start, readings):
    """Play a run one unit of time after another; everything is whole, misses 0 or 1 a unit.

    `misses` (n,) tells which of the intervals of `lengths` miss once a unit; the first `grant`
    misses of a period are granted, then the core stops for the rest of it.  `interrupts` are
    (arrival, length), which overlap.  Returns the end, and at each of `readings` before it the
    units that every interval has run.
    """
    work = [i for i, length in enumerate(lengths) for _ in range(length)]
    done = np.zeros(len(lengths), dtype=int)
    t, held_until, left, seen = 0, start, grant, {}
    while work:
        if t in readings:
            seen[t] = done.copy()
        if t > 0 and t % period == 0:
            left = grant
        held_until = max([held_until, *(t + length for at, length in interrupts if at == t)])
        if t >= held_until:
            i = work.pop(0)
            done[i] += 1
            left -= misses[i]
            if left == 0 and misses[i]:
                held_until = max(held_until, (t // period + 1) * period)
        t += 1
    return t, seen


def lru_misses(lines, sets, ways):
    """Misses of a cache with least-recently-used replacement, simulated for one size."""
    contents = {}
    misses = 0
    for line, s in zip(lines, sets):
        held = contents.setdefault(s, [])
        if line in held:
            held.remove(line)
        else:
            misses += 1
            if len(held) == ways:
                held.pop()
        held.insert(0, line)
    return misses


def scott_weights(known, query, multiple=1.0):
    """Gaussian kernel weights of the known contexts at one context, unnormalised.

    Every resource moved to [0, 1], bandwidths by Scott's rule; all resources must vary.
    """
    n, m = known.shape
    low, span = known.min(axis=0), np.ptp(known, axis=0)
    weights = []
    for context in known:
        exponent = 0.0
        for i in range(m):
            bandwidth = multiple * np.std((known[:, i] - low[i]) / span[i]) * n ** (-1 / (m + 4))
            exponent += ((query[i] - context[i]) / span[i] / bandwidth) ** 2
        weights.append(np.exp(-0.5 * exponent))
    return np.array(weights)


def weighted_median(values, weights):
    """Least value that at least half of the weight does not exceed."""
    return min(v for v in values if weights[values <= v].sum() >= 0.5 * weights.sum())


def path_distribution(plans, runs, weights):
    """Probability of every path through `runs` (their rows in the plans), by enumeration.

    The first run is drawn by weight alone, each next one by its plan times its weight.
    """
    distribution = {}
    for path in itertools.product(range(len(runs)), repeat=len(plans) + 1):
        probability = weights[path[0]] / sum(weights)
        for plan, r, s in zip(plans, path[:-1], path[1:]):
            step = [plan[runs[r], runs[k]] * weights[k] for k in range(len(runs))]
            probability *= step[s] / sum(step)
        distribution[tuple(runs[k] for k in path)] = probability
    return distribution


def most_likely_path(plans, clouds, runs, weights, bandwidth):
    """Path of the highest density, by trying all: Π ρ_j(r_j) · Π Γ_j[r_j, r_(j+1)].

    ρ_j is the weighted Gaussian kernel estimate of the cloud's density at one of its points.
    """
    density = [
        [
            sum(w * np.exp(-0.5 * sum((x - y) ** 2) / bandwidth**2) for w, x in zip(weights, cloud))
            for y in cloud
        ]
        for cloud in (cloud[runs] for cloud in clouds)
    ]
    best, best_path = -np.inf, ()
    for path in itertools.product(range(len(runs)), repeat=len(clouds)):
        value = sum(np.log(density[j][k]) for j, k in enumerate(path))
        value += sum(
            np.log(plan[runs[r], runs[s]]) for plan, r, s in zip(plans, path[:-1], path[1:])
        )
        if value > best:
            best, best_path = value, tuple(runs[k] for k in path)
    return best_path


def hierarchical_quantile(scores, rate):
    """Smallest score whose distribution over contexts, a new one at infinity, reaches 1 − rate.

    `scores` is a list with the runs' scores of each context; contexts count alike.
    """
    share = Fraction(1, len(scores) + 1)
    for candidate in sorted(s for runs in scores for s in runs):
        reached = sum(
            share * Fraction(sum(s <= candidate for s in runs), len(runs)) for runs in scores
        )
        if reached >= 1 - Fraction(str(rate)):
            return candidate
    raise ValueError("the contexts cannot support the rate")


def weighted_quantile(values, weights, level):
    """Smallest value whose share of whole-number weights reaches a level, else the largest."""
    total, reached = sum(weights), 0
    for value, weight in sorted(zip(values, weights)):
        reached += weight
        if Fraction(reached, total) >= level:
            return value
    return max(values)


def prior(lengths):
    """Covariance of two places: Matérn-5/2 plus a nearly free line."""

    def covariance(a, b):
        value = 1.0
        for r, length in enumerate(lengths):
            step = np.sqrt(5) * abs(a[r] - b[r]) / length
            value *= (1 + step + step**2 / 3) * np.exp(-step)
        return value + 100 * (1 + 12 * float(a @ b))

    return covariance


def kriging_deviation(known, z, lengths, nugget):
    """Deviation of a Gaussian process at z given known places."""
    covariance = prior(lengths)
    matrix = np.array([[covariance(a, b) for b in known] for a in known])
    across = np.array([covariance(a, z) for a in known])
    solved = np.linalg.solve(matrix + nugget * np.eye(len(known)), across)
    return np.sqrt(covariance(z, z) - across @ solved)


def kriging_mean(known, z, lengths, nugget, values):
    """Mean of a Gaussian process at z given values (n, columns) at known places."""
    covariance = prior(lengths)
    matrix = np.array([[covariance(a, b) for b in known] for a in known])
    across = np.array([covariance(a, z) for a in known])
    weights = np.linalg.solve(matrix + nugget * np.eye(len(known)), across)
    return values.mean(axis=0) + weights @ (values - values.mean(axis=0))


def width(near, new, gaps, rows, ends=None, most_constant=None):
    """Square width of one part at one context: of its known levels, and what new levels add.

    near: weight of each known context; new: resources of which the level is new; gaps: squared
    gaps to the levels of each resource; rows: left-out predictions (context, resource that its
    level was left out of or None, level, its own near and squared gaps, errors of the runs, errors
    of the runs with the parts beside).  With `ends`, the number of resources of which each known
    context is at an end, the width is that of a part of a band; `most_constant` is the largest
    share of the additional errors of each resource that may not grow with the gap.
    """
    band = ends is not None

    def mean(values):
        return sum(values) / len(values)

    def mean_near(near, values, count):
        """Of values and counts by context: a mean that all contexts' counts for one in."""
        total, nearest = sum(count.values()), max(near[c] for c in values)
        scale = 1.0 if band or nearest == 0 else nearest
        weights = {c: near[c] / scale * count[c] + count[c] / total for c in values}
        return sum(w * values[c] for c, w in weights.items()) / sum(weights.values())

    alone = [row for row in rows if row[1] is None]
    variance = {}
    for c, _, _, _, _, errors, _ in alone:
        if len(errors) > 1:
            squares = [(e - mean(errors)) ** 2 for e in errors]
            variance[c] = sum(squares) / (len(errors) - 1)

    def noise(near):
        if not variance:
            return 0.0
        least = 0.01 * mean(list(variance.values()))
        log = {c: np.log(max(v, least)) for c, v in variance.items()}
        return np.exp(mean_near(near, log, dict.fromkeys(variance, 1.0)))

    def beside_noise(row):
        return max(mean(row[5]) ** 2 - noise(row[3]) / len(row[5]), 0.0)

    def alone_near(near):
        error = {row[0]: beside_noise(row) for row in alone}
        return mean_near(near, error, {c: 0.5 ** ends[c] if band else 1.0 for c in error})

    levels_add = 0.0
    for r in range(len(gaps)):
        of_r = [row for row in rows if row[1] == r]
        if not of_r:
            continue
        more = {row[0]: beside_noise(row) - alone_near(row[3]) for row in of_r}
        ones = dict.fromkeys(more, 1.0)
        mean_more, constant = max(mean_near(near, more, ones), 0.0), 0.0
        largest = mean_more
        if band:
            levels = [[row for row in of_r if row[2] == x] for x in {row[2] for row in of_r}]
            mean_more *= 1 + 1 / len(levels)
            owns = [{row[0]: more[row[0]] for row in level} for level in levels]
            each = [mean_near(near, own, dict.fromkeys(own, 1.0)) for own in owns]
            largest = max(mean_more, *each)
            constant = _constant_share(
                [(beside_noise(row), alone_near(row[3]), mean(row[6])) for row in level]
                + [row[4][r] for row in level]
                for level in levels
            )
            constant = constant if len(levels) == 1 else min(constant, most_constant[r])
        left_out = mean_near(near, {row[0]: row[4][r] for row in of_r}, ones)
        if new[r]:
            levels_add += constant * mean_more + (1 - constant) * largest * gaps[r] / left_out
    return noise(near) + alone_near(near), levels_add


def _constant_share(levels):
    """Share of errors that do not grow with the gap, of levels: triples, and as many gaps."""
    levels = [(level[: len(level) // 2], level[len(level) // 2 :]) for level in levels]
    if len(levels) == 1:
        return 1.0
    every = [row for rows, _ in levels for row in rows]
    common = sum(min(smooth**2, error) for error, _, smooth in every)
    most = 1 - common / max(sum(error for error, _, _ in every), 1e-18)
    more = [max(np.mean([error - alone for error, alone, _ in rows]), 0) for rows, _ in levels]
    alone = [
        np.mean([error for error, _, _ in rows]) - excess for (rows, _), excess in zip(levels, more)
    ]
    gaps = [np.mean(own) for _, own in levels]
    base, best = max(np.mean(alone), 1e-18), (np.inf, 0.0)
    for share in np.linspace(0, most, 41):
        misfit = np.inf
        for factor in np.geomspace(0.05, 3, 40):
            logs = []
            for gap, excess, own in zip(gaps, more, alone):
                step = share + (1 - share) * gap / np.mean(gaps)
                fitted = factor * np.mean(more) * step + base
                logs.append(np.log(fitted / max(excess + own, 1e-18)))
            misfit = min(misfit, sum(log**2 for log in logs))
        best = min(best, (misfit - share, share))
    return best[1]


def shared_cache_run(programs, ways, grant, service, lookahead):
    """Programs that share one cache of 64 sets and one pool of bandwidth, in whole units of time.

    `programs` has for each (start, intervals, costs): an interval is (time between two requests,
    requests), a request (line, prefetched).  `grant` misses are served per 100 units, or each miss
    takes `service` units of a channel.  Returns, for each, its end, hits and misses.
    """
    clock = [start for start, _, _ in programs]
    todo = [
        [(gap, request) for gap, requests in intervals for request in requests]
        for _, intervals, _ in programs
    ]
    counts = [[0, 0] for _ in programs]
    sets: dict[int, list] = {}
    served: dict[int, int] = {}
    free = 0
    looked_up = [False] * len(programs)
    while any(todo):
        i = min((i for i in range(len(programs)) if todo[i]), key=lambda i: clock[i])
        gap, (line, prefetched) = todo[i][0]
        demand_hit, prefetched_hit, demand_miss, prefetched_miss = programs[i][2]
        held = sets.setdefault(line % 64, [])
        if not looked_up[i] and (i, line) in held:
            held.remove((i, line))
            held.insert(0, (i, line))
            counts[i][0] += 1
            clock[i] += prefetched_hit if prefetched else demand_hit
        else:
            if not looked_up[i]:
                held.insert(0, (i, line))
                del held[ways:]
            period = clock[i] // 100
            if grant and served.get(period, 0) == grant:
                looked_up[i] = True
                clock[i] = 100 * (period + 1)
                continue
            served[period] = served.get(period, 0) + 1
            looked_up[i] = False
            counts[i][1] += 1
            if service:
                begin = max(clock[i], free)
                free = begin + service
                clock[i] += max(0, begin - clock[i] - (lookahead if prefetched else 0))
            clock[i] += prefetched_miss if prefetched else demand_miss
        clock[i] += gap
        todo[i].pop(0)
    return [(clock[i], *counts[i]) for i in range(len(programs))]
