"""Speed of the bridge solver beside its peers, at the same true L1 error of the marginals.

    python benchmarks/bench_bridge.py [--quick] [--output benchmarks/results/bridge.json]

Errors are computed in float64 from the plan or the potentials that a solver returns. A peer gets
the loosest threshold of its own that reaches the target. POT checks its error every ten iterations
only, and therefore also runs for exactly the iterations that the target takes.

Contenders run interleaved in one process on one core; medians and ratios are reported. Peers that
are not installed are left out (``pip install msbgen[bench]``).
"""

import argparse
import functools
import os
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

# before numpy and jax start their thread pools: one thread for each contender
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numba import njit
from tables import renew
from timing import CORES, interleaved, on_cores, run_python, slope

from msbgen.engine.bridge import _kernels
from msbgen.engine.bridge.solution import Status
from msbgen.engine.bridge.solve import SolverConfig, solve_bridge

TARGET = 1e-6
# Iterations of a peer on a hard pair.
HARD_ITERATIONS = 1000


def squared_distances(x, y):
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def l1_error(plan, a, b):
    """True L1 error of both marginals; infinite if the plan has a value that is not a number."""
    error = np.abs(plan.sum(1) - a).sum() + np.abs(plan.sum(0) - b).sum()
    return float(error) if np.isfinite(error) else float("inf")


def ours(x, y, a, b, epsilon, tol=TARGET):
    config = SolverConfig(tol=tol, threads=1)
    return functools.partial(
        solve_bridge, [x, y], [a, b], epsilon=epsilon, config=config, on_failure="return"
    )


def pot(x, y, a, b, epsilon, method, *, threshold=0.0, iterations=20_000):
    import ot

    def call():
        cost = ot.dist(x, y)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            settings = {"method": method, "stopThr": threshold, "numItermax": iterations}
            return ot.sinkhorn(a, b, cost, epsilon, **settings, warn=False, log=True)

    return call


def pot_to_target(x, y, a, b, epsilon):
    """POT's sinkhorn with its own check, and stopped by hand: name -> (call, iterations).

    Its threshold bounds an L2 norm, and must be below the target by a factor up to sqrt(n).
    """

    def error(call):
        return l1_error(call()[0], a, b)

    for k in range(24):
        call = pot(x, y, a, b, epsilon, "sinkhorn", threshold=TARGET * 0.8**k)
        plan, log = call()
        if l1_error(plan, a, b) <= TARGET:
            break
    else:
        return {}
    # invariant: `enough` iterations reach the target, `few` do not
    few, enough = 0, int(log["niter"]) + 1
    while enough - few > 1:
        middle = (few + enough) // 2
        if error(pot(x, y, a, b, epsilon, "sinkhorn", iterations=middle)) <= TARGET:
            enough = middle
        else:
            few = middle
    stopped = pot(x, y, a, b, epsilon, "sinkhorn", iterations=enough)
    return {
        "pot sinkhorn": (call, int(log["niter"]) + 1),
        "pot sinkhorn, stopped by hand": (stopped, enough),
    }


def ott(x, y, a, b, epsilon, lse_mode, threshold, limit=20_000):
    import jax
    import jax.numpy as jnp
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    solver = sinkhorn.Sinkhorn(lse_mode=lse_mode, threshold=threshold, max_iterations=limit)

    @jax.jit
    def solve(x, y, a, b):
        geometry = pointcloud.PointCloud(x, y, epsilon=epsilon)
        out = solver(linear_problem.LinearProblem(geometry, a=a, b=b))
        return out.f, out.g

    arrays = [jnp.asarray(value) for value in (x, y, a, b)]

    def call():
        f, g = solve(*arrays)
        return np.asarray(f.block_until_ready()), np.asarray(g)

    return call


def ott_to_target(x, y, a, b, epsilon, lse_mode):
    """OTT with the loosest threshold that reaches the target and its true error, or None."""
    for k in range(12):
        call = ott(x, y, a, b, epsilon, lse_mode, TARGET * 0.8**k)
        f, g = call()
        with np.errstate(all="ignore"):
            plan = np.exp((f[:, None] + g[None] - squared_distances(x, y)) / epsilon)
        error = l1_error(plan, a, b)
        if error <= TARGET:
            return call, error
        if not error < 10.0 * TARGET:  # out of iterations or of range: no threshold helps
            return None
    return None


