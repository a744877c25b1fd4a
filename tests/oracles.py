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


def path_law(plans, runs, weights):
    """Probability of every path through `runs` (their rows in the plans), by enumeration.

    The first run is drawn by weight alone, each next one by its plan times its weight.
    """
    law = {}
    for path in itertools.product(range(len(runs)), repeat=len(plans) + 1):
        probability = weights[path[0]] / sum(weights)
        for plan, r, s in zip(plans, path[:-1], path[1:]):
            step = [plan[runs[r], runs[k]] * weights[k] for k in range(len(runs))]
            probability *= step[s] / sum(step)
        law[tuple(runs[k] for k in path)] = probability
    return law


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


def pooled_quantiles(rows, rate, asked):
    """Conformal quantile for each left-out row (doubt, whole weight, context, scores of its runs).

    Rows farther than the weighted median doubt have a quantile of their own where each side has
    the 1/rate − 1 contexts that the rate needs.
    """
    cut = weighted_quantile([row[0] for row in rows], [row[1] for row in rows], Fraction(1, 2))
    sides = [[row for row in rows if (row[0] > cut) == far] for far in (False, True)]
    if min(len({row[2] for row in side}) for side in sides) < 1 / rate - 1:
        sides = [rows, rows]
    n = len({row[2] for row in rows})
    level = (1 - asked) * Fraction(n + 1, n)
    found = []
    for row in rows:
        many = sides[row[0] > cut]
        common = np.lcm.reduce([len(r[3]) for r in many])
        scores = [score for r in many for score in r[3]]
        shares = [int(r[1] * common // len(r[3])) for r in many for _ in r[3]]
        found.append(weighted_quantile(scores, shares, level))
    return found


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


def head(name, near, log_time, doubt, runs, rows):
    """Location and width of one head at one context.

    near: weight of each known context; runs: its execution times; rows: left-out predictions
    (context, weight, doubt, log predicted time).
    """
    spread = []  # of each context's log times about its mean, corrected for the mean being known
    for times in runs:
        n = len(times)
        log = [np.log(t / (sum(times) / n)) * np.sqrt(n / max(n - 1, 1)) for t in times]
        spread.append(log)
    if name == "mean":
        return log_time, 1.0
    if name in ("median", "quantile 0.9", "quantile 0.99"):
        level = {"median": 0.5, "quantile 0.9": 0.9, "quantile 0.99": 0.99}[name]
        pairs = [
            (x, near[c] / len(log)) for c, log in enumerate(spread) if len(log) > 1 for x in log
        ]
        total, reached = sum(w for _, w in pairs), 0.0
        for x, w in sorted(pairs):
            reached += w
            if reached >= level * total - 1e-9 * total:
                return log_time + x, 1.0
    squares = []  # mean squared error of each left-out prediction
    for c, _, _, log_predicted in rows:
        errors = [(np.log(t) - log_predicted) ** 2 for t in runs[c]]
        squares.append(sum(errors) / len(errors))
    if name == "local":
        weights = [near[c] * weight for c, weight, _, _ in rows]
        total = sum(w * square for w, square in zip(weights, squares))
        return log_time, np.sqrt(total / sum(weights))
    variance = [sum(x * x for x in log) / len(log) for log in spread]
    known = [c for c, times in enumerate(runs) if len(times) > 1]
    noise = 0.0
    if known and sum(near[c] for c in known) > 0:
        noise = sum(near[c] * variance[c] for c in known) / sum(near[c] for c in known)
    if name == "spread":
        return log_time, np.sqrt(noise)
    bias = sum(row[1] * max(square - variance[row[0]], 0.0) for row, square in zip(rows, squares))
    per_doubt = np.sqrt(bias / sum(row[1] * row[2] ** 2 for row in rows))
    return log_time, np.sqrt(noise + (per_doubt * doubt) ** 2)


def band_width(near, runs, rows, errors, segment):
    """Width of a band in one segment of one quantity.

    rows: left-out predictions (context, weight); errors: of each row, of each run, the log of
    measured over predicted in each segment.
    """
    segments = len(errors[0][0])
    square = []
    for s in range(segments):
        total = weights = 0.0
        for (c, weight), of_runs in zip(rows, errors):
            total += near[c] * weight * sum(e[s] ** 2 for e in of_runs) / len(runs[c])
            weights += near[c] * weight
        square.append(total / weights)
    return np.sqrt(square[segment] + 0.3 * sum(square) / segments)