def bench_pair(n, epsilon, repeats, rng):
    x, y = rng.random((n, 6)), rng.random((n, 6))
    a = np.full(n, 1.0 / n)
    contenders = {"msbgen": ours(x, y, a, a, epsilon)}
    errors = {"msbgen": l1_error(contenders["msbgen"]().coupling(0), a, a)}
    notes = {}
    found = pot_to_target(x, y, a, a, epsilon)
    for name, (call, iterations) in found.items():
        contenders[name] = call
        errors[name] = l1_error(call()[0], a, a)
        notes[name] = f"{iterations} iterations"
    if found:
        # the same iterates, at a thirtieth to a three-hundredth of the speed
        contenders["pot sinkhorn_log, 10 iterations"] = pot(
            x, y, a, a, epsilon, "sinkhorn_log", iterations=10
        )
    else:
        notes["pot sinkhorn"] = "does not reach the target in 20000 iterations"
    if find_spec("ott"):
        import jax

        jax.config.update("jax_enable_x64", True)
        for mode, lse_mode in (("kernel", False), ("lse", True)):
            name = f"ott {mode}"
            reached = ott_to_target(x, y, a, a, epsilon, lse_mode)
            if reached is None:
                notes[name] = "does not reach the target in 20000 iterations"
            else:
                contenders[name], errors[name] = reached
    seconds = interleaved(contenders, repeats)
    if found:
        _, iterations = found["pot sinkhorn, stopped by hand"]
        ten = seconds.pop("pot sinkhorn_log, 10 iterations")
        seconds["pot sinkhorn_log"] = ten / 10 * iterations
        errors["pot sinkhorn_log"] = errors["pot sinkhorn, stopped by hand"]
        notes["pot sinkhorn_log"] = f"{iterations} iterations, the same ones, scaled from 10"
    return {
        "n": n,
        "epsilon": epsilon,
        "seconds": seconds,
        "ratio": {name: s / seconds["msbgen"] for name, s in seconds.items()},
        "l1_error": errors,
        "notes": notes,
    }


def paper_sweep(kernels, u, marginals):
    """One cyclic sweep as the paper states it: each marginal recomputes all messages."""
    count = len(u)
    for j in range(count):
        a = np.ones_like(u[0])
        for k in range(j):
            a = kernels[k].T @ (u[k] * a)
        b = np.ones_like(u[-1])
        for k in range(count - 2, j - 1, -1):
            b = kernels[k] @ (u[k + 1] * b)
        u[j] = marginals[j] / (a * b)


def backward_messages(kernels, u):
    """The message that each marginal receives from those after it."""
    messages = [np.ones_like(u[-1])]
    for k in range(len(u) - 2, -1, -1):
        messages.append(kernels[k] @ (u[k + 1] * messages[-1]))
    return messages[::-1]


def joint_sweep(kernels, u, marginals):
    """The same sweep with messages kept: two products per pair."""
    backward = backward_messages(kernels, u)
    a = np.ones_like(u[0])
    for j in range(len(u)):
        u[j] = marginals[j] / (a * backward[j])
        if j + 1 < len(u):
            a = kernels[j].T @ (u[j] * a)


def path_error(kernels, u, marginals):
    """Largest L1 error of a pair's plan, both ends summed: the measure of our own solver."""
    backward = backward_messages(kernels, u)
    a, off = np.ones_like(u[0]), []
    for j in range(len(u)):
        off.append(np.abs(u[j] * a * backward[j] - marginals[j]).sum())
        if j + 1 < len(u):
            a = kernels[j].T @ (u[j] * a)
    return float(max(first + second for first, second in pairwise(off)))


def bench_chain(n, s, epsilon, repeats, rng):
    points = [rng.random((n, 6)) for _ in range(s)]
    marginals = [np.full(n, 1.0 / n)] * s
    config = SolverConfig(tol=TARGET, threads=1)

    def solve():
        return solve_bridge(points, epsilon=epsilon, config=config)

    worst = float(solve().marginal_error.max())
    build = time.perf_counter()
    kernels = [np.exp(-squared_distances(x, y) / epsilon) for x, y in pairwise(points)]
    build = time.perf_counter() - build
    start = [1.0 - rng.random(n) for _ in range(s)]
    u, sweeps = [v.copy() for v in start], 0
    while path_error(kernels, u, marginals) > TARGET and sweeps < 5000:
        joint_sweep(kernels, u, marginals)
        sweeps += 1
    reached = path_error(kernels, u, marginals)
    paper = [v.copy() for v in start]
    seconds = interleaved(
        {
            "msbgen": solve,
            "paper-like numpy, one sweep": lambda: paper_sweep(kernels, paper, marginals),
            "joint numpy, one sweep": lambda: joint_sweep(kernels, u, marginals),
        },
        repeats,
    )
    paper_like = sweeps * seconds.pop("paper-like numpy, one sweep") + build
    joint = sweeps * seconds.pop("joint numpy, one sweep") + build
    return {
        "n": n,
        "s": s,
        "epsilon": epsilon,
        "seconds": seconds | {"paper-like numpy": paper_like, "joint numpy": joint},
        "ratio": {
            "paper-like numpy": paper_like / seconds["msbgen"],
            "joint numpy": joint / seconds["msbgen"],
        },
        "sweeps": sweeps,
        "l1_error": {"msbgen": worst, "numpy": reached},
        "notes": "numpy: sweeps to the target times the time of one sweep, plus its kernels",
    }


@njit(nogil=True, fastmath={"reassoc"})
def read_all(values):
    total = 0.0
    for k in range(values.size):
        total += values[k]
    return total


def bench_pass(n, repeats, rng):
    """Time of one pass over a kernel against the time to read it."""
    kernel = rng.random((n, n)) + 0.5
    a = np.full(n, 1.0 / n)
    u, t = np.empty(n), np.empty(n)
    flat = kernel.reshape(-1)
    contenders = {
        "pass": lambda: _kernels.sinkhorn_pass(kernel, a, a, True, u, t),
        "read": lambda: read_all(flat),
    }
    interleaved(contenders, 3)
    seconds = interleaved(contenders, repeats)
    return {
        "n": n,
        "seconds": seconds,
        "ratio": seconds["pass"] / seconds["read"],
        "read_gigabytes_per_second": kernel.nbytes / seconds["read"] / 1e9,
    }


def bench_threads(n, pairs, epsilon, repeats, rng):
    """Two threads against one, for bridges and for bare passes over two kernels."""

    def passes(threads):
        kernel, a = rng.random((n, n)) + 0.5, np.full(n, 1.0 / n)

        def work(count):
            u, t = np.empty(n), np.empty(n)
            for _ in range(count):
                _kernels.sinkhorn_pass(kernel, a, a, True, u, t)

        def call():
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, [240 // threads] * threads))

        return call

    points = [rng.random((n, 6)) for _ in range(pairs + 1)]
    configs = {k: SolverConfig(tol=TARGET, threads=k) for k in (1, 2)}
    contenders = {
        f"{k} threads": functools.partial(solve_bridge, points, epsilon=epsilon, config=config)
        for k, config in configs.items()
    } | {f"{k} threads, bare passes": passes(k) for k in (1, 2)}
    with on_cores(2):
        seconds = interleaved(contenders, repeats)
    return {
        "n": n,
        "pairs": pairs,
        "epsilon": epsilon,
        "seconds": seconds,
        "speedup": seconds["1 threads"] / seconds["2 threads"],
        "speedup_of_bare_passes": (
            seconds["1 threads, bare passes"] / seconds["2 threads, bare passes"]
        ),
        "cores": len(CORES),
    }


def bench_points(sizes, epsilon, repeats):
    """One pair of snapshots of so many points."""
    seconds = _solves([(n, 2) for n in sizes], epsilon, repeats)
    return {"epsilon": epsilon, **_series(sizes, seconds)}


def bench_snapshots(counts, n, epsilon, repeats):
    """Bridges of so many snapshots of n points; the work is in the pairs, one less."""
    seconds = _solves([(n, s) for s in counts], epsilon, repeats)
    return {"n": n, "epsilon": epsilon, **_series([s - 1 for s in counts], seconds)}


def _solves(cases, epsilon, repeats):
    rng, config = np.random.default_rng(0), SolverConfig(tol=TARGET, threads=1)
    calls = {}
    for n, s in cases:
        points = [rng.random((n, 6)) for _ in range(s)]
        calls[n, s] = functools.partial(solve_bridge, points, epsilon=epsilon, config=config)
    seconds = interleaved(calls, repeats)
    return [seconds[case] for case in cases]


def _series(sizes, seconds):
    return {"sizes": list(sizes), "seconds": list(seconds), "slope": slope(sizes, seconds)}


def bench_cold():
    """Seconds of a first small solve in a fresh process: without and with the compiled cache."""
    code = (
        "import time; t = time.perf_counter(); import numpy as np\n"
        "from msbgen.engine.bridge.solve import solve_bridge\n"
        "r = np.random.default_rng(0)\n"
        "for n, e in ((80, 1.0), (300, 0.1), (300, 0.001)):\n"
        "    solve_bridge([r.random((n, 3)), r.random((n, 3))], epsilon=e)\n"
        "print(time.perf_counter() - t)"
    )
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (
            float(run_python(["-c", code], NUMBA_CACHE_DIR=cache).output) for _ in range(2)
        )
    return {"cold_seconds": cold, "warm_seconds": warm}


def hard_cases(n, rng):
    """Named pairs (x, y, a, b) on which plain Sinkhorn fails."""
    uniform = rng.random((n, 6)), rng.random((n, 6))
    even = np.full(n, 1.0 / n)
    fewer = max(1, int(0.7 * n))
    decades = [10.0 ** (-12 * rng.random(n)) for _ in range(2)]
    decades = [w / w.sum() for w in decades]
    centres = rng.random((min(n, 36), 3))
    label = np.arange(n) % len(centres)

    def clusters(label):
        state = 0.1 * rng.random((len(centres), 3))[label]
        return np.hstack([state + 0.01 * rng.standard_normal(state.shape), centres[label]])

    other = clusters(rng.integers(len(centres), size=fewer))
    yield "uniform", *uniform, even, even
    yield "ragged", uniform[0], uniform[1][:fewer], even, np.full(fewer, 1.0 / fewer)
    yield "identical", uniform[0], uniform[0], even, even
    yield "weights over 12 decades", *uniform, *decades
    yield "clusters", clusters(label), clusters(label), even, even
    yield "clusters, ragged", clusters(label), other, even, np.full(fewer, 1.0 / fewer)
    yield "clusters, 12 decades", clusters(label), clusters(label), *decades


def bench_hard(n, epsilons, with_peers, rng):
    rows = []
    for name, x, y, a, b in hard_cases(n, rng):
        for epsilon in epsilons:
            start = time.perf_counter()
            bridge = ours(x, y, a, b, epsilon)()
            seconds = time.perf_counter() - start
            row = {
                "case": name,
                "n": n,
                "epsilon": epsilon,
                "seconds": seconds,
                "l1_error": float(bridge.marginal_error[0]),
                "converged": bridge.status is Status.CONVERGED,
            }
            if with_peers:
                for method in ("sinkhorn", "sinkhorn_log"):
                    plan, _ = pot(x, y, a, b, epsilon, method, iterations=HARD_ITERATIONS)()
                    row[f"pot {method}, {HARD_ITERATIONS} iterations, l1_error"] = l1_error(
                        plan, a, b
                    )
            rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a trial")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--output", type=Path, help="JSON file to write, or whose parts to renew")
    arguments = parser.parse_args()
    calls = parts(arguments.quick)
    with on_cores(1):
        compile_kernels()
        chosen = {
            part: functools.partial(calls[part], np.random.default_rng(0))
            for part in arguments.parts
        }
        renew(arguments.output, chosen)


PARTS = ("pair", "chain", "pass", "threads", "points", "snapshots", "cold", "hard")


def parts(quick):
    """The measurement of each part, by name."""
    n, repeats = (300, 3) if quick else (1000, 9)
    pairs, sizes = (300, 6, 1) if quick else (1250, 50, 3), (300,) if quick else (1000, 1250)
    points = (250, 500, 1000) if quick else (500, 1000, 2000, 4000)
    snapshots = (3, 5, 9) if quick else (3, 5, 9, 17, 33, 65)
    hard = (2, 60) if quick else (2, 60, 200, 1000, 5000)
    epsilons = (1.0, 0.1, 0.01, 1e-3, 1e-4)
    calls = (
        lambda rng: [bench_pair(n, e, repeats, rng) for e in (0.1, 0.05, 0.01)],
        lambda rng: [bench_chain(*pairs[:2], e, pairs[2], rng) for e in (0.1, 0.05)],
        lambda rng: [bench_pass(size, 50, rng) for size in sizes],
        lambda rng: bench_threads(n, 16, 0.05, 3 if quick else 5, rng),
        lambda rng: bench_points(points, 0.05, 2 if quick else 5),
        lambda rng: bench_snapshots(snapshots, 300 if quick else 500, 0.05, 2 if quick else 5),
        lambda rng: bench_cold(),
        lambda rng: [row for k in hard for row in bench_hard(k, epsilons, k == 200, rng)],
    )
    return dict(zip(PARTS, calls))


def compile_kernels():
    rng = np.random.default_rng(0)
    for size, epsilon in ((99, 0.01), (300, 0.1), (300, 0.001)):
        solve_bridge([rng.random((size, 6)), rng.random((size, 6))], epsilon=epsilon)


if __name__ == "__main__":
    main()
